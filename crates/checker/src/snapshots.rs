//! Which records count, for those that name a snapshot of one.

use std::collections::VecDeque;

use tidemill_model::{Envelope, Event, PartitionEvent};

use crate::Invariant;
use crate::findings::At;

/// So many of the newest records that count are remembered; a snapshot of an older one is not judged.
const REMEMBERED: usize = 1 << 18;

/// A record that counts.
#[derive(Debug, PartialEq, Eq)]
struct Counting {
    offset: u64,
    epoch: u64,
    seq: u64,
    hash: String,
}

/// Those of one partition, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct CountingRecords {
    newest: VecDeque<Counting>,
    is_whole: bool,
}

impl CountingRecords {
    pub(crate) fn counts(&mut self, offset: u64, (epoch, seq, hash): (u64, u64, String)) {
        if self.newest.len() == REMEMBERED {
            self.newest.pop_front();
        }
        self.is_whole |= offset == 0;
        self.newest.push_back(Counting { offset, epoch, seq, hash });
    }

    /// `snapshots_name_accepted_records`
    pub(crate) fn are_named(&self, at: &At<'_>, own: u64, envelope: &Envelope) {
        for recorded in &envelope.events {
            let Event::Partition(PartitionEvent::SnapshotTaken { offset, epoch, seq, hash, .. }) =
                &recorded.event
            else {
                continue;
            };
            let first = self.newest.front().map_or(0, |first| first.offset);
            if *offset < first && !(self.is_whole && first == 0) {
                continue;
            }
            let named = Counting { offset: *offset, epoch: *epoch, seq: *seq, hash: hash.clone() };
            let known = self.newest.binary_search_by_key(offset, |known| known.offset);
            let known = known.ok().map(|at| &self.newest[at]).filter(|_| *offset < own);
            if known != Some(&named) {
                let why = format!("the record that it names, {named:?}, is {known:?}");
                at.breaks(Invariant::SnapshotsNameAcceptedRecords, why);
            }
        }
    }
}
