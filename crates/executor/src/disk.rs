//! Whether attempts can be written down: a worker whose disk is full takes no work, says so, and goes on by itself
//! once there is room (MON-7).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, io};

use crossbeam_channel::Sender;

use crate::thread::Repeating;
use crate::worker::Input;
use crate::{Error, plain_file};

/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What is written to see whether anything can be.
const TRIAL_BYTES: usize = 64 * 1024;

/// Whether an error says that nothing more can be written, whatever is tried.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
    )
}

/// Somebody could not write, so that free space alone proves nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Suspicion(Arc<AtomicBool>);

impl Suspicion {
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One thread that looks after the data directory. What changes is told.
pub(crate) fn watch(
    dir: &Path,
    reserve_bytes: u64,
    suspicion: Suspicion,
    inputs: Sender<Vec<Input>>,
) -> Result<Repeating, Error> {
    let mut disk = Disk { dir: dir.to_owned(), reserve_bytes, suspicion, is_full: false };
    Repeating::start("disk", "the thread that watches the disk", LOOK_EVERY, move || {
        if let Some(unready) = disk.look() {
            let _ = inputs.send(vec![Input::Fitness { unready }]);
        }
    })
}

struct Disk {
    dir: PathBuf,
    reserve_bytes: u64,
    suspicion: Suspicion,
    is_full: bool,
}

impl Disk {
    /// What has changed: why no work can be taken, or that it can.
    #[allow(clippy::option_option, reason = "outside: whether anything changed; inside: what is told")]
    fn look(&mut self) -> Option<Option<String>> {
        let suspected = self.suspicion.0.swap(false, Ordering::Relaxed);
        let why = self.why_full(suspected);
        if why.is_some() == self.is_full {
            return None;
        }
        self.is_full = why.is_some();
        match &why {
            Some(why) => tracing::warn!(dir = %self.dir.display(), "no work is taken: {why}"),
            None => tracing::info!(dir = %self.dir.display(), "there is room again, and work is taken"),
        }
        Some(why)
    }

    /// A little more has to be free before work is taken again, so that it does not go to and fro.
    fn why_full(&self, suspected: bool) -> Option<String> {
        let spare = if self.is_full { self.reserve_bytes / 4 } else { 0 };
        let free = match rustix::fs::statvfs(&self.dir) {
            Ok(facts) => facts.f_bavail.saturating_mul(facts.f_frsize),
            Err(error) => return Some(format!("its disk cannot be asked: {error}")),
        };
        if free < self.reserve_bytes + spare {
            let (free, needed) = (free >> 20, self.reserve_bytes >> 20);
            return Some(format!("its disk is full: {free} MiB are free, and it keeps {needed} MiB"));
        }
        if suspected || self.is_full {
            return self.try_to_write().err().map(|error| format!("its disk takes nothing more: {error}"));
        }
        None
    }

    fn try_to_write(&self) -> io::Result<()> {
        let file = self.dir.join("trial");
        let written = plain_file::replace(&file, &[0; TRIAL_BYTES]).map(drop);
        let removed = fs::remove_file(&file);
        written.and(removed)
    }
}
