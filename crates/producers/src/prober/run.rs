//! The loop around [`Role`]: one task that steps, and short tasks that ask and tell.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_cluster::{AskOwner, SubmitRequest, all_pages, follow_shards, request_id};
use tidemill_model::{
    Actor, CatalogueCommand, Command, LiveAnswer, LiveQuery, ObservationCommand, Outcome, PathAnswer,
    ProbeReport, ProberStatus, ShardId, WantedExternalDependency,
};
use tidemill_probe::{Mark, Question, Urgency};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::config::Config;
use super::health::Health;
use super::role::{Answered, Input, Output, Role};
use super::status::status_of;
use super::waiting::{Finding, Wanted};
use crate::division::{Division, Parts};
use crate::{Error, Outside};

/// The role's name among those that divide their work, and in what it requests.
const ROLE: &str = "prober";
/// What happened and waits to be taken.
const INPUTS: usize = 4_096;
/// Things of one page.
const PAGE: u32 = 1_000;
/// How often the status is rebuilt.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// A running prober. Dropped, it is told to stop.
#[derive(Debug)]
pub struct Prober {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    status: Arc<Mutex<ProberStatus>>,
}

/// Starts to look for what owners wait for.
///
/// # Errors
/// The configuration is outside its ranges, or the log or a thread cannot be had.
pub fn start(config: Config, outside: Outside) -> Result<Prober, Error> {
    let refused = |error: tidemill_model::FieldError| Error::Prober(error.to_string());
    let role = Role::new(config.clone()).map_err(refused)?;
    let probe = tidemill_probe::Prober::new(config.paths).map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(ROLE)
        .enable_all()
        .build()
        .map_err(Error::Thread)?;
    let (inputs, taken) = mpsc::channel(INPUTS);
    let division = Division::follow(&outside, ROLE)?;
    let (stop, stopped) = oneshot::channel();
    let status = Arc::new(Mutex::new(ProberStatus::default()));
    let running = Loop {
        role,
        probe,
        outside,
        inputs,
        tasks: JoinSet::new(),
        begun_at: Instant::now(),
        status: Arc::clone(&status),
        status_at: None,
    };
    let run = move || {
        runtime.block_on(running.run(division.parts.clone(), taken, stopped));
        // A look at a dead mount, or a question to an owner, may still block a thread.
        runtime.shutdown_background();
        division.end();
    };
    let thread = std::thread::Builder::new().name(ROLE.to_owned()).spawn(run).map_err(Error::Thread)?;
    Ok(Prober { stop, thread, status })
}

impl Prober {
    /// How it does; a second old at most.
    #[must_use]
    pub fn status(&self) -> ProberStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same, for whoever asks again and again.
    pub fn watch(&self) -> impl Fn() -> ProberStatus + Send + Sync + 'static + use<> {
        let status = Arc::clone(&self.status);
        move || status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has ended by itself, which only a panic makes it do.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Asks nothing more, and ends.
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
    probe: tidemill_probe::Prober,
    outside: Outside,
    inputs: mpsc::Sender<Input>,
    tasks: JoinSet<()>,
    begun_at: Instant,
    status: Arc<Mutex<ProberStatus>>,
    status_at: Option<Instant>,
}

impl Loop {
    async fn run(
        mut self,
        parts: watch::Receiver<Parts>,
        mut taken: mpsc::Receiver<Input>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        self.follow_shards();
        self.follow_parts(parts);
        let mut happened = Vec::new();
        loop {
            let turn = self.role.step(self.now_ms(), happened.drain(..));
            for output in turn.outputs {
                self.perform(output);
            }
            self.publish();
            while self.tasks.try_join_next().is_some() {}
            let wake = self.begun_at + Duration::from_millis(turn.wake_at_ms);
            tokio::select! {
                // A sender that is gone means the same.
                _ = &mut stopped => return,
                _ = taken.recv_many(&mut happened, INPUTS) => {}
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn publish(&mut self) {
        if self.status_at.is_some_and(|at| at.elapsed() < STATUS_EVERY) {
            return;
        }
        self.status_at = Some(Instant::now());
        let status = status_of(&self.role, self.now_ms(), &self.probe.statistics());
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn follow_shards(&mut self) {
        let inputs = self.inputs.clone();
        self.tasks.spawn(follow_shards(Arc::clone(&self.outside.shards), move |shards| {
            let inputs = inputs.clone();
            async move { inputs.send(Input::Shards(shards)).await.is_ok() }
        }));
    }

    fn follow_parts(&mut self, mut parts: watch::Receiver<Parts>) {
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
    }

    fn perform(&mut self, output: Output) {
        let inputs = self.inputs.clone();
        match output {
            Output::Ask(questions) => {
                let mut answers = self.probe.probe(questions);
                self.tasks.spawn(async move {
                    while let Some(answer) = answers.next().await {
                        if inputs.send(Input::Answer(answer)).await.is_err() {
                            return;
                        }
                    }
                });
            }
            Output::Look(shard) => {
                let (ask, probe) = (Arc::clone(&self.outside.ask), self.probe.clone());
                self.tasks.spawn(async move {
                    let looked = tokio::task::spawn_blocking(move || look(&ask, &probe, shard)).await;
                    let input = looked.unwrap_or_else(|error| {
                        tracing::error!(%error, %shard, "asking what is waited for ended unexpectedly");
                        Input::Unknown(shard)
                    });
                    // Nobody listens any more: this process ends.
                    let _ = inputs.send(input).await;
                });
            }
            Output::Tell(shard, findings) => {
                let answer = |Finding { external_dependency, generation }| PathAnswer {
                    external_dependency,
                    generation,
                    exists: true,
                };
                let answers = findings.into_iter().map(answer).collect();
                let submit_request = self
                    .submit_request(shard, Command::Observation(ObservationCommand::ReportPaths { answers }));
                self.submit(submit_request, move |answered| Input::Told(shard, answered));
            }
            Output::Health(authority, health) => self.tell_health(authority, health),
        }
    }

    fn tell_health(&mut self, authority: String, health: Health) {
        let Health { late_ms, failing, .. } = health;
        if health.is_good() {
            tracing::info!(%authority, "its paths are checked in time again");
        } else {
            let reason = health.failure();
            tracing::warn!(%authority, late_ms, failing, reason, "checks of its paths are late or fail");
        }
        let report = ProbeReport {
            prober: Arc::clone(&self.outside.instance),
            authority: authority.as_str().into(),
            late_ms,
            failure: health.failure(),
        };
        let submit_request = self
            .submit_request(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::ReportProbes(report)));
        self.submit(submit_request, move |answered| Input::HealthTold(authority, health, answered));
    }

    fn submit_request(&self, shard: ShardId, command: Command) -> SubmitRequest {
        SubmitRequest { shard, request: request_id(), actor: Actor { app: ROLE.into(), user: None }, command }
    }

    fn submit(
        &mut self,
        submit_request: SubmitRequest,
        input: impl FnOnce(Answered) -> Input + Send + 'static,
    ) {
        let (submitter, inputs) = (self.outside.submitter.clone(), self.inputs.clone());
        self.tasks.spawn(async move {
            let shard = submit_request.shard;
            let answered = match submitter.submit(submit_request, None).await {
                Ok(reply) => {
                    if let Outcome::Refused(rejection) = reply.outcome {
                        tracing::warn!(%shard, %rejection, "what was found is refused");
                    }
                    Answered::Decided
                }
                Err(error) => {
                    tracing::warn!(%shard, %error, "what was found may not have been heard; it is told again");
                    Answered::Lost
                }
            };
            let _ = inputs.send(input(answered)).await;
        });
    }
}

/// All that a shard waits for, as its owner says.
fn look(ask: &AskOwner, probe: &tidemill_probe::Prober, shard: ShardId) -> Input {
    let page = |after| match ask(shard, LiveQuery::WantedExternalDependencies { after, limit: PAGE })? {
        LiveAnswer::Wanted { external_dependencies, more } => Ok((external_dependencies, more)),
        // The shard is not there yet, or not any more.
        LiveAnswer::NotFound => Ok((Vec::new(), false)),
        other => Err(format!("an answer to another question: {other:?}")),
    };
    let all = match all_pages(page, |external_dependency: &WantedExternalDependency| external_dependency.id) {
        Ok(all) => all,
        Err(reason) => {
            tracing::debug!(%shard, reason, "what is waited for is not known");
            return Input::Unknown(shard);
        }
    };
    let (mut external_dependencies, mut barred) = (Vec::with_capacity(all.len()), Vec::new());
    for external_dependency in all {
        match wanted(probe, &external_dependency) {
            Ok(wanted) => external_dependencies.push(wanted),
            Err(reason) => barred.push(reason),
        }
    }
    Input::Wanted { shard, external_dependencies, barred }
}

fn wanted(
    probe: &tidemill_probe::Prober,
    external_dependency: &WantedExternalDependency,
) -> Result<Wanted, String> {
    let path = probe.path("path", &external_dependency.path).map_err(|error| error.to_string())?;
    let mark = external_dependency.mark.as_ref().map(|mark| Mark::try_from(mark.to_string())).transpose();
    let question = Question { path, mark: mark.map_err(|error| error.to_string())? };
    let urgency = if external_dependency.urgent { Urgency::Soon } else { Urgency::Waiting };
    Ok(Wanted {
        external_dependency: external_dependency.id,
        generation: external_dependency.generation,
        question,
        urgency,
        nudge: external_dependency.nudge,
    })
}
