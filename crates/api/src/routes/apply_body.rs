//! What an `apply` is given and gives, and its bounds. Its body is read job by job: nothing is kept of a job but its definition, and the first job beyond the bound
//! ends it (OPS-7).

use std::fmt;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidemill_model::{ApplyPlan, FieldError, GroupName, JobSpec, PlannedChange};

use crate::Problem;
use crate::body::{bad_json, parse};
use crate::position::JournalPosition;
use crate::propagation::Late;
use crate::unique::{Budget, MAX_DEPTH, Reader, check_name};

/// Jobs that one `apply` may name.
const MAX_JOBS: usize = 40_000;
/// Bad jobs that are named at once.
const MAX_ERRORS: usize = 20;

/// Jobs to be added and changed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApplyRequest {
    /// As written; at most 40,000.
    pub(super) jobs: Vec<JobSpec>,
    /// Also delete the jobs of these groups that are not named.
    #[serde(default)]
    pub(super) prune: Vec<GroupName>,
    /// End what is unfinished of jobs that are deleted. Otherwise nothing of this is applied while one of them
    /// has an unfinished batch.
    #[serde(default)]
    pub(super) cancel: bool,
    /// Delete jobs that others name as parent, too: these keep their definitions, and their batches go on waiting.
    #[serde(default)]
    pub(super) orphan_children: bool,
    /// Take jobs of types that neither the configuration nor any worker knows, whose batches wait until a worker
    /// does. Otherwise they are refused.
    #[serde(default)]
    pub(super) allow_unknown_type: bool,
}

impl ApplyRequest {
    /// One job, and nothing else.
    pub(super) fn of_one(job: JobSpec) -> Self {
        Self {
            jobs: vec![job],
            prune: Vec::new(),
            cancel: false,
            orphan_children: false,
            allow_unknown_type: false,
        }
    }
}

/// What `apply` did, or would do.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Applied {
    /// Job by job, in the order given, unchanged ones too; then the deleted ones.
    pub(super) changes: Vec<PlannedChange>,
    /// For people.
    pub(super) warnings: Vec<String>,
    /// Give this as `at_least` to reads that must show it. Absent for a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<String>,
    /// How far it is.
    #[serde(flatten)]
    pub(super) late: Late,
}

impl Applied {
    pub(super) fn of(plan: ApplyPlan, position: Option<JournalPosition>) -> Self {
        let position = position.map(|position| position.to_string());
        Self { changes: plan.changes, warnings: plan.warnings, position, late: Late::default() }
    }
}

pub(super) fn too_large(value: impl ToString, rule: String) -> Problem {
    let mut problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", rule.as_str());
    problem.errors = vec![FieldError::new("jobs", value, rule)];
    problem
}

/// Reads it; a schedule without a zone gets the configured one.
pub(super) fn read(body: &[u8], default_zone: &str) -> Result<ApplyRequest, Problem> {
    let mut reading =
        Reading { default_zone, expects: Expects::Object, jobs: Vec::new(), errors: Vec::new(), end: None };
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = json.deserialize_any(Whole(&mut reading)).and_then(|rest| json.end().map(|()| rest));
    let rest = match (read, reading.end) {
        (Ok(rest), _) => rest,
        (Err(_), Some(End::TooMany)) => {
            let rule = format!("one apply takes at most {MAX_JOBS} jobs; split it");
            return Err(too_large(format!("more than {MAX_JOBS}"), rule));
        }
        (Err(_), Some(End::ManyBad)) => return Err(Problem::fields(reading.errors)),
        (Err(error), None) => return Err(reading.expects.problem(body, &error)),
    };
    let mut request: ApplyRequest = parse(Value::Object(rest))?;
    if !reading.errors.is_empty() {
        return Err(Problem::fields(reading.errors));
    }
    request.jobs = reading.jobs;
    Ok(request)
}

struct Reading<'a> {
    default_zone: &'a str,
    expects: Expects,
    jobs: Vec<JobSpec>,
    errors: Vec<FieldError>,
    end: Option<End>,
}

/// Why the rest is not read.
enum End {
    TooMany,
    ManyBad,
}

/// What has to stand where it is being read.
enum Expects {
    Object,
    Jobs,
    AnyValue,
}

impl Expects {
    fn problem(&self, body: &[u8], error: &serde_json::Error) -> Problem {
        match self {
            Self::Object if error.is_data() => {
                let shown: String = String::from_utf8_lossy(body).chars().take(200).collect();
                Problem::field("body", shown, "must be a JSON object")
            }
            Self::Jobs if error.is_data() => {
                let text = error.to_string();
                let given =
                    text.strip_prefix("invalid type: ").and_then(|text| text.split(", expected").next());
                let given: String = given.unwrap_or_default().chars().take(200).collect();
                Problem::field("jobs", given, "must be an array of jobs")
            }
            Self::Object | Self::Jobs | Self::AnyValue => bad_json(error),
        }
    }
}

/// The body: all its members but the jobs, for which an empty list stands.
struct Whole<'a, 'b>(&'a mut Reading<'b>);

impl<'de> Visitor<'de> for Whole<'_, '_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let (mut rest, budget) = (Map::new(), Budget::default());
        self.0.expects = Expects::AnyValue;
        while let Some(name) = members.next_key::<String>()? {
            check_name(&rest, &name)?;
            let value = if name == "jobs" {
                members.next_value_seed(Jobs(self.0))?;
                Value::Array(Vec::new())
            } else {
                members.next_value_seed(Reader::new(MAX_DEPTH - 1, &budget))?
            };
            rest.insert(name, value);
        }
        Ok(rest)
    }
}

struct Jobs<'a, 'b>(&'a mut Reading<'b>);

impl<'de> DeserializeSeed<'de> for Jobs<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.expects = Expects::Jobs;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Jobs<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let reading = self.0;
        reading.expects = Expects::AnyValue;
        for index in 0.. {
            if elements.next_element_seed(Job { index, reading: &mut *reading })?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// The job at a place.
struct Job<'a, 'b> {
    index: usize,
    reading: &'a mut Reading<'b>,
}

impl<'de> DeserializeSeed<'de> for Job<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { index, reading } = self;
        if index == MAX_JOBS {
            reading.end = Some(End::TooMany);
            return Err(D::Error::custom("has too many jobs"));
        }
        let value = Reader::new(MAX_DEPTH - 2, &Budget::default()).deserialize(deserializer)?;
        match JobSpec::from_value(value) {
            // Where one is bad nothing is applied, so no other has to be kept.
            Ok(_) if !reading.errors.is_empty() => {}
            Ok(mut job) => {
                if let Some(schedule) = &mut job.schedule {
                    schedule.zone.get_or_insert_with(|| reading.default_zone.to_owned());
                }
                reading.jobs.push(job);
            }
            Err(error) => {
                reading.jobs = Vec::new();
                reading.errors.push(error.within(&format!("jobs[{index}]")));
            }
        }
        if reading.errors.len() == MAX_ERRORS {
            reading.end = Some(End::ManyBad);
            return Err(D::Error::custom("has many bad jobs"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> Problem {
        read(body.as_bytes(), "UTC").map(|request| request.jobs.len()).unwrap_err()
    }

    /// OPS-7: what follows the first job beyond the bound is not even looked at.
    #[test]
    fn first_job_beyond_the_bound_ends_it() {
        let job = r#"{"name":"a","group":"g","type":"noop"},"#;
        let problem = refused(&format!(r#"{{"jobs":[{}0, this is no JSON"#, job.repeat(MAX_JOBS)));
        assert_eq!((problem.status, problem.code, &*problem.errors[0].field), (413, "too_large", "jobs"));
        let full = format!(r#"{{"jobs":[{}]}}"#, job.repeat(MAX_JOBS).trim_end_matches(','));
        assert_eq!(read(full.as_bytes(), "UTC").unwrap().jobs.len(), MAX_JOBS);
    }

    /// JOB-5: bad jobs are named by their places, twenty at once, and then no more is read.
    #[test]
    fn bad_jobs_are_named_by_their_places() {
        let good = r#"{"name":"a","group":"g","type":"noop"}"#;
        let problem = refused(&format!(r#"{{"jobs":[{good},{{"name":"a","group":"g","tipe":"x"}},0]}}"#));
        let fields: Vec<_> = problem.errors.iter().map(|error| &*error.field).collect();
        assert_eq!(fields, ["jobs[1].tipe", "jobs[2].job"]);
        let problem = refused(&format!(r#"{{"jobs":[{}, this is no JSON"#, vec!["[]"; MAX_ERRORS].join(",")));
        assert_eq!((problem.status, problem.errors.len()), (422, MAX_ERRORS));
    }

    /// OPS-7: a single job cannot hold more values than a job may have, however large the body.
    #[test]
    fn one_job_has_a_bound_on_its_values() {
        let problem = refused(&format!(r#"{{"jobs":[{{"parents":[{}0]}}]}}"#, r#"{"a":0},"#.repeat(80_000)));
        assert_eq!((problem.status, problem.code), (400, "bad_json"));
        assert!(problem.detail.contains("more than 80000 values"), "{}", problem.detail);
    }

    #[test]
    fn what_is_no_apply_is_refused() {
        let told = |body: &str| {
            let problem = refused(body);
            (problem.status, problem.errors.first().map(|error| format!("{}: {}", error.field, error.value)))
        };
        assert_eq!(told("[]"), (422, Some("body: []".to_owned())));
        assert_eq!(told(r#"{"jobs":7}"#), (422, Some("jobs: integer `7`".to_owned())));
        assert_eq!(told("{}").0, 422);
        assert_eq!(told(r#"{"jobs":[],"prun":[]}"#), (422, Some("prun: []".to_owned())));
        assert_eq!(told(r#"{"jobs":[],"jobs":[]}"#).0, 400);
        assert_eq!(told(r#"{"jobs":[]} x"#).0, 400);
    }
}
