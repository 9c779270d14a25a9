//! EXE-9: hosts that a person drains, for whoever works there.

use crate::kit::{GROUP, Script, TestWorker, World, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{AttemptResult, Command, WorkerCommand, WorkerId};

fn drain(host: &str, reason: &str) -> Command {
    Command::Worker(WorkerCommand::DrainHost { host: host.to_owned(), reason: reason.to_owned() })
}

fn resume(host: &str) -> Command {
    Command::Worker(WorkerCommand::ResumeHost { host: host.to_owned() })
}

/// Another worker on the host of `w`, as after a reboot.
fn comes(world: &mut World, name: &str, script: Script) -> WorkerId {
    let worker = TestWorker { host: "host-w".to_owned(), ..TestWorker::new(name, 1, script) };
    let (id, registration) = (worker.id.clone(), worker.registration());
    world.workers.push(worker);
    world.say(Command::Worker(WorkerCommand::Register(Box::new(registration))));
    id
}

/// By a worker's id or the host's name: its workers get no work, another one that comes later none either, until the host is
/// resumed. That nothing is left is told once, when the last attempt has ended.
#[test]
fn drained_host_takes_no_work_whoever_works_there() {
    let mut world = World::of_level(3);
    let ids = world.define(vec![job("a", json!({"max_concurrent": 4}))]);
    let worker = world.worker("w", 2, Script::Run);
    world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    let token = world.played(&worker).last_token();
    world.events();
    world.say(drain("host-w", "new disk"));
    let batch = world.batch(ids[0], Some("2026-07-01T01:00:00.000Z"));
    world.say(drain("host-w", "again"));
    world.say(Command::Worker(WorkerCommand::Drain { worker: worker.clone() }));
    assert_eq!(world.why_kinds(batch), ["drained"]);
    expect![[r#"
        host-w drained by test: new disk
        w drained
        b2 generated a 2026-07-01 01:00 run 0
    "#]]
    .assert_eq(&world.told());
    let end = world.played(&worker).finished(token, AttemptResult::Success);
    world.say(end);
    let again = world.played(&worker).restart();
    world.say(again);
    comes(&mut world, "x", Script::Succeed);
    expect![[r#"
        b1 attempt 1 Success
        b1 finished success
        host-w is empty
        w registered 2
        x registered 1
        x drained
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
    world.say(resume("host-w"));
    let told = world.told();
    assert!(told.starts_with("host-w resumed\nw resumed\nx resumed\nb2 assigned"), "{told}");
    assert_eq!(world.partition, world.folded());
}

/// An idle host is empty at once; a worker's id resumes the host, too, and with nobody there it is resumed by its name.
#[test]
fn idle_host_is_empty_at_once_and_resumed_by_either_name() {
    let mut world = World::of_level(3);
    let worker = world.worker("w", 2, Script::Run);
    world.events();
    world.say(Command::Worker(WorkerCommand::Drain { worker: worker.clone() }));
    world.say(Command::Worker(WorkerCommand::Resume { worker: worker.clone() }));
    world.say(Command::Worker(WorkerCommand::Resume { worker }));
    expect![[r#"
        host-w drained by test: 
        w drained
        host-w is empty
        host-w resumed
        w resumed
    "#]]
    .assert_eq(&world.told());
}

/// Hosts that are not known, and reasons that are too long, are refused.
#[test]
fn unknown_hosts_and_long_reasons_are_refused() {
    let mut world = World::of_level(3);
    world.worker("w", 2, Script::Run);
    for (command, said) in [
        (drain("nowhere", ""), "nowhere"),
        (resume("nowhere"), "nowhere"),
        (drain("host-w", &"x".repeat(501)), "at most 500 characters"),
    ] {
        let outcome = world.ask(GROUP, command);
        assert!(rejection(&outcome).contains(said), "{}", rejection(&outcome));
    }
}

/// Rule 13: below level 3 a worker is drained by itself, and another one on its host is not.
#[test]
fn worker_is_drained_by_itself_below_level_3() {
    let mut world = World::of_level(2);
    let worker = world.worker("w", 2, Script::Run);
    world.events();
    world.say(Command::Worker(WorkerCommand::Drain { worker }));
    comes(&mut world, "x", Script::Succeed);
    expect![[r#"
        w drained
        x registered 1
    "#]]
    .assert_eq(&world.told());
}
