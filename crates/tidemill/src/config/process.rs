//! How a process registers with the catalogue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{FieldError, Level, bounds, check_range};

/// How this process registers with the catalogue, so that nothing is written that it cannot read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProcessSettings {
    /// How often it shows that it is alive, milliseconds. Default 30000. 100 to 3600000.
    pub(crate) heartbeat_ms: u64,
    /// After so long a silence the level waits for it no more, milliseconds; at least twice heartbeat_ms. Default 180000.
    /// 1000 to 86400000.
    pub(crate) expire_after_ms: u64,
    /// The highest level that it reads. For tests of upgrades alone: one that is raised does not make an older version
    /// read more. Default 3, what this version reads. 1 to 3.
    pub(crate) reads: u32,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self { heartbeat_ms: 30_000, expire_after_ms: 180_000, reads: Level::READS.number() }
    }
}

impl ProcessSettings {
    pub(super) fn check(&self) -> Result<(), FieldError> {
        let (low, high) = bounds::PROCESS_EXPIRE_AFTER_MS;
        check_range("heartbeat_ms", self.heartbeat_ms, 100, 3_600_000)?;
        check_range("expire_after_ms", self.expire_after_ms, low, high)?;
        check_range("reads", self.reads.into(), 1, Level::READS.number().into())?;
        if self.expire_after_ms < 2 * self.heartbeat_ms {
            let rule = "has to be at least twice heartbeat_ms: one sign of life may be lost";
            return Err(FieldError::new("expire_after_ms", self.expire_after_ms, rule));
        }
        Ok(())
    }

    /// The highest level that the process reads.
    pub(crate) fn level(&self) -> Level {
        Level::new(self.reads)
    }
}
