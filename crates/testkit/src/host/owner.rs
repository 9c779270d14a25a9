//! Owners at work: what each hears, what it wants done then, and how it fails.

#![allow(clippy::result_large_err, reason = "the errors are the dispatcher's, and rare")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tidemill_dispatcher::{Error, Input, Output, Owner, Role};
use tidemill_engine::Effect;

use super::Host;
use crate::happening::{Happening, OwnerStep, Then};
use crate::plan::Mode;
use crate::world::{World, unasked};

impl World {
    pub(crate) fn owner_step(&mut self, host: usize, partition: u32, turn: u64, what: OwnerStep) {
        let paused_until = self.hosts[host].paused_until;
        if self.seat(host, partition, turn).is_none() {
            return;
        }
        if self.now < paused_until {
            return self.at(paused_until, Happening::Owner { host, partition, turn, what });
        }
        let at = partition as usize;
        let input = match what {
            OwnerStep::Tick => {
                let tick = self.hosts[host].config.tick_ms;
                self.after(tick, Happening::Owner { host, partition, turn, what: OwnerStep::Tick });
                self.tick(host, partition, turn)
            }
            OwnerStep::Wake => {
                let Some(seat) = self.seat(host, partition, turn) else { return };
                seat.wake_at = u64::MAX;
                Input::Tick
            }
            OwnerStep::PollJournal => {
                let Some(input) = self.next_of_journal(host, partition, turn) else { return };
                input
            }
            OwnerStep::PollCommands => {
                let Some(input) = self.next_of_commands(host, partition, turn) else { return };
                input
            }
            OwnerStep::Completed(result) => Input::Appended(result),
            OwnerStep::Snapshot(taken) => Input::SnapshotTaken(*taken),
            OwnerStep::LookAtEnds { asked } => {
                let (journal, commands) = (self.journal[at].len() as u64, self.commands[at].len() as u64);
                let hop = self.hop();
                let what = OwnerStep::Ends { asked, journal, commands };
                return self.after(hop, Happening::Owner { host, partition, turn, what });
            }
            OwnerStep::Ends { asked, journal, commands } => Input::Ends { asked, journal, commands },
        };
        self.owner_hears(host, partition, turn, input);
        self.owner_drives(host, partition, turn);
    }

    fn tick(&mut self, host: usize, partition: u32, turn: u64) -> Input {
        let now = self.now;
        let Some(seat) = self.seat(host, partition, turn) else { return Input::Tick };
        let gone = seat
            .leaving_since
            .is_some_and(|since| seat.owner.role() == Role::Following || now.saturating_sub(since) >= 10_000);
        if std::mem::take(&mut seat.effects_lost) {
            return Input::EffectsLost;
        }
        if gone {
            self.leave(host, partition);
        }
        Input::Tick
    }

    pub(super) fn owner_hears(&mut self, host: usize, partition: u32, turn: u64, input: Input) {
        let moment = self.moment(host);
        let Some(seat) = self.seat(host, partition, turn) else { return };
        match caught(partition, || seat.owner.step(input, moment)) {
            Ok(outputs) => self.owner_acts(host, partition, turn, outputs),
            Err(error) => self.owner_fails(host, partition, &error),
        }
    }

    fn owner_drives(&mut self, host: usize, partition: u32, turn: u64) {
        // As the thread around an owner does: until there is nothing more to decide, or an append is under way.
        for _ in 0..100 {
            let moment = self.moment(host);
            let Some(seat) = self.seat(host, partition, turn) else { return };
            let outputs = match caught(partition, || seat.owner.drive(moment)) {
                Ok(outputs) => outputs,
                Err(error) => return self.owner_fails(host, partition, &error),
            };
            if outputs.is_empty() {
                break;
            }
            self.owner_acts(host, partition, turn, outputs);
        }
        let (moment, now) = (self.moment(host), self.now);
        let Some(seat) = self.seat(host, partition, turn) else { return };
        if let Some(at) = seat.owner.next_timer() {
            let wait = at.duration_since(moment.wall).as_millis().max(0) as u64;
            if wait < 1_000 && now + wait + 1 < seat.wake_at && wait > 0 {
                seat.wake_at = now + wait + 1;
                let at = seat.wake_at;
                self.at(at, Happening::Owner { host, partition, turn, what: OwnerStep::Wake });
            }
        }
    }

    pub(super) fn owner_acts(&mut self, host: usize, partition: u32, turn: u64, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Append(record) => self.append(host, partition, turn, record),
                Output::AskEnds => {
                    let asked = self.moment(host);
                    let wait = self.hop() + self.hosts[host].cut_until.saturating_sub(self.now);
                    let what = OwnerStep::LookAtEnds { asked };
                    self.after(wait, Happening::Owner { host, partition, turn, what });
                }
                Output::ReadCommands(from) => {
                    if !self.owner_begins(host, partition, turn, from) {
                        return;
                    }
                }
                Output::Act(effect) => self.effect(host, partition, turn, effect),
                Output::Restart { back_off, reason } => {
                    self.stats.add("owner", if back_off { "restart_backing_off" } else { "restart" });
                    self.tell(|| format!("host {host} p{partition} restarts: {reason}"));
                    return self.owner_restarts(host, partition, turn, back_off);
                }
                Output::Resigned => {
                    self.stats.add("owner", "resigned");
                    self.tell(|| format!("host {host} hands p{partition} over"));
                    self.leave(host, partition);
                    return;
                }
            }
        }
    }

    /// The partition is its own, and it reads commands from there on. Tells whether they are there.
    fn owner_begins(&mut self, host: usize, partition: u32, turn: u64, from: u64) -> bool {
        self.stats.add("owner", "owns");
        self.tell(|| format!("host {host} owns p{partition}, reads commands from {from}"));
        let owns = |host: &Host| {
            let seat = host.seats[partition as usize].as_ref();
            seat.is_some_and(|seat| seat.owner.role() == Role::Owning)
        };
        if self.hosts.iter().filter(|host| owns(host)).count() > 1 {
            self.stats.add("condition", "two_owners");
        }
        if self.is_out_of_range(partition, from) {
            self.owner_fails(host, partition, &Error::CommandsLost { partition, offset: from });
            return false;
        }
        let Some(seat) = self.seat(host, partition, turn) else { return false };
        seat.commands_read = Some(from as usize);
        seat.commands_polled = true;
        let hop = self.read_hop(host);
        self.after(hop, Happening::Owner { host, partition, turn, what: OwnerStep::PollCommands });
        true
    }

    fn owner_restarts(&mut self, host: usize, partition: u32, turn: u64, back_off: bool) {
        let leaving = self.seat(host, partition, turn).is_some_and(|s| s.leaving_since.is_some());
        self.hosts[host].seats[partition as usize] = None;
        if !leaving || self.hosts[host].suggested[partition as usize] {
            let life = self.hosts[host].life;
            let wait = if back_off { 1_000 } else { 1 };
            self.after(wait, Happening::SeatBegins { host, partition, life });
        }
    }

    fn effect(&mut self, host: usize, partition: u32, turn: u64, effect: Effect) {
        let is_cut = self.now < self.hosts[host].cut_until;
        if is_cut || self.now < self.weather.lost_effects_until && self.rng.chance(40) {
            self.stats.add("lost", "effect");
            if let Some(seat) = self.seat(host, partition, turn) {
                seat.effects_lost = true;
            }
            return;
        }
        match effect {
            Effect::Reply { to: _, reply } => {
                self.replies.push(reply.clone());
                if self.now < self.weather.lost_replies_until && self.rng.chance(60) {
                    return self.stats.add("lost", "reply");
                }
                let hop = self.hop();
                self.after(hop, Happening::Reply { reply: Box::new(reply) });
            }
            Effect::Work { worker, message } => {
                self.works.push(message.clone());
                let hop = self.hop();
                self.work(&worker, message, hop);
            }
            Effect::Send { shard, command } => {
                let record = unasked("owner", shard, command);
                let target = shard.partition(self.plan.partitions) as usize;
                let wait = self.hosts[host].floors[target].saturating_sub(self.now);
                let at = self.send(&record, wait, Then::Nobody);
                if at < self.now + 500 {
                    self.hosts[host].floors[target] = at;
                }
            }
            Effect::Underivable { of, reason } => self.is_wrong(format!("{of} cannot be derived: {reason}")),
            Effect::DeadLetter { .. } => self.stats.add("effect", "dead_letter"),
        }
    }

    pub(super) fn owner_fails(&mut self, host: usize, partition: u32, error: &Error) {
        self.tell(|| format!("host {host} p{partition} fails: {error}"));
        let last = self.hosts[host].seats[partition as usize].as_ref().map(|seat| &seat.owner);
        let mut farewell = None;
        match error {
            Error::Clock { .. } => {
                farewell = last.and_then(Owner::resigned_record);
                self.stats.add("owner", "clock");
            }
            Error::TooNew { .. } => {
                farewell = last.and_then(Owner::resigned_record);
                self.replace_host(host);
            }
            Error::CommandsLost { .. } if self.may_lose_commands(host, partition) => {
                farewell = last.and_then(Owner::resigned_record);
                self.stats.add("owner", "commands_lost");
                // One that was only late finds more in the journal than it had taken in: what was read with the
                // claim that deposed it counts as more.
                let seat = self.hosts[host].seats[partition as usize].as_ref();
                let read = seat.map_or(0, |seat| seat.owner.journal_next() as usize);
                let grown = read + usize::from(farewell.is_some());
                self.hosts[host].lost_at[partition as usize] = Some(grown);
            }
            Error::Stopped { .. } if self.plan.mode == Mode::FailingFold => {
                farewell = last.and_then(Owner::stopped_record);
                self.stats.add("owner", "stopped");
            }
            other => self.is_wrong(format!("host {host} p{partition}: {other}")),
        }
        if let Some(record) = farewell {
            let (value, from, held) = (record, (host, self.hosts[host].life), false);
            self.after(
                5,
                Happening::JournalLands { partition, value: value.into(), from, then: Then::Nobody, held },
            );
        }
        // A supervisor starts the process anew; here, the one partition of it.
        self.hosts[host].seats[partition as usize] = None;
        let life = self.hosts[host].life;
        self.after(3_000, Happening::SeatBegins { host, partition, life });
    }

    /// Whether its commands may be gone: for good, or because it is late and others have done them.
    fn may_lose_commands(&self, host: usize, partition: u32) -> bool {
        let at = partition as usize;
        let resume = self.oracle[at].state.resume();
        let is_gone = resume.is_some_and(|resume| resume.offset < self.commands_from[at]);
        let head = self.hosts[host].seats[at].as_ref().and_then(|seat| seat.owner.head());
        self.is_closed(partition) || is_gone || head != self.oracle[at].chain.head()
    }
}

/// A panic of the rules stops the partition, as in the thread around an owner.
fn caught<T>(partition: u32, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let lived = catch_unwind(AssertUnwindSafe(act));
    lived.unwrap_or_else(|panic| Err(Error::Stopped { partition, reason: text_of(&*panic) }))
}

/// What a panic says.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
