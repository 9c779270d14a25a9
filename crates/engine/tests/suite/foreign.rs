//! DEP-3, GEN-9: parents in other groups, from shard to shard.

use crate::kit::{GROUP, Script, World, at, every, job};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tidemill_engine::Effect;
use tidemill_model::{
    Answer, BatchCommand, BatchEvent, BatchId, CatalogueCommand, Command, Event, GroupSettings, JobCommand,
    JobId, LiveAnswer, LiveQuery, Outcome, PartitionEvent, ReplicationEvent, ShardCommand, ShardId,
    SubscriptionEvent,
};

/// The shard of the children's group.
const OTHER: ShardId = ShardId(2);

/// Groups `g`, which has workers, and `h`, whose jobs complete by themselves where nothing keeps them.
fn two_groups() -> World {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    world.events();
    world
}

fn child(name: &str, parent: &str, mapping: Value, more: Value) -> tidemill_model::JobSpec {
    let mut fields =
        json!({"group": "h", "type": "anchor", "parents": [{"job": parent, "mapping": mapping}]});
    for (key, field) in more.as_object().unwrap() {
        fields[key] = field.clone();
    }
    job(name, fields)
}

fn hourly() -> Value {
    json!({"schedule": every("hour")})
}

fn check(world: &mut World, expected: Expect) {
    expected.assert_eq(&world.told());
}

fn unfinished_of(world: &World, shard: ShardId) -> usize {
    world.partition.group(shard).unwrap().unfinished_batches()
}

fn why(world: &World, batch: BatchId) -> Vec<String> {
    match world.partition.answer(OTHER, &LiveQuery::Why { batch }) {
        LiveAnswer::Why(why) => why.conditions.into_iter().map(|condition| condition.message).collect(),
        other => panic!("{other:?}"),
    }
}

fn run_in_other(world: &mut World, job: JobId, time: &str) -> BatchId {
    let parameters = std::collections::BTreeMap::new();
    match world.ask(
        OTHER,
        Command::Batch(BatchCommand::RunJob {
            job,
            logical_time: Some(at(time)),
            parameters,
            concurrent: true,
        }),
    ) {
        Outcome::Answered(Answer::Generated { batch, .. }) => batch,
        other => panic!("{other:?}"),
    }
}

fn rerun(world: &mut World, shard: ShardId, batch: BatchId, job: JobId, time: &str) -> BatchId {
    match world.ask(
        shard,
        Command::Batch(BatchCommand::Rerun { batch, job, logical_time: at(time), recorded: None }),
    ) {
        Outcome::Answered(Answer::Generated { batch, .. }) => batch,
        other => panic!("{other:?}"),
    }
}

/// Lets through what was held up, and all that follows.
fn let_through(world: &mut World) {
    for effect in world.held.take().unwrap() {
        let Effect::Send { shard, command } = effect else { continue };
        world.send(shard, command);
    }
    world.run();
}

/// Logical times of the dependencies of the batches that were generated, by job.
fn waits_for(events: Vec<Event>, of: JobId) -> Vec<Vec<tidemill_model::Timestamp>> {
    let times = events.into_iter().filter_map(|event| match event {
        Event::Batch(BatchEvent::Generated { job, dependencies, .. }) if job == of => Some(dependencies),
        _ => None,
    });
    times.map(|dependencies| dependencies[0].times.clone()).collect()
}

/// BYD-2, DEP-3: days that the calendar of a parent in another group leaves out are not waited for; when the calendar is
/// changed, the other group goes by the changed one from then on.
#[test]
fn calendars_of_parents_in_other_groups_are_kept_to() {
    let mut world = World::at("2026-07-03T10:10:00.000Z");
    world.define_group("h", GroupSettings::default());
    let define = |world: &mut World, spec: Value| {
        let calendar = Box::new(tidemill_model::CalendarSpec::from_value(spec).unwrap());
        world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::DefineCalendar { calendar }));
    };
    define(&mut world, json!({"name": "week"}));
    let daily = json!({"type": "anchor", "schedule": every("day"), "calendar": {"name": "week"}});
    let weekly = |name: &str, mapping: &str| {
        child(name, "g/p", json!(mapping), json!({"schedule": every("week"), "enabled": true}))
    };
    let ids = world.define(vec![job("p", daily), weekly("all", "all")]);
    // Mondays, for the week that ends then.
    while world.wall < at("2026-07-13T00:10:00.000Z") {
        world.pass_minutes(60);
    }
    let first = waits_for(world.events(), ids[1]);
    expect![[r#"
        [
            [
                2026-06-30T00:00:00.000Z,
                2026-07-01T00:00:00.000Z,
                2026-07-02T00:00:00.000Z,
                2026-07-03T00:00:00.000Z,
                2026-07-06T00:00:00.000Z,
            ],
            [
                2026-07-07T00:00:00.000Z,
                2026-07-08T00:00:00.000Z,
                2026-07-09T00:00:00.000Z,
                2026-07-10T00:00:00.000Z,
                2026-07-13T00:00:00.000Z,
            ],
        ]"#]]
    .assert_eq(&format!("{first:#?}"));
    assert_eq!(unfinished_of(&world, OTHER), 0, "what was before the jobs were there is left out");
    define(
        &mut world,
        json!({"name": "week", "holidays": ["2026-07-15", "2026-07-16"], "working_days": ["2026-07-18"]}),
    );
    while world.wall < at("2026-07-20T00:10:00.000Z") {
        world.pass_minutes(60);
    }
    let second = waits_for(world.events(), ids[1]);
    expect![[r#"
        [
            [
                2026-07-14T00:00:00.000Z,
                2026-07-17T00:00:00.000Z,
                2026-07-18T00:00:00.000Z,
                2026-07-20T00:00:00.000Z,
            ],
        ]"#]]
    .assert_eq(&format!("{second:#?}"));
    assert_eq!(unfinished_of(&world, OTHER), 0, "all of the second week");
    assert!(world.folded() == world.partition);
}

/// DEP-3: the child asks once, hears each change of the newest run, and lets go when it is done.
#[test]
fn a_child_hears_how_its_parent_in_another_group_stands() {
    let mut world = two_groups();
    world.worker("w", 1, Script::Run);
    let ids = world.define(vec![job("p", hourly()), child("c", "g/p", json!("same"), hourly())]);
    world.until("2026-07-01T11:01:00.000Z");
    check(
        &mut world,
        expect![[r#"
        b1 generated p 2026-07-01 11:00 run 0
        b1 generated c 2026-07-01 11:00 run 0, of p 0/1
        b1 assigned t1 attempt 1 to w
        b1 granted t1
        p watched by 2: 2026-07-01 11:00
        b1 started t1
        heard p: 2026-07-01 11:00 run 0 -
    "#]],
    );
    let batch = BatchId::mint(1, OTHER);
    expect![
        "waits for g/p of 2026-07-01T11:00:00.000Z: its group last said that batch 4097 (run 0) is not finished"
    ]
    .assert_eq(&why(&world, batch).join("\n"));
    let worker = world.workers[0].id.clone();
    let token = *world.played(&worker).running.keys().next().unwrap();
    let finished = world.played(&worker).finished(token, tidemill_model::AttemptResult::Failed);
    world.say(finished);
    check(
        &mut world,
        expect![[r#"
            b1 attempt 1 Failed
            b1 finished failed
            heard p: 2026-07-01 11:00 run 0 failed
            b1 blocked by p 2026-07-01 11:00, since 2026-07-01 11:01
        "#]],
    );
    expect!["waits for g/p of 2026-07-01T11:00:00.000Z: its group last said that batch 4097 (run 0) failed"]
        .assert_eq(&why(&world, batch).join("\n"));
    world.played(&worker).script = Script::Succeed;
    rerun(&mut world, GROUP, BatchId::mint(1, GROUP), ids[0], "2026-07-01T11:00:00.000Z");
    check(
        &mut world,
        expect![[r#"
            b2 generated p 2026-07-01 11:00 run 1
            b2 assigned t2 attempt 1 to w
            b2 granted t2
            heard p: 2026-07-01 11:00 run 1 -
            b1 unblocked
            b2 started t2
            b2 attempt 1 Success
            b2 finished success
            heard p: 2026-07-01 11:00 run 1 success
            b1 satisfied p 2026-07-01 11:00, unmet 0
            b1 finished success
            p unwatched by 2: 2026-07-01 11:00
        "#]],
    );
    assert_eq!(unfinished_of(&world, OTHER), 0);
    assert!(world.partition == world.folded());
}

/// DEP-3: a rerun of the parent takes a child back that a worker has and has not started; what runs, runs on.
#[test]
fn a_rerun_of_the_parent_takes_an_assigned_child_back_and_lets_a_running_one_run() {
    for (script, expected) in [
        (
            Script::Silent,
            expect![[r#"
                b2 generated p 2026-07-01 10:00 run 1
                b2 finished success
                heard p: 2026-07-01 10:00 run 1 -
                b1 withdrawn p 2026-07-01 10:00, unmet 1
                b1 returned t1: Rejected("a dependency was withdrawn")
                heard p generated: 2026-07-01 10:00, left out 0
                heard p: 2026-07-01 10:00 run 1 success
                b1 satisfied p 2026-07-01 10:00, unmet 0
                b1 assigned t2 attempt 1 to w
            "#]],
        ),
        (
            Script::Run,
            expect![[r#"
                b2 generated p 2026-07-01 10:00 run 1
                b2 finished success
                heard p: 2026-07-01 10:00 run 1 -
                b1 withdrawn p 2026-07-01 10:00, unmet 1
                heard p generated: 2026-07-01 10:00, left out 0
                heard p: 2026-07-01 10:00 run 1 success
                b1 satisfied p 2026-07-01 10:00, unmet 0
            "#]],
        ),
    ] {
        let mut world = two_groups();
        world.worker("w", 1, script);
        let parent = json!({"group": "h", "type": "anchor"});
        let ids = world.define(vec![job("p", parent), job("c", json!({"parents": ["h/p"]}))]);
        let first = run_in_other(&mut world, ids[0], "2026-07-01T10:00:00.000Z");
        world.events();
        let logical_time = at("2026-07-01T10:00:00.000Z");
        world.send(
            OTHER,
            Command::Batch(BatchCommand::Rerun { batch: first, job: ids[0], logical_time, recorded: None }),
        );
        // One command at a time, so that nothing is overtaken by the end of the rerun.
        while world.step(1) {}
        check(&mut world, expected);
    }
}

/// DEP-3: every mapping gives a child the same times whether its parent is in its group or in another.
#[test]
fn mappings_are_the_same_across_groups() {
    let days = [
        ("UTC", "2026-07-02T00:00:00.000Z"),
        ("Europe/Berlin", "2026-03-29T22:00:00.000Z"),
        ("Europe/Berlin", "2026-10-25T23:00:00.000Z"),
    ];
    for mapping in [json!("all"), json!("any"), json!("latest"), json!({"offset": 1}), json!({"offset": 30})]
    {
        for (zone, midnight) in days {
            let mut world = World::with(midnight, GroupSettings::default());
            world.define_group("h", GroupSettings::default());
            world.wall = world.wall.saturating_sub(jiff::SignedDuration::from_mins(30)).unwrap();
            let on = |period: &str| json!({"schedule": {"period": period, "zone": zone}});
            let mut here = on("day");
            here["parents"] = json!([{"job": "p", "mapping": mapping}]);
            let elsewhere = child("there", "g/p", mapping.clone(), on("day"));
            let ids = world.define(vec![job("p", on("hour")), job("here", here), elsewhere]);
            world.pass_minutes(31);
            let events = world.events();
            let [here, there] = [ids[1], ids[2]].map(|id| waits_for(events.clone(), id));
            assert_eq!(here, there, "{mapping} {zone} {midnight}");
            assert!(here.len() == 1 && !here[0].is_empty());
        }
    }
}

/// GEN-9: jobs without a schedule get one batch for each logical time of their parents, through groups and back,
/// however often it is said; a rerun of the parent makes none.
#[test]
fn children_in_other_groups_are_generated_once() {
    let mut world = two_groups();
    let ids = world.define(vec![
        job("p", json!({"type": "anchor", "schedule": every("hour")})),
        child("c", "g/p", json!("same"), json!({})),
        job("d", json!({"type": "anchor", "parents": ["h/c"]})),
    ]);
    world.until("2026-07-01T11:01:00.000Z");
    check(
        &mut world,
        expect![[r#"
        b1 generated p 2026-07-01 11:00 run 0
        b1 finished success
        heard p generated: 2026-07-01 11:00, left out 0
        b1 generated c 2026-07-01 11:00 run 0, of p 0/1
        p watched by 2: 2026-07-01 11:00
        heard c generated: 2026-07-01 11:00, left out 0
        b2 generated d 2026-07-01 11:00 run 0, of c 0/1
        heard p: 2026-07-01 11:00 run 0 success
        c watched by 1: 2026-07-01 11:00
        b1 satisfied p 2026-07-01 11:00, unmet 0
        b1 finished success
        heard c: 2026-07-01 11:00 run 0 -
        p unwatched by 2: 2026-07-01 11:00
        heard c: 2026-07-01 11:00 run 0 success
        b2 satisfied c 2026-07-01 11:00, unmet 0
        b2 finished success
        c unwatched by 1: 2026-07-01 11:00
    "#]],
    );
    world.say_again();
    world.run();
    rerun(&mut world, GROUP, BatchId::mint(1, GROUP), ids[0], "2026-07-01T11:00:00.000Z");
    world.say_again();
    world.run();
    check(
        &mut world,
        expect![[r#"
        b3 generated p 2026-07-01 11:00 run 1
        b3 finished success
        heard p generated: 2026-07-01 11:00, left out 0
    "#]],
    );
    world.until("2026-07-01T12:01:00.000Z");
    let generated = |job: JobId, events: &[Event]| {
        let of = |event: &&Event| matches!(event, Event::Batch(BatchEvent::Generated { job: of, .. }) if *of == job);
        events.iter().filter(of).count()
    };
    let events = world.events();
    assert_eq!([ids[0], ids[1], ids[2]].map(|id| generated(id, &events)), [1, 1, 1]);
    assert!(world.partition == world.folded());
}

/// DEP-3: a parent's success that has left the history long ago is known, time by time.
#[test]
fn a_watch_finds_what_has_left_the_history() {
    let mut world = two_groups();
    let parent = json!({"group": "h", "type": "anchor"});
    let ids = world.define(vec![
        job("p", parent),
        job("c", json!({"schedule": every("hour"), "parents": [{"job": "h/p", "mapping": "same"}]})),
    ]);
    let hour =
        |n: i64| at("2026-06-01T00:00:00.000Z").checked_add(jiff::SignedDuration::from_hours(n)).unwrap();
    for n in (0..60).filter(|n| *n != 3) {
        run_in_other(&mut world, ids[0], &hour(n).to_string());
    }
    let events = world.events();
    assert!(
        events.iter().any(|event| matches!(event, Event::Partition(PartitionEvent::HistoryEvicted { .. })))
    );
    world.batch(ids[1], Some(&hour(2).to_string()));
    world.batch(ids[1], Some(&hour(3).to_string()));
    check(
        &mut world,
        expect![[r#"
            b1 generated c 2026-06-01 02:00 run 1, of p 0/1
            p watched by 1: 2026-06-01 02:00
            heard p: 2026-06-01 02:00 run 0 success
            b1 satisfied p 2026-06-01 02:00, unmet 0
            b2 generated c 2026-06-01 03:00 run 1, of p 0/1
            p watched by 1: 2026-06-01 03:00
            heard p: 2026-06-01 03:00 none -
        "#]],
    );
}

/// Rule 7: a shard that does not answer makes the other no larger than what waits, and hears everything in the
/// end, what was left out as a number.
#[test]
fn what_an_absent_shard_is_not_told_stays_bounded() {
    let mut world = two_groups();
    let ids = world.define(vec![
        job("p", json!({"type": "anchor", "schedule": every("hour")})),
        child("c", "g/p", json!("same"), json!({})),
    ]);
    world.events();
    world.held = Some(Vec::new());
    for _ in 0..1_400 {
        world.pass_minutes(60);
    }
    let of_group = |effect: &&Effect| {
        matches!(
            effect,
            Effect::Send { command: Command::Shard(ShardCommand::Deliver { from: GROUP, .. }), .. }
        )
    };
    assert_eq!(world.held.as_ref().unwrap().iter().filter(of_group).count(), 256);
    world.events();
    let_through(&mut world);
    let events = world.events();
    let heard = events.iter().filter_map(|event| match event {
        Event::Replication(ReplicationEvent::ParentGenerationsReceived { times, left_out, .. }) => {
            Some((times.len(), *left_out))
        }
        _ => None,
    });
    let heard = heard.fold((0, 0), |sum, (times, left_out)| (sum.0 + times, sum.1 + left_out));
    assert_eq!(heard, (1_256, 144));
    let of_child = events
        .iter()
        .filter(|e| matches!(e, Event::Batch(BatchEvent::Generated { job, .. }) if *job == ids[1]));
    assert_eq!(of_child.count(), 1_256);
    assert_eq!(unfinished_of(&world, OTHER), 0, "all of them were answered");
    assert!(world.partition == world.folded());
}

/// Rule 7: watches wait for room, too, and what nobody waits for any more is never asked.
#[test]
fn what_is_not_asked_yet_is_forgotten_when_nobody_waits() {
    let mut world = two_groups();
    let ids = world.define(vec![job("p", hourly()), child("c", "g/p", json!("same"), hourly())]);
    world.held = Some(Vec::new());
    let hour =
        |n: i64| at("2026-06-01T00:00:00.000Z").checked_add(jiff::SignedDuration::from_hours(n)).unwrap();
    for n in 0..300 {
        let batch = run_in_other(&mut world, ids[1], &hour(n).to_string());
        if n >= 280 {
            world.ask(OTHER, Command::Batch(BatchCommand::Kill { batch, reason: String::new() }));
        }
    }
    world.events();
    let_through(&mut world);
    let watched = world.events().into_iter().filter_map(|event| match event {
        Event::Subscription(SubscriptionEvent::ParentTimesSubscribed { times, .. }) => Some(times.len()),
        _ => None,
    });
    assert_eq!(watched.sum::<usize>(), 280);
    assert!(world.partition == world.folded());
}

/// JOB-9: a parent of another group's job cannot be deleted; once the child points elsewhere it can, and what
/// still waits for it does not hold the shards together for longer than it waits.
#[test]
fn a_parent_is_kept_as_long_as_another_group_waits_for_it() {
    let mut world = two_groups();
    let ids = world.define(vec![job("p", json!({})), child("c", "g/p", json!("same"), json!({}))]);
    let batch = run_in_other(&mut world, ids[1], "2026-07-01T10:00:00.000Z");
    let refused = world.ask(
        ShardId::CATALOGUE,
        Command::Job(JobCommand::Delete { job: ids[0], cancel: false, orphan_children: false }),
    );
    expect!["job_in_use: job g/p cannot be deleted: it is a parent of h/c; point them elsewhere first, or delete it with orphan_children, and their batches go on waiting until somebody does"]
        .assert_eq(&crate::kit::rejection(&refused));
    world.define(vec![job("c", json!({"group": "h", "type": "anchor"}))]);
    world.events();
    let deleted = world.ask(
        ShardId::CATALOGUE,
        Command::Job(JobCommand::Delete { job: ids[0], cancel: false, orphan_children: false }),
    );
    assert!(matches!(deleted, Outcome::Answered(_)), "{deleted:?}");
    check(
        &mut world,
        expect![[r#"
        asked 1: unfinished of p
        told 1: 
        job deleted p
        decided 1: done
        job removed p
    "#]],
    );
    expect!["waits for g/p of 2026-07-01T10:00:00.000Z: its group last said that it has no batch yet"]
        .assert_eq(&why(&world, batch).join("\n"));
    world.ask(OTHER, Command::Batch(BatchCommand::Kill { batch, reason: String::new() }));
    check(
        &mut world,
        expect![[r#"
        b1 finished killed by ann
        p unwatched by 2: 2026-07-01 10:00
        p followed by 2: Nothing
    "#]],
    );
    assert!(world.partition == world.folded());
}

/// A changed grid reaches every shard with children of those who take their logical times from it.
#[test]
fn a_changed_grid_is_told_through_groups() {
    let mut world = two_groups();
    world.define(vec![
        job("p", hourly()),
        child("c", "g/p", json!("same"), json!({})),
        job("d", json!({"parents": ["h/c"]})),
    ]);
    world.define(vec![job("p", json!({"schedule": every("day")}))]);
    world.events();
    let outcome = world.apply(vec![job("p", json!({"schedule": every("week")}))]);
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
    check(
        &mut world,
        expect![[r#"
        job defined p v3
        job received p v3, next 2026-07-06 00:02
        parents received h/c
        parents received g/p
    "#]],
    );
    let again = world.apply(vec![job("p", json!({"schedule": every("week"), "comment": "the same grid"}))]);
    assert!(matches!(again, Outcome::Answered(_)), "{again:?}");
    check(
        &mut world,
        expect![[r#"
        job defined p v4
        job received p v4, next 2026-07-06 00:02
    "#]],
    );
}

/// DEP-3: the latest of a parent that runs by hand only is the newest that this group was told of.
#[test]
fn the_latest_of_a_parent_by_hand_is_known_across_groups() {
    let mut world = two_groups();
    let parent = json!({"group": "h", "type": "noop"});
    let ids = world.define(vec![job("p", parent)]);
    run_in_other(&mut world, ids[0], "2026-06-30T10:00:00.000Z");
    let mut fields = hourly();
    fields["parents"] = json!([{"job": "h/p", "mapping": "latest"}]);
    world.define(vec![job("c", fields)]);
    run_in_other(&mut world, ids[0], "2026-06-30T11:00:00.000Z");
    run_in_other(&mut world, ids[0], "2026-07-09T11:00:00.000Z");
    world.events();
    world.until("2026-07-01T11:01:00.000Z");
    check(
        &mut world,
        expect![[r#"
        b1 generated c 2026-07-01 11:00 run 0, of p 0/1
        p watched by 1: 2026-06-30 11:00
        heard p: 2026-06-30 11:00 run 0 -
    "#]],
    );
}

/// A child that came before its parent in one request comes after it in the record.
#[test]
fn parents_come_first_whatever_the_order_of_the_request() {
    let mut world = two_groups();
    world.define(vec![child("c", "g/p", json!("same"), hourly()), job("p", hourly())]);
    let outcome = world.apply(vec![child("e", "g/q", json!("same"), hourly()), job("q", hourly())]);
    assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
    check(
        &mut world,
        expect![[r#"
        job defined q v1
        job defined e v1
        job received q v1, next 2026-07-01 11:01
        parents received g/q
        job received e v1, next 2026-07-01 11:01
        q followed by 2: Standings
    "#]],
    );
}

/// DEP-3, JOB-5: jobs whose edges turn round through one that stays as it is are defined ancestors first, so that a
/// parent in another group is told with the grid it has then, and never with an earlier one.
#[test]
fn edges_that_turn_round_through_an_unchanged_job_are_told_as_they_then_are() {
    let turned = || {
        vec![
            job("a", json!({"type": "anchor", "parents": ["h/u"]})),
            job("w", json!({"type": "anchor", "schedule": every("day")})),
        ]
    };
    let apply = |world: &mut World| {
        world.apply(turned());
    };
    let staged = |world: &mut World| {
        let apply = tidemill_model::RequestId::new("staged");
        world.ask(
            ShardId::CATALOGUE,
            Command::Job(JobCommand::Stage { apply: apply.clone(), part: 0, jobs: turned() }),
        );
        let prune = Vec::new();
        let commit = Command::Job(JobCommand::Commit {
            apply,
            parts: 1,
            prune,
            cancel: false,
            orphan_children: false,
            if_revision: None,
        });
        world.ask(ShardId::CATALOGUE, commit);
    };
    for carry_out in [&apply as &dyn Fn(&mut World), &staged] {
        let mut world = two_groups();
        world.define(vec![
            job("a", json!({"type": "anchor", "schedule": every("hour")})),
            job("w", json!({"type": "anchor", "parents": ["a"]})),
            job("u", json!({"group": "h", "type": "anchor", "parents": ["g/w"]})),
        ]);
        world.events();
        carry_out(&mut world);
        let told = world.events().into_iter().filter_map(|event| match event {
            Event::Replication(ReplicationEvent::ParentsReplicated { parents }) => Some(parents),
            _ => None,
        });
        let told: Vec<String> =
            told.flatten().map(|parent| format!("{}: {:?}", parent.name, parent.schedule)).collect();
        assert!(told.iter().all(|told| told.contains("Day")), "{told:#?}");
        assert!(told.iter().any(|told| told.starts_with("h/u")), "{told:#?}");
        assert_eq!(world.partition, world.folded());
    }
}
