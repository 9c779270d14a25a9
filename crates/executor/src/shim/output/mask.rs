//! Hides secrets in a stream before anything of it is written or kept (BYD-15).
//!
//! A byte is hidden that belongs to a secret, as it was given, as one of its lines, or in base64. All hidden bytes that follow
//! each other become `***`. Only what could be the beginning of a secret waits for what comes next.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The shortest secret, bytes, and the shortest line of one: what is shorter may stand anywhere by chance.
const MIN_BYTES: usize = 6;
/// The longest.
const MAX_BYTES: usize = 64 << 10;
/// The most at once.
const MAX_SECRETS: usize = 64;
/// What stands in place of what is hidden. Shorter than anything that is, so that no stream becomes longer.
const STARS: &[u8] = b"***";
/// The lengths of lines into which programs cut base64.
const BASE64_LINES: [usize; 2] = [64, 76];

/// What is wrong with secrets that are to be hidden; none of them is shown.
pub(crate) fn check(secrets: &[String]) -> Result<(), String> {
    if secrets.len() > MAX_SECRETS {
        return Err(format!("{} secrets are to be masked; at most {MAX_SECRETS} are allowed", secrets.len()));
    }
    let is_bad = |secret: &&String| !(MIN_BYTES..=MAX_BYTES).contains(&secret.len());
    match secrets.iter().find(is_bad) {
        None => Ok(()),
        Some(bad) => Err(format!(
            "a secret to be masked is of {} bytes; {MIN_BYTES} to {MAX_BYTES} are allowed",
            bad.len()
        )),
    }
}

/// What is hidden, each as it may be printed.
pub(in crate::shim) struct Secrets {
    /// What the patterns are pieces of.
    text: Vec<u8>,
    /// Sorted by what they hold, none twice.
    patterns: Vec<Range<usize>>,
    /// Of each, the longest of the others that it begins with.
    begins_with: Vec<Option<usize>>,
    /// A bit for each two bytes that a pattern begins with.
    pairs: Vec<u64>,
}

/// What stands at the beginning of a piece of a stream.
struct Found {
    /// Bytes of the longest pattern there; 0: there is none.
    longest: usize,
    /// All of the piece is the beginning of a longer one.
    may_go_on: bool,
}

impl Secrets {
    /// Of secrets as they were given; nothing, where there are none.
    pub(in crate::shim) fn of(secrets: &[String]) -> Result<Option<Arc<Self>>, String> {
        check(secrets)?;
        if secrets.is_empty() {
            return Ok(None);
        }
        let mut all = Self {
            text: Vec::new(),
            patterns: Vec::new(),
            begins_with: Vec::new(),
            pairs: vec![0; (1 << 16) / 64],
        };
        for secret in secrets {
            all.add(secret.as_bytes());
            for begin in 0..3 {
                all.add_base64(secret.as_bytes(), begin);
            }
        }
        all.prepare();
        Ok(Some(Arc::new(all)))
    }

    fn add(&mut self, secret: &[u8]) {
        let begin = self.text.len();
        self.text.extend(secret);
        self.patterns.push(begin..self.text.len());
        let mut line_begin = begin;
        for line in secret.split(|byte| *byte == b'\n') {
            let length = line.strip_suffix(b"\r").unwrap_or(line).len();
            if length >= MIN_BYTES {
                self.patterns.push(line_begin..line_begin + length);
            }
            line_begin += line.len() + 1;
        }
    }

    /// With so many bytes before it, of which nothing is known. A character that holds bits of what comes before or behind is no
    /// part of a pattern, except where nothing comes behind.
    fn add_base64(&mut self, secret: &[u8], before: usize) {
        let whole = STANDARD.encode([vec![0; before], secret.to_vec()].concat());
        let known = whole.as_bytes()[(before * 8).div_ceil(6)..].to_vec();
        let (bits, skipped) = ((before + secret.len()) * 8, whole.len() - known.len());
        let lengths = [bits / 6 - skipped, bits.div_ceil(6) - skipped, known.len()];
        let of_url = known.iter().map(|byte| match byte {
            b'+' => b'-',
            b'/' => b'_',
            other => *other,
        });
        let of_url: Vec<u8> = of_url.collect();
        let forms = if of_url == known { vec![known] } else { vec![known, of_url] };
        for form in forms {
            let begin = self.text.len();
            self.text.extend(&form);
            self.patterns.extend(lengths.map(|length| begin..begin + length));
            for length in BASE64_LINES.into_iter().filter(|length| before == 0 && form.len() > *length) {
                let lines = (0..form.len()).step_by(length).map(|at| at..form.len().min(at + length));
                let long = lines.filter(|line| line.len() >= MIN_BYTES);
                self.patterns.extend(long.map(|line| begin + line.start..begin + line.end));
            }
        }
    }

    fn prepare(&mut self) {
        let Self { text, patterns, begins_with, pairs } = self;
        patterns.sort_unstable_by(|a, b| text[a.clone()].cmp(&text[b.clone()]));
        patterns.dedup_by(|a, b| text[a.clone()] == text[b.clone()]);
        // Those that the one before begins with, and itself.
        let mut above: Vec<usize> = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            let pattern = &text[pattern.clone()];
            while above.last().is_some_and(|last| !pattern.starts_with(&text[patterns[*last].clone()])) {
                above.pop();
            }
            begins_with.push(above.last().copied());
            above.push(index);
            let pair = pair(pattern);
            pairs[pair / 64] |= 1 << (pair % 64);
        }
    }

    fn pattern(&self, index: usize) -> &[u8] {
        &self.text[self.patterns[index].clone()]
    }

    fn at(&self, piece: &[u8]) -> Found {
        let next = self.patterns.partition_point(|pattern| self.text[pattern.clone()] <= *piece);
        let may_go_on = next < self.patterns.len() && self.pattern(next).starts_with(piece);
        // Whatever the piece begins with is the last pattern before it, or one that that begins with.
        let mut before = next.checked_sub(1);
        while let Some(index) = before {
            let pattern = self.pattern(index);
            if piece.starts_with(pattern) {
                return Found { longest: pattern.len(), may_go_on };
            }
            before = self.begins_with[index];
        }
        Found { longest: 0, may_go_on }
    }

    /// How many bytes come before the first place where a pattern may begin. The last byte is such a place.
    fn plain(&self, bytes: &[u8]) -> usize {
        let begins = |two: &[u8]| self.pairs[pair(two) / 64] & (1 << (pair(two) % 64)) != 0;
        bytes.windows(2).position(begins).unwrap_or(bytes.len() - 1)
    }
}

/// The number of the first two bytes.
fn pair(bytes: &[u8]) -> usize {
    usize::from(bytes[0]) << 8 | usize::from(bytes[1])
}

/// Hides secrets in one stream, however it is cut.
pub(super) struct Mask {
    secrets: Option<Arc<Secrets>>,
    /// What could be the beginning of a secret.
    held: Vec<u8>,
    /// So many bytes from there on belong to a secret that began before.
    covered: usize,
    /// The last byte before that was hidden.
    is_hiding: bool,
    /// What was taken and never comes out, bytes, less the stars in its place.
    hidden: i64,
}

impl Mask {
    pub(super) fn new(secrets: Option<Arc<Secrets>>) -> Self {
        Self { secrets, held: Vec::new(), covered: 0, is_hiding: false, hidden: 0 }
    }

    /// By how many bytes the stream has become shorter.
    pub(super) fn hidden(&self) -> u64 {
        u64::try_from(self.hidden).unwrap_or(0)
    }

    /// What can be written now that these bytes have come.
    pub(super) fn take<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self.secrets.clone() {
            None => Cow::Borrowed(bytes),
            Some(secrets) => {
                self.held.extend(bytes);
                Cow::Owned(self.pass(&secrets, false))
            }
        }
    }

    /// What is left, where what was held is followed by nothing.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let secrets = self.secrets.clone();
        let left = secrets.map(|secrets| self.pass(&secrets, true)).unwrap_or_default();
        self.is_hiding = false;
        left
    }

    fn pass(&mut self, secrets: &Secrets, is_end: bool) -> Vec<u8> {
        let mut held = mem::take(&mut self.held);
        let mut passed = Vec::with_capacity(held.len());
        let mut at = 0;
        while at < held.len() {
            if self.covered == 0 {
                let plain = secrets.plain(&held[at..]);
                passed.extend(&held[at..at + plain]);
                self.is_hiding &= plain == 0;
                at += plain;
            }
            let Found { longest, may_go_on } = secrets.at(&held[at..]);
            if may_go_on && !is_end {
                break;
            }
            self.covered = self.covered.max(longest);
            let is_hidden = self.covered > 0;
            if !is_hidden {
                passed.push(held[at]);
            } else {
                if !self.is_hiding {
                    passed.extend(STARS);
                    self.hidden -= STARS.len() as i64;
                }
                self.hidden += 1;
                self.covered -= 1;
            }
            self.is_hiding = is_hidden;
            at += 1;
        }
        held.drain(..at);
        self.held = held;
        passed
    }
}

#[cfg(test)]
mod tests;
