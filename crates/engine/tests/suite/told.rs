//! JOB-5, DEP-3, BYD-17: what an owner says of how far a change in the catalogue has come.

use crate::kit::{GROUP, World, group, job};
use expect_test::expect;
use serde_json::json;
use tidemill_engine::Effect;
use tidemill_model::{
    CalendarSpec, CatalogueCommand, Command, Concerned, GroupSettings, JobId, JobSpec, LiveAnswer, LiveQuery,
    ShardCommand, ShardId,
};

const MIDDLE: ShardId = ShardId(2);
const LAST: ShardId = ShardId(3);

/// Groups `g`, `m` and `l`.
fn three_groups() -> World {
    let mut world = World::new();
    world.define_group("m", GroupSettings::default());
    world.define_group("l", GroupSettings::default());
    world
}

fn of_group(group: &str, name: &str, parents: &[&str]) -> JobSpec {
    job(name, json!({"group": group, "type": "anchor", "parents": parents}))
}

/// Shard, number of the last message to it, shards of parents.
fn told(world: &World, jobs: &[JobId], groups: &[&str]) -> Vec<(u16, u64, Vec<u16>)> {
    let groups = groups.iter().map(|name| group(name)).collect();
    told_of(world, Concerned::Definitions { jobs: jobs.to_vec(), groups })
}

fn told_of(world: &World, concerned: Concerned) -> Vec<(u16, u64, Vec<u16>)> {
    let query = LiveQuery::Notified { concerned, at_least: 0 };
    let LiveAnswer::Notified { shards } = world.partition.answer(ShardId::CATALOGUE, &query) else {
        panic!()
    };
    let number = |shards: &[ShardId]| shards.iter().map(|shard| shard.0).collect();
    shards.iter().map(|told| (told.shard.0, told.upto, number(&told.parents))).collect()
}

/// What the shard has of another one on record, and what it said to it.
fn mailbox(world: &World, shard: ShardId, with: ShardId) -> (u64, u64) {
    match world.partition.answer(shard, &LiveQuery::Mailboxes { with: vec![with] }) {
        LiveAnswer::Mailboxes { with } => (with[0].received, with[0].sent),
        other => panic!("{other:?}"),
    }
}

/// Lets through what was held up and goes to this shard; what follows is held up again.
fn let_through(world: &mut World, to: ShardId) {
    let (go, stay) = world.held.take().unwrap().into_iter().partition(
        |effect| matches!(effect, Effect::Send { shard, command: Command::Shard(ShardCommand::Deliver { .. }) } if *shard == to),
    );
    world.held = Some(stay);
    let go: Vec<Effect> = go;
    for effect in go {
        let Effect::Send { shard, command } = effect else { continue };
        world.send(shard, command);
    }
    world.run();
}

/// The shards concerned are those of the jobs, and those of children in other groups that hear of their logical
/// times, however deep; each with those whose jobs it follows for them.
#[test]
fn an_apply_concerns_the_shards_of_its_jobs_and_of_all_children() {
    let mut world = three_groups();
    let ids = world.define(vec![
        of_group("g", "root", &[]),
        of_group("m", "child", &["g/root"]),
        of_group("l", "grandchild", &["m/child"]),
        of_group("g", "alone", &[]),
    ]);
    expect![[r#"[(1, 3, []), (2, 3, [1]), (3, 3, [2])]"#]]
        .assert_eq(&format!("{:?}", told(&world, &ids, &[])));
    let of = |job: usize, groups: &[&str]| told(&world, &ids[job..=job], groups);
    assert_eq!(
        of(0, &[]),
        [(1, 3, vec![]), (2, 3, vec![1]), (3, 3, vec![2])],
        "their logical times are the root's"
    );
    assert_eq!(of(2, &[]), [(3, 3, vec![2])]);
    assert_eq!(of(3, &[]), [(1, 3, vec![])]);
    assert_eq!(told(&world, &[], &["l", "nobody"]), [(3, 3, vec![])], "of a group whose job was deleted");
}

/// Numbers on record tell each step on its own: the definitions have come, the parent's shard has heard who follows,
/// and what it said to that.
#[test]
fn numbers_on_record_tell_how_far_definitions_have_come() {
    let mut world = three_groups();
    let root = world.define(vec![of_group("g", "root", &[])])[0];
    assert_eq!(mailbox(&world, MIDDLE, GROUP), (0, 0));
    world.batch(root, Some("2026-07-01T00:00:00.000Z"));
    world.held = Some(Vec::new());
    let child = world.define(vec![of_group("m", "child", &["g/root"])]);
    let concerned = told(&world, &child, &[]);
    assert_eq!(concerned, [(2, 3, vec![1])]);
    assert_eq!(mailbox(&world, MIDDLE, ShardId::CATALOGUE).0, 1, "only of its group so far");

    let_through(&mut world, MIDDLE);
    assert_eq!(mailbox(&world, MIDDLE, ShardId::CATALOGUE).0, 3);
    let (_, said) = mailbox(&world, MIDDLE, GROUP);
    assert_eq!(said, 2, "that a child is to come, and then that it wants each generation");
    assert_eq!(mailbox(&world, GROUP, MIDDLE), (0, 0));

    let_through(&mut world, GROUP);
    assert_eq!(mailbox(&world, GROUP, MIDDLE), (2, 1), "heard, and answered with the time that there is");
    assert_eq!(mailbox(&world, MIDDLE, GROUP).0, 0);
    let_through(&mut world, MIDDLE);
    assert_eq!(mailbox(&world, MIDDLE, GROUP).0, 1);
    assert_eq!(mailbox(&world, LAST, GROUP), (0, 0));
}

/// BYD-17, BYD-2: a freeze of one group concerns that one, of everything all; a calendar those that have jobs by it.
#[test]
fn a_freeze_and_a_calendar_concern_whom_they_were_told() {
    let mut world = three_groups();
    let calendar = |world: &mut World, comment: &str| {
        let spec = CalendarSpec::from_value(json!({"name": "days", "comment": comment})).unwrap();
        world.ask(
            ShardId::CATALOGUE,
            Command::Catalogue(CatalogueCommand::DefineCalendar { calendar: Box::new(spec) }),
        );
    };
    calendar(&mut world, "");
    let by_days = || Concerned::Calendar("days".try_into().unwrap());
    assert_eq!(told_of(&world, by_days()), []);
    let daily = json!({"group": "m", "type": "anchor", "schedule": crate::kit::every("day"), "calendar": {"name": "days"}});
    world.define(vec![job("a", daily)]);
    let freeze = |world: &mut World, of: Option<&str>| {
        let command = Command::Catalogue(CatalogueCommand::Freeze {
            group: of.map(group),
            latest: None,
            reason: "test".to_owned(),
        });
        world.ask(ShardId::CATALOGUE, command);
    };
    let shards = |told: &[(u16, u64, Vec<u16>)]| told.iter().map(|(shard, ..)| *shard).collect::<Vec<_>>();
    world.held = Some(Vec::new());
    for (concerned, expected) in [
        (Concerned::Everyone, vec![1, 2, 3]),
        (Concerned::Group(group("m")), vec![2]),
        (Concerned::Group(group("no_such")), vec![]),
        (by_days(), vec![2]),
    ] {
        let before = told_of(&world, concerned.clone());
        assert_eq!(shards(&before), expected);
        match &concerned {
            Concerned::Calendar(_) => calendar(&mut world, "changed"),
            Concerned::Everyone => freeze(&mut world, None),
            _ => freeze(&mut world, Some("m")),
        }
        let after = told_of(&world, concerned);
        for ((shard, upto, _), (.., earlier, _)) in after.iter().zip(&before) {
            assert_eq!(*upto, earlier + 1);
            assert!(mailbox(&world, ShardId(*shard), ShardId::CATALOGUE).0 < *upto, "its message is held up");
        }
    }
    let_through(&mut world, MIDDLE);
    let upto = told_of(&world, by_days())[0].1;
    assert_eq!(mailbox(&world, MIDDLE, ShardId::CATALOGUE).0, upto);
}
