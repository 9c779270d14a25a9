//! API-5: jobs of departments: which ones a key of a department and a person may define, and what they are told of others.

use expect_test::expect;
use serde_json::{Value, json};
use tidemill_model::{
    Answer, CatalogueCommand, Command, DirectoryCommand, GroupSettings, JobCommand, JobSpec, Level, Outcome,
};

use crate::kit::{World, group, job, rejection};

pub(crate) fn key(app: &str, more: Value) -> Command {
    let mut fields = json!({"app": app, "hash": "0".repeat(64), "role": "user", "groups": []});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Command::Catalogue(serde_json::from_value(json!({"define_key": fields})).unwrap())
}

pub(crate) fn changed(world: &mut World, revision: u64, changes: Value) {
    let changes = serde_json::from_value(changes).unwrap();
    let command = Command::Directory(DirectoryCommand::Change { revision, changes });
    let outcome = world.ask_catalogue(("root", None), command);
    assert_eq!(outcome, Outcome::Answered(Answer::Done), "{}", rejection(&outcome));
}

/// Departments `bi` and `finance`; ann and vic of the one, bob of the other, who may edit `g/load`, vera, who may run what is in `g`, adm of none.
fn world() -> World {
    let mut world = World::new();
    world.raise();
    assert_eq!(
        world.ask_catalogue(("root", None), key("root", json!({"role": "super_administrator"}))),
        done()
    );
    let grant = json!([{"on": {"job": "g/load"}, "may": ["edit"]}]);
    changed(
        &mut world,
        0,
        json!([
            {"department": {"name": "bi"}},
            {"department": {"name": "finance"}},
            {"person": {"name": "ann", "departments": ["bi"]}},
            {"person": {"name": "bob", "departments": ["finance"], "grants": grant}},
            {"person": {"name": "vic", "role": "viewer", "departments": ["bi"]}},
            {"person": {"name": "vera", "departments": ["finance"], "grants": [{"on": {"group": "g"}, "may": ["operate"]}]}},
            {"person": {"name": "adm", "role": "administrator"}},
        ]),
    );
    assert_eq!(world.ask_catalogue(("root", None), key("of-bi", json!({"department": "bi"}))), done());
    world
}

pub(crate) fn done() -> Outcome {
    Outcome::Answered(Answer::Done)
}

pub(crate) fn owned(name: &str, owner: &str) -> JobSpec {
    job(name, json!({"group": "g", "type": "anchor", "owner": owner}))
}

pub(crate) fn apply(job: JobSpec) -> Command {
    Command::Job(JobCommand::Apply {
        jobs: vec![job],
        prune: Vec::new(),
        cancel: false,
        orphan_children: false,
    })
}

/// API-5, JOB-5: who is bound to departments defines jobs that stay within reach, and takes none that others own.
#[test]
fn jobs_are_defined_within_reach() {
    let world = || {
        let mut world = world();
        let defined = world.ask_catalogue(("root", None), apply(owned("load", "bi")));
        assert!(matches!(defined, Outcome::Answered(Answer::Applied { .. })), "{defined:?}");
        world
    };
    let told = |world: &mut World, who: (&str, Option<&str>), job: JobSpec| match world
        .ask_catalogue(who, apply(job))
    {
        Outcome::Answered(Answer::Applied { .. }) => "accepted".to_owned(),
        refused => rejection(&refused),
    };
    let mut table = String::new();
    for who in [
        ("of-bi", None),
        ("root", Some("ann")),
        ("root", Some("bob")),
        ("root", Some("vic")),
        ("root", Some("vera")),
        ("root", Some("adm")),
    ] {
        for job in [owned("load", "bi"), owned("load", "ann"), owned("load", "finance"), owned("mine", "bi")]
        {
            let name = format!("{} {}, owned by {}", who.1.unwrap_or(who.0), job.name, job.owner);
            table += &format!("{name}: {}\n", told(&mut world(), who, job));
        }
    }
    expect![[r#"
        of-bi load, owned by bi: accepted
        of-bi load, owned by ann: accepted
        of-bi load, owned by finance: invalid: jobs[0].owner: "finance": must be a department of the caller, or somebody of it
        of-bi mine, owned by bi: accepted
        ann load, owned by bi: accepted
        ann load, owned by ann: accepted
        ann load, owned by finance: invalid: jobs[0].owner: "finance": must be a department of the caller, or somebody of it
        ann mine, owned by bi: accepted
        bob load, owned by bi: accepted
        bob load, owned by ann: accepted
        bob load, owned by finance: accepted
        bob mine, owned by bi: invalid: jobs[0].owner: "bi": must be a department of the caller, or somebody of it
        vic load, owned by bi: invalid: jobs[0].name: "load": is the name of a job that the caller may not edit; take another name
        vic load, owned by ann: invalid: jobs[0].name: "load": is the name of a job that the caller may not edit; take another name
        vic load, owned by finance: invalid: jobs[0].name: "load": is the name of a job that the caller may not edit; take another name
        vic mine, owned by bi: invalid: jobs[0].owner: "bi": must be a department of the caller, or somebody of it
        vera load, owned by bi: invalid: jobs[0].name: "load": is the name of a job that the caller may not edit; take another name
        vera load, owned by ann: invalid: jobs[0].name: "load": is the name of a job that the caller may not edit; take another name
        vera load, owned by finance: invalid: jobs[0].name: "load": is the name of a job that the caller may not edit; take another name
        vera mine, owned by bi: invalid: jobs[0].owner: "bi": must be a department of the caller, or somebody of it
        adm load, owned by bi: accepted
        adm load, owned by ann: accepted
        adm load, owned by finance: accepted
        adm mine, owned by bi: accepted
    "#]].assert_eq(&table);
}

/// API-5: what is granted on a group is not carried out of it by a move; what a department owns goes where it likes.
#[test]
fn jobs_move_within_reach() {
    let mut world = world();
    world.define_group("h", GroupSettings::default());
    let defined = world.ask_catalogue(("root", None), apply(owned("load", "bi")));
    let Outcome::Answered(Answer::Applied { changes, .. }) = defined else { panic!("{defined:?}") };
    let to_h = || Command::Job(JobCommand::Move { job: changes[0].job, to: group("h") });
    let refused = rejection(&world.ask_catalogue(("root", Some("bob")), to_h()));
    assert!(refused.contains("owner"), "{refused}");
    let moved = world.ask_catalogue(("root", Some("ann")), to_h());
    assert!(!matches!(moved, Outcome::Refused(_)), "{moved:?}");
}

/// DSP-2, API-5: who calls with a super-administrator's key has not all accounts by that.
#[test]
fn accounts_of_a_key_are_no_persons() {
    let mut world = world();
    assert_eq!(world.ask_catalogue(("root", None), key("etl", json!({"run_as": ["etl"]}))), done());
    let as_etl = || {
        apply(job(
            "mine",
            json!({"group": "g", "type": "shell", "command": "true", "owner": "bi", "run_as": "etl"}),
        ))
    };
    let refused = |world: &mut World, who| {
        rejection(&world.ask_catalogue(who, as_etl())).contains("none of the accounts that key root")
    };
    assert!(refused(&mut world, ("root", Some("ann"))) && refused(&mut world, ("root", Some("adm"))));
    for who in [("etl", Some("ann")), ("root", None)] {
        let outcome = world.ask_catalogue(who, as_etl());
        assert!(matches!(outcome, Outcome::Answered(Answer::Applied { .. })), "{who:?}: {outcome:?}");
    }
}

/// API-5: a key is given only what it can have, and what the log can say; a department goes only with its keys.
#[test]
fn rights_of_keys_are_checked() {
    let mut world = world();
    let told =
        |world: &mut World, command: Command| rejection(&world.ask_catalogue(("root", None), command)) + "\n";
    let mut table = String::new();
    for more in [
        json!({"may": ["manage"]}),
        json!({"department": "nobody"}),
        json!({"department": "bi", "role": "super_administrator"}),
    ] {
        table += &told(&mut world, key("new", more));
    }
    let command: CatalogueCommand = serde_json::from_value(json!({"revoke_key": {"app": "root"}})).unwrap();
    table += &told(&mut world, Command::Catalogue(command));
    let gone = serde_json::from_value(json!([{"delete_department": {"name": "bi"}}])).unwrap();
    table += &told(&mut world, Command::Directory(DirectoryCommand::Change { revision: 7, changes: gone }));
    let mut old = World::new();
    assert!(!old.partition.level().allows(Level::DIRECTORY));
    assert_eq!(
        old.ask_catalogue(("root", None), key("root", json!({"role": "super_administrator"}))),
        done()
    );
    for more in [json!({"may": ["override"]}), json!({"department": "bi"})] {
        table += &told(&mut old, key("new", more));
    }
    expect![[r#"
        invalid: may: "manage": is of the whole site, and comes with the role super_administrator alone
        invalid: department: "nobody": is no department of the directory; define it first (`tidemill department ls` has those there are)
        invalid: department: "bi": must be absent: a super_administrator is one of the whole site; make the key an administrator
        invalid: app: "root": is the last super-administrator's key; define another one first
        invalid: changes[0].delete_department.name: "bi": cannot be removed: ann, vic are of it, and it has the keys of-bi; give them another department or owner, and revoke its keys, first
        invalid: may: "override": cannot be set before level 4 of the log stands, which is raised once every process of the site reads it (`tidemill level show`); leave it out until then
        invalid: department: "bi": cannot be set before level 4 of the log stands, which is raised once every process of the site reads it (`tidemill level show`); leave it out until then
    "#]].assert_eq(&table);
}

/// API-5: what can be granted is on something, and of something.
#[test]
fn grants_are_of_a_form() {
    let mut world = world();
    let mut table = String::new();
    for grants in [
        json!([{"on": {"job": "load"}, "may": ["view"]}]),
        json!([{"on": {"group": "g"}, "may": []}]),
        json!([{"on": {"group": "g"}, "may": ["administer"]}]),
        json!([{"on": {"business_type": ""}, "may": ["view"]}]),
        json!([{"on": {"group": "g"}, "may": ["view"]}, {"on": {"group": "g"}, "may": ["edit"]}]),
    ] {
        let changes = serde_json::from_value(json!([{"person": {"name": "new", "grants": grants}}])).unwrap();
        let command = Command::Directory(DirectoryCommand::Change { revision: 7, changes });
        table += &(rejection(&world.ask_catalogue(("root", None), command)) + "\n");
    }
    expect![[r#"
        invalid: changes[0].person.grants[0].on: "load": must be group/name, the names of a job, of at most 512 bytes
        invalid: changes[0].person.grants[0].may: "": grants nothing; name what is granted, such as view
        invalid: changes[0].person.grants[0].may: "administer": is of the whole site, and comes with the role administrator alone
        invalid: changes[0].person.grants[0].on: "": must be a business type of 1 to 200 characters
        invalid: changes[0].person.grants[1].on: "g": is on the same as another grant; make one of them
    "#]].assert_eq(&table);
}
