//! Reruns and cold starts that are planned: watched, approved, ended (GEN-6, GEN-7, GEN-8, BYD-3).

use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::Deserialize;
use tidemill_model::{Permission, RerunCommand, RerunId, ShardId};
use tidemill_store::rows::RerunRow;
use tidemill_store::{ReadTables, RerunFilter, Tables};

use super::requests::{Reader, Writer};
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::object::Object;
use crate::parameter::Asked;
use crate::params::{Params, id};
use crate::rights::Caller;
use crate::view::{
    Answered, List, RerunBatchView, RerunJobView, RerunJobs, RerunSkipView, RerunView, Written, full_name,
    groups_of, name_of,
};

pub(super) const KIND: Asked<String> =
    Asked::word("kind", "`rerun` or `cold_start`.", &["rerun", "cold_start"]);
pub(super) const STATE: Asked<String> = Asked::word(
    "state",
    "`planning`, `planned`, `running`, `paused`, `cancelling`, `done`, `done_with_failures`, `cancelled` or `refused`.",
    &[
        "planning",
        "planned",
        "running",
        "paused",
        "cancelling",
        "done",
        "done_with_failures",
        "cancelled",
        "refused",
    ],
);
pub(super) const RUN_STATE: Asked<String> = Asked::word(
    "state",
    "`planned`, `started`, `success`, `failed`, `killed`, `skipped` or `blocked`.",
    &["planned", "started", "success", "failed", "killed", "skipped", "blocked"],
);

/// Reruns and cold starts, the newest first; of those that the key reaches in full.
pub(super) async fn list(by: Reader, params: Params) -> Answered<List<RerunView>> {
    let filter = RerunFilter { kind: params.get(KIND)?, state: params.get(STATE)? };
    let request = params.page()?;
    let mut page = by.app.read(move |tables| tables.reruns(&filter, &request)).await?;
    page.items.retain(|row| reads(&by.caller, row));
    Ok(Json(List::from(page)))
}

async fn readable(app: &App, caller: &Caller, text: &str) -> Result<RerunRow, Problem> {
    let rerun: RerunId = id("rerun", text)?;
    let row = app.find("rerun", rerun, |tables, rerun| tables.rerun(rerun.0)).await?;
    let is_theirs = reads(caller, &row) && reaches_jobs(app, caller, &row, Permission::View).await?;
    if is_theirs { Ok(row) } else { Err(Problem::unknown("rerun", rerun).foreign()) }
}

/// Whether who is bound to departments may still do this with each job of a plan.
async fn reaches_jobs(
    app: &App,
    caller: &Caller,
    row: &RerunRow,
    needed: Permission,
) -> Result<bool, Problem> {
    if caller.is_bound_to_groups_alone() {
        return Ok(true);
    }
    let (rerun, caller) = (row.id, caller.clone());
    app.read(move |tables| {
        for job in tables.rerun_jobs(rerun)? {
            let row = tables.job(job.job_id)?;
            if row.is_some_and(|row| caller.may(needed, &Object::of_row(&row)).is_err()) {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await
}

/// Whether it reaches all that the plan does: every group, or it asked for it and reached every job of it then. While the groups
/// are not known, it is for who asked for it.
fn reads(caller: &Caller, row: &RerunRow) -> bool {
    let groups = groups_of(row);
    if caller.is_of_site()
        || (!caller.is_bound_to_groups_alone() || groups.is_empty()) && *row.requested_by == *caller.name()
    {
        return true;
    }
    !groups.is_empty() && groups.iter().all(|group| caller.reaches(group))
}

pub(super) async fn get(by: Reader, Path(text): Path<String>) -> Answered<RerunView> {
    readable(&by.app, &by.caller, &text).await.map(RerunView::from).map(Json)
}

pub(super) async fn jobs(by: Reader, Path(text): Path<String>) -> Answered<RerunJobs> {
    let row = readable(&by.app, &by.caller, &text).await?;
    by.app.read(move |tables| jobs_of(tables, &by.caller, row.id)).await.map(Json)
}

/// Those that it leaves out may be of others, and have no names then.
fn jobs_of(tables: &dyn Tables, caller: &Caller, rerun: i64) -> Result<RerunJobs, tidemill_store::Error> {
    let mut plan = Vec::new();
    for job in tables.rerun_jobs(rerun)? {
        plan.push(RerunJobView { job_name: name_of(tables, job.job_id)?, row: job.into() });
    }
    let mut left_out = Vec::new();
    for skip in tables.rerun_skips(rerun)? {
        let row = tables.job(skip.job_id)?.filter(|row| caller.sees(&Object::of_row(row)));
        left_out.push(RerunSkipView { job_name: row.as_ref().map(full_name), row: skip.into() });
    }
    Ok(RerunJobs { plan, left_out })
}

pub(super) async fn batches(
    by: Reader,
    Path(text): Path<String>,
    params: Params,
) -> Answered<List<RerunBatchView>> {
    let (state, request) = (params.get(RUN_STATE)?, params.page()?);
    let row = readable(&by.app, &by.caller, &text).await?;
    let page = by.app.read(move |tables| tables.rerun_batches(row.id, state.as_deref(), &request)).await?;
    Ok(Json(List::from(page)))
}

async fn act(by: &Writer, text: &str, command: impl FnOnce(RerunId) -> RerunCommand) -> Answered<Written> {
    let row = readable(&by.app, &by.caller, text).await?;
    let right = match &*row.kind {
        "cold_start" => by.caller.for_site(Permission::ColdStart)?,
        _ if *row.requested_by == *by.caller.name() => {
            if !reaches_jobs(&by.app, &by.caller, &row, Permission::Operate).await? {
                let detail =
                    "the plan has jobs that the caller may not operate any more; ask somebody who may";
                return Err(Problem::forbidden(detail));
            }
            by.caller.to_act_on_own()?
        }
        _ => {
            let groups: Vec<_> = groups_of(&row).iter().map(|group| Object::group_called(group)).collect();
            by.caller.may_all(Permission::Operate, &groups)?
        }
    };
    by.written(right, ShardId::CATALOGUE, command(RerunId(row.id))).await
}

pub(super) async fn approve(by: Writer, Path(text): Path<String>) -> Answered<Written> {
    act(&by, &text, |rerun| RerunCommand::Approve { rerun }).await
}

pub(super) async fn pause(by: Writer, Path(text): Path<String>) -> Answered<Written> {
    act(&by, &text, |rerun| RerunCommand::Pause { rerun }).await
}

pub(super) async fn resume(by: Writer, Path(text): Path<String>) -> Answered<Written> {
    act(&by, &text, |rerun| RerunCommand::Resume { rerun }).await
}

/// How a rerun is cancelled.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRequest {
    /// Also end what runs of it.
    #[serde(default)]
    kill: bool,
}

pub(super) async fn cancel(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<Written> {
    let CancelRequest { kill } = parse(body)?;
    act(&by, &text, |rerun| RerunCommand::Cancel { rerun, kill }).await
}
