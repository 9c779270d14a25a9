//! How long a partition was without an owner: from the moment its owner was struck to the next claim that counts.

use serde::Serialize;

use crate::fault::Kind;
use crate::journal::{Entry, What};
use crate::nemesis::Struck;

/// What a takeover has, by the requirement.
pub(crate) const BOUND_MS: i64 = 10_000;
/// After the heal of a fault that struck the broker or another dispatcher, it is felt this long.
const AFTERMATH_MS: i64 = 12_000;

/// One takeover.
#[derive(Clone, Debug, Serialize)]
pub struct Takeover {
    /// The number of the fault in the schedule.
    pub step: usize,
    /// Which partition.
    pub partition: u32,
    /// From the fault to the next claim that counts.
    pub took_ms: i64,
    /// Whether something else was wrong meanwhile that claims depend on: the broker, the way to it, another
    /// dispatcher.
    pub disturbed: bool,
}

/// All takeovers after dispatchers were killed. `address_of` gives where a dispatcher answers.
#[must_use]
pub(crate) fn takeovers(
    entries: &[Entry],
    struck: &[Struck],
    address_of: &dyn Fn(&str) -> Option<String>,
) -> Vec<Takeover> {
    let mut found = Vec::new();
    let partitions = entries.iter().map(|entry| entry.partition + 1).max().unwrap_or(0);
    for kill in struck.iter().filter(|it| it.step.kind == Kind::KillDispatcher) {
        let Some(address) = address_of(&kill.step.target) else { continue };
        for partition in 0..partitions {
            let mut mine = entries.iter().filter(|entry| entry.partition == partition);
            let mut owner = None;
            let next = mine.find(|entry| match &entry.what {
                What::Claim(_) if entry.at_ms > kill.at_ms => true,
                What::Claim(claim) => {
                    owner = Some(claim.address.clone());
                    false
                }
                What::Left => {
                    owner = None;
                    false
                }
                What::Envelope(_) | What::Genesis => false,
            });
            if owner.as_deref() != Some(address.as_str()) {
                continue;
            }
            let until = next.map_or(i64::MAX, |entry| entry.at_ms);
            let disturbed = struck.iter().any(|other| disturbs(other, kill, until));
            let took_ms = until.saturating_sub(kill.at_ms);
            found.push(Takeover { step: kill.step.number, partition, took_ms, disturbed });
        }
    }
    found
}

fn disturbs(other: &Struck, kill: &Struck, until_ms: i64) -> bool {
    let is_near = other.at_ms < until_ms && other.healed_ms.saturating_add(AFTERMATH_MS) > kill.at_ms;
    let strikes_claims = other.step.kind.strikes_broker() || other.step.target.starts_with("dispatcher");
    other.step.number != kill.step.number && is_near && strikes_claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Step;
    use tidemill_log::Claim;

    fn claim(partition: u32, at_ms: i64, address: &str) -> Entry {
        let claim =
            Claim { epoch: 1, incarnation: "i".to_owned(), address: address.to_owned(), log_id: None };
        Entry { partition, offset: 0, at_ms, what: What::Claim(claim) }
    }

    fn struck(number: usize, kind: Kind, target: &str, at_ms: i64) -> Struck {
        let step = Step { number, at_ms: 0, for_ms: 1_000, kind, target: target.to_owned(), size: 0 };
        Struck { step, at_ms, healed_ms: at_ms + 1_000, failed: None }
    }

    #[test]
    fn takeover_is_from_the_kill_to_the_next_claim_of_what_the_dead_one_owned() {
        let entries = [claim(0, 10, "a"), claim(0, 5_000, "b"), claim(1, 10, "b"), claim(1, 9_000, "a")];
        let kill = struck(1, Kind::KillDispatcher, "dispatcher-1", 1_000);
        let found = takeovers(&entries, &[kill], &|_| Some("a".to_owned()));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].partition, found[0].took_ms, found[0].disturbed), (0, 4_000, false));
    }

    #[test]
    fn broker_fault_nearby_disturbs_and_one_long_before_does_not() {
        let entries = [claim(0, 10, "a"), claim(0, 65_000, "b")];
        let kill = struck(2, Kind::KillDispatcher, "dispatcher-1", 60_000);
        for (at_ms, disturbed) in [(50_000, true), (20_000, false)] {
            let broker = struck(1, Kind::BrokerKill, "kafka", at_ms);
            let found = takeovers(&entries, &[broker, kill.clone()], &|_| Some("a".to_owned()));
            assert_eq!(found[0].disturbed, disturbed, "{at_ms}");
        }
    }

    #[test]
    fn partition_that_nobody_claims_again_took_for_ever() {
        let kill = struck(1, Kind::KillDispatcher, "dispatcher-1", 1_000);
        let found = takeovers(&[claim(0, 10, "a")], &[kill], &|_| Some("a".to_owned()));
        assert!(found[0].took_ms > BOUND_MS);
    }
}
