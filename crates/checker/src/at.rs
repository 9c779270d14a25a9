//! Where in a history a rule is being checked.

use tidemill_model::{Command, CommandRecord, Recorded, Timestamp};

use crate::Invariant;
use crate::findings::{Findings, Place, Violation};

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

/// The place at hand, and where to say what is wrong there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) found: &'a Findings,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) index: Option<u32>,
    pub(crate) now: Timestamp,
    pub(crate) recorded: Option<&'a Recorded>,
    pub(crate) asked: Asked<'a>,
}

impl<'a> At<'a> {
    /// The place of a record as a whole.
    pub(crate) fn record(found: &'a Findings, partition: u32, offset: u64, now: Timestamp) -> Self {
        Self { found, partition, offset, index: None, now, recorded: None, asked: Asked::Unknown }
    }

    /// The command that asked, where it is known.
    pub(crate) fn command(&self) -> Option<&'a Command> {
        match self.asked {
            Asked::Command(record) => record.map(|record| &record.command),
            Asked::Owner | Asked::Unknown => None,
        }
    }

    /// Where it stands.
    pub(crate) fn place(&self) -> Place {
        (self.partition, self.offset, self.index.unwrap_or(0))
    }

    /// Reports that a rule is broken here.
    pub(crate) fn breaks(&self, rule: Invariant, message: String) {
        self.contradicts(rule, message, &[]);
    }

    /// Reports that a rule is broken here, given what stands at earlier offsets.
    pub(crate) fn contradicts(&self, rule: Invariant, message: String, earlier: &[u64]) {
        let record = self.recorded.and_then(|recorded| serde_json::to_string(recorded).ok());
        self.found.violation(Violation {
            event: self.index,
            record: record.unwrap_or_default(),
            contradicts: earlier.to_vec(),
            ..Violation::of(rule, (self.partition, self.offset), message)
        });
    }
}
