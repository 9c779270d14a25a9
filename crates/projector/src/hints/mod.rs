//! The role that keeps hints honest: it reads the journal of every partition and marks what may have become due
//! (PUL-6, PUL-9). See [`tidemill_store::hints`] for what its steps guard against.
//!
//! ```text
//!  every 250 ms   time of the back end, then the journal's end ─► sample
//!  journal        facts ─► marks, gathered
//!  sample reached marks + beat in one step; the life holds until 750 ms after the sample's time
//! ```
//! So what stood in the journal 750 ms ago has its mark wherever a life holds, whatever is slow or lost. While this
//! role lags, or is away, no life holds, and everybody asks the owner.

mod keeper;
mod marks;
mod pace;

use std::sync::Arc;

use tidemill_journal::{Keepers, Shutdown};
use tidemill_log::{Log, Topic};
use tidemill_store::hints::Hints;

use crate::Error;
use keeper::Keeper;

/// Keeps the hints of every partition until shutdown. A broker or back end that is away is waited for: hints are
/// missing meanwhile, and nothing else.
///
/// # Errors
/// A thread cannot be started.
pub fn keep_hints(log: &Arc<dyn Log>, hints: &Arc<dyn Hints>, shutdown: &Shutdown) -> Result<(), Error> {
    let mut keepers = Keepers::new(shutdown);
    for partition in 0..log.partitions(Topic::Journal) {
        let keeper = Keeper::new(partition, Arc::clone(log), Arc::clone(hints), shutdown.clone());
        keepers
            .start(format!("hints-{partition}"), keeper)
            .map_err(|source| Error::Thread { partition, source })?;
    }
    keepers.join()
}
