//! What a store of logs has been told, and what it is told next.
//!
//! ```text
//!  found ─┬─ new ──► Begun ─────────┐
//!         └─ else ─► Known ─ from ──┴─► Piece … ─► (in ended/, all sent) Ended ─ done ─► shipped/
//! ```
//! A session is one store, and turns that follow each other; anything else begins another one, in which nothing was told.

use std::collections::BTreeMap;
use std::io;

use tidemill_model::{
    InstanceId, LogStream, MAX_FRAME_BYTES, MAX_SHIPPED_AT_ONCE, ShipFrame, ShipRequest, Shipped, Token,
};

use super::times::TimesRead;

/// Attempts of which a store hears at once.
pub(super) const MAX_ATTEMPTS: usize = 2_000;
/// Of these, so many that have ended before others of them are named, so that those that run find room.
pub(super) const MAX_ENDED: usize = 1_000;
/// An attempt that was silent for so long is looked at less often, milliseconds.
const QUIET_MS: u64 = 60_000;
/// How often that is.
const LOOK_LATER_MS: u64 = 1_000;
/// The same of one that was sent as a whole.
const LOOK_SELDOM_MS: u64 = 60_000;
/// Of a place that takes long to be listed, the least share of the time until it is listed again.
const LIST_SHARE: u64 = 100;

/// Where the directory of an attempt is. It moves from the first to the second, and leaves that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Open,
    Ended,
}

/// What the spool shows of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) place: Place,
    /// Of each stream, bytes, as they were there.
    pub(super) sizes: [u64; 3],
}

/// Which bytes are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) token: Token,
    pub(super) place: Place,
    pub(super) stream: LogStream,
    pub(super) offset: u64,
    pub(super) most: usize,
}

/// Some bytes; none: there are no more.
pub(super) struct Bytes {
    pub(super) bytes: Vec<u8>,
    pub(super) times: Vec<(u64, i64)>,
}

/// Where the output is.
pub(super) trait Spool {
    /// The attempts there, and how long it took to find them, milliseconds.
    fn list(&mut self, place: Place) -> io::Result<(Vec<Token>, u64)>;
    /// An attempt that was last seen there; nothing: it is gone.
    fn look(&mut self, token: Token, place: Place) -> io::Result<Option<Seen>>;
    fn read(&mut self, wanted: Wanted, read: &mut TimesRead) -> io::Result<Bytes>;
    /// Whether no store was ever told of it. From now on one was.
    fn take_new(&mut self, token: Token) -> bool;
    /// A store has all of it. Fails where it is not in the place of those that have ended.
    fn ship(&mut self, token: Token) -> io::Result<()>;
}

/// What came of a look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looked {
    Nothing,
    Answer(Vec<ShipFrame>),
    /// Another request came after this one.
    Overtaken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The store has to say where to begin.
    Known,
    Shipping,
    /// All of it was sent.
    Ended,
}

struct Attempt {
    stage: Stage,
    seen: Seen,
    /// Where the next piece of each stream begins.
    cursors: [u64; 3],
    times: [TimesRead; 3],
    changed_at_ms: u64,
    look_at_ms: u64,
    /// Some of it could not be read.
    has_failed: bool,
}

/// Attempts of a place that were found and not told of.
#[derive(Default)]
struct Listed {
    left: Vec<Token>,
    again_at_ms: u64,
}

/// The session with a store.
pub(super) struct Shipping<S> {
    pub(super) spool: S,
    store: Option<InstanceId>,
    /// That of the next request of the same session.
    next_turn: u64,
    /// Of the last request.
    number: u64,
    turn: u64,
    room: usize,
    attempts: BTreeMap<Token, Attempt>,
    listed: [Listed; 2],
    /// Which stream is the next to be sent.
    next: (Token, usize),
}

impl<S: Spool> Shipping<S> {
    pub(super) fn new(spool: S) -> Self {
        Self {
            spool,
            store: None,
            next_turn: 0,
            number: 0,
            turn: 0,
            room: 0,
            attempts: BTreeMap::new(),
            listed: Default::default(),
            next: (Token(0), 0),
        }
    }

    /// Takes a request, and gives the number to look under.
    pub(super) fn begin(&mut self, request: &ShipRequest, now_ms: u64) -> u64 {
        let goes_on = request.turn != 0
            && request.turn == self.next_turn
            && self.store.as_ref() == Some(&request.store);
        for token in &request.done {
            self.done(*token, goes_on);
        }
        if goes_on {
            for from in &request.from {
                if let Some(attempt) = self.attempts.get_mut(&from.token) {
                    (attempt.stage, attempt.cursors) = (Stage::Shipping, from.offsets);
                    (attempt.times, attempt.look_at_ms) = (Default::default(), now_ms);
                }
            }
        } else {
            self.attempts.clear();
            self.listed = Default::default();
            self.store = Some(request.store.clone());
        }
        self.turn = request.turn;
        self.room = usize::try_from(request.room_bytes)
            .map_or(MAX_SHIPPED_AT_ONCE, |room| room.min(MAX_SHIPPED_AT_ONCE));
        self.number += 1;
        self.number
    }

    /// Within a session, only what was sent as a whole can be done. Another one may repeat what an earlier one was told.
    fn done(&mut self, token: Token, goes_on: bool) {
        let stage = self.attempts.get(&token).map(|attempt| attempt.stage);
        if goes_on && stage != Some(Stage::Ended) {
            return;
        }
        match self.spool.ship(token) {
            Ok(()) => {
                self.attempts.remove(&token);
            }
            // It runs, or was done before.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%token, %error, "an attempt that a store of logs has stays in the spool")
            }
        }
    }

    /// What there is to say. The last look of a request gives an answer, if an empty one.
    pub(super) fn look(&mut self, number: u64, is_last: bool, now_ms: u64) -> Looked {
        if number != self.number {
            return Looked::Overtaken;
        }
        let mut frames = Vec::new();
        self.look_at_known(now_ms, &mut frames);
        self.find(Place::Open, now_ms, &mut frames);
        self.find(Place::Ended, now_ms, &mut frames);
        self.send(now_ms, &mut frames);
        self.end(now_ms, &mut frames);
        if frames.is_empty() && !is_last {
            return Looked::Nothing;
        }
        self.next_turn = self.turn.saturating_add(1);
        Looked::Answer(frames)
    }

    /// What has become of the attempts that the store has heard of.
    fn look_at_known(&mut self, now_ms: u64, frames: &mut Vec<ShipFrame>) {
        let spool = &mut self.spool;
        self.attempts.retain(|token, attempt| {
            if attempt.look_at_ms > now_ms {
                return true;
            }
            let seen = match spool.look(*token, attempt.seen.place) {
                Ok(Some(seen)) => seen,
                Ok(None) => {
                    frames.push(ShipFrame::new(*token, Shipped::Gone));
                    return false;
                }
                Err(error) => {
                    attempt.fail(*token, now_ms, &error);
                    return true;
                }
            };
            attempt.has_failed = false;
            if seen != attempt.seen {
                (attempt.seen, attempt.changed_at_ms) = (seen, now_ms);
            }
            let is_quiet = now_ms.saturating_sub(attempt.changed_at_ms) >= QUIET_MS;
            attempt.look_at_ms = match attempt.stage {
                Stage::Ended => now_ms + LOOK_SELDOM_MS,
                Stage::Known => now_ms + LOOK_LATER_MS,
                Stage::Shipping if is_quiet => now_ms + LOOK_LATER_MS,
                Stage::Shipping => now_ms,
            };
            true
        });
    }

    /// Tells of attempts that the store has not heard of.
    fn find(&mut self, place: Place, now_ms: u64, frames: &mut Vec<ShipFrame>) {
        let mut ended = self.attempts.values().filter(|of| of.seen.place == Place::Ended).count();
        let has_room =
            |known: usize, ended: usize| known < MAX_ATTEMPTS && (place == Place::Open || ended < MAX_ENDED);
        if !has_room(self.attempts.len(), ended) {
            return;
        }
        self.list(place, now_ms);
        while has_room(self.attempts.len(), ended)
            && let Some(token) = self.listed[place as usize].left.pop()
        {
            if self.attempts.contains_key(&token) {
                continue;
            }
            // One that cannot be looked at, or is gone by now, is found again if it is there.
            let Ok(Some(seen)) = self.spool.look(token, place) else { continue };
            let (stage, told) = match self.spool.take_new(token) {
                true => (Stage::Shipping, Shipped::Begun),
                false => (Stage::Known, Shipped::Known),
            };
            frames.push(ShipFrame::new(token, told));
            ended += usize::from(seen.place == Place::Ended);
            self.attempts.insert(token, Attempt::new(stage, seen, now_ms));
        }
    }

    /// Lists a place, where it is time: the last one first, for that is the newest.
    fn list(&mut self, place: Place, now_ms: u64) {
        let listed = &mut self.listed[place as usize];
        if now_ms < listed.again_at_ms {
            return;
        }
        match self.spool.list(place) {
            Ok((tokens, took_ms)) => {
                listed.left = tokens;
                listed.again_at_ms = now_ms.saturating_add(took_ms.saturating_mul(LIST_SHARE));
            }
            Err(error) => {
                listed.again_at_ms = now_ms + LOOK_LATER_MS;
                tracing::warn!(?place, %error, "the spool of output cannot be listed");
            }
        }
    }

    /// A piece of each stream that has more, until the store has no room.
    fn send(&mut self, now_ms: u64, frames: &mut Vec<ShipFrame>) {
        let mut due: Vec<(Token, usize)> = Vec::new();
        for (token, attempt) in &self.attempts {
            due.extend((0..3).filter(|stream| attempt.has_more(*stream)).map(|stream| (*token, stream)));
        }
        let first = due.partition_point(|of| *of < self.next);
        due.rotate_left(first);
        let mut room = self.room;
        for (token, stream) in due {
            self.next = (token, stream);
            if room == 0 {
                return;
            }
            let attempt = self.attempts.get_mut(&token).expect("it was found among them");
            let (offset, most) = (attempt.cursors[stream], room.min(MAX_FRAME_BYTES));
            let left = usize::try_from(attempt.seen.sizes[stream] - offset).unwrap_or(most);
            let of = LogStream::ALL[stream];
            let wanted =
                Wanted { token, place: attempt.seen.place, stream: of, offset, most: left.min(most) };
            match self.spool.read(wanted, &mut attempt.times[stream]) {
                // It has moved, become shorter, or something else is in its place: the next look says which.
                Ok(Bytes { bytes, .. }) if bytes.is_empty() => attempt.has_failed = true,
                Ok(Bytes { bytes, times }) => {
                    attempt.cursors[stream] += bytes.len() as u64;
                    room = room.saturating_sub(bytes.len());
                    frames.push(ShipFrame::new(token, Shipped::Piece { stream: of, offset, times, bytes }));
                }
                Err(error) => attempt.fail(token, now_ms, &error),
            }
        }
        self.next = (Token(0), 0);
    }

    /// Says which attempts were sent as a whole.
    fn end(&mut self, now_ms: u64, frames: &mut Vec<ShipFrame>) {
        for (token, attempt) in &mut self.attempts {
            let is_whole = attempt.seen.place == Place::Ended && !attempt.has_failed;
            let is_sent = (0..3).all(|stream| !attempt.has_more(stream));
            if attempt.stage == Stage::Shipping && is_whole && is_sent {
                attempt.stage = Stage::Ended;
                attempt.look_at_ms = now_ms + LOOK_SELDOM_MS;
                frames.push(ShipFrame::new(*token, Shipped::Ended { bytes: attempt.cursors }));
            }
        }
    }
}

impl Attempt {
    fn new(stage: Stage, seen: Seen, now_ms: u64) -> Self {
        let (cursors, times) = ([0; 3], Default::default());
        Self { stage, seen, cursors, times, changed_at_ms: now_ms, look_at_ms: now_ms, has_failed: false }
    }

    fn has_more(&self, stream: usize) -> bool {
        self.stage == Stage::Shipping && !self.has_failed && self.cursors[stream] < self.seen.sizes[stream]
    }

    fn fail(&mut self, token: Token, now_ms: u64, error: &io::Error) {
        if !self.has_failed {
            tracing::warn!(%token, %error, "the output of an attempt cannot be shipped now");
        }
        self.has_failed = true;
        self.look_at_ms = now_ms + LOOK_LATER_MS;
    }
}
