//! API-5: which parents a definition may name: those that whoever writes it sees, or may depend on. Every other one is answered as
//! one that is not there.

use expect_test::expect;
use serde_json::{Value, json};
use tidemill_model::{
    Answer, Command, CredentialCommand, Event, GroupSettings, JobCommand, JobEvent, JobId, JobSpec,
    LiveAnswer, LiveQuery, Outcome, RequestId, ShardId,
};

use crate::departments::{apply, changed, done, key, owned};
use crate::kit::{World, job, rejection};

/// Everything is in group `g` but what finance has in `h`. Department `bi` has `own`; `finance` has `report` and, of business type
/// `month-end`, `close`, and `secret`. Of bi are ann, dee, who may have jobs depend on `report`, and ed, who may on what is of month-end; all of
/// department `ops`, to which ola belongs, may on group `h`. Only `adm` sees everything.
struct Site {
    world: World,
    jobs: Vec<JobId>,
    revision: u64,
}

const WHO: [(&str, Option<&str>); 12] = [
    ("root", None),
    ("root", Some("adm")),
    ("root", Some("ann")),
    ("root", Some("dee")),
    ("root", Some("ed")),
    ("root", Some("ola")),
    ("of-bi", None),
    ("of-ops", None),
    ("of-g", None),
    ("of-g-depends", None),
    ("of-g-depends", Some("ann")),
    ("reads", Some("ola")),
];

fn depend_on(on: Value) -> Value {
    json!([{"on": on, "may": ["depend"]}])
}

fn site() -> Site {
    let mut world = World::new();
    world.raise();
    world.define_group("h", GroupSettings::default());
    let role = json!({"role": "super_administrator"});
    assert_eq!(world.ask_catalogue(("root", None), key("root", role)), done());
    let people = json!([
        {"department": {"name": "bi"}},
        {"department": {"name": "finance"}},
        {"department": {"name": "ops", "grants": depend_on(json!({"group": "h"}))}},
        {"person": {"name": "adm", "role": "administrator"}},
        {"person": {"name": "ann", "departments": ["bi"]}},
        {"person": {"name": "dee", "departments": ["bi"], "grants": depend_on(json!({"job": "h/report"}))}},
        {"person": {"name": "ed", "departments": ["bi"], "grants": depend_on(json!({"business_type": "month-end"}))}},
        {"person": {"name": "ola", "departments": ["bi", "ops"]}},
    ]);
    changed(&mut world, 0, people);
    for (app, more) in [
        ("of-bi", json!({"department": "bi"})),
        ("of-ops", json!({"department": "ops"})),
        ("of-g", json!({"groups": ["g"]})),
        ("of-g-depends", json!({"groups": ["g"], "may": ["depend"]})),
        ("reads", json!({"role": "viewer", "may": ["edit"]})),
    ] {
        assert_eq!(world.ask_catalogue(("root", None), key(app, more)), done());
    }
    let of_finance = |name: &str, more: Value| {
        let mut fields = json!({"group": "h", "type": "anchor", "owner": "finance"});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job(name, fields)
    };
    let jobs = vec![
        owned("own", "bi"),
        of_finance("report", json!({})),
        of_finance("close", json!({"business_type": "month-end"})),
        of_finance("secret", json!({"parents": ["close"]})),
    ];
    let command = JobCommand::Apply { jobs, prune: Vec::new(), cancel: false, orphan_children: false };
    let Outcome::Answered(Answer::Applied { changes, .. }) =
        world.ask_catalogue(("root", None), Command::Job(command))
    else {
        panic!("refused")
    };
    Site { world, jobs: changes.iter().map(|change| change.job).collect(), revision: 8 }
}

/// A job of group `g`, of whom the caller may define jobs for.
fn child(who: (&str, Option<&str>), parents: &[&str]) -> JobSpec {
    let owner = if who.0 == "of-ops" { "ops" } else { "bi" };
    job("child", json!({"group": "g", "type": "anchor", "owner": owner, "parents": parents}))
}

/// What is said of a job with this parent, whatever it is called.
fn told(outcome: &Outcome, parent: &str) -> String {
    match outcome {
        Outcome::Answered(_) => "accepted".to_owned(),
        refused => rejection(refused).replace(parent, "PARENT"),
    }
}

/// All ways to give a job parents: at once, in parts, by id, and to plan it.
fn all_ways(who: (&str, Option<&str>), parent: &str, id: JobId) -> [String; 4] {
    let spec = child(who, &[parent]);
    let mut world = site().world;
    let plan = LiveQuery::PlanApply {
        jobs: vec![spec.clone()],
        prune: Vec::new(),
        by: Some(tidemill_model::Actor { app: who.0.into(), user: who.1.map(Into::into) }),
        orphan_children: false,
    };
    let planned = match world.partition.answer(ShardId::CATALOGUE, &plan) {
        LiveAnswer::Refused(refused) => told(&Outcome::Refused(refused), parent),
        LiveAnswer::Planned(_) => "accepted".to_owned(),
        other => panic!("{other:?}"),
    };
    let at_once = told(&world.ask_catalogue(who, apply(spec.clone())), parent);
    let mut world = site().world;
    let name = RequestId::new("large");
    let stage = JobCommand::Stage { apply: name.clone(), part: 0, jobs: vec![spec] };
    assert_eq!(world.ask_catalogue(who, Command::Job(stage)), done());
    let commit = JobCommand::Commit {
        apply: name,
        parts: 1,
        prune: Vec::new(),
        cancel: false,
        orphan_children: false,
        if_revision: None,
    };
    let in_parts = told(&world.ask_catalogue(who, Command::Job(commit)), parent);
    let unnamed = JobCommand::Define { job: Box::new(child(who, &[])), parents: vec![id] };
    let by_id = told(&site().world.ask_catalogue(who, Command::Job(unnamed)), &id.to_string());
    [at_once, in_parts, planned, by_id]
}

/// API-5: who may name which parent; and a foreign one is refused as one that is not there, byte by byte but for its name.
#[test]
fn parents_are_those_one_sees_or_may_depend_on() {
    let ids = site().jobs;
    let names = ["g/own", "h/report", "h/close", "h/secret"];
    let mut table = String::new();
    for who in WHO {
        let missing = all_ways(who, "h/nothing", JobId(77 << 12));
        let words = names.iter().zip(&ids).map(|(name, id)| {
            let ways = all_ways(who, name, *id);
            if ways.iter().all(|way| way == "accepted") {
                return "x";
            }
            assert_eq!(ways, missing, "{who:?} {name}");
            "-"
        });
        let words: Vec<&str> = words.collect();
        table += &format!("{} {}: {}\n", who.0, who.1.unwrap_or("-"), words.join(" "));
    }
    expect![[r#"
        root -: x x x x
        root adm: x x x x
        root ann: x - - -
        root dee: x x - -
        root ed: x - x -
        root ola: x x x x
        of-bi -: x - - -
        of-ops -: - x x x
        of-g -: x - - -
        of-g-depends -: x x x x
        of-g-depends ann: x - - -
        reads ola: x - - -
    "#]]
    .assert_eq(&table);
    expect![[r#"
        invalid: jobs[0].parents[0]: "PARENT": there is no job of that name
        invalid: jobs[0].parents[0]: "PARENT": there is no job of that name
        invalid: jobs[0].parents[0]: "PARENT": there is no job of that name
        unknown: there is no job PARENT"#]]
    .assert_eq(&all_ways(("root", Some("ann")), "h/secret", ids[3]).join("\n"));
}

/// API-5: also beside other mistakes a foreign parent looks like a missing one.
#[test]
fn other_mistakes_do_not_tell_foreign_parents_apart() {
    let ann = ("root", Some("ann"));
    for more in [
        json!({"calendar": {"name": "none"}}),
        json!({"pools": [{"name": "none"}]}),
        json!({"parameters": {"rows": "${values.PARENT.rows}"}}),
        json!({"owner": "finance"}),
        json!({"parents": ["PARENT", "PARENT"]}),
        json!({"parents": ["nothing", "PARENT"]}),
        json!({"parents": ["PARENT", "own"], "name": "own"}),
        json!({"depends_on_past": true}),
    ] {
        let of = |parent: &str| {
            let mut fields = json!({"group": "g", "type": "anchor", "owner": "bi", "parents": ["PARENT"]});
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let fields: Value = serde_json::from_str(&fields.to_string().replace("PARENT", parent)).unwrap();
            told(&site().world.ask_catalogue(ann, apply(job("child", fields))), parent)
        };
        let foreign = of("h/secret");
        assert_ne!(foreign, "accepted", "{more}");
        assert_eq!(foreign, of("h/nothing"), "{more}");
    }
    // Nor does the name of a foreign job tell which parents that has.
    let taken = |parent: &str| {
        let spec = job("secret", json!({"group": "h", "type": "anchor", "owner": "bi", "parents": [parent]}));
        told(&site().world.ask_catalogue(ann, apply(spec)), parent)
    };
    assert_eq!(taken("close"), taken("nothing"));
}

/// API-5: a parent that the job has stays, though its grant is lost; it is gone once it was taken out.
#[test]
fn parents_outlast_their_grants() {
    let Site { mut world, revision, .. } = site();
    let dee = ("root", Some("dee"));
    assert_eq!(told(&world.ask_catalogue(dee, apply(child(dee, &["h/report"]))), "h/report"), "accepted");
    changed(&mut world, revision, json!([{"person": {"name": "dee", "departments": ["bi"]}}]));
    let edited = |world: &mut World, parents: &[&str], comment: &str| {
        let spec = JobSpec { comment: comment.to_owned(), ..child(dee, parents) };
        told(&world.ask_catalogue(dee, apply(spec)), "h/report")
    };
    assert_eq!(edited(&mut world, &["h/report"], "kept"), "accepted");
    // Whoever sees the job may edit it, too, and one that has another mapping is the same parent.
    assert_eq!(edited(&mut world, &["h/report", "own"], "with another"), "accepted");
    // What is shown of the parent while it is planned to take it out.
    let (jobs, prune) = (vec![child(dee, &["own"])], Vec::new());
    let by = Some(tidemill_model::Actor { app: dee.0.into(), user: dee.1.map(Into::into) });
    let plan = LiveQuery::PlanApply { jobs, prune, by, orphan_children: false };
    let LiveAnswer::Planned(plan) = world.partition.answer(ShardId::CATALOGUE, &plan) else {
        panic!("refused")
    };
    let parents = plan.changes[0].diff.iter().find(|diff| diff.field == "parents").unwrap();
    assert_eq!(
        (&*parents.old, &*parents.new),
        ("1 job of 1 other group (same), g/own (same)", "g/own (same)")
    );
    assert_eq!(edited(&mut world, &["own"], "without"), "accepted");
    let refused = edited(&mut world, &["h/report"], "again");
    assert!(refused.ends_with("there is no job of that name"), "{refused}");
    let has_two = |event: &Event| matches!(event, Event::Job(JobEvent::Defined { definition, .. }) if definition.parents.len() == 2);
    assert_eq!(world.events().iter().filter(|event| has_two(event)).count(), 1);
    assert!(world.partition == world.folded(), "the fold differs from the draft");
}

/// API-5: who may depend on a job only does not read what it says of itself.
#[test]
fn values_of_a_parent_are_for_who_sees_it() {
    let reads = |name: &str, parent: &str| {
        let parameters = json!({"rows": format!("${{values.{parent}.rows}}")});
        let fields = json!({"group": "g", "type": "anchor", "owner": "bi", "parents": [parent], "parameters": parameters});
        apply(job(name, fields))
    };
    let Site { mut world, .. } = site();
    let dee = ("root", Some("dee"));
    assert_eq!(told(&world.ask_catalogue(dee, reads("child", "g/own")), "h/report"), "accepted");
    expect![[r#"invalid: jobs[0].parameters.rows: "values.PARENT.rows": is a value of a job that the caller may depend on and not see; ask who owns it for `view`, or leave it out"#]].assert_eq(&told(&world.ask_catalogue(dee, reads("child", "h/report")), "h/report"));
    // What reads them already goes on.
    assert_eq!(
        told(&world.ask_catalogue(("root", None), reads("reader", "h/report")), "h/report"),
        "accepted"
    );
    let Command::Job(JobCommand::Apply { mut jobs, .. }) = reads("reader", "h/report") else { panic!() };
    jobs[0].comment = "changed".to_owned();
    assert_eq!(told(&world.ask_catalogue(dee, apply(jobs.remove(0))), "h/report"), "accepted");
}

/// API-5: a token depends on what is granted to its person only where it may do that itself.
#[test]
fn tokens_depend_on_what_they_may() {
    for (may, expected) in
        [(vec!["edit"], "refused"), (vec!["edit", "depend"], "accepted"), (vec![], "accepted")]
    {
        let Site { mut world, .. } = site();
        let expires_at = world.wall.checked_add(jiff::SignedDuration::from_hours(12)).unwrap();
        let credential = |id: &str, kind: &str, may: &[&str]| json!({"id": id, "kind": kind, "person": "dee", "hash": "5".repeat(64), "expires_at": expires_at, "may": may});
        let (session, token) = ("aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb");
        for (credential, shown) in [
            (credential(session, "session", &[]), Value::Null),
            (credential(token, "token", &may), json!({"session": session})),
        ] {
            let issue: CredentialCommand =
                serde_json::from_value(json!({"issue": {"credential": credential, "shown": shown}})).unwrap();
            assert_eq!(world.ask_catalogue(("session", Some("dee")), Command::Credential(issue)), done());
        }
        let by = (&*format!("token:{token}"), Some("dee"));
        let outcome = told(&world.ask_catalogue(by, apply(child(by, &["h/report"]))), "h/report");
        let word = if outcome == "accepted" { "accepted" } else { "refused" };
        assert_eq!(word, expected, "{may:?}: {outcome}");
    }
}
