//! Dispatcher processes: the real owners, and the log as each of them sees it.

#![allow(clippy::result_large_err, reason = "the errors are the dispatcher's, and rare")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use jiff::SignedDuration;
use tidemill_dispatcher::{Config, Error, Input, Moment, Output, Owner, Role, Start};
use tidemill_engine::Effect;
use tidemill_log::AppendError;
use tidemill_model::{Actor, CommandRecord};

use crate::plan::Mode;
use crate::rng::Rng;
use crate::world::{Happening, OwnerStep, Then, World};

/// One turn of ownership of one partition.
pub(crate) struct Seat {
    pub(crate) owner: Owner,
    pub(crate) turn: u64,
    journal_read: usize,
    pub(crate) commands_read: Option<usize>,
    journal_polled: bool,
    commands_polled: bool,
    effects_lost: bool,
    leaving_since: Option<u64>,
    wake_at: u64,
}

/// What befalls the next append.
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

pub(crate) struct Host {
    pub(crate) life: u64,
    pub(crate) up: bool,
    pub(crate) wall_offset: i64,
    boot_offset: u64,
    pub(crate) paused_until: u64,
    pub(crate) cut_until: u64,
    pub(crate) slow_until: u64,
    pub(crate) seats: Vec<Option<Seat>>,
    pub(crate) suggested: Vec<bool>,
    pub(crate) fates: Vec<Fate>,
    /// What ended lives left under way: up to which life, and what becomes of it.
    pub(crate) dead: Vec<(u64, Option<u64>)>,
    config: Config,
    /// How long a partition's journal was when its commands turned out to be lost.
    lost_at: Vec<Option<usize>>,
    turns: u64,
    /// No effect of its on a commands partition lands before this, so that they keep their order.
    floors: Vec<u64>,
}

impl Host {
    pub(crate) fn new(count: u32, rng: &mut Rng) -> Self {
        let config = Config {
            claim_after_ms: rng.range(500, 2_500),
            tick_ms: rng.range(250, 1_000),
            read_batch: rng.range(2, 500) as usize,
            checkpoint_after_commands: rng.range(20, 500),
            checkpoint_after_ms: rng.range(1_000, 10_000),
            ..Config::default()
        };
        Self {
            life: 1,
            up: true,
            wall_offset: rng.range(0, 400) as i64 - 200,
            boot_offset: rng.range(1_000, 100_000_000),
            paused_until: 0,
            cut_until: 0,
            slow_until: 0,
            seats: (0..count).map(|_| None).collect(),
            suggested: vec![false; count as usize],
            fates: Vec::new(),
            dead: Vec::new(),
            config,
            lost_at: vec![None; count as usize],
            turns: 0,
            floors: vec![0; count as usize],
        }
    }

    /// From its next turn on it claims what stopped, too.
    pub(crate) fn claims_stopped(&mut self) {
        self.config.claim_stopped = true;
    }
}

/// A panic of the rules stops the partition, as in the thread around an owner.
fn caught<T>(partition: u32, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let stopped = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::Stopped { partition, reason: text.unwrap_or_default() })
    };
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(stopped)
}

impl World {
    pub(crate) fn moment(&self, host: usize) -> Moment {
        let host = &self.hosts[host];
        let wall = self.wall() + SignedDuration::from_millis(host.wall_offset);
        Moment { wall, boot_ms: self.now + host.boot_offset }
    }

    pub(crate) fn host_begins(&mut self, host: usize) {
        if self.hosts[host].up {
            return;
        }
        self.hosts[host].up = true;
        self.tell(|| format!("host {host} begins"));
        for partition in 0..self.plan.partitions {
            if self.hosts[host].suggested[partition as usize] {
                self.begin_seat(host, partition);
            }
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

    /// Whether its commands may be gone: for good, or because it is late and others have done them.
    fn may_lose_commands(&self, host: usize, partition: u32) -> bool {
        let at = partition as usize;
        let resume = self.oracle[at].state.resume();
        let is_gone = resume.is_some_and(|resume| resume.offset < self.commands_from[at]);
        let head = self.hosts[host].seats[at].as_ref().and_then(|seat| seat.owner.head());
        self.is_closed(partition) || is_gone || head != self.oracle[at].chain.head()
    }

    fn begin_seat(&mut self, host: usize, partition: u32) {
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
        let mut owner = Owner::fault_injected(start, self.fault_injection.clone());
        let outputs = owner.step(Input::Suggested(true), moment).unwrap_or_default();
        known.seats[partition as usize] = Some(Seat {
            owner,
            turn,
            journal_read: 0,
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

    fn read_hop(&mut self, host: usize) -> u64 {
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

    /// The record arrives at the log, unless its sender has no longer the means to send it.
    pub(crate) fn journal_lands(
        &mut self,
        partition: u32,
        value: Vec<u8>,
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

    fn append(&mut self, host: usize, partition: u32, turn: u64, record: Vec<u8>) {
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
        let hop = self.hop();
        let then = Then::Owner(host, partition, turn);
        let from = (host, self.hosts[host].life);
        let unknown = |why: &str| OwnerStep::Completed(Err(AppendError::Unknown(why.to_owned())));
        let (lands, told) = match fate {
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
        };
        self.tell(|| format!("host {host} appends to p{partition}, turn {turn}, fate {fate:?}"));
        if let Some((ms, then)) = lands {
            let held = false;
            self.after(ms, Happening::JournalLands { partition, value: record, from, then, held });
        }
        if let Some((ms, what)) = told {
            self.after(ms, Happening::Owner { host, partition, turn, what });
        }
    }

    fn seat(&mut self, host: usize, partition: u32, turn: u64) -> Option<&mut Seat> {
        self.hosts[host].seats[partition as usize].as_mut().filter(|seat| seat.turn == turn)
    }

    pub(crate) fn owner_step(&mut self, host: usize, partition: u32, turn: u64, what: OwnerStep) {
        let paused_until = self.hosts[host].paused_until;
        if self.seat(host, partition, turn).is_none() {
            return;
        }
        if self.now < paused_until {
            return self.at(paused_until, Happening::Owner { host, partition, turn, what });
        }
        let batch = self.hosts[host].config.read_batch;
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
                let Some(seat) = self.hosts[host].seats[at].as_mut() else { return };
                let end = self.journal[at].len().min(seat.journal_read + batch);
                let records = self.journal[at][seat.journal_read..end].to_vec();
                seat.journal_read = end;
                seat.journal_polled = end < self.journal[at].len();
                if seat.journal_polled {
                    let hop = self.read_hop(host);
                    self.after(hop, Happening::Owner { host, partition, turn, what: OwnerStep::PollJournal });
                }
                Input::Journal(records)
            }
            OwnerStep::PollCommands => {
                let Some(seat) = self.hosts[host].seats[at].as_mut() else { return };
                let from = seat.commands_read.unwrap_or(0);
                if self.is_out_of_range(partition, from as u64) {
                    let lost = Error::CommandsLost { partition, offset: from as u64 };
                    return self.owner_fails(host, partition, &lost);
                }
                let Some(seat) = self.hosts[host].seats[at].as_mut() else { return };
                let from = from.min(self.commands[at].len());
                let end = self.commands[at].len().min(from + batch);
                let records = self.commands[at][from..end].to_vec();
                seat.commands_read = Some(end);
                seat.commands_polled = end < self.commands[at].len();
                if seat.commands_polled {
                    let hop = self.read_hop(host);
                    self.after(
                        hop,
                        Happening::Owner { host, partition, turn, what: OwnerStep::PollCommands },
                    );
                }
                Input::Commands(records)
            }
            OwnerStep::Completed(result) => Input::Appended(result),
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

    fn leave(&mut self, host: usize, partition: u32) {
        self.hosts[host].seats[partition as usize] = None;
        if self.hosts[host].suggested[partition as usize] {
            let life = self.hosts[host].life;
            self.after(100, Happening::SeatBegins { host, partition, life });
        }
    }

    fn owner_hears(&mut self, host: usize, partition: u32, turn: u64, input: Input) {
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

    fn owner_fails(&mut self, host: usize, partition: u32, error: &Error) {
        self.tell(|| format!("host {host} p{partition} fails: {error}"));
        let last = self.hosts[host].seats[partition as usize].as_ref().map(|seat| &seat.owner);
        let mut farewell = None;
        match error {
            Error::Clock { .. } => {
                farewell = last.and_then(Owner::resigned_record);
                self.stats.add("owner", "clock");
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
            self.after(5, Happening::JournalLands { partition, value, from, then: Then::Nobody, held });
        }
        // A supervisor starts the process anew; here, the one partition of it.
        self.hosts[host].seats[partition as usize] = None;
        let life = self.hosts[host].life;
        self.after(3_000, Happening::SeatBegins { host, partition, life });
    }

    fn owner_acts(&mut self, host: usize, partition: u32, turn: u64, outputs: Vec<Output>) {
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
                        return self.owner_fails(
                            host,
                            partition,
                            &Error::CommandsLost { partition, offset: from },
                        );
                    }
                    let Some(seat) = self.seat(host, partition, turn) else { return };
                    seat.commands_read = Some(from as usize);
                    seat.commands_polled = true;
                    let hop = self.read_hop(host);
                    self.after(
                        hop,
                        Happening::Owner { host, partition, turn, what: OwnerStep::PollCommands },
                    );
                }
                Output::Act(effect) => self.effect(host, partition, turn, effect),
                Output::Restart { back_off, reason } => {
                    self.stats.add("owner", if back_off { "restart_backing_off" } else { "restart" });
                    self.tell(|| format!("host {host} p{partition} restarts: {reason}"));
                    let leaving = self.seat(host, partition, turn).is_some_and(|s| s.leaving_since.is_some());
                    self.hosts[host].seats[partition as usize] = None;
                    if !leaving || self.hosts[host].suggested[partition as usize] {
                        let life = self.hosts[host].life;
                        let wait = if back_off { 1_000 } else { 1 };
                        self.after(wait, Happening::SeatBegins { host, partition, life });
                    }
                    return;
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
                let actor = Actor { app: "owner".into(), user: None };
                let record = CommandRecord { shard, request: None, reply_to: None, actor, command };
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

    /// The process is gone; what it had under way lands, lands late or is lost.
    pub(crate) fn crash_host(&mut self, host: usize, late: Option<u64>) {
        let known = &mut self.hosts[host];
        if !known.up {
            return;
        }
        known.dead.push((known.life, late));
        known.life += 1;
        known.up = false;
        known.paused_until = 0;
        known.fates.clear();
        known.seats.iter_mut().for_each(|seat| *seat = None);
    }
}
