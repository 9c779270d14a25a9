use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tidemill_directory::Group;
use tidemill_model::{
    Answer, BatchCommand, Command, GroupId, JobCommand, JobId, JobName, JobSpec, JobType, Permission,
    Priority, Program, ScheduleInput, ShardId, Submission, bounds,
};

use super::{body_of, caller_by_body, refused};
use crate::Problem;
use crate::app::App;
use crate::body::parse;
use crate::job_types;
use crate::object::Object;
use crate::rights::Caller;
use crate::write::Write;

/// The person who submits, characters.
const MAX_USER_CHARS: usize = 200;

/// A job to be run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitRequest {
    /// Name of the application key; or the header X-App-Name.
    #[serde(default, rename = "app_name")]
    _app_name: Option<String>,
    /// Its secret; or the header X-App-Key.
    #[serde(default, rename = "app_key")]
    _app_key: Option<String>,
    /// The job's name.
    #[schemars(with = "JobName")]
    job_name: String,
    /// Quartz cron expression; absent: once.
    #[serde(default)]
    cron_expression: Option<String>,
    /// Jobs to wait for: a number, a list of them, or text with commas between them.
    #[serde(default)]
    dependency_jobids: Option<JobIds>,
    /// The person who submits it.
    #[schemars(length(min = 1, max = MAX_USER_CHARS))]
    user: String,
    /// What kind of program it is.
    #[schemars(with = "JobType")]
    job_type: String,
    /// What to run.
    #[schemars(length(max = bounds::COMMAND_BYTES))]
    command: String,
    /// The worker group.
    group_id: i32,
    /// 1 (lowest) to 10.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10))]
    priority: Option<i32>,
    /// Further parameters; numbers and truth values become text.
    #[serde(default)]
    #[schemars(extend(
        "maxProperties" = bounds::PARAMETERS,
        "propertyNames" = bounds::parameter_name(),
        "additionalProperties" = json!({"type": ["string", "number", "boolean", "null"]})
    ))]
    parameters: Option<Map<String, Value>>,
}

/// Ids as callers write them.
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "must be the number of a job, a list of them, or text with commas between them"
)]
enum JobIds {
    One(i64),
    Many(Vec<i64>),
    Text(String),
}

/// What became of a submission.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Submitted {
    /// The job; -1 where it was refused.
    job_id: i64,
    /// Whether it was accepted.
    accept: bool,
    /// Why it was refused; else empty.
    message: String,
}

/// API-1.
pub(super) async fn submit(State(app): State<Arc<App>>, headers: HeaderMap, request: Request) -> Response {
    let submitted = match body_of(&app, request).await {
        Ok(body) => accept(&app, &headers, body).await,
        Err(problem) => Err(problem),
    };
    match submitted {
        Ok(job) => Json(Submitted { job_id: job.0, accept: true, message: String::new() }).into_response(),
        Err(problem) => refused(problem, json!({"job_id": -1, "accept": false})),
    }
}

async fn accept(app: &App, headers: &HeaderMap, mut body: Value) -> Result<JobId, Problem> {
    let caller = caller_by_body(app, &mut body, headers).await?;
    let mut request: SubmitRequest = parse(body)?;
    if request.user.is_empty() || request.user.chars().count() > MAX_USER_CHARS {
        let rule = format!("must have 1 to {MAX_USER_CHARS} characters");
        return Err(Problem::field("user", request.user, rule));
    }
    let caller = app.in_the_name_of(caller, &request.user).await?;
    let group_id = GroupId(request.group_id);
    let group = app.group_numbered(group_id).await?;
    let no_group = || Problem::field("group_id", group_id, "must be the number of a group");
    let group = group.ok_or_else(no_group)?;
    let right = caller.to_define()?;
    if !caller.defines_in(group.name.as_str()) {
        return Err(no_group().foreign());
    }
    if caller.may(Permission::Edit, &Object::of_owner(&request.user, group.name.as_str())).is_err() {
        let rule = "owns the job, and must be of a department for which the caller may define jobs";
        return Err(Problem::field("user", request.user, rule));
    }
    let parents = job_ids(request.dependency_jobids.take())?;
    let job = job_of(request, &caller, &group, &app.config.default_zone)?;
    job_types::check_one(app, "job_type", &job.job_type).await?;
    let write = Write::new(app, right, headers)?;
    let runs_in_shard = job.schedule.is_none() && are_in_shard(app, &parents, &group).await?;
    if runs_in_shard {
        app.check_waits_for(&caller, &parents).await?;
    }
    let (shard, command) = if runs_in_shard {
        (group.shard, submission(job, group_id, parents))
    } else {
        (ShardId::CATALOGUE, Command::Job(JobCommand::Define { job: Box::new(job), parents }))
    };
    let done = write.send(shard, command).await?;
    let Answer::Submitted { job, .. } = done.answer else { return Err(done.unexpected()) };
    if job.shard() == ShardId::CATALOGUE {
        app.remember(caller.holder(), done.position);
    }
    Ok(job)
}

fn job_ids(ids: Option<JobIds>) -> Result<Vec<JobId>, Problem> {
    let ids = match ids {
        None => Vec::new(),
        Some(JobIds::One(id)) => vec![JobId(id)],
        Some(JobIds::Many(ids)) => ids.into_iter().map(JobId).collect(),
        Some(JobIds::Text(text)) => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            let parse = |part: &str| {
                let rule = "must be job numbers, with commas between them";
                part.parse().map_err(|_| Problem::field("dependency_jobids", part, rule))
            };
            parts.map(parse).collect::<Result<_, _>>()?
        }
    };
    Ok(ids.into_iter().fold(Vec::new(), |mut ids, id| {
        if !ids.contains(&id) {
            ids.push(id);
        }
        ids
    }))
}

/// Whether the group's shard can decide about all of these by itself: jobs submitted to it, or jobs of the
/// catalogue that belong to it and have no schedule.
async fn are_in_shard(app: &App, parents: &[JobId], group: &Group) -> Result<bool, Problem> {
    for parent in parents.iter().copied().filter(|parent| parent.shard() != group.shard) {
        if parent.shard() != ShardId::CATALOGUE {
            return Ok(false);
        }
        match app.job_of_catalogue(parent).await {
            Ok(job) if job.group == group.id && !job.is_scheduled => {}
            Ok(_) => return Ok(false),
            Err(problem) if problem.code == "unknown" => return Ok(false),
            Err(problem) => return Err(problem),
        }
    }
    Ok(true)
}

/// The job that is requested, checked.
fn job_of(
    request: SubmitRequest,
    caller: &Caller,
    group: &Group,
    default_zone: &str,
) -> Result<JobSpec, Problem> {
    let SubmitRequest { job_name, user, job_type, command, cron_expression, priority, parameters, .. } =
        request;
    let name = JobName::try_from(job_name.as_str())
        .map_err(|error| Problem::field("job_name", &job_name, error.to_string()))?;
    let job_type = JobType::try_from(job_type.as_str())
        .map_err(|error| Problem::field("job_type", &job_type, error.to_string()))?;
    let priority = priority.unwrap_or(1);
    let bad_priority = || Problem::field("priority", priority, "must be 1 (lowest) to 10");
    let own = u8::try_from(10 - priority.clamp(-100, 100)).map_err(|_| bad_priority())?;
    let runs_nothing = job_type.is_anchor() || job_type.as_str() == "noop";
    let cron = cron_expression.filter(|cron| !cron.trim().is_empty());
    let zone = || Some(default_zone.to_owned());
    Ok(JobSpec {
        owner: user,
        app_name: caller.app().to_string(),
        command: Some(command).filter(|_| !runs_nothing),
        parameters: parameters.unwrap_or_default().into_iter().map(text).collect::<Result<_, _>>()?,
        priority: Priority::try_from(own).map_err(|_| bad_priority())?,
        schedule: cron.map(|cron| ScheduleInput { period: None, cron: Some(cron), zone: zone() }),
        ..JobSpec::new(&group.name, &name, &job_type)
    })
}

/// The job, to be run once by the shard of its group.
fn submission(job: JobSpec, group_id: GroupId, parents: Vec<JobId>) -> Command {
    Command::Batch(BatchCommand::SubmitJob(Box::new(Submission {
        name: job.name,
        group: job.group,
        group_id,
        app_name: job.app_name,
        owner: job.owner,
        job_type: job.job_type,
        program: job.command.map_or(Program::None, Program::Command),
        parameters: job.parameters,
        priority: job.priority,
        parents,
        retries: 0,
        retry_interval_s: 0,
    })))
}

/// A parameter as text.
fn text((name, value): (String, Value)) -> Result<(String, String), Problem> {
    match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(number) => Ok((name, number.to_string())),
        Value::Bool(oracle) => Ok((name, oracle.to_string())),
        Value::Null => Ok((name, String::new())),
        value @ (Value::Array(_) | Value::Object(_)) => Err(Problem::field(
            format!("parameters.{name}"),
            value,
            "must be text, a number or a truth value",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_one_number_a_list_or_text() {
        let ids = |value: Value| job_ids(serde_json::from_value(value).unwrap()).unwrap();
        assert_eq!(ids(json!(7)), [JobId(7)]);
        assert_eq!(ids(json!([7, 8, 7])), [JobId(7), JobId(8)]);
        assert_eq!(ids(json!("7, 8")), [JobId(7), JobId(8)]);
        assert_eq!(ids(json!("")), []);
        assert!(job_ids(Some(JobIds::Text("7;8".to_owned()))).is_err());
    }
}
