//! Making the tables anew, and comparing them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Database, Owner, START_MS, catalogue, id, lives, log, shard, time};
use crate::watched::{Watched, lost};
use serde_json::json;
use tidemill_journal::{Progress, Shutdown};
use tidemill_log::Log;
use tidemill_projector::{Config, Difference, Error, rebuild, run, verify};
use tidemill_store::{Aged, ReadTables, Tables, rows};

const LONG: Duration = Duration::from_secs(30);

/// EVT-7, EVT-2: under load the tables are rebuilt while the old ones serve, then swapped; after that the
/// projector keeps the new ones, and they are what the journal says.
#[test]
fn rebuild_swaps_the_tables_under_load() {
    let (_, log) = log(2);
    let database = Database::new();
    let tables = &database.tables;
    Owner::claim(&*log, 0).decide(catalogue());
    let mut owner = Owner::claim(&*log, 1);
    let first = owner.decide(shard());
    let (progress, shutdown, config) = (
        Progress::new(),
        Shutdown::new(),
        Config { min_write_interval_ms: 1, cached_rows: 100, ..Config::default() },
    );
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&config, &log, tables, &progress, &shutdown));
        assert!(progress.wait_until(1, first, LONG));
        let load = scope.spawn(|| owner.decide_all(lives(1, 400, 5)));
        let old = tables.active().unwrap().unwrap().number;
        let mut told = 0;
        let new = rebuild(&config, &*log, &**tables, &Shutdown::new(), &mut |it| {
            assert!(it.folded <= it.total + 10_000);
            told += 1;
        });
        let new = new.unwrap();
        assert!(new > old && told > 0);
        let left: Vec<_> = tables.generations().unwrap().iter().map(|it| it.number).collect();
        assert_eq!(left, [new]);
        let last = load.join().unwrap();
        assert!(progress.wait_until(1, last, LONG));
        shutdown.request();
        running.join().unwrap().unwrap();
    });
    let report = verify(&*log, &**tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.differences);
    assert!(tables.batch(id(400)).unwrap().is_some());
}

/// EVT-2: all read tables are dropped by hand; a rebuild brings them back, and the projector goes on.
#[test]
fn tables_dropped_by_hand_come_back() {
    let (_, log) = log(1);
    let database = Database::new();
    let tables = &database.tables;
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    let first = owner.decide(shard());
    let (progress, shutdown, config) = (Progress::new(), Shutdown::new(), Config::default());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&config, &log, tables, &progress, &shutdown));
        assert!(progress.wait_until(0, first, LONG));
        let generation = tables.active().unwrap().unwrap().number;
        for table in rows::TABLES {
            database.by_hand(&format!("DROP TABLE g{generation}_{}", table.name));
        }
        let last = owner.decide_all(lives(1, 50, 6));
        rebuild(&config, &*log, &**tables, &Shutdown::new(), &mut |_| {}).unwrap();
        assert!(progress.wait_until(0, last, LONG));
        shutdown.request();
        running.join().unwrap().unwrap();
    });
    let report = verify(&*log, &**tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean() && report.rows > 100, "{report:#?}");
}

/// EVT-7: a rebuild that was interrupted goes on where it was; the old tables serve until it is done.
#[test]
fn interrupted_rebuild_goes_on_where_it_was() {
    let (_, log) = log(1);
    let database = Database::new();
    let tables = &*database.tables;
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    let (config, go) = (Config::default(), Shutdown::new());
    let old = rebuild(&config, &*log, tables, &go, &mut |_| {}).unwrap();
    for decision in lives(1, 2_000, 7) {
        owner.decide(decision);
    }
    let stop = Shutdown::new();
    let mut folded = 0;
    let interrupted = rebuild(&config, &*log, tables, &stop, &mut |it| {
        folded = it.folded;
        stop.request();
    });
    assert!(matches!(interrupted, Err(Error::Interrupted)) || folded == 0);
    assert_eq!(tables.active().unwrap().unwrap().number, old);
    let mut first = None;
    let new = rebuild(&config, &*log, tables, &go, &mut |it| {
        first.get_or_insert(it);
    });
    let first = first.unwrap();
    assert_eq!(first.generation, new.unwrap());
    assert!(first.folded > folded, "{first:?} after {folded}");
    let report = verify(&*log, tables, &go, &mut |_, _| {}).unwrap();
    assert!(report.is_clean() && report.rows > 2_000, "{report:#?}");
}

/// A set that a rebuild of so many batches left unfinished, by the loss of the database after its first step.
fn begin_and_break_off(database: &Database, batches: i64) -> (Arc<dyn Log>, u32) {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    owner.decide_all(lives(1, batches, 5));
    let begun =
        rebuild(&Config::default(), &*log, &*failing(database, "written"), &Shutdown::new(), &mut |_| {});
    assert!(begun.unwrap_err().is_outage());
    let sets = database.tables.generations().unwrap();
    assert!(!sets.last().unwrap().active);
    (log, sets.last().unwrap().number)
}

/// Tables whose first call of this name fails as if the database were away.
fn failing(database: &Database, call: &'static str) -> Arc<dyn Tables> {
    let left = AtomicBool::new(true);
    let watch = move |name: &str| {
        if name == call && left.swap(false, Ordering::SeqCst) { Err(lost()) } else { Ok(()) }
    };
    Arc::new(Watched { inner: Arc::clone(&database.tables), watch: Box::new(watch) })
}

/// EVT-7: a database that is away for a moment costs nothing of what an earlier rebuild folded.
#[test]
fn begun_set_stays_where_the_database_is_away() {
    let database = Database::new();
    let (log, begun) = begin_and_break_off(&database, 100);
    let away =
        rebuild(&Config::default(), &*log, &*failing(&database, "is_whole"), &Shutdown::new(), &mut |_| {});
    assert!(matches!(away, Err(ref error) if error.is_outage()), "{away:?}");
    let set = rebuild(&Config::default(), &*log, &*database.tables, &Shutdown::new(), &mut |_| {}).unwrap();
    assert_eq!(set, begun, "it goes on with what was begun");
}

/// EVT-7: a rebuild whose set is in use has succeeded, whatever becomes of the tables before.
#[test]
fn rebuild_is_done_when_its_set_is_in_use() {
    let database = Database::new();
    let (log, _) = begin_and_break_off(&database, 20);
    for call in ["sweep", "repair_views"] {
        let tables = failing(&database, call);
        let set = rebuild(&Config::default(), &*log, &*tables, &Shutdown::new(), &mut |_| {}).unwrap();
        assert_eq!(tables.active().unwrap().unwrap().number, set);
    }
    // The next one drops what is left.
    let set = rebuild(&Config::default(), &*log, &*database.tables, &Shutdown::new(), &mut |_| {}).unwrap();
    let left: Vec<_> = database.tables.generations().unwrap().iter().map(|it| it.number).collect();
    assert_eq!(left, [set]);
}

/// EVT-7: a set that was begun from a journal that was restored since, or that has lost its end, is begun anew.
#[test]
fn begun_set_that_does_not_fit_the_journal_is_begun_anew() {
    let database = Database::new();
    let (_, begun) = begin_and_break_off(&database, 200);
    let (_, short) = log(1);
    let mut owner = Owner::claim(&*short, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    owner.decide_all(lives(1, 5, 5));
    let tables = &*database.tables;
    let set = rebuild(&Config::default(), &*short, tables, &Shutdown::new(), &mut |_| {}).unwrap();
    assert!(set > begun);
    let report = verify(&*short, tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean() && report.rows > 10, "{report:#?}");
}

/// EVT-2: a row changed, removed or added by hand is named, with its column and both values.
#[test]
fn verify_names_what_was_changed_by_hand() {
    let (_, log) = log(1);
    let database = Database::new();
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    for decision in lives(1, 10, 8) {
        owner.decide(decision);
    }
    rebuild(&Config::default(), &*log, &*database.tables, &Shutdown::new(), &mut |_| {}).unwrap();
    let check = || verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(check().is_clean());
    database.by_hand(&format!("UPDATE g1_batches SET worker_id = 'w-9' WHERE id = {}", id(3)));
    let expected = Difference {
        table: "batches",
        key: id(3).to_string(),
        column: Some("worker_id"),
        expected: Some("\"w-1\"".to_owned()),
        found: Some("\"w-9\"".to_owned()),
    };
    assert_eq!(check().differences, [expected]);
    database.by_hand(
        "UPDATE g1_batches SET worker_id = 'w-1'; DELETE FROM g1_app_keys; \
        INSERT INTO g1_resources VALUES ('w-8', 1, 'noop', 1)",
    );
    let report = check();
    let told: Vec<_> =
        report.differences.iter().map(|it| (it.table, it.column, it.found.is_some())).collect();
    assert_eq!(told, [("resources", None, true), ("app_keys", None, false)]);
    assert_eq!(report.difference_count, 2);
}

/// EVT-2: bounds that are far too small for the rows change nothing in what a comparison finds: it goes over the keys in
/// several ranges, and leaves nothing behind.
#[test]
fn verify_finds_the_same_within_any_bounds() {
    use tidemill_projector::{VerifyConfig, verify_within};

    let (_, log) = log(2);
    let (mut first, mut second) = (Owner::claim(&*log, 0), Owner::claim(&*log, 1));
    first.decide(catalogue());
    second.decide(shard());
    second.decide_all(lives(1, 60, 3));
    let task = |n: i64| {
        let spec = json!({
            "executor": {"group": "demo"}, "when": {"every_minutes": {"n": 5, "start": time(START_MS)}}, "dispatch_times": 9,
        });
        (1, json!({"task": {"created": {"task": id(1000 + n), "spec": spec}}}))
    };
    second.decide((0..7).map(task).collect());
    let database = Database::new();
    let tables = &*database.tables;
    rebuild(&Config::default(), &*log, tables, &Shutdown::new(), &mut |_| {}).unwrap();
    tables.raise_horizon(Aged::Pull, START_MS).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let compare = |rows: usize| {
        let path = scratch.path().to_owned();
        let config = VerifyConfig { scratch: path, cached_rows: 3 * rows, page_rows: rows, range_rows: rows };
        let report = verify_within(&config, &*log, tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "what was put aside is gone");
        report
    };
    let clean = compare(2);
    assert!(clean.is_clean() && clean.passes == 4, "{clean:?}");
    assert!(compare(100_000).passes == 1);
    let generation = tables.active().unwrap().unwrap().number;
    database.by_hand(&format!(
        "DELETE FROM g{generation}_batches WHERE id = {}; \
         UPDATE g{generation}_attempts SET message = 'by hand' WHERE id = (SELECT MAX(id) FROM g{generation}_attempts); \
         UPDATE g{generation}_pull_task_versions SET version = 9 WHERE id = {}; \
         INSERT INTO g{generation}_job_parents SELECT job_id, position + 7, parent_id, mapping, mapping_offset \
         FROM g{generation}_job_parents LIMIT 1;",
        id(5),
        id(1003),
    ));
    let (small, large) = (compare(2), compare(100_000));
    assert_eq!(small.differences, large.differences);
    assert_eq!((small.difference_count, small.rows), (5, large.rows), "{:#?}", small.differences);
}

/// EVT-2: what a comparison holds in memory does not grow with the history: of many thousand rows it holds a page at a
/// time, and what 128 records change.
#[test]
fn verify_holds_no_more_rows_of_a_longer_history() {
    use tidemill_projector::{VerifyConfig, verify_within};

    let scratch = tempfile::tempdir().unwrap();
    let of_history = |batches: i64| {
        let (_, log) = log(1);
        let mut owner = Owner::claim(&*log, 0);
        owner.decide(catalogue());
        owner.decide(shard());
        owner.decide_all((0..batches / 20).flat_map(|n| lives(20 * n + 1, 20, 5)).collect());
        let database = Database::new();
        rebuild(&Config::default(), &*log, &*database.tables, &Shutdown::new(), &mut |_| {}).unwrap();
        let path = scratch.path().to_owned();
        let config = VerifyConfig { scratch: path, cached_rows: 64, page_rows: 16, range_rows: 16 };
        let report =
            verify_within(&config, &*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
        assert!(report.is_clean(), "{report:#?}");
        (report.rows, report.peak_rows)
    };
    let ((few_rows, peak), (many_rows, later_peak)) = (of_history(200), of_history(2_000));
    assert!(many_rows > 9 * few_rows && many_rows > 5_000, "{few_rows} {many_rows}");
    assert!(later_peak < 2 * peak && later_peak < 600, "{peak} {later_peak}");
}
