//! What requests of a key say about jobs in groups that it does not reach: how many there are, and never their names.

use crate::kit::{World, at, every, group, job, rejection};
use expect_test::expect;
use serde_json::{Value, json};
use tidemill_model::{
    Answer, Cascade, CatalogueCommand, Command, Event, GroupSettings, JobCommand, JobSpec, Outcome,
    RerunCommand, RerunDefinition, RerunEvent, RerunOnly, RerunOrder, RerunScope, RerunSpec, Role,
};

const KEYS: [&str; 5] = ["root", "all", "g-and-h", "g-team", "nobody"];

/// Groups `g`, `h` and `i`.
fn world() -> World {
    let mut world = World::new();
    for name in ["h", "i"] {
        world.define_group(name, GroupSettings::default());
    }
    world.events();
    world
}

fn anchor(of: &str, name: &str, more: Value) -> JobSpec {
    let mut fields = json!({"group": of, "type": "anchor"});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job(name, fields)
}

fn child(of: &str, name: &str) -> JobSpec {
    anchor(of, name, json!({"parents": ["g/p"]}))
}

/// Asks as the application of that key.
fn ask_as(world: &mut World, app: &str, command: Command) -> Outcome {
    world.ask_catalogue((app, None), command)
}

fn keys(world: &mut World) {
    for (app, role, groups) in [
        ("root", Role::SuperAdministrator, &[][..]),
        ("all", Role::User, &[][..]),
        ("g-team", Role::User, &["g"][..]),
        ("g-and-h", Role::User, &["g", "h"][..]),
    ] {
        let key = Command::Catalogue(CatalogueCommand::DefineKey {
            app: app.to_owned(),
            hash: "0".repeat(64),
            role,
            groups: groups.iter().map(|name| group(name)).collect(),
            run_as: Default::default(),
            may: Default::default(),
            department: None,
            first_only: false,
        });
        assert_eq!(ask_as(world, "root", key), Outcome::Answered(Answer::Done));
    }
}

/// What each key is told of a request that is refused.
fn refusals(world: &mut World, command: &Command) -> String {
    let refusal = |app: &&str| format!("{app}: {}\n", rejection(&ask_as(world, app, command.clone())));
    KEYS.iter().map(refusal).collect()
}

fn apply(jobs: Vec<JobSpec>) -> Command {
    Command::Job(JobCommand::Apply { jobs, prune: Vec::new(), cancel: false, orphan_children: false })
}

/// JOB-6: a cycle through other groups is told as far as the key reaches.
#[test]
fn a_cycle_is_named_as_far_as_the_key_reaches() {
    let mut world = world();
    world.define(vec![
        anchor("g", "p", json!({})),
        child("h", "b"),
        anchor("i", "c", json!({"parents": ["h/b"]})),
        anchor("i", "d", json!({"parents": ["i/c"]})),
        anchor("g", "e", json!({"parents": ["i/d"]})),
    ]);
    keys(&mut world);
    let round = apply(vec![anchor("g", "p", json!({"parents": ["e"]}))]);
    expect![[r#"
        root: cycle: dependency cycle: g/p → g/e → i/d → i/c → h/b → g/p
        all: cycle: dependency cycle: g/p → g/e → i/d → i/c → h/b → g/p
        g-and-h: cycle: dependency cycle: g/p → g/e → 2 jobs of 1 other group → h/b → g/p
        g-team: cycle: dependency cycle: g/p → g/e → 3 jobs of 2 other groups → g/p
        nobody: invalid: jobs[0].parents[0]: "e": there is no job of that name
    "#]]
    .assert_eq(&refusals(&mut world, &round));
    // A parent that it does not reach is not there for it.
    let direct = apply(vec![anchor("g", "p", json!({"parents": ["i/d"]}))]);
    expect![[r#"
        root: cycle: dependency cycle: g/p → i/d → i/c → h/b → g/p
        all: cycle: dependency cycle: g/p → i/d → i/c → h/b → g/p
        g-and-h: invalid: jobs[0].parents[0]: "i/d": there is no job of that name
        g-team: invalid: jobs[0].parents[0]: "i/d": there is no job of that name
        nobody: invalid: jobs[0].parents[0]: "i/d": there is no job of that name
    "#]]
    .assert_eq(&refusals(&mut world, &direct));
}

/// JOB-6: a change that a child of another group could not take is refused by the rule, without the child's name.
#[test]
fn children_that_a_change_does_not_fit_are_counted() {
    let mut world = world();
    let offset = json!({"schedule": every("hour"), "parents": [{"job": "g/p", "mapping": {"offset": 1}}]});
    world.define(vec![
        anchor("g", "p", json!({"schedule": every("hour")})),
        anchor("h", "b", offset.clone()),
        anchor("i", "c", offset.clone()),
        anchor("i", "d", offset),
    ]);
    keys(&mut world);
    let unscheduled = apply(vec![anchor("g", "p", json!({}))]);
    expect![[r#"
        root: invalid: child h/b.parents[0]: "g/p": offset, all and any need a schedule on both sides; child i/c.parents[0]: "g/p": offset, all and any need a schedule on both sides; child i/d.parents[0]: "g/p": offset, all and any need a schedule on both sides
        all: invalid: child h/b.parents[0]: "g/p": offset, all and any need a schedule on both sides; child i/c.parents[0]: "g/p": offset, all and any need a schedule on both sides; child i/d.parents[0]: "g/p": offset, all and any need a schedule on both sides
        g-and-h: invalid: child h/b.parents[0]: "g/p": offset, all and any need a schedule on both sides; children: "2 jobs of 1 other group": offset, all and any need a schedule on both sides
        g-team: invalid: children: "3 jobs of 2 other groups": offset, all and any need a schedule on both sides
        nobody: invalid: children: "3 jobs of 2 other groups": offset, all and any need a schedule on both sides
    "#]].assert_eq(&refusals(&mut world, &unscheduled));
}

/// BYD-20: a rename that a reader of values in another group keeps from being is refused without its name and its field.
#[test]
fn readers_of_values_are_counted() {
    let mut world = world();
    let reads = |of: &str, name: &str| {
        let parameters = json!({"secret-field": "${values.g/p.rows}"});
        anchor(of, name, json!({"parents": ["g/p"], "parameters": parameters}))
    };
    let ids = world.define(vec![anchor("g", "p", json!({})), reads("h", "b")]);
    keys(&mut world);
    let rename = Command::Job(JobCommand::Rename { job: ids[0], name: "q".try_into().unwrap() });
    expect![[r#"
        root: invalid: name: "q": field parameters.secret-field of job h/b reads ${values.g/p.rows}; apply both together, with `previous_name` here and q there
        all: invalid: name: "q": field parameters.secret-field of job h/b reads ${values.g/p.rows}; apply both together, with `previous_name` here and q there
        g-and-h: invalid: name: "q": field parameters.secret-field of job h/b reads ${values.g/p.rows}; apply both together, with `previous_name` here and q there
        g-team: invalid: name: "q": 1 job of 1 other group reads a value of it by its old name; its owner has to take that out first
        nobody: invalid: name: "q": 1 job of 1 other group reads a value of it by its old name; its owner has to take that out first
    "#]].assert_eq(&refusals(&mut world, &rename));
    let applied = apply(vec![anchor("g", "q", json!({"previous_name": "p"}))]);
    expect![[r#"
        root: invalid: jobs[0].name: "q": field parameters.secret-field of job h/b reads ${values.g/p.rows}; apply both together, with `previous_name` here and q there
        all: invalid: jobs[0].name: "q": field parameters.secret-field of job h/b reads ${values.g/p.rows}; apply both together, with `previous_name` here and q there
        g-and-h: invalid: jobs[0].name: "q": field parameters.secret-field of job h/b reads ${values.g/p.rows}; apply both together, with `previous_name` here and q there
        g-team: invalid: jobs[0].name: "q": 1 job of 1 other group reads a value of it by its old name; its owner has to take that out first
        nobody: invalid: jobs[0].name: "q": 1 job of 1 other group reads a value of it by its old name; its owner has to take that out first
    "#]].assert_eq(&refusals(&mut world, &applied));
}

/// Who may not see a group is not told the names of its jobs, but how many keep theirs.
#[test]
fn children_of_a_job_that_is_deleted_are_counted() {
    let mut world = world();
    let ids = world.define(vec![
        anchor("g", "p", json!({})),
        child("g", "a"),
        child("h", "b"),
        child("h", "c"),
        child("i", "d"),
    ]);
    keys(&mut world);
    let delete = Command::Job(JobCommand::Delete { job: ids[0], cancel: false, orphan_children: false });
    expect![[r#"
        root: job_in_use: job g/p cannot be deleted: it is a parent of g/a, h/b, h/c and i/d; point them elsewhere first, or delete it with orphan_children, and their batches go on waiting until somebody does
        all: job_in_use: job g/p cannot be deleted: it is a parent of g/a, h/b, h/c and i/d; point them elsewhere first, or delete it with orphan_children, and their batches go on waiting until somebody does
        g-and-h: job_in_use: job g/p cannot be deleted: it is a parent of g/a, h/b, h/c and 1 job of 1 other group; point them elsewhere first, or delete it with orphan_children, and their batches go on waiting until somebody does
        g-team: job_in_use: job g/p cannot be deleted: it is a parent of g/a and 3 jobs of 2 other groups; point them elsewhere first, or delete it with orphan_children, and their batches go on waiting until somebody does
        nobody: job_in_use: job g/p cannot be deleted: it is a parent of 4 jobs of 3 other groups; point them elsewhere first, or delete it with orphan_children, and their batches go on waiting until somebody does
    "#]].assert_eq(&refusals(&mut world, &delete));
}

/// GEN-6: what is downstream in groups that the key does not reach is left out of its plan, and counted.
#[test]
fn a_plan_leaves_out_what_the_key_does_not_reach() {
    let mut world = world();
    let hourly = |of: &str, name: &str, parents: Value| {
        anchor(of, name, json!({"schedule": every("hour"), "parents": parents, "enabled": false}))
    };
    let ids = world.define(vec![
        hourly("g", "p", json!([])),
        hourly("g", "own", json!(["p"])),
        hourly("h", "foreign", json!(["g/p"])),
        hourly("g", "behind", json!(["h/foreign"])),
        hourly("g", "both", json!(["h/foreign", "own"])),
    ]);
    keys(&mut world);
    world.events();
    let mut told = String::new();
    for app in ["root", "all", "g-and-h", "g-team"] {
        let request = RerunSpec {
            scope: RerunScope::Rerun { jobs: vec![ids[0]], cascade: Cascade::Logic },
            from: at("2026-07-01T09:00:00.000Z"),
            to: at("2026-07-01T09:00:00.000Z"),
            reach: None,
            only: RerunOnly::All,
            order: RerunOrder::Oldest,
            concurrency: 1,
            definition: RerunDefinition::Today,
            reason: String::new(),
            approve: false,
        };
        let outcome = ask_as(&mut world, app, Command::Rerun(RerunCommand::Plan(Box::new(request))));
        let Outcome::Answered(Answer::Rerun { jobs_left_out: answered, .. }) = outcome else {
            panic!("{}", rejection(&outcome))
        };
        for event in world.events() {
            let Event::Rerun(RerunEvent::Requested { jobs, groups, jobs_left_out, .. }) = event else {
                continue;
            };
            assert_eq!(answered, jobs_left_out);
            let jobs: Vec<i64> = jobs.iter().map(|job| job.job.0 >> 12).collect();
            told.push_str(&format!("{app}: jobs {jobs:?} of {groups:?}, {jobs_left_out} left out\n"));
        }
    }
    expect![[r#"
        root: jobs [1, 2, 3, 4, 5] of [GroupName("g"), GroupName("h")], 0 left out
        all: jobs [1, 2, 3, 4, 5] of [GroupName("g"), GroupName("h")], 0 left out
        g-and-h: jobs [1, 2, 3, 4, 5] of [GroupName("g"), GroupName("h")], 0 left out
        g-team: jobs [1, 2, 5] of [GroupName("g")], 2 left out
    "#]]
    .assert_eq(&told);
}
