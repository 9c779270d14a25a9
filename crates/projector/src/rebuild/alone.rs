//! One rebuild of a form's tables at a time, whatever processes there are.

use std::thread;
use std::time::Duration;

use tidemill_journal::{Shutdown, causes};
use tidemill_store::{RebuildRight, Tables};

use crate::Error;

/// Between two signs of life.
const SIGN: Duration = Duration::from_secs(5);
/// Who gave none for so long may be replaced.
const REPLACED_AFTER: Duration = Duration::from_secs(30);

/// Does it while nobody else may, and says all the while that it goes on. Who was replaced is told so when it writes next.
pub(super) fn alone<T>(
    tables: &dyn Tables,
    work: impl FnOnce(RebuildRight) -> Result<T, Error>,
) -> Result<T, Error> {
    const WHAT: &str = "begin to rebuild the tables";
    let right = tables.begin_rebuild(&holder(), REPLACED_AFTER).map_err(Error::tables(WHAT))?;
    let done = Shutdown::new();
    let outcome = thread::scope(|scope| {
        let told = done.clone();
        let signs = move || {
            while !told.wait(SIGN) {
                if let Err(error) = tables.keep_rebuild(right) {
                    let reason = causes(&error);
                    tracing::warn!(reason, "it could not be noted that the rebuild goes on: {reason}");
                }
            }
        };
        let started = thread::Builder::new().name("rebuild".to_owned()).spawn_scoped(scope, signs);
        let _end = End(done);
        started.map_err(|source| Error::Thread { partition: 0, source })?;
        work(right)
    });
    if let Err(error) = tables.end_rebuild(right) {
        let reason = causes(&error);
        tracing::warn!(reason, "it could not be noted that the rebuild has ended: {reason}");
    }
    outcome
}

/// Ends the signs of life, also where the work panics.
struct End(Shutdown);

impl Drop for End {
    fn drop(&mut self) {
        self.0.request();
    }
}

/// For people who look for it.
fn holder() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("process {} of {host}", std::process::id())
}
