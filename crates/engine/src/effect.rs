//! What an accepted envelope means outside: replies, messages to workers, messages to other shards.
//! Derived from what was read back, so that a crash in between repeats it and never invents it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tidemill_model::{
    Cause, Command, Envelope, Event, InstanceId, Level, Outcome, PartitionEvent, Reply, ShardCommand,
    ShardId, Source, Token, WorkMessage, WorkerEvent, WorkerId,
};

use crate::decision::{self, Decided};
use crate::draft::panic_text;
use crate::group::{self, GroupShard};
use crate::outbox::MAX_ON_THEIR_WAY;
use crate::partition::Partition;

/// Something to do outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Tell who waits.
    Reply {
        /// Where it waits.
        to: InstanceId,
        /// What came of it.
        reply: Reply,
    },
    /// Tell a worker.
    Work {
        /// Which.
        worker: WorkerId,
        /// What.
        message: WorkMessage,
    },
    /// Tell a shard.
    Send {
        /// Which.
        shard: ShardId,
        /// What.
        command: Command,
    },
    /// Tell people of a message to a worker that could not be derived. It is not sent, and everything else goes on.
    Underivable {
        /// What it would have followed from, in words for people.
        of: String,
        /// Why, cut to 500 characters.
        reason: String,
    },
    /// Set a command's raw record aside.
    DeadLetter {
        /// Its offset in the commands.
        offset: u64,
        /// Why.
        reason: String,
    },
}

/// Remembers which messages of which outbox were already handed on, so that each accepted envelope sends
/// only what is new. Empty at takeover, and emptied when acknowledgements stay away: then all is sent again.
#[derive(Debug, Clone, Default)]
pub struct OutboxSender {
    sent: BTreeMap<(ShardId, ShardId), u64>,
}

impl OutboxSender {
    /// Messages between shards that are due to be sent.
    pub fn collect(&mut self, partition: &Partition) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (from, shard) in partition.shards() {
            for (to, number, message) in shard.mailbox().waiting(MAX_ON_THEIR_WAY) {
                let sent = self.sent.entry((from, to)).or_default();
                if number > *sent {
                    *sent = number;
                    let command =
                        Command::Shard(ShardCommand::Deliver { from, number, message: message.clone() });
                    check_level(partition, command.level());
                    effects.push(Effect::Send { shard: to, command });
                }
            }
        }
        effects
    }

    /// Whether something was sent that has not been acknowledged.
    pub fn is_waiting(&self, partition: &Partition) -> bool {
        partition.shards().any(|(_, shard)| shard.mailbox().waiting(1).next().is_some())
    }

    /// Forgets what was sent.
    pub fn start_over(&mut self) {
        self.sent.clear();
    }
}

/// Rule 13: nothing goes to others that some of them could not read.
pub(crate) fn check_levels(partition: &Partition, effects: &[Effect]) {
    for effect in effects {
        match effect {
            Effect::Work { message, .. } => check_level(partition, message.level()),
            Effect::Send { command, .. } => check_level(partition, command.level()),
            Effect::Reply { .. } | Effect::Underivable { .. } | Effect::DeadLetter { .. } => {}
        }
    }
}

fn check_level(partition: &Partition, needed: Level) {
    let level = partition.level();
    assert!(level.allows(needed), "a message of level {needed} leaves where level {level} stands");
}

/// What an envelope, accepted at `offset` and already applied, means outside.
pub fn effects(partition: &Partition, envelope: &Envelope, offset: u64) -> Vec<Effect> {
    let mut effects: Vec<Effect> =
        envelope.causes.iter().filter_map(|cause| reply(partition, cause, offset)).collect();
    let mut acknowledge: BTreeMap<(ShardId, ShardId), u64> = BTreeMap::new();
    let mut puts_in_doubt = false;
    for recorded in &envelope.events {
        if let Event::Partition(PartitionEvent::MessageReceived { from, number }) = recorded.event {
            acknowledge.insert((recorded.shard, from), number);
        }
        if let Event::Partition(PartitionEvent::CommandDeadLettered { offset, reason }) = &recorded.event {
            effects.push(Effect::DeadLetter { offset: *offset, reason: reason.clone() });
        }
        puts_in_doubt |= group::puts_rights_in_doubt(&recorded.event);
        if let Some(Decided { request: Some(request), reply_to: Some(to), outcome }) =
            decision::decided(&recorded.event)
        {
            let request = request.clone();
            let reply = Reply { request, outcome, partition: partition.number(), offset };
            effects.push(Effect::Reply { to: to.clone(), reply });
        }
        let of = || {
            format!("{} of {} in shard {}", recorded.event.kind(), recorded.event.subject(), recorded.shard)
        };
        effects.extend(derived(of, || work(partition, recorded.shard, &recorded.event)));
    }
    if puts_in_doubt {
        let asked = partition.groups().flat_map(GroupShard::rights_asked_back);
        effects.extend(asked.map(|(worker, message)| Effect::Work { worker, message }));
    }
    effects.extend(acknowledge.into_iter().map(|((shard, from), upto)| Effect::Send {
        shard: from,
        command: Command::Shard(ShardCommand::Acknowledge { from: shard, upto }),
    }));
    check_levels(partition, &effects);
    effects
}

/// Rule 12: what workers must hear, or that this could not be derived. A panic here would come again at every takeover, and
/// keep the partition without an owner.
fn derived(of: impl Fn() -> String, derive: impl FnOnce() -> Vec<Effect>) -> Vec<Effect> {
    catch_unwind(AssertUnwindSafe(derive)).unwrap_or_else(|panic| {
        let reason = panic_text(panic.as_ref()).chars().take(500).collect();
        vec![Effect::Underivable { of: of(), reason }]
    })
}

/// What a worker should know and may have missed, token by token.
pub(crate) fn outstanding_of(partition: &Partition, group: &GroupShard, worker: &WorkerId) -> Vec<Effect> {
    let of_token = |token: Token| {
        let of = || format!("what worker {worker} is to do by token {token}");
        derived(of, || {
            partition.fault_injection.derives(group, token);
            to(worker, group.outstanding_of_token(token))
        })
    };
    group.tokens_of(worker).flat_map(of_token).collect()
}

fn to(worker: &WorkerId, messages: impl IntoIterator<Item = WorkMessage>) -> Vec<Effect> {
    messages.into_iter().map(|message| Effect::Work { worker: worker.clone(), message }).collect()
}

fn reply(partition: &Partition, cause: &Cause, offset: u64) -> Option<Effect> {
    let Source::Command { request: Some(request), reply_to: Some(to), .. } = &cause.source else {
        return None;
    };
    let outcome = match &cause.outcome {
        Outcome::Repeated => partition.answer_to(request)?.clone(),
        outcome => outcome.clone(),
    };
    if outcome == Outcome::Deferred {
        return None;
    }
    let reply = Reply { request: request.clone(), outcome, partition: partition.number(), offset };
    Some(Effect::Reply { to: to.clone(), reply })
}

/// What workers must hear of an event. Most concern none.
fn work(partition: &Partition, shard: ShardId, event: &Event) -> Vec<Effect> {
    let Some(group) = partition.group(shard) else { return Vec::new() };
    let message = match event {
        Event::Batch(event) => group.work_of_batch(event),
        Event::Attempt(event) => group.work_of_attempt(event),
        Event::FinalCommand(event) => group.work_of_final_command(event),
        Event::Worker(event) => return work_of_worker(partition, group, event),
        Event::Catalogue(_)
        | Event::Directory(_)
        | Event::Credential(_)
        | Event::Access(_)
        | Event::Replication(_)
        | Event::Job(_)
        | Event::Partition(_)
        | Event::Transfer(_)
        | Event::Deletion(_)
        | Event::Apply(_)
        | Event::Rerun(_)
        | Event::Bulk(_)
        | Event::Level(_)
        | Event::Subscription(_)
        | Event::Schedule(_)
        | Event::Task(_)
        | Event::Permit(_)
        | Event::Alarm(_)
        | Event::Observation(_) => None,
    };
    let Some((worker, message)) = message else { return Vec::new() };
    match &message {
        WorkMessage::Assigned { token, .. } | WorkMessage::Confirmed { token, .. } => {
            partition.fault_injection.derives(group, *token);
        }
        WorkMessage::Granted { spec, .. } | WorkMessage::AssignedWithRight { spec, .. } => {
            partition.fault_injection.derives(group, spec.token);
        }
        _ => {}
    }
    to(&worker, [message])
}

fn work_of_worker(partition: &Partition, group: &GroupShard, event: &WorkerEvent) -> Vec<Effect> {
    match event {
        WorkerEvent::Registered { worker, .. } => {
            let mut effects = to(worker, group.registered_message(worker));
            effects.extend(outstanding_of(partition, group, worker));
            effects
        }
        WorkerEvent::LeaseExpired { worker, incarnation }
        | WorkerEvent::EndVouched { worker, incarnation, .. } => {
            let shard = Some(group.id());
            to(worker, [WorkMessage::Unregistered { incarnation: incarnation.clone(), shard }])
        }
        WorkerEvent::StrayKillRequested { .. } | WorkerEvent::StrayEnded { .. } => group
            .work_of_stray(event)
            .into_iter()
            .flat_map(|(worker, message)| to(&worker, [message]))
            .collect(),
        // The answer to its registration lists them.
        WorkerEvent::StraysFound { .. }
        | WorkerEvent::Unready { .. }
        | WorkerEvent::Ready { .. }
        | WorkerEvent::Measured { .. }
        | WorkerEvent::Lost { .. }
        | WorkerEvent::Recovered { .. }
        | WorkerEvent::LeaseHalfOver { .. }
        | WorkerEvent::HostDrained { .. }
        | WorkerEvent::HostEmptied { .. }
        | WorkerEvent::HostResumed { .. }
        | WorkerEvent::Leaving { .. }
        | WorkerEvent::Left { .. }
        | WorkerEvent::Drained { .. }
        | WorkerEvent::Resumed { .. } => Vec::new(),
    }
}
