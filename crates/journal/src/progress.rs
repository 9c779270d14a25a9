//! How far a follower of the journal is, partition by partition: what a read waits for that has to see an earlier write.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionProgress {
    /// Offset of the last journal record that the tables in use show; absent: none yet.
    pub projected: Option<u64>,
    /// Records that did not count, since the start.
    pub void_records: u64,
    /// Why the partition is not folded any more, or is held up.
    pub error: Option<String>,
}

#[derive(Default)]
struct Shared {
    partitions: Mutex<BTreeMap<u32, PartitionProgress>>,
    moved: Condvar,
}

/// How far the tables in use are, partition by partition. A clone is the same.
#[derive(Clone, Default)]
pub struct Progress(Arc<Shared>);

impl Progress {
    /// Nothing is projected yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, PartitionProgress>> {
        // Each change is one assignment, so a thread that panicked left nothing half done.
        self.0.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The follower of a partition has moved, or is held up.
    pub fn change(&self, partition: u32, change: impl FnOnce(&mut PartitionProgress)) {
        change(self.lock().entry(partition).or_default());
        self.0.moved.notify_all();
    }

    /// All partitions, as they are now.
    #[must_use]
    pub fn partitions(&self) -> BTreeMap<u32, PartitionProgress> {
        self.lock().clone()
    }

    /// Whether the tables show this journal record.
    #[must_use]
    pub fn reaches(&self, partition: u32, offset: u64) -> bool {
        reaches(&self.lock(), partition, offset)
    }

    /// Waits until the tables show this journal record; `false` where they do not within `timeout`.
    #[must_use]
    pub fn wait_until(&self, partition: u32, offset: u64, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut partitions = self.lock();
        while !reaches(&partitions, partition, offset) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            partitions =
                self.0.moved.wait_timeout(partitions, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

fn reaches(partitions: &BTreeMap<u32, PartitionProgress>, partition: u32, offset: u64) -> bool {
    partitions.get(&partition).and_then(|it| it.projected).is_some_and(|projected| projected >= offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_the_record_is_projected() {
        let progress = Progress::new();
        assert!(!progress.wait_until(1, 5, Duration::ZERO));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| progress.wait_until(1, 5, Duration::from_secs(60)));
            progress.change(1, |it| it.projected = Some(4));
            progress.change(0, |it| it.projected = Some(9));
            assert!(!progress.reaches(1, 5));
            progress.change(1, |it| it.projected = Some(6));
            assert!(waiting.join().unwrap());
        });
    }
}
