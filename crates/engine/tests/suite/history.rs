//! GEN-10: what a shard has evicted from a job's history never makes an answer wrong.

use std::collections::BTreeMap;

use crate::kit::{GROUP, Script, World, at, every, job, rejection};
use expect_test::expect;
use jiff::SignedDuration;
use serde_json::json;
use tidemill_engine::FaultInjection;
use tidemill_model::{
    Answer, AttemptOutcome, AttemptResult, BatchCommand, BatchEvent, BatchId, Cascade, Command, Event,
    GroupSettings, JobId, JobSpec, Outcome, OverriddenResult, PartitionEvent, RecordedBatch, RerunCommand,
    RerunDefinition, RerunEvent, RerunOnly, RerunOrder, RerunScope, RerunSpec, ShardId, Timestamp,
    WorkerCommand,
};

type Texts = BTreeMap<String, String>;

/// A world whose shards keep as little as they can.
fn forgetful() -> World {
    let fault_injection = FaultInjection {
        spare_history: Some(0),
        remembered_submissions: Some(2),
        ..FaultInjection::default()
    };
    World::fault_injected(crate::kit::START, GroupSettings::default(), fault_injection)
}

fn day(number: i64) -> Timestamp {
    at("2026-03-01T00:00:00.000Z").checked_add(SignedDuration::from_hours(24 * number)).unwrap()
}

fn texts(text: &str) -> Texts {
    Texts::from([("x".to_owned(), text.to_owned())])
}

fn run(world: &mut World, job: JobId, time: Timestamp, parameters: Texts) -> BatchId {
    match world.ask(
        GROUP,
        Command::Batch(BatchCommand::RunJob { job, logical_time: Some(time), parameters, concurrent: true }),
    ) {
        Outcome::Answered(Answer::Generated { batch, .. }) => batch,
        other => panic!("{}", rejection(&other)),
    }
}

fn rerun(
    world: &mut World,
    batch: BatchId,
    job: JobId,
    time: Timestamp,
    known: Option<(u32, Texts)>,
) -> Outcome {
    let recorded = known.map(|(run, parameters)| Box::new(RecordedBatch { run, parameters }));
    world.ask(GROUP, Command::Batch(BatchCommand::Rerun { batch, job, logical_time: time, recorded }))
}

fn mark(
    world: &mut World,
    batch: BatchId,
    (job, logical_time): (JobId, Timestamp),
    result: OverriddenResult,
    run: Option<u32>,
) -> Outcome {
    let reason = "as seen".to_owned();
    world.ask(
        GROUP,
        Command::Batch(BatchCommand::OverrideResult { batch, job, logical_time, result, reason, run }),
    )
}

fn plan(world: &mut World, job: JobId, times: (Timestamp, Timestamp), definition: RerunDefinition) {
    let request = RerunSpec {
        scope: RerunScope::Rerun { jobs: vec![job], cascade: Cascade::Job },
        from: times.0,
        to: times.1,
        reach: None,
        only: RerunOnly::All,
        order: RerunOrder::Oldest,
        concurrency: 4,
        definition,
        reason: "late data".to_owned(),
        approve: true,
    };
    let outcome = world.ask(ShardId::CATALOGUE, Command::Rerun(RerunCommand::Plan(Box::new(request))));
    assert!(matches!(outcome, Outcome::Answered(_)), "{}", rejection(&outcome));
}

/// Version, run and parameters of the batches that were generated.
fn generated(world: &mut World) -> Vec<(u32, u32, Texts)> {
    let events = world.events().into_iter();
    let of = |event| match event {
        Event::Batch(BatchEvent::Generated { version, run, parameters, .. }) => {
            Some((version, run, parameters))
        }
        _ => None,
    };
    events.filter_map(of).collect()
}

fn daily(name: &str, more: serde_json::Value) -> JobSpec {
    let mut fields = json!({"type": "anchor", "schedule": every("day"), "max_concurrent": 9});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job(name, fields)
}

/// GEN-10: a rerun, by itself or planned, has the parameters that the time had, and a planned one the version that it
/// had where that is asked for.
#[test]
fn evicted_times_keep_parameters_and_version() {
    let mut world = World::new();
    let ids = world.define(vec![daily("a", json!({}))]);
    let first = run(&mut world, ids[0], day(0), texts("0"));
    for number in 1..40 {
        run(&mut world, ids[0], day(number), texts(&number.to_string()));
    }
    let evicted = |event: &Event| matches!(event, Event::Partition(PartitionEvent::HistoryEvicted { upto, .. }) if *upto >= day(2));
    assert!(world.events().iter().any(evicted));
    world.define(vec![daily("a", json!({"comment": "second"}))]);
    world.events();
    rerun(&mut world, first, ids[0], day(0), None);
    assert_eq!(generated(&mut world), [(2, 2, texts("0"))]);
    plan(&mut world, ids[0], (day(0), day(2)), RerunDefinition::Recorded);
    assert_eq!(generated(&mut world), [(2, 3, texts("0")), (1, 2, texts("1")), (1, 2, texts("2"))]);
    plan(&mut world, ids[0], (day(2), day(3)), RerunDefinition::Today);
    assert_eq!(generated(&mut world), [(2, 3, texts("2")), (2, 2, texts("3"))]);
    assert_eq!(world.partition, world.folded());
}

/// GEN-10: an older run is run again with its own parameters, not with those of the newest; a run that never was is
/// refused.
#[test]
fn an_older_run_is_rerun_with_its_own_parameters() {
    let mut world = forgetful();
    let ids = world.define(vec![daily("a", json!({}))]);
    let first = run(&mut world, ids[0], day(0), texts("first"));
    run(&mut world, ids[0], day(0), texts("second"));
    for number in 1..5 {
        run(&mut world, ids[0], day(number), Texts::new());
    }
    world.events();
    let outcome = rerun(&mut world, first, ids[0], day(0), Some((1, texts("first"))));
    assert!(matches!(outcome, Outcome::Answered(_)), "{}", rejection(&outcome));
    assert_eq!(generated(&mut world), [(1, 3, texts("first"))]);
    let never = rerun(&mut world, first, ids[0], day(0), Some((7, texts("never"))));
    assert!(rejection(&never).starts_with("unknown"), "{}", rejection(&never));
}

/// GEN-10: of parameters beyond what is kept of one job, a rerun of the batch has them from the request, and a planned
/// one is skipped for what it is.
#[test]
fn parameters_beyond_the_bound_come_with_the_request_or_are_refused() {
    let mut world = World::new();
    let ids = world.define(vec![daily("a", json!({}))]);
    let large = |number: i64| texts(&format!("{number:020000}"));
    let first = run(&mut world, ids[0], day(0), large(0));
    for number in 1..60 {
        run(&mut world, ids[0], day(number), large(number));
    }
    world.events();
    let refused = rerun(&mut world, first, ids[0], day(0), None);
    assert!(rejection(&refused).contains("does not keep its parameters"), "{}", rejection(&refused));
    plan(&mut world, ids[0], (day(0), day(0)), RerunDefinition::Today);
    let events = world.events();
    let skipped = |event: &Event| {
        let Event::Rerun(RerunEvent::RunSkipped { reason, .. }) = event else { return false };
        *reason == tidemill_model::RunSkip::UnknownParameters
    };
    assert!(events.iter().any(skipped), "{events:?}");
    rerun(&mut world, first, ids[0], day(0), Some((1, large(0))));
    assert_eq!(generated(&mut world), [(1, 2, large(0))]);
    assert_eq!(world.partition, world.folded());
}

/// GEN-10, BYD-16: a batch that was evicted is marked, its children hear of it, and the mark is what counts from then
/// on; an older run, a run that never was and one without a number are refused.
#[test]
fn evicted_batch_is_marked() {
    let mut world = forgetful();
    let ids =
        world.define(vec![daily("p", json!({})), daily("c", json!({"parents": ["p"], "type": "noop"}))]);
    let old = run(&mut world, ids[0], day(0), Texts::new());
    let first = run(&mut world, ids[0], day(0), Texts::new());
    for number in 1..6 {
        run(&mut world, ids[0], day(number), Texts::new());
    }
    run(&mut world, ids[1], day(0), Texts::new());
    world.events();
    let of = (ids[0], day(0));
    assert_eq!(
        mark(&mut world, first, of, OverriddenResult::Failed, Some(2)),
        Outcome::Answered(Answer::Done)
    );
    assert_eq!(
        mark(&mut world, first, of, OverriddenResult::Failed, Some(2)),
        Outcome::Answered(Answer::Done)
    );
    assert_eq!(
        mark(&mut world, first, of, OverriddenResult::Skipped, Some(2)),
        Outcome::Answered(Answer::Done)
    );
    expect![[r#"
        b2 marked Failed by ann: as seen
        b8 withdrawn p 2026-03-01 00:00, unmet 1
        b8 blocked by p 2026-03-01 00:00, since 2026-07-01 10:10
        b2 marked Skipped by ann: as seen
        b8 satisfied p 2026-03-01 00:00, unmet 0
        b8 unblocked
    "#]]
    .assert_eq(&world.told());
    let mut told = String::new();
    for (batch, run) in [(old, Some(1)), (first, Some(3)), (first, None)] {
        told += &rejection(&mark(&mut world, batch, of, OverriddenResult::Failed, run));
        told.push('\n');
    }
    expect![[r#"
        invalid: batch: "4097": is not the newest run of its logical time, which decides; mark the newest batch (run 2)
        unknown: there is no batch 8193
        invalid: batch: "8193": ended so long ago that its shard knows its run only by number, and the request does not give that; repeat it
    "#]].assert_eq(&told);
    assert_eq!(world.partition, world.folded());
}

/// GEN-10, DEP-3: `depends_on_past` waits for a predecessor that failed and was evicted.
#[test]
fn evicted_failure_of_the_own_past_is_waited_for() {
    let mut world = forgetful();
    let ids = world.define(vec![daily("a", json!({"depends_on_past": true}))]);
    let first = run(&mut world, ids[0], day(0), Texts::new());
    mark(&mut world, first, (ids[0], day(0)), OverriddenResult::Failed, None);
    for number in 1..6 {
        run(&mut world, ids[0], day(2 * number), Texts::new());
    }
    world.events();
    let next = run(&mut world, ids[0], day(1), Texts::new());
    assert_eq!(world.why_kinds(next), ["dependency"]);
    mark(&mut world, first, (ids[0], day(0)), OverriddenResult::Success, Some(1));
    expect![[r#"
        evicted a 2026-03-07 00:00
        b7 generated a 2026-03-02 00:00 run 1, of a 0/1
        b7 blocked by a 2026-03-01 00:00, since 2026-07-01 10:10
        b1 marked Success by ann: as seen
        b7 satisfied a 2026-03-01 00:00, unmet 0
        b7 unblocked
        b7 finished success
    "#]]
    .assert_eq(&world.told());
}

/// GEN-10, DEP-3: the newest logical time of a parent without a schedule that is not after the child's is found though
/// it was evicted.
#[test]
fn latest_of_a_parent_finds_what_was_evicted() {
    let mut world = forgetful();
    let ids = world.define(vec![
        job("p", json!({"type": "anchor"})),
        job(
            "c",
            json!({"type": "noop", "schedule": every("day"), "parents": [{"job": "p", "mapping": "latest"}]}),
        ),
    ]);
    let first = run(&mut world, ids[0], day(0), Texts::new());
    mark(&mut world, first, (ids[0], day(0)), OverriddenResult::Failed, None);
    for number in 2..8 {
        run(&mut world, ids[0], day(number), Texts::new());
    }
    world.events();
    let child = run(&mut world, ids[1], day(1), Texts::new());
    assert_eq!(world.why_kinds(child), ["dependency"]);
}

/// GEN-10, BYD-20: a child of an evicted parent's batch gets the values that it passed on, here and in another group;
/// where there was no room to keep them, it fails with that reason.
#[test]
fn values_of_evicted_parents_are_known() {
    const OTHER: ShardId = ShardId(2);
    let mut world = forgetful();
    world.define_group("h", GroupSettings::default());
    let child = |parent: &str| json!({"parents": [parent], "type": "shell", "command": "load", "arguments": [format!("${{values.{parent}.rows}}")]});
    let mut far = child("g/p");
    far["group"] = json!("h");
    let parent = daily("p", json!({"type": "shell", "command": "x"}));
    let ids = world.define(vec![parent, daily("c", child("g/p")), daily("d", far)]);
    let worker = world.worker("w", 1, Script::Silent);
    world.worker_of("h", OTHER, "v", 1);
    for number in 0..60 {
        run(&mut world, ids[0], day(number), Texts::new());
        let token = world.played(&worker).last_token();
        let request = world.played(&worker).request(token);
        world.say(request);
        let values = Texts::from([("rows".to_owned(), format!("{number:04000}"))]);
        let outcome = AttemptOutcome { values, ..AttemptOutcome::bare(AttemptResult::Success) };
        world.say(Command::Worker(WorkerCommand::ReportFinished {
            token,
            worker: worker.clone(),
            outcome,
            usage: None,
            interrupted: false,
            external: None,
        }));
    }
    let failures = |world: &mut World| -> Vec<String> {
        let events = world.events().into_iter();
        events
            .filter_map(|event| match event {
                Event::Batch(BatchEvent::Finished { message, .. }) if message.contains("${values.") => {
                    Some(message)
                }
                _ => None,
            })
            .collect()
    };
    world.events();
    for (number, kept) in [(0, false), (55, true)] {
        for (job, shard) in [(ids[1], GROUP), (ids[2], OTHER)] {
            let (logical_time, parameters) = (Some(day(number)), Texts::new());
            world.ask(
                shard,
                Command::Batch(BatchCommand::RunJob { job, logical_time, parameters, concurrent: true }),
            );
            let token = world.played(&worker).last_token();
            let request = world.played(&worker).request(token);
            world.say(request);
            let messages = failures(&mut world);
            assert_eq!(messages.is_empty(), kept, "{messages:?}");
            let is_true = |message: &String| message.contains("so old that its group does not keep them");
            assert!(messages.iter().all(is_true), "{messages:?}");
        }
    }
}

/// GEN-10, ADR 6: an ad-hoc job that is forgotten is refused as that; one that is remembered has its parameters.
#[test]
fn forgotten_jobs_for_once_are_refused_as_such() {
    let mut world = forgetful();
    let jobs: Vec<(JobId, BatchId, Timestamp)> = (0..4)
        .map(|number| {
            let submission = tidemill_model::Submission {
                job_type: "anchor".try_into().unwrap(),
                parameters: texts(&number.to_string()),
                ..World::submission("once", &[])
            };
            let (job, batch) = world.submit(submission);
            (job, batch, world.wall)
        })
        .collect();
    world.events();
    let mut told = String::new();
    for (job, batch, time) in jobs {
        let outcome = rerun(&mut world, batch, job, time, Some((0, Texts::new())));
        told += match &outcome {
            Outcome::Answered(_) => "answered".to_owned(),
            _ => rejection(&outcome),
        }
        .as_str();
        told.push('\n');
    }
    let never = rerun(&mut world, BatchId::mint(99, GROUP), JobId::mint(99, GROUP), day(0), None);
    told += &rejection(&never);
    expect![[r#"
        invalid: job: "4097": was submitted to run once, and its definition is no longer kept: 2 others have ended since, or it was deleted; submit it again
        invalid: job: "8193": was submitted to run once, and its definition is no longer kept: 2 others have ended since, or it was deleted; submit it again
        answered
        answered
        unknown: there is no job 405505"#]].assert_eq(&told);
    assert_eq!(world.partition, world.folded());
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// What the tables would show of one batch.
#[derive(Debug, Clone)]
struct Shown {
    batch: BatchId,
    time: Timestamp,
    run: u32,
    version: u32,
    parameters: Texts,
}

/// GEN-10: whatever was evicted, a rerun of any batch has that batch's parameters and, as asked, version; a mark of any
/// newest run is accepted; what is folded from the journal is the same.
#[test]
fn reruns_and_marks_of_any_batch_use_its_own_facts() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let mut world = if seed % 3 == 0 { World::new() } else { forgetful() };
        let id = world.define(vec![daily("a", json!({}))])[0];
        let mut shown: Vec<Shown> = Vec::new();
        let mut version = 1;
        for step in 0..70 {
            let named = (!shown.is_empty()).then(|| shown[random.below(shown.len())].clone());
            let newest = |shown: &[Shown], time: Timestamp| {
                shown.iter().filter(|it| it.time == time).max_by_key(|it| it.run).cloned()
            };
            let expected: Vec<(u32, Texts)> = match (random.below(10), named) {
                (0, _) => {
                    version += 1;
                    world.define(vec![daily("a", json!({"comment": format!("{version}")}))]);
                    Vec::new()
                }
                (1..3, Some(named)) => {
                    let known = Some((named.run, named.parameters.clone()));
                    let outcome = rerun(&mut world, named.batch, id, named.time, known);
                    assert!(matches!(outcome, Outcome::Answered(_)), "{}", rejection(&outcome));
                    vec![(version, named.parameters)]
                }
                (3, Some(named)) => {
                    let newest = newest(&shown, named.time).unwrap();
                    plan(&mut world, id, (named.time, named.time), RerunDefinition::Today);
                    vec![(version, newest.parameters)]
                }
                (4, Some(named)) => {
                    let newest = newest(&shown, named.time).unwrap();
                    plan(&mut world, id, (named.time, named.time), RerunDefinition::Recorded);
                    vec![(newest.version, newest.parameters)]
                }
                (5, Some(named)) => {
                    let newest = newest(&shown, named.time).unwrap();
                    let result = [OverriddenResult::Failed, OverriddenResult::Success][random.below(2)];
                    let outcome = mark(&mut world, newest.batch, (id, newest.time), result, Some(newest.run));
                    assert_eq!(outcome, Outcome::Answered(Answer::Done), "{}", rejection(&outcome));
                    Vec::new()
                }
                _ => {
                    let parameters =
                        if random.below(3) == 0 { Texts::new() } else { texts(&step.to_string()) };
                    run(&mut world, id, day(random.below(40) as i64), parameters.clone());
                    vec![(version, parameters)]
                }
            };
            let mut told = Vec::new();
            for event in world.events() {
                let Event::Batch(BatchEvent::Generated {
                    batch, version, logical_time, run, parameters, ..
                }) = event
                else {
                    continue;
                };
                told.push((version, parameters.clone()));
                let last = newest(&shown, logical_time).map_or(0, |last| last.run);
                assert_eq!(run, last + 1, "seed {seed}, step {step}");
                shown.push(Shown { batch, time: logical_time, run, version, parameters });
            }
            assert_eq!(told, expected, "seed {seed}, step {step}");
        }
        assert_eq!(world.partition, world.folded());
    }
}
