use std::collections::BTreeSet;
use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{
    Account, Actor, Calendar, CalendarName, DepartmentName, Freeze, GroupId, GroupName, GroupSettings,
    InstanceId, MovedTask, Permission, Pool, PoolName, Rejection, RequestId, Role, ShardId, Template,
    TemplateName, UserHistory, UserName,
};

/// What the catalogue keeps besides jobs: groups, keys, calendars, pools, freezes, and templates and users of pull tasks.
#[vocabulary(Aggregate)]
pub enum CatalogueEvent {
    /// A client creates a worker group, or changes its key or settings.
    #[event(kind = "group.defined", subject = "group/{group}", public)]
    GroupDefined {
        /// Its number.
        group: GroupId,
        /// Its name.
        name: GroupName,
        /// The shard that does its work.
        shard: ShardId,
        /// Ed25519 public key of its workers, hex.
        worker_key: String,
        /// Its bounds.
        settings: GroupSettings,
    },
    /// A client creates an application key, or replaces its secret or rights.
    #[event(kind = "key.defined", subject = "key/{app}", public)]
    KeyDefined {
        /// Its name.
        app: String,
        /// SHA-256 of the secret, hex.
        hash: String,
        /// What it allows.
        role: Role,
        /// The groups it is bound to; empty: all.
        groups: Vec<GroupName>,
        /// DSP-2: the accounts that jobs may run as which it applies; absent: none.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        run_as: BTreeSet<Account>,
        /// What it may beside what the role gives, within what it reaches, but `depend` beyond that, too; absent: nothing.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        may: BTreeSet<Permission>,
        /// The department that it belongs to: it reaches the jobs of that alone, and speaks for nobody else. Absent: of none.
        department: Option<DepartmentName>,
    },
    /// A client revokes an application key.
    #[event(kind = "key.revoked", subject = "key/{app}", public)]
    KeyRevoked {
        /// Its name.
        app: String,
    },
    /// A client creates or changes a calendar.
    #[event(kind = "calendar.defined", subject = "calendar/{calendar.spec.name}", public)]
    CalendarDefined {
        /// As accepted; version 1 is new.
        calendar: Arc<Calendar>,
    },
    /// A client deletes a calendar that no job uses.
    #[event(kind = "calendar.deleted", subject = "calendar/{name}", public)]
    CalendarDeleted {
        /// Its name.
        name: CalendarName,
    },
    /// A client creates or changes a pool.
    #[event(kind = "pool.defined", subject = "pool/{pool.spec.name}", public)]
    PoolDefined {
        /// As accepted.
        pool: Arc<Pool>,
    },
    /// A client deletes a pool that no job uses.
    #[event(kind = "pool.deleted", subject = "pool/{name}", public)]
    PoolDeleted {
        /// Its name.
        name: PoolName,
    },
    /// A client creates or changes a template of pull tasks.
    #[event(kind = "template.defined", subject = "template/{template.spec.name}", public)]
    TemplateDefined {
        /// As accepted.
        template: Arc<Template>,
    },
    /// A client deletes a template of pull tasks.
    #[event(kind = "template.deleted", subject = "template/{name}", public)]
    TemplateDeleted {
        /// Its name.
        name: TemplateName,
    },
    /// A client freezes a group or every group beyond a logical time.
    ///
    /// No batch beyond it is assigned, until it is lifted.
    #[event(kind = "freeze.set", subject = "freeze/{scope(group)}", public)]
    FreezeSet {
        /// Of this group; absent: of every group.
        group: Option<GroupName>,
        /// The latest logical time that may be assigned, who wants it and why.
        freeze: Freeze,
    },
    /// A client lifts the freeze of a group or of every group.
    #[event(kind = "freeze.lifted", subject = "freeze/{scope(group)}", public)]
    FreezeLifted {
        /// Of this group; absent: of every group.
        group: Option<GroupName>,
        /// Who wants it.
        by: Actor,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// The catalogue assigns users who had no home group to one.
    #[event(kind = "users.assigned", subject = "users/{group}", public)]
    UsersAssigned {
        /// Which group.
        group: GroupName,
        /// Its shard.
        shard: ShardId,
        /// In the order given.
        users: Vec<UserName>,
    },
    /// The shard of a user's home group is asked to let it go.
    #[event(kind = "user.move_requested", subject = "user/{user}", internal = "BetweenShards")]
    UserMoveRequested {
        /// Who.
        user: UserName,
        /// The shard that is asked.
        from: ShardId,
        /// The group it is to have; absent: none.
        to: Option<GroupName>,
        /// The request id.
        request: Option<RequestId>,
        /// Who waits for the outcome.
        reply_to: Option<InstanceId>,
    },
    /// The catalogue changes the home group of a user, after the old group's shard released the user.
    #[event(kind = "user.moved", subject = "user/{user}", public)]
    UserMoved {
        /// Who.
        user: UserName,
        /// The shard that let it go.
        from: ShardId,
        /// Its group; absent: it has none any more.
        to: Option<GroupName>,
        /// The group's shard.
        shard: Option<ShardId>,
        /// What the user's next pulls depend on.
        #[serde(default, skip_serializing_if = "UserHistory::is_empty")]
        history: UserHistory,
        /// The user's own tasks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<MovedTask>,
        /// The request id.
        request: Option<RequestId>,
        /// Who waits for the outcome.
        reply_to: Option<InstanceId>,
    },
    /// A group's shard refuses to release a user, who keeps the home group.
    #[event(kind = "user.move_rejected", subject = "user/{user}", public)]
    UserMoveRejected {
        /// Who.
        user: UserName,
        /// Why not.
        reason: Rejection,
        /// The request id.
        request: Option<RequestId>,
        /// Who waits for the outcome.
        reply_to: Option<InstanceId>,
    },
}

fn scope(group: &Option<GroupName>) -> &str {
    group.as_ref().map_or("everything", GroupName::as_str)
}
