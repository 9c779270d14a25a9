//! What attempts may use, and what follows when one wants more.

use std::sync::Arc;

use crate::kit::{Script, World, group, job, public_key, rejection};
use expect_test::expect;
use serde_json::{Value, json};
use tidemill_model::{
    AlarmEvent, AlarmKind, AttemptEvent, AttemptOutcome, AttemptResult, BatchId, CatalogueCommand, Command,
    Event, Excess, ExcessKind, GroupSettings, Heartbeat, JobCommand, Limits, Outcome, ReplicationEvent,
    RunSpec, RunningExcess, ShardId, Token, WorkMessage, WorkerCommand, WorkerId,
};

fn settings(limits: Value) -> GroupSettings {
    let limits = serde_json::from_value(limits).unwrap();
    GroupSettings { limits: Some(Arc::new(limits)), ..GroupSettings::default() }
}

fn define(world: &mut World, name: &str, limits: Value) -> Outcome {
    let (name, worker_key, settings) = (group(name), public_key(), settings(limits));
    world.ask(
        ShardId::CATALOGUE,
        Command::Catalogue(CatalogueCommand::DefineGroup { name, worker_key, settings }),
    )
}

fn limited(name: &str, limits: Value) -> tidemill_model::JobSpec {
    job(name, json!({"type": "shell", "command": "x", "limits": limits}))
}

fn excess(kind: ExcessKind) -> Excess {
    Excess { kind, limit: Some(64), seen: Some(70) }
}

/// A batch that runs, of a job with one retry.
fn running(world: &mut World, fields: Value) -> (WorkerId, BatchId, Token) {
    let mut all = json!({"type": "shell", "command": "x", "retries": 1, "retry_interval_s": 10});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let ids = world.define(vec![job("a", all)]);
    let worker = world.worker("w", 1, Script::Silent);
    let batch = world.batch(ids[0], None);
    (worker.clone(), batch, begin(world, &worker))
}

fn begin(world: &mut World, worker: &WorkerId) -> Token {
    let token = world.played(worker).last_token();
    let (request, started) = (world.played(worker).request(token), world.played(worker).started(token));
    world.say(request);
    world.say(started);
    world.events();
    token
}

fn ends(world: &mut World, worker: &WorkerId, token: Token, result: AttemptResult, excess: Option<Excess>) {
    let exit_code = (result == AttemptResult::Success).then_some(0);
    let outcome = AttemptOutcome { exit_code, excess, ..AttemptOutcome::bare(result) };
    let worker = worker.clone();
    world.say(Command::Worker(WorkerCommand::ReportFinished {
        token,
        worker,
        outcome,
        usage: None,
        interrupted: false,
        external: None,
    }));
}

fn beats(world: &mut World, worker: &WorkerId, excesses: Vec<RunningExcess>) {
    let Command::Worker(WorkerCommand::Heartbeat(heartbeat)) = world.played(worker).heartbeat() else {
        panic!("a heartbeat")
    };
    world.say(Command::Worker(WorkerCommand::Heartbeat(Heartbeat { excesses, ..heartbeat })));
}

/// Of the events since the last look: excesses with whether they spare a retry, and alarms about them.
fn over(world: &mut World) -> (Vec<(ExcessKind, bool)>, usize) {
    let events = world.events();
    let excesses = events.iter().filter_map(|event| match event {
        Event::Attempt(AttemptEvent::OverLimit { excess, spares_retry, .. }) => {
            Some((excess.kind, *spares_retry))
        }
        _ => None,
    });
    let is_alarm =
        |event: &&Event| matches!(event, Event::Alarm(AlarmEvent::Raised { kind: AlarmKind::OverLimit, .. }));
    (excesses.collect(), events.iter().filter(is_alarm).count())
}

fn granted(world: &mut World, worker: &WorkerId) -> RunSpec {
    let heard = world.played(worker).heard.iter().rev().find_map(|message| match message {
        WorkMessage::Granted { spec, .. } => Some((**spec).clone()),
        _ => None,
    });
    heard.expect("a start was granted")
}

/// EXE-2: a limit out of bounds, an alarm above the limit, and limits of what runs no process are refused by field.
#[test]
fn limits_that_mean_nothing_are_refused() {
    let mut world = World::new();
    world.raise();
    let mut told = String::new();
    for limits in [
        json!({"memory_mb": 0}),
        json!({"open_files": 3}),
        json!({"cpu_percent": 100_001}),
        json!({"memory_mb": 100, "memory_alarm_mb": 100}),
        json!({"run_time_s": 60}),
    ] {
        told += &rejection(&world.apply(vec![limited("a", limits)]));
        told += "\n";
    }
    told += &rejection(&world.apply(vec![job("a", json!({"limits": {"processes": 5}}))]));
    expect![[r#"
        invalid: jobs[0].limits.memory_mb: "0": must be 1 to 16777216; leave it out for none
        invalid: jobs[0].limits.open_files: "3": must be 16 to 1048576; leave it out for none
        invalid: jobs[0].limits.cpu_percent: "100001": must be 1 to 100000; leave it out for none
        invalid: jobs[0].limits.memory_alarm_mb: "100": must be below limits.memory_mb, 100, beyond which processes are ended
        invalid: jobs[0].limits.run_time_s: "60": is named execution_timeout_s in a job; name it there
        invalid: jobs[0].limits.processes: "5": has no effect on a job of type noop, which runs no process; leave it out"#]].assert_eq(&told);
}

/// EXE-2: below level 3 neither a job nor a group has limits, for older programs could not read them.
#[test]
fn limits_are_refused_below_their_level() {
    let mut world = World::new();
    let of_job = rejection(&world.apply(vec![limited("a", json!({"memory_mb": 100}))]));
    let of_group = rejection(&define(&mut world, "g", json!({"max": {"memory_mb": 100}})));
    expect![[r#"
        invalid: jobs[0].limits: "{\"memory_mb\":100}": cannot be set before level 3 of the log stands, which is raised once every process of the site reads it (`tidemill level show`); leave it out until then
        invalid: settings.limits: "{\"max\":{\"memory_mb\":100}}": cannot be set before level 3 of the log stands, which is raised once every process of the site reads it (`tidemill level show`); leave it out until then"#]].assert_eq(&format!("{of_job}\n{of_group}"));
    world.raise();
    world.define(vec![limited("a", json!({"memory_mb": 100}))]);
}

/// EXE-2: files are checked without a server, whose group and level are not known; bounds are.
#[test]
fn limits_in_files_are_checked_without_a_server() {
    let now = crate::kit::at(crate::kit::START);
    let warnings = tidemill_engine::check_jobs(&[limited("a", json!({"memory_mb": 100}))], now).unwrap();
    assert!(
        warnings.iter().any(|warning| warning.starts_with("jobs[0].limits: the maximum of group g")),
        "{warnings:?}"
    );
    let refused = tidemill_engine::check_jobs(&[limited("a", json!({"memory_mb": 0}))], now).unwrap_err();
    assert!(refused.to_string().contains("limits.memory_mb"), "{refused}");
}

/// EXE-2: a job is not above its group's maximum, whichever of them changes, and wherever the job comes from.
#[test]
fn no_job_is_above_the_maximum_of_its_group() {
    let mut world = World::new();
    world.raise();
    let accepted = |outcome: Outcome| assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
    accepted(define(&mut world, "g", json!({"max": {"memory_mb": 100}})));
    accepted(define(&mut world, "small", json!({"max": {"memory_mb": 50}})));
    let mut told = rejection(&world.apply(vec![limited("a", json!({"memory_mb": 101}))]));
    let ids = world.define(vec![limited("a", json!({"memory_mb": 100}))]);
    let to = Command::Job(JobCommand::Move { job: ids[0], to: group("small") });
    for outcome in [
        define(&mut world, "g", json!({"max": {"memory_mb": 99}})),
        define(&mut world, "g", json!({"default": {"memory_mb": 101}, "max": {"memory_mb": 100}})),
        world.ask(ShardId::CATALOGUE, to),
    ] {
        told += "\n";
        told += &rejection(&outcome);
    }
    expect![[r#"
        invalid: jobs[0].limits.memory_mb: "101": is above the maximum of group g, 100; name less, or have an administrator raise limits.max of the group
        invalid: settings.limits.max.memory_mb: "99": is below limits.memory_mb 100 of job g/a; lower that first, or name at least 100
        invalid: settings.limits.default.memory_mb: "101": is above settings.limits.max, 100; lower it, or raise the maximum
        invalid: group: "small": the job has limits.memory_mb 100, above the maximum of group small, 50; lower it first, or have an administrator raise limits.max of the group"#]].assert_eq(&told);
}

/// EXE-2, TMO-5: the same of the run time, which a job names as its execution timeout.
#[test]
fn no_job_runs_longer_than_its_group_allows() {
    let mut world = World::new();
    world.raise();
    let long =
        |seconds: u32| job("a", json!({"type": "shell", "command": "x", "execution_timeout_s": seconds}));
    assert!(matches!(define(&mut world, "g", json!({"max": {"run_time_s": 60}})), Outcome::Answered(_)));
    let mut told = rejection(&world.apply(vec![long(61)]));
    world.define(vec![long(60)]);
    told += "\n";
    told += &rejection(&define(&mut world, "g", json!({"max": {"run_time_s": 59}})));
    expect![[r#"
        invalid: jobs[0].execution_timeout_s: "61": is above the maximum of group g, 60; name less, or have an administrator raise limits.max of the group
        invalid: settings.limits.max.run_time_s: "59": is below execution_timeout_s 60 of job g/a; lower that first, or name at least 60"#]].assert_eq(&told);
}

/// Rule 13: the shard of a new group has the level of limits before it has limits.
#[test]
fn new_group_hears_of_the_level_before_its_limits() {
    let mut world = World::new();
    world.raise();
    define(&mut world, "second", json!({"max": {"memory_mb": 50}}));
    let events = world.events();
    let at = |is_it: fn(&ReplicationEvent) -> bool| {
        events.iter().position(|event| matches!(event, Event::Replication(event) if is_it(event))).unwrap()
    };
    let level = at(|event| matches!(event, ReplicationEvent::LevelReplicated { .. }));
    let group = at(|event| matches!(event, ReplicationEvent::GroupReplicated { .. }));
    assert!(level < group, "{events:?}");
}

/// EXE-2: a worker hears what the job and its group say of each attempt.
#[test]
fn worker_hears_the_limits_of_an_attempt() {
    let mut world = World::new();
    world.raise();
    define(&mut world, "g", json!({"default": {"processes": 20}, "max": {"memory_mb": 200}}));
    let (worker, _, _) = running(&mut world, json!({"limits": {"memory_mb": 100}}));
    let RunSpec { limits, group_limits, .. } = granted(&mut world, &worker);
    assert_eq!(limits, Limits { memory_mb: Some(100), ..Limits::default() });
    assert_eq!(group_limits.default, Limits { processes: Some(20), ..Limits::default() });
    assert_eq!(group_limits.max, Limits { memory_mb: Some(200), ..Limits::default() });
}

/// EXE-7: an attempt that ends beyond a limit is on record as such before its end, with one alarm, even where it succeeds.
#[test]
fn an_end_beyond_a_limit_raises_an_alarm() {
    let mut world = World::new();
    world.raise();
    let (worker, _, token) = running(&mut world, json!({}));
    ends(&mut world, &worker, token, AttemptResult::Success, Some(excess(ExcessKind::Memory)));
    expect![[r#"
        b1 over its limit: memory
        alarm OverLimit, Critical
        b1 attempt 1 Success
        b1 finished success
    "#]]
    .assert_eq(&world.told());
}

/// EXE-7: while it runs each kind is on record once, however many heartbeats say it, and its end does not repeat it. An end for
/// want of memory is not taken from a heartbeat.
#[test]
fn each_excess_is_told_once() {
    let mut world = World::new();
    world.raise();
    let (worker, _, token) = running(&mut world, json!({}));
    let of = |kind| RunningExcess { token, excess: excess(kind) };
    for _ in 0..2 {
        let alarm = of(ExcessKind::MemoryAlarm);
        beats(&mut world, &worker, vec![alarm, alarm, of(ExcessKind::HostMemory), of(ExcessKind::Memory)]);
    }
    assert_eq!(over(&mut world), (vec![(ExcessKind::MemoryAlarm, false)], 1));
    beats(&mut world, &worker, vec![of(ExcessKind::MemoryAlarm), of(ExcessKind::Processes)]);
    assert_eq!(over(&mut world), (vec![(ExcessKind::Processes, false)], 1));
    ends(&mut world, &worker, token, AttemptResult::Success, Some(excess(ExcessKind::MemoryAlarm)));
    assert_eq!(over(&mut world), (vec![], 0));
}

/// EXE-7: another worker, or an attempt that is over, has no excess.
#[test]
fn excess_of_a_strange_attempt_is_dropped() {
    let mut world = World::new();
    world.raise();
    let (worker, _, token) = running(&mut world, json!({}));
    let other = world.worker("other", 1, Script::Silent);
    let excess = excess(ExcessKind::MemoryAlarm);
    beats(&mut world, &other, vec![RunningExcess { token, excess }]);
    beats(&mut world, &worker, vec![RunningExcess { token: Token(token.0 + 4096), excess }]);
    assert_eq!(over(&mut world), (vec![], 0));
}

/// EXE-7: want of memory on the host uses up no retry, five times; then it is a failure like any other. Its own limit uses up a
/// retry from the start.
#[test]
fn want_of_memory_on_the_host_uses_up_no_retry() {
    let attempts = |kind| {
        let mut world = World::new();
        world.raise();
        let (worker, _, mut token) = running(&mut world, json!({}));
        let mut spared = 0;
        for attempt in 1.. {
            ends(&mut world, &worker, token, AttemptResult::Failed, Some(excess(kind)));
            let (excesses, alarms) = over(&mut world);
            assert_eq!((excesses.len(), alarms), (1, 1));
            spared += usize::from(excesses[0].1);
            if world.unfinished() == 0 {
                return (attempt, spared);
            }
            world.pass_ms(10_000);
            token = begin(&mut world, &worker);
        }
        unreachable!()
    };
    assert_eq!(attempts(ExcessKind::HostMemory), (7, 5));
    assert_eq!(attempts(ExcessKind::Memory), (2, 0));
}

/// EXE-7: a batch that is to be ended, or whose exit code forbids another attempt, ends also for want of memory.
#[test]
fn nothing_is_spared_where_no_attempt_follows() {
    let mut world = World::new();
    world.raise();
    let (worker, batch, token) = running(&mut world, json!({}));
    world.kill(batch);
    world.events();
    ends(&mut world, &worker, token, AttemptResult::Failed, Some(excess(ExcessKind::HostMemory)));
    assert_eq!(over(&mut world), (vec![(ExcessKind::HostMemory, false)], 1));
    assert_eq!(world.unfinished(), 0);
}

/// EXE-7: below level 3 nothing of it is on record, and the failure counts.
#[test]
fn below_the_level_want_of_memory_is_a_failure() {
    let mut world = World::new();
    let (worker, _, token) = running(&mut world, json!({"retries": 0}));
    beats(&mut world, &worker, vec![RunningExcess { token, excess: excess(ExcessKind::MemoryAlarm) }]);
    ends(&mut world, &worker, token, AttemptResult::Failed, Some(excess(ExcessKind::HostMemory)));
    let record = String::from_utf8(world.journal.last().unwrap().clone()).unwrap();
    assert!(!record.contains("excess"), "{record}");
    assert_eq!((over(&mut world), world.unfinished()), ((vec![], 0), 0));
}

/// EXE-7: what was told of an attempt, and what was spared, follow from the journal.
#[test]
fn excesses_follow_from_the_journal() {
    let mut world = World::new();
    world.raise();
    let (worker, _, token) = running(&mut world, json!({}));
    beats(&mut world, &worker, vec![RunningExcess { token, excess: excess(ExcessKind::Output) }]);
    assert_eq!(world.folded(), world.partition);
    ends(&mut world, &worker, token, AttemptResult::Failed, Some(excess(ExcessKind::HostMemory)));
    assert_eq!(world.folded(), world.partition);
}
