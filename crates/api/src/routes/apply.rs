use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{FieldError, JobId, JobSpec, Level, Permission};
use tidemill_store::rows::JobRow;
use tidemill_store::{JobFilter, ReadTables, Tables};

use crate::Problem;
use crate::body::LargeBody;
use crate::job_types::{self, Named};
use crate::object::Object;
use crate::parameter::Asked;
use crate::params::Params;
use crate::propagation;
use crate::rights::Caller;
use crate::spec::spec_of;
use crate::view::{Answered, Settled, definition_of, for_each_row};

use super::apply_body::{self, Applied};
use super::level;
use super::requests::{Reader, Writer};

pub(super) const DRY_RUN: Asked<bool> =
    Asked::flag("dry_run", "`true`: only say what would change; nothing is done.");
pub(super) const GROUP: Asked<String> = Asked::text("group", "Of this group; absent: of all.");

/// Adds and changes jobs, all or none (JOB-5). When it answers 200, whatever is done next finds them in effect in every
/// group, however many it goes through.
pub(super) async fn apply(by: Writer, params: Params, LargeBody(body): LargeBody) -> Settled<Applied> {
    let dry_run = params.flag(DRY_RUN)?;
    let request = apply_body::read(&body, &by.app.config.default_zone)?;
    drop(body);
    let right = by.caller.to_define()?;
    check_groups(&by.caller, &request.jobs)?;
    for group in &request.prune {
        // What is not in the file goes, whoever owns it.
        by.caller.may(Permission::Edit, &Object::group_called(group.as_str()))?;
    }
    let unserved = job_types::check(&by.app, &types_of(&request.jobs), request.allow_unknown_type).await?;
    let write = by.write(right)?;
    if request.jobs.iter().any(|job| !job.limits.is_empty()) {
        level::allows(&by.app, Level::LIMITS).await?;
    }
    if dry_run {
        let mut applied = Applied::of(request.plan(&by.app, &write.right).await?, None);
        applied.warnings.extend(unserved);
        return Ok((StatusCode::OK, Json(applied)));
    }
    let (mut applied, position) = request.apply(&by.app, &write).await?;
    applied.late =
        propagation::wait(&by.app, tidemill_cluster::propagation::by_changes(&applied.changes), position)
            .await;
    if !applied.late.pending_groups.is_empty() {
        applied.warnings.push(propagation::warning(&applied.late.pending_groups));
    }
    applied.warnings.extend(unserved);
    Ok((applied.late.status(), Json(applied)))
}

/// Whoever may not reach a group is told what those are told who name none.
fn check_groups(caller: &Caller, jobs: &[JobSpec]) -> Result<(), Problem> {
    let jobs = jobs.iter().enumerate().filter(|(_, job)| !caller.defines_in(job.group.as_str()));
    let error = |(index, job): (usize, &JobSpec)| {
        FieldError::new(format!("jobs[{index}].group"), &job.group, "there is no such group")
    };
    let errors: Vec<FieldError> = jobs.map(error).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::fields(errors).foreign()) }
}

/// The type of each job, with its place.
fn types_of(jobs: &[JobSpec]) -> Vec<Named<'_>> {
    let jobs = jobs.iter().enumerate();
    jobs.map(|(index, job)| Named {
        field: format!("jobs[{index}].type"),
        group: job.group.as_str(),
        job_type: &job.job_type,
    })
    .collect()
}

/// Jobs as they could have been written.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Exported {
    /// `apply` takes them, and changes nothing.
    jobs: Vec<JobSpec>,
}

/// The definitions of the catalogue that have names.
pub(super) async fn export(by: Reader, params: Params) -> Answered<Exported> {
    let filter = JobFilter {
        group: params.get(GROUP)?,
        submitted: Some(false),
        reach: by.caller.seen(),
        ..JobFilter::default()
    };
    let rows = by.app.read(move |tables| named_jobs(tables, &filter)).await?;
    let definitions: Vec<_> =
        rows.iter().map(|row| Ok((definition_of(row)?, row.enabled))).collect::<Result<_, Problem>>()?;
    let mut names: Names = rows.iter().map(name).collect();
    let parents =
        definitions.iter().flat_map(|(definition, _)| definition.parents.iter().map(|parent| parent.job.0));
    let elsewhere: BTreeSet<i64> = parents.filter(|parent| !names.contains_key(parent)).collect();
    names.extend(by.app.read(move |tables| names_of(tables, elsewhere)).await?);
    let name_of = |job: JobId| names.get(&job.0).cloned();
    let jobs =
        definitions.into_iter().map(|(definition, enabled)| spec_of(definition, enabled, name_of)).collect();
    Ok(Json(Exported { jobs }))
}

type Names = BTreeMap<i64, (String, String)>;

fn name(row: &JobRow) -> (i64, (String, String)) {
    (row.id, (row.group_name.to_string(), row.name.to_string()))
}

fn named_jobs(tables: &dyn Tables, filter: &JobFilter) -> Result<Vec<JobRow>, tidemill_store::Error> {
    let mut rows = Vec::new();
    for_each_row(|request| tables.jobs(filter, request), |row| rows.push(row))?;
    rows.retain(|row: &JobRow| !row.unnamed);
    Ok(rows)
}

/// The names of jobs.
pub(super) fn names_of(tables: &dyn Tables, jobs: BTreeSet<i64>) -> Result<Names, tidemill_store::Error> {
    let mut names = Names::new();
    for job in jobs {
        names.extend(tables.job(job)?.as_ref().map(name));
    }
    Ok(names)
}
