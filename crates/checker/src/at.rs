//! Where in a history a rule is being checked.

use tidemill_model::{Command, CommandRecord, Recorded, Timestamp};

use crate::Invariant;
use crate::findings::{Findings, Violation};

/// What asked for the event at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked<'a> {
    /// A command, whose record is known where the commands are given.
    Command(Option<&'a CommandRecord>),
    /// Time, or the owner's own eyes.
    Owner,
    /// The causes do not tell.
    Unknown,
}

/// The place at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) index: Option<u32>,
    pub(crate) now: Timestamp,
    pub(crate) recorded: Option<&'a Recorded>,
    pub(crate) asked: Asked<'a>,
}

impl<'a> At<'a> {
    /// The place of a record as a whole.
    pub(crate) fn record(partition: u32, offset: u64, now: Timestamp) -> Self {
        Self { partition, offset, index: None, now, recorded: None, asked: Asked::Unknown }
    }

    /// The command that asked, where it is known.
    pub(crate) fn command(&self) -> Option<&'a Command> {
        match self.asked {
            Asked::Command(record) => record.map(|record| &record.command),
            Asked::Owner | Asked::Unknown => None,
        }
    }

    /// Reports that a rule is broken here.
    pub(crate) fn breaks(&self, found: &mut Findings, rule: Invariant, message: String) {
        self.contradicts(found, rule, message, &[]);
    }

    /// Reports that a rule is broken here, given what stands at earlier offsets.
    pub(crate) fn contradicts(
        &self,
        found: &mut Findings,
        rule: Invariant,
        message: String,
        earlier: &[u64],
    ) {
        let record = self.recorded.and_then(|recorded| serde_json::to_string(recorded).ok());
        let violation = Violation {
            invariant: rule.name(),
            partition: self.partition,
            offset: self.offset,
            event: self.index,
            message,
            record: record.unwrap_or_default(),
            contradicts: earlier.to_vec(),
        };
        found.violation(rule, violation);
    }
}
