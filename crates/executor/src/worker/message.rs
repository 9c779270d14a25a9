//! What goes into the state machine, and what comes out of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{
    Command, Excess, ExternalDependencyId, ExternalWorkId, Measure, PathCheck, RunSpec, RunningAttempt,
    Sweep, Timestamp, Token, WorkMessage,
};
use tidemill_seal::SealKey;

use crate::attempt_dir::ExitRecord;
use crate::shim::{KillCause, Lease};

/// How a process ended, as far as it can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEnd {
    /// Its shim wrote it down.
    Recorded(ExitRecord),
    /// The same, and its output path was asked for.
    Checked {
        /// As its shim wrote it down: it ended by itself.
        record: ExitRecord,
        /// What was asked for.
        path: String,
        /// Whether it exists; the error says why nobody knows.
        exists: Result<bool, Arc<str>>,
    },
    /// It did not end by itself, and nobody asked for its end: its output path was asked for (ZMB-1).
    Judged {
        /// As its shim wrote it down, unless that was killed.
        record: Option<ExitRecord>,
        /// What was asked for.
        path: String,
        /// What it passes on; the error says what is wrong with that.
        values: Result<BTreeMap<String, String>, String>,
        /// When it began, or a little earlier.
        since: Timestamp,
        /// When what stands there changed last; the error says why nobody knows.
        changed_at: Result<Option<Timestamp>, Arc<str>>,
    },
    /// It was not started, and never will be.
    NotStarted(String),
    /// The same, and it is no fault of the attempt: nothing of it could be written down here, or what has to come before it cannot be done here.
    NoRoom(String),
    /// An earlier life of the worker ended before it was started, and now it never will be.
    Abandoned,
    /// Its shim was itself ended before it could tell; what was left of the tree is gone too.
    Vanished,
}

impl ProcessEnd {
    /// What its shim wrote down, where it did.
    pub(super) fn record(&self) -> Option<&ExitRecord> {
        match self {
            Self::Recorded(record) | Self::Checked { record, .. } => Some(record),
            Self::Judged { record, .. } => record.as_ref(),
            Self::NotStarted(_) | Self::NoRoom(_) | Self::Abandoned | Self::Vanished => None,
        }
    }

    /// Whether it was ended because the worker, or the machine, was stopped.
    pub(super) fn is_by_stop(&self) -> bool {
        matches!(self, Self::Recorded(record) if record.kill_cause == Some(KillCause::WorkerStopped))
    }
}

/// Which append an acknowledgement or a failure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// A heartbeat that was sent at this CLOCK_BOOTTIME.
    Alive {
        /// Milliseconds.
        sent_at_ms: u64,
    },
    /// A question that starts what it asks for, under a right, once the log has it.
    Asked {
        /// For which assignment.
        token: Token,
        /// Its number in the life of the worker's process.
        question: u64,
    },
    /// That an attempt runs.
    Started(Token),
    /// Anything that is repeated until it is answered.
    Repeated,
}

/// What a look at a batch's paths came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// All are there.
    There,
    /// These are not.
    Gone(Vec<ExternalDependencyId>),
    /// Nobody can tell, and why.
    Unknown(String),
}

/// What the state machine hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// What an owner said.
    Work(WorkMessage),
    /// The time; all that is sent before the next tick counts as sent now, so a tick goes before the rest.
    Ticked {
        /// CLOCK_BOOTTIME, milliseconds.
        boottime_ms: u64,
    },
    /// How the machine stands.
    Measured(Measure),
    /// The append is in the log. Only needed for [`Tag::Alive`] and [`Tag::Asked`].
    Acknowledged(Tag),
    /// The append is not, or may not be, in the log. Only needed for [`Tag::Started`].
    Failed(Tag),
    /// The process of an attempt runs.
    ProcessStarted {
        /// Which attempt.
        token: Token,
    },
    /// A process of an attempt cannot be killed.
    Stuck {
        /// Which attempt.
        token: Token,
        /// Which process, for people.
        process: String,
    },
    /// An attempt wants more than there is for it, and runs.
    Exceeded {
        /// Which attempt.
        token: Token,
        /// What it wants.
        excess: Excess,
    },
    /// An attempt that runs has started this elsewhere.
    ExternalWorkFound {
        /// Which attempt.
        token: Token,
        /// What is new of it; again, where it was taken over.
        ids: Vec<ExternalWorkId>,
    },
    /// No process of an attempt is left.
    ProcessEnded {
        /// Which attempt.
        token: Token,
        /// How it went.
        end: ProcessEnd,
    },
    /// An attempt of an earlier life of this worker, found before the first tick.
    Found {
        /// Which attempt.
        token: Token,
        /// What it runs, where it does and that was noted.
        of: Option<RunningAttempt>,
        /// How it went; absent: its shim lives. [`Input::ProcessEnded`] will follow, and before that, where it is taken over,
        /// [`Input::ProcessStarted`].
        end: Option<ProcessEnd>,
    },
    /// The paths of an assignment were looked at.
    Looked {
        /// Which assignment.
        token: Token,
        /// What came of it.
        looked: Looked,
    },
    /// Output of old attempts was removed.
    Swept(Box<Sweep>),
    /// Whether work can be taken from now on.
    Fitness {
        /// Why not; absent: it can.
        unready: Option<String>,
    },
    /// Messages of owners may have been missed.
    Missed,
    /// The process is to stop; the second time at once.
    Stop,
}

/// What the state machine wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Append a command for the shard.
    Append {
        /// To know it by.
        tag: Tag,
        /// What.
        command: Command,
    },
    /// Seal what is appended from here on with this key.
    Seal(SealKey),
    /// Look at the paths of an assignment.
    Look {
        /// Which assignment.
        token: Token,
        /// The paths.
        checks: Vec<PathCheck>,
    },
    /// Start a process.
    Spawn {
        /// What to run.
        spec: Box<RunSpec>,
        /// Until when it may live; absent: no bound.
        lease: Option<Lease>,
        /// From TERM to KILL when the worker is gone, milliseconds.
        grace_ms: u64,
    },
    /// End a process, TERM first. It may have ended already.
    KillProcess {
        /// Which attempt.
        token: Token,
        /// From TERM to KILL, milliseconds.
        grace_ms: u64,
        /// Why.
        because: KillCause,
    },
    /// All processes may live longer.
    RenewLease(Lease),
    /// The attempt's end is on record; its directory is only kept for its output.
    Forget {
        /// Which attempt.
        token: Token,
    },
    /// Nothing is left to do.
    Exit,
}
