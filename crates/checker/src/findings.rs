//! What a check found, bounded whatever the history.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tidemill_model::{Command, CommandRecord, Json, Level, Recorded, Timestamp};

use crate::{Invariant, Void};

/// Kept of each rule; more are only counted.
const KEPT: usize = 20;
/// Characters kept of an offending record.
const KEPT_TEXT: usize = 2_000;

/// One place where a history breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The rule's name, see [`Invariant::name`].
    pub invariant: &'static str,
    /// Partition of the journal.
    pub partition: u32,
    /// Offset of the record that breaks it.
    pub offset: u64,
    /// Index of the event in the envelope, where it is one event that does.
    pub event: Option<u32>,
    /// For people: what was found, and what the rule wants.
    pub message: String,
    /// The offending event, or the record's body, as JSON; cut to 2,000 characters.
    pub record: String,
    /// Offsets of the earlier records that this one contradicts.
    pub contradicts: Vec<u64>,
}

impl Violation {
    /// Of a record as a whole, without its text.
    pub(crate) fn of(rule: Invariant, (partition, offset): (u32, u64), message: String) -> Self {
        let (record, contradicts) = (String::new(), Vec::new());
        Self { invariant: rule.name(), partition, offset, event: None, message, record, contradicts }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:{}", self.invariant, self.partition, self.offset)?;
        if let Some(event) = self.event {
            write!(f, " event {event}")?;
        }
        write!(f, ": {}", self.message)?;
        if !self.contradicts.is_empty() {
            write!(f, " (see {:?})", self.contradicts)?;
        }
        if self.record.is_empty() { Ok(()) } else { write!(f, "\n    {}", self.record) }
    }
}

/// A record that does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VoidRecord {
    /// Partition of the journal.
    pub partition: u32,
    /// Its offset.
    pub offset: u64,
    /// Why it does not count.
    pub reason: Void,
}

/// How far the journal of one partition was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionSummary {
    /// Which.
    pub partition: u32,
    /// Records read, void ones too.
    pub records: u64,
    /// Offset of the last record that counts.
    pub offset: Option<u64>,
    /// Its ownership.
    pub epoch: u64,
    /// Its number.
    pub seq: u64,
    /// Its hash, hex: equal for equal histories.
    pub hash: String,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Envelopes that count.
    pub envelopes: u64,
    /// Their events.
    pub events: u64,
    /// Commands that were given.
    pub commands: u64,
    /// Partition by partition.
    pub partitions: Vec<PartitionSummary>,
    /// Records that do not count, by reason. On a broker, some are no fault: that is what the chain is for.
    pub voids: BTreeMap<Void, u64>,
    /// The first 20 of them of each reason.
    pub void_records: Vec<VoidRecord>,
    /// Violations by rule; absent: none.
    pub counts: BTreeMap<&'static str, u64>,
    /// The first 20 of each rule, in the order of finding.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Whether every rule holds.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }

    /// Whether this rule is broken.
    #[must_use]
    pub fn breaks(&self, invariant: Invariant) -> bool {
        self.counts.contains_key(invariant.name())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let voids: u64 = self.voids.values().sum();
        writeln!(
            f,
            "{} partitions, {} envelopes, {} events, {} commands, {voids} void records, {} rules",
            self.partitions.len(),
            self.envelopes,
            self.events,
            self.commands,
            Invariant::ALL.len()
        )?;
        for void in &self.void_records {
            writeln!(f, "void at {}:{}: {}", void.partition, void.offset, void.reason)?;
        }
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        for (name, count) in &self.counts {
            writeln!(f, "{name}: {count} violations")?;
        }
        if self.is_clean() { writeln!(f, "every rule holds") } else { Ok(()) }
    }
}

/// Where something stands: partition, offset, event.
pub(crate) type Place = (u32, u64, u32);

/// Gathers what is found; bounded. Shared by all that check, so each says at once what it finds.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) report: RefCell<Report>,
}

impl Findings {
    pub(crate) fn violation(&self, mut violation: Violation) {
        let report = &mut *self.report.borrow_mut();
        let count = report.counts.entry(violation.invariant).or_default();
        *count += 1;
        if *count <= KEPT as u64 {
            violation.record = violation.record.chars().take(KEPT_TEXT).collect();
            report.violations.push(violation);
        }
    }

    /// A rule is broken at a place that was passed: only what came later shows it.
    pub(crate) fn breaks(&self, rule: Invariant, (partition, offset, event): Place, message: String) {
        let violation = Violation::of(rule, (partition, offset), message);
        self.violation(Violation { event: Some(event), ..violation });
    }

    pub(crate) fn count(&self) -> u64 {
        self.report.borrow().counts.values().sum()
    }

    pub(crate) fn void(&self, partition: u32, offset: u64, reason: Void) {
        let report = &mut *self.report.borrow_mut();
        let count = report.voids.entry(reason).or_default();
        *count += 1;
        if *count <= KEPT as u64 {
            report.void_records.push(VoidRecord { partition, offset, reason });
        }
    }
}

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
    /// The level that stands before the record.
    pub(crate) level: Level,
    pub(crate) recorded: Option<&'a Recorded>,
    pub(crate) asked: Asked<'a>,
}

impl<'a> At<'a> {
    /// The place of a record as a whole.
    pub(crate) fn record(found: &'a Findings, partition: u32, offset: u64, now: Timestamp) -> Self {
        let (level, asked) = (Level::FIRST, Asked::Unknown);
        Self { found, partition, offset, index: None, now, level, recorded: None, asked }
    }

    /// The command that asked, where it is known.
    pub(crate) fn command(&self) -> Option<&'a Command> {
        match self.asked {
            Asked::Command(record) => record.map(|record| &record.command),
            Asked::Owner | Asked::Unknown => None,
        }
    }

    pub(crate) fn place(&self) -> Place {
        (self.partition, self.offset, self.index.unwrap_or(0))
    }

    pub(crate) fn breaks(&self, rule: Invariant, message: String) {
        self.contradicts(rule, message, &[]);
    }

    /// Reports that a rule is broken here, given what stands at earlier offsets.
    pub(crate) fn contradicts(&self, rule: Invariant, message: String, earlier: &[u64]) {
        let record = self.recorded.map(Json::to_json);
        self.found.violation(Violation {
            event: self.index,
            record: record.unwrap_or_default(),
            contradicts: earlier.to_vec(),
            ..Violation::of(rule, (self.partition, self.offset), message)
        });
    }
}
