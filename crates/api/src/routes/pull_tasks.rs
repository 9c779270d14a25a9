//! Tasks that clients pull, their ledgers and grants (PUL-2 to PUL-4, PUL-11, BYD-10).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidemill_journal::now;
use tidemill_model::{
    Answer, Command, Executor, LiveAnswer, LiveQuery, Rejection, ShardId, TaskCommand, TaskId, TaskSpec,
    Timestamp, UserName,
};
use tidemill_store::rows::PullTaskRow;
use tidemill_store::{PullGrantFilter, PullTaskFilter, ReadPullTables};

use super::batches::live_problem;
use super::run::written;
use crate::Problem;
use crate::app::{App, shard_of};
use crate::body::Body;
use crate::params::{Params, id};
use crate::rights::Caller;
use crate::view::{LedgerView, List, OccurrenceView, PullGrantView, PullTaskView, Written, totals_of};
use crate::write::{Done, Write};

/// How far a list of once tasks reaches back where nothing else is requested.
const LISTED: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How long a write waits for a shard that has not heard of a template or a user yet.
const NEWS: Duration = Duration::from_secs(2);

/// The kinds of tasks.
pub(super) const KINDS: &[&str] = &["once", "rotating"];
/// The states of a task, as the tables name them.
pub(super) const STATES: &[&str] = &["valid", "deleted", "released"];
/// The states of a grant, as the tables name them.
pub(super) const GRANT_STATES: &[&str] = &["live", "completed", "returned", "expired"];
/// Of what [`executor`] takes.
pub(super) const EXECUTOR_PATTERN: &str = "^(group|user):";

/// `group:NAME` or `user:NAME`.
fn executor(text: String) -> Result<(&'static str, String), Problem> {
    match text.split_once(':') {
        Some(("group", name)) => Ok(("group", name.to_owned())),
        Some(("user", name)) => Ok(("user", name.to_owned())),
        _ => Err(Problem::field("executor", text, "must be group:NAME or user:NAME")),
    }
}

/// Tasks by executor and start, those that start last first (PUL-11).
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json<List<PullTaskView>>, Problem> {
    params.only(&["limit", "cursor", "kind", "executor", "group", "state", "from", "to"])?;
    let rotating = params.word("kind", KINDS)?.is_some_and(|kind| kind == "rotating");
    let recent = (!rotating).then(|| now() - LISTED);
    let filter = PullTaskFilter {
        rotating,
        group: caller.listed_group(params.text("group"))?,
        executor: params.text("executor").map(executor).transpose()?,
        state: params.word("state", STATES)?,
        from: params.time("from")?.or(recent).map(Timestamp::as_millisecond),
        to: params.time("to")?.map(Timestamp::as_millisecond),
    };
    let request = params.page()?;
    let page = app.read(move |tables| tables.pull_tasks(&filter, &request)).await?;
    Ok(Json(List::of(page, PullTaskView::from)))
}

/// The rows of a task, the one that gives it out first.
async fn rows(app: &App, task: TaskId) -> Result<Vec<PullTaskRow>, Problem> {
    app.read(move |tables| tables.pull_task(task.0)).await
}

async fn row(app: &App, caller: &Caller, task: TaskId) -> Result<PullTaskRow, Problem> {
    let row = rows(app, task).await?.into_iter().next();
    let row = row.ok_or_else(|| Problem::unknown("task", task))?;
    caller.may_read(&row.group_name)?;
    Ok(row)
}

/// A task with its totals.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
    params: Params,
) -> Result<Json<PullTaskView>, Problem> {
    params.only(&[])?;
    row(&app, &caller, id("task", &text)?).await.map(|row| Json(row.into()))
}

/// Who decides about a task.
struct Place {
    shard: ShardId,
    group: String,
    /// It is the home of the user whose own the task is.
    is_home: bool,
}

impl Place {
    async fn of_executor(app: &App, executor: &Executor) -> Result<Self, Problem> {
        match executor {
            Executor::Group(name) => {
                let group = app.group_named(name.as_str()).await?;
                let group = group
                    .ok_or_else(|| Problem::field("executor.group", name, "must name a group that exists"))?;
                Ok(Self { shard: shard_of(&group), group: group.name.to_string(), is_home: false })
            }
            Executor::User(user) => {
                let home = app.home_of(user).await?;
                Ok(Self { shard: home.shard, group: home.group.to_string(), is_home: true })
            }
        }
    }

    /// A user's own task is where the user is; any other is where it was made.
    async fn of_task(app: &App, task: TaskId) -> Result<Self, Problem> {
        let row = rows(app, task).await?.into_iter().next();
        if let Some(row) = row.filter(|row| &*row.executor_kind == "user") {
            let user = UserName::try_from(&*row.executor).ok();
            if let Some(user) = user
                && let Ok(home) = app.home_of(&user).await
            {
                return Ok(Self { shard: home.shard, group: home.group.to_string(), is_home: true });
            }
            let shard =
                ShardId(u16::try_from(row.shard).expect("the tables hold the shard that gave it out"));
            return Ok(Self { shard, group: row.group_name.to_string(), is_home: false });
        }
        let group = app.group_of_shard(task.shard()).await?;
        let group = group.ok_or_else(|| Problem::unknown("task", task))?;
        Ok(Self { shard: shard_of(&group), group: group.name.to_string(), is_home: false })
    }
}

/// Sends a request about a task. A template or a user that the catalogue has may be new to the group's shard: then it
/// is asked again for a while.
async fn send(
    app: &App,
    write: &Write<'_>,
    place: &Place,
    command: Command,
    spec: Option<&TaskSpec>,
) -> Result<Done, Problem> {
    let template = match spec.and_then(|spec| spec.template.as_ref()) {
        None => None,
        Some(name) => {
            let name = name.to_string();
            app.read(move |tables| tables.task_template(&name)).await?
        }
    };
    let is_news = |rejection: &Rejection| match rejection {
        Rejection::Invalid { fields } => fields.iter().any(|fault| match fault.field.as_str() {
            "template" => template.is_some(),
            "executor.user" => place.is_home,
            _ => false,
        }),
        _ => false,
    };
    write.send_while(is_news, NEWS, place.shard, command).await?.map_err(Problem::from)
}

/// A task is there.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskWritten {
    /// Which.
    task: i64,
    /// Its version: the one it had, if nothing differs.
    version: u32,
    /// Give this as `at_least` to reads that must show it.
    position: String,
}

impl TaskWritten {
    fn of(done: Done) -> Result<Json<Self>, Problem> {
        match done.answer {
            Answer::Task { task, version } => {
                Ok(Json(Self { task: task.0, version, position: done.position.to_string() }))
            }
            _ => Err(done.unexpected()),
        }
    }
}

fn spec_of(body: Value) -> Result<TaskSpec, Problem> {
    TaskSpec::from_value(body).map_err(|error| Problem::fields(vec![error]))
}

/// A new task.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Json<TaskWritten>, Problem> {
    params.only(&[])?;
    let spec = spec_of(body)?;
    let place = Place::of_executor(&app, &spec.executor).await?;
    let right = caller.for_group(&place.group)?;
    let write = Write::new(&app, right, &headers)?;
    let command = Command::Task(TaskCommand::Create { spec: spec.clone() });
    TaskWritten::of(send(&app, &write, &place, command, Some(&spec)).await?)
}

/// Changes a task; its executor stays, and so does what somebody has of it.
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
    params: Params,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Json<TaskWritten>, Problem> {
    params.only(&[])?;
    let task: TaskId = id("task", &text)?;
    let spec = spec_of(body)?;
    let place = Place::of_task(&app, task).await?;
    let right = caller.for_group(&place.group)?;
    let write = Write::new(&app, right, &headers)?;
    let command = Command::Task(TaskCommand::Change { task, spec: spec.clone() });
    TaskWritten::of(send(&app, &write, &place, command, Some(&spec)).await?)
}

/// Deletes a task; what somebody has of it can still be completed.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<Json<Written>, Problem> {
    params.only(&[])?;
    let task: TaskId = id("task", &text)?;
    let place = Place::of_task(&app, task).await?;
    let right = caller.for_group(&place.group)?;
    let write = Write::new(&app, right, &headers)?;
    written(send(&app, &write, &place, Command::Task(TaskCommand::Delete { task }), None).await?)
}

/// What of a task was given out, and what became of it, occurrence by occurrence (BYD-10).
pub(super) async fn ledger(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(text): Path<String>,
    params: Params,
) -> Result<Json<LedgerView>, Problem> {
    params.only(&["limit", "cursor", "live"])?;
    let task: TaskId = id("task", &text)?;
    if params.parse("live", "must be true or false")?.unwrap_or(false) {
        return live_ledger(&app, &caller, task, &params).await.map(Json);
    }
    let request = params.page()?;
    let row = row(&app, &caller, task).await?;
    let page = app.read(move |tables| tables.pull_ledger(task.0, &request)).await?;
    let items = page.items.iter().map(|occurrence| OccurrenceView::of(occurrence, row.dispatch_times));
    Ok(Json(LedgerView {
        task: task.0,
        dispatch_times: row.dispatch_times,
        totals: totals_of(&row).into(),
        items: items.collect(),
        next: page.next.map(|next| next.to_string()),
    }))
}

/// As its owner knows it now; what is purged is not in it.
async fn live_ledger(
    app: &App,
    caller: &Caller,
    task: TaskId,
    params: &Params,
) -> Result<LedgerView, Problem> {
    let rule = "must be 1 to 1000";
    let limit = params.parse("limit", rule)?.unwrap_or(50);
    if !(1..=1_000).contains(&limit) {
        return Err(Problem::field("limit", limit, rule));
    }
    let before = params.time("cursor")?;
    let place = Place::of_task(app, task).await?;
    caller.may_read(&place.group)?;
    match app.deps.live.query(place.shard, LiveQuery::TaskLedger { task, before, limit }).await {
        Ok(LiveAnswer::TaskLedger(ledger)) => Ok((*ledger).into()),
        Ok(_) => Err(Problem::unknown("task", task)),
        Err(error) => Err(live_problem(&error)),
    }
}

/// Grants, the newest of each group first.
pub(super) async fn grants(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json<List<PullGrantView>>, Problem> {
    params.only(&["limit", "cursor", "group", "user", "task", "state"])?;
    let filter = PullGrantFilter {
        group: caller.listed_group(params.text("group"))?,
        user: params.text("user"),
        task: params.parse("task", "must be the number of a task")?.map(|TaskId(task)| task),
        state: params.word("state", GRANT_STATES)?,
    };
    let request = params.page()?;
    let page = app.read(move |tables| tables.pull_grants(&filter, &request)).await?;
    Ok(Json(List::of(page, PullGrantView::from)))
}
