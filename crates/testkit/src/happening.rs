//! What is going to happen, and when: the entries of the queue.

use tidemill_dispatcher::Moment;
use tidemill_executor::Input as WorkerInput;
use tidemill_log::{AppendError, Payload};
use tidemill_model::{Reply, RequestId, Token};
use tidemill_snapshots::{Mark, Taken};

use crate::cluster::Process;
use crate::plan::Planned;

#[derive(Debug)]
pub(crate) enum Happening {
    JournalLands { partition: u32, value: Payload, from: (usize, u64), then: Then, held: bool },
    CommandLands { partition: u32, value: Payload, then: Then },
    Owner { host: usize, partition: u32, turn: u64, what: OwnerStep },
    HostBegins { host: usize },
    SeatBegins { host: usize, partition: u32, life: u64 },
    Suggest { host: usize, partition: u32, suggested: bool },
    Worker { cluster: usize, life: u64, input: Box<WorkerInput> },
    WorkerTick { cluster: usize, life: u64 },
    WorkerBegins { cluster: usize, life: u64 },
    ProcessBegins { cluster: usize, life: u64, token: Token, process: Box<Process> },
    ProcessLook { cluster: usize, token: Token },
    Reply { reply: Box<Reply> },
    SubmitRequest { index: usize },
    ClientRequestAgain { request: RequestId },
    Outside { round: u64 },
    Client { index: usize, turn: u64 },
    RegisteredProcess { index: usize, what: ProcessStep },
    SnapshotDue,
    SnapshotTaken { host: usize, partition: u32, turn: u64, mark: Mark },
    Fault { fault: Planned },
    LogFault,
}

impl Happening {
    pub(crate) fn worker(cluster: usize, life: u64, input: WorkerInput) -> Self {
        Self::Worker { cluster, life, input: Box::new(input) }
    }
}

/// What a process does that registers with the catalogue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProcessStep {
    Begins,
    ShowsLife { life: u64 },
    Ends,
}

#[derive(Debug)]
pub(crate) enum OwnerStep {
    Tick,
    Wake,
    PollJournal,
    PollCommands,
    Completed(Result<u64, AppendError>),
    Snapshot(Box<Taken>),
    LookAtEnds { asked: Moment },
    Ends { asked: Moment, journal: u64, commands: u64 },
}

/// Who hears what became of an append.
#[derive(Debug, Clone)]
pub(crate) enum Then {
    Nobody,
    /// An owner: host, partition, turn.
    Owner(usize, u32, u64),
    /// A worker: site, life.
    Worker(usize, u64, tidemill_executor::Tag),
}
