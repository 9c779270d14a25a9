//! Which host has a partition, and for how long.

use tidemill_dispatcher::{Input, Owner, Start};

use super::Seat;
use crate::happening::{Happening, OwnerStep};
use crate::world::World;

impl World {
    pub(crate) fn suggest(&mut self, host: usize, partition: u32, suggested: bool) {
        let at = partition as usize;
        self.hosts[host].suggested[at] = suggested;
        self.tell(|| format!("p{partition} suggested to host {host}: {suggested}"));
        if !self.hosts[host].up {
            return;
        }
        let now = self.now;
        match &mut self.hosts[host].seats[at] {
            Some(seat) if !suggested => {
                seat.leaving_since.get_or_insert(now);
                let turn = seat.turn;
                self.owner_hears(host, partition, turn, Input::Resign);
            }
            None if suggested => self.begin_seat(host, partition),
            Some(_) | None => {}
        }
    }

    pub(crate) fn seat_begins(&mut self, host: usize, partition: u32, life: u64) {
        let at = partition as usize;
        let known = &self.hosts[host];
        if !(known.up && known.life == life && known.suggested[at] && known.seats[at].is_none()) {
            return;
        }
        // A person has to fix it, and the journal says so then.
        if known.lost_at[at].is_some_and(|grown| self.journal[at].len() <= grown) {
            return self.after(3_000, Happening::SeatBegins { host, partition, life });
        }
        self.begin_seat(host, partition);
    }

    pub(super) fn begin_seat(&mut self, host: usize, partition: u32) {
        let moment = self.moment(host);
        let known = &mut self.hosts[host];
        known.lost_at[partition as usize] = None;
        known.turns += 1;
        let turn = known.turns;
        let start = Start {
            partition,
            count: self.plan.partitions,
            incarnation: format!("h{host}-{}", known.life),
            config: known.config.clone(),
        };
        let (fold, begun_with) = self.begun(host, partition);
        let journal_read = fold.next as usize;
        let fault_injection = self.fault_injection.clone();
        let mut owner = Owner::resumed_fault_injected(start, fold, begun_with, fault_injection);
        let known = &mut self.hosts[host];
        let outputs = owner.step(Input::Suggested(true), moment).unwrap_or_default();
        known.seats[partition as usize] = Some(Seat {
            owner,
            turn,
            journal_read,
            commands_read: None,
            journal_polled: true,
            commands_polled: false,
            effects_lost: false,
            leaving_since: None,
            wake_at: u64::MAX,
        });
        self.owner_acts(host, partition, turn, outputs);
        let hop = self.read_hop(host);
        self.after(hop, Happening::Owner { host, partition, turn, what: OwnerStep::PollJournal });
        self.after(1, Happening::Owner { host, partition, turn, what: OwnerStep::Tick });
    }

    pub(super) fn seat(&mut self, host: usize, partition: u32, turn: u64) -> Option<&mut Seat> {
        self.hosts[host].seats[partition as usize].as_mut().filter(|seat| seat.turn == turn)
    }

    pub(super) fn leave(&mut self, host: usize, partition: u32) {
        self.hosts[host].seats[partition as usize] = None;
        if self.hosts[host].suggested[partition as usize] {
            let life = self.hosts[host].life;
            self.after(100, Happening::SeatBegins { host, partition, life });
        }
    }
}
