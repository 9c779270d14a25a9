use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tidemill_model::Mapping;
use tidemill_store::rows::{JobRow, JobVersionRow};

use super::{JobVersionView, full_name};

/// A version of a definition, with all its fields.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobVersionDetail {
    #[serde(flatten)]
    pub(crate) version: JobVersionView,
    /// The whole definition as it was accepted; parents are named by their ids.
    pub(crate) definition: Value,
}

impl JobVersionDetail {
    pub(crate) fn of(row: JobVersionRow) -> Self {
        Self { definition: Value::Object(fields_of(&row)), version: row.into() }
    }
}

/// What the job was written with, and beside it what the definition came to: parents by their ids, and numbers.
fn fields_of(row: &JobVersionRow) -> Map<String, Value> {
    let Ok(mut definition) = serde_json::from_str::<Map<_, _>>(&row.definition) else { return Map::new() };
    let Some(Value::Object(mut fields)) = definition.remove("spec") else { return definition };
    fields.append(&mut definition);
    fields
}

/// The only version of a job that was submitted to run once.
pub(crate) fn version_of_submission(row: &JobRow) -> JobVersionRow {
    JobVersionRow {
        job_id: row.id,
        version: row.version,
        definition: row.definition.clone(),
        defined_at: row.defined_at,
        defined_by: row.changed_by.clone(),
    }
}

/// What differs between two versions of a definition.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct VersionDiff {
    /// Which job.
    pub(crate) job: i64,
    /// The version compared from.
    pub(crate) from: i64,
    /// The version compared to.
    pub(crate) to: i64,
    /// The fields that differ, by name; empty: none does.
    pub(crate) fields: Vec<FieldChange>,
}

/// A field that differs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FieldChange {
    /// Its name in the definition.
    pub(crate) field: String,
    /// Its value in the version compared from; null: it has none there.
    pub(crate) old: Value,
    /// Its value in the version compared to; null: it has none there.
    pub(crate) new: Value,
}

impl VersionDiff {
    pub(crate) fn of(from: &JobVersionRow, to: &JobVersionRow) -> Self {
        let [old, new] = [from, to].map(fields_of);
        let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let differ = |name: &&String| name.as_str() != "version" && old.get(*name) != new.get(*name);
        let value =
            |fields: &Map<String, Value>, name: &String| fields.get(name).cloned().unwrap_or_default();
        let change = |name: &String| FieldChange {
            field: name.clone(),
            old: value(&old, name),
            new: value(&new, name),
        };
        let fields = names.into_iter().filter(differ).map(change).collect();
        Self { job: from.job_id, from: from.version, to: to.version, fields }
    }
}

/// A job that names another one as a parent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChildView {
    /// Which job.
    pub(crate) job: i64,
    /// Its name, `group/name`.
    pub(crate) name: String,
    /// Whether it generates batches.
    pub(crate) enabled: bool,
    /// For which logical times of the parent it waits.
    pub(crate) mapping: Mapping,
}

impl ChildView {
    pub(crate) fn new(row: &JobRow, mapping: Mapping) -> Self {
        Self { job: row.id, name: full_name(row), enabled: row.enabled, mapping }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(version: i64, definition: &str) -> JobVersionRow {
        JobVersionRow {
            job_id: 4096,
            version,
            definition: definition.into(),
            defined_at: 0,
            defined_by: None,
        }
    }

    /// JOB-5: a diff names every field that differs, with both values, and no other.
    #[test]
    fn diff_names_every_field_that_differs() {
        let old = version(1, r#"{"version":1,"retries":2,"comment":"a","owner":"ann"}"#);
        let new = version(2, r#"{"version":2,"retries":2,"owner":"bob","memory_mb":64}"#);
        let diff = VersionDiff::of(&old, &new);
        let fields: Vec<_> =
            diff.fields.iter().map(|change| (&*change.field, &change.old, &change.new)).collect();
        let (ann, bob, none) = (Value::from("ann"), Value::from("bob"), Value::Null);
        let (a, memory) = (Value::from("a"), Value::from(64));
        assert_eq!(fields, [("comment", &a, &none), ("memory_mb", &none, &memory), ("owner", &ann, &bob)]);
        assert!(VersionDiff::of(&old, &old).fields.is_empty());
    }
}
