//! The role: progress, outages, journals that do not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{Database, Owner, catalogue, lives, log, shard};
use crate::watched::{Watched, lost};
use tidemill_journal::{Error as JournalError, Progress, Shutdown};
use tidemill_log::{Log, MemoryLog, Topic, append_wait};
use tidemill_projector::{Config, Error, run, verify};
use tidemill_store::{Tables, wait_in_tables};

const LONG: Duration = Duration::from_secs(30);

fn running<T>(
    log: &Arc<dyn Log>,
    tables: &Arc<dyn Tables>,
    act: impl FnOnce(&Progress) -> T,
) -> (T, Result<(), Error>) {
    let (progress, shutdown) = (Progress::new(), Shutdown::new());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&Config::default(), log, tables, &progress, &shutdown));
        let done = act(&progress);
        shutdown.request();
        (done, running.join().unwrap())
    })
}

/// API-7: who has written waits until the tables show it, in this process or by asking the database.
#[test]
fn a_write_can_be_waited_for() {
    let (_, log) = log(2);
    let database = Database::new();
    let (first, second) =
        (Owner::claim(&*log, 0).decide(catalogue()), Owner::claim(&*log, 1).decide(shard()));
    let ((), ended) = running(&log, &database.tables, |progress| {
        assert!(progress.wait_until(0, first, LONG));
        assert!(progress.wait_until(1, second, LONG));
        assert!(wait_in_tables(&*database.tables, 1, second, LONG).unwrap());
        assert!(!wait_in_tables(&*database.tables, 1, second + 1, Duration::ZERO).unwrap());
        assert!(!progress.wait_until(1, second + 1, Duration::ZERO));
    });
    ended.unwrap();
}

/// EVT-5: what a deposed owner writes is in no row, and is counted.
#[test]
fn records_of_a_deposed_owner_are_void() {
    let (_, log) = log(1);
    let database = Database::new();
    let mut deposed = Owner::claim(&*log, 0);
    let mut owner = Owner::claim(&*log, 0);
    deposed.decide(catalogue());
    deposed.decide(shard());
    let last = owner.decide(vec![]);
    let (voids, ended) = running(&log, &database.tables, |progress| {
        assert!(progress.wait_until(0, last, LONG));
        progress.partitions()[&0].void_records
    });
    ended.unwrap();
    assert_eq!(voids, 2);
    let report = verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert_eq!((report.rows, report.void_records, report.is_clean()), (0, 2, true));
    // Nothing of what a deposed owner writes at the end is missing in the tables.
    deposed.decide(shard());
    let report = verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    let stand = &report.stands[0];
    assert_eq!((stand.offset, stand.end, stand.behind), (Some(last), last + 2, 0), "{stand:?}");
}

/// Rule 11: tables of another journal are not written to.
#[test]
fn another_journal_stops_the_projection_by_name() {
    let (_, one) = log(1);
    let database = Database::new();
    let last = Owner::claim(&*one, 0).decide(catalogue());
    let (_, ended) = running(&one, &database.tables, |progress| assert!(progress.wait_until(0, last, LONG)));
    ended.unwrap();
    let (_, other) = log(1);
    Owner::claim(&*other, 0).decide(catalogue());
    let error =
        run(&Config::default(), &other, &database.tables, &Progress::new(), &Shutdown::new()).unwrap_err();
    assert!(matches!(error, Error::Journal(JournalError::PositionMismatch { partition: 0, .. })), "{error}");
    let error = verify(&*other, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, Error::Journal(JournalError::PositionMismatch { partition: 0, .. })), "{error}");
}

/// Rule 12: a fact of a later version stops the partition by name and is not skipped; others go on.
#[test]
fn an_unknown_fact_stops_its_partition_only() {
    let (_, log) = log(2);
    let database = Database::new();
    let mut owner = Owner::claim(&*log, 0);
    let known = owner.decide(catalogue());
    let unknown = owner
        .write(br#"{"now":"2026-03-01T00:00:00.000Z","events":[{"shard":0,"event":{"x":{}}}]}"#.to_vec());
    let mut other = Owner::claim(&*log, 1);
    let before = other.decide(shard());
    let ((), ended) = running(&log, &database.tables, |progress| {
        assert!(progress.wait_until(1, before, LONG));
        let after = other.decide(vec![]);
        assert!(progress.wait_until(1, after, LONG));
        while progress.partitions()[&0].error.is_none() {
            std::thread::yield_now();
        }
        assert!(!progress.reaches(0, unknown));
    });
    let error = ended.unwrap_err();
    assert!(
        matches!(error, Error::Journal(JournalError::Body { partition: 0, offset, .. }) if offset == unknown),
        "{error}"
    );
    assert!(known < unknown);
    let report = verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    let [stopped, whole] = &report.stands[..] else { panic!("one for each partition: {:?}", report.stands) };
    let next = stopped.offset.map_or(0, |offset| offset + 1);
    assert_eq!((stopped.end, stopped.behind), (unknown + 1, unknown + 1 - next), "{stopped:?}");
    assert_eq!(stopped.unreadable.as_ref().map(|it| it.offset), Some(unknown), "{stopped:?}");
    assert_eq!((whole.offset, whole.behind, &whole.unreadable), (Some(whole.end - 1), 0, &None));
    assert!(report.difference_count == 0 && !report.is_clean());
}

/// OPS-4: a database that is away, also between a commit and its answer, loses and doubles nothing.
#[test]
fn an_outage_of_the_database_skips_nothing() {
    let (_, log) = log(1);
    let database = Database::new();
    let calls = AtomicU32::new(0);
    let away = move |call: &str| match call {
        // The answer may be lost as well.
        "write" | "written" | "load" if calls.fetch_add(1, Ordering::Relaxed) % 3 == 2 => Err(lost()),
        _ => Ok(()),
    };
    let flaky: Arc<dyn Tables> =
        Arc::new(Watched { inner: Arc::clone(&database.tables), watch: Box::new(away) });
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    let ((), ended) = running(&log, &flaky, |progress| {
        for decisions in lives(1, 40, 9).chunks(60) {
            let last = owner.decide_all(decisions.to_vec());
            assert!(progress.wait_until(0, last, LONG));
        }
    });
    ended.unwrap();
    let report = verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.differences);
}

/// Two projectors on the same tables do not mix: one wins each time, the other takes a fresh look.
#[test]
fn two_projectors_do_not_mix() {
    let (_, log) = log(1);
    let database = Database::new();
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    let ((inner, shown), ended) = running(&log, &database.tables, |one| {
        let (shown, inner) = running(&log, &database.tables, |other| {
            let last = owner.decide_all(lives(1, 60, 3));
            (one.wait_until(0, last, LONG), other.wait_until(0, last, LONG))
        });
        (inner, shown)
    });
    ended.and(inner).unwrap();
    assert_eq!(shown, (true, true));
    let report = verify(&*log, &*database.tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.differences);
}

/// A record that is no frame at all is void like any other.
#[test]
fn garbage_in_the_journal_is_void() {
    let memory = MemoryLog::new(1);
    let log: Arc<dyn Log> = Arc::new(memory);
    let database = Database::new();
    let mut owner = Owner::claim(&*log, 0);
    append_wait(&*log.producer().unwrap(), Topic::Journal, 0, b"", b"garbage".to_vec(), LONG).unwrap();
    let last = owner.decide(catalogue());
    let (voids, ended) = running(&log, &database.tables, |progress| {
        assert!(progress.wait_until(0, last, LONG));
        progress.partitions()[&0].void_records
    });
    ended.unwrap();
    assert_eq!(voids, 1);
}
