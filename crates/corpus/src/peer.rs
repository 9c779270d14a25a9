//! A peer over HTTP that answers whatever a test says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Of a request so much is read at once.
const CHUNK: usize = 64 << 10;
/// Whoever asks and then says nothing is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens on a port of its own, for as long as the process lives.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Peer {
    /// One that says nothing yet.
    ///
    /// # Panics
    /// There is no port.
    #[must_use]
    pub fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of this host is free");
        let address = listener.local_addr().expect("a listener has an address");
        let answer: Arc<Mutex<Vec<u8>>> = Arc::default();
        let said = Arc::clone(&answer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let answer = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // Who asks may go before it is answered.
                let _ = stream.and_then(|stream| reply(stream, &answer));
            }
        });
        Self { address, answer }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on each connection gets these bytes after its first request, and is closed.
    pub fn says(&self, answer: &[u8]) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer.to_vec();
    }
}

/// A whole request is read first: whoever closes before that takes the answer away from who asks.
fn reply(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let (mut heard, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    while !is_whole(&heard) {
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            count => heard.extend_from_slice(&chunk[..count]),
        }
    }
    stream.write_all(answer)
}

/// Its head is there, and as much behind it as it says.
fn is_whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return request.ends_with(b"0\r\n\r\n");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    request.len() >= end + 4 + length
}
