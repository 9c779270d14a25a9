//! Tasks that clients pull: which one a user gets, how it ends, and what the ledger says.

use crate::kit::{GROUP, START, World, at, rejection, user};
use expect_test::expect;
use serde_json::{Value, json};
use tidemill_model::{
    Answer, Command, Event, GrantId, GroupSettings, Outcome, Rejection, ReplicationEvent, RequestId,
    TaskCommand, TaskEvent, TaskId, Template, TemplateSpec,
};

const NINE: &str = "2026-07-01T09:00:00.000Z";

fn once(start: &str) -> Value {
    json!({"once": {"start": start}})
}

fn minutes(n: u32, start: &str) -> Value {
    json!({"every_minutes": {"n": n, "start": start}})
}

fn world(members: &[&str]) -> World {
    let mut world = World::new();
    world.members(members);
    world
}

fn refusal(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Refused(rejection) => format!("{}: {rejection}", rejection.code()),
        other => panic!("{other:?}"),
    }
}

/// PUL-4: of a plain task each user gets one unit, and there are so many units and no more.
#[test]
fn plain_task_is_given_once_to_each_user_until_it_is_used_up() {
    let mut world = world(&["a", "b", "c"]);
    let task = world.task(json!({"dispatch_times": 2}));
    assert_eq!(world.work_off("a"), "g1 of p1 for 01 10:00");
    assert_eq!(world.got("a"), "nothing", "it has had its own");
    assert_eq!(world.got("b"), "g2 of p1 for 01 10:00");
    assert_eq!(world.got("c"), "nothing", "the last one is out");
    assert_eq!(world.counts(task), [2, 1, 1, 0, 0]);
    assert_eq!(world.ledger(task).unwrap().occurrences[0].stock, 0);
}

/// PUL-4: 20 members, 6 units: 6 get it.
#[test]
fn six_units_for_twenty_members_reach_six_of_them() {
    let names: Vec<String> = (0..20).map(|number| format!("u{number}")).collect();
    let mut world = world(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let task = world.task(json!({"dispatch_times": 6}));
    for name in &names {
        world.send(GROUP, Command::Task(TaskCommand::Pull { user: user(name) }));
    }
    world.run();
    assert_eq!(names.iter().filter(|name| world.standing(name).live.is_some()).count(), 6);
    for _ in 0..3 {
        names.iter().for_each(|name| drop(world.work_off(name)));
    }
    assert_eq!(world.counts(task), [6, 0, 6, 0, 0]);
}

/// PUL-4: of a task that is repeated a user goes on getting units until they are used up, before all else that is due.
#[test]
fn repeated_task_goes_on_until_it_is_used_up() {
    let mut world = world(&["a", "b"]);
    world.task(json!({"dispatch_times": 4, "repeat": true, "when": once(NINE)}));
    world.task(json!({"dispatch_times": 9, "when": once("2026-07-01T09:00:00.000Z")}));
    assert_eq!(world.work_off("a"), "g1 of p1 for 01 09:00");
    assert_eq!(world.work_off("a"), "g2 of p1 for 01 09:00");
    assert_eq!(world.got("b"), "g3 of p1 for 01 09:00");
    assert_eq!(world.work_off("a"), "g4 of p1 for 01 09:00");
    assert_eq!(world.work_off("a"), "g5 of p2 for 01 09:00", "of the same start, and not done yet");
    assert_eq!(world.got("a"), "nothing");
}

/// PUL-4: a repeated task comes before an older one of the same start that came later.
#[test]
fn repeated_task_goes_first() {
    let mut world = world(&["a"]);
    let plain = world.task(json!({"when": once("2026-07-01T10:05:00.000Z")}));
    world.task(json!({"dispatch_times": 2, "repeat": true, "when": once(NINE)}));
    assert_eq!(world.work_off("a"), "g1 of p2 for 01 09:00");
    world.change(plain, json!({"when": once(NINE)}));
    assert_eq!(world.work_off("a"), "g2 of p2 for 01 09:00");
    assert_eq!(world.work_off("a"), "g3 of p1 for 01 09:00");
}

/// PUL-5: a user with a live grant gets that one again, as it was given, and nothing is recorded.
#[test]
fn live_grant_is_given_again_as_it_was() {
    let mut world = world(&["a"]);
    let task = world.task(json!({"parameters": {"path": "/a", "share": 0.1}, "name": "copy"}));
    let first = world.granted("a");
    world.change(task, json!({"parameters": {"path": "/b"}}));
    world.ask(GROUP, Command::Task(TaskCommand::Delete { task }));
    world.events();
    world.pass_minutes(5);
    let again = world.granted("a");
    assert!(again.redo && !first.redo);
    assert_eq!(again, tidemill_model::PulledGrant { redo: true, ..first.clone() });
    assert_eq!(first.parameters.0["share"], json!(0.1));
    assert!(world.events().is_empty());
    assert_eq!(
        world.complete("a", first.grant, "ok"),
        Outcome::Answered(Answer::Completed { grant: first.grant })
    );
}

/// PUL-5: a first pull reaches n hours back, a later one to the start of what was completed last, none further than now.
#[test]
fn window_begins_with_what_was_completed_last() {
    let mut world = World::with(START, GroupSettings { pull_window_hours: 2, ..GroupSettings::default() });
    world.members(&["a", "b"]);
    let start = "2026-07-01T08:10:00.000Z";
    world.task(json!({"when": minutes(60, "2026-06-30T23:30:00.000Z"), "dispatch_times": 9}));
    world.task(json!({"when": once(start), "dispatch_times": 9}));
    assert_eq!(world.got("a"), "g1 of p2 for 01 08:10", "exactly two hours back");
    assert_eq!(world.work_off("a"), "g1 of p2 for 01 08:10 again");
    assert_eq!(world.work_off("a"), "g2 of p1 for 01 08:30");
    assert_eq!(world.standing("a").window_from, at("2026-07-01T08:30:00.000Z"));
    world.until("2026-07-01T20:00:00.000Z");
    assert_eq!(world.work_off("a"), "g3 of p1 for 01 09:30", "its window does not move with time");
    assert_eq!(world.work_off("b"), "g4 of p1 for 01 18:30", "a first pull's does");
    assert_eq!(world.work_off("b"), "g5 of p1 for 01 19:30");
    assert_eq!(world.got("b"), "nothing until 01 20:30");
}

/// PUL-5: of the same start the oldest task goes first, and what was done with that start is not given again, though
/// its units are not used up; what comes later with that start is.
#[test]
fn tasks_of_one_start_are_given_once_each() {
    let mut world = world(&["a", "b"]);
    for _ in 0..3 {
        world.task(json!({"dispatch_times": 5, "when": once(NINE)}));
    }
    let got: Vec<String> = (0..4).map(|_| world.work_off("a")).collect();
    assert_eq!(got, ["g1 of p1 for 01 09:00", "g2 of p2 for 01 09:00", "g3 of p3 for 01 09:00", "nothing"]);
    let own = world.task(json!({"executor": {"user": "a"}, "when": once(NINE)}));
    assert_eq!(own.0 >> 12, 4);
    assert_eq!(world.work_off("b"), "g4 of p1 for 01 09:00", "another user's task is not b's");
    assert_eq!(world.work_off("a"), "g5 of p4 for 01 09:00");
    assert_eq!(world.got("a"), "nothing");
}

/// PUL-3, PUL-6: rotating tasks, also of a user alone, in order of their starts; nothing due says when to ask again, as
/// far as the window reaches.
#[test]
fn rotating_tasks_come_in_order() {
    let mut world = world(&["a", "b"]);
    world.task(json!({"when": minutes(20, "2026-07-01T09:30:00.000Z"), "dispatch_times": 9}));
    let daily = json!({"every_days": {"n": 1, "at": "17:55", "zone": "Asia/Shanghai", "start": "2026-06-01T00:00:00.000Z"}});
    world.task(json!({"executor": {"user": "a"}, "when": daily}));
    let got: Vec<String> = (0..4).map(|_| world.work_off("a")).collect();
    assert_eq!(
        got,
        ["g1 of p1 for 01 09:30", "g2 of p1 for 01 09:50", "g3 of p2 for 01 09:55", "g4 of p1 for 01 10:10"]
    );
    assert_eq!(world.got("a"), "nothing until 01 10:30");
    assert_eq!(world.standing("a").next.unwrap().start, at("2026-07-01T10:30:00.000Z"));
    let far = world.task(json!({"when": once("2026-07-01T16:10:01.000Z")}));
    world.ask(GROUP, Command::Task(TaskCommand::Delete { task: TaskId::mint(1, GROUP) }));
    assert_eq!(world.got("b"), "nothing", "six hours and a second is not told of");
    world.until("2026-07-01T10:10:01.000Z");
    assert_eq!(world.got("b"), "nothing until 01 16:10");
    assert_eq!(far.0 >> 12, 3);
}

/// PUL-4: occurrences that are used up are passed over, and one that comes back in their midst is found.
#[test]
fn used_up_occurrences_are_passed_over() {
    let mut world = world(&["a", "b", "c", "d", "e", "f", "h"]);
    let task = world.task(json!({"when": minutes(10, "2026-07-01T09:20:00.000Z")}));
    let held: Vec<GrantId> = ["a", "b", "c", "d", "e"].map(|name| world.granted(name).grant).into();
    assert_eq!(world.standing("e").live.unwrap().start, at("2026-07-01T10:00:00.000Z"));
    world.give_back("c", held[2]);
    world.give_back("a", held[0]);
    assert_eq!(world.got("f"), "g6 of p1 for 01 09:20");
    assert_eq!(world.got("a"), "g7 of p1 for 01 09:40");
    assert_eq!(world.got("c"), "g8 of p1 for 01 10:10");
    assert_eq!(world.got("h"), "nothing until 01 10:20");
    world.change(task, json!({"when": minutes(10, "2026-07-01T09:20:00.000Z"), "dispatch_times": 2}));
    assert_eq!(world.got("h"), "g9 of p1 for 01 09:20", "more units of each");
    world.change(task, json!({"when": minutes(5, "2026-07-01T09:20:00.000Z"), "dispatch_times": 2}));
    for (name, start) in [("b", "01 09:30"), ("d", "01 09:50")] {
        assert!(world.work_off(name).ends_with("again"));
        assert!(!world.got(name).contains(start), "it has done that one");
    }
    assert_eq!(world.counts(task), [11, 7, 2, 2, 0]);
    assert_eq!(world.standing("b").live.unwrap().start, at("2026-07-01T09:35:00.000Z"), "on the other grid");
}

/// PUL-4: what was used up on another grid does not hide what is used up on this one.
#[test]
fn used_up_occurrence_of_an_earlier_grid_hides_nothing() {
    let mut world = world(&["a", "b", "c"]);
    let task = world.task(json!({"when": minutes(60, "2026-07-01T09:53:00.000Z")}));
    assert_eq!(world.work_off("a"), "g1 of p1 for 01 09:53");
    world.change(task, json!({"when": minutes(4, "2026-07-01T09:52:00.000Z")}));
    assert_eq!(world.work_off("a"), "g2 of p1 for 01 09:56");
    assert_eq!(world.work_off("b"), "g3 of p1 for 01 09:52", "one run with what comes next, around 09:53");
    world.task(json!({"executor": {"user": "c"}, "when": once("2026-07-01T09:54:00.000Z")}));
    assert_eq!(world.work_off("c"), "g4 of p2 for 01 09:54");
    assert_eq!(world.got("c"), "g5 of p1 for 01 10:00", "not 09:56 once more");
}

/// PUL-13: a lease that runs out gives the unit back, and what is said of the grant afterwards changes nothing.
#[test]
fn expired_grant_goes_back_to_stock_and_late_completion_is_refused() {
    let mut world = world(&["a", "b"]);
    let task = world.task(json!({"lease_s": 60}));
    let grant = world.granted("a");
    assert_eq!(grant.expires_at, Some(at("2026-07-01T10:11:00.000Z")));
    world.until("2026-07-01T10:10:59.000Z");
    assert_eq!(world.got("b"), "nothing");
    world.events();
    world.until("2026-07-01T10:11:00.000Z");
    expect![[r#"
        g1 of a expired
    "#]]
    .assert_eq(&world.told());
    let late = world.complete("a", grant.grant, "ok");
    expect!["grant_over: grant 4097 has expired: the completion is late or not this user's; nothing changes"]
        .assert_eq(&refusal(&late));
    assert!(world.events().is_empty());
    assert_eq!(world.counts(task), [1, 0, 0, 0, 1]);
    assert_eq!(world.work_off("b"), "g2 of p1 for 01 10:00");
    world.pass_minutes(5);
    assert_eq!(world.counts(task), [2, 0, 1, 0, 1], "a completed one does not expire");
}

/// PUL-13: what a client gives back can be given to anybody, that client too.
#[test]
fn returned_grant_goes_back_to_stock() {
    let mut world = world(&["a", "b"]);
    let task = world.task(json!({"lease_s": 60}));
    let grant = world.granted("a").grant;
    expect!["not_returned: grant 4097 is another user's, so it cannot be returned"]
        .assert_eq(&refusal(&world.give_back("b", grant)));
    assert_eq!(world.give_back("a", grant), Outcome::Done);
    expect!["not_returned: grant 4097 was returned, so it cannot be returned"]
        .assert_eq(&refusal(&world.give_back("a", grant)));
    assert_eq!(world.got("a"), "g2 of p1 for 01 10:00");
    assert!(refusal(&world.complete("a", grant, "ok")).contains("was returned"));
    world.pass_minutes(2);
    assert_eq!(world.counts(task), [2, 0, 0, 1, 1]);
}

/// PUL-7: only the live grant of the user can be completed; the same again is done, anything else is refused.
#[test]
fn completion_is_idempotent_and_of_the_live_grant_alone() {
    let mut world = world(&["a", "b"]);
    world.task(json!({"dispatch_times": 2}));
    world.task(json!({"dispatch_times": 2, "when": once("2026-07-01T10:01:00.000Z")}));
    let first = world.granted("a").grant;
    let done = Outcome::Answered(Answer::Completed { grant: first });
    let other = world.granted("b").grant;
    world.events();
    assert_eq!(world.complete("a", first, "ok"), done);
    assert_eq!(world.events().len(), 1);
    assert_eq!(world.complete("a", first, "ok"), done, "again");
    let table = [
        ("a", first, "else", "already_completed: grant 4097 is already completed with another result"),
        ("b", first, "ok", "grant_over: grant 4097 was completed before"),
        ("a", other, "ok", "grant_over: grant 8193 is another user's"),
        ("a", GrantId::mint(9, GROUP), "ok", "grant_over: grant 36865 was never given here"),
        ("a", GrantId(5), "ok", "grant_over: grant 5 was never given here"),
        ("x", first, "ok", "user_unknown: user x is no member of group g"),
        ("b", other, "", "invalid: result"),
        ("b", other, &"r".repeat(4_097), "invalid: result"),
    ];
    for (name, grant, result, expected) in table {
        let told = refusal(&world.complete(name, grant, result));
        assert!(told.starts_with(expected), "{told}");
    }
    world.granted("a");
    let told = refusal(&world.complete("a", other, "ok"));
    assert!(told.contains("another user's"), "{told}");
    assert_eq!(world.complete("a", first, "ok"), done, "the last completed one, while another one is live");
    assert_eq!(world.events().len(), 1, "that other grant alone");
}

/// PUL-8: what comes of a pull is the state's answer, not a stored one: the same request asked again, in one envelope
/// or later, is decided again.
#[test]
fn pulls_and_completions_are_not_kept() {
    let mut world = world(&["a"]);
    world.task(json!({"dispatch_times": 9}));
    let same = || RequestId::new("r");
    let pull = |name: &str| Command::Task(TaskCommand::Pull { user: user(name) });
    let told = |outcome: Outcome| match outcome {
        Outcome::Answered(Answer::Pulled(pulled)) => (pulled.grant, pulled.redo),
        other => panic!("{other:?}"),
    };
    assert!(refusal(&world.ask_as(GROUP, pull("b"), same())).starts_with("user_unknown"));
    world.members(&["b"]);
    let (grant, redo) = told(world.ask_as(GROUP, pull("b"), same()));
    assert!(!redo);
    assert_eq!(told(world.ask_as(GROUP, pull("b"), same())), (grant, true));
    assert!(world.partition.answer_to(&same()).is_none());
    let complete =
        || Command::Task(TaskCommand::Complete { user: user("b"), grant, result: "ok".to_owned() });
    for _ in 0..2 {
        let completed = world.ask_as(GROUP, complete(), RequestId::new("c"));
        assert_eq!(completed, Outcome::Answered(Answer::Completed { grant }));
    }
    let deleted = world.ask_as(
        GROUP,
        Command::Task(TaskCommand::Delete { task: TaskId::mint(1, GROUP) }),
        RequestId::new("d"),
    );
    assert_eq!(deleted, Outcome::Done);
    assert_eq!(world.partition.answer_to(&RequestId::new("d")), Some(&Outcome::Done), "others are kept");
}

/// PUL-11: a change holds for what is given from then on; it cannot take back what was given.
#[test]
fn change_holds_for_what_is_given_next() {
    let mut world = world(&["a", "b", "c"]);
    let task = world.task(json!({"dispatch_times": 3, "when": once(NINE)}));
    world.work_off("a");
    world.granted("b");
    expect![
        "invalid: dispatch_times: \"1\": must be at least 2: so often an occurrence has been given already"
    ]
    .assert_eq(&refusal(&world.change(task, json!({"dispatch_times": 1, "when": once(NINE)}))));
    expect!["invalid: executor: \"user a\": cannot be changed; delete the task and create another one"]
        .assert_eq(&refusal(&world.change(task, json!({"executor": {"user": "a"}, "dispatch_times": 3}))));
    let changed = world.change(task, json!({"dispatch_times": 2, "when": once(NINE)}));
    assert_eq!(changed, Outcome::Answered(Answer::Task { task, version: 2 }));
    assert_eq!(world.got("c"), "nothing");
    let later = json!({"dispatch_times": 2, "when": once("2026-07-01T09:30:00.000Z")});
    world.change(task, later.clone());
    assert_eq!(world.got("c"), "g3 of p1 for 01 09:30", "another occurrence with units of its own");
    world.events();
    let same = world.change(task, later);
    assert_eq!(same, Outcome::Answered(Answer::Task { task, version: 3 }));
    assert!(world.events().is_empty(), "the same is no change");
    assert_eq!(world.work_off("a"), "g4 of p1 for 01 09:30");
}

/// PUL-2: a deleted task is given to nobody; who has it can complete it.
#[test]
fn deleted_task_is_not_given_and_live_grants_of_it_are_completed() {
    let mut world = world(&["a", "b"]);
    let task = world.task(json!({"when": minutes(10, NINE), "dispatch_times": 9}));
    let grant = world.granted("a").grant;
    assert_eq!(world.ask(GROUP, Command::Task(TaskCommand::Delete { task })), Outcome::Done);
    assert_eq!(world.got("b"), "nothing");
    world.complete("a", grant, "ok");
    assert_eq!(world.got("a"), "nothing");
    assert_eq!(world.counts(task), [1, 0, 1, 0, 0]);
    let told = refusal(&world.ask(GROUP, Command::Task(TaskCommand::Delete { task })));
    assert_eq!(told, format!("task_deleted: task {task} is deleted"));
    assert!(refusal(&world.change(task, json!({}))).starts_with("task_deleted"));
    let told = refusal(&world.ask(GROUP, Command::Task(TaskCommand::Delete { task: TaskId(7) })));
    assert_eq!(told, "unknown: there is no task 7");
}

/// PUL-10: bounds of tasks for each executor, with a clear refusal; a deleted one makes room.
#[test]
fn tasks_of_an_executor_are_bounded() {
    let mut world = World::with(START, GroupSettings { pull_rotating_limit: 2, ..GroupSettings::default() });
    world.members(&["a", "b"]);
    let rotating = |executor: Value| json!({"executor": executor, "when": minutes(5, NINE)});
    for executor in [json!({"group": "g"}), json!({"user": "a"}), json!({"user": "b"})] {
        let first = world.task(rotating(executor.clone()));
        world.task(rotating(executor.clone()));
        let create =
            Command::Task(TaskCommand::Create { spec: crate::kit::spec(rotating(executor.clone())) });
        let told = refusal(&world.ask(GROUP, create));
        assert!(told.starts_with("limit_reached: the number of rotating tasks of "), "{told}");
        assert!(told.ends_with(" is at its limit of 2"), "{told}");
        let own = world.task(json!({"executor": executor}));
        let to_rotating = world.change(own, rotating(executor.clone()));
        assert!(refusal(&to_rotating).starts_with("limit_reached"));
        world.ask(GROUP, Command::Task(TaskCommand::Delete { task: first }));
        world.task(rotating(executor));
    }
    for _ in 1..1_000 {
        world.send(
            GROUP,
            Command::Task(TaskCommand::Create { spec: crate::kit::spec(json!({"executor": {"user": "a"}})) }),
        );
    }
    world.run();
    let create =
        Command::Task(TaskCommand::Create { spec: crate::kit::spec(json!({"executor": {"user": "a"}})) });
    expect!["limit_reached: the number of tasks for once of user a is at its limit of 1000"]
        .assert_eq(&refusal(&world.ask(GROUP, create)));
}

/// PUL-1, PUL-2, PUL-3, PUL-4: everything that is wrong with a task is named, in one answer, and nothing changes.
#[test]
fn bad_tasks_are_refused_with_every_fault() {
    let mut world = world(&["a"]);
    let template =
        json!({"name": "copy", "fields": {"path": {"type": "string"}, "size": {"type": "number"}}});
    let spec = TemplateSpec::from_value(template).unwrap();
    world.fact(Event::Replication(ReplicationEvent::TemplateReplicated {
        template: std::sync::Arc::new(Template { version: 1, spec }),
    }));
    let table: [(Value, &[&str]); 12] = [
        (
            json!({"template": "copy", "parameters": {"size": "big", "way": 1}, "dispatch_times": 0}),
            &["dispatch_times", "parameters.path", "parameters.size", "parameters.way"],
        ),
        (json!({"template": "none"}), &["template"]),
        (json!({"parameters": {"x": "y".repeat(16_384)}}), &["parameters"]),
        (json!({"dispatch_times": 1_000_001}), &["dispatch_times"]),
        (json!({"lease_s": 4}), &["lease_s"]),
        (json!({"lease_s": 604_801}), &["lease_s"]),
        (json!({"name": ""}), &["name"]),
        (json!({"executor": {"user": "x"}}), &["executor.user"]),
        (json!({"executor": {"group": "h"}}), &["executor.group"]),
        (json!({"when": once("2026-07-01T04:09:59.000Z")}), &["when.once.start"]),
        (json!({"when": minutes(0, NINE)}), &["when.every_minutes.n"]),
        (
            json!({"when": {"every_days": {"n": 1, "at": "07:00", "zone": "Mars/Olympus", "start": NINE}}}),
            &["when.every_days.zone"],
        ),
    ];
    world.events();
    for (more, fields) in table {
        match world.ask(GROUP, Command::Task(TaskCommand::Create { spec: crate::kit::spec(more.clone()) })) {
            Outcome::Refused(Rejection::Invalid { fields: faults }) => {
                let named: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
                assert_eq!(named, fields, "{more}");
                assert!(faults.iter().all(|fault| !fault.rule.is_empty()));
            }
            other => panic!("{more}: {}", rejection(&other)),
        }
    }
    assert!(world.events().is_empty());
    world.task(json!({"template": "copy", "parameters": {"path": "/a", "size": 1}, "when": once("2026-07-01T04:10:00.000Z")}));
}

/// PUL-14: what is older than the retention is forgotten, a bounded number at a time and at most once an hour, but not
/// what somebody has; nothing of it is given again.
#[test]
fn old_tasks_and_grants_are_forgotten() {
    let mut world = World::with(START, GroupSettings { pull_retention_days: 1, ..GroupSettings::default() });
    world.members(&["a", "b", "c"]);
    let rotating = world.task(json!({"when": minutes(600, "2026-07-01T10:00:00.000Z"), "dispatch_times": 2}));
    world.work_off("a");
    let held = world.granted("b").grant;
    let many: Vec<TaskId> =
        (0..700).map(|_| world.task(json!({"when": once("2026-07-01T10:05:00.000Z")}))).collect();
    world.events();
    world.until("2026-07-02T10:05:00.000Z");
    assert!(world.ledger(many[0]).is_some());
    world.until("2026-07-02T10:20:00.000Z");
    let purged: Vec<usize> = world
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Task(TaskEvent::Purged { tasks, .. }) => Some(tasks.len()),
            _ => None,
        })
        .collect();
    assert_eq!(purged, [500, 200]);
    assert!(many.iter().all(|task| world.ledger(*task).is_none()));
    assert_eq!(world.counts(rotating), [2, 1, 1, 0, 0]);
    assert_eq!(world.ledger(rotating).unwrap().occurrences.len(), 1, "b has it");
    world.complete("b", held, "late, but nobody else has it");
    world.until("2026-07-02T11:19:00.000Z");
    assert_eq!(world.ledger(rotating).unwrap().occurrences.len(), 1, "not within the hour");
    world.until("2026-07-02T11:21:00.000Z");
    let ledger = world.ledger(rotating).unwrap();
    assert!(ledger.occurrences.is_empty());
    assert_eq!((ledger.totals.taken, ledger.totals.completed), (2, 2), "the totals stay");
    assert_eq!(world.got("a"), "g3 of p1 for 01 20:00", "what is forgotten is not given again");
    assert_eq!(world.standing("b").window_from, at("2026-07-01T11:21:00.000Z"));
    world.ask(GROUP, Command::Task(TaskCommand::Delete { task: rotating }));
    world.until("2026-07-05T11:21:00.000Z");
    assert!(world.ledger(rotating).is_some(), "a has a grant of it");
    let live = world.standing("a").live.unwrap().grant;
    world.complete("a", live, "ok");
    world.until("2026-07-05T13:00:00.000Z");
    assert!(world.ledger(rotating).is_none());
    assert_eq!(world.partition, world.folded());
}

/// PUL-14: what was forgotten is not given again, though it would be kept by a longer retention that came later.
#[test]
fn longer_retention_brings_nothing_back() {
    let day = |days| GroupSettings { pull_retention_days: days, ..GroupSettings::default() };
    let mut world = World::with(START, day(1));
    world.members(&["a"]);
    world.task(json!({"when": minutes(600, "2026-07-01T10:00:00.000Z")}));
    let own = world.task(json!({"executor": {"user": "a"}, "when": once(NINE)}));
    assert_eq!(world.work_off("a"), format!("g1 of p{} for 01 09:00", own.0 >> 12));
    world.until("2026-07-03T10:10:00.000Z");
    world.define_group("g", day(30));
    assert_eq!(world.standing("a").window_from, at("2026-07-02T10:10:00.000Z"));
    assert_eq!(world.got("a"), "g2 of p1 for 02 16:00", "09:00 of the first is where its window would begin");
}

/// PUL-5: whoever is no member gets nothing, and hears what to do.
#[test]
fn user_of_no_group_is_refused() {
    let mut world = world(&["a"]);
    world.task(json!({}));
    expect![
        "user x is no member of group g; assign the user to a group first, or try again if it is being moved"
    ]
    .assert_eq(&world.got("x"));
}
