//! A way to a server on which connections break after some bytes, as a process that is killed breaks them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Breaks the first connections, each after another number of bytes; later ones live.
#[derive(Clone)]
pub(crate) struct Cut {
    pub(crate) address: SocketAddr,
    broken: Arc<AtomicU64>,
}

impl Cut {
    /// In front of this address: so many connections break, the `n`-th after about `n * step` bytes.
    pub(crate) fn open(to: SocketAddr, breaks: u64, step: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let cut = Self { address: listener.local_addr().unwrap(), broken: Arc::default() };
        let accepting = cut.clone();
        // It ends with the test's process.
        thread::spawn(move || {
            for (number, client) in (1..).zip(listener.incoming().flatten()) {
                let server = TcpStream::connect(to).unwrap();
                let budget = if number <= breaks { number * step } else { u64::MAX };
                let left = Arc::new(AtomicU64::new(budget));
                let [a, b] = [&client, &server].map(|stream| stream.try_clone().unwrap());
                let (there, back, also_left) = (accepting.clone(), accepting.clone(), Arc::clone(&left));
                thread::spawn(move || there.pump(a, server, &left));
                thread::spawn(move || back.pump(b, client, &also_left));
            }
        });
        cut
    }

    /// How many connections were broken.
    pub(crate) fn broken(&self) -> u64 {
        self.broken.load(Ordering::SeqCst)
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, left: &AtomicU64) {
        let mut bytes = [0; 512];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let before = left.load(Ordering::SeqCst);
            if before != u64::MAX
                && left.fetch_sub(before.min(count as u64), Ordering::SeqCst) <= count as u64
            {
                self.broken.fetch_add(1, Ordering::SeqCst);
                break;
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        // Either may be gone already.
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
