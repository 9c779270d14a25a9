//! What an owner would have answered at a past moment: the journal of its partition, folded up to there. It runs where
//! it is asked for, so no owner waits for it.

use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use tidemill_journal::{Entry, Journal, Start};
use tidemill_log::{Log, Topic};
use tidemill_model::{LiveAnswer, LiveQuery, ShardId};
use tidemill_snapshots::{Fold, Restored, Snapshots, Until, restore};

use crate::ports::{Moment, Past, PastError};

const RECORDS: usize = 512;
/// Until one of them has to be there.
const POLL: Duration = Duration::from_secs(1);

/// Folds journals. One at a time, for a fold takes the memory of an owner.
pub struct JournalPast {
    log: Arc<dyn Log>,
    snapshots: Option<Snapshots>,
    patience: Duration,
    folding: Mutex<()>,
}

impl JournalPast {
    /// What a fold may take.
    pub const PATIENCE: Duration = Duration::from_secs(30);

    /// Of this log, begun with snapshots where there are any; a fold that takes longer than `patience` is given up.
    pub fn new(log: Arc<dyn Log>, snapshots: Option<Snapshots>, patience: Duration) -> Self {
        Self { log, snapshots, patience, folding: Mutex::new(()) }
    }

    /// The fold from the newest snapshot before the moment.
    fn begun(&self, partition: u32, moment: Moment) -> Restored {
        let until = match moment {
            Moment::Time(time) => Until::Time(time),
            Moment::Position(position) => Until::Offset(position.offset),
        };
        restore(&*self.log, self.snapshots.as_ref(), partition, tidemill_journal::reads(), until)
    }

    /// The offset before which the journal is to be folded.
    fn end(&self, partition: u32, moment: Moment) -> Result<u64, PastError> {
        let failed = |source| PastError::Read { partition, source };
        let kept = self.log.range(Topic::Journal, partition).map_err(|source| failed(source.into()))?;
        if kept.start > 0 {
            return Err(PastError::Gone { partition, first: kept.start });
        }
        Ok(match moment {
            Moment::Time(_) => kept.end,
            Moment::Position(position) if position.partition != partition => {
                return Err(PastError::OtherPartition { partition });
            }
            Moment::Position(position) if position.offset >= kept.end => {
                return Err(PastError::Ahead { partition, end: kept.end });
            }
            Moment::Position(position) => position.offset + 1,
        })
    }
}

impl Past for JournalPast {
    fn query(&self, shard: ShardId, query: &LiveQuery, moment: Moment) -> Result<LiveAnswer, PastError> {
        let _one = match self.folding.try_lock() {
            Ok(one) => one,
            // What a fold that panicked left behind is nothing.
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(PastError::Busy),
        };
        let count = self.log.partitions(Topic::Journal);
        let partition = shard.partition(count);
        let end = self.end(partition, moment)?;
        let begun = Instant::now();
        let Restored { fold, is_past, .. } = self.begun(partition, moment);
        let Fold { chain, mut state, mut next, .. } = fold;
        if is_past {
            return Ok(state.answer(shard, query));
        }
        let start = chain.head().cloned().map_or(Start::Beginning, Start::After);
        let journal = Journal::open(&*self.log, partition, "a question about the past", start);
        let mut journal = journal.map_err(|source| PastError::Read { partition, source: source.into() })?;
        while next < end {
            if begun.elapsed() > self.patience {
                let seconds = self.patience.as_secs();
                return Err(PastError::TooLong { partition, read: next, end, seconds });
            }
            // What stands behind the moment may be of a newer version, and is not looked at.
            let left = usize::try_from(end - next).unwrap_or(RECORDS);
            let read = journal.poll(RECORDS.min(left), POLL);
            let read = read.map_err(|source| PastError::Read { partition, source: source.into() })?;
            for Entry { offset, envelope, .. } in read.entries {
                if offset >= end || matches!(moment, Moment::Time(time) if envelope.now > time) {
                    return Ok(state.answer(shard, query));
                }
                state.apply(&envelope);
            }
            next = read.last.map_or(next, |last| last + 1);
        }
        Ok(state.answer(shard, query))
    }
}

#[cfg(test)]
mod tests {
    use tidemill_log::MemoryLog;
    use tidemill_log::append_wait;
    use tidemill_model::BatchId;

    use super::*;
    use crate::JournalPosition;

    /// DSP-1: what the journal does not say, or would take too long to say, is told by name.
    #[test]
    fn what_cannot_be_answered_is_told() {
        let log = MemoryLog::new(2);
        let producer = log.producer().unwrap();
        append_wait(&*producer, Topic::Journal, 1, b"", b"no frame".to_vec(), POLL).unwrap();
        let why = LiveQuery::Why { batch: BatchId(1) };
        let ask = |patience, partition, offset| {
            let past = JournalPast::new(Arc::new(log.clone()), None, patience);
            past.query(ShardId(1), &why, Moment::Position(JournalPosition { partition, offset }))
        };
        let told = |answer: Result<LiveAnswer, PastError>| answer.unwrap_err().to_string();
        assert_eq!(told(ask(POLL, 1, 2)), "the journal of partition 1 ends before record 2");
        assert!(told(ask(POLL, 0, 0)).starts_with("the batch is in partition 1"));
        assert!(told(ask(Duration::ZERO, 1, 1)).starts_with("0 of 2 records of the journal of partition 1"));
        assert!(matches!(ask(POLL, 1, 1), Ok(LiveAnswer::NotFound)), "a void record is passed over");
        let past = JournalPast::new(Arc::new(log.clone()), None, POLL);
        let _one = past.folding.lock().unwrap();
        let answer = past.query(ShardId(1), &why, Moment::Time(tidemill_model::Timestamp::MAX));
        assert!(matches!(answer, Err(PastError::Busy)), "one at a time");
    }
}
