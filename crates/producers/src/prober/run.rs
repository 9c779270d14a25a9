//! What [`Role`] does outside: asks owners, looks at paths, and tells what it found.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_cluster::{AskOwner, SubmitError, all_pages};
use tidemill_model::{
    CatalogueCommand, Command, LiveAnswer, LiveQuery, ObservationCommand, Outcome, PathAnswer, ProbeReport,
    ProberStatus, ShardId, WantedExternalDependency, WantedOutput,
};
use tidemill_probe::{Mark, Question, Urgency};

use super::config::Config;
use super::health::Health;
use super::outputs::LostOutput;
use super::role::{Answered, Input, Output, Role};
use super::status::status_of;
use super::waiting::{Finding, Wanted};
use crate::stepping::{Running, Stepped, Tasks};
use crate::{Error, Outside, Parts};

/// Things of one page.
const PAGE: u32 = 1_000;
/// How often the status is rebuilt.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// A running prober. Dropped, it is told to stop.
#[derive(Debug)]
pub struct Prober {
    running: Running,
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
    let status = Arc::new(Mutex::new(ProberStatus::default()));
    let looking = Looking { role, probe, status: Arc::clone(&status), status_at: None };
    Ok(Prober { running: Running::start(looking, outside)?, status })
}

impl Prober {
    /// How it does; a second old at most.
    #[must_use]
    pub fn status(&self) -> ProberStatus {
        self.watch()()
    }

    /// The same, for whoever asks again and again.
    pub fn watch(&self) -> impl Fn() -> ProberStatus + Send + Sync + 'static + use<> {
        let status = Arc::clone(&self.status);
        move || status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has ended by itself, which only a panic makes it do.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.running.has_ended()
    }

    /// Asks nothing more, and ends.
    ///
    /// # Errors
    /// It panicked.
    pub fn stop(self) -> Result<(), Error> {
        self.running.stop()
    }
}

struct Looking {
    role: Role,
    probe: tidemill_probe::Prober,
    status: Arc<Mutex<ProberStatus>>,
    status_at: Option<Instant>,
}

impl Stepped for Looking {
    const ROLE: &'static str = "prober";
    const THREADS: usize = 2;
    type Input = Input;
    type Output = Output;
    const PARTS: fn(Parts) -> Input = Input::Parts;
    const SHARDS: fn(Vec<ShardId>) -> Input = Input::Shards;
    const UNKNOWN: fn(ShardId) -> Input = Input::Unknown;

    fn step(&mut self, now_ms: u64, happened: impl Iterator<Item = Input>) -> (Vec<Output>, u64) {
        let turn = self.role.step(now_ms, happened);
        self.publish(now_ms);
        (turn.outputs, turn.wake_at_ms)
    }

    fn perform(&mut self, output: Output, tasks: &mut Tasks<Self>) {
        match output {
            Output::Ask(questions) => {
                let mut answers = self.probe.probe(questions);
                tasks.spawn(|inputs| async move {
                    while let Some(answer) = answers.next().await {
                        if inputs.send(Input::Answer(answer)).await.is_err() {
                            return;
                        }
                    }
                });
            }
            Output::Look(shard) => {
                let probe = self.probe.clone();
                tasks.look(shard, move |ask| look(ask, &probe, shard));
            }
            Output::Tell(shard, findings) => {
                let answer = |Finding { external_dependency, generation }| PathAnswer {
                    external_dependency,
                    generation,
                    exists: true,
                };
                let answers = findings.into_iter().map(answer).collect();
                let command =
                    Command::Observation(ObservationCommand::ReportPaths { answers, seal: String::new() });
                tasks.submit(shard, command, move |outcome| Input::Told(shard, answered(shard, outcome)));
            }
            Output::LookForOutputs(looks) => {
                for (shard, token, path) in looks {
                    let probe = self.probe.clone();
                    tasks
                        .one(async move { Input::OutputLooked(shard, token, probe.changed_at(&path).await) });
                }
            }
            Output::TellOutputs(shard, answers) => {
                let tokens = answers.iter().map(|answer| answer.token).collect();
                let command =
                    Command::Observation(ObservationCommand::ReportOutputs { answers, seal: String::new() });
                tasks.submit(shard, command, move |outcome| {
                    Input::OutputsTold(shard, tokens, answered(shard, outcome))
                });
            }
            Output::Health(authority, health) => tell_health(authority, health, tasks),
        }
    }
}

impl Looking {
    fn publish(&mut self, now_ms: u64) {
        if self.status_at.is_some_and(|at| at.elapsed() < STATUS_EVERY) {
            return;
        }
        self.status_at = Some(Instant::now());
        let status = status_of(&self.role, now_ms, &self.probe.statistics());
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

fn tell_health(authority: String, health: Health, tasks: &mut Tasks<Looking>) {
    let Health { late_ms, failing, .. } = health;
    if health.is_good() {
        tracing::info!(%authority, "its paths are checked in time again");
    } else {
        let reason = health.failure();
        tracing::warn!(%authority, late_ms, failing, reason, "checks of its paths are late or fail");
    }
    let report = ProbeReport {
        prober: Arc::clone(&tasks.outside.instance),
        authority: authority.as_str().into(),
        late_ms,
        failure: health.failure(),
    };
    let shard = ShardId::CATALOGUE;
    let command = Command::Catalogue(CatalogueCommand::ReportProbes(report));
    tasks.submit(shard, command, move |outcome| {
        Input::HealthTold(authority, health, answered(shard, outcome))
    });
}

fn answered(shard: ShardId, outcome: Result<Outcome, SubmitError>) -> Answered {
    match outcome {
        Ok(Outcome::Refused(rejection)) => {
            tracing::warn!(%shard, %rejection, "what was found is refused");
            Answered::Decided
        }
        Ok(Outcome::Done | Outcome::Answered(_) | Outcome::Repeated | Outcome::Deferred) => Answered::Decided,
        Err(error) => {
            tracing::warn!(%shard, %error, "what was found may not have been heard; it is told again");
            Answered::Lost
        }
    }
}

/// All that a shard waits for, as its owner says.
fn look(ask: &AskOwner, probe: &tidemill_probe::Prober, shard: ShardId) -> Input {
    let lost: RefCell<Vec<WantedOutput>> = RefCell::default();
    let page = |after| match ask(shard, LiveQuery::WantedExternalDependencies { after, limit: PAGE })? {
        LiveAnswer::Wanted { external_dependencies, more, outputs } => {
            lost.borrow_mut().extend(outputs);
            Ok((external_dependencies, more))
        }
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
    let outputs = lost.into_inner().into_iter().map(|WantedOutput { batch, token, path }| LostOutput {
        batch,
        token,
        path: probe.path("success_check.output_path", &path).map_err(|error| error.to_string()),
    });
    Input::Wanted { shard, external_dependencies, barred, outputs: outputs.collect() }
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
