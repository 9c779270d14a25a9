//! BYD-4, C6: how long users and low priorities wait under full load, in a time that the test counts itself.

use std::collections::BTreeMap;

use crate::kit::{GROUP, Script, World, job};
use serde_json::{Value, json};
use tidemill_model::{
    AttemptResult, BatchCommand, BatchEvent, BatchId, CatalogueCommand, Command, Event, JobId, PoolSpec,
    Priority, ShardId, Submission, Timestamp,
};

const SLOTS: u32 = 4;
const ATTEMPT_MS: i64 = 1_000;
const OF_BOB: usize = 100;

/// A world, and when each batch was assigned first.
struct Watch {
    world: World,
    assigned: BTreeMap<BatchId, Timestamp>,
}

impl Watch {
    fn new(slots: u32, script: Script) -> Self {
        let mut world = World::new();
        world.worker("w", slots, script);
        Self { world, assigned: BTreeMap::new() }
    }

    /// What was generated since the last look.
    fn look(&mut self) -> Vec<BatchId> {
        let mut generated = Vec::new();
        for event in self.world.events() {
            match event {
                Event::Batch(BatchEvent::Generated { batch, .. }) => generated.push(batch),
                Event::Batch(BatchEvent::Assigned { batch, .. }) => {
                    self.assigned.entry(batch).or_insert(self.world.wall);
                }
                _ => {}
            }
        }
        generated
    }

    fn submit(&mut self, owner: &str, priority: i64, count: usize) -> Vec<BatchId> {
        self.look();
        let priority = Priority::try_from(priority).unwrap();
        for _ in 0..count {
            let submission = World::submission("once", &[]);
            let submission = Submission { owner: owner.to_owned(), priority, ..submission };
            self.world.send(GROUP, Command::Batch(BatchCommand::SubmitJob(Box::new(submission))));
        }
        self.world.run();
        self.look()
    }

    fn pass(&mut self, ms: i64) {
        self.world.pass_ms(ms);
        self.look();
    }

    /// So many batches of a defined job, by hand.
    fn run_job(&mut self, job: JobId, count: usize) -> Vec<BatchId> {
        self.look();
        for second in 0..count as i64 {
            let logical_time =
                Some(crate::kit::at("2026-07-01T00:00:00.000Z") + jiff::SignedDuration::from_secs(second));
            self.world.send(
                GROUP,
                Command::Batch(BatchCommand::RunJob {
                    job,
                    logical_time,
                    parameters: BTreeMap::new(),
                    concurrent: true,
                }),
            );
        }
        self.world.run();
        self.look()
    }

    /// The wait from now on that 99 of 100 of these do not pass.
    fn p99_of(&mut self, batches: &[BatchId]) -> i64 {
        let begun = self.world.wall;
        self.look();
        while batches.iter().any(|batch| !self.assigned.contains_key(batch)) {
            self.pass(ATTEMPT_MS);
            assert!(self.world.wall.duration_since(begun).as_secs() < 600, "they starve");
        }
        let wait = |batch: &BatchId| self.assigned[batch].duration_since(begun).as_millis() as i64;
        let mut waits: Vec<i64> = batches.iter().map(wait).collect();
        waits.sort_unstable();
        waits[waits.len() * 99 / 100 - 1]
    }

    /// One slot becomes free.
    fn free_one(&mut self) {
        let worker = self.world.workers[0].id.clone();
        let (token, _) = self.world.played(&worker).running.pop_first().unwrap();
        let end = self.world.played(&worker).finished(token, AttemptResult::Success);
        self.world.say(end);
        self.look();
    }

    /// How many slots have to become free until all of these are assigned.
    fn releases_until_assigned(&mut self, batches: &[BatchId]) -> usize {
        for releases in 0..1_000 {
            if batches.iter().all(|batch| self.assigned.contains_key(batch)) {
                return releases;
            }
            self.free_one();
        }
        panic!("they starve");
    }
}

/// The wait that 99 of 100 of bob's batches do not pass, when ann has this many ready before him.
fn p99_beside(of_ann: usize, slots: u32) -> i64 {
    let mut watch = Watch::new(slots, Script::Take(ATTEMPT_MS));
    watch.submit("ann", 5, of_ann);
    // Her batches have had all slots for a while when his come.
    (0..10).for_each(|_| watch.pass(ATTEMPT_MS));
    let of_bob = watch.submit("bob", 5, OF_BOB);
    assert_eq!(of_bob.len(), OF_BOB);
    watch.p99_of(&of_bob)
}

/// BYD-4, C6: of two users of equal priority, one with a flood of ready batches and one with 100, the second waits
/// at most twice as long as alone. He comes when all slots have just been taken, which is the worst moment.
#[test]
fn a_user_beside_a_flood_waits_at_most_twice_as_long_as_alone() {
    for slots in [1, 4, 9, 10, 11, 20, 25, 32] {
        let (alone, beside) = (p99_beside(0, slots), p99_beside(10 * slots as usize + 300, slots));
        assert!(beside <= 2 * alone, "{slots} slots: {beside} ms beside a flood, {alone} ms alone");
        assert!(beside > alone, "{slots} slots: {beside} ms beside a flood, {alone} ms alone");
    }
}

/// The same, when both come before there is a worker, and so at one moment.
fn p99_together(of_ann: usize, slots: u32) -> i64 {
    let mut watch = Watch { world: World::new(), assigned: BTreeMap::new() };
    watch.submit("ann", 5, of_ann);
    let of_bob = watch.submit("bob", 5, OF_BOB);
    assert_eq!(of_bob.len(), OF_BOB);
    watch.world.worker("w", slots, Script::Take(ATTEMPT_MS));
    watch.p99_of(&of_bob)
}

/// BYD-4, C6: so it is where both come at the same moment.
#[test]
fn a_user_that_comes_with_a_flood_waits_at_most_twice_as_long_as_alone() {
    for slots in [1, 4, 9, 10, 11, 20, 25, 32] {
        let (alone, beside) = (p99_together(0, slots), p99_together(10 * slots as usize + 300, slots));
        assert!(beside <= 2 * alone, "{slots} slots: {beside} ms beside a flood, {alone} ms alone");
        assert!(beside > alone, "{slots} slots: {beside} ms beside a flood, {alone} ms alone");
    }
}

/// BYD-4, C6: ten slots are freed one by one, and bob's 100 batches have every second one of them at least.
#[test]
fn a_users_hundred_go_within_two_hundred_starts() {
    let mut watch = Watch::new(10, Script::Run);
    watch.submit("ann", 5, 500);
    let of_bob = watch.submit("bob", 5, OF_BOB);
    let releases = watch.releases_until_assigned(&of_bob);
    assert!((OF_BOB..=2 * OF_BOB).contains(&releases), "{releases}");
}

/// BYD-4, C6: the same where bob's batches need something else than ann's, so that they stand in another lane.
#[test]
fn turns_are_shared_whatever_batches_need() {
    let pool = |name: &str| PoolSpec {
        name: name.try_into().unwrap(),
        slots: 1_000,
        rate: None,
        group: Some(crate::kit::group("g")),
        comment: String::new(),
    };
    let needs: [(&str, Value, Value); 4] = [
        ("his host", json!({}), json!({"host": "host-w"})),
        ("her host", json!({"host": "host-w"}), json!({})),
        ("his pool", json!({}), json!({"pools": ["p"]})),
        ("pools", json!({"pools": ["p"]}), json!({"pools": ["p", "q"]})),
    ];
    for (what, of_ann, of_bob) in needs {
        let mut watch = Watch::new(10, Script::Run);
        for name in ["p", "q"] {
            watch.world.ask(
                ShardId::CATALOGUE,
                Command::Catalogue(CatalogueCommand::DefinePool { pool: Box::new(pool(name)) }),
            );
        }
        let of = |owner: &str, more: Value| {
            let mut more = more;
            more["owner"] = owner.into();
            more["max_concurrent"] = 1_000.into();
            job(owner, more)
        };
        let ids = watch.world.define(vec![of("ann", of_ann), of("bob", of_bob)]);
        watch.run_job(ids[0], 400);
        watch.world.pass_ms(1);
        let of_bob = watch.run_job(ids[1], OF_BOB);
        assert_eq!(of_bob.len(), OF_BOB);
        let releases = watch.releases_until_assigned(&of_bob);
        assert!((OF_BOB..=2 * OF_BOB).contains(&releases), "{what}: {releases}");
        assert_eq!(watch.world.partition, watch.world.folded());
    }
}

/// DSP-4, C6: a batch of priority 9 waits at most nine steps of ten minutes, the wait that priority 0 has itself, and
/// one attempt, while batches of priority 0 keep every slot taken.
#[test]
fn the_lowest_priority_starts_within_its_bound() {
    const MINUTE_MS: i64 = 60_000;
    const BACKLOG: usize = 8;
    let mut watch = Watch::new(SLOTS, Script::Take(MINUTE_MS));
    watch.submit("ann", 0, SLOTS as usize + BACKLOG);
    let low = watch.submit("bob", 9, 1)[0];
    let submitted = watch.world.wall;
    while !watch.assigned.contains_key(&low) {
        // As many come as there are slots: they are always full, and the queue stays as long as it is.
        watch.submit("ann", 0, SLOTS as usize);
        watch.pass(MINUTE_MS);
        assert!(watch.world.wall.duration_since(submitted).as_mins() < 200, "it starves");
    }
    let waited = watch.assigned[&low].duration_since(submitted).as_mins();
    let own_wait = (BACKLOG as i64) / i64::from(SLOTS);
    assert!((90..=90 + own_wait + 1).contains(&waited), "it waited {waited} minutes");
}

/// DSP-4, C6: the same bound in slots. Once a batch of priority 9 has waited for 90 minutes, only those of priority 0
/// go first that were ready by then, and whatever comes later does not.
#[test]
fn the_lowest_priority_is_passed_by_those_alone_that_were_there() {
    const BEFORE: usize = 40;
    let mut watch = Watch::new(SLOTS, Script::Run);
    watch.submit("ann", 0, SLOTS as usize);
    let low = watch.submit("bob", 9, 1);
    watch.world.pass_minutes(89);
    watch.submit("ann", 0, BEFORE);
    watch.world.pass_minutes(2);
    watch.submit("ann", 0, 500);
    assert_eq!(watch.releases_until_assigned(&low), BEFORE + 1);
}
