//! The HTTP interface on threads of its own.

use std::net::SocketAddr;
use std::thread::JoinHandle;

use tidemill_api::{Config, Deps, Server};
use tidemill_cli::{Done, Failure};
use tidemill_serving::Limits;
use tidemill_serving::tls::ServerSide;
use tokio::sync::oneshot;

use super::standalone::{join, spawn};

/// The interface, listening.
pub(crate) struct Interface {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Done>,
}

/// Fails where something else listens, before anything else is started.
pub(crate) fn check_address(config: &Config) -> Done {
    std::net::TcpListener::bind(config.listen).map(drop).map_err(|error| {
        Failure::caused(format!("cannot listen on {}", config.listen), &error).hint(OTHER_ADDRESS)
    })
}

/// What to do where the address is taken.
const OTHER_ADDRESS: &str = "name another address with --listen or api.listen; port 0 takes a free one";

impl Interface {
    /// Listens, and serves from then on.
    pub(crate) fn start(config: Config, deps: Deps, limits: Limits, tls: Option<ServerSide>) -> Done<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("api")
            .max_blocking_threads(tidemill_serving::descriptors::for_readers())
            .enable_all()
            .build()
            .map_err(|error| Failure::caused("cannot start the threads of the interface", &error))?;
        let server = runtime
            .block_on(Server::bind(config, deps, limits))
            .map_err(|error| Failure::caused("cannot start the interface", &error).hint(OTHER_ADDRESS))?
            .encrypted(tls);
        let address =
            server.address().map_err(|error| Failure::caused("cannot start the interface", &error))?;
        let (stop, stopped) = oneshot::channel();
        let thread = spawn("interface", move || {
            let stopped = async move {
                // A sender that is gone means the same.
                let _ = stopped.await;
            };
            runtime
                .block_on(server.serve(stopped))
                .map_err(|error| Failure::caused("the interface has failed", &error))
        })?;
        Ok(Self { address, stop, thread })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Takes no more requests, and waits for those under way.
    pub(crate) fn stop(self) -> Done {
        drop(self.stop);
        join("interface", self.thread)
    }
}
