//! BYD-4, C6: how long users and low priorities wait under full load, in a time that the test counts itself.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod kit;

use std::collections::BTreeMap;

use jiff::Timestamp;
use kit::{GROUP, Script, World};
use tidemill_model::{BatchId, Command, Event, Priority, Submission};

const SLOTS: u32 = 4;
const ATTEMPT_MS: i64 = 1_000;

/// A world, and when each batch was assigned first.
struct Watch {
    world: World,
    assigned: BTreeMap<BatchId, Timestamp>,
}

impl Watch {
    fn new(attempt_ms: i64) -> Self {
        let mut world = World::new();
        world.worker("w", SLOTS, Script::Take(attempt_ms));
        Self { world, assigned: BTreeMap::new() }
    }

    /// What was generated since the last look.
    fn look(&mut self) -> Vec<BatchId> {
        let mut generated = Vec::new();
        for event in self.world.events() {
            match event {
                Event::BatchGenerated { batch, .. } => generated.push(batch),
                Event::BatchAssigned { batch, .. } => {
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
            self.world.send(GROUP, Command::SubmitJob(Box::new(submission)));
        }
        self.world.run();
        self.look()
    }

    fn pass(&mut self, ms: i64) {
        self.world.pass_ms(ms);
        self.look();
    }
}

/// The wait that 99 of 100 of bob's batches do not pass, when ann has this many ready before him.
fn p99_beside(of_ann: usize) -> i64 {
    let mut watch = Watch::new(ATTEMPT_MS);
    watch.submit("ann", 5, of_ann);
    // Her batches have had all slots for a while when his come.
    (0..10).for_each(|_| watch.pass(ATTEMPT_MS));
    watch.pass(ATTEMPT_MS / 2);
    let begun = watch.world.wall;
    let of_bob = watch.submit("bob", 5, 100);
    assert_eq!(of_bob.len(), 100);
    while of_bob.iter().any(|batch| !watch.assigned.contains_key(batch)) {
        watch.pass(ATTEMPT_MS / 4);
        assert!(watch.world.wall.duration_since(begun).as_secs() < 600, "he starves");
    }
    let wait = |batch: &BatchId| watch.assigned[batch].duration_since(begun).as_millis() as i64;
    let mut waits: Vec<i64> = of_bob.iter().map(wait).collect();
    waits.sort_unstable();
    waits[98]
}

/// BYD-4, C6: of two users of equal priority, one with a flood of ready batches and one with 100, the second waits
/// at most twice as long as alone.
#[test]
fn a_user_beside_a_flood_waits_at_most_twice_as_long_as_alone() {
    let (alone, beside) = (p99_beside(0), p99_beside(1_500));
    assert!(alone >= 20 * ATTEMPT_MS, "without a queue there is nothing to share: {alone} ms");
    assert!(beside <= 2 * alone, "{beside} ms beside a flood, {alone} ms alone");
    assert!(beside > alone, "{beside} ms beside a flood, {alone} ms alone");
}

/// DSP-4, C6: a batch of priority 9 waits at most nine steps of ten minutes, the wait that priority 0 has itself, and
/// one attempt, while batches of priority 0 keep every slot taken.
#[test]
fn the_lowest_priority_starts_within_its_bound() {
    const MINUTE_MS: i64 = 60_000;
    const BACKLOG: usize = 8;
    let mut watch = Watch::new(MINUTE_MS);
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
