//! The loop around [`Role`].

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_cluster::{AskOwner, SubmitRequest, all_pages, follow_shards, request_id};
use tidemill_model::{
    Actor, BatchCommand, Command, FieldError, Incarnation, LiveAnswer, LiveQuery, Outcome, QualityQuestion,
    ShardId,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::config::Config;
use super::role::{Input, Output, Role, Taken};
use super::service::Service;
use crate::division::{Division, Parts};
use crate::{Error, Outside};

/// The role's name among those that divide their work, and in what it requests.
const ROLE: &str = "quality";
/// What happened and waits to be taken.
const INPUTS: usize = 1_024;
/// Questions of one page.
const PAGE: u32 = 1_000;

/// A running client of the quality service. Dropped, it is told to stop.
#[derive(Debug)]
pub struct Quality {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Starts to send what owners ask; none where no service is configured. `tls` says whom to trust at an `https://` address.
///
/// # Errors
/// The configuration is outside its ranges, or the log or a thread cannot be had.
pub fn start(
    config: Config,
    outside: Outside,
    tls: Option<rustls::ClientConfig>,
) -> Result<Option<Quality>, Error> {
    let refused = |error: FieldError| Error::Quality(error.to_string());
    config.check().map_err(refused)?;
    let Some(service) = Service::new(&config, tls).map_err(refused)? else { return Ok(None) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(ROLE)
        .enable_all()
        .build()
        .map_err(Error::Thread)?;
    let division = Division::follow(&outside, ROLE)?;
    let (inputs, taken) = mpsc::channel(INPUTS);
    let (stop, stopped) = oneshot::channel();
    let by = Incarnation::new(&*outside.instance);
    let running = Loop {
        role: Role::new(&config),
        service,
        outside,
        by,
        inputs,
        tasks: JoinSet::new(),
        begun_at: Instant::now(),
    };
    let run = move || {
        runtime.block_on(running.run(division.parts.clone(), taken, stopped));
        runtime.shutdown_background();
        division.end();
    };
    let thread = std::thread::Builder::new().name(ROLE.to_owned()).spawn(run).map_err(Error::Thread)?;
    Ok(Some(Quality { stop, thread }))
}

impl Quality {
    /// Whether it has ended by itself, which only a panic makes it do.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Takes nothing more, and ends. What was taken and not sent is asked for again by its owner.
    ///
    /// # Errors
    /// It panicked.
    pub fn stop(self) -> Result<(), Error> {
        drop(self.stop);
        self.thread.join().map_err(|_| Error::Panicked(ROLE))
    }
}

struct Loop {
    role: Role,
    service: Service,
    outside: Outside,
    by: Incarnation,
    inputs: mpsc::Sender<Input>,
    tasks: JoinSet<()>,
    begun_at: Instant,
}

impl Loop {
    async fn run(
        mut self,
        mut parts: watch::Receiver<Parts>,
        mut taken: mpsc::Receiver<Input>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            loop {
                let Parts { mine, count } = parts.borrow_and_update().clone();
                if inputs.send(Input::Parts { mine, count }).await.is_err() || parts.changed().await.is_err()
                {
                    return;
                }
            }
        });
        let inputs = self.inputs.clone();
        self.tasks.spawn(follow_shards(Arc::clone(&self.outside.shards), move |shards| {
            let inputs = inputs.clone();
            async move { inputs.send(Input::Shards(shards)).await.is_ok() }
        }));
        let mut happened = Vec::new();
        loop {
            let now_ms = u64::try_from(self.begun_at.elapsed().as_millis()).unwrap_or(u64::MAX);
            let (outputs, wake_at_ms) = self.role.step(now_ms, happened.drain(..));
            for output in outputs {
                self.perform(output);
            }
            while self.tasks.try_join_next().is_some() {}
            let wake = self.begun_at + Duration::from_millis(wake_at_ms);
            tokio::select! {
                // A sender that is gone means the same.
                _ = &mut stopped => return,
                _ = taken.recv_many(&mut happened, INPUTS) => {}
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }

    fn perform(&mut self, output: Output) {
        let inputs = self.inputs.clone();
        match output {
            Output::Look(shard) => {
                let ask = Arc::clone(&self.outside.ask);
                self.tasks.spawn(async move {
                    let looked = tokio::task::spawn_blocking(move || look(&ask, shard)).await;
                    let input = looked.unwrap_or_else(|error| {
                        tracing::error!(%error, %shard, "asking for questions ended unexpectedly");
                        Input::Unknown(shard)
                    });
                    // Nobody listens any more: this process ends.
                    let _ = inputs.send(input).await;
                });
            }
            Output::Take(ask) => self.take(ask),
            Output::Send(ask) => {
                let service = self.service.clone();
                self.tasks.spawn(async move {
                    let (batch, number) = (ask.batch, ask.number);
                    match service.send(&ask).await {
                        Ok(()) => tracing::debug!(%batch, number, "the quality service was asked"),
                        Err(reason) => {
                            tracing::warn!(%batch, number, reason, "the quality service cannot be asked");
                        }
                    }
                    let _ = inputs.send(Input::Sent(ask)).await;
                });
            }
        }
    }

    fn take(&mut self, ask: QualityQuestion) {
        let command = Command::Batch(BatchCommand::SendQuality {
            batch: ask.batch,
            number: ask.number,
            by: self.by.clone(),
        });
        let actor = Actor { app: ROLE.into(), user: None };
        let submit_request =
            SubmitRequest { shard: ask.batch.shard(), request: request_id(), actor, command };
        let (submitter, inputs) = (self.outside.submitter.clone(), self.inputs.clone());
        self.tasks.spawn(async move {
            let taken = match submitter.submit(submit_request, None).await.map(|reply| reply.outcome) {
                Ok(Outcome::Done | Outcome::Answered(_)) => Taken::Ours,
                Ok(Outcome::Refused(_)) => Taken::Refused,
                Ok(Outcome::Repeated | Outcome::Deferred) => Taken::Unknown,
                Err(error) => {
                    tracing::warn!(batch = %ask.batch, %error, "it is not known who asks the quality service");
                    Taken::Unknown
                }
            };
            let _ = inputs.send(Input::Taken(ask, taken)).await;
        });
    }
}

/// All questions of a shard that nobody has taken.
fn look(ask: &AskOwner, shard: ShardId) -> Input {
    let page = |after| match ask(shard, LiveQuery::WantedQuality { after, limit: PAGE })? {
        LiveAnswer::WantedQuality { asks, more } => Ok((asks, more)),
        // The shard is not there yet, or not any more.
        LiveAnswer::NotFound => Ok((Vec::new(), false)),
        other => Err(format!("an answer to another question: {other:?}")),
    };
    match all_pages(page, |ask: &QualityQuestion| ask.batch) {
        Ok(asks) => Input::Wanted(shard, asks),
        Err(reason) => {
            tracing::debug!(%shard, reason, "what the quality service is to be asked is not known");
            Input::Unknown(shard)
        }
    }
}
