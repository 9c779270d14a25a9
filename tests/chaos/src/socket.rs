//! Sockets as an attacker uses them: many at once, each sending piece by piece, and what becomes of each.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

const CONNECT: Duration = Duration::from_millis(500);
/// Between two looks at the sockets.
const LOOK: Duration = Duration::from_millis(40);
/// Between two bytes of what is sent slowly.
const DRIP: Duration = Duration::from_millis(120);
/// A busy machine, and the listener's own looks at its clock, may add so much to a bound.
pub(crate) const SLACK: Duration = Duration::from_secs(5);
/// A client that takes nothing has room for little.
const DEAF_BYTES: usize = 4 << 10;
/// The begin of an answer that is looked at.
const HEARD: usize = 512;

/// What the sockets of one act do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    pub sockets: usize,
    pub bytes: Vec<u8>,
    /// After these the rest is sent byte by byte; all at once where absent.
    pub first: Option<usize>,
    /// Then it says that nothing more comes.
    pub half_closes: bool,
    /// Then it is gone.
    pub vanishes: bool,
    /// It reads nothing for so long.
    pub deaf_for: Duration,
    /// It is over when it is closed; an answer alone is not enough.
    pub until_closed: bool,
    /// After the answers the sockets stay open for so long.
    pub stays: Duration,
    /// It is answered or closed within this.
    pub bound: Duration,
    /// Whoever answers has to look a key up.
    pub shows_key: bool,
    /// It is no harm where it is answered with success.
    pub may_succeed: bool,
    /// So many of them at once, at most.
    pub most_succeed: Option<usize>,
}

impl Manner {
    pub(crate) fn sending(self, text: String) -> Self {
        Self { bytes: text.into_bytes(), ..self }
    }

    pub(crate) fn slowly(self, first: usize) -> Self {
        Self { first: Some(first), ..self }
    }

    /// With the time that a whole request has to its answer.
    pub(crate) fn answered(self) -> Self {
        Self { bound: Duration::from_secs(10), ..self }
    }
}

/// What became of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Answered, with this status.
    Answered(u16),
    /// Closed or reset by the other side.
    Closed,
    /// There was no connection.
    Absent,
    /// The client was gone first, as it meant to.
    Left,
    /// Nothing of this within the bound.
    Open,
}

/// One socket's end, and when it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub end: End,
    pub begun_at: jiff::Timestamp,
    pub ended_at: jiff::Timestamp,
}

struct One {
    stream: Option<TcpStream>,
    sent: usize,
    next: Instant,
    heard: Vec<u8>,
    end: Option<(End, jiff::Timestamp)>,
    begun_at: jiff::Timestamp,
}

/// Does it, all sockets beside each other; gives the end of each. Those under way when the run is over have left.
pub(crate) fn drive(address: &str, manner: &Manner, is_over: &AtomicBool) -> Vec<Ended> {
    let Ok(address) = address.parse() else { return Vec::new() };
    let begun = Instant::now();
    let mut all: Vec<_> = (0..manner.sockets).map(|_| One::connect(address, manner)).collect();
    // Those that stay are over together, those that do not as each of them ends.
    while all.iter().any(|one| one.end.is_none()) {
        let late = begun.elapsed() > manner.deaf_for + manner.bound + SLACK;
        let is_left = is_over.load(Ordering::SeqCst);
        for one in all.iter_mut().filter(|one| one.end.is_none()) {
            let end = one.step(manner, begun.elapsed() >= manner.deaf_for);
            let given_up = if is_left { Some(End::Left) } else { late.then_some(End::Open) };
            if let Some(end) = end.or(given_up) {
                one.end = Some((end, jiff::Timestamp::now()));
                if manner.stays.is_zero() {
                    one.stream = None;
                }
            }
        }
        thread::sleep(LOOK);
    }
    let stays_from = Instant::now();
    while stays_from.elapsed() < manner.stays && !is_over.load(Ordering::SeqCst) {
        thread::sleep(LOOK);
    }
    let ended = |one: One| {
        let (end, ended_at) = one.end.expect("the loop waits for it");
        Ended { end, begun_at: one.begun_at, ended_at }
    };
    all.into_iter().map(ended).collect()
}

fn connect(address: SocketAddr, is_deaf: bool) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if is_deaf {
        socket.set_recv_buffer_size(DEAF_BYTES)?;
    }
    socket.connect_timeout(&address.into(), CONNECT)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

impl One {
    fn connect(address: SocketAddr, manner: &Manner) -> Self {
        let begun_at = jiff::Timestamp::now();
        let stream = connect(address, !manner.deaf_for.is_zero()).ok();
        let end = stream.is_none().then_some((End::Absent, begun_at));
        Self { stream, sent: 0, next: Instant::now(), heard: Vec::new(), end, begun_at }
    }

    /// Sends what is due, and hears what is there.
    fn step(&mut self, manner: &Manner, hears: bool) -> Option<End> {
        let is_sent = self.send(manner);
        if is_sent && manner.vanishes {
            let stream = self.stream.take()?;
            // Where it cannot be reset it is closed; either way it is gone.
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            return Some(End::Left);
        }
        if hears { self.hear(manner) } else { None }
    }

    /// True once there is nothing more to send, also where nobody takes it.
    fn send(&mut self, manner: &Manner) -> bool {
        let Some(stream) = &mut self.stream else { return true };
        if self.sent >= manner.bytes.len() {
            return true;
        }
        if Instant::now() < self.next {
            return false;
        }
        let first = manner.first.unwrap_or(manner.bytes.len());
        let until = if self.sent < first { first } else { self.sent + 1 };
        match stream.write(&manner.bytes[self.sent..until]) {
            Ok(count) => self.sent += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.sent = manner.bytes.len(),
        }
        if self.sent >= first {
            self.next = Instant::now() + DRIP;
        }
        let is_sent = self.sent >= manner.bytes.len();
        if is_sent && manner.half_closes {
            // One that is closed already is closed.
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        is_sent
    }

    fn hear(&mut self, manner: &Manner) -> Option<End> {
        let stream = self.stream.as_mut()?;
        let mut bytes = [0; 64 << 10];
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => return Some(status_of(&self.heard).map_or(End::Closed, End::Answered)),
                Ok(count) => {
                    let room = HEARD.saturating_sub(self.heard.len()).min(count);
                    self.heard.extend(&bytes[..room]);
                    if !manner.until_closed
                        && let Some(status) = status_of(&self.heard)
                    {
                        return Some(End::Answered(status));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Some(status_of(&self.heard).map_or(End::Closed, End::Answered)),
            }
        }
    }
}

fn status_of(heard: &[u8]) -> Option<u16> {
    let line = heard.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    str::from_utf8(line).ok()?.parse().ok()
}
