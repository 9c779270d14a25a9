//! The newest snapshot that counts, read on from until a record names it; else the beginning.

use std::time::{Duration, Instant};

use tidemill_log::{From, Reader, Readers, Record, Topic};
use tidemill_model::{Envelope, Level, Timestamp};

use crate::{Fold, Refusal, Restoring, SnapshotName, Snapshots};

/// Records taken from the log at once.
const RECORDS: usize = 1_024;
/// The log has records below its end, and gives them within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Up to where the state is to be folded; a snapshot of a later state is not used, and none that a fold up to there would
/// have to read past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// As far as it is read to see that the snapshot counts.
    Named,
    /// With this record at most.
    Offset(u64),
    /// With the last envelope before the first one that is later than this.
    Time(Timestamp),
}

impl Until {
    /// Whether a snapshot holds nothing beyond this.
    #[must_use]
    pub fn reaches(self, name: &SnapshotName) -> bool {
        match self {
            Self::Named => true,
            Self::Offset(offset) => name.offset <= offset,
            Self::Time(time) => i64::try_from(name.latest_ms).is_ok_and(|ms| ms <= time.as_millisecond()),
        }
    }

    /// Whether the state has this envelope.
    #[must_use]
    pub fn has(self, offset: u64, envelope: &Envelope) -> bool {
        match self {
            Self::Named => true,
            Self::Offset(last) => offset <= last,
            Self::Time(time) => envelope.now <= time,
        }
    }
}

/// What a fold began with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The snapshot.
    pub name: SnapshotName,
    /// How many bytes its state has.
    pub bytes: u64,
    /// How many records were read on to see that it counts.
    pub read_on: u64,
    /// How long all of it took.
    pub took: Duration,
}

/// A fold that is begun.
#[derive(Debug)]
pub struct Restored {
    /// Where it stands: before the first record, where no snapshot counts.
    pub fold: Fold,
    /// The first envelope beyond `until` was met: the state is what was asked for.
    pub is_past: bool,
    /// With which snapshot; `None`: with none.
    pub begun: Option<Begun>,
    /// Those that were looked at and are not used.
    pub refused: Vec<(SnapshotName, Refusal)>,
}

/// Begins a fold of a partition with the newest snapshot that counts and holds nothing beyond `until`. It never fails: where
/// snapshots cannot be had, the fold begins at the beginning.
#[must_use]
pub fn restore(
    log: &dyn Readers,
    snapshots: Option<&Snapshots>,
    partition: u32,
    reads: Level,
    until: Until,
) -> Restored {
    restore_with(log, snapshots, (partition, reads), until, &|_| true)
}

/// The same with the newest of those of which `begins` is true.
pub(crate) fn restore_with(
    log: &dyn Readers,
    snapshots: Option<&Snapshots>,
    (partition, reads): (u32, Level),
    until: Until,
    begins: &dyn Fn(&SnapshotName) -> bool,
) -> Restored {
    let mut refused = Vec::new();
    let listed = snapshots.map_or_else(|| Ok(Vec::new()), |snapshots| snapshots.list(partition));
    let listed = listed.unwrap_or_else(|error| {
        tracing::warn!(partition, %error, "snapshots cannot be listed; the journal is folded from its beginning");
        Vec::new()
    });
    for (name, _) in listed {
        // One of another form may be of use to another version of the program.
        if !name.is_readable() || !until.reaches(&name) || !begins(&name) {
            continue;
        }
        let began = Instant::now();
        let Some(snapshots) = snapshots else { break };
        let mut tried = try_one(log, snapshots, (&name, reads), until);
        for pause in snapshots.pauses {
            // A moment's failure costs a fold from an older one, or from the beginning.
            if !matches!(tried, Err(Refusal::Store(_) | Refusal::Unreadable(_))) {
                break;
            }
            std::thread::sleep(*pause);
            tried = try_one(log, snapshots, (&name, reads), until);
        }
        match tried {
            Ok((fold, is_past, bytes, read_on)) => {
                let begun = Some(Begun { name, bytes, read_on, took: began.elapsed() });
                return Restored { fold, is_past, begun, refused };
            }
            Err(refusal) => {
                tracing::warn!(partition, snapshot = %name, reason = %refusal, "a snapshot is not used");
                refused.push((name, refusal));
            }
        }
    }
    let count = log.partitions(Topic::Journal);
    let fold = snapshots
        .map_or_else(|| Fold::beginning(partition, count), |snapshots| snapshots.beginning(partition, count));
    Restored { fold, is_past: false, begun: None, refused }
}

fn try_one(
    log: &dyn Readers,
    snapshots: &Snapshots,
    (name, reads): (&SnapshotName, Level),
    until: Until,
) -> Result<(Fold, bool, u64, u64), Refusal> {
    let snapshot = snapshots.read(name)?;
    let bytes = snapshot.bytes;
    if snapshot.head.count != log.partitions(Topic::Journal) {
        return Err(Refusal::Foreign { log_id: snapshot.head.log_id.to_string(), partition: name.partition });
    }
    let mut restoring = Restoring::begin(snapshot);
    let mut records = Records::open(log, name.partition, restoring.first())?;
    let (mut is_past, mut read_on) = (false, 0);
    while !restoring.is_named() || read_on == 0 {
        let Some(record) = records.next()? else { return Err(Refusal::NotNamed) };
        let applies = |envelope: &Envelope| {
            is_past |= !until.has(record.offset, envelope);
            !is_past
        };
        restoring.take(&record, reads, applies)?;
        read_on += 1;
    }
    Ok((restoring.into_fold()?, is_past, bytes, read_on))
}

/// The records of a journal from an offset to the end that it had when this began.
pub(crate) struct Records {
    reader: Box<dyn Reader>,
    ahead: std::vec::IntoIter<Record>,
    next: u64,
    end: u64,
}

impl Records {
    pub(crate) fn open(log: &dyn Readers, partition: u32, first: u64) -> Result<Self, Refusal> {
        let range = log.range(Topic::Journal, partition).map_err(unreadable)?;
        if first >= range.end {
            return Err(Refusal::OtherRecord(first));
        }
        let reader = log.reader(Topic::Journal, partition, From::Offset(first)).map_err(unreadable)?;
        Ok(Self { reader, ahead: Vec::new().into_iter(), next: first, end: range.end })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Record>, Refusal> {
        if self.ahead.len() == 0 && self.next < self.end {
            let began = Instant::now();
            let mut records = Vec::new();
            // A reader may be woken without a record.
            while records.is_empty() && began.elapsed() < PATIENCE {
                records = self.reader.poll(RECORDS, PATIENCE).map_err(unreadable)?;
            }
            if records.is_empty() {
                let why = format!("it gives nothing from offset {} on for {PATIENCE:?}", self.next);
                return Err(Refusal::Unreadable(why));
            }
            self.ahead = records.into_iter();
        }
        let record = self.ahead.next();
        self.next = record.as_ref().map_or(self.next, |record| record.offset + 1);
        Ok(record)
    }
}

fn unreadable(error: tidemill_log::Error) -> Refusal {
    let source = std::error::Error::source(&error).map_or_else(String::new, |source| format!(": {source}"));
    Refusal::Unreadable(format!("{error}{source}"))
}
