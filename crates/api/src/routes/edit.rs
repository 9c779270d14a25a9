//! One definition, read and written back, so that two people who edit it do not overwrite each other (API-10).
//!
//! A definition's tag says its version and whether it is enabled. Who writes shows the tag that was read. The catalogue's owner says, with
//! its plan, which revision of all definitions that is for, and what the tag is there; the commit counts for that revision alone. So between the look
//! and the write nothing can come, and no owner has to know of tags.

use std::time::Instant;

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;
use tidemill_model::{
    ApplyPlan, GroupName, JobChangeKind, JobDefinition, JobName, JobSpec, Level, Permission, PlannedChange,
};
use tidemill_store::rows::JobRow;

use super::apply::names_of;
use super::apply_body::{Applied, ApplyRequest};
use super::jobs::{job_row, readable};
use super::level;
use super::requests::{Reader, Writer};
use super::staged::{PATIENCE, PAUSE, is_overtaken};
use crate::Problem;
use crate::app::App;
use crate::body::Body;
use crate::job_types;
use crate::object::Object;
use crate::params::id;
use crate::propagation;
use crate::spec::spec_of;
use crate::view::{definition_of, full_name};

/// Of what `If-Match` shows.
pub(crate) const TAG_PATTERN: &str = r#"^(\*|"[0-9]+(-disabled)?")$"#;

/// An answer with the tag of the definition.
type Tagged<T> = Result<(StatusCode, HeaderMap, Json<T>), Problem>;

/// What the tag of a definition says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag {
    version: u32,
    enabled: bool,
}

impl Tag {
    fn header(self) -> HeaderMap {
        let text = format!("\"{}{}\"", self.version, if self.enabled { "" } else { "-disabled" });
        let value = HeaderValue::try_from(text).expect("digits and letters fit into a header");
        HeaderMap::from_iter([(header::ETAG, value)])
    }

    /// What the job is before a planned change of it.
    fn before(planned: &PlannedChange, wanted: &JobSpec) -> Self {
        let change = &planned.change;
        let switches = change.fields.iter().any(|field| field == "enabled");
        let is_new_version =
            change.change == JobChangeKind::Changed && change.fields.iter().any(|field| field != "enabled");
        Self { version: change.version - u32::from(is_new_version), enabled: wanted.enabled != switches }
    }

    /// What the job is after it.
    fn after(planned: &PlannedChange, wanted: &JobSpec) -> Self {
        Self { version: planned.change.version, enabled: wanted.enabled }
    }
}

/// The definition as it could have been written.
pub(super) async fn get(by: Reader, Path(text): Path<String>) -> Tagged<JobSpec> {
    let row = readable(&by.app, &by.caller, &text).await?;
    let definition = named(&row)?;
    let tag = Tag { version: definition.version, enabled: row.enabled };
    let parents = definition.parents.iter().map(|parent| parent.job.0).collect();
    let names = by.app.read(move |tables| names_of(tables, parents)).await?;
    let spec = spec_of(definition, row.enabled, |job| names.get(&job.0).cloned());
    Ok((StatusCode::OK, tag.header(), Json(spec)))
}

/// The definition of a job that has a name; others are written by the call that submits them.
fn named(row: &JobRow) -> Result<JobDefinition, Problem> {
    if row.submitted || row.unnamed {
        let rule = "is known by its id alone and has no definition to edit; submit another one";
        return Err(Problem::field("id", row.id, rule));
    }
    definition_of(row)
}

/// Gives the job this definition, if its tag is still the one that `If-Match` shows.
pub(super) async fn put(by: Writer, Path(text): Path<String>, Body(body): Body) -> Tagged<Applied> {
    let row = job_row(&by.app, id("job", &text)?).await?;
    let right = by.caller.may(Permission::Edit, &Object::of_row(&row))?;
    let shown = shown(&by.headers)?;
    let (job, unserved) = read(&by.app, &row, body).await?;
    let write = by.write(right)?;
    let request = ApplyRequest::of_one(job);
    let wanted = &request.jobs[0];
    let deadline = Instant::now() + PATIENCE;
    for round in 0.. {
        let plan = request.plan(&by.app, &write.right).await.map_err(alone)?;
        let planned = only(&plan, row.id)?;
        let tag = Tag::before(planned, wanted);
        // Whoever wants what is there already is told so, also where that is their own write, of which the answer was lost.
        if let Some(shown) = &shown
            && *shown != tag.header()[header::ETAG]
            && planned.change.change != JobChangeKind::Unchanged
        {
            return Err(changed_meanwhile(&row, tag));
        }
        let tag = Tag::after(planned, wanted);
        match request.carry_out(&write, &plan, round).await? {
            Ok(position) => {
                let concerned = tidemill_cluster::propagation::by_changes(&plan.changes);
                let mut applied = Applied::of(plan, Some(position));
                applied.late = propagation::wait(&by.app, concerned, position).await;
                applied.warnings.extend(unserved);
                return Ok((applied.late.status(), tag.header(), Json(applied)));
            }
            Err(rejection) if is_overtaken(&rejection) && Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(rejection) => return Err(alone(rejection.into())),
        }
    }
    unreachable!("the loop ends by its deadline")
}

/// The definition that is to be, of the job that the path names, and what people have to know of its type.
async fn read(app: &App, row: &JobRow, body: Value) -> Result<(JobSpec, Vec<String>), Problem> {
    let before = named(row)?;
    let mut job = JobSpec::from_value(body).map_err(|error| Problem::fields(vec![error]))?;
    check_place(row, &job)?;
    if let Some(schedule) = &mut job.schedule {
        schedule.zone.get_or_insert_with(|| app.config.default_zone.clone());
    }
    if !job.limits.is_empty() {
        level::allows(app, Level::LIMITS).await?;
    }
    let of_job =
        [job_types::Named { field: "type".to_owned(), group: job.group.as_str(), job_type: &job.job_type }];
    // A type that stays was allowed before.
    let unserved = job_types::check(app, &of_job, before.spec.job_type == job.job_type).await?;
    Ok((job, unserved))
}

/// An error of the only job of an apply, as one of a job alone.
fn alone(mut problem: Problem) -> Problem {
    for error in &mut problem.errors {
        if let Some(field) = error.field.strip_prefix("jobs[0].") {
            error.field = field.to_owned();
        }
    }
    problem
}

/// The tag that the writer has seen; none for `*`.
fn shown(headers: &HeaderMap) -> Result<Option<HeaderValue>, Problem> {
    let Some(shown) = headers.get(header::IF_MATCH) else {
        let rule = "must be the ETag of the definition that was read, so that nobody's change is overwritten; * for whatever it is";
        let mut problem =
            Problem::new(StatusCode::PRECONDITION_REQUIRED, "if_match_required", format!("If-Match {rule}"));
        problem.errors = vec![tidemill_model::FieldError::new("If-Match", "", rule)];
        return Err(problem);
    };
    Ok(Some(shown.clone()).filter(|shown| shown != "*"))
}

/// A definition is of the job that the path names.
fn check_place(row: &JobRow, job: &JobSpec) -> Result<(), Problem> {
    let (group, name) = (&*row.group_name, &*row.name);
    if JobName::as_str(&job.name) != name {
        let rule = format!("must be {name}, as the job's; rename it by /api/jobs/{}/rename", row.id);
        return Err(Problem::field("name", &job.name, rule));
    }
    if GroupName::as_str(&job.group) != group {
        let rule = format!("must be {group}, as the job's; move it by /api/jobs/{}/move", row.id);
        return Err(Problem::field("group", &job.group, rule));
    }
    Ok(())
}

/// The change, where it is of this job: a plan goes by names.
fn only(plan: &ApplyPlan, job: i64) -> Result<&PlannedChange, Problem> {
    match &plan.changes[..] {
        [planned] if planned.change.change != JobChangeKind::Added && planned.change.job.0 == job => {
            Ok(planned)
        }
        _ => Err(Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "changed_meanwhile",
            "the job was deleted or renamed since it was read; read it again",
        )),
    }
}

fn changed_meanwhile(row: &JobRow, is: Tag) -> Problem {
    let tag = is.header();
    let tag = tag[header::ETAG].to_str().unwrap_or_default();
    let detail = format!(
        "{} was changed since it was read: its ETag is {tag} now; read it again, and make the change there",
        full_name(row)
    );
    Problem::new(StatusCode::PRECONDITION_FAILED, "changed_meanwhile", detail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidemill_model::{JobChange, JobId};

    use super::*;

    /// API-10: a job of the same name that took the place of the one that was read is not written over.
    #[test]
    fn plan_for_another_job_of_the_name_is_refused() {
        let plan = |job, change| {
            let change =
                JobChange { job: JobId(job), name: "g/a".to_owned(), change, version: 2, fields: Vec::new() };
            let changes = vec![PlannedChange { change, diff: Vec::new() }];
            ApplyPlan { revision: 1, changes, warnings: Vec::new() }
        };
        assert!(only(&plan(1, JobChangeKind::Changed), 1).is_ok());
        for other in [plan(2, JobChangeKind::Changed), plan(1, JobChangeKind::Added)] {
            assert_eq!(only(&other, 1).unwrap_err().status, StatusCode::PRECONDITION_FAILED);
        }
    }

    /// API-10: the tag of before follows from the plan alone.
    #[test]
    fn tag_of_before_follows_from_the_plan() {
        let job = |enabled: bool| {
            JobSpec::from_value(json!({"name": "a", "group": "g", "type": "noop", "enabled": enabled}))
                .unwrap()
        };
        let planned = |change, version, fields: &[&str]| PlannedChange {
            change: JobChange {
                job: JobId(1),
                name: "g/a".to_owned(),
                change,
                version,
                fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            },
            diff: Vec::new(),
        };
        for (change, version, fields, enabled, before) in [
            (JobChangeKind::Unchanged, 3, &[][..], true, (3, true)),
            (JobChangeKind::Changed, 4, &["command"], true, (3, true)),
            (JobChangeKind::Changed, 3, &["enabled"], false, (3, true)),
            (JobChangeKind::Changed, 4, &["command", "enabled"], true, (3, false)),
        ] {
            let tag = Tag::before(&planned(change, version, fields), &job(enabled));
            assert_eq!((tag.version, tag.enabled), before, "{fields:?}");
        }
        assert_eq!(Tag { version: 3, enabled: false }.header()[header::ETAG], "\"3-disabled\"");
    }
}
