//! The journal as it stands, folded anew by the simulator: what owners are compared with, and what the
//! workload knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_engine::{FaultInjection, Partition};
use tidemill_log::{Chain, Kind, Verdict};
use tidemill_model::{
    Answer, ApplyEvent, AttemptEvent, BatchEvent, BatchId, BatchResult, BulkEvent, BulkId, CatalogueEvent,
    DeletionEvent, Envelope, Event, ExternalDependency, ExternalDependencyId, FinalCommandEvent, GroupName,
    JobChangeKind, JobEvent, JobId, JobType, ObservationEvent, Outcome, PartitionEvent, ReplicationEvent,
    RequestId, RerunEvent, RerunId, ShardId, Source, Timestamp, Token, WorkerEvent, WorkerId,
};

use crate::clients::is_by_state;
use crate::known_pulls::KnownPulls;
use crate::stats::Stats;

#[derive(Debug, Clone)]
pub(crate) struct KnownJob {
    pub(crate) id: JobId,
    pub(crate) shard: ShardId,
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) enabled: bool,
    pub(crate) submitted: bool,
    pub(crate) kind: JobType,
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

/// One partition's journal.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) chain: Chain,
    pub(crate) state: Partition,
    /// The envelope of each record that counts and is one, by offset.
    pub(crate) envelopes: BTreeMap<u64, Arc<Envelope>>,
}

/// Everything on record.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) groups: BTreeMap<ShardId, String>,
    pub(crate) jobs: BTreeMap<JobId, KnownJob>,
    pub(crate) batches: BTreeMap<BatchId, KnownBatch>,
    pub(crate) workers: BTreeMap<WorkerId, ShardId>,
    pub(crate) tokens: Vec<(Token, WorkerId)>,
    /// Attempts whose end is on record.
    pub(crate) ended: BTreeSet<Token>,
    /// Final commands that have not ended.
    pub(crate) finals: BTreeSet<Token>,
    /// Batches that ended without an attempt, and whose final command no worker has.
    pub(crate) unplaced: BTreeSet<BatchId>,
    pub(crate) outcomes: BTreeMap<RequestId, Outcome>,
    /// Of requests whose outcome is not kept, but read from the state each time.
    pub(crate) told: BTreeMap<RequestId, Vec<Outcome>>,
    pub(crate) keys: u32,
    pub(crate) external_dependencies: BTreeMap<ExternalDependencyId, KnownExternalDependency>,
    /// Batches about which the quality service has not answered, and the number of the question.
    pub(crate) asked: BTreeMap<BatchId, u32>,
    /// Groups that are frozen; `None`: all are.
    pub(crate) frozen: BTreeSet<Option<GroupName>>,
    /// Reruns that have not ended.
    pub(crate) reruns: BTreeSet<RerunId>,
    /// Operations on many batches that have not ended, with their items.
    pub(crate) bulks: BTreeMap<BulkId, Vec<i64>>,
    pub(crate) pulls: KnownPulls,
}

impl Oracle {
    pub(crate) fn new(partition: u32, count: u32, fault_injection: FaultInjection) -> Self {
        let state = Partition::new(partition, count).fault_injected(fault_injection);
        Self { chain: Chain::new(), state, envelopes: BTreeMap::new() }
    }

    /// A record has landed. Gives the envelope, if it counts and is one.
    pub(crate) fn land(&mut self, offset: u64, value: &[u8], stats: &mut Stats) -> Option<Arc<Envelope>> {
        match self.chain.accept(offset, value) {
            Verdict::Accepted(frame) if frame.kind == Kind::Envelope => {
                let envelope: Envelope = serde_json::from_slice(&frame.body).expect("an owner wrote it");
                let envelope = Arc::new(envelope);
                self.state.apply(&envelope);
                self.envelopes.insert(offset, Arc::clone(&envelope));
                Some(envelope)
            }
            Verdict::Accepted(_) => None,
            Verdict::Void(reason) => {
                stats.add("void", reason_name(reason));
                None
            }
        }
    }
}

/// What kinds alone do not tell: marks of what was evicted (GEN-10), times that parents skipped while a batch waited (DEP-3), batches that ended for their parents (BYD-18), values passed on, heard in another
/// group and missed (BYD-20), and other templates that could not be resolved.
fn condition_of(event: &Event) -> Option<&'static str> {
    match event {
        Event::Batch(BatchEvent::ResultOverridden { run: Some(_), .. }) => Some("evicted_marked"),
        Event::Batch(BatchEvent::Finished { result, message, .. }) => match result {
            BatchResult::Failed if message.starts_with("its parent") => Some("failed_for_parent"),
            BatchResult::Skipped if message.starts_with("its parent") => Some("skipped_for_parent"),
            BatchResult::Skipped if message.starts_with("it runs only") => Some("skipped_for_success"),
            BatchResult::Failed if message.contains("${values.") => Some("value_missing"),
            BatchResult::Failed if message.contains("${param.") => Some("failed_at_start"),
            _ => None,
        },
        Event::Batch(BatchEvent::DependencySatisfied { left_out: true, .. }) => {
            Some("left_out_while_waiting")
        }
        Event::Attempt(AttemptEvent::Finished { outcome, .. }) if !outcome.values.is_empty() => {
            Some("values_passed")
        }
        Event::Replication(ReplicationEvent::ParentStatusUpdated { standings, .. })
            if standings.iter().any(|it| !it.values.is_empty()) =>
        {
            Some("values_heard")
        }
        _ => None,
    }
}

fn reason_name(reason: tidemill_log::VoidReason) -> &'static str {
    use tidemill_log::VoidReason;
    match reason {
        VoidReason::Garbled => "garbled",
        VoidReason::BeforeGenesis => "before_genesis",
        VoidReason::SecondGenesis => "second_genesis",
        VoidReason::WrongEpoch => "wrong_epoch",
        VoidReason::WrongPrev => "wrong_prev",
        VoidReason::WrongSeq => "wrong_seq",
        VoidReason::NoOwner => "no_owner",
    }
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
            Event::Catalogue(CatalogueEvent::GroupDefined { shard, name, .. }) => {
                self.groups.insert(*shard, name.to_string());
            }
            Event::Catalogue(CatalogueEvent::KeyDefined { .. }) => self.keys += 1,
            Event::Catalogue(CatalogueEvent::FreezeSet { group, .. }) => {
                self.frozen.insert(group.clone());
            }
            Event::Catalogue(CatalogueEvent::FreezeLifted { group, .. }) => {
                self.frozen.remove(group);
            }
            Event::Job(JobEvent::Defined { definition, enabled, .. }) => {
                self.job(definition, ShardId(definition.group_id.0 as u16), *enabled, false);
            }
            Event::Job(JobEvent::Moved { definition, enabled, request, .. }) => {
                self.job(definition, ShardId(definition.group_id.0 as u16), *enabled, false);
                let done = Outcome::Answered(Answer::Done);
                self.outcomes.extend(request.clone().map(|request| (request, done)));
            }
            Event::Job(JobEvent::Submitted { definition }) => self.job(definition, shard, false, true),
            Event::Job(JobEvent::Enabled { job } | JobEvent::Disabled { job }) => {
                if let Some(known) = self.jobs.get_mut(job) {
                    known.enabled = matches!(event, Event::Job(JobEvent::Enabled { .. }));
                }
            }
            Event::Deletion(DeletionEvent::Decided { request: Some(request), outcome, .. }) => {
                self.outcomes.insert(request.clone(), outcome.clone());
            }
            Event::Apply(ApplyEvent::Finished { request: Some(request), .. }) => {
                self.outcomes.insert(request.clone(), Outcome::Answered(Answer::Done));
            }
            Event::Catalogue(CatalogueEvent::UserMoved { request: Some(request), .. }) => {
                self.outcomes.insert(request.clone(), Outcome::Answered(Answer::Done));
            }
            Event::Catalogue(CatalogueEvent::UserMoveRejected { request: Some(request), reason, .. })
            | Event::Job(JobEvent::MoveRejected { request: Some(request), reason, .. }) => {
                self.outcomes.insert(request.clone(), Outcome::Refused(reason.clone()));
            }
            Event::Job(JobEvent::Deleted { job }) => {
                self.jobs.remove(job);
            }
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
            Event::Batch(BatchEvent::Generated { batch, job, logical_time, run, parameters, .. }) => {
                let known = KnownBatch {
                    job: *job,
                    logical_time: *logical_time,
                    run: *run,
                    parameters: parameters.clone(),
                    finished: false,
                };
                self.batches.insert(*batch, known);
            }
            Event::Batch(BatchEvent::Finished { batch, final_command, .. }) => {
                self.asked.remove(batch);
                if *final_command {
                    self.unplaced.insert(*batch);
                }
                if let Some(known) = self.batches.get_mut(batch) {
                    known.finished = true;
                }
            }
            Event::Observation(ObservationEvent::ExternalDependencyRegistered {
                external_dependency,
                what,
            }) => {
                let is_path = matches!(what, ExternalDependency::Path { .. });
                self.external_dependencies.insert(
                    *external_dependency,
                    KnownExternalDependency { is_path, generation: 1, there: false },
                );
            }
            Event::Observation(
                ObservationEvent::ExternalDependencySatisfied { external_dependency, generation }
                | ObservationEvent::ExternalDependencyRevoked { external_dependency, generation, .. },
            ) => {
                if let Some(known) = self.external_dependencies.get_mut(external_dependency) {
                    known.generation = *generation;
                    known.there = matches!(
                        event,
                        Event::Observation(ObservationEvent::ExternalDependencySatisfied { .. })
                    );
                }
            }
            Event::Observation(ObservationEvent::ExternalDependenciesEvicted { external_dependencies }) => {
                external_dependencies.iter().for_each(|external_dependency| {
                    self.external_dependencies.remove(external_dependency);
                })
            }
            Event::Batch(BatchEvent::QualityRequested { batch, number, .. }) => {
                self.asked.insert(*batch, *number);
            }
            Event::Batch(BatchEvent::QualityAnswered { batch, .. }) => {
                self.asked.remove(batch);
            }
            Event::FinalCommand(FinalCommandEvent::Assigned { batch, token, .. }) => {
                self.unplaced.remove(batch);
                self.finals.insert(*token);
            }
            Event::FinalCommand(FinalCommandEvent::NotRun { batch, .. }) => {
                self.unplaced.remove(batch);
            }
            Event::FinalCommand(FinalCommandEvent::Finished { token: Some(token), .. }) => {
                self.finals.remove(token);
            }
            Event::Worker(WorkerEvent::Registered { worker, .. }) => {
                self.workers.insert(worker.clone(), shard);
            }
            Event::Batch(BatchEvent::Assigned { token, worker, .. }) => {
                self.tokens.push((*token, worker.clone()))
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
        | Answer::Done => true,
    };
    (!is_there).then(|| format!("answered {answer:?} without its event"))
}
