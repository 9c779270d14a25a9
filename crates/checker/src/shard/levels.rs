//! Processes as they register, and the level that is raised when all of them read it.

use std::collections::BTreeMap;

use tidemill_model::{Event, InstanceId, Level, LevelEvent};

use crate::{At, Invariant};

#[derive(Debug, Default)]
pub(super) struct Levels {
    level: Level,
    held: bool,
    reads: BTreeMap<InstanceId, Level>,
}

impl Levels {
    /// `level_raised_when_all_read_it`
    pub(super) fn event(&mut self, at: &At<'_>, event: &Event) {
        let Event::Level(event) = event else { return };
        let rule = Invariant::LevelRaisedWhenAllReadIt;
        match event {
            LevelEvent::ProcessRegistered { process } => {
                if process.reads < self.level {
                    let why = format!(
                        "process {} registers, which reads level {}, where level {} stands",
                        process.id, process.reads, self.level
                    );
                    at.breaks(rule, why);
                }
                self.reads.insert(process.id.clone(), process.reads);
            }
            LevelEvent::ProcessDeregistered { process } | LevelEvent::ProcessExpired { process } => {
                if self.reads.remove(process).is_none() {
                    at.breaks(rule, format!("process {process} ends, which is not registered"));
                }
            }
            LevelEvent::Raised { level } => {
                if self.held {
                    at.breaks(rule, format!("level {level} is raised while it is held"));
                }
                if *level <= self.level {
                    at.breaks(rule, format!("level {level} is raised after level {}", self.level));
                }
                match self.reads.iter().find(|(_, reads)| *reads < level) {
                    Some((process, reads)) => {
                        let why =
                            format!("level {level} is raised, and process {process} reads level {reads}");
                        at.breaks(rule, why);
                    }
                    None if self.reads.is_empty() => {
                        at.breaks(rule, format!("level {level} is raised, and no process is registered"));
                    }
                    None => {}
                }
                self.level = *level;
            }
            LevelEvent::Held { .. } => self.held = true,
            LevelEvent::Released { .. } => {
                if !std::mem::replace(&mut self.held, false) {
                    at.breaks(rule, "the level is released, and nobody holds it".to_owned());
                }
            }
        }
    }
}
