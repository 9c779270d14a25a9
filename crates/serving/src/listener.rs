//! A socket that takes connections, encrypted or not.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::tls::ServerSide;
use crate::watched::Watched;

/// Begins every handshake of TLS; no method of HTTP does.
const HANDSHAKE: u8 = 0x16;
/// So much of what a client that is refused goes on sending is taken, so that it reads why.
const LINGER_BYTES: u64 = 64 << 10;
/// To a client that speaks plain HTTP.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: application/problem+json\r\ncontent-length: 156\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\"code\":\"https_expected\",\
    \"detail\":\"this port is encrypted: call it by https:// in place of http://\"}";

/// A socket that takes connections, encrypted or not.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) tls: Option<ServerSide>,
}

impl Listener {
    /// Encrypted where `tls` says how.
    pub fn new(socket: TcpListener, tls: Option<ServerSide>) -> Self {
        Self { socket, tls }
    }
}

impl From<TcpListener> for Listener {
    fn from(socket: TcpListener) -> Self {
        Self::new(socket, None)
    }
}

/// Does the handshake. `None`: the client was told why not, or is gone.
pub(crate) async fn open(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    watch: impl FnOnce(TcpStream) -> Watched,
) -> Option<TlsStream<Watched>> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1) => {}
        Ok(_) | Err(_) => return None,
    }
    let mut stream = watch(stream);
    if first[0] != HANDSHAKE {
        if stream.write_all(PLAIN).await.is_ok() {
            linger(stream).await;
        }
        return None;
    }
    match acceptor.accept(stream).into_fallible().await {
        Ok(stream) => Some(stream),
        Err((error, stream)) => {
            tracing::debug!(%error, "a handshake has failed");
            // The alert says why; it is lost where what came after it was not taken.
            linger(stream).await;
            None
        }
    }
}

/// Says that nothing more is written, and waits for the client to end, too. How long is bounded by the connection's place.
async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    if stream.shutdown().await.is_ok() {
        // It may be gone already.
        let _: io::Result<u64> =
            tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await;
    }
}
