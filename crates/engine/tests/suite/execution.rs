//! How attempts are executed: on which workers, as whom, when they have succeeded, and what runs at the end.

use std::sync::Arc;

use crate::kit::{GROUP, Script, World, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AttemptResult, BatchCommand, BatchEvent, Command, Event, GroupSettings, JobEvent, Nonce, Outcome,
    Program, RunSpec, Token, WorkMessage, WorkerCommand, WorkerId, bounds,
};

fn shell(name: &str, more: serde_json::Value) -> tidemill_model::JobSpec {
    let mut fields = json!({"type": "shell", "command": "true"});
    for (name, value) in more.as_object().unwrap() {
        fields[name] = value.clone();
    }
    job(name, fields)
}

/// What a worker was told to run last.
fn spec(world: &mut World, worker: &WorkerId) -> RunSpec {
    let heard = &world.played(worker).heard;
    let granted = heard.iter().rev().find_map(|message| match message {
        WorkMessage::Granted { spec, .. } => Some(RunSpec::clone(spec)),
        _ => None,
    });
    granted.unwrap()
}

fn end(world: &mut World, worker: &WorkerId, token: Token, result: AttemptResult) {
    let command = world.played(worker).finished(token, result);
    world.played(worker).running.remove(&token);
    world.say(command);
}

/// JOB-1: a job that names a label runs on workers that have it, and `why` says so while there is none.
#[test]
fn label_is_wanted_of_the_worker() {
    let mut world = World::new();
    let ids = world.define(vec![shell("a", json!({"worker_label": "gpu"}))]);
    world.worker("plain", 4, Script::Succeed);
    let batch = world.batch(ids[0], None);
    let why = world.why(batch);
    assert_eq!(why[0].kind, "worker_label");
    assert_eq!(why[0].message, "no worker of the group that takes shell has label gpu");
    world.events();
    let mut worker = crate::kit::TestWorker::new("w", 1, Script::Succeed);
    worker.labels = vec!["gpu".to_owned(), "big".to_owned()];
    let registration = worker.registration();
    world.workers.push(worker);
    world.say(Command::Worker(WorkerCommand::Register(Box::new(registration))));
    assert!(world.told().contains("b1 assigned t1 attempt 1 to w\n"));
}

/// DSP-2: an account that the group does not allow fails the batch when it would be assigned, whoever its owner is; one
/// that it allows goes to the worker.
#[test]
fn account_has_to_be_allowed() {
    let accounts = serde_json::from_str(r#"{"*": ["etl", "nobody"]}"#).unwrap();
    let settings = GroupSettings { accounts: Some(Arc::new(accounts)), ..GroupSettings::default() };
    let mut world = World::with("2026-07-01T10:10:00.000Z", settings);
    let of = |owner, account| json!({"owner": owner, "run_as": account, "retries": 3});
    world.define_key(&["etl", "nobody", "root"]);
    let ids = world.define(vec![
        shell("good", of("ann", "etl")),
        shell("all", of("bob", "nobody")),
        shell("bad", of("root", "root")),
        shell("none", json!({"run_as": "root"})),
    ]);
    let worker = world.worker("w", 4, Script::Run);
    world.events();
    for id in &ids {
        world.batch(*id, Some("2026-07-01T10:00:00.000Z"));
    }
    expect![[r#"
        b1 generated good 2026-07-01 10:00 run 0
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b2 generated all 2026-07-01 10:00 run 0
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
        b3 generated bad 2026-07-01 10:00 run 0
        b3 finished failed
        b4 generated none 2026-07-01 10:00 run 0
        b4 finished failed
    "#]]
    .assert_eq(&world.told());
    assert_eq!(spec(&mut world, &worker).run_as.unwrap().as_str(), "nobody");
    let text = String::from_utf8(world.journal.concat()).unwrap();
    assert!(text.contains("jobs of group g may not run as account root"));
    let registered = world.played(&worker).heard.iter().any(
        |message| matches!(message, WorkMessage::Registered { settings, .. } if settings.accounts.is_some()),
    );
    assert!(!registered, "workers are not told whom others may run as");
}

/// JOB-1, JOB-7: the arguments of a text and the job's fields are those of the definition that the batch was generated
/// with, and what a preview of that definition shows.
#[test]
fn job_fields_are_those_of_the_definition_of_the_batch() {
    let mut world = World::new();
    let written = |owner: &str| {
        let more = json!({
            "owner": owner, "command": "load ${owner} ${version}", "arguments": ["${priority}", "${yyyyMMdd-1d}"],
            "final_command": "echo ${owner}",
        });
        shell("a", more)
    };
    assert!(matches!(world.apply(vec![written("ann")]), Outcome::Answered(_)));
    let defined = world.events().into_iter().find_map(|event| match event {
        Event::Job(JobEvent::Defined { definition, .. }) => Some(definition),
        _ => None,
    });
    let defined = defined.unwrap();
    world.batch(defined.id, Some("2026-07-01T10:00:00.000Z"));
    world.define(vec![written("bob")]);
    let worker = world.worker("w", 1, Script::Run);
    let run = spec(&mut world, &worker);
    let (text, arguments) = ("load ann 1".to_owned(), vec!["5".to_owned(), "20260630".to_owned()]);
    assert_eq!(run.program, Program::Script { text, arguments });
    let utc = tidemill_calendar::Zone::try_from("UTC").unwrap();
    let preview = tidemill_engine::preview(&defined, &utc, run.logical_time).unwrap();
    assert_eq!((preview.run.program, preview.final_command), (run.program, Some("echo ann".to_owned())));
    assert_eq!(world.folded(), world.partition);
}

/// JOB-8: once, after the last attempt, on its worker, with the result; the batch's result stays what it was.
#[test]
fn final_command_runs_when_the_batch_has_ended_for_good() {
    let mut world = World::new();
    let more = json!({"retries": 1, "retry_interval_s": 60, "final_command": "echo ${job} ${batch_id}"});
    let ids = world.define(vec![shell("a", more)]);
    let worker = world.worker("w", 1, Script::Run);
    world.events();
    world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    let token = world.played(&worker).last_token();
    end(&mut world, &worker, token, AttemptResult::Failed);
    world.pass_minutes(2);
    let token = world.played(&worker).last_token();
    end(&mut world, &worker, token, AttemptResult::Failed);
    let token = world.played(&worker).last_token();
    let run = spec(&mut world, &worker);
    assert_eq!((run.token, run.job_type.as_str()), (token, "shell"));
    assert_eq!(run.program, Program::Command("echo a 4097".to_owned()));
    let ending = run.ending.unwrap();
    assert_eq!((ending.result.as_str(), ending.attempts, ending.exit_code), ("failed", 2, Some(3)));
    end(&mut world, &worker, token, AttemptResult::Success);
    expect![[r#"
        b1 generated a 2026-07-01 10:00 run 0
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Failed
        b1 retry 2 at 2026-07-01 10:11
        b1 retry due
        b1 assigned t2 attempt 2 to w
        b1 granted t2
        b1 started t2
        b1 attempt 2 Failed
        b1 finished failed
        b1 final command t3 to w
        b1 final command granted t3
        b1 final command success: 
    "#]]
    .assert_eq(&world.told());
}

/// JOB-8: its slot is that of the attempt; the next batch waits for it.
#[test]
fn final_command_takes_over_the_slot() {
    let mut world = World::new();
    let ids = world.define(vec![shell("a", json!({"final_command": "true"})), shell("b", json!({}))]);
    let worker = world.worker("w", 1, Script::Run);
    world.batch(ids[0], None);
    let next = world.batch(ids[1], None);
    let token = world.played(&worker).last_token();
    end(&mut world, &worker, token, AttemptResult::Success);
    assert_eq!(world.why_kinds(next), ["no_slot"]);
    world.events();
    let token = world.played(&worker).last_token();
    end(&mut world, &worker, token, AttemptResult::Failed);
    expect![[r#"
        b1 final command failed: exit code 3
        alarm FinalCommandFailed, Important
        b2 assigned t3 attempt 1 to w
        b2 granted t3
        b2 started t3
    "#]]
    .assert_eq(&world.told());
}

/// JOB-8: a batch that ended without an attempt has its final command, too, however it ended: on a worker that may run
/// its job, once one has a free slot.
#[test]
fn batch_without_an_attempt_has_its_final_command() {
    let mut world = World::new();
    let more = json!({"final_command": "echo ${job}"});
    let ids = world.define(vec![shell("a", more), shell("b", json!({})), shell("c", json!({}))]);
    let batch = world.batch(ids[0], None);
    world.events();
    world.kill(batch);
    assert_eq!(world.told(), "b1 finished killed by ann\n", "no worker is there");
    let worker = world.worker("w", 1, Script::Run);
    let run = spec(&mut world, &worker);
    assert_eq!(run.program, Program::Command("echo a".to_owned()));
    let ending = run.ending.unwrap();
    assert_eq!((ending.result.as_str(), ending.attempts, ending.exit_code), ("killed", 0, None));
    let token = world.played(&worker).last_token();
    end(&mut world, &worker, token, AttemptResult::Success);
    let told = world.told();
    assert!(told.contains("b1 final command t1 to w\nb1 final command granted t1\n"), "{told}");
    assert!(told.ends_with("b1 final command success: \n"), "{told}");

    // The only slot is taken: it waits until that is free, and goes before other batches.
    world.batch(ids[1], None);
    let next = world.batch(ids[0], None);
    world.batch(ids[2], None);
    world.kill(next);
    assert!(!world.told().contains("final command"));
    let token = world.played(&worker).last_token();
    end(&mut world, &worker, token, AttemptResult::Success);
    let told = world.told();
    assert!(told.contains("b3 final command t3 to w") && !told.contains("b4 assigned"), "{told}");
    assert_eq!(world.partition, world.folded());
}

/// JOB-8: where it cannot run, the record says why: no worker had room in time, or its group does not allow the account.
#[test]
fn final_command_without_an_attempt_says_why_it_is_not_run() {
    let mut world = World::new();
    let away = json!({"final_command": "true", "host": "elsewhere"});
    world.define_key(&["etl"]);
    let ids =
        world.define(vec![shell("a", away), shell("b", json!({"final_command": "true", "run_as": "etl"}))]);
    world.worker("w", 1, Script::Succeed);
    let batch = world.batch(ids[0], None);
    world.kill(batch);
    world.events();
    world.pass_minutes(5);
    let why = "the batch had no attempt, and no worker that may run its job had a free slot in time";
    let told = world.told();
    assert!(told.contains(&format!("b1 final command not_run: {why}\nalarm FinalCommandFailed")), "{told}");
    world.batch(ids[1], None);
    let told = world.told();
    let why = "jobs of group g may not run as account etl";
    assert!(told.contains(&format!("b2 finished failed\nb2 final command not_run: {why}\nalarm")), "{told}");
    assert_eq!(world.partition, world.folded());
}

/// JOB-8: batches that ended without an attempt on record from before they had final commands have none now.
#[test]
fn ends_on_record_from_before_ask_for_nothing() {
    let mut world = World::new();
    let ids = world.define(vec![shell("a", json!({"final_command": "true"}))]);
    let batch = world.batch(ids[0], None);
    world.kill(batch);
    assert!(world.told().ends_with("b1 finished killed by ann\n"));
    let strip =
        |body: &Vec<u8>| String::from_utf8_lossy(body).replace(",\"final_command\":true", "").into_bytes();
    let older: Vec<Vec<u8>> = world.journal.iter().map(strip).collect();
    assert_ne!(std::mem::replace(&mut world.journal, older), world.journal, "its end asked for it");
    world.partition = world.folded();
    world.worker("w", 1, Script::Succeed);
    world.pass_minutes(5);
    assert!(!world.told().contains("final command"));
}

/// JOB-8: one that cannot run any more, or whose worker does not take it, is on record as not run, and people are
/// told; one that may have begun is lost.
#[test]
fn final_command_that_is_not_run_is_told_of() {
    let begun = |script| {
        let mut world = World::new();
        let ids = world.define(vec![shell("a", json!({"final_command": "true"}))]);
        let worker = world.worker("w", 1, Script::Run);
        world.batch(ids[0], None);
        let token = world.played(&worker).last_token();
        world.played(&worker).script = script;
        (world, worker, token)
    };
    let lost = "b1 final command not_run: the worker of the last attempt is gone";
    let (mut world, worker, _) = begun(Script::Run);
    world.lost(&worker);
    world.lease_over(&worker);
    assert!(world.told().contains(&format!("{lost}\nalarm FinalCommandFailed, Important\n")));

    let (mut world, worker, token) = begun(Script::Reject);
    end(&mut world, &worker, token, AttemptResult::Success);
    assert!(world.told().contains("b1 final command not_run: busy\nalarm FinalCommandFailed"));

    let (mut world, worker, token) = begun(Script::Silent);
    end(&mut world, &worker, token, AttemptResult::Success);
    world.pass_minutes(5);
    let told = world.told();
    assert!(
        told.contains("b1 final command not_run: its worker did not ask for it in time\nalarm"),
        "{told}"
    );

    let (mut world, worker, token) = begun(Script::Silent);
    end(&mut world, &worker, token, AttemptResult::Success);
    let restart = world.played(&worker).restart();
    world.say(restart);
    assert!(world.told().contains("b1 final command not_run: its worker was lost before it started"));

    let (mut world, worker, token) = begun(Script::Run);
    end(&mut world, &worker, token, AttemptResult::Success);
    let restart = world.played(&worker).restart();
    world.say(restart);
    let told = world.told();
    assert!(told.contains("b1 final command lost: \nalarm FinalCommandFailed"), "{told}");
    assert_eq!(world.partition, world.folded());
}

/// JOB-8: a killed batch that was tried before has its final command, too, with that result.
#[test]
fn batch_killed_between_attempts_has_its_final_command() {
    let mut world = World::new();
    let more = json!({"retries": 1, "retry_interval_s": 600, "final_command": "true"});
    let ids = world.define(vec![shell("a", more)]);
    let worker = world.worker("w", 1, Script::Run);
    let batch = world.batch(ids[0], None);
    let token = world.played(&worker).last_token();
    end(&mut world, &worker, token, AttemptResult::Failed);
    world.kill(batch);
    assert_eq!(spec(&mut world, &worker).ending.unwrap().result.as_str(), "killed");
}

/// EXE-4: a program that goes by its code has succeeded iff it reported 0, whatever its exit code; 0 is said once.
#[test]
fn user_code_decides() {
    let ended = |codes: &[i32], result| {
        let mut world = World::new();
        let ids = world.define(vec![shell("a", json!({"success_check": "user_code"}))]);
        let worker = world.worker("w", 1, Script::Run);
        world.batch(ids[0], None);
        let token = world.played(&worker).last_token();
        let report = |code: &i32| {
            Command::Worker(WorkerCommand::ReportUserCode { token, code: *code, seal: String::new() })
        };
        let answers: Vec<Outcome> = codes.iter().map(|code| world.ask(GROUP, report(code))).collect();
        world.events();
        end(&mut world, &worker, token, result);
        (world.told(), answers)
    };
    let (told, _) = ended(&[3, 0], AttemptResult::Failed);
    assert_eq!(told, "b1 attempt 1 Success\nb1 finished success\n");
    let (told, answers) = ended(&[3], AttemptResult::Success);
    assert_eq!(told, "b1 attempt 1 Failed\nb1 finished failed\n");
    assert_eq!(answers, [Outcome::Done]);
    let (told, _) = ended(&[], AttemptResult::Success);
    assert_eq!(told, "b1 attempt 1 Failed\nb1 finished failed\n");
    let (told, answers) = ended(&[0, 0, 1], AttemptResult::TimedOut);
    assert_eq!(told, "b1 attempt 1 TimedOut\nb1 finished failed\n");
    let codes: Vec<String> = answers.iter().map(rejection).collect();
    assert!(codes[1].starts_with("already_there") && codes[2].starts_with("already_there"), "{codes:?}");
}

/// EXE-4: a code without effect is refused, and so is one of an attempt that does not run.
#[test]
fn codes_that_count_for_nothing_are_refused() {
    let mut world = World::new();
    let ids = world.define(vec![shell("a", json!({}))]);
    let worker = world.worker("w", 1, Script::Run);
    world.batch(ids[0], None);
    let token = world.played(&worker).last_token();
    let refused =
        rejection(&world.ask(
            GROUP,
            Command::Worker(WorkerCommand::ReportUserCode { token, code: 0, seal: String::new() }),
        ));
    assert!(refused.contains("success_check is not user_code"), "{refused}");
    end(&mut world, &worker, token, AttemptResult::Success);
    let refused =
        rejection(&world.ask(
            GROUP,
            Command::Worker(WorkerCommand::ReportUserCode { token, code: 0, seal: String::new() }),
        ));
    assert!(refused.starts_with("stale_token"), "{refused}");
}

/// EXE-4, JOB-1: what the worker is to look for, and how the logical time is written, templates resolved.
#[test]
fn output_path_and_logical_time_are_written_as_the_job_says() {
    let mut world = World::new();
    let ids = world.define(vec![shell(
        "a",
        json!({
            "success_check": {"output_path": "/out/${yyyyMMdd}/${logical_time}"},
            "logical_time_format": "yyyyMMddHH", "command": "load ${logical_time-1d}",
        }),
    )]);
    let worker = world.worker("w", 1, Script::Run);
    world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    let spec = spec(&mut world, &worker);
    assert_eq!(spec.output_path.as_deref(), Some("/out/20260701/2026070110"));
    assert_eq!(spec.logical_time_text, "2026070110");
    assert_eq!(spec.program, Program::Command("load 2026063010".to_owned()));
}

/// JOB-1: people are told once of an attempt that runs more than twice as long as usual, and at least ten minutes.
#[test]
fn long_attempt_is_told_of_once() {
    let mut world = World::new();
    let ids = world.define(vec![
        shell("short", json!({"expected_duration_s": 10})),
        shell("long", json!({"expected_duration_s": 600})),
    ]);
    let worker = world.worker("w", 2, Script::Run);
    world.batch(ids[0], None);
    world.batch(ids[1], None);
    world.events();
    world.pass_ms(599_999);
    assert_eq!(world.told(), "");
    world.pass_ms(1);
    assert_eq!(world.told(), "alarm BigTask, Notice\n");
    let tokens: Vec<Token> = world.played(&worker).running.keys().copied().collect();
    end(&mut world, &worker, tokens[1], AttemptResult::Success);
    world.events();
    world.pass_minutes(60);
    assert_eq!(world.told(), "", "what has ended is not long, and what was told is not told again");
}

/// MON-7: a worker that says that it can take no work gets none until it says that it can; people are told once.
#[test]
fn unready_worker_gets_no_work() {
    let mut world = World::new();
    let ids = world.define(vec![shell("a", json!({}))]);
    let worker = world.worker("w", 1, Script::Succeed);
    world.events();
    let beat = |world: &mut World, unready: Option<&str>| {
        let Command::Worker(WorkerCommand::Heartbeat(mut heartbeat)) = world.played(&worker).heartbeat()
        else {
            unreachable!()
        };
        heartbeat.unready = unready.map(str::to_owned);
        world.say(Command::Worker(WorkerCommand::Heartbeat(heartbeat)));
    };
    beat(&mut world, Some("its disk is full"));
    // That it registers again in the same life is no news of its disk.
    let again = world.played(&worker).registration();
    world.say(Command::Worker(WorkerCommand::Register(Box::new(again))));
    beat(&mut world, Some("its disk is full"));
    let batch = world.batch(ids[0], Some("2026-07-01T10:00:00.000Z"));
    let why = world.why(batch);
    assert_eq!(why[0].kind, "unready");
    assert_eq!(why[0].message, "no worker of its type takes work: w says its disk is full");
    beat(&mut world, None);
    expect![[r#"
        w unready: its disk is full
        alarm WorkerUnready, Important
        w registered 1
        b1 generated a 2026-07-01 10:00 run 0
        w fit
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
}

/// EXE-1: what was granted and cannot begin goes to another worker, and costs no attempt; what has begun does not.
#[test]
fn granted_attempt_is_given_back_while_nothing_of_it_runs() {
    let mut world = World::new();
    let ids = world.define(vec![shell("a", json!({}))]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], None);
    let token = world.played(&worker).last_token();
    let request = world.played(&worker).request(token);
    world.say(request);
    let other = world.worker("x", 1, Script::Run);
    world.events();
    // Said before the worker asked, and late: it may have begun on the grant of its later question.
    for nonce in [None, Some(Nonce::new("an earlier question"))] {
        let (worker, reason) = (worker.clone(), "no room".to_owned());
        let outcome = world.ask(
            GROUP,
            Command::Worker(WorkerCommand::RejectAssignment {
                lacks_resources: false,
                token,
                worker,
                nonce,
                reason,
            }),
        );
        expect!["stale_token: token 4097 is not live for this worker: it was granted to another question"]
            .assert_eq(&rejection(&outcome));
    }
    let given_back = world.played(&worker).give_back(token);
    world.say(given_back);
    expect![[r#"
        b1 returned t1: Rejected("no room")
        b1 assigned t2 attempt 1 to x
        b1 granted t2
        b1 started t2
    "#]]
    .assert_eq(&world.told());
    let token = world.played(&other).last_token();
    let given_back = world.played(&other).give_back(token);
    world.say(given_back);
    assert_eq!(world.told(), "");
    assert_eq!(world.unfinished(), 1);
    let told =
        world.played(&worker).heard.iter().any(|message| matches!(message, WorkMessage::Refused { .. }));
    assert!(told, "the worker hears that it was taken back");
}

/// EXE-5: the reason of a kill is on record as it was given, up to the length that requests may have.
#[test]
fn reason_of_a_kill_is_kept_whole() {
    let mut world = World::new();
    let ids = world.define(vec![shell("a", json!({}))]);
    let batch = world.batch(ids[0], None);
    let reason = "é".repeat(bounds::KILL_REASON_CHARS);
    world.events();
    world.ask(GROUP, Command::Batch(BatchCommand::Kill { batch, reason: reason.clone() }));
    let finished = world.events();
    let kept = |event: &Event| matches!(event, Event::Batch(BatchEvent::Finished { message, .. }) if *message == reason);
    assert!(finished.iter().any(kept), "{finished:?}");
}

/// EXE-1, EXE-5: what was granted, is to be killed and cannot begin is killed, and goes to nobody else.
#[test]
fn killed_attempt_that_is_given_back_stays_killed() {
    let mut world = World::new();
    let ids = world.define(vec![shell("a", json!({"retries": 3}))]);
    let worker = world.worker("w", 1, Script::Silent);
    let batch = world.batch(ids[0], None);
    let token = world.played(&worker).last_token();
    let request = world.played(&worker).request(token);
    world.say(request);
    world.kill(batch);
    world.worker("x", 1, Script::Run);
    world.events();
    let given_back = world.played(&worker).give_back(token);
    world.say(given_back);
    assert_eq!(world.told(), "b1 attempt 1 Killed\nb1 finished killed by ann\n");
}

/// JOB-1: fields of execution that cannot work are refused by name.
#[test]
fn bad_fields_of_execution_are_refused_by_name() {
    let table = [
        (json!({"type": "anchor", "final_command": "true"}), "final_command"),
        (json!({"type": "anchor", "worker_label": "gpu"}), "worker_label"),
        (json!({"type": "noop", "run_as": "etl"}), "run_as"),
        (json!({"type": "noop", "success_check": "user_code"}), "success_check"),
        (json!({"type": "noop", "success_check": {"output_path": "/a"}}), "success_check"),
        (
            json!({"success_check": {"output_path": "/a/${yyyy"}, "type": "shell", "command": "x"}),
            "success_check",
        ),
        (json!({"final_command": "${param.none}", "type": "shell", "command": "x"}), "final_command"),
        (json!({"final_command": " ", "type": "shell", "command": "x"}), "final_command"),
        (json!({"logical_time_format": "yyQ"}), "logical_time_format"),
        (json!({"expected_duration_s": 0}), "expected_duration_s"),
    ];
    for (fields, field) in table {
        let mut world = World::new();
        let refused = rejection(&world.apply(vec![job("a", fields)]));
        assert!(refused.contains(&format!("jobs[0].{field}: ")), "{field}: {refused}");
    }
}
