//! JOB-9: a renamed job is the same job.

use crate::kit::{Script, World, at, job, rejection};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tidemill_model::{
    Answer, AttemptOutcome, BatchCommand, BatchEvent, Command, Event, GroupSettings, JobCommand, JobId,
    JobSpec, LiveAnswer, LiveQuery, Outcome, ReplicationEvent, ShardId, WorkMessage, WorkerCommand,
};

const TEN: &str = "2026-07-01T10:00:00.000Z";

fn rename(world: &mut World, job: JobId, name: &str) -> Outcome {
    let name = name.try_into().unwrap();
    world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Rename { job, name }))
}

fn refused(world: &mut World, jobs: Vec<JobSpec>, expected: Expect) {
    let before = world.partition.catalogue().cloned();
    expected.assert_eq(&rejection(&world.apply(jobs)));
    assert_eq!(before.as_ref(), world.partition.catalogue(), "a refused apply changes nothing");
}

fn changes(outcome: &Outcome) -> Vec<String> {
    let Outcome::Answered(Answer::Applied { changes, .. }) = outcome else {
        panic!("{}", rejection(outcome))
    };
    changes
        .iter()
        .map(|change| format!("{:?} {} {}", change.change, change.name, change.fields.join(",")))
        .collect()
}

/// The run and the job of every batch that was generated.
fn generated(world: &mut World) -> Vec<(JobId, u32)> {
    let events = world.events();
    let run = |event: &Event| match event {
        Event::Batch(BatchEvent::Generated { job, run, .. }) => Some((*job, *run)),
        _ => None,
    };
    events.iter().filter_map(run).collect()
}

/// JOB-9: the id stays, and with it the run numbers; the old name is free, and its next owner is another job.
#[test]
fn renamed_job_keeps_its_id_and_run_numbers_and_frees_its_name() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    let first = world.batch(ids[0], Some(TEN));
    world.kill(first);
    assert_eq!(rename(&mut world, ids[0], "b"), Outcome::Answered(Answer::Done));
    generated(&mut world);
    world.batch(ids[0], Some(TEN));
    assert_eq!(generated(&mut world), [(ids[0], 1)], "the second run of that time");
    let again = world.define(vec![job("a", json!({})), job("b", json!({}))]);
    assert_ne!(again[0], ids[0]);
    assert_eq!(again[1], ids[0]);
    assert!(world.folded() == world.partition);
}

/// JOB-9: a name that another job has is refused, whoever it is, and the job's own changes nothing.
#[test]
fn rename_is_refused_where_the_name_is_taken() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("b", json!({}))]);
    expect![[r#"invalid: name: "b": is the name of another job of group g; names are unique in a group"#]]
        .assert_eq(&rejection(&rename(&mut world, ids[0], "b")));
    world.events();
    assert_eq!(rename(&mut world, ids[0], "a"), Outcome::Answered(Answer::Done));
    assert!(world.told().is_empty());
    expect!["unknown: there is no job 4095"].assert_eq(&rejection(&rename(&mut world, JobId(4095), "x")));
}

/// JOB-9: `previous_name` renames, is shown as a change of the name, and has no effect afterwards.
#[test]
fn previous_name_in_a_file_renames_once() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("c", json!({"parents": ["a"]}))]);
    let files = || vec![job("b", json!({"previous_name": "a"})), job("c", json!({"parents": ["b"]}))];
    let plan = world.partition.answer(
        ShardId::CATALOGUE,
        &LiveQuery::PlanApply {
            jobs: files(),
            prune: vec!["g".try_into().unwrap()],
            by: None,
            orphan_children: false,
        },
    );
    let LiveAnswer::Planned(plan) = plan else { panic!("{plan:?}") };
    let diff = &plan.changes[0].diff[0];
    assert_eq!((diff.field.as_str(), diff.old.as_str(), diff.new.as_str()), ("name", "a", "b"));
    let first = world.apply_pruning(files(), &["g"]);
    assert_eq!(changes(&first), ["Changed g/b name", "Unchanged g/c "], "and nothing is deleted");
    assert_eq!(changes(&world.apply(files())), ["Unchanged g/b ", "Unchanged g/c "]);
    assert_eq!(world.define(files()), ids);
    assert!(world.folded() == world.partition);
}

/// JOB-9: what cannot be a rename is refused by name.
#[test]
fn previous_name_is_refused_where_it_means_no_job_or_two() {
    let renamed = |name: &str, previous: &str| job(name, json!({"previous_name": previous}));
    let mut world = World::new();
    world.define(vec![job("a", json!({})), job("b", json!({}))]);
    let table: [(Vec<JobSpec>, Expect); 6] = [
        (
            vec![renamed("x", "nobody")],
            expect![[
                r#"invalid: jobs[0].previous_name: "nobody": group g has neither a job of that name nor a job x; leave previous_name out to define a new job"#
            ]],
        ),
        (
            vec![renamed("b", "a")],
            expect![[
                r#"invalid: jobs[0].previous_name: "a": group g has a job b already besides a; leave previous_name out, or delete one of them first"#
            ]],
        ),
        (
            vec![renamed("x", "a"), renamed("y", "a")],
            expect![[
                r#"invalid: jobs[1].previous_name: "a": is claimed by jobs[0] too; a job can get one new name"#
            ]],
        ),
        (
            vec![renamed("a", "a")],
            expect![[
                r#"invalid: jobs[0].previous_name: "a": is the name of the job itself; leave previous_name out"#
            ]],
        ),
        (
            vec![renamed("x", "a"), job("a", json!({}))],
            expect![[
                r#"invalid: jobs[0].previous_name: "a": this apply renames that job, and names a job of the old name as well; apply them one after the other"#
            ]],
        ),
        (
            vec![renamed("x", "a"), job("y", json!({"parents": ["a"]}))],
            expect![[
                r#"invalid: jobs[1].parents[0]: "a": is renamed to x by this same apply; write the new name"#
            ]],
        ),
    ];
    for (jobs, expected) in table {
        refused(&mut world, jobs, expected);
    }
}

/// JOB-9, JOB-5: a large apply renames as a small one does, whatever its order.
#[test]
fn staged_apply_renames() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("c", json!({"parents": ["a"]}))]);
    let apply = tidemill_model::RequestId::new("many");
    let jobs = vec![
        job("d", json!({"parents": ["b"], "previous_name": "c"})),
        job("b", json!({"previous_name": "a"})),
    ];
    world.ask(
        ShardId::CATALOGUE,
        Command::Job(JobCommand::Stage { apply: apply.clone(), part: 0, jobs: jobs.clone() }),
    );
    let commit = Command::Job(JobCommand::Commit {
        apply,
        parts: 1,
        prune: Vec::new(),
        cancel: false,
        orphan_children: false,
        if_revision: None,
    });
    world.send(ShardId::CATALOGUE, commit);
    world.run();
    assert_eq!(world.define(jobs), [ids[1], ids[0]]);
    assert!(world.folded() == world.partition);
}

/// A job that passes a value on to its child in `group`.
fn reading(group: &str) -> Vec<JobSpec> {
    vec![
        job("p", json!({"group": group, "type": "shell", "command": "x"})),
        job(
            "c",
            json!({"parents": [format!("{group}/p")], "type": "shell", "command": "load", "arguments": [format!("${{values.{group}/p.rows}}")]}),
        ),
    ]
}

/// JOB-9, BYD-20: a child that reads values by the old name has to be applied together with the rename.
#[test]
fn rename_is_refused_while_a_child_reads_values_by_the_old_name() {
    let mut world = World::new();
    let ids = world.define(reading("g"));
    expect![[r#"invalid: name: "q": field arguments of job g/c reads ${values.g/p.rows}; apply both together, with `previous_name` here and q there"#]]
        .assert_eq(&rejection(&rename(&mut world, ids[0], "q")));
    let renamed = || job("q", json!({"type": "shell", "command": "x", "previous_name": "p"}));
    refused(
        &mut world,
        vec![renamed()],
        expect![[
            r#"invalid: jobs[0].name: "q": field arguments of job g/c reads ${values.g/p.rows}; apply both together, with `previous_name` here and q there"#
        ]],
    );
    let child =
        json!({"parents": ["q"], "type": "shell", "command": "load", "arguments": ["${values.q.rows}"]});
    assert_eq!(world.define(vec![renamed(), job("c", child)]), ids);
}

/// JOB-9, BYD-20: a batch that was generated before goes on reading the value of its parent, of its own group or another.
#[test]
fn batch_of_before_a_rename_reads_values_by_the_name_of_then() {
    for group in ["g", "h"] {
        let mut world = World::new();
        world.define_group("h", GroupSettings::default());
        let ids = world.define(reading(group));
        let worker = world.worker("w", 1, Script::Silent);
        let shard = ShardId(if group == "g" { 1 } else { 2 });
        let parameters = Default::default();
        world.send(
            shard,
            Command::Batch(BatchCommand::RunJob {
                job: ids[0],
                logical_time: Some(at(TEN)),
                parameters,
                concurrent: true,
            }),
        );
        world.run();
        let both: Vec<JobSpec> = vec![
            job("q", json!({"group": group, "type": "shell", "command": "x", "previous_name": "p"})),
            job("c", json!({"parents": [format!("{group}/q")], "type": "shell", "command": "new"})),
        ];
        assert_eq!(world.define(both), ids);
        passes_on_seven(&mut world, group, &worker);
        assert_eq!(world.granted_command(&worker).as_deref(), Some("load 7"), "{group}");
        assert!(world.folded() == world.partition);
    }
}

/// The parent's batch succeeds, and passes a value on.
fn passes_on_seven(world: &mut World, group: &str, worker: &tidemill_model::WorkerId) {
    let values = [("rows".to_owned(), "7".to_owned())].into();
    let outcome = AttemptOutcome { values, ..AttemptOutcome::success() };
    if group == "g" {
        let token = world.played(worker).last_token();
        let request = world.played(worker).request(token);
        world.say(request);
        return world.say(Command::Worker(WorkerCommand::ReportFinished {
            token,
            worker: worker.clone(),
            outcome,
            usage: None,
            interrupted: false,
            external: None,
        }));
    }
    let other = crate::kit::TestWorker::new("v", 1, Script::Silent);
    let name = crate::kit::group("h");
    let text = tidemill_model::Registration::signed_text(&name, &other.id, &other.incarnation);
    let registration = tidemill_model::Registration {
        group: name,
        signature: crate::kit::sign(&text),
        ..other.registration()
    };
    world.send(ShardId(2), Command::Worker(WorkerCommand::Register(Box::new(registration))));
    world.run();
    let token = world.work().into_iter().find_map(|message| match message {
        WorkMessage::Assigned { token, .. } => Some(token),
        _ => None,
    });
    let token = token.unwrap();
    world.send(ShardId(2), other.request(token));
    world.send(
        ShardId(2),
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
}

/// JOB-9, DEP-3: a shard with children of the job hears its new name.
#[test]
fn shards_of_children_hear_the_new_name() {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    let more: Value = json!({"group": "h", "parents": ["g/a"]});
    let ids = world.define(vec![job("a", json!({})), job("c", more)]);
    world.events();
    rename(&mut world, ids[0], "b");
    world.run();
    let names: Vec<String> = world
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Replication(ReplicationEvent::ParentsReplicated { parents }) => {
                Some(parents.iter().map(|parent| parent.name.clone()))
            }
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(names, ["g/b"]);
}
