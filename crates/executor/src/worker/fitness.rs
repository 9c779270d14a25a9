//! EXE-1, MON-7, ZMB-2: what the worker's machine has, before something is started on it.
//!
//! The owner counts slots and reserved memory by heartbeats that it has read; what is so at the moment of a start is known here
//! alone. A batch for which the memory is not there goes back with the reason. Where the load is above its bound no work is taken at
//! all, until it is well below: then heartbeats say so, as of a full disk. The same holds where a process cannot be killed, for what
//! it hangs in (a file system, a disk) most likely stops what comes after it.

use std::collections::BTreeMap;

use tidemill_model::{Measure, RunSpec, Token, WorkerStatus};

use super::Worker;
use super::attempt::Attempt;

/// Tokens that a heartbeat lists.
const LISTED: usize = 100;

/// How fit the machine is, as far as the worker judges that itself.
#[derive(Debug, Default)]
pub(super) struct Fitness {
    /// Why the load is too high.
    overload: Option<String>,
    /// Processes that cannot be killed, by their attempts.
    stuck: BTreeMap<Token, String>,
    /// Memory that what was started since the last measure needs, MiB.
    started_mb: u32,
}

impl Fitness {
    fn why_stuck(&self) -> Option<String> {
        let (token, process) = self.stuck.first_key_value()?;
        let more = match self.stuck.len() - 1 {
            0 => String::new(),
            more => format!(", and of {more} more"),
        };
        Some(format!("{process} of attempt {token}{more} cannot be killed"))
    }
}

impl Worker {
    pub(super) fn measured(&mut self, measure: Measure) {
        self.measure = Some(measure);
        self.fitness.started_mb = 0;
        let most = self.setup.max_load_percent;
        // Well below, so that it does not come and go.
        let most = if self.fitness.overload.is_some() { most / 5 * 4 } else { most };
        let load = measure.load_percent;
        let is_over = most > 0 && load > most;
        if is_over == self.fitness.overload.is_some() {
            return;
        }
        let bound = self.setup.max_load_percent;
        self.fitness.overload = is_over.then(|| format!("its load is {load} %, and its bound is {bound} %"));
        self.say_fitness();
    }

    /// ZMB-2: its attempt has not ended, and will not until the process is gone or a person vouches for it.
    pub(super) fn stuck(&mut self, token: Token, process: String) {
        if self.attempts.get(token).is_some_and(Attempt::has_process) {
            self.fitness.stuck.insert(token, process);
            self.say_fitness();
        }
    }

    /// Nothing of this attempt is left.
    pub(super) fn goes(&mut self, token: Token) {
        if self.fitness.stuck.remove(&token).is_some() && self.fitness.stuck.is_empty() {
            self.say_fitness();
        }
    }

    /// Why no work can be taken.
    pub(super) fn why_unready(&self) -> Option<String> {
        self.unready.clone().or_else(|| self.fitness.why_stuck()).or_else(|| self.fitness.overload.clone())
    }

    /// What the machine lacks for this, for now.
    pub(super) fn lacks(&self, spec: &RunSpec) -> Option<String> {
        let why = self.fitness.why_stuck().or_else(|| self.fitness.overload.clone());
        if spec.ending.is_none() && why.is_some() {
            return why;
        }
        let (need, measure) = (spec.memory_mb?, self.measure?);
        let free = measure.memory_free_mb.saturating_sub(self.fitness.started_mb);
        (need > free).then(|| format!("it needs {need} MiB of memory, and {free} MiB are free"))
    }

    pub(super) fn note_started(&mut self, spec: &RunSpec) {
        self.fitness.started_mb = self.fitness.started_mb.saturating_add(spec.memory_mb.unwrap_or(0));
    }

    /// What a heartbeat says, for people.
    pub(super) fn status(&self) -> WorkerStatus {
        let held = self.attempts.tokens(|attempt| !matches!(attempt, Attempt::Ended(_)));
        let mut attempts = self.attempts.tokens(Attempt::has_process);
        let running = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        attempts.truncate(LISTED);
        let slots: u32 = self.setup.registration.slots.values().sum();
        let held = u32::try_from(held.len()).unwrap_or(u32::MAX);
        WorkerStatus { free_slots: slots.saturating_sub(held), running, attempts, sweep: self.sweep.clone() }
    }
}
