//! What never comes back is ended, and its input kept.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After so long the process ends: nothing here may take a hundredth of it.
const ENDLESS: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_secs(1);

type Present = Arc<Mutex<Option<(Instant, Vec<u8>)>>>;

/// Watches one target for as long as it lives.
pub(crate) struct Watch(Present);

fn lock(present: &Present) -> MutexGuard<'_, Option<(Instant, Vec<u8>)>> {
    present.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    pub(crate) fn begin(directory: &Path) -> Self {
        let present = Present::default();
        let (watched, kept) = (Arc::downgrade(&present), directory.join("crash-endless"));
        thread::spawn(move || {
            while let Some(present) = watched.upgrade() {
                end_where_endless(&present, &kept);
                drop(present);
                thread::sleep(LOOK);
            }
        });
        Self(present)
    }

    /// Checks one input. Gives how long it took.
    pub(crate) fn during(&self, input: &[u8], check: impl FnOnce()) -> Duration {
        let begun_at = Instant::now();
        *lock(&self.0) = Some((begun_at, input.to_vec()));
        check();
        *lock(&self.0) = None;
        begun_at.elapsed()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *lock(&self.0) = None;
    }
}

fn end_where_endless(present: &Present, kept: &PathBuf) {
    if let Some((begun_at, input)) = &*lock(present)
        && begun_at.elapsed() > ENDLESS
    {
        let written = std::fs::write(kept, input);
        eprintln!("an input takes longer than {ENDLESS:?}; kept in {}: {written:?}", kept.display());
        std::process::abort();
    }
}
