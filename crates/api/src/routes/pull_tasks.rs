//! Tasks that clients pull, their ledgers and grants (PUL-2 to PUL-4, PUL-11, BYD-10).

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidemill_journal::now;
use tidemill_model::{
    Answer, Executor, LiveAnswer, LiveQuery, Permission, Rejection, ShardId, TaskCommand, TaskId, TaskSpec,
    Timestamp, UserName,
};
use tidemill_store::rows::PullTaskRow;
use tidemill_store::{PullGrantFilter, PullTaskFilter, ReadPullTables};

use super::requests::{Reader, Writer, written};
use crate::Problem;
use crate::app::{App, shard_in};
use crate::body::Body;
use crate::known::homeless;
use crate::object::Object;
use crate::parameter::{Asked, Rule};
use crate::params::{CURSOR, Params, id};
use crate::rights::Caller;
use crate::view::{
    Answered, LedgerView, List, OccurrenceView, PullGrantView, PullTaskView, Written, totals_of,
};
use crate::write::Done;

/// How far a list of once tasks reaches back where nothing else is requested.
const LISTED: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How long a write waits for a shard that has not heard of a template or a user yet.
const NEWS: Duration = Duration::from_secs(2);

pub(super) const KIND: Asked<String> =
    Asked::word("kind", "`once` (default) or `rotating`.", &["once", "rotating"]);
pub(super) const EXECUTOR: Asked<String> =
    Asked::new("executor", "`group:NAME` or `user:NAME`.", Rule::Pattern("^(group|user):"));
pub(super) const GIVEN_BY: Asked<String> =
    Asked::text("group", "Given out by this group: its own, and those of its users.");
pub(super) const STATE: Asked<String> = Asked::word(
    "state",
    "`valid`, `deleted`, or `released` (left the group with its user).",
    &["valid", "deleted", "released"],
);
pub(super) const FROM: Asked<Timestamp> =
    Asked::time("from", "Start at or after; default: 7 days ago, of rotating tasks any.");
pub(super) const TO: Asked<Timestamp> = Asked::time("to", "Start before.");
pub(super) const LIVE: Asked<bool> =
    Asked::flag("live", "`true`: as the task's owner knows it now; what is purged is not in it.");
pub(super) const GROUP: Asked<String> = Asked::text("group", "Given by this group.");
pub(super) const USER: Asked<String> = Asked::text("user", "To this user.");
pub(super) const TASK: Asked<TaskId> = Asked::id("task", "Of this task.");
pub(super) const GRANT_STATE: Asked<String> = Asked::word(
    "state",
    "`live`, `completed`, `returned` or `expired`.",
    &["live", "completed", "returned", "expired"],
);

/// `group:NAME` or `user:NAME`.
fn executor(text: String) -> Result<(&'static str, String), Problem> {
    match text.split_once(':') {
        Some(("group", name)) => Ok(("group", name.to_owned())),
        Some(("user", name)) => Ok(("user", name.to_owned())),
        _ => Err(Problem::field("executor", text, "must be group:NAME or user:NAME")),
    }
}

/// Tasks by executor and start, those that start last first (PUL-11).
pub(super) async fn list(by: Reader, params: Params) -> Answered<List<PullTaskView>> {
    let rotating = params.get(KIND)?.is_some_and(|kind| kind == "rotating");
    let recent = (!rotating).then(|| now() - LISTED);
    let filter = PullTaskFilter {
        rotating,
        group: params.get(GIVEN_BY)?,
        reach: by.caller.seen(),
        executor: params.get(EXECUTOR)?.map(executor).transpose()?,
        state: params.get(STATE)?,
        from: params.get(FROM)?.or(recent).map(Timestamp::as_millisecond),
        to: params.get(TO)?.map(Timestamp::as_millisecond),
    };
    List::part(&by.app, &params, move |tables, request| tables.pull_tasks(&filter, request)).await
}

/// The rows of a task, the one that gives it out first.
async fn rows(app: &App, task: TaskId) -> Result<Vec<PullTaskRow>, Problem> {
    app.read(move |tables| tables.pull_task(task.0)).await
}

async fn row(app: &App, caller: &Caller, task: TaskId) -> Result<PullTaskRow, Problem> {
    let row = rows(app, task).await?.into_iter().next();
    let row = row.ok_or_else(|| Problem::unknown("task", task))?;
    caller.may(Permission::View, &Object::new("task", task, Arc::clone(&row.group_name)))?;
    Ok(row)
}

pub(super) async fn get(by: Reader, Path(text): Path<String>) -> Answered<PullTaskView> {
    row(&by.app, &by.caller, id("task", &text)?).await.map(|row| Json(row.into()))
}

/// Who decides about a task.
struct Place {
    shard: ShardId,
    /// What is not there for whoever may not see it.
    object: Object,
    /// It is the home of the user whose own the task is.
    is_home: bool,
}

impl Place {
    /// Whoever may not see the group is told what those are told who name none.
    async fn of_executor(app: &App, caller: &Caller, executor: &Executor) -> Result<Self, Problem> {
        match executor {
            Executor::Group(name) => {
                let none = || Problem::field("executor.group", name, "must name a group that exists");
                let group = app.group_named(name.as_str()).await?.ok_or_else(none)?;
                if !caller.reaches(group.name.as_str()) {
                    return Err(none().foreign());
                }
                let object = Object::group_called(group.name.as_str());
                Ok(Self { shard: group.shard, object, is_home: false })
            }
            Executor::User(user) => {
                let home = app.home_of(user).await?;
                if !caller.reaches(&home.group) {
                    return Err(homeless(user).foreign());
                }
                Ok(Self { shard: home.shard, object: Object::new("user", user, home.group), is_home: true })
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
                let object = Object::new("task", task, home.group);
                return Ok(Self { shard: home.shard, object, is_home: true });
            }
            let object = Object::new("task", task, Arc::clone(&row.group_name));
            return Ok(Self { shard: shard_in(row.shard), object, is_home: false });
        }
        let group = app.group_of_shard(task.shard()).await?;
        let group = group.ok_or_else(|| Problem::unknown("task", task))?;
        let object = Object::new("task", task, group.name.as_str());
        Ok(Self { shard: group.shard, object, is_home: false })
    }
}

/// Sends a request about a task. A template or a user that the catalogue has may be new to the group's shard: then it
/// is asked again for a while.
async fn send(
    by: &Writer,
    place: &Place,
    command: TaskCommand,
    spec: Option<&TaskSpec>,
) -> Result<Done, Problem> {
    let write = by.write(by.caller.may(Permission::Edit, &place.object)?)?;
    let template = match spec.and_then(|spec| spec.template.as_ref()) {
        None => None,
        Some(name) => {
            let name = name.to_string();
            by.app.read(move |tables| tables.task_template(&name)).await?
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
    write.send_while(is_news, NEWS, place.shard, command.into()).await?.map_err(Problem::from)
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
    fn of(done: Done) -> Answered<Self> {
        let Answer::Task { task, version } = done.answer else { return Err(done.unexpected()) };
        Ok(Json(Self { task: task.0, version, position: done.position.to_string() }))
    }
}

fn spec_of(body: Value) -> Result<TaskSpec, Problem> {
    TaskSpec::from_value(body).map_err(|error| Problem::fields(vec![error]))
}

pub(super) async fn create(by: Writer, Body(body): Body) -> Answered<TaskWritten> {
    let spec = spec_of(body)?;
    let place = Place::of_executor(&by.app, &by.caller, &spec.executor).await?;
    let command = TaskCommand::Create { spec: spec.clone() };
    TaskWritten::of(send(&by, &place, command, Some(&spec)).await?)
}

pub(super) async fn change(by: Writer, Path(text): Path<String>, Body(body): Body) -> Answered<TaskWritten> {
    let task: TaskId = id("task", &text)?;
    let spec = spec_of(body)?;
    let place = Place::of_task(&by.app, task).await?;
    let command = TaskCommand::Change { task, spec: spec.clone() };
    TaskWritten::of(send(&by, &place, command, Some(&spec)).await?)
}

pub(super) async fn delete(by: Writer, Path(text): Path<String>) -> Answered<Written> {
    let task: TaskId = id("task", &text)?;
    let place = Place::of_task(&by.app, task).await?;
    written(send(&by, &place, TaskCommand::Delete { task }, None).await?)
}

/// What of a task was given out, and what became of it, occurrence by occurrence (BYD-10).
pub(super) async fn ledger(by: Reader, Path(text): Path<String>, params: Params) -> Answered<LedgerView> {
    let task: TaskId = id("task", &text)?;
    if params.flag(LIVE)? {
        return live_ledger(&by.app, &by.caller, task, &params).await.map(Json);
    }
    let request = params.page()?;
    let row = row(&by.app, &by.caller, task).await?;
    let page = by.app.read(move |tables| tables.pull_ledger(task.0, &request)).await?;
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
    let limit = u32::try_from(params.limit()?).unwrap_or_default();
    let start = |text: String| {
        text.parse().map_err(|_| Problem::field("cursor", text, "must be the `next` of the part before"))
    };
    let before = params.get(CURSOR)?.map(start).transpose()?;
    let place = Place::of_task(app, task).await?;
    caller.may(Permission::View, &place.object)?;
    match app.ask(place.shard, LiveQuery::TaskLedger { task, before, limit }).await? {
        LiveAnswer::TaskLedger(ledger) => Ok((*ledger).into()),
        _ => Err(Problem::unknown("task", task)),
    }
}

pub(super) async fn grants(by: Reader, params: Params) -> Answered<List<PullGrantView>> {
    let filter = PullGrantFilter {
        group: params.get(GROUP)?,
        reach: by.caller.seen(),
        user: params.get(USER)?,
        task: params.get(TASK)?.map(|TaskId(task)| task),
        state: params.get(GRANT_STATE)?,
    };
    List::part(&by.app, &params, move |tables, request| tables.pull_grants(&filter, request)).await
}
