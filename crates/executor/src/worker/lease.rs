//! Until when attempts may live (rule 9 of the log protocol).
//!
//! ```text
//! sent, later acknowledged                        owner's lease ends, plus margin
//!   |------------------- lease_ms ------------------|--------------|
//!                                    TERM     KILL  |              another attempt may start
//! ```

use tidemill_model::{GroupSettings, OnSilence};

use crate::shim::Lease;

#[derive(Debug, Default)]
pub(super) struct LeaseClock {
    /// The sending of the last sign of life whose append was acknowledged.
    base_ms: Option<u64>,
    /// What the shims were told last.
    told: Option<Lease>,
    /// Signs of life sent before this moment count no more: the lease they could lengthen has been over.
    since_ms: u64,
}

impl LeaseClock {
    /// A sign of life is in the log.
    pub(super) fn acknowledge(&mut self, sent_at_ms: u64) {
        if sent_at_ms >= self.since_ms {
            self.base_ms = self.base_ms.max(Some(sent_at_ms));
        }
    }

    /// Whether a life that no owner knows for longer than since `told_at_ms` may be over: for a lease no sign of life was
    /// acknowledged, or none ever was. If so, none that was sent until now counts any more.
    pub(super) fn lapse(&mut self, settings: &GroupSettings, told_at_ms: u64, now_ms: u64) -> bool {
        let base_ms = self.base_ms.unwrap_or(told_at_ms);
        let is_over = Self::from(Some(base_ms), settings).is_some_and(|lease| lease.kill_at_ms <= now_ms);
        if is_over {
            self.base_ms = None;
            self.since_ms = now_ms;
        }
        is_over
    }

    /// The lease as it stands. `None`: attempts may live as long as they like.
    pub(super) fn current(&self, settings: &GroupSettings) -> Option<Lease> {
        Self::from(self.base_ms, settings)
    }

    /// The lease that counts from this moment.
    fn from(base_ms: Option<u64>, settings: &GroupSettings) -> Option<Lease> {
        match settings.on_silence {
            OnSilence::Hold => None,
            OnSilence::Kill => {
                let lease_ms = settings.lease_ms;
                let spare_ms = (lease_ms / 20).min(1_000);
                let grace_ms = settings.kill_grace_ms.min(lease_ms / 4);
                // Before anything was acknowledged there is no lease, so it is over.
                let kill_at_ms =
                    base_ms.map_or(0, |base| base.saturating_add(lease_ms).saturating_sub(spare_ms));
                Some(Lease { term_at_ms: kill_at_ms.saturating_sub(grace_ms), kill_at_ms })
            }
        }
    }

    /// The lease, if it is enough longer than what was told before to be worth telling.
    pub(super) fn renewal(&mut self, settings: &GroupSettings) -> Option<Lease> {
        let lease = self.current(settings).unwrap_or(Lease::FOREVER);
        let worth_ms = settings.lease_ms / 20;
        let is_new = match self.told {
            Some(told) if lease == Lease::FOREVER || told == Lease::FOREVER => told != lease,
            told => {
                lease.kill_at_ms >= told.map_or(0, |told| told.kill_at_ms).saturating_add(worth_ms.max(1))
            }
        };
        if !is_new {
            return None;
        }
        self.told = Some(lease);
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EXE-8: when the group begins to hold what runs on a silent worker, and when it does so no more, what runs hears of it.
    #[test]
    fn lease_follows_the_settings_both_ways() {
        let of = |on_silence| GroupSettings { on_silence, lease_ms: 60_000, ..GroupSettings::default() };
        let (kill, hold) = (of(OnSilence::Kill), of(OnSilence::Hold));
        let mut clock = LeaseClock::default();
        clock.acknowledge(1_000);
        let first = clock.renewal(&kill).unwrap();
        assert!(first.kill_at_ms < 70_000 && clock.renewal(&kill).is_none());
        assert_eq!(clock.renewal(&hold), Some(Lease::FOREVER));
        assert_eq!(clock.renewal(&hold), None);
        clock.acknowledge(2_000);
        let second = clock.renewal(&kill).unwrap();
        assert_eq!(second.kill_at_ms, first.kill_at_ms + 1_000);
        assert_eq!(clock.renewal(&kill), None);
    }
}
