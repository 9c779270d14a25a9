//! How deep the parameters of a task may be (PUL-1), at the bound and one beyond it, for every command that carries
//! parameters; and that what is at the bound can be read again wherever it is put.

use crate::kit::{GROUP, World, at, group, rejection, spec, user};
use serde_json::{Value, json};
use tidemill_engine::Partition;
use tidemill_model::{
    Answer, CatalogueCommand, Command, CommandRecord, Envelope, Executor, GroupSettings, JobId, Outcome,
    ShardId, TaskCommand, TaskId, TaskSpec,
};

/// Arrays and objects in one another, the parameters themselves not counted.
const MOST: usize = 32;
const OTHER: ShardId = ShardId(2);

/// So many arrays and objects in one another, the one as often as the other.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(7), |value, level| match level % 2 {
        0 => json!([value, "beside it"]),
        _ => json!({"in": value, "beside": null}),
    })
}

fn parameters(levels: usize) -> Value {
    json!({"flat": 1, "deep": nested(levels), "last": [[]]})
}

/// Groups g, where ann is, and h.
fn world() -> World {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    let command =
        Command::Catalogue(CatalogueCommand::AssignUsers { group: group("g"), users: vec![user("ann")] });
    assert_eq!(world.ask(ShardId::CATALOGUE, command), Outcome::Answered(Answer::Done));
    world
}

fn ann(more: Value) -> TaskSpec {
    TaskSpec { executor: Executor::User(user("ann")), ..spec(more) }
}

/// A task of ann's own, with parameters of so many levels.
fn task(levels: usize) -> TaskSpec {
    ann(json!({"parameters": parameters(levels)}))
}

fn created(outcome: Outcome) -> TaskId {
    match outcome {
        Outcome::Answered(Answer::Task { task, .. }) => task,
        other => panic!("{}", rejection(&other)),
    }
}

/// The command is refused for its parameters, by field, value and rule; every shard is as it was.
fn refused(world: &mut World, command: Command) {
    let before: Vec<_> = world.partition.shards().map(|(id, shard)| (id, shard.clone())).collect();
    let outcome = world.ask(GROUP, command);
    let told = rejection(&outcome);
    for part in ["parameters", "33 levels", "must be at most 32 arrays and objects in one another"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let after: Vec<_> = world.partition.shards().map(|(id, shard)| (id, shard.clone())).collect();
    assert!(before == after, "a refused command has changed a shard");
}

/// PUL-1: a new task, with and without a template.
#[test]
fn task_is_created_with_32_levels_and_refused_with_33() {
    let mut world = world();
    let fields = json!({"flat": {"type": "number"}, "deep": {}, "last": {"type": "array"}});
    let template = serde_json::from_value(json!({"name": "copy", "fields": fields})).unwrap();
    let outcome =
        world.ask(ShardId::CATALOGUE, Command::Catalogue(CatalogueCommand::DefineTemplate { template }));
    assert!(matches!(outcome, Outcome::Answered(Answer::Template { .. })), "{outcome:?}");
    for template in [None, Some("copy".try_into().unwrap())] {
        let of = |levels| TaskSpec { template: template.clone(), ..task(levels) };
        created(world.ask(GROUP, Command::Task(TaskCommand::Create { spec: of(MOST) })));
        refused(&mut world, Command::Task(TaskCommand::Create { spec: of(MOST + 1) }));
    }
}

/// PUL-1, PUL-11: a change of a task.
#[test]
fn task_is_changed_to_32_levels_and_not_to_33() {
    let mut world = world();
    let id = created(world.ask(GROUP, Command::Task(TaskCommand::Create { spec: task(0) })));
    let changed = world.ask(GROUP, Command::Task(TaskCommand::Change { task: id, spec: task(MOST) }));
    assert_eq!(changed, Outcome::Answered(Answer::Task { task: id, version: 2 }));
    refused(&mut world, Command::Task(TaskCommand::Change { task: id, spec: task(MOST + 1) }));
}

/// The depth of each branch counts, whatever stands before it and in which kind of value.
#[test]
fn the_deepest_branch_counts() {
    let mut world = world();
    let arrays = |levels: usize| (0..levels).fold(json!(1), |value, _| json!([value]));
    let objects = |levels: usize| (0..levels).fold(json!(1), |value, _| json!({"in": value}));
    for deep in [&arrays as &dyn Fn(usize) -> Value, &objects, &nested] {
        let of = |levels| ann(json!({"parameters": {"a": [1, 2, {"x": []}], "z": deep(levels)}}));
        created(world.ask(GROUP, Command::Task(TaskCommand::Create { spec: of(MOST) })));
        refused(&mut world, Command::Task(TaskCommand::Create { spec: of(MOST + 1) }));
    }
    // Empty ones count as well.
    let around = |inner: Value, levels: usize| (0..levels).fold(inner, |value, _| json!([value]));
    let of = |inner: Value, levels| ann(json!({"parameters": {"a": around(inner, levels)}}));
    created(world.ask(GROUP, Command::Task(TaskCommand::Create { spec: of(json!({}), MOST - 1) })));
    refused(&mut world, Command::Task(TaskCommand::Create { spec: of(json!([]), MOST) }));
}

/// Every text that the journal and the topics hold can be read again, and gives the same state: a task at the bound that
/// is given, given again, completed, changed, and goes with its user to another group and back.
#[test]
fn what_is_at_the_bound_can_be_read_wherever_it_is_put() {
    let mut world = world();
    let repeated = TaskSpec { dispatch_times: 3, repeat: true, ..task(MOST) };
    let id = created(world.ask(GROUP, Command::Task(TaskCommand::Create { spec: repeated.clone() })));
    for (shard, to) in [(GROUP, "h"), (OTHER, "g")] {
        for redo in [false, true] {
            let outcome = world.ask(shard, Command::Task(TaskCommand::Pull { user: user("ann") }));
            let Outcome::Answered(Answer::Pulled(pulled)) = outcome else { panic!("{outcome:?}") };
            assert_eq!((pulled.task, pulled.redo, pulled.parameters.levels()), (id, redo, MOST));
            assert_eq!(pulled.parameters, repeated.parameters);
            if redo {
                let (grant, result) = (pulled.grant, "ok".to_owned());
                let complete = Command::Task(TaskCommand::Complete { user: user("ann"), grant, result });
                let outcome = world.ask(shard, complete);
                assert_eq!(outcome, Outcome::Answered(Answer::Completed { grant }));
            }
        }
        let changed =
            world.ask(shard, Command::Task(TaskCommand::Change { task: id, spec: repeated.clone() }));
        assert!(matches!(changed, Outcome::Answered(Answer::Task { .. })), "{changed:?}");
        let moves = Command::Catalogue(CatalogueCommand::MoveUser { user: user("ann"), to: group(to) });
        assert_eq!(world.ask(ShardId::CATALOGUE, moves), Outcome::Answered(Answer::Done));
    }
    // The kit has sent every command and message through its text. Here the whole journal is folded from its own.
    let mut folded = Partition::new(0, 1);
    for body in &world.journal {
        folded.apply(&serde_json::from_slice::<Envelope>(body).unwrap());
    }
    assert!(folded == world.partition);
    let deepest = world.journal.iter().map(|body| brackets(body)).max().unwrap();
    assert!((MOST + 5..64).contains(&deepest), "a record is {deepest} levels deep");
}

/// Arrays and objects in one another, of a text without brackets in its strings.
fn brackets(text: &[u8]) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in text {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open -= 1,
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// All other commands with parameters have texts: a value in one is no command, at any depth, and neither is a template
/// whose fields say more than their kinds. So only those two can hold what is deep.
#[test]
fn parameters_of_jobs_and_batches_are_texts() {
    let one = JobId::mint(1, ShardId::CATALOGUE);
    let time = at(crate::kit::START);
    let job = |parameters: &Value| json!({"name": "j", "group": "g", "type": "noop", "parameters": parameters, "enabled": true});
    let submission = |parameters: &Value| {
        let mut submission = serde_json::to_value(World::submission("s", &[])).unwrap();
        submission["parameters"] = parameters.clone();
        submission
    };
    let command = |name: &str, given: &Value| match name {
        "batch.submit_job" => submission(given),
        "batch.run_job" => json!({"job": one, "logical_time": time, "parameters": given}),
        "batch.rerun" => {
            let recorded = json!({"run": 1, "parameters": given});
            json!({"batch": 1, "job": one, "logical_time": time, "recorded": recorded})
        }
        "job.define" => json!({"job": job(given), "parents": []}),
        "job.apply" => json!({"jobs": [job(given)], "prune": [], "cancel": false}),
        "job.stage" => json!({"apply": "a", "part": 0, "jobs": [job(given)]}),
        "task.complete" => json!({"user": "ann", "grant": 1, "result": given["a"]}),
        "catalogue.define_template" => {
            json!({"template": {"name": "t", "fields": {"a": {"type": given["a"]}}}})
        }
        other => unreachable!("{other}"),
    };
    let names = [
        "batch.submit_job",
        "batch.run_job",
        "batch.rerun",
        "job.define",
        "job.apply",
        "job.stage",
        "task.complete",
        "catalogue.define_template",
    ];
    for name in names {
        let read = |given: Value| {
            let (aggregate, variant) = name.split_once('.').unwrap();
            let command = json!({aggregate: {variant: command(name, &given)}});
            let record = json!({"shard": 1, "actor": {"app": "a"}, "command": command});
            serde_json::from_value::<CommandRecord>(record)
        };
        let fine =
            if name == "catalogue.define_template" { json!({"a": "object"}) } else { json!({"a": "text"}) };
        read(fine).unwrap_or_else(|error| panic!("{name}: {error}"));
        for levels in [1, 2, MOST, MOST + 1] {
            assert!(read(json!({"a": nested(levels)})).is_err(), "{name} takes {levels} levels");
        }
    }
}
