//! What the owner decides while it owns: one envelope of everything that is there, timers only up to a moment
//! that all commands have caught up with.

use tidemill_engine::Draft;
use tidemill_log::{Codec, Hash, Kind, Record};
use tidemill_model::{Command, CommandRecord, Level, ReadError, ShardId, Timestamp};

use super::seals::Seals;
use super::{Ends, Output, Owner, RESEND_AFTER_MS, SAY_AGAIN_AFTER_MS};
use crate::silence::{Sign, Silence, Speaker, speaker};
use crate::{Error, Moment};

/// A shorter body is written as it is: there is little to gain.
const PACKED_FROM_BYTES: usize = 256;

/// One record of the commands.
struct Read<'a> {
    partition: u32,
    record: &'a Record,
    hash: String,
    moment: Moment,
}

/// Decides a command, unless it is a report that somebody else has written.
fn decide(
    draft: &mut Draft<'_>,
    (seals, silence): (&mut Seals, &mut Silence),
    command: CommandRecord,
    read: Read<'_>,
) {
    let Read { partition, record, hash, moment } = read;
    let is_sealed = match seals.check(draft, (&command, record), (silence, moment.boot_ms)) {
        Ok(is_sealed) => is_sealed,
        Err(why) => {
            seals.refuse(partition, record.offset, why, moment.boot_ms);
            return draft.pass_over(record.offset, hash);
        }
    };
    let (shard, speaker) = (command.shard, speaker(command.shard, &command.command));
    let sign = Sign::of(shard, &command.command).filter(|_| is_sealed);
    draft.command(record.offset, hash, command);
    // Known only now, if it is a registration.
    let state = draft.state();
    let is_known = match &speaker {
        Some(Speaker::Worker { life: (shard, worker, life), .. }) => {
            state.group(*shard).is_some_and(|group| group.is_live(worker, life))
        }
        Some(Speaker::Process(process)) => {
            state.catalogue().is_some_and(|catalogue| catalogue.has_process(process))
        }
        None => false,
    };
    match speaker {
        Some(speaker) if is_known => {
            silence.hear(speaker, moment.boot_ms);
            if let Some(sign) = sign {
                silence.note_sealed(&sign, moment.boot_ms);
            }
        }
        Some(Speaker::Worker { life, heartbeat: Some(_), .. }) => {
            if let Some(group) = state.group(life.0) {
                silence.hear_replaced(group, &life, sign.as_ref(), moment.boot_ms);
            }
        }
        _ => {}
    }
}

impl Owner {
    /// Everything outstanding, as a new owner says it.
    pub(super) fn say_again(&mut self) -> Vec<Output> {
        let Some(state) = self.state() else { return Vec::new() };
        let mut acts = state.outstanding();
        acts.extend(self.outbox_sender.collect(&self.state));
        acts.into_iter().map(Output::Act).collect()
    }

    pub(super) fn own(&mut self, moment: Moment) -> Result<Vec<Output>, Error> {
        self.check_clock(moment)?;
        self.check_level()?;
        if self.under_way.is_some() {
            return Ok(Vec::new());
        }
        if self.resigning {
            let record = self.next_record(Kind::Resigned, Codec::Plain, Vec::new())?;
            return Ok(vec![self.append(record, None, Vec::new(), moment)]);
        }
        if self.check_resume.is_some() {
            return Ok(Vec::new());
        }
        let mut outputs = self.say_lost_again(moment);
        outputs.extend(self.tell_keys(moment));
        // Before the next append, which under load is always under way.
        outputs.extend(self.resend(moment));
        outputs.extend(self.draft(moment)?);
        outputs.extend(self.tell_keys(moment));
        outputs.extend(self.ask_ends(moment));
        Ok(outputs)
    }

    /// Not while the state holds more than the journal: below its level nothing of this may be said.
    fn tell_keys(&mut self, moment: Moment) -> Vec<Output> {
        if self.under_way.is_some() {
            return Vec::new();
        }
        self.seals.tell(&self.state, moment.boot_ms).into_iter().map(Output::Act).collect()
    }

    pub(super) fn say_lost_again(&mut self, moment: Moment) -> Vec<Output> {
        let soon = |said: u64| moment.boot_ms.saturating_sub(said) < SAY_AGAIN_AFTER_MS;
        if !self.effects_lost || self.said_again_ms.is_some_and(soon) {
            return Vec::new();
        }
        self.effects_lost = false;
        self.said_again_ms = Some(moment.boot_ms);
        self.say_again()
    }

    /// Rule 10: a clock that steps is not worked with.
    pub(super) fn check_clock(&self, moment: Moment) -> Result<(), Error> {
        let Some(base_ms) = self.clock_base_ms else { return Ok(()) };
        let off_ms = moment.off_boot_ms() - base_ms;
        if off_ms.unsigned_abs() <= self.start.config.max_clock_step_ms {
            return Ok(());
        }
        let (partition, against) = (self.start.partition, "its own monotonic clock");
        Err(Error::Clock { partition, off_ms, against })
    }

    /// Rule 13: where its own record raised the level beyond what it reads, it leaves the partition to others.
    fn check_level(&self) -> Result<(), Error> {
        let (level, reads) = (self.state.level(), self.start.config.reads);
        match self.under_way.is_some() || reads.allows(level) {
            true => Ok(()),
            false => {
                Err(Error::too_new(self.start.partition, self.journal_next.saturating_sub(1), level, reads))
            }
        }
    }

    /// The ends that were asked for, once every command below them is decided (rules 9 and 10).
    pub(super) fn reached_ends(&self) -> Option<Ends> {
        self.ends.filter(|ends| self.decided_next >= ends.commands || planted!(TimerOvertakesFact))
    }

    /// What nobody but the owner can see: silences and rights that are over, once for each reading of the ends.
    fn overdue(&mut self, reached: Option<Ends>, moment: Moment) -> Vec<(ShardId, Command)> {
        match reached {
            Some(ends) if !std::mem::replace(&mut self.looked_for_silence, true) => {
                self.seals.forget(&self.state);
                self.silence.overdue(&self.state, ends.asked.boot_ms)
            }
            Some(_) | None if planted!(RightOverUnread) => {
                self.silence.rights_over(&self.state, moment.boot_ms)
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// One envelope of everything that is there to decide. Timers that may fire go before commands that came
    /// after their time, so that no flood of those holds them up.
    pub(super) fn draft(&mut self, moment: Moment) -> Result<Vec<Output>, Error> {
        let reached = self.reached_ends();
        let overdue = self.overdue(reached, moment);
        let rights = self.start.config.keeps_acknowledged;
        let due = reached.filter(|ends| self.state.next_timer().is_some_and(|at| at <= ends.asked.wall));
        let mut draft = Draft::new(&mut self.state, moment.wall, self.read.clone());
        for (shard, command) in overdue {
            draft.observed(shard, &command);
        }
        self.snapshots.draft(&mut draft);
        if let Some(ends) = due {
            self.silence.due(&mut draft, ends.asked.wall, moment.boot_ms, rights);
        }
        while !draft.is_full()
            && let Some(record) = self.pending.pop_front()
        {
            let command = CommandRecord::read(&record.value, self.start.config.reads);
            match &command {
                Ok(command) if draft.raises_for(command) => {
                    self.pending.push_front(record);
                    break;
                }
                // Nothing of the draft counts: whoever reads that level decides these commands.
                Err(ReadError::TooNew { level, reads }) => {
                    return Err(Error::too_new_command(self.start.partition, record.offset, *level, *reads));
                }
                Ok(_) | Err(ReadError::Malformed(_)) => {}
            }
            self.decided_next = record.offset + 1;
            self.uncovered += 1;
            self.uncovered_since.get_or_insert(moment.boot_ms);
            let hash = Hash::of(&record.value).to_string();
            match command {
                Ok(command) => {
                    let read = Read { partition: self.start.partition, record: &record, hash, moment };
                    decide(&mut draft, (&mut self.seals, &mut self.silence), command, read);
                }
                Err(error) => draft.undecodable(record.offset, hash, &error.to_string()),
            }
        }
        let reached =
            self.ends.filter(|ends| self.decided_next >= ends.commands || planted!(TimerOvertakesFact));
        let horizon = reached.map_or(Timestamp::MIN, |ends| ends.asked.wall);
        self.silence.due(&mut draft, horizon, moment.boot_ms, rights);
        self.read = draft.read().cloned();
        let waited = self.uncovered_since.map_or(0, |since| moment.boot_ms.saturating_sub(since));
        let cover = self.uncovered >= self.start.config.checkpoint_after_commands
            || waited >= self.start.config.checkpoint_after_ms;
        let drafted = draft.finish(cover);
        let Some(envelope) = drafted.envelope else {
            return Ok(drafted.notices.into_iter().map(Output::Act).collect());
        };
        self.silence.note_rights(&envelope);
        let body = drafted.json;
        let packs = envelope.level.allows(Level::PACKED_BODIES) || planted!(BodyPackedBeforeLevel);
        let codec = if packs && body.len() >= PACKED_FROM_BYTES { Codec::Lz4 } else { Codec::Plain };
        let record = self.next_record(Kind::Envelope, codec, body)?;
        let outputs = vec![self.append(record, Some(envelope), drafted.notices, moment)];
        planted!(AckBeforeDurable => return Ok(self.said_early(outputs, super::planted::is_reply)));
        planted!(EffectsBeforeReadBack => return Ok(self.said_early(outputs, super::planted::is_message)));
        Ok(outputs)
    }

    /// Timers and silences count only up to a moment after which both ends were asked for.
    pub(super) fn ask_ends(&mut self, moment: Moment) -> Option<Output> {
        // A target that is not reached yet stays: a later one would only move away.
        if self.asking || self.ends.is_some() && self.reached_ends().is_none() {
            return None;
        }
        let tick = self.start.config.tick_ms;
        let asked = self.ends.map(|ends| ends.asked);
        let stale = asked.is_none_or(|asked| moment.boot_ms.saturating_sub(asked.boot_ms) >= tick);
        let timer = self.state.next_timer().filter(|at| *at <= moment.wall);
        let timer_due = timer.is_some_and(|at| asked.is_none_or(|asked| asked.wall < at));
        self.asking = timer_due || stale;
        self.asking.then_some(Output::AskEnds)
    }

    pub(super) fn resend(&mut self, moment: Moment) -> Vec<Output> {
        if !self.outbox_sender.is_waiting(&self.state) {
            self.outbox_sender_since = moment.boot_ms;
            return Vec::new();
        }
        if moment.boot_ms.saturating_sub(self.outbox_sender_since) < RESEND_AFTER_MS {
            return Vec::new();
        }
        self.outbox_sender_since = moment.boot_ms;
        self.outbox_sender.start_over();
        self.outbox_sender.collect(&self.state).into_iter().map(Output::Act).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::owner::{Role, Start};
    use tidemill_model::{
        Actor, Envelope, Event, Heartbeat, Incarnation, Recorded, WorkerCommand, WorkerEvent, WorkerId,
    };

    fn heartbeat(worker: &str) -> Command {
        let (worker, incarnation) = (WorkerId::new(worker), Incarnation::new("1"));
        let heartbeat = Heartbeat {
            worker,
            incarnation,
            number: 0,
            measure: None,
            unready: None,
            leaving: None,
            external_work: Vec::new(),
            status: None,
            excesses: Vec::new(),
        };
        Command::Worker(WorkerCommand::Heartbeat(heartbeat))
    }

    /// Rule 9: whoever sends heartbeats under names that no worker has takes no memory.
    #[test]
    fn words_of_unknown_workers_are_not_kept() {
        let start = Start { partition: 0, count: 1, incarnation: "me".to_owned(), config: Config::default() };
        let mut owner = Owner::new(start);
        owner.role = Role::Owning;
        let shard = ShardId(1);
        let event = Event::Worker(WorkerEvent::Registered {
            worker: WorkerId::new("w"),
            incarnation: Incarnation::new("1"),
            host: "h".to_owned(),
            address: "a".to_owned(),
            slots: Default::default(),
            labels: Default::default(),
            keeps: None,
            types: Default::default(),
            settings: None,
            reserved: Default::default(),
        });
        let events = vec![Recorded { shard, event }];
        let now = Timestamp::UNIX_EPOCH;
        owner.state.apply(&Envelope { now, level: Level::FIRST, resume: None, causes: Vec::new(), events });
        let names = (0..5_000).map(|n| format!("nobody-{n}")).chain(["w".to_owned()]);
        for (offset, name) in names.enumerate() {
            let actor = Actor::default();
            let command = heartbeat(&name);
            let record = CommandRecord { shard, request: None, reply_to: None, actor, command };
            let (offset, value) = (offset as u64, serde_json::to_vec(&record).unwrap().into());
            owner.pending.push_back(Record { offset, timestamp_ms: 0, key: Vec::new(), value });
        }
        let moment = Moment { wall: now, boot_ms: 10 };
        owner.start.config.checkpoint_after_commands = u64::MAX;
        owner.draft(moment).unwrap();
        assert!(owner.pending.is_empty());
        assert_eq!(owner.silence.len(), 1);
    }
}
