//! `apply`: what it changes, and what it refuses.

use crate::kit::{Script, World, at, every, job, rejection};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tidemill_model::{
    Answer, BatchCommand, CatalogueCommand, Command, GroupSettings, JobChangeKind, JobCommand, JobId,
    JobSpec, LiveAnswer, LiveQuery, Outcome, ShardId,
};

fn refused(world: &mut World, jobs: Vec<JobSpec>, expected: Expect) {
    let before = world.partition.catalogue().cloned();
    let outcome = world.apply(jobs);
    expected.assert_eq(&rejection(&outcome));
    assert!(matches!(outcome, Outcome::Refused(_)));
    assert_eq!(before.as_ref(), world.partition.catalogue(), "a refused apply changes nothing");
}

fn refuses(field: Value, expected: Expect) {
    refused(&mut World::new(), vec![job("a", field)], expected);
}

fn changes(outcome: &Outcome) -> String {
    let Outcome::Answered(Answer::Applied { changes, .. }) = outcome else {
        panic!("{}", rejection(outcome))
    };
    let line = |change: &tidemill_model::JobChange| {
        format!("{:?} {} v{} {}\n", change.change, change.name, change.version, change.fields.join(","))
    };
    changes.iter().map(line).collect()
}

/// JOB-5: added, changed, unchanged, switched and deleted, each named, each only once.
#[test]
fn apply_says_what_it_did_to_every_job() {
    let mut world = World::new();
    let old = ["a", "b", "c", "d"].map(|name| job(name, json!({})));
    assert_eq!(changes(&world.apply(old.to_vec())).lines().count(), 4);
    world.events();
    let outcome = world.apply_pruning(
        vec![
            job("a", json!({})),
            job("b", json!({"owner": "eve", "retries": 2})),
            job("c", json!({"enabled": false})),
            job("e", json!({})),
        ],
        &["g"],
    );
    expect![[r#"
        Unchanged g/a v1 
        Changed g/b v2 owner,retries
        Changed g/c v1 enabled
        Added g/e v1 
        Deleted g/d v1 
    "#]]
    .assert_eq(&changes(&outcome));
    expect![[r#"
        asked 1: unfinished of d
        told 1: 
        job defined b v2
        job disabled c
        job defined e v1
        job deleted d
        decided 1: done
        job received b v2, next never
        job switched c false, next never
        job received e v1, next never
        job removed d
    "#]]
    .assert_eq(&world.told());
}

/// JOB-5: a batch keeps the definition it was generated with.
#[test]
fn batches_keep_the_version_they_were_generated_with() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"type": "shell", "command": "one"}))]);
    world.batch(ids[0], None);
    world.define(vec![job("a", json!({"type": "shell", "command": "two"}))]);
    let worker = world.worker("w", 1, crate::kit::Script::Run);
    let granted = world.played(&worker).heard.iter().find_map(|message| match message {
        tidemill_model::WorkMessage::Granted { spec, .. } => Some(spec.program.clone()),
        _ => None,
    });
    assert_eq!(granted, Some(tidemill_model::Program::Command("one".to_owned())));
}

/// JOB-6: a cycle is refused with its path.
#[test]
fn cycles_are_refused_with_their_path() {
    let mut world = World::new();
    world.define(vec![job("a", json!({})), job("b", json!({"parents": ["a"]}))]);
    refused(
        &mut world,
        vec![job("a", json!({"parents": ["c"]})), job("c", json!({"parents": ["b"]}))],
        expect!["cycle: dependency cycle: g/a → g/c → g/b → g/a"],
    );
    refused(
        &mut world,
        vec![job("a", json!({"parents": ["a"]}))],
        expect![
            r#"invalid: jobs[0].parents[0]: "a": a job cannot be its own parent; for its previous batch write depends_on_past: true"#
        ],
    );
}

/// JOB-6: a cycle through two groups is seen, though a shard sees only one of them.
#[test]
fn cycles_across_groups_are_refused() {
    let mut world = World::new();
    world.define_group("h", GroupSettings::default());
    refused(
        &mut world,
        vec![job("a", json!({"parents": ["h/b"]})), job("b", json!({"group": "h", "parents": ["g/a"]}))],
        expect!["cycle: dependency cycle: g/a → h/b → g/a"],
    );
}

/// JOB-6: each bad field is named, with its value and the rule.
#[test]
fn bad_fields_are_refused_by_name() {
    refuses(
        json!({"parents": ["nobody"]}),
        expect![[r#"invalid: jobs[0].parents[0]: "nobody": there is no job of that name"#]],
    );
    refuses(
        json!({"schedule": {"cron": "0 0 25 * * ?", "zone": "UTC"}}),
        expect![[
            r#"invalid: jobs[0].schedule.cron: "0 0 25 * * ?": cron: hour '25' in '0 0 25 * * ?': 0-23 expected"#
        ]],
    );
    refuses(
        json!({"schedule": {"period": "day", "zone": "Mars/Olympus"}}),
        expect![[
            r#"invalid: jobs[0].schedule.zone: "Mars/Olympus": zone: 'Mars/Olympus' is not an IANA time zone; write a name such as 'Europe/Berlin' or 'UTC'"#
        ]],
    );
    refuses(
        json!({"schedule": {"period": "day", "cron": "0 0 1 * * ?"}}),
        expect![[r#"invalid: jobs[0].schedule.cron: "0 0 1 * * ?": give either period or cron, not both"#]],
    );
    refuses(
        json!({"type": "shell", "command": "echo ${nope"}),
        expect![[
            r#"invalid: jobs[0].command: "${nope": template: '${nope' at character 6: '${' is not closed; add '}', or write '$${' for a plain '${'"#
        ]],
    );
    refuses(
        json!({"type": "shell", "command": "echo ${param.day}"}),
        expect![[
            r#"invalid: jobs[0].command: "day": names a parameter that the job does not have; add it to parameters"#
        ]],
    );
    for field in ["command", "final_command"] {
        let mut script = json!({"type": "shell", "command": "true", "parameters": {"day-of": "1"}});
        script[field] = json!("echo \"${param.day-of}\"");
        let told = rejection(&World::new().apply(vec![job("a", script)]));
        let read = r#"in a shell: "$TIDEMILL_PARAM_DAY_OF""#;
        assert!(told.contains(&format!("jobs[0].{field}: ")) && told.contains(read), "{told}");
    }
    refuses(
        json!({"type": "shell"}),
        expect![[
            r#"invalid: jobs[0].command: "": is missing; a job of type shell needs a command or a program"#
        ]],
    );
    refuses(
        json!({"command": "true"}),
        expect![[
            r#"invalid: jobs[0].command: "noop": types noop and anchor run nothing, and every other type needs a command or a program"#
        ]],
    );
    refuses(
        json!({"max_concurrent": 0}),
        expect![[r#"invalid: jobs[0].max_concurrent: "0": must be 1 to 100000"#]],
    );
    refuses(json!({"retries": 101}), expect![[r#"invalid: jobs[0].retries: "101": must be 0 to 100"#]]);
    refuses(
        json!({"group": "nowhere"}),
        expect![[r#"invalid: jobs[0].group: "nowhere": there is no such group"#]],
    );
    refuses(
        json!({"schedule": {"cron": "0 ".repeat(600), "zone": "UTC"}}),
        expect![[
            r#"invalid: jobs[0].schedule.cron: "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 ": must be at most 1024 bytes"#
        ]],
    );
}

/// JOB-6: every bad job of an apply is named, and the good ones are not taken either.
#[test]
fn apply_is_all_or_nothing() {
    refused(
        &mut World::new(),
        vec![job("a", json!({})), job("b", json!({"retries": 101})), job("c", json!({"max_concurrent": 0}))],
        expect![[
            r#"invalid: jobs[1].retries: "101": must be 0 to 100; jobs[2].max_concurrent: "0": must be 1 to 100000"#
        ]],
    );
    refused(
        &mut World::new(),
        vec![job("a", json!({})), job("a", json!({}))],
        expect![[r#"invalid: jobs[1].name: "a": stands twice in group g; names are unique in a group"#]],
    );
}

/// DEP-3: *same* needs equal grids, and says so.
#[test]
fn same_logical_time_on_different_grids_is_refused() {
    let mut world = World::new();
    refused(
        &mut world,
        vec![
            job("hourly", json!({"schedule": every("hour")})),
            job("daily", json!({"schedule": every("day"), "parents": ["hourly"]})),
        ],
        expect![[
            r#"invalid: jobs[1].parents[0]: "g/hourly": mapping 'same': the child's schedule (every day in UTC) and the parent's (every hour in UTC) differ; give both the same rule and zone, or choose offset, all, latest or any"#
        ]],
    );
    world.define(vec![
        job("hourly", json!({"schedule": every("hour")})),
        job("daily", json!({"schedule": every("day"), "parents": [{"job": "hourly", "mapping": "all"}]})),
    ]);
}

/// GEN-9, DEP-3: a parent's new schedule is checked against children behind dependency-triggered jobs.
#[test]
fn a_changed_grid_is_checked_through_jobs_without_schedule() {
    let mut world = World::new();
    world.define(vec![
        job("a", json!({"schedule": every("hour")})),
        job("b", json!({"parents": ["a"]})),
        job("c", json!({"schedule": every("hour"), "parents": ["b"]})),
    ]);
    refused(
        &mut world,
        vec![job("a", json!({"schedule": every("day")}))],
        expect![[
            r#"invalid: child g/c.parents[0]: "g/b": mapping 'same': the child's schedule (every hour in UTC) and the parent's (every day in UTC) differ; give both the same rule and zone, or choose offset, all, latest or any"#
        ]],
    );
}

/// GEN-9: the parents of a job without a schedule are on one grid.
#[test]
fn parents_of_a_triggered_job_on_different_grids_are_refused() {
    refused(
        &mut World::new(),
        vec![
            job("hourly", json!({"schedule": every("hour")})),
            job("daily", json!({"schedule": every("day")})),
            job("child", json!({"parents": ["hourly", "daily"]})),
        ],
        expect![[
            r#"invalid: jobs[2].parents[1]: "g/daily": mapping 'same': the child's schedule (every hour in UTC) and the parent's (every day in UTC) differ; give both the same rule and zone, or choose offset, all, latest or any"#
        ]],
    );
}

/// A batch that waits for more logical times than a record holds is refused when it is declared.
#[test]
fn too_many_logical_times_are_refused() {
    let hour = |n: usize| job(&format!("p{n}"), json!({"schedule": {"cron": "0 * * * * ?", "zone": "UTC"}}));
    let parents: Vec<_> = (0..40).map(|n| json!({"job": format!("p{n}"), "mapping": "all"})).collect();
    let child = job("child", json!({"schedule": every("hour"), "parents": parents}));
    refused(
        &mut World::new(),
        (0..40).map(hour).chain([child]).collect(),
        expect![[
            r#"invalid: jobs[40].parents: "40": a batch would wait for 2400 logical times of its parents, and at most 2000 are allowed; put jobs between them"#
        ]],
    );
}

/// JOB-9: what others need is not deleted, unless they go or are pointed elsewhere by the same apply.
#[test]
fn prune_refuses_parents_and_takes_whole_families() {
    let family = || vec![job("a", json!({})), job("b", json!({"parents": ["a"]}))];
    let mut world = World::new();
    world.define(family());
    let outcome = world.apply_pruning(vec![job("b", json!({"parents": ["a"]}))], &["g"]);
    expect![[r#"invalid: jobs[0].parents[0]: "g/a": is deleted by this same apply; name it among the jobs, or leave it out here"#]].assert_eq(&rejection(&outcome));
    let outcome = world.apply_pruning(vec![job("c", json!({"parents": ["a"]}))], &["g"]);
    expect![[r#"invalid: jobs[0].parents[0]: "g/a": is deleted by this same apply; name it among the jobs, or leave it out here"#]].assert_eq(&rejection(&outcome));
    assert_eq!(world.partition, world.folded());

    let mut world = World::new();
    world.define(family());
    let outcome = world.apply_pruning(vec![job("b", json!({}))], &["g"]);
    expect![[r#"
        Changed g/b v2 parents
        Deleted g/a v1 
    "#]]
    .assert_eq(&changes(&outcome));
    let outcome = world.apply_pruning(Vec::new(), &["g"]);
    expect![[r#"
        Deleted g/b v2 
    "#]]
    .assert_eq(&changes(&outcome));
}

/// JOB-9: a single parent is not deleted either.
#[test]
fn a_parent_is_not_deleted() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("b", json!({"parents": ["a"]}))]);
    let outcome = world.ask(
        ShardId::CATALOGUE,
        Command::Job(JobCommand::Delete { job: ids[0], cancel: false, orphan_children: false }),
    );
    expect!["job_in_use: job g/a cannot be deleted: it is a parent of g/b; point them elsewhere first, or delete it with orphan_children, and their batches go on waiting until somebody does"]
        .assert_eq(&rejection(&outcome));
    world.ask(
        ShardId::CATALOGUE,
        Command::Job(JobCommand::Delete { job: ids[1], cancel: false, orphan_children: false }),
    );
    assert_eq!(
        world.ask(
            ShardId::CATALOGUE,
            Command::Job(JobCommand::Delete { job: ids[0], cancel: false, orphan_children: false })
        ),
        Outcome::Answered(Answer::Done)
    );
    let outcome = world.ask(
        ShardId::CATALOGUE,
        Command::Job(JobCommand::Delete { job: JobId(ids[0].0), cancel: false, orphan_children: false }),
    );
    expect!["unknown: there is no job 4096"].assert_eq(&rejection(&outcome));
}

/// JOB-3: a template that cannot tell the two hours of a clock change apart is warned about.
#[test]
fn templates_that_are_ambiguous_in_an_overlap_are_warned_about() {
    let spec = |command: &str, zone: &str| {
        let schedule = json!({"period": "hour", "zone": zone});
        job("a", json!({"type": "shell", "command": command, "schedule": schedule}))
    };
    let warnings = |spec: JobSpec| match World::new().apply(vec![spec]) {
        Outcome::Answered(Answer::Applied { warnings, .. }) => warnings.len(),
        other => panic!("{}", rejection(&other)),
    };
    assert_eq!(warnings(spec("load ${yyyyMMddHH}", "Europe/Berlin")), 1);
    assert_eq!(warnings(spec("load ${yyyyMMddHHXXX}", "Europe/Berlin")), 0);
    assert_eq!(warnings(spec("load ${yyyyMMddHH}", "Asia/Shanghai")), 0);
}

/// API-1: a job with parents by id gets a mapping that its grids allow.
#[test]
fn a_job_defined_by_id_waits_for_the_newest_of_other_grids() {
    let mut world = World::new();
    let ids = world.define(vec![
        job("hourly", json!({"schedule": every("hour")})),
        job("daily", json!({"schedule": every("day")})),
    ]);
    let spec = Box::new(job("x", json!({"schedule": every("day")})));
    let outcome = world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Define { job: spec, parents: ids }));
    assert!(matches!(outcome, Outcome::Answered(Answer::Submitted { batch: None, .. })), "{outcome:?}");
    world.events();
    world.until("2026-07-02T00:01:00.000Z");
    expect![[r#"
        b1 generated hourly 2026-07-01 11:00 run 0
        b2 generated hourly 2026-07-01 12:00 run 0
        b3 generated hourly 2026-07-01 13:00 run 0
        b4 generated hourly 2026-07-01 14:00 run 0
        b5 generated hourly 2026-07-01 15:00 run 0
        b6 generated hourly 2026-07-01 16:00 run 0
        b7 generated hourly 2026-07-01 17:00 run 0
        b8 generated hourly 2026-07-01 18:00 run 0
        b9 generated hourly 2026-07-01 19:00 run 0
        b10 generated hourly 2026-07-01 20:00 run 0
        b11 generated hourly 2026-07-01 21:00 run 0
        b12 generated hourly 2026-07-01 22:00 run 0
        b13 generated hourly 2026-07-01 23:00 run 0
        b14 generated hourly 2026-07-02 00:00 run 0
        b15 generated daily 2026-07-02 00:00 run 0
        b16 generated x 2026-07-02 00:00 run 0, of hourly 0/1, daily 0/1
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.wall, at("2026-07-02T00:01:00.000Z"));
}

/// A text that JSON doubles or sextuples still fits, or is refused; it never makes a record too large.
#[test]
fn texts_count_as_their_encoding() {
    let mut world = World::new();
    let outcome = world.apply(vec![job("a", json!({"type": "shell", "command": "\u{1}".repeat(100_000)}))]);
    assert!(rejection(&outcome).starts_with("invalid: jobs[0].command"), "{}", rejection(&outcome));
    world.define(vec![job("a", json!({"type": "shell", "command": "\n".repeat(20_000)}))]);
}

/// Nobody can lock everybody out.
#[test]
fn the_last_super_administrator_stays() {
    use tidemill_model::Role::{SuperAdministrator, Viewer};
    let mut world = World::new();
    let key = |app: &str, role, first_only| {
        Command::Catalogue(CatalogueCommand::DefineKey {
            app: app.to_owned(),
            hash: "0".repeat(64),
            role,
            groups: Vec::new(),
            run_as: Default::default(),
            may: Default::default(),
            department: None,
            first_only,
        })
    };
    let done = Outcome::Answered(Answer::Done);
    assert_eq!(world.ask(ShardId::CATALOGUE, key("root", SuperAdministrator, true)), done);
    for command in [
        key("root", Viewer, false),
        Command::Catalogue(CatalogueCommand::RevokeKey { app: "root".to_owned() }),
        key("other", SuperAdministrator, true),
    ] {
        assert!(matches!(world.ask(ShardId::CATALOGUE, command), Outcome::Refused(_)));
    }
    assert_eq!(world.ask(ShardId::CATALOGUE, key("other", SuperAdministrator, false)), done);
    assert_eq!(
        world.ask(
            ShardId::CATALOGUE,
            Command::Catalogue(CatalogueCommand::RevokeKey { app: "root".to_owned() })
        ),
        done
    );
}

fn delete(job: JobId, cancel: bool) -> Command {
    Command::Job(JobCommand::Delete { job, cancel, orphan_children: false })
}

/// JOB-9: a job of which something is unfinished is not deleted, and the refusal names it; when all has ended,
/// it is.
#[test]
fn a_job_with_unfinished_batches_is_not_deleted() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({})), job("b", json!({}))]);
    world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    world.batch(ids[0], Some("2026-07-01T01:00:00.000Z"));
    world.events();
    let outcome = world.ask(ShardId::CATALOGUE, delete(ids[0], false));
    expect!["job_in_use: job g/a cannot be deleted: it has unfinished batches (2, the newest is 8193); wait for them, or cancel them with the deletion"]
        .assert_eq(&rejection(&outcome));
    expect![[r#"
        asked 1: unfinished of a
        told 1: a 2
        decided 1: refused
    "#]]
    .assert_eq(&world.told());
    // All or none: b has nothing unfinished, and stays with the rest of the same apply.
    let outcome = world.apply_pruning(vec![job("c", json!({}))], &["g"]);
    assert!(rejection(&outcome).starts_with("job_in_use: job g/a"), "{}", rejection(&outcome));
    let told = world.told();
    assert!(!told.contains("defined") && !told.contains("deleted"), "{told}");
    world.worker("w", 2, Script::Succeed);
    world.events();
    let outcome = world.apply_pruning(vec![job("c", json!({}))], &["g"]);
    expect![[r#"
        Added g/c v1 
        Deleted g/a v1 
        Deleted g/b v1 
    "#]]
    .assert_eq(&changes(&outcome));
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: told to cancel, the same apply ends what is unfinished: what waits at once, what runs by its worker.
#[test]
fn a_deletion_cancels_what_is_unfinished_if_told_to() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({"max_concurrent": 1, "retries": 3}))]);
    world.worker("w", 1, Script::Run);
    world.batch(ids[0], Some("2026-07-01T00:00:00.000Z"));
    world.batch(ids[0], Some("2026-07-01T01:00:00.000Z"));
    world.events();
    let prune = vec![crate::kit::group("g")];
    let outcome = world.ask(
        ShardId::CATALOGUE,
        Command::Job(JobCommand::Apply { jobs: Vec::new(), prune, cancel: true, orphan_children: false }),
    );
    expect![[r#"
        Deleted g/a v1 
    "#]]
    .assert_eq(&changes(&outcome));
    expect![[r#"
        job deleted a
        job cancelled a
        job removed a
        cancels a
        b1 kill t1
        b2 finished killed by ann
        b1 attempt 1 Killed
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: a batch of a deleted job is killed before its job's children got theirs, who are to be deleted with the next command.
#[test]
fn a_deletion_kills_a_batch_that_has_not_triggered_its_children_yet() {
    let mut world = World::new();
    let ids = world.define(vec![job("p", json!({})), job("c", json!({"parents": [{"job": "g/p"}]}))]);
    world.held = Some(Vec::new());
    let prune = vec![crate::kit::group("g")];
    world.ask(
        ShardId::CATALOGUE,
        Command::Job(JobCommand::Apply { jobs: Vec::new(), prune, cancel: true, orphan_children: false }),
    );
    let run = tidemill_model::BatchCommand::RunJob {
        job: ids[0],
        logical_time: None,
        parameters: std::collections::BTreeMap::new(),
        concurrent: false,
    };
    world.send(crate::kit::GROUP, Command::Batch(run));
    for effect in world.held.take().unwrap() {
        let tidemill_engine::Effect::Send { shard, command } = effect else {
            panic!("held are messages between shards")
        };
        world.send(shard, command);
    }
    world.events();
    // The run, that the parent is deleted, and that what is unfinished of it is cancelled.
    world.step(3);
    expect![[r#"
        b1 generated p 2026-07-01 10:10 run 0
        job removed p
        cancels p
        b1 finished killed by ann
    "#]]
    .assert_eq(&world.told());
    world.run();
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: thousands of unfinished batches are ended in steps that fit into records.
#[test]
fn a_deletion_cancels_thousands_of_batches() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    for second in 0..2_000 {
        let logical_time = Some(tidemill_model::Timestamp::from_second(1_700_000_000 + second).unwrap());
        let parameters = std::collections::BTreeMap::new();
        world.send(
            crate::kit::GROUP,
            Command::Batch(BatchCommand::RunJob { job: ids[0], logical_time, parameters, concurrent: true }),
        );
    }
    world.run();
    assert_eq!(world.unfinished(), 2_000);
    world.ask(ShardId::CATALOGUE, delete(ids[0], true));
    assert_eq!(world.unfinished(), 0);
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: what is decided when the shards have answered is what holds then: a child that came meanwhile keeps its
/// parent, a repeat of the request is answered once, and with the same outcome after.
#[test]
fn a_deletion_is_decided_on_what_holds_when_the_shards_have_answered() {
    let mut world = World::new();
    let ids = world.define(vec![job("a", json!({}))]);
    world.held = Some(Vec::new());
    let record = |request: &str| tidemill_model::CommandRecord {
        shard: ShardId::CATALOGUE,
        request: Some(tidemill_model::RequestId::new(request)),
        reply_to: Some(tidemill_model::InstanceId::new("tester")),
        actor: tidemill_model::Actor { app: "test".into(), user: Some("ann".into()) },
        command: delete(ids[0], false),
    };
    let replies = |world: &World| {
        let is_reply = |effect: &&tidemill_engine::Effect| match effect {
            tidemill_engine::Effect::Reply { reply, .. } => reply.request.as_str() == "request",
            _ => false,
        };
        world.outside.iter().filter(is_reply).count()
    };
    world.send_record(record("request"));
    world.run();
    world.send_record(record("request"));
    world.run();
    assert_eq!(replies(&world), 0, "nothing is decided yet");
    world.define(vec![job("b", json!({"parents": ["a"]}))]);
    let held = world.held.take().unwrap();
    for effect in held {
        let tidemill_engine::Effect::Send { shard, command } = effect else { continue };
        world.send(shard, command);
    }
    world.run();
    assert_eq!(replies(&world), 1);
    let outcome =
        world.ask_as(ShardId::CATALOGUE, delete(ids[0], false), tidemill_model::RequestId::new("request"));
    expect!["job_in_use: job g/a cannot be deleted: it is a parent of g/b; point them elsewhere first, or delete it with orphan_children, and their batches go on waiting until somebody does"]
        .assert_eq(&rejection(&outcome));
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: deletions that wait for answers have a bound.
#[test]
fn deletions_that_wait_for_answers_are_bounded() {
    let mut world = World::new();
    let jobs: Vec<JobSpec> = (0..65).map(|n| job(&format!("j{n}"), json!({}))).collect();
    let ids = world.define(jobs);
    world.held = Some(Vec::new());
    for job in &ids[..64] {
        world.send(ShardId::CATALOGUE, delete(*job, false));
    }
    world.run();
    let outcome = world.ask(ShardId::CATALOGUE, delete(ids[64], false));
    assert!(rejection(&outcome).starts_with("limit_reached"), "{}", rejection(&outcome));
}

/// JOB-9: what does not fit into one record together with the shard's answer is refused; that answer is taken in
/// all the same, and the next deletion gets its own.
#[test]
fn a_deletion_that_grew_too_large_while_it_waited_is_refused() {
    let mut world = World::new();
    let ids = world.define(vec![job("gone", json!({})), job("stays", json!({}))]);
    let jobs = |more: serde_json::Value| (0..390).map(|n| job(&format!("j{n}"), more.clone())).collect();
    world.define(jobs(json!({"schedule": {"cron": "0 5 * * * *", "zone": "UTC"}})));
    let every_field = json!({
        "schedule": {"cron": "0 0 * * * *", "zone": "Europe/Berlin"}, "parameters": {"a": "${yyyyMMddHH}"},
        "owner": "b", "app_name": "b", "business_type": "b", "comment": "b", "host": "h", "priority": 3,
        "max_concurrent": 2, "retries": 2, "retry_interval_s": 7, "missed_runs": "none", "enabled": false
    });
    let outcome = world.apply_pruning(jobs(every_field), &["g"]);
    assert!(rejection(&outcome).starts_with("dead_lettered: "), "{}", rejection(&outcome));
    assert_eq!(world.ask(ShardId::CATALOGUE, delete(ids[0], false)), Outcome::Answered(Answer::Done));
    let is_dead =
        |effect: &tidemill_engine::Effect| matches!(effect, tidemill_engine::Effect::DeadLetter { .. });
    assert!(!world.outside.iter().any(is_dead));
    assert_eq!(world.partition, world.folded());
}

/// JOB-9: what waited for so long that its sender has given up is not carried out behind whatever followed it.
#[test]
fn a_deletion_that_waited_for_too_long_does_not_undo_a_later_apply() {
    for (seconds, wins) in [(60, "v1"), (61, "v2")] {
        let mut world = World::new();
        world.define(vec![job("a", json!({"owner": "v0"})), job("gone", json!({}))]);
        world.held = Some(Vec::new());
        let apply = |jobs| {
            Command::Job(JobCommand::Apply {
                jobs,
                prune: vec![crate::kit::group("g")],
                cancel: false,
                orphan_children: false,
            })
        };
        world.send(ShardId::CATALOGUE, apply(vec![job("a", json!({"owner": "v1"}))]));
        world.run();
        world.apply(vec![job("a", json!({"owner": "v2"})), job("gone", json!({}))]);
        world.pass(jiff::SignedDuration::from_secs(seconds));
        world.held = None;
        world.say_again();
        world.run();
        let LiveAnswer::Planned(plan) = world.partition.answer(
            ShardId::CATALOGUE,
            &LiveQuery::PlanApply {
                jobs: vec![job("a", json!({"owner": wins}))],
                prune: Vec::new(),
                by: None,
                orphan_children: false,
            },
        ) else {
            panic!("an apply is under way")
        };
        assert_eq!(plan.changes[0].change.change, JobChangeKind::Unchanged, "after {seconds} s");
        assert_eq!(world.partition, world.folded());
    }
}
