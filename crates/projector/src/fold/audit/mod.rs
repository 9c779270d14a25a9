//! The audit list (API-9): who asked for what, and when; what changed as it was and as it is.
//!
//! A row is made of an event before that is applied, so that the other tables hold what was. `rules` says which events are
//! what somebody asked for, `told` what is told of them. Secrets are nowhere in it, nor hashes of them.

mod detail;
mod rules;
mod told;

use std::sync::Arc;

use tidemill_model::{AccessEvent, BatchEvent, BulkEvent, CatalogueEvent, Event, JobEvent, RerunEvent};
use tidemill_store::rows::{AuditRow, RerunRow};

use self::rules::Asker;
pub(super) use self::rules::{actions, is_part};
use super::job::count;
use super::pull::user_key;
use super::{Caches, Place};

/// The longest name of an application, a person and an object, characters, as the columns have it.
const APP_CHARS: usize = 64;
const PERSON_CHARS: usize = 200;
const OBJECT_CHARS: usize = 300;

/// As long as a column takes it.
pub(super) fn cut(text: &str, chars: usize) -> Arc<str> {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end]).into()
}

impl Caches {
    /// What the row of an action tells of what was, beyond what its event needs anyway.
    pub(super) fn need_audit(&mut self, shard: i64, event: &Event) {
        if shard != 0 {
            self.shards.need((shard,));
        }
        match event {
            Event::Catalogue(event) => self.need_audit_of_catalogue(event),
            // Its job; the event itself changes another row.
            Event::Batch(BatchEvent::QualityAnswered { batch, .. }) => self.batches.need((batch.0,)),
            Event::Bulk(_)
            | Event::Directory(_)
            | Event::Credential(_)
            | Event::Access(_)
            | Event::Job(_)
            | Event::Deletion(_)
            | Event::Apply(_)
            | Event::Rerun(_)
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

    fn need_audit_of_catalogue(&mut self, event: &CatalogueEvent) {
        match event {
            CatalogueEvent::KeyDefined { app, .. } | CatalogueEvent::KeyRevoked { app } => {
                self.app_keys.need((app.as_str().into(),));
            }
            CatalogueEvent::CalendarDefined { calendar } => {
                self.calendars.need((calendar.spec.name.as_str().into(),));
            }
            CatalogueEvent::CalendarDeleted { name } => self.calendars.need((name.as_str().into(),)),
            CatalogueEvent::PoolDefined { pool } => self.pools.need((pool.spec.name.as_str().into(),)),
            CatalogueEvent::PoolDeleted { name } => self.pools.need((name.as_str().into(),)),
            CatalogueEvent::TemplateDefined { template } => {
                self.task_templates.need((template.spec.name.as_str().into(),));
            }
            CatalogueEvent::TemplateDeleted { name } => self.task_templates.need((name.as_str().into(),)),
            // Their rows are known anyway, or there are none.
            CatalogueEvent::GroupDefined { .. }
            | CatalogueEvent::FreezeSet { .. }
            | CatalogueEvent::FreezeLifted { .. }
            | CatalogueEvent::UsersAssigned { .. }
            | CatalogueEvent::UserMoveRequested { .. }
            | CatalogueEvent::UserMoved { .. }
            | CatalogueEvent::UserMoveRejected { .. } => {}
        }
    }

    /// Notes an action, before its event is applied.
    pub(super) fn audit(&mut self, at: Place, event: &Event, asker: &Asker<'_>) {
        let (object, times) = match event {
            Event::Access(AccessEvent::Refused { refusal }) => {
                (refusal.call.clone(), i64::from(refusal.count))
            }
            Event::Catalogue(CatalogueEvent::UsersAssigned { users, .. }) => {
                (event.subject(), count(users.len()))
            }
            Event::Bulk(BulkEvent::Requested { items, .. }) => (event.subject(), count(items.len())),
            event => (event.subject(), 1),
        };
        self.audit.put(AuditRow {
            at: at.now,
            journal_partition: at.partition,
            journal_offset: at.offset,
            event_index: at.index,
            app: cut(asker.app, APP_CHARS),
            person: asker.person.map(|person| cut(person, PERSON_CHARS)),
            kind: event.kind().into(),
            object: cut(&object, OBJECT_CHARS),
            group_name: self.group_of_action(at, event),
            request: asker.request.map(Into::into),
            times,
            detail: self.detail_of(at, event).finish(),
        });
    }

    /// The group that the object of an action is of; empty: the whole site.
    fn group_of_action(&self, at: Place, event: &Event) -> Arc<str> {
        if at.shard != 0 {
            return self.group_of(at);
        }
        let of_job = |job: i64| self.jobs.get(&(job,)).map(|row| Arc::clone(&row.group_name));
        let group = match event {
            Event::Catalogue(event) => self.group_in_catalogue(event),
            Event::Job(JobEvent::Defined { definition, .. } | JobEvent::Moved { definition, .. }) => {
                Some(definition.spec.group.as_str().into())
            }
            Event::Job(
                JobEvent::Enabled { job } | JobEvent::Disabled { job } | JobEvent::Deleted { job },
            ) => of_job(job.0),
            Event::Rerun(event) => self.group_of_rerun(event),
            _ => None,
        };
        group.unwrap_or_default()
    }

    fn group_in_catalogue(&self, event: &CatalogueEvent) -> Option<Arc<str>> {
        match event {
            CatalogueEvent::GroupDefined { name, .. } => Some(name.as_str().into()),
            CatalogueEvent::PoolDefined { pool } => {
                pool.spec.group.as_ref().map(|group| group.as_str().into())
            }
            CatalogueEvent::PoolDeleted { name } => {
                self.pools.get(&(name.as_str().into(),))?.group_name.clone()
            }
            CatalogueEvent::FreezeSet { group, .. } | CatalogueEvent::FreezeLifted { group, .. } => {
                group.as_ref().map(|group| group.as_str().into())
            }
            CatalogueEvent::UsersAssigned { group, .. } => Some(group.as_str().into()),
            CatalogueEvent::UserMoveRequested { user, .. }
            | CatalogueEvent::UserMoved { user, .. }
            | CatalogueEvent::UserMoveRejected { user, .. } => {
                self.pull_users.get(&user_key(user)).map(|row| Arc::clone(&row.group_name))
            }
            CatalogueEvent::KeyDefined { .. }
            | CatalogueEvent::KeyRevoked { .. }
            | CatalogueEvent::CalendarDefined { .. }
            | CatalogueEvent::CalendarDeleted { .. }
            | CatalogueEvent::TemplateDefined { .. }
            | CatalogueEvent::TemplateDeleted { .. } => None,
        }
    }

    /// Of a plan that concerns one group alone.
    fn group_of_rerun(&self, event: &RerunEvent) -> Option<Arc<str>> {
        let only = |row: &RerunRow| match &serde_json::from_str::<Vec<Arc<str>>>(&row.groups).ok()?[..] {
            [group] => Some(Arc::clone(group)),
            _ => None,
        };
        match event {
            RerunEvent::Requested { groups, .. } => match &groups[..] {
                [group] => Some(group.as_str().into()),
                _ => None,
            },
            RerunEvent::Approved { rerun, .. }
            | RerunEvent::Paused { rerun, .. }
            | RerunEvent::Resumed { rerun, .. }
            | RerunEvent::Cancelled { rerun, .. } => self.reruns.get(&(rerun.0,)).and_then(only),
            _ => None,
        }
    }
}
