use std::collections::BTreeMap;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{
    Actor, BatchId, BatchResult, CountedParents, DataPath, Dependency, ExternalDependencyId, Fire,
    Incarnation, JobId, Origin, OverriddenResult, RerunPlace, ReturnReason, StartRight, TimeoutKind,
    Timestamp, Token, WaivedParent, WorkerId,
};

/// A batch, from its generation to its result.
#[vocabulary(Aggregate)]
#[event(subject = "batch/{batch}", each(batch: BatchId))]
pub enum BatchEvent {
    /// The scheduler creates a batch, which is in state waiting.
    #[event(kind = "batch.generated", public)]
    Generated {
        /// Its id.
        batch: BatchId,
        /// Its job.
        job: JobId,
        /// The definition it keeps.
        version: u32,
        /// For which logical time.
        logical_time: Timestamp,
        /// 0 for the first, then + 1.
        #[serde(default, skip_serializing_if = "crate::is_default")]
        run: u32,
        /// Where it came from.
        origin: Origin,
        /// What it waits for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dependencies: Vec<Dependency>,
        /// It also waits for these, all at its own logical time; absent: there are no others.
        counted_parents: Option<CountedParents>,
        /// The external dependencies that it waits for, too; each was told of before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        external_dependencies: Vec<ExternalDependencyId>,
        /// It also waits for the quality service's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        quality_gate: bool,
        /// It is not assigned before.
        earliest_start: Option<Timestamp>,
        /// Parameters over those of the definition.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        parameters: BTreeMap<String, String>,
        /// The schedule's next fire, when the schedule made it.
        next: Option<Fire>,
        /// The version of its job's calendar, where it keeps to one.
        calendar: Option<u32>,
        /// The base time of its logical time, from which its timeouts count, when the generation of a parent made it:
        /// when the nearest ancestor with a schedule fired for it. Absent: the fire of its own schedule, else now.
        base: Option<Timestamp>,
        /// The plan that it belongs to, when a rerun or cold start made it.
        rerun: Option<RerunPlace>,
        /// Of a run by hand, whether it was requested beside unfinished batches of its job; `false` means that the job
        /// had none. Absent for every other origin, and for runs by hand of before the flag existed.
        concurrent: Option<bool>,
        /// GEN-1: the paths that it makes, templates resolved for its logical time; at most as many as its job names. Absent
        /// for batches of before they were recorded.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outputs: Vec<DataPath>,
    },
    /// A batch reaches the earliest time at which it may start.
    #[event(kind = "start.due", public)]
    StartDue {
        /// Which.
        batch: BatchId,
    },
    /// A parent's logical time stops holding a batch back.
    ///
    /// It has succeeded, or was skipped; or ended otherwise, where its job waits for ends; or is left out, because the
    /// parent makes no batch for it.
    #[event(kind = "dependency.satisfied", public)]
    DependencySatisfied {
        /// The waiting batch.
        batch: BatchId,
        /// The parent.
        parent: JobId,
        /// Its logical time.
        logical_time: Timestamp,
        /// Parents' dependencies still unmet; 0: no parent keeps it back.
        unmet: u32,
        /// The parent has no batch for this time, and by its journal its schedule makes none.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        left_out: bool,
    },
    /// A parent's logical time holds a batch back again, because its newest run has not succeeded.
    #[event(kind = "dependency.revoked", public)]
    DependencyRevoked {
        /// The waiting batch.
        batch: BatchId,
        /// The parent.
        parent: JobId,
        /// Its logical time.
        logical_time: Timestamp,
        /// Parents' dependencies now unmet.
        unmet: u32,
    },
    /// A client lets a batch run without some of its dependencies.
    #[event(kind = "dependency.overridden", public)]
    DependencyOverridden {
        /// Which.
        batch: BatchId,
        /// Without these external dependencies.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        external_dependencies: Vec<ExternalDependencyId>,
        /// Without the success of these.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parents: Vec<WaivedParent>,
        /// Without the success of any of those that it does not list (`counted_parents`), now and later.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        counted_parents: bool,
        /// Without the quality service's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        quality: bool,
        /// Parents' dependencies that still keep it back.
        #[serde(default, skip_serializing_if = "crate::is_default")]
        unmet: u32,
        /// Who.
        by: Actor,
        /// Why.
        reason: String,
    },
    /// Every other dependency of a batch is met, and the quality service is to be asked about it.
    #[event(kind = "quality.requested", public)]
    QualityRequested {
        /// About which batch.
        batch: BatchId,
        /// How often it was asked, from 1.
        number: u32,
        /// When it is asked again, unless it answers.
        again_at: Timestamp,
    },
    /// Somebody asks the quality service: the question counts as sent.
    #[event(kind = "quality.sent", internal = "Chore")]
    QualitySent {
        /// About which batch.
        batch: BatchId,
        /// The number of the question.
        number: u32,
        /// Who.
        by: Incarnation,
    },
    /// The quality service answers whether a batch may run.
    #[event(kind = "quality.answered", public)]
    QualityAnswered {
        /// About which batch.
        batch: BatchId,
        /// Whether it may run.
        allowed: bool,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
        /// Who called.
        by: Actor,
    },
    /// A failed or blocked parent starts to block a waiting batch.
    ///
    /// The batch waits for a time that nobody brings unless somebody acts: its newest run ended without success, or is
    /// blocked itself. It is recorded once, and again only when another time blocks it instead. Its end, or
    /// `batch.unblocked`, ends it.
    #[event(kind = "batch.blocked", public)]
    Blocked {
        /// Which.
        batch: BatchId,
        /// The parent that failed or is blocked.
        parent: JobId,
        /// For this logical time.
        logical_time: Timestamp,
        /// Since when the batch is blocked.
        since: Timestamp,
    },
    /// No failed parent blocks a batch any more.
    ///
    /// One was rerun or marked, or somebody lets it run without.
    #[event(kind = "batch.unblocked", public)]
    Unblocked {
        /// Which.
        batch: BatchId,
    },
    /// A batch exceeds one of its timeouts; it may still succeed.
    #[event(kind = "timeout.reached", public)]
    TimeoutReached {
        /// Which.
        batch: BatchId,
        /// Which of its times has passed.
        kind: TimeoutKind,
        /// That time.
        deadline: Timestamp,
    },
    /// The scheduler assigns a batch to a worker.
    #[event(kind = "batch.assigned", public)]
    Assigned {
        /// Which.
        batch: BatchId,
        /// The attempt that this will be, from 1.
        attempt: u32,
        /// Fences it.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// When the worker must have asked to start.
        start_by: Timestamp,
    },
    /// The scheduler assigns a batch to a worker, which may start it before its question is answered.
    ///
    /// What follows is as after `batch.assigned`. The worker asks to start it all the same, and `start.granted` follows
    /// where it does so in time.
    #[event(kind = "batch.assigned_with_right", level = 2, public)]
    AssignedWithRight {
        /// Which.
        batch: BatchId,
        /// The attempt that this will be, from 1.
        attempt: u32,
        /// Fences it.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// Until when the worker may start it without an answer.
        right: StartRight,
        /// So long after it has read the heartbeat, or claimed the partition, the owner takes the right for over,
        /// milliseconds: the window and a margin.
        over_after_ms: u64,
    },
    /// An assignment ends without an attempt, and the batch waits for another worker.
    #[event(kind = "assignment.returned", public)]
    AssignmentReturned {
        /// Which batch.
        batch: BatchId,
        /// The assignment.
        token: Token,
        /// Who had it.
        worker: WorkerId,
        /// Why.
        reason: ReturnReason,
    },
    /// The scheduler plans another attempt after one that failed.
    #[event(kind = "retry.scheduled", public)]
    RetryScheduled {
        /// Which batch.
        batch: BatchId,
        /// The number of the next attempt.
        attempt: u32,
        /// Not before.
        at: Timestamp,
    },
    /// The pause before the next attempt of a batch ends.
    #[event(kind = "retry.due", public)]
    RetryDue {
        /// Which batch.
        batch: BatchId,
    },
    /// A batch ends with its result.
    #[event(kind = "batch.finished", public)]
    Finished {
        /// Which.
        batch: BatchId,
        /// How.
        result: BatchResult,
        /// Who ended it, where somebody did.
        by: Option<Actor>,
        /// For people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
        /// Its job's final command is due, though it never had an attempt. Absent otherwise, and in records from before
        /// such batches had one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        final_command: bool,
    },
    /// A client overrides the result of a batch.
    ///
    /// Of a finished one this is the result from now on; one that is unfinished ends with it at once, or as soon as what
    /// runs of it has ended.
    #[event(kind = "batch.result_overridden", public)]
    ResultOverridden {
        /// Which.
        batch: BatchId,
        /// Its job.
        job: JobId,
        /// Its logical time.
        logical_time: Timestamp,
        /// How.
        result: OverriddenResult,
        /// Who says so.
        by: Actor,
        /// Why.
        reason: String,
        /// The newest run of its logical time, which it is, where its shard holds the time no longer in full.
        run: Option<u32>,
    },
}
