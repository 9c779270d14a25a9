//! What a caller wants done.

use tidemill_model::{Actor, Command, CommandRecord, InstanceId, RequestId, ShardId};

/// A command that waits to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmitRequest {
    /// Which shard decides it.
    pub shard: ShardId,
    /// The caller's id for it; a repeat gets the first answer.
    pub request: RequestId,
    /// Who requests it.
    pub actor: Actor,
    /// What.
    pub command: Command,
}

impl SubmitRequest {
    pub(crate) fn into_record(self, reply_to: InstanceId) -> CommandRecord {
        let Self { shard, request, actor, command } = self;
        CommandRecord { shard, request: Some(request), reply_to: Some(reply_to), actor, command }
    }
}
