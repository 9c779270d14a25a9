//! A snapshot that is read on from until a record names it. Pure: what it says follows from the bytes alone.

use tidemill_log::{Head, Record};
use tidemill_model::{Envelope, Event, Level, PartitionEvent};

use crate::{Fold, Refusal, Snapshot};

/// A fold that counts once a record has named the snapshot that it began with.
#[derive(Debug, Clone)]
pub struct Restoring {
    head: Head,
    digest: String,
    fold: Fold,
    /// The record of its own was seen where it should be.
    is_there: bool,
    named_at: Option<u64>,
}

impl Restoring {
    /// Begins with this one; the record of its own comes first.
    #[must_use]
    pub fn begin(snapshot: Snapshot) -> Self {
        let (head, digest) = (snapshot.head.clone(), snapshot.digest.to_string());
        let named_at = planted!(SnapshotByItsOwnHash).then_some(head.offset);
        Self { head, digest, fold: snapshot.into_fold(), is_there: false, named_at }
    }

    /// The offset of the first record that it has to be given.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.head.offset
    }

    /// Takes the next record in; `applies` says whether the state is to have it.
    ///
    /// # Errors
    /// It cannot be read on from.
    pub fn take(
        &mut self,
        record: &Record,
        reads: Level,
        applies: impl FnOnce(&Envelope) -> bool,
    ) -> Result<(), Refusal> {
        if !self.is_there {
            let is_own = record.offset == self.head.offset && record.value.hash() == self.head.hash;
            self.is_there = is_own;
            return if is_own { Ok(()) } else { Err(Refusal::OtherRecord(self.head.offset)) };
        }
        let envelope = self.fold.judge(record, reads);
        let envelope = envelope.map_err(|error| Refusal::Unreadable(error.to_string()))?;
        let Some(envelope) = envelope else { return Ok(()) };
        if applies(&envelope) {
            self.fold.apply(&envelope);
        }
        if envelope.events.iter().any(|recorded| self.is_named_by(&recorded.event)) {
            self.named_at.get_or_insert(record.offset);
        }
        Ok(())
    }

    fn is_named_by(&self, event: &Event) -> bool {
        let Event::Partition(PartitionEvent::SnapshotTaken {
            offset, epoch, seq, hash, form, digest, ..
        }) = event
        else {
            return false;
        };
        let Head { offset: own, epoch: in_epoch, seq: number, hash: of, .. } = &self.head;
        (offset, epoch, seq) == (own, in_epoch, number)
            && *hash == of.to_string()
            && *digest == self.digest
            && form == tidemill_engine::form()
    }

    /// Whether it counts.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.named_at.is_some()
    }

    /// Where its fold stands.
    #[must_use]
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    /// The fold.
    ///
    /// # Errors
    /// Nothing that was read names it.
    pub fn into_fold(self) -> Result<Fold, Refusal> {
        if self.is_named() { Ok(self.fold) } else { Err(Refusal::NotNamed) }
    }
}
