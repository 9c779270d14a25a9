//! What the facts make of the rows, and that the way there does not matter.

use std::time::Duration;

use crate::support::{
    Database, Owner, START_MS, assigned, catalogue, definition, ended, finished, generated, granted, id, job,
    lives, log, shard, time,
};
use serde_json::json;
use tidemill_journal::{Progress, Shutdown};
use tidemill_projector::{Config, rebuild, run, verify};
use tidemill_store::rows::BatchRow;
use tidemill_store::{
    AttemptFilter, DeadLetterFilter, JobFilter, PageRequest, ReadAudit, ReadTables, WorkerFilter,
};

/// Everything into new tables, in one go.
fn project(log: &std::sync::Arc<dyn tidemill_log::Log>, database: &Database) {
    rebuild(&Config::default(), &**log, &*database.tables, &Shutdown::new(), &mut |_| {}).unwrap();
}

/// TBL-1: every state of a batch, its attempts and its way back are in the tables.
#[test]
fn a_batch_is_shown_in_every_state_of_its_life() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    let database = Database::new();
    let shown = |owner: &mut Owner, events: Vec<serde_json::Value>| -> BatchRow {
        owner.decide(events.into_iter().map(|event| (1, event)).collect());
        project(&log, &database);
        database.tables.batch(id(1)).unwrap().unwrap()
    };
    let dependencies = json!([{"parent": job(1), "mapping": "same", "times": [time(START_MS)]}]);
    let row = shown(&mut owner, vec![generated(1, job(2), dependencies)]);
    assert_eq!((row.state, row.unmet, row.ready_at), (0, 1, None));
    assert_eq!((&*row.job_name, &*row.group_name, &*row.job_type), ("report", "demo", "noop"));
    assert_eq!(row.generated_at, owner.now_ms);
    let satisfied = json!({"batch": id(1), "parent": job(1), "logical_time": time(START_MS), "unmet": 0});
    let row = shown(&mut owner, vec![json!({"batch": {"dependency_satisfied": satisfied}})]);
    assert_eq!((row.unmet, row.ready_at), (0, Some(owner.now_ms)));
    assert!(database.tables.dependencies(id(1)).unwrap()[0].met);
    let row = shown(&mut owner, vec![assigned(1, 1, 1)]);
    assert_eq!((row.state, row.token, row.worker_id.as_deref()), (1, Some(id(1)), Some("w-1")));
    let returned =
        json!({"batch": id(1), "token": id(1), "worker": "w-1", "reason": {"rejected": "no memory"}});
    let row = shown(&mut owner, vec![json!({"batch": {"assignment_returned": returned}})]);
    assert_eq!((row.state, row.token, row.returned, &*row.message), (0, None, 1, "no memory"));
    let log_row = database.tables.assignment_returns(id(1)).unwrap().remove(0);
    assert_eq!((&*log_row.reason, log_row.assigned_at), ("rejected", Some(owner.now_ms - 7)));
    let row = shown(&mut owner, vec![assigned(1, 2, 1), granted(1, 2)]);
    assert_eq!((row.state, row.attempts, row.started_at), (2, 1, None), "granted is not started");
    let row = shown(&mut owner, vec![json!({"attempt": {"started": {"batch": id(1), "token": id(2)}}})]);
    let started = owner.now_ms;
    assert_eq!((row.state, row.attempts, row.started_at), (2, 1, Some(started)));
    let retry =
        json!({"batch": {"retry_scheduled": {"batch": id(1), "attempt": 2, "at": time(START_MS + 99)}}});
    let row = shown(&mut owner, vec![ended(1, 2, 1, "failed"), retry]);
    assert_eq!((row.state, row.retry_at, row.result), (0, Some(START_MS + 99), None));
    let row = shown(&mut owner, vec![json!({"batch": {"retry_due": {"batch": id(1)}}})]);
    assert_eq!(row.retry_at, None);
    let kill = json!({"attempt": {"kill_requested": {
        "batch": id(1), "token": id(3), "by": {"app": "etl", "user": "ann"}, "reason": "late",
    }}});
    let row = shown(&mut owner, vec![assigned(1, 3, 2), granted(1, 3), kill]);
    assert_eq!((row.killed_by.as_deref(), row.kill_requested_at), (Some("etl/ann"), Some(owner.now_ms)));
    let row = shown(&mut owner, vec![ended(1, 3, 2, "killed"), finished(1, "killed")]);
    assert_eq!((row.state, row.result.as_deref(), row.finished_at), (3, Some("killed"), Some(owner.now_ms)));
    assert_eq!((row.attempt, row.attempts, row.token, row.started_at), (2, 2, None, Some(started)));
    let filter = AttemptFilter { batch: Some(id(1)), ..AttemptFilter::default() };
    let attempts = database.tables.attempts(&filter, &PageRequest::first(9)).unwrap().items;
    let results: Vec<_> = attempts.iter().map(|row| (row.attempt, row.result.as_deref().unwrap())).collect();
    assert_eq!(results, [(2, "killed"), (1, "failed")]);
    assert_eq!((attempts[0].duration_ms, attempts[0].peak_memory_kib), (Some(5), Some(9)));
}

/// TBL-1: jobs, parents, groups, keys, workers and resources follow their facts.
#[test]
fn definitions_keys_and_workers_are_shown_as_they_are_now() {
    let (_, log) = log(2);
    let (mut first, mut second) = (Owner::claim(&*log, 0), Owner::claim(&*log, 1));
    first.decide(catalogue());
    second.decide(shard());
    let mut changed = definition(job(2), "report", json!([]));
    changed["version"] = json!(2);
    first.decide(vec![
        (0, json!({"job": {"defined": {"definition": changed, "enabled": false}}})),
        (0, json!({"job": {"deleted": {"job": job(1)}}})),
        (0, json!({"catalogue": {"key_revoked": {"app": "etl"}}})),
        (
            0,
            json!({"catalogue": {"key_defined": {"app": "ops", "hash": "ee", "role": "super_administrator", "groups": []}}}),
        ),
    ]);
    second.decide(vec![
        (1, json!({"job": {"submitted": {"definition": definition(id(5), "once", json!([{"job": id(4)}]))}}})),
        (1, generated(5, id(5), json!([]))),
        (1, json!({"worker": {"registered": {
            "worker": "w-1", "incarnation": "i-2", "host": "node", "address": "127.0.0.1:3", "slots": {"shell": 1},
        }}})),
        (1, json!({"worker": {"lost": {"worker": "w-1", "incarnation": "i-2"}}})),
        (1, json!({"worker": {"drained": {"worker": "w-1"}}})),
        (1, json!({"partition": {"command_dead_lettered": {"offset": 4, "reason": "not JSON"}}})),
    ]);
    let database = Database::new();
    project(&log, &database);
    let tables = &database.tables;
    let names: Vec<_> = tables.jobs(&JobFilter::default(), &PageRequest::first(9)).unwrap().items;
    let names: Vec<_> =
        names.iter().map(|row| (&*row.name, row.version, row.enabled, row.submitted)).collect();
    assert_eq!(names, [("once", 1, true, true), ("report", 2, false, false)]);
    assert!(tables.job(job(1)).unwrap().unwrap().deleted_at.is_some());
    assert_eq!(tables.parents(job(2)).unwrap(), []);
    assert_eq!(tables.parents(id(5)).unwrap()[0].parent_id, id(4));
    assert_eq!(tables.job_versions(job(2)).unwrap().len(), 2);
    assert_eq!(&*tables.batch(id(5)).unwrap().unwrap().job_name, "once");
    assert_eq!(tables.app_keys().unwrap().iter().map(|row| &*row.app).collect::<Vec<_>>(), ["ops"]);
    assert_eq!(tables.group_named("demo").unwrap().unwrap().shard, 1);
    let worker = tables.workers(&WorkerFilter::default(), &PageRequest::first(9)).unwrap().items.remove(0);
    assert_eq!((&*worker.state, worker.drained, &*worker.group_name), ("lost", true, "demo"));
    let slots: Vec<_> = tables.resources("w-1").unwrap();
    assert_eq!(slots.iter().map(|row| (&*row.job_type, row.slots)).collect::<Vec<_>>(), [("shell", 1)]);
    assert_eq!(
        &*tables.dead_letters(&DeadLetterFilter::default(), &PageRequest::first(9)).unwrap().items[0].reason,
        "not JSON"
    );
}

/// EVT-2: the rows are the same whether the journal is folded in one go or bit by bit, with a cache or
/// without, by one process or by several after one another.
#[test]
fn rows_do_not_depend_on_how_the_journal_was_cut() {
    for seed in 1..=4 {
        let (_, log) = log(1);
        let mut owner = Owner::claim(&*log, 0);
        let database = Database::new();
        owner.decide(catalogue());
        owner.decide(shard());
        for (piece, decisions) in lives(1, 60, seed).chunks(40).enumerate() {
            let config = Config {
                cached_rows: if piece % 2 == 0 { 0 } else { 1000 },
                min_write_interval_ms: 0,
                ..Config::default()
            };
            let (progress, shutdown) = (Progress::new(), Shutdown::new());
            std::thread::scope(|scope| {
                let running = scope.spawn(|| run(&config, &log, &database.tables, &progress, &shutdown));
                let mut last = 0;
                for decision in decisions {
                    last = owner.decide(decision.clone());
                }
                assert!(progress.wait_until(0, last, Duration::from_secs(30)));
                shutdown.request();
                running.join().unwrap().unwrap();
            });
        }
        let report = verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
        assert!(report.is_clean(), "seed {seed}: {:#?}", report.differences);
        assert!(report.rows > 100, "{report:?}");
    }
}

/// TBL-1, JOB-5, BYD-2: who asked is in the tables: the sender of a command, and whoever committed what an owner carries
/// out later.
#[test]
fn tables_say_who_asked() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    let by = |app: &str| json!({"app": app, "user": "ann"});
    let command = |offset: u64, app: &str, events: usize| json!({"source": {"command": {"offset": offset, "actor": by(app)}}, "events": events});
    let timer = |events: usize| json!({"source": "timer", "events": events});
    let defined = |n: i64, version: i64| {
        let mut definition = definition(job(n), "load", json!([]));
        definition["version"] = json!(version);
        json!({"shard": 0, "event": {"job": {"defined": {"definition": definition, "enabled": version < 3}}}})
    };
    let event = |event: serde_json::Value| json!({"shard": 0, "event": event});
    let calendar = json!({"version": 4, "spec": {"name": "fixture", "holidays": ["2026-01-01"]}});
    let mut decide = |causes: Vec<serde_json::Value>, events: Vec<serde_json::Value>| {
        owner.now_ms += 5;
        let envelope = json!({"now": time(owner.now_ms), "causes": causes, "events": events});
        owner.write(envelope.to_string().into_bytes());
        owner.now_ms
    };
    let first = decide(
        vec![command(1, "etl", 1), command(2, "ops", 1)],
        vec![defined(1, 1), event(json!({"catalogue": {"calendar_defined": {"calendar": calendar}}}))],
    );
    let advanced = event(json!({"apply": {"advanced": {"apply": "a", "done": 1, "by": by("big")}}}));
    decide(vec![timer(2)], vec![defined(1, 2), advanced]);
    let off = decide(vec![command(3, "ops", 1)], vec![defined(1, 3)]);
    let received = event(json!({"partition": {"message_received": {"from": 1, "number": 1}}}));
    let decided = json!({"question": 1, "outcome": {"answered": "done"}, "by": by("gone")});
    let deleted = vec![
        received,
        event(json!({"job": {"deleted": {"job": job(1)}}})),
        event(json!({"deletion": {"decided": decided}})),
    ];
    let database = Database::new();
    project(&log, &database);
    let row = database.tables.job(job(1)).unwrap().unwrap();
    assert_eq!(row.changed_by.as_deref(), Some("ops/ann"));
    assert_eq!((row.disabled_at, row.disabled_by.as_deref()), (Some(off), Some("ops/ann")));
    let versions = database.tables.job_versions(job(1)).unwrap();
    let by: Vec<_> = versions.iter().map(|row| (row.version, row.defined_by.as_deref().unwrap())).collect();
    assert_eq!(by, [(3, "ops/ann"), (2, "big/ann"), (1, "etl/ann")]);
    let calendar = database.tables.calendar_version("fixture", 4).unwrap().unwrap();
    assert_eq!((calendar.defined_at, calendar.defined_by.as_deref()), (first, Some("ops/ann")));
    decide(vec![command(4, "owner", 3)], deleted);
    project(&log, &database);
    let row = database.tables.job(job(1)).unwrap().unwrap();
    assert_eq!((row.deleted_at.is_some(), row.changed_by.as_deref()), (true, Some("gone/ann")));
}

/// EVT-9: a dead letter is open until its command was sent again, or its timer runs again.
#[test]
fn dead_letters_are_closed_by_what_becomes_of_them() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    let fire = format!("job/{}", job(1));
    owner.decide(vec![
        (1, json!({"partition": {"command_dead_lettered": {"offset": 4, "reason": "bad"}}})),
        (1, json!({"partition": {"command_dead_lettered": {"offset": 5, "reason": "bad"}}})),
        (1, json!({"partition": {"timer_suspended": {"entity": fire, "reason": "panic"}}})),
        (1, json!({"partition": {"timer_suspended": {"entity": "batch/7", "reason": "panic"}}})),
    ]);
    let database = Database::new();
    let open = || {
        project(&log, &database);
        let filter = DeadLetterFilter { is_open: Some(true), ..DeadLetterFilter::default() };
        let rows = database.tables.dead_letters(&filter, &PageRequest::first(9)).unwrap().items;
        rows.iter().map(|row| row.subject.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(open(), ["4", "5", fire.as_str(), "batch/7"]);
    let next = json!({"at": time(START_MS), "logical_time": time(START_MS)});
    owner.decide(vec![(
        1,
        json!({"replication": {"job_switch_replicated": {"job": job(1), "enabled": false}}}),
    )]);
    assert_eq!(open().len(), 4, "switched off, it does not run");
    owner.decide(vec![(
        1,
        json!({"replication": {"job_switch_replicated": {"job": job(1), "enabled": true, "next": next}}}),
    )]);
    let again = |offset: u64, outcome: serde_json::Value| {
        let request = tidemill_model::RequestId::redrive(offset, "ab");
        let source = json!({"command": {"offset": 9, "request": request, "actor": {"app": "ops"}}});
        json!({"source": source, "outcome": outcome})
    };
    let refused = json!({"refused": {"unknown": {"what": "job", "id": "7"}}});
    let causes = [again(4, json!("done")), again(5, refused), again(77, json!("done"))];
    owner.now_ms += 9;
    let envelope = json!({"now": time(owner.now_ms), "causes": causes});
    owner.write(envelope.to_string().into_bytes());
    assert_eq!(open(), ["batch/7"]);
    let rows =
        database.tables.dead_letters(&DeadLetterFilter::default(), &PageRequest::first(9)).unwrap().items;
    let told: Vec<_> = rows.iter().map(|row| (row.redriven_by.as_deref(), row.closed_at.is_some())).collect();
    assert_eq!(told, [(Some("ops"), true), (Some("ops"), true), (None, true), (None, false)]);
    assert_eq!(rows[0].redrive_outcome.as_deref(), Some("done"));
    assert!(rows[1].redrive_outcome.as_deref().unwrap().contains("job"), "{rows:?}");
}
