//! What is to be run again, or for the first time, as a plan (GEN-6, GEN-8, BYD-3, BYD-16).

use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{
    Answer, BatchId, Cascade, ColdStartOf, GroupName, JobId, Period, Permission, RerunCommand,
    RerunDefinition, RerunOnly, RerunOrder, RerunScope, RerunSpec, ShardId, Timestamp, bounds,
};
use tidemill_store::ReadTables;

use super::batches::batch_row;
use super::requests::Writer;
use super::run::{RUNS_THOUGH_DISABLED, job_place};
use crate::Problem;
use crate::body::{Body, parse};
use crate::clearing::{DEFAULT_CONCURRENCY, clearing};
use crate::params::id;
use crate::rights::{Caller, Right};
use crate::view::Answered;
use crate::write::Done;

fn default_concurrency() -> u32 {
    DEFAULT_CONCURRENCY
}

/// A job: its id, or `group/name`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum JobRef {
    Id(i64),
    Name(String),
}

/// How far a rerun reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reach {
    /// The named jobs and no others.
    #[default]
    Job,
    /// Also all jobs that come after them by their parents, in every group.
    Logic,
    /// Also all batches that read a path that theirs write, and so on, in every group. Paths are resolved for each logical
    /// time, with the parameters of the definitions.
    Data,
}

/// Batches that are to be run again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RerunRequest {
    /// Where it begins: ids, or `group/name`.
    #[schemars(length(min = 1, max = bounds::RERUN_NAMED))]
    jobs: Vec<JobRef>,
    /// How far it reaches.
    #[serde(default)]
    cascade: Reach,
    /// Also these jobs, and no others that come after.
    #[serde(default)]
    subset: Vec<JobRef>,
    /// The first logical time.
    from: Timestamp,
    /// The last logical time, not after now.
    to: Timestamp,
    /// The last logical time of what comes after the jobs, cut to now; absent: now with a cascade, else `to`.
    #[serde(default)]
    reach: Option<Timestamp>,
    /// Which of the batches in it.
    #[serde(default)]
    only: RerunOnly,
    /// Which logical times go first.
    #[serde(default)]
    order: RerunOrder,
    /// Batches that are started and have not ended, over all groups; default 10.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = bounds::RERUN_CONCURRENCY))]
    concurrency: u32,
    /// Which definition the batches get.
    #[serde(default)]
    definition: RerunDefinition,
    /// Why, for people.
    #[serde(default)]
    #[schemars(length(max = bounds::REQUEST_REASON_BYTES))]
    reason: String,
    /// Approve it as soon as it is planned.
    #[serde(default)]
    approve: bool,
}

/// Batches of a period that are to be run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColdStartRequest {
    /// The period of the jobs.
    period: Period,
    /// Only the jobs of this group.
    #[serde(default)]
    group: Option<GroupName>,
    /// Only these jobs: ids, or `group/name`.
    #[serde(default)]
    #[schemars(length(min = 1, max = bounds::RERUN_NAMED))]
    jobs: Option<Vec<JobRef>>,
    /// The first logical time.
    from: Timestamp,
    /// The last logical time, not after now.
    to: Timestamp,
    /// Which of the batches in it.
    #[serde(default)]
    only: RerunOnly,
    /// Which logical times go first.
    #[serde(default)]
    order: RerunOrder,
    /// Batches that are started and have not ended, over all groups; default 10.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = bounds::RERUN_CONCURRENCY))]
    concurrency: u32,
    /// Why, for people.
    #[serde(default)]
    #[schemars(length(max = bounds::REQUEST_REASON_BYTES))]
    reason: String,
    /// Approve it as soon as it is planned.
    #[serde(default)]
    approve: bool,
}

/// One batch and all after it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClearRequest {
    /// Batches that are started and have not ended; default 10.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = bounds::RERUN_CONCURRENCY))]
    concurrency: u32,
    /// Why, for people.
    #[serde(default)]
    #[schemars(length(max = bounds::REQUEST_REASON_BYTES))]
    reason: String,
    /// Approve it as soon as it is planned.
    #[serde(default)]
    approve: bool,
}

/// A plan is being made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RerunPlanned {
    /// The rerun or cold start.
    rerun: i64,
    /// Give this as `at_least` to reads that must show it.
    position: String,
    /// Jobs downstream that the plan leaves out, because the caller may not operate them, or because they come only after
    /// such a job.
    jobs_left_out: u32,
    /// What people should know: which of the named jobs are disabled, and that jobs are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl RerunPlanned {
    fn of(done: Done) -> Answered<Self> {
        let Answer::Rerun { rerun, disabled, jobs_left_out } = done.answer else {
            return Err(done.unexpected());
        };
        let warning = |job: JobId| format!("job {job} {RUNS_THOUGH_DISABLED}");
        let mut warnings: Vec<String> = disabled.into_iter().map(warning).collect();
        if jobs_left_out > 0 {
            warnings.push(format!(
                "{jobs_left_out} jobs downstream are left out: the caller may not operate them, or they come only \
                 after such jobs"
            ));
        }
        Ok(Json(Self { rerun: rerun.0, position: done.position.to_string(), warnings, jobs_left_out }))
    }
}

/// The jobs that are named, with which the caller must be able to do this.
async fn named(
    by: &Writer,
    needed: Permission,
    field: &str,
    refs: Vec<JobRef>,
) -> Result<Vec<JobId>, Problem> {
    let mut jobs = Vec::with_capacity(refs.len());
    for (index, job) in refs.into_iter().enumerate() {
        let mut called = None;
        let id = match job {
            JobRef::Id(id) => JobId(id),
            JobRef::Name(name) => {
                let field = format!("{field}[{index}]");
                let Some((group, job)) = name.split_once('/').map(|(g, j)| (g.to_owned(), j.to_owned()))
                else {
                    return Err(Problem::field(field, &name, "must be a job's id, or group/name"));
                };
                let row = by.app.read(move |tables| tables.job_named(&group, &job)).await?;
                let id = JobId(row.ok_or_else(|| Problem::unknown("job", &name))?.id);
                called = Some(name);
                id
            }
        };
        let object = job_place(&by.app, id).await?.object(&by.app, &by.caller, id).await?;
        if let Some(name) = called.filter(|_| !by.caller.sees(&object)) {
            // By the name that was asked for, and not by the id that is there.
            return Err(Problem::unknown("job", name).foreign());
        }
        by.caller.may(needed, &object)?;
        jobs.push(id);
    }
    Ok(jobs)
}

/// Who is bound to something sees a plan before it may run, for the plan may reach others.
fn may_approve_unseen(caller: &Caller, approve: bool, reaches_on: bool) -> Result<(), Problem> {
    if approve && reaches_on && !caller.is_of_site() {
        let rule = "who is bound to something approves what reaches on once it is planned; leave it out";
        return Err(Problem::field("approve", "true", rule));
    }
    Ok(())
}

async fn plan(by: &Writer, right: Right, spec: RerunSpec) -> Answered<RerunPlanned> {
    let command = RerunCommand::Plan(Box::new(spec));
    RerunPlanned::of(by.send(right, ShardId::CATALOGUE, command).await?)
}

/// Plans a rerun (GEN-6).
pub(super) async fn request(by: Writer, Body(body): Body) -> Answered<RerunPlanned> {
    let mut more: RerunRequest = parse(body)?;
    let approve = more.approve;
    let right = by.caller.to_act_on_own()?;
    let jobs = named(&by, Permission::Operate, "jobs", std::mem::take(&mut more.jobs)).await?;
    let subset = named(&by, Permission::Operate, "subset", std::mem::take(&mut more.subset)).await?;
    let cascade = match (more.cascade, subset.is_empty()) {
        (Reach::Job, true) => Cascade::Job,
        (Reach::Logic, true) => Cascade::Logic,
        (Reach::Data, true) => Cascade::Data,
        (Reach::Job, false) => Cascade::Subset(subset),
        (Reach::Logic | Reach::Data, false) => {
            let rule = "names the jobs to take part; leave it out, or cascade";
            return Err(Problem::field("subset", subset.len(), rule));
        }
    };
    may_approve_unseen(&by.caller, approve, matches!(cascade, Cascade::Logic | Cascade::Data))?;
    let spec = RerunSpec {
        scope: RerunScope::Rerun { jobs, cascade },
        from: more.from,
        to: more.to,
        reach: more.reach,
        only: more.only,
        order: more.order,
        concurrency: more.concurrency,
        definition: more.definition,
        reason: more.reason,
        approve,
    };
    plan(&by, right, spec).await
}

/// Plans a cold start (GEN-8).
pub(super) async fn cold_start(by: Writer, Body(body): Body) -> Answered<RerunPlanned> {
    let right = by.caller.for_site(Permission::ColdStart)?;
    let more: ColdStartRequest = parse(body)?;
    let of = match (more.group, more.jobs) {
        (Some(group), None) => ColdStartOf::Group(group),
        (None, Some(jobs)) => ColdStartOf::Jobs(named(&by, Permission::ColdStart, "jobs", jobs).await?),
        (None, None) => ColdStartOf::All,
        (Some(group), Some(_)) => {
            return Err(Problem::field("group", group, "give a group or jobs, not both"));
        }
    };
    let spec = RerunSpec {
        scope: RerunScope::ColdStart { of, period: more.period },
        from: more.from,
        to: more.to,
        reach: None,
        only: more.only,
        order: more.order,
        concurrency: more.concurrency,
        definition: RerunDefinition::Today,
        reason: more.reason,
        approve: more.approve,
    };
    plan(&by, right, spec).await
}

/// Plans to run one batch's logical time, and all that comes after it, again (BYD-16).
pub(super) async fn clear(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<RerunPlanned> {
    let ClearRequest { concurrency, reason, approve } = parse(body)?;
    let batch: BatchId = id("batch", &text)?;
    let row = batch_row(&by.app, batch).await?;
    let right = by.caller.may(Permission::Operate, &by.app.object_of_batch(&by.caller, &row).await?)?;
    let job = JobId(row.job_id);
    // It runs where the job is now.
    by.caller
        .may(Permission::Operate, &job_place(&by.app, job).await?.object(&by.app, &by.caller, job).await?)?;
    may_approve_unseen(&by.caller, approve, true)?;
    let time = Timestamp::from_millisecond(row.logical_time)
        .map_err(|_| Problem::internal("the batch's logical time cannot be read"))?;
    let spec = RerunSpec { concurrency, reason, approve, ..clearing(JobId(row.job_id), time) };
    plan(&by, right, spec).await
}
