//! What may not be assigned though nothing of its own keeps it back: beyond a freeze, before the earliest start.

use crate::kit::{GROUP, Script, World, at, every, group, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    BatchId, CatalogueCommand, Command, GroupSettings, JobId, Outcome, ShardId, Timestamp, WorkerCommand,
};

const TEN: &str = "2026-07-01T10:00:00.000Z";

fn freeze(world: &mut World, of: Option<&str>, latest: Option<&str>) -> Outcome {
    let (group, latest) = (of.map(group), latest.map(at));
    world.ask(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::Freeze { group, latest, reason: "moved".to_owned() }),
    )
}

fn lift_freeze(world: &mut World, of: Option<&str>) -> Outcome {
    world.ask(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::LiftFreeze { group: of.map(group), reason: String::new() }),
    )
}

/// One job, two ready batches without a worker: for 09:00 and 10:00.
fn two() -> (World, Vec<JobId>) {
    let mut world = World::new();
    let ids =
        world.define(vec![job("a", json!({"max_concurrent": 9})), job("end", json!({"type": "anchor"}))]);
    world.batch(ids[0], Some("2026-07-01T09:00:00.000Z"));
    world.batch(ids[0], Some(TEN));
    world.events();
    (world, ids)
}

/// BYD-17, DSP-1: what is beyond the latest allowed logical time is generated and not assigned, and says why; what
/// is not goes on; lifted, all goes on.
#[test]
fn nothing_beyond_the_freeze_is_assigned_until_it_is_lifted() {
    let (mut world, ids) = two();
    freeze(&mut world, Some("g"), Some("2026-07-01T09:00:00.000Z"));
    world.worker("w", 4, Script::Succeed);
    world.batch(ids[1], Some(TEN));
    let why = world.why(BatchId::mint(2, GROUP));
    expect![[r#"
        frozen: group g is frozen: the latest logical time that may be assigned is 2026-07-01T09:00:00.000Z (ann: moved)
        g frozen after 2026-07-01 09:00
        Group is frozen: true
        w registered 1
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
        b3 generated end 2026-07-01 10:00 run 0
    "#]].assert_eq(&format!("{}: {}\n{}", why[0].kind, why[0].message, world.told()));
    lift_freeze(&mut world, Some("g"));
    expect![[r#"
        g lifted
        Group is frozen: false
        b3 finished success
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
        b2 attempt 1 Success
        b2 finished success
    "#]]
    .assert_eq(&world.told());
    assert!(world.folded() == world.partition);
}

/// BYD-17: of two freezes the earlier time counts; a group that comes to be while everything is frozen is frozen.
#[test]
fn everything_and_a_group_are_frozen_one_beside_the_other() {
    let (mut world, _) = two();
    freeze(&mut world, None, Some("2026-07-01T09:30:00.000Z"));
    freeze(&mut world, Some("g"), Some("2026-07-01T08:00:00.000Z"));
    world.worker("w", 4, Script::Succeed);
    assert_eq!(world.why_kinds(BatchId::mint(2, GROUP)), ["frozen", "frozen"]);
    assert_eq!(world.why_kinds(BatchId::mint(1, GROUP)), ["frozen"]);
    world.define_group("h", GroupSettings::default());
    world.events();
    lift_freeze(&mut world, Some("g"));
    lift_freeze(&mut world, Some("g"));
    lift_freeze(&mut world, None);
    expect![[r#"
        g lifted
        Group is frozen: false
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
        everything lifted
        Everything is frozen: false
        Everything is frozen: false
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
        b2 attempt 1 Success
        b2 finished success
    "#]]
    .assert_eq(&world.told());
}

/// BYD-17: without a time the freeze begins now; a group that is not there and an empty reason are refused.
#[test]
fn freeze_without_a_time_is_from_now_on() {
    let (mut world, _) = two();
    freeze(&mut world, None, None);
    let empty =
        Command::Catalogue(CatalogueCommand::Freeze { group: None, latest: None, reason: String::new() });
    let told = [
        world.told(),
        rejection(&freeze(&mut world, Some("nobody"), None)) + "\n",
        rejection(&lift_freeze(&mut world, Some("nobody"))) + "\n",
        rejection(&world.ask(ShardId::CATALOGUE, empty)) + "\n",
    ]
    .concat();
    expect![[r#"
        everything frozen after 2026-07-01 10:10
        Everything is frozen: true
        unknown: there is no group nobody
        unknown: there is no group nobody
        invalid: reason: "": must be 1 to 500 characters: say why
    "#]]
    .assert_eq(&told);
}

/// BYD-17: an assignment that was out goes on; given back, it is held.
#[test]
fn what_was_assigned_before_the_freeze_may_start() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"max_concurrent": 9}))]);
    let worker = world.worker("w", 2, Script::Silent);
    let (one, two) = (world.batch(ids[0], Some("2026-07-01T09:00:00.000Z")), world.batch(ids[0], Some(TEN)));
    freeze(&mut world, None, Some("2026-07-01T08:00:00.000Z"));
    let heard = world.played(&worker).heard.clone();
    let token = |nth: usize| {
        heard
            .iter()
            .filter_map(|message| match message {
                tidemill_model::WorkMessage::Assigned { token, .. } => Some(*token),
                _ => None,
            })
            .nth(nth)
            .unwrap()
    };
    let (first, second) = (token(0), token(1));
    let request = world.played(&worker).request(first);
    world.say(request);
    world.say(Command::Worker(WorkerCommand::RejectAssignment {
        lacks_resources: false,
        token: second,
        worker,
        nonce: None,
        reason: "busy".to_owned(),
    }));
    assert_eq!((world.why_kinds(one), world.why_kinds(two)), (vec![], vec!["frozen".to_owned()]));
}

/// DSP-1: a batch is not assigned before the base time of its period plus the job's minutes, and says so; a
/// dependency-triggered one counts from its parent's period; one of the past starts at once.
#[test]
fn nothing_is_assigned_before_its_earliest_start() {
    let mut world = World::new();
    let ids = world.define(vec![
        job("p", json!({"schedule": every("hour"), "type": "anchor"})),
        job("c", json!({"parents": ["p"], "earliest_start_minutes": 20})),
    ]);
    world.worker("w", 4, Script::Succeed);
    world.events();
    world.until("2026-07-01T11:01:00.000Z");
    let batch = BatchId::mint(2, GROUP);
    let why = world.why(batch);
    let mut told = format!("{}{}: {}\n", world.told(), why[0].kind, why[0].message);
    world.until("2026-07-01T11:20:59.000Z");
    assert_eq!(world.told(), "");
    world.until("2026-07-01T11:21:00.000Z");
    told += &world.told();
    world.rerun(batch, ids[1], "2026-07-01T11:00:00.000Z");
    told += &world.told();
    expect![[r#"
        b1 generated p 2026-07-01 11:00 run 0
        b2 generated c 2026-07-01 11:00 run 0, of p 0/1
        b1 finished success
        b2 satisfied p 2026-07-01 11:00, unmet 0
        earliest_start: its earliest start is 2026-07-01T11:21:00.000Z
        b2 start due
        b2 assigned t1 attempt 1 to w
        b2 granted t1
        b2 started t1
        b2 attempt 1 Success
        b2 finished success
        b3 generated c 2026-07-01 11:00 run 1, of p 1/1
        b3 assigned t2 attempt 1 to w
        b3 granted t2
        b3 started t2
        b3 attempt 1 Success
        b3 finished success
    "#]]
    .assert_eq(&told);
    assert!(world.folded() == world.partition);
}

/// DSP-1: an outage over the earliest start loses nothing, and an ended batch leaves no timer behind.
#[test]
fn earliest_start_passes_in_an_outage_or_after_the_end() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"max_concurrent": 2, "earliest_start_minutes": 30}))]);
    world.worker("w", 4, Script::Succeed);
    let (one, two) = (world.batch(ids[0], Some(TEN)), world.batch(ids[0], Some("2026-07-01T10:05:00.000Z")));
    assert_eq!(world.why_kinds(one), ["earliest_start"]);
    world.kill(two);
    world.events();
    world.wall = "2026-07-02T00:00:00.000Z".parse::<Timestamp>().unwrap();
    world.run();
    expect![[r#"
        b1 start due
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition.next_timer(), None);
}
