//! Permits of pools that groups share, and of rates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::Aggregate;

use crate::{PermitReport, PoolName, PoolUse, ShardId};

/// Permits of pools that groups share, and of rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Aggregate)]
#[serde(rename_all = "snake_case")]
pub enum PermitEvent {
    /// Starts that a pool's rate counted are so long ago that more batches may start.
    #[event(kind = "rate_limit.reset", subject = "pool/{name}", internal = "Chore")]
    RateLimitReset {
        /// Whose.
        name: PoolName,
    },
    /// The group's shard has told what became of its permits, and how many it would have.
    #[event(kind = "permits.reported", subject = "pool/{first_name(&report.pools)}", internal = "Permit")]
    Reported {
        /// Since the last one.
        report: PermitReport,
    },
    /// The catalogue has heard that.
    #[event(
        kind = "permits.report_received",
        subject = "pool/{first_name(&report.pools)}",
        internal = "Permit"
    )]
    ReportReceived {
        /// Of which shard.
        from: ShardId,
        /// As it was told.
        report: PermitReport,
    },
    /// The catalogue has given permits to a group's shard.
    #[event(kind = "permits.granted", subject = "pool/{first_name(pools)}", internal = "Permit")]
    Granted {
        /// Which shard.
        to: ShardId,
        /// All shared pools that one batch needs.
        pools: Vec<PoolUse>,
        /// How many more, each for one batch.
        permits: u32,
    },
    /// The group's shard has them.
    #[event(kind = "permits.received", subject = "pool/{first_name(pools)}", internal = "Permit")]
    Received {
        /// All shared pools that one batch needs.
        pools: Vec<PoolUse>,
        /// How many more, each for one batch.
        permits: u32,
    },
}

fn first_name(pools: &[PoolUse]) -> &str {
    pools.first().map_or("", |of| of.name.as_str())
}
