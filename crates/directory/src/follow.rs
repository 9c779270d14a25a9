//! The thread that follows the catalogue's journal.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidemill_journal::{Error, Journal, Session, Shutdown, Start, keep};
use tidemill_log::{Head, Readers, Topic};
use tidemill_model::ShardId;

use crate::known::Known;

/// Records of one poll.
const RECORDS: usize = 256;
/// Between two questions where the journal ends.
const LOOK: Duration = Duration::from_millis(200);
/// As people know it.
const HOLDER: &str = "what is known of the catalogue";

/// Keeps `known` at the end of the catalogue's journal, on a thread of its own, until shutdown; goes on after an outage of the
/// log. The thread ends with an error that no waiting fixes; then `known` gets older, and says so.
///
/// # Errors
/// The thread cannot be started.
pub fn follow(
    log: Arc<dyn Readers>,
    known: Known,
    shutdown: &Shutdown,
) -> io::Result<JoinHandle<Result<(), Error>>> {
    let partition = ShardId::CATALOGUE.partition(log.partitions(Topic::Journal));
    let shutdown = shutdown.clone();
    let mut follower = Follower { log, partition, known, head: None, shutdown: shutdown.clone() };
    thread::Builder::new().name("catalogue".to_owned()).spawn(move || keep(&mut follower, &shutdown))
}

struct Follower {
    log: Arc<dyn Readers>,
    partition: u32,
    known: Known,
    /// Where the chain stood after what is known.
    head: Option<Head>,
    shutdown: Shutdown,
}

impl Follower {
    fn open(&self) -> Result<Journal, Error> {
        let start = self.head.clone().map_or(Start::Beginning, Start::After);
        Journal::open(&*self.log, self.partition, HOLDER, start)
    }

    /// A journal that is shorter than what is known of it is another one.
    fn check(&self, end: u64) -> Result<(), Error> {
        let next = self.known.progress().next;
        if end >= next {
            return Ok(());
        }
        let found = format!("the journal ends before record {end}");
        Err(Error::PositionMismatch { holder: HOLDER, partition: self.partition, offset: next, found })
    }

    fn end(&self) -> Result<u64, Error> {
        let range = self.log.range(Topic::Journal, self.partition).map_err(Error::read(self.partition))?;
        Ok(range.end)
    }
}

impl Session for Follower {
    type Error = Error;

    fn run(&mut self, worked: &mut bool) -> Result<(), Error> {
        let mut journal = self.open()?;
        self.shutdown.wakes(journal.waker());
        let mut looked_at: Option<Instant> = None;
        while !self.shutdown.is_requested() {
            if looked_at.is_none_or(|at| at.elapsed() >= LOOK) {
                // What is acknowledged before the question is below the answer.
                let asked_at = Instant::now();
                let end = self.end()?;
                self.check(end)?;
                self.known.ends(end, asked_at);
                looked_at = Some(asked_at);
            }
            let read = journal.poll(RECORDS, LOOK)?;
            self.known.take(&read);
            if read.last.is_some() {
                self.head = journal.head().cloned();
            }
            *worked = true;
        }
        Ok(())
    }

    fn failed(&mut self, error: &Error, _: &str) -> bool {
        // Another log stands where that was of which it knows: it begins anew, as a new process would.
        if is_another_log(error) && (self.head.is_some() || self.known.progress().next > 0) {
            self.head = None;
            self.known.forget();
            return true;
        }
        // Old records cannot be read at the moment: keys come from the tables meanwhile, and nothing else of the interface
        // needs those records.
        error.is_outage() || matches!(error, Error::Read { source: tidemill_log::Error::Archive { .. }, .. })
    }

    fn tell_held_up(&self, reason: &str) {
        tracing::warn!(reason, "the catalogue's journal is not followed at the moment: {reason}");
    }

    fn tell_stopped(&self, reason: &str) {
        tracing::error!(reason, "the catalogue's journal is not followed any more: {reason}");
    }
}

fn is_another_log(error: &Error) -> bool {
    use tidemill_log::Error::OffsetOutOfRange;
    matches!(
        error,
        Error::PositionMismatch { .. }
            | Error::AheadOfRestore { .. }
            | Error::Read { source: OffsetOutOfRange { .. }, .. }
    )
}
