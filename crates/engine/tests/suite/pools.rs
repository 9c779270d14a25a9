//! BYD-4: pools and rates across jobs, in one group and across groups.

use crate::kit::{GROUP, Script, World, job, rejection};
use expect_test::expect;
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;
use tidemill_model::{
    AttemptResult, BatchCommand, BatchEvent, BatchId, CatalogueCommand, Command, Event, GroupSettings,
    JobCommand, JobId, LiveAnswer, LiveQuery, Outcome, PoolHolder, PoolSpec, Rate, ShardId,
};

const OTHER: ShardId = ShardId(2);

fn pool(name: &str, slots: u32, group: Option<&str>) -> PoolSpec {
    let group = group.map(|name| name.try_into().unwrap());
    PoolSpec { name: name.try_into().unwrap(), slots, rate: None, group, comment: String::new() }
}

fn rated(starts: u32, pool: PoolSpec) -> PoolSpec {
    PoolSpec { rate: Some(Rate { starts, interval_s: 60 }), ..pool }
}

fn define(world: &mut World, pool: PoolSpec) -> Outcome {
    world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::DefinePool { pool: Box::new(pool) }))
}

fn remove(world: &mut World, name: &str) -> Outcome {
    world.ask(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::DeletePool { name: name.try_into().unwrap() }),
    )
}

fn many(world: &mut World, shard: ShardId, job: JobId, count: u32) -> Vec<BatchId> {
    world.events();
    for minute in 0..count {
        let logical_time = Some(crate::kit::at(&format!("2026-07-01T00:{minute:02}:00.000Z")));
        world.send(
            shard,
            Command::Batch(BatchCommand::RunJob {
                job,
                logical_time,
                parameters: Default::default(),
                concurrent: true,
            }),
        );
    }
    world.run();
    let generated = world.events().into_iter().filter_map(|event| match event {
        Event::Batch(BatchEvent::Generated { batch, .. }) => Some(batch),
        _ => None,
    });
    generated.collect()
}

fn running(world: &World, worker: &str) -> usize {
    world.workers.iter().filter(|known| known.id.as_str() == worker).map(|known| known.running.len()).sum()
}

fn end_one(world: &mut World, worker: &str) -> bool {
    let Some(known) = world.workers.iter_mut().find(|known| known.id.as_str() == worker) else {
        return false;
    };
    let Some((token, _)) = known.running.pop_first() else { return false };
    let (end, shard) = (known.finished(token, AttemptResult::Success), known.shard);
    world.send(shard, end);
    world.run();
    true
}

fn holders(world: &World, name: &str) -> Vec<PoolHolder> {
    let name = name.try_into().unwrap();
    match world.partition.answer(ShardId::CATALOGUE, &LiveQuery::Pool { name }) {
        LiveAnswer::Pool { holders } => holders,
        other => panic!("{other:?}"),
    }
}

/// BYD-4: all jobs that use a pool share its slots, each batch takes what it needs; *why* says who has them.
#[test]
fn a_pool_bounds_all_jobs_that_use_it() {
    let mut world = World::new();
    define(&mut world, pool("few", 3, Some("g")));
    let ids = world.define(vec![
        job("a", json!({"pools": ["few"], "max_concurrent": 9})),
        job("b", json!({"pools": [{"name": "few", "weight": 2}], "max_concurrent": 9})),
        job("free", json!({})),
    ]);
    world.worker("w", 100, Script::Run);
    let of_a = many(&mut world, GROUP, ids[0], 2);
    let of_b = many(&mut world, GROUP, ids[1], 1);
    assert_eq!(running(&world, "w"), 2);
    let why = world.why(of_b[0]);
    assert_eq!(why.len(), 1, "slots of the worker are free: {why:?}");
    let held = format!("few is held by batch {} of g/a (1), batch {} of g/a (1)", of_a[0], of_a[1]);
    assert_eq!(why[0].message, format!("pool few: 2 of 3 slots are taken and it needs 2; {held}"));
    world.pass_ms(1);
    let late = world.batch(ids[0], Some("2026-07-01T09:00:00.000Z"));
    assert_eq!(world.why_kinds(late), ["pool"], "one slot is left, and who needs two has waited longer");
    world.batch(ids[2], None);
    assert_eq!(running(&world, "w"), 3, "what uses no pool is not concerned");
    end_one(&mut world, "w");
    assert_eq!(world.why_kinds(of_b[0]), Vec::<String>::new());
    assert_eq!(world.why_kinds(late), ["pool"]);
    assert_eq!(world.partition, world.folded());
}

/// BYD-4: what no worker takes holds no permits that others wait for, whether it lacks a label, a host or memory; a
/// worker that takes it brings it its turn.
#[test]
fn what_no_worker_takes_holds_no_permits() {
    let lacking =
        [json!({"worker_label": "gpu"}), json!({"host": "elsewhere"}), json!({"memory_mb": 100_000})];
    for lacks in lacking {
        let mut world = World::new();
        define(&mut world, pool("both", 2, None));
        let mut kept = json!({"pools": [{"name": "both", "weight": 2}]});
        kept.as_object_mut().unwrap().extend(lacks.as_object().unwrap().clone());
        let ids = world.define(vec![job("kept", kept), job("goes", json!({"pools": ["both"]}))]);
        world.worker("w", 4, Script::Run);
        let kept = world.batch(ids[0], None);
        let goes = world.batch(ids[1], None);
        assert_eq!(world.why_kinds(goes), Vec::<String>::new(), "{lacks}: it runs");
        assert_eq!(world.why_kinds(kept).len(), 1, "{lacks}: {:?}", world.why(kept));
        assert_eq!(running(&world, "w"), 1);
        assert_eq!(world.partition, world.folded());
    }
}

/// BYD-4: lowered slots take nothing away from what runs, and let nothing start until there is room.
#[test]
fn a_lowered_limit_takes_nothing_away() {
    for group in [Some("g"), None] {
        let mut world = World::new();
        define(&mut world, pool("few", 3, group));
        let ids = world.define(vec![job("a", json!({"pools": ["few"], "max_concurrent": 99}))]);
        world.worker("w", 100, Script::Run);
        many(&mut world, GROUP, ids[0], 8);
        assert_eq!(running(&world, "w"), 3);
        define(&mut world, pool("few", 1, group));
        assert_eq!(running(&world, "w"), 3, "{group:?}");
        for expected in [2, 1, 1, 1] {
            assert!(end_one(&mut world, "w"));
            assert_eq!(running(&world, "w"), expected, "{group:?}");
        }
        define(&mut world, pool("few", 2, group));
        assert_eq!(running(&world, "w"), 2);
        while end_one(&mut world, "w") {}
        assert_eq!((world.unfinished(), holders(&world, "few")), (0, Vec::new()));
        assert_eq!(world.partition, world.folded());
    }
}

/// BYD-4: at most n starts in any interval, of a group or of all; *why* says when it may go on in its group, and it
/// does then, by itself.
#[test]
fn a_rate_lets_so_many_start_in_any_interval() {
    for group in [Some("g"), None] {
        let mut world = World::new();
        define(&mut world, rated(2, pool("slow", 100, group)));
        let ids = world.define(vec![job("a", json!({"pools": ["slow"], "max_concurrent": 99}))]);
        world.worker("w", 100, Script::Succeed);
        let batches = many(&mut world, GROUP, ids[0], 5);
        assert_eq!(world.unfinished(), 3, "{group:?}");
        let why = world.why(batches[4]);
        if group.is_some() {
            expect![
                "rate_limit: pool slow: 2 have started in 60 s; it may go on at 2026-07-01T10:11:00.000Z"
            ]
            .assert_eq(&format!("{}: {}", why[0].kind, why[0].message));
        }
        assert_eq!(world.partition.next_timer(), Some(world.wall + SignedDuration::from_mins(1)));
        world.pass_ms(59_999);
        assert_eq!(world.unfinished(), 3);
        world.pass_ms(1);
        assert_eq!(world.unfinished(), 1, "{group:?}");
        world.pass_minutes(1);
        assert_eq!((world.unfinished(), world.partition.next_timer()), (0, None));
        world.pass_minutes(5);
        many(&mut world, GROUP, ids[0], 1);
        assert_eq!(world.unfinished(), 0, "what started long ago does not count");
        assert_eq!(world.partition, world.folded());
    }
}

fn two_groups(spec: PoolSpec) -> (World, [JobId; 2]) {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    let name = spec.name.to_string();
    define(&mut world, spec);
    let uses = |group: &str| json!({"group": group, "pools": [name], "max_concurrent": 99});
    let ids = world.define(vec![job("a", uses("g")), job("b", uses("h"))]);
    world.worker("w", 100, Script::Run);
    world.worker_of("h", OTHER, "x", 100);
    (world, [ids[0], ids[1]])
}

/// BYD-4: a pool that groups share is never above its slots; what gets free goes to whom has waited longer; afterwards
/// all of it is back.
#[test]
fn groups_share_a_pool_to_its_slots() {
    let (mut world, ids) = two_groups(pool("all", 4, None));
    many(&mut world, GROUP, ids[0], 12);
    assert_eq!((running(&world, "w"), running(&world, "x")), (4, 0), "alone it has all of it");
    let waiting = many(&mut world, OTHER, ids[1], 12);
    assert_eq!(running(&world, "w") + running(&world, "x"), 4);
    let why = &world.why_of(OTHER, waiting[0])[0];
    assert_eq!((why.kind.as_str(), why.pools[0].as_str()), ("pool", "all"));
    let held: Vec<(String, u64)> =
        holders(&world, "all").iter().map(|holder| (holder.group.to_string(), holder.slots)).collect();
    assert_eq!(held, [("g".to_owned(), 4)]);
    let (mut ended, mut of_h) = (0, 0);
    while end_one(&mut world, "w") | end_one(&mut world, "x") {
        ended += 1;
        of_h = of_h.max(running(&world, "x"));
        assert!(running(&world, "w") + running(&world, "x") <= 4);
        assert!(ended < 100);
    }
    assert!(of_h >= 2, "the other group got its part: {of_h}");
    assert_eq!((world.unfinished(), holders(&world, "all")), (0, Vec::new()));
    assert!(matches!(world.partition.group(OTHER).map(|g| g.unfinished_batches()), Some(0)));
    assert_eq!(world.partition, world.folded());
}

/// BYD-4: where there is one slot for two groups, they take turns.
#[test]
fn one_slot_goes_to_and_fro() {
    let (mut world, ids) = two_groups(pool("all", 1, None));
    many(&mut world, GROUP, ids[0], 4);
    many(&mut world, OTHER, ids[1], 4);
    let mut order = String::new();
    while order.len() < 8 {
        let (of_g, of_h) = (running(&world, "w"), running(&world, "x"));
        assert_eq!(of_g + of_h, 1, "{order}");
        order += if of_g == 1 { "g" } else { "h" };
        end_one(&mut world, if of_g == 1 { "w" } else { "x" });
    }
    assert!(order.contains("ghgh"), "{order}");
    assert_eq!(world.partition, world.folded());
}

/// BYD-4: a rate across groups counts the starts of all of them.
#[test]
fn groups_share_a_rate() {
    let (mut world, ids) = two_groups(rated(3, pool("slow", 100, None)));
    many(&mut world, GROUP, ids[0], 5);
    many(&mut world, OTHER, ids[1], 5);
    for expected in [3, 6, 9, 10] {
        assert_eq!(running(&world, "w") + running(&world, "x"), expected);
        world.pass_minutes(1);
    }
    assert_eq!(world.partition, world.folded());
}

/// BYD-4: two jobs that need the same two pools, in any order, each of its group, never wait for one another for
/// ever; a set of pools is given at once or not at all.
#[test]
fn sets_of_pools_do_not_lock_each_other() {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    define(&mut world, pool("one", 1, None));
    define(&mut world, pool("two", 1, None));
    let uses = |group: &str, names: [&str; 2]| json!({"group": group, "pools": names, "max_concurrent": 99});
    let ids = world.define(vec![
        job("a", uses("g", ["one", "two"])),
        job("b", uses("h", ["two", "one"])),
        job("c", json!({"group": "h", "pools": ["two"], "max_concurrent": 99})),
    ]);
    world.worker("w", 100, Script::Run);
    world.worker_of("h", OTHER, "x", 100);
    many(&mut world, GROUP, ids[0], 3);
    many(&mut world, OTHER, ids[1], 3);
    many(&mut world, OTHER, ids[2], 3);
    for _ in 0..9 {
        assert_eq!(running(&world, "w") + running(&world, "x"), 1);
        assert!(end_one(&mut world, "w") || end_one(&mut world, "x"));
    }
    assert_eq!((holders(&world, "one"), holders(&world, "two")), (Vec::new(), Vec::new()));
    assert_eq!(world.partition, world.folded());
}

/// BYD-4: a pool is removed when no job uses it any more, and may come back with what still runs counted.
#[test]
fn a_pool_in_use_is_not_removed() {
    let (mut world, ids) = two_groups(pool("all", 2, None));
    many(&mut world, GROUP, ids[0], 2);
    expect!["pool_in_use: pool all cannot be removed: g/a, h/b use it; take it out of them first"]
        .assert_eq(&rejection(&remove(&mut world, "all")));
    world.define(vec![job("a", json!({})), job("b", json!({"group": "h"}))]);
    assert!(matches!(remove(&mut world, "all"), Outcome::Answered(_)));
    expect!["unknown: there is no pool all"].assert_eq(&rejection(&remove(&mut world, "all")));
    define(&mut world, pool("all", 2, None));
    let ids = world.define(vec![job("b", json!({"group": "h", "pools": ["all"], "max_concurrent": 99}))]);
    many(&mut world, OTHER, ids[0], 2);
    assert_eq!((running(&world, "w"), running(&world, "x")), (2, 0), "both slots are still taken");
    end_one(&mut world, "w");
    assert_eq!((running(&world, "w"), running(&world, "x")), (1, 1));
    assert_eq!(world.partition, world.folded());
}

/// BYD-4: what cannot be is refused by field, value and rule.
#[test]
fn pools_that_cannot_be_are_refused() {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    define(&mut world, pool("mine", 2, Some("g")));
    let mut told = String::new();
    for request in [
        pool("none", 0, None),
        pool("big", 1_000_001, None),
        rated(0, pool("rated", 1, None)),
        pool("mine", 2, None),
        pool("lost", 1, Some("nowhere")),
    ] {
        told += &(rejection(&define(&mut world, request)) + "\n");
    }
    let spec = |group: &str, pools: serde_json::Value| job("a", json!({"group": group, "pools": pools}));
    for (group, pools) in [
        ("g", json!(["none"])),
        ("h", json!(["mine"])),
        ("g", json!([{"name": "mine", "weight": 3}])),
        ("g", json!([{"name": "mine", "weight": 0}])),
        ("g", json!(["mine", "mine"])),
        ("g", json!(["1", "2", "3", "4", "5", "6", "7", "8", "9"])),
    ] {
        told += &(rejection(&world.apply(vec![spec(group, pools)])) + "\n");
    }
    let anchor = job("a", json!({"type": "anchor", "pools": ["mine"]}));
    told += &(rejection(&world.apply(vec![anchor])) + "\n");
    world.define(vec![spec("g", json!([{"name": "mine", "weight": 2}]))]);
    told += &(rejection(&define(&mut world, pool("mine", 1, Some("g")))) + "\n");
    expect![[r#"
        invalid: slots: "0": must be 1 to 1000000
        invalid: slots: "1000001": must be 1 to 1000000
        invalid: rate.starts: "0": must be 1 to 1000
        invalid: group: "mine": is of group g, which stays; remove it first, or take another name
        unknown: there is no group nowhere
        invalid: jobs[0].pools[0]: "none": there is no pool of that name; define it first
        invalid: jobs[0].pools[0]: "mine": is for jobs of group g only
        invalid: jobs[0].pools[0].weight: "3": must be 1 to the slots of the pool, 2
        invalid: jobs[0].pools[0].weight: "0": must be 1 to the slots of the pool, 2
        invalid: jobs[0].pools[1]: "mine": stands twice among the pools
        invalid: jobs[0].pools: "9": at most 8 pools
        invalid: jobs[0].pools[0]: "mine": an anchor runs on no worker; leave it out
        invalid: slots: "1": one batch of g/a needs more; lower their weight first
    "#]]
    .assert_eq(&told);
}

/// One step of a long story with two groups.
#[derive(Debug, Clone, Copy)]
enum Step {
    Run(usize),
    End(usize),
    Kill(usize),
    Slots(u32),
    Delete(usize),
    Restart(usize),
    HoldUp,
    LetGo,
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4_usize).prop_map(Step::Run),
        6 => (0..2_usize).prop_map(Step::End),
        2 => (0..40_usize).prop_map(Step::Kill),
        1 => (1..5_u32).prop_map(Step::Slots),
        1 => (0..4_usize).prop_map(Step::Delete),
        1 => (0..2_usize).prop_map(Step::Restart),
        2 => Just(Step::HoldUp),
        3 => Just(Step::LetGo),
        2 => (1..40_000_i64).prop_map(Step::Pass),
    ]
}

struct Story {
    world: World,
    jobs: Vec<(ShardId, JobId, u64)>,
    batches: Vec<(ShardId, BatchId)>,
    minute: u32,
}

impl Story {
    fn new() -> Self {
        let mut world = World::new();
        world.define_group("h", GroupSettings::default());
        define(&mut world, pool("all", 4, None));
        define(&mut world, rated(3, pool("slow", 3, None)));
        define(&mut world, pool("own", 2, Some("h")));
        let uses = |group: &str, pools: serde_json::Value| json!({"group": group, "pools": pools, "max_concurrent": 99});
        let weights = [1, 2, 1, 3];
        let ids = world.define(vec![
            job("a", uses("g", json!(["all"]))),
            job("b", uses("g", json!([{"name": "all", "weight": 2}, "slow"]))),
            job("c", uses("h", json!(["slow", "all", "own"]))),
            job("d", uses("h", json!([{"name": "all", "weight": 3}]))),
        ]);
        world.worker("w", 4, Script::Run);
        world.worker_of("h", OTHER, "x", 4);
        let shards = [GROUP, GROUP, OTHER, OTHER];
        let jobs = ids.iter().zip(shards).zip(weights).map(|((id, shard), weight)| (shard, *id, weight));
        Self { jobs: jobs.collect(), world, batches: Vec::new(), minute: 0 }
    }

    fn take(&mut self, step: Step) {
        let world = &mut self.world;
        match step {
            Step::Run(at) => {
                let (shard, job, _) = self.jobs[at];
                self.minute += 1;
                let logical_time = Some(
                    crate::kit::at("2026-07-01T00:00:00.000Z")
                        + SignedDuration::from_mins(self.minute.into()),
                );
                world.send(
                    shard,
                    Command::Batch(BatchCommand::RunJob {
                        job,
                        logical_time,
                        parameters: Default::default(),
                        concurrent: true,
                    }),
                );
            }
            Step::End(at) => {
                end_one(world, ["w", "x"][at]);
            }
            Step::Kill(at) => {
                if let Some((shard, batch)) = self.batches.get(at).copied() {
                    world.send(shard, Command::Batch(BatchCommand::Kill { batch, reason: String::new() }));
                }
            }
            Step::Slots(slots) => {
                let spec = Box::new(pool("all", slots.max(3), None));
                world.send(
                    ShardId::CATALOGUE,
                    Command::Catalogue(CatalogueCommand::DefinePool { pool: spec }),
                );
            }
            Step::Delete(at) => {
                let job = self.jobs[at].1;
                world.send(
                    ShardId::CATALOGUE,
                    Command::Job(JobCommand::Delete { job, cancel: true, orphan_children: false }),
                );
            }
            Step::Restart(at) => {
                let (register, shard) = (world.workers[at].restart(), world.workers[at].shard);
                world.send(shard, register);
            }
            Step::HoldUp => world.held = Some(Vec::new()),
            Step::LetGo => {
                world.held = None;
                world.say_again();
            }
            Step::Pass(ms) => world.pass_ms(ms),
        }
        world.run();
        for event in world.events() {
            if let Event::Batch(BatchEvent::Generated { batch, .. }) = event {
                self.batches.push((batch.shard(), batch));
            }
        }
    }

    /// Slots of the pool that attempts which run have.
    fn used(&self) -> u64 {
        let weight =
            |job: JobId| self.jobs.iter().find(|(_, id, _)| *id == job).map_or(0, |(_, _, weight)| *weight);
        [GROUP, OTHER]
            .into_iter()
            .map(|shard| {
                let name = "all".try_into().unwrap();
                match self.world.partition.answer(shard, &LiveQuery::Pool { name }) {
                    LiveAnswer::Pool { holders } => {
                        holders.iter().map(|holder| weight(holder.job.unwrap())).sum::<u64>()
                    }
                    _ => 0,
                }
            })
            .sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// BYD-4: whatever ends, is killed, deleted, lost, held up or said twice: what runs never has more of a pool than
    /// it has slots, and after the end of everything all of it is back.
    #[test]
    fn permits_are_never_more_than_slots_and_all_come_back(steps in proptest::collection::vec(step(), 1..60)) {
        let mut story = Story::new();
        let mut most = 4;
        for step in steps {
            story.take(step);
            if let Step::Slots(slots) = step {
                most = most.max(u64::from(slots.max(3)));
            }
            prop_assert!(story.used() <= most, "{} slots of {most} are taken", story.used());
        }
        story.take(Step::LetGo);
        for (_, job, _) in story.jobs.clone() {
            story.world.send(ShardId::CATALOGUE, Command::Job(JobCommand::Delete { job, cancel: true, orphan_children: false }));
        }
        for _ in 0..20 {
            story.world.run();
            while end_one(&mut story.world, "w") | end_one(&mut story.world, "x") {}
            story.world.pass_minutes(10);
        }
        prop_assert_eq!(story.world.unfinished(), 0);
        prop_assert_eq!(holders(&story.world, "all"), Vec::<PoolHolder>::new());
        prop_assert_eq!(holders(&story.world, "slow"), Vec::<PoolHolder>::new());
        prop_assert_eq!(story.used(), 0);
        prop_assert_eq!(&story.world.partition, &story.world.folded());
    }
}
