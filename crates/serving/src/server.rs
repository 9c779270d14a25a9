//! Accepts connections and serves each on a task of its own.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::Service as _;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Limits;
use crate::arriving::Arriving;
use crate::connections::{Busy, Connection, Connections, Place};
use crate::listener::{self, Listener};
use crate::watched::Watched;

/// The most of a request that is kept while its head is not complete, and of a body at once.
const BUFFER_BYTES: usize = 64 << 10;
/// After the system has refused a connection, for lack of descriptors perhaps.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two looks at times, at most.
const LOOK: Duration = Duration::from_millis(500);
/// Where every connection has a request under way.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/problem+json\r\ncontent-length: 136\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"code\":\"overloaded\",\
    \"detail\":\"all connections have requests under way\"}";

/// Serves until `stop` is done; then takes no connection more, closes those without a request, and ends when the last
/// request under way is answered. Dropped, it cuts off what is under way.
///
/// # Errors
/// The listener is of no use any more.
pub async fn serve(
    listener: impl Into<Listener>,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let Listener { socket, tls } = listener.into();
    let acceptor = tls.map(|tls| tls.acceptor());
    let connections = Connections::new(limits);
    let (tell, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut looks = tokio::time::interval(LOOK.min(limits.header / 4).min(limits.idle / 4));
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = looks.tick() => connections.close_late(),
            Some(_) = tasks.join_next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, peer)) => match connections.enter(peer.ip()).await {
                    Some(place) => {
                        let (router, stopping) = (router.clone(), stopping.clone());
                        let serving = Serving { router, limits, stopping, peer: Peer(peer.ip()) };
                        tasks.spawn(connection(stream, acceptor.clone(), place, serving));
                    }
                    // An encrypted connection begins with a handshake: there is no room for one either.
                    None if acceptor.is_some() => {}
                    // The client may be gone, and must not keep anybody waiting.
                    None => drop(stream.try_write(REFUSAL)),
                },
                Err(error) => recover(&connections, &error).await,
            },
        }
    }
    drop(socket);
    // Every connection's task holds a receiver; where there is none, nobody needs to hear it.
    let _ = tell.send(true);
    connections.close_waiting();
    loop {
        tokio::select! {
            ended = tasks.join_next() => if ended.is_none() { return Ok(()) },
            _ = looks.tick() => connections.close_waiting(),
        }
    }
}

/// A client that was gone before it was accepted is nothing; else room is made and it is tried again.
async fn recover(connections: &Connections, error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        return;
    }
    tracing::warn!(%error, "a connection cannot be accepted; the one that was silent for longest is closed");
    connections.close_one();
    tokio::time::sleep(PAUSE).await;
}

/// Who is at the other end of the connection; in the extensions of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

struct Serving {
    router: Router,
    limits: Limits,
    stopping: watch::Receiver<bool>,
    peer: Peer,
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, place: Place, serving: Serving) {
    // Answers are written at once; a part of one must not wait for an acknowledgement. A socket that refuses works.
    let _ = stream.set_nodelay(true);
    // What is written and never acknowledged, for the other side has gone without a word, is not taken either.
    let write_ms = u32::try_from(serving.limits.write.as_millis()).unwrap_or(u32::MAX);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, write_ms);
    let connection = Arc::clone(&place.connection);
    let watch = |stream| Watched::new(stream, Arc::clone(&connection), serving.limits.write);
    let Some(acceptor) = acceptor else { return exchange(watch(stream), &connection, serving).await };
    // The first head's time goes on from the first byte of the handshake, and ends it, too.
    let opened = tokio::select! {
        opened = listener::open(stream, &acceptor, watch) => opened,
        () = connection.closed() => None,
    };
    if let Some(stream) = opened {
        exchange(stream, &connection, serving).await;
    }
}

/// Requests and answers, one after the other.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: &Arc<Connection>,
    serving: Serving,
) {
    let Serving { router, limits, mut stopping, peer } = serving;
    let io = TokioIo::new(stream);
    let router = TowerToHyperService::new(router);
    let answer = hyper::service::service_fn(|mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let busy = connection.begin();
        let answering = router.call(request.map(|body| Body::new(Arriving::new(body, &limits))));
        async move {
            let response: Response = answering.await?;
            Ok::<_, Infallible>(response.map(|body| Leaving { body, ended: false, _busy: busy }))
        }
    });
    // Times for heads are kept by `Connections`, which knows a silent connection from a slow one.
    let serving = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(io, answer);
    let mut serving = pin!(serving);
    let mut told = false;
    loop {
        tokio::select! {
            // What ends a connection early is the client's affair.
            _ = serving.as_mut() => return,
            () = connection.closed() => return,
            _ = stopping.wait_for(|stopping| *stopping), if !told => {
                told = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The body of an answer: the request is under way until it is all but written. The connection would drop a body that says
/// that its last piece was the last one, though nothing of that piece is written yet; it asks again when there is room.
struct Leaving {
    body: Body,
    ended: bool,
    _busy: Busy,
}

impl hyper::body::Body for Leaving {
    type Data = <Body as hyper::body::Body>::Data;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.ended = matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
