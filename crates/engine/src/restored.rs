//! What a restore of the log asks of states that were folded from it (OPS-5).

use tidemill_model::{ShardId, WorkerId};

use crate::partition::{Partition, Shard};

/// What a worker held when the log was restored: it may have begun, and ended, in what is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldByWorker {
    /// The shard of its group.
    pub shard: ShardId,
    /// Which.
    pub worker: WorkerId,
    /// How many attempts and final commands.
    pub attempts: usize,
}

impl Partition {
    /// The highest counter that an id of this partition was minted from.
    pub fn minted(&self) -> u64 {
        let of = |(_, shard): (ShardId, &Shard)| match shard {
            Shard::Catalogue(catalogue) => catalogue.minted(),
            Shard::Group(group) => group.minted(),
        };
        self.shards().map(of).max().unwrap_or(0)
    }

    /// What its workers hold.
    pub fn held(&self) -> Vec<HeldByWorker> {
        let of = |group: &crate::group::GroupShard| -> Vec<HeldByWorker> {
            let held = |worker: &WorkerId| HeldByWorker {
                shard: group.id(),
                worker: worker.clone(),
                attempts: group.tokens_of(worker).count(),
            };
            group.holders().map(held).collect()
        };
        self.groups().flat_map(of).collect()
    }
}

/// Whether the partitions were copied at one moment: no shard has received a message that its sender has not sent, and none
/// has heard of the receipt of one that was not received.
///
/// # Errors
/// The two shards and the numbers that show it.
pub fn check_one_moment(partitions: &[Partition]) -> Result<(), String> {
    let shards = || partitions.iter().flat_map(Partition::shards);
    for (from, sender) in shards() {
        for (to, receiver) in shards() {
            let (sent, received) = (sender.mailbox().sent(to), receiver.mailbox().received(from));
            let acknowledged = sender.mailbox().acknowledged(to);
            if received > sent {
                return Err(format!(
                    "shard {to} has received message {received} of shard {from}, which has sent {sent}"
                ));
            }
            if acknowledged > received {
                return Err(format!(
                    "shard {from} knows that shard {to} has received message {acknowledged}, and that one has received {received}"
                ));
            }
        }
    }
    Ok(())
}
