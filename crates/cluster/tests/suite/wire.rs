//! Raw bytes on a connection, and what comes back.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use tidemill_serving::Limits;

/// An answer begins within this, on a busy machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// More than any answer here: the document of the interface, an export.
const MOST_HEARD: usize = 4 << 20;

/// Bounds of connections within which whoever sends half a request is not waited for.
pub(crate) fn impatient(limits: Limits) -> Limits {
    let soon = Duration::from_millis(40);
    Limits { header: soon, idle: soon, body: soon, ..limits }
}

/// What comes back on a connection that got these bytes, which is then closed by the server, or by us once it has begun to
/// answer.
pub(crate) fn speak(address: SocketAddr, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    // The server may have answered before it has read everything, and closed.
    let _ = stream.write_all(said);
    // Half a head: its end is all that can still be said.
    if !said.windows(2).any(|window| window == b"\n\n" || window == b"\n\r") {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let (mut heard, mut chunk) = (Vec::new(), [0; 4_096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return heard,
            Ok(count) => heard.extend(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return heard,
            Err(error) => panic!("neither an answer nor an end: {error}"),
        }
        let _ = stream.shutdown(Shutdown::Write);
        assert!(heard.len() <= MOST_HEARD, "{} bytes", heard.len());
        // A stream of events goes on for as long as its reader is there. Where more was said than its request, the server does
        // not read that far, and so not that nothing more is said: only a reader that is gone ends it.
        if heard.windows(17).any(|window| window == b"text/event-stream") {
            return heard;
        }
    }
}

/// The statuses in what was heard; a body that looks like one counts as well.
pub(crate) fn statuses(heard: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(heard);
    let status = |part: &str| part.get(2..5)?.parse().ok();
    text.split("HTTP/1.").skip(1).filter_map(status).collect()
}

pub(crate) fn is_fine(statuses: &[u16]) -> bool {
    // 503: the answer to what is over a bound; 504: the tables are not that far. 505: another version of HTTP.
    // 100: a client that asked whether it may send its body has ended its side before the answer.
    statuses.iter().all(|status| (100..500).contains(status) || [502, 503, 504, 505].contains(status))
}

/// With the secret in the place of `SECRET`.
pub(crate) fn with_secret(input: &[u8], secret: &str) -> Vec<u8> {
    match std::str::from_utf8(input) {
        Ok(text) => text.replace("SECRET", secret).into_bytes(),
        Err(_) => input.to_vec(),
    }
}
