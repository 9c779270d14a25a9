//! What batches wait for outside: paths, third parties' reports, the quality service, and what people waive.

use crate::kit::{GROUP, Script, World, at, every, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    BatchCommand, BatchEvent, BatchId, CatalogueCommand, Command, DataPath, Event, ExternalDependencyId,
    GroupSettings, Incarnation, JobSpec, LiveAnswer, LiveQuery, ObservationCommand, Outcome, PathAnswer,
    ProbeReport, QualityQuestion, ShardId, ThirdPartyReport, Token, Waiver, WantedExternalDependency,
    WorkMessage, WorkerCommand, WorkerId,
};

const TEN: &str = "2026-07-01T10:00:00.000Z";

fn external_dependency(number: u64) -> ExternalDependencyId {
    ExternalDependencyId::mint(number, GROUP)
}

fn answer(number: u64, generation: u64, exists: bool) -> PathAnswer {
    PathAnswer { external_dependency: external_dependency(number), generation, exists }
}

fn found(world: &mut World, answers: Vec<PathAnswer>) {
    world.send(GROUP, Command::Observation(ObservationCommand::ReportPaths { answers, seal: String::new() }));
    world.run();
}

fn wanted(world: &World) -> Vec<WantedExternalDependency> {
    match world.partition.answer(GROUP, &LiveQuery::WantedExternalDependencies { after: None, limit: 1_000 })
    {
        LiveAnswer::Wanted { external_dependencies, more: false, .. } => external_dependencies,
        other => panic!("{other:?}"),
    }
}

fn reading(name: &str, path: &str) -> JobSpec {
    job(name, json!({"inputs": [{"path": path, "mark": "_SUCCESS"}], "max_concurrent": 100}))
}

fn report(world: &mut World, code: &str, time: &str, ready: bool) -> Outcome {
    let report = ThirdPartyReport { code: code.into(), logical_time: at(time), ready };
    world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::ReportThirdParty(report)))
}

fn waive(world: &mut World, batch: BatchId, what: Waiver, reason: &str) -> Outcome {
    world.ask(
        GROUP,
        Command::Batch(BatchCommand::OverrideDependency { batch, what, reason: reason.to_owned() }),
    )
}

/// DEP-1: two jobs wait for one path; it is told once, wanted once, and one event releases both. When nobody waits
/// for it any more it is forgotten.
#[test]
fn one_event_releases_all_that_wait_for_a_path() {
    let mut world = World::new();
    let ids = world.define(vec![reading("a", "/data/${yyyyMMddHH}"), reading("b", "/data/${yyyyMMddHH}")]);
    world.worker("w", 10, Script::Succeed);
    world.events();
    world.batch(ids[0], Some(TEN));
    world.batch(ids[1], Some(TEN));
    expect![[r#"
        h1 waited: path /data/2026070110 with _SUCCESS
        b1 generated a 2026-07-01 10:00 run 0
        b2 generated b 2026-07-01 10:00 run 0
    "#]]
    .assert_eq(&world.told());
    let (path, mark) = ("/data/2026070110".into(), Some("_SUCCESS".into()));
    let external_dependency = WantedExternalDependency {
        id: external_dependency(1),
        generation: 1,
        path,
        mark,
        urgent: true,
        nudge: 0,
    };
    assert_eq!(wanted(&world), [external_dependency]);
    found(&mut world, vec![answer(1, 1, false), answer(1, 2, true), answer(7, 1, true)]);
    assert_eq!(world.told(), "", "absent, of another generation, or nobody's");
    found(&mut world, vec![answer(1, 1, true), answer(1, 1, true)]);
    expect![[r#"
        h1 satisfied, generation 1
        b1 assigned t1 attempt 1 to w
        b2 assigned t2 attempt 1 to w
        b1 granted t1
        b2 granted t2
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
        b2 started t2
        b2 attempt 1 Success
        b2 finished success
        forgotten h1
    "#]]
    .assert_eq(&world.told());
    assert_eq!(wanted(&world), []);
    assert_eq!(world.folded(), world.partition);
}

/// DEP-6: what a worker does not find before start is withdrawn for all that wait for it; older answers do not
/// count any more.
#[test]
fn recheck_withdraws_for_every_waiter() {
    let mut world = World::new();
    let ids = world.define(vec![reading("a", "/d"), reading("b", "/d")]);
    let worker = world.worker("w", 1, Script::Silent);
    let (first, second) = (world.batch(ids[0], Some(TEN)), world.batch(ids[1], Some(TEN)));
    found(&mut world, vec![answer(1, 1, true)]);
    let heard = world.played(&worker).heard.clone();
    let checks = heard.into_iter().find_map(|message| match message {
        WorkMessage::Assigned { token, checks, .. } => Some((token, checks)),
        _ => None,
    });
    let (token, checks) = checks.unwrap();
    assert_eq!(
        checks.iter().map(|check| (check.external_dependency, &*check.path)).collect::<Vec<_>>(),
        [(external_dependency(1), "/d")]
    );
    world.events();
    let external_dependencies = vec![external_dependency(1)];
    world.say(Command::Observation(ObservationCommand::RecheckFailed {
        token,
        worker: worker.clone(),
        external_dependencies: external_dependencies.clone(),
    }));
    expect![[r#"
        h1 withdrawn by w, generation 2
        b1 returned t1: Rejected("1 not there before start, path /d with _SUCCESS")
    "#]]
    .assert_eq(&world.told());
    for batch in [first, second] {
        assert_eq!(world.why_kinds(batch), ["path"]);
    }
    found(&mut world, vec![answer(1, 1, true)]);
    assert_eq!(world.told(), "", "an answer to a question from before");
    let again = world.ask(
        GROUP,
        Command::Observation(ObservationCommand::RecheckFailed { token, worker, external_dependencies }),
    );
    assert!(rejection(&again).starts_with("stale_token"), "{again:?}");
    found(&mut world, vec![answer(1, 2, true)]);
    assert_eq!(world.told(), "h1 satisfied, generation 2\nb1 assigned t2 attempt 1 to w\n");
    assert_eq!(world.folded(), world.partition);
}

/// DEP-6: another worker finds the path gone, after this one was assigned and before it asked: it may not start.
#[test]
fn no_start_is_granted_once_a_external_dependency_was_withdrawn() {
    let mut world = World::new();
    let ids = world.define(vec![reading("a", "/d"), reading("b", "/d")]);
    let worker = world.worker("w", 2, Script::Silent);
    world.batch(ids[0], Some(TEN));
    let second = world.batch(ids[1], Some(TEN));
    found(&mut world, vec![answer(1, 1, true)]);
    let external_dependencies = vec![external_dependency(1)];
    world.say(Command::Observation(ObservationCommand::RecheckFailed {
        token: Token::mint(1, GROUP),
        worker: worker.clone(),
        external_dependencies,
    }));
    world.events();
    let request = tidemill_model::StartRequest {
        token: Token::mint(2, GROUP),
        worker: worker.clone(),
        incarnation: world.played(&worker).incarnation.clone(),
        nonce: tidemill_model::Nonce::new("n"),
    };
    world.say(Command::Worker(WorkerCommand::RequestStart(request)));
    assert_eq!(world.told(), "b2 returned t2: Rejected(\"something that it waits for was withdrawn\")\n");
    assert_eq!(world.why_kinds(second), ["path"]);
}

/// DEP-6: a failed attempt is followed by another only when the path is there still.
#[test]
fn a_retry_waits_for_what_was_withdrawn_meanwhile() {
    let mut world = World::new();
    let spec = json!({"inputs": ["/d"], "retries": 1, "retry_interval_s": 60});
    let ids = world.define(vec![job("a", spec), reading("b", "/other"), job("c", json!({"inputs": ["/d"]}))]);
    world.worker("w", 1, Script::Fail);
    let batch = world.batch(ids[0], Some(TEN));
    found(&mut world, vec![answer(1, 1, true)]);
    world.lost(&WorkerId::new("w"));
    let silent = world.worker("v", 1, Script::Silent);
    world.batch(ids[2], Some(TEN));
    let (token, external_dependencies) = (Token::mint(2, GROUP), vec![external_dependency(1)]);
    world.say(Command::Observation(ObservationCommand::RecheckFailed {
        token,
        worker: silent,
        external_dependencies,
    }));
    world.events();
    world.pass_minutes(1);
    assert_eq!(world.told(), "b1 retry due\n");
    assert_eq!(world.why_kinds(batch), ["path"]);
}

/// DEP-2: a report is kept, so that a batch generated later sees it; taken back, it keeps batches waiting. A group
/// whose job names the code only now hears what was reported before.
#[test]
fn reports_are_kept_for_later_batches() {
    let mut world = World::new();
    report(&mut world, "erp", TEN, true);
    report(&mut world, "other", TEN, true);
    world.events();
    let ids = world.define(vec![job("a", json!({"third_party": ["erp"], "max_concurrent": 9}))]);
    let early = world.batch(ids[0], Some(TEN));
    assert_eq!(world.why_kinds(early), ["no_worker"]);
    let late = world.batch(ids[0], Some("2026-07-01T11:00:00.000Z"));
    assert_eq!(world.why_kinds(late), ["third_party"]);
    world.events();
    report(&mut world, "erp", "2026-07-01T11:00:00.000Z", true);
    report(&mut world, "erp", "2026-07-01T11:00:00.000Z", true);
    assert_eq!(world.told(), "reported erp 2026-07-01 11:00 ready\nh2 satisfied, generation 1\n");
    assert_eq!(world.why_kinds(late), ["no_worker"]);
    report(&mut world, "erp", TEN, false);
    assert_eq!(world.told(), "reported erp 2026-07-01 10:00 not ready\nh1 withdrawn, generation 2\n");
    assert_eq!(world.why_kinds(early), ["third_party"]);
    assert_eq!(world.folded(), world.partition);
}

/// DEP-7: a person lets a batch run without a condition, by name and with a reason; the others still hold.
#[test]
fn overrides_take_one_condition_or_all() {
    let mut world = World::new();
    let spec = json!({
        "inputs": ["/a", "/b"], "third_party": ["erp"], "quality_gate": true, "parents": ["p"],
        "depends_on_past": true, "schedule": every("hour"),
    });
    let parent = job("p", json!({"type": "shell", "command": "x"}));
    let ids = world.define(vec![parent, job("c", spec)]);
    let batch = world.batch(ids[1], Some(TEN));
    assert_eq!(world.why_kinds(batch), ["dependency", "path", "path", "third_party", "quality_gate"]);
    let refused = waive(&mut world, batch, Waiver::All, " ");
    assert!(rejection(&refused).starts_with("invalid: reason"), "{}", rejection(&refused));
    let refused = waive(&mut world, batch, Waiver::Path("/c".into()), "why not");
    assert!(rejection(&refused).starts_with("not_waited_for"), "{}", rejection(&refused));
    world.events();
    waive(&mut world, batch, Waiver::Path("/a".into()), "came by mail");
    let parent = Waiver::Parent { job: ids[0], logical_time: Some(at(TEN)) };
    waive(&mut world, batch, parent, "done by hand");
    expect![[r#"
        b1 runs without h1, unmet 1: came by mail
        b1 runs without p, unmet 0: done by hand
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.why_kinds(batch), ["path", "third_party", "quality_gate"]);
    waive(&mut world, batch, Waiver::All, "it is late");
    assert_eq!(world.told(), "b1 runs without h2, h3, quality, unmet 0: it is late\n");
    assert_eq!(world.why_kinds(batch), ["no_worker"]);
    let refused = waive(&mut world, batch, Waiver::All, "again");
    assert!(rejection(&refused).starts_with("not_waited_for"), "{}", rejection(&refused));
    assert_eq!(world.folded(), world.partition);
}

/// DEP-7: a parent that somebody waived stays waived, whatever becomes of it afterwards.
#[test]
fn a_waived_parent_may_fail_or_succeed_later() {
    let mut world = World::new();
    let parent = job("p", json!({"type": "shell", "command": "x"}));
    let ids = world.define(vec![parent, job("c", json!({"parents": ["p"]}))]);
    world.batch(ids[0], Some(TEN));
    let child = BatchId::mint(2, GROUP);
    waive(&mut world, child, Waiver::All, "in a hurry");
    assert_eq!(world.why_kinds(child), ["no_worker"]);
    world.events();
    world.kill(BatchId::mint(1, GROUP));
    assert_eq!(world.told(), "b1 finished killed by ann\n");
    assert_eq!(world.why_kinds(child), ["no_worker"]);
}

/// DEP-9: a nudge for one batch, or for everything, makes probers ask at once; the generation stays.
#[test]
fn check_now_nudges_probers() {
    let mut world = World::new();
    let ids = world.define(vec![reading("a", "/a"), reading("b", "/b")]);
    let batch = world.batch(ids[0], Some(TEN));
    world.batch(ids[1], Some(TEN));
    let nudges = |world: &World| {
        wanted(world).iter().map(|external_dependency| external_dependency.nudge).collect::<Vec<_>>()
    };
    world.ask(GROUP, Command::Observation(ObservationCommand::ProbeNow { batch: Some(batch) }));
    assert_eq!(nudges(&world), [1, 0]);
    world.ask(ShardId::CATALOGUE, Command::Observation(ObservationCommand::ProbeNow { batch: None }));
    assert_eq!(nudges(&world), [2, 2]);
    found(&mut world, vec![answer(1, 1, true)]);
    let refused = world.ask(GROUP, Command::Observation(ObservationCommand::ProbeNow { batch: Some(batch) }));
    assert!(rejection(&refused).starts_with("not_waited_for"), "{}", rejection(&refused));
}

/// DEP-5: people are told once that checks are late, and once more when it gets worse; over, it may begin again.
#[test]
fn late_checks_raise_one_alarm_per_cause_and_severity() {
    let mut world = World::new();
    let mut say = |prober: &str, late_s: u64, failure: &str| {
        let report = ProbeReport {
            prober: prober.into(),
            authority: "hdfs://nn".into(),
            late_ms: late_s * 1_000,
            failure: failure.to_owned(),
        };
        world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::ReportProbes(report)));
        let told = world.told();
        world.pass_minutes(1);
        told
    };
    assert_eq!(say("p", 299, ""), "");
    let late = |ms: u64| format!("checks of hdfs://nn late {ms} ms\n");
    assert_eq!(say("p", 301, ""), late(301_000) + "alarm ProbesLate, Important\n");
    assert_eq!(say("p", 361, ""), late(361_000));
    assert_eq!(say("q", 361, "refused"), late(361_000));
    assert_eq!(say("p", 601, ""), late(601_000) + "alarm ProbesLate, Critical\n");
    assert_eq!(say("q", 0, "refused"), late(0));
    assert_eq!(say("p", 0, ""), "checks of hdfs://nn recovered\n");
    assert_eq!(say("q", 0, ""), "checks of hdfs://nn recovered\n");
    assert_eq!(say("q", 0, "refused"), late(0) + "alarm ProbesLate, Important\n");
}

fn gated() -> (World, BatchId) {
    let mut settings = GroupSettings::default();
    (settings.quality_retry_ms, settings.quality_alarm_after) = (60_000, 2);
    let mut world = World::with(crate::kit::START, settings);
    let ids = world.define(vec![job("a", json!({"inputs": ["/d"], "quality_gate": true}))]);
    let batch = world.batch(ids[0], Some(TEN));
    world.events();
    (world, batch)
}

fn asks(world: &World) -> Vec<QualityQuestion> {
    match world.partition.answer(GROUP, &LiveQuery::WantedQuality { after: None, limit: 10 }) {
        LiveAnswer::WantedQuality { asks, more: false } => asks,
        other => panic!("{other:?}"),
    }
}

fn take(world: &mut World, batch: BatchId, number: u32, by: &str) -> Outcome {
    world.ask(GROUP, Command::Batch(BatchCommand::SendQuality { batch, number, by: Incarnation::new(by) }))
}

fn allow(world: &mut World, batch: BatchId, allowed: bool, reason: &str) -> Outcome {
    world
        .ask(GROUP, Command::Batch(BatchCommand::AnswerQuality { batch, allowed, reason: reason.to_owned() }))
}

/// DQ-1: the quality service is asked when all else is met, by one asker only, and nothing waits for the answer.
/// DQ-2: without an answer it is asked again, people are told after n, and an answer lets the batch run.
#[test]
fn quality_is_asked_when_all_else_is_met_and_again_without_an_answer() {
    let (mut world, batch) = gated();
    assert_eq!(asks(&world), []);
    found(&mut world, vec![answer(1, 1, true)]);
    assert_eq!(
        world.told(),
        "h1 satisfied, generation 1\nb1 quality question 1, again at 2026-07-01 10:11\n"
    );
    assert_eq!(asks(&world).iter().map(|ask| (ask.batch, ask.number)).collect::<Vec<_>>(), [(batch, 1)]);
    assert_eq!(take(&mut world, batch, 1, "p"), Outcome::Done);
    assert_eq!(take(&mut world, batch, 1, "p"), Outcome::Done);
    assert!(rejection(&take(&mut world, batch, 1, "q")).starts_with("already_there"));
    assert_eq!(asks(&world), []);
    world.events();
    world.pass_minutes(1);
    assert!(rejection(&take(&mut world, batch, 1, "q")).starts_with("unknown"));
    world.pass_minutes(1);
    world.pass_minutes(1);
    expect![[r#"
        b1 quality question 2, again at 2026-07-01 10:12
        b1 quality question 3, again at 2026-07-01 10:13
        alarm QualityUnanswered, Important
        b1 quality question 4, again at 2026-07-01 10:14
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.why_kinds(batch), ["quality_gate"]);
    allow(&mut world, batch, true, "");
    assert_eq!(world.told(), "b1 quality allowed: \n");
    assert_eq!(world.why_kinds(batch), ["no_worker"]);
    world.pass_minutes(10);
    assert_eq!(world.told(), "");
    assert_eq!(world.folded(), world.partition);
}

/// DQ-2: refused, the batch stays with the reason, and people are told; a later word may allow it.
#[test]
fn refused_batch_stays_with_the_reason() {
    let (mut world, batch) = gated();
    found(&mut world, vec![answer(1, 1, true)]);
    world.worker("w", 1, Script::Silent);
    world.events();
    allow(&mut world, batch, false, "too few rows");
    assert_eq!(world.told(), "b1 quality refused: too few rows\nalarm QualityRefused, Important\n");
    let why = world.why(batch);
    assert_eq!((why[0].kind.as_str(), why.len()), ("quality_gate", 1));
    assert!(why[0].message.ends_with("too few rows"), "{}", why[0].message);
    world.pass_minutes(10);
    assert_eq!(world.told(), "");
    allow(&mut world, batch, true, "");
    assert_eq!(world.told(), "b1 quality allowed: \nb1 assigned t1 attempt 1 to w\n");
    allow(&mut world, batch, false, "after all");
    assert!(world.told().contains("returned t1: Rejected(\"the quality service refused it\")"));
    assert_eq!(world.why_kinds(batch), ["quality_gate"]);
}

/// DEP-1: a batch that waits for a path of its own costs little; 10,000 that wait for one are released by one event.
#[test]
fn ten_thousand_are_released_by_one_event() {
    let mut world = World::new();
    let spec =
        json!({"inputs": ["/d"], "schedule": {"cron": "* * * * * ?", "zone": "UTC"}, "max_concurrent": 100});
    world.define(vec![job("a", spec)]);
    for _ in 0..20 {
        world.pass(jiff::SignedDuration::from_secs(500));
    }
    let batches = world.unfinished();
    assert!(batches >= 9_999, "{batches}");
    world.events();
    found(&mut world, vec![answer(1, 1, true)]);
    assert_eq!(world.told(), "h1 satisfied, generation 1\n");
    assert_eq!(world.partition.group(GROUP).unwrap().queued_batches(), 100);
}

/// GEN-1: output paths are resolved at generation, for the batch's logical time and with its own parameters, each once; a
/// rerun resolves those of its definition.
#[test]
fn output_paths_are_resolved_at_generation() {
    let mut world = World::new();
    let outputs =
        json!(["/${param.lake}/${yyyyMMdd-1d}", {"path": "/b/${run}", "mark": "_SUCCESS"}, "/x/20260630"]);
    let more = json!({"outputs": outputs, "parameters": {"lake": "lake"}});
    let ids = world.define(vec![job("a", more)]);
    world.worker("w", 1, Script::Succeed);
    world.events();
    let outputs = |world: &mut World| {
        let generated = world.events().into_iter().find_map(|event| match event {
            Event::Batch(BatchEvent::Generated { outputs, .. }) => Some(outputs),
            _ => None,
        });
        let told = |output: DataPath| {
            format!("{}{}", output.path, output.mark.map_or_else(String::new, |it| format!(" {it}")))
        };
        generated.unwrap().into_iter().map(told).collect::<Vec<_>>()
    };
    let batch = world.batch(ids[0], Some(TEN));
    assert_eq!(outputs(&mut world), ["/lake/20260630", "/b/0 _SUCCESS", "/x/20260630"]);
    world.rerun(batch, ids[0], TEN);
    assert_eq!(outputs(&mut world), ["/lake/20260630", "/b/1 _SUCCESS", "/x/20260630"]);
    let parameters = [("lake".to_owned(), "x".to_owned())].into();
    let logical_time = Some(at(TEN));
    world.ask(
        GROUP,
        Command::Batch(BatchCommand::RunJob { job: ids[0], logical_time, parameters, concurrent: false }),
    );
    assert_eq!(outputs(&mut world), ["/x/20260630", "/b/2 _SUCCESS"]);
}
