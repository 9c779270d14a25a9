//! What clearing a batch asks for, by itself or as one of many.

use tidemill_model::{
    Cascade, JobId, RerunDefinition, RerunOnly, RerunOrder, RerunScope, RerunSpec, Timestamp,
};

/// Batches at once where nothing else is requested.
pub(crate) const DEFAULT_CONCURRENCY: u32 = 10;

/// One batch and all that comes after it again.
pub(crate) fn clearing(job: JobId, time: Timestamp) -> RerunSpec {
    RerunSpec {
        scope: RerunScope::Rerun { jobs: vec![job], cascade: Cascade::Logic },
        from: time,
        to: time,
        reach: Some(Timestamp::MAX),
        only: RerunOnly::All,
        order: RerunOrder::Oldest,
        concurrency: DEFAULT_CONCURRENCY,
        definition: RerunDefinition::Today,
        reason: String::new(),
        approve: false,
    }
}
