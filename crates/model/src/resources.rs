//! What a worker has: slots, some of them reserved, memory, and how busy its machine is.

use tidemill_derive::vocabulary;

use crate::Priority;

/// How a worker's machine stands, as its heartbeats say it. Memory in MiB.
#[vocabulary(Copy, Eq, Default)]
pub struct Measure {
    /// Memory of the machine.
    pub memory_total_mb: u32,
    /// What of it can be had without swapping.
    pub memory_free_mb: u32,
    /// Processes that run or want to, over the last minute, in percent of its processors: 100 is one for each.
    pub load_percent: u32,
}

/// Slots of a worker that are kept for some jobs: for those that are pinned to its host, and for those of high
/// enough a priority.
#[vocabulary(Copy, Eq)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    /// How many of the type's slots.
    pub slots: u32,
    /// Also for jobs of this priority or a higher one (a smaller number); absent: for pinned jobs only.
    pub priority: Option<Priority>,
}

impl Reserved {
    /// Whether a job may use them.
    pub fn serves(&self, pinned: bool, priority: Priority) -> bool {
        pinned || self.priority.is_some_and(|least| priority <= least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DSP-4: reserved slots are for pinned jobs, and for those of a priority.
    #[test]
    fn reserved_slots_serve_pinned_jobs_and_high_priorities() {
        let priority = |n: u8| Priority::try_from(n).unwrap();
        let pinned_only = Reserved { slots: 1, priority: None };
        assert!(pinned_only.serves(true, priority(9)));
        assert!(!pinned_only.serves(false, priority(0)));
        let high = Reserved { slots: 1, priority: Some(priority(2)) };
        assert!(high.serves(false, priority(2)) && !high.serves(false, priority(3)));
    }
}
