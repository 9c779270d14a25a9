//! Who goes next.
//!
//! ```text
//!  lane (type, host, needs) ─► class (priority) ─► owner ─► batches, by when they became ready
//! ```
//! Batches of one lane and class are alike to placement: what keeps one of them from a worker keeps all.
//!
//! Between priorities goes first whose oldest batch has waited longest, with ten minutes for each step of priority.
//! So a batch of priority 0 passes everything of lower priority that is not much older, and one of priority 9
//! that has waited 90 minutes longer goes first: priority with ageing, in one number that never changes.
//!
//! Classes of one type and priority, whatever else they need, share their owners' [`Turns`]: the owner with the
//! lowest turn is next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{BatchId, JobDefinition, JobSpec, JobType, PoolUse, Priority, Timestamp, WorkerLabel};

use crate::group::placement::turns::{Came, Turns};

/// How much earlier one step of priority puts a batch, milliseconds.
const PRIORITY_STEP_MS: i64 = 600_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Stored)]
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Stored)]
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
        let on_worker = !definition.spec.job_type.is_anchor();
        let host = definition.spec.host.as_deref().filter(|_| on_worker);
        let label = definition.spec.worker_label.clone().filter(|_| on_worker);
        Self {
            job_type: definition.spec.job_type.clone(),
            host: host.map(Arc::from),
            memory_mb: definition.spec.memory_mb.unwrap_or(0),
            label,
            pools: (!definition.spec.pools.is_empty()).then(|| definition.spec.pools.as_slice().into()),
        }
    }

    /// The first of this type, in their order.
    pub(crate) fn first(job_type: JobType) -> Self {
        Self { job_type, host: None, memory_mb: 0, label: None, pools: None }
    }
}

/// Ready batches that their jobs' limits admit, by lane.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Queue {
    lanes: BTreeMap<Lane, BTreeMap<Priority, Class>>,
    turns: BTreeMap<(JobType, Priority), Turns>,
    len: usize,
}

impl Queue {
    pub(crate) fn insert(&mut self, definition: &JobDefinition, key: ReadyKey) {
        let lane = Lane::of(definition);
        let turns = self.turns.entry((lane.job_type.clone(), definition.spec.priority)).or_default();
        let Came { name, turn, is_moved } = turns.comes(&definition.spec.owner);
        if is_moved {
            self.move_on(definition, turn);
        }
        let class = self.lanes.entry(lane).or_default().entry(definition.spec.priority).or_default();
        if class.insert(name, turn, key) {
            self.len += 1;
        } else {
            self.goes(definition);
        }
    }

    /// Takes a batch out that is not to be started; whether it was there.
    pub(crate) fn remove(&mut self, definition: &JobDefinition, key: ReadyKey) -> bool {
        let lane = Lane::of(definition);
        let Some(classes) = self.lanes.get_mut(&lane) else { return false };
        let Some(class) = classes.get_mut(&definition.spec.priority) else { return false };
        if !class.remove(&definition.spec.owner, key) {
            return false;
        }
        self.len -= 1;
        if class.owners.is_empty() {
            classes.remove(&definition.spec.priority);
        }
        if classes.is_empty() {
            self.lanes.remove(&lane);
        }
        self.goes(definition);
        true
    }

    /// One batch of its owner is not ready any more. Turns are kept while something is.
    fn goes(&mut self, definition: &JobDefinition) {
        let key = (definition.spec.job_type.clone(), definition.spec.priority);
        let Some(turns) = self.turns.get_mut(&key) else { return };
        turns.goes(&definition.spec.owner);
        if turns.is_empty() {
            self.turns.remove(&key);
        }
    }

    /// Takes a batch out that is started, which is its owner's turn; whether it was there.
    pub(crate) fn start(&mut self, definition: &JobDefinition, key: ReadyKey) -> bool {
        if !self.remove(definition, key) {
            return false;
        }
        let turns = self.turns.get_mut(&(definition.spec.job_type.clone(), definition.spec.priority));
        if let Some(turn) = turns.and_then(|turns| turns.served(&definition.spec.owner)) {
            self.move_on(definition, turn);
        }
        true
    }

    /// The owner's turn moves on, in every class where something of it is ready.
    fn move_on(&mut self, definition: &JobDefinition, turn: u64) {
        let JobSpec { job_type, priority, owner, .. } = &definition.spec;
        let lanes = self.lanes.range_mut(Lane::first(job_type.clone())..);
        let of_type = lanes.take_while(|(lane, _)| lane.job_type == *job_type);
        for class in of_type.filter_map(|(_, classes)| classes.get_mut(priority)) {
            class.move_on(owner, turn);
        }
    }

    /// Classes of one type and priority, which share their turns.
    pub(crate) fn sharing(
        &self,
        job_type: &JobType,
        priority: Priority,
    ) -> impl Iterator<Item = (&Lane, &Class)> {
        let of_type = self.lanes.range(Lane::first(job_type.clone())..);
        let of_type = of_type.take_while(move |(lane, _)| lane.job_type == *job_type);
        of_type.filter_map(move |(lane, classes)| Some((lane, classes.get(&priority)?)))
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = (&Lane, &BTreeMap<Priority, Class>)> {
        self.lanes.iter()
    }

    pub(crate) fn first_of(&self, lane: &Lane) -> Option<ReadyKey> {
        self.lanes.get(lane)?.values().find_map(Class::oldest)
    }

    /// All of them, in no certain order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ReadyKey> + '_ {
        let owners = self.lanes.values().flatten().flat_map(|(_, class)| class.owners.values());
        owners.flat_map(|owner| owner.ready.iter().copied())
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Class {
    /// Those that have something ready here.
    owners: BTreeMap<Arc<str>, Owner>,
    /// The next one first.
    turns: BTreeSet<(u64, ReadyKey, Arc<str>)>,
    /// Who waits longest first.
    ages: BTreeSet<(ReadyKey, Arc<str>)>,
}

#[derive(Debug, Clone, PartialEq, Default, Stored)]
struct Owner {
    turn: u64,
    ready: BTreeSet<ReadyKey>,
}

impl Class {
    fn insert(&mut self, name: Arc<str>, turn: u64, key: ReadyKey) -> bool {
        let known = self.owners.entry(Arc::clone(&name)).or_default();
        known.turn = turn;
        let before = known.ready.first().copied();
        let is_new = known.ready.insert(key);
        if let Some(before) = before {
            if before <= key {
                return is_new;
            }
            self.turns.remove(&(turn, before, Arc::clone(&name)));
            self.ages.remove(&(before, Arc::clone(&name)));
        }
        self.turns.insert((turn, key, Arc::clone(&name)));
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
                    self.owners.remove(&name);
                }
            }
        }
        true
    }

    fn move_on(&mut self, owner: &str, turn: u64) {
        let Some((name, known)) = self.owners.get_key_value(owner) else { return };
        let (name, before, head) = (Arc::clone(name), known.turn, known.ready.first().copied());
        if let Some(head) = head {
            self.turns.remove(&(before, head, Arc::clone(&name)));
            self.turns.insert((turn, head, name));
        }
        if let Some(known) = self.owners.get_mut(owner) {
            known.turn = turn;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.owners.values().map(|owner| owner.ready.len()).sum()
    }

    pub(crate) fn oldest(&self) -> Option<ReadyKey> {
        self.ages.first().map(|(key, _)| *key)
    }

    /// The lowest turn, and who waits longest of its owner.
    pub(crate) fn next_turn(&self) -> Option<(u64, ReadyKey)> {
        self.turns.first().map(|(turn, key, _)| (*turn, *key))
    }

    /// In the order in which they would be started if no turn moved on, at most `each` of an owner.
    pub(crate) fn by_turn(&self, each: usize) -> impl Iterator<Item = (u64, ReadyKey)> + '_ {
        let owners = self.turns.iter().filter_map(|(turn, _, name)| Some((*turn, self.owners.get(name)?)));
        owners.flat_map(move |(turn, owner)| owner.ready.iter().take(each).map(move |key| (turn, *key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: i64) -> ReadyKey {
        ReadyKey { rank_ms: n, batch: BatchId(n) }
    }

    fn definition(owner: &str, more: &[(&str, serde_json::Value)]) -> JobDefinition {
        let mut value = serde_json::json!({
            "id": 4096, "version": 1, "group_id": 1,
            "spec": {"group": "g", "name": "a", "type": "noop", "owner": owner},
        });
        for (field, content) in more {
            value["spec"][*field] = content.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    fn queue(owners: &[(&JobDefinition, std::ops::Range<i64>)]) -> Queue {
        let mut queue = Queue::default();
        for (definition, keys) in owners {
            keys.clone().for_each(|n| queue.insert(definition, key(n)));
        }
        queue
    }

    /// The owner whose turn it is in all classes that share turns with the first, and its next batch: started.
    fn start_next(queue: &mut Queue, known: &[&JobDefinition]) -> Option<i64> {
        let classes = queue.sharing(&known[0].spec.job_type, known[0].spec.priority);
        let (_, next) = classes.filter_map(|(_, class)| class.next_turn()).min()?;
        assert!(known.iter().any(|definition| queue.start(definition, next)));
        Some(next.batch.0)
    }

    fn order(mut queue: Queue, known: &[&JobDefinition]) -> Vec<i64> {
        std::iter::from_fn(|| start_next(&mut queue, known)).collect()
    }

    /// BYD-4: of two owners each gets every second start, however many batches the other has.
    #[test]
    fn owners_take_turns() {
        let (a, b) = (definition("a", &[]), definition("b", &[]));
        let order = order(queue(&[(&a, 0..6), (&b, 100..103)]), &[&a, &b]);
        assert_eq!(order, [0, 100, 1, 101, 2, 102, 3, 4, 5]);
    }

    /// BYD-4: they do so too where one's batches need something that the other's do not, and where one has several
    /// kinds of them.
    #[test]
    fn owners_take_turns_whatever_their_batches_need() {
        let (a, b) = (definition("a", &[]), definition("b", &[("host", "h".into())]));
        let order_of = |owners: &[(&JobDefinition, std::ops::Range<i64>)], known: &[&JobDefinition]| {
            order(queue(owners), known)
        };
        assert_eq!(order_of(&[(&a, 0..6), (&b, 100..103)], &[&a, &b]), [0, 100, 1, 101, 2, 102, 3, 4, 5]);
        let large = definition("a", &[("memory_mb", 1_024.into())]);
        let mixed = order_of(&[(&a, 0..3), (&large, 10..13), (&b, 100..106)], &[&a, &large, &b]);
        assert_eq!(mixed, [0, 100, 1, 101, 2, 102, 10, 103, 11, 104, 12, 105]);
    }

    /// BYD-4: a flood loses its head start in every class where something of it is ready.
    #[test]
    fn a_flood_has_no_head_start_whatever_its_batches_need() {
        let (a, b) = (definition("a", &[]), definition("b", &[]));
        let large = definition("a", &[("memory_mb", 1_024.into())]);
        let flood = (crate::group::placement::turns::FEW as i64) + 1;
        let queue = queue(&[(&a, 0..2), (&large, 1_000..1_000 + flood), (&b, 10_000..10_100)]);
        let order = order(queue, &[&a, &large, &b]);
        assert!(order[..64].iter().all(|n| *n >= 10_000), "{order:?}");
        assert_eq!(order[64..70].iter().filter(|n| **n >= 10_000).count(), 3, "{order:?}");
    }

    /// BYD-4: one owner alone goes by age.
    #[test]
    fn a_single_owner_goes_by_age() {
        let a = definition("a", &[]);
        let mut alone = Queue::default();
        [3, 1, 2].into_iter().for_each(|n| alone.insert(&a, key(n)));
        assert_eq!(order(alone, &[&a]), [1, 2, 3]);
    }

    #[test]
    fn the_queue_counts_what_it_holds() {
        let (mut queue, definition) = (Queue::default(), definition("a", &[]));
        assert_eq!(queue.len(), 0);
        assert!(queue.keys().next().is_none());
        queue.insert(&definition, key(1));
        queue.insert(&definition, key(2));
        queue.insert(&definition, key(2));
        assert_eq!(queue.len(), 2);
        assert!(queue.start(&definition, key(1)));
        assert!(!queue.remove(&definition, key(1)));
        assert!(queue.remove(&definition, key(2)));
        assert_eq!(queue, Queue::default());
    }
}
