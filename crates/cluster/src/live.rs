//! Questions to the owner of a shard, which only its state can answer.

use std::pin::Pin;

use thiserror::Error;
use tidemill_model::{LiveAnswer, LiveQuery, ShardId};

/// A future of a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Questions to the owner of a shard.
pub trait Live: Send + Sync {
    /// Asks the shard's owner.
    fn query(&self, shard: ShardId, query: LiveQuery) -> BoxFuture<'_, Result<LiveAnswer, LiveError>>;
}

/// Why an owner gave no answer.
#[derive(Debug, Error)]
pub enum LiveError {
    /// Nobody owns the shard at the moment, or it is not known who.
    #[error("shard {shard} has no known owner at the moment")]
    NoOwner {
        /// Which shard.
        shard: ShardId,
    },
    /// The owner could not be asked, or did not answer in time.
    #[error("cannot ask the owner of shard {shard} at {address}")]
    Ask {
        /// Which shard.
        shard: ShardId,
        /// Where its owner listens.
        address: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The owner refused to answer.
    #[error("the owner of shard {shard} refused to answer: {reason}")]
    Refused {
        /// Which shard.
        shard: ShardId,
        /// In its words.
        reason: String,
    },
}
