use std::collections::{BTreeMap, BTreeSet};

use tidemill_derive::{Levelled, vocabulary};

use crate::{
    AttemptOutcome, ExternalEnd, ExternalWork, GroupName, Incarnation, JobType, LimitsKept, Measure, Nonce,
    Reserved, RunningAttempt, RunningExcess, Token, TypeStatus, Usage, WorkerId, WorkerLabel, WorkerStatus,
};

/// Workers, and what they say of attempts. To the shard of the group.
#[vocabulary(Levelled)]
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
    /// The workers of a host take no new work, whoever registers there.
    #[level(3)]
    DrainHost {
        /// Its name.
        host: String,
        /// Why, for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// The workers of a host take work again.
    #[level(3)]
    ResumeHost {
        /// Its name.
        host: String,
    },
    /// A person vouches that nothing of a lost worker runs any more.
    #[level(2)]
    VouchEnded {
        /// Which.
        worker: WorkerId,
        /// How they know, for people.
        reason: String,
    },
    /// A person has a worker end a stray (EXE-10): an attempt of a lost life of the log.
    #[level(3)]
    EndStray {
        /// Which worker.
        worker: WorkerId,
        /// Which attempt.
        token: Token,
        /// Why, for people.
        reason: String,
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
        /// Its machine lacks what the batch needs, for now. Owners of earlier versions pass over it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lacks_resources: bool,
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
        /// The interface's seal, which an owner asks for from level 3 on, in hex. Owners of earlier versions pass over it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        seal: String,
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
        usage: Option<Box<Usage>>,
        /// Its worker ended it because it was stopped itself. Owners of earlier versions pass over it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
        /// What it started elsewhere; absent: nothing, and nothing of that is left. Owners of earlier versions pass over it.
        external: Option<Box<ExternalEnd>>,
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
    /// Half of the lease of a silent worker is over, by the owner's own monotonic clock.
    #[level(3)]
    WarnOfLease {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// The right to start an assignment is over, by the owner's own monotonic clock.
    #[level(2)]
    EndStartRight {
        /// Of which assignment.
        token: Token,
    },
}

/// A worker presents itself.
#[vocabulary]
pub struct Registration {
    /// Which worker.
    pub worker: WorkerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// The group it works for.
    pub group: GroupName,
    /// Its host's name, which jobs can be pinned to.
    pub host: String,
    /// Where its logs are served, `ip:port`.
    pub address: String,
    /// Attempts at once, by job type.
    pub slots: BTreeMap<JobType, u32>,
    /// Slots that are kept for some jobs, by job type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved: BTreeMap<JobType, Reserved>,
    /// What jobs can ask for it by.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<WorkerLabel>,
    /// Attempts that still live on it.
    #[serde(default)]
    pub live: Vec<Token>,
    /// What those of them run, as far as the worker knows it. Owners of earlier versions pass over it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<RunningAttempt>,
    /// How it keeps limits of attempts; absent: it does not say.
    pub keeps: Option<LimitsKept>,
    /// What it can run, and why not the rest, by job type, at most 64; empty: it does not say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<JobType, TypeStatus>,
    /// The number of the worker's last heartbeat before it: with it, a repeat of an old one is told from a new one. Owners of
    /// earlier versions pass over it.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub number: u64,
    /// Ed25519 signature, in hex, over [`Registration::signed_text`] by the group's key.
    pub signature: String,
}

impl Registration {
    /// The text that the group's key signs.
    pub fn signed_text(group: &GroupName, worker: &WorkerId, incarnation: &Incarnation) -> String {
        format!("tidemill-registration\n{group}\n{worker}\n{incarnation}")
    }
}

/// A worker is alive. Makes no event unless something changed.
#[vocabulary]
pub struct Heartbeat {
    /// Which worker.
    pub worker: WorkerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Which sign of life of the worker's process. No two records of a worker are alike then, so that a resume
    /// point names one of them only.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub number: u64,
    /// How its machine stands; absent: it does not say.
    pub measure: Option<Measure>,
    /// Why it can take no work at present; absent: it can.
    pub unready: Option<String>,
    /// What attempts that run want too much of, at most 64; what does not fit is reported at their end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excesses: Vec<RunningExcess>,
    /// What attempts that run have started elsewhere, at most 100 ids of all; further ones are in the next heartbeat. Owners of
    /// earlier versions pass over it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_work: Vec<ExternalWork>,
    /// Its process was told to stop. Owners of earlier versions pass over it.
    pub leaving: Option<Leaving>,
    /// For people to see; nothing is decided by it. Owners of earlier versions pass over it.
    pub status: Option<Box<WorkerStatus>>,
}

/// How a worker leaves whose process was told to stop.
#[vocabulary(Copy, Eq)]
pub struct Leaving {
    /// What runs goes on, for the worker's next life to take over; else it is ended after a while.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_jobs: bool,
    /// Nothing of it runs, the end of all that ran is on record, and its process ends: this is its last heartbeat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_empty: bool,
}

/// A worker asks whether it may start what it was assigned.
#[vocabulary]
pub struct StartRequest {
    /// The assignment.
    pub token: Token,
    /// Who asks.
    pub worker: WorkerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Drawn for this request.
    pub nonce: Nonce,
}
