//! Whether the check of paths does its work, authority by authority (DEP-5, MON-1, MON-6).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidemill_probe::{FailureKind, Late, Outcome, Question};

/// While something is wrong, it is told so often, milliseconds.
const AGAIN_MS: u64 = 60_000;
/// How often it is looked into, milliseconds.
const LOOK_MS: u64 = 1_000;
/// Lateness is told at once when it goes over a multiple of this, milliseconds: people are called by it.
const STEP_MS: u64 = 300_000;
/// Of a reason, for people.
const REASON_BYTES: usize = 300;
/// The authority of what cannot be asked for at all.
const NOBODY: &str = "nobody";

/// How the check of an authority's paths goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// By how much the path is late that was checked longest ago, milliseconds.
    pub late_ms: u64,
    /// Paths whose last check failed after all its tries, or hung.
    pub failing: u64,
    /// One of the reasons, for people; empty where none fails.
    pub reason: String,
}

impl Health {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.late_ms == 0 && self.failing == 0
    }

    /// For people, one line; empty where no check fails.
    #[must_use]
    pub fn failure(&self) -> String {
        match self.failing {
            0 => String::new(),
            1 => self.reason.clone(),
            more => format!("{more} checks fail, as {}", self.reason),
        }
    }

    fn fails(&mut self, reason: &str) {
        self.failing += 1;
        // The first by name, so that it stays the same one while it lasts.
        if self.reason.is_empty() || *reason < *self.reason {
            reason.clone_into(&mut self.reason);
        }
    }

    /// What of it is told at once when it changes.
    fn class(&self) -> (bool, u64, bool) {
        (self.late_ms > 0, self.late_ms / STEP_MS, self.failing > 0)
    }
}

/// What is known of failing checks, and what was told of each authority.
#[derive(Debug, Default)]
pub(super) struct Watch {
    failing: HashMap<Question, String>,
    told: BTreeMap<String, Told>,
    look_at_ms: u64,
}

#[derive(Debug)]
struct Told {
    health: Health,
    at_ms: u64,
}

impl Watch {
    pub(super) fn answered(&mut self, question: &Question, outcome: &Outcome) {
        let is_known = self.failing.contains_key(question);
        let reason = match outcome {
            Outcome::Present | Outcome::Absent => {
                self.failing.remove(question);
                return;
            }
            // An earlier call to it still hangs, and that is known.
            Outcome::Hung { tries: 0 } if is_known => return,
            Outcome::Hung { tries } => format!("{question}: no answer in time, tried {tries} times"),
            Outcome::Failed(failure) => match failure.kind {
                // It was not asked: what was known of it stays.
                FailureKind::Paused { .. } if is_known => return,
                FailureKind::Paused { .. } | FailureKind::Refused | FailureKind::Unavailable => {
                    format!("{question}: {}", failure.reason)
                }
            },
        };
        let cut = reason.floor_char_boundary(REASON_BYTES);
        self.failing.insert(question.clone(), reason[..cut].to_owned());
    }

    pub(super) fn unwanted(&mut self, question: &Question) {
        self.failing.remove(question);
    }

    /// How many checks fail.
    pub(super) fn failing(&self) -> usize {
        self.failing.len()
    }

    /// Whether it is time for [`Watch::news`].
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.look_at_ms
    }

    /// What is to be told now, by authority: at once where it begins, gets worse or ends, again and again while
    /// it lasts. `barred` are the reasons why some external dependencies cannot be asked for.
    pub(super) fn news<'a>(
        &mut self,
        now_ms: u64,
        late: &[Late],
        barred: impl Iterator<Item = &'a str>,
    ) -> Vec<(String, Health)> {
        self.look_at_ms = now_ms + LOOK_MS;
        let mut now: BTreeMap<String, Health> = BTreeMap::new();
        for late in late {
            now.entry(late.authority.to_string()).or_default().late_ms = late.late_ms;
        }
        for (question, reason) in &self.failing {
            now.entry(question.authority().to_string()).or_default().fails(reason);
        }
        barred.for_each(|reason| now.entry(NOBODY.to_owned()).or_default().fails(reason));
        let known: BTreeSet<String> = self.told.keys().chain(now.keys()).cloned().collect();
        let mut news = Vec::new();
        for authority in known {
            let health = now.remove(&authority).unwrap_or_default();
            let is_old = self.told.get(&authority).is_some_and(|told| {
                told.health.class() == health.class() && now_ms.saturating_sub(told.at_ms) < AGAIN_MS
            });
            if is_old {
                continue;
            }
            if health.is_good() {
                self.told.remove(&authority);
            } else {
                self.told.insert(authority.clone(), Told { health: health.clone(), at_ms: now_ms });
            }
            news.push((authority, health));
        }
        news
    }

    /// Nobody may have heard it: it is told again with the next look.
    pub(super) fn not_heard(&mut self, authority: String, health: &Health) {
        if health.is_good() {
            // Whoever was told the opposite still believes it.
            let before = Health { failing: 1, ..Health::default() };
            self.told.entry(authority).or_insert(Told { health: before, at_ms: 0 });
        } else {
            self.told.remove(&authority);
        }
    }
}
