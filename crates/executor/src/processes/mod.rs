//! The running processes of a worker: a few threads that start shims, one that hears from all of them.
//!
//! One socket to each shim. Over it the shim hears what to run and its orders, and by its end that the worker
//! is gone: it goes on, and waits for the next one to [`adopt`] it. The worker hears that the job runs and how it ended,
//! and by its end that the shim is gone.
//! The loop of the worker never waits here.

mod adopt;
mod check;
mod notes;
mod reap;
mod reap_orphan;
mod shims;
mod spawn;
mod table;

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crossbeam_channel::Sender;
use ed25519_dalek::SigningKey;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use tidemill_model::{JobType, RunSpec, Timestamp, Token, WorkerId};

pub(crate) use adopt::{Earlier, find_earlier};
pub(crate) use check::Checks;
use reap_orphan::Life;
pub use shims::Shims;
pub(crate) use table::Table;

use crate::attempt_dir::ExitRecord;
use crate::data_dir::Attempts;
use crate::disk::Suspicion;
use crate::limits::{self, Found};
use crate::shim::{KillCause, Lease, Order};
use crate::thread::{Thread, not_started};
use crate::worker::{Input, ProcessEnd};
use crate::{Config, Error, TypeConfig};

/// What the threads need to know.
pub(crate) struct Setup {
    /// Empty; others look into it.
    pub(crate) table: Arc<Table>,
    pub(crate) config: Config,
    pub(crate) worker: WorkerId,
    pub(crate) attempts: Attempts,
    pub(crate) types: BTreeMap<JobType, TypeConfig>,
    /// Signs what attempts show to the interface.
    pub(crate) signing_key: SigningKey,
    pub(crate) suspicion: Suspicion,
    pub(crate) checks: Checks,
    /// Where control groups can be had.
    pub(crate) groups: Found,
    /// What of the worker's environment jobs get.
    pub(crate) environment: BTreeMap<String, String>,
    /// Secrets that no output shows.
    pub(crate) mask: Vec<String>,
}

/// The program that runs, whatever is at its path by now: an upgrade in place begins with the next start.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Work for the threads that start shims.
enum Job {
    Spawn {
        spec: Box<RunSpec>,
        lease: Option<Lease>,
        grace_ms: u64,
    },
    /// A shim is gone that has not said how it ended.
    ReapOrphan {
        token: Token,
        life: Life,
    },
    /// The worker says this of an attempt.
    Note {
        token: Token,
        at: Timestamp,
        line: String,
    },
    /// It has ended, and the worker has something to say of that first.
    NoteEnd {
        token: Token,
        at: Timestamp,
        record: Box<ExitRecord>,
        output_path: Option<String>,
    },
    Forget {
        token: Token,
    },
}

struct Shared {
    setup: Setup,
    shims: Shims,
    table: Arc<Table>,
    epoll: OwnedFd,
    inputs: Sender<Vec<Input>>,
}

/// The running processes. Dropped, it leaves those that still run to the worker's next life.
pub(crate) struct Processes {
    shared: Arc<Shared>,
    jobs: Option<Sender<Job>>,
    stop: Option<UnixStream>,
    threads: Vec<Thread>,
}

impl Processes {
    /// What becomes of the processes goes to `inputs`, those of an earlier life of the worker among them that are `live`.
    pub(crate) fn start(setup: Setup, live: Vec<Token>, inputs: Sender<Vec<Input>>) -> Result<Self, Error> {
        const WAITING: &str = "waiting for processes";
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|error| not_started(WAITING)(error.into()))?;
        let (stopped, stop) = UnixStream::pair().map_err(not_started(WAITING))?;
        let shim = match setup.config.shim.is_empty() {
            true => vec![THIS_PROGRAM.to_owned(), "shim".to_owned()],
            false => setup.config.shim.clone(),
        };
        let shims = Shims::start(shim, setup.attempts.open.clone(), setup.groups.shims.clone());
        let shims = shims.map_err(not_started("the server of shims"))?;
        let count = setup.config.spawn_threads;
        let table = Arc::clone(&setup.table);
        let shared = Arc::new(Shared { setup, shims, table, epoll, inputs });
        // Never full of more than the owner grants at once, which is bounded by the slots; and it must not
        // make the loop wait, since these threads wait for the loop.
        let (jobs, todo) = crossbeam_channel::unbounded();
        let mut threads = vec![
            reap::start(Arc::clone(&shared), stopped, jobs.clone())?,
            adopt::start(Arc::clone(&shared), live, jobs.clone())?,
        ];
        for number in 1..=count {
            let (shared, todo) = (Arc::clone(&shared), todo.clone());
            let work = move || todo.into_iter().for_each(|job| shared.work(job));
            threads.push(Thread::start(&format!("spawn-{number}"), "a thread that starts processes", work)?);
        }
        Ok(Self { shared, jobs: Some(jobs), stop: Some(stop), threads })
    }

    /// Starts a process; what becomes of it is told.
    pub(crate) fn spawn(&self, spec: Box<RunSpec>, lease: Option<Lease>, grace_ms: u64) {
        self.shared.table.begin_new(spec.token);
        self.queue(Job::Spawn { spec, lease, grace_ms });
    }

    /// Ends a process, TERM first. One that is gone, or was never started, is left alone.
    pub(crate) fn kill(&self, token: Token, grace_ms: u64, because: KillCause) {
        if self.shared.table.order_kill(token, grace_ms, because) {
            let (at, line) = (notes::now(), notes::of_kill(grace_ms, because));
            self.queue(Job::Note { token, at, line });
        }
    }

    /// Lets all processes live longer.
    pub(crate) fn renew(&self, lease: Lease) {
        self.shared.table.order_all(Order::Lease(lease));
    }

    /// The attempt's end is on record.
    pub(crate) fn forget(&self, token: Token) {
        self.queue(Job::Forget { token });
    }

    fn queue(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("there until it is dropped");
        assert!(jobs.send(job).is_ok(), "the threads that start processes live as long as this");
    }

    /// Ends the threads when what was queued is done.
    pub(crate) fn join(mut self) {
        self.close();
        std::mem::take(&mut self.threads).into_iter().for_each(Thread::join);
    }

    fn close(&mut self) {
        self.shared.table.close();
        self.stop = None;
        self.jobs = None;
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn work(self: &Arc<Self>, job: Job) {
        match job {
            Job::Spawn { spec, lease, grace_ms } => self.spawn(&spec, lease, grace_ms),
            Job::ReapOrphan { token, life } => self.reap_in_time(token, life),
            Job::Note { token, at, line } => notes::add(&self.setup.attempts.open(token), at, &[line]),
            Job::NoteEnd { token, at, record, output_path } => {
                let dir = self.setup.attempts.open(token);
                notes::add_record(&dir, at, &record);
                let end = self.setup.checks.begin(token, &dir, *record, output_path);
                self.tell(end.map(|end| Input::ProcessEnded { token, end }).into_iter().collect());
            }
            Job::Forget { token } => {
                if let Err(error) = self.setup.attempts.end(token) {
                    tracing::warn!(%token, %error, "cannot move the attempt's directory to those that have ended");
                }
            }
        }
    }

    /// What a killed shim left may take long to end: that is not waited for here.
    fn reap_in_time(self: &Arc<Self>, token: Token, life: Life) {
        let shared = Arc::clone(self);
        let reap = move || shared.reap_orphan(token, life);
        if let Err(error) = Thread::start("await-shim", "a thread that waits for a shim", reap) {
            tracing::error!(%token, %error, "an attempt is not followed to its end");
        }
    }

    /// Its shim is gone, and has not said how it ended.
    fn reap_orphan(&self, token: Token, life: Life) {
        let dir = self.setup.attempts.open(token);
        let (worker, groups) = (self.setup.worker.clone(), self.setup.groups.tree.clone());
        let remains = reap_orphan::Remains { dir, worker, token, groups };
        let stuck = |process: &str| self.tell(vec![Input::Stuck { token, process: process.to_owned() }]);
        let end = remains.learn_end(life, &stuck);
        limits::remove(&self.setup.groups.tree, token);
        if matches!(end, ProcessEnd::NoRoom(_)) {
            self.setup.suspicion.raise();
        }
        if matches!(end, ProcessEnd::Vanished) {
            self.tell(remains.reported_work(&self.setup.types).into_iter().collect());
        }
        notes::add_end(&remains.dir, &end);
        let end = self.setup.checks.conclude(token, &remains.dir, end);
        self.tell(end.map(|end| Input::ProcessEnded { token, end }).into_iter().collect());
    }

    fn tell(&self, inputs: Vec<Input>) {
        // The loop is gone only when the worker stops; then nobody wants to know.
        let _ = self.inputs.send(inputs);
    }
}
