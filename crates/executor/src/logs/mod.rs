//! Serves the output of attempts, `GET /logs/{token}` and `GET /logs/{token}/download` (LOG-2, LOG-3), gives it to the store of
//! logs that keeps it, `POST /output` (LOG-1, [`ship`]), and serves what they use while they run, `GET /usage/{token}` (EXE-7).
//!
//! The API and the store ask here, for nobody else opens a worker's files. A reader presents the secret for logs. One
//! thread; files are read by the runtime's few blocking threads, a bounded piece at a time.

#[cfg(test)]
mod corpus;
mod read;
mod server;
mod ship;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tidemill_serving::Limits;
use tidemill_serving::tls::ServerSide;
use tokio::sync::oneshot;

use crate::Error;
use crate::data_dir::Attempts;
use crate::processes::Table;
use crate::thread::{Thread, not_started};

const WHAT: &str = "the server of logs";
/// Of its threads: output can wait.
const PRIORITY: i32 = 5;

/// What is served.
pub(crate) struct Shown {
    pub(crate) attempts: Attempts,
    pub(crate) table: Arc<Table>,
    /// The most bytes of an output, where there is a limit.
    pub(crate) output_max_bytes: Option<u64>,
}

/// How connections are served.
pub(crate) struct Serving {
    pub(crate) limits: Limits,
    pub(crate) tls: Option<ServerSide>,
}

/// The server, until it is stopped.
pub(crate) struct LogServer {
    /// With the real port.
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: Thread,
}

impl LogServer {
    /// Listens; `key` is what readers have to present.
    pub(crate) fn start(
        listen: SocketAddr,
        Shown { attempts, table, output_max_bytes }: Shown,
        key: &str,
        serving: Serving,
    ) -> Result<Self, Error> {
        let failed = |source: io::Error| Error::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build();
        let runtime = runtime.map_err(not_started(WHAT))?;
        let key_hash = Sha256::digest(key.as_bytes()).into();
        let ship = ship::Ship::new(attempts.clone(), Arc::clone(&table), output_max_bytes);
        let served = Arc::new(server::Served { attempts, table, ship, key_hash });
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            // Threads that it starts for files have the same. Starts of jobs come first.
            let _ = rustix::process::setpriority_process(None, PRIORITY);
            if let Err(error) = runtime.block_on(server::serve(listener, served, serving, stopped)) {
                tracing::error!(%error, "the server of logs has ended");
            }
            // A disk that hangs does not hold up the end of the worker.
            runtime.shutdown_background();
        };
        Ok(Self { address, stop, thread: Thread::start("logs", WHAT, serve)? })
    }

    pub(crate) fn stop(self) {
        // A server that has ended has said so.
        let _ = self.stop.send(());
        self.thread.join();
    }
}
