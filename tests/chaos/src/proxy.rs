//! A TCP proxy of one process's connections to one service, or of all connections to one process, which can be made to fail.
//!
//! ```text
//!  process ── sent ──►  link  ──────────► service
//!          ◄──────────        ◄─ received ──
//! ```
//! Two threads for each connection, one for each direction. What was lost is lost for good: a connection that
//! lost a byte is reset when the fault is healed, as a real one would be by its peers.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

const CONNECT: Duration = Duration::from_secs(2);
const CHUNK: usize = 64 * 1024;
const STACK: usize = 256 * 1024;

/// What happens to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They arrive.
    Pass,
    /// They arrive this much later.
    Delay(Duration),
    /// They wait for the heal.
    Stall,
    /// Their connection is reset.
    Reset,
    /// Those that the process sends are lost.
    LoseSent,
    /// Those that the process is sent are lost.
    LoseReceived,
}

/// The way of one process to one service.
#[derive(Clone)]
pub(crate) struct Link {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: SocketAddr,
    mode: Mutex<Mode>,
    changed: Condvar,
    pairs: Mutex<Pairs>,
}

#[derive(Default)]
struct Pairs {
    next: u64,
    open: BTreeMap<u64, Arc<Pair>>,
}

/// One connection, both halves.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    /// Bytes of it were lost.
    lost: AtomicBool,
    /// It was reset.
    dead: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Sent,
    Received,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Listens on a free port of this address of ours, and leads to `upstream`.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub(crate) fn open(listen: IpAddr, upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((listen, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            mode: Mutex::new(Mode::Pass),
            changed: Condvar::new(),
            pairs: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                // A process that cannot have a thread has its connection dropped; it will try again.
                let _ = spawn(move || shared.serve(stream));
            }
        })?;
        Ok(Self { address, shared })
    }

    /// Where the process connects to.
    #[must_use]
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on.
    pub(crate) fn set(&self, mode: Mode) {
        let before = std::mem::replace(&mut *lock(&self.shared.mode), mode);
        let open: Vec<_> = lock(&self.shared.pairs).open.values().cloned().collect();
        for pair in open {
            let healed = mode == Mode::Pass && before != Mode::Pass && pair.lost.load(Ordering::SeqCst);
            if mode == Mode::Reset || healed {
                pair.reset();
            }
        }
        self.shared.changed.notify_all();
    }
}

fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("link".to_owned()).stack_size(STACK).spawn(run).map(drop)
}

impl Pair {
    /// Ends both halves by RST: that is what closing does when nothing may linger. Reading is shut down only so
    /// that the threads notice.
    fn reset(&self) {
        self.dead.store(true, Ordering::SeqCst);
        for stream in [&self.client, &self.server] {
            // A connection that is gone already needs no reset.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            let _ = stream.shutdown(Shutdown::Read);
        }
    }
}

impl Shared {
    fn mode(&self) -> Mode {
        *lock(&self.mode)
    }

    fn serve(self: &Arc<Self>, client: TcpStream) {
        if self.mode() == Mode::Reset {
            let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
            return;
        }
        let Ok(server) = TcpStream::connect_timeout(&self.upstream, CONNECT) else { return };
        // Without it a broker's answer would wait for the next one.
        let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
        let pair =
            Arc::new(Pair { client, server, lost: AtomicBool::new(false), dead: AtomicBool::new(false) });
        let number = {
            let mut pairs = lock(&self.pairs);
            pairs.next += 1;
            let number = pairs.next;
            pairs.open.insert(number, Arc::clone(&pair));
            number
        };
        let (shared, other) = (Arc::clone(self), Arc::clone(&pair));
        let started =
            thread::Builder::new().stack_size(STACK).spawn(move || shared.pump(&other, Direction::Received));
        self.pump(&pair, Direction::Sent);
        if let Ok(thread) = started {
            // A pump does not panic; if it did, its connection is over all the same.
            let _ = thread.join();
        }
        lock(&self.pairs).open.remove(&number);
    }

    fn pump(&self, pair: &Pair, direction: Direction) {
        let (mut from, mut to) = match direction {
            Direction::Sent => (&pair.client, &pair.server),
            Direction::Received => (&pair.server, &pair.client),
        };
        let mut bytes = vec![0; CHUNK];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let mode = self.unstalled(pair);
            if pair.dead.load(Ordering::SeqCst) {
                return;
            }
            match (mode, direction) {
                (Mode::LoseSent, Direction::Sent) | (Mode::LoseReceived, Direction::Received) => {
                    pair.lost.store(true, Ordering::SeqCst);
                    continue;
                }
                (Mode::Delay(late), _) => thread::sleep(late),
                _ => {}
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        if !pair.dead.load(Ordering::SeqCst) {
            // The end of one direction is passed on; the other may go on.
            let _ = to.shutdown(Shutdown::Write);
            let _ = from.shutdown(Shutdown::Read);
        }
    }

    /// Waits while nothing may pass.
    fn unstalled(&self, pair: &Pair) -> Mode {
        let mut mode = lock(&self.mode);
        while *mode == Mode::Stall && !pair.dead.load(Ordering::SeqCst) {
            mode = self.changed.wait(mode).unwrap_or_else(PoisonError::into_inner);
        }
        *mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A service that says everything twice, and the way to it.
    fn echo() -> Link {
        let listener = TcpListener::bind((LOCAL, 0)).unwrap();
        let upstream = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut byte = [0];
                    while let Ok(1) = stream.read(&mut byte) {
                        if stream.write_all(&[byte[0], byte[0]]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Link::open(LOCAL, upstream).unwrap()
    }

    fn connect(link: &Link) -> TcpStream {
        let stream = TcpStream::connect(link.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        stream
    }

    fn says(mut stream: &TcpStream, byte: u8) -> io::Result<[u8; 2]> {
        stream.write_all(&[byte])?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    }

    fn is_silent(result: &io::Result<[u8; 2]>) -> bool {
        result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    #[test]
    fn what_stalls_arrives_after_the_heal() {
        let link = echo();
        let stream = connect(&link);
        assert_eq!(says(&stream, b'a').unwrap(), *b"aa");
        link.set(Mode::Stall);
        assert!(is_silent(&says(&stream, b'b')));
        link.set(Mode::Pass);
        let mut answer = [0; 2];
        (&stream).read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"bb");
    }

    #[test]
    fn what_is_lost_never_arrives_and_its_connection_is_reset_by_the_heal() {
        for mode in [Mode::LoseSent, Mode::LoseReceived] {
            let link = echo();
            let stream = connect(&link);
            assert_eq!(says(&stream, b'a').unwrap(), *b"aa");
            link.set(mode);
            assert!(is_silent(&says(&stream, b'b')), "{mode:?}");
            link.set(Mode::Pass);
            assert!(says(&stream, b'c').is_err(), "{mode:?}");
            assert_eq!(says(&connect(&link), b'd').unwrap(), *b"dd");
        }
    }

    #[test]
    fn reset_ends_connections_and_refuses_new_ones_until_the_heal() {
        let link = echo();
        let stream = connect(&link);
        assert_eq!(says(&stream, b'a').unwrap(), *b"aa");
        link.set(Mode::Reset);
        let error = (&stream).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(says(&connect(&link), b'b').is_err());
        link.set(Mode::Pass);
        assert_eq!(says(&connect(&link), b'c').unwrap(), *b"cc");
    }

    #[test]
    fn delayed_bytes_arrive_late() {
        let link = echo();
        let stream = connect(&link);
        stream.set_read_timeout(None).unwrap();
        link.set(Mode::Delay(Duration::from_millis(100)));
        let begun_at = std::time::Instant::now();
        assert_eq!(says(&stream, b'a').unwrap(), *b"aa");
        assert!(begun_at.elapsed() >= Duration::from_millis(200));
    }
}
