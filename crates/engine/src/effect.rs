//! What an accepted envelope means outside: replies, messages to workers, messages to other shards.
//! Derived from what was read back, so that a crash in between repeats it and never invents it.

use std::collections::BTreeMap;

use tidemill_model::{
    Command, Envelope, Event, InstanceId, Outcome, Reply, ShardId, Source, WorkMessage, WorkerId,
};

use crate::deferred::{self, Decided};
use crate::group::Batch;
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
pub struct Courier {
    sent: BTreeMap<(ShardId, ShardId), u64>,
}

impl Courier {
    /// Messages between shards that are due to be sent.
    pub fn collect(&mut self, partition: &Partition) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (from, shard) in partition.shards() {
            for (to, number, message) in shard.post().waiting(MAX_ON_THEIR_WAY) {
                let sent = self.sent.entry((from, to)).or_default();
                if number > *sent {
                    *sent = number;
                    let command = Command::Deliver { from, number, message: message.clone() };
                    effects.push(Effect::Send { shard: to, command });
                }
            }
        }
        effects
    }

    /// Whether something was sent that has not been acknowledged.
    pub fn is_waiting(&self, partition: &Partition) -> bool {
        partition.shards().any(|(_, shard)| shard.post().waiting(1).next().is_some())
    }

    /// Forgets what was sent.
    pub fn start_over(&mut self) {
        self.sent.clear();
    }
}

/// What an envelope, accepted at `offset` and already applied, means outside.
pub fn effects(partition: &Partition, envelope: &Envelope, offset: u64) -> Vec<Effect> {
    let replies = envelope.causes.iter().filter_map(|cause| reply(partition, cause, offset));
    let mut effects: Vec<Effect> = replies.collect();
    let mut acknowledge: BTreeMap<(ShardId, ShardId), u64> = BTreeMap::new();
    for recorded in &envelope.events {
        if let Event::MessageReceived { from, number } = recorded.event {
            acknowledge.insert((recorded.shard, from), number);
        }
        if let Event::CommandQuarantined { offset, reason } = &recorded.event {
            effects.push(Effect::DeadLetter { offset: *offset, reason: reason.clone() });
        }
        if let Some(Decided { request: Some(request), reply_to: Some(to), outcome }) =
            deferred::decided(&recorded.event)
        {
            let request = request.clone();
            let reply = Reply { request, outcome, partition: partition.number(), offset };
            effects.push(Effect::Reply { to: to.clone(), reply });
        }
        let messages = work(partition, recorded.shard, &recorded.event);
        effects.extend(messages.into_iter().map(|(worker, message)| Effect::Work { worker, message }));
    }
    effects.extend(acknowledge.into_iter().map(|((shard, from), upto)| Effect::Send {
        shard: from,
        command: Command::Acknowledge { from: shard, upto },
    }));
    effects
}

fn reply(partition: &Partition, cause: &tidemill_model::Cause, offset: u64) -> Option<Effect> {
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
fn work(partition: &Partition, shard: ShardId, event: &Event) -> Vec<(WorkerId, WorkMessage)> {
    let Some(group) = partition.group(shard) else { return Vec::new() };
    match event {
        Event::BatchAssigned { batch, token, worker, .. } => {
            let message = |batch: &Batch| WorkMessage::Assigned {
                worker: worker.clone(),
                token: *token,
                job_type: batch.definition.job_type.clone(),
                checks: group.checks_of(batch),
            };
            group.batches.get(batch).map(|batch| (worker.clone(), message(batch))).into_iter().collect()
        }
        Event::StartGranted { token, worker, .. } => {
            group.granted_message(*token).map(|message| (worker.clone(), message)).into_iter().collect()
        }
        Event::AttemptFinished { token, worker, .. }
        | Event::FinalCommandEnded { token: Some(token), worker, .. } => {
            vec![(worker.clone(), WorkMessage::Recorded { token: *token })]
        }
        Event::FinalCommandAssigned { token, worker, .. } => {
            let message = group.outstanding_final(*token);
            message.map(|message| (worker.clone(), message)).into_iter().collect()
        }
        Event::FinalCommandGranted { token, worker, .. } => {
            group.granted_final(*token).map(|message| (worker.clone(), message)).into_iter().collect()
        }
        Event::AssignmentReturned { token, worker, .. } => {
            let reason = "it was taken back".to_owned();
            vec![(worker.clone(), WorkMessage::Refused { token: *token, reason })]
        }
        Event::KillRequested { batch, token, .. } => {
            let worker = group.batches.get(batch).and_then(|batch| batch.grant()).map(|g| g.worker.clone());
            let grace_ms = group.settings().kill_grace_ms;
            let message = WorkMessage::Kill { token: *token, grace_ms };
            worker.map(|worker| (worker, message)).into_iter().collect()
        }
        Event::WorkerRegistered { worker, .. } => {
            let first = group.registered_message(worker);
            let messages = first.into_iter().chain(group.outstanding_of(worker));
            messages.map(|message| (worker.clone(), message)).collect()
        }
        Event::LeaseExpired { worker, incarnation } => {
            vec![(worker.clone(), WorkMessage::Unregistered { incarnation: incarnation.clone() })]
        }
        Event::GroupDefined { .. }
        | Event::KeyDefined { .. }
        | Event::KeyRevoked { .. }
        | Event::Frozen { .. }
        | Event::Thawed { .. }
        | Event::FreezeReceived { .. }
        | Event::StartDue { .. }
        | Event::JobDefined { .. }
        | Event::JobEnabled { .. }
        | Event::JobDisabled { .. }
        | Event::JobDeleted { .. }
        | Event::MessageReceived { .. }
        | Event::OutboxAcknowledged { .. }
        | Event::GroupReceived { .. }
        | Event::JobReceived { .. }
        | Event::JobSwitched { .. }
        | Event::JobRemoved { .. }
        | Event::JobMoveAsked { .. }
        | Event::JobMoved { .. }
        | Event::JobMoveRefused { .. }
        | Event::JobReleased { .. }
        | Event::JobKept { .. }
        | Event::JobTaken { .. }
        | Event::JobSubmitted { .. }
        | Event::UnfinishedAsked { .. }
        | Event::UnfinishedTold { .. }
        | Event::UnfinishedHeard { .. }
        | Event::RemovalDecided { .. }
        | Event::JobsStaged { .. }
        | Event::StagingDropped { .. }
        | Event::ApplyCommitted { .. }
        | Event::ApplyAdvanced { .. }
        | Event::ApplyFinished { .. }
        | Event::RerunRequested { .. }
        | Event::RunsAsked { .. }
        | Event::RunsHeard { .. }
        | Event::JobsSkipped { .. }
        | Event::BatchesPlanned { .. }
        | Event::RerunPlanned { .. }
        | Event::RerunApproved { .. }
        | Event::RunsOrdered { .. }
        | Event::RunEnded { .. }
        | Event::RunsBlocked { .. }
        | Event::BulkRequested { .. }
        | Event::BulkAdvanced { .. }
        | Event::RerunPaused { .. }
        | Event::RerunResumed { .. }
        | Event::RerunCancelled { .. }
        | Event::RerunEnded { .. }
        | Event::RunsTold { .. }
        | Event::RunSkipped { .. }
        | Event::JobCancelled { .. }
        | Event::CancelReceived { .. }
        | Event::ParentsReceived { .. }
        | Event::StandingsHeard { .. }
        | Event::GenerationsHeard { .. }
        | Event::TimesHeard { .. }
        | Event::ParentFollowed { .. }
        | Event::ParentWatched { .. }
        | Event::ParentUnwatched { .. }
        | Event::BatchGenerated { .. }
        | Event::FiresSkipped { .. }
        | Event::TemplateDefined { .. }
        | Event::TemplateRemoved { .. }
        | Event::UsersAssigned { .. }
        | Event::UserMoveAsked { .. }
        | Event::UserMoved { .. }
        | Event::UserMoveRefused { .. }
        | Event::TemplateReceived { .. }
        | Event::TemplateForgotten { .. }
        | Event::UsersReceived { .. }
        | Event::UserReleased { .. }
        | Event::UserKept { .. }
        | Event::UserReceived { .. }
        | Event::TaskCreated { .. }
        | Event::TaskChanged { .. }
        | Event::TaskDeleted { .. }
        | Event::TaskGranted { .. }
        | Event::TaskCompleted { .. }
        | Event::GrantReturned { .. }
        | Event::GrantExpired { .. }
        | Event::TasksPurged { .. }
        | Event::PoolReceived { .. }
        | Event::PoolForgotten { .. }
        | Event::PermitsReceived { .. }
        | Event::PermitsReported { .. }
        | Event::PoolDefined { .. }
        | Event::PoolRemoved { .. }
        | Event::PermitsHeard { .. }
        | Event::PermitsGranted { .. }
        | Event::RateOpened { .. }
        | Event::CalendarDefined { .. }
        | Event::CalendarRemoved { .. }
        | Event::CalendarReceived { .. }
        | Event::CalendarForgotten { .. }
        | Event::FireMoved { .. }
        | Event::GenerationFailed { .. }
        | Event::DependencySatisfied { .. }
        | Event::DependencyWithdrawn { .. }
        | Event::AttemptStarted { .. }
        | Event::CodeReported { .. }
        | Event::FinalCommandEnded { token: None, .. }
        | Event::FinalCommandNotRun { .. }
        | Event::WorkerUnfit { .. }
        | Event::WorkerFit { .. }
        | Event::RetryScheduled { .. }
        | Event::RetryDue { .. }
        | Event::BatchFinished { .. }
        | Event::BatchMarked { .. }
        | Event::BatchBlocked { .. }
        | Event::BatchUnblocked { .. }
        | Event::TimeoutMarked { .. }
        | Event::AlarmRaised { .. }
        | Event::HistoryEvicted { .. }
        | Event::ThingWaited { .. }
        | Event::ThingSatisfied { .. }
        | Event::ThingWithdrawn { .. }
        | Event::ThingsForgotten { .. }
        | Event::DependencyOverridden { .. }
        | Event::ChecksRequested { .. }
        | Event::QualityRequested { .. }
        | Event::QualityTaken { .. }
        | Event::QualityAnswered { .. }
        | Event::ThirdPartyReported { .. }
        | Event::ThirdPartyForgotten { .. }
        | Event::ChecksLate { .. }
        | Event::ChecksRecovered { .. }
        | Event::WorkerMeasured { .. }
        | Event::WorkerLost { .. }
        | Event::WorkerFound { .. }
        | Event::WorkerDrained { .. }
        | Event::WorkerResumed { .. }
        | Event::CommandQuarantined { .. }
        | Event::TimerSuspended { .. }
        | Event::TimeSet { .. }
        | Event::LossAccepted { .. } => Vec::new(),
    }
}
