//! The role: a server for readers, and tasks that fetch, flush, sync and sweep.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tidemill_cluster::{Division, Peers};
use tidemill_log::Log;
use tidemill_model::InstanceId;
use tidemill_seal::LogsSecret;
use tidemill_serving::tls::{Roles, ServerSide};
use tidemill_serving::{Limits, Listener};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::fetch::{Fetcher, Workers, fetch};
use crate::flush::{flush, sync};
use crate::server::{Served, router};
use crate::store::Store;
use crate::sweep::sweep;
use crate::{Config, Error};

const ROLE: &str = "logs";
const THREADS: usize = 2;
/// Of its threads: output can wait.
const PRIORITY: i32 = 5;
/// For a worker to take a connection, or to say anything more.
const SILENCE: Duration = Duration::from_secs(20);

/// What connects the store to the rest.
pub struct Outside {
    /// For the division of attempts among stores.
    pub log: Arc<dyn Log>,
    /// This life of it.
    pub instance: InstanceId,
    /// Whose logs are fetched.
    pub workers: Workers,
    /// What workers know interfaces and stores by.
    pub logs_key: String,
    /// What readers are known by: it seals their tickets. No worker has it.
    pub internal_key: String,
    /// How workers are asked, where roles speak encrypted.
    pub roles: Option<Roles>,
    /// How readers are served there.
    pub tls: Option<ServerSide>,
    /// Bounds of readers' connections.
    pub limits: Limits,
}

/// A store that runs. Dropped, it is told to stop.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Running {
    /// Listens for readers, and begins to fetch.
    ///
    /// # Errors
    /// The configuration, the place, the address, the log or a thread cannot be used.
    pub fn start(config: Config, outside: Outside) -> Result<Self, Error> {
        config.check().map_err(Error::Config)?;
        let listen = config.listen;
        let cannot = |source| Error::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let store = Arc::new(Store::new(config)?);
        let peers = Peers::new(outside.roles.as_ref());
        let scheme = peers.scheme;
        let with = |builder: reqwest::ClientBuilder| {
            // A worker sends nobody elsewhere.
            let builder = builder.redirect(reqwest::redirect::Policy::none());
            builder.connect_timeout(SILENCE).read_timeout(SILENCE)
        };
        let client = peers.client(with).map_err(Error::Client)?;
        let fetcher = Fetcher {
            client,
            scheme,
            logs_key: outside.logs_key.as_str().into(),
            instance: outside.instance.clone(),
            store: Arc::clone(&store),
        };
        let division =
            Division::follow(&outside.log, ROLE, outside.instance.as_str()).map_err(Error::Cluster)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name(ROLE)
            .on_thread_start(|| {
                // Starts of jobs come first, where all is one process. It is no matter if that cannot be had.
                let _ = rustix::process::setpriority_process(None, PRIORITY);
            })
            .enable_all()
            .build()
            .map_err(Error::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            let served = runtime.block_on(serve(store, fetcher, &division, outside, listener, stopped));
            // A call of a place that hangs, or of the tables, is not waited for.
            runtime.shutdown_background();
            division.end();
            served
        };
        let thread = std::thread::Builder::new().name(ROLE.to_owned()).spawn(run);
        Ok(Self { address, stop, thread: thread.map_err(Error::Thread)? })
    }

    /// Where readers ask.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it. What is in no segment is shipped again.
    ///
    /// # Errors
    /// It had ended before, and why.
    pub fn stop(self) -> Result<(), Error> {
        drop(self.stop);
        let address = self.address;
        let ended = self.thread.join().map_err(|_| Error::Panicked)?;
        ended.map_err(|source| Error::Listen { address, source })
    }
}

async fn serve(
    store: Arc<Store>,
    fetcher: Fetcher,
    division: &Division,
    outside: Outside,
    listener: TcpListener,
    stopped: oneshot::Receiver<()>,
) -> std::io::Result<()> {
    let served = Served {
        store: Arc::clone(&store),
        secret: LogsSecret::of(&outside.internal_key),
        key_hash: Sha256::digest(outside.internal_key.as_bytes()).into(),
        parts: division.parts(),
    };
    let listener = Listener::new(tokio::net::TcpListener::from_std(listener)?, outside.tls);
    let serving = tidemill_serving::serve(listener, router(served), outside.limits, std::future::pending());
    let mut tasks = JoinSet::new();
    tasks.spawn(fetch(fetcher, outside.workers, division.parts()));
    tasks.spawn(flush(Arc::clone(&store)));
    tasks.spawn(sync(Arc::clone(&store)));
    tasks.spawn(sweep(store, division.parts()));
    tokio::select! {
        served = serving => served,
        // None of them ends by itself, but by a bug.
        ended = tasks.join_next() => {
            let why = ended.and_then(Result::err).map_or_else(|| "it has ended".to_owned(), |error| error.to_string());
            Err(std::io::Error::other(format!("a part of the store of logs: {why}")))
        }
        // A sender that is gone means the same.
        _ = stopped => Ok(()),
    }
}
