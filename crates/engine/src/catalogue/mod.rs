//! The catalogue: groups, keys, and every job's definition with the graph they form. What a group's shard
//! must know of it goes there through the numbered outbox, in the order in which it was decided.

mod accept;
mod access;
mod apply_jobs;
mod bulk;
mod calendars;
mod check_graph;
mod credentials;
mod data;
mod decide;
mod defined;
mod depend;
mod directory;
mod foreign;
mod graph;
mod keys;
mod levels;
mod limits;
mod manage;
mod moves;
mod names;
mod orphans;
mod plan;
mod pools;
mod reach;
mod remove;
mod reports;
mod reruns;
mod staging;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    CatalogueEvent, Event, FieldError, FreezeScope, GroupId, GroupName, GroupSettings, JobDefinition,
    JobEvent, JobId, JobName, PartitionEvent, Rejection, RequestId, ShardId, ShardMessage, Timestamp,
};

pub(crate) use self::accept::{check_parameters, check_program, check_values};
pub(crate) use self::apply_jobs::MAX_DECLARED_TIMES;
use self::bulk::Bulks;
use self::calendars::Calendars;
use self::credentials::Credentials;
use self::defined::Templates;
use self::directory::{Directory, Owners};
use self::keys::Key;
use self::levels::Levels;
use self::manage::Freezes;
use self::moves::Moves;
use self::orphans::Orphans;
pub use self::plan::check_jobs;
use self::pools::Pools;
pub(crate) use self::remove::Requester;
use self::remove::{Pending, Terms};
use self::reports::Reports;
use self::reruns::Reruns;
pub(crate) use self::staging::Chore;
use self::staging::{Committed, Staging};
use self::users::Users;
use crate::outbox::{MAX_ON_THEIR_WAY, Mailbox};

/// Job → those that name it as parent.
type Children = BTreeMap<JobId, BTreeSet<JobId>>;

/// The catalogue's state.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub struct Catalogue {
    pub(crate) groups: BTreeMap<GroupName, Group>,
    pub(crate) keys: BTreeMap<String, Key>,
    pub(crate) freezes: Freezes,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) names: BTreeMap<(GroupName, JobName), JobId>,
    pub(crate) moves: Moves,
    pub(crate) children: Children,
    pub(crate) orphans: Orphans,
    pub(crate) calendars: Calendars,
    pub(crate) pools: Pools,
    pub(crate) templates: Templates,
    pub(crate) directory: Directory,
    pub(crate) credentials: Credentials,
    /// Of all jobs.
    pub(crate) owners: Owners,
    pub(crate) users: Users,
    pub(crate) jobs_minted: u64,
    /// Counts the changes of definitions.
    pub(crate) revision: u64,
    pub(crate) stagings: BTreeMap<RequestId, Staging>,
    pub(crate) committed: Option<Committed>,
    /// Requests to delete jobs that wait for answers of shards, by question.
    pub(crate) pending: BTreeMap<u64, Pending>,
    pub(crate) questions: u64,
    /// Of the external dependencies that batches wait for.
    pub(crate) reports: Reports,
    pub(crate) reruns: Reruns,
    pub(crate) bulks: Bulks,
    pub(crate) levels: Levels,
    pub(crate) mailbox: Mailbox,
}

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    pub(crate) shard: ShardId,
    pub(crate) worker_key: String,
    pub(crate) settings: GroupSettings,
}

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Job {
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) enabled: bool,
    /// Known by its id only.
    pub(crate) unnamed: bool,
}

/// Jobs that a refusal names.
const NAMED_JOBS: usize = 10;

/// Refuses what would make more of something than there may be.
fn check_limit(what: impl Into<String>, count: usize, most: usize) -> Result<(), Rejection> {
    if count > most { Err(Rejection::limit(what, most as u64)) } else { Ok(()) }
}

/// Refuses a list with more entries than its field may have. `of`: the rest of the rule, which begins with their number.
fn check_count(field: &str, count: usize, most: usize, of: &str) -> Result<(), FieldError> {
    if count > most { Err(FieldError::new(field, count, format!("at most {most}{of}"))) } else { Ok(()) }
}

fn check_bytes(field: &str, text: &str, most: usize) -> Result<(), FieldError> {
    if text.len() > most {
        return Err(FieldError::new(field, text, format!("must be at most {most} bytes")));
    }
    Ok(())
}

impl Catalogue {
    pub(crate) fn apply(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Catalogue(event) => self.apply_catalogue(event),
            Event::Job(event) => self.apply_job(now, event),
            Event::Deletion(event) => self.apply_deletion(now, event),
            Event::Permit(event) => self.apply_permit(now, event),
            Event::Apply(event) => self.apply_apply(now, event),
            Event::Observation(event) => self.apply_observation(now, event),
            Event::Rerun(event) => self.apply_rerun(event),
            Event::Bulk(event) => self.apply_bulk(event),
            Event::Level(event) => self.apply_level(event),
            Event::Directory(event) => self.apply_directory(event),
            Event::Credential(event) => self.credentials.apply(event),
            Event::Partition(event) => self.apply_partition(event),
            Event::Access(_)
            | Event::Replication(_)
            | Event::Subscription(_)
            | Event::Transfer(_)
            | Event::Task(_)
            | Event::Batch(_)
            | Event::Schedule(_)
            | Event::Attempt(_)
            | Event::FinalCommand(_)
            | Event::Worker(_)
            | Event::Alarm(_) => {}
        }
    }

    fn apply_catalogue(&mut self, event: &CatalogueEvent) {
        match event {
            CatalogueEvent::GroupDefined { group, name, shard, worker_key, settings } => {
                let (id, shard, name) = (*group, *shard, name.clone());
                let (worker_key, settings) = (worker_key.clone(), settings.clone());
                let group = Group { id, shard, worker_key: worker_key.clone(), settings: settings.clone() };
                let is_new = self.groups.insert(name.clone(), group).is_none();
                // Limits are of a level that the shard has to have first. Without them the order is that of older journals.
                let has_limits = settings.limits.is_some();
                if is_new && has_limits {
                    self.tell_level(shard);
                }
                self.mailbox.send(shard, ShardMessage::Group { id, name, worker_key, settings });
                if is_new && !has_limits {
                    self.tell_level(shard);
                }
                if is_new {
                    self.tell_new_group(shard);
                }
            }
            CatalogueEvent::KeyDefined { app, role, groups, run_as, department, may, hash: _ } => {
                let groups = groups.iter().cloned().collect();
                let (run_as, department, may) = (run_as.clone(), department.clone(), may.clone());
                let key = Key { role: *role, groups, run_as, department, may };
                self.keys.insert(app.clone(), key);
            }
            CatalogueEvent::KeyRevoked { app } => {
                self.keys.remove(app);
            }
            CatalogueEvent::FreezeSet { group, freeze } => self.frozen(group.as_ref(), Some(freeze)),
            CatalogueEvent::FreezeLifted { group, .. } => self.frozen(group.as_ref(), None),
            CatalogueEvent::CalendarDefined { calendar } => self.calendar_defined(calendar),
            CatalogueEvent::CalendarDeleted { name } => self.calendar_deleted(name),
            CatalogueEvent::TemplateDefined { template } => self.template_defined(template),
            CatalogueEvent::TemplateDeleted { name } => self.template_deleted(name),
            CatalogueEvent::UsersAssigned { shard, users, .. } => self.users_assigned(*shard, users),
            CatalogueEvent::UserMoveRequested { .. } => self.user_move_requested(event),
            CatalogueEvent::UserMoved { .. } => self.user_moved(event),
            CatalogueEvent::UserMoveRejected { user, .. } => {
                self.users.moving.remove(user);
            }
            CatalogueEvent::PoolDefined { pool } => self.pool_defined(pool),
            CatalogueEvent::PoolDeleted { name } => self.pool_deleted(name),
        }
    }

    fn apply_job(&mut self, now: Timestamp, event: &JobEvent) {
        match event {
            JobEvent::Defined { definition, enabled, unnamed, previous_name } => {
                if let Some(previous) = previous_name {
                    self.names.remove(&(definition.spec.group.clone(), previous.clone()));
                }
                let (definition, enabled) = (Arc::clone(definition), *enabled);
                let message = ShardMessage::Job { definition: Arc::clone(&definition), enabled };
                self.job_defined(Job { definition, enabled, unnamed: *unnamed }, message);
            }
            JobEvent::MoveRequested { .. } => self.job_move_requested(event),
            JobEvent::Moved { .. } => self.job_moved(event),
            JobEvent::MoveRejected { job, .. } => self.job_move_rejected(*job),
            JobEvent::Enabled { job } => self.switched(*job, true),
            JobEvent::Disabled { job } => self.switched(*job, false),
            JobEvent::Deleted { job } => self.job_deleted(*job),
            JobEvent::ParentDeleted { parent, name, children } => {
                self.job_parent_deleted(now, *parent, name, children);
            }
            JobEvent::Cancelled { job, shard, by } => {
                self.mailbox.send(*shard, ShardMessage::Cancel { job: *job, by: by.clone() });
            }
            // Facts of group shards.
            JobEvent::Submitted { .. } => {}
        }
    }

    /// The highest counter that an id was minted from.
    pub(crate) fn minted(&self) -> u64 {
        self.jobs_minted.max(self.reruns.minted()).max(self.bulks.minted())
    }

    /// What is minted from now on was minted in no life of the log before.
    pub(crate) fn mint_above(&mut self, counter: u64) {
        planted!(GenerationForgotten => return);
        self.jobs_minted = self.jobs_minted.max(counter);
        self.reruns.mint_above(counter);
        self.bulks.mint_above(counter);
    }

    fn apply_partition(&mut self, event: &PartitionEvent) {
        match event {
            PartitionEvent::MessageReceived { from, number } => self.mailbox.receive(*from, *number),
            PartitionEvent::OutboxAcknowledged { to, upto } => self.mailbox.acknowledge(*to, *upto),
            // Facts of group shards.
            PartitionEvent::HistoryEvicted { .. }
            | PartitionEvent::CommandDeadLettered { .. }
            | PartitionEvent::TimerSuspended { .. }
            | PartitionEvent::ClockSet { .. }
            | PartitionEvent::CommandLossAccepted { .. }
            | PartitionEvent::Restored { .. }
            | PartitionEvent::SnapshotTaken { .. } => {}
        }
    }

    /// The message is what its group's shard hears.
    fn job_defined(&mut self, job: Job, message: ShardMessage) {
        let definition = Arc::clone(&job.definition);
        let id = definition.id;
        self.revision += 1;
        match self.jobs.get(&id) {
            None => self.jobs_minted += 1,
            Some(old) => {
                let before = Arc::clone(&old.definition);
                self.left_parents(&before, Some(&definition));
            }
        }
        for parent in definition.other_parents() {
            self.children.entry(parent).or_default().insert(id);
        }
        if !job.unnamed {
            self.names.insert((definition.spec.group.clone(), definition.spec.name.clone()), id);
        }
        if let Some(shard) = self.shard_of_group(&definition.spec.group) {
            self.send_calendar(shard, definition.spec.calendar.as_ref());
            self.tell_foreign_parents(shard, &definition);
            self.mailbox.send(shard, message);
            self.listen(shard, &definition.spec.third_party);
        }
        let old = self.jobs.insert(id, job);
        let before = old.as_ref().map(|old| &*old.definition.spec.owner);
        self.owners.changed(id, before, Some(&definition.spec.owner));
        self.tell_foreign_children(id, old.as_ref().map(|old| old.definition.as_ref()));
    }

    fn switched(&mut self, id: JobId, enabled: bool) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        self.revision += 1;
        job.enabled = enabled;
        let group = job.definition.spec.group.clone();
        self.send(&group, ShardMessage::Switch { job: id, enabled });
    }

    fn job_deleted(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.revision += 1;
        self.owners.changed(id, Some(&job.definition.spec.owner), None);
        self.children.remove(&id);
        if !job.unnamed {
            self.names.remove(&(job.definition.spec.group.clone(), job.definition.spec.name.clone()));
        }
        self.left_parents(&job.definition, None);
        let orphaned_in = self.orphaned_in(id);
        self.send(&job.definition.spec.group, ShardMessage::Remove { job: id, orphaned_in });
    }

    /// What holds in all groups, beside the level, holds in a new one.
    fn tell_new_group(&mut self, shard: ShardId) {
        if let Some(freeze) = self.freezes.get(&None).cloned() {
            let (scope, freeze) = (FreezeScope::Everything, Some(freeze));
            self.mailbox.send(shard, ShardMessage::Freeze { scope, freeze });
        }
        for pool in self.pools.shared() {
            self.mailbox.send(shard, ShardMessage::Pool { pool: Arc::clone(pool) });
        }
        for template in self.templates.iter().map(|known| &known.accepted) {
            self.mailbox.send(shard, ShardMessage::Template { template: Arc::clone(template) });
        }
    }

    /// Tells one group's shard, or every one's.
    fn tell_groups(&mut self, group: Option<&GroupName>, message: &ShardMessage) {
        for (_, of) in self.groups.iter().filter(|(name, _)| group.is_none_or(|group| group == *name)) {
            self.mailbox.send(of.shard, message.clone());
        }
    }

    fn send(&mut self, group: &GroupName, message: ShardMessage) {
        if let Some(shard) = self.shard_of_group(group) {
            self.mailbox.send(shard, message);
        }
    }

    fn known_group(&self, name: &GroupName) -> Result<&Group, Rejection> {
        self.groups.get(name).ok_or_else(|| Rejection::unknown("group", name))
    }

    /// The messages that wait for a group's shard are bounded, with what is on its way to it.
    fn check_mailbox(&self, group: &GroupName, shard: ShardId, coming: usize) -> Result<(), Rejection> {
        if self.mailbox.room(shard) > coming {
            return Ok(());
        }
        let what = format!("the number of messages that group {group} has not taken in; later there is room");
        Err(Rejection::limit(what, MAX_ON_THEIR_WAY as u64))
    }

    fn known_job(&self, id: JobId) -> Result<&Job, Rejection> {
        self.jobs.get(&id).ok_or_else(|| Rejection::unknown("job", id))
    }

    /// Refuses the first of these groups that is not there.
    fn check_groups<'a>(&self, groups: impl IntoIterator<Item = &'a GroupName>) -> Result<(), Rejection> {
        match groups.into_iter().find(|group| !self.groups.contains_key(*group)) {
            Some(unknown) => Err(Rejection::unknown("group", unknown)),
            None => Ok(()),
        }
    }

    fn shard_of_group(&self, group: &GroupName) -> Option<ShardId> {
        self.groups.get(group).map(|group| group.shard)
    }

    fn shard_of(&self, job: JobId) -> Option<ShardId> {
        self.shard_of_group(&self.jobs.get(&job)?.definition.spec.group)
    }
}
