//! OPS-5: what a restored log goes on with.

use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    Command, GroupSettings, InstanceId, LevelCommand, Process, ShardId, Token, WorkerCommand, WorkerId,
};

use crate::kit::{GROUP, START, Script, World, job, rejection};

/// A worker `w` with one attempt that runs and one assignment that it has not started, where level 2 stands.
fn busy() -> (World, WorkerId) {
    let mut world = World::with(START, GroupSettings::default());
    let process = Process {
        id: InstanceId::new("p"),
        host: "h".to_owned(),
        roles: vec!["standalone".to_owned()],
        version: "1.0.0".to_owned(),
        reads: tidemill_model::Level::new(2),
        expire_after_ms: 60_000,
    };
    let register = LevelCommand::RegisterProcess { process: Box::new(process), number: 0 };
    world.ask(ShardId::CATALOGUE, Command::Level(register));
    let ids = world.define(vec![job("a", json!({"max_concurrent": 3, "retries": 1, "retry_interval_s": 0}))]);
    let worker = world.worker("w", 2, Script::Run);
    world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    world.played(&worker).script = Script::Silent;
    world.batch(ids[0], Some("2026-07-01T01:00:00.000Z"));
    world.events();
    (world, worker)
}

fn vouch(world: &mut World, worker: &WorkerId, reason: &str) -> String {
    let command = WorkerCommand::VouchEnded { worker: worker.clone(), reason: reason.to_owned() };
    rejection(&world.ask(GROUP, Command::Worker(command)))
}

/// OPS-5: neither silence nor a lease nor another life ends what was assigned or granted before; a person's word does.
#[test]
fn restored_attempts_are_held_until_a_person_vouches() {
    let (mut world, worker) = busy();
    world.restored(1 << 16);
    expect![[r#"
        restored, ids above 65536
    "#]]
    .assert_eq(&world.told());
    world.pass_minutes(20);
    assert_eq!(world.told(), "", "no time to start in runs out");
    world.worker("x", 4, Script::Succeed);
    world.events();
    assert!(vouch(&mut world, &worker, "off").contains("is heard of"));
    world.lost(&worker);
    world.lease_over(&worker);
    expect![[r#"
        w lost
    "#]]
    .assert_eq(&world.told());
    assert!(vouch(&mut world, &worker, " ").contains("say how you know"));
    assert_eq!(world.unfinished(), 2);
    vouch(&mut world, &worker, "its host is off");
    let told = world.told();
    assert!(told.contains("w vouched for"), "{told}");
    assert_eq!(told.matches("attempt 1 Lost").count(), 2, "{told}");
    assert_eq!(told.matches("finished success").count(), 2, "{told}");
    assert_eq!(world.unfinished(), 0);
    vouch(&mut world, &worker, "again");
    assert_eq!(world.told(), "", "it is said once");
    assert_eq!(world.partition, world.folded());
}

/// OPS-5: ids of a restored log lie above all that a life before it minted, in shards that are new later as well.
#[test]
fn restored_log_mints_above_the_lives_before() {
    let (mut world, _) = busy();
    let above = 5_u64 << 16;
    world.restored(above);
    let worker = world.worker("x", 4, Script::Succeed);
    let ids = world.define(vec![job("b", json!({}))]);
    assert!(ids[0].0 > (above << 12).cast_signed(), "{ids:?}");
    let batch = world.batch(ids[0], None);
    assert_eq!(batch.0 >> 12, (above + 1).cast_signed());
    assert!(world.played(&worker).last_token() > Token::mint(above, GROUP));
    world.define_group("later", GroupSettings::default());
    world.restored(above);
    assert_eq!(world.partition, world.folded());
    let later = tidemill_engine::Partition::new(0, 1);
    assert_eq!(later.minted(), 0);
    assert!(world.partition.minted() > above);
}
