//! How far the sinks of a process are, for people; and noted beside the read tables where the process is one of its own: whoever
//! serves these tells it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use tidemill_journal::{Session, Shutdown, keep};
use tidemill_model::{SinkPartitionStatus, SinkStatus, Timestamp};
use tidemill_store::{SinkNote, Tables};

use crate::Error;

/// Between two looks at what has changed.
const LOOK: Duration = Duration::from_secs(1);
/// So often it is noted again though nothing has changed: whoever reads it sees that the role lives.
const AT_LEAST: Duration = Duration::from_secs(10);
/// A sink that nobody has run for so long is told of no more.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(7 * 24);

type All = BTreeMap<&'static str, BTreeMap<u32, SinkPartitionStatus>>;

/// How far all sinks of a process are. A clone is the same.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Mutex<All>>);

impl Progress {
    /// Nothing is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        // Each change is a few assignments, so a thread that panicked left nothing that matters half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(
        &self,
        sink: &'static str,
        partition: u32,
        change: impl FnOnce(&mut SinkPartitionStatus),
    ) {
        let mut all = self.lock();
        let status = all.entry(sink).or_default().entry(partition);
        change(status.or_insert_with(|| SinkPartitionStatus { partition, ..SinkPartitionStatus::default() }));
    }

    /// All sinks, as they are now; `ends` tells where the journal of a partition ends.
    pub fn sinks(&self, ends: impl Fn(u32) -> u64) -> Vec<SinkStatus> {
        let lagging = |status: &SinkPartitionStatus| status.clone().lagging(ends(status.partition));
        let all = self.lock();
        let status = |(sink, partitions): (&&'static str, &BTreeMap<u32, SinkPartitionStatus>)| SinkStatus {
            sink: (*sink).to_owned(),
            partitions: partitions.values().map(lagging).collect(),
        };
        all.iter().map(status).collect()
    }
}

/// Notes it until shutdown, and once more then. What is in the way of it is told, and does not hold up the sinks.
///
/// # Errors
/// [`Error::Thread`].
pub fn keep_noting(
    progress: Progress,
    tables: Arc<dyn Tables>,
    shutdown: Shutdown,
) -> Result<JoinHandle<()>, Error> {
    let noting = move || {
        let mut notes = Notes { progress, tables: &*tables, shutdown: shutdown.clone(), noted: None };
        // Every error is one that trying again may fix.
        let _ = keep(&mut notes, &shutdown);
        // The last word, where it can be said: the database may be away.
        let _ = notes.note();
    };
    let thread = thread::Builder::new().name("sink-notes".to_owned()).spawn(noting);
    thread.map_err(|source| Error::Thread { sink: "notes", source })
}

struct Notes<'a> {
    progress: Progress,
    tables: &'a dyn Tables,
    shutdown: Shutdown,
    /// What was noted last, and when.
    noted: Option<(Vec<SinkStatus>, Instant)>,
}

impl Notes<'_> {
    fn note(&mut self) -> Result<(), tidemill_store::Error> {
        let sinks = self.progress.sinks(|_| 0);
        if self.noted.as_ref().is_some_and(|(noted, at)| *noted == sinks && at.elapsed() < AT_LEAST) {
            return Ok(());
        }
        let now = tidemill_journal::now();
        let note = |sink: &SinkStatus, status: &SinkPartitionStatus| SinkNote {
            sink: sink.sink.clone(),
            partition: status.partition,
            stored: status.stored,
            changes: status.changes,
            error: status.error.clone(),
            stopped: status.stopped,
            noted_at: now.as_millisecond(),
        };
        let notes: Vec<_> = sinks
            .iter()
            .flat_map(|sink| sink.partitions.iter().map(move |status| note(sink, status)))
            .collect();
        let forget_before = now.checked_sub(FORGOTTEN).unwrap_or(Timestamp::MIN);
        self.tables.note_sinks(&notes, forget_before.as_millisecond())?;
        self.noted = Some((sinks, Instant::now()));
        Ok(())
    }
}

impl Session for Notes<'_> {
    type Error = tidemill_store::Error;

    fn run(&mut self, worked: &mut bool) -> Result<(), Self::Error> {
        while !self.shutdown.is_requested() {
            self.note()?;
            *worked = true;
            let _ = self.shutdown.wait(LOOK);
        }
        Ok(())
    }

    fn failed(&mut self, _: &Self::Error, _: &str) -> bool {
        true
    }

    fn tell_held_up(&self, reason: &str) {
        tracing::warn!(
            reason,
            "how far the sinks are cannot be noted, so the status shows an older state: {reason}"
        );
    }

    fn tell_stopped(&self, _: &str) {}
}

/// What was noted, as a process tells it of its own sinks; `ends` tells where the journal of a partition ends.
pub fn noted(notes: Vec<SinkNote>, ends: impl Fn(u32) -> u64) -> Vec<SinkStatus> {
    let mut sinks = Vec::<SinkStatus>::new();
    for note in notes {
        let status = SinkPartitionStatus {
            partition: note.partition,
            stored: note.stored,
            lag_records: 0,
            changes: note.changes,
            error: note.error,
            stopped: note.stopped,
            noted_at: Timestamp::from_millisecond(note.noted_at).ok().map(|at| at.to_string()),
        };
        let status = status.lagging(ends(note.partition));
        match sinks.last_mut() {
            Some(sink) if sink.sink == note.sink => sink.partitions.push(status),
            _ => sinks.push(SinkStatus { sink: note.sink, partitions: vec![status] }),
        }
    }
    sinks
}
