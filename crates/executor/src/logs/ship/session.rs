//! What a store of logs has been told, and what it is told next.
//!
//! ```text
//!  found ─┬─ new ──► Begun ─────────┐
//!         └─ else ─► Known ─ from ──┴─► Piece … ─► (in ended/, all sent) Ended ─ done ─► shipped/
//!                      └─ done (in ended/: it has all of it by now) ───────────────────────┘
//! ```
//! A session is one store, and turns that follow each other; anything else of that store begins it anew, and nothing was told.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tidemill_model::{
    InstanceId, LogStream, MAX_FRAME_BYTES, MAX_SHIPPED_AT_ONCE, ShipFrame, ShipRequest, Shipped, Token,
};

use super::spool::{Bytes, Place, Seen, Spool, Wanted};
use super::times::TimesRead;

/// Attempts that have not ended, of which a store hears at once.
pub(super) const MAX_OPEN: usize = 10_000;
/// Others beside them: neither keeps the other from being told of.
pub(super) const MAX_ENDED: usize = 1_000;
/// Attempts of which it is kept in mind that their output is lost.
const MAX_LOST: usize = 10_000;
/// An attempt that has ended is given up after so many failures in a row.
pub(super) const MAX_FAILURES: u32 = 10;
/// For how long an attempt has been silent, and how often it is looked at then, milliseconds.
const LOOKS: [(u64, u64); 2] = [(60_000, 300), (10_000, 200)];
/// How often one is looked at whose store has not said where to begin, or that cannot be read.
const LOOK_LATER_MS: u64 = 1_000;
/// The same of one that was sent as a whole.
const LOOK_SELDOM_MS: u64 = 60_000;
/// Of a place that takes long to be listed, the least share of the time until it is listed again.
const LIST_SHARE: u64 = 100;

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
    /// How often a read has failed since one did not.
    failures: u32,
    /// It was said that it cannot be read.
    is_said: bool,
    /// A stream was found shorter than what the store has of it.
    was_shorter: bool,
}

/// Attempts of a place that were found and not told of, the first one last.
#[derive(Default)]
struct Listed {
    left: Vec<Token>,
    again_at_ms: u64,
}

/// The session with a store.
pub(super) struct Session {
    pub(super) store: InstanceId,
    /// Of its last request.
    pub(super) number: u64,
    /// That of the next request of the same session.
    next_turn: u64,
    turn: u64,
    room: usize,
    attempts: BTreeMap<Token, Attempt>,
    /// The store was told that there is no more of these, though their directories are there.
    lost: BTreeSet<Token>,
    listed: [Listed; 2],
    /// Which stream is the next to be sent.
    next: (Token, usize),
}

impl Session {
    pub(super) fn new(store: InstanceId) -> Self {
        Self {
            store,
            number: 0,
            next_turn: 0,
            turn: 0,
            room: 0,
            attempts: BTreeMap::new(),
            lost: BTreeSet::new(),
            listed: Default::default(),
            next: (Token(0), 0),
        }
    }

    /// Takes a request, which has a number.
    pub(super) fn begin(&mut self, spool: &mut impl Spool, request: &ShipRequest, number: u64, now_ms: u64) {
        let goes_on = request.turn != 0 && request.turn == self.next_turn;
        for token in &request.done {
            self.done(spool, *token, goes_on);
        }
        if goes_on {
            for from in &request.from {
                if let Some(attempt) = self.attempts.get_mut(&from.token) {
                    (attempt.stage, attempt.cursors) = (Stage::Shipping, from.offsets);
                    (attempt.times, attempt.look_at_ms) = (Default::default(), now_ms);
                    attempt.was_shorter = false;
                }
            }
        } else {
            self.attempts.clear();
            self.lost.clear();
            self.listed = Default::default();
        }
        (self.number, self.turn) = (number, request.turn);
        self.room = usize::try_from(request.room_bytes)
            .map_or(MAX_SHIPPED_AT_ONCE, |room| room.min(MAX_SHIPPED_AT_ONCE));
    }

    /// Within a session, what is on its way cannot be done: only what was sent as a whole, what the store has from an earlier
    /// session, and what it was told to be lost. Another session may repeat what an earlier one was told.
    fn done(&mut self, spool: &mut impl Spool, token: Token, goes_on: bool) {
        let stage = self.attempts.get(&token).map(|attempt| attempt.stage);
        let can_be = matches!(stage, Some(Stage::Known | Stage::Ended)) || self.lost.contains(&token);
        if goes_on && !can_be {
            return;
        }
        match spool.ship(token) {
            Ok(()) => {
                self.attempts.remove(&token);
                self.lost.remove(&token);
            }
            // It runs, or is gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%token, %error, "an attempt that a store of logs has stays in the spool")
            }
        }
    }

    /// What there is to say.
    pub(super) fn look(&mut self, spool: &mut impl Spool, now_ms: u64) -> Vec<ShipFrame> {
        let mut frames = Vec::new();
        self.look_at_known(spool, now_ms, &mut frames);
        self.find(spool, Place::Open, now_ms, &mut frames);
        self.find(spool, Place::Ended, now_ms, &mut frames);
        self.send(spool, now_ms, &mut frames);
        self.end(now_ms, &mut frames);
        frames
    }

    /// The last request has its answer.
    pub(super) fn has_answered(&mut self) {
        self.next_turn = self.turn.saturating_add(1);
    }

    /// What has become of the attempts that the store has heard of.
    fn look_at_known(&mut self, spool: &mut impl Spool, now_ms: u64, frames: &mut Vec<ShipFrame>) {
        self.attempts.retain(|token, attempt| {
            if attempt.look_at_ms > now_ms {
                return true;
            }
            match spool.look(*token, attempt.seen.place) {
                Ok(Some(seen)) => {
                    // It may have said before that it has all of it, which counts only now.
                    let has_ended = attempt.seen.place == Place::Open && seen.place != Place::Open;
                    if attempt.stage == Stage::Known && has_ended {
                        frames.push(ShipFrame::new(*token, Shipped::Known));
                    }
                    attempt.see(seen, now_ms);
                    true
                }
                Ok(None) => {
                    frames.push(ShipFrame::new(*token, Shipped::Gone));
                    false
                }
                Err(error) => {
                    attempt.fail(*token, now_ms, &error);
                    true
                }
            }
        });
    }

    /// Tells of attempts that the store has not heard of.
    fn find(&mut self, spool: &mut impl Spool, place: Place, now_ms: u64, frames: &mut Vec<ShipFrame>) {
        let mut open = self.attempts.values().filter(|of| of.seen.place == Place::Open).count();
        let mut ended = self.attempts.len() - open;
        let has_room = |open: usize, ended: usize| match place {
            Place::Open => open < MAX_OPEN && open + ended < MAX_OPEN + MAX_ENDED,
            Place::Ended | Place::Shipped => ended < MAX_ENDED,
        };
        if !has_room(open, ended) {
            return;
        }
        self.list(spool, place, now_ms);
        while has_room(open, ended)
            && let Some(token) = self.listed[place as usize].left.pop()
        {
            if self.attempts.contains_key(&token) || self.lost.contains(&token) {
                continue;
            }
            // One that cannot be looked at, or has moved on by now, is found again if it is there.
            let Ok(Some(seen)) = spool.look(token, place) else { continue };
            match seen.place {
                Place::Open => open += 1,
                Place::Ended => ended += 1,
                Place::Shipped => continue,
            }
            let (stage, told) = match spool.take_new(token) {
                true => (Stage::Shipping, Shipped::Begun),
                false => (Stage::Known, Shipped::Known),
            };
            frames.push(ShipFrame::new(token, told));
            self.attempts.insert(token, Attempt::new(stage, seen, now_ms));
        }
    }

    /// Lists a place, where it is time. The oldest come first: whoever has waited for longest.
    fn list(&mut self, spool: &mut impl Spool, place: Place, now_ms: u64) {
        let listed = &mut self.listed[place as usize];
        if now_ms < listed.again_at_ms {
            return;
        }
        match spool.list(place) {
            Ok((mut tokens, took_ms)) => {
                tokens.reverse();
                listed.left = tokens;
                listed.again_at_ms = now_ms.saturating_add(took_ms.saturating_mul(LIST_SHARE));
            }
            Err(error) => {
                listed.again_at_ms = now_ms + LOOK_LATER_MS;
                tracing::warn!(?place, %error, "the spool of output cannot be listed");
            }
        }
    }

    /// Pieces of the streams that have more, in turns, until the store has no room.
    fn send(&mut self, spool: &mut impl Spool, now_ms: u64, frames: &mut Vec<ShipFrame>) {
        let mut room = self.room;
        loop {
            let before = room;
            self.send_round(spool, now_ms, &mut room, frames);
            if room == 0 || room == before {
                return;
            }
        }
    }

    /// A piece of each.
    fn send_round(
        &mut self,
        spool: &mut impl Spool,
        now_ms: u64,
        room: &mut usize,
        frames: &mut Vec<ShipFrame>,
    ) {
        let mut due: Vec<(Token, usize)> = Vec::new();
        for (token, attempt) in &self.attempts {
            due.extend((0..3).filter(|stream| attempt.has_more(*stream)).map(|stream| (*token, stream)));
        }
        let first = due.partition_point(|of| *of < self.next);
        due.rotate_left(first);
        for (token, stream) in due {
            self.next = (token, stream);
            if *room == 0 {
                return;
            }
            let attempt = self.attempts.get_mut(&token).expect("it was found among them");
            let (offset, most) = (attempt.cursors[stream], (*room).min(MAX_FRAME_BYTES));
            let left = usize::try_from(attempt.seen.sizes[stream] - offset).unwrap_or(most);
            let of = LogStream::ALL[stream];
            let wanted =
                Wanted { token, place: attempt.seen.place, stream: of, offset, most: left.min(most) };
            match spool.read(wanted, &mut attempt.times[stream]) {
                // It has moved, become shorter, or something else is in its place: the next look says which.
                Ok(Bytes { bytes, .. }) if bytes.is_empty() => {
                    attempt.has_failed = true;
                    attempt.failures = attempt.failures.saturating_add(1);
                }
                Ok(Bytes { bytes, times }) => {
                    (attempt.failures, attempt.is_said) = (0, false);
                    attempt.cursors[stream] += bytes.len() as u64;
                    *room = room.saturating_sub(bytes.len());
                    frames.push(ShipFrame::new(token, Shipped::Piece { stream: of, offset, times, bytes }));
                }
                Err(error) => {
                    attempt.failures = attempt.failures.saturating_add(1);
                    attempt.fail(token, now_ms, &error);
                }
            }
        }
        self.next = (Token(0), 0);
    }

    /// Says which attempts were sent as a whole, and of which there is no more to be had.
    fn end(&mut self, now_ms: u64, frames: &mut Vec<ShipFrame>) {
        let lost = &mut self.lost;
        self.attempts.retain(|token, attempt| {
            if let Some(why) = attempt.why_lost() {
                tracing::warn!(%token, why, "the rest of the output of an attempt is not shipped");
                if lost.len() >= MAX_LOST {
                    lost.clear();
                }
                lost.insert(*token);
                frames.push(ShipFrame::new(*token, Shipped::Gone));
                return false;
            }
            let is_whole = attempt.seen.place != Place::Open && !attempt.has_failed;
            let is_sent = (0..3).all(|stream| !attempt.has_more(stream));
            if attempt.stage == Stage::Shipping && is_whole && is_sent {
                attempt.stage = Stage::Ended;
                attempt.look_at_ms = now_ms + LOOK_SELDOM_MS;
                frames.push(ShipFrame::new(*token, Shipped::Ended { bytes: attempt.cursors }));
            }
            true
        });
    }
}

impl Attempt {
    fn new(stage: Stage, seen: Seen, now_ms: u64) -> Self {
        Self {
            stage,
            seen,
            cursors: [0; 3],
            times: Default::default(),
            changed_at_ms: now_ms,
            look_at_ms: now_ms,
            has_failed: false,
            failures: 0,
            is_said: false,
            was_shorter: false,
        }
    }

    fn see(&mut self, seen: Seen, now_ms: u64) {
        self.has_failed = false;
        let is_shorter = seen.sizes.iter().zip(self.cursors).any(|(size, cursor)| *size < cursor);
        self.was_shorter |= self.stage == Stage::Shipping && is_shorter;
        if seen != self.seen {
            (self.seen, self.changed_at_ms) = (seen, now_ms);
        }
        if !(0..3).any(|stream| self.has_more(stream)) {
            self.failures = 0;
        }
        let quiet_ms = now_ms.saturating_sub(self.changed_at_ms);
        let every = LOOKS.iter().find(|(after_ms, _)| quiet_ms >= *after_ms);
        self.look_at_ms = now_ms
            + match self.stage {
                Stage::Ended => LOOK_SELDOM_MS,
                Stage::Known => LOOK_LATER_MS,
                Stage::Shipping => every.map_or(0, |(_, every_ms)| *every_ms),
            };
    }

    fn has_more(&self, stream: usize) -> bool {
        self.stage == Stage::Shipping && !self.has_failed && self.cursors[stream] < self.seen.sizes[stream]
    }

    fn why_lost(&self) -> Option<&'static str> {
        let has_ended = self.seen.place != Place::Open;
        match self.stage {
            Stage::Ended => None,
            _ if self.seen.is_too_long => Some("it is longer than an output can be"),
            _ if has_ended && self.failures >= MAX_FAILURES => Some("it cannot be read"),
            // What comes behind may be anything.
            _ if has_ended && self.was_shorter => Some("it has become shorter than what the store has"),
            Stage::Known | Stage::Shipping => None,
        }
    }

    fn fail(&mut self, token: Token, now_ms: u64, error: &io::Error) {
        if !self.is_said {
            tracing::warn!(%token, %error, "the output of an attempt cannot be shipped now");
        }
        (self.has_failed, self.is_said) = (true, true);
        self.look_at_ms = now_ms + LOOK_LATER_MS;
    }
}
