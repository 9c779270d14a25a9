use tidemill_derive::{Aggregate, vocabulary};

use crate::{JobId, ShardId, Timestamp};

/// The partition itself: its messages, its memory, its clock, what it set aside.
#[vocabulary(Aggregate)]
pub enum PartitionEvent {
    /// A message was applied; what it caused follows.
    #[event(kind = "message.received", subject = "shard/{from}", internal = "Delivery")]
    MessageReceived {
        /// From which shard.
        from: ShardId,
        /// Its number.
        number: u64,
    },
    /// Messages left the outbox.
    #[event(kind = "outbox.acknowledged", subject = "shard/{to}", internal = "Delivery")]
    OutboxAcknowledged {
        /// For which shard.
        to: ShardId,
        /// The last number that the receiver applied.
        upto: u64,
    },
    /// What was known of old logical times of a job left the state.
    #[event(kind = "history.evicted", subject = "job/{job}", internal = "Eviction")]
    HistoryEvicted {
        /// Whose.
        job: JobId,
        /// Up to and with this logical time.
        upto: Timestamp,
    },
    /// A command could not be decoded or decided; it is set aside and changes nothing.
    #[event(kind = "command.dead_lettered", subject = "command/{offset}", internal = "DeadLetter")]
    CommandDeadLettered {
        /// Its offset in the commands.
        offset: u64,
        /// Why.
        reason: String,
    },
    /// A timer could not be decided; its entity stays as it is until a person acts.
    #[event(kind = "timer.suspended", subject = "{entity}", internal = "DeadLetter")]
    TimerSuspended {
        /// Which entity.
        entity: String,
        /// Why.
        reason: String,
    },
    /// An operator sets the clock of a shard.
    #[event(kind = "clock.set", subject = "partition", public)]
    ClockSet {
        /// To this.
        now: Timestamp,
    },
    /// The owner of the partition records a snapshot of its state, so that readers of the journal may begin with it.
    ///
    /// It names a record that the owner had read as accepted, and the digest of position and state after that record.
    #[event(kind = "snapshot.taken", subject = "partition", internal = "Snapshot", level = 2)]
    SnapshotTaken {
        /// Of the last record that it holds.
        offset: u64,
        /// The epoch of that record.
        epoch: u64,
        /// Its number in the chain.
        seq: u64,
        /// Its hash.
        hash: String,
        /// The form of the state, which names the programs that can read it.
        form: String,
        /// SHA-256 of form, position and state.
        digest: String,
        /// How long the state is.
        bytes: u64,
    },
    /// An operator lets a partition continue although some of its commands are lost.
    ///
    /// The envelope's resume point is the record that was written for it; the commands before that one are not decided any
    /// more.
    #[event(kind = "command_loss.accepted", subject = "partition", public)]
    CommandLossAccepted {
        /// Who, as they name themselves.
        by: String,
        /// Why, for people.
        reason: String,
        /// The last command that was done with, in the topic as it was.
        done: u64,
        /// The first command that the topic still had, or would have had next.
        kept_from: u64,
        /// The record to go on after.
        resumed_at: u64,
    },
    /// The log is restored from a backup or an export: what was recorded after that is lost.
    ///
    /// Every shard of the partition, also one that is new later, mints its ids above a number that no life of the log before
    /// this one reached. What was assigned or granted is held: it may have begun in the life that is lost, so nothing replaces
    /// it until its end is witnessed or a person vouches for it.
    #[event(kind = "log.restored", subject = "partition", public)]
    Restored {
        /// Which restore of this log; it grows.
        generation: u64,
        /// Counters of minted ids go on above this.
        ids_above: u64,
        /// Who, as they name themselves.
        by: String,
        /// The last offset of this journal in the state that is restored.
        upto: u64,
    },
}
