//! Groups, their workers, and what those can run at once.

use std::sync::Arc;

use crate::Kind::{Bool, Int, Json, Name, Text, Time};
use crate::Shown::{As, Hidden};
use crate::table::row;

row! {
    /// A worker, as the shard that it works for knows it.
    WorkerRow in "workers", key (id: Arc<str>, shard: i64),
    fixed (), indexes [[group_name]] {
        /// Its id, drawn once per state directory and boot.
        id: Arc<str> = Name(512),
        /// The shard that it works for.
        shard: i64 = Int,
        /// The group that it works for.
        group_name: Arc<str> = Name(64) => As("group"),
        /// Which life of it.
        incarnation: Arc<str> = Text,
        /// Its host's name.
        host: Arc<str> = Text,
        /// Where its logs are served.
        address: Arc<str> = Text,
        /// Attempts at once, by job type.
        slots: Arc<str> = Json,
        /// Slots of these that are kept for some jobs, by job type.
        reserved: Arc<str> = Json,
        /// What jobs can ask for it by, in `worker_label`.
        labels: Arc<str> = Json,
        /// How it keeps the limits `memory`, `cpu` and `processes` of attempts: `control_group`, `looks` or `nothing`; empty: it does
        /// not say.
        limits_kept: Arc<str> = Json,
        /// What it can run, by job type: `slots`, and where that is 0, the `problem`; empty: it does not say.
        types: Arc<str> = Json,
        /// `live`, `leaving` (told to stop), `left` (stopped, with nothing running), `lost` (silent) or `gone` (silent, and
        /// nothing runs there any more).
        state: Arc<str> = Name(16),
        /// Whether it takes no new work.
        drained: bool = Bool,
        /// When this life of it registered.
        registered_at: i64 = Time,
        /// Since when it is lost.
        lost_at: Option<i64> = Time,
        /// When its lease was over.
        lease_expired_at: Option<i64> = Time => Hidden,
        /// Since when it leaves: its process was told to stop.
        leaving_since: Option<i64> = Time,
        /// Whether what runs goes on when it has left, for its next life.
        keeps_jobs: bool = Bool,
        /// Since when it is drained.
        drained_at: Option<i64> = Time,
        /// Who drained it: application, or application/person.
        drained_by: Option<Arc<str>> = Text,
        /// Memory of its machine that jobs may have, MiB.
        memory_total_mb: Option<i64> = Int,
        /// What of it could be had without swapping when that was last worth noting, MiB.
        memory_free_mb: Option<i64> = Int,
        /// Its load then, in percent of its processors.
        load_percent: Option<i64> = Int,
        /// Since when this is so: a small change is not noted.
        measured_at: Option<i64> = Time,
        /// Whether it is beyond a bound of its group, and gets no work until it has recovered.
        overloaded: bool = Bool,
        /// Why it takes no work at present, as it says itself.
        unready_reason: Option<Arc<str>> = Text,
        /// Since when.
        unready_since: Option<i64> = Time,
    }
}

row! {
    /// What a worker can run at once, by job type.
    ResourceRow in "resources", key (worker_id: Arc<str>, shard: i64, job_type: Arc<str>),
    fixed (), indexes [] {
        /// Which worker.
        worker_id: Arc<str> = Name(512),
        /// The shard that it works for.
        shard: i64 = Int,
        /// Which type of job.
        job_type: Arc<str> = Name(32),
        /// Attempts at once.
        slots: i64 = Int,
    }
}

row! {
    /// A worker group.
    GroupRow in "worker_groups", key (id: i64),
    fixed (defined_at), indexes [[name]] {
        /// Its number.
        id: i64 = Int,
        /// Its name.
        name: Arc<str> = Name(64),
        /// The shard that does its work.
        shard: i64 = Int,
        /// Ed25519 public key of its workers, hexadecimal.
        worker_key: Arc<str> = Text,
        /// Its bounds.
        settings: Arc<str> = Json,
        /// When it came into being.
        defined_at: i64 = Time,
        /// When it was last changed.
        changed_at: i64 = Time,
    }
}

row! {
    /// A host that a person drained: its workers get no new work. Gone when it is resumed.
    DrainedHostRow in "drained_hosts", key (host: Arc<str>, shard: i64),
    fixed (drained_at), indexes [[group_name]] {
        /// Its name.
        host: Arc<str> = Name(512),
        /// The shard of the group.
        shard: i64 = Int => Hidden,
        /// The group that it is drained for.
        group_name: Arc<str> = Name(64) => As("group"),
        /// Who drained it: application, or application/person.
        drained_by: Arc<str> = Text,
        /// Since when.
        drained_at: i64 = Time,
        /// Why.
        reason: Arc<str> = Text,
        /// Since when nothing is assigned there or runs.
        emptied_at: Option<i64> = Time,
    }
}
