use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use tidemill_model::{DataPath, JobDefinition, JobSpec, Json as _, Mapping, Program, Timestamp};
use tidemill_store::rows::JobRow;
use tidemill_store::{ReadTables, Tables};

use super::{BatchView, View};
use crate::Problem;

/// A job: what it was written with, and what became of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobView {
    #[serde(flatten)]
    pub(crate) row: View<JobRow>,
    #[serde(flatten)]
    pub(crate) written: WrittenJob,
}

/// The fields of a job file, but the parents, which are shown by their ids. What was not written has its default, or is
/// null.
#[derive(Debug)]
pub(crate) struct WrittenJob(JobSpec);

const SHOWN_ELSEWHERE: [&str; 2] = ["parents", "previous_name"];

impl Serialize for WrittenJob {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut written = serde_json::to_value(&self.0).map_err(S::Error::custom)?;
        let shown = JobSpec::fields().iter().filter(|field| !SHOWN_ELSEWHERE.contains(&field.name.as_str()));
        to.collect_map(shown.map(|field| {
            let value = written[&field.name].take();
            (&field.name, if value.is_null() { field.schema["default"].clone() } else { value })
        }))
    }
}

impl JsonSchema for WrittenJob {
    fn schema_name() -> Cow<'static, str> {
        "WrittenJob".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = JobSpec::json_schema(generator);
        let object = schema.ensure_object();
        object.remove("additionalProperties");
        for beside in SHOWN_ELSEWHERE {
            object.get_mut("properties").and_then(Value::as_object_mut).and_then(|all| all.remove(beside));
        }
        schema
    }
}

impl JobView {
    /// Of a row, and of the definition in it.
    pub(crate) fn new(row: JobRow, spec: JobSpec) -> Self {
        Self { written: WrittenJob(JobSpec { enabled: row.enabled, ..spec }), row: View(row) }
    }
}

/// A job with its parents, its next fire and its newest batch.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobDetail {
    #[serde(flatten)]
    pub(crate) job: JobView,
    /// The jobs that must have succeeded first.
    pub(crate) parents: Vec<ParentView>,
    /// When its schedule fires next, as its shard has stored it.
    pub(crate) next_fire_at: Option<Timestamp>,
    /// For which logical time that will be.
    pub(crate) next_logical_time: Option<Timestamp>,
    /// Its newest batch.
    pub(crate) newest_batch: Option<BatchView>,
}

/// A parent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ParentView {
    /// Which job.
    pub(crate) job: i64,
    /// Its name, `group/name`.
    pub(crate) name: Option<String>,
    /// For which of its logical times.
    pub(crate) mapping: Mapping,
}

/// What a job will run, and when.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PreviewView {
    /// IANA zone in which times are written: that of its schedule, or of the one that it follows; else UTC.
    pub(crate) zone: String,
    /// The calendar that the schedule keeps to, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) calendar: Option<String>,
    /// The nearest ancestor with a schedule, `group/name`, for a job without one: it has that one's logical times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) follows: Option<String>,
    /// The next fires, or the one logical time that was asked for. Where no schedule is followed and no time was asked
    /// for, what a run by hand at the present time would run.
    pub(crate) fires: Vec<PreviewRun>,
}

/// What is run for one logical time, all templates resolved. What only a batch has is that of batch 0, run 0 and
/// attempt 1; values that parents pass on stay as they are written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PreviewRun {
    /// When it is due, on the clock of the zone; null where no schedule of its own makes it due.
    pub(crate) at: Option<String>,
    /// For which logical time, on the clock of the zone.
    pub(crate) logical_time: String,
    /// The command as it will run; absent for a job that runs a program or nothing.
    pub(crate) command: Option<String>,
    /// What it will run, with its arguments.
    pub(crate) program: Program,
    /// Its parameters.
    pub(crate) parameters: BTreeMap<String, String>,
    /// The variables that its process has in its environment, but those that its worker adds.
    pub(crate) environment: BTreeMap<String, String>,
    /// The path that exists if it has succeeded; null: something else decides.
    pub(crate) output_path: Option<String>,
    /// What runs at its end.
    pub(crate) final_command: Option<String>,
    /// The paths that it waits for.
    pub(crate) inputs: Vec<DataPath>,
    /// The paths that it makes.
    pub(crate) outputs: Vec<DataPath>,
}

/// A job's name, `group/name`.
pub(crate) fn full_name(row: &JobRow) -> String {
    format!("{}/{}", row.group_name, row.name)
}

/// That of a job that may not be there.
pub(crate) fn name_of(tables: &dyn Tables, job: i64) -> Result<Option<String>, tidemill_store::Error> {
    Ok(tables.job(job)?.as_ref().map(full_name))
}

pub(crate) fn definition_of(row: &JobRow) -> Result<JobDefinition, Problem> {
    JobDefinition::from_json(row.definition.as_bytes()).map_err(|error| {
        tracing::error!(job = row.id, %error, "the definition in the row of a job cannot be read");
        Problem::internal("the definition of the job cannot be read")
    })
}
