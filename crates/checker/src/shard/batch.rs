//! An unfinished batch.

use std::sync::Arc;

use tidemill_model::{
    AttemptResult, Dependency, Incarnation, JobId, Mapping, Nonce, Origin, TimeoutKind, Timestamp, Token,
    WorkerId,
};

use super::blocked::Blocker;
use super::external_dependencies::Needs;
use super::job::Version;
use super::life::excess::Over;
use super::life::external::External;
use super::life::lost_output::LostOutput;
use super::outputs::OwnParameters;
use super::rights::HeldRight;

#[derive(Clone, Debug)]
pub(super) struct Assignment {
    pub(super) token: Token,
    pub(super) worker: WorkerId,
    pub(super) incarnation: Option<Incarnation>,
    pub(super) attempt: u32,
    pub(super) start_by: Timestamp,
    /// The worker may start it before its question is answered.
    pub(super) right: Option<Box<HeldRight>>,
    pub(super) said: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// For its conditions, or for a worker.
    Waiting,
    /// For the worker to ask.
    Assigned(Assignment),
    /// A process may live, begun on the grant of this question.
    Granted { to: Assignment, nonce: Nonce, started: bool },
    /// An attempt has just ended.
    Ended { result: AttemptResult, exit_code: Option<i32>, at: Timestamp },
    /// For the next attempt.
    Pausing { until: Timestamp },
}

impl Phase {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Assigned(_) => "assigned",
            Phase::Granted { .. } => "running",
            Phase::Ended { .. } => "between an attempt and what follows it",
            Phase::Pausing { .. } => "pausing before its next attempt",
        }
    }

    /// The assignment that holds a place in the limits.
    pub(super) fn assignment(&self) -> Option<&Assignment> {
        match self {
            Phase::Assigned(assignment) | Phase::Granted { to: assignment, .. } => Some(assignment),
            Phase::Waiting | Phase::Ended { .. } | Phase::Pausing { .. } => None,
        }
    }
}

/// One declared parent, and which of its times are met.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) dependency: Dependency,
    pub(super) met: Vec<Timestamp>,
    /// The record of its batch counts it and does not list it.
    pub(super) is_counted: bool,
}

impl Waits {
    pub(super) fn of(dependency: &Dependency) -> Self {
        let met = dependency.met.clone();
        Self { dependency: Dependency { met: Vec::new(), ..dependency.clone() }, met, is_counted: false }
    }

    /// Of an ad-hoc job: it waits for the first batch of a parent that had none.
    pub(super) fn is_open(&self) -> bool {
        self.dependency.times.is_empty() && self.dependency.mapping == Mapping::Any
    }
}

#[derive(Debug)]
pub(super) struct Batch {
    pub(super) job: JobId,
    /// The definition it keeps; `None`: it was not known.
    pub(super) of: Option<Arc<Version>>,
    pub(super) time: Timestamp,
    pub(super) origin: Origin,
    pub(super) phase: Phase,
    /// Attempts that have ended.
    pub(super) attempts: u32,
    /// Those of them that use up no retry, the one among them that is about to end, and whether the last one was one.
    pub(super) interrupted: u32,
    pub(super) interrupting: Option<Token>,
    pub(super) was_interrupted: bool,
    pub(super) waits: Vec<Waits>,
    /// When a worker gave it back, if that was the last that became of an assignment.
    pub(super) rejected: Option<Timestamp>,
    /// The record that asks for its end.
    pub(super) kill: Option<u64>,
    pub(super) events: u32,
    /// Times that it has not been marked for; `None`: when that is, is not known here.
    pub(super) deadlines: Vec<(TimeoutKind, Option<Timestamp>)>,
    /// It is not assigned before.
    pub(super) earliest: Option<Timestamp>,
    /// Where its last attempt that has ended ran.
    pub(super) last_worker: Option<WorkerId>,
    /// Its attempt at hand has reported code 0.
    pub(super) zero: bool,
    /// What is on record of limits.
    pub(super) over: Over,
    /// What is on record of work that its attempts start elsewhere.
    pub(super) external: External,
    /// What is on record of the output of a lost one.
    pub(super) lost_output: LostOutput,
    /// When its attempt has run far longer than usual.
    pub(super) long_at: Option<Timestamp>,
    /// A timer of it could not be decided.
    pub(super) suspended: bool,
    /// The last record about it.
    pub(super) said: u64,
    /// By what it is blocked, and since when, as is on record.
    pub(super) blocked: Option<Blocker>,
    /// What it waits for besides parents.
    pub(super) needs: Needs,
    /// Those that only it has.
    pub(super) parameters: OwnParameters,
}

impl Batch {
    pub(super) fn unmet(&self) -> usize {
        self.waits.iter().filter(|waits| !self.is_satisfied(waits, &|time| waits.met.contains(time))).count()
    }

    /// Whether a parent keeps it back no more, given which of its times are met.
    pub(super) fn is_satisfied(&self, waits: &Waits, is_met: &dyn Fn(&Timestamp) -> bool) -> bool {
        let waived = |time: Option<Timestamp>| {
            let waivers = &self.needs.waived_parents;
            waivers.iter().any(|waiver| waiver.job == waits.dependency.parent && waiver.logical_time == time)
        };
        let met = waits.dependency.times.iter().filter(|time| is_met(time) || waived(Some(**time))).count();
        waits.dependency.is_satisfied(met) || waived(None)
    }

    /// Whether its templates may be impossible to resolve when it starts.
    pub(super) fn may_fail_at_start(&self) -> bool {
        self.of.as_ref().is_some_and(|of| self.parameters.may_fail(&of.templates))
    }

    /// The highest number of an attempt.
    pub(super) fn most_attempts(&self) -> u32 {
        let counted = |of: &Arc<Version>| of.spec().retries.saturating_add(1);
        let uncounted = self.interrupted.saturating_add(self.over.spared);
        self.of.as_ref().map_or(u32::MAX, |of| counted(of).saturating_add(uncounted))
    }
}
