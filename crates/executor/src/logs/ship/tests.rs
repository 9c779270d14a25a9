//! What a store puts together of what it is told, whatever is lost on the way, without a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use tidemill_model::{
    InstanceId, LogStream, MAX_FRAME_BYTES, ShipFrame, ShipFrom, ShipRequest, Shipped, Token,
};

use super::disk::{Disk, milliseconds};
use super::session::{MAX_ENDED, MAX_FAILURES, MAX_OPEN};
use super::shipping::{Looked, Shipping};
use super::spool::{Bytes, Place, Seen, Spool, Wanted};
use super::times::TimesRead;

type Streams = [Vec<u8>; 3];

/// A spool in memory.
#[derive(Default)]
struct Memory {
    attempts: BTreeMap<Token, (Place, Streams)>,
    new: BTreeSet<Token>,
    shipped: BTreeMap<Token, Streams>,
    /// Cannot be read.
    broken: bool,
    too_long: BTreeSet<Token>,
    looks: usize,
}

impl Memory {
    fn begin(&mut self, token: i64) {
        self.new.insert(Token(token));
        self.attempts.insert(Token(token), (Place::Open, Streams::default()));
    }

    fn print(&mut self, token: i64, stream: usize, bytes: &[u8]) {
        self.attempts.get_mut(&Token(token)).unwrap().1[stream].extend(bytes);
    }

    fn of(&self, token: Token) -> Option<(Place, &Streams)> {
        let there = self.attempts.get(&token).map(|(place, streams)| (*place, streams));
        there.or_else(|| Some((Place::Shipped, self.shipped.get(&token)?)))
    }

    fn end(&mut self, token: i64) {
        self.attempts.get_mut(&Token(token)).unwrap().0 = Place::Ended;
    }
}

impl Spool for Memory {
    fn list(&mut self, place: Place) -> io::Result<(Vec<Token>, u64)> {
        let there = self.attempts.iter().filter(|(_, (of, _))| *of == place);
        Ok((there.map(|(token, _)| *token).collect(), 0))
    }

    fn look(&mut self, token: Token, place: Place) -> io::Result<Option<Seen>> {
        self.looks += 1;
        let seen = self.of(token).filter(|(of, _)| *of >= place);
        Ok(seen.map(|(place, streams)| Seen {
            place,
            sizes: streams.each_ref().map(|of| of.len() as u64),
            is_too_long: self.too_long.contains(&token),
        }))
    }

    fn read(&mut self, wanted: Wanted, _: &mut TimesRead) -> io::Result<Bytes> {
        if self.broken {
            return Err(io::Error::other("broken"));
        }
        let of = &self.of(wanted.token).unwrap().1[wanted.stream.index()];
        let rest = &of[of.len().min(usize::try_from(wanted.offset).unwrap())..];
        Ok(Bytes { bytes: rest[..rest.len().min(wanted.most)].to_vec(), times: Vec::new() })
    }

    fn take_new(&mut self, token: Token) -> bool {
        self.new.remove(&token)
    }

    fn ship(&mut self, token: Token) -> io::Result<()> {
        match self.attempts.get(&token) {
            Some((Place::Ended, _)) => {
                self.shipped.insert(token, self.attempts.remove(&token).unwrap().1);
                Ok(())
            }
            None if self.shipped.contains_key(&token) => Ok(()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// A store, and what it has.
struct Store {
    id: InstanceId,
    turn: u64,
    have: BTreeMap<Token, Streams>,
    from: Vec<ShipFrom>,
    done: Vec<Token>,
}

impl Store {
    fn new(number: u64) -> Self {
        let id = InstanceId::new(format!("store-{number}"));
        Self { id, turn: 0, have: BTreeMap::new(), from: Vec::new(), done: Vec::new() }
    }

    fn request(&self, room_bytes: u64) -> ShipRequest {
        let (store, from, done) = (self.id.clone(), self.from.clone(), self.done.clone());
        ShipRequest { store, turn: self.turn, from, done, wait_ms: 0, room_bytes }
    }

    fn hear(&mut self, frames: Vec<ShipFrame>, oracle: &Memory) {
        (self.from, self.done) = (Vec::new(), Vec::new());
        self.turn += 1;
        for ShipFrame { token, shipped } in frames {
            match shipped {
                Shipped::Begun => {
                    assert!(
                        self.have.insert(token, Streams::default()).is_none(),
                        "{token} was told of before"
                    );
                }
                Shipped::Known => {
                    let have = self.have.entry(token).or_default();
                    self.from.push(ShipFrom { token, offsets: have.each_ref().map(|of| of.len() as u64) });
                }
                Shipped::Piece { stream, offset, bytes, .. } => {
                    let of = &mut self.have.get_mut(&token).expect("it was named")[stream.index()];
                    let offset = usize::try_from(offset).unwrap();
                    assert!(offset <= of.len() && !bytes.is_empty(), "nothing is left out");
                    let again = bytes.len().min(of.len() - offset);
                    assert_eq!(of[offset..offset + again], bytes[..again], "what comes again is the same");
                    of.extend(&bytes[again..]);
                }
                Shipped::Ended { bytes } => {
                    let have = &self.have[&token];
                    assert_eq!(have.each_ref().map(|of| of.len() as u64), bytes);
                    assert!(
                        oracle.of(token).is_some_and(|(place, of)| place != Place::Open && of == have),
                        "{token} is as it was printed"
                    );
                    self.done.push(token);
                }
                Shipped::Gone => assert!(oracle.of(token).is_none(), "{token} is there"),
            }
        }
    }
}

fn asked(shipping: &mut Shipping<Memory>, request: &ShipRequest, now_ms: u64) -> Vec<ShipFrame> {
    let number = shipping.begin(request, now_ms);
    match shipping.look(number, true, now_ms) {
        Looked::Answer(frames) => frames,
        other => panic!("{other:?}"),
    }
}

/// One turn that is not lost.
fn turn(shipping: &mut Shipping<Memory>, store: &mut Store, room: u64, now_ms: u64) -> usize {
    let frames = asked(shipping, &store.request(room), now_ms);
    let count = frames.len();
    store.hear(frames, &shipping.spool);
    count
}

/// A small generator: the same numbers in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % bound
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.below(256) as u8).collect()
    }
}

/// LOG-1: whatever is lost, comes again or comes from another store, and whenever a file grows: what a store puts together is what
/// was printed, and no attempt leaves the spool before a store has all of it.
#[test]
fn what_a_store_puts_together_is_what_was_printed() {
    for seed in 1_u64..=300 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (mut shipping, mut oracle) = (Shipping::new(Memory::default()), BTreeMap::new());
        let (mut stores, mut now, mut begun) = (vec![Store::new(0)], 0, 0);
        for _ in 0..200 {
            now += numbers.below(2_000);
            let open: Vec<i64> = (shipping.spool.attempts.iter())
                .filter(|(_, (place, _))| *place == Place::Open)
                .map(|(token, _)| token.0)
                .collect();
            if open.len() < 4 && numbers.below(3) == 0 {
                begun += 1;
                shipping.spool.begin(begun);
            }
            for token in open {
                let stream = usize::try_from(numbers.below(3)).unwrap();
                shipping.spool.print(token, stream, &numbers.bytes(300));
                if numbers.below(6) == 0 {
                    oracle.insert(Token(token), shipping.spool.attempts[&Token(token)].1.clone());
                    shipping.spool.end(token);
                }
            }
            shipping.spool.broken = numbers.below(20) == 0;
            let number = stores.len() as u64;
            let store = stores.last_mut().unwrap();
            let room = numbers.below(600);
            match numbers.below(12) {
                // The answer is lost.
                0 => {
                    asked(&mut shipping, &store.request(room), now);
                    (store.turn, store.from) = (0, Vec::new());
                }
                // The request comes twice, and one of the answers is lost.
                1 => {
                    asked(&mut shipping, &store.request(room), now);
                    turn(&mut shipping, store, room, now);
                }
                // The store begins again, and has lost what was not durable.
                2 => {
                    let next = Store::new(number);
                    let mut have = std::mem::take(&mut store.have);
                    have.values_mut()
                        .flatten()
                        .for_each(|of| of.truncate(usize::try_from(numbers.below(2_000)).unwrap()));
                    stores.push(Store { have, ..next });
                }
                // Another one, which has nothing.
                3 => stores.push(Store::new(number)),
                // The worker begins again.
                4 => {
                    shipping =
                        Shipping::new(Memory { new: BTreeSet::new(), ..std::mem::take(&mut shipping.spool) })
                }
                _ => {
                    turn(&mut shipping, store, room, now);
                }
            }
        }
        shipping.spool.broken = false;
        let open: Vec<Token> = shipping.spool.attempts.keys().copied().collect();
        for token in open {
            oracle.entry(token).or_insert_with(|| shipping.spool.attempts[&token].1.clone());
            shipping.spool.end(token.0);
        }
        let mut store = stores.pop().unwrap();
        for _ in 0..5_000 {
            if shipping.spool.attempts.is_empty() {
                break;
            }
            now += 1_000;
            turn(&mut shipping, &mut store, 10_000, now);
        }
        assert_eq!(shipping.spool.attempts, BTreeMap::new(), "seed {seed}: all is done");
        assert!(shipping.spool.shipped == oracle, "seed {seed}: and it is what was printed");
    }
}

/// LOG-1: what one store was told is news to another, and to one that has counted otherwise: nothing of an attempt comes before that
/// store has said where to begin, and then it comes from there, at once.
#[test]
fn store_says_where_to_begin() {
    let mut shipping = Shipping::new(Memory::default());
    shipping.spool.begin(1);
    shipping.spool.print(1, 0, b"0123456789");
    let mut first = Store::new(0);
    turn(&mut shipping, &mut first, 4, 0);
    turn(&mut shipping, &mut first, 4, 0);
    assert_eq!(first.have[&Token(1)][0], b"01234567");
    let request = |store: u64, turn, from: &[[u64; 3]]| {
        let from = from.iter().map(|offsets| ShipFrom { token: Token(1), offsets: *offsets }).collect();
        ShipRequest { turn, from, ..Store::new(store).request(100) }
    };
    let known = [ShipFrame::new(Token(1), Shipped::Known)];
    let mut now = 0;
    // Another store, with the turn that the first one would have next; a turn that was not reached, and one that was.
    for (store, turn) in [(1, 2), (1, 7), (1, 7), (1, 0)] {
        now += 10;
        assert_eq!(asked(&mut shipping, &request(store, turn, &[[5, 0, 0]]), now), known, "turn {turn}");
    }
    assert_eq!(asked(&mut shipping, &request(1, 1, &[]), now), [], "it has not said where to begin");
    let frames = asked(&mut shipping, &request(1, 2, &[[6, 0, 0]]), now);
    let piece = |offset, bytes: &[u8]| {
        let (stream, times) = (LogStream::Stdout, Vec::new());
        ShipFrame::new(Token(1), Shipped::Piece { stream, offset, times, bytes: bytes.to_vec() })
    };
    assert_eq!(frames, [piece(6, b"6789")]);
    // It may say so again.
    assert_eq!(asked(&mut shipping, &request(1, 3, &[[9, 0, 0]]), now), [piece(9, b"9")]);
    // Of what it has more of than there is, nothing can be said to be whole.
    shipping.spool.end(1);
    let frames = asked(&mut shipping, &request(1, 4, &[[12, 0, 1]]), now);
    assert_eq!(frames, [ShipFrame::new(Token(1), Shipped::Gone)]);
}

/// LOG-1: who prints gigabytes holds nobody up: each stream has its turn, and an answer has its bound.
#[test]
fn every_stream_has_its_turn() {
    let mut shipping = Shipping::new(Memory::default());
    for token in 1..=3 {
        shipping.spool.begin(token);
        shipping.spool.print(token, 0, &vec![b'x'; 3 * MAX_FRAME_BYTES]);
        shipping.spool.print(token, 1, b"short");
    }
    let mut store = Store::new(0);
    let room = MAX_FRAME_BYTES as u64 + 5;
    for _ in 0..3 {
        turn(&mut shipping, &mut store, room, 0);
    }
    let lengths = |store: &Store| -> Vec<[usize; 2]> {
        store.have.values().map(|[stdout, stderr, _]| [stdout.len(), stderr.len()]).collect()
    };
    assert_eq!(lengths(&store), [[MAX_FRAME_BYTES, 5]; 3]);
    turn(&mut shipping, &mut store, u64::MAX, 0);
    assert_eq!(lengths(&store), [[3 * MAX_FRAME_BYTES, 5]; 3]);
    assert_eq!(turn(&mut shipping, &mut store, 0, 0), 0, "there is no room");
    let (mut many, mut store) = (Shipping::new(Memory::default()), Store::new(0));
    for token in 1..=40 {
        many.spool.begin(token);
        many.spool.print(token, 0, &vec![b'x'; MAX_FRAME_BYTES]);
    }
    turn(&mut many, &mut store, u64::MAX, 0);
    let all: usize = lengths(&store).iter().flatten().sum();
    assert_eq!(all, tidemill_model::MAX_SHIPPED_AT_ONCE);
}

/// LOG-1: however many run and print nothing, those that have ended are told of, the oldest first, and the others as these are done.
#[test]
fn so_many_attempts_are_told_of_at_once() {
    let mut shipping = Shipping::new(Memory::default());
    let (open, ended) = (MAX_OPEN as i64, MAX_ENDED as i64);
    for token in 1..=open + 3 * ended {
        shipping.spool.begin(token);
        if token <= 2 * ended {
            shipping.spool.end(token);
        }
    }
    let mut store = Store::new(0);
    turn(&mut shipping, &mut store, 1_000, 0);
    assert_eq!(store.have.len(), MAX_OPEN + MAX_ENDED, "{ended} more wait to be told of, of both");
    assert_eq!(store.done, (1..=ended).map(Token).collect::<Vec<_>>(), "the oldest first");
    turn(&mut shipping, &mut store, 1_000, 1_000);
    assert_eq!(store.done, (ended + 1..=2 * ended).map(Token).collect::<Vec<_>>());
    for token in 2 * ended + 1..=open + 3 * ended {
        shipping.spool.end(token);
    }
    turn(&mut shipping, &mut store, 1_000, 2_000);
    assert_eq!(store.done.len(), MAX_OPEN, "none is told of beside them");
    for now in 3..6 {
        turn(&mut shipping, &mut store, 1_000, now * 1_000);
    }
    assert_eq!(shipping.spool.shipped.len(), MAX_OPEN + 3 * MAX_ENDED);
}

/// LOG-1: a store that has closed the log of an attempt in an earlier session, of which the word was lost, says so again where the
/// attempt is named to it; while it runs that changes nothing, and it is named once more when it has ended.
#[test]
fn what_an_earlier_session_has_kept_is_done_in_the_next_one() {
    let mut shipping = Shipping::new(Memory::default());
    for token in [1, 2] {
        shipping.spool.begin(token);
        shipping.spool.print(token, 0, b"text");
        shipping.spool.new.clear();
    }
    shipping.spool.end(1);
    let mut store = Store::new(0);
    let known = |token| ShipFrame::new(Token(token), Shipped::Known);
    assert_eq!(asked(&mut shipping, &store.request(100), 0), [known(2), known(1)]);
    (store.turn, store.done) = (1, vec![Token(1), Token(2)]);
    assert_eq!(asked(&mut shipping, &store.request(100), 1_000), []);
    assert_eq!(shipping.spool.shipped.keys().collect::<Vec<_>>(), [&Token(1)]);
    shipping.spool.end(2);
    (store.turn, store.done) = (2, Vec::new());
    assert_eq!(asked(&mut shipping, &store.request(100), 3_000), [known(2)]);
    (store.turn, store.done) = (3, vec![Token(2)]);
    assert_eq!(asked(&mut shipping, &store.request(100), 4_000), []);
    assert_eq!(shipping.spool.shipped.len(), 2);
}

/// LOG-1: two stores that ask in turns, as they do while a partition moves, both get all of it, and neither sets the other back. A
/// request that waits is overtaken by its own store alone, and of a third store on, the one that was not heard of for longest begins
/// anew.
#[test]
fn two_stores_that_ask_both_get_all_of_it() {
    let mut shipping = Shipping::new(Memory::default());
    let mut stores = [Store::new(0), Store::new(1)];
    for token in 1..=3 {
        shipping.spool.begin(token);
        shipping.spool.print(token, 0, b"0123456789");
    }
    for now in 0..20 {
        let [first, second] = &mut stores;
        let waits = shipping.begin(&first.request(7), now * 100);
        let frames = asked(&mut shipping, &second.request(7), now * 100);
        second.hear(frames, &shipping.spool);
        match shipping.look(waits, true, now * 100) {
            Looked::Answer(frames) => first.hear(frames, &shipping.spool),
            other => panic!("{other:?}"),
        }
        if now == 10 {
            (1..=3).for_each(|token| shipping.spool.end(token));
        }
    }
    assert!(shipping.spool.attempts.is_empty() && shipping.spool.shipped.len() == 3);
    for store in &stores {
        assert!(store.have.values().all(|have| have[0] == b"0123456789") && store.have.len() == 3);
    }
    // What one has said to be done is still sent to the other as a whole.
    shipping.spool.begin(4);
    shipping.spool.print(4, 0, b"text");
    for store in &mut stores {
        turn(&mut shipping, store, 0, 2_000);
    }
    shipping.spool.end(4);
    let [first, second] = &mut stores;
    turn(&mut shipping, first, 100, 2_100);
    turn(&mut shipping, first, 100, 2_200);
    assert!(shipping.spool.shipped.contains_key(&Token(4)) && second.have[&Token(4)][0].is_empty());
    for step in 0..3 {
        turn(&mut shipping, second, 100, 2_300 + step * 100);
    }
    assert_eq!(second.have[&Token(4)][0], b"text");
    assert_eq!(turn(&mut shipping, second, 100, 70_000), 0, "and nothing is said to be gone");
    // A third one.
    shipping.spool.begin(5);
    let mut third = Store::new(2);
    turn(&mut shipping, &mut third, 100, 70_100);
    turn(&mut shipping, second, 100, 70_200);
    assert_eq!(third.have.len(), 1);
    assert_eq!(asked(&mut shipping, &first.request(100), 70_300), [ShipFrame::new(Token(5), Shipped::Known)]);
    assert_eq!(turn(&mut shipping, second, 100, 70_400), 0, "the second goes on");
}

/// LOG-1: an attempt of which there is no more to be had is given up: one that cannot be read again and again, once it has ended, one
/// whose output has become shorter than what the store has, and one whose output is longer than it can be. It is told once, and is
/// done when the store says so.
#[test]
fn what_is_lost_is_told_to_be_gone() {
    let mut shipping = Shipping::new(Memory::default());
    let mut store = Store::new(0);
    for token in 1..=3 {
        shipping.spool.begin(token);
        shipping.spool.print(token, 0, b"text");
    }
    turn(&mut shipping, &mut store, 1_000, 0);
    let gone = |token| ShipFrame::new(Token(token), Shipped::Gone);
    let mut next = |shipping: &mut Shipping<Memory>, now| {
        let frames = asked(shipping, &store.request(1_000), now);
        store.turn += 1;
        frames
    };
    shipping.spool.too_long.insert(Token(3));
    assert_eq!(next(&mut shipping, 1_000), [gone(3)], "also while it runs");
    // It is shorter for a while.
    let shortened = std::mem::take(&mut shipping.spool.attempts.get_mut(&Token(2)).unwrap().1[0]);
    assert_eq!(next(&mut shipping, 2_000), []);
    shipping.spool.print(2, 0, &shortened);
    assert_eq!(next(&mut shipping, 3_000), []);
    shipping.spool.end(2);
    assert_eq!(next(&mut shipping, 4_000), [gone(2)]);
    shipping.spool.broken = true;
    shipping.spool.print(1, 0, b" more");
    let mut now = 5_000;
    for _ in 0..2 * MAX_FAILURES {
        now += 1_000;
        assert_eq!(next(&mut shipping, now), [], "it runs");
    }
    shipping.spool.broken = false;
    now += 1_000;
    assert_eq!(next(&mut shipping, now).len(), 1);
    shipping.spool.print(1, 0, b" and more");
    shipping.spool.broken = true;
    shipping.spool.end(1);
    for _ in 1..MAX_FAILURES {
        now += 1_000;
        assert_eq!(next(&mut shipping, now), []);
    }
    assert_eq!(next(&mut shipping, now + 1_000), [gone(1)]);
    assert_eq!(next(&mut shipping, now + 2_000), [], "that was told");
    store.done = vec![Token(1), Token(2), Token(3)];
    turn(&mut shipping, &mut store, 1_000, now + 3_000);
    assert_eq!(shipping.spool.shipped.keys().collect::<Vec<_>>(), [&Token(1), &Token(2)]);
}

/// LOG-1: what is named wrongly changes nothing, and what is gone is told.
#[test]
fn nothing_leaves_the_spool_that_was_named_wrongly() {
    let mut shipping = Shipping::new(Memory::default());
    for token in [1, 2] {
        shipping.spool.begin(token);
        shipping.spool.print(token, 0, b"text");
    }
    let mut store = Store::new(0);
    turn(&mut shipping, &mut store, 4, 0);
    // One runs, of the other not all was sent, the third was never there.
    shipping.spool.end(2);
    store.done = vec![Token(1), Token(2), Token(3)];
    store.from = vec![ShipFrom { token: Token(3), offsets: [7; 3] }];
    turn(&mut shipping, &mut store, 0, 1);
    assert_eq!(shipping.spool.attempts.len(), 2);
    turn(&mut shipping, &mut store, 100, 2);
    assert_eq!(store.done, [Token(2)]);
    shipping.spool.attempts.remove(&Token(1));
    let frames = asked(&mut shipping, &store.request(0), 3);
    assert_eq!(frames, [ShipFrame::new(Token(1), Shipped::Gone)]);
    assert_eq!(shipping.spool.shipped.keys().collect::<Vec<_>>(), [&Token(2)]);
}

/// LOG-1: of two requests at once, the later counts, and the earlier changes nothing any more. One that waits says so.
#[test]
fn the_later_of_two_requests_counts() {
    let mut shipping = Shipping::new(Memory::default());
    let mut store = Store::new(0);
    turn(&mut shipping, &mut store, 10, 0);
    let first = shipping.begin(&store.request(10), 1);
    assert_eq!(shipping.look(first, false, 1), Looked::Nothing);
    shipping.spool.begin(1);
    shipping.spool.print(1, LogStream::Worker.index(), b"text");
    let second = shipping.begin(&store.request(10), 2);
    assert_eq!(shipping.look(first, false, 2), Looked::Overtaken);
    let Looked::Answer(frames) = shipping.look(second, false, 2) else { panic!("there is something") };
    // It goes on in the session that the first one was of.
    assert_eq!(frames.len(), 2);
    store.hear(frames, &shipping.spool);
    assert_eq!(store.have[&Token(1)][2], b"text");
    assert_eq!(turn(&mut shipping, &mut store, 10, 3), 0);
}

/// LOG-1: attempts that are silent are looked at less often, but soon enough for a line to be seen within a second.
#[test]
fn silent_attempts_are_looked_at_less_often() {
    let mut shipping = Shipping::new(Memory::default());
    for token in 1..=10 {
        shipping.spool.begin(token);
    }
    let mut store = Store::new(0);
    turn(&mut shipping, &mut store, 10, 0);
    let mut looks = |shipping: &mut Shipping<Memory>, from_ms: u64| {
        let before = shipping.spool.looks;
        for step in 0..100 {
            turn(shipping, &mut store, 10, from_ms + step * 100);
        }
        shipping.spool.looks - before
    };
    assert_eq!(looks(&mut shipping, 100), 10 * 100);
    looks(&mut shipping, 20_000);
    assert_eq!(looks(&mut shipping, 40_000), 10 * 50);
    looks(&mut shipping, 60_000);
    assert_eq!(looks(&mut shipping, 80_000), 10 * 34);
    for token in 1..=10 {
        shipping.spool.end(token);
    }
    looks(&mut shipping, 100_000);
    assert_eq!(shipping.spool.attempts.len(), 0);
}

/// LOG-1: on a disk, an attempt is found wherever it has moved to, its files of whatever kind; what is no directory is none.
#[test]
fn disk_shows_attempts_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let attempts = crate::data_dir::DataDir::open(dir.path()).unwrap().attempts;
    let mut disk = Disk::new(attempts.clone(), Arc::default(), None);
    let seen = |place, sizes| Some(Seen { place, sizes, is_too_long: false });
    for token in [1, 2, 3] {
        attempts.open(Token(token)).create().unwrap();
    }
    std::fs::write(attempts.open(Token(1)).stdout(), "text").unwrap();
    std::fs::write(attempts.open(Token(1)).worker(), "a line").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", attempts.open(Token(1)).stderr()).unwrap();
    assert_eq!(disk.look(Token(1), Place::Open).unwrap(), seen(Place::Open, [4, 0, 6]));
    attempts.end(Token(1)).unwrap();
    assert_eq!(disk.look(Token(1), Place::Open).unwrap(), seen(Place::Ended, [4, 0, 6]));
    attempts.end(Token(2)).unwrap();
    std::os::unix::fs::symlink(attempts.ended(Token(1)).path(), attempts.open(Token(9)).path()).unwrap();
    assert_eq!(disk.list(Place::Open).unwrap().0, [Token(3), Token(9)]);
    assert_eq!(disk.list(Place::Ended).unwrap().0, [Token(1), Token(2)]);
    assert_eq!(disk.look(Token(9), Place::Open).unwrap(), None);
    let mut read = |token, place, stream, offset| {
        let wanted = Wanted { token: Token(token), place, stream, offset, most: 3 };
        disk.read(wanted, &mut TimesRead::default()).unwrap()
    };
    let of_stdout = read(1, Place::Ended, LogStream::Stdout, 1);
    assert_eq!((&*of_stdout.bytes, of_stdout.times[0].0, of_stdout.times.len()), (&b"ext"[..], 1, 1));
    for (token, place, stream) in [
        (1, Place::Open, LogStream::Stdout),
        (1, Place::Ended, LogStream::Stderr),
        (2, Place::Ended, LogStream::Stdout),
        (9, Place::Open, LogStream::Stdout),
    ] {
        assert!(read(token, place, stream, 0).bytes.is_empty(), "{token} {place:?} {stream:?}");
    }
    attempts.ship(Token(1)).unwrap();
    assert_eq!(disk.look(Token(1), Place::Open).unwrap(), seen(Place::Shipped, [4, 0, 6]));
    std::fs::remove_dir_all(attempts.shipped(Token(1)).path()).unwrap();
    assert_eq!(disk.look(Token(1), Place::Open).unwrap(), None);
}

/// LOG-1: a file may be of any time.
#[test]
fn files_may_be_of_any_time() {
    assert_eq!(milliseconds(2, 3_999_999), 2_003);
    assert_eq!(milliseconds(i64::MAX, 999_999_999), i64::MAX);
    assert_eq!(milliseconds(i64::MIN, 0), i64::MIN);
}

/// LOG-1: a file that is longer than its limit allows is nothing that the shim has written.
#[test]
fn output_beyond_its_limit_is_told_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let attempts = crate::data_dir::DataDir::open(dir.path()).unwrap().attempts;
    attempts.open(Token(1)).create().unwrap();
    let open = attempts.open(Token(1));
    let is_too_long = |path: std::path::PathBuf, length: u64, max_bytes| {
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(length).unwrap();
        let seen = Disk::new(attempts.clone(), Arc::default(), max_bytes).look(Token(1), Place::Open);
        std::fs::remove_file(path).unwrap();
        seen.unwrap().unwrap().is_too_long
    };
    let slack = 64 << 10;
    for path in [open.stdout(), open.stderr()] {
        let found =
            [100 + slack, 101 + slack, 1 << 42].map(|length| is_too_long(path.clone(), length, Some(100)));
        assert_eq!(found, [false, true, true]);
        assert!(!is_too_long(path, 1 << 42, None), "there is no limit");
    }
    assert_eq!([slack, slack + 1].map(|length| is_too_long(open.worker(), length, None)), [false, true]);
}

/// LOG-1: an output that its job keeps from the worker is no output, until it can be read again. It is not tried to be read each time.
#[test]
fn output_that_is_kept_from_the_worker_is_none() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let dir = tempfile::tempdir().unwrap();
    let attempts = crate::data_dir::DataDir::open(dir.path()).unwrap().attempts;
    let open = attempts.open(Token(1));
    open.create().unwrap();
    std::fs::write(open.stdout(), "text").unwrap();
    std::fs::write(open.stderr(), "error").unwrap();
    let account = 65_534;
    for path in [dir.path(), &attempts.open, open.path(), &open.stdout(), &open.stderr()] {
        chown(path, Some(account), None).expect("this test runs as root");
    }
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let look = move || {
        // Of this thread alone.
        nix::unistd::setfsuid(account.into());
        let mut disk = Disk::new(attempts.clone(), Arc::default(), None);
        let mut sizes = || disk.look(Token(1), Place::Open).unwrap().unwrap().sizes;
        assert_eq!(sizes(), [4, 5, 0]);
        set(&open.stdout(), 0o000);
        assert_eq!(sizes(), [4, 5, 0], "nobody has tried to read it");
        let wanted =
            Wanted { token: Token(1), place: Place::Open, stream: LogStream::Stdout, offset: 0, most: 9 };
        assert!(disk.read(wanted, &mut TimesRead::default()).unwrap().bytes.is_empty());
        let mut sizes = || disk.look(Token(1), Place::Open).unwrap().unwrap().sizes;
        assert_eq!(sizes(), [0, 5, 0]);
        set(&open.stdout(), 0o600);
        assert_eq!(sizes(), [4, 5, 0]);
        set(open.path(), 0o000);
        assert_eq!(sizes(), [0, 0, 0]);
        set(open.path(), 0o700);
    };
    std::thread::spawn(look).join().unwrap();
}
