//! `apply` of more than one decision can hold, what it would change, and files without a server.

use crate::kit::{Script, World, at, every, group, job, rejection};
use expect_test::expect;
use serde_json::json;
use tidemill_engine::check_jobs;
use tidemill_model::{
    Answer, Command, CommandRecord, JobCommand, JobSpec, LiveAnswer, LiveQuery, Outcome, Rejection,
    RequestId, ShardId,
};

fn id(name: &str) -> RequestId {
    RequestId::new(name)
}

fn stage(apply: &str, part: u32, jobs: Vec<JobSpec>) -> Command {
    Command::Job(JobCommand::Stage { apply: id(apply), part, jobs })
}

fn commit(apply: &str, parts: u32) -> Command {
    Command::Job(JobCommand::Commit {
        apply: id(apply),
        parts,
        prune: Vec::new(),
        cancel: false,
        orphan_children: false,
        if_revision: None,
    })
}

fn pruning(apply: &str, parts: u32, cancel: bool) -> Command {
    let prune = vec![group("g")];
    Command::Job(JobCommand::Commit {
        apply: id(apply),
        parts,
        prune,
        cancel,
        orphan_children: false,
        if_revision: None,
    })
}

fn ask(world: &mut World, command: Command) -> Outcome {
    world.ask(ShardId::CATALOGUE, command)
}

fn done(world: &mut World, command: Command) {
    let outcome = ask(world, command);
    assert_eq!(outcome, Outcome::Answered(Answer::Done), "{}", rejection(&outcome));
}

/// So many jobs, each but the first the child of the one before.
fn line(count: usize) -> Vec<JobSpec> {
    let parents = |n: usize| if n == 0 { json!([]) } else { json!([format!("j{}", n - 1)]) };
    (0..count).map(|n| job(&format!("j{n}"), json!({"parents": parents(n)}))).collect()
}

fn stage_all(world: &mut World, apply: &str, jobs: &[JobSpec]) -> u32 {
    let parts = jobs.chunks(400);
    for (part, jobs) in parts.clone().enumerate() {
        done(world, stage(apply, part as u32, jobs.to_vec()));
    }
    parts.len() as u32
}

fn defined(world: &World) -> usize {
    let LiveAnswer::Planned(plan) = plan(world, Vec::new(), &["g"]) else { panic!() };
    plan.changes.len()
}

fn plan(world: &World, jobs: Vec<JobSpec>, prune: &[&str]) -> LiveAnswer {
    let prune = prune.iter().map(|name| group(name)).collect();
    world
        .partition
        .answer(ShardId::CATALOGUE, &LiveQuery::PlanApply { jobs, prune, by: None, orphan_children: false })
}

/// JOB-5: what is staged has no effect; committed, all of it has, jobs, changes and deletions.
#[test]
fn staged_jobs_are_applied_by_their_commit() {
    let mut world = World::new();
    world.define(vec![job("a", json!({})), job("old", json!({}))]);
    done(&mut world, stage("one", 1, vec![job("c", json!({"parents": ["b"]}))]));
    done(&mut world, stage("one", 0, vec![job("a", json!({"owner": "eve"})), job("b", json!({}))]));
    done(&mut world, pruning("one", 2, false));
    expect![[r#"
        staged part 1, 1 jobs
        staged part 0, 2 jobs
        asked 1: unfinished of old
        told 1: 
        apply committed, deletes 1
        decided 1: done
        job defined a v2
        job defined b v1
        job defined c v1
        job deleted old
        apply finished
        job received a v2, next never
        job received b v1, next never
        job received c v1, next never
        job removed old
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.partition, world.folded());
    let outcome = ask(&mut world, commit("one", 2));
    assert_eq!(rejection(&outcome), "unknown: there is no staging one");
}

/// JOB-5, C7: after every record of a large apply a restart finds the same state, its sender hears at the end, and
/// meanwhile no other change of definitions is accepted.
#[test]
fn a_committed_apply_is_carried_out_to_its_end() {
    let mut world = World::new();
    let jobs = line(1_500);
    let parts = stage_all(&mut world, "big", &jobs);
    assert_eq!(defined(&world), 0, "nothing staged has an effect");
    let record = |request: &str, command| CommandRecord {
        shard: ShardId::CATALOGUE,
        request: Some(id(request)),
        reply_to: Some(tidemill_model::InstanceId::new("tester")),
        actor: Default::default(),
        command,
    };
    let replies = |world: &World, request: &str| -> Vec<String> {
        let of = |effect: &tidemill_engine::Effect| match effect {
            tidemill_engine::Effect::Reply { reply, .. } if reply.request == id(request) => {
                Some(rejection(&reply.outcome))
            }
            _ => None,
        };
        world.outside.iter().filter_map(of).collect()
    };
    world.send_record(record("commit", commit("big", parts)));
    world.step(1);
    assert!(matches!(plan(&world, Vec::new(), &[]), LiveAnswer::Refused(Rejection::ApplyRunning { .. })));
    let apply = || {
        Command::Job(JobCommand::Apply {
            jobs: vec![job("x", json!({}))],
            prune: Vec::new(),
            cancel: false,
            orphan_children: false,
        })
    };
    world.send_record(record("other", apply()));
    assert_eq!(replies(&world, "commit"), [""; 0], "it is not done yet");
    let mut steps = 0;
    while world.step(usize::MAX) {
        steps += 1;
        if replies(&world, "commit").is_empty() {
            assert_eq!(world.partition, world.folded(), "after step {steps}");
        }
    }
    assert!(steps > 3, "{steps}");
    assert_eq!(replies(&world, "commit").len(), 1);
    let refused = replies(&world, "other");
    assert_eq!(refused, ["apply_running: apply big is being carried out; try again when it is done"]);
    assert_eq!(defined(&world), 1_500);
    assert_eq!(world.partition, world.folded());
    // Asked again under the same id, it is the same answer.
    let outcome = world.ask_as(ShardId::CATALOGUE, commit("big", parts), id("commit"));
    assert_eq!(outcome, Outcome::Answered(Answer::Done));
    assert!(matches!(ask(&mut world, apply()), Outcome::Answered(Answer::Applied { .. })));
}

/// JOB-6, C7: a cycle through thousands of jobs is named by its path; a refused commit changes nothing.
#[test]
fn a_refused_commit_changes_nothing() {
    let mut world = World::new();
    world.define(vec![job("kept", json!({}))]);
    let mut jobs = line(900);
    jobs[850] = job("j850", json!({"parents": ["j849", "j852"]}));
    let parts = stage_all(&mut world, "round", &jobs);
    done(&mut world, stage("hole", 1, line(1)));
    done(&mut world, stage("fine", 0, line(1)));
    done(&mut world, stage("bad", 0, vec![job("a", json!({"retries": 101, "parents": ["nobody"]}))]));
    let before = world.partition.catalogue().cloned();
    let old = Command::Job(JobCommand::Commit {
        apply: id("fine"),
        parts: 1,
        prune: Vec::new(),
        cancel: false,
        orphan_children: false,
        if_revision: Some(0),
    });
    let told: Vec<String> =
        [commit("round", parts), commit("hole", 2), commit("bad", 1), commit("none", 1), old]
            .into_iter()
            .map(|command| rejection(&ask(&mut world, command)) + "\n")
            .collect();
    expect![[r#"
        cycle: dependency cycle: g/j850 → g/j852 → g/j851 → g/j850
        invalid: parts: "2": must be what was staged, 1 parts numbered from 0
        invalid: jobs[0].retries: "101": must be 0 to 100
        unknown: there is no staging none
        revision_changed: definitions have changed meanwhile: revision 1 is not 0
    "#]]
    .assert_eq(&told.concat());
    assert_eq!(before.as_ref(), world.partition.catalogue());
}

/// What is staged is bounded in number and time.
#[test]
fn stagings_that_nobody_commits_are_dropped() {
    let mut world = World::new();
    for name in ["a", "b", "c", "d"] {
        world.pass_ms(1_000);
        done(&mut world, stage(name, 0, line(1)));
    }
    world.events();
    done(&mut world, stage("e", 0, line(1)));
    done(&mut world, stage("e", 0, line(1)));
    expect![[r#"
        staging dropped
        staged part 0, 1 jobs
    "#]]
    .assert_eq(&world.told());
    assert_eq!(rejection(&ask(&mut world, commit("a", 1))), "unknown: there is no staging a");
    assert_eq!(
        rejection(&ask(&mut world, stage("e", 0, line(2)))),
        "already_there: part 0 of e is already there"
    );
    assert_eq!(rejection(&ask(&mut world, stage("e", 1, line(401)))).split(':').next(), Some("invalid"));
    assert_eq!(world.partition.next_timer(), Some(at("2026-07-01T10:20:02.000Z")));
    world.pass_minutes(9);
    assert_eq!(world.told(), "");
    world.pass_minutes(2);
    assert_eq!(world.told(), "staging dropped\n".repeat(4));
    assert_eq!(world.partition.next_timer(), None);
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: a staged apply deletes nothing of which something is unfinished, unless told to cancel it.
#[test]
fn a_staged_apply_asks_before_it_deletes() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("b", json!({}))]);
    world.worker("w", 1, Script::Run);
    world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    done(&mut world, stage("one", 0, vec![job("c", json!({}))]));
    let refused = rejection(&ask(&mut world, pruning("one", 1, false)));
    assert!(refused.starts_with("job_in_use: job g/a cannot be deleted: it has unfinished"), "{refused}");
    assert_eq!(defined(&world), 2);
    done(&mut world, pruning("one", 1, true));
    assert_eq!(defined(&world), 1);
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// JOB-5: the plan says what an apply does, field by field, and does nothing.
#[test]
fn a_plan_says_what_apply_would_do() {
    let mut world = World::new();
    world.define(vec![job("a", json!({})), job("b", json!({"parents": ["a"]})), job("gone", json!({}))]);
    let request = || {
        vec![
            job("a", json!({})),
            job(
                "b",
                json!({"parents": [{"job": "new", "mapping": "latest"}], "owner": "eve", "enabled": false}),
            ),
            job("new", json!({})),
        ]
    };
    let before = world.partition.clone();
    let LiveAnswer::Planned(plan_of) = plan(&world, request(), &["g"]) else { panic!() };
    assert_eq!(before, world.partition);
    let told: Vec<String> = plan_of
        .changes
        .iter()
        .map(|planned| {
            let diff = planned.diff.iter().map(|f| format!("  {}: {:?} → {:?}\n", f.field, f.old, f.new));
            format!("{:?} {}\n{}", planned.change.change, planned.change.name, diff.collect::<String>())
        })
        .collect();
    expect![[r#"
        Unchanged g/a
        Changed g/b
          owner: "" → "eve"
          parents: "g/a (same)" → "g/new (latest)"
          enabled: "true" → "false"
        Added g/new
        Deleted g/gone
    "#]]
    .assert_eq(&told.concat());
    let Outcome::Answered(Answer::Applied { changes, .. }) = world.apply_pruning(request(), &["g"]) else {
        panic!()
    };
    let planned: Vec<_> = plan_of.changes.into_iter().map(|planned| planned.change).collect();
    assert_eq!(changes, planned, "the decision does what the plan said");
    let LiveAnswer::Planned(again) = plan(&world, request(), &["g"]) else { panic!() };
    assert!(again.revision > plan_of.revision && again.changes.iter().all(|planned| planned.diff.is_empty()));
    let LiveAnswer::Refused(refused) = plan(&world, vec![job("a", json!({"parents": ["b"]}))], &["g"]) else {
        panic!()
    };
    assert_eq!(refused.code(), "invalid", "{refused}");
}

/// JOB-5, JOB-6: files are checked without a server; what hangs on jobs that are not in them is told and let be.
#[test]
fn files_are_checked_by_themselves() {
    let now = at(crate::kit::START);
    let jobs = vec![
        job("a", json!({"group": "h", "schedule": every("day"), "parents": ["elsewhere"]})),
        job("b", json!({"parents": ["far", "c"]})),
        job("c", json!({"schedule": every("hour")})),
        job("d", json!({"schedule": every("day"), "parents": [{"job": "b", "mapping": {"offset": 2}}]})),
    ];
    expect![[r#"
        jobs[0].parents[0]: h/elsewhere is not in these files
        jobs[1].parents[0]: g/far is not in these files"#]]
    .assert_eq(&check_jobs(&jobs, now).unwrap().join("\n"));
    let refused = |jobs: Vec<JobSpec>| check_jobs(&jobs, now).unwrap_err().to_string();
    let mut round = line(3);
    round[0] = job("j0", json!({"parents": ["j2"]}));
    assert_eq!(refused(round), "dependency cycle: g/j0 → g/j2 → g/j1 → g/j0");
    let told = [
        job("a", json!({"schedule": {"cron": "61 * * * * ?", "zone": "UTC"}})),
        job("a", json!({"schedule": {"period": "day", "zone": "Mars/Olympus"}})),
        job("a", json!({"type": "shell", "command": "echo ${yyyy"})),
    ]
    .map(|job| refused(vec![job]).split(": ").next().unwrap().to_owned());
    assert_eq!(told, ["jobs[0].schedule.cron", "jobs[0].schedule.zone", "jobs[0].command"]);
}

/// JOB-5: what was planned on one revision is not carried out on another, also where shards were asked in between.
#[test]
fn a_commit_that_waits_for_answers_is_of_the_revision_that_it_names() {
    let mut world = World::new();
    world.define(vec![job("a", json!({})), job("old", json!({}))]);
    done(&mut world, stage("one", 0, vec![job("a", json!({"owner": "planned"}))]));
    let LiveAnswer::Planned(planned) = plan(&world, Vec::new(), &[]) else { panic!() };
    let (prune, if_revision) = (vec![group("g")], Some(planned.revision));
    world.held = Some(Vec::new());
    let commit = Command::Job(JobCommand::Commit {
        apply: id("one"),
        parts: 1,
        prune,
        cancel: false,
        orphan_children: false,
        if_revision,
    });
    world.send_record(CommandRecord {
        shard: ShardId::CATALOGUE,
        request: Some(id("commit")),
        reply_to: None,
        actor: Default::default(),
        command: commit.clone(),
    });
    world.run();
    world.apply(vec![job("a", json!({"owner": "meanwhile"}))]);
    world.held = None;
    world.say_again();
    world.run();
    let outcome = world.ask_as(ShardId::CATALOGUE, commit, id("commit"));
    assert!(
        matches!(outcome, Outcome::Refused(Rejection::RevisionChanged { .. })),
        "{}",
        rejection(&outcome)
    );
    assert_eq!(world.partition, world.folded());
}
