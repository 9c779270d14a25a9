use std::collections::BTreeSet;

use tidemill_derive::{Levelled, vocabulary};

use super::Role;
use crate::{
    Account, CalendarName, CalendarSpec, DepartmentName, GroupName, GroupSettings, Permission, PoolName,
    PoolSpec, ProbeReport, TemplateName, TemplateSpec, ThirdPartyReport, Timestamp, UserName,
};

/// What the catalogue keeps besides jobs. To the catalogue.
#[vocabulary(Levelled)]
pub enum CatalogueCommand {
    /// Creates a group, or changes its key and bounds.
    DefineGroup {
        /// Its name.
        name: GroupName,
        /// Ed25519 public key of its workers, hex.
        worker_key: String,
        /// Its bounds.
        settings: GroupSettings,
    },
    /// Creates or replaces an application key.
    DefineKey {
        /// Its name.
        app: String,
        /// SHA-256 of the secret, hex.
        hash: String,
        /// What it allows.
        role: Role,
        /// The groups it is bound to; empty: all.
        groups: Vec<GroupName>,
        /// DSP-2: the accounts that jobs may run as which it applies.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        run_as: BTreeSet<Account>,
        /// What it may beside what the role gives, within what it reaches, but `depend` beyond that, too; absent: nothing.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        may: BTreeSet<Permission>,
        /// The department that it belongs to: it reaches the jobs of that alone, and speaks for nobody else. Absent: of none.
        department: Option<DepartmentName>,
        /// Only if no key exists yet: the first start's own key.
        #[serde(default)]
        first_only: bool,
    },
    /// Ends an application key.
    RevokeKey {
        /// Its name.
        app: String,
    },
    /// Adds or changes a calendar; the fires of jobs that use it are computed anew.
    DefineCalendar {
        /// As written.
        calendar: Box<CalendarSpec>,
    },
    /// Removes a calendar that no job uses.
    DeleteCalendar {
        /// Its name.
        name: CalendarName,
    },
    /// Adds or changes a pool. What runs goes on, also where it takes more than there is now.
    DefinePool {
        /// As written.
        pool: Box<PoolSpec>,
    },
    /// Removes a pool that no job uses.
    DeletePool {
        /// Its name.
        name: PoolName,
    },
    /// Lets no batch beyond a logical time be assigned.
    Freeze {
        /// Of this group; absent: of every group.
        group: Option<GroupName>,
        /// The latest logical time that may be assigned; absent: the time of the decision.
        latest: Option<Timestamp>,
        /// Why.
        reason: String,
    },
    /// Ends a freeze.
    LiftFreeze {
        /// Of this group; absent: of every group.
        group: Option<GroupName>,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Adds or changes a template for the parameters of tasks (PUL-1).
    DefineTemplate {
        /// As written.
        template: TemplateSpec,
    },
    /// Removes a template; tasks that were checked against it stay.
    DeleteTemplate {
        /// Its name.
        name: TemplateName,
    },
    /// Gives users their home group (PUL-5). Those who have it already stay as they are.
    AssignUsers {
        /// Which group.
        group: GroupName,
        /// 1 to 500.
        users: Vec<UserName>,
    },
    /// Moves a user with its history and its own tasks to another group; not while it has a live grant.
    MoveUser {
        /// Who.
        user: UserName,
        /// To which group.
        to: GroupName,
    },
    /// Takes a user out of its group, its own tasks too; not while it has a live grant.
    DeleteUser {
        /// Who.
        user: UserName,
    },
    /// What a third party says, to the catalogue, which keeps it and tells the groups that wait for such.
    ReportThirdParty(ThirdPartyReport),
    /// How checks of paths go, to the catalogue. Only what is late or fails, every minute, and once when that is
    /// over (DEP-5).
    ReportProbes(ProbeReport),
}
