//! A new snapshot: the last one that counts, read on from up to the record that the owner named. The same fold, begun with an
//! older one, is what verifies it.

use tidemill_log::{Hash, Head, Readers};
use tidemill_model::{Level, PartitionEvent};

use crate::restore::Records;
use crate::{Encoded, Error, Fold, Refusal, Snapshot, SnapshotName, Snapshots, Until, restore};

/// A record that its owner has read back as accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Where it stands.
    pub offset: u64,
    /// In which epoch.
    pub epoch: u64,
    /// Its number.
    pub seq: u64,
    /// Its hash.
    pub hash: Hash,
}

impl From<&Head> for Mark {
    fn from(head: &Head) -> Self {
        Self { offset: head.offset, epoch: head.epoch, seq: head.seq, hash: head.hash }
    }
}

/// What the owner is to record: this snapshot is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// What it is of.
    pub mark: Mark,
    /// What it is called.
    pub name: SnapshotName,
    /// SHA-256 of form, position and state.
    pub digest: Hash,
    /// How long the state is.
    pub bytes: u64,
}

impl Taken {
    /// The fact that names it.
    #[must_use]
    pub fn event(&self) -> PartitionEvent {
        let Mark { offset, epoch, seq, hash } = self.mark;
        PartitionEvent::SnapshotTaken {
            offset,
            epoch,
            seq,
            hash: hash.to_string(),
            form: self.name.form.clone(),
            digest: self.digest.to_string(),
            bytes: self.bytes,
        }
    }
}

/// What a snapshot is taken from.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    /// The log.
    pub log: &'a dyn Readers,
    /// Where snapshots are.
    pub snapshots: &'a Snapshots,
    /// Which partition.
    pub partition: u32,
    /// The highest level that is read.
    pub reads: Level,
    /// Asked every few records.
    pub is_stopped: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for Sight<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sight").field("partition", &self.partition).finish_non_exhaustive()
    }
}

impl Sight<'_> {
    /// The fold up to and with a record, begun with the newest snapshot of which `begins` is true.
    fn fold_to(&self, offset: u64, begins: &dyn Fn(&SnapshotName) -> bool) -> Result<Fold, Error> {
        let Self { log, snapshots, partition, reads, .. } = *self;
        let until = Until::Offset(offset);
        let mut fold = restore::restore_with(log, Some(snapshots), (partition, reads), until, begins).fold;
        if fold.next > offset + 1 {
            // A record behind it had to be read: from the beginning there is none.
            fold = snapshots.beginning(partition, log.partitions(tidemill_log::Topic::Journal));
        }
        if fold.next > offset {
            return Ok(fold);
        }
        let failed = Error::log(partition);
        let mut records = Records::open(log, partition, fold.next).map_err(&failed)?;
        while fold.next <= offset {
            let Some(record) = records.next().map_err(&failed)? else {
                return Err(Error::OtherRecord { partition, offset });
            };
            if record.offset % 256 == 0 && (self.is_stopped)() {
                return Err(Error::Interrupted);
            }
            fold.take(&record, reads).map_err(|source| Error::Record {
                partition,
                offset: record.offset,
                source,
            })?;
        }
        planted!(SnapshotOneRecordAhead => if let Ok(Some(record)) = records.next() {
            let head = fold.chain.head().cloned();
            let _ = fold.take(&record, reads);
            fold.chain = head.map_or_else(tidemill_log::Chain::new, tidemill_log::Chain::resume);
        });
        Ok(fold)
    }
}

/// Takes a snapshot of the state after a record, writes it and reads it back. It counts once the owner has recorded
/// [`Taken::event`]. With `compare` the state that is read back is compared with the one that was folded, field by field.
///
/// # Errors
/// There is none: the record is another one, the store fails, or what is read back is not what was folded.
pub fn take(sight: &Sight<'_>, mark: Mark, compare: bool) -> Result<Taken, Error> {
    let Sight { snapshots, partition, .. } = *sight;
    let fold = sight.fold_to(mark.offset, &|_| true)?;
    if fold.chain.head().map(Mark::from) != Some(mark) {
        return Err(Error::OtherRecord { partition, offset: mark.offset });
    }
    let Some(encoded) = Snapshot::of(&fold) else {
        return Err(Error::OtherRecord { partition, offset: mark.offset });
    };
    snapshots.write(&encoded)?;
    // One state in memory beside the owner's, two where they are compared.
    let Encoded { name, digest, bytes, file } = encoded;
    drop(file);
    let folded = compare.then_some(fold.state);
    let again = read_back(snapshots, &name)?;
    if again.digest != digest {
        return Err(differs(snapshots, &name, "what is read back has another digest".to_owned()));
    }
    if folded.is_some_and(|folded| again.state != folded) {
        return Err(differs(snapshots, &name, "what is read back is another state".to_owned()));
    }
    Ok(Taken { mark, name, digest, bytes })
}

/// Folds up to a snapshot's record again, begun with one that is older than `older_than` or with none, and compares.
///
/// # Errors
/// [`Error::Differs`], after which it is deleted; or it could not be done.
pub fn verify(sight: &Sight<'_>, name: &SnapshotName, older_than: u64) -> Result<(), Error> {
    let kept = read_back(sight.snapshots, name)?.digest;
    let fold = sight.fold_to(name.offset, &|other| other.offset < older_than.min(name.offset))?;
    let digest = Snapshot::of(&fold).map(|encoded| encoded.digest);
    if digest == Some(kept) {
        return Ok(());
    }
    Err(differs(sight.snapshots, name, "a fold from an older one gives another digest".to_owned()))
}

/// What the store gives of one that was written. That it cannot be had says nothing of what it is.
fn read_back(snapshots: &Snapshots, name: &SnapshotName) -> Result<Snapshot, Error> {
    snapshots.read(name).map_err(|refusal| match refusal {
        Refusal::Damaged(_) | Refusal::OtherForm(_) | Refusal::Foreign { .. } => {
            differs(snapshots, name, refusal.to_string())
        }
        Refusal::Missing
        | Refusal::Store(_)
        | Refusal::OtherRecord(_)
        | Refusal::NotNamed
        | Refusal::Unreadable(_) => Error::ReadBack { object: name.to_string(), source: refusal },
    })
}

/// It is deleted at once: whoever begins from now on does not find it.
fn differs(snapshots: &Snapshots, name: &SnapshotName, reason: String) -> Error {
    if let Err(error) = snapshots.remove(name) {
        tracing::error!(snapshot = %name, %error, "a snapshot that differs could not be deleted; delete it");
    }
    Error::Differs { object: name.to_string(), reason }
}
