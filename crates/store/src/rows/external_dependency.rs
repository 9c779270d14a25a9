//! What batches wait for outside: external dependencies, the quality service, and what people let batches run without.

use std::sync::Arc;

use crate::Kind::{Bool, Int, Json, Name, Text, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

row! {
    /// Something outside that batches wait for: one row however many wait.
    ExternalDependencyRow in "external_dependencies", key (id: i64),
    fixed (kind, path, mark, code, logical_time, registered_at), indexes [[code, logical_time]] {
        /// Its number; all batches of a group that wait for it share it.
        id: i64 = Int => As("external_dependency"),
        /// `path` or `third_party`.
        kind: Arc<str> = Name(16),
        /// The path, templates resolved.
        path: Option<Arc<str>> = Text,
        /// Name of the file in it that has to exist.
        mark: Option<Arc<str>> = Text,
        /// What a third party reports.
        code: Option<Arc<str>> = Name(255),
        /// For which logical time.
        logical_time: Option<i64> = Time,
        /// Whether it is there, or was when nobody waited for it any more.
        satisfied: bool = Bool,
        /// Rises whenever it goes.
        generation: i64 = Int => Hidden,
        /// Since when it is waited for, or known.
        registered_at: i64 = Time => Hidden,
        /// When it came the last time.
        satisfied_at: Option<i64> = Time,
        /// When it went the last time.
        revoked_at: Option<i64> = Time,
        /// The worker that found it gone before start, the last time.
        revoked_by: Option<Arc<str>> = Text,
        /// When nobody waited for it any more.
        evicted_at: Option<i64> = Time => Hidden,
    }
}

row! {
    /// An external dependency that a batch waits for, or waited for. A batch is ready when no parent keeps it back (`unmet` of
    /// `batches`), its external dependencies are there or overridden, and the quality service allows it where it is asked.
    BatchExternalDependencyRow in "batch_external_dependencies", key (batch_id: i64, external_dependency_id: i64),
    fixed (), indexes [[external_dependency_id]] {
        /// The batch that waits.
        batch_id: i64 = Int,
        /// For what.
        external_dependency_id: i64 = Int,
        /// When a person let it run without.
        overridden_at: Option<i64> = Time,
    }
}

row! {
    /// How the quality service stands to a batch that it is asked about.
    BatchQualityRow in "batch_quality", key (batch_id: i64),
    fixed (), indexes [[state]] {
        /// The batch.
        batch_id: i64 = Int => Hidden,
        /// `waiting` (something else is unmet), `requested`, `sent`, `allowed`, `refused` or `overridden`.
        state: Arc<str> = Name(16),
        /// How often it was asked.
        asked: i64 = Int,
        /// When it was to be asked, the last time.
        requested_at: Option<i64> = Time,
        /// When somebody sent the question, the last time. A crash may have come in between.
        sent_at: Option<i64> = Time,
        /// When it is asked again, unless it answers.
        again_at: Option<i64> = Time,
        /// When it answered.
        answered_at: Option<i64> = Time,
        /// Who called back: application, or application/person.
        answered_by: Option<Arc<str>> = Text,
        /// Why.
        reason: Arc<str> = Text,
    }
}

row! {
    /// What a person let a batch run without.
    OverrideRow in "dependency_overrides", key (journal_partition: i64, journal_offset: i64, event_index: i64),
    fixed (batch_id, external_dependencies, parents, counted_parents, quality, overridden_by, reason, overridden_at), indexes [[batch_id]] {
        /// The partition of the journal.
        journal_partition: i64 = Int => Hidden,
        /// The record there.
        journal_offset: i64 = Int => Hidden,
        /// The event in it.
        event_index: i64 = Int => Hidden,
        /// The batch.
        batch_id: i64 = Int => Hidden,
        /// The external dependencies that it runs without, by number.
        external_dependencies: Arc<str> = Json,
        /// Parents and their logical times that it runs without.
        parents: Arc<str> = Json,
        /// Whether it runs without any of the parents that `counted_parents` of the batch counts, too.
        counted_parents: bool = Bool,
        /// Whether it runs without the quality service's word.
        quality: bool = Bool,
        /// Who: application, or application/person.
        overridden_by: Arc<str> = Text => As("by"),
        /// Why.
        reason: Arc<str> = Text,
        /// When.
        overridden_at: i64 = Time => As("at"),
    }
}

row! {
    /// What a third party said last. The catalogue keeps 100,000 that are ready, for 400 days; here they stay.
    ThirdPartyReportRow in "third_party_reports", key (code: Arc<str>, logical_time: i64),
    fixed (), indexes [[reported_at]] {
        /// What it is about.
        code: Arc<str> = Name(255),
        /// For which logical time.
        logical_time: i64 = Time,
        /// Whether it is ready.
        ready: bool = Bool,
        /// When it said so.
        reported_at: i64 = Time,
        /// Who: application, or application/person.
        reported_by: Arc<str> = Text,
    }
}

row! {
    /// Checks of paths that fail or are late, by authority and prober.
    LateProbeRow in "late_probes", key (authority: Arc<str>, prober: Arc<str>),
    fixed (), indexes [] {
        /// Whom they ask: a name node, a mount, a bucket.
        authority: Arc<str> = Name(255),
        /// Who probes.
        prober: Arc<str> = Name(255),
        /// By how much the oldest is late, milliseconds.
        late_ms: i64 = Int,
        /// Why they fail.
        failure: Arc<str> = Text,
        /// Since when.
        since: i64 = Time,
        /// When the prober said so the last time.
        reported_at: i64 = Time,
    }
}
