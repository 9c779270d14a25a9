use std::sync::Arc;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use tidemill_log::Payload;
use tidemill_model::{Command, CommandRecord, JobCommand, JobId, Permission, ShardId, seal_parts};
use tidemill_store::rows::DeadLetterRow;
use tidemill_store::{DeadLetterFilter, ReadAudit, ReadTables};

use super::requests::{Reader, Writer};
use crate::Problem;
use crate::app::App;
use crate::parameter::Asked;
use crate::params::Params;
use crate::view::{Answered, DeadLetterDetail, DeadLetterPlace, DeadLetterView, List, Redriven};
use crate::write::{Done, Write};

/// Bytes of a command that are shown.
const MAX_SHOWN_BYTES: usize = 64 * 1024;
pub(super) const KIND: Asked<String> = Asked::word("kind", "`command` or `timer`.", &["command", "timer"]);
pub(super) const OPEN: Asked<bool> =
    Asked::flag("open", "`true`: only those of which nothing has become yet; `false`: only the others.");

/// Commands that were set aside and timers that were suspended, in the order of the journal (EVT-9).
pub(super) async fn list(by: Reader, params: Params) -> Answered<List<DeadLetterView>> {
    let filter = DeadLetterFilter { kind: params.get(KIND)?, is_open: params.get(OPEN)? };
    List::part(&by.app, &params, move |tables, request| tables.dead_letters(&filter, request)).await
}

pub(super) async fn get(by: Reader, Path(text): Path<String>) -> Answered<DeadLetterDetail> {
    let row = letter(&by.app, &text).await?;
    let (command, obstacle) = match Letter::of(&row) {
        Letter::Command { offset } => match raw(&by.app, &row, offset).await? {
            Some(raw) => (shown(&raw), decoded(&by.app, &row, &raw).err()),
            None => (None, Some(gone(&row, offset))),
        },
        Letter::Timer(job) => (None, suspended_job(&by.app, &row, job).await?.err()),
    };
    let obstacle = if row.is_open { obstacle } else { Some(closed(&row)) };
    Ok(Json(DeadLetterDetail { letter: DeadLetterView::from(row), command, obstacle }))
}

/// Sends the command again as a new one, in the name of the caller; or lets the job go on whose timer was suspended.
pub(super) async fn redrive(by: Writer, Path(text): Path<String>) -> Answered<Redriven> {
    let right = by.caller.for_site(Permission::Manage)?;
    let row = letter(&by.app, &text).await?;
    if !row.is_open {
        return Err(refused(closed(&row)));
    }
    let (done, message) = match Letter::of(&row) {
        Letter::Command { offset } => {
            let raw = raw(&by.app, &row, offset).await?.ok_or_else(|| refused(gone(&row, offset)))?;
            let record = decoded(&by.app, &row, &raw).map_err(refused)?;
            let done = Write::redrive(&by.app, right, offset).send(record.shard, record.command).await?;
            (done, format!("The command at {offset} of partition {} was sent again.", row.journal_partition))
        }
        Letter::Timer(job) => {
            let job = suspended_job(&by.app, &row, job).await?.map_err(refused)?;
            let done = switch(&by.write(right)?, job).await?;
            let message = format!(
                "Job {job} was switched off and on: it generates batches again, those in between are not made up for."
            );
            (done, message)
        }
    };
    Ok(Json(Redriven { id: text, position: done.position.to_string(), message }))
}

/// What was set aside.
enum Letter {
    Command {
        offset: u64,
    },
    /// Of a job, where it is the timer of its schedule.
    Timer(Option<JobId>),
}

impl Letter {
    fn of(row: &DeadLetterRow) -> Self {
        match &*row.kind {
            "command" => Self::Command { offset: row.subject.parse().unwrap_or(u64::MAX) },
            _ => Self::Timer(row.subject.strip_prefix("job/").and_then(|job| job.parse().ok())),
        }
    }
}

async fn letter(app: &App, text: &str) -> Result<DeadLetterRow, Problem> {
    let rule = "must be the id of a dead letter, as in 0:17:0";
    let place: DeadLetterPlace = text.parse().map_err(|()| Problem::field("id", text, rule))?;
    let place = (place.partition, place.offset, place.index);
    let row = app.read(move |tables| tables.dead_lettered(place)).await?;
    row.ok_or_else(|| Problem::unknown("dead letter", text))
}

async fn raw(app: &App, row: &DeadLetterRow, offset: u64) -> Result<Option<Payload>, Problem> {
    let commands = Arc::clone(&app.deps.commands);
    let partition = u32::try_from(row.journal_partition).unwrap_or(u32::MAX);
    let read = tokio::task::spawn_blocking(move || commands.command(partition, offset)).await;
    let read = read.map_err(|_| Problem::internal("reading the command ended unexpectedly"))?;
    read.map_err(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, "a dead letter's command cannot be read");
        Problem::unavailable("log_unavailable", "the commands cannot be read at the moment; try again later")
    })
}

/// What people sign in with is not shown, for there are hashes in it.
fn shown(raw: &[u8]) -> Option<String> {
    let read = CommandRecord::decode(raw);
    if read.is_ok_and(|record| matches!(record.command, Command::Credential(_))) {
        return None;
    }
    let cut = &raw[..raw.len().min(MAX_SHOWN_BYTES)];
    let hex = || cut.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(match std::str::from_utf8(raw) {
        Ok(_) => String::from_utf8_lossy(cut).into_owned(),
        Err(_) => hex(),
    })
}

/// The command, if it is one that can be decided where it was sent; else why not.
fn decoded(app: &App, row: &DeadLetterRow, raw: &[u8]) -> Result<CommandRecord, String> {
    let record = CommandRecord::decode(raw)
        .map_err(|error| format!("it still is no command that this version can read: {error}"))?;
    if seal_parts(raw).1.is_some() {
        return Err(
            "it is a worker's report, which only that worker can seal; it reports again by itself".to_owned()
        );
    }
    if matches!(record.command, Command::Credential(_)) {
        return Err("it is about what a person signs in with, and would bring back what was so then; the person does it anew".to_owned());
    }
    if i64::from(record.shard.partition(app.deps.partitions)) != row.journal_partition {
        return Err(format!("it is for shard {}, which is not in this partition", record.shard));
    }
    Ok(record)
}

fn gone(row: &DeadLetterRow, offset: u64) -> String {
    format!("the log does not keep the command at {offset} of partition {} any more", row.journal_partition)
}

fn closed(row: &DeadLetterRow) -> String {
    match &row.redriven_by {
        Some(by) => format!("it was sent again already, by {by}"),
        None => "its timer runs again already, or is not needed any more".to_owned(),
    }
}

/// The job that can be let go on; else why there is none.
async fn suspended_job(
    app: &App,
    row: &DeadLetterRow,
    job: Option<JobId>,
) -> Result<Result<JobId, String>, Problem> {
    let Some(job) = job else {
        return Ok(Err(format!(
            "no command lets the timer of {} go on; only that of a job's schedule can",
            row.subject
        )));
    };
    let known = app.read(move |tables| tables.job(job.0)).await?;
    Ok(match known {
        None => Err(format!("job {job} is not known")),
        Some(row) if row.deleted_at.is_some() => Err(format!("job {job} is deleted")),
        Some(row) if !row.enabled => Err(format!("job {job} is disabled; enabling it lets it go on")),
        Some(_) => Ok(job),
    })
}

/// A job that is switched on anew gets a new timer.
async fn switch(write: &Write<'_>, job: JobId) -> Result<Done, Problem> {
    let switch = |enabled| Command::Job(JobCommand::Switch { job, enabled });
    write.part("off").send(ShardId::CATALOGUE, switch(false)).await?;
    let on = write.part("on").send(ShardId::CATALOGUE, switch(true)).await;
    on.map_err(|mut problem| {
        problem.detail = format!("{}; job {job} is disabled now: enable it", problem.detail).into();
        problem
    })
}

fn refused(reason: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, "not_redrivable", reason)
}
