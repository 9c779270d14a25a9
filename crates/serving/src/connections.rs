//! Who is connected, since when in which phase, and who goes first where room is needed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::Limits;

/// Room is made for so many parts of all connections at once, so that a flood does not search each time.
const ROOM_PART: usize = 64;
/// Connections that are being closed count no more; so many parts of all may be on their way out.
const CLOSING_PART: usize = 8;
/// A new connection waits for them, so often and so long.
const CLOSING_LOOKS: usize = 20;
const CLOSING_LOOK: Duration = Duration::from_millis(50);

/// What a connection does. The number of a phase is stored with the time since which it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing came on it yet.
    New = 0,
    /// A request came before, nothing of the next one.
    Silent = 1,
    /// A part of the head of a request came.
    Heading = 2,
    /// A request is being answered.
    Busy = 3,
    /// It was told to close.
    Closing = 4,
}

const PHASES: [Phase; 5] = [Phase::New, Phase::Silent, Phase::Heading, Phase::Busy, Phase::Closing];
const PHASE_BITS: u32 = 3;

pub(crate) struct Connection {
    number: u64,
    peer: IpAddr,
    /// Milliseconds since the listener began, and the phase that began then.
    state: AtomicU64,
    close: Notify,
    began_at: Instant,
}

impl Connection {
    /// Bytes came: where no request is under way, a head begins.
    pub(crate) fn hears(&self) {
        let (phase, _) = self.look();
        if matches!(phase, Phase::New | Phase::Silent) {
            self.enter(Phase::Heading);
        }
    }

    /// A whole head came; the answer is done when this is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.enter(Phase::Busy);
        Busy(Arc::clone(self))
    }

    /// Ends when room is needed or time is over.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }

    fn look(&self) -> (Phase, Duration) {
        let state = self.state.load(Ordering::Relaxed);
        let phase = PHASES[usize::try_from(state & ((1 << PHASE_BITS) - 1)).expect("three bits fit")];
        (phase, Duration::from_millis(state >> PHASE_BITS))
    }

    fn enter(&self, phase: Phase) {
        let now = u64::try_from(self.began_at.elapsed().as_millis()).unwrap_or(u64::MAX >> PHASE_BITS);
        let entered = (now << PHASE_BITS) | phase as u64;
        // Who was told to close stays so.
        let _ = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
            (state & ((1 << PHASE_BITS) - 1) != Phase::Closing as u64).then_some(entered)
        });
    }

    fn tell_to_close(&self) {
        self.enter(Phase::Closing);
        self.close.notify_one();
    }

    /// No whole request is under way; since when.
    fn is_waiting(&self) -> Option<Duration> {
        let (phase, since) = self.look();
        matches!(phase, Phase::New | Phase::Silent | Phase::Heading).then_some(since)
    }
}

/// A request is being answered on this connection.
pub(crate) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.enter(Phase::Silent);
    }
}

pub(crate) struct Connections {
    limits: Limits,
    began_at: Instant,
    open: Mutex<Open>,
    /// Somebody is gone.
    gone: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Arc<Connection>>,
}

/// What a new connection gets.
enum Entry {
    Entered(Place),
    /// There is room once somebody is gone who was told to.
    NotYet,
    Refused,
}

/// A place among the connections, until it is dropped.
pub(crate) struct Place {
    all: Arc<Connections>,
    pub(crate) connection: Arc<Connection>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.all.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.connections.remove(&self.connection.number);
        self.all.gone.notify_one();
    }
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, began_at: Instant::now(), open: Mutex::default(), gone: Notify::new() })
    }

    /// A place for a client at this address; where all are taken, who has been silent for longest makes room. `None`:
    /// every one has a request under way.
    pub(crate) async fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        // Who was told to close is gone in a moment, but not in a burst.
        for _ in 0..CLOSING_LOOKS {
            match self.try_enter(peer) {
                Entry::Entered(place) => return Some(place),
                Entry::Refused => return None,
                Entry::NotYet => {
                    let _ = tokio::time::timeout(CLOSING_LOOK, self.gone.notified()).await;
                }
            }
        }
        None
    }

    fn try_enter(self: &Arc<Self>, peer: IpAddr) -> Entry {
        let peer = block_of(peer);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Limits { connections: bound, per_address, .. } = self.limits;
        let is_open = |connection: &&Arc<Connection>| connection.look().0 != Phase::Closing;
        // Below a bound nobody is counted one by one.
        if open.connections.len() >= per_address {
            let from_there = open.connections.values().filter(|it| it.peer == peer).filter(is_open).count();
            if from_there >= per_address {
                let own = open.connections.values().filter(|it| it.peer == peer);
                if !make_room(own, 1) {
                    return Entry::Refused;
                }
            }
        }
        if open.connections.len() >= bound {
            let is_full = open.connections.values().filter(is_open).count() >= bound;
            if is_full && !make_room(open.connections.values(), (bound / ROOM_PART).max(1)) {
                return Entry::Refused;
            }
            if open.connections.len() > bound + bound / CLOSING_PART {
                return Entry::NotYet;
            }
        }
        open.next += 1;
        let connection = Arc::new(Connection {
            number: open.next,
            peer,
            state: AtomicU64::new(0),
            close: Notify::new(),
            began_at: self.began_at,
        });
        connection.enter(Phase::New);
        open.connections.insert(connection.number, Arc::clone(&connection));
        Entry::Entered(Place { all: Arc::clone(self), connection })
    }

    /// Closes what has been silent for longest, one of them.
    pub(crate) fn close_one(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        make_room(open.connections.values(), 1);
    }

    /// Closes what has let its time pass.
    pub(crate) fn close_late(&self) {
        let now = self.began_at.elapsed();
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in open.connections.values() {
            let (phase, since) = connection.look();
            let time = match phase {
                Phase::New | Phase::Heading => self.limits.header,
                Phase::Silent => self.limits.idle,
                Phase::Busy | Phase::Closing => continue,
            };
            if now.saturating_sub(since) >= time {
                connection.tell_to_close();
            }
        }
    }

    /// Closes all that have no request under way.
    pub(crate) fn close_waiting(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.connections
            .values()
            .filter(|connection| connection.is_waiting().is_some())
            .for_each(|it| it.tell_to_close());
    }
}

/// Tells those to close that have waited for longest; whether any of them waits.
fn make_room<'a>(all: impl Iterator<Item = &'a Arc<Connection>>, count: usize) -> bool {
    let mut waiting: Vec<_> =
        all.filter_map(|connection| Some((connection.is_waiting()?, connection))).collect();
    let count = count.min(waiting.len());
    let Some(last) = count.checked_sub(1) else { return false };
    let (longer, one, _) = waiting.select_nth_unstable_by_key(last, |(since, it)| (*since, it.number));
    longer.iter().for_each(|(_, connection)| connection.tell_to_close());
    one.1.tell_to_close();
    true
}

/// Whoever has one address of IPv6 has 2⁶⁴.
fn block_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn connections(bound: usize, per_address: usize) -> Arc<Connections> {
        let limits = Limits { connections: bound, per_address, ..Config::default().for_everybody() };
        Connections::new(limits)
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    impl Connections {
        fn place(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
            match self.try_enter(peer) {
                Entry::Entered(place) => Some(place),
                Entry::NotYet | Entry::Refused => None,
            }
        }
    }

    fn is_closing(place: &Place) -> bool {
        place.connection.look().0 == Phase::Closing
    }

    /// OPS-7
    #[test]
    fn over_the_bound_the_longest_waiting_makes_room_and_requests_stay() {
        let all = connections(3, 3);
        let first = all.place(address(1)).unwrap();
        let _busy = first.connection.begin();
        let second = all.place(address(2)).unwrap();
        let third = all.place(address(3)).unwrap();
        let fourth = all.place(address(4)).unwrap();
        assert_eq!([&first, &second, &third, &fourth].map(is_closing), [false, true, false, false]);
    }

    /// OPS-7
    #[test]
    fn nobody_enters_where_every_connection_has_a_request_under_way() {
        let all = connections(2, 2);
        let places = [all.place(address(1)).unwrap(), all.place(address(2)).unwrap()];
        let busy = places.each_ref().map(|place| place.connection.begin());
        assert!(all.place(address(3)).is_none());
        drop(busy);
        assert!(all.place(address(3)).is_some());
    }

    /// OPS-7
    #[test]
    fn an_address_over_its_own_bound_makes_room_among_its_own() {
        let all = connections(8, 2);
        let other = all.place(address(9)).unwrap();
        let own = [all.place(address(1)).unwrap(), all.place(address(1)).unwrap()];
        let third = all.place(address(1)).unwrap();
        assert_eq!([&other, &own[0], &own[1], &third].map(is_closing), [false, true, false, false]);
    }

    #[test]
    fn a_place_is_free_again_once_its_connection_is_gone() {
        let all = connections(1, 1);
        let only = all.place(address(1)).unwrap();
        let _busy = only.connection.begin();
        assert!(all.place(address(2)).is_none());
        drop(only);
        assert!(all.place(address(2)).is_some());
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_count_as_one() {
        let [one, other, far] = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"]
            .map(|text| block_of(text.parse().unwrap()));
        assert_eq!(one, other);
        assert_ne!(one, far);
        assert_eq!(block_of("::ffff:10.0.0.1".parse().unwrap()), address(1));
    }
}
