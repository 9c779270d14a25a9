//! What an owner has to do with snapshots: it names a record that it has read back, and records that there is a snapshot of it.
//! The snapshot itself is made elsewhere, from the journal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_engine::{Draft, FaultInjection};
use tidemill_model::{Envelope, Event, EventKind, PartitionEvent, Timestamp};
use tidemill_snapshots::{Begun, Fold, Mark, Taken};

use super::{Owner, Role, Start};

/// A snapshot that a record of the journal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedSnapshot {
    /// The last record that it holds.
    pub offset: u64,
    /// The time of the state, or of the record that names it.
    pub at: Timestamp,
    /// How long the state is.
    pub bytes: u64,
}

impl From<&Begun> for NamedSnapshot {
    fn from(begun: &Begun) -> Self {
        let at = i64::try_from(begun.name.latest_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        Self { offset: begun.name.offset, at: at.unwrap_or(Timestamp::UNIX_EPOCH), bytes: begun.bytes }
    }
}

/// What an owner remembers of snapshots; nothing of it is state.
#[derive(Debug, Default)]
pub(super) struct SnapshotsOfOwner {
    /// The record that was named last.
    marked: Option<Mark>,
    /// To be recorded next.
    taken: Option<Taken>,
    newest: Option<NamedSnapshot>,
    /// Events since that was recorded, or since this owner began to read.
    events_since: u64,
    /// What this owner began with.
    begun_with: Option<NamedSnapshot>,
}

impl SnapshotsOfOwner {
    pub(super) fn begun(begun_with: Option<NamedSnapshot>, events: u64) -> Self {
        Self { begun_with, newest: begun_with, events_since: events, ..Self::default() }
    }

    pub(super) fn taken(&mut self, taken: Taken) {
        let is_marked = self.marked.take_if(|marked| *marked == taken.mark).is_some();
        if is_marked || planted!(SnapshotRecordedUnmarked) {
            self.taken = Some(taken);
        }
    }

    /// Puts what is to be recorded into an envelope.
    pub(super) fn draft(&mut self, draft: &mut Draft<'_>) {
        if let Some(taken) = self.taken.take() {
            draft.snapshot_taken(taken.event());
        }
    }

    /// An envelope was read back or folded.
    pub(super) fn see(&mut self, envelope: &Envelope) {
        self.events_since += envelope.events.len() as u64;
        let named = envelope.events.iter().rev().find_map(|recorded| match &recorded.event {
            Event::Partition(PartitionEvent::SnapshotTaken { offset, bytes, .. }) => Some((*offset, *bytes)),
            _ => None,
        });
        if let Some((offset, bytes)) = named {
            self.newest = Some(NamedSnapshot { offset, at: envelope.now, bytes });
            self.events_since = 0;
        }
    }
}

impl Owner {
    /// One that goes on with a fold, with rules that a test has rigged.
    #[doc(hidden)]
    pub fn resumed_fault_injected(
        start: Start,
        fold: Fold,
        begun_with: Option<NamedSnapshot>,
        fault_injection: FaultInjection,
    ) -> Self {
        let mut owner = Self::resumed(start, fold, begun_with);
        owner.state = owner.state.fault_injected(fault_injection);
        owner
    }

    /// Names the last record that it has read back, for a snapshot; `None` where it may not record one: it does not own,
    /// something is under way, or the level that stands does not have it.
    pub fn mark(&mut self) -> Option<Mark> {
        let kind = EventKind::all().find(|kind| kind.name == "snapshot.taken")?;
        let may =
            self.role == Role::Owning && self.under_way.is_none() && self.state.level().allows(kind.level);
        let mark = self.chain.head().filter(|_| may).map(Mark::from)?;
        self.snapshots.marked = Some(mark);
        Some(mark)
    }

    /// The newest snapshot that a record names, of those that it has read.
    pub fn newest_snapshot(&self) -> Option<NamedSnapshot> {
        self.snapshots.newest
    }

    /// How many events a start would have to fold at least.
    pub fn events_since_snapshot(&self) -> u64 {
        self.snapshots.events_since
    }

    /// The snapshot that it began with; `None`: it has folded the whole journal.
    pub fn begun_with(&self) -> Option<NamedSnapshot> {
        self.snapshots.begun_with
    }
}
