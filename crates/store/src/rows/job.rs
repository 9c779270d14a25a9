//! Definitions: as the catalogue has them, and as the shards that run them hold them.

use std::sync::Arc;

use crate::Kind::{Bool, Int, Json, Name, Text, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

row! {
    /// A job: its newest definition. A deleted job keeps its row.
    JobRow in "jobs", key (id: i64),
    fixed (submitted, defined_at), indexes [[group_name, name], [name], [owner_name], [business_name]] {
        /// Its id, for ever.
        id: i64 = Int,
        /// Counts the accepted changes, from 1.
        version: i64 = Int,
        /// The group it belongs to, whose workers run it.
        group_name: Arc<str> = Name(64) => Hidden,
        /// Its group's number.
        group_id: i64 = Int,
        /// Its name.
        name: Arc<str> = Name(200) => Hidden,
        /// Whether it is known by its id only; other jobs of the group may have the same name.
        unnamed: bool = Bool,
        /// Whether it was submitted to run once, which its group's shard decides; others are defined in the catalogue.
        submitted: bool = Bool,
        /// Who answers for it.
        owner: Arc<str> = Text => Hidden,
        /// The owner, where it can be the name of a person or department; null: it is none.
        owner_name: Option<Arc<str>> = Name(200) => Hidden,
        /// The business type, where grants can be on it; null: it is empty or too long.
        business_name: Option<Arc<str>> = Name(200) => Hidden,
        /// What kind of program it is: `shell`, `python`, `noop`, …
        job_type: Arc<str> = Name(32) => Hidden,
        /// How many parents it has, itself among them where it depends on its past.
        parent_count: i64 = Int,
        /// The whole definition. The view has a column for each field that the job was written with.
        definition: Arc<str> = Json => Hidden,
        /// Whether it generates batches.
        enabled: bool = Bool => Hidden,
        /// When version 1 was accepted.
        defined_at: i64 = Time,
        /// When it was last changed, switched on or off.
        changed_at: i64 = Time,
        /// Who did that: application, or application/person; null: that is not on record.
        changed_by: Option<Arc<str>> = Text,
        /// Since when it is switched off.
        disabled_at: Option<i64> = Time,
        /// Who switched it off.
        disabled_by: Option<Arc<str>> = Text,
        /// When it was deleted.
        deleted_at: Option<i64> = Time,
    }
}

row! {
    /// A version of a definition of the catalogue. Batches name the version that they were generated with.
    JobVersionRow in "job_versions", key (job_id: i64, version: i64),
    fixed (definition, defined_at, defined_by), indexes [] {
        /// Which job.
        job_id: i64 = Int => As("job"),
        /// Counts the accepted changes, from 1.
        version: i64 = Int,
        /// The whole definition. The view has a column for each field that the job was written with.
        definition: Arc<str> = Json => Hidden,
        /// When it was accepted.
        defined_at: i64 = Time,
        /// Who defined it: application, or application/person; null: that is not on record.
        defined_by: Option<Arc<str>> = Text,
    }
}

row! {
    /// A parent that a job's newest definition names.
    JobParentRow in "job_parents", key (job_id: i64, position: i64),
    fixed (), indexes [[parent_id]] {
        /// The job that waits.
        job_id: i64 = Int,
        /// Its place in the definition, from 0.
        position: i64 = Int,
        /// The job waited for.
        parent_id: i64 = Int,
        /// For which of its logical times: `same`, `offset`, `all`, `latest` or `any`.
        mapping: Arc<str> = Name(16),
        /// For `offset`: how many back.
        mapping_offset: Option<i64> = Int,
    }
}

row! {
    /// A definition of the catalogue as the shard of its group holds it, with the next fire.
    ShardJobRow in "shard_jobs", key (job_id: i64, shard_no: i64),
    fixed (), indexes [[next_fire_at]] {
        /// Which job.
        job_id: i64 = Int,
        /// Which shard holds it.
        shard_no: i64 = Int,
        /// The version that the shard acts on.
        version: i64 = Int,
        /// The group it belongs to.
        group_name: Arc<str> = Name(64),
        /// Its name.
        name: Arc<str> = Name(200),
        /// What kind of program it is.
        job_type: Arc<str> = Name(32),
        /// Whether it generates batches.
        enabled: bool = Bool,
        /// When its schedule fires next.
        next_fire_at: Option<i64> = Time,
        /// For which logical time that will be.
        next_logical_time: Option<i64> = Time,
    }
}

row! {
    /// Fires that made no batch: a run of them, and why.
    SkippedRunsRow in "skipped_runs", key (journal_partition: i64, journal_offset: i64, event_index: i64),
    fixed (job_id, from_time, to_time, fires, reason, skipped_at), indexes [[job_id]] {
        /// Partition of the journal that holds the fact.
        journal_partition: i64 = Int => Hidden,
        /// Its offset there.
        journal_offset: i64 = Int => Hidden,
        /// Its place in that record, from 0.
        event_index: i64 = Int => Hidden,
        /// Whose.
        job_id: i64 = Int => Hidden,
        /// Logical time of the first one.
        from_time: i64 = Time => As("from"),
        /// Logical time of the last one.
        to_time: i64 = Time => As("to"),
        /// How many.
        fires: i64 = Int => As("count"),
        /// `policy`, `too_old`, `too_many`, `run_by_hand`, `too_late`, `overlap` or `calendar`.
        reason: Arc<str> = Name(16),
        /// When that was recorded.
        skipped_at: i64 = Time,
    }
}
