//! The workloads, by name.

use anyhow::ensure;
use clap::ValueEnum;

use crate::backend::Backend;
use crate::files;
use crate::fixture::Fixture;
use crate::logs;
use crate::pages;
use crate::place;
use crate::pull::{self, Pulls};
use crate::row::Row;
use crate::run::Run;
use crate::running;

/// Processes at once, of the program that processes are measured with.
pub(crate) const PROCESSES_AT_ONCE: u32 = 32;
const NOOPS_AT_ONCE: u32 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Batches of type noop through all transitions.
    Lifecycle,
    /// 1,000 jobs, each after the one before.
    Chain,
    /// One, then 10,000, then one.
    Fan,
    /// 100,000 jobs due in one second.
    Burst,
    /// One at a time.
    Latency,
    /// 1,000 batches a second: how far the tables are behind.
    Lag,
    /// Real processes, their files on a file system in memory.
    Processes,
    /// Real processes, their files on the disk.
    ProcessesOnDisk,
    /// One real process at a time.
    ProcessLatency,
    /// 1,000 attempts that run and do nothing, and an executor that is started again.
    Running,
    /// 1,000 workers, and 100,000 batches that come while slots are free.
    Placement,
    /// 1,000 workers, and 100,000 batches that are ready before.
    PlacementBacklog,
    /// 1,000,000 batches that wait for paths.
    Waiting,
    /// 100 batches of a user beside 100,000 of another.
    Fairness,
    /// One batch of priority 9 while priority 0 takes every slot.
    Ageing,
    /// Output of attempts: kept, followed, read and searched.
    Logs,
    /// Pages of a list of 1,000,000 batches.
    Pages,
    /// A directory of 10,000 job files, in a DAG 50 levels deep.
    Files,
    /// Tasks that one client pulls and completes, over HTTP.
    #[value(name = "pull-1")]
    Pull1,
    /// The same, with 16 clients.
    #[value(name = "pull-16")]
    Pull16,
    /// The same, with 64 clients.
    #[value(name = "pull-64")]
    Pull64,
    /// The same, with 256 clients.
    #[value(name = "pull-256")]
    Pull256,
    /// Pulls while nothing is due.
    PullEmpty,
    /// 100,000 users of one group get a task.
    PullWakeUp,
}

impl Workload {
    /// As the command line has it.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("every workload has a name").get_name().to_owned()
    }

    /// Whether its milliseconds are what it is about, and not how many there are in a second.
    pub(crate) fn is_about_time(self) -> bool {
        matches!(
            self,
            Self::Chain
                | Self::Latency
                | Self::Lag
                | Self::ProcessLatency
                | Self::Placement
                | Self::PlacementBacklog
                | Self::Waiting
                | Self::Fairness
                | Self::Ageing
        )
    }

    /// Whether its attempts have processes.
    pub(crate) fn has_processes(self) -> bool {
        matches!(self, Self::Processes | Self::ProcessesOnDisk | Self::ProcessLatency | Self::Running)
    }

    /// Whether an executor works; the others have no worker, or start their own.
    fn has_executor(self) -> bool {
        let of_noops = [Self::Lifecycle, Self::Chain, Self::Fan, Self::Latency, Self::Lag];
        self.has_processes() || of_noops.contains(&self)
    }

    /// What clients pull; they do that from the program in a process of its own.
    fn pulls(self) -> Option<Pulls> {
        match self {
            Self::Pull1 => Some(Pulls::Busy { clients: 1 }),
            Self::Pull16 => Some(Pulls::Busy { clients: 16 }),
            Self::Pull64 => Some(Pulls::Busy { clients: 64 }),
            Self::Pull256 => Some(Pulls::Busy { clients: 256 }),
            Self::PullEmpty => Some(Pulls::Empty),
            Self::PullWakeUp => Some(Pulls::WakeUp),
            _ => None,
        }
    }

    /// Only the attempts' files are ever in memory: log and tables stay where they are durable.
    pub(crate) fn measure(self, backend: Backend, scale: usize) -> anyhow::Result<Row> {
        if let Some(pulls) = self.pulls() {
            return pull::measure(pulls, &self.name(), backend, scale);
        }
        if self == Self::Running {
            return running::measure(self, backend, 1_000 / scale);
        }
        if self == Self::Logs {
            ensure!(
                backend == Backend::Embedded,
                "output does not go through the log, so it is measured on one back end"
            );
            return logs::measure(&self.name(), scale);
        }
        if self == Self::Pages {
            return pages::measure(&self.name(), backend, 1_000_000 / scale);
        }
        if self == Self::Files {
            return files::measure(&self.name(), backend, 10_000 / scale);
        }
        let directory = tempfile::tempdir()?;
        let attempts = if self == Self::Processes { place::in_memory() } else { place::on_disk() };
        let attempts = tempfile::tempdir_in(attempts)?;
        let mut fixture = Fixture::start(backend, directory.path())?;
        if self.has_executor() {
            fixture.work(attempts.path(), &[("noop", NOOPS_AT_ONCE), ("shell", PROCESSES_AT_ONCE)])?;
        }
        let run = Run { workload: self, backend, fixture: &fixture, attempts: attempts.path() };
        let row = match self {
            Self::Lifecycle => run.lifecycle(100_000 / scale),
            Self::Chain => run.chain(1_000 / scale),
            Self::Fan => run.fan(10_000 / scale),
            Self::Burst => run.burst(100_000 / scale),
            Self::Latency => run.latency(500 / scale, "noop", None),
            Self::Lag => run.lag(20_000 / scale),
            Self::Processes | Self::ProcessesOnDisk => run.processes(4_000 / scale),
            Self::ProcessLatency => run.latency(200 / scale, "shell", Some("true")),
            Self::Placement => run.placement(100_000 / scale),
            Self::PlacementBacklog => run.placement_backlog(100_000 / scale),
            Self::Waiting => run.waiting(1_000_000 / scale, 10_000 / scale),
            Self::Fairness => run.fairness(100_000 / scale),
            Self::Ageing => run.ageing(),
            Self::Running
            | Self::Files
            | Self::Pages
            | Self::Logs
            | Self::Pull1
            | Self::Pull16
            | Self::Pull64
            | Self::Pull256
            | Self::PullEmpty
            | Self::PullWakeUp => unreachable!("measured before"),
        }?;
        fixture.stop()?;
        Ok(row)
    }
}
