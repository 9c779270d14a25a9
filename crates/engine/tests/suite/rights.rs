//! Rule 8: the right to start before the question is answered, which an assignment may carry from level 2 on.

use crate::kit::{GROUP, Script, World, job};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AttemptResult, BatchCommand, BatchId, Command, Event, GroupSettings, InstanceId, JobId, Level,
    LevelCommand, PartitionEvent, Process, Recorded, ShardId, Token, WorkMessage, WorkerCommand, WorkerId,
};

/// A world whose processes read level 2, and whose owner gives rights.
fn world_with_rights() -> World {
    let mut world = World::with(crate::kit::START, GroupSettings::default());
    let process = Process {
        id: InstanceId::new("p"),
        host: "h".to_owned(),
        roles: vec!["dispatcher".to_owned()],
        version: "1".to_owned(),
        reads: Level::new(2),
        expire_after_ms: 60_000,
    };
    let register = LevelCommand::RegisterProcess { process: Box::new(process), number: 0 };
    world.ask(ShardId::CATALOGUE, Command::Level(register));
    world.gives_rights = true;
    world.events();
    world
}

/// A worker `w` that is told of a batch with a right and says nothing, and an idle one.
fn assigned(spec: serde_json::Value) -> (World, WorkerId, BatchId, JobId, Token) {
    let mut world = world_with_rights();
    let ids = world.define(vec![job("p", json!({})), job("a", spec)]);
    let worker = world.worker("w", 2, Script::Silent);
    world.batch(ids[1], Some("2026-07-01T00:00:00.000Z"));
    let token = world.played(&worker).last_token();
    let batch = BatchId::mint(1, GROUP);
    world.events();
    (world, worker, batch, ids[1], token)
}

fn end(world: &mut World, token: Token) {
    world.observe(GROUP, Command::Worker(WorkerCommand::EndStartRight { token }));
}

fn kill(world: &mut World, batch: BatchId) {
    world.kill(batch);
}

/// Rule 8: the assignment says what to run and how long it may start, and its question is confirmed.
#[test]
fn question_under_a_right_is_confirmed() {
    let (mut world, worker, _, _, token) = assigned(json!({}));
    let heard = world.played(&worker).heard.last().unwrap().clone();
    let WorkMessage::AssignedWithRight { right, spec } = heard else { panic!("{heard:?}") };
    assert_eq!((right.heartbeat, right.window_ms, spec.token), (7, 15_000, token));
    let request = world.played(&worker).request(token);
    world.say(request);
    let last = world.played(&worker).heard.last().unwrap().clone();
    assert!(matches!(last, WorkMessage::Confirmed { token: of, .. } if of == token), "{last:?}");
    expect![[r#"
        b1 granted t1
    "#]]
    .assert_eq(&world.told());
}

/// Rule 13: below level 2, and without a heartbeat that the owner has read, assignments are as they were.
#[test]
fn no_right_below_the_level_or_without_a_heartbeat() {
    for gives_rights in [true, false] {
        let mut world = if gives_rights { World::new() } else { world_with_rights() };
        world.gives_rights = gives_rights;
        let ids = world.define(vec![job("a", json!({}))]);
        let worker = world.worker("w", 1, Script::Silent);
        world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
        let heard = world.played(&worker).heard.last().unwrap().clone();
        assert!(matches!(heard, WorkMessage::Assigned { .. }), "{heard:?}");
    }
}

/// Rule 8: conditions that others can withdraw, and templates that cannot be resolved, get no right.
#[test]
fn no_right_for_conditions_outside_the_shard() {
    for spec in
        [json!({"quality_gate": true}), json!({"parameters": {"rows": "${values.p.rows}"}, "parents": ["p"]})]
    {
        let mut world = world_with_rights();
        let ids = world.define(vec![job("p", json!({})), job("a", spec)]);
        world.worker("w", 2, Script::Succeed);
        let [parent, child] = ids[..] else { panic!("{ids:?}") };
        world.batch(parent, Some("2026-07-01T00:00:00.000Z"));
        world.batch(child, Some("2026-07-01T00:00:00.000Z"));
        let quality = world.events().iter().find_map(|event| match event {
            Event::Batch(tidemill_model::BatchEvent::QualityRequested { batch, .. }) => Some(*batch),
            _ => None,
        });
        if let Some(batch) = quality {
            world.say(Command::Batch(BatchCommand::AnswerQuality {
                batch,
                allowed: true,
                reason: String::new(),
            }));
        }
        let told = world.told();
        let of_child: Vec<&str> = told.lines().filter(|line| line.contains("with a right")).collect();
        assert!(!of_child.iter().any(|line| line.starts_with("b2")), "{told}");
    }
}

/// Rule 8: what is assigned with a right may run, so to kill it asks its worker, and its batch ends with the worker's word.
#[test]
fn kill_of_an_assignment_with_a_right_waits_for_its_worker() {
    let (mut world, worker, batch, _, token) = assigned(json!({}));
    kill(&mut world, batch);
    kill(&mut world, batch);
    let last = world.played(&worker).heard.last().unwrap().clone();
    assert!(matches!(last, WorkMessage::Kill { token: of, .. } if of == token), "{last:?}");
    let word = world.played(&worker).finished(token, AttemptResult::Killed);
    world.say(word);
    expect![[r#"
        b1 kill t1
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
}

/// Rule 8: a kill outlives the right, and the grant: neither another worker nor another attempt gets what is to be ended.
#[test]
fn kill_outlives_the_right_and_the_grant() {
    let (mut world, _, batch, _, token) = assigned(json!({"retries": 2}));
    kill(&mut world, batch);
    end(&mut world, token);
    expect![[r#"
        b1 kill t1
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
    let (mut world, worker, batch, _, token) = assigned(json!({"retries": 2, "retry_interval_s": 0}));
    kill(&mut world, batch);
    for command in
        [world.played(&worker).request(token), world.played(&worker).finished(token, AttemptResult::Failed)]
    {
        world.say(command);
    }
    expect![[r#"
        b1 kill t1
        b1 granted t1
        b1 attempt 1 Failed
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
}

/// Rule 8: what was not granted when the right is over goes to another worker, and no attempt is counted.
#[test]
fn right_that_is_over_gives_the_batch_back() {
    let (mut world, _, _, _, token) = assigned(json!({}));
    world.worker("x", 2, Script::Succeed);
    world.events();
    end(&mut world, token);
    end(&mut world, token);
    expect![[r#"
        b1 returned t1: NotStarted
        b1 assigned t2 attempt 1 to x, with a right
        b1 granted t2
        b1 started t2
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
}

/// Rule 8: what a life of the worker may have started outlasts its loss and the registration of another life, which may be a late
/// message of an earlier one. That life is asked for it, and its word ends it.
#[test]
fn right_outlasts_the_loss_and_another_life() {
    let (mut world, worker, _, _, token) = assigned(json!({}));
    world.lost(&worker);
    assert_eq!(world.told(), "w lost\n");
    let again = world.played(&worker).restart();
    world.say(again);
    assert_eq!(world.told(), "w registered 2\n");
    let last = world.played(&worker).heard.last().unwrap().clone();
    assert!(matches!(last, WorkMessage::AskedBack { token: of } if of == token), "{last:?}");
    let (worker, nonce, reason) = (worker, None, "it was asked back".to_owned());
    world.say(Command::Worker(WorkerCommand::RejectAssignment {
        lacks_resources: false,
        token,
        worker,
        nonce,
        reason,
    }));
    // It is not unwilling, so it gets it again at once.
    assert!(world.told().starts_with("b1 returned t1: WorkerRestarted\nb1 assigned t2"));
}

/// Rule 8: a question under a right is granted to the life that has it, whichever registered last; that one is told, so that it
/// reports what it does not have.
#[test]
fn question_is_granted_to_the_life_that_has_the_right() {
    let (mut world, worker, _, _, token) = assigned(json!({}));
    let asked = world.played(&worker).request(token);
    let again = world.played(&worker).restart();
    world.say(again);
    world.say(asked);
    assert_eq!(world.told(), "w registered 2\nb1 granted t1\n");
    let last = world.played(&worker).heard.last().unwrap().clone();
    let lists = |message: &WorkMessage| matches!(message, WorkMessage::Registered { granted, .. } if granted.contains(&token));
    assert!(lists(&last), "{last:?}");
    let word = world.played(&worker).finished(token, AttemptResult::Lost);
    world.say(word);
    assert!(world.told().starts_with("b1 attempt 1 Lost\n"));
}

/// Rule 8: a question under a right is granted though its worker is lost and its parent was withdrawn, which is asked back.
#[test]
fn question_under_a_right_is_granted_whatever_changed() {
    let mut world = world_with_rights();
    let ids = world.define(vec![job("p", json!({})), job("a", json!({"parents": ["p"]}))]);
    let worker = world.worker("w", 2, Script::Succeed);
    world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    world.played(&worker).script = Script::Silent;
    world.batch(ids[1], Some("2026-07-01T00:00:00.000Z"));
    let token = world.played(&worker).last_token();
    world.events();
    // Another run of the parent, which goes to another worker.
    world.worker("x", 2, Script::Silent);
    world.rerun(BatchId::mint(1, GROUP), ids[0], "2026-07-01T00:00:00.000Z");
    let heard = &world.played(&worker).heard;
    let asked_back =
        |message: &WorkMessage| matches!(message, WorkMessage::AskedBack { token: of } if *of == token);
    assert!(heard.iter().any(asked_back), "{heard:?}");
    world.lost(&worker);
    let request = world.played(&worker).request(token);
    world.say(request);
    let told = world.told();
    assert!(told.contains("b3 granted t3") && !told.contains("returned"), "{told}");
}

/// Rule 8: after a command was set aside, or a loss accepted, neither time nor another life ends the older rights; the worker
/// is asked, and its word does.
#[test]
fn doubtful_rights_end_by_word_or_lease() {
    for by_loss in [false, true] {
        let (mut world, worker, _, _, token) = assigned(json!({}));
        if by_loss {
            let event = Event::Partition(PartitionEvent::CommandLossAccepted {
                by: "ann".to_owned(),
                reason: "lost".to_owned(),
                done: 0,
                kept_from: 1,
                resumed_at: 1,
            });
            let (now, level) = (world.partition.now(), world.partition.level());
            let events = vec![Recorded { shard: GROUP, event }];
            let envelope = tidemill_model::Envelope { now, level, resume: None, causes: Vec::new(), events };
            world.partition.apply(&envelope);
        } else {
            world.undecodable("garbled");
            let last = world.played(&worker).heard.last().unwrap().clone();
            assert!(matches!(last, WorkMessage::AskedBack { token: of } if of == token), "{last:?}");
        }
        world.events();
        end(&mut world, token);
        let again = world.played(&worker).restart();
        world.say(again);
        assert_eq!(world.told(), "w registered 2\n");
        let last = world.played(&worker).heard.clone();
        let lists = |message: &WorkMessage| matches!(message, WorkMessage::Registered { granted, .. } if granted.contains(&token));
        assert!(last.iter().any(lists), "{last:?}");
        // Its process may have begun in the life before: another life is not granted it.
        let request = world.played(&worker).request(token);
        world.say(request);
        assert_eq!(world.told(), "");
        let word = world.played(&worker).finished(token, AttemptResult::Lost);
        world.say(word);
        assert!(world.told().starts_with("b1 returned t1: WorkerRestarted\n"));
    }
}

/// Rule 8: what ran, ran: a report of a process under a right whose question was lost puts its start on record.
#[test]
fn report_under_a_right_implies_its_question() {
    let (mut world, worker, _, _, token) = assigned(json!({"final_command": "true"}));
    for command in
        [world.played(&worker).started(token), world.played(&worker).finished(token, AttemptResult::Success)]
    {
        world.say(command);
    }
    expect![[r#"
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
        b1 final command t2 to w
    "#]]
    .assert_eq(&world.told());
}
