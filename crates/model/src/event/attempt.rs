use tidemill_derive::{Aggregate, vocabulary};

use crate::{
    Actor, AttemptOutcome, BatchId, Excess, ExternalWorkId, Incarnation, Nonce, OutputFound, Timestamp,
    Token, Usage, WorkerId,
};

/// An attempt, from the permission to start to the end of its processes.
#[vocabulary(Aggregate)]
#[event(subject = "batch/{batch}", each(batch: BatchId))]
pub enum AttemptEvent {
    /// The scheduler permits the assigned worker to start the process of an attempt.
    ///
    /// The worker that asked may start, and no other.
    #[event(kind = "start.granted", public)]
    StartGranted {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Which question of it.
        nonce: Nonce,
    },
    /// A person lets a stray, which runs from a lost life of the log, be the attempt of a batch of its logical time.
    ///
    /// From here on its end is that of an attempt as any other.
    #[event(kind = "attempt.adopted", public, level = 3)]
    Adopted {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Its number, from 1.
        attempt: u32,
        /// Where it runs.
        worker: WorkerId,
        /// Which life of the worker.
        incarnation: Incarnation,
        /// Who.
        by: Actor,
        /// Why, for people.
        reason: String,
    },
    /// A worker reports that the process of an attempt has started.
    #[event(kind = "attempt.started", public)]
    Started {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
    },
    /// The program of an attempt reports a result code.
    ///
    /// See EXE-4.
    #[event(kind = "user_code.reported", public)]
    UserCodeReported {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// 0: success.
        code: i32,
    },
    /// Somebody or a timeout requests the end of a running attempt.
    #[event(kind = "kill.requested", public)]
    KillRequested {
        /// Which batch.
        batch: BatchId,
        /// The attempt to be ended.
        token: Token,
        /// Who.
        by: Actor,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// A worker that is stopped ends a running attempt, which uses up no retry.
    ///
    /// `attempt.finished` follows in the same envelope, and the batch gets another attempt.
    #[event(kind = "attempt.interrupted", public, level = 3)]
    Interrupted {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Where it ran.
        worker: WorkerId,
    },
    /// A person vouches that nothing of an attempt runs any more.
    ///
    /// Its worker is lost, or its end was requested and never reported. The attempt ends as lost.
    #[event(kind = "attempt.end_vouched", public, level = 3)]
    EndVouched {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Where it ran.
        worker: WorkerId,
        /// Who vouches.
        by: Actor,
        /// How they know, for people.
        reason: String,
    },
    /// An attempt wants more memory, processes or output than there is for it.
    ///
    /// Once for each attempt and kind; an alarm follows. Of the end of an attempt it stands before that.
    #[event(kind = "attempt.over_limit", public, level = 3)]
    OverLimit {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Where it runs.
        worker: WorkerId,
        /// What it wants.
        excess: Excess,
        /// It failed for want of memory on its host, and that uses up no retry.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        spares_retry: bool,
    },
    /// A worker finds work that an attempt has started elsewhere.
    ///
    /// Once for each id, with those that were found together: applications of YARN, containers, pods.
    #[event(kind = "attempt.external_work_found", public, level = 3)]
    ExternalWorkFound {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Where it runs.
        worker: WorkerId,
        /// What was found.
        ids: Vec<ExternalWorkId>,
    },
    /// An attempt ends, and nobody confirms that the work that it may have started elsewhere has ended.
    ///
    /// Its end follows. The worker of the next attempt ends that work before it starts the process.
    #[event(kind = "attempt.external_work_unconfirmed", public, level = 3)]
    ExternalWorkUnconfirmed {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Where it ran.
        worker: WorkerId,
    },
    /// An attempt is lost, and the output path of its job may say that it has done its work: probers look for that.
    ///
    /// Its end stands before that, in the same envelope. The batch waits for the answer, and for no longer than `until`.
    #[event(kind = "attempt.output_queried", public, level = 3)]
    OutputQueried {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Its output path, templates resolved.
        path: String,
        /// When it was granted its start: what has not changed since proves nothing.
        since: Timestamp,
        /// Without an answer it stays lost from then on.
        until: Timestamp,
    },
    /// A prober has looked for the output of a lost attempt, or nobody could in time.
    ///
    /// What follows from that stands behind it, in the same envelope: the success of the batch, another attempt, or its failure.
    #[event(kind = "attempt.output_answered", public, level = 3)]
    OutputAnswered {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// What was found.
        found: OutputFound,
    },
    /// The whole process tree of an attempt has ended, or the lease of its worker has expired.
    #[event(kind = "attempt.finished", public)]
    Finished {
        /// Which batch.
        batch: BatchId,
        /// The attempt.
        token: Token,
        /// Its number, from 1.
        attempt: u32,
        /// Where it ran.
        worker: WorkerId,
        /// How it ended.
        outcome: AttemptOutcome,
        /// What it used.
        usage: Option<Box<Usage>>,
    },
}
