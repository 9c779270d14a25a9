//! ZMB-1: the output of an attempt that is lost with its worker says whether it has done its work.

use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AttemptResult, BatchCommand, BatchId, Command, Event, ExternalEnd, ExternalWork, ExternalWorkId,
    GroupSettings, Heartbeat, Leaving, LiveAnswer, LiveQuery, ObservationCommand, OutputAnswer, OutputFound,
    OverriddenResult, RunningAttempt, Timestamp, Token, Usage, WantedOutput, WorkerCommand, WorkerId,
};

use crate::kit::{GROUP, START, Script, World, at, job, rejection};
use crate::leaving::{interrupted, leaves};

const NINE: &str = "2026-07-01T09:00:00.000Z";
const TEN: &str = "2026-07-01T10:00:00.000Z";

/// Of a job that goes by its output.
fn by_output() -> serde_json::Value {
    json!({
        "type": "shell", "command": "x", "retries": 1, "retry_interval_s": 60,
        "success_check": {"output_path": "/out/${yyyyMMdd}"}
    })
}

/// A batch that goes by its output, with one retry, runs since 10:10 on a worker.
fn running_at(level: bool) -> (World, WorkerId, BatchId, Token) {
    let mut world = World::with(START, GroupSettings::default());
    if level {
        world.raise();
    }
    let ids = world.define(vec![job("a", by_output())]);
    let worker = world.worker("w", 2, Script::Run);
    let batch = world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    world.events();
    let token = world.played(&worker).last_token();
    (world, worker, batch, token)
}

fn running() -> (World, WorkerId, BatchId, Token) {
    running_at(true)
}

fn lost(world: &mut World, worker: &WorkerId) {
    world.lost(worker);
    world.lease_over(worker);
}

fn answer(world: &mut World, of: (BatchId, Token), found: OutputFound) -> String {
    let answers = vec![OutputAnswer { batch: of.0, token: of.1, found }];
    let command = Command::Observation(ObservationCommand::ReportOutputs { answers, seal: String::new() });
    rejection(&world.ask(GROUP, command))
}

fn changed(text: &str) -> OutputFound {
    OutputFound::Changed { at: at(text) }
}

fn wanted(world: &World) -> Vec<WantedOutput> {
    let query = LiveQuery::WantedExternalDependencies { after: None, limit: 10 };
    match world.partition.answer(GROUP, &query) {
        LiveAnswer::Wanted { outputs, .. } => outputs,
        other => panic!("{other:?}"),
    }
}

/// ZMB-1: newer output is the batch's success; until that is known, no other attempt begins.
#[test]
fn newer_output_of_a_lost_attempt_is_its_success() {
    let (mut world, worker, batch, token) = running();
    lost(&mut world, &worker);
    expect![[r#"
        w lost
        w lease expired
        b1 external work of t1 unconfirmed
        b1 attempt 1 Lost
        b1 output of t1 queried: /out/20260701 since 2026-07-01 10:10 until 2026-07-01 10:11
        w registered 2
    "#]]
    .assert_eq(&world.told());
    let path = "/out/20260701".into();
    assert_eq!(wanted(&world), [WantedOutput { batch, token, path }]);
    assert_eq!(world.why_kinds(batch), ["lost_output"]);
    let message = &world.why(batch)[0].message;
    assert!(message.contains("probers look") && message.contains("/out/20260701"), "{message}");
    assert_eq!(answer(&mut world, (batch, token), changed("2026-07-01T10:10:00.000Z")), "accepted: Done");
    expect![[r#"
        b1 output of t1: Changed { at: 2026-07-01T10:10:00.000Z }
        b1 finished success
    "#]]
    .assert_eq(&world.told());
    assert_eq!(wanted(&world), []);
    assert_eq!(world.partition, world.folded());
}

/// ZMB-1: what stood there before proves nothing, and nothing at all does neither: as after an attempt that failed.
#[test]
fn older_or_missing_output_is_a_failure() {
    for found in [changed("2026-07-01T10:09:59.000Z"), OutputFound::Absent] {
        let (mut world, worker, batch, token) = running();
        lost(&mut world, &worker);
        world.played(&worker).script = Script::Succeed;
        world.events();
        answer(&mut world, (batch, token), found);
        let told = world.told();
        assert!(told.contains("b1 retry 2 at 2026-07-01 10:11"), "its interval counts from here: {told}");
        world.pass_minutes(1);
        let told = world.told();
        assert!(told.ends_with("b1 attempt 2 Success\nb1 finished success\n"), "{told}");
        assert_eq!(world.partition, world.folded());
    }
}

/// ZMB-1: where nobody can tell, or no prober says anything in time, it is lost as without a look; the last attempt's batch fails,
/// and says why.
#[test]
fn without_an_answer_it_stays_lost() {
    let (mut world, worker, batch, token) = running();
    lost(&mut world, &worker);
    world.events();
    world.pass_minutes(1);
    expect![[r#"
        b1 output of t1: Unknown { reason: "no prober has looked within 60 s" }
        b1 retry 2 at 2026-07-01 10:12
    "#]]
    .assert_eq(&world.told());
    world.pass_minutes(1);
    world.events();
    let last = world.played(&worker).last_token();
    lost(&mut world, &worker);
    world.events();
    answer(&mut world, (batch, token), changed("2026-07-01T10:30:00.000Z"));
    assert_eq!(world.told(), "", "of an earlier attempt nobody wants to know");
    let reason = "r".repeat(1_000);
    answer(&mut world, (batch, last), OutputFound::Unknown { reason });
    let events = world.events();
    let [.., Event::Batch(tidemill_model::BatchEvent::Finished { message, .. })] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(message.starts_with("lost with its worker: whether its output path /out/20260701"), "{message}");
    assert!(message.len() < 500);
    assert_eq!((world.unfinished(), &world.partition), (0, &world.folded()));
}

/// ZMB-1: a worker that does not have an attempt which began on it any more, as after a container was made anew, cannot look; what
/// never began is not looked for, nor what its worker ended.
#[test]
fn reported_as_lost_it_is_looked_for_if_it_had_begun() {
    let (mut world, worker, batch, token) = running();
    let report = world.played(&worker).finished(token, AttemptResult::Lost);
    world.say(report.clone());
    let told = world.told();
    assert!(told.contains("b1 output of t1 queried"), "{told}");
    world.say(report);
    assert_eq!(world.told(), "", "a repeat changes nothing");
    answer(&mut world, (batch, token), changed("2026-07-01T10:10:30.000Z"));
    assert!(world.told().ends_with("b1 finished success\n"));

    let (mut world, worker, ..) = running();
    world.played(&worker).script = Script::Silent;
    let ids = world.define(vec![job(
        "b",
        json!({"type": "shell", "command": "x", "success_check": {"output_path": "/b"}}),
    )]);
    world.batch(ids[0], None);
    let token = world.played(&worker).last_token();
    let request = world.played(&worker).request(token);
    world.say(request);
    let report = world.played(&worker).finished(token, AttemptResult::Lost);
    world.say(report);
    let told = world.told();
    assert!(told.contains("b2 attempt 1 Lost") && !told.contains("queried"), "{told}");
}

/// ZMB-1: a person who kills a batch does not wait for a prober, and a batch that is to be ended is not looked for.
#[test]
fn killed_batch_is_not_looked_for() {
    let (mut world, worker, batch, token) = running();
    lost(&mut world, &worker);
    world.events();
    world.kill(batch);
    assert_eq!(world.told(), "b1 finished killed by ann\n");
    assert_eq!((wanted(&world), world.unfinished()), (vec![], 0));
    assert_eq!(answer(&mut world, (batch, token), changed("2026-07-01T10:11:00.000Z")), "accepted: Done");
    assert_eq!(world.told(), "");

    let (mut world, worker, batch, _) = running();
    world.played(&worker).script = Script::Silent;
    world.kill(batch);
    lost(&mut world, &worker);
    assert!(world.told().ends_with("b1 attempt 1 Lost\nb1 finished killed by ann\n"));
    assert_eq!(world.partition, world.folded());
}

/// ZMB-1: a person's word that nothing of it runs is no word about its work; below level 3 none of this is on record.
#[test]
fn vouched_for_it_is_looked_for_and_below_the_level_it_is_not() {
    let (mut world, worker, batch, token) = running();
    world.lost(&worker);
    let reason = "its host is off".to_owned();
    world.ask(GROUP, Command::Batch(BatchCommand::VouchEnded { batch, token, reason }));
    let told = world.told();
    assert!(told.contains("b1 attempt 1 Lost\nb1 output of t1 queried"), "{told}");

    let (mut world, worker, ..) = running_at(false);
    lost(&mut world, &worker);
    let told = world.told();
    assert!(told.contains("b1 attempt 1 Lost\nb1 retry 2 at 2026-07-01 10:11\n"), "{told}");
}

/// More answers than a report may have are refused as a whole.
#[test]
fn report_of_outputs_is_bounded() {
    let (mut world, worker, batch, token) = running();
    lost(&mut world, &worker);
    world.events();
    let answers = vec![OutputAnswer { batch, token, found: OutputFound::Absent }; 65];
    let outcome = world
        .ask(GROUP, Command::Observation(ObservationCommand::ReportOutputs { answers, seal: String::new() }));
    assert!(rejection(&outcome).contains("at most 64"), "{outcome:?}");
    assert_eq!(world.told(), "");
}

/// ZMB-1: a worker that tells what an attempt used was there and has looked itself; what runs elsewhere may still write the output.
#[test]
fn what_its_worker_has_judged_or_may_still_be_written_is_not_looked_for() {
    let (mut world, worker, _, token) = running();
    let Command::Worker(WorkerCommand::ReportFinished { worker: of, outcome, interrupted, .. }) =
        world.played(&worker).finished(token, AttemptResult::Lost)
    else {
        panic!("a report")
    };
    let external = Some(Box::new(ExternalEnd::unknown()));
    let usage = Some(Box::new(Usage { duration_ms: 1, ..Usage::default() }));
    world.say(Command::Worker(WorkerCommand::ReportFinished {
        token,
        worker: of,
        outcome,
        usage,
        interrupted,
        external,
    }));
    let told = world.told();
    assert!(told.contains("b1 attempt 1 Lost\nb1 retry 2") && !told.contains("queried"), "{told}");

    let (mut world, worker, _, token) = running();
    let Command::Worker(WorkerCommand::Heartbeat(heartbeat)) = world.played(&worker).heartbeat() else {
        panic!("a heartbeat")
    };
    let ids = vec![ExternalWorkId::try_from("application_1").unwrap()];
    let external_work = vec![ExternalWork { token, ids }];
    world.say(Command::Worker(WorkerCommand::Heartbeat(Heartbeat { external_work, ..heartbeat })));
    lost(&mut world, &worker);
    let told = world.told();
    assert!(told.contains("b1 attempt 1 Lost\nb1 retry 2") && !told.contains("queried"), "{told}");
    assert_eq!(world.partition, world.folded());
}

/// ZMB-1, EXE-12: what its worker ended because it was stopped itself has not done its work; it begins again at once.
#[test]
fn what_a_worker_ended_for_its_own_stop_is_not_looked_for() {
    let (mut world, worker, _, token) = running();
    leaves(&mut world, &worker, Leaving { keeps_jobs: false, is_empty: false });
    world.events();
    let report = interrupted(token, &worker, AttemptResult::Lost);
    world.say(report);
    let told = world.told();
    assert!(told.contains("b1 attempt 1 Lost\nb1 retry 2") && !told.contains("queried"), "{told}");
}

/// ZMB-1, EXE-10: an attempt of a lost life of the log may still write the output of its logical time.
#[test]
fn output_that_a_stray_may_write_is_not_looked_for() {
    for is_same_time in [false, true] {
        let mut world = World::new();
        world.raise();
        let ids = world.define(vec![job("a", by_output())]);
        let worker = world.worker("w", 2, Script::Run);
        world.batch(ids[0], Some(NINE));
        let token = world.played(&worker).last_token();
        world.restored(1 << 16);
        let time = if is_same_time { NINE } else { TEN };
        let stray = RunningAttempt {
            token: Token::mint(100, GROUP),
            batch: BatchId::mint(100, GROUP),
            job: ids[0],
            logical_time: at(time),
            is_final: false,
        };
        world.played(&worker).running.insert(stray.token, Timestamp::MAX);
        let mut registration = world.played(&worker).registration();
        registration.running.push(stray);
        world.say(Command::Worker(WorkerCommand::Register(Box::new(registration))));
        world.events();
        let report = world.played(&worker).finished(token, AttemptResult::Lost);
        world.say(report);
        let told = world.told();
        assert_eq!(told.contains("output of t1 queried"), !is_same_time, "{told}");
        assert_eq!(world.partition, world.folded());
    }
}

/// ZMB-1, BYD-18: what becomes of the parents does not end a batch that may have run, before its output was looked for.
#[test]
fn parents_do_not_end_a_batch_that_is_looked_for() {
    let mut world = World::new();
    world.raise();
    let mut rescues = by_output();
    rescues["parents"] = json!(["p"]);
    rescues["run_if"] = json!("failure");
    let ids = world.define(vec![job("p", json!({"type": "python", "command": "x"})), job("c", rescues)]);
    let worker = world.worker("w", 2, Script::Run);
    let parent = world.batch(ids[0], Some(TEN));
    world.kill(parent);
    let (batch, token) = (BatchId::mint(2, GROUP), world.played(&worker).last_token());
    lost(&mut world, &worker);
    assert!(world.told().contains("output of t1 queried"));
    let command = BatchCommand::OverrideResult {
        batch: parent,
        job: ids[0],
        logical_time: at(TEN),
        result: OverriddenResult::Success,
        reason: "as seen".to_owned(),
        run: None,
    };
    world.ask(GROUP, Command::Batch(command));
    let told = world.told();
    assert!(!told.contains("b2 finished"), "{told}");
    answer(&mut world, (batch, token), OutputFound::Absent);
    let told = world.told();
    assert!(told.contains("b2 finished skipped"), "nothing has failed, and nothing was made: {told}");
    assert_eq!(world.partition, world.folded());
}
