use tidemill_derive::{Aggregate, vocabulary};

use crate::{BatchId, FinalResult, Incarnation, JobId, Nonce, Timestamp, Token, WorkerId};

/// Final commands (JOB-8): each is run at most once.
#[vocabulary(Aggregate)]
#[event(subject = "batch/{batch}")]
pub enum FinalCommandEvent {
    /// The scheduler assigns the final command of a finished batch to a worker.
    ///
    /// It is the worker of the batch's last attempt; of a batch that had none, a worker that has room.
    #[event(kind = "final_command.assigned", public)]
    Assigned {
        /// Of which batch.
        batch: BatchId,
        /// Its job.
        job: JobId,
        /// Fences it.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// When the worker must have asked to start.
        start_by: Timestamp,
    },
    /// The scheduler permits the assigned worker to start a final command.
    ///
    /// The worker that asked may start it, and no other.
    #[event(kind = "final_command.granted", public)]
    Granted {
        /// Of which batch.
        batch: BatchId,
        /// Which.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Which question of it.
        nonce: Nonce,
    },
    /// A final command ends, or it is certain that it will never start.
    ///
    /// The batch's result is what it was.
    #[event(kind = "final_command.finished", public)]
    Finished {
        /// Of which batch.
        batch: BatchId,
        /// Its job.
        job: JobId,
        /// Absent: it was never assigned.
        token: Option<Token>,
        /// The worker of the batch's last attempt, or that had it.
        worker: WorkerId,
        /// How it ended.
        result: FinalResult,
        /// Exit code, where there was one.
        exit_code: Option<i32>,
        /// For people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
    },
    /// The final command of a batch without an attempt found no worker and will not run.
    #[event(kind = "final_command.not_run", public)]
    NotRun {
        /// Of which batch.
        batch: BatchId,
        /// Its job.
        job: JobId,
        /// Why, for people.
        message: String,
    },
}
