//! The HTTP interface on threads of its own.

use std::net::SocketAddr;

use tidemill_api::{Config, Deps, Server};
use tidemill_cli::{Done, Failure};
use tidemill_serving::Limits;
use tidemill_serving::tls::ServerSide;
use tokio::runtime::Handle;

use super::serving::Serving;

/// The interface, listening.
pub(crate) struct Interface {
    address: SocketAddr,
    runtime: Handle,
    serving: Serving,
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
        let handle = runtime.handle().clone();
        let serve = |stopped| server.serve(stopped);
        let serving = Serving::start("interface", runtime, "the interface has failed", serve)?;
        Ok(Self { address, runtime: handle, serving })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its threads, until it is stopped.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.serving.has_ended()
    }

    /// Takes no more requests, and waits for those under way.
    pub(crate) fn stop(self) -> Done {
        self.serving.stop()
    }
}
