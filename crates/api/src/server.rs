//! Serves the interface, and stops in order (OPS-6).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router, middleware};
use tidemill_serving::tls::ServerSide;
use tidemill_serving::{Limits, Listener};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::app::App;
use crate::{Config, Deps, Error, bulk_carrier, layers, openapi, reference, refusal_reports, routes, s4};

/// The interface without a socket.
///
/// # Errors
/// The configuration is outside its ranges, or the HTTP client cannot be made.
pub fn router(config: Config, deps: Deps) -> Result<Router, Error> {
    // Nobody stops it: the sender may go.
    let (_, stopping) = watch::channel(false);
    let limits = tidemill_serving::Config::default().for_everybody();
    Ok(service(Arc::new(App::new(config, &limits, deps, stopping)?)))
}

fn service(app: Arc<App>) -> Router {
    let keyed = routes::calls()
        .router
        .route_layer(middleware::from_fn(layers::asked))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&app), layers::fresh))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&app), layers::authenticated));
    let operating = routes::admin_calls()
        .router
        .route_layer(middleware::from_fn(layers::asked))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&app), layers::operating));
    let calls = Router::new()
        .merge(keyed)
        .merge(operating)
        .merge(routes::sign_in_calls().router)
        .merge(routes::attempt_calls().router)
        .merge(s4::calls().router)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), layers::bounded))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), refusal_reports::noted))
        .merge(routes::open_calls().router.layer(Extension::<routes::Document>(&openapi::DOCUMENT)))
        .merge(reference::pages())
        .fallback(layers::not_found)
        .method_not_allowed_fallback(layers::wrong_method)
        .with_state(app);
    // Around the whole: what a path allows is written by its router.
    Router::new().fallback_service(calls).layer(middleware::from_fn(layers::documented))
}

/// A listener that is bound and not yet served, so that its address is known before the first request.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    limits: Limits,
    tls: Option<ServerSide>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Listens as configured, with these bounds for connections. How long a body may take is the configuration's.
    ///
    /// # Errors
    /// The configuration is outside its ranges, or the address cannot be listened on.
    pub async fn bind(config: Config, deps: Deps, limits: Limits) -> Result<Self, Error> {
        let address = config.listen;
        let limits = Limits { body: Duration::from_millis(config.read_timeout_ms), ..limits };
        let (stop, stopping) = watch::channel(false);
        let app = Arc::new(App::new(config, &limits, deps, stopping)?);
        let listener =
            TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
        Ok(Self { app, listener, limits, tls: None, stop })
    }

    /// Serves encrypted where `tls` says how.
    #[must_use]
    pub fn encrypted(self, tls: Option<ServerSide>) -> Self {
        Self { tls, ..self }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The operating system does not say.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        let address = self.app.config.listen;
        self.listener.local_addr().map_err(|source| Error::Listen { address, source })
    }

    /// Serves until `shutdown` is done; then takes no connection more, ends event streams, and gives requests
    /// under way their time.
    ///
    /// # Errors
    /// Connections cannot be accepted any more.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        let Self { app, listener, limits, tls, stop } = self;
        let stop_timeout = app.config.stop_timeout();
        let mut stopping = stop.subscribe();
        let signal = async move {
            shutdown.await;
            // The app holds a receiver, so there is one.
            let _ = stop.send(true);
        };
        let carrier = tokio::spawn(bulk_carrier::run(Arc::clone(&app)));
        let reporter = tokio::spawn(refusal_reports::run(Arc::clone(&app)));
        let serving =
            tidemill_serving::serve(Listener::new(listener, tls), service(Arc::clone(&app)), limits, signal);
        let late = async move {
            // An error says that the sender is gone, which is after the signal too.
            let _ = stopping.wait_for(|stopping| *stopping).await;
            tokio::time::sleep(stop_timeout).await;
        };
        let served = tokio::select! {
            served = serving => served.map_err(Error::Serve),
            () = late => {
                tracing::warn!("requests were still under way when their time to end was over; they are cut off");
                Ok(())
            }
        };
        // What it has begun goes on at the next start, or elsewhere.
        carrier.abort();
        let _ = carrier.await;
        // It has heard of the signal, unless serving failed.
        reporter.abort();
        let _ = reporter.await;
        refusal_reports::report_last(&app).await;
        served
    }
}

/// Listens and serves until `shutdown` is done.
///
/// # Errors
/// The configuration is outside its ranges, the address cannot be listened on, or serving fails.
pub async fn run(
    config: Config,
    deps: Deps,
    limits: Limits,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let server = Server::bind(config, deps, limits).await?;
    let address = server.address()?;
    tracing::info!(%address, "the interface listens on {address}");
    server.serve(shutdown).await
}
