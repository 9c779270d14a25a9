//! Appends to journals, and what befalls them on the way.

use tidemill_dispatcher::Role;
use tidemill_log::{AppendError, Payload};

use crate::happening::{Happening, OwnerStep, Then};
use crate::world::World;

/// When a record lands and who hears of it then; when its owner is told what, whatever became of it.
type Landing = (Option<(u64, Then)>, Option<(u64, OwnerStep)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Landed,
    Lost,
    Late,
    LateClaim,
    SlowClaim,
    NoOffset,
    Refused,
    Full,
    Delayed,
}

impl World {
    pub(super) fn append(&mut self, host: usize, partition: u32, turn: u64, record: Payload) {
        let is_claim = self.hosts[host].seats[partition as usize]
            .as_ref()
            .is_some_and(|seat| seat.owner.role() == Role::Claiming);
        let fates = &mut self.hosts[host].fates;
        let next =
            fates.iter().position(|fate| is_claim || !matches!(fate, Fate::LateClaim | Fate::SlowClaim));
        let mut fate = next.map(|at| fates.remove(at));
        if self.hosts[host].cut_until > self.now {
            fate = Some(if self.rng.chance(50) { Fate::Late } else { Fate::Lost });
        }
        let (lands, told) = self.befalls(fate, host, Then::Owner(host, partition, turn));
        self.tell(|| format!("host {host} appends to p{partition}, turn {turn}, fate {fate:?}"));
        let from = (host, self.hosts[host].life);
        if let Some((ms, then)) = lands {
            let held = false;
            self.after(ms, Happening::JournalLands { partition, value: record, from, then, held });
        }
        if let Some((ms, what)) = told {
            self.after(ms, Happening::Owner { host, partition, turn, what });
        }
    }

    /// When the record lands, and who hears of it then; and when its sender is told what without.
    fn befalls(&mut self, fate: Option<Fate>, host: usize, then: Then) -> Landing {
        let hop = self.hop();
        let unknown = |why: &str| OwnerStep::Completed(Err(AppendError::Unknown(why.to_owned())));
        match fate {
            None => (Some((hop, then)), None),
            Some(Fate::SlowClaim) => (Some((self.rng.range(2_000, 4_000), then)), None),
            Some(Fate::Delayed) => (Some((self.rng.range(500, 9_000), then)), None),
            Some(Fate::Landed) => (Some((hop, Then::Nobody)), Some((2_000, unknown("no answer")))),
            Some(Fate::NoOffset) => {
                (Some((hop, Then::Nobody)), Some((hop + 3, unknown("success without an offset"))))
            }
            Some(Fate::Lost) => (None, Some((2_000, unknown("no answer, lost")))),
            Some(Fate::Late | Fate::LateClaim) => {
                let wait = self.hosts[host].cut_until.saturating_sub(self.now);
                let late = wait + self.rng.range(100, 15_000);
                let soon = self.rng.range(1, 2_000);
                (Some((late, Then::Nobody)), Some((soon, unknown("no answer, late"))))
            }
            Some(Fate::Refused) => {
                let refused = AppendError::Refused("not today".to_owned());
                (None, Some((hop, OwnerStep::Completed(Err(refused)))))
            }
            Some(Fate::Full) => (None, Some((1, OwnerStep::Completed(Err(AppendError::Full))))),
        }
    }

    /// The record arrives at the log, unless its sender has no longer the means to send it.
    pub(crate) fn journal_lands(
        &mut self,
        partition: u32,
        value: Payload,
        from: (usize, u64),
        then: Then,
        held: bool,
    ) {
        let (host, life) = from;
        let now = self.now;
        if !held {
            let paused_until = self.hosts[host].paused_until;
            if self.hosts[host].life == life && now < paused_until {
                let at = paused_until + self.rng.range(0, 50);
                return self.at(at, Happening::JournalLands { partition, value, from, then, held: true });
            }
            if self.hosts[host].life != life {
                match self.hosts[host].dead.iter().find(|(dead, _)| *dead == life) {
                    Some((_, None)) => return,
                    Some((_, Some(0))) | None => {}
                    Some((_, Some(late))) => {
                        let at = now + late;
                        return self
                            .at(at, Happening::JournalLands { partition, value, from, then, held: true });
                    }
                }
            }
        }
        let by_the_living = self.hosts[host].life == life;
        let offset = self.land(partition, value, by_the_living);
        self.tell(|| format!("p{partition}@{offset} lands, of host {host} life {life}"));
        self.poll_journal(partition);
        if let Then::Owner(host, partition, turn) = then {
            let hop = self.hop();
            let what = OwnerStep::Completed(Ok(offset));
            self.after(hop, Happening::Owner { host, partition, turn, what });
        }
    }
}
