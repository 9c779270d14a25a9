//! What an apply changes of one job, and in which fields.

use crate::catalogue::Catalogue;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidemill_model::{Event, JobChange, JobChangeKind, JobDefinition, JobEvent, JobId, Parent};

impl Catalogue {
    pub(super) fn change(&self, definition: Arc<JobDefinition>, enabled: bool) -> (Option<Event>, JobChange) {
        let Some(old) = self.jobs.get(&definition.id) else {
            let change = change_of(&definition, JobChangeKind::Added, Vec::new());
            return (Some(self.defined(definition, enabled)), change);
        };
        let mut fields = differing(&old.definition, &definition);
        if fields.is_empty() {
            if old.enabled == enabled {
                return (None, change_of(&old.definition, JobChangeKind::Unchanged, fields));
            }
            let job = definition.id;
            fields.push("enabled".to_owned());
            let change = change_of(&old.definition, JobChangeKind::Changed, fields);
            return (Some(switched(job, enabled).into()), change);
        }
        if old.enabled != enabled {
            fields.push("enabled".to_owned());
        }
        let change = change_of(&definition, JobChangeKind::Changed, fields);
        (Some(self.defined(definition, enabled)), change)
    }
}

/// What switches a job on or off.
pub(super) fn switched(job: JobId, enabled: bool) -> JobEvent {
    if enabled { JobEvent::Enabled { job } } else { JobEvent::Disabled { job } }
}

pub(super) fn change_of(definition: &JobDefinition, change: JobChangeKind, fields: Vec<String>) -> JobChange {
    let (job, name, version) = (definition.id, definition.full_name(), definition.version);
    JobChange { job, name, change, version, fields }
}

/// The fields in which two definitions differ, their version aside.
fn differing(old: &JobDefinition, new: &JobDefinition) -> Vec<String> {
    if *old == (JobDefinition { version: old.version, ..new.clone() }) {
        return Vec::new();
    }
    let value = |definition: &JobDefinition| {
        serde_json::to_value(&definition.spec).expect("a job is plain data with string keys")
    };
    let (old_spec, new_spec) = (value(old), value(new));
    let object = |value: &serde_json::Value| value.as_object().cloned().unwrap_or_default();
    let (old_spec, new_spec) = (object(&old_spec), object(&new_spec));
    let names: BTreeSet<&String> = old_spec.keys().chain(new_spec.keys()).collect();
    let differs = |name: &&String| old_spec.get(*name) != new_spec.get(*name);
    let mut fields: BTreeSet<String> = names.into_iter().filter(differs).cloned().collect();
    let others = |definition: &JobDefinition| -> Vec<Parent> {
        definition.parents.iter().filter(|parent| parent.job != definition.id).cloned().collect()
    };
    fields.extend((others(old) != others(new)).then(|| "parents".to_owned()));
    fields.extend((old.run_as_by != new.run_as_by).then(|| "run_as".to_owned()));
    fields.into_iter().collect()
}
