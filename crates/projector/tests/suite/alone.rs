//! Two rebuilds of the same tables, and one that is cut off in the middle, on whatever holds the tables.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tidemill_journal::Shutdown;
use tidemill_log::Log;
use tidemill_projector::{Config, Error, Rebuilt, Since, rebuild, rebuild_since};
use tidemill_store::{Error as StoreError, Tables};

use crate::since::{at, clean, history};
use crate::support::{Database, START_MS};
use crate::watched::Watched;

const LONG: Duration = Duration::from_secs(60);

fn from_zero(log: &dyn Log, tables: &dyn Tables) -> Result<u32, Error> {
    rebuild(&Config::default(), log, tables, &Shutdown::new(), &mut |_| {})
}

fn from_a_time(log: &dyn Log, tables: &dyn Tables, end: i64) -> Result<Rebuilt, Error> {
    let since = Since::new(at((START_MS + end) / 2));
    rebuild_since(&Config::default(), &since, log, tables, &Shutdown::new(), &mut |_| {})
}

/// Tables whose calls of this name wait until they may go on, after they have said so once; and who says that they may.
fn held(tables: &Arc<dyn Tables>, call: &'static str) -> (Watched, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (say, said) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let once = Mutex::new(Some((say, gone)));
    let watch = move |name: &str| {
        if name == call
            && let Some((say, gone)) = once.lock().unwrap().take()
        {
            say.send(()).unwrap();
            gone.recv_timeout(LONG).unwrap();
        }
        Ok(())
    };
    (Watched { inner: Arc::clone(tables), watch: Box::new(watch) }, said, go)
}

/// EVT-7: while one rebuilds, in whatever step it is, another is told who does and since when, and changes nothing.
pub(crate) fn second_is_refused(tables: &Arc<dyn Tables>) {
    let (log, _, end) = history();
    from_zero(&*log, &**tables).unwrap();
    for step in ["copy", "seed", "write", "sweep"] {
        let (watched, said, go) = held(tables, step);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| match step {
                "write" => from_zero(&*log, &watched).map(drop),
                _ => from_a_time(&*log, &watched, end).map(drop),
            });
            said.recv_timeout(LONG).unwrap();
            let sets = tables.generations().unwrap();
            for second in
                [from_zero(&*log, &**tables).map(drop), from_a_time(&*log, &**tables, end).map(drop)]
            {
                let Err(Error::Tables { source: StoreError::RebuildGoesOn { holder, .. }, .. }) = second
                else {
                    panic!("{step}: {second:?}");
                };
                assert!(holder.starts_with(&format!("process {} of ", std::process::id())), "{holder}");
            }
            assert_eq!(tables.generations().unwrap(), sets);
            go.send(()).unwrap();
            first.join().unwrap().unwrap();
        });
        clean(&*log, &**tables);
        assert_eq!(tables.generations().unwrap().len(), 1);
    }
}

/// EVT-7: one that is killed, or that stands still for long, is replaced by another; going on, it is refused when it writes next.
pub(crate) fn killed_is_replaced(tables: &Arc<dyn Tables>, by_hand: &dyn Fn(&str)) {
    let (log, _, end) = history();
    from_zero(&*log, &**tables).unwrap();
    let dies = |name: &str| match name {
        "seed" => panic!("killed"),
        _ => Ok(()),
    };
    let dying = Watched { inner: Arc::clone(tables), watch: Box::new(dies) };
    let killed = catch_unwind(AssertUnwindSafe(|| from_a_time(&*log, &dying, end)));
    assert!(killed.is_err());
    let refused = from_zero(&*log, &**tables).unwrap_err();
    assert!(
        tidemill_journal::causes(&refused).contains("one that was killed may be replaced in "),
        "{refused}"
    );
    let long_ago = || by_hand("UPDATE tidemill_rebuilds SET seen_at = seen_at - 31000");
    long_ago();
    from_a_time(&*log, &**tables, end).unwrap();
    clean(&*log, &**tables);
    for step in ["copy", "seed", "write"] {
        for from_the_beginning in [true, false] {
            let (watched, said, go) = held(tables, step);
            std::thread::scope(|scope| {
                let slow = scope.spawn(|| match step {
                    "write" => from_zero(&*log, &watched).map(drop),
                    _ => from_a_time(&*log, &watched, end).map(drop),
                });
                said.recv_timeout(LONG).unwrap();
                long_ago();
                let set = match from_the_beginning {
                    true => from_zero(&*log, &**tables).unwrap(),
                    false => from_a_time(&*log, &**tables, end).unwrap().generation,
                };
                go.send(()).unwrap();
                let slow = slow.join().unwrap();
                assert!(slow.is_err(), "{step}");
                if step != "write" {
                    let reason = tidemill_journal::causes(&slow.unwrap_err());
                    assert!(reason.contains("this rebuild is given up"), "{step}: {reason}");
                }
                assert_eq!(tables.active().unwrap().unwrap().number, set);
            });
            clean(&*log, &**tables);
        }
    }
}

/// EVT-7.
#[test]
fn second_rebuild_at_once_is_refused() {
    second_is_refused(&Database::new().tables);
}

/// EVT-7.
#[test]
fn killed_rebuild_is_replaced_and_writes_no_more() {
    let database = Database::new();
    killed_is_replaced(&database.tables, &|sql| database.by_hand(sql));
}
