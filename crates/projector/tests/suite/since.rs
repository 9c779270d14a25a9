//! Rebuilds from a time, on whatever holds the tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidemill_journal::{Progress, Shutdown};
use tidemill_log::Log;
use tidemill_model::Timestamp;
use tidemill_projector::{
    Config, Error, PlanRequest, Report, Since, VerifyConfig, plan_rebuild, rebuild, rebuild_since, run,
    verify,
};
use tidemill_store::rows::{BatchRow, TABLES};
use tidemill_store::{ReadTables, Row, Select, Tables};

use crate::support::{
    Database, Owner, START_MS, asked, assigned, catalogue, ended, finished, generated, granted, id, internal,
    job, lives, log, shard, time,
};
use crate::watched::Watched;

pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

/// What clients pull: tasks from long ago of which somebody has something, and what becomes of that.
fn pulls(first: i64) -> Vec<Vec<(u16, Value)>> {
    let of = |name: &str, body: Value| (1, json!({"task": {name: body}}));
    let spec = json!({
        "executor": {"group": "demo"}, "when": {"every_minutes": {"n": 5, "start": time(START_MS)}}, "dispatch_times": 9,
    });
    let grant = |n: i64, user: &str| json!({"grant": id(first + n), "task": id(first), "version": 1, "start": time(START_MS), "user": user});
    let end = |n: i64, user: &str, result: &str| {
        json!({
            "grant": id(first + n), "task": id(first), "start": time(START_MS), "user": user, "result": result,
        })
    };
    vec![
        vec![of("created", json!({"task": id(first), "spec": spec}))],
        vec![of("granted", grant(1, "ann")), of("granted", grant(2, "bob"))],
        vec![of("completed", end(1, "ann", "ok"))],
        vec![of("changed", json!({"task": id(first), "version": 2, "spec": spec}))],
        vec![of("granted", grant(3, "cid"))],
        vec![of("completed", end(2, "bob", "late"))],
    ]
}

/// A journal of which every kind of history has rows from before, across and after each time.
pub(crate) fn history() -> (Arc<dyn Log>, Owner, i64) {
    let (_, log) = log(2);
    Owner::claim(&*log, 0).decide(catalogue());
    let mut owner = Owner::claim(&*log, 1);
    owner.decide(shard());
    let code = |token: i64, batch: i64| {
        (1, json!({"attempt": {"user_code_reported": {"batch": id(batch), "token": id(token), "code": 3}}}))
    };
    let mut pulls = pulls(90_000).into_iter();
    for (n, decision) in lives(1, 80, 11).into_iter().enumerate() {
        owner.decide(decision);
        if n % 9 == 0 {
            let by = json!({"app": "etl", "user": "ann"});
            let marked = json!({"batch": {"result_overridden": {
                "batch": id(1 + n as i64 % 80), "job": job(1), "logical_time": time(START_MS), "result": "failed",
                "by": by, "reason": format!("number {n}"),
            }}});
            asked(&mut owner, ("etl", Some("ann")), None, vec![(1, marked)]);
        }
        if n % 12 == 0 {
            owner.decide_all(pulls.next().into_iter().collect());
        }
    }
    // Long after a batch has ended, its attempt says something, and somebody overrides what came of it.
    owner.decide(vec![code(3 * 2 + 2, 2), code(3 * 7 + 2, 7)]);
    owner.decide(vec![(
        1,
        json!({"batch": {"result_overridden": {
            "batch": id(5), "job": job(1), "logical_time": time(START_MS), "result": "success",
            "by": {"app": "ops"}, "reason": "by hand",
        }}}),
    )]);
    let end = owner.now_ms;
    (log, owner, end)
}

pub(crate) fn clean(log: &dyn Log, tables: &dyn Tables) -> Report {
    let report = verify(log, tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean() && report.rows > 100, "{:#?}", report.differences);
    report
}

fn from_zero(log: &dyn Log, tables: &dyn Tables) -> u32 {
    rebuild(&Config::default(), log, tables, &Shutdown::new(), &mut |_| {}).unwrap()
}

fn rows_of(tables: &dyn Tables) -> Vec<Vec<tidemill_store::Value>> {
    TABLES.iter().flat_map(|table| tables.select(&Select::new(table, table.key)).unwrap()).collect()
}

/// EVT-7: from whatever time it begins, a rebuild comes to the rows that one from the beginning comes to.
pub(crate) fn from_any_time_it_is_the_same(tables: &dyn Tables) {
    let (log, _, end) = history();
    from_zero(&*log, tables);
    let expected = rows_of(tables);
    let mut copied = Vec::new();
    let steps = (end - START_MS) / 7;
    for step in [2, steps / 5, steps / 2, steps - 3, steps, steps + 1] {
        let since = Since::new(at(START_MS + 7 * step));
        let (config, go) = (Config { cached_rows: 40, ..Config::default() }, Shutdown::new());
        let rebuilt = rebuild_since(&config, &since, &*log, tables, &go, &mut |_| {}).unwrap();
        assert_eq!(tables.active().unwrap().unwrap().number, rebuilt.generation);
        assert!(rows_of(tables) == expected, "from {}", since.at);
        clean(&*log, tables);
        copied.push(rebuilt.copied_rows);
    }
    assert!(copied.is_sorted() && copied[0] < 20 && copied[5] > 200, "{copied:?}");
}

/// EVT-7: rows that were damaged are mended where something has changed them since; of the others a dry run says that they
/// would not be, and `verify` names them afterwards.
pub(crate) fn what_is_older_is_not_mended_and_named(tables: &dyn Tables, by_hand: &dyn Fn(&str)) {
    let (log, mut owner, end) = history();
    let generation = from_zero(&*log, tables);
    owner.decide_all(lives(200, 20, 3));
    let (config, go) = (Config::default(), Shutdown::new());
    let generation = {
        assert_eq!(generation, tables.active().unwrap().unwrap().number);
        from_zero(&*log, tables)
    };
    // An old batch, one of today, and a job, which is folded whole.
    by_hand(&format!(
        "UPDATE g{generation}_batches SET worker_id = 'w-9' WHERE id IN ({}, {})",
        id(3),
        id(205)
    ));
    by_hand(&format!("UPDATE g{generation}_jobs SET owner = 'nobody'"));
    by_hand(&format!("DELETE FROM g{generation}_attempts WHERE batch_id = {}", id(4)));
    let before = rows_of(tables);
    let since = Since::new(at(end + 1));
    let request = PlanRequest { since: Some(since.clone()), compare: true, verify: VerifyConfig::default() };
    let plan = plan_rebuild(&config, &request, &*log, tables, &go, &mut |_, _| {}).unwrap();
    assert!(rows_of(tables) == before && plan.unfinished.is_none(), "a dry run changes nothing");
    assert_eq!(tables.generations().unwrap().len(), 1, "a dry run changes nothing");
    let compared = plan.comparison.unwrap();
    let of = |mended: bool| -> Vec<_> {
        let of = compared.differences.iter().filter(|it| it.mended == mended);
        of.map(|it| (it.difference.table, it.difference.key.clone())).collect()
    };
    let left = of(false);
    assert!(left.contains(&("batches", id(3).to_string())) && left.iter().any(|it| it.0 == "attempts"));
    assert!(of(true).contains(&("batches", id(205).to_string())) && of(true).iter().any(|it| it.0 == "jobs"));
    assert_eq!(
        (compared.mended + compared.left, compared.left),
        (compared.difference_count, left.len() as u64)
    );

    let rebuilt = rebuild_since(&config, &since, &*log, tables, &go, &mut |_| {}).unwrap();
    assert!(rebuilt.copied_rows > 100, "{rebuilt:?}");
    let report = verify(&*log, tables, &go, &mut |_, _| {}).unwrap();
    let named: Vec<_> = report.differences.iter().map(|it| (it.table, it.key.clone())).collect();
    assert_eq!(named, left, "what is left is named");
    from_zero(&*log, tables);
    clean(&*log, tables);
}

/// EVT-7: a time that cannot be right is refused with its reason, and nothing changes.
pub(crate) fn a_time_that_cannot_be_right_is_refused(tables: &dyn Tables) {
    let (log, mut owner, end) = history();
    let (config, go) = (Config::default(), Shutdown::new());
    let refused = |since: Since, words: &str| {
        let error = rebuild_since(&config, &since, &*log, tables, &go, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Since { .. }) && error.to_string().contains(words), "{error}");
    };
    refused(Since::new(at(end)), "there must be tables in use of this version's form");
    let generation = from_zero(&*log, tables);
    refused(Since::new("2999-01-01T00:00:00Z".parse().unwrap()), "must not be in the future");
    refused(Since::new(at(START_MS - 1)), "after the first record of a journal");
    refused(Since { max_rows: 10, ..Since::new(at(START_MS + 100)) }, "at most 10 rows may have changed");
    owner.decide_all(lives(300, 5, 3));
    refused(Since::new(at(owner.now_ms)), "the tables must show all from before it, and of partition 1");
    assert_eq!(tables.active().unwrap().unwrap().number, generation);
    assert!(tables.select(&Select::new(BatchRow::TABLE, &["id"])).unwrap().len() == 80);
}

/// EVT-7: nothing is copied from tables that show records which the journal lost.
#[test]
fn tables_beyond_their_journal_are_not_copied() {
    let database = Database::new();
    let tables = &*database.tables;
    let journal = |batches| {
        let (_, log) = log(1);
        let mut owner = Owner::claim(&*log, 0);
        owner.decide(catalogue());
        owner.decide(shard());
        owner.decide_all(lives(1, batches, 5));
        (owner, log)
    };
    let ((_, long), (owner, log)) = (journal(200), journal(20));
    let generation = from_zero(&*long, tables);
    let since = Since::new(at(owner.now_ms - 20));
    let copied =
        rebuild_since(&Config::default(), &since, &*log, tables, &Shutdown::new(), &mut |_| {}).unwrap_err();
    assert!(copied.to_string().contains("rebuild from the beginning"), "{copied}");
    assert_eq!(tables.active().unwrap().unwrap().number, generation);
}

/// EVT-7: interrupted wherever, while it copies, folds or writes rows over the copies, it begins anew when it is called again,
/// whatever became of the rows meanwhile; the old tables serve until it is done.
pub(crate) fn interrupted_from_a_time_it_begins_anew(shared: &Arc<dyn Tables>) {
    let tables = &**shared;
    let (log, mut owner, end) = history();
    // One that is granted when the copy begins, and is given back before it ends: its row is gone then.
    owner.decide(vec![(1, generated(500, job(1), json!([]))), (1, assigned(500, 9_000, 1))]);
    owner.decide(vec![(1, granted(500, 9_000))]);
    let old = from_zero(&*log, tables);
    let (config, since) = (Config::default(), Since::new(at((START_MS + end) / 2)));
    let stop = Shutdown::new();
    stop.request();
    let while_it_copies = rebuild_since(&config, &since, &*log, tables, &stop, &mut |_| {});
    assert!(matches!(while_it_copies, Err(Error::Interrupted)), "{while_it_copies:?}");
    let stop = Shutdown::new();
    let told = stop.clone();
    let while_it_folds = rebuild_since(&config, &since, &*log, tables, &stop, &mut |_| told.request());
    assert!(matches!(while_it_folds, Err(Error::Interrupted)), "{while_it_folds:?}");
    assert_eq!(tables.active().unwrap().unwrap().number, old);
    for seeds in [1, 3] {
        let (stop, left) = (Shutdown::new(), AtomicU32::new(seeds));
        let told = stop.clone();
        let watch = move |call: &str| {
            if call == "seed" && left.fetch_sub(1, Ordering::SeqCst) == 1 {
                told.request();
            }
            Ok(())
        };
        let watched = Watched { inner: Arc::clone(shared), watch: Box::new(watch) };
        let while_it_writes = rebuild_since(&config, &since, &*log, &watched, &stop, &mut |_| {});
        assert!(matches!(while_it_writes, Err(Error::Interrupted)), "{while_it_writes:?}");
    }
    let begun = tables.generations().unwrap().last().unwrap().number;
    assert_ne!(begun, old);
    let last = owner.decide(vec![(
        1,
        json!({"batch": {"assignment_returned": {
            "batch": id(500), "token": id(9_000), "worker": "w-1", "reason": "worker_lost",
        }}}),
    )]);
    let (progress, told) = (Progress::new(), Shutdown::new());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&config, &log, shared, &progress, &told));
        assert!(progress.wait_until(1, last, Duration::from_secs(30)));
        told.request();
        running.join().unwrap().unwrap();
    });
    let request = PlanRequest { since: Some(since.clone()), compare: false, verify: VerifyConfig::default() };
    let plan = plan_rebuild(&config, &request, &*log, tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert_eq!(plan.unfinished, None);
    let rebuilt = rebuild_since(&config, &since, &*log, tables, &Shutdown::new(), &mut |_| {}).unwrap();
    assert!(rebuilt.generation > begun, "no number is given twice");
    clean(&*log, tables);
    assert_eq!(tables.generations().unwrap().len(), 1);
}

/// EVT-7: a batch that is folded counts its attempts, also where what had begun and was given back left the fold's memory in
/// between; and what a deposed owner wrote since the time hides nothing of what was before.
pub(crate) fn attempts_and_void_records_from_before_count(tables: &dyn Tables) {
    let (_, log) = log(1);
    let mut deposed = Owner::claim(&*log, 0);
    deposed.decide(catalogue());
    deposed.decide(shard());
    let returned = |token: i64| {
        let fact = json!({"batch": id(1), "token": id(token), "worker": "w-1", "reason": "worker_lost"});
        (1, json!({"batch": {"assignment_returned": fact}}))
    };
    deposed.decide(vec![(1, generated(1, job(1), json!([]))), (1, assigned(1, 50, 1)), (1, granted(1, 50))]);
    deposed.decide(vec![(1, generated(2, job(1), json!([]))), (1, assigned(2, 60, 1)), (1, granted(2, 60))]);
    deposed.decide_all((1..150).map(|n| vec![internal(n)]).collect());
    deposed.decide(vec![returned(50)]);
    deposed.decide_all((150..300).map(|n| vec![internal(n)]).collect());
    deposed.decide(vec![(1, assigned(1, 51, 2)), (1, granted(1, 51))]);
    // The tables stand there, and lack all that comes.
    from_zero(&*log, tables);
    let since = Since::new(at(deposed.now_ms + 3));
    let mut owner = Owner::claim(&*log, 0);
    owner.now_ms = deposed.now_ms;
    deposed.decide(vec![(1, generated(2, job(1), json!([])))]);
    deposed.write(b"no envelope".to_vec());
    owner.decide(vec![(1, ended(1, 51, 2, "success")), (1, finished(1, "success"))]);
    owner.decide(vec![(1, finished(2, "success"))]);
    let attempts = |id: i64| tables.batch(id).unwrap().unwrap().attempts;
    assert_eq!((attempts(id(1)), attempts(id(2))), (1, 1));
    let config = Config { cached_rows: 0, ..Config::default() };
    rebuild_since(&config, &since, &*log, tables, &Shutdown::new(), &mut |_| {}).unwrap();
    let report = verify(&*log, tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.differences);
    assert_eq!((attempts(id(1)), attempts(id(2)), report.void_records), (1, 1, 2));
}

/// EVT-7.
#[test]
fn rebuild_from_any_time_is_what_one_from_the_beginning_is() {
    from_any_time_it_is_the_same(&*Database::new().tables);
}

/// EVT-7.
#[test]
fn rows_older_than_the_time_are_named_as_not_mended() {
    let database = Database::new();
    what_is_older_is_not_mended_and_named(&*database.tables, &|sql| database.by_hand(sql));
}

/// EVT-7.
#[test]
fn time_that_cannot_be_right_is_refused() {
    a_time_that_cannot_be_right_is_refused(&*Database::new().tables);
}

/// EVT-7.
#[test]
fn interrupted_rebuild_from_a_time_begins_anew() {
    interrupted_from_a_time_it_begins_anew(&Database::new().tables);
}

/// EVT-7.
#[test]
fn attempts_and_void_records_from_before_the_time_count() {
    attempts_and_void_records_from_before_count(&*Database::new().tables);
}

/// EVT-7: under load, from a time, with the projector beside it.
#[test]
fn rebuild_from_a_time_swaps_under_load() {
    let (log, mut owner, end) = history();
    let database = Database::new();
    let tables = &database.tables;
    let (progress, shutdown) = (Progress::new(), Shutdown::new());
    let config = Config { min_write_interval_ms: 1, cached_rows: 50, ..Config::default() };
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&config, &log, tables, &progress, &shutdown));
        let first = owner.decide_all(lives(200, 5, 5));
        assert!(progress.wait_until(1, first, Duration::from_secs(30)));
        let load = scope.spawn(|| owner.decide_all(lives(300, 300, 6)));
        for _ in 0..3 {
            let since = Since::new(at(end + 1));
            rebuild_since(&config, &since, &*log, &**tables, &Shutdown::new(), &mut |_| {}).unwrap();
        }
        let last = load.join().unwrap();
        assert!(progress.wait_until(1, last, Duration::from_secs(30)));
        shutdown.request();
        running.join().unwrap().unwrap();
    });
    clean(&*log, &**tables);
}

/// EVT-7: a dry run says what would be read and what is there, and changes nothing.
#[test]
fn dry_run_says_what_would_be_done() {
    let (log, _, _) = history();
    let database = Database::new();
    let tables = &*database.tables;
    let plan = |compare| {
        let request = PlanRequest { since: None, compare, verify: VerifyConfig::default() };
        let config = Config::default();
        plan_rebuild(&config, &request, &*log, tables, &Shutdown::new(), &mut |_, _| {}).unwrap()
    };
    let first = plan(false);
    assert_eq!((first.generation, first.rows, first.tables.len()), (None, 0, 0));
    assert!(first.records > 100 && first.estimated_s.is_some(), "{first:?}");
    assert!(tables.generations().unwrap().is_empty(), "nothing is made");
    rebuild(&Config::default(), &*log, tables, &Shutdown::new(), &mut |_| {}).unwrap();
    database.by_hand("UPDATE g1_batches SET worker_id = 'w-9' WHERE id = (SELECT MIN(id) FROM g1_batches)");
    let second = plan(true);
    assert_eq!((second.generation, second.records), (Some(1), first.records));
    let batches = second.tables.iter().find(|table| table.table == "batches").unwrap();
    assert!(batches.rows == 80 && !batches.copied && second.rows > 200, "{second:?}");
    let compared = second.comparison.unwrap();
    assert_eq!((compared.difference_count, compared.mended, compared.left), (1, 1, 0));
    let _ = Owner::claim(&*log, 0);
}
