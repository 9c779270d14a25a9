//! BYD-20: small values that a batch passes to its children.

use std::collections::BTreeMap;

use crate::kit::{GROUP, Script, TestWorker, World, at, group, job, rejection, sign};
use expect_test::expect;
use serde_json::json;
use tidemill_model::{
    AttemptOutcome, AttemptResult, BatchCommand, BatchEvent, BatchId, Command, Event, GroupSettings, JobId,
    OverriddenResult, Registration, ShardId, WorkMessage, WorkerCommand, WorkerId,
};

const OTHER: ShardId = ShardId(2);
const TEN: &str = "2026-07-01T10:00:00.000Z";

/// A parent and a child that names two values of it; a worker that the test speaks for.
fn pair(more: serde_json::Value) -> (World, WorkerId, Vec<JobId>) {
    let mut world = World::new();
    let mut child = json!({
        "parents": ["p"], "type": "shell", "command": "load",
        "arguments": ["${values.p.rows}", "${values.g/p.day}", "${param.of}"],
        "parameters": {"of": "${values.p.day}"},
    });
    child.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let ids = world.define(vec![job("p", json!({"type": "shell", "command": "x"})), job("c", child)]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], Some(TEN));
    world.events();
    (world, worker, ids)
}

/// The attempt at hand is granted and ends, and passes these values on.
fn ends(world: &mut World, worker: &WorkerId, result: AttemptResult, values: &[(&str, &str)]) {
    let token = world.played(worker).last_token();
    let request = world.played(worker).request(token);
    world.say(request);
    let values: BTreeMap<_, _> =
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let outcome = AttemptOutcome { values, ..AttemptOutcome::bare(result) };
    world.say(Command::Worker(WorkerCommand::ReportFinished {
        token,
        worker: worker.clone(),
        outcome,
        usage: None,
        interrupted: false,
        external: None,
    }));
}

/// A child's templates name what the newest run of its parent passed on, by name or group and name.
#[test]
fn templates_of_children_have_their_parents_values() {
    let (mut world, worker, _) = pair(json!({}));
    ends(&mut world, &worker, AttemptResult::Success, &[("rows", "7 $x"), ("day", "monday")]);
    assert_eq!(world.granted_command(&worker).as_deref(), Some("load 7 $x monday monday"));
    assert!(world.folded() == world.partition);
}

/// The newest run counts, and what was granted stays as it was given, also when the worker asks again.
#[test]
fn newest_run_counts_and_a_grant_keeps_what_it_was_given() {
    let (mut world, worker, ids) = pair(json!({}));
    let parent = BatchId::mint(1, GROUP);
    ends(&mut world, &worker, AttemptResult::Success, &[("rows", "7"), ("day", "monday")]);
    world.rerun(parent, ids[0], TEN);
    ends(&mut world, &worker, AttemptResult::Success, &[("rows", "8"), ("day", "friday")]);
    assert_eq!(world.granted_command(&worker).as_deref(), Some("load 8 friday friday"));
    world.rerun(parent, ids[0], TEN);
    world.played(&worker).heard.retain(|message| matches!(message, WorkMessage::Assigned { .. }));
    assert_eq!(world.granted_command(&worker).as_deref(), Some("load 8 friday friday"));
    assert!(world.folded() == world.partition);
}

/// DEP-3: values go to children in other groups with how the parent stands, those of its newest run.
#[test]
fn values_go_to_other_groups() {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    let ids = world.define(vec![
        job("p", json!({"group": "h", "type": "shell", "command": "x"})),
        job("c", json!({"parents": ["h/p"], "type": "shell", "command": "load", "arguments": ["${values.h/p.rows}"]})),
    ]);
    let worker = world.worker("w", 1, Script::Silent);
    let other = TestWorker::new("v", 1, Script::Silent);
    let text = Registration::signed_text(&group("h"), &other.id, &other.incarnation);
    let registration = Registration { group: group("h"), signature: sign(&text), ..other.registration() };
    world.send(OTHER, Command::Worker(WorkerCommand::Register(Box::new(registration))));
    let parameters = BTreeMap::new();
    world.send(
        OTHER,
        Command::Batch(BatchCommand::RunJob {
            job: ids[0],
            logical_time: Some(at(TEN)),
            parameters,
            concurrent: true,
        }),
    );
    world.run();
    world.events();
    for rows in ["7", "8"] {
        let token = world.work().into_iter().find_map(|message| match message {
            WorkMessage::Assigned { token, .. } => Some(token),
            _ => None,
        });
        let token = token.unwrap();
        world.send(OTHER, other.request(token));
        let values = [("rows".to_owned(), rows.to_owned())].into();
        let outcome = AttemptOutcome { values, ..AttemptOutcome::success() };
        world.send(
            OTHER,
            Command::Worker(WorkerCommand::ReportFinished {
                token,
                worker: other.id.clone(),
                outcome,
                usage: None,
                interrupted: false,
                external: None,
            }),
        );
        world.run();
        if rows == "7" {
            let batch = BatchId::mint(1, OTHER);
            world.send(
                OTHER,
                Command::Batch(BatchCommand::Rerun {
                    batch,
                    job: ids[0],
                    logical_time: at(TEN),
                    recorded: None,
                }),
            );
            world.run();
        }
    }
    assert_eq!(world.granted_command(&worker).as_deref(), Some("load 8"));
    expect![[r#"
        b1 granted t1
        b1 attempt 1 Success
        b1 finished success
        heard p: 2026-07-01 10:00 run 0 success {"rows": "7"}
        b1 satisfied p 2026-07-01 10:00, unmet 0
        b1 assigned t1 attempt 1 to w
        b2 generated p 2026-07-01 10:00 run 1
        b2 assigned t2 attempt 1 to v
        heard p: 2026-07-01 10:00 run 1 -
        heard p generated: 2026-07-01 10:00, left out 0
        b1 withdrawn p 2026-07-01 10:00, unmet 1
        b1 returned t1: Rejected("a dependency was withdrawn")
        b2 granted t2
        b2 attempt 1 Success
        b2 finished success
        heard p: 2026-07-01 10:00 run 1 success {"rows": "8"}
        b1 satisfied p 2026-07-01 10:00, unmet 0
        b1 assigned t2 attempt 1 to w
        b1 granted t2
    "#]]
    .assert_eq(&world.told());
    assert!(world.folded() == world.partition);
}

/// What a worker is told of values stays within a message, however often a template names them.
#[test]
fn values_named_too_often_fail_the_batch() {
    let arguments = ["${values.p.rows}".repeat(80)];
    let (mut world, worker, _) = pair(json!({"arguments": arguments, "parameters": {}}));
    ends(&mut world, &worker, AttemptResult::Success, &[("rows", &"x".repeat(8000))]);
    world.events();
    assert_eq!(world.granted_command(&worker), None);
    expect![[r#"
        failed: template: '${values.p.rows}' at character 1041: makes the text longer than 524284 bytes; make it shorter
    "#]]
    .assert_eq(&ends_told(&mut world));
}

/// A value that is not there at start fails the batch, and says which.
#[test]
fn missing_value_fails_the_batch_at_start() {
    let (mut world, worker, _) = pair(json!({}));
    ends(&mut world, &worker, AttemptResult::Success, &[("rows", "7")]);
    world.events();
    assert_eq!(world.granted_command(&worker), None);
    expect![[r#"
        failed: ${values.g/p.day}: batch 4097 of g/p passed no value day on
    "#]]
    .assert_eq(&ends_told(&mut world));
}

/// How batches ended since the events were last read, and why.
fn ends_told(world: &mut World) -> String {
    let ends = world.events().into_iter().filter_map(|event| match event {
        Event::Batch(BatchEvent::Finished { result, message, .. }) => {
            Some(format!("{}: {message}\n", result.as_str()))
        }
        _ => None,
    });
    ends.collect()
}

/// What a failed attempt passed on is there for those who run because of it; a worker that passes on too much
/// passes on nothing.
#[test]
fn failed_parents_pass_values_on_and_too_much_is_left_out() {
    let (mut world, worker, _) = pair(
        json!({"run_if": "failure", "command": "tell", "arguments": ["${values.p.why}"], "parameters": {}}),
    );
    ends(&mut world, &worker, AttemptResult::Failed, &[("why", "no source")]);
    assert_eq!(world.granted_command(&worker).as_deref(), Some("tell no source"));
    let (mut world, worker, _) = pair(json!({}));
    let long = "x".repeat(8192);
    ends(&mut world, &worker, AttemptResult::Success, &[("rows", &long), ("day", "")]);
    assert_eq!(world.granted_command(&worker), None);
    assert!(world.largest < 4096, "{}", world.largest);
    assert_eq!(world.unfinished(), 0);
    assert!(world.why(BatchId::mint(2, GROUP)).is_empty());
}

/// A parameter given by hand stands in the place of the job's, so that a value which is missing is not asked for; it may
/// name one itself.
#[test]
fn a_parameter_by_hand_stands_in_for_a_missing_value() {
    let jobs = || {
        let child = json!({
            "parents": ["p"], "type": "shell", "command": "load", "arguments": ["${param.rows}"],
            "parameters": {"rows": "${values.p.rows}"},
        });
        let mut world = World::new();
        let ids = world.define(vec![job("p", json!({"type": "shell", "command": "x"})), job("c", child)]);
        let worker = world.worker("w", 1, Script::Silent);
        // It has no parent's batch to wait for.
        world.batch(ids[0], Some(TEN));
        ends(&mut world, &worker, AttemptResult::Success, &[("rows", "7")]);
        assert_eq!(world.granted_command(&worker).as_deref(), Some("load 7"));
        let token = world.played(&worker).last_token();
        let end = world.played(&worker).finished(token, AttemptResult::Success);
        world.say(end);
        world.rerun(BatchId::mint(1, GROUP), ids[0], TEN);
        ends(&mut world, &worker, AttemptResult::Success, &[("days", "3")]);
        world.events();
        (world, worker, ids)
    };
    let by_hand = |rows: Option<&str>| {
        let (mut world, worker, ids) = jobs();
        let parameters = rows.map(|rows| ("rows".to_owned(), rows.to_owned())).into_iter().collect();
        let (job, logical_time) = (ids[1], Some(at(TEN)));
        world.ask(
            GROUP,
            Command::Batch(BatchCommand::RunJob { job, logical_time, parameters, concurrent: true }),
        );
        let text = world.granted_command(&worker);
        assert!(world.folded() == world.partition);
        text.unwrap_or_else(|| ends_told(&mut world))
    };
    let missing = by_hand(None);
    assert!(missing.starts_with("failed: ${values.p.rows}: batch"), "{missing}");
    assert_eq!(by_hand(Some("9")), "load 9");
    assert_eq!(by_hand(Some("${values.p.days}")), "load 3");
    assert_eq!(
        by_hand(Some("${values.q.days}")),
        "failed: ${values.q.days}: the batch waits for no parent g/q\n"
    );
}

/// JOB-8, EXE-4: the output path and the final command have the values that the last attempt was given, also where the
/// parent has run again meanwhile; what a final command would pass on counts for nothing.
#[test]
fn final_commands_and_output_paths_have_the_values_of_the_last_attempt() {
    let mut world = World::new();
    let child = json!({
        "parents": ["p"], "type": "shell", "command": "load", "success_check": {"output_path": "/out/${values.p.day}"},
        "final_command": "tell", "parameters": {"of": "${values.p.day}", "rows": "${values.p.rows}"},
    });
    let last = json!({"parents": ["c"], "type": "shell", "command": "last", "arguments": ["${values.c.n}"]});
    let of_parent = json!({"type": "shell", "command": "x"});
    let ids = world.define(vec![job("p", of_parent), job("c", child), job("l", last)]);
    let worker = world.worker("w", 1, Script::Silent);
    world.batch(ids[0], Some(TEN));
    ends(&mut world, &worker, AttemptResult::Success, &[("rows", "7"), ("day", "monday")]);
    assert_eq!(world.granted_command(&worker).as_deref(), Some("load"));
    let path = world.played(&worker).heard.iter().rev().find_map(|message| match message {
        WorkMessage::Granted { spec, .. } => spec.output_path.clone(),
        _ => None,
    });
    assert_eq!(path.as_deref(), Some("/out/monday"));
    world.rerun(BatchId::mint(1, GROUP), ids[0], TEN);
    let token = world.played(&worker).last_token();
    let passing = |n: &str, token, worker: &WorkerId| {
        let values = [("n".to_owned(), n.to_owned())].into();
        let outcome = AttemptOutcome { values, ..AttemptOutcome::success() };
        Command::Worker(WorkerCommand::ReportFinished {
            token,
            worker: worker.clone(),
            outcome,
            usage: None,
            interrupted: false,
            external: None,
        })
    };
    world.say(passing("1", token, &worker));
    assert_eq!(world.granted_command(&worker).as_deref(), Some("tell"));
    let parameters = world.played(&worker).heard.iter().rev().find_map(|message| match message {
        WorkMessage::Granted { spec, .. } => Some(spec.parameters.clone()),
        _ => None,
    });
    let given = [("of", "monday"), ("rows", "7")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(parameters, Some(given.into()));
    let token = world.played(&worker).last_token();
    world.say(passing("2", token, &worker));
    assert_eq!(world.granted_command(&worker).as_deref(), Some("last 1"));
    assert!(world.folded() == world.partition);
}

/// BYD-16, BYD-18: a parent marked by hand passes on what its newest attempt did, if it had one; a child that runs
/// although its parent failed fails at its start where it names what was never passed on.
#[test]
fn values_of_parents_that_were_marked_or_failed() {
    let marked = |had: Option<&[(&str, &str)]>| {
        let (mut world, worker, ids) = pair(json!({"arguments": ["${values.p.rows}"], "parameters": {}}));
        let batch = BatchId::mint(1, GROUP);
        if let Some(values) = had {
            ends(&mut world, &worker, AttemptResult::Failed, values);
        }
        let (job, logical_time, result) = (ids[0], at(TEN), OverriddenResult::Success);
        let reason = "as seen".to_owned();
        world.ask(
            GROUP,
            Command::Batch(BatchCommand::OverrideResult {
                batch,
                job,
                logical_time,
                result,
                reason,
                run: None,
            }),
        );
        world.events();
        world.granted_command(&worker).unwrap_or_else(|| ends_told(&mut world))
    };
    assert_eq!(marked(Some(&[("rows", "7")])), "load 7");
    let without = "failed: ${values.p.rows}: batch 4097 of g/p passed no value rows on\n";
    assert_eq!(marked(Some(&[])), without);
    assert_eq!(marked(None), without);
    let (mut world, worker, _) = pair(json!({"on_parent_failure": "run"}));
    ends(&mut world, &worker, AttemptResult::Failed, &[("rows", "7")]);
    world.events();
    assert_eq!(world.granted_command(&worker), None);
    assert_eq!(
        ends_told(&mut world),
        "failed: ${values.g/p.day}: batch 4097 of g/p passed no value day on\n"
    );
}

/// A name that is no parent's, and what is no name of a value, are refused when the job is applied.
#[test]
fn values_of_no_parent_are_refused() {
    let refused = |more: serde_json::Value| {
        let mut fields = json!({"type": "shell", "parents": ["p"]});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let jobs = vec![job("p", json!({})), job("q", json!({})), job("a", fields)];
        rejection(&World::new().apply(jobs)) + "\n"
    };
    let told = [
        refused(json!({"command": "x", "arguments": ["${values.q.rows}"]})),
        refused(json!({"command": "x", "arguments": ["${values.h/p.rows}"]})),
        refused(json!({"command": "load ${values.p.rows}"})),
        refused(json!({"command": "x", "final_command": "load ${values.p.rows}"})),
        refused(json!({"command": "${values.p.a.b c}"})),
        refused(json!({"command": "${values.rows}"})),
        refused(json!({"command": "x", "parameters": {"a": "${values.nobody.rows}"}})),
        refused(json!({"program": "${values.q.rows}"})),
        refused(json!({"command": "x", "success_check": {"output_path": "/out/${values.q.day}"}})),
        refused(json!({"command": "x", "inputs": ["/data/${values.p.day}"]})),
    ]
    .concat();
    expect![[r#"
        invalid: jobs[2].arguments: "values.q.rows": names no parent of the job; add it to parents
        invalid: jobs[2].arguments: "values.h/p.rows": names no parent of the job; add it to parents
        invalid: jobs[2].command: "${values.p.rows}": would become a part of the script, which runs it; make it a parameter, as `parameters: {rows: '${values.p.rows}'}`, and read the environment variable TIDEMILL_PARAM_ROWS there (in a shell: "$TIDEMILL_PARAM_ROWS"), or pass it in arguments
        invalid: jobs[2].final_command: "${values.p.rows}": would become a part of the script, which runs it; make it a parameter, as `parameters: {rows: '${values.p.rows}'}`, and read the environment variable TIDEMILL_PARAM_ROWS there (in a shell: "$TIDEMILL_PARAM_ROWS"), or pass it in arguments
        invalid: jobs[2].command: "${values.p.a.b c}": template: '${values.p.a.b c}' at character 1: a parent's value is values.PARENT.KEY, where KEY has letters, digits, '_' and '-'
        invalid: jobs[2].command: "${values.rows}": template: '${values.rows}' at character 1: a parent's value is values.PARENT.KEY, where KEY has letters, digits, '_' and '-'
        invalid: jobs[2].parameters.a: "values.nobody.rows": names no parent of the job; add it to parents
        invalid: jobs[2].program: "values.q.rows": names no parent of the job; add it to parents
        invalid: jobs[2].success_check: "values.q.day": names no parent of the job; add it to parents
        invalid: jobs[2].inputs[0]: "/data/${values.p.day}": cannot hold values of parents: paths are resolved when the batch is generated
    "#]].assert_eq(&told);
}
