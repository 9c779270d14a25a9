//! A job as people write it: in YAML files, REST bodies and `ApplyJobs`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FieldError, GroupName, JobName, JobType, Mapping, MissedRuns, Period, Priority};

/// Fields of a job that the catalogue of requirements names and that have no effect yet. They are refused
/// by name, never accepted and ignored.
pub const NOT_BUILT: &[&str] = &[
    "worker_group",
    "logical_time_format",
    "inputs",
    "outputs",
    "third_party",
    "earliest_start_minutes",
    "dependency_timeout_s",
    "output_timeout_s",
    "execution_timeout_s",
    "run_as",
    "success_check",
    "expected_duration_s",
    "memory_mb",
    "final_command",
    "alarms",
    "quality_gate",
    "pools",
    "calendar",
    "overlap",
];

/// A file of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpecFile {
    /// The jobs.
    pub jobs: Vec<JobSpec>,
}

/// When a job runs, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleInput {
    /// A fixed period; either this or `cron`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// A Quartz cron expression; either this or `period`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// IANA zone; absent: the configured default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A parent, as written: `name`, `group/name`, or with its mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ParentSpec {
    /// Mapping *same*.
    Name(String),
    /// With its mapping.
    Mapped {
        /// `name`, or `group/name`.
        job: String,
        /// For which logical times.
        #[serde(default)]
        mapping: Mapping,
    },
}

impl ParentSpec {
    /// The parent's name as written.
    pub fn job(&self) -> &str {
        match self {
            ParentSpec::Name(job) | ParentSpec::Mapped { job, .. } => job,
        }
    }

    /// Its mapping.
    pub fn mapping(&self) -> Mapping {
        match self {
            ParentSpec::Name(_) => Mapping::Same,
            ParentSpec::Mapped { mapping, .. } => *mapping,
        }
    }
}

fn yes() -> bool {
    true
}
fn one() -> u32 {
    1
}
fn minute() -> u32 {
    60
}
fn default_priority() -> Priority {
    Priority::DEFAULT
}

/// A job as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Its name, unique in its group.
    pub name: JobName,
    /// The group it belongs to, whose workers run it.
    pub group: GroupName,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Application that defines it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app_name: String,
    /// What kind of program it is.
    #[serde(rename = "type")]
    pub job_type: JobType,
    /// Script text; either this or `program`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Path of a program on the worker; either this or `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Main class of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Parameters of every batch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Free classification.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub business_type: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// 0 (highest) to 9; default 5.
    #[serde(default = "default_priority")]
    pub priority: Priority,
    /// When; absent: after its parents, or only by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleInput>,
    /// After what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<ParentSpec>,
    /// Also after the own previous batch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub depends_on_past: bool,
    /// Batches assigned or running at once; default 1.
    #[serde(default = "one")]
    pub max_concurrent: u32,
    /// Further attempts after a failed one; default 0.
    #[serde(default)]
    pub retries: u32,
    /// Seconds from the end of an attempt to the next; default 60.
    #[serde(default = "minute")]
    pub retry_interval_s: u32,
    /// Runs only on the worker of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What to do about base times missed in an outage; default all.
    #[serde(default)]
    pub missed_runs: MissedRuns,
    /// Whether it generates batches; default true.
    #[serde(default = "yes")]
    pub enabled: bool,
}

impl JobSpec {
    /// Reads a job from its JSON or YAML value.
    ///
    /// # Errors
    /// The first field that is unknown, not built yet, missing or of the wrong form.
    pub fn from_value(value: serde_json::Value) -> Result<Self, FieldError> {
        let Some(object) = value.as_object() else {
            return Err(FieldError::new(
                "job",
                &value,
                "must be an object with at least name, group and type",
            ));
        };
        if let Some(field) = NOT_BUILT.iter().find(|field| object.contains_key(**field)) {
            let given = object.get(*field).map(ToString::to_string).unwrap_or_default();
            return Err(FieldError::new(
                *field,
                given,
                "has no effect in this version, so it is refused; remove the field",
            ));
        }
        let name = object.get("name").and_then(|name| name.as_str()).unwrap_or("?").to_owned();
        serde_json::from_value(value).map_err(|error| {
            let text = error.to_string();
            let field = text.split('`').nth(1).unwrap_or("job").to_owned();
            FieldError::new(field, name, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_are_those_of_the_requirements() {
        let spec = JobSpec::from_value(json!({"name": "a", "group": "g", "type": "noop"})).unwrap();
        assert_eq!((spec.retries, spec.retry_interval_s, spec.max_concurrent), (0, 60, 1));
        assert!(spec.enabled);
        assert_eq!(spec.missed_runs, MissedRuns::All);
    }

    /// JOB-1: a field whose effect is not built yet is refused by name.
    #[test]
    fn not_built_and_unknown_fields_are_refused_by_name() {
        for field in NOT_BUILT.iter().copied().chain(["colour"]) {
            let mut value = json!({"name": "a", "group": "g", "type": "noop"});
            value[field] = json!("x");
            assert_eq!(JobSpec::from_value(value).unwrap_err().field, field);
        }
    }

    #[test]
    fn parents_are_written_short_or_with_a_mapping() {
        let spec = JobSpec::from_value(json!({
            "name": "a", "group": "g", "type": "noop",
            "parents": ["b", {"job": "h/c", "mapping": {"offset": 2}}, {"job": "d", "mapping": "all"}],
        }))
        .unwrap();
        let mappings: Vec<_> = spec.parents.iter().map(ParentSpec::mapping).collect();
        assert_eq!(mappings, [Mapping::Same, Mapping::Offset(2), Mapping::All]);
    }
}
