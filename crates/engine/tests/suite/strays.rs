//! EXE-10, OPS-5: attempts of a life of the log that is lost, which run on: held, told of, and ended or adopted.

use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AlarmEvent, AlarmKind, AttemptResult, BatchCommand, BatchId, Command, Event, JobId, LiveAnswer,
    LiveQuery, RunningAttempt, Timestamp, Token, WorkMessage, WorkerCommand, WorkerEvent, WorkerId,
};

use crate::kit::{GROUP, Script, World, at, job, rejection};

const NINE: &str = "2026-07-01T09:00:00.000Z";
const TEN: &str = "2026-07-01T10:00:00.000Z";

/// What the life that is lost granted.
fn stray(number: u64, job: JobId, time: &str) -> RunningAttempt {
    let (token, batch) = (Token::mint(number, GROUP), BatchId::mint(number, GROUP));
    RunningAttempt { token, batch, job, logical_time: at(time), is_final: false }
}

/// Two jobs and a worker `w`, in a log that was restored; lives before minted up to 65,536.
fn restored(reads: u32) -> (World, Vec<JobId>, WorkerId) {
    let mut world = World::of_level(reads);
    let more = json!({"max_concurrent": 3, "retries": 0});
    let ids = world.define(vec![job("a", more.clone()), job("b", more)]);
    let worker = world.worker("w", 2, Script::Run);
    world.restored(1 << 16);
    world.events();
    (world, ids, worker)
}

/// The worker begins another life, and runs these.
fn registers(world: &mut World, worker: &WorkerId, strays: &[RunningAttempt]) {
    let played = world.played(worker);
    let Command::Worker(WorkerCommand::Register(mut registration)) = played.restart() else {
        panic!("a registration")
    };
    played.running.extend(strays.iter().map(|stray| (stray.token, Timestamp::MAX)));
    registration.live = strays.iter().map(|stray| stray.token).collect();
    registration.running = strays.to_vec();
    world.say(Command::Worker(WorkerCommand::Register(registration)));
}

fn ends(world: &mut World, worker: &WorkerId, token: Token, result: AttemptResult) {
    world.played(worker).running.remove(&token);
    let finished = world.played(worker).finished(token, result);
    world.say(finished);
}

fn adopt(world: &mut World, batch: BatchId, token: Token, reason: &str) -> String {
    let command = BatchCommand::Adopt { batch, token, reason: reason.to_owned() };
    rejection(&world.ask(GROUP, Command::Batch(command)))
}

fn end(world: &mut World, worker: &WorkerId, token: Token, reason: &str) -> String {
    let command = WorkerCommand::EndStray { worker: worker.clone(), token, reason: reason.to_owned() };
    rejection(&world.ask(GROUP, Command::Worker(command)))
}

fn found(world: &mut World) -> Vec<Token> {
    let strays = |event: Event| match event {
        Event::Worker(WorkerEvent::StraysFound { strays, .. }) => strays,
        _ => Vec::new(),
    };
    world.events().into_iter().flat_map(strays).map(|stray| stray.token).collect()
}

/// EXE-10: a stray is on record and told of, and nothing of its logical time starts until its worker says that it has ended; other
/// logical times go on.
#[test]
fn stray_holds_its_logical_time_until_its_worker_has_ended_it() {
    let (mut world, ids, worker) = restored(3);
    let stray = stray(100, ids[0], NINE);
    registers(&mut world, &worker, &[stray]);
    let events = world.events();
    let alarm = events.iter().find_map(|event| match event {
        Event::Alarm(AlarmEvent::Raised { kind: AlarmKind::StraysFound, worker, message, .. }) => {
            Some((worker.clone(), message.clone()))
        }
        _ => None,
    });
    let (of, message) = alarm.unwrap();
    assert_eq!(of.as_ref(), Some(&worker));
    assert!(message.contains(&format!("{} of g/a for 2026-07-01T09:00:00", stray.token)), "{message}");
    let granted = world.played(&worker).heard.iter().rev().find_map(|message| match message {
        WorkMessage::Registered { granted, .. } => Some(granted.clone()),
        _ => None,
    });
    assert_eq!(granted, Some(vec![stray.token]), "it goes on");

    let held = world.batch(ids[0], Some(NINE));
    assert_eq!(world.why_kinds(held), ["stray"]);
    let why = world.why(held).remove(0).message;
    assert!(why.contains("worker w (") && why.contains(&stray.token.to_string()), "{why}");
    let LiveAnswer::Worker(present) =
        world.partition.answer(GROUP, &LiveQuery::Worker { worker: worker.clone() })
    else {
        panic!("the worker is known")
    };
    assert_eq!(present.strays, [stray]);
    let other = world.batch(ids[0], Some(TEN));
    assert_eq!(world.why_kinds(other), Vec::<String>::new(), "another logical time runs");
    world.events();

    ends(&mut world, &worker, stray.token, AttemptResult::Success);
    let recorded = WorkMessage::Recorded { token: stray.token };
    assert!(world.played(&worker).heard.contains(&recorded));
    expect![[r#"
        worker.stray_ended worker/w
        b65537 assigned t65538 attempt 1 to w
        b65537 granted t65538
        b65537 started t65538
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.why_kinds(held), Vec::<String>::new());
    assert_eq!(world.partition, world.folded());
}

/// EXE-10: only what this shard gave in a life that is lost is a stray: in a gap that a restore left, or above all that is minted. Below level 3
/// none is recorded, and what is found once is not found again.
#[test]
fn stray_is_what_a_lost_life_gave() {
    let (mut world, ids, worker) = restored(3);
    registers(&mut world, &worker, &[]);
    let ran = world.batch(ids[1], Some(NINE));
    let here = world.played(&worker).last_token();
    ends(&mut world, &worker, here, AttemptResult::Success);
    assert_eq!(world.unfinished(), 0, "{ran} has ended");
    world.events();
    let above = stray((1 << 16) + 50, ids[0], NINE);
    let foreign = RunningAttempt { token: Token::mint(7, tidemill_model::ShardId(9)), ..above };
    let far = RunningAttempt { token: Token::mint(1 << 50, GROUP), ..above };
    let over = RunningAttempt { token: here, ..above };
    let (early, late) = (stray(1, ids[0], NINE), stray(1 << 16, ids[0], TEN));
    registers(&mut world, &worker, &[early, over, foreign, late, above, far, late]);
    assert_eq!(found(&mut world), [early.token, late.token, above.token]);
    // What comes next is minted above it.
    let next = world.batch(ids[1], Some(TEN));
    assert!(world.played(&worker).last_token() > above.token, "{next}");
    registers(&mut world, &worker, &[early, late, above]);
    assert_eq!(found(&mut world), [], "they are known");
    assert_eq!(world.partition, world.folded());

    let (mut world, ids, worker) = restored(2);
    registers(&mut world, &worker, &[stray(100, ids[0], NINE)]);
    assert_eq!(found(&mut world), []);
}

/// EXE-10: what was assigned before its stray was found gets no start, and waits.
#[test]
fn assignment_beside_a_stray_gets_no_start() {
    let (mut world, ids, worker) = restored(3);
    registers(&mut world, &worker, &[]);
    world.played(&worker).script = Script::Silent;
    let batch = world.batch(ids[0], Some(NINE));
    let token = world.played(&worker).last_token();
    let other = world.worker("x", 2, Script::Run);
    let stray = stray(100, ids[0], NINE);
    registers(&mut world, &other, &[stray]);
    let request = world.played(&worker).request(token);
    world.say(request);
    assert_eq!(world.why_kinds(batch), ["stray"]);
    assert_eq!(world.unfinished(), 1);
    ends(&mut world, &other, stray.token, AttemptResult::Failed);
    assert_eq!(world.why_kinds(batch), Vec::<String>::new(), "it runs on x");
    assert_eq!(world.partition, world.folded());
}

/// EXE-10: a person adopts a stray, whose end is then that of the batch's attempt. What cannot be adopted is refused by the rule.
#[test]
fn adopted_stray_is_the_attempt_of_its_batch() {
    let (mut world, ids, worker) = restored(3);
    let stray = stray(100, ids[0], NINE);
    let last = RunningAttempt { is_final: true, ..self::stray(101, ids[0], TEN) };
    registers(&mut world, &worker, &[stray, last]);
    let batch = world.batch(ids[0], Some(NINE));
    let other = world.batch(ids[1], Some(NINE));
    let of_last = world.batch(ids[0], Some(TEN));
    world.events();
    assert!(adopt(&mut world, batch, stray.token, " ").contains("say why its end is to count"));
    assert!(adopt(&mut world, batch, Token::mint(5, GROUP), "r").contains("is no stray"));
    assert!(adopt(&mut world, other, stray.token, "r").contains("runs for"));
    assert!(adopt(&mut world, of_last, last.token, "r").contains("is a final command"));
    let unknown = adopt(&mut world, BatchId::mint(99, GROUP), stray.token, "r");
    assert!(unknown.contains("long ago") || unknown.contains("unknown"), "{unknown}");
    assert_eq!(world.told(), "", "nothing is changed");
    assert_eq!(adopt(&mut world, batch, stray.token, "it writes into its own place"), "accepted: Done");
    assert!(adopt(&mut world, batch, stray.token, "r").contains("is no stray"));
    ends(&mut world, &worker, stray.token, AttemptResult::Success);
    expect![[r#"
        attempt.adopted batch/268439553
        b65537 attempt 1 Success
        b65537 finished success
    "#]]
    .assert_eq(&world.told());
    ends(&mut world, &worker, last.token, AttemptResult::Success);
    assert_eq!(world.partition, world.folded());
}

/// EXE-10: a person has a stray ended: its worker is asked, again after it comes back, and its word releases the logical time.
#[test]
fn stray_is_ended_by_its_worker_when_a_person_wants_it() {
    let (mut world, ids, worker) = restored(3);
    let stray = stray(100, ids[0], NINE);
    registers(&mut world, &worker, &[stray]);
    let batch = world.batch(ids[0], Some(NINE));
    world.played(&worker).script = Script::Silent;
    world.events();
    assert!(end(&mut world, &worker, stray.token, "").contains("say why"));
    assert!(end(&mut world, &worker, Token::mint(5, GROUP), "r").contains("is no stray of worker w"));
    assert!(end(&mut world, &WorkerId::new("nobody"), stray.token, "r").contains("unknown"));
    assert_eq!(world.told(), "", "nothing is changed");
    assert_eq!(end(&mut world, &worker, stray.token, "it writes twice"), "accepted: Done");
    assert_eq!(end(&mut world, &worker, stray.token, "again"), "accepted: Done");
    assert!(adopt(&mut world, batch, stray.token, "r").contains("is to end"));
    assert_eq!(world.why_kinds(batch), ["stray"], "it has not ended yet");
    world.played(&worker).script = Script::Run;
    registers(&mut world, &worker, &[stray]);
    assert!(!world.played(&worker).running.contains_key(&stray.token), "it is asked again");
    assert_eq!(world.why_kinds(batch), Vec::<String>::new());
    expect![[r#"
        worker.stray_kill_requested worker/w
        w registered 3
        worker.stray_ended worker/w
        b65537 assigned t65537 attempt 1 to w
        b65537 granted t65537
        b65537 started t65537
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
}

/// EXE-8, EXE-10: no lease ends a stray, for what its worker was told is lost; a person's word for the lost worker does.
#[test]
fn stray_of_a_lost_worker_ends_when_a_person_vouches() {
    let (mut world, ids, worker) = restored(3);
    let stray = stray(100, ids[0], NINE);
    registers(&mut world, &worker, &[stray]);
    let batch = world.batch(ids[0], Some(NINE));
    world.lost(&worker);
    world.lease_over(&worker);
    assert_eq!(world.why_kinds(batch), ["stray"]);
    world.events();
    let vouch = WorkerCommand::VouchEnded { worker: worker.clone(), reason: "its host is off".to_owned() };
    world.ask(GROUP, Command::Worker(vouch));
    expect![[r#"
        w vouched for by test
        worker.stray_ended worker/w
        w registered 3
        b65537 assigned t65537 attempt 1 to w
        b65537 granted t65537
        b65537 started t65537
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.why_kinds(batch), Vec::<String>::new(), "the next life of the worker runs it");
    assert_eq!(world.partition, world.folded());
}

/// EXE-10, OPS-5: after a restore a worker has to register before anything else is heard of it, so that what it runs is known.
#[test]
fn worker_of_before_a_restore_has_to_register() {
    for reads in [3, 2] {
        let (mut world, _, worker) = restored(reads);
        let heartbeat = world.played(&worker).heartbeat();
        world.say(heartbeat.clone());
        assert_eq!(world.told(), "w registered 2\n", "level {reads}");
        let again = world.played(&worker).heartbeat();
        world.say(again);
        assert_eq!(world.told(), "", "level {reads}: once");
    }
}

/// EXE-10: until a worker has registered after a restore nobody knows what it runs, so nothing is assigned to it, and what it was assigned
/// before gets no start; then it works on.
#[test]
fn worker_of_before_a_restore_gets_nothing_until_it_registers() {
    let mut world = World::of_level(3);
    let more = json!({"max_concurrent": 3, "retries": 0});
    let ids = world.define(vec![job("a", more)]);
    let worker = world.worker("w", 2, Script::Silent);
    world.restored(1 << 16);
    world.events();
    let LiveAnswer::Worker(present) =
        world.partition.answer(GROUP, &LiveQuery::Worker { worker: worker.clone() })
    else {
        panic!("the worker is known")
    };
    assert!(present.unheard);
    let batch = world.batch(ids[0], Some(NINE));
    world.events();
    assert_eq!(world.why_kinds(batch).len(), 1, "{:?}", world.why(batch));
    world.played(&worker).script = Script::Run;
    registers(&mut world, &worker, &[stray(100, ids[0], NINE)]);
    assert_eq!(world.why_kinds(batch), ["stray"]);
    let other = world.batch(ids[0], Some(TEN));
    assert_eq!(world.why_kinds(other), Vec::<String>::new(), "it works again");
    assert_eq!(world.partition, world.folded());
}

/// EXE-10: what the next life of a worker names is not ended with what a person has vouched for.
#[test]
fn stray_that_the_next_life_names_is_not_ended_with_the_last() {
    let (mut world, ids, worker) = restored(3);
    registers(&mut world, &worker, &[stray(100, ids[0], NINE)]);
    world.lost(&worker);
    world.played(&worker).script = Script::Silent;
    world.events();
    let vouch = WorkerCommand::VouchEnded { worker: worker.clone(), reason: "its host is off".to_owned() };
    world.send(GROUP, Command::Worker(vouch));
    let Command::Worker(WorkerCommand::Register(mut registration)) = world.played(&worker).restart() else {
        panic!("a registration")
    };
    registration.running = vec![stray(101, ids[0], TEN)];
    world.send(GROUP, Command::Worker(WorkerCommand::Register(registration)));
    world.run();
    let ended = world.events().into_iter().filter_map(|event| match event {
        Event::Worker(WorkerEvent::StrayEnded { token, .. }) => Some(token),
        _ => None,
    });
    assert_eq!(ended.collect::<Vec<_>>(), [Token::mint(100, GROUP)]);
    let held = world.batch(ids[0], Some(TEN));
    assert_eq!(world.why_kinds(held), ["stray"]);
    assert_eq!(world.partition, world.folded());
}

/// EXE-13: what a stray started elsewhere, and nobody confirms to have ended, is for the next attempt of its logical time to end.
#[test]
fn unconfirmed_work_of_a_stray_is_passed_on() {
    let (mut world, ids, worker) = restored(3);
    let stray = stray(100, ids[0], NINE);
    registers(&mut world, &worker, &[stray]);
    world.batch(ids[0], Some(NINE));
    world.played(&worker).running.remove(&stray.token);
    let Command::Worker(WorkerCommand::ReportFinished {
        token, worker: of, outcome, usage, interrupted, ..
    }) = world.played(&worker).finished(stray.token, AttemptResult::Lost)
    else {
        panic!("a report")
    };
    let external = Some(Box::new(tidemill_model::ExternalEnd::unknown()));
    let report = WorkerCommand::ReportFinished { token, worker: of, outcome, usage, interrupted, external };
    world.say(Command::Worker(report));
    let named = world.played(&worker).heard.iter().rev().find_map(|message| match message {
        WorkMessage::Granted { spec, .. } => Some(spec.unconfirmed.clone()),
        WorkMessage::AssignedWithRight { spec, .. } => Some(spec.unconfirmed.clone()),
        _ => None,
    });
    let named: Vec<Token> = named.unwrap().into_iter().map(|work| work.token).collect();
    assert_eq!(named, [stray.token]);
    assert_eq!(world.partition, world.folded());
}

/// EXE-4, EXE-10: what a stray reported by code is lost, so it does not become an attempt that is judged by that.
#[test]
fn stray_that_goes_by_codes_is_not_adopted() {
    let (mut world, _, worker) = restored(3);
    let by_code = json!({"type": "shell", "command": "x", "success_check": "user_code"});
    let ids = world.define(vec![job("c", by_code)]);
    let stray = stray(100, ids[0], NINE);
    registers(&mut world, &worker, &[stray]);
    let batch = world.batch(ids[0], Some(NINE));
    world.events();
    assert!(!world.why(batch)[0].message.contains("batch adopt"), "what is refused is no advice");
    assert!(adopt(&mut world, batch, stray.token, "r").contains("goes by the codes"));
    assert_eq!(world.told(), "");
    // A word that was said without a question, in the life that is lost, is no word about it.
    let early = WorkerCommand::RejectAssignment {
        token: stray.token,
        worker: worker.clone(),
        nonce: None,
        reason: "its disk was full".to_owned(),
        lacks_resources: false,
    };
    world.say(Command::Worker(early));
    assert_eq!(world.why_kinds(batch), ["stray"]);
}

/// EXE-10: a batch that is blocked by a failed parent is so no more once a stray is its attempt.
#[test]
fn adopted_stray_unblocks_its_batch() {
    let (mut world, ids, worker) = restored(3);
    let child = json!({"parents": [{"job": "g/b"}], "retries": 0});
    let child = world.define(vec![job("child", child)])[0];
    registers(&mut world, &worker, &[stray(100, child, NINE)]);
    world.played(&worker).script = Script::Fail;
    world.batch(ids[1], Some(NINE));
    let LiveAnswer::NewestBatch { batch: Some(batch), .. } =
        world.partition.answer(GROUP, &LiveQuery::NewestBatch { job: child })
    else {
        panic!("its parent has generated it")
    };
    let told = world.told();
    if !told.contains("blocked") {
        panic!("its parent has failed: {told}");
    }
    assert_eq!(adopt(&mut world, batch, Token::mint(100, GROUP), "it goes on"), "accepted: Done");
    let told = world.told();
    assert!(told.contains("unblocked"), "{told}");
    assert_eq!(world.partition, world.folded());
}
