//! DSP-2: who may have a job run as which account: the application key that gives the job its form.

use crate::kit::{GROUP, Script, World, at, job, rejection};
use serde_json::{Value, json};
use tidemill_model::{
    Actor, Answer, BatchCommand, BatchEvent, Cascade, CatalogueCommand, Command, Event, GroupSettings,
    JobCommand, JobSpec, LiveAnswer, LiveQuery, Outcome, RequestId, RerunCommand, RerunDefinition,
    RerunEvent, RerunOnly, RerunOrder, RerunScope, RerunSpec, Role, ShardId, WorkMessage,
};

fn world() -> World {
    let accounts = serde_json::from_value(json!({"*": ["etl"]})).unwrap();
    World::with(
        "2026-07-01T10:10:00.000Z",
        GroupSettings { accounts: Some(accounts), ..GroupSettings::default() },
    )
}

fn runs_as(account: &str, more: Value) -> JobSpec {
    let mut written = json!({"type": "shell", "command": "true", "run_as": account});
    written.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job("a", written)
}

/// Asks as this application.
fn ask(world: &mut World, app: &str, command: Command) -> Outcome {
    world.ask_catalogue((app, None), command)
}

fn key(app: &str, role: Role, groups: &[&str], accounts: &[&str]) -> Command {
    Command::Catalogue(CatalogueCommand::DefineKey {
        app: app.to_owned(),
        hash: "0".repeat(64),
        role,
        groups: groups.iter().map(|name| crate::kit::group(name)).collect(),
        run_as: accounts.iter().map(|account| (*account).try_into().unwrap()).collect(),
        may: Default::default(),
        department: None,
        first_only: false,
    })
}

fn apply(jobs: Vec<JobSpec>) -> Command {
    Command::Job(JobCommand::Apply { jobs, prune: Vec::new(), cancel: false, orphan_children: false })
}

fn with_keys() -> World {
    let mut world = world();
    for key in [
        key("root", Role::SuperAdministrator, &[], &[]),
        key("etl-team", Role::User, &["g"], &["etl"]),
        key("other", Role::Administrator, &[], &["games"]),
    ] {
        assert_eq!(world.ask(ShardId::CATALOGUE, key), Outcome::Answered(Answer::Done));
    }
    world
}

/// What is written as owner gives no right to an account; the list of the key does, and a super-administrator has all.
#[test]
fn account_is_for_keys_that_have_it_whoever_the_owner_is() {
    let mut world = with_keys();
    let wanted = || apply(vec![runs_as("etl", json!({"owner": "etl-team"}))]);
    for app in ["other", "nobody-known", "operator"] {
        let refused = rejection(&ask(&mut world, app, wanted()));
        let wanted =
            format!("jobs[0].run_as: \"etl\": is none of the accounts that key {app} may have jobs run as");
        assert!(refused.contains(&wanted), "{refused}");
    }
    for app in ["etl-team", "root"] {
        assert!(matches!(ask(&mut world, app, wanted()), Outcome::Answered(Answer::Applied { .. })), "{app}");
    }
    let revoked = Command::Catalogue(CatalogueCommand::RevokeKey { app: "etl-team".to_owned() });
    world.ask(ShardId::CATALOGUE, revoked);
    let again = apply(vec![runs_as("etl", json!({"comment": "other"}))]);
    assert!(rejection(&ask(&mut world, "etl-team", again)).contains("key etl-team"));
    assert_eq!(world.partition, world.folded());
}

/// A job with an account is changed, renamed, moved and robbed of its account by keys that have that only. What leaves it
/// as it is, and what says when it runs, is for every key.
#[test]
fn job_with_an_account_is_changed_by_keys_that_have_it() {
    let mut world = with_keys();
    world.define_group("h", GroupSettings::default());
    let first = ask(&mut world, "etl-team", apply(vec![runs_as("etl", json!({}))]));
    let Outcome::Answered(Answer::Applied { changes, .. }) = first else { panic!("{first:?}") };
    let id = changes[0].job;
    let as_it_is = ask(&mut world, "other", apply(vec![runs_as("etl", json!({"enabled": false}))]));
    assert!(matches!(as_it_is, Outcome::Answered(Answer::Applied { .. })), "{as_it_is:?}");
    assert_eq!(
        ask(&mut world, "other", Command::Job(JobCommand::Switch { job: id, enabled: true })),
        Outcome::Answered(Answer::Done)
    );
    for command in [
        apply(vec![runs_as("etl", json!({"command": "id"}))]),
        apply(vec![runs_as("games", json!({}))]),
        apply(vec![job("a", json!({"type": "shell", "command": "true"}))]),
        apply(vec![job("b", json!({"type": "shell", "command": "true", "previous_name": "a"}))]),
        Command::Job(JobCommand::Rename { job: id, name: "b".try_into().unwrap() }),
        Command::Job(JobCommand::Move { job: id, to: crate::kit::group("h") }),
    ] {
        let told = format!("{command:?}");
        let refused = rejection(&ask(&mut world, "other", command));
        assert!(refused.contains("run_as: \"etl\""), "{told}: {refused}");
    }
    let renamed = ask(
        &mut world,
        "etl-team",
        Command::Job(JobCommand::Rename { job: id, name: "b".try_into().unwrap() }),
    );
    assert_eq!(renamed, Outcome::Answered(Answer::Done));
}

/// JOB-5: a staged request is judged by the key that commits it, whoever staged it; and a plan says the same before.
#[test]
fn staged_request_is_judged_by_the_key_that_commits_it() {
    let mut world = with_keys();
    let name = RequestId::new("s");
    let stage = Command::Job(JobCommand::Stage {
        apply: name.clone(),
        part: 0,
        jobs: vec![runs_as("etl", json!({}))],
    });
    assert_eq!(ask(&mut world, "etl-team", stage), Outcome::Answered(Answer::Done));
    let commit = Command::Job(JobCommand::Commit {
        apply: name,
        parts: 1,
        prune: Vec::new(),
        cancel: false,
        orphan_children: false,
        if_revision: None,
    });
    assert!(rejection(&ask(&mut world, "other", commit.clone())).contains("key other"));
    for (app, fits) in [("other", false), ("etl-team", true)] {
        let by = Some(Actor { app: app.into(), user: None });
        let plan = LiveQuery::PlanApply {
            jobs: vec![runs_as("etl", json!({}))],
            prune: Vec::new(),
            by,
            orphan_children: false,
        };
        let planned = world.partition.answer(ShardId::CATALOGUE, &plan);
        assert_eq!(matches!(planned, LiveAnswer::Planned(_)), fits, "{app}: {planned:?}");
    }
    assert_eq!(ask(&mut world, "etl-team", commit), Outcome::Answered(Answer::Done));
    let text = String::from_utf8(world.journal.concat()).unwrap();
    assert!(text.contains(r#""run_as_by":"etl-team""#));
    assert_eq!(world.partition, world.folded());
}

/// A job whose record names no key with its account is from before: nothing of it runs, whoever its owner is, until a key
/// with the account applies it.
#[test]
fn job_on_record_from_before_runs_once_a_key_vouches_for_it() {
    let mut world = with_keys();
    let written = || apply(vec![runs_as("etl", json!({"owner": "ann"}))]);
    let Outcome::Answered(Answer::Applied { changes, .. }) = ask(&mut world, "etl-team", written()) else {
        panic!("it is applied");
    };
    let before = |body: &Vec<u8>| {
        let text = String::from_utf8(body.clone()).unwrap();
        text.replace(r#","run_as_by":"etl-team""#, "").into_bytes()
    };
    world.journal = world.journal.iter().map(before).collect();
    world.partition = world.folded();
    world.worker("w", 4, Script::Succeed);
    world.events();
    let run = |world: &mut World, time| {
        let (job, logical_time) = (changes[0].job, Some(at(time)));
        let run = Command::Batch(BatchCommand::RunJob {
            job,
            logical_time,
            parameters: Default::default(),
            concurrent: true,
        });
        world.ask(GROUP, run);
        world.told()
    };
    let told = run(&mut world, "2026-07-01T08:00:00.000Z");
    assert!(told.contains("b1 finished failed") && !told.contains("assigned"), "{told}");
    assert!(
        String::from_utf8(world.journal.concat()).unwrap().contains("before accounts were bound to keys")
    );
    assert!(rejection(&ask(&mut world, "other", written())).contains("key other"));
    assert!(matches!(ask(&mut world, "etl-team", written()), Outcome::Answered(Answer::Applied { .. })));
    let told = run(&mut world, "2026-07-01T09:00:00.000Z");
    assert!(told.contains("b2 finished success"), "{told}");
}

/// API-5: a super-administrator's key is bound to no group, groups name no owners, and no key has the name of a part of
/// the program.
#[test]
fn keys_that_blur_rights_or_the_record_are_refused() {
    let mut world = with_keys();
    for (key, field) in [
        (key("boss", Role::SuperAdministrator, &["g"], &[]), "groups"),
        (key("operator", Role::User, &[], &[]), "app"),
        (key("attempt", Role::User, &[], &[]), "app"),
        (key("owner", Role::User, &[], &[]), "app"),
        (key("worker", Role::User, &[], &[]), "app"),
    ] {
        let refused = rejection(&world.ask(ShardId::CATALOGUE, key));
        assert!(refused.starts_with(&format!("invalid: {field}:")), "{refused}");
    }
    let accounts = serde_json::from_value(json!({"ann": ["etl"]})).unwrap();
    let settings = GroupSettings { accounts: Some(accounts), ..GroupSettings::default() };
    let worker_key = crate::kit::public_key();
    let group = Command::Catalogue(CatalogueCommand::DefineGroup {
        name: crate::kit::group("new"),
        worker_key,
        settings,
    });
    assert!(rejection(&world.ask(ShardId::CATALOGUE, group)).contains("names an owner"));
    let (name, worker_key) = (crate::kit::group("new"), "0".repeat(64));
    let group = Command::Catalogue(CatalogueCommand::DefineGroup {
        name,
        worker_key,
        settings: GroupSettings::default(),
    });
    assert!(rejection(&world.ask(ShardId::CATALOGUE, group)).starts_with("invalid: worker_key:"));
}

/// DSP-2, GEN-6: parameters that somebody gave while the job ran as nobody's account are not taken to an account: neither by
/// a plan, nor by a batch that still waits when the job gets one. Those that were given for the account are.
#[test]
fn parameters_stay_with_the_account_that_they_were_given_for() {
    let mut world = with_keys();
    let plain =
        || job("a", json!({"type": "shell", "command": "true", "schedule": crate::kit::every("day")}));
    let as_etl = || runs_as("etl", json!({"schedule": crate::kit::every("day")}));
    let first = ask(&mut world, "etl-team", apply(vec![plain()]));
    let Outcome::Answered(Answer::Applied { changes, .. }) = first else { panic!("{first:?}") };
    let id = changes[0].job;
    let run = |world: &mut World, time: &str| {
        let parameters = [("x".to_owned(), "; id".to_owned())].into();
        let run = Command::Batch(BatchCommand::RunJob {
            job: id,
            logical_time: Some(at(time)),
            parameters,
            concurrent: true,
        });
        let Outcome::Answered(Answer::Generated { batch, .. }) = world.ask(GROUP, run) else {
            panic!("runs")
        };
        batch
    };
    let killed = run(&mut world, "2026-06-01T00:00:00.000Z");
    world.ask(GROUP, Command::Batch(BatchCommand::Kill { batch: killed, reason: String::new() }));
    run(&mut world, "2026-06-02T00:00:00.000Z");
    assert!(matches!(ask(&mut world, "etl-team", apply(vec![as_etl()])), Outcome::Answered(_)));
    let own = run(&mut world, "2026-06-03T00:00:00.000Z");
    world.ask(GROUP, Command::Batch(BatchCommand::Kill { batch: own, reason: String::new() }));
    world.events();
    let plan = |world: &mut World, day: &str| {
        let request = RerunSpec {
            scope: RerunScope::Rerun { jobs: vec![id], cascade: Cascade::Job },
            from: at(day),
            to: at(day),
            reach: None,
            only: RerunOnly::All,
            order: RerunOrder::Oldest,
            concurrency: 1,
            definition: RerunDefinition::Today,
            reason: "late data".to_owned(),
            approve: true,
        };
        assert!(matches!(
            world.ask(ShardId::CATALOGUE, Command::Rerun(RerunCommand::Plan(Box::new(request)))),
            Outcome::Answered(_)
        ));
        let of = |event| match event {
            Event::Rerun(RerunEvent::RunSkipped { reason, .. }) => Some(format!("{reason:?}")),
            Event::Batch(BatchEvent::Generated { parameters, .. }) => Some(format!("{parameters:?}")),
            _ => None,
        };
        world.events().into_iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(plan(&mut world, "2026-06-01T00:00:00.000Z"), ["OtherAccount"]);
    assert_eq!(plan(&mut world, "2026-06-03T00:00:00.000Z"), [r#"{"x": "; id"}"#]);
    let worker = world.worker("w", 4, Script::Succeed);
    world.run();
    let heard = world.played(&worker).heard.iter();
    let mut started: Vec<_> = heard
        .filter_map(|message| match message {
            WorkMessage::Granted { spec, .. } => {
                Some((spec.logical_time.to_string(), spec.run_as.as_ref().map(ToString::to_string)))
            }
            _ => None,
        })
        .collect();
    started.sort();
    started.dedup();
    let etl = Some("etl".to_owned());
    assert_eq!(
        started,
        [("2026-06-02T00:00:00.000Z".to_owned(), None), ("2026-06-03T00:00:00.000Z".to_owned(), etl)]
    );
    assert_eq!(world.partition, world.folded());
}
