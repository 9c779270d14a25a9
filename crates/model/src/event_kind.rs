//! What each kind of event is called, and whether the public feed has it.
//!
//! One row for each kind. A public kind has the sentence that says when it happens; its schema, the AsyncAPI document
//! and docs/reference/events.md take it from here. An internal kind has the reason why it stays in the journal.

use std::fmt;

use crate::Event;

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventKind {
    /// Its name, `noun.verb`, without version.
    pub name: &'static str,
    /// Who gets events of this kind.
    pub audience: Audience,
}

/// Who gets events of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Readers of the public feed. The sentence says when such an event happens.
    Public(&'static str),
    /// Only readers of the journal.
    Internal(Internal),
}

/// Why the public feed does not have a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Internal {
    /// Another shard recorded the fact, and its event is the public one.
    Copy,
    /// A question, an answer or an order; the outcome is public.
    BetweenShards,
    /// Which messages between shards arrived.
    Delivery,
    /// Which jobs of other shards a shard wants to hear of.
    Subscription,
    /// Permits of shared pools on their way; `batch.assigned` is what comes of them.
    Permit,
    /// Steps of an apply between `apply.committed` and `apply.finished`, or before it is committed.
    ApplyStep,
    /// The shard's memory, not what happened.
    Eviction,
    /// A timer or a question of the scheduler's own, after which a public event follows.
    Chore,
    /// Dead letters have their own calls (`/api/dead-letters`) and rights: a reason may quote a command.
    DeadLetter,
}

impl fmt::Display for Internal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Internal::Copy => "it is a shard's copy of a fact that another shard published",
            Internal::BetweenShards => "it is a question, an answer or an order between shards",
            Internal::Delivery => "it acknowledges messages between shards",
            Internal::Subscription => "it is a subscription of a shard to jobs of another shard",
            Internal::Permit => "it moves permits of shared pools between shards",
            Internal::ApplyStep => "it is a step of an apply; apply.committed and apply.finished are public",
            Internal::Eviction => "it only removes old entries from the memory of a shard",
            Internal::Chore => "it is the scheduler's own bookkeeping",
            Internal::DeadLetter => "dead letters are read with GET /api/dead-letters",
        })
    }
}

impl EventKind {
    /// The sentence that says when an event of this kind happens; `None`: the public feed does not have it.
    #[must_use]
    pub fn sentence(&self) -> Option<&'static str> {
        match self.audience {
            Audience::Public(sentence) => Some(sentence),
            Audience::Internal(_) => None,
        }
    }

    /// The kinds that the public feed has, in the order in which they are defined.
    pub fn public() -> impl Iterator<Item = &'static EventKind> {
        Self::ALL.iter().filter(|kind| kind.sentence().is_some())
    }
}

macro_rules! kinds {
    ($($variant:ident => $name:literal, $audience:ident($about:expr);)+) => {
        impl EventKind {
            /// Every kind, each once.
            pub const ALL: &[EventKind] =
                &[$(EventKind { name: $name, audience: Audience::$audience($about) }),+];
        }

        impl Event {
            /// Its kind.
            #[must_use]
            pub const fn of_kind(&self) -> EventKind {
                match self {
                    $(Event::$variant { .. } => {
                        EventKind { name: $name, audience: Audience::$audience($about) }
                    })+
                }
            }
        }
    };
}

kinds! {
    // ---- catalogue: groups, keys, jobs
    GroupDefined => "group.defined", Public("A client creates a worker group, or changes its key or settings.");
    KeyDefined => "key.defined", Public("A client creates an application key, or replaces its secret or rights.");
    KeyRevoked => "key.revoked", Public("A client revokes an application key.");
    JobDefined => "job.defined", Public("The catalogue accepts a new job, or a new version of a job.");
    JobEnabled => "job.enabled", Public("A client enables a job, so that it generates batches again.");
    JobDisabled => "job.disabled", Public("A client disables a job, so that it generates no more batches.");
    JobDeleted => "job.deleted", Public("The catalogue deletes a job.");
    JobParentDeleted => "job.parent_deleted", Public("A client deletes a job although other jobs name it as their parent.");
    JobMoveRequested => "job.move_requested", Internal(Internal::BetweenShards);
    JobMoved => "job.moved", Public("The catalogue assigns a job to another group, after the old group's shard released it.");
    JobMoveRejected => "job.move_rejected", Public("A group's shard refuses to release a job to another group; the job stays as it was.");
    UnfinishedQueried => "unfinished.queried", Internal(Internal::BetweenShards);
    UnfinishedReceived => "unfinished.received", Internal(Internal::BetweenShards);
    // Who asked for a deletion that had to wait is named here only.
    DeletionDecided => "deletion.decided", Public("The catalogue decides a deletion that waited for answers of the groups' shards.");
    JobCancelled => "job.cancelled", Public("A client deletes a job together with its unfinished batches, which are then ended.");
    JobsStaged => "jobs.staged", Internal(Internal::ApplyStep);
    StagingDiscarded => "staging.discarded", Internal(Internal::ApplyStep);
    ApplyCommitted => "apply.committed", Public("A client commits a staged apply, which is then carried out to its end.");
    ApplyAdvanced => "apply.advanced", Internal(Internal::ApplyStep);
    ApplyFinished => "apply.finished", Public("The catalogue has carried out every change of a committed apply.");

    // ---- tasks that clients pull: templates and users, in the catalogue
    TemplateDefined => "template.defined", Public("A client creates or changes a template of pull tasks.");
    TemplateDeleted => "template.deleted", Public("A client deletes a template of pull tasks.");
    UsersAssigned => "users.assigned", Public("The catalogue assigns users who had no home group to one.");
    UserMoveRequested => "user.move_requested", Internal(Internal::BetweenShards);
    UserMoved => "user.moved", Public("The catalogue changes the home group of a user, after the old group's shard released the user.");
    UserMoveRejected => "user.move_rejected", Public("A group's shard refuses to release a user, who keeps the home group.");

    // ---- tasks that clients pull, in the home group's shard
    TemplateReplicated => "template.replicated", Internal(Internal::Copy);
    TemplateDropped => "template.dropped", Internal(Internal::Copy);
    UsersReplicated => "users.replicated", Internal(Internal::Copy);
    UserDetached => "user.detached", Internal(Internal::BetweenShards);
    UserDetachRejected => "user.detach_rejected", Internal(Internal::BetweenShards);
    UserAttached => "user.attached", Internal(Internal::Copy);
    TaskCreated => "task.created", Public("A client creates a pull task.");
    TaskChanged => "task.changed", Public("A client changes a pull task, which gets a new version.");
    TaskDeleted => "task.deleted", Public("A client deletes a pull task, which is granted to nobody any more.");
    TaskGranted => "task.granted", Public("A user pulls, and the group's shard grants an occurrence of a task.");
    TaskCompleted => "task.completed", Public("A client reports that a user completed a granted task.");
    GrantReturned => "grant.returned", Public("A client returns a grant, and its occurrence goes back to stock.");
    GrantExpired => "grant.expired", Public("The lease of a grant expires, and its occurrence goes back to stock.");
    // Not only memory: occurrences that were not granted yet cannot be pulled any more.
    TasksPurged => "tasks.purged", Public("The group's shard removes old occurrences of pull tasks, which can no longer be pulled.");

    // ---- pools, and permits of those that groups share
    PoolDefined => "pool.defined", Public("A client creates or changes a pool.");
    PoolDeleted => "pool.deleted", Public("A client deletes a pool that no job uses.");
    PoolReplicated => "pool.replicated", Internal(Internal::Copy);
    PoolDropped => "pool.dropped", Internal(Internal::Copy);
    RateLimitReset => "rate_limit.reset", Internal(Internal::Chore);
    PermitsReported => "permits.reported", Internal(Internal::Permit);
    PermitReportReceived => "permits.report_received", Internal(Internal::Permit);
    PermitsGranted => "permits.granted", Internal(Internal::Permit);
    PermitsReceived => "permits.received", Internal(Internal::Permit);

    // ---- calendars, and what fires of schedules come to
    CalendarDefined => "calendar.defined", Public("A client creates or changes a calendar.");
    CalendarDeleted => "calendar.deleted", Public("A client deletes a calendar that no job uses.");
    CalendarReplicated => "calendar.replicated", Internal(Internal::Copy);
    CalendarDropped => "calendar.dropped", Internal(Internal::Copy);
    ScheduleRescheduled => "schedule.rescheduled", Public("The next run of a job's schedule changes, because the job's calendar changed.");
    GenerationFailed => "generation.failed", Public("The scheduler fails to generate a batch for a run of a job's schedule.");

    // ---- freezes
    FreezeSet => "freeze.set", Public("A client freezes a group or every group beyond a logical time.");
    FreezeLifted => "freeze.lifted", Public("A client lifts the freeze of a group or of every group.");
    FreezeReplicated => "freeze.replicated", Internal(Internal::Copy);

    // ---- reruns and cold starts, in the catalogue
    RerunRequested => "rerun.requested", Public("A client requests a rerun or a backfill (cold start), and its planning begins.");
    RunsQueried => "runs.queried", Internal(Internal::BetweenShards);
    RunsReceived => "runs.received", Internal(Internal::BetweenShards);
    JobsSkipped => "jobs.skipped", Public("The plan of a rerun leaves out jobs or logical times.");
    BatchesPlanned => "batches.planned", Public("The catalogue adds batches to the plan of a rerun.");
    RerunPlanned => "rerun.planned", Public("The plan of a rerun is complete and waits for approval.");
    RerunApproved => "rerun.approved", Public("A client approves the plan of a rerun, or the request approved it in advance.");
    RunsRequested => "runs.requested", Internal(Internal::BetweenShards);
    // Of a job that was deleted meanwhile, no shard records it: this is not only a copy.
    RunFinished => "run.finished", Public("A planned batch of a rerun ends, or it turns out that it is not started.");
    RunsBlocked => "runs.blocked", Public("Planned batches of a rerun will not start, because a batch that they wait for did not succeed.");
    RerunPaused => "rerun.paused", Public("A client pauses a rerun, which starts no more batches for now.");
    RerunResumed => "rerun.resumed", Public("A client resumes a paused rerun.");
    RerunCancelled => "rerun.cancelled", Public("A client cancels a rerun, which starts no more batches.");
    RerunFinished => "rerun.finished", Public("A rerun ends: none of its batches is running or will be started.");

    // ---- one action for many batches or jobs
    BulkRequested => "bulk.requested", Public("A client requests one action for many batches or jobs.");
    BulkAdvanced => "bulk.advanced", Public("Some items of a bulk operation are decided; the event lists their outcomes.");

    // ---- between shards
    MessageReceived => "message.received", Internal(Internal::Delivery);
    OutboxAcknowledged => "outbox.acknowledged", Internal(Internal::Delivery);

    // ---- a group's shard: what it knows
    GroupReplicated => "group.replicated", Internal(Internal::Copy);
    JobReplicated => "job.replicated", Internal(Internal::Copy);
    JobSwitchReplicated => "job.switch_replicated", Internal(Internal::Copy);
    JobDropped => "job.dropped", Internal(Internal::Copy);
    ParentDeletionReplicated => "parent_deletion.replicated", Internal(Internal::Copy);
    JobDetached => "job.detached", Internal(Internal::BetweenShards);
    JobDetachRejected => "job.detach_rejected", Internal(Internal::BetweenShards);
    JobAttached => "job.attached", Internal(Internal::Copy);
    UnfinishedReported => "unfinished.reported", Internal(Internal::BetweenShards);
    CancellationReplicated => "cancellation.replicated", Internal(Internal::Copy);
    RunsReported => "runs.reported", Internal(Internal::BetweenShards);
    RunSkipped => "run.skipped", Public("A group's shard does not start a planned batch of a rerun.");
    JobSubmitted => "job.submitted", Public("A client submits an ad-hoc job, which runs once.");

    // ---- parents in other groups
    ParentsReplicated => "parents.replicated", Internal(Internal::Copy);
    ParentStatusUpdated => "parent_status.updated", Internal(Internal::Copy);
    ParentGenerationsReceived => "parent_generations.received", Internal(Internal::Copy);
    ParentTimesReceived => "parent_times.received", Internal(Internal::Copy);
    ParentSubscribed => "parent.subscribed", Internal(Internal::Subscription);
    ParentTimesSubscribed => "parent.times_subscribed", Internal(Internal::Subscription);
    ParentTimesUnsubscribed => "parent.times_unsubscribed", Internal(Internal::Subscription);

    // ---- batches
    BatchGenerated => "batch.generated", Public("The scheduler creates a batch, which is in state waiting.");
    ScheduleSkipped => "schedule.skipped", Public("The scheduler skips runs of a job's schedule, for which no batch is generated.");
    StartDue => "start.due", Public("A batch reaches the earliest time at which it may start.");
    DependencySatisfied => "dependency.satisfied", Public("A parent's logical time stops holding a batch back.");
    DependencyRevoked => "dependency.revoked", Public("A parent's logical time holds a batch back again, because its newest run has not succeeded.");
    BatchAssigned => "batch.assigned", Public("The scheduler assigns a batch to a worker.");
    AssignmentReturned => "assignment.returned", Public("An assignment ends without an attempt, and the batch waits for another worker.");
    StartGranted => "start.granted", Public("The scheduler permits the assigned worker to start the process of an attempt.");
    AttemptStarted => "attempt.started", Public("A worker reports that the process of an attempt has started.");
    UserCodeReported => "user_code.reported", Public("The program of an attempt reports a result code.");
    AttemptFinished => "attempt.finished", Public("The whole process tree of an attempt has ended, or the lease of its worker has expired.");
    RetryScheduled => "retry.scheduled", Public("The scheduler plans another attempt after one that failed.");
    RetryDue => "retry.due", Public("The pause before the next attempt of a batch ends.");
    KillRequested => "kill.requested", Public("Somebody or a timeout requests the end of a running attempt.");
    BatchFinished => "batch.finished", Public("A batch ends with its result.");
    BatchResultOverridden => "batch.result_overridden", Public("A client overrides the result of a batch.");

    // ---- final commands (JOB-8)
    FinalCommandAssigned => "final_command.assigned", Public("The scheduler assigns the final command of a finished batch to a worker.");
    FinalCommandGranted => "final_command.granted", Public("The scheduler permits the assigned worker to start a final command.");
    FinalCommandFinished => "final_command.finished", Public("A final command ends, or it is certain that it will never start.");
    FinalCommandNotRun => "final_command.not_run", Public("The final command of a batch without an attempt found no worker and will not run.");

    // ---- alarms and what leads to them
    BatchBlocked => "batch.blocked", Public("A failed or blocked parent starts to block a waiting batch.");
    BatchUnblocked => "batch.unblocked", Public("No failed parent blocks a batch any more.");
    TimeoutReached => "timeout.reached", Public("A batch exceeds one of its timeouts; it may still succeed.");
    AlarmRaised => "alarm.raised", Public("The scheduler raises an alarm, once for each cause.");

    // ---- external dependencies, and the quality service
    ExternalDependencyRegistered => "external_dependency.registered", Public("A batch or a report names an external dependency for the first time.");
    ExternalDependencySatisfied => "external_dependency.satisfied", Public("An external dependency is satisfied, for every batch that waits for it.");
    ExternalDependencyRevoked => "external_dependency.revoked", Public("An external dependency is no longer satisfied, for every batch that has not started.");
    ExternalDependenciesEvicted => "external_dependencies.evicted", Internal(Internal::Eviction);
    DependencyOverridden => "dependency.overridden", Public("A client lets a batch run without some of its dependencies.");
    ProbesRequested => "probes.requested", Public("A client requests that missing paths are probed at once.");
    QualityRequested => "quality.requested", Public("Every other dependency of a batch is met, and the quality service is to be asked about it.");
    QualitySent => "quality.sent", Internal(Internal::Chore);
    QualityAnswered => "quality.answered", Public("The quality service answers whether a batch may run.");
    ThirdPartyReported => "third_party.reported", Public("A third party reports whether its data for a logical time is ready.");
    ThirdPartyEvicted => "third_party.evicted", Internal(Internal::Eviction);
    ProbesLate => "probes.late", Public("A prober reports that checks of paths fail or are late.");
    ProbesRecovered => "probes.recovered", Public("A prober reports that checks of paths are on time again.");
    HistoryEvicted => "history.evicted", Internal(Internal::Eviction);

    // ---- workers
    WorkerRegistered => "worker.registered", Public("A worker registers with the shard of its group.");
    WorkerMeasured => "worker.measured", Public("A worker reports that the load or memory of its machine changed notably.");
    WorkerLost => "worker.lost", Public("A worker sends no heartbeat for longer than its limit.");
    WorkerRecovered => "worker.recovered", Public("A lost worker sends a heartbeat again, without having restarted.");
    LeaseExpired => "lease.expired", Public("The lease of a lost worker expires: none of its processes is running any more.");
    WorkerDrained => "worker.drained", Public("A client drains a worker, which gets no new work.");
    WorkerResumed => "worker.resumed", Public("A client resumes a drained worker, which gets work again.");
    WorkerUnready => "worker.unready", Public("A worker reports that it cannot take new work.");
    WorkerReady => "worker.ready", Public("A worker reports that it can take work again.");

    // ---- the partition itself
    CommandDeadLettered => "command.dead_lettered", Internal(Internal::DeadLetter);
    TimerSuspended => "timer.suspended", Internal(Internal::DeadLetter);
    ClockSet => "clock.set", Public("An operator sets the clock of a shard.");
    CommandLossAccepted => "command_loss.accepted", Public("An operator lets a partition continue although some of its commands are lost.");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// EVT-3: a reader of the feed learns of every kind when it happens.
    #[test]
    fn every_public_kind_has_a_sentence() {
        for kind in EventKind::public() {
            let sentence = kind.sentence().unwrap();
            let length = sentence.chars().count();
            assert!((20..=160).contains(&length), "{}: {length} characters: {sentence}", kind.name);
            assert!(sentence.ends_with('.') && !sentence.ends_with(".."), "{}: {sentence}", kind.name);
            assert!(sentence.starts_with(char::is_uppercase), "{}: {sentence}", kind.name);
            assert_eq!(sentence, sentence.trim(), "{}", kind.name);
        }
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let names: BTreeSet<_> = EventKind::ALL.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), EventKind::ALL.len());
        for name in names {
            let words: Vec<_> = name.split('.').collect();
            let is_word =
                |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(words.len() == 2 && words.iter().all(is_word), "{name}");
        }
    }

    /// What only moves between shards, or only keeps a shard's memory small, is nobody's business outside.
    #[test]
    fn bookkeeping_is_internal() {
        for kind in EventKind::public() {
            let verb = kind.name.split_once('.').unwrap().1;
            let of_bookkeeping =
                ["received", "heard", "told", "asked", "taken", "forgotten", "evicted", "acknowledged"];
            assert!(!of_bookkeeping.contains(&verb), "{} is public", kind.name);
        }
    }
}
