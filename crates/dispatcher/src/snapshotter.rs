//! The thread that takes snapshots of the partitions that this process owns. It folds the journal itself, from the last
//! snapshot on, so an owner has nothing to do but to name a record and to write one.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use tidemill_log::Log;
use tidemill_model::Level;
use tidemill_snapshots::{Config, Error as Failure, Sight, Snapshots, Taken, take, verify};

use crate::live::{LiveError, LiveHandle, PartitionStatus};
use crate::{Clock, Error};

/// How often it is looked whether one is due.
const LOOK: Duration = Duration::from_secs(1);
/// After one that took so long, so many times as long passes before the next.
const REST: u32 = 4;
/// One that could not be taken is tried again after this.
const AGAIN: Duration = Duration::from_secs(60);

/// Where snapshots are, and when one is taken.
#[derive(Debug, Clone)]
pub struct Snapshotting {
    /// Where.
    pub snapshots: Snapshots,
    /// When, and which are kept.
    pub config: Config,
}

/// A running thread; dropped, it is told to stop.
#[derive(Debug)]
pub(crate) struct Snapshotter {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Snapshotter {
    pub(crate) fn start(
        with: Snapshotting,
        log: Arc<dyn Log>,
        live: LiveHandle,
        reads: Level,
    ) -> Result<Self, Error> {
        let (stop, stopped) = bounded(1);
        let work = Work { with, log, live, reads, stopped, known: BTreeMap::new(), began: Instant::now() };
        let thread = thread::Builder::new().name("snapshots".to_owned()).spawn(move || work.run());
        Ok(Self { stop, thread: thread.map_err(Error::Thread)? })
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the thread that takes snapshots panicked");
        }
    }
}

/// What is known of one partition.
#[derive(Debug, Default)]
struct Known {
    not_before: Option<Instant>,
    /// How many this process has taken.
    taken: u32,
}

struct Work {
    with: Snapshotting,
    log: Arc<dyn Log>,
    live: LiveHandle,
    reads: Level,
    stopped: Receiver<()>,
    known: BTreeMap<u32, Known>,
    began: Instant,
}

impl Work {
    fn run(mut self) {
        while self.stopped.recv_timeout(LOOK).is_err_and(|error| error.is_timeout()) {
            for status in self.live.status() {
                if self.is_due(&status) && !self.is_stopped() {
                    self.work_on(status.partition);
                }
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.try_recv() != Err(TryRecvError::Empty)
    }

    fn is_due(&self, status: &PartitionStatus) -> bool {
        let known = self.known.get(&status.partition);
        if !status.owning || known.and_then(|known| known.not_before).is_some_and(|at| at > Instant::now()) {
            return false;
        }
        let Config { interval_s, every_events, .. } = self.with.config;
        let age = status.snapshot.map(|newest| Clock.now().wall.duration_since(newest.at).as_secs());
        // Where there never was one, the first comes an interval after the start.
        let age = age.unwrap_or_else(|| i64::try_from(self.began.elapsed().as_secs()).unwrap_or(i64::MAX));
        let is_old = age >= i64::from(interval_s);
        status.events_since_snapshot >= every_events || (is_old && status.events_since_snapshot > 0)
    }

    fn work_on(&mut self, partition: u32) {
        let began = Instant::now();
        let number = self.known.get(&partition).map_or(0, |known| known.taken);
        let compare = number.is_multiple_of(self.with.config.verify_one_in.max(1));
        let taken = catch_unwind(AssertUnwindSafe(|| self.take(partition, compare)));
        let Ok(taken) = taken else {
            tracing::error!(partition, "to fold the journal for a snapshot failed; none is taken");
            let not_before = Some(Instant::now() + AGAIN);
            self.known.insert(partition, Known { not_before, taken: number });
            return;
        };
        let known = match taken {
            // Nothing may be named now.
            Ok(None) => Known { not_before: None, taken: number },
            Ok(Some(taken)) => {
                let (record, bytes) = (taken.mark.offset, taken.bytes);
                let took_ms = began.elapsed().as_millis() as u64;
                tracing::info!(partition, record, bytes, took_ms, "a snapshot is taken");
                // What is recorded is seen a moment later; and most of the time is left for the work.
                let pause = (began.elapsed() * REST).max(LOOK * 2);
                Known { not_before: Some(Instant::now() + pause), taken: number + 1 }
            }
            Err(Failure::Interrupted) => return,
            Err(error @ Failure::Differs { .. }) => {
                tracing::error!(partition, %error, "a snapshot is not the fold of its journal");
                Known { not_before: Some(Instant::now() + AGAIN), taken: 0 }
            }
            Err(error) => {
                tracing::warn!(partition, %error, source = ?error.source(), "no snapshot is taken; tries again");
                Known { not_before: Some(Instant::now() + AGAIN), taken: number }
            }
        };
        self.known.insert(partition, known);
    }

    fn take(&self, partition: u32, compare: bool) -> Result<Option<Taken>, Failure> {
        let Snapshotting { snapshots, config } = &self.with;
        let Ok(Some(mark)) = self.live.mark(partition) else { return Ok(None) };
        let is_stopped = || self.is_stopped();
        let (log, reads) = (&*self.log, self.reads);
        let sight = Sight { log, snapshots, partition, reads, is_stopped: &is_stopped };
        let before = snapshots.list(partition)?.into_iter().map(|(name, _)| name);
        // The one that it is taken from is left out of the comparison.
        let newest = before.filter(|name| name.offset < mark.offset).map(|name| name.offset).next();
        let taken = take(&sight, mark, compare)?;
        match self.live.snapshot_taken(taken.clone()) {
            Ok(()) => {}
            // Nobody names it.
            Err(LiveError::NotOwned(_)) => {
                snapshots.remove(&taken.name)?;
                return Ok(None);
            }
            // Its owner may name it yet; if not, the ladder removes it.
            Err(LiveError::NoAnswer(_)) => return Ok(Some(taken)),
        }
        snapshots.thin(partition, config.ladder())?;
        if compare {
            verify(&sight, &taken.name, newest.unwrap_or(0))?;
        }
        Ok(Some(taken))
    }
}
