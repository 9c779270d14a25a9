//! The thread around one [`Owner`]: feeds it what the log has, carries out what it wants.

mod asker;
mod turn;

use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use tidemill_log::{Log, Topic};
use tidemill_snapshots::{Begun, Fold, Snapshots, Until, restore};

use self::turn::End;
use crate::Error;
use crate::live::LiveHandle;
use crate::owner::{NamedSnapshot, Start};

/// Until a partition whose commands were lost is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// An ownership that lasted this long was no failure: the next wait is a first one again.
const LASTING: Duration = Duration::from_secs(60);
/// The pauses of a deposed owner before it claims again: each is up to twice as long, by chance, so that owners who depose each
/// other part.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_secs(2))
    .with_max_delay(Duration::from_secs(32))
    .without_max_times()
    .with_jitter();

/// What the coordinator tells a partition's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The partition is suggested elsewhere, or the process ends: hand it over.
    Leave,
}

pub(crate) struct Owning {
    pub(crate) start: Start,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) live: LiveHandle,
    pub(crate) snapshots: Option<Snapshots>,
    pub(crate) orders: Receiver<Order>,
}

impl Owning {
    /// Owns the partition, again and again, until told to leave.
    pub(crate) fn run(self) -> Result<(), Error> {
        let mut pauses = PAUSES.build();
        loop {
            let began = Instant::now();
            match self.turn() {
                Ok(End::Left) => return Ok(()),
                Ok(End::Restart { back_off: false }) => continue,
                Ok(End::Restart { back_off: true }) => {}
                Err(error @ Error::Log { .. }) => {
                    tracing::warn!(partition = self.start.partition, %error, source = ?error.source(), "tries again");
                }
                // A person can fix it: the journal says so then. Or it was only late, and others decided them.
                Ok(End::CommandsLost { read }) if self.journal_grows(read) => {}
                Ok(End::CommandsLost { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
            if began.elapsed() >= LASTING {
                pauses = PAUSES.build();
            }
            let pause = pauses.next().expect("there is no end of them");
            match self.orders.recv_timeout(pause) {
                Ok(Order::Leave) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The newest snapshot that counts, read on from to the record that names it; else the beginning.
    fn begun(&self) -> (Fold, Option<NamedSnapshot>) {
        let (partition, reads) = (self.start.partition, self.start.config.reads);
        let restored = || restore(&*self.log, self.snapshots.as_ref(), partition, reads, Until::Named);
        let Ok(restored) = catch_unwind(AssertUnwindSafe(restored)) else {
            // What fails to fold says so where it is read by the owner itself (rule 12).
            return (Fold::beginning(partition, self.start.count), None);
        };
        match &restored.begun {
            Some(Begun { name, bytes, took, .. }) => {
                let (record, took_ms) = (name.offset, took.as_millis() as u64);
                tracing::info!(
                    partition,
                    record,
                    bytes,
                    took_ms,
                    "begins with the snapshot of record {record}"
                );
            }
            None if self.snapshots.is_some() => {
                tracing::info!(partition, "begins with the first record: no snapshot counts");
            }
            None => {}
        }
        (restored.fold, restored.begun.as_ref().map(NamedSnapshot::from))
    }

    /// Waits until the journal has more than was read of it; not, where it is told to leave before.
    fn journal_grows(&self, read: u64) -> bool {
        loop {
            let range = self.log.range(Topic::Journal, self.start.partition);
            if range.is_ok_and(|range| range.end > read) {
                return true;
            }
            match self.orders.recv_timeout(LOOK_AGAIN) {
                Ok(Order::Leave) | Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
