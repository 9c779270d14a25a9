//! Hides secrets in a stream before anything of it is written or kept (BYD-15).
//!
//! ```text
//! bytes ─┬───────────────────────────────► automaton of secrets as given ──┬─► covered ranges ──► passed on, with *** for each
//!        └ without line ends, - as +, … ─► automaton of their base64 ──────┘
//! ```
//! A byte is hidden that belongs to a secret, as it was given, as one of its lines, or in base64, wherever that is cut into lines.
//! All hidden bytes that follow each other become `***`. Only what could be the beginning of a secret waits for what comes next.

mod automaton;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use self::automaton::Automaton;

/// The shortest secret, bytes, and the shortest line of one: what is shorter may stand anywhere by chance.
const MIN_BYTES: usize = 6;
/// The longest, and all of them together: each shim has several forms of each in memory.
const MAX_BYTES: usize = 64 << 10;
/// The most at once.
const MAX_SECRETS: usize = 64;
/// What stands in place of what is hidden. Shorter than anything that is, so that no stream becomes longer.
const STARS: &[u8] = b"***";
/// More line ends than these in a row are no part of base64 that was cut into lines.
const MAX_LINE_ENDS: u32 = 8;

/// What is wrong with secrets that are to be hidden; none of them is shown.
pub(crate) fn check(secrets: &[String]) -> Result<(), String> {
    if secrets.len() > MAX_SECRETS {
        return Err(format!("{} secrets are to be masked; at most {MAX_SECRETS} are allowed", secrets.len()));
    }
    let is_bad = |secret: &&String| {
        trimmed(secret).len() < MIN_BYTES || !(MIN_BYTES..=MAX_BYTES).contains(&secret.len())
    };
    if let Some(bad) = secrets.iter().find(is_bad) {
        let length = if bad.len() > MAX_BYTES { bad.len() } else { trimmed(bad).len() };
        return Err(format!(
            "a secret to be masked is of {length} bytes; {MIN_BYTES} to {MAX_BYTES} are allowed"
        ));
    }
    match secrets.iter().map(String::len).sum::<usize>() {
        ..=MAX_BYTES => Ok(()),
        all => Err(format!(
            "the secrets to be masked are of {all} bytes together; at most {MAX_BYTES} are allowed"
        )),
    }
}

/// Without the line end that a file or a command adds.
fn trimmed(secret: &str) -> &str {
    secret.trim_end_matches(['\r', '\n'])
}

/// What is hidden, each as it may be printed.
pub(in crate::shim) struct Secrets {
    /// As they were given, and their lines.
    plain: Automaton,
    /// In base64, without line ends, of the one alphabet.
    base64: Automaton,
}

impl Secrets {
    /// Of secrets as they were given; nothing, where there are none.
    pub(in crate::shim) fn of(secrets: &[String]) -> Result<Option<Arc<Self>>, String> {
        check(secrets)?;
        if secrets.is_empty() {
            return Ok(None);
        }
        let (mut plain, mut base64) = (Vec::new(), Vec::new());
        for secret in secrets.iter().map(|secret| trimmed(secret)) {
            plain.push(secret.as_bytes());
            let lines = secret.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).as_bytes());
            plain.extend(lines.filter(|line| line.len() >= MIN_BYTES));
            base64.extend((0..3).flat_map(|before| forms(secret.as_bytes(), before)));
        }
        let base64: Vec<&[u8]> = base64.iter().map(Vec::as_slice).collect();
        Ok(Some(Arc::new(Self { plain: Automaton::of(&plain), base64: Automaton::of(&base64) })))
    }
}

/// In base64 with so many bytes before it, of which nothing is known. A character that holds bits of what comes before or behind is
/// no part of a form, except where nothing comes behind.
fn forms(secret: &[u8], before: usize) -> [Vec<u8>; 3] {
    let whole = STANDARD.encode([vec![0; before], secret.to_vec()].concat());
    let known = whole.as_bytes()[(before * 8).div_ceil(6)..].to_vec();
    let (bits, skipped) = ((before + secret.len()) * 8, whole.len() - known.len());
    let lengths = [bits / 6 - skipped, bits.div_ceil(6) - skipped, known.len()];
    lengths.map(|length| known[..length].to_vec())
}

/// As a letter of the alphabet that the forms are of.
fn letter(byte: u8) -> u8 {
    match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => other,
    }
}

/// Bytes of a stream, counted from its beginning, that are hidden.
#[derive(Clone, Copy)]
struct Covered {
    begin: u64,
    end: u64,
}

/// Hides secrets in one stream, however it is cut.
pub(super) struct Mask {
    secrets: Option<Arc<Secrets>>,
    /// What could be the beginning of a secret.
    held: Vec<u8>,
    /// How many bytes came before those.
    passed: u64,
    /// In order; none touches another. They begin behind what was passed, or there.
    covered: VecDeque<Covered>,
    /// States of the automata.
    plain: u32,
    base64: u32,
    /// Where the letters stand that the state of base64 is of.
    letters: VecDeque<u64>,
    /// Letters before here were too few at the end of their line to wait for the next one.
    given_up: u64,
    /// Line ends since the last letter.
    line_ends: u32,
    /// The last byte before what is held was hidden.
    is_hiding: bool,
    /// What was taken and never comes out, bytes, less the stars in its place.
    hidden: i64,
}

impl Mask {
    pub(super) fn new(secrets: Option<Arc<Secrets>>) -> Self {
        Self {
            secrets,
            held: Vec::new(),
            passed: 0,
            covered: VecDeque::new(),
            plain: Automaton::ROOT,
            base64: Automaton::ROOT,
            letters: VecDeque::new(),
            given_up: 0,
            line_ends: 0,
            is_hiding: false,
            hidden: 0,
        }
    }

    /// By how many bytes the stream has become shorter.
    pub(super) fn hidden(&self) -> u64 {
        u64::try_from(self.hidden).unwrap_or(0)
    }

    /// What can be written now that these bytes have come.
    pub(super) fn take<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(secrets) = self.secrets.clone() else { return Cow::Borrowed(bytes) };
        for byte in bytes {
            self.see(&secrets, *byte);
        }
        let end = self.end_of_held();
        let plain = end - u64::from(secrets.plain.waits(self.plain));
        let base64 = match secrets.base64.waits(self.base64) as usize {
            0 => end,
            waits => self.letters[self.letters.len() - waits].max(self.given_up),
        };
        Cow::Owned(self.pass(plain.min(base64)))
    }

    /// What is left, where what was held is followed by nothing that is known: enough of a secret is hidden like a whole one.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let Some(secrets) = self.secrets.clone() else { return Vec::new() };
        let end = self.end_of_held();
        let depth = secrets.plain.depth(self.plain);
        if depth as usize >= MIN_BYTES {
            self.cover(end - u64::from(depth), end);
        }
        if self.letters.len() >= MIN_BYTES {
            self.cover_letters(self.letters.len());
        }
        let left = self.pass(end);
        self.plain = Automaton::ROOT;
        self.forget_letters();
        self.is_hiding = false;
        left
    }

    fn end_of_held(&self) -> u64 {
        self.passed + self.held.len() as u64
    }

    fn see(&mut self, secrets: &Secrets, byte: u8) {
        let at = self.end_of_held();
        self.held.push(byte);
        self.plain = secrets.plain.next(self.plain, byte);
        let longest = secrets.plain.longest(self.plain);
        if longest > 0 {
            self.cover(at + 1 - u64::from(longest), at + 1);
        }
        if matches!(byte, b'\r' | b'\n') {
            self.line_ends += 1;
            if self.line_ends > MAX_LINE_ENDS {
                self.forget_letters();
            } else if (secrets.base64.waits(self.base64) as usize) < MIN_BYTES {
                // A line that ends in a letter or two is not worth to be held.
                self.given_up = at + 1;
            }
            return;
        }
        self.line_ends = 0;
        self.base64 = secrets.base64.next(self.base64, letter(byte));
        self.letters.push_back(at);
        let outside = self.letters.len() - secrets.base64.depth(self.base64) as usize;
        self.letters.drain(..outside);
        let longest = secrets.base64.longest(self.base64) as usize;
        if longest > 0 {
            self.cover_letters(longest);
        }
    }

    fn forget_letters(&mut self) {
        self.base64 = Automaton::ROOT;
        self.letters.clear();
        self.line_ends = 0;
    }

    /// The last letters, and the line ends between them.
    fn cover_letters(&mut self, count: usize) {
        let begin = self.letters[self.letters.len() - count].max(self.given_up);
        let end = self.letters.back().map_or(begin, |last| last + 1);
        if begin < end {
            self.cover(begin, end);
        }
    }

    /// Whatever was covered before ends there, or before.
    fn cover(&mut self, mut begin: u64, end: u64) {
        while let Some(last) = self.covered.pop_back_if(|last| last.end >= begin) {
            begin = begin.min(last.begin);
        }
        self.covered.push_back(Covered { begin, end });
    }

    /// Gives what is held as far as there.
    fn pass(&mut self, until: u64) -> Vec<u8> {
        let mut held = mem::take(&mut self.held);
        let mut passed = Vec::with_capacity(held.len());
        let from = self.passed;
        let index = |at: u64| usize::try_from(at - from).expect("it is held");
        while self.passed < until {
            let next = self.covered.front().copied().filter(|next| next.begin < until);
            let begin = next.map_or(until, |next| next.begin);
            if self.passed < begin {
                passed.extend(&held[index(self.passed)..index(begin)]);
                (self.passed, self.is_hiding) = (begin, false);
            }
            let Some(Covered { end, .. }) = next else { break };
            if !self.is_hiding {
                passed.extend(STARS);
                self.hidden -= STARS.len() as i64;
            }
            let hidden = end.min(until) - self.passed;
            (self.hidden, self.is_hiding) = (self.hidden + hidden as i64, true);
            self.passed += hidden;
            self.covered.pop_front();
            if end > until {
                self.covered.push_front(Covered { begin: until, end });
            }
        }
        held.drain(..index(self.passed));
        self.held = held;
        passed
    }
}

#[cfg(test)]
mod tests;
