//! A way to the database that can be cut and mended: cut, nobody is there.

use std::io::copy;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::{free_port, until};

pub(crate) struct Relay {
    /// Of the database, by this way.
    pub(crate) url: String,
    at: SocketAddr,
    to: String,
    way: Option<Way>,
}

struct Way {
    is_over: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// To the database of this URL.
    pub(crate) fn open(database: &str) -> Self {
        let (account, rest) = database.rsplit_once('@').expect("the URL has an account");
        let (to, name) = rest.split_once('/').expect("the URL ends with /database");
        let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut relay = Self { url: format!("{account}@{at}/{name}"), at, to: to.to_owned(), way: None };
        relay.mend();
        relay
    }

    /// From now on nobody answers there, and every connection is gone.
    pub(crate) fn cut(&mut self) {
        let Some(way) = self.way.take() else { return };
        way.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread; it may have ended.
        drop(TcpStream::connect(self.at));
        way.accepting.join().unwrap();
        for stream in way.streams.lock().unwrap().drain(..) {
            // The other side may have closed it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The database is there again.
    pub(crate) fn mend(&mut self) {
        let listener = until("the port is free again", || TcpListener::bind(self.at).ok());
        let (is_over, streams) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (over, kept, to) = (Arc::clone(&is_over), Arc::clone(&streams), self.to.clone());
        let accepting = thread::spawn(move || {
            for client in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&to)) else { continue };
                let ends = [(&client, &server), (&server, &client)]
                    .map(|(from, into)| (from.try_clone().unwrap(), into.try_clone().unwrap()));
                for (mut from, mut into) in ends {
                    thread::spawn(move || {
                        let copied = copy(&mut from, &mut into);
                        let _ = into.shutdown(Shutdown::Both);
                        copied
                    });
                }
                kept.lock().unwrap().extend([client, server]);
            }
        });
        self.way = Some(Way { is_over, streams, accepting });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
    }
}
