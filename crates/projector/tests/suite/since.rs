//! Rebuilding from a time, and what a dry run says.

use crate::support::{
    Database, Owner, a_time_that_cannot_be_right_is_refused, at, clean, from_any_time_it_is_the_same,
    history, interrupted_from_a_time_it_goes_on, lives, what_is_older_is_not_mended_and_named,
};
use std::time::Duration;
use tidemill_journal::{Progress, Shutdown};
use tidemill_projector::{
    Config, PlanRequest, Since, VerifyConfig, plan_rebuild, rebuild, rebuild_since, run,
};

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
fn interrupted_rebuild_from_a_time_goes_on() {
    interrupted_from_a_time_it_goes_on(&*Database::new().tables);
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
