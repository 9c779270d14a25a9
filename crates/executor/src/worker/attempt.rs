//! What the worker holds in mind about its attempts, and when each is to be spoken of again.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{AttemptOutcome, ExternalEnd, Nonce, Token, Usage};

use super::right::Right;
use super::{ProcessEnd, external, outcome};

/// The first repeat of what is not answered; each further one takes twice as long.
const REPEAT_MS: u64 = 2_000;
/// The longest pause between two repeats.
const REPEAT_MAX_MS: u64 = 30_000;

/// One attempt, or what may become one.
#[derive(Debug)]
pub(super) enum Attempt {
    /// Its paths are being looked at; nothing was asked yet. After `until_ms` it is given back.
    Looking { until_ms: u64 },
    /// Asked whether it may start. Only a grant with this nonce starts it, and takes the nonce away: so
    /// nothing starts twice, however often an owner repeats itself.
    /// With a right, the log's word that it has the question starts it, too.
    Requested { nonce: Nonce, repeat: Repeat, right: Option<Box<Right>> },
    /// A process is being started, on the grant of this question.
    Starting { nonce: Nonce },
    /// A process runs; `report_at_ms`: when to say so again, where that failed.
    Running { report_at_ms: Option<u64> },
    /// It was granted and could not be written down, or was asked back, and goes to another worker; kept until the owner has
    /// taken it back. The nonce is that of its question, if there was one.
    GivenBack { nonce: Option<Nonce>, reason: String, repeat: Repeat, lacks_resources: bool },
    /// Nothing of it runs, and nothing ever will; kept until the owner has it on record.
    Ended(Box<End>),
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) outcome: AttemptOutcome,
    pub(super) usage: Option<Box<Usage>>,
    /// Absent: of an earlier life, and the owner has not asked for it yet.
    pub(super) repeat: Option<Repeat>,
    /// How often it is said; absent: until it is on record.
    pub(super) repeats_left: Option<u32>,
    pub(super) has_directory: bool,
    /// The worker ended it because it was stopped itself.
    pub(super) interrupted: bool,
    /// What it started elsewhere; absent: nothing, and nothing of that is left.
    pub(super) external: Option<ExternalEnd>,
}

impl End {
    pub(super) fn bare(outcome: AttemptOutcome) -> Self {
        let (repeat, repeats_left) = (None, None);
        let (has_directory, interrupted) = (false, false);
        Self { outcome, usage: None, repeat, repeats_left, has_directory, interrupted, external: None }
    }

    /// Of one that the worker does not have: what it may have started elsewhere, nobody here knows.
    pub(super) fn unknown(outcome: AttemptOutcome) -> Self {
        Self { external: Some(ExternalEnd::unknown()), ..Self::bare(outcome) }
    }

    pub(super) fn of_process(end: ProcessEnd) -> Self {
        let (interrupted, external) = (end.is_by_stop(), external::known_of(&end));
        let (outcome, usage) = outcome::of_process(end);
        Self { usage: usage.map(Box::new), has_directory: true, interrupted, external, ..Self::bare(outcome) }
    }
}

/// When to say something again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) due_ms: u64,
    pause_ms: u64,
}

impl Repeat {
    pub(super) fn first(now_ms: u64) -> Self {
        Self { due_ms: now_ms + REPEAT_MS, pause_ms: REPEAT_MS }
    }

    pub(super) fn next(self, now_ms: u64) -> Self {
        let pause_ms = (self.pause_ms * 2).min(REPEAT_MAX_MS);
        Self { due_ms: now_ms + pause_ms, pause_ms }
    }
}

impl Attempt {
    /// Nothing of it was granted, as far as the worker has heard.
    pub(super) fn is_only_assigned(&self) -> bool {
        matches!(self, Attempt::Looking { .. } | Attempt::Requested { .. })
    }

    pub(super) fn has_process(&self) -> bool {
        matches!(self, Attempt::Starting { .. } | Attempt::Running { .. })
    }

    fn due_ms(&self) -> Option<u64> {
        match self {
            Attempt::Looking { until_ms } => Some(*until_ms),
            Attempt::Requested { repeat, .. } | Attempt::GivenBack { repeat, .. } => Some(repeat.due_ms),
            Attempt::Starting { .. } => None,
            Attempt::Running { report_at_ms } => *report_at_ms,
            Attempt::Ended(end) => end.repeat.map(|repeat| repeat.due_ms),
        }
    }
}

/// All attempts, and an index of when to speak of which.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    by_token: BTreeMap<Token, Attempt>,
    due: BTreeSet<(u64, Token)>,
}

impl Attempts {
    pub(super) fn get(&self, token: Token) -> Option<&Attempt> {
        self.by_token.get(&token)
    }

    /// Of one that has ended, what it may have left elsewhere. When to speak of it does not change with that.
    pub(super) fn unconfirmed_end(&mut self, token: Token) -> Option<&mut ExternalEnd> {
        match self.by_token.get_mut(&token)? {
            Attempt::Ended(end) => end.external.as_mut().filter(|external| external.unconfirmed),
            _ => None,
        }
    }

    /// Puts it in place of what was there.
    pub(super) fn set(&mut self, token: Token, attempt: Attempt) {
        let due_ms = attempt.due_ms();
        self.remove(token);
        self.due.extend(due_ms.map(|due| (due, token)));
        self.by_token.insert(token, attempt);
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<Attempt> {
        let attempt = self.by_token.remove(&token)?;
        if let Some(due) = attempt.due_ms() {
            self.due.remove(&(due, token));
        }
        Some(attempt)
    }

    /// Those to be spoken of by now.
    pub(super) fn due(&self, now_ms: u64) -> Vec<Token> {
        self.due.iter().take_while(|(due, _)| *due <= now_ms).map(|(_, token)| *token).collect()
    }

    pub(super) fn tokens(&self, which: impl Fn(&Attempt) -> bool) -> Vec<Token> {
        self.by_token.iter().filter(|(_, attempt)| which(attempt)).map(|(token, _)| *token).collect()
    }

    pub(super) fn any(&self, which: impl Fn(&Attempt) -> bool) -> bool {
        self.by_token.values().any(which)
    }
}
