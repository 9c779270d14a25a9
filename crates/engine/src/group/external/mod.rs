//! What batches wait for outside: paths, reports of third parties, the quality service.

pub(in crate::group) mod answers;
pub(in crate::group) mod asked;
pub(crate) mod external_dependencies;
pub(crate) mod needs;
pub(crate) mod quality;

use tidemill_derive::Stored;
use tidemill_model::BatchId;

use self::external_dependencies::ExternalDependencies;
use self::quality::Quality;

/// What is asked outside, once for all who wait for it.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct External {
    known: ExternalDependencies,
    /// What the quality service is to be asked.
    quality: Quality,
}

impl External {
    pub(in crate::group) fn minted(&self) -> u64 {
        self.known.minted()
    }

    pub(in crate::group) fn mint_above(&mut self, counter: u64) {
        self.known.mint_above(counter);
    }

    pub(crate) fn dependencies(&self) -> &ExternalDependencies {
        &self.known
    }

    /// The next batch about which the quality service is to be asked.
    pub(crate) fn next_quality(&self) -> Option<BatchId> {
        self.quality.due.first().copied()
    }

    /// The quality service need not be asked about the batch.
    pub(crate) fn quality_not_due(&mut self, id: BatchId) {
        self.quality.due.remove(&id);
    }
}
