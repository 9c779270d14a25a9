//! Who goes next.
//!
//! ```text
//!  lane (type, host, needs) ─► class (priority) ─► owner ─► batches, by when they became ready
//! ```
//! Batches of one lane and class are alike to placement: what keeps one of them from a worker keeps all.
//!
//! Between classes goes first whose oldest batch has waited longest, with ten minutes for each step of priority.
//! So a batch of priority 0 passes everything of lower priority that is not much older, and one of priority 9
//! that has waited 90 minutes longer goes first: priority with ageing, in one number that never changes.
//!
//! Within a class owners take turns (BYD-4): each start moves an owner's turn on by one, and the lowest turn is
//! next. Who comes to a class, or comes back, stands at most [`CREDIT`] starts before those that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use tidemill_model::{BatchId, JobDefinition, JobType, PoolUse, Priority, WorkerLabel};

/// How much earlier one step of priority puts a batch, milliseconds.
const PRIORITY_STEP_MS: i64 = 600_000;
/// Starts by which an owner that had nothing to start may be ahead of those that had.
pub(crate) const CREDIT: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadyKey {
    rank_ms: i64,
    pub(crate) batch: BatchId,
}

impl ReadyKey {
    pub(crate) fn new(ready_at: Timestamp, priority: Priority, batch: BatchId) -> Self {
        let steps = i64::from(u8::from(priority));
        Self { rank_ms: ready_at.as_millisecond().saturating_add(steps * PRIORITY_STEP_MS), batch }
    }
}

/// Which slots a batch can use: those of one type, anywhere, on one host or of workers with a label, and what else
/// it needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) job_type: JobType,
    pub(crate) host: Option<Arc<str>>,
    pub(crate) memory_mb: u32,
    pub(crate) label: Option<WorkerLabel>,
    /// What it takes of pools, if it takes something.
    pub(crate) pools: Option<Arc<[PoolUse]>>,
}

impl Lane {
    pub(crate) fn of(definition: &JobDefinition) -> Self {
        let on_worker = !definition.job_type.is_anchor();
        let host = definition.host.as_deref().filter(|_| on_worker);
        let label = definition.execution.as_ref().and_then(|execution| execution.worker_group.clone());
        let label = label.filter(|_| on_worker);
        Self {
            job_type: definition.job_type.clone(),
            host: host.map(Arc::from),
            memory_mb: definition.memory_mb.unwrap_or(0),
            label,
            pools: (!definition.pools.is_empty()).then(|| definition.pools.as_slice().into()),
        }
    }
}

/// Ready batches that their jobs' limits admit, by lane.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Queue {
    lanes: BTreeMap<Lane, BTreeMap<Priority, Class>>,
    len: usize,
}

impl Queue {
    pub(crate) fn insert(&mut self, definition: &JobDefinition, key: ReadyKey) {
        let classes = self.lanes.entry(Lane::of(definition)).or_default();
        let class = classes.entry(definition.priority).or_insert_with(Class::new);
        self.len += usize::from(class.insert(&definition.owner, key));
    }

    /// Takes a batch out that is not to be started; whether it was there.
    pub(crate) fn remove(&mut self, definition: &JobDefinition, key: ReadyKey) -> bool {
        self.change(definition, |class| class.remove(&definition.owner, key))
    }

    /// Takes a batch out that is started, which is its owner's turn; whether it was there.
    pub(crate) fn start(&mut self, definition: &JobDefinition, key: ReadyKey) -> bool {
        self.change(definition, |class| {
            let was_there = class.remove(&definition.owner, key);
            if was_there {
                class.served(&definition.owner);
            }
            was_there
        })
    }

    fn change(&mut self, definition: &JobDefinition, change: impl FnOnce(&mut Class) -> bool) -> bool {
        let lane = Lane::of(definition);
        let Some(classes) = self.lanes.get_mut(&lane) else { return false };
        let Some(class) = classes.get_mut(&definition.priority) else { return false };
        let was_there = change(class);
        if class.ages.is_empty() {
            classes.remove(&definition.priority);
        }
        if classes.is_empty() {
            self.lanes.remove(&lane);
        }
        self.len -= usize::from(was_there);
        was_there
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = (&Lane, &BTreeMap<Priority, Class>)> {
        self.lanes.iter()
    }

    /// Any batch of a lane.
    pub(crate) fn first_of(&self, lane: &Lane) -> Option<ReadyKey> {
        self.lanes.get(lane)?.values().find_map(Class::oldest)
    }

    /// All of them, in no certain order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ReadyKey> + '_ {
        self.lanes
            .values()
            .flat_map(BTreeMap::values)
            .flat_map(|class| class.owners.values().flat_map(|owner| owner.ready.iter().copied()))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Ready batches of one lane and priority.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Class {
    /// The highest turn that was served.
    served: u64,
    owners: BTreeMap<Arc<str>, Owner>,
    /// Owners that have something ready, the next one first.
    turns: BTreeSet<(u64, ReadyKey, Arc<str>)>,
    /// The same, who waits longest first.
    ages: BTreeSet<(ReadyKey, Arc<str>)>,
    /// Owners that have nothing ready, and a turn that is not forgotten.
    idle: BTreeSet<(u64, Arc<str>)>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Owner {
    turn: u64,
    ready: BTreeSet<ReadyKey>,
}

impl Class {
    fn new() -> Self {
        Self {
            served: CREDIT,
            owners: BTreeMap::new(),
            turns: BTreeSet::new(),
            ages: BTreeSet::new(),
            idle: BTreeSet::new(),
        }
    }

    /// Who comes, or comes back, is not further ahead than the credit.
    fn earliest_turn(&self) -> u64 {
        self.served.saturating_sub(CREDIT)
    }

    fn insert(&mut self, owner: &str, key: ReadyKey) -> bool {
        let earliest = self.earliest_turn();
        let (name, before) = match self.owners.get_key_value(owner) {
            Some((name, known)) => (Arc::clone(name), known.ready.first().copied()),
            None => (Arc::from(owner), None),
        };
        let known = self.owners.entry(Arc::clone(&name)).or_default();
        if before.is_none() {
            self.idle.remove(&(known.turn, Arc::clone(&name)));
            known.turn = known.turn.max(earliest);
        }
        let is_new = known.ready.insert(key);
        if let Some(before) = before {
            if before <= key {
                return is_new;
            }
            self.turns.remove(&(known.turn, before, Arc::clone(&name)));
            self.ages.remove(&(before, Arc::clone(&name)));
        }
        self.turns.insert((known.turn, key, Arc::clone(&name)));
        self.ages.insert((key, name));
        is_new
    }

    fn remove(&mut self, owner: &str, key: ReadyKey) -> bool {
        let Some((name, _)) = self.owners.get_key_value(owner) else { return false };
        let name = Arc::clone(name);
        let Some(known) = self.owners.get_mut(owner) else { return false };
        let Some(before) = known.ready.first().copied() else { return false };
        if !known.ready.remove(&key) {
            return false;
        }
        if before == key {
            self.turns.remove(&(known.turn, key, Arc::clone(&name)));
            self.ages.remove(&(key, Arc::clone(&name)));
            match known.ready.first().copied() {
                Some(next) => {
                    self.turns.insert((known.turn, next, Arc::clone(&name)));
                    self.ages.insert((next, name));
                }
                None => {
                    self.idle.insert((known.turn, name));
                }
            }
        }
        true
    }

    /// One of the owner's batches has been started.
    fn served(&mut self, owner: &str) {
        let Some((name, known)) = self.owners.get_key_value(owner) else { return };
        let (name, turn, head) = (Arc::clone(name), known.turn, known.ready.first().copied());
        self.served = self.served.max(turn);
        match head {
            Some(head) => {
                self.turns.remove(&(turn, head, Arc::clone(&name)));
                self.turns.insert((turn + 1, head, Arc::clone(&name)));
            }
            None => {
                self.idle.remove(&(turn, Arc::clone(&name)));
                self.idle.insert((turn + 1, Arc::clone(&name)));
            }
        }
        if let Some(known) = self.owners.get_mut(owner) {
            known.turn = turn + 1;
        }
        // What a newcomer gets anyway need not be known.
        while let Some((turn, name)) = self.idle.first().cloned()
            && turn <= self.earliest_turn()
        {
            self.idle.remove(&(turn, Arc::clone(&name)));
            self.owners.remove(&name);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.owners.values().map(|owner| owner.ready.len()).sum()
    }

    /// Who waits longest.
    pub(crate) fn oldest(&self) -> Option<ReadyKey> {
        self.ages.first().map(|(key, _)| *key)
    }

    /// In the order in which they would be started if no turn moved on, at most `each` of an owner.
    pub(crate) fn by_turn(&self, each: usize) -> impl Iterator<Item = ReadyKey> + '_ {
        let owners = self.turns.iter().filter_map(|(_, _, name)| self.owners.get(name));
        owners.flat_map(move |owner| owner.ready.iter().copied().take(each))
    }

    /// Owners that go before this batch's, and batches of all owners together.
    #[cfg(test)]
    fn order(&self) -> Vec<BatchId> {
        let mut class = self.clone();
        let mut order = Vec::new();
        while let Some((_, key, name)) = class.turns.first().cloned() {
            class.remove(&name, key);
            class.served(&name);
            order.push(key.batch);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: i64) -> ReadyKey {
        ReadyKey { rank_ms: n, batch: BatchId(n) }
    }

    fn class(owners: &[(&str, std::ops::Range<i64>)]) -> Class {
        let mut class = Class::new();
        for (owner, keys) in owners {
            keys.clone().for_each(|n| assert!(class.insert(owner, key(n))));
        }
        class
    }

    /// BYD-4: of two owners each gets every second start, however many batches the other has.
    #[test]
    fn owners_take_turns() {
        let order: Vec<i64> =
            class(&[("a", 0..6), ("b", 100..103)]).order().iter().map(|batch| batch.0).collect();
        assert_eq!(order, [0, 100, 1, 101, 2, 102, 3, 4, 5]);
    }

    /// BYD-4: one owner alone goes by age.
    #[test]
    fn a_single_owner_goes_by_age() {
        let mut alone = Class::new();
        [3, 1, 2].into_iter().for_each(|n| assert!(alone.insert("a", key(n))));
        assert_eq!(alone.order(), [1, 2, 3].map(BatchId));
    }

    /// BYD-4: who comes late is ahead by the credit, and no more.
    #[test]
    fn a_newcomer_is_ahead_by_its_credit() {
        let mut class = class(&[("a", 0..1_000)]);
        for n in 0..500 {
            assert!(class.remove("a", key(n)));
            class.served("a");
        }
        (2_000..2_100).for_each(|n| assert!(class.insert("b", key(n))));
        let first: Vec<bool> = class.order().iter().take(40).map(|batch| batch.0 >= 2_000).collect();
        let ahead = first.iter().take_while(|of_b| **of_b).count();
        assert!((CREDIT as usize..=CREDIT as usize + 2).contains(&ahead), "{ahead}");
        assert_eq!(first[ahead..].iter().filter(|of_b| **of_b).count(), (40 - ahead) / 2);
    }

    /// BYD-4: who goes and comes back at once gains nothing by it; what need not be known is forgotten.
    #[test]
    fn coming_back_gains_nothing() {
        let mut class = class(&[("a", 0..1_000)]);
        let mut of_b = 0;
        for round in 0..400 {
            class.insert("b", key(5_000 + round));
            let (_, next, name) = class.turns.first().cloned().unwrap();
            class.remove(&name, next);
            class.served(&name);
            of_b += i32::from(&*name == "b");
            if class.owners.get("b").is_some_and(|b| !b.ready.is_empty()) {
                let left = *class.owners["b"].ready.first().unwrap();
                class.remove("b", left);
            }
        }
        assert!((200..=200 + CREDIT as i32 + 2).contains(&of_b), "{of_b}");
        let mut many = Class::new();
        many.insert("a", key(0));
        for n in 1..1_000 {
            let owner = format!("o{n}");
            many.insert(&owner, key(n));
            many.remove(&owner, key(n));
            many.served(&owner);
            many.insert("a", key(10_000 + n));
            many.remove("a", key(10_000 + n));
            many.served("a");
        }
        assert!(many.owners.len() < 3 * CREDIT as usize, "{} owners are remembered", many.owners.len());
    }

    #[test]
    fn the_queue_counts_what_it_holds() {
        let mut queue = Queue::default();
        assert_eq!(queue.len(), 0);
        assert!(queue.keys().next().is_none());
        let definition: JobDefinition = serde_json::from_value(serde_json::json!({
            "id": 4096, "version": 1, "group": "g", "group_id": 1, "name": "a", "type": "noop", "program": "none",
            "priority": 5, "max_concurrent": 1, "retries": 0, "retry_interval_ms": 0,
        }))
        .unwrap();
        queue.insert(&definition, key(1));
        queue.insert(&definition, key(2));
        assert_eq!(queue.len(), 2);
        assert!(queue.start(&definition, key(1)));
        assert!(!queue.remove(&definition, key(1)));
        assert!(queue.remove(&definition, key(2)));
        assert_eq!(queue, Queue::default());
    }
}
