//! The commands of one partition that no envelope has covered yet, and what an envelope says of them.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_log::Hash;
use tidemill_model::{
    Cause, CommandRecord, Envelope, Event, Level, Outcome, PartitionEvent, Rejection, Resume, Source,
    Timestamp,
};

use crate::{At, Invariant};

/// A record of the commands topic.
#[derive(Debug)]
struct Given {
    offset: u64,
    at: Option<Timestamp>,
    hash: Hash,
    record: Option<Arc<CommandRecord>>,
}

/// What an operator accepted as lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    done: u64,
    resumed_at: u64,
}

impl Loss {
    /// What the envelope says of it.
    pub(crate) fn of(envelope: &Envelope) -> Option<Self> {
        envelope.events.iter().find_map(|recorded| match recorded.event {
            Event::Partition(PartitionEvent::CommandLossAccepted { done, resumed_at, .. }) => {
                Some(Self { done, resumed_at })
            }
            _ => None,
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Commands {
    /// Those given and not yet covered, in order.
    pending: VecDeque<Given>,
    /// Offset after the last one given; `None`: none was given, so nothing is known of them.
    end: Option<u64>,
    /// The last one covered, and the journal record that says so.
    resume: Option<(Resume, u64)>,
    /// Offset of the last command that an envelope decided, and that record.
    decided: Option<(u64, u64)>,
}

impl Commands {
    pub(crate) fn give(&mut self, offset: u64, timestamp_ms: Option<i64>, value: &[u8]) {
        self.end = Some(offset.saturating_add(1));
        if self.resume.as_ref().is_some_and(|(resume, _)| offset <= resume.offset) {
            return;
        }
        let at = timestamp_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let record = CommandRecord::decode(value).ok().map(Arc::new);
        self.pending.push_back(Given { offset, at, hash: Hash::of(value), record });
    }

    pub(crate) fn record(&self, offset: u64) -> Option<&Arc<CommandRecord>> {
        self.given(offset).and_then(|given| given.record.as_ref())
    }

    fn given(&self, offset: u64) -> Option<&Given> {
        let place = self.pending.binary_search_by_key(&offset, |given| given.offset).ok()?;
        self.pending.get(place)
    }

    /// `resume_point_moves_forward`, where an operator moved it: from where it was to the record that was written
    /// for it. What was given before belongs to the topic as it was, and is compared with nothing any more.
    pub(crate) fn lose(&mut self, at: &At<'_>, envelope: &Envelope, loss: Loss) {
        let rule = Invariant::ResumePointMovesForward;
        if let Some((before, seen)) = self.resume.as_ref().filter(|(before, _)| before.offset != loss.done) {
            let why = format!("a loss after command {} is accepted, after {}", loss.done, before.offset);
            at.contradicts(rule, why, &[*seen]);
        }
        if envelope.resume.as_ref().is_none_or(|resume| resume.offset != loss.resumed_at) {
            let why = format!("a loss is accepted, and the resume point is not command {}", loss.resumed_at);
            at.breaks(rule, why);
        }
        *self = Self::default();
    }

    /// `resume_point_moves_forward`
    pub(crate) fn resume_point_moves_forward(&self, at: &At<'_>, envelope: &Envelope) {
        let why = match (&self.resume, &envelope.resume) {
            (Some((before, _)), None) => format!("no resume point, after one at command {}", before.offset),
            (Some((before, _)), Some(now)) if now.offset < before.offset => {
                format!("the resume point goes back from command {} to {}", before.offset, now.offset)
            }
            (Some((before, _)), Some(now)) if now.offset == before.offset && now.hash != before.hash => {
                format!("command {} has another hash than before", now.offset)
            }
            (_, Some(now)) => return self.resume_names_its_command(at, now),
            (None, None) => return,
        };
        let seen = self.resume.as_ref().map(|(_, seen)| *seen);
        at.contradicts(Invariant::ResumePointMovesForward, why, seen.as_slice());
    }

    fn resume_names_its_command(&self, at: &At<'_>, resume: &Resume) {
        let rule = Invariant::ResumePointMovesForward;
        if self.end.is_some_and(|end| resume.offset >= end) {
            at.breaks(rule, format!("the resume point names command {}, which is not there", resume.offset));
        } else if let Some(given) = self.given(resume.offset)
            && given.hash.to_string() != resume.hash
        {
            let why = format!("command {} hashes to {}, not {}", resume.offset, given.hash, resume.hash);
            at.breaks(rule, why);
        }
    }

    /// `every_command_decided_once`
    pub(crate) fn every_command_decided_once(&mut self, at: &At<'_>, envelope: &Envelope) {
        let rule = Invariant::EveryCommandDecidedOnce;
        let mut causes = envelope.causes.iter().filter_map(|cause| match &cause.source {
            Source::Command { offset, .. } => Some((*offset, cause)),
            Source::Timer | Source::Observed => None,
        });
        let covered = envelope.resume.as_ref().map(|resume| resume.offset);
        let mut next = causes.next();
        let mut pending =
            self.pending.iter().filter(|given| covered.is_some_and(|covered| given.offset <= covered));
        let mut given = pending.next();
        while let Some((offset, cause)) = next {
            while let Some(passed) = given.filter(|given| given.offset < offset) {
                self.passed_over(at, passed);
                given = pending.next();
            }
            if let Some((last, seen)) = self.decided.filter(|(last, _)| offset <= *last) {
                at.contradicts(rule, format!("command {offset} is decided after command {last}"), &[seen]);
            } else if let Some((covered, seen)) = self.resume.as_ref().filter(|(r, _)| offset <= r.offset) {
                let why =
                    format!("command {offset} is decided, though all up to {} were done", covered.offset);
                at.contradicts(rule, why, &[*seen]);
            } else if covered.is_none_or(|covered| offset > covered) {
                at.breaks(rule, format!("command {offset} is decided beyond the resume point"));
            }
            self.decided =
                Some(self.decided.map_or((offset, at.offset), |last| last.max((offset, at.offset))));
            if let Some(this) = given.filter(|given| given.offset == offset) {
                names_its_sender(at, this, cause);
                given = pending.next();
            }
            next = causes.next();
        }
        while let Some(passed) = given {
            self.passed_over(at, passed);
            given = pending.next();
        }
    }

    /// A command without a cause: right only where nobody waits and nothing changed, as for a heartbeat.
    fn passed_over(&self, at: &At<'_>, given: &Given) {
        let why = match given.record.as_deref() {
            None => "cannot be decoded and was not set aside".to_owned(),
            Some(record) if at.level.allows(Level::SEALED_REPORTS) && record.command.needs_seal() => return,
            Some(CommandRecord { request: Some(request), .. }) => {
                format!("has request {request} and no outcome")
            }
            Some(_) => return,
        };
        let why = format!("command {} is passed over: it {why}", given.offset);
        at.breaks(Invariant::EveryCommandDecidedOnce, why);
    }

    /// `timers_never_overtake_commands`: `due` is decided here by a timer.
    pub(crate) fn timers_never_overtake_commands(
        &self,
        at: &At<'_>,
        due: Timestamp,
        covered: Option<u64>,
        tolerance: SignedDuration,
    ) {
        let Ok(before) = due.checked_sub(tolerance) else { return };
        let overtaken = self.pending.iter().find(|given| {
            covered.is_none_or(|covered| given.offset > covered) && given.at.is_some_and(|time| time < before)
        });
        if let Some(given) = overtaken {
            let why =
                format!("a timer of {due} is decided before command {}, taken before that", given.offset);
            at.breaks(Invariant::TimersNeverOvertakeCommands, why);
        }
    }

    /// Moves on to what an envelope covered.
    pub(crate) fn cover(&mut self, envelope: &Envelope, offset: u64) {
        let Some(resume) = &envelope.resume else { return };
        while self.pending.front().is_some_and(|given| given.offset <= resume.offset) {
            self.pending.pop_front();
        }
        if self.resume.as_ref().is_none_or(|(before, _)| before.offset <= resume.offset) {
            self.resume = Some((resume.clone(), offset));
        }
    }

    /// At quiescence nobody waits any more.
    pub(crate) fn at_rest(&self, at: &At<'_>) {
        for given in &self.pending {
            self.passed_over(at, given);
        }
    }
}

fn names_its_sender(at: &At<'_>, given: &Given, cause: &Cause) {
    let Source::Command { offset, request, reply_to, actor } = &cause.source else { return };
    let set_aside = matches!(cause.outcome, Outcome::Refused(Rejection::DeadLettered { .. }));
    let why = match given.record.as_deref() {
        Some(record) if (&record.request, &record.reply_to, &record.actor) == (request, reply_to, actor) => {
            return;
        }
        _ if set_aside => return,
        Some(_) => "names another sender than its record",
        None => "cannot be decoded, but was decided",
    };
    at.breaks(Invariant::EveryCommandDecidedOnce, format!("command {offset} {why}"));
}
