//! Programs of two versions, whose tables have different forms, on whatever holds the tables.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidemill_journal::{Progress, Shutdown};
use tidemill_log::Topic;
use tidemill_projector::{Config, rebuild, run};
use tidemill_store::rows::BatchRow;
use tidemill_store::{Error, FORMAT, FormInUse, Row, Select, SqliteTables, Tables};

use crate::since::clean;
use crate::support::{Database, Owner, catalogue, lives, log, shard};
use crate::watched::{Watched, lost};

const LONG: Duration = Duration::from_secs(60);

/// Ends the others where a test fails.
struct End(Vec<Shutdown>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.iter().for_each(Shutdown::request);
    }
}

fn config() -> Config {
    Config { min_write_interval_ms: 1, cached_rows: 50, ..Config::default() }
}

/// The same tables, as a program of another version has them.
fn of_form(database: &Database, form: i64) -> Arc<dyn Tables> {
    Arc::new(SqliteTables::open_as(database.directory.path().join("tables.sqlite"), form).unwrap())
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun_at = Instant::now();
    while !is_so() {
        assert!(begun_at.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn batches(tables: &dyn Tables) -> Result<usize, Error> {
    tables.select(&Select::new(BatchRow::TABLE, &["id"])).map(|rows| rows.len())
}

/// OPS-2, EVT-7: under load, a projector of a version with another form builds its tables beside those of the version before,
/// whose projector and interfaces go on with them; it is stopped in the middle, goes on, and swaps by itself. Nobody ever
/// meets a table of another form. What is left of the old version stays until its last program has gone.
pub(crate) fn another_form_is_built_beside(
    open: &(dyn Fn(i64) -> Arc<dyn Tables> + Sync),
    by_hand: &dyn Fn(&str),
) {
    let (_, log) = log(2);
    let last = Owner::claim(&*log, 0).decide(catalogue());
    let mut owner = Owner::claim(&*log, 1);
    owner.decide(shard());
    let (old, new) = (open(*FORMAT), open(*FORMAT + 1));
    let [old_told, new_told, newer_told, last_told, over] = [(); 5].map(|()| Shutdown::new());
    let (old_progress, new_progress) = (Progress::new(), Progress::new());
    let is_read = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let _end = End([&old_told, &new_told, &newer_told, &last_told, &over].map(Shutdown::clone).to_vec());
        let old_running = scope.spawn(|| run(&config(), &log, &old, &old_progress, &old_told));
        assert!(old_progress.wait_until(0, last, LONG));
        let first_set = old.active().unwrap().unwrap().number;
        owner.decide_all(lives(1, 200, 5));
        let load = scope.spawn(|| {
            let (mut first, begun_at) = (1_000, Instant::now());
            // A test that fails ends, too.
            while !over.is_requested() && begun_at.elapsed() < LONG {
                owner.decide_all(lives(first, 10, 3));
                first += 10;
                std::thread::sleep(Duration::from_millis(3));
            }
            owner.decide_all(lives(first, 1, 3))
        });
        // An interface of the old version.
        let (reader, goes_on) = (&old, &is_read);
        let reading = scope.spawn(move || {
            let (mut reads, mut most) = (0, 0);
            let begun_at = Instant::now();
            while goes_on.load(Ordering::SeqCst) && begun_at.elapsed() < LONG {
                let seen = batches(&**reader).expect("the old version never fails");
                assert!(seen >= most, "it never goes back");
                assert_eq!(reader.snapshot().unwrap().generation(), first_set, "it reads its own tables");
                (reads, most) = (reads + 1, seen);
            }
            (reads, most)
        });
        // The new version has nothing to show yet, and says how far it is. It is stopped at once.
        assert!(matches!(batches(&*new), Err(Error::Building { .. })));
        let begun = scope.spawn(|| run(&config(), &log, &new, &new_progress, &new_told));
        until("it begins", || old.generations().unwrap().len() == 2);
        new_told.request();
        begun.join().unwrap().unwrap();
        let second_set = old.generations().unwrap().last().unwrap().number;
        let new_running = scope.spawn(|| run(&config(), &log, &new, &new_progress, &newer_told));
        until("it swaps", || new.active().unwrap().is_some());
        assert_eq!(new.active().unwrap().unwrap().number, second_set, "it went on where it was");
        assert!(batches(&*new).unwrap() >= 200);
        assert_eq!(old.active().unwrap().unwrap().number, first_set);
        // A sign is one that another look has not seen yet.
        let gone = FormInUse { form: *FORMAT, generation: first_set, seen_at: 1 };
        // Both go on side by side.
        let seen = batches(&*old).unwrap();
        until("the old version goes on", || batches(&*old).unwrap() > seen + 20);
        until("the new version goes on", || batches(&*new).unwrap() > seen + 20);
        assert!(new.retire(&gone).unwrap().is_empty(), "the old one is there");
        over.request();
        let last = load.join().unwrap();
        assert!(old_progress.wait_until(1, last, LONG) && new_progress.wait_until(1, last, LONG));
        is_read.store(false, Ordering::SeqCst);
        let (reads, most) = reading.join().unwrap();
        // How often is up to the machine.
        assert!(reads > 1 && most > 200, "{reads} {most}");
        newer_told.request();
        new_running.join().unwrap().unwrap();
        old_told.request();
        old_running.join().unwrap().unwrap();
        clean(&*log, &*old);
        clean(&*log, &*new);
        // Whatever becomes of the new tables, the old version does not notice; they are rebuilt beside its own.
        by_hand(&format!("DROP TABLE g{second_set}_batches"));
        assert!(batches(&*old).is_ok() && batches(&*new).is_err());
        rebuild(&config(), &*log, &*new, &Shutdown::new(), &mut |_| {}).unwrap();
        clean(&*log, &*old);
        clean(&*log, &*new);
        assert_eq!(new.generations().unwrap().len(), 2);
        let last_sign = *new.forms().unwrap().iter().find(|it| it.form == *FORMAT).unwrap();
        assert_eq!(new.retire(&last_sign).unwrap(), [first_set], "nobody is left");
        assert_eq!(new.generations().unwrap().len(), 1);
        // Cut off there, the tables go when the next projector starts.
        assert!(new.count(first_set, BatchRow::TABLE).is_ok());
        let next = scope.spawn(|| run(&config(), &log, &new, &new_progress, &last_told));
        until("what was left is dropped", || new.count(first_set, BatchRow::TABLE).is_err());
        last_told.request();
        next.join().unwrap().unwrap();
        assert!(matches!(batches(&*old), Err(Error::Building { .. })));
        clean(&*log, &*new);
    });
}

/// OPS-2: back to the version before: its tables are there, and its projector goes on with them.
pub(crate) fn version_before_goes_on_with_its_tables(open: &(dyn Fn(i64) -> Arc<dyn Tables> + Sync)) {
    let (_, log) = log(2);
    Owner::claim(&*log, 0).decide(catalogue());
    let mut owner = Owner::claim(&*log, 1);
    owner.decide(shard());
    let mut last = owner.decide_all(lives(1, 50, 5));
    for form in [*FORMAT, *FORMAT + 1, *FORMAT, *FORMAT + 1] {
        let tables = open(form);
        let (progress, told) = (Progress::new(), Shutdown::new());
        std::thread::scope(|scope| {
            let _end = End(vec![told.clone()]);
            let running = scope.spawn(|| run(&config(), &log, &tables, &progress, &told));
            assert!(progress.wait_until(1, last, LONG), "{:?}", progress.partitions());
            until("it serves", || tables.active().unwrap().is_some());
            told.request();
            running.join().unwrap().unwrap();
        });
        clean(&*log, &*tables);
        last = owner.decide_all(lives(last.cast_signed() * 100, 20, 5));
    }
    assert_eq!(open(*FORMAT).generations().unwrap().len(), 2);
}

/// EVT-7: tables that show more than their journal has, which was restored or lost its end, are waited for by nobody: neither
/// by a version with another form, nor by a rebuild.
pub(crate) fn beyond_the_journal(open: &dyn Fn(i64) -> Arc<dyn Tables>) {
    let journal = |batches: i64| {
        let (_, log) = log(1);
        let mut owner = Owner::claim(&*log, 0);
        owner.decide(catalogue());
        owner.decide(shard());
        (owner.decide_all(lives(1, batches, 5)), log)
    };
    let ((_, long), (last, short)) = (journal(300), journal(50));
    let old = open(*FORMAT);
    rebuild(&config(), &*long, &*old, &Shutdown::new(), &mut |_| {}).unwrap();
    let new = open(*FORMAT + 1);
    let (progress, told) = (Progress::new(), Shutdown::new());
    std::thread::scope(|scope| {
        let _end = End(vec![told.clone()]);
        let running = scope.spawn(|| run(&config(), &short, &new, &progress, &told));
        assert!(progress.wait_until(0, last, LONG));
        until("it swaps", || new.active().unwrap().is_some());
        told.request();
        running.join().unwrap().unwrap();
    });
    clean(&*short, &*new);
    rebuild(&config(), &*short, &*old, &Shutdown::new(), &mut |_| {}).unwrap();
    clean(&*short, &*old);
}

/// EVT-7.
#[test]
fn tables_beyond_their_journal_are_not_waited_for() {
    let database = Database::new();
    beyond_the_journal(&|form| of_form(&database, form));
}

/// EVT-7: tables beyond their journal are not waited for, and yet no set takes their place before it has what its own journal
/// has, of every partition.
pub(crate) fn beyond_the_journal_it_is_whole(open: &dyn Fn(i64) -> Arc<dyn Tables>) {
    let journal = |batches: i64| {
        let (_, log) = log(2);
        Owner::claim(&*log, 0).decide(catalogue());
        let mut owner = Owner::claim(&*log, 1);
        owner.decide(shard());
        owner.decide_all(lives(1, batches, 5));
        (owner, log)
    };
    let ((_, long), (owner, short)) = (journal(300), journal(20));
    let old = open(*FORMAT);
    rebuild(&config(), &*long, &*old, &Shutdown::new(), &mut |_| {}).unwrap();
    let (inner, writes, missing) = (open(*FORMAT + 1), AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let (seen, read, most) = (Arc::clone(&inner), Arc::clone(&short), Arc::clone(&missing));
    let owner = Mutex::new(owner);
    let watch = move |name: &str| {
        match name {
            // Before anything is written, the journal grows, so that what is read is not all; and the other partition has to wait.
            "write" => {
                let mut owner = owner.lock().unwrap();
                match writes.fetch_add(1, Ordering::SeqCst) {
                    0 => drop(owner.decide_all(lives(1_000, 150, 5))),
                    1..4 => return Err(lost()),
                    _ => {}
                }
            }
            "activated" => {
                let set = seen.generations().unwrap().last().unwrap().number;
                let positions = seen.positions(set).unwrap();
                for partition in 0..2 {
                    let next = positions.get(&partition).map_or(0, |position| position.offset + 1);
                    let end = read.range(Topic::Journal, partition).unwrap().end;
                    most.fetch_max(end - next, Ordering::SeqCst);
                }
            }
            _ => {}
        }
        Ok(())
    };
    let new: Arc<dyn Tables> = Arc::new(Watched { inner, watch: Box::new(watch) });
    let (progress, told) = (Progress::new(), Shutdown::new());
    std::thread::scope(|scope| {
        let _end = End(vec![told.clone()]);
        let running = scope.spawn(|| run(&config(), &short, &new, &progress, &told));
        until("it swaps", || new.active().unwrap().is_some());
        told.request();
        running.join().unwrap().unwrap();
    });
    let missing = missing.load(Ordering::SeqCst);
    assert!(missing <= 64, "{missing} records were not in the set when it was put to use");
    clean(&*short, &*new);
}

/// EVT-7.
#[test]
fn set_that_replaces_one_beyond_the_journal_is_whole() {
    let database = Database::new();
    beyond_the_journal_it_is_whole(&|form| of_form(&database, form));
}

/// OPS-2: a rebuild of a version that knows of one form drops all sets but its own. The newer version builds its tables again by
/// itself, beside those.
#[test]
fn set_that_another_version_dropped_is_built_again() {
    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    owner.decide(shard());
    let last = owner.decide_all(lives(1, 50, 5));
    let database = Database::new();
    let (old, new) = (of_form(&database, *FORMAT), of_form(&database, *FORMAT + 1));
    for tables in [&old, &new] {
        rebuild(&config(), &*log, &**tables, &Shutdown::new(), &mut |_| {}).unwrap();
    }
    let lost = new.active().unwrap().unwrap().number;
    database.by_hand(&format!(
        "DELETE FROM tidemill_generations WHERE number = {lost}; DELETE FROM tidemill_positions WHERE generation = {lost};"
    ));
    assert!(matches!(batches(&*new), Err(Error::Building { folded: 0, .. })));
    let (progress, told) = (Progress::new(), Shutdown::new());
    std::thread::scope(|scope| {
        let _end = End(vec![told.clone()]);
        let running = scope.spawn(|| run(&config(), &log, &new, &progress, &told));
        assert!(progress.wait_until(0, last, LONG));
        until("it swaps", || new.active().unwrap().is_some());
        told.request();
        running.join().unwrap().unwrap();
    });
    assert!(new.active().unwrap().unwrap().number > lost, "no number is given twice");
    clean(&*log, &*new);
    clean(&*log, &*old);
}

/// OPS-2, EVT-7.
#[test]
fn another_form_of_the_tables_is_built_beside_under_load() {
    let database = Database::new();

    another_form_is_built_beside(&|form| of_form(&database, form), &|sql| database.by_hand(sql));
}

/// OPS-2.
#[test]
fn the_version_before_goes_on_with_its_tables() {
    let database = Database::new();
    version_before_goes_on_with_its_tables(&|form| of_form(&database, form));
}
