//! How long users and low priorities wait under full load.

use std::thread;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use tidemill_journal::now;
use tidemill_model::{BatchEvent, BatchId, Command, Event, Priority, ShardCommand};

use crate::fake_workers::{FakeWorkers, Terms};
use crate::placement::waits;
use crate::requests::of_user;
use crate::row::{Row, percentile};
use crate::run::{FINISHED, GENERATED, PATIENCE, Run, Stopwatch};

/// By how much one is ahead of the other alone.
pub(crate) const BESIDE_ALONE: &str = "99 of 100 beside the flood / alone";
/// The same, where the flood comes at the same moment.
pub(crate) const TOGETHER_ALONE: &str = "99 of 100 with the flood / alone";
/// By how much the bound is missed; 0 and below: it holds.
pub(crate) const RELEASES_BEYOND: &str = "slots that became free beyond the bound";

const SLOTS: usize = 10;
const TERMS: Terms = Terms { workers: SLOTS, slots: 1, attempt: Duration::from_millis(100) };
const OF_BOB: usize = 100;
/// What waits while every slot is taken.
const BACKLOG: usize = 200;
const FULL_FOR: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

fn priority(step: i64) -> Priority {
    Priority::try_from(step).expect("is from 0 to 9")
}

impl Run<'_> {
    /// Two users of equal priority, the first with `flood` ready batches: how long 100 of the second wait, alone,
    /// when they become ready with the first's, and beside what is left of them.
    pub(crate) fn fairness(&self, flood: usize) -> anyhow::Result<Row> {
        let fake_workers = self.fixture.fake_workers(TERMS)?;
        self.send("bob", OF_BOB)?;
        self.fixture.until(FINISHED, OF_BOB, PATIENCE)?;
        let batch_window_ms = self.together(&fake_workers, flood)?;
        // Who has just come has no starts that the other could make up for.
        fake_workers.until_granted("ann", fake_workers.look(|seen| seen.granted("ann")) + 10 * SLOTS)?;
        self.fixture.settle()?;
        let watch = Stopwatch::start();
        let before = fake_workers.look(|seen| seen.assigned.len());
        self.send("bob", OF_BOB)?;
        fake_workers.until_granted("bob", 2 * OF_BOB)?;
        let started = fake_workers.look(|seen| seen.assigned.len()) - before;
        let lap = watch.stop();
        fake_workers.hold();
        let mut waits = fake_workers.look(|seen| waits(&self.history()?, seen))?;
        fake_workers.stop();
        let in_ms = |waits: &[(BatchId, f64)]| waits.iter().map(|(_, wait)| *wait).collect::<Vec<f64>>();
        let beside = in_ms(&waits.split_off(waits.len().saturating_sub(OF_BOB)));
        let mut alone = in_ms(&waits[..OF_BOB]);
        let alone_ms = percentile(&mut alone, 0.99).unwrap_or_default();
        let beside_ms = percentile(&mut beside.clone(), 0.99).unwrap_or_default();
        let row = self.row(started, lap, beside, self.append_limit()?)?;
        let row = row.with("99 of 100 alone, ms", alone_ms).with(BESIDE_ALONE, beside_ms / alone_ms);
        Ok(row.with(TOGETHER_ALONE, batch_window_ms / alone_ms))
    }

    fn send(&self, owner: &str, count: usize) -> anyhow::Result<()> {
        self.fixture.send_all((0..count).map(|_| of_user(owner, Priority::DEFAULT, self.fixture)))
    }

    /// Every slot is taken until a flood of ann's and 100 of another user's are ready: how long 99 of the 100 wait
    /// from when the slots become free.
    fn together(&self, fake_workers: &FakeWorkers, flood: usize) -> anyhow::Result<f64> {
        fake_workers.hold();
        self.send("eve", SLOTS)?;
        fake_workers.until_granted("eve", SLOTS)?;
        self.send("ann", flood)?;
        self.send("dan", OF_BOB)?;
        self.fixture.until(GENERATED, SLOTS + flood + OF_BOB, PATIENCE)?;
        self.fixture.settle()?;
        let freed = Instant::now();
        fake_workers.go_on();
        fake_workers.until_granted("dan", OF_BOB * 99 / 100)?;
        Ok(freed.elapsed().as_secs_f64() * 1e3)
    }

    /// One batch of priority 9 while batches of priority 0 keep every slot taken and 200 of them wait. Its 90 minutes
    /// pass at once, by the owner's clock; counted is from then on.
    pub(crate) fn ageing(&self) -> anyhow::Result<Row> {
        let fake_workers = self.fixture.fake_workers(TERMS)?;
        let highest = priority(0);
        let mut sent = SLOTS + BACKLOG;
        self.fixture.send_all((0..sent).map(|_| of_user("ann", highest, self.fixture)))?;
        fake_workers.until_granted("ann", SLOTS)?;
        self.fixture.send_all(std::iter::once(of_user("bob", priority(9), self.fixture)))?;
        let full = Instant::now() + FULL_FOR;
        self.keep_full(&fake_workers, &mut sent, || Instant::now() >= full)?;
        fake_workers.hold();
        self.fixture.until(GENERATED, sent + 1, PATIENCE)?;
        fake_workers.until("all that is assigned is granted", |seen| seen.is_quiet())?;
        anyhow::ensure!(fake_workers.look(|seen| seen.granted("bob")) == 0, "it went before its time");
        let assigned = fake_workers.look(|seen| seen.assigned.len());
        let aged = now() + SignedDuration::from_mins(91);
        self.fixture.ask(self.fixture.shard, Command::Shard(ShardCommand::SetTime { now: aged }))?;
        let (watch, begun) = (Stopwatch::start(), Instant::now());
        fake_workers.go_on();
        self.keep_full(&fake_workers, &mut sent, || fake_workers.look(|seen| seen.granted("bob") > 0))?;
        let took_ms = begun.elapsed().as_secs_f64() * 1e3;
        fake_workers.hold();
        self.fixture.settle()?;
        let lap = watch.stop();
        fake_workers.stop();
        let releases = self.assigned_before_the_last_of_all(SLOTS + BACKLOG)? + 1 - assigned;
        // It gets the slot after one for each that was there.
        let bound = BACKLOG + 1;
        let row = self.row(releases, lap, vec![took_ms], self.append_limit()?)?;
        let row = row.with("slots that became free until it started", releases as f64);
        Ok(row.with(RELEASES_BEYOND, releases as f64 - bound as f64))
    }

    /// As many come as slots become free, until it is over.
    fn keep_full(
        &self,
        fake_workers: &FakeWorkers,
        sent: &mut usize,
        is_over: impl Fn() -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let highest = priority(0);
        while !is_over() {
            let wanted = SLOTS + BACKLOG + fake_workers.look(|seen| seen.freed.len());
            self.fixture.send_all((*sent..wanted).map(|_| of_user("ann", highest, self.fixture)))?;
            *sent = (*sent).max(wanted);
            anyhow::ensure!(Instant::now() < deadline, "it starves");
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// How many were assigned before the batch that was generated after so many others.
    fn assigned_before_the_last_of_all(&self, others: usize) -> anyhow::Result<usize> {
        let history = self.history()?;
        let mut generated = history.facts.iter().filter_map(|(_, event)| match event {
            Event::Batch(BatchEvent::Generated { batch, .. }) => Some(*batch),
            _ => None,
        });
        let batch = generated.nth(others);
        let mut assigned = history.facts.iter().filter_map(|(_, event)| match event {
            Event::Batch(BatchEvent::Assigned { batch, .. }) => Some(Some(*batch)),
            _ => None,
        });
        assigned
            .position(|assigned| assigned == batch)
            .ok_or_else(|| anyhow::anyhow!("it was never assigned"))
    }
}
