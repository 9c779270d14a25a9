//! What is on record, as the workload knows it: whom and what its requests can name.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{
    Answer, ApplyEvent, AttemptEvent, BatchEvent, BatchId, BulkEvent, BulkId, CatalogueEvent, DeletionEvent,
    Envelope, Event, ExternalDependency, ExternalDependencyId, GroupName, JobChangeKind, JobEvent, JobId,
    JobType, LevelEvent, ObservationEvent, Outcome, PartitionEvent, RequestId, RerunEvent, RerunId, ShardId,
    Source, Timestamp, Token, WorkerEvent, WorkerId,
};

use crate::clients::is_by_state;
use crate::coverage::Stats;
use crate::known_directory::KnownDirectory;
use crate::known_pulls::KnownPulls;
use crate::oracle::condition_of;

#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) groups: BTreeMap<ShardId, String>,
    pub(crate) jobs: BTreeMap<JobId, KnownJob>,
    pub(crate) batches: BTreeMap<BatchId, KnownBatch>,
    pub(crate) workers: BTreeMap<WorkerId, ShardId>,
    pub(crate) tokens: Vec<(Token, WorkerId)>,
    /// Attempts whose end is on record.
    pub(crate) ended: BTreeSet<Token>,
    /// Attempts that were assigned and taken back, or whose batch ended, without a process as far as is on record.
    pub(crate) not_begun: BTreeSet<Token>,
    /// The latest of them.
    pub(crate) taken_back: Vec<Token>,
    /// Attempts whose start is on record.
    pub(crate) granted: BTreeSet<Token>,
    /// The attempts of batches that may run, as is on record.
    pub(crate) running: BTreeMap<BatchId, Token>,
    /// Attempts of which a process began.
    pub(crate) begun: BTreeSet<Token>,
    /// What batches are assigned by.
    pub(crate) assigned: BTreeMap<BatchId, Token>,
    pub(crate) outcomes: BTreeMap<RequestId, Outcome>,
    /// Of requests whose outcome is not kept, but read from the state each time.
    pub(crate) told: BTreeMap<RequestId, Vec<Outcome>>,
    pub(crate) keys: u32,
    pub(crate) external_dependencies: BTreeMap<ExternalDependencyId, KnownExternalDependency>,
    /// Batches about which the quality service has not answered, and the number of the question.
    pub(crate) asked: BTreeMap<BatchId, u32>,
    /// Batches whose lost attempt is looked for, which attempt, and since when its output would be its own.
    pub(crate) lost_outputs: BTreeMap<BatchId, (Token, Timestamp)>,
    /// Groups that are frozen; `None`: all are.
    pub(crate) frozen: BTreeSet<Option<GroupName>>,
    /// Reruns that have not ended.
    pub(crate) reruns: BTreeSet<RerunId>,
    /// Operations on many batches that have not ended, with their items.
    pub(crate) bulks: BTreeMap<BulkId, Vec<i64>>,
    /// An operator holds the level.
    pub(crate) is_held: bool,
    pub(crate) pulls: KnownPulls,
    pub(crate) directory: KnownDirectory,
}

#[derive(Debug, Clone)]
pub(crate) struct KnownJob {
    pub(crate) id: JobId,
    pub(crate) shard: ShardId,
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) enabled: bool,
    pub(crate) submitted: bool,
    pub(crate) kind: JobType,
    /// Other jobs, that it names.
    pub(crate) parents: Vec<JobId>,
}

#[derive(Debug, Clone)]
pub(crate) struct KnownBatch {
    pub(crate) job: JobId,
    pub(crate) logical_time: Timestamp,
    pub(crate) run: u32,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) finished: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct KnownExternalDependency {
    pub(crate) is_path: bool,
    pub(crate) generation: u64,
    pub(crate) there: bool,
}

impl Known {
    /// Takes an envelope in; says what it should not have.
    pub(crate) fn take(&mut self, envelope: &Envelope, stats: &mut Stats) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut at = 0;
        for cause in &envelope.causes {
            let events = &envelope.events[at..at + cause.events as usize];
            at += cause.events as usize;
            if let Outcome::Refused(rejection) = &cause.outcome {
                stats.add("rejection", rejection.code());
                let dead_lettered = events
                    .iter()
                    .all(|r| matches!(r.event, Event::Partition(PartitionEvent::CommandDeadLettered { .. })));
                if !events.is_empty() && !dead_lettered {
                    wrong.push(format!("a refused command has events: {cause:?} {events:?}"));
                }
            }
            if let Source::Command { request: Some(request), .. } = &cause.source {
                match self.outcomes.get(request) {
                    _ if is_by_state(request) => {
                        wrong.extend(self.state_told(request, &cause.outcome, stats));
                    }
                    None if cause.outcome == Outcome::Repeated => {
                        wrong.push(format!("{request} is called repeated, and was never decided"));
                    }
                    None => {
                        self.outcomes.insert(request.clone(), cause.outcome.clone());
                    }
                    Some(_) if cause.outcome == Outcome::Repeated => stats.add("outcome", "repeated"),
                    Some(first) => {
                        wrong.push(format!("{request} has two outcomes: {first:?} and {:?}", cause.outcome))
                    }
                }
                wrong.extend(missing_effect(&cause.outcome, events).map(|what| format!("{request}: {what}")));
            }
        }
        for recorded in &envelope.events {
            stats.add("event", recorded.event.kind());
            if let Some(condition) = condition_of(&recorded.event) {
                stats.add("condition", condition);
            }
            self.event(recorded.shard, &recorded.event);
            self.pulls.event(envelope.now, &recorded.event, stats);
        }
        wrong
    }

    /// An outcome that is not kept.
    fn state_told(&mut self, request: &RequestId, outcome: &Outcome, stats: &mut Stats) -> Option<String> {
        let told = self.told.entry(request.clone()).or_default();
        told.push(outcome.clone());
        match outcome {
            Outcome::Answered(Answer::Pulled(grant)) if grant.redo => stats.add("condition", "pulled_again"),
            Outcome::Answered(Answer::NothingDue { .. }) => stats.add("condition", "nothing_due"),
            Outcome::Answered(Answer::Completed { .. }) if told.len() > 1 => {
                stats.add("condition", "completed_again");
            }
            Outcome::Repeated | Outcome::Deferred => return Some(format!("{request} came to {outcome:?}")),
            _ => {}
        }
        None
    }

    fn event(&mut self, shard: ShardId, event: &Event) {
        match event {
            Event::Catalogue(event) => self.catalogue_event(event),
            Event::Directory(event) => self.directory.event(event),
            Event::Credential(event) => self.directory.credential_event(event),
            Event::Job(event) => self.job_event(shard, event),
            Event::Batch(event) => self.batch_event(event),
            Event::Attempt(
                AttemptEvent::StartGranted { batch, token, .. } | AttemptEvent::Adopted { batch, token, .. },
            ) => {
                self.granted.insert(*token);
                self.assigned.remove(batch);
                self.running.insert(*batch, *token);
            }
            Event::Attempt(AttemptEvent::Finished { batch, .. }) => {
                self.running.remove(batch);
            }
            Event::Attempt(AttemptEvent::OutputQueried { batch, token, since, .. }) => {
                self.lost_outputs.insert(*batch, (*token, *since));
            }
            Event::Attempt(AttemptEvent::OutputAnswered { batch, .. }) => {
                self.lost_outputs.remove(batch);
            }
            Event::Observation(event) => self.observation_event(event),
            Event::Deletion(DeletionEvent::Decided { request: Some(request), outcome, .. }) => {
                self.outcomes.insert(request.clone(), outcome.clone());
            }
            Event::Apply(ApplyEvent::Finished { request: Some(request), .. }) => self.done(request),
            Event::Bulk(BulkEvent::Requested { bulk, items, .. }) => {
                self.bulks.insert(*bulk, items.clone());
            }
            Event::Bulk(BulkEvent::Advanced { bulk, ended: true, .. }) => {
                self.bulks.remove(bulk);
            }
            Event::Rerun(RerunEvent::Requested { rerun, .. }) => {
                self.reruns.insert(*rerun);
            }
            Event::Rerun(RerunEvent::Finished { rerun, .. }) => {
                self.reruns.remove(rerun);
            }
            Event::Level(LevelEvent::Held { .. }) => self.is_held = true,
            Event::Level(LevelEvent::Released { .. }) => self.is_held = false,
            Event::Worker(WorkerEvent::Registered { worker, .. }) => {
                self.workers.insert(worker.clone(), shard);
            }
            _ => {}
        }
    }

    fn done(&mut self, request: &RequestId) {
        self.outcomes.insert(request.clone(), Outcome::Answered(Answer::Done));
    }

    fn catalogue_event(&mut self, event: &CatalogueEvent) {
        match event {
            CatalogueEvent::GroupDefined { shard, name, .. } => {
                self.groups.insert(*shard, name.to_string());
            }
            CatalogueEvent::KeyDefined { .. } => self.keys += 1,
            CatalogueEvent::FreezeSet { group, .. } => {
                self.frozen.insert(group.clone());
            }
            CatalogueEvent::FreezeLifted { group, .. } => {
                self.frozen.remove(group);
            }
            CatalogueEvent::UserMoved { request: Some(request), .. } => self.done(request),
            CatalogueEvent::UserMoveRejected { request: Some(request), reason, .. } => {
                self.outcomes.insert(request.clone(), Outcome::Refused(reason.clone()));
            }
            _ => {}
        }
    }

    fn job_event(&mut self, shard: ShardId, event: &JobEvent) {
        match event {
            JobEvent::Defined { definition, enabled, .. } => {
                self.job(definition, ShardId(definition.group_id.0 as u16), *enabled, false);
            }
            JobEvent::Moved { definition, enabled, request, .. } => {
                self.job(definition, ShardId(definition.group_id.0 as u16), *enabled, false);
                if let Some(request) = request {
                    self.done(request);
                }
            }
            JobEvent::Submitted { definition } => self.job(definition, shard, false, true),
            JobEvent::Enabled { job } | JobEvent::Disabled { job } => {
                if let Some(known) = self.jobs.get_mut(job) {
                    known.enabled = matches!(event, JobEvent::Enabled { .. });
                }
            }
            JobEvent::MoveRejected { request: Some(request), reason, .. } => {
                self.outcomes.insert(request.clone(), Outcome::Refused(reason.clone()));
            }
            JobEvent::Deleted { job } => {
                self.jobs.remove(job);
            }
            _ => {}
        }
    }

    fn batch_event(&mut self, event: &BatchEvent) {
        match event {
            BatchEvent::Generated { batch, job, logical_time, run, parameters, .. } => {
                let known = KnownBatch {
                    job: *job,
                    logical_time: *logical_time,
                    run: *run,
                    parameters: parameters.clone(),
                    finished: false,
                };
                self.batches.insert(*batch, known);
            }
            BatchEvent::Finished { batch, .. } => {
                self.asked.remove(batch);
                self.lost_outputs.remove(batch);
                self.taken_back.extend(self.assigned.remove(batch));
                if let Some(known) = self.batches.get_mut(batch) {
                    known.finished = true;
                }
            }
            BatchEvent::QualityRequested { batch, number, .. } => {
                self.asked.insert(*batch, *number);
            }
            BatchEvent::QualityAnswered { batch, .. } => {
                self.asked.remove(batch);
            }
            BatchEvent::Assigned { batch, token, worker, .. }
            | BatchEvent::AssignedWithRight { batch, token, worker, .. } => {
                self.assigned.insert(*batch, *token);
                self.tokens.push((*token, worker.clone()));
            }
            BatchEvent::AssignmentReturned { batch, token, .. } => {
                self.assigned.remove(batch);
                self.taken_back.push(*token);
            }
            _ => {}
        }
    }

    fn observation_event(&mut self, event: &ObservationEvent) {
        match event {
            ObservationEvent::ExternalDependencyRegistered { external_dependency, what } => {
                let is_path = matches!(what, ExternalDependency::Path { .. });
                self.external_dependencies.insert(
                    *external_dependency,
                    KnownExternalDependency { is_path, generation: 1, there: false },
                );
            }
            ObservationEvent::ExternalDependencySatisfied { external_dependency, generation }
            | ObservationEvent::ExternalDependencyRevoked { external_dependency, generation, .. } => {
                if let Some(known) = self.external_dependencies.get_mut(external_dependency) {
                    known.generation = *generation;
                    known.there = matches!(event, ObservationEvent::ExternalDependencySatisfied { .. });
                }
            }
            ObservationEvent::ExternalDependenciesEvicted { external_dependencies } => {
                for external_dependency in external_dependencies {
                    self.external_dependencies.remove(external_dependency);
                }
            }
            _ => {}
        }
    }

    fn job(&mut self, definition: &tidemill_model::JobDefinition, shard: ShardId, enabled: bool, once: bool) {
        let known = KnownJob {
            id: definition.id,
            shard,
            name: definition.spec.name.to_string(),
            group: definition.spec.group.to_string(),
            enabled,
            submitted: once,
            kind: definition.spec.job_type.clone(),
            parents: definition.other_parents().collect(),
        };
        self.jobs.insert(definition.id, known);
    }

    pub(crate) fn unfinished(&self) -> Vec<BatchId> {
        self.batches.iter().filter(|(_, batch)| !batch.finished).map(|(id, _)| *id).collect()
    }
}

/// An acknowledged command has its effect in the same envelope.
fn missing_effect(outcome: &Outcome, events: &[tidemill_model::Recorded]) -> Option<String> {
    let Outcome::Answered(answer) = outcome else { return None };
    let has = |wanted: &dyn Fn(&Event) -> bool| events.iter().any(|recorded| wanted(&recorded.event));
    let is_there = match answer {
        Answer::Submitted { batch: Some(wanted), .. } | Answer::Generated { batch: wanted, .. } => {
            has(&|event| matches!(event, Event::Batch(BatchEvent::Generated { batch, .. }) if batch == wanted))
        }
        Answer::Submitted { job, batch: None } => {
            has(&|event| matches!(event, Event::Job(JobEvent::Defined { definition, .. }) if definition.id == *job))
        }
        Answer::Applied { changes, .. } => changes.iter().all(|change| match change.change {
            JobChangeKind::Added | JobChangeKind::Changed => has(&|event| match event {
                Event::Job(JobEvent::Defined { definition, .. }) => {
                    definition.id == change.job && definition.version == change.version
                }
                // A switch alone makes no version.
                Event::Job(JobEvent::Enabled { job } | JobEvent::Disabled { job }) => {
                    *job == change.job && change.fields == ["enabled"]
                }
                _ => false,
            }),
            JobChangeKind::Deleted => {
                has(&|event| matches!(event, Event::Job(JobEvent::Deleted { job }) if *job == change.job))
            }
            JobChangeKind::Unchanged => true,
        }),
        Answer::Bulk { bulk: wanted } => {
            has(&|event| matches!(event, Event::Bulk(BulkEvent::Requested { bulk, .. }) if bulk == wanted))
        }
        Answer::Rerun { rerun: wanted, .. } => {
            has(&|event| matches!(event, Event::Rerun(RerunEvent::Requested { rerun, .. }) if rerun == wanted))
        }
        Answer::Group { .. }
        | Answer::Calendar { .. }
        | Answer::Pool { .. }
        | Answer::Template { .. }
        | Answer::Task { .. }
        // Again what the user has: without an event.
        | Answer::Pulled(_)
        | Answer::NothingDue { .. }
        | Answer::Completed { .. }
        | Answer::Level { .. }
        | Answer::Done => true,
    };
    (!is_there).then(|| format!("answered {answer:?} without its event"))
}
