//! The loop around a role that is stepped without clock and I/O: one task that steps, and short tasks that ask and tell.

use std::future::Future;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_cluster::{AskOwner, Division, Parts, SubmitError, SubmitRequest, follow_shards, request_id};
use tidemill_model::{Actor, Command, Outcome, ShardId};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::{Error, Outside};

/// What happened and waits to be taken.
const INPUTS: usize = 4_096;

/// A role, and what it does outside.
pub(crate) trait Stepped: Send + 'static {
    /// Its name among those that divide their work, and in what it requests.
    const ROLE: &'static str;
    /// Threads that its short tasks run on.
    const THREADS: usize;
    type Input: Send + 'static;
    type Output;

    /// These are this process's parts of the work.
    const PARTS: fn(Parts) -> Self::Input;
    /// These are all shards there are.
    const SHARDS: fn(Vec<ShardId>) -> Self::Input;
    /// A shard's owner did not say what it waits for.
    const UNKNOWN: fn(ShardId) -> Self::Input;

    /// Takes what happened; what to do now, and when there is more to do if nothing happens until then.
    fn step(&mut self, now_ms: u64, happened: impl Iterator<Item = Self::Input>) -> (Vec<Self::Output>, u64);
    fn perform(&mut self, output: Self::Output, tasks: &mut Tasks<Self>);
}

/// The short tasks of a role.
pub(crate) struct Tasks<S: Stepped + ?Sized> {
    pub(crate) outside: Outside,
    inputs: mpsc::Sender<S::Input>,
    tasks: JoinSet<()>,
}

impl<S: Stepped> Tasks<S> {
    /// Runs a task that may send many inputs.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        work: impl FnOnce(mpsc::Sender<S::Input>) -> F,
    ) {
        self.tasks.spawn(work(self.inputs.clone()));
    }

    /// Runs a task that ends in one input.
    pub(crate) fn one(&mut self, work: impl Future<Output = S::Input> + Send + 'static) {
        self.spawn(|inputs| async move {
            // Nobody listens any more: this process ends.
            let _ = inputs.send(work.await).await;
        });
    }

    /// Asks the shard's owner what it waits for.
    pub(crate) fn look(&mut self, shard: ShardId, look: impl FnOnce(&AskOwner) -> S::Input + Send + 'static) {
        let ask = Arc::clone(&self.outside.ask);
        self.one(async move {
            let looked = tokio::task::spawn_blocking(move || look(&ask)).await;
            looked.unwrap_or_else(|error| {
                tracing::error!(role = S::ROLE, %error, %shard, "asking what is waited for ended unexpectedly");
                S::UNKNOWN(shard)
            })
        });
    }

    /// Sends a command; `input_of` makes an input of its outcome.
    pub(crate) fn submit(
        &mut self,
        shard: ShardId,
        command: Command,
        input_of: impl FnOnce(Result<Outcome, SubmitError>) -> S::Input + Send + 'static,
    ) {
        let actor = Actor { app: S::ROLE.into(), user: None };
        let request = request_id();
        let command = self.outside.secret.sealed(command, shard, Some(&request));
        let submit_request = SubmitRequest { shard, request, actor, command };
        let submitter = self.outside.submitter.clone();
        self.one(
            async move { input_of(submitter.submit(submit_request, None).await.map(|reply| reply.outcome)) },
        );
    }

    fn follow(&mut self, division: &Division) {
        let shards = Arc::clone(&self.outside.shards);
        self.spawn(|inputs| {
            follow_shards(shards, move |shards| {
                let inputs = inputs.clone();
                async move { inputs.send(S::SHARDS(shards)).await.is_ok() }
            })
        });
        let mut parts = division.parts();
        self.spawn(|inputs| async move {
            loop {
                let now = S::PARTS(parts.borrow_and_update().clone());
                if inputs.send(now).await.is_err() || parts.changed().await.is_err() {
                    return;
                }
            }
        });
    }
}

/// A role that runs. Dropped, it is told to stop.
#[derive(Debug)]
pub struct Running {
    role: &'static str,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Starts it on a thread of its own.
    ///
    /// # Errors
    /// The log or a thread cannot be had.
    pub(crate) fn start<S: Stepped>(stepped: S, outside: Outside) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(S::THREADS)
            .thread_name(S::ROLE)
            .enable_all()
            .build()
            .map_err(Error::Thread)?;
        let division = Division::follow(&outside.log, S::ROLE, &outside.instance).map_err(Error::Division)?;
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(run(stepped, outside, &division, stopped));
            // A look at a dead mount, or a question to an owner, may still block a thread.
            runtime.shutdown_background();
            division.end();
        };
        let thread = std::thread::Builder::new().name(S::ROLE.to_owned()).spawn(run);
        Ok(Self { role: S::ROLE, stop, thread: thread.map_err(Error::Thread)? })
    }

    /// Whether it has ended by itself, which only a panic makes it do.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Takes nothing more, and ends.
    ///
    /// # Errors
    /// It panicked.
    pub fn stop(self) -> Result<(), Error> {
        drop(self.stop);
        self.thread.join().map_err(|_| Error::Panicked(self.role))
    }
}

async fn run<S: Stepped>(
    mut stepped: S,
    outside: Outside,
    division: &Division,
    mut stopped: oneshot::Receiver<()>,
) {
    let (inputs, mut taken) = mpsc::channel(INPUTS);
    let mut tasks = Tasks::<S> { outside, inputs, tasks: JoinSet::new() };
    tasks.follow(division);
    let begun_at = Instant::now();
    let mut happened = Vec::new();
    loop {
        let now_ms = u64::try_from(begun_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (outputs, wake_at_ms) = stepped.step(now_ms, happened.drain(..));
        for output in outputs {
            stepped.perform(output, &mut tasks);
        }
        while tasks.tasks.try_join_next().is_some() {}
        let wake = begun_at + Duration::from_millis(wake_at_ms);
        tokio::select! {
            // A sender that is gone means the same.
            _ = &mut stopped => return,
            _ = taken.recv_many(&mut happened, INPUTS) => {}
            () = tokio::time::sleep_until(wake.into()) => {}
        }
    }
}
