//! The directory of people and departments, and the owners of jobs that it knows.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect;
use proptest::prelude::{ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};
use tidemill_engine::Partition;
use tidemill_model::{
    AccessCommand, AccessEvent, Answer, Command, DirectoryChange, DirectoryCommand, DirectoryEvent, Event,
    JobCommand, JobId, JobSpec, LiveAnswer, LiveQuery, Outcome, Person, Refusal, Rejection, RequestId,
    ShardId,
};

use crate::kit::{World, group, job, rejection};

fn world() -> World {
    let mut world = World::new();
    world.raise();
    world
}

fn changes(written: Value) -> Vec<DirectoryChange> {
    serde_json::from_value(written).unwrap()
}

fn person(name: &str, more: Value) -> Value {
    with(json!({"name": name}), more, "person")
}

fn department(name: &str, more: Value) -> Value {
    with(json!({"name": name}), more, "department")
}

fn with(mut entry: Value, more: Value, of: &str) -> Value {
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({of: entry})
}

/// Weekly from a Monday in 2026.
fn rota(turns: Value) -> Value {
    json!({"zone": "UTC", "starts": "2026-01-05T09:00:00", "days": 7, "turns": turns})
}

/// The changes that there ever were, from the journal.
fn revision(world: &World) -> u64 {
    let count = |body: &Vec<u8>| {
        let envelope: tidemill_model::Envelope = serde_json::from_slice(body).unwrap();
        envelope.events.iter().filter(|recorded| matches!(recorded.event, Event::Directory(_))).count()
    };
    world.journal.iter().map(count).sum::<usize>() as u64
}

fn change(world: &mut World, written: Value) -> Outcome {
    let (revision, changes) = (revision(world), changes(written));
    // What is asked about it is answered as it is decided.
    let query = LiveQuery::CheckDirectory { revision, changes: changes.clone() };
    let checked = world.partition.answer(ShardId::CATALOGUE, &query);
    let changes_len = changes.len();
    let outcome =
        world.ask(ShardId::CATALOGUE, Command::Directory(DirectoryCommand::Change { revision, changes }));
    match &outcome {
        // That the command is too large is not said of the changes.
        _ if !(1..=200).contains(&changes_len) => {}
        Outcome::Refused(rejection) => assert_eq!(checked, LiveAnswer::Refused(rejection.clone())),
        _ => assert_eq!(checked, LiveAnswer::Acceptable),
    }
    outcome
}

fn changed(world: &mut World, written: Value) {
    let outcome = change(world, written);
    assert_eq!(outcome, Outcome::Answered(Answer::Done), "{}", rejection(&outcome));
    assert!(world.partition == world.folded(), "the fold differs from the draft");
}

/// What each of these is refused for, and that it changes nothing.
fn refusals(world: &mut World, table: impl IntoIterator<Item = Value>) -> String {
    let mut told = String::new();
    for written in table {
        let before = revision(world);
        told += &rejection(&change(world, written));
        told += "\n";
        assert_eq!(revision(world), before);
    }
    told
}

/// Departments `data` and `web`; ada and bob of `data`, cleo of `web`; ada and bob take turns for `data`.
fn staffed() -> World {
    let mut world = world();
    changed(
        &mut world,
        json!([
            department("data", json!({"on_call": rota(json!([["ada"], ["bob"]]))})),
            department("web", json!({"title": "The web", "for_system": true})),
            person(
                "ada",
                json!({"departments": ["data", "web"], "mail": "ada@example.org", "phone": "+4930123456"})
            ),
            person("bob", json!({"departments": ["data"], "language": "zh"})),
            person("cleo", json!({"departments": ["web"], "role": "viewer"})),
        ]),
    );
    world.events();
    world
}

/// Each rule of the form of an entry, by field, value and what to do.
#[test]
fn entries_of_another_form_are_refused() {
    let long = "x".repeat(201);
    let departments: Vec<String> = (0..17).map(|n| format!("d{n}")).collect();
    let name = |n: usize| format!("{n}{}", "x".repeat(120));
    let crowd: Vec<Vec<String>> = (0..200).map(|turn| (0..2).map(|n| name(2 * turn + n)).collect()).collect();
    let told = refusals(
        &mut world(),
        [
            json!([]),
            json!((0..201).map(|n| person(&format!("p{n}"), json!({}))).collect::<Vec<_>>()),
            json!([person("ada", json!({"full_name": long}))]),
            json!([person("ada", json!({"full_name": "A\u{7}da"}))]),
            json!([person("ada", json!({"mail": "ada"}))]),
            json!([person("ada", json!({"mail": "ada@example.org, bob@example.org"}))]),
            json!([person("ada", json!({"mail": "@example.org"}))]),
            json!([person("ada", json!({"mail": format!("ada@{}", "x".repeat(251))}))]),
            json!([person("ada", json!({"phone": "030123456"}))]),
            json!([person("ada", json!({"phone": "+0301234"}))]),
            json!([person("ada", json!({"phone": "+1234"}))]),
            json!([person("ada", json!({"phone": "+49 30 12345"}))]),
            json!([person("ada", json!({"departments": departments}))]),
            json!([department("d", json!({})), person("ada", json!({"departments": ["d", "d"]}))]),
            json!([person("bob", json!({})), person("ada", json!({"successor": "bob"}))]),
            json!([person("ada", json!({"successor": "ada", "enabled": false}))]),
            json!([department("d", json!({"title": long}))]),
            json!([department("d", json!({"on_call": rota(json!([]))}))]),
            json!([department("d", json!({"on_call": rota(json!(crowd))}))]),
            json!([person("ada", json!({})), person("ada", json!({}))]),
            json!([person("ada", json!({})), {"delete_person": {"name": "ada"}}]),
            json!([{"delete_person": {"name": "ada"}}]),
            json!([{"delete_department": {"name": "d"}}]),
        ],
    );
    expect![[r#"
        invalid: changes: "0": must be 1 to 200 in one command; split what is more
        invalid: changes: "201": must be 1 to 200 in one command; split what is more
        invalid: changes[0].person.full_name: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": must be at most 200 characters, none of them a control character
        invalid: changes[0].person.full_name: "A\u{7}da": must be at most 200 characters, none of them a control character
        invalid: changes[0].person.mail: "ada": must be one address, such as ada@example.org; leave it out for none
        invalid: changes[0].person.mail: "ada@example.org, bob@example.org": must be one address, such as ada@example.org; leave it out for none
        invalid: changes[0].person.mail: "@example.org": must be one address, such as ada@example.org; leave it out for none
        invalid: changes[0].person.mail: "ada@xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": must be at most 254 bytes
        invalid: changes[0].person.phone: "030123456": must be + and 5 to 15 digits, the country first and without a leading 0, such as +4930123456; leave it out for none
        invalid: changes[0].person.phone: "+0301234": must be + and 5 to 15 digits, the country first and without a leading 0, such as +4930123456; leave it out for none
        invalid: changes[0].person.phone: "+1234": must be + and 5 to 15 digits, the country first and without a leading 0, such as +4930123456; leave it out for none
        invalid: changes[0].person.phone: "+49 30 12345": must be + and 5 to 15 digits, the country first and without a leading 0, such as +4930123456; leave it out for none
        invalid: changes[0].person.departments: "17": at most 16 departments
        invalid: changes[1].person.departments[1]: "d": stands twice among the departments; leave one out
        invalid: changes[1].person.successor: "bob": is for a person who is disabled; leave it out, or disable the person
        invalid: changes[0].person.successor: "ada": is the person; name somebody else
        invalid: changes[0].department.title: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": must be at most 200 characters, none of them a control character
        invalid: changes[0].department.on_call.turns: "0": must be 1 to 200 turns
        invalid: changes[0].department.on_call.turns: "200": are 50754 bytes of JSON with the rest of the rota, which may be 32768; take some out
        invalid: changes[1].person.name: "ada": stands twice among the changes; make one of them
        invalid: changes[1].delete_person.name: "ada": stands twice among the changes; make one of them
        unknown: there is no person ada
        unknown: there is no department d
    "#]].assert_eq(&told);
}

/// What entries have to do with each other, in what comes of all changes.
#[test]
fn entries_that_do_not_fit_each_other_are_refused() {
    let serving =
        |turns: Value| json!([department("web", json!({"for_system": true, "on_call": rota(turns)}))]);
    let mut other = rota(json!([["cleo"]]));
    other["overrides"] =
        json!([{"from": "2026-02-01T00:00:00", "to": "2026-02-02T00:00:00", "people": ["cleo", "dan"]}]);
    let told = refusals(
        &mut staffed(),
        [
            json!([person("web", json!({}))]),
            json!([department("ada", json!({}))]),
            json!([person("new", json!({})), department("new", json!({}))]),
            json!([person("cleo", json!({"departments": ["wed"]}))]),
            json!([person("cleo", json!({"departments": ["data", "nowhere"]}))]),
            json!([department("data", json!({"for_system": true}))]),
            serving(json!([["cleo"], ["cleo", "coe"]])),
            json!([department("web", json!({"for_system": true, "on_call": other}))]),
            json!([person("dan", json!({"enabled": false})), serving(json!([["dan"]]))[0]]),
            json!([person("cleo", json!({"enabled": false, "successor": "clea"}))]),
            json!([
                person("cleo", json!({"enabled": false, "successor": "dan"})),
                person("dan", json!({"enabled": false})),
            ]),
            json!([
                person("cleo", json!({"enabled": false, "successor": "dan"})),
                person("dan", json!({"enabled": false, "successor": "eve"})),
                person("eve", json!({"enabled": false, "successor": "cleo"})),
            ]),
            json!([{"delete_department": {"name": "data"}}]),
            json!([{"delete_person": {"name": "ada"}}]),
            // As many as are wrong are named, 20 at most.
            json!(
                (0..30)
                    .map(|n| person(&format!("p{n}"), json!({"departments": ["none"]})))
                    .collect::<Vec<_>>()
            ),
        ],
    );
    expect![[r#"
        invalid: changes[0].person.name: "web": is the name of a department; people and departments have different names, take another one
        invalid: changes[0].department.name: "ada": is the name of a person; people and departments have different names, take another one
        invalid: changes[0].person.name: "new": is the name of a department; people and departments have different names, take another one; changes[1].department.name: "new": is the name of a person; people and departments have different names, take another one
        invalid: changes[0].person.departments[0]: "wed": there is no department of that name; define it first, or leave it out; did you mean web?
        invalid: changes[0].person.departments[1]: "nowhere": there is no department of that name; define it first, or leave it out
        invalid: changes[0].department.for_system: "true": is said of web already, and can be of one department; take it from that first
        invalid: changes[0].department.on_call.turns[1][1]: "coe": there is no person of that name; define the person first, or name another one
        invalid: changes[0].department.on_call.overrides[0].people[1]: "dan": there is no person of that name; define the person first, or name another one
        invalid: changes[0].person.successor: "": is missing: the rota of web names dan; name who takes that over, or change it first; changes[1].department.on_call.turns[0][0]: "dan": is disabled and has no successor; name somebody else, or give this person a successor
        invalid: changes[0].person.successor: "clea": there is no person of that name; define the person first, or name another one
        invalid: changes[0].person.successor: "dan": is disabled and has no successor; name somebody who is enabled; changes[1].person.successor: "": is missing: dan succeeds cleo; name who takes that over, or change it first
        invalid: changes[0].person.successor: "dan": is disabled, and over eve nobody follows who is enabled; name somebody who is; changes[1].person.successor: "eve": is disabled, and over cleo nobody follows who is enabled; name somebody who is; changes[2].person.successor: "cleo": is disabled, and over dan nobody follows who is enabled; name somebody who is
        invalid: changes[0].delete_department.name: "data": cannot be removed: ada, bob are of it; give them another department or owner, and revoke its keys, first
        invalid: changes[0].delete_person.name: "ada": cannot be removed: the rota of data names ada; change that first, or disable the person, with a successor
        invalid: changes[0].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[1].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[2].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[3].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[4].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[5].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[6].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[7].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[8].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[9].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[10].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[11].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[12].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[13].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[14].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[15].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[16].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[17].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[18].person.departments[0]: "none": there is no department of that name; define it first, or leave it out; changes[19].person.departments[0]: "none": there is no department of that name; define it first, or leave it out
    "#]].assert_eq(&told);
}

/// All changes of a command are made together: what one names may come with another, wherever that stands, and what is in the
/// way may go.
#[test]
fn changes_are_judged_by_what_comes_of_all() {
    let mut world = staffed();
    changed(
        &mut world,
        json!([
            {"delete_department": {"name": "data"}},
            person("ada", json!({"departments": ["web"]})),
            person("bob", json!({"departments": ["ops"], "enabled": false, "successor": "dan"})),
            department("web", json!({"on_call": rota(json!([["dan", "bob"]]))})),
            department("ops", json!({"for_system": true})),
            person("dan", json!({})),
            // A name may go from one kind to the other.
            person("data", json!({})),
        ]),
    );
    expect![[r#"
        department.deleted department/data
        person.defined person/ada
        person.defined person/bob
        department.defined department/web
        department.defined department/ops
        person.defined person/dan
        person.defined person/data
    "#]]
    .assert_eq(&world.told());
}

/// One that cannot be made keeps all others of its command from being made.
#[test]
fn changes_are_made_all_or_none() {
    let mut world = staffed();
    let before = world.partition.clone();
    let all = json!([person("dan", json!({})), person("eve", json!({"departments": ["nowhere"]}))]);
    assert!(matches!(change(&mut world, all), Outcome::Refused(_)));
    assert!(world.told().is_empty());
    changed(&mut world, json!([person("dan", json!({}))]));
    let dan = json!([{"delete_person": {"name": "dan"}}]);
    changed(&mut world, dan);
    assert_eq!(revision(&world), 7);
    assert!(world.partition != before, "the revision counts on");
}

/// An entry that stays as it is makes no event, and the revision tells of each change once.
#[test]
fn the_revision_counts_what_changes() {
    let mut world = staffed();
    let again = json!([person("bob", json!({"departments": ["data"], "language": "zh"}))]);
    changed(&mut world, again);
    assert!(world.events().is_empty());
    assert_eq!(revision(&world), 5);
    let late = DirectoryCommand::Change { revision: 4, changes: changes(json!([person("dan", json!({}))])) };
    assert_eq!(
        world.ask(ShardId::CATALOGUE, Command::Directory(late)),
        Outcome::Refused(Rejection::RevisionChanged { expected: 4, revision: 5 })
    );
    let not_there_yet = LiveQuery::CheckDirectory { revision: 6, changes: Vec::new() };
    let answer = world.partition.answer(ShardId::CATALOGUE, &not_there_yet);
    assert_eq!(answer, LiveAnswer::Refused(Rejection::RevisionChanged { expected: 6, revision: 5 }));
}

/// Whoever leaves and owns jobs, has places in rotas or succeeds somebody needs a successor; the refusal names the first ten
/// jobs and how many more.
#[test]
fn who_leaves_with_something_in_hand_needs_a_successor() {
    let mut world = staffed();
    let jobs = |owner: &str| {
        (0..12).map(|n| job(&format!("j{n:02}"), json!({"owner": owner}))).collect::<Vec<JobSpec>>()
    };
    world.define(jobs("ada"));
    world.define(vec![job("one", json!({"owner": "cleo"}))]);
    let leaves = |name: &str, successor: Value| {
        json!([person(name, json!({"enabled": false, "successor": successor}))])
    };
    let told = refusals(
        &mut world,
        [leaves("ada", Value::Null), leaves("bob", Value::Null), leaves("cleo", Value::Null)],
    );
    expect![[r#"
        invalid: changes[0].person.successor: "": is missing: ada owns g/j00, g/j01, g/j02, g/j03, g/j04, g/j05, g/j06, g/j07, g/j08, g/j09 and 2 more, and the rota of data names ada; name who takes that over, or change it first
        invalid: changes[0].person.successor: "": is missing: the rota of data names bob; name who takes that over, or change it first
        invalid: changes[0].person.successor: "": is missing: cleo owns g/one; name who takes that over, or change it first
    "#]].assert_eq(&told);
    changed(&mut world, leaves("ada", json!("bob")));
    // Bob succeeds ada, and is followed by cleo in his turn.
    let told = refusals(
        &mut world,
        [
            leaves("bob", Value::Null),
            leaves("bob", json!("ada")),
            json!([{"delete_person": {"name": "bob"}}]),
        ],
    );
    expect![[r#"
        invalid: changes[0].person.successor: "": is missing: the rota of data names bob, and bob succeeds ada; name who takes that over, or change it first
        invalid: changes[0].person.successor: "ada": is disabled, and over bob nobody follows who is enabled; name somebody who is
        invalid: changes[0].delete_person.name: "bob": cannot be removed: the rota of data names bob, and bob succeeds ada; change that first, or disable the person, with a successor
    "#]].assert_eq(&told);
    changed(&mut world, leaves("bob", json!("cleo")));
    // Whoever has nothing needs nobody.
    changed(&mut world, json!([person("dan", json!({}))]));
    changed(&mut world, leaves("dan", Value::Null));
    changed(&mut world, json!([{"delete_person": {"name": "dan"}}]));
    // Once nobody needs them, they may go.
    world.define(jobs("cleo"));
    let data = department("data", json!({"on_call": rota(json!([["cleo"]]))}));
    changed(
        &mut world,
        json!([{"delete_person": {"name": "ada"}}, {"delete_person": {"name": "bob"}}, data]),
    );
}

/// As long as nobody is in the directory, an owner is a free text; then one that is new has to be in it.
#[test]
fn owners_are_looked_up_once_there_is_a_directory() {
    let mut world = world();
    world.define(vec![job("old", json!({"owner": "the team"})), job("none", json!({}))]);
    changed(
        &mut world,
        json!([
            department("data", json!({})),
            person("ada", json!({})),
            person("bob", json!({"enabled": false, "successor": "cleo"})),
            person("cleo", json!({"enabled": false, "successor": "ada"})),
            person("dan", json!({"enabled": false})),
        ]),
    );
    world.events();
    let mut told = String::new();
    for (name, owner) in [
        ("new", "the team"),
        ("new", "adda"),
        ("new", "dat"),
        ("new", "bob"),
        ("new", "dan"),
        ("old", "another team"),
        ("none", "Ada"),
    ] {
        let jobs = vec![job(name, json!({"owner": owner}))];
        let plan =
            LiveQuery::PlanApply { jobs: jobs.clone(), prune: vec![], by: None, orphan_children: false };
        let planned = world.partition.answer(ShardId::CATALOGUE, &plan);
        let outcome = world.apply(jobs);
        told += &rejection(&outcome);
        told += "\n";
        let Outcome::Refused(rejection) = outcome else { panic!("{name} {owner}: {outcome:?}") };
        assert_eq!(planned, LiveAnswer::Refused(rejection));
    }
    expect![[r#"
        invalid: jobs[0].owner: "the team": is neither a person nor a department of the directory; name one of them, or leave it out
        invalid: jobs[0].owner: "adda": is neither a person nor a department of the directory; name one of them, or leave it out; did you mean ada?
        invalid: jobs[0].owner: "dat": is neither a person nor a department of the directory; name one of them, or leave it out; did you mean data?
        invalid: jobs[0].owner: "bob": is a person who is disabled; name ada, who succeeds this person, or a department
        invalid: jobs[0].owner: "dan": is a person who is disabled; name somebody else, or a department
        invalid: jobs[0].owner: "another team": is neither a person nor a department of the directory; name one of them, or leave it out
        invalid: jobs[0].owner: "Ada": is neither a person nor a department of the directory; name one of them, or leave it out; did you mean ada?
    "#]].assert_eq(&told);
    assert!(world.events().is_empty());
    // A job that keeps its owner may change, be renamed, and be defined with an owner that is known.
    world.define(vec![job("old", json!({"owner": "the team", "comment": "still"}))]);
    world.define(vec![job("older", json!({"owner": "the team", "previous_name": "old"}))]);
    world.define(vec![
        job("new", json!({"owner": "ada"})),
        job("none", json!({"owner": "data"})),
        job("older", json!({"owner": ""})),
    ]);
    let told = rejection(&world.apply(vec![job("older", json!({"owner": "the team"}))]));
    assert!(told.contains("is neither a person nor a department"), "{told}");
    let unnamed = |owner: &str| {
        let job = Box::new(job("unnamed", json!({"owner": owner})));
        Command::Job(JobCommand::Define { job, parents: Vec::new() })
    };
    // The owner of a job that is known by its id alone is whoever an application calls its user.
    assert!(matches!(world.ask(ShardId::CATALOGUE, unnamed("nobody")), Outcome::Answered(_)));
    let Outcome::Answered(Answer::Submitted { job: id, .. }) = world.ask(ShardId::CATALOGUE, unnamed("data"))
    else {
        panic!("it is accepted")
    };
    // Where all have gone, an owner is a free text again.
    let everybody = json!([
        {"delete_department": {"name": "data"}},
        {"delete_person": {"name": "ada"}},
        {"delete_person": {"name": "bob"}},
        {"delete_person": {"name": "cleo"}},
        {"delete_person": {"name": "dan"}},
    ]);
    let told = refusals(&mut world, [everybody.clone()]);
    expect![[r#"
        invalid: changes[0].delete_department.name: "data": cannot be removed: it owns g/none and g/unnamed; give them another department or owner, and revoke its keys, first; changes[1].delete_person.name: "ada": cannot be removed: ada owns g/new; change that first, or disable the person, with a successor
    "#]].assert_eq(&told);
    world.define(vec![job("new", json!({})), job("none", json!({}))]);
    let delete = JobCommand::Delete { job: id, cancel: false, orphan_children: false };
    world.ask(ShardId::CATALOGUE, Command::Job(delete));
    changed(&mut world, everybody);
    world.define(vec![job("older", json!({"owner": "the team"}))]);
}

/// A job takes its owner along to another group, and out of the directory's way when it is deleted.
#[test]
fn owners_are_followed_over_renames_moves_and_deletions() {
    let mut world = staffed();
    world.define_group("h", Default::default());
    let ids = world.define(vec![job("a", json!({"owner": "web"})), job("b", json!({"owner": "web"}))]);
    changed(&mut world, json!([person("ada", json!({})), person("cleo", json!({}))]));
    let ask = |world: &mut World, command: JobCommand| world.ask(ShardId::CATALOGUE, Command::Job(command));
    ask(&mut world, JobCommand::Rename { job: ids[0], name: "c".try_into().unwrap() });
    ask(&mut world, JobCommand::Move { job: ids[1], to: group("h") });
    world.run();
    let gone = json!([{"delete_department": {"name": "web"}}]);
    let told = refusals(&mut world, [gone.clone()]);
    expect![[r#"
        invalid: changes[0].delete_department.name: "web": cannot be removed: it owns g/c and h/b; give them another department or owner, and revoke its keys, first
    "#]].assert_eq(&told);
    let delete = |job: JobId| JobCommand::Delete { job, cancel: false, orphan_children: false };
    ask(&mut world, delete(ids[0]));
    world.define(vec![JobSpec { group: group("h"), ..job("b", json!({"owner": "ada"})) }]);
    world.run();
    changed(&mut world, gone);
}

/// What a large apply was found good against stays until it is carried out.
#[test]
fn the_directory_waits_while_a_large_apply_is_carried_out() {
    let mut world = staffed();
    changed(&mut world, json!([department("ops", json!({}))]));
    let apply = RequestId::new("large");
    let jobs: Vec<JobSpec> = (0..300).map(|n| job(&format!("j{n:03}"), json!({"owner": "ops"}))).collect();
    let stage =
        |part: u32, jobs: Vec<JobSpec>| Command::Job(JobCommand::Stage { apply: apply.clone(), part, jobs });
    world.ask(ShardId::CATALOGUE, stage(0, jobs));
    let commit = JobCommand::Commit {
        apply: apply.clone(),
        parts: 1,
        prune: Vec::new(),
        cancel: false,
        orphan_children: false,
        if_revision: None,
    };
    world.events();
    world.send(ShardId::CATALOGUE, Command::Job(commit));
    let gone = changes(json!([{"delete_department": {"name": "ops"}}]));
    let revision = revision(&world);
    world.send(ShardId::CATALOGUE, Command::Directory(DirectoryCommand::Change { revision, changes: gone }));
    world.run();
    let defined = |event: &&Event| matches!(event, Event::Job(tidemill_model::JobEvent::Defined { .. }));
    let events = world.events();
    assert_eq!(events.iter().filter(defined).count(), 300);
    assert!(!events.iter().any(|event| matches!(event, Event::Directory(_))));
    let told = refusals(&mut world, [json!([{"delete_department": {"name": "ops"}}])]);
    assert!(told.contains("290 more"), "{told}");
}

/// A key that comes to a refusal is on record, within bounds.
#[test]
fn refused_calls_are_on_record_within_bounds() {
    let refusal = |app: &str, count: u32| -> Refusal {
        serde_json::from_value(json!({
            "app": app, "person": "ann", "call": "POST /api/jobs/7/run", "address": "127.0.0.1", "reason": "forbidden",
            "count": count, "first_at": "2026-07-01T10:00:00.000Z", "last_at": "2026-07-01T10:00:30.000Z",
        }))
        .unwrap()
    };
    let mut world = world();
    let report = |world: &mut World, refusals: Vec<Refusal>| {
        world.ask(ShardId::CATALOGUE, Command::Access(AccessCommand::ReportRefusals { refusals }))
    };
    let late = Refusal { first_at: "2026-07-01T10:01:00.000Z".parse().unwrap(), ..refusal("a", 1) };
    let long = Refusal { call: "x".repeat(801), ..refusal("a", 1) };
    let mut told = String::new();
    for refusals in [
        vec![],
        vec![refusal("a", 1); 101],
        vec![refusal("a", 1), refusal("b", 0)],
        vec![late],
        vec![long],
        vec![refusal(&"x".repeat(257), 1)],
    ] {
        told += &rejection(&report(&mut world, refusals));
        told += "\n";
    }
    expect![[r#"
        invalid: refusals: "0": must be 1 to 100
        invalid: refusals: "101": at most 100 refusals
        invalid: refusals[1].count: "0": must be at least 1
        invalid: refusals[0].last_at: "2026-07-01T10:00:30.000Z": must not be before `first_at`
        invalid: refusals[0].call: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": must be at most 800 bytes
        invalid: refusals[0].app: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": must be at most 256 bytes
    "#]].assert_eq(&told);
    let before = world.partition.catalogue().cloned();
    world.events();
    assert_eq!(report(&mut world, vec![refusal("a", 3), refusal("", 1)]), Outcome::Answered(Answer::Done));
    let events = world.events();
    let on_record =
        [refusal("a", 3), refusal("", 1)].map(|refusal| Event::from(AccessEvent::Refused { refusal }));
    assert_eq!(events, on_record);
    assert!(world.partition.catalogue().cloned() == before, "the catalogue keeps something of them");
}

/// Who is where, by the events alone: nothing is named that is not there.
#[derive(Default)]
struct Seen {
    people: BTreeMap<String, Person>,
    departments: BTreeMap<String, Value>,
}

impl Seen {
    fn take(&mut self, event: &DirectoryEvent) {
        match event {
            DirectoryEvent::DepartmentDefined { department } => {
                let value = serde_json::to_value(department).unwrap();
                self.departments.insert(department.name.to_string(), value);
            }
            DirectoryEvent::DepartmentDeleted { name } => drop(self.departments.remove(name.as_str())),
            DirectoryEvent::PersonDefined { person } => {
                self.people.insert(person.name.to_string(), person.as_ref().clone());
            }
            DirectoryEvent::PersonDeleted { name } => drop(self.people.remove(name.as_str())),
        }
    }

    /// Whether somebody serves: is enabled, or followed by somebody who is.
    fn serves(&self, name: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = Some(name.to_owned());
        while let Some(name) = next.filter(|name| seen.insert(name.clone())) {
            let Some(person) = self.people.get(&name) else { return false };
            if person.enabled {
                return true;
            }
            next = person.successor.as_ref().map(ToString::to_string);
        }
        false
    }

    fn is_sound(&self, owners: &[&str]) -> bool {
        let fits = |person: &Person| {
            let mut departments = person.departments.iter();
            departments.all(|name| self.departments.contains_key(name.as_str()))
                && (person.successor.is_none() || !person.enabled && self.serves(person.name.as_str()))
        };
        let turns =
            self.departments.values().filter_map(|department| department["on_call"]["turns"].as_array());
        let mut on_call = turns.flatten().flat_map(|turn| turn.as_array().unwrap());
        let owns = |owner: &&str| self.departments.contains_key(*owner) || self.serves(owner);
        self.people.values().all(fits)
            && on_call.all(|name| self.serves(name.as_str().unwrap()))
            && owners.iter().all(owns)
            && self.people.keys().all(|name| !self.departments.contains_key(name))
            && self.departments.values().filter(|department| department["for_system"] == true).count() <= 1
    }
}

const NAMES: [&str; 5] = ["ada", "bob", "cleo", "dan", "eve"];
const DEPARTMENTS: [&str; 3] = ["data", "web", "eve"];

fn some_change() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(NAMES.to_vec());
    let of = || prop::sample::select(DEPARTMENTS.to_vec());
    let person_of =
        (name(), prop::option::of(of()), prop::option::of(name())).prop_map(|(name, of, successor)| {
            let departments: Vec<&str> = of.into_iter().collect();
            person(
                name,
                json!({"departments": departments, "enabled": successor.is_none(), "successor": successor}),
            )
        });
    let leaves = name().prop_map(|name| person(name, json!({"enabled": false})));
    let department_of = (of(), prop::collection::btree_set(name(), 0..3), any::<bool>()).prop_map(
        |(name, people, for_system)| {
            let on_call = if people.is_empty() { Value::Null } else { rota(json!([people])) };
            department(name, json!({"on_call": on_call, "for_system": for_system}))
        },
    );
    proptest::prop_oneof![
        4 => person_of,
        1 => leaves,
        3 => department_of,
        1 => name().prop_map(|name| json!({"delete_person": {"name": name}})),
        1 => of().prop_map(|name| json!({"delete_department": {"name": name}})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever is asked for, in whatever order, the directory names nobody who is not there, the indexes are those that its
    /// fold makes, and a snapshot of it is it.
    #[test]
    fn the_directory_stays_sound(
        steps in prop::collection::vec((prop::collection::vec(some_change(), 1..4), prop::option::of((0..3u8, prop::sample::select(NAMES.to_vec())))), 1..40),
    ) {
        let (mut world, mut seen) = (world(), Seen::default());
        let mut owners: BTreeMap<u8, &str> = BTreeMap::new();
        for (written, owned) in steps {
            world.events();
            change(&mut world, json!(written));
            let is_looked_up = !seen.people.is_empty() || !seen.departments.is_empty();
            for event in world.events() {
                if let Event::Directory(event) = &event {
                    seen.take(event);
                }
            }
            if let Some((number, owner)) = owned.filter(|_| is_looked_up) {
                let outcome = world.apply(vec![job(&format!("j{number}"), json!({"owner": owner}))]);
                let is_known = seen.departments.contains_key(owner) || seen.people.get(owner).is_some_and(|it| it.enabled);
                let is_empty = seen.people.is_empty() && seen.departments.is_empty();
                let is_so = owners.get(&number) == Some(&owner);
                prop_assert_eq!(!matches!(outcome, Outcome::Refused(_)), is_known || is_empty || is_so, "{}", owner);
                if is_known {
                    owners.insert(number, owner);
                } else if !is_so && is_empty {
                    // A free text: nobody looks after it.
                    return Ok(());
                }
            }
            prop_assert!(seen.is_sound(&owners.values().copied().collect::<Vec<_>>()));
        }
        prop_assert!(world.partition == world.folded());
        let bytes = world.partition.to_bytes();
        prop_assert!(Partition::from_bytes(&bytes).unwrap() == world.partition);
    }
}
