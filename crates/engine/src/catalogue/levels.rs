//! Processes, the levels that they read, and the level that stands (rule 13, OPS-9).
//!
//! *Invariant:* the level is raised only to one that every registered process reads, and never while it is held. What a
//! level brings is written in later records only (`Partition::end`), so that whoever does not read it stops at this one.

use std::collections::BTreeMap;

use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Answer, Event, FieldError, InstanceId, Level, LevelCommand, LevelCount, LevelEvent, LevelHold,
    LevelState, Process, Rejection, ShardMessage, bounds, check_range,
};

use super::{Catalogue, check_bytes, check_limit};
use crate::decision::{Decision, Ruled};

/// Processes at once. Each of thousands of executors is one; those that ended without a word count until they expire.
const MAX_PROCESSES: usize = 20_000;
const MAX_ROLES: usize = 16;
/// Processes that one answer lists.
const LISTED: usize = 500;

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Levels {
    level: Level,
    hold: Option<LevelHold>,
    processes: BTreeMap<InstanceId, Process>,
    /// How many of them read each level and no more.
    counts: BTreeMap<Level, usize>,
}

impl Levels {
    fn insert(&mut self, process: &Process) {
        self.remove(&process.id);
        *self.counts.entry(process.reads).or_default() += 1;
        self.processes.insert(process.id.clone(), process.clone());
    }

    fn remove(&mut self, id: &InstanceId) {
        let Some(process) = self.processes.remove(id) else { return };
        if let Some(count) = self.counts.get_mut(&process.reads) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&process.reads);
            }
        }
    }

    /// As if this one stood, where no journal says it.
    pub(super) fn suppose(&mut self, level: Level) {
        self.level = level;
    }

    /// The one that stands.
    pub(super) fn standing(&self) -> Level {
        self.level
    }

    /// The highest level that every registered process reads.
    fn readable(&self) -> Option<Level> {
        planted!(LevelRaisedEarly => return self.counts.keys().next_back().copied());
        self.counts.keys().next().copied()
    }

    /// The level that may stand from now on.
    pub(super) fn next_raise(&self) -> Option<Level> {
        self.readable().filter(|readable| self.hold.is_none() && *readable > self.level)
    }

    fn state(&self) -> LevelState {
        let mut processes: Vec<&Process> = self.processes.values().collect();
        processes.sort_by_key(|process| process.reads);
        LevelState {
            level: self.level,
            readable: self.counts.keys().next().copied(),
            hold: self.hold.clone(),
            counts: self
                .counts
                .iter()
                .map(|(reads, count)| LevelCount { reads: *reads, processes: *count as u64 })
                .collect(),
            processes: processes.into_iter().take(LISTED).cloned().collect(),
        }
    }
}

fn check_process(process: &Process) -> Result<(), FieldError> {
    check_bytes("id", process.id.as_str(), 128)?;
    check_bytes("host", &process.host, 255)?;
    check_bytes("version", &process.version, 64)?;
    for (index, role) in process.roles.iter().enumerate() {
        check_bytes(&format!("roles[{index}]"), role, 64)?;
    }
    if process.roles.is_empty() || process.roles.len() > MAX_ROLES {
        let rule = format!("must be 1 to {MAX_ROLES}");
        return Err(FieldError::new("roles", process.roles.len(), rule));
    }
    check_range("reads", process.reads.number().into(), 1, Level::MAX.number().into())?;
    let (low, high) = bounds::PROCESS_EXPIRE_AFTER_MS;
    check_range("expire_after_ms", process.expire_after_ms, low, high)
}

impl Catalogue {
    pub(super) fn decide_level(&self, by: &Actor, command: &LevelCommand) -> Decision {
        match command {
            LevelCommand::RegisterProcess { process, .. } => self.register_process(process).into(),
            LevelCommand::DeregisterProcess { process } => {
                let event = LevelEvent::ProcessDeregistered { process: process.clone() };
                self.end_process(process, event)
            }
            LevelCommand::ExpireProcess { process } => {
                self.end_process(process, LevelEvent::ProcessExpired { process: process.clone() })
            }
            LevelCommand::Hold { reason } => self.hold_level(by, reason).into(),
            LevelCommand::Release { reason } => self.release_level(by, reason).into(),
        }
    }

    /// Repeated, it shows that the process is alive, and changes nothing.
    fn register_process(&self, process: &Process) -> Ruled {
        check_process(process)?;
        let level = self.levels.level;
        if !process.reads.allows(level) {
            let (reads, level) = (process.reads.number(), level.number());
            return Err(Rejection::TooOld { reads, level });
        }
        let answer = Answer::Level { level };
        match self.levels.processes.get(&process.id) {
            Some(known) if known == process => return Ok(Decision::unchanged(answer)),
            Some(_) => {}
            None => {
                check_limit("the number of processes", self.levels.processes.len() + 1, MAX_PROCESSES)?;
            }
        }
        let event = LevelEvent::ProcessRegistered { process: process.clone() };
        Ok(Decision::answered(vec![event.into()], answer))
    }

    fn end_process(&self, process: &InstanceId, event: LevelEvent) -> Decision {
        match self.levels.processes.contains_key(process) {
            true => Decision::done(event),
            false => Decision::unchanged(Answer::Done),
        }
    }

    fn hold_level(&self, by: &Actor, reason: &str) -> Ruled {
        let reason = reason.trim();
        if reason.is_empty() || reason.chars().count() > bounds::REASON_CHARS {
            let rule = format!("must be 1 to {} characters: say why", bounds::REASON_CHARS);
            return Err(Rejection::field("reason", reason, rule));
        }
        let hold = LevelHold { by: by.clone(), reason: reason.to_owned() };
        if self.levels.hold.as_ref() == Some(&hold) {
            return Ok(Decision::unchanged(Answer::Done));
        }
        let LevelHold { by, reason } = hold;
        Ok(Decision::done(LevelEvent::Held { by, reason }))
    }

    fn release_level(&self, by: &Actor, reason: &str) -> Ruled {
        let reason = reason.trim();
        if reason.chars().count() > bounds::REASON_CHARS {
            let rule = format!("must be at most {} characters", bounds::REASON_CHARS);
            return Err(Rejection::field("reason", reason, rule));
        }
        if self.levels.hold.is_none() {
            return Ok(Decision::unchanged(Answer::Done));
        }
        let (by, reason) = (by.clone(), reason.to_owned());
        Ok(Decision::done(LevelEvent::Released { by, reason }))
    }

    pub(super) fn apply_level(&mut self, event: &LevelEvent) {
        match event {
            LevelEvent::ProcessRegistered { process } => self.levels.insert(process),
            LevelEvent::ProcessDeregistered { process } | LevelEvent::ProcessExpired { process } => {
                self.levels.remove(process);
            }
            LevelEvent::Raised { level } => {
                self.levels.level = *level;
                self.tell_groups(None, &ShardMessage::Level { level: *level });
            }
            LevelEvent::Held { by, reason } => {
                self.levels.hold = Some(LevelHold { by: by.clone(), reason: reason.clone() });
            }
            LevelEvent::Released { .. } => self.levels.hold = None,
        }
    }

    /// A new group hears the level that stands.
    pub(super) fn tell_level(&mut self, shard: tidemill_model::ShardId) {
        let level = self.levels.level;
        if level > Level::FIRST {
            self.mailbox.send(shard, ShardMessage::Level { level });
        }
    }

    pub(super) fn raised(&self, level: Level) -> Vec<Event> {
        vec![LevelEvent::Raised { level }.into()]
    }

    /// The processes that an owner must watch for silence, and how long each may be silent.
    pub fn processes(&self) -> impl Iterator<Item = (&InstanceId, u64)> {
        self.levels.processes.values().map(|process| (&process.id, process.expire_after_ms))
    }

    /// Whether this process is registered.
    pub fn has_process(&self, id: &InstanceId) -> bool {
        self.levels.processes.contains_key(id)
    }

    pub(crate) fn level_state(&self) -> LevelState {
        self.levels.state()
    }
}
