//! How long after its last word something may still run on a worker.
//!
//! A worker goes by the bounds that it was told when it registered, whatever became of the group's since. The
//! journal says which those were (`WorkerRegistered`), and only they can tell when its silence is long enough.

use tidemill_model::{GroupSettings, OnSilence};

/// What the silence of a worker leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    /// When it got no acknowledgement for so many milliseconds, margin included, it has killed what it ran; `None`: what
    /// it runs runs on, however long it is silent.
    pub(crate) ends_after_ms: Option<u64>,
}

impl Lease {
    /// Of a worker that goes by these bounds.
    pub(crate) fn of(settings: &GroupSettings) -> Self {
        let ends_after_ms = match settings.on_silence {
            OnSilence::Kill => Some(settings.lease_ms.saturating_add(settings.lease_margin_ms)),
            OnSilence::Hold => None,
        };
        Self { ends_after_ms }
    }

    /// Of a worker that goes by one of the two, and nobody knows by which.
    fn or_longer(self, other: Self) -> Self {
        let both = self.ends_after_ms.zip(other.ends_after_ms);
        Self { ends_after_ms: both.map(|(ms, other)| ms.max(other)) }
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
