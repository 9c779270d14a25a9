//! DQ-1, DQ-2: the quality service is asked once all else is met, and nothing waits for its answer.
//!
//! ```text
//!  all else met ──QualityRequested──► open ──QualitySent──► sent ──QualityAnswered──► allowed, or refused
//!                        ▲                                    │
//!                        └──────── no answer in time ─────────┘   (after n of them people are told)
//! ```
//!
//! *Invariant:* a question is sent by whoever took it, on record, before it was sent. A crash in between loses the
//! sending, not the question: it is asked again when its time is over (rule 14).

use std::collections::BTreeSet;
use std::ops::Bound;

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::{
    Actor, AlarmKind, BatchEvent, BatchId, Condition, Event, Incarnation, LiveAnswer, QualityQuestion,
    Rejection, Severity, Timestamp,
};

use crate::decision::Decision;
use crate::group::batches::attempts::rejected;
use crate::group::batches::batch::{Batch, Phase};
use crate::group::{GroupShard, Timer, alarm};

/// Questions of one answer.
const MAX_ASKS: usize = 1_000;
const MAX_REASON_CHARS: usize = 500;

/// The shard's questions.
#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(crate) struct Quality {
    /// All else is met, and it was never asked.
    pub(super) due: BTreeSet<BatchId>,
    /// To be sent by whoever takes it.
    open: BTreeSet<BatchId>,
}

/// How the gate of one batch stands.
#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(crate) struct Gate {
    /// How often it was asked.
    number: u32,
    taken_by: Option<Incarnation>,
    again_at: Option<Timestamp>,
    asked_since: Option<Timestamp>,
    word: Option<Word>,
    /// A person lets the batch run without the service's word.
    pub(in crate::group) waived: bool,
}

#[derive(Debug, Clone, PartialEq, Stored)]
struct Word {
    allowed: bool,
    reason: String,
    at: Timestamp,
}

impl Gate {
    pub(crate) fn is_open(&self) -> bool {
        self.waived || self.word.as_ref().is_some_and(|word| word.allowed)
    }
}

impl GroupShard {
    /// Asks the service, or asks it again.
    pub(crate) fn ask_quality(&self, id: BatchId, now: Timestamp) -> Vec<Event> {
        let Some(batch) = self.batches.get(&id) else { return Vec::new() };
        let Some(gate) = batch.gate() else { return Vec::new() };
        let settings = self.settings();
        let pause = SignedDuration::from_millis(i64::try_from(settings.quality_retry_ms).unwrap_or(i64::MAX));
        let again_at = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
        let mut events =
            vec![Event::Batch(BatchEvent::QualityRequested { batch: id, number: gate.number + 1, again_at })];
        if gate.number > 0 && gate.number == settings.quality_alarm_after {
            let message = format!(
                "the quality service was asked {} times about batch {id} of {}, and has not answered",
                gate.number,
                batch.definition.full_name()
            );
            let of = (id, &*batch.definition);
            events.push(alarm(AlarmKind::QualityUnanswered, Severity::Important, of, None, message));
        }
        events
    }

    pub(crate) fn send_quality(
        &self,
        id: BatchId,
        number: u32,
        by: &Incarnation,
    ) -> Result<Decision, Rejection> {
        let batch = self.unfinished(id)?;
        let gate = batch.gate().filter(|gate| gate.number == number);
        match gate.and_then(|gate| gate.taken_by.as_ref()) {
            Some(taken) if taken == by => Ok(Decision::nothing()),
            Some(_) => {
                let what = format!("somebody who asks question {number} about batch {id}");
                Err(Rejection::AlreadyThere { what })
            }
            None if gate.is_some() && self.external.quality.open.contains(&id) => {
                Ok(Decision::of(BatchEvent::QualitySent { batch: id, number, by: by.clone() }))
            }
            None => Err(Rejection::unknown("open question about batch", id)),
        }
    }

    /// DQ-2: the call back.
    pub(crate) fn answer_quality(
        &self,
        id: BatchId,
        allowed: bool,
        reason: &str,
        by: &Actor,
    ) -> Result<Decision, Rejection> {
        let batch = self.unfinished(id)?;
        let not_waited = |reason: &str| Rejection::NotWaitedFor { batch: id.0, reason: reason.to_owned() };
        let gate = batch.gate().ok_or_else(|| not_waited("its job has no quality gate"))?;
        if batch.grant().is_some() {
            return Err(not_waited("it has started"));
        }
        let reason: String = reason.chars().take(MAX_REASON_CHARS).collect();
        if gate.word.as_ref().is_some_and(|word| word.allowed == allowed && word.reason == reason) {
            return Ok(Decision::nothing());
        }
        let (told, by) = (reason.clone(), by.clone());
        let mut events: Vec<Event> =
            vec![BatchEvent::QualityAnswered { batch: id, allowed, reason: told, by }.into()];
        if !allowed {
            if let (Phase::Assigned { token, worker, .. }, false) = (&batch.phase, gate.waived) {
                events.push(rejected(id, (*token, worker), "the quality service refused it"));
            }
            let name = batch.definition.full_name();
            let message = format!("the quality service refused batch {id} of {name}: {reason}");
            let of = (id, &*batch.definition);
            events.push(alarm(AlarmKind::QualityRefused, Severity::Important, of, None, message));
        }
        Ok(Decision::events(events))
    }

    /// What is to be sent.
    pub(crate) fn wanted_quality(&self, after: Option<BatchId>, limit: u32) -> LiveAnswer {
        let limit = (limit as usize).clamp(1, MAX_ASKS);
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut open = self.external.quality.open.range((behind, Bound::Unbounded));
        let asks: Vec<QualityQuestion> =
            open.by_ref().take(limit).filter_map(|id| self.quality_question(*id)).collect();
        LiveAnswer::WantedQuality { asks, more: open.next().is_some() }
    }

    fn quality_question(&self, id: BatchId) -> Option<QualityQuestion> {
        let batch = self.batches.get(&id)?;
        let definition = &batch.definition;
        Some(QualityQuestion {
            batch: id,
            number: batch.gate()?.number,
            job: definition.id,
            job_name: definition.spec.name.clone(),
            group: definition.spec.group.clone(),
            logical_time: batch.logical_time,
            run: batch.run,
        })
    }

    /// DEP-8: the gate, where it keeps a batch back.
    pub(crate) fn why_gated(&self, batch: &Batch) -> Option<Condition> {
        let gate = batch.gate().filter(|gate| !gate.is_open())?;
        let (message, since) = match (&gate.word, gate.number) {
            (Some(word), _) => (format!("the quality service refused it: {}", word.reason), Some(word.at)),
            (None, 0) => {
                let message = "the quality service is asked when all else is met".to_owned();
                (message, Some(batch.since))
            }
            (None, number) => {
                let sent = if gate.taken_by.is_some() { "sent" } else { "to be sent" };
                let message = format!("waits for the quality service; question {number} is {sent}");
                (message, gate.asked_since)
            }
        };
        Some(Condition::new("quality_gate", message, since))
    }

    /// A batch for which all but the gate is met.
    pub(crate) fn request_quality_check(&mut self, id: BatchId) {
        let never_asked =
            |batch: &Batch| batch.gate().is_some_and(|gate| gate.number == 0 && gate.word.is_none());
        if self.batches.get(&id).is_some_and(never_asked) {
            self.external.quality.due.insert(id);
        }
    }

    pub(crate) fn quality_requested(
        &mut self,
        now: Timestamp,
        id: BatchId,
        number: u32,
        again_at: Timestamp,
    ) {
        self.settle_gate(id);
        self.external.quality.open.insert(id);
        self.timers.set(again_at, Timer::Quality(id));
        if let Some(gate) = self.gate_mut(id) {
            gate.number = number;
            gate.taken_by = None;
            gate.again_at = Some(again_at);
            gate.asked_since.get_or_insert(now);
        }
    }

    pub(crate) fn quality_sent(&mut self, id: BatchId, by: &Incarnation) {
        self.external.quality.open.remove(&id);
        if let Some(gate) = self.gate_mut(id) {
            gate.taken_by = Some(by.clone());
        }
    }

    pub(crate) fn quality_answered(&mut self, now: Timestamp, id: BatchId, allowed: bool, reason: &str) {
        self.settle_gate(id);
        if let Some(gate) = self.gate_mut(id) {
            gate.word = Some(Word { allowed, reason: reason.to_owned(), at: now });
        }
        if allowed {
            self.make_ready(now, id);
        } else {
            self.make_unready(now, id);
        }
    }

    /// Nothing is asked about the batch any more.
    pub(crate) fn settle_gate(&mut self, id: BatchId) {
        self.external.quality.due.remove(&id);
        self.external.quality.open.remove(&id);
        let at = self.gate_mut(id).and_then(|gate| gate.again_at.take());
        self.timers.cancel(at, Timer::Quality(id));
    }

    pub(crate) fn gate_mut(&mut self, id: BatchId) -> Option<&mut Gate> {
        self.batches.get_mut(&id)?.needs.as_deref_mut()?.gate.as_deref_mut()
    }
}
