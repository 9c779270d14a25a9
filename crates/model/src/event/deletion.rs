use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{Actor, Deletion, InstanceId, JobId, Outcome, RequestId, ShardId, UnfinishedJob};

/// Deletions that wait for what the groups' shards say of unfinished batches.
#[vocabulary(Aggregate)]
#[event(subject = "question/{question}")]
pub enum DeletionEvent {
    /// Before jobs are deleted, the shards that run them are asked whether something of them is unfinished.
    #[event(kind = "unfinished.queried", internal = "BetweenShards")]
    UnfinishedQueried {
        /// The question's number; asked again, it is the same.
        question: u64,
        /// What is decided when all have answered.
        deletion: Arc<Deletion>,
        /// The jobs that would be deleted.
        jobs: Vec<JobId>,
        /// The request id.
        request: Option<RequestId>,
        /// Who waits for the outcome.
        reply_to: Option<InstanceId>,
        /// Who asked for it; absent in records of versions that did not note it.
        by: Option<Actor>,
        /// Jobs that others name as parent are deleted, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
    },
    /// The catalogue was told what is unfinished.
    #[event(kind = "unfinished.reported", internal = "BetweenShards")]
    UnfinishedReported {
        /// To which question.
        question: u64,
        /// The jobs that have unfinished batches.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        jobs: Vec<UnfinishedJob>,
    },
    /// A shard has answered.
    #[event(kind = "unfinished.received", internal = "BetweenShards")]
    UnfinishedReceived {
        /// To which question.
        question: u64,
        /// Which shard.
        from: ShardId,
        /// Its jobs that have unfinished batches.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        jobs: Vec<UnfinishedJob>,
    },
    /// The catalogue decides a deletion that waited for answers of the groups' shards.
    #[event(kind = "deletion.decided", public)]
    Decided {
        /// The question that is settled.
        question: u64,
        /// The request id.
        request: Option<RequestId>,
        /// Who waits for the outcome.
        reply_to: Option<InstanceId>,
        /// What came of it.
        outcome: Outcome,
        /// Who asked for it; absent in records of versions that did not note it.
        by: Option<Actor>,
    },
}
