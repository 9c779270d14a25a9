//! Answers other processes' questions about the partitions that this one owns.

use std::net::TcpListener;

use axum::Router;
use tidemill_cli::{Done, Failure};
use tidemill_serving::tls::ServerSide;
use tidemill_serving::{Limits, Listener};

use super::serving::Serving;

const FAILED: &str = "cannot answer questions about partitions";

/// A server of live answers, which serves from now on.
pub(super) fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    tls: Option<ServerSide>,
) -> Done<Serving> {
    let cannot = |error: std::io::Error| Failure::caused(FAILED, &error);
    listener.set_nonblocking(true).map_err(cannot)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("live")
        .enable_all()
        .build()
        .map_err(cannot)?;
    Serving::start("live answers", runtime, FAILED, move |stopped| async move {
        let listener = Listener::new(tokio::net::TcpListener::from_std(listener)?, tls);
        let serving = tidemill_serving::serve(listener, router, limits, std::future::pending());
        tokio::select! {
            served = serving => served,
            // Answers under way are asked for again.
            () = stopped => Ok(()),
        }
    })
}
