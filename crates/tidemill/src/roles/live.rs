//! Answers other processes' questions about the partitions that this one owns.

use std::net::TcpListener;
use std::thread::JoinHandle;

use axum::Router;
use tidemill_cli::{Done, Failure};
use tidemill_serving::tls::ServerSide;
use tidemill_serving::{Limits, Listener};
use tokio::sync::oneshot;

use super::standalone::{join, spawn};

/// A server of live answers.
pub(crate) struct LiveServer {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Done>,
}

impl LiveServer {
    /// Serves from now on.
    pub(crate) fn start(
        listener: TcpListener,
        router: Router,
        limits: Limits,
        tls: Option<ServerSide>,
    ) -> Done<Self> {
        let cannot =
            |error: std::io::Error| Failure::caused("cannot answer questions about partitions", &error);
        listener.set_nonblocking(true).map_err(cannot)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("live")
            .enable_all()
            .build()
            .map_err(cannot)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = spawn("live answers", move || {
            runtime
                .block_on(async move {
                    let listener = Listener::new(tokio::net::TcpListener::from_std(listener)?, tls);
                    let serving = tidemill_serving::serve(listener, router, limits, std::future::pending());
                    tokio::select! {
                        served = serving => served,
                        // A sender that is gone means the same. Answers under way are asked for again.
                        _ = stopped => Ok(()),
                    }
                })
                .map_err(cannot)
        })?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn stop(self) -> Done {
        drop(self.stop);
        join("live answers", self.thread)
    }
}
