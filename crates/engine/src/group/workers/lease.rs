//! How long after its last word something may still run on a worker.
//!
//! A worker goes by the bounds that it was told when it registered, whatever became of the group's since. The
//! journal says which those were (`WorkerRegistered`), and only they can tell when its silence is long enough.

use tidemill_model::{GroupSettings, OnSilence};

/// What the silence of a worker leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lease {
    /// It has killed what it ran when it got no acknowledgement for this long, margin included.
    EndsAfter {
        /// Milliseconds.
        ms: u64,
    },
    /// What it runs runs on.
    Holds,
}

impl Lease {
    /// Of a worker that goes by these bounds.
    pub(crate) fn of(settings: &GroupSettings) -> Self {
        match settings.on_silence {
            OnSilence::Kill => {
                Lease::EndsAfter { ms: settings.lease_ms.saturating_add(settings.lease_margin_ms) }
            }
            OnSilence::Hold => Lease::Holds,
        }
    }

    /// Of a worker that goes by one of the two, and nobody knows by which.
    pub(crate) fn or_longer(self, other: Self) -> Self {
        match (self, other) {
            (Lease::EndsAfter { ms }, Lease::EndsAfter { ms: other }) => {
                Lease::EndsAfter { ms: ms.max(other) }
            }
            (Lease::Holds, _) | (_, Lease::Holds) => Lease::Holds,
        }
    }

    /// The silence after which nothing runs there any more; `None`: no silence is long enough.
    pub(crate) fn ends_after_ms(self) -> Option<u64> {
        match self {
            Lease::EndsAfter { ms } => Some(ms),
            Lease::Holds => None,
        }
    }
}

/// What one worker was told, in its present life and before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    /// The bounds that the answer to its last registration gives.
    pub(crate) settings: GroupSettings,
    /// The longest lease that this life was told. An answer may be lost or late, so any of them may count.
    life: Lease,
    /// The same of earlier lives, while something that they held may not have ended.
    earlier: Option<Lease>,
}

impl Told {
    /// A first life that holds nothing.
    pub(crate) fn new(settings: GroupSettings) -> Self {
        Self { life: Lease::of(&settings), settings, earlier: None }
    }

    /// The same life asked again.
    pub(crate) fn again(self, settings: GroupSettings) -> Self {
        Self { life: self.life.or_longer(Lease::of(&settings)), settings, earlier: self.earlier }
    }

    /// Another life began while attempts of this one were not known to have ended.
    pub(crate) fn reborn(self, settings: GroupSettings) -> Self {
        let earlier = Some(self.lease());
        Self { life: Lease::of(&settings), settings, earlier }
    }

    /// All that earlier lives held has ended.
    pub(crate) fn forget_earlier(&mut self) {
        self.earlier = None;
    }

    /// What silence means for everything that the worker holds.
    pub(crate) fn lease(&self) -> Lease {
        self.earlier.map_or(self.life, |earlier| self.life.or_longer(earlier))
    }
}
