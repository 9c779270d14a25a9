//! Workers, and what they say of attempts. To the shard of the group.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::skip_none;

use super::{Heartbeat, Registration, StartRequest};
use crate::{AttemptOutcome, Incarnation, Nonce, Token, Usage, WorkerId};

/// Workers, and what they say of attempts. To the shard of the group.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerCommand {
    /// The worker takes no new work.
    Drain {
        /// Which.
        worker: WorkerId,
    },
    /// The worker takes work again.
    Resume {
        /// Which.
        worker: WorkerId,
    },
    /// A worker presents itself.
    Register(Box<Registration>),
    /// A worker is alive.
    Heartbeat(Heartbeat),
    /// A worker asks to start an assignment.
    RequestStart(StartRequest),
    /// A worker gives an assignment back.
    RejectAssignment {
        /// Which.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// The question, asked in the worker's present life, on whose grant nothing was begun and nothing will
        /// be. Absent: nothing was asked when this was said; that gives back no grant, whoever asked later.
        nonce: Option<Nonce>,
        /// Why.
        reason: String,
    },
    /// The process runs.
    ReportStarted {
        /// Which attempt.
        token: Token,
        /// On which worker.
        worker: WorkerId,
    },
    /// EXE-4: the program of an attempt reports a code.
    ReportUserCode {
        /// Which attempt.
        token: Token,
        /// 0: success.
        code: i32,
    },
    /// The attempt's whole process tree is gone.
    ReportFinished {
        /// Which attempt.
        token: Token,
        /// On which worker.
        worker: WorkerId,
        /// How it ended.
        outcome: AttemptOutcome,
        /// What it used.
        usage: Option<Usage>,
    },
    /// An owner has not heard of a worker for its limit, by its own monotonic clock.
    DeclareLost {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// The lease of a silent worker is over, by the owner's own monotonic clock.
    ExpireLease {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
}
