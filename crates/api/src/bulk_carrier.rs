//! Carries operations on many batches or jobs on, to their end (BYD-3).
//!
//! The items of an operation stand in the journal, and so in the read tables; an item without an outcome is sent to its
//! shard, under a request id that follows from operation and item, and its outcome is reported to the catalogue. So any
//! instance may carry on, at any time, and two at once do nothing twice. The instance that took the request begins at
//! once, one that starts carries on all that it finds, and any takes over what has not moved for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidemill_cluster::SubmitRequest;
use tidemill_journal::now;
use tidemill_model::{
    Actor, Answer, BatchCommand, BatchId, BatchResult, BulkAction, BulkCommand, BulkId, BulkOutcome, Command,
    JobCommand, JobId, Outcome, OverriddenResult, Rejection, RequestId, RerunCommand, RerunSpec, ShardId,
    Timestamp,
};
use tidemill_store::rows::{BulkItemRow, BulkRow};
use tidemill_store::{Cursor, PageRequest, ReadTables};

use crate::Problem;
use crate::app::App;
use crate::clearing::clearing;

/// Between two looks for operations that others began.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// After a round of one's own, until the tables show it.
const PAUSE: Duration = Duration::from_millis(50);
/// An operation of another instance that has not moved for longer is carried on here.
const ABANDONED_AFTER: Duration = Duration::from_secs(10);
/// Items that are under way at once.
const ITEMS: usize = 64;
/// Operations that are looked at.
const OPERATIONS: usize = 64;
/// Shards know for 24 hours what they have done; what has not been sent for this long is not sent any more.
const MAX_AGE_MS: i64 = 12 * 3_600_000;

/// What this instance has seen of the operations that have not ended.
#[derive(Default)]
struct Known {
    seen: BTreeMap<BulkId, Seen>,
    /// It has looked since it started.
    has_looked: bool,
}

/// What was seen of an operation, and what has been reported of it and is not in the tables yet.
struct Seen {
    decided: i64,
    since: Instant,
    reported: BTreeSet<i64>,
    /// Items whose refusal passes by itself, and how often each was refused so.
    busy: BTreeMap<i64, u32>,
    /// Where the next part of its items begins, so that none waits behind those whose owner is away.
    next: Option<Cursor>,
}

impl Seen {
    fn new(decided: i64, since: Instant) -> Self {
        Self { decided, since, reported: BTreeSet::new(), busy: BTreeMap::new(), next: None }
    }
}

/// Carries operations on until the program stops.
pub(crate) async fn run(app: Arc<App>) {
    let mut stopping = app.stopping.clone();
    let mut known = Known::default();
    let mut trouble = None;
    loop {
        let (moved, detail) = match round(&app, &mut known).await {
            Ok(moved) => (moved, None),
            Err(problem) => (false, Some(problem.detail)),
        };
        // Once for each cause, however often it is tried meanwhile.
        if let Some(detail) = detail.as_ref().filter(|it| trouble.as_ref() != Some(*it)) {
            tracing::warn!(reason = %detail, "bulk operations wait: {detail}");
        }
        trouble = detail;
        let pause = if moved { PAUSE } else { LOOK_EVERY };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = app.bulks.news.notified() => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}

/// One step of every operation that is this instance's to carry on. Whether there was one.
async fn round(app: &App, known: &mut Known) -> Result<bool, Problem> {
    let rows = app.read(|tables| tables.open_bulk_operations(&PageRequest::first(OPERATIONS))).await?.items;
    let open: BTreeSet<BulkId> = rows.iter().map(|row| BulkId(row.id)).collect();
    known.seen.retain(|bulk, _| open.contains(bulk));
    app.bulks.keep(&open);
    if !std::mem::replace(&mut known.has_looked, true) {
        open.iter().for_each(|bulk| app.bulks.begun(*bulk));
    }
    let mut moved = false;
    for row in rows {
        let bulk = BulkId(row.id);
        let decided = row.done + row.refused;
        let now = Instant::now();
        let known = known.seen.entry(bulk).or_insert_with(|| Seen::new(decided, now));
        if known.decided != decided {
            (known.decided, known.since) = (decided, now);
        }
        if app.bulks.is_own(bulk) || known.since.elapsed() > ABANDONED_AFTER {
            match step(app, &row, known).await {
                Ok(has_moved) => moved |= has_moved,
                Err(problem) => {
                    tracing::warn!(reason = %problem.detail, "bulk operation {bulk} waits: {}", problem.detail);
                }
            }
        }
    }
    Ok(moved)
}

/// The next items of an operation: sent, and what came of them reported. Whether it is worth looking again soon.
async fn step(app: &App, bulk: &BulkRow, seen: &mut Seen) -> Result<bool, Problem> {
    let (of, request) = (bulk.id, PageRequest { after: seen.next.take(), limit: ITEMS });
    let page = app.read(move |tables| tables.bulk_items(of, Some("left"), &request)).await?;
    seen.next = page.next;
    let items: Vec<BulkItemRow> =
        page.items.into_iter().filter(|row| !seen.reported.contains(&row.item_id)).collect();
    let again = |item: &i64| seen.busy.get(item).copied().unwrap_or(0);
    let sent = join_all(items.iter().map(|row| send(app, bulk, row.item_id, again(&row.item_id)))).await;
    let mut outcomes = Vec::with_capacity(items.len());
    for (row, sent) in items.iter().zip(sent) {
        match sent {
            Sent::Known(outcome) => outcomes.push(outcome),
            Sent::Busy => *seen.busy.entry(row.item_id).or_insert(0) += 1,
            Sent::Open => {}
        }
    }
    if outcomes.is_empty() {
        // What was reported is about to stand in the tables.
        return Ok(items.is_empty());
    }
    let done: Vec<i64> = outcomes.iter().map(|outcome: &BulkOutcome| outcome.item).collect();
    let command = Command::Bulk(BulkCommand::Report { bulk: BulkId(bulk.id), outcomes });
    let submit_request = SubmitRequest {
        shard: ShardId::CATALOGUE,
        request: tidemill_cluster::request_id(),
        actor: actor_of(&bulk.requested_by),
        command,
    };
    let reply = app.deps.submitter.submit(submit_request, Some(app.config.write_timeout())).await?;
    match reply.outcome {
        Outcome::Done | Outcome::Answered(_) => seen.reported.extend(done),
        // They are reported again.
        Outcome::Refused(rejection) => return Err(rejection.into()),
        Outcome::Repeated | Outcome::Deferred => {}
    }
    Ok(true)
}

/// What is known of an item that was sent.
enum Sent {
    Known(BulkOutcome),
    /// It was refused for what passes by itself.
    Busy,
    Open,
}

/// Sends the command of one item. Refusals are answers, too, which shards keep: after `again` of them that pass, it goes
/// under an id of its own, which follows from the first one, so that whoever carries on gets the same answers.
async fn send(app: &App, bulk: &BulkRow, item: i64, again: u32) -> Sent {
    let refused = |reason: String| Sent::Known(BulkOutcome { item, refused: Some(reason), rerun: None });
    let done = |rerun| Sent::Known(BulkOutcome { item, refused: None, rerun });
    let age_ms = now().as_millisecond() - bulk.requested_at;
    if age_ms > MAX_AGE_MS {
        let reason =
            "what came of it was not known within 12 hours; look at it, and repeat the action if need be";
        return refused(reason.to_owned());
    }
    let Ok(Some((shard, command))) = command(app, bulk, item).await else { return Sent::Open };
    let again = if again == 0 { String::new() } else { format!("~{again}") };
    let request = RequestId::new(format!("bulk~{}~{item}{again}", bulk.id));
    let submit_request = SubmitRequest { shard, request, actor: actor_of(&bulk.requested_by), command };
    let Ok(reply) = app.deps.submitter.submit(submit_request, Some(app.config.write_timeout())).await else {
        return Sent::Open;
    };
    match reply.outcome {
        Outcome::Answered(Answer::Rerun { rerun, .. }) => done(Some(rerun)),
        Outcome::Done | Outcome::Answered(_) => done(None),
        Outcome::Refused(Rejection::ApplyRunning { .. } | Rejection::JobMoving { .. }) => Sent::Busy,
        Outcome::Repeated | Outcome::Deferred => Sent::Open,
        Outcome::Refused(rejection) => refused(rejection.to_string()),
    }
}

/// What is to be done to an item, and by which shard. `None`: the tables do not show the item, as while they are rebuilt.
async fn command(app: &App, bulk: &BulkRow, item: i64) -> Result<Option<(ShardId, Command)>, Problem> {
    let Some(action) = action_of(bulk) else { return Ok(None) };
    let enabled = action == BulkAction::Enable;
    if action.is_of_jobs() {
        return Ok(Some((ShardId::CATALOGUE, JobCommand::Switch { job: JobId(item), enabled }.into())));
    }
    let Some(row) = app.read(move |tables| tables.batch(item)).await? else { return Ok(None) };
    let (batch, job, reason) = (BatchId(item), JobId(row.job_id), bulk.reason.to_string());
    let Ok(logical_time) = Timestamp::from_millisecond(row.logical_time) else { return Ok(None) };
    Ok(match action {
        BulkAction::Kill => Some((batch.shard(), BatchCommand::Kill { batch, reason }.into())),
        BulkAction::Mark(result) => {
            let run = u32::try_from(row.run).ok();
            let command = BatchCommand::OverrideResult { batch, job, logical_time, result, reason, run };
            Some((batch.shard(), command.into()))
        }
        BulkAction::Clear => {
            let spec = RerunSpec { reason, approve: true, ..clearing(job, logical_time) };
            Some((ShardId::CATALOGUE, RerunCommand::Plan(Box::new(spec)).into()))
        }
        BulkAction::Enable | BulkAction::Disable => None,
    })
}

fn action_of(bulk: &BulkRow) -> Option<BulkAction> {
    let results = [OverriddenResult::Success, OverriddenResult::Failed, OverriddenResult::Skipped];
    let word = bulk.result.as_deref();
    let result = results.into_iter().find(|result| Some(BatchResult::from(*result).as_str()) == word);
    Some(match &*bulk.action {
        "kill" => BulkAction::Kill,
        "mark" => BulkAction::Mark(result?),
        "clear" => BulkAction::Clear,
        "enable" => BulkAction::Enable,
        "disable" => BulkAction::Disable,
        _ => return None,
    })
}

/// Who requested it, as the tables name it: application, or application/person.
fn actor_of(name: &str) -> Actor {
    match name.split_once('/') {
        Some((app, user)) => Actor { app: app.into(), user: Some(user.into()) },
        None => Actor { app: name.into(), user: None },
    }
}
