//! OPS-9: processes register, and the level is raised once all of them read the next one.

use expect_test::expect;
use tidemill_engine::{Draft, Partition};
use tidemill_model::{
    Answer, Command, Envelope, Event, GroupSettings, InstanceId, Level, LevelCommand, LevelEvent, LiveAnswer,
    LiveQuery, Outcome, Process, ReadError, Recorded, Rejection, ReplicationEvent, ShardId,
};

use crate::kit::{GROUP, World, at};

const TWO: Level = Level::new(2);

fn process(id: &str, reads: u32) -> Process {
    Process {
        id: InstanceId::new(id),
        host: "h".to_owned(),
        roles: vec!["api".to_owned()],
        version: "1.0.0".to_owned(),
        reads: Level::new(reads),
        expire_after_ms: 60_000,
    }
}

fn register(id: &str, reads: u32) -> LevelCommand {
    LevelCommand::RegisterProcess { process: Box::new(process(id, reads)), number: 0 }
}

fn tell(world: &mut World, command: LevelCommand) -> Outcome {
    world.ask(ShardId::CATALOGUE, Command::Level(command))
}

fn expire(world: &mut World, id: &str) {
    let process = InstanceId::new(id);
    world.observe(ShardId::CATALOGUE, Command::Level(LevelCommand::ExpireProcess { process }));
}

/// OPS-9: the level is that of the one which reads least, and rises with the last old one; each group hears of it, in order.
#[test]
fn level_rises_when_the_last_old_process_has_gone() {
    let mut world = World::new();
    world.define_group("second", GroupSettings::default());
    world.events();
    tell(&mut world, register("old-1", 1));
    tell(&mut world, register("old-2", 1));
    tell(&mut world, register("new", 2));
    tell(&mut world, LevelCommand::DeregisterProcess { process: InstanceId::new("old-1") });
    assert_eq!(world.partition.level(), Level::FIRST);
    expire(&mut world, "old-2");
    expect![[r#"
        old-1 registered, reads 1
        old-2 registered, reads 1
        new registered, reads 2
        old-1 deregistered
        old-2 expired
        level 2
        level 2 replicated
        level 2 replicated
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition.level(), TWO);
    assert_eq!(world.partition.group(GROUP).unwrap().level(), TWO);
    assert!(world.folded() == world.partition);
}

/// OPS-9: a process that is too old is refused by name, whenever it comes; a sign of life of the others makes no record.
#[test]
fn too_old_process_is_refused() {
    let mut world = World::new();
    assert_eq!(
        tell(&mut world, register("new", 2)),
        Outcome::Answered(Answer::Level { level: Level::FIRST })
    );
    assert_eq!(tell(&mut world, register("new", 2)), Outcome::Answered(Answer::Level { level: TWO }));
    let refused = Rejection::TooOld { reads: 1, level: 2 };
    assert_eq!(tell(&mut world, register("old", 1)), Outcome::Refused(refused));
    let records = world.journal.len();
    world.send(ShardId::CATALOGUE, Command::Level(register("new", 2)));
    world.run();
    assert_eq!(world.journal.len(), records, "a heartbeat makes no record");
}

/// OPS-9: downgrade: a held level stays, whatever the processes read, and is raised once it is released.
#[test]
fn held_level_stays_until_it_is_released() {
    let mut world = World::new();
    world.events();
    tell(&mut world, LevelCommand::Hold { reason: "upgrade".to_owned() });
    tell(&mut world, register("new", 2));
    assert_eq!(world.partition.level(), Level::FIRST);
    assert_eq!(
        tell(&mut world, register("old", 1)),
        Outcome::Answered(Answer::Level { level: Level::FIRST })
    );
    let LiveAnswer::Level(state) = world.partition.answer(ShardId::CATALOGUE, &LiveQuery::Level) else {
        panic!("the catalogue knows its level");
    };
    assert_eq!((state.level, state.readable, state.processes.len()), (Level::FIRST, Some(Level::FIRST), 2));
    assert_eq!(state.hold.unwrap().reason, "upgrade");
    assert_eq!(state.processes[0].id, InstanceId::new("old"), "those that read least come first");
    tell(&mut world, LevelCommand::DeregisterProcess { process: InstanceId::new("old") });
    tell(&mut world, LevelCommand::Release { reason: String::new() });
    expect![[r#"
        level held
        new registered, reads 2
        old registered, reads 1
        old deregistered
        level released
        level 2
        level 2 replicated
    "#]]
    .assert_eq(&world.told());
    let refused = tell(&mut world, LevelCommand::Hold { reason: " ".to_owned() });
    assert!(matches!(refused, Outcome::Refused(Rejection::Invalid { .. })), "{refused:?}");
}

/// OPS-9: a group that comes later begins with the level that stands.
#[test]
fn new_group_begins_with_the_level_that_stands() {
    let mut world = World::new();
    tell(&mut world, register("new", 2));
    world.events();
    world.define_group("later", GroupSettings::default());
    let events = world.events();
    let told = |event: &&Event| matches!(event, Event::Replication(ReplicationEvent::LevelReplicated { level }) if *level == TWO);
    assert_eq!(events.iter().filter(told).count(), 1, "{events:?}");
}

/// OPS-9: the record that raises the level is of the old one, and the next is of the new one: a reader stops in between.
#[test]
fn level_counts_from_the_next_record_on() {
    let mut world = World::new();
    tell(&mut world, register("new", 2));
    tell(&mut world, LevelCommand::Hold { reason: "r".to_owned() });
    let read = |reads: Level| {
        let read = world.journal.iter().map(|body| Envelope::read(body, reads));
        read.map(|read| read.map(|envelope| envelope.level)).collect::<Vec<_>>()
    };
    let levels: Vec<_> = read(TWO).into_iter().map(Result::unwrap).collect();
    let raising = levels.iter().position(|level| *level == TWO).unwrap() - 1;
    assert_eq!(levels[raising], Level::FIRST);
    for (index, read) in read(Level::FIRST).into_iter().enumerate() {
        match read {
            Ok(_) => assert!(index < raising, "record {index} goes on after the level was raised"),
            Err(ReadError::TooNew { level, reads }) => {
                assert!(index >= raising && (level, reads) == (TWO, Level::FIRST));
            }
            Err(error) => panic!("{error}"),
        }
    }
    // What this version does not know is named by its level, too.
    let unknown =
        br#"{"now": "2026-07-01T10:10:00.000Z", "level": 7, "events": [{"shard": 1, "event": {"x": {}}}]}"#;
    let error = Envelope::read(unknown, TWO).unwrap_err();
    assert!(error.to_string().contains("level 7, and this process reads up to level 2"), "{error}");
}

/// Bad input has the field, the value and the rule.
#[test]
fn registration_is_checked() {
    let mut world = World::new();
    for (change, field) in [
        (Box::new(|of: &mut Process| of.roles.clear()) as Box<dyn Fn(&mut Process)>, "roles"),
        (Box::new(|of| of.reads = Level::new(0)), "reads"),
        (Box::new(|of| of.reads = Level::new(1_001)), "reads"),
        (Box::new(|of| of.expire_after_ms = 999), "expire_after_ms"),
        (Box::new(|of| of.host = "h".repeat(256)), "host"),
        (Box::new(|of| of.version = "v".repeat(65)), "version"),
        (Box::new(|of| of.id = InstanceId::new("i".repeat(129))), "id"),
    ] {
        let mut of = process("p", 1);
        change(&mut of);
        let outcome = tell(&mut world, LevelCommand::RegisterProcess { process: Box::new(of), number: 0 });
        let Outcome::Refused(Rejection::Invalid { fields }) = outcome else { panic!("{field}: {outcome:?}") };
        assert_eq!(fields[0].field, field);
    }
    let process = InstanceId::new("p");
    let outside = tell(&mut world, LevelCommand::ExpireProcess { process });
    assert!(matches!(outside, Outcome::Refused(Rejection::WrongShard { .. })), "{outside:?}");
}

/// OPS-9: a partition that folds a raise has it after the envelope, whichever shard of it heard.
#[test]
fn partition_has_the_level_of_any_of_its_shards() {
    let mut partition = Partition::new(1, 2);
    let event = Event::Replication(ReplicationEvent::LevelReplicated { level: TWO });
    let events = vec![Recorded { shard: GROUP, event }];
    let now = at("2026-07-01T10:10:00.000Z");
    let level = Level::FIRST;
    partition.apply(&Envelope { now, level, resume: None, causes: Vec::new(), events });
    assert_eq!(partition.level(), TWO);
    let mut draft = Draft::new(&mut partition, now, None);
    draft.undecodable(0, "hash".to_owned(), "garbled");
    assert_eq!(draft.finish(false).envelope.unwrap().level, TWO);
    assert_eq!(Event::Level(LevelEvent::Raised { level: TWO }).raises(), Some(TWO));
}
