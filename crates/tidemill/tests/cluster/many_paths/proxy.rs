//! A way to the name node on which everything can be held up, as by a network that loses packets.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Holds up what is sent either way, until it is told to let go. Connections are taken all the while.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    held: Arc<(Mutex<bool>, Condvar)>,
}

impl Proxy {
    pub(crate) fn open(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), held: Arc::default() };
        let accepting = proxy.clone();
        // It ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // While the name node is down, the connection just ends.
                let Ok(server) = TcpStream::connect(to) else { continue };
                let [a, b] = [&client, &server].map(|stream| stream.try_clone().unwrap());
                let (there, back) = (accepting.clone(), accepting.clone());
                thread::spawn(move || there.pump(a, server));
                thread::spawn(move || back.pump(b, client));
            }
        });
        proxy
    }

    pub(crate) fn hold(&self, held: bool) {
        *self.held.0.lock().unwrap() = held;
        self.held.1.notify_all();
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 8_192];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let (held, changed) = &*self.held;
            drop(changed.wait_while(held.lock().unwrap(), |held| *held).unwrap());
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        // Either may be gone already.
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
