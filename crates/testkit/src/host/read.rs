//! What owners read of the log, one batch after the other.

use tidemill_dispatcher::{Error, Input};

use crate::happening::{Happening, OwnerStep};
use crate::world::World;

impl World {
    pub(super) fn read_hop(&mut self, host: usize) -> u64 {
        let hop = self.hop();
        let known = &self.hosts[host];
        let cut = known.cut_until.saturating_sub(self.now);
        let slow = if self.now < known.slow_until { self.rng.range(200, 4_000) } else { 0 };
        hop + slow + cut
    }

    pub(crate) fn poll_journal(&mut self, partition: u32) {
        for host in 0..self.hosts.len() {
            if let Some(seat) = &mut self.hosts[host].seats[partition as usize]
                && !std::mem::replace(&mut seat.journal_polled, true)
            {
                let turn = seat.turn;
                let hop = self.read_hop(host);
                self.after(hop, Happening::Owner { host, partition, turn, what: OwnerStep::PollJournal });
            }
        }
    }

    pub(crate) fn poll_commands(&mut self, partition: u32) {
        for host in 0..self.hosts.len() {
            if let Some(seat) = &mut self.hosts[host].seats[partition as usize]
                && seat.commands_read.is_some()
                && !std::mem::replace(&mut seat.commands_polled, true)
            {
                let turn = seat.turn;
                let hop = self.read_hop(host);
                self.after(hop, Happening::Owner { host, partition, turn, what: OwnerStep::PollCommands });
            }
        }
    }

    /// The next records of the journal.
    pub(super) fn next_of_journal(&mut self, host: usize, partition: u32, turn: u64) -> Option<Input> {
        let at = partition as usize;
        let batch = self.hosts[host].config.read_batch;
        let seat = self.hosts[host].seats[at].as_mut()?;
        let end = self.journal[at].len().min(seat.journal_read + batch);
        let records = self.journal[at][seat.journal_read..end].to_vec();
        seat.journal_read = end;
        seat.journal_polled = end < self.journal[at].len();
        if seat.journal_polled {
            let hop = self.read_hop(host);
            self.after(hop, Happening::Owner { host, partition, turn, what: OwnerStep::PollJournal });
        }
        Some(Input::Journal(records))
    }

    /// The next commands; none where those that the owner wants are gone, which ends it.
    pub(super) fn next_of_commands(&mut self, host: usize, partition: u32, turn: u64) -> Option<Input> {
        let at = partition as usize;
        let batch = self.hosts[host].config.read_batch;
        let from = self.hosts[host].seats[at].as_ref()?.commands_read.unwrap_or(0);
        if self.is_out_of_range(partition, from as u64) {
            let lost = Error::CommandsLost { partition, offset: from as u64 };
            self.owner_fails(host, partition, &lost);
            return None;
        }
        let seat = self.hosts[host].seats[at].as_mut()?;
        let from = from.min(self.commands[at].len());
        let end = self.commands[at].len().min(from + batch);
        let records = self.commands[at][from..end].to_vec();
        seat.commands_read = Some(end);
        seat.commands_polled = end < self.commands[at].len();
        if seat.commands_polled {
            let hop = self.read_hop(host);
            self.after(hop, Happening::Owner { host, partition, turn, what: OwnerStep::PollCommands });
        }
        Some(Input::Commands(records))
    }
}
