//! A job as people write it: in YAML files, REST bodies and `ApplyJobs`.

mod parent;
mod schedule;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::value::MapDeserializer;
use tidemill_derive::vocabulary;

pub use self::parent::ParentSpec;
pub use self::schedule::ScheduleInput;
use self::schedule::UTC;
use crate::external_dependency::{MAX_CODE_BYTES, MAX_NEEDS};
use crate::unreadable::{plain, read};
use crate::{
    Account, Backoff, CalendarUse, ExitCodes, FieldError, GroupName, JobName, JobType, Limits,
    MissedRunsInput, OnParentFailure, Overlap, PathSpec, PoolUse, Priority, Program, RunIf, SuccessCheck,
    TimeOfDay, Timestamp, WorkerLabel, bounds,
};

/// Fields of a job that the catalogue of requirements names and that have no effect yet. They are refused
/// by name, never accepted and ignored.
pub const NOT_BUILT: &[&str] = &["alarms"];

/// A file of jobs.
#[vocabulary]
#[serde(deny_unknown_fields)]
pub struct SpecFile {
    /// The jobs.
    pub jobs: Vec<JobSpec>,
}

fn minute() -> u32 {
    60
}
fn default_priority() -> Priority {
    Priority::DEFAULT
}

/// A job as written.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Its name, unique in its group.
    #[schemars(extend("examples" = ["daily-report"]))]
    pub name: JobName,
    /// The group it belongs to, whose workers run it.
    #[schemars(extend("examples" = ["default"]))]
    pub group: GroupName,
    /// The name of the job of the same group that this one has been until now: it is renamed, and keeps its id, its
    /// history and its run numbers. Has no effect once that is done.
    #[schemars(extend("examples" = ["report"]))]
    pub previous_name: Option<JobName>,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = bounds::TEXT_BYTES), regex(pattern = bounds::NO_ZERO_PATTERN))]
    #[schemars(extend("default" = "", "examples" = ["ann"]))]
    pub owner: String,
    /// Application that defines it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = bounds::TEXT_BYTES), regex(pattern = bounds::NO_ZERO_PATTERN))]
    #[schemars(extend("default" = "", "examples" = ["billing"]))]
    pub app_name: String,
    /// What kind of program it is.
    #[serde(rename = "type")]
    #[schemars(extend("examples" = ["shell"]))]
    pub job_type: JobType,
    /// Script text; either this or `program`.
    #[schemars(length(max = bounds::COMMAND_BYTES), regex(pattern = bounds::NO_ZERO_PATTERN))]
    #[schemars(extend("examples" = ["report --day ${yyyy-MM-dd} --city \"$TIDEMILL_PARAM_CITY\""]))]
    pub command: Option<String>,
    /// Path of a program on the worker; either this or `command`.
    #[schemars(length(max = bounds::COMMAND_BYTES), regex(pattern = bounds::NOT_BLANK_PATTERN))]
    #[schemars(extend("examples" = ["/opt/report/run.py"]))]
    pub program: Option<String>,
    /// Main class of the program; only beside `program`.
    #[schemars(length(max = bounds::COMMAND_BYTES), regex(pattern = bounds::NOT_BLANK_PATTERN))]
    #[schemars(extend("examples" = ["org.example.Report"]))]
    pub class: Option<String>,
    /// Arguments of the program or of the command, whose first is `$1` in a shell script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(max = bounds::COMMAND_BYTES), regex(pattern = bounds::NO_ZERO_PATTERN)))]
    #[schemars(extend("default" = [], "examples" = [["--day", "${yyyy-MM-dd}"]]))]
    pub arguments: Vec<String>,
    /// Parameters of every batch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = bounds::PARAMETERS, "propertyNames" = bounds::parameter_name()))]
    #[schemars(extend("default" = {}, "examples" = [{"city": "Trier"}]))]
    pub parameters: BTreeMap<String, String>,
    /// Free classification.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = bounds::TEXT_BYTES), regex(pattern = bounds::NO_ZERO_PATTERN))]
    #[schemars(extend("default" = "", "examples" = ["finance"]))]
    pub business_type: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = bounds::TEXT_BYTES), regex(pattern = bounds::NO_ZERO_PATTERN))]
    #[schemars(extend("default" = "", "examples" = ["read by the controllers at 07:00"]))]
    pub comment: String,
    /// 0 (highest) to 9; default 5.
    #[serde(default = "default_priority")]
    #[schemars(extend("examples" = [2]))]
    pub priority: Priority,
    /// When; absent: after its parents, or only by hand.
    #[schemars(extend("examples" = [{"period": "day", "zone": "Europe/Berlin"}]))]
    pub schedule: Option<ScheduleInput>,
    /// After what.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "crate::parent_list::names")]
    #[schemars(with = "Vec<crate::parent_list::ParentSpecsElement>")]
    #[schemars(extend("default" = [], "examples" = [["hourly-load", {"job": "other/rates", "mapping": "latest"}]]))]
    pub parents: Vec<ParentSpec>,
    /// Also after the own previous batch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub depends_on_past: bool,
    /// What becomes of a batch when a parent failed for good: wait (default), fail, skip or run.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    #[schemars(extend("default" = "wait", "examples" = ["skip"]))]
    pub on_parent_failure: OnParentFailure,
    /// When a batch runs, once its parents have ended: on success (default) or on failure.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    #[schemars(extend("default" = "success", "examples" = ["failure"]))]
    pub run_if: RunIf,
    /// Batches assigned or running at once; default 1.
    #[serde(default = "crate::one")]
    #[schemars(range(min = 1, max = bounds::CONCURRENT))]
    #[schemars(extend("examples" = [3]))]
    pub max_concurrent: u32,
    /// Further attempts after a failed one; default 0.
    #[serde(default)]
    #[schemars(range(max = bounds::RETRIES))]
    #[schemars(extend("examples" = [2]))]
    pub retries: u32,
    /// Seconds from the end of an attempt to the next; default 60.
    #[serde(default = "minute")]
    #[schemars(range(max = bounds::RETRY_INTERVAL_S))]
    #[schemars(extend("examples" = [120]))]
    pub retry_interval_s: u32,
    /// How the pause between attempts grows; absent: it does not.
    #[schemars(extend("examples" = [{"factor": 1.5, "max_interval_s": 1800, "jitter": true}]))]
    pub retry_backoff: Option<Backoff>,
    /// Exit codes that mean more than *failed*.
    #[schemars(extend("examples" = [{"no_retry": [64], "skip": [75]}]))]
    pub exit_codes: Option<ExitCodes>,
    /// Runs only on the worker of this host.
    #[schemars(length(min = 1, max = bounds::SHORT_BYTES), regex(pattern = bounds::HOST_PATTERN))]
    #[schemars(extend("examples" = ["gpu-1"]))]
    pub host: Option<String>,
    /// Minutes from the base time of a batch's period before which it is not assigned; default none.
    #[schemars(range(max = bounds::EARLIEST_START_MINUTES))]
    #[schemars(extend("examples" = [90]))]
    pub earliest_start_minutes: Option<u32>,
    /// Memory of a worker that each batch has for itself while it is assigned or runs, MiB.
    #[schemars(range(min = 1, max = bounds::MEMORY_MB))]
    #[schemars(extend("examples" = [2048]))]
    pub memory_mb: Option<u32>,
    /// What all processes of an attempt may use together: `memory_mb` (beyond it they are ended), `memory_alarm_mb` (beyond it an alarm
    /// is raised), `cpu_percent` (100 is one processor), `processes`, `open_files` of each process, and `output_mb` that the
    /// log keeps of each stream. Its run time is `execution_timeout_s`. The group may set defaults, and the most that a job may name.
    /// Not to be confused with the field `memory_mb`, which keeps memory of the worker free for a batch.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    #[schemars(extend("default" = {}, "examples" = [{"memory_mb": 4096, "cpu_percent": 200, "processes": 256}]))]
    pub limits: Limits,
    /// Runs only on workers of its group that have this label.
    #[schemars(extend("examples" = ["gpu"]))]
    pub worker_label: Option<WorkerLabel>,
    /// The account that attempts run as, which the group has to allow the owner; absent: the worker's own.
    #[schemars(extend("examples" = ["etl"]))]
    pub run_as: Option<Account>,
    /// How `TIDEMILL_LOGICAL_TIME` and `${logical_time}` are written, such as `yyyyMMddHH`; default RFC 3339.
    #[schemars(length(min = 1, max = bounds::TIME_FORMAT_BYTES), regex(pattern = bounds::NO_ZERO_PATTERN))]
    #[schemars(extend("examples" = ["yyyyMMddHH"]))]
    pub logical_time_format: Option<String>,
    /// When an attempt has succeeded: `exit_code` (default), `{output_path: path}`, or `user_code`.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    #[schemars(extend("default" = "exit_code", "examples" = [{"output_path": "/data/report/${yyyyMMdd}"}]))]
    pub success_check: SuccessCheck,
    /// Script text that runs once a batch has ended for good, with its result in the environment.
    #[schemars(length(max = bounds::COMMAND_BYTES), regex(pattern = bounds::NOT_BLANK_PATTERN))]
    #[schemars(extend("examples" = ["rm -rf /scratch/report-$TIDEMILL_BATCH"]))]
    pub final_command: Option<String>,
    /// Seconds that an attempt usually runs; an alarm is raised for one that runs more than twice that long, and
    /// longer than ten minutes.
    #[schemars(range(min = 1, max = bounds::TIMEOUT_S))]
    #[schemars(extend("examples" = [600]))]
    pub expected_duration_s: Option<u32>,
    /// Pools, at most 8, of which each batch takes slots while it is assigned or runs: names, or `{name, weight}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::POOL_USES))]
    #[schemars(extend("default" = [], "examples" = [["licences", {"name": "warehouse", "weight": 2}]]))]
    pub pools: Vec<PoolUse>,
    /// What to do about base times missed in an outage; default all. With a bound: `{policy: all,
    /// max_lateness_s: 3600}`.
    #[serde(default)]
    #[schemars(extend("examples" = [{"policy": "all", "max_lateness_s": 3600}]))]
    pub missed_runs: MissedRunsInput,
    // ---- how its schedule is followed
    /// What happens to a fire while an earlier scheduled batch is unfinished; default queue.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    #[schemars(extend("default" = "queue", "examples" = ["skip"]))]
    pub overlap: Overlap,
    /// Nothing is due before this instant, RFC 3339 with its offset.
    #[schemars(extend("examples" = ["2026-01-01T00:00:00.000Z"]))]
    pub valid_from: Option<Timestamp>,
    /// Nothing is due at this instant or after it, RFC 3339 with its offset.
    #[schemars(extend("examples" = ["2027-01-01T00:00:00.000Z"]))]
    pub valid_until: Option<Timestamp>,
    /// The days of a calendar on which it runs.
    #[schemars(extend("examples" = [{"name": "de", "on": "holidays", "shift": "next"}]))]
    pub calendar: Option<CalendarUse>,
    /// Seconds from a batch's base time after which, if it still waits, it is marked and an alarm is raised.
    #[schemars(range(min = 1, max = bounds::TIMEOUT_S))]
    #[schemars(extend("examples" = [3600]))]
    pub dependency_timeout_s: Option<u32>,
    /// Seconds from a batch's base time after which, unless it has succeeded, it is marked and an alarm is raised.
    #[schemars(range(min = 1, max = bounds::TIMEOUT_S))]
    #[schemars(extend("examples" = [7200]))]
    pub output_timeout_s: Option<u32>,
    /// Time of day, `HH:MM:SS` in the job's zone: at the first one after a batch's base time, unless the batch
    /// has succeeded, it is marked and an alarm is raised.
    #[schemars(extend("examples" = ["07:00:00"]))]
    pub not_successful_by: Option<TimeOfDay>,
    /// Seconds that an attempt may run; one that runs longer is ended, TERM first, and counts as failed. Default: what its type,
    /// its group or the group's maximum says in `limits.run_time_s`, or none.
    #[schemars(range(min = 1, max = bounds::TIMEOUT_S))]
    #[schemars(extend("examples" = [1800]))]
    pub execution_timeout_s: Option<u32>,
    /// End a batch that still waits or is not successful at one of its times; else it may still succeed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub cancel_on_timeout: bool,
    // ---- external dependencies waited for
    /// Paths that must exist before a batch runs, at most 64: texts, or `{path, mark}` with the name of a file
    /// in it, as `_SUCCESS`. Templates are resolved for the batch when it is generated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NEEDS))]
    #[schemars(extend("default" = [], "examples" = [["/data/load/${yyyyMMdd}", {"path": "hdfs://lake/rates/${yyyyMMdd}", "mark": "_SUCCESS"}]]))]
    pub inputs: Vec<PathSpec>,
    /// Paths that it makes, at most 64, written alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NEEDS))]
    #[schemars(extend("default" = [], "examples" = [["/data/report/${yyyyMMdd}"]]))]
    pub outputs: Vec<PathSpec>,
    /// Codes, at most 64, each of which a third party must have reported ready for the batch's logical time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NEEDS), inner(length(min = 1, max = MAX_CODE_BYTES), regex(pattern = bounds::VISIBLE_PATTERN)))]
    #[schemars(extend("default" = [], "examples" = [["rates-ready"]]))]
    pub third_party: Vec<String>,
    /// Ask the quality service once all else is met, and run only if it allows it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub quality_gate: bool,
    /// Whether it generates batches; default true.
    #[serde(default = "crate::yes")]
    #[schemars(extend("examples" = [false]))]
    pub enabled: bool,
}

impl JobSpec {
    /// Its classification, which grants can be on; empty: none.
    #[must_use]
    pub fn class(&self) -> &str {
        &self.business_type
    }

    /// Everything that bounds its attempts.
    #[must_use]
    pub fn all_limits(&self) -> Limits {
        Limits { run_time_s: self.execution_timeout_s, ..self.limits }
    }

    /// A job with nothing but what every job has.
    pub fn new(group: &GroupName, name: &JobName, job_type: &JobType) -> Self {
        let given = [("group", group.as_str()), ("name", name.as_str()), ("type", job_type.as_str())];
        let given = MapDeserializer::<_, serde::de::value::Error>::new(given.into_iter());
        Self::deserialize(given).expect("every other field has a default")
    }

    /// The same job in the form that a definition holds. Parents stand beside it by
    /// their ids; whether it is enabled changes without a new version; `previous_name` has had its effect. What can be
    /// written in two ways is written in one.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        self.parents.clear();
        self.previous_name = None;
        self.enabled = true;
        if let Some(schedule) = &mut self.schedule {
            schedule.zone.get_or_insert_with(|| UTC.to_owned());
        }
        self.exit_codes.take_if(|codes| *codes == ExitCodes::default());
        self.pools.sort();
        self
    }

    /// What an attempt runs.
    pub fn to_run(&self) -> Program {
        match (&self.command, &self.program) {
            (Some(text), _) if self.arguments.is_empty() => Program::Command(text.clone()),
            (Some(text), _) => Program::Script { text: text.clone(), arguments: self.arguments.clone() },
            (None, Some(path)) => Program::Path {
                path: path.clone(),
                class: self.class.clone(),
                arguments: self.arguments.clone(),
            },
            (None, None) => Program::None,
        }
    }

    /// The texts that may hold templates, each with the field it stands in, but parameters and paths.
    pub fn templates(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let output_path = match &self.success_check {
            SuccessCheck::OutputPath(path) => Some(path),
            SuccessCheck::ExitCode | SuccessCheck::UserCode => None,
        };
        let texts = [
            ("command", self.command.as_ref()),
            ("program", self.program.as_ref()),
            ("class", self.class.as_ref()),
            ("success_check", output_path),
            ("final_command", self.final_command.as_ref()),
        ];
        let texts = texts.into_iter().filter_map(|(field, text)| Some((field, text?.as_str())));
        texts.chain(self.arguments.iter().map(|argument| ("arguments", argument.as_str())))
    }

    /// The paths that it waits for or makes, which may hold templates, each with the field it stands in.
    pub fn paths(&self) -> impl Iterator<Item = (String, &str)> {
        let of = |list: &'static str, paths| {
            let paths: std::slice::Iter<'_, PathSpec> = paths;
            paths.enumerate().map(move |(at, path)| (format!("{list}[{at}]"), path.path()))
        };
        of("inputs", self.inputs.iter()).chain(of("outputs", self.outputs.iter()))
    }

    /// The same job, with something else to run.
    #[must_use]
    pub fn running(mut self, program: Program) -> Self {
        (self.command, self.program, self.class, self.arguments) = match program {
            Program::Command(text) => (Some(text), None, None, Vec::new()),
            Program::Script { text, arguments } => (Some(text), None, None, arguments),
            Program::Path { path, class, arguments } => (None, Some(path), class, arguments),
            Program::None => (None, None, None, Vec::new()),
        };
        self
    }

    /// Whether it says what its batches do when a parent failed for good (BYD-18).
    pub fn has_failure_rule(&self) -> bool {
        self.on_parent_failure != OnParentFailure::Wait || self.run_if != RunIf::Success
    }

    /// Whether its batches wait for the end of their parents, and not for success.
    pub fn waits_for_ends(&self) -> bool {
        self.on_parent_failure == OnParentFailure::Run || self.run_if == RunIf::Failure
    }

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
            let given = object.get(*field).map(plain).unwrap_or_default();
            return Err(FieldError::new(
                *field,
                given,
                "has no effect in this version, so it is refused; remove the field",
            ));
        }
        read(value, "job")
    }
}

#[cfg(test)]
mod tests;
