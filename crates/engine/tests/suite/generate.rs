//! GEN: when batches come into being, and when they do not.

use crate::kit::{GROUP, Script, World, at, every, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    Answer, BatchCommand, BatchEvent, BatchId, Command, Event, JobCommand, Outcome, PartitionEvent, Program,
    ScheduleEvent, ShardId, SkipReason, WorkMessage,
};

fn generated(world: &mut World) -> usize {
    world.events().iter().filter(|event| matches!(event, Event::Batch(BatchEvent::Generated { .. }))).count()
}

fn cron(text: &str) -> serde_json::Value {
    json!({"cron": text, "zone": "UTC"})
}

/// GEN-1, JOB-3: each period at its base time, for the start of the period that contains it.
#[test]
fn periods_fire_at_their_base_times() {
    let mut world = World::at("2026-05-31T23:30:00.000Z");
    world.define(["hour", "day", "week", "month"].map(|p| job(p, json!({"schedule": every(p)}))).to_vec());
    world.until("2026-06-01T00:00:59.000Z");
    assert_eq!(world.told(), "");
    world.until("2026-06-01T00:05:00.000Z");
    world.until("2026-06-01T01:01:00.000Z");
    expect![[r#"
        b1 generated hour 2026-06-01 00:00 run 0
        b2 generated day 2026-06-01 00:00 run 0
        b3 generated week 2026-06-01 00:00 run 0
        b4 generated month 2026-06-01 00:00 run 0
        b5 generated hour 2026-06-01 01:00 run 0
    "#]]
    .assert_eq(&world.told());
}

/// GEN-1, JOB-3: a job without a schedule writes its times in the zone of its nearest ancestor that has one, as that is today,
/// however often it was asked before.
#[test]
fn schedule_of_an_ancestor_is_followed_as_it_is_today() {
    let mut world = World::at("2026-05-31T23:30:00.000Z");
    let chain = |zone: &str| {
        let leaf = json!({"parents": ["middle"], "type": "shell", "command": "${yyyyMMddHH}"});
        vec![
            job("root", json!({"schedule": {"cron": "0 0 0/6 * * ?", "zone": zone}})),
            job("middle", json!({"parents": ["root"]})),
            job("leaf", leaf),
        ]
    };
    world.define(chain("UTC"));
    let worker = world.worker("w", 9, Script::Succeed);
    let ran = |world: &mut World| -> Vec<String> {
        let heard = std::mem::take(&mut world.played(&worker).heard);
        let texts = heard.into_iter().filter_map(|message| match message {
            WorkMessage::Granted { spec, .. } => match spec.program {
                Program::Script { text, arguments } => Some(format!("{text} {}", arguments.join(" "))),
                Program::Command(text) => Some(text),
                Program::Path { .. } | Program::None => None,
            },
            _ => None,
        });
        texts.collect()
    };
    world.until("2026-06-01T06:01:00.000Z");
    assert_eq!(ran(&mut world), ["2026060100", "2026060106"]);
    world.define(chain("Asia/Shanghai"));
    world.until("2026-06-01T10:01:00.000Z");
    assert_eq!(ran(&mut world), ["2026060118"], "that is 10:00 UTC");
    // The one in between gets a schedule of its own.
    let mut jobs = chain("Asia/Shanghai");
    jobs[1] = job("middle", json!({"schedule": {"cron": "0 0 12 * * ?", "zone": "UTC"}}));
    world.define(jobs);
    world.until("2026-06-01T12:01:00.000Z");
    assert_eq!(ran(&mut world), ["2026060112"]);
    assert_eq!(world.folded(), world.partition);
}

/// GEN-1: a cron fires at its times, for its times.
#[test]
fn cron_fires_at_its_times() {
    let mut world = World::new();
    world.define(vec![job("a", json!({"schedule": cron("0 0/20 10 * * ?")}))]);
    for minute in ["19:59", "20:00", "39:00", "40:00"] {
        world.until(&format!("2026-07-01T10:{minute}Z"));
    }
    expect![[r#"
        b1 generated a 2026-07-01 10:20 run 0
        b2 generated a 2026-07-01 10:40 run 0
    "#]]
    .assert_eq(&world.told());
}

/// GEN-2: however often the same time is looked at, a logical time has one batch.
#[test]
fn a_logical_time_is_generated_once() {
    let mut world = World::new();
    world.define(vec![job("a", json!({"schedule": every("hour")}))]);
    world.until("2026-07-01T11:01:00.000Z");
    for _ in 0..3 {
        world.run();
        world.partition = world.folded();
        world.pass_minutes(1);
    }
    assert_eq!(generated(&mut world), 1);
}

/// GEN-3: what was missed is generated: all of it, the newest, or nothing.
#[test]
fn missed_times_follow_the_policy() {
    for (policy, expected) in [
        (
            "all",
            expect![[r#"
            b1 generated a 2026-07-01 11:00 run 0
            b2 generated a 2026-07-01 12:00 run 0
            b3 generated a 2026-07-01 13:00 run 0
            b4 generated a 2026-07-01 14:00 run 0
            b5 generated a 2026-07-01 15:00 run 0
        "#]],
        ),
        (
            "latest",
            expect![[r#"
            skipped a 2026-07-01 11:00 to 2026-07-01 13:00, 3: Policy
            b1 generated a 2026-07-01 14:00 run 0
            b2 generated a 2026-07-01 15:00 run 0
        "#]],
        ),
        (
            "none",
            expect![[r#"
            skipped a 2026-07-01 11:00 to 2026-07-01 14:00, 4: Policy
            b1 generated a 2026-07-01 15:00 run 0
        "#]],
        ),
    ] {
        let mut world = World::new();
        world.define(vec![job("a", json!({"schedule": every("hour"), "missed_runs": policy}))]);
        world.until("2026-07-01T14:30:00.000Z");
        world.until("2026-07-01T15:01:00.000Z");
        expected.assert_eq(&world.told());
    }
}

/// GEN-9: at most seven days back, the rest on record as skipped.
#[test]
fn fires_older_than_a_week_are_one_recorded_skip() {
    let mut world = World::new();
    world.define(vec![job("a", json!({"schedule": every("day")}))]);
    world.until("2026-07-20T12:00:00.000Z");
    expect![[r#"
        skipped a 2026-07-02 00:00 to 2026-07-13 00:00, 12: TooOld
        b1 generated a 2026-07-14 00:00 run 0
        b2 generated a 2026-07-15 00:00 run 0
        b3 generated a 2026-07-16 00:00 run 0
        b4 generated a 2026-07-17 00:00 run 0
        b5 generated a 2026-07-18 00:00 run 0
        b6 generated a 2026-07-19 00:00 run 0
        b7 generated a 2026-07-20 00:00 run 0
    "#]]
    .assert_eq(&world.told());
}

/// GEN-9: at most 1,000 batches, the newest, the rest on record as skipped.
#[test]
fn at_most_a_thousand_missed_fires_make_batches() {
    let mut world = World::new();
    world.define(vec![job("a", json!({"schedule": cron("0 * * * * ?")}))]);
    world.until("2026-07-02T10:10:00.000Z");
    let events = world.events();
    let skips: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Schedule(ScheduleEvent::Skipped { count, reason, .. }) => Some((*count, *reason)),
            _ => None,
        })
        .collect();
    assert_eq!(skips, [(440, SkipReason::TooMany)]);
    let times: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Batch(BatchEvent::Generated { logical_time, .. }) => Some(*logical_time),
            _ => None,
        })
        .collect();
    assert_eq!(times.len(), 1_000);
    assert_eq!(times.last().copied(), Some(world.wall));
    assert!(times.is_sorted_by(|a, b| a < b));
}

/// GEN-9: the span in which a job was off is not missed, and a start in the past generates nothing.
#[test]
fn disabled_spans_are_not_missed() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"schedule": every("hour")}))]);
    let switch = |enabled| Command::Job(JobCommand::Switch { job: ids[0], enabled });
    world.ask(ShardId::CATALOGUE, switch(false));
    world.until("2026-07-01T15:10:00.000Z");
    world.ask(ShardId::CATALOGUE, switch(true));
    world.until("2026-07-01T16:01:00.000Z");
    expect![[r#"
        job disabled a
        job switched a false, next never
        job enabled a
        job switched a true, next 2026-07-01 16:01
        b1 generated a 2026-07-01 16:00 run 0
    "#]]
    .assert_eq(&world.told());
}

/// GEN-9: times count from the definition; a changed comment does not lose a pending one, a changed schedule
/// counts anew.
#[test]
fn a_changed_definition_keeps_a_pending_fire_of_the_same_schedule() {
    let mut world = World::new();
    world.define(vec![job("a", json!({"schedule": every("hour")}))]);
    world.wall = crate::kit::at("2026-07-01T12:30:00.000Z");
    // Reaches the shard in one draft with the timer, before it.
    world.define(vec![job("a", json!({"schedule": every("hour"), "comment": "new"}))]);
    world.run();
    let listed = world.partition.group(GROUP).unwrap().unfinished_batches();
    assert_eq!(listed, 2, "11:00 and 12:00");
    world.define(vec![job("a", json!({"schedule": every("day")}))]);
    world.pass_minutes(60);
    assert_eq!(world.told(), "");
}

/// GEN-5: by hand for the current period, refused while that batch is unfinished.
#[test]
fn a_manual_run_is_refused_while_its_batch_is_unfinished() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"schedule": every("day")}))]);
    world.batch(ids[0], None);
    let outcome = world.run_job(ids[0], None);
    expect!["batch_unfinished: job 4096 has an unfinished batch 4097 for 2026-07-01T00:00:00.000Z; wait for it or kill it"].assert_eq(&rejection(&outcome));
    world.worker("w", 1, Script::Succeed);
    world.batch(ids[0], None);
    expect![[r#"
        b1 generated a 2026-07-01 00:00 run 1
        w registered 1
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
        b2 generated a 2026-07-01 00:00 run 2
        b2 assigned t2 attempt 1 to w
        b2 granted t2
        b2 started t2
        b2 attempt 1 Success
        b2 finished success
    "#]]
    .assert_eq(&world.told());
}

/// GEN-5: a run by hand is refused while a batch of the job is unfinished, whatever its logical time, unless it is asked
/// for beside it; two runs of one logical time are refused in any case. What it was asked is on record.
#[test]
fn a_manual_run_is_refused_beside_any_unfinished_batch_unless_concurrent() {
    const NINE: &str = "2026-07-01T09:00:00.000Z";
    const TEN: &str = "2026-07-01T10:00:00.000Z";
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("b", json!({}))]);
    let run = |world: &mut World, time: &str, concurrent| {
        let (job, logical_time) = (ids[0], Some(crate::kit::at(time)));
        let command = Command::Batch(BatchCommand::RunJob {
            job,
            logical_time,
            parameters: Default::default(),
            concurrent,
        });
        rejection(&world.ask(GROUP, command))
    };
    let first = world.batch(ids[0], Some(NINE));
    world.batch(ids[1], Some(TEN));
    world.events();
    let refused = |time: &str| format!("has an unfinished batch {first} for {time}");
    let told = run(&mut world, TEN, false);
    assert!(told.starts_with("job_unfinished: ") && told.contains(&refused(NINE)), "{told}");
    assert!(told.ends_with("or run beside it with concurrent (--concurrent)"), "{told}");
    for concurrent in [false, true] {
        let told = run(&mut world, NINE, concurrent);
        assert!(told.starts_with("batch_unfinished: ") && told.contains(&refused(NINE)), "{told}");
    }
    assert_eq!(world.told(), "");
    run(&mut world, TEN, true);
    world.worker("w", 4, Script::Succeed);
    run(&mut world, "2026-07-01T11:00:00.000Z", false);
    let on_record: Vec<Option<bool>> = world
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Batch(BatchEvent::Generated { concurrent, .. }) => Some(*concurrent),
            _ => None,
        })
        .collect();
    assert_eq!(on_record, [Some(true), Some(false)]);
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// DSP-1: of a disabled job, runs by hand and reruns go on, within its limit, and their answers say that it is disabled;
/// what its parents made waits until it is enabled.
#[test]
fn a_disabled_job_is_run_by_hand_and_rerun_while_its_other_batches_wait() {
    let mut world = World::new();
    let ids = world.define(vec![
        job("p", json!({"type": "anchor"})),
        job("a", json!({"parents": [{"job": "p", "mapping": "latest"}], "max_concurrent": 1})),
    ]);
    for hour in ["2026-07-01T08:00:00.000Z", "2026-07-01T09:00:00.000Z"] {
        world.batch(ids[0], Some(hour));
    }
    world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job: ids[1], enabled: false }));
    world.events();
    let of_disabled = |outcome: Outcome| match outcome {
        Outcome::Answered(Answer::Generated { batch, disabled: true }) => batch,
        other => panic!("{other:?}"),
    };
    let hours = ["2026-07-01T06:00:00.000Z", "2026-07-01T07:00:00.000Z"];
    let [first, _] = hours.map(|hour| of_disabled(world.run_job(ids[1], Some(hour))));
    world.worker("w", 4, Script::Succeed);
    of_disabled(world.rerun(first, ids[1], hours[0]));
    expect![[r#"
        b5 generated a 2026-07-01 06:00 run 0, of p 0/0
        b6 generated a 2026-07-01 07:00 run 0, of p 0/0
        w registered 1
        b5 assigned t1 attempt 1 to w
        b5 granted t1
        b5 started t1
        b5 attempt 1 Success
        b5 finished success
        b6 assigned t2 attempt 1 to w
        b6 granted t2
        b6 started t2
        b6 attempt 1 Success
        b6 finished success
        b7 generated a 2026-07-01 06:00 run 1, of p 0/0
        b7 assigned t3 attempt 1 to w
        b7 granted t3
        b7 started t3
        b7 attempt 1 Success
        b7 finished success
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.unfinished(), 2);
    world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job: ids[1], enabled: true }));
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// GEN-9: what was run by hand before its base time is not run again by the schedule, and that is on record.
#[test]
fn a_run_by_hand_before_its_base_time_is_a_recorded_skip() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"schedule": every("hour")}))]);
    world.batch(ids[0], Some("2026-07-01T11:00:00.000Z"));
    world.until("2026-07-01T11:01:00.000Z");
    world.until("2026-07-01T12:01:00.000Z");
    expect![[r#"
        b1 generated a 2026-07-01 11:00 run 1
        skipped a 2026-07-01 11:00 to 2026-07-01 11:00, 1: RunByHand
        b2 generated a 2026-07-01 12:00 run 0
    "#]]
    .assert_eq(&world.told());
}

/// GEN-9: in a diamond the last job is generated once, and waits for both sides.
#[test]
fn a_diamond_generates_each_job_once() {
    let mut world = World::new();
    world.define(vec![
        job("top", json!({"schedule": every("hour")})),
        job("left", json!({"parents": ["top"]})),
        job("right", json!({"parents": ["top"]})),
        job("bottom", json!({"parents": ["left", "right"]})),
    ]);
    world.worker("w", 10, Script::Succeed);
    world.events();
    world.until("2026-07-01T11:01:00.000Z");
    expect![[r#"
        b1 generated top 2026-07-01 11:00 run 0
        b2 generated left 2026-07-01 11:00 run 0, of top 0/1
        b3 generated right 2026-07-01 11:00 run 0, of top 0/1
        b4 generated bottom 2026-07-01 11:00 run 0, of left 0/1, right 0/1
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        b1 started t1
        b1 attempt 1 Success
        b1 finished success
        b2 satisfied top 2026-07-01 11:00, unmet 0
        b3 satisfied top 2026-07-01 11:00, unmet 0
        b2 assigned t2 attempt 1 to w
        b3 assigned t3 attempt 1 to w
        b2 granted t2
        b3 granted t3
        b2 started t2
        b2 attempt 1 Success
        b2 finished success
        b3 started t3
        b3 attempt 1 Success
        b3 finished success
        b4 satisfied left 2026-07-01 11:00, unmet 1
        b4 satisfied right 2026-07-01 11:00, unmet 0
        b4 assigned t4 attempt 1 to w
        b4 granted t4
        b4 started t4
        b4 attempt 1 Success
        b4 finished success
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.unfinished(), 0);
}

/// GEN-9: a parent run by hand triggers its children, with a run number of their own.
#[test]
fn a_manual_run_triggers_children_that_have_no_batch() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("b", json!({"parents": ["a"]}))]);
    world.batch(ids[0], Some("2026-07-01T09:00:00.000Z"));
    expect![[r#"
        b1 generated a 2026-07-01 09:00 run 0
        b2 generated b 2026-07-01 09:00 run 0, of a 0/1
    "#]]
    .assert_eq(&world.told());
}

/// GEN-9: a child that was run by hand while its parents' trigger was pending is not generated again, and
/// the partition goes on.
#[test]
fn a_child_run_by_hand_spends_its_trigger() {
    let fan = |children: usize| {
        let mut world = World::new();
        world.define(vec![job("top", json!({"schedule": every("hour")}))]);
        let child = |n: usize| job(&format!("child{n}"), json!({"parents": ["top"]}));
        let mut last = None;
        for first in (0..children).step_by(300) {
            let part = (first..children.min(first + 300)).map(child).collect();
            last = world.define(part).pop();
        }
        world.wall = crate::kit::at("2026-07-01T11:01:00.000Z");
        world.step(0);
        let made = generated(&mut world);
        (world, last.unwrap(), made)
    };
    // As many jobs as one draft generates, and one more.
    let (_, _, room) = fan(900);
    let (mut world, last, made) = fan(room);
    assert_eq!(made, room, "the parent and all children but the last");
    let logical_time = Some(crate::kit::at("2026-07-01T11:00:00.000Z"));
    world.send(
        GROUP,
        Command::Batch(BatchCommand::RunJob {
            job: last,
            logical_time,
            parameters: Default::default(),
            concurrent: true,
        }),
    );
    world.run();
    assert_eq!(generated(&mut world), 1);
    assert_eq!(world.partition, world.folded());
}

/// GEN-9: children that are switched off are not triggered.
#[test]
fn disabled_children_are_not_triggered() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("b", json!({"parents": ["a"], "enabled": false}))]);
    world.batch(ids[0], None);
    assert_eq!(generated(&mut world), 1);
}

/// Both hours of an overlap are generated, each once (JOB-3).
#[test]
fn both_hours_of_an_overlap_are_generated() {
    let mut world = World::at("2026-10-24T23:30:00.000Z");
    world.define(vec![job("a", json!({"schedule": {"period": "hour", "zone": "Europe/Berlin"}}))]);
    world.until("2026-10-25T02:30:00.000Z");
    expect![[r#"
        b1 generated a 2026-10-25 00:00 run 0
        b2 generated a 2026-10-25 01:00 run 0
        b3 generated a 2026-10-25 02:00 run 0
    "#]]
    .assert_eq(&world.told());
}

/// A job run by hand again and again keeps a bounded history, and old logical times are still known as run.
#[test]
fn history_stays_bounded_and_runs_go_on_counting() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    world.worker("w", 1, Script::Succeed);
    let first = world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    let mut evicted = 0;
    for minute in 1..60 {
        world.batch(ids[0], Some(&format!("2026-07-01T00:{minute:02}:00.000Z")));
        evicted += world
            .events()
            .iter()
            .filter(|event| matches!(event, Event::Partition(PartitionEvent::HistoryEvicted { .. })))
            .count();
    }
    assert!(evicted >= 3, "{evicted}");
    let outcome = world.rerun(first, ids[0], "2026-07-01T00:00:00.000Z");
    assert!(matches!(outcome, Outcome::Answered(_)), "{}", rejection(&outcome));
    let run = world.events().iter().find_map(|event| match event {
        Event::Batch(BatchEvent::Generated { run, .. }) => Some(*run),
        _ => None,
    });
    assert_eq!(run, Some(1));
}

/// Runs by hand for times to come do not keep the schedule from its own.
#[test]
fn manual_runs_in_the_future_do_not_swallow_scheduled_ones() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"schedule": every("hour")}))]);
    world.worker("w", 1, Script::Succeed);
    for day in 1..=30 {
        world.batch(ids[0], Some(&format!("2030-01-{day:02}T00:00:00.000Z")));
    }
    world.events();
    world.until("2026-07-01T11:01:00.000Z");
    assert_eq!(generated(&mut world), 1);
}

/// JOB-9: what a job begins after its shard said that nothing is unfinished, and before the deletion arrives, is
/// seen through; then the job is gone.
#[test]
fn a_deleted_jobs_batches_are_seen_through() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    world.held = Some(Vec::new());
    world.send(
        ShardId::CATALOGUE,
        Command::Job(JobCommand::Delete { job: ids[0], cancel: false, orphan_children: false }),
    );
    world.run();
    let deliver_held = |world: &mut World| {
        for effect in world.held.replace(Vec::new()).unwrap() {
            let tidemill_engine::Effect::Send { shard, command } = effect else { continue };
            world.send(shard, command);
        }
        world.run();
    };
    deliver_held(&mut world);
    assert!(world.told().contains("told 1: \n"));
    for minute in 0..3 {
        world.batch(ids[0], Some(&format!("2026-07-01T00:{minute:02}:00.000Z")));
    }
    deliver_held(&mut world);
    deliver_held(&mut world);
    world.held = None;
    assert!(world.told().contains("job removed a"));
    let outcome = world.run_job(ids[0], None);
    assert!(rejection(&outcome).starts_with("unknown"), "{}", rejection(&outcome));
    assert_eq!(world.unfinished(), 3);
    world.worker("w", 2, Script::Succeed);
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// EVT-6: a logical time between evicted ones that never ran has not run.
#[test]
fn a_gap_between_evicted_times_has_not_run() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    world.worker("w", 1, Script::Succeed);
    for minute in (0..60).filter(|minute| *minute != 7) {
        world.batch(ids[0], Some(&format!("2026-07-01T00:{minute:02}:00.000Z")));
    }
    let evicted = |event: &Event| matches!(event, Event::Partition(PartitionEvent::HistoryEvicted { upto, .. }) if *upto > at("2026-07-01T00:07:00.000Z"));
    assert!(world.events().iter().any(evicted));
    let any = BatchId::mint(999, GROUP);
    let outcome = world.rerun(any, ids[0], "2026-07-01T00:07:00.000Z");
    assert!(rejection(&outcome).starts_with("unknown"), "{}", rejection(&outcome));
    let outcome = world.rerun(any, ids[0], "2026-07-01T00:08:00.000Z");
    assert!(matches!(outcome, Outcome::Answered(_)), "{}", rejection(&outcome));
    world.batch(ids[0], Some("2026-07-01T00:07:00.000Z"));
    assert!(world.told().contains("generated a 2026-07-01 00:07 run 0"));
    assert_eq!(world.partition, world.folded());
}
