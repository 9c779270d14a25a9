//! Which shims run, and the sockets to them.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::SendFlags;
use tidemill_model::{LiveUsage, Token};

use crate::limits;
use crate::shim::{KillCause, Located, Order};

/// The most new attempts that are kept in mind. One that is not counts as one that somebody may have been told of.
const MAX_NEW: usize = 65_536;

pub(super) struct Running {
    pub(super) socket: UnixStream,
    /// What it has said of a line that is not whole yet.
    pub(super) said: Vec<u8>,
    /// What has to exist when it has ended by itself.
    pub(super) output_path: Option<String>,
    /// Where its processes are, once it has said so.
    pub(super) located: Option<Located>,
    /// Why it is being ended, where it is.
    killed: Option<KillCause>,
}

impl Running {
    pub(super) fn new(socket: UnixStream, output_path: Option<String>) -> Self {
        Self { socket, said: Vec::new(), output_path, located: None, killed: None }
    }
}

enum Slot {
    /// Being started; these orders came meanwhile.
    Starting(Vec<Order>),
    Running(Running),
}

/// Why nobody hears a shim.
pub(super) enum Unwatched {
    /// The worker is at its end, or has given the attempt up.
    NotWanted,
    /// The system has no room for it.
    Failed,
}

/// All of them, by token.
#[derive(Default)]
pub(crate) struct Table {
    slots: Mutex<HashMap<Token, Slot>>,
    /// Attempts that have begun in this life of the worker, and whose output no store of logs was told of.
    new: Mutex<BTreeSet<Token>>,
    is_closed: AtomicBool,
}

impl Table {
    fn slots(&self) -> MutexGuard<'_, HashMap<Token, Slot>> {
        // Nothing here is ever half done.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, token: Token) {
        self.slots().insert(token, Slot::Starting(Vec::new()));
    }

    /// The same, of one that begins now.
    pub(super) fn begin_new(&self, token: Token) {
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        if new.len() < MAX_NEW {
            new.insert(token);
        }
        self.begin(token);
    }

    /// Whether no store of logs can have any of its output. From now on one may.
    pub(crate) fn take_new(&self, token: Token) -> bool {
        self.new.lock().unwrap_or_else(PoisonError::into_inner).remove(&token)
    }

    /// From now on orders reach it; those that came meanwhile do so now. `watch` runs before anyone else can
    /// see it. Gives it back where it cannot be watched, and keeps the orders, or nobody wants it any more.
    pub(super) fn started<E>(
        &self,
        token: Token,
        mut running: Running,
        watch: impl FnOnce(&Running) -> Result<(), E>,
    ) -> Result<(), (Running, Unwatched)> {
        let mut slots = self.slots();
        let Some(Slot::Starting(orders)) = slots.get_mut(&token) else {
            return Err((running, Unwatched::NotWanted));
        };
        if watch(&running).is_err() {
            return Err((running, Unwatched::Failed));
        }
        for order in std::mem::take(orders) {
            if let Order::Kill { because, .. } = order {
                running.killed = Some(because);
            }
            give(&mut running, order);
        }
        slots.insert(token, Slot::Running(running));
        Ok(())
    }

    /// What it says next: [`None`] where it is unknown.
    pub(super) fn hear<T>(&self, token: Token, read: impl FnOnce(&mut Running) -> T) -> Option<T> {
        match self.slots().get_mut(&token)? {
            Slot::Starting(_) => None,
            Slot::Running(running) => Some(read(running)),
        }
    }

    pub(super) fn locate(&self, token: Token, located: Located) {
        if let Some(Slot::Running(running)) = self.slots().get_mut(&token) {
            running.located = Some(located);
        }
    }

    /// EXE-7: what the processes of an attempt use now. Nothing where it does not run here, or has only begun.
    pub(crate) fn used(&self, token: Token) -> Option<LiveUsage> {
        let located = match self.slots().get(&token)? {
            Slot::Starting(_) => None,
            Slot::Running(running) => running.located,
        };
        limits::used(&located?)
    }

    /// Closes its socket.
    pub(super) fn remove(&self, token: Token) {
        self.slots().remove(&token);
    }

    /// Whether it is there, and hears of this for the first time.
    pub(super) fn order_kill(&self, token: Token, grace_ms: u64, because: KillCause) -> bool {
        let order = Order::Kill { grace_ms, because };
        match self.slots().get_mut(&token) {
            Some(Slot::Starting(orders)) => {
                let is_same =
                    |order: &Order| matches!(order, Order::Kill { because: of, .. } if *of == because);
                let is_first = !orders.iter().any(is_same);
                orders.push(order);
                is_first
            }
            Some(Slot::Running(running)) => {
                give(running, order);
                running.killed.replace(because) != Some(because)
            }
            None => false,
        }
    }

    pub(super) fn order_all(&self, order: Order) {
        for slot in self.slots().values_mut() {
            match slot {
                Slot::Starting(orders) => orders.push(order),
                Slot::Running(running) => give(running, order),
            }
        }
    }

    /// Closes all sockets, for good.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.slots().clear();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

/// One small write to a socket is whole or not at all. One that is full belongs to a shim that is stopped,
/// one that is closed to a shim that is ending: neither has use for the order, and an owner repeats its kill.
fn give(running: &mut Running, order: Order) {
    let _ = rustix::net::send(&running.socket, order.to_string().as_bytes(), SendFlags::NOSIGNAL);
}
