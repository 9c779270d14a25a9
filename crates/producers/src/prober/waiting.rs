//! Who waits for which path: shards know external dependencies, probers know questions.

use std::collections::{BTreeMap, HashMap};

use tidemill_model::{ExternalDependencyId, ShardId};
use tidemill_probe::{Event, Question, Urgency};

/// A path that batches of a shard wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The shard's number for it.
    pub external_dependency: ExternalDependencyId,
    /// How often what was known of it has been withdrawn. Answers name it.
    pub generation: u64,
    /// What is asked.
    pub question: Question,
    /// How much it matters.
    pub urgency: Urgency,
    /// Where it has grown, what was asked before does not count (DEP-9).
    pub nudge: u64,
}

/// What a shard is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Which external dependency.
    pub external_dependency: ExternalDependencyId,
    /// The generation that it had when the path was asked.
    pub generation: u64,
}

/// Who waits, and since which generation.
type Waiters = BTreeMap<(ShardId, ExternalDependencyId), Waiter>;

#[derive(Debug, Clone, Copy)]
struct Waiter {
    generation: u64,
    urgency: Urgency,
    nudge: u64,
}

/// Things by shard, and their waiters by question.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    shards: BTreeMap<ShardId, HashMap<ExternalDependencyId, Question>>,
    questions: HashMap<Question, Waiters>,
}

impl Waiting {
    /// Makes this the whole of what a shard waits for; what the schedule has to hear of it.
    pub(super) fn replace(&mut self, shard: ShardId, wanted: Vec<Wanted>) -> Vec<Event> {
        let mut before = self.shards.remove(&shard).unwrap_or_default();
        let mut now = HashMap::with_capacity(wanted.len());
        let mut events = Vec::new();
        for Wanted { external_dependency, generation, question, urgency, nudge } in wanted {
            match before.remove(&external_dependency) {
                // An external dependency is its path; but if it were not, the old one is no longer waited for.
                Some(old) if old != question => self.leave(shard, external_dependency, &old, &mut events),
                Some(_) | None => {}
            }
            let waiter = Waiter { generation, urgency, nudge };
            self.enter((shard, external_dependency), &question, waiter, &mut events);
            now.insert(external_dependency, question);
        }
        for (external_dependency, question) in before {
            self.leave(shard, external_dependency, &question, &mut events);
        }
        if !now.is_empty() {
            self.shards.insert(shard, now);
        }
        events
    }

    /// Keeps only the questions that `is_mine`; what the schedule has to hear of it.
    pub(super) fn retain(&mut self, is_mine: impl Fn(&Question) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        self.questions.retain(|question, _| {
            let stays = is_mine(question);
            if !stays {
                events.push(Event::Unwanted(question.clone()));
            }
            stays
        });
        for external_dependencies in self.shards.values_mut() {
            external_dependencies.retain(|_, question| is_mine(question));
        }
        self.shards.retain(|_, external_dependencies| !external_dependencies.is_empty());
        events
    }

    /// Who waits for this at the moment.
    pub(super) fn of(&self, question: &Question) -> Vec<(ShardId, Finding)> {
        let waiters = self.questions.get(question).into_iter().flatten();
        waiters
            .map(|(&(shard, external_dependency), waiter)| {
                (shard, Finding { external_dependency, generation: waiter.generation })
            })
            .collect()
    }

    /// Whether a shard still waits for this external dependency in this generation.
    pub(super) fn still(&self, shard: ShardId, finding: Finding) -> bool {
        let question = self
            .shards
            .get(&shard)
            .and_then(|external_dependencies| external_dependencies.get(&finding.external_dependency));
        let waiter = question
            .and_then(|question| self.questions.get(question)?.get(&(shard, finding.external_dependency)));
        waiter.is_some_and(|waiter| waiter.generation == finding.generation)
    }

    /// Whether anybody waits for this.
    pub(super) fn holds(&self, question: &Question) -> bool {
        self.questions.contains_key(question)
    }

    /// How many distinct questions are waited for.
    pub(super) fn len(&self) -> usize {
        self.questions.len()
    }

    /// How many things shards wait for.
    pub(super) fn external_dependencies(&self) -> usize {
        self.shards.values().map(HashMap::len).sum()
    }

    fn enter(
        &mut self,
        key: (ShardId, ExternalDependencyId),
        question: &Question,
        waiter: Waiter,
        out: &mut Vec<Event>,
    ) {
        let Some(waiters) = self.questions.get_mut(question) else {
            self.questions.insert(question.clone(), Waiters::from([(key, waiter)]));
            out.push(Event::Wanted(question.clone(), waiter.urgency));
            return;
        };
        let before = urgency(waiters);
        let old = waiters.insert(key, waiter);
        let now = urgency(waiters);
        if now != before {
            out.push(Event::Wanted(question.clone(), now.unwrap_or(waiter.urgency)));
        }
        // What was asked before does not count for whoever began to wait since.
        let is_news = old.is_none_or(|old| waiter.generation > old.generation || waiter.nudge > old.nudge);
        if is_news {
            out.push(Event::Again(question.clone()));
        }
    }

    fn leave(
        &mut self,
        shard: ShardId,
        external_dependency: ExternalDependencyId,
        question: &Question,
        out: &mut Vec<Event>,
    ) {
        let Some(waiters) = self.questions.get_mut(question) else { return };
        let before = urgency(waiters);
        waiters.remove(&(shard, external_dependency));
        match urgency(waiters) {
            None => {
                self.questions.remove(question);
                out.push(Event::Unwanted(question.clone()));
            }
            Some(now) if Some(now) != before => out.push(Event::Wanted(question.clone(), now)),
            Some(_) => {}
        }
    }
}

/// A path matters as much as to the one to whom it matters most.
fn urgency(waiters: &Waiters) -> Option<Urgency> {
    waiters.values().map(|waiter| waiter.urgency).max()
}
