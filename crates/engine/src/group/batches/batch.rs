//! An unfinished batch. A finished one leaves the state; what must outlive it stands in its job's history.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    Actor, BatchId, BatchState, Dependency, Incarnation, JobDefinition, JobId, Mapping, Nonce, Origin,
    Parent, SuccessCheck, Timestamp, Token, WaivedParent, WorkerId,
};

use crate::group::batches::right::Right;
use crate::group::batches::timeouts::Deadlines;
use crate::group::dependencies::counted::Counted;
use crate::group::external::needs::{Need, Needs};
use crate::group::external::quality::Gate;
use crate::group::placement::queue::ReadyKey;

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Batch {
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) logical_time: Timestamp,
    pub(crate) run: u32,
    pub(crate) origin: Origin,
    pub(crate) parameters: Option<Arc<BTreeMap<String, String>>>,
    pub(crate) dependencies: Box<[WaitsFor]>,
    /// Parents that it does not list.
    pub(crate) counted: Option<Box<Counted>>,
    /// Attempts that have ended.
    pub(crate) attempts: u32,
    /// Those of them that their workers ended because they were stopped: they use up no retry.
    pub(crate) interrupted: u32,
    /// Others of them that use up no retry.
    pub(crate) spared: u32,
    /// Workers that had it and did not start it.
    pub(crate) excluded: Vec<WorkerId>,
    /// When it was generated.
    pub(crate) generated: Timestamp,
    /// When the phase began.
    pub(crate) since: Timestamp,
    pub(crate) phase: Phase,
    /// What its job's timeouts leave to be watched.
    pub(crate) deadlines: Option<Box<Deadlines>>,
    /// What it waits for besides parents, and what a person lets it run without.
    pub(crate) needs: Option<Box<Needs>>,
}

/// One declared dependency of one batch.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct WaitsFor {
    pub(crate) declared: Dependency,
    /// For each of the declared times, whether its newest run succeeded.
    pub(crate) met: Box<[bool]>,
}

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) enum Phase {
    /// Conditions unmet.
    Waiting,
    /// Nobody may have it before.
    Pausing { until: Timestamp, after: PauseAfter },
    /// All conditions of its own are met: it stands in the queue, or is parked by its job's limit.
    Ready { key: ReadyKey },
    /// A worker has it.
    Assigned { token: Token, worker: WorkerId, start_by: Timestamp, right: Option<Box<Right>> },
    /// That worker may start it, or has.
    Granted(Box<Grant>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Stored)]
pub(crate) enum PauseAfter {
    /// A failed attempt.
    Attempt,
    /// A worker gave it back for the second time.
    Rejection,
    /// A lost attempt, whose output is looked for.
    LostOutput,
}

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Grant {
    pub(crate) token: Token,
    pub(crate) worker: WorkerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) nonce: Nonce,
    pub(crate) started: bool,
    /// Whether it has reported code 0, how many codes in all, and which other one last.
    pub(crate) zero: bool,
    pub(crate) codes: u8,
    pub(crate) code: Option<std::num::NonZeroI32>,
    pub(crate) kill: Option<Actor>,
    /// What it was given of its parents' values, whatever they pass on later.
    pub(crate) values: Option<Arc<BTreeMap<String, String>>>,
    /// It was asked for under a right, so its worker knows what to run.
    pub(crate) under_right: bool,
    /// The kinds of limits that it is on record to be over, one bit each.
    pub(crate) over: u8,
}

impl Batch {
    /// One that waits for nothing, of no run yet.
    pub(crate) fn new(
        definition: Arc<JobDefinition>,
        logical_time: Timestamp,
        origin: Origin,
        now: Timestamp,
    ) -> Self {
        Self {
            definition,
            logical_time,
            run: 0,
            origin,
            parameters: None,
            dependencies: Box::default(),
            counted: None,
            attempts: 0,
            spared: 0,
            interrupted: 0,
            excluded: Vec::new(),
            generated: now,
            since: now,
            phase: Phase::Waiting,
            deadlines: None,
            needs: None,
        }
    }

    pub(crate) fn state(&self) -> BatchState {
        match self.phase {
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } => BatchState::Waiting,
            Phase::Assigned { .. } => BatchState::Assigned,
            Phase::Granted(_) => BatchState::Running,
        }
    }

    /// Attempts that have ended by themselves, or as somebody asked.
    pub(crate) fn counted_attempts(&self) -> u32 {
        self.attempts.saturating_sub(self.interrupted)
    }

    /// Parents' dependencies that keep it back.
    pub(crate) fn unmet(&self) -> u32 {
        let listed = self.dependencies.iter().filter(|dependency| !self.is_met(dependency, &[]));
        listed.count() as u32 + self.counted.as_ref().map_or(0, |counted| counted.unmet)
    }

    /// Whether one of its dependencies is met, or waived, or would be with `more` waivers.
    pub(crate) fn is_met(&self, dependency: &WaitsFor, more: &[WaivedParent]) -> bool {
        if self.waived().is_empty() && more.is_empty() {
            return dependency.is_satisfied();
        }
        let declared = &dependency.declared;
        let is_waived = |logical_time: Option<Timestamp>| {
            let waiver = WaivedParent { job: declared.parent, logical_time };
            self.waived().contains(&waiver) || more.contains(&waiver)
        };
        if is_waived(None) {
            return true;
        }
        let times = declared.times.iter().zip(&dependency.met);
        declared.is_satisfied(times.filter(|(time, met)| **met || is_waived(Some(**time))).count())
    }

    /// How many of its dependencies would keep it back if (parent, time) were met, or not.
    pub(crate) fn unmet_after(&self, parent: JobId, time: Timestamp, met: bool) -> u32 {
        let kept_back = self.dependencies.iter().filter(|dependency| {
            let concerned = dependency.declared.parent == parent;
            match dependency.position(time).filter(|_| concerned) {
                None => !self.is_met(dependency, &[]),
                Some(position) => {
                    let mut then = WaitsFor::clone(dependency);
                    then.met[position] = met;
                    !self.is_met(&then, &[])
                }
            }
        });
        let counted = self.counted.as_ref().map_or(0, |counted| match counted.contains(parent) {
            true if time == self.logical_time => {
                counted.unmet_after(parent, met, self.waives_counted(parent))
            }
            _ => counted.unmet,
        });
        kept_back.count() as u32 + counted
    }

    /// The external dependencies that it waits for.
    pub(crate) fn external_dependencies(&self) -> &[Need] {
        self.needs.as_ref().map_or(&[], |needs| &needs.external_dependencies)
    }

    /// Parents' times that it runs without.
    pub(crate) fn waived(&self) -> &[WaivedParent] {
        self.needs.as_ref().map_or(&[], |needs| &needs.waived)
    }

    /// Whether it runs without this parent's time.
    pub(in crate::group) fn waives(&self, job: JobId, time: Timestamp) -> bool {
        self.waived().contains(&WaivedParent { job, logical_time: Some(time) })
    }

    /// It heard how a parent's time stands; for people, since when it waits for it.
    pub(crate) fn note_withdrawn(&mut self, now: Timestamp, time: (JobId, Timestamp), met: bool) {
        if met && self.needs.is_none() {
            return;
        }
        let withdrawn = &mut self.needs.get_or_insert_default().withdrawn;
        if met {
            withdrawn.remove(&time);
        } else {
            withdrawn.insert(time, now);
        }
    }

    /// Since when it waits for a parent's time: since that was taken back, else since it was generated.
    pub(crate) fn waits_since(&self, parent: JobId, time: Timestamp) -> Timestamp {
        let known = self.needs.as_ref().and_then(|needs| needs.withdrawn.get(&(parent, time)));
        known.copied().unwrap_or(self.generated)
    }

    /// Whether a person lets it run without some parent.
    pub(crate) fn has_waivers(&self) -> bool {
        !self.waived().is_empty() || self.counted.as_ref().is_some_and(|counted| counted.is_waived)
    }

    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.needs.as_ref().and_then(|needs| needs.gate.as_deref())
    }

    /// Whether everything outside that it waits for is there, the quality service's word apart.
    pub(crate) fn has_its_external_dependencies(&self) -> bool {
        !self.external_dependencies().iter().any(|need| need.is_unmet())
    }

    /// Whether no condition of its own keeps it back.
    pub(crate) fn may_run(&self) -> bool {
        self.unmet() == 0 && self.has_its_external_dependencies() && self.gate().is_none_or(Gate::is_open)
    }

    pub(crate) fn grant(&self) -> Option<&Grant> {
        match &self.phase {
            Phase::Granted(grant) => Some(grant),
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } | Phase::Assigned { .. } => None,
        }
    }

    /// Whether codes that its program reports say how it ended (EXE-4).
    pub(crate) fn ends_by_code(&self) -> bool {
        self.definition.spec.success_check == SuccessCheck::UserCode
    }

    /// The right under which its worker may start it unanswered, while that is not known to be over.
    pub(crate) fn right(&self) -> Option<&Right> {
        match &self.phase {
            Phase::Assigned { right, .. } => right.as_deref(),
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } | Phase::Granted(_) => None,
        }
    }

    /// What a process of it runs under, or may run under: what ends it is asked of its worker, and does not end it at once.
    pub(crate) fn running_as(&self) -> Option<(Token, Option<&Actor>)> {
        match &self.phase {
            Phase::Granted(grant) => Some((grant.token, grant.kill.as_ref())),
            Phase::Assigned { token, right: Some(right), .. } if !planted!(AssignedKillEndsAtOnce) => {
                Some((*token, right.kill.as_ref()))
            }
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } | Phase::Assigned { .. } => None,
        }
    }

    /// Who asked for its end, where a process of it runs or may run.
    pub(crate) fn kill(&self) -> Option<&Actor> {
        self.running_as().and_then(|(_, kill)| kill)
    }

    /// The token and worker that have it, started or not.
    pub(crate) fn holder(&self) -> Option<(Token, &WorkerId)> {
        match &self.phase {
            Phase::Assigned { token, worker, .. } => Some((*token, worker)),
            Phase::Granted(grant) => Some((grant.token, &grant.worker)),
            Phase::Waiting | Phase::Pausing { .. } | Phase::Ready { .. } => None,
        }
    }
}

impl WaitsFor {
    pub(crate) fn new(declared: Dependency) -> Self {
        let met = declared.times.iter().map(|time| declared.met.contains(time)).collect();
        Self { declared, met }
    }

    /// Of an ad-hoc job, whose parent had no batch yet: it waits for the first one.
    pub(crate) fn is_open(&self) -> bool {
        self.declared.times.is_empty() && self.declared.mapping == Mapping::Any
    }

    /// The parent's first batch is for this time.
    pub(crate) fn wait_for(&mut self, time: Timestamp) {
        self.declared.times.push(time);
        self.met = Box::new([false]);
    }

    pub(crate) fn is_satisfied(&self) -> bool {
        self.declared.is_satisfied(self.met.iter().filter(|met| **met).count())
    }

    /// The parent as the job declares it.
    pub(crate) fn parent(&self) -> Parent {
        Parent { job: self.declared.parent, mapping: self.declared.mapping }
    }

    pub(crate) fn position(&self, time: Timestamp) -> Option<usize> {
        self.declared.times.iter().position(|t| *t == time)
    }
}

/// The batches whose dependency number `index` includes some (parent, logical time).
pub(crate) type Waiter = (BatchId, u16);
