//! Comparing the hints of pulls with the journal: does one say *nothing is due* to a user for whom something is?
//!
//! ```text
//!  journal up to its end at t ─► what an owner would answer ─┐
//!  hints, a second after t or later ─► those that count ─────┴─► due before the hint says so: it misleads
//! ```
//! A hint that does not count is harmless: its owner is asked. One that counts is judged by the journal up to a record
//! after its own, which is right because of what a keeper promises ([`tidemill_store::hints`]): a second after a fact
//! that makes something due has been written, its mark ends the hints from before it. So a hint that still counts has
//! to be true of that later state, too, and marks that are missing are found like hints that are wrong.
//!
//! Folding takes what an owner of one partition has in memory, and is left out where no hint counts.

use std::time::{Duration, Instant};

use tidemill_engine::Partition;
use tidemill_journal::{Journal, Shutdown, Start, now};
use tidemill_log::{Log, Topic};
use tidemill_model::{LiveAnswer, LiveQuery, ShardId, Timestamp, UserName};
use tidemill_store::hints::{Hint, Hints, Look, Place};

use super::{Difference, RECORDS, Report};
use crate::Error;

/// Where a life holds, the mark of every fact is there that is older.
const MARKED_AFTER: Duration = Duration::from_secs(1);

/// Judges the hints that count by what the journal says at its end, and adds those that mislead to the report. `on_progress`
/// hears how many records are folded, of how many.
///
/// # Errors
/// [`Error::Hints`] where they cannot be read; [`Error::Interrupted`] on shutdown; the log.
pub fn verify_hints(
    log: &dyn Log,
    hints: &dyn Hints,
    shutdown: &Shutdown,
    report: &mut Report,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    for partition in 0..log.partitions(Topic::Journal) {
        let (mut all, mut count) = (0, 0);
        each(hints, partition, shutdown, |_, look| {
            all += 1;
            count += u64::from(counting(look).is_some());
        })?;
        if count == 0 {
            report.other_hints += all;
            continue;
        }
        let (state, end, ended_at) = fold(log, partition, shutdown, on_progress)?;
        if shutdown.wait(MARKED_AFTER.saturating_sub(ended_at.elapsed())) {
            return Err(Error::Interrupted);
        }
        each(hints, partition, shutdown, |place, look| {
            match counting(look).filter(|hint| hint.offset < end) {
                Some(hint) => {
                    report.hints += 1;
                    judge(&state, place, hint).into_iter().for_each(|difference| report.add(difference));
                }
                None => report.other_hints += 1,
            }
        })?;
    }
    Ok(())
}

fn each(
    hints: &dyn Hints,
    partition: u32,
    shutdown: &Shutdown,
    mut on_hint: impl FnMut(&Place, &Look),
) -> Result<(), Error> {
    let mut from = None;
    loop {
        if shutdown.is_requested() {
            return Err(Error::Interrupted);
        }
        let page = hints.page(partition, from).map_err(|source| Error::Hints { partition, source })?;
        page.looks.iter().for_each(|(place, look)| on_hint(place, look));
        from = page.next;
        if from.is_none() {
            return Ok(());
        }
    }
}

fn counting(look: &Look) -> Option<&Hint> {
    look.counting(now().as_millisecond())
}

/// The state of the partition at the end of its journal, where that is, and when it was there.
fn fold(
    log: &dyn Log,
    partition: u32,
    shutdown: &Shutdown,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<(Partition, u64, Instant), Error> {
    let range = log.range(Topic::Journal, partition).map_err(Error::journal(partition))?;
    let ended_at = Instant::now();
    let mut journal = Journal::open(log, partition, "the hints", Start::Beginning)?;
    let mut state = Partition::new(partition, log.partitions(Topic::Journal));
    let mut next = range.start;
    while next < range.end {
        if shutdown.is_requested() {
            return Err(Error::Interrupted);
        }
        let most = usize::try_from(range.end - next).unwrap_or(usize::MAX);
        let read = journal.poll(most.min(RECORDS), Duration::from_millis(500))?;
        read.entries.iter().for_each(|entry| state.apply(&entry.envelope));
        next = read.last.map_or(next, |last| last + 1);
        on_progress(next - range.start, range.end - range.start);
    }
    Ok((state, range.end, ended_at))
}

/// What an owner would say to the user now, where it is not what the hint says. A user that the shard does not know is
/// asked for elsewhere, so that no hint of the shard is looked at.
fn judge(state: &Partition, place: &Place, hint: &Hint) -> Option<Difference> {
    let user = UserName::try_from(&*place.user).ok()?;
    let query = LiveQuery::User { user, at: now() };
    let LiveAnswer::User(standing) = state.answer(ShardId(place.shard), &query) else { return None };
    let due_at = match (&standing.live, &standing.next) {
        (Some(live), _) => live.granted_at,
        (None, Some(next)) => next.start,
        (None, None) => return None,
    };
    if due_at.as_millisecond() >= hint.until_ms {
        return None;
    }
    let until = Timestamp::from_millisecond(hint.until_ms)
        .map_or_else(|_| "ever".to_owned(), |time| time.to_string());
    Some(Difference {
        table: "hints",
        key: format!("{}, {:?}", place.shard, place.user),
        column: None,
        expected: Some(match standing.live {
            Some(_) => format!("a grant since {due_at}"),
            None => format!("something from {due_at} on"),
        }),
        found: Some(format!("nothing before {until}")),
    })
}
