use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_cluster::propagation::by_job;
use tidemill_model::{
    Answer, BatchCommand, GroupName, JobCommand, JobId, JobName, Permission, ShardId, Timestamp, bounds,
};

use super::requests::Writer;
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::object::Object;
use crate::parameter::Asked;
use crate::params::{Params, id};
use crate::rights::Caller;
use crate::view::{Answered, Settled, Written};
use crate::write::Done;

pub(super) const CANCEL: Asked<bool> =
    Asked::flag("cancel", "`true`: end what is unfinished of it; else it is refused while something is.");
pub(super) const ORPHAN_CHILDREN: Asked<bool> = Asked::flag(
    "orphan_children",
    "`true`: delete it though other jobs name it as parent, whose batches go on waiting; else it is refused.",
);

/// Who decides the batches of a job.
pub(crate) struct JobPlace {
    /// The group's shard.
    pub(crate) shard: ShardId,
    /// The group's name.
    pub(crate) group: String,
}

impl JobPlace {
    /// The job, as the caller's rights need it known.
    pub(crate) async fn object(&self, app: &App, caller: &Caller, job: JobId) -> Result<Object, Problem> {
        app.object_of(caller, Object::new("job", job, self.group.as_str()), job).await
    }
}

/// Who decides the batches of a job: for a submitted one the shard that minted its id, for one of the catalogue
/// that of its group.
pub(crate) async fn job_place(app: &App, job: JobId) -> Result<JobPlace, Problem> {
    let group = match job.shard() {
        ShardId::CATALOGUE => {
            let group = app.job_of_catalogue(job).await?.group;
            app.group_numbered(group).await?
        }
        shard => app.group_of_shard(shard).await?,
    };
    let group = group.ok_or_else(|| Problem::unknown("job", job))?;
    Ok(JobPlace { shard: group.shard, group: group.name.to_string() })
}

/// A batch by hand.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunRequest {
    /// For which logical time; absent: the current period's.
    #[serde(default)]
    logical_time: Option<Timestamp>,
    /// Parameters over those of the definition.
    #[serde(default)]
    #[schemars(extend("maxProperties" = bounds::PARAMETERS, "propertyNames" = bounds::parameter_name()))]
    parameters: BTreeMap<String, String>,
    /// Run even when batches of other logical times of the job are unfinished.
    #[serde(default)]
    concurrent: bool,
}

/// A batch was made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Generated {
    /// Which.
    pub(super) batch: i64,
    /// Give this as `at_least` to reads that must show it.
    pub(super) position: String,
    /// What people should know: the job is disabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

/// DSP-1: what the answer says of a job that is disabled.
pub(super) const RUNS_THOUGH_DISABLED: &str =
    "is disabled: this runs nevertheless, and its scheduled and triggered batches go on waiting";

impl Generated {
    pub(super) fn of(done: Done) -> Answered<Self> {
        let Answer::Generated { batch, disabled } = done.answer else { return Err(done.unexpected()) };
        let warnings = disabled.then(|| format!("the job {RUNS_THOUGH_DISABLED}"));
        let position = done.position.to_string();
        Ok(Json(Self { batch: batch.0, position, warnings: warnings.into_iter().collect() }))
    }
}

/// One batch by hand (GEN-5).
pub(super) async fn run(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<Generated> {
    let RunRequest { logical_time, parameters, concurrent } = parse(body)?;
    let job: JobId = id("job", &text)?;
    let place = job_place(&by.app, job).await?;
    let right = by.caller.may(Permission::Operate, &place.object(&by.app, &by.caller, job).await?)?;
    check_parameters(&by.app, &by.caller, job, &parameters).await?;
    by.app.check_values_seen(&by.caller, job, &parameters).await?;
    let command = BatchCommand::RunJob { job, logical_time, parameters, concurrent };
    Generated::of(by.write(right)?.send_for_job(job, place.shard, command.into()).await?)
}

/// DSP-2: parameters decide what a program does, so they are for those who may have jobs run as its account.
pub(super) async fn check_parameters(
    app: &App,
    caller: &Caller,
    job: JobId,
    parameters: &BTreeMap<String, String>,
) -> Result<(), Problem> {
    let name = match parameters.keys().next() {
        Some(name) if job.shard() == ShardId::CATALOGUE => name,
        // What was submitted to run once runs as its worker.
        Some(_) | None => return Ok(()),
    };
    let account = app.job_of_catalogue(job).await?.account;
    match account.filter(|account| !caller.may_run_as(account)) {
        Some(account) => {
            let rule = format!(
                "is for keys that have account {account} in run_as, for it decides what runs as that account; leave \
                 parameters out"
            );
            Err(Problem::field(format!("parameters.{name}"), "(not shown)", rule))
        }
        None => Ok(()),
    }
}

pub(super) async fn enable(by: Writer, path: Path<String>) -> Settled<Written> {
    change(by, path, |job| JobCommand::Switch { job, enabled: true }).await
}

pub(super) async fn disable(by: Writer, path: Path<String>) -> Settled<Written> {
    change(by, path, |job| JobCommand::Switch { job, enabled: false }).await
}

/// A new name of a job.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameRequest {
    /// Unique in its group.
    name: JobName,
}

/// Gives a job another name in its group (JOB-9); its id, its history and its run numbers stay.
pub(super) async fn rename(by: Writer, path: Path<String>, Body(body): Body) -> Settled<Written> {
    let RenameRequest { name } = parse(body)?;
    change(by, path, |job| JobCommand::Rename { job, name }).await
}

/// The group that a job goes to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveJobRequest {
    /// Its name.
    group: GroupName,
}

/// Gives a job to another group (JOB-9), unless something of it is unfinished; its id and its run numbers stay, and its
/// batches stay with the group that ran them.
pub(super) async fn move_to(by: Writer, Path(text): Path<String>, Body(body): Body) -> Settled<Written> {
    let MoveJobRequest { group } = parse(body)?;
    let job: JobId = id("job", &text)?;
    if job.shard() != ShardId::CATALOGUE {
        let rule =
            "was submitted to run once, and stays in the group where it was; submit it to the other group";
        return Err(Problem::field("job", job, rule));
    }
    let place = job_place(&by.app, job).await?;
    let right = by.caller.may(Permission::Edit, &place.object(&by.app, &by.caller, job).await?)?;
    if !by.caller.defines_in(group.as_str()) {
        return Err(Object::group_called(group.as_str()).missing().foreign());
    }
    let command = JobCommand::Move { job, to: group.clone() };
    by.settled(right, command, by_job(job, group.as_str())).await
}

/// Removes a definition (JOB-9): refused while something of it is unfinished, unless `cancel=true` ends that, and while
/// others name it as parent, unless `orphan_children=true` lets their batches go on waiting.
pub(super) async fn delete(by: Writer, path: Path<String>, params: Params) -> Settled<Written> {
    let cancel = params.flag(CANCEL)?;
    let orphan_children = params.flag(ORPHAN_CHILDREN)?;
    let command = |job| JobCommand::Delete { job, cancel, orphan_children };
    change(by, path, command).await
}

async fn change(
    by: Writer,
    Path(text): Path<String>,
    command: impl FnOnce(JobId) -> JobCommand,
) -> Settled<Written> {
    let job: JobId = id("job", &text)?;
    let place = job_place(&by.app, job).await?;
    let right = by.caller.may(Permission::Edit, &place.object(&by.app, &by.caller, job).await?)?;
    by.settled(right, command(job), by_job(job, &place.group)).await
}
