use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidemill_model::Timestamp;
use tidemill_store::rows::{AppKeyRow, FreezeRow, GroupRow, WorkerRow};

use super::{json, string, time};

/// A worker, as the shard that it works for knows it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkerView {
    /// Its id.
    pub(crate) id: String,
    /// The group that it works for.
    pub(crate) group: String,
    /// The shard that it works for.
    pub(crate) shard: i64,
    /// Its host's name.
    pub(crate) host: String,
    /// Where its logs are served.
    pub(crate) address: String,
    /// Attempts at once, by job type.
    pub(crate) slots: Value,
    /// Slots of these that are kept for some jobs, by job type.
    pub(crate) reserved: Value,
    /// Memory of its machine that jobs may have, MiB.
    pub(crate) memory_total_mb: Option<i64>,
    /// What of it could be had without swapping when that was last worth noting, MiB.
    pub(crate) memory_free_mb: Option<i64>,
    /// Its load then, in percent of its processors.
    pub(crate) load_percent: Option<i64>,
    /// Since when this is so.
    pub(crate) measured_at: Option<Timestamp>,
    /// Whether it is beyond a bound of its group, and gets no work until it has recovered.
    pub(crate) overloaded: bool,
    /// What jobs can ask for it by, in `worker_label`.
    pub(crate) labels: Value,
    /// `live`, `lost` (silent) or `gone` (silent, and nothing runs there any more).
    pub(crate) state: String,
    /// Whether it takes no new work.
    pub(crate) drained: bool,
    /// Which life of it.
    pub(crate) incarnation: String,
    /// When this life of it registered.
    pub(crate) registered_at: Timestamp,
    /// Since when it is lost.
    pub(crate) lost_at: Option<Timestamp>,
    /// Since when it is drained.
    pub(crate) drained_at: Option<Timestamp>,
    /// Who drained it: application, or application/person.
    pub(crate) drained_by: Option<String>,
    /// Why it takes no work at present, as it says itself.
    pub(crate) unready_reason: Option<String>,
    /// Since when.
    pub(crate) unready_since: Option<Timestamp>,
}

impl From<WorkerRow> for WorkerView {
    fn from(row: WorkerRow) -> Self {
        Self {
            id: row.id.to_string(),
            group: row.group_name.to_string(),
            shard: row.shard,
            host: row.host.to_string(),
            address: row.address.to_string(),
            slots: json(&row.slots),
            reserved: json(&row.reserved),
            memory_total_mb: row.memory_total_mb,
            memory_free_mb: row.memory_free_mb,
            load_percent: row.load_percent,
            measured_at: row.measured_at.map(time),
            overloaded: row.overloaded,
            labels: json(&row.labels),
            state: row.state.to_string(),
            drained: row.drained,
            incarnation: row.incarnation.to_string(),
            registered_at: time(row.registered_at),
            lost_at: row.lost_at.map(time),
            drained_at: row.drained_at.map(time),
            drained_by: string(row.drained_by),
            unready_reason: string(row.unready_reason),
            unready_since: row.unready_since.map(time),
        }
    }
}

/// A worker group.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GroupView {
    /// Its number.
    pub(crate) id: i64,
    /// Its name.
    pub(crate) name: String,
    /// The shard that does its work.
    pub(crate) shard: i64,
    /// Ed25519 public key of its workers, hexadecimal.
    pub(crate) worker_key: String,
    /// Its bounds.
    pub(crate) settings: Value,
    /// When it came into being.
    pub(crate) defined_at: Timestamp,
    /// When it was last changed.
    pub(crate) changed_at: Timestamp,
}

impl From<GroupRow> for GroupView {
    fn from(row: GroupRow) -> Self {
        Self {
            id: row.id,
            name: row.name.to_string(),
            shard: row.shard,
            worker_key: row.worker_key.to_string(),
            settings: json(&row.settings),
            defined_at: time(row.defined_at),
            changed_at: time(row.changed_at),
        }
    }
}

/// A freeze.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FreezeView {
    /// Name of the group; null: every group.
    pub(crate) group: Option<String>,
    /// The latest logical time that may be assigned.
    pub(crate) latest: Timestamp,
    /// Who wants it: application, or application/person.
    pub(crate) frozen_by: String,
    /// Why.
    pub(crate) reason: String,
    /// Since when.
    pub(crate) frozen_at: Timestamp,
}

impl From<FreezeRow> for FreezeView {
    fn from(row: FreezeRow) -> Self {
        Self {
            group: (&*row.scope != "*").then(|| row.scope.to_string()),
            latest: time(row.latest),
            frozen_by: row.frozen_by.to_string(),
            reason: row.reason.to_string(),
            frozen_at: time(row.frozen_at),
        }
    }
}

/// An application key; its secret is known to nobody but its holder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KeyView {
    /// Its name.
    pub(crate) app: String,
    /// What it allows.
    pub(crate) role: String,
    /// The groups that it is bound to; empty: all.
    pub(crate) groups: Value,
    /// The accounts that jobs may run as which it applies.
    pub(crate) run_as: Value,
    /// When it was defined, the last time.
    pub(crate) defined_at: Timestamp,
}

impl From<AppKeyRow> for KeyView {
    fn from(row: AppKeyRow) -> Self {
        Self {
            app: row.app.to_string(),
            role: row.role.to_string(),
            groups: json(&row.groups),
            run_as: json(&row.accounts),
            defined_at: time(row.defined_at),
        }
    }
}
