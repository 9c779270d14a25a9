//! A server on threads of its own.

use std::future::Future;
use std::thread::JoinHandle;

use tidemill_cli::{Done, Failure};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::standalone::{join, spawn};

/// A server, until it is told to stop.
pub(super) struct Serving {
    name: &'static str,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Done>,
}

impl Serving {
    /// Serves from now on; `serve` gets what becomes ready once it is to stop. `failed` is what its failure is told as.
    pub(super) fn start<F: Future<Output = Result<(), E>>, E: std::error::Error>(
        name: &'static str,
        runtime: Runtime,
        failed: &'static str,
        serve: impl FnOnce(Stopped) -> F + Send + 'static,
    ) -> Done<Self> {
        let (stop, stopped) = oneshot::channel();
        let thread = spawn(name, move || {
            // A sender that is gone means the same.
            let stopped: Stopped = Box::pin(async { drop(stopped.await) });
            runtime.block_on(async { serve(stopped).await }).map_err(|error| Failure::caused(failed, &error))
        })?;
        Ok(Self { name, stop, thread })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub(super) fn stop(self) -> Done {
        drop(self.stop);
        join(self.name, self.thread)
    }
}

/// Ready once a server is to stop.
pub(super) type Stopped = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
