//! Follows the catalogue's journal for an interface.

use std::sync::Arc;
use std::thread::JoinHandle;

use tidemill_cli::{Done, Exit, Failure};
use tidemill_directory::Known;
use tidemill_journal::{Error, Shutdown};
use tidemill_log::Log;

/// What is known of the catalogue, and the thread that keeps it.
pub(crate) struct Following {
    known: Known,
    shutdown: Shutdown,
    thread: JoinHandle<Result<(), Error>>,
}

impl Following {
    /// Of this log, which has to give old records too, wherever they are.
    pub(crate) fn start(log: &Arc<dyn Log>) -> Done<Self> {
        let (known, shutdown) = (Known::new(), Shutdown::new());
        let thread = tidemill_directory::follow(log.clone(), known.clone(), &shutdown)
            .map_err(|error| Failure::caused("cannot start to follow the catalogue", &error))?;
        Ok(Self { known, shutdown, thread })
    }

    pub(crate) fn known(&self) -> Known {
        self.known.clone()
    }

    /// Whether it has ended by itself: the journal says what this version does not read.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn stop(self) -> Done {
        self.shutdown.request();
        let ended = self.thread.join();
        let ended = ended
            .map_err(|_| Failure::new(Exit::Failure, "the thread that follows the catalogue panicked"))?;
        ended.map_err(|error| Failure::caused("following the catalogue has failed", &error))
    }
}
