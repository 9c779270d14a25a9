//! How an owner behaves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::Level;
use tidemill_seal::OwnersSecret;

/// The dispatcher's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where this owner answers questions about its state, `host:port`; written into its claims. Default
    /// 127.0.0.1:8781.
    pub address: String,
    /// How long a partition must have been suggested before it is claimed from a silent owner, milliseconds.
    /// Default 1000; the embedded log needs no wait, for its directory has one user. 0 to 60000.
    pub claim_after_ms: u64,
    /// How often silent workers, clock steps and unacknowledged messages are looked for, milliseconds. Default
    /// 250. 10 to 5000.
    pub tick_ms: u64,
    /// Commands read at once, and so the most that one turn takes. Default 4096. 1 to 100000.
    pub read_batch: usize,
    /// Commands after which an envelope is written even if all it says is how far they were read. Default
    /// 5000. 1 to 1000000.
    pub checkpoint_after_commands: u64,
    /// The same, by time since the first such command, milliseconds. Default 5000. 100 to 3600000.
    pub checkpoint_after_ms: u64,
    /// A wall clock that moves this much against the monotonic one, or that differs so much from the log's
    /// own time, stops the owner, milliseconds. Default 5000. 100 to 3600000.
    pub max_clock_step_ms: u64,
    /// Claim partitions whose last owner stopped because its rules failed. Set it once the reason is fixed.
    /// Default false.
    pub claim_stopped: bool,
    /// Whether the log keeps what it acknowledged, so that workers may start under a right; the log says so, not the
    /// configuration file.
    #[serde(skip)]
    pub keeps_acknowledged: bool,
    /// By which workers' reports are told from others'; absent: every report is taken for its worker's. Not for the configuration
    /// file.
    #[serde(skip)]
    pub reports: Option<OwnersSecret>,
    /// The highest level that it reads; not for the configuration file.
    #[serde(skip)]
    pub reads: Level,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:8781".to_owned(),
            claim_after_ms: 1_000,
            tick_ms: 250,
            read_batch: 4_096,
            checkpoint_after_commands: 5_000,
            checkpoint_after_ms: 5_000,
            max_clock_step_ms: 5_000,
            claim_stopped: false,
            keeps_acknowledged: false,
            reports: None,
            reads: Level::READS,
        }
    }
}
