//! The fold of the catalogue's journal, as far as it is needed. Pure: what it says follows from the events alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tidemill_model::{
    Account, CatalogueEvent, DepartmentName, Envelope, Event, GroupId, GroupName, JobDefinition, JobEvent,
    JobId, Permission, Role, ShardId, Timestamp, UserName,
};

use crate::credentials::Credentials;
use crate::directory::Directory;
use crate::user_groups::{Homed, UserGroups};

/// An application key that is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub app: Arc<str>,
    /// SHA-256 of the secret, hex.
    pub hash: Arc<str>,
    /// What it allows.
    pub role: Role,
    /// The groups it is bound to; empty: all.
    pub groups: Arc<[String]>,
    /// DSP-2: the accounts that jobs may run as which it applies.
    pub accounts: Arc<[Account]>,
    /// What it may beside what the role gives.
    pub may: BTreeSet<Permission>,
    /// The department that it belongs to, and whose jobs alone it reaches.
    pub department: Option<DepartmentName>,
    /// When it was defined last.
    pub defined_at: Timestamp,
}

/// A worker group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub id: GroupId,
    /// Its name.
    pub name: GroupName,
    /// The shard that does its work.
    pub shard: ShardId,
    /// Ed25519 public key of its workers, hex.
    pub worker_key: Arc<str>,
}

/// What is kept of a job of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The number of its group.
    pub group: GroupId,
    /// Its name in the group; empty: it is known by its id alone.
    pub name: Arc<str>,
    /// Who owns it; empty: nobody.
    pub owner: Arc<str>,
    /// Its classification; empty: none.
    pub class: Arc<str>,
    /// Whether it has a schedule.
    pub is_scheduled: bool,
    /// DSP-2: the account that it runs as.
    pub account: Option<Account>,
}

impl Job {
    /// What is kept of this definition. A job that is known by its id alone has no name here.
    #[must_use]
    pub fn of(definition: &JobDefinition, is_named: bool) -> Self {
        Self {
            group: definition.group_id,
            name: if is_named { definition.spec.name.as_str().into() } else { Arc::default() },
            owner: definition.spec.owner.as_str().into(),
            class: definition.spec.class().into(),
            is_scheduled: definition.spec.schedule.is_some(),
            account: definition.spec.run_as.clone(),
        }
    }
}

/// What the catalogue's journal says up to a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    keys: HashMap<Arc<str>, Arc<Key>>,
    groups: BTreeMap<GroupId, Group>,
    jobs: HashMap<JobId, Job>,
    user_groups: UserGroups,
    directory: Arc<Directory>,
    credentials: Credentials,
}

impl Facts {
    /// Takes what was decided last in. Shards of groups in the same partition say nothing of it.
    pub fn apply(&mut self, envelope: &Envelope) {
        let of_catalogue = envelope.events.iter().filter(|recorded| recorded.shard == ShardId::CATALOGUE);
        of_catalogue.for_each(|recorded| self.apply_event(envelope.now, &recorded.event));
    }

    fn apply_event(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Catalogue(event) => self.apply_catalogue(now, event),
            Event::Job(event) => self.apply_job(event),
            // Whoever holds the directory as it was keeps that.
            Event::Directory(event) => Arc::make_mut(&mut self.directory).apply(event),
            Event::Credential(event) => self.credentials.apply(now, event),
            Event::Access(_)
            | Event::Deletion(_)
            | Event::Apply(_)
            | Event::Rerun(_)
            | Event::Bulk(_)
            | Event::Schedule(_)
            | Event::Batch(_)
            | Event::Attempt(_)
            | Event::FinalCommand(_)
            | Event::Observation(_)
            | Event::Worker(_)
            | Event::Task(_)
            | Event::Permit(_)
            | Event::Replication(_)
            | Event::Transfer(_)
            | Event::Subscription(_)
            | Event::Alarm(_)
            | Event::Level(_)
            | Event::Partition(_) => {}
        }
    }

    fn apply_catalogue(&mut self, now: Timestamp, event: &CatalogueEvent) {
        match event {
            CatalogueEvent::GroupDefined { group, name, shard, worker_key, .. } => {
                let (id, worker_key) = (*group, worker_key.as_str().into());
                self.groups.insert(id, Group { id, name: name.clone(), shard: *shard, worker_key });
            }
            CatalogueEvent::KeyDefined { app, hash, role, groups, run_as, may, department } => {
                let app: Arc<str> = app.as_str().into();
                let key = Key {
                    app: Arc::clone(&app),
                    hash: hash.as_str().into(),
                    role: *role,
                    groups: groups.iter().map(|group| group.as_str().to_owned()).collect(),
                    accounts: run_as.iter().cloned().collect(),
                    may: may.clone(),
                    department: department.clone(),
                    defined_at: now,
                };
                self.keys.insert(app, Arc::new(key));
            }
            CatalogueEvent::KeyRevoked { app } => drop(self.keys.remove(app.as_str())),
            CatalogueEvent::UsersAssigned { shard, users, .. } => {
                users.iter().for_each(|user| self.user_groups.put(user, *shard));
            }
            CatalogueEvent::UserMoveRequested { user, .. } => self.user_groups.moves(user, true),
            CatalogueEvent::UserMoved { user, shard: Some(shard), .. } => self.user_groups.put(user, *shard),
            CatalogueEvent::UserMoved { user, shard: None, .. } => self.user_groups.remove(user),
            CatalogueEvent::UserMoveRejected { user, .. } => self.user_groups.moves(user, false),
            CatalogueEvent::CalendarDefined { .. }
            | CatalogueEvent::CalendarDeleted { .. }
            | CatalogueEvent::PoolDefined { .. }
            | CatalogueEvent::PoolDeleted { .. }
            | CatalogueEvent::TemplateDefined { .. }
            | CatalogueEvent::TemplateDeleted { .. }
            | CatalogueEvent::FreezeSet { .. }
            | CatalogueEvent::FreezeLifted { .. } => {}
        }
    }

    fn apply_job(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Defined { definition, unnamed, .. } => self.define(definition, !unnamed),
            JobEvent::Moved { definition, .. } => {
                let is_named = self.jobs.get(&definition.id).is_none_or(|job| !job.name.is_empty());
                self.define(definition, is_named);
            }
            JobEvent::Deleted { job } => drop(self.jobs.remove(job)),
            JobEvent::Enabled { .. }
            | JobEvent::Disabled { .. }
            | JobEvent::ParentDeleted { .. }
            | JobEvent::MoveRequested { .. }
            | JobEvent::MoveRejected { .. }
            | JobEvent::Cancelled { .. }
            // It is of the shard whose number its id has.
            | JobEvent::Submitted { .. } => {}
        }
    }

    fn define(&mut self, definition: &JobDefinition, is_named: bool) {
        self.jobs.insert(definition.id, Job::of(definition, is_named));
    }

    /// A key that is good.
    #[must_use]
    pub fn key(&self, app: &str) -> Option<&Arc<Key>> {
        self.keys.get(app)
    }

    /// Worker groups, by number.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// A group by its number.
    #[must_use]
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// A job of the catalogue that is not deleted.
    #[must_use]
    pub fn job(&self, job: JobId) -> Option<&Job> {
        self.jobs.get(&job)
    }

    /// Where a user of pull tasks is at home.
    #[must_use]
    pub fn home(&self, user: &UserName) -> Homed {
        self.user_groups.of(user)
    }

    /// What people sign in with.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// People and departments. It stays as it is, whatever is recorded later.
    #[must_use]
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }
}
