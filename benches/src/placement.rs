//! Placement by itself: a thousand workers, whose attempts do nothing but take their time.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_model::{BatchEvent, BatchId, Event, Timestamp, Token};

use crate::fake_workers::{Seen, Terms};
use crate::history::History;
use crate::requests::submission;
use crate::row::Row;
use crate::run::{FINISHED, GENERATED, PATIENCE, Run, Stopwatch, milliseconds};

const WORKERS: usize = 1_000;
/// Of each worker, where slots are to stay free: a quarter of them is in use.
const SLOTS: u32 = 4;
/// About a quarter of what `lifecycle` does on two cores, for a broker takes its part of them: near that, a wait is one
/// for the processor.
const COME_PER_SECOND: usize = 2_000;
/// With one slot of each worker, as many end in a second as come in the other workload.
const ATTEMPT: Duration = Duration::from_millis(500);
const LOT_EVERY: Duration = Duration::from_millis(10);

impl Run<'_> {
    /// Batches keep coming while slots are free: from ready until a worker has read of its assignment.
    pub(crate) fn placement(&self, n: usize) -> anyhow::Result<Row> {
        let fake_workers =
            self.fixture.fake_workers(Terms { workers: WORKERS, slots: SLOTS, attempt: ATTEMPT })?;
        let watch = Stopwatch::start();
        self.come(n)?;
        self.fixture.until(FINISHED, n, PATIENCE)?;
        self.fixture.settle()?;
        let lap = watch.stop();
        let waits_ms = fake_workers.look(|seen| waits(&self.history()?, seen))?;
        fake_workers.stop();
        let max_ms = waits_ms.iter().map(|(_, wait)| *wait).fold(0.0, f64::max);
        let waits_ms = waits_ms.into_iter().map(|(_, wait)| wait).collect();
        Ok(self.row(n, lap, waits_ms, self.append_limit()?)?.with("the longest, ms", max_ms))
    }

    /// Evenly in time, as far as the log takes them.
    fn come(&self, n: usize) -> anyhow::Result<()> {
        let (begun, mut sent) = (Instant::now(), 0);
        while sent < n {
            let due = (begun.elapsed().as_secs_f64() * COME_PER_SECOND as f64) as usize;
            let lot = due.min(n).saturating_sub(sent);
            self.fixture.send_all((0..lot).map(|_| submission("come", "noop", None, self.fixture)))?;
            sent += lot;
            thread::sleep(LOT_EVERY);
        }
        Ok(())
    }

    /// All are ready before there is a worker: from a slot's end of use until a worker has read of the next
    /// assignment.
    pub(crate) fn placement_backlog(&self, n: usize) -> anyhow::Result<Row> {
        self.fixture.send_all((0..n).map(|_| submission("ready", "noop", None, self.fixture)))?;
        self.fixture.until(GENERATED, n, PATIENCE)?;
        self.fixture.settle()?;
        let watch = Stopwatch::start();
        let fake_workers =
            self.fixture.fake_workers(Terms { workers: WORKERS, slots: 1, attempt: ATTEMPT })?;
        self.fixture.until(FINISHED, n, PATIENCE)?;
        self.fixture.settle()?;
        let lap = watch.stop();
        let (mut freed, mut assigned): (Vec<Timestamp>, Vec<Timestamp>) =
            fake_workers.look(|seen| (seen.freed.clone(), seen.assigned.iter().map(|(_, at)| *at).collect()));
        fake_workers.stop();
        freed.sort();
        assigned.sort();
        // The first assignments took slots that were free anyway; each later one took the slot of one end.
        let slots = WORKERS.min(n);
        let waits_ms: Vec<f64> =
            freed.iter().zip(&assigned[slots..]).map(|(freed, next)| milliseconds(*freed, *next)).collect();
        let max_ms = waits_ms.iter().copied().fold(0.0, f64::max);
        Ok(self.row(n, lap, waits_ms, self.append_limit()?)?.with("the longest, ms", max_ms))
    }
}

/// Milliseconds from generated, and so ready, until a worker had read of the assignment, in the order in which
/// they were generated.
pub(crate) fn waits(history: &History, seen: &Seen) -> anyhow::Result<Vec<(BatchId, f64)>> {
    let mut tokens: BTreeMap<BatchId, Token> = BTreeMap::new();
    for (_, event) in &history.facts {
        if let Event::Batch(BatchEvent::Assigned { batch, token, .. }) = event {
            tokens.entry(*batch).or_insert(*token);
        }
    }
    let assigned: BTreeMap<Token, Timestamp> = seen.assigned.iter().copied().collect();
    let generated = history.facts.iter().filter_map(|(at, event)| match event {
        Event::Batch(BatchEvent::Generated { batch, .. }) => Some((*batch, *at)),
        _ => None,
    });
    let wait = |(batch, at): (BatchId, Timestamp)| {
        let assigned = assigned.get(tokens.get(&batch)?)?;
        Some((batch, milliseconds(at, *assigned)))
    };
    Ok(generated.filter_map(wait).collect())
}
