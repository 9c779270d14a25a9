//! The threads beside the worker's loop: named, told of where they panic, and waited for.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use crate::Error;

/// A thread, by what people call it. Dropped, it goes on by itself.
pub(crate) struct Thread {
    what: &'static str,
    handle: JoinHandle<()>,
}

impl Thread {
    pub(crate) fn start(
        name: &str,
        what: &'static str,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        let handle = Builder::new().name(name.to_owned()).spawn(run);
        Ok(Self { what, handle: handle.map_err(not_started(what))? })
    }

    /// One with a runtime for what waits. What still hangs at the end, a call on a file system, is not waited for.
    pub(crate) fn start_async(
        name: &str,
        what: &'static str,
        run: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(not_started(what))?;
        Self::start(name, what, move || {
            runtime.block_on(run);
            runtime.shutdown_background();
        })
    }

    pub(crate) fn join(self) {
        if self.handle.join().is_err() {
            tracing::error!("{} panicked", self.what);
        }
    }
}

pub(crate) fn not_started(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Start { what, source }
}

/// A thread that does something at once and then again and again.
pub(crate) struct Repeating {
    stop: Sender<()>,
    thread: Thread,
}

impl Repeating {
    pub(crate) fn start(
        name: &str,
        what: &'static str,
        every: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> Result<Self, Error> {
        let (stop, stopped) = bounded::<()>(0);
        let run = move || {
            loop {
                work();
                if stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        Ok(Self { stop, thread: Thread::start(name, what, run)? })
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        self.thread.join();
    }
}
