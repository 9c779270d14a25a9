//! What is told of each action: definitions as they were and as they are, and what the event says itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use tidemill_model::{
    AccessEvent, CatalogueEvent, CredentialEvent, DirectoryEvent, Event, GroupName, JobDefinition, JobEvent,
    Parent, Refusal, RerunEvent, TaskEvent, Timestamp,
};
use tidemill_store::Row as _;
use tidemill_store::rows::{GroupRow, PoolRow, TaskTemplateRow};

use super::detail::{Detail, raw, stored};
use crate::fold::catalogue::{pool_row, scope};
use crate::fold::directory::entry_of;
use crate::fold::job::json;
use crate::fold::{Caches, Place};

type Json = Box<RawValue>;

impl Caches {
    pub(super) fn detail_of(&self, at: Place, event: &Event) -> Detail {
        match event {
            Event::Catalogue(event) => self.detail_in_catalogue(at, event),
            Event::Directory(event) => self.detail_in_directory(event),
            Event::Credential(event) => detail_of_credential(event),
            Event::Job(event) => self.detail_of_job(event),
            Event::Task(event) => self.detail_of_task(at, event),
            Event::Access(AccessEvent::Refused { refusal }) => detail_of_refusal(refusal),
            Event::Rerun(RerunEvent::Requested { spec, .. }) => Detail::of_event(event).with("spec", &**spec),
            Event::Batch(_) | Event::Attempt(_) => self.detail_of_batch(event),
            Event::Rerun(_)
            | Event::Bulk(_)
            | Event::Worker(_)
            | Event::Observation(_)
            | Event::Level(_)
            | Event::Partition(_)
            | Event::Deletion(_)
            | Event::Apply(_)
            | Event::Schedule(_)
            | Event::FinalCommand(_)
            | Event::Permit(_)
            | Event::Replication(_)
            | Event::Transfer(_)
            | Event::Subscription(_)
            | Event::Alarm(_) => Detail::of_event(event),
        }
    }

    fn detail_of_batch(&self, event: &Event) -> Detail {
        let detail = Detail::of_event(event);
        let id = event.subject().strip_prefix("batch/").and_then(|id| id.parse().ok());
        match id.and_then(|id| self.batches.get(&(id,))) {
            Some(row) => detail.with("job", &row.job_id).with("job_name", &row.job_name),
            None => detail,
        }
    }

    fn detail_in_catalogue(&self, at: Place, event: &CatalogueEvent) -> Detail {
        match event {
            CatalogueEvent::GroupDefined { group, name, worker_key, settings, .. } => {
                let before = self.worker_groups.get(&(i64::from(group.0),)).map(group_entry);
                let row = GroupRow {
                    name: name.as_str().into(),
                    worker_key: worker_key.as_str().into(),
                    settings: json(settings),
                    ..GroupRow::default()
                };
                Detail::change(before, Some(group_entry(&row)))
            }
            CatalogueEvent::KeyDefined { .. } | CatalogueEvent::KeyRevoked { .. } => {
                self.detail_of_key(event)
            }
            CatalogueEvent::CalendarDefined { calendar } => {
                let before = self.calendars.get(&(calendar.spec.name.as_str().into(),));
                let before = before.and_then(|row| stored(&row.definition));
                Detail::change(before, Some(raw(&calendar.spec))).with("version", &calendar.version)
            }
            CatalogueEvent::CalendarDeleted { name } => {
                let before = self.calendars.get(&(name.as_str().into(),));
                Detail::change(before.and_then(|row| stored(&row.definition)), None)
            }
            CatalogueEvent::PoolDefined { pool } => {
                let after = pool_row(at, pool);
                Detail::change(self.pools.get(&after.key()).map(pool_entry), Some(pool_entry(&after)))
            }
            CatalogueEvent::PoolDeleted { name } => {
                Detail::change(self.pools.get(&(name.as_str().into(),)).map(pool_entry), None)
            }
            CatalogueEvent::TemplateDefined { template } => {
                let before = self.task_templates.get(&(template.spec.name.as_str().into(),));
                let row = TaskTemplateRow {
                    fields: json(&template.spec.fields),
                    comment: template.spec.comment.as_str().into(),
                    ..TaskTemplateRow::default()
                };
                Detail::change(before.map(template_entry), Some(template_entry(&row)))
            }
            CatalogueEvent::TemplateDeleted { name } => {
                let before = self.task_templates.get(&(name.as_str().into(),));
                Detail::change(before.map(template_entry), None)
            }
            CatalogueEvent::FreezeSet { group, freeze } => {
                let after =
                    raw(&BTreeMap::from([("latest", raw(&freeze.latest)), ("reason", raw(&freeze.reason))]));
                Detail::change(self.freeze_entry(group.as_ref()), Some(after))
            }
            CatalogueEvent::FreezeLifted { group, reason, .. } => {
                Detail::change(self.freeze_entry(group.as_ref()), None).with("reason", reason)
            }
            CatalogueEvent::UsersAssigned { users, .. } => Detail::default().with("users", users),
            CatalogueEvent::UserMoveRequested { .. }
            | CatalogueEvent::UserMoved { .. }
            | CatalogueEvent::UserMoveRejected { .. } => Detail::of_event(&Event::Catalogue(event.clone())),
        }
    }

    fn detail_of_key(&self, event: &CatalogueEvent) -> Detail {
        let (CatalogueEvent::KeyDefined { app, .. } | CatalogueEvent::KeyRevoked { app }) = event else {
            return Detail::default();
        };
        let known = self.app_keys.get(&(app.as_str().into(),));
        let before = known.map(|row| {
            raw(&BTreeMap::from([
                ("department", Some(raw(&row.department))),
                ("groups", stored(&row.groups)),
                ("may", stored(&row.may)),
                ("role", Some(raw(&row.role))),
                ("run_as", stored(&row.accounts)),
            ]))
        });
        let CatalogueEvent::KeyDefined { hash, role, groups, run_as, may, department, .. } = event else {
            return Detail::change(before, None);
        };
        let after = raw(&BTreeMap::from([
            ("department", raw(department)),
            ("groups", raw(groups)),
            ("may", raw(may)),
            ("role", raw(role)),
            ("run_as", raw(run_as)),
        ]));
        let is_new_secret = known.is_none_or(|row| *row.hash != **hash);
        Detail::change(before, Some(after)).with("new_secret", &is_new_secret)
    }

    fn freeze_entry(&self, group: Option<&GroupName>) -> Option<Json> {
        let row = self.freezes.get(&(scope(group),))?;
        let latest = Timestamp::from_millisecond(row.latest).ok();
        Some(raw(&BTreeMap::from([("latest", raw(&latest)), ("reason", raw(&row.reason))])))
    }

    fn detail_in_directory(&self, event: &DirectoryEvent) -> Detail {
        let after = match event {
            DirectoryEvent::DepartmentDefined { department } => Some(raw(&**department)),
            DirectoryEvent::PersonDefined { person } => Some(raw(&**person)),
            DirectoryEvent::DepartmentDeleted { .. } | DirectoryEvent::PersonDeleted { .. } => None,
        };
        let before = self.directory_entries.get(&entry_of(event));
        Detail::change(before.and_then(|row| stored(&row.definition)), after)
    }

    /// Versions of jobs are kept, so their numbers are enough, and the fields that differ.
    fn detail_of_job(&self, event: &JobEvent) -> Detail {
        let version = |version: i64| raw(&BTreeMap::from([("version", version)]));
        let enabled = |enabled: bool| raw(&BTreeMap::from([("enabled", enabled)]));
        let row = |job: i64| self.jobs.get(&(job,));
        let named = |detail: Detail, job: i64| match row(job) {
            Some(row) => detail.with("name", &format!("{}/{}", row.group_name, row.name)),
            None => detail,
        };
        match event {
            JobEvent::Defined { definition, enabled, .. } => {
                let old = row(definition.id.0);
                let before = old.map(|row| version(row.version));
                let after = version(i64::from(definition.version));
                let detail = Detail::change(before, Some(after)).with("name", &definition.full_name());
                match old {
                    Some(old) => {
                        let mut fields = differing(&old.definition, definition);
                        fields.extend((old.enabled != *enabled).then(|| "enabled".to_owned()));
                        fields.sort_unstable();
                        detail.with("fields", &fields)
                    }
                    None => detail,
                }
            }
            JobEvent::Moved { definition, previous_group, .. } => {
                let in_group = |group: &str| raw(&BTreeMap::from([("group", group)]));
                let groups = (in_group(previous_group.as_str()), in_group(definition.spec.group.as_str()));
                Detail::change(Some(groups.0), Some(groups.1))
                    .with("name", &definition.full_name())
                    .with("version", &definition.version)
            }
            JobEvent::Enabled { job } | JobEvent::Disabled { job } => {
                let is_on = matches!(event, JobEvent::Enabled { .. });
                let before = row(job.0).map(|row| enabled(row.enabled));
                named(Detail::change(before, Some(enabled(is_on))), job.0)
            }
            JobEvent::Deleted { job } => {
                named(Detail::change(row(job.0).map(|row| version(row.version)), None), job.0)
            }
            JobEvent::Submitted { definition } => {
                Detail::change(None, Some(version(i64::from(definition.version))))
                    .with("name", &definition.full_name())
            }
            JobEvent::ParentDeleted { .. }
            | JobEvent::MoveRequested { .. }
            | JobEvent::MoveRejected { .. }
            | JobEvent::Cancelled { .. } => Detail::default(),
        }
    }

    /// Versions of tasks are kept, too.
    fn detail_of_task(&self, at: Place, event: &TaskEvent) -> Detail {
        let version = |version: i64| raw(&BTreeMap::from([("version", version)]));
        let before = |task: i64| self.pull_tasks.get(&(task, at.shard)).map(|row| version(row.version));
        match event {
            TaskEvent::Created { .. } => Detail::change(None, Some(version(1))),
            TaskEvent::Changed { task, version: new, .. } => {
                Detail::change(before(task.0), Some(version(i64::from(*new))))
            }
            TaskEvent::Deleted { task } => Detail::change(before(task.0), None),
            TaskEvent::Granted { .. }
            | TaskEvent::Completed { .. }
            | TaskEvent::GrantReturned { .. }
            | TaskEvent::GrantExpired { .. }
            | TaskEvent::Purged { .. } => Detail::default(),
        }
    }
}

fn group_entry(row: &GroupRow) -> Json {
    raw(&BTreeMap::from([
        ("name", Some(raw(&row.name))),
        ("settings", stored(&row.settings)),
        ("worker_key", Some(raw(&row.worker_key))),
    ]))
}

fn pool_entry(row: &PoolRow) -> Json {
    raw(&BTreeMap::from([
        ("comment", raw(&row.comment)),
        ("group", raw(&row.group_name)),
        ("rate_interval_s", raw(&row.rate_interval_s)),
        ("rate_starts", raw(&row.rate_starts)),
        ("slots", raw(&row.slots)),
        ("version", raw(&row.version)),
    ]))
}

fn template_entry(row: &TaskTemplateRow) -> Json {
    raw(&BTreeMap::from([("comment", Some(raw(&row.comment))), ("fields", stored(&row.fields))]))
}

fn detail_of_refusal(refusal: &Refusal) -> Detail {
    Detail::default()
        .with("address", &refusal.address)
        .with("first_at", &refusal.first_at)
        .with("last_at", &refusal.last_at)
        .with("reason", &refusal.reason)
}

/// The fields in which two definitions of a job differ.
fn differing(old: &str, new: &JobDefinition) -> Vec<String> {
    #[derive(Default, serde::Deserialize)]
    struct Written {
        #[serde(default)]
        spec: BTreeMap<String, serde_json::Value>,
        #[serde(default)]
        parents: Vec<Parent>,
    }
    let read = |text: &str| {
        let mut written = serde_json::from_str::<Written>(text).unwrap_or_default();
        // Of itself it depends by a field of its own.
        written.parents.retain(|parent| parent.job != new.id);
        written
    };
    let (old, written) = (read(old), read(&json(new)));
    let names: BTreeSet<&String> = old.spec.keys().chain(written.spec.keys()).collect();
    let differs = |name: &&String| old.spec.get(*name) != written.spec.get(*name);
    let mut fields: BTreeSet<String> = names.into_iter().filter(differs).cloned().collect();
    fields.extend((old.parents != written.parents).then(|| "parents".to_owned()));
    fields.into_iter().collect()
}

/// Hashes of secrets are left out.
fn detail_of_credential(event: &CredentialEvent) -> Detail {
    match event {
        CredentialEvent::Issued { credential } => {
            let of = credential.as_ref();
            let after = raw(&BTreeMap::from([
                ("expires_at", raw(&of.expires_at)),
                ("kind", raw(&of.kind)),
                ("may", raw(&of.may)),
                ("person", raw(&of.person)),
                ("title", raw(&of.title)),
            ]));
            Detail::change(None, Some(after))
        }
        CredentialEvent::Ended { .. }
        | CredentialEvent::AllEnded { .. }
        | CredentialEvent::Used { .. }
        | CredentialEvent::PasswordSet { .. } => Detail::of_event(&Event::from(event.clone())),
    }
}
