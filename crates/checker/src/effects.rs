//! What left the log: replies and work orders must stand in records that count.

use std::collections::HashSet;

use tidemill_model::{
    AttemptEvent, BatchEvent, Event, FinalCommandEvent, Json as _, Nonce, Outcome, Reply, RequestId,
    WorkMessage,
};

use crate::Invariant;
use crate::findings::{At, Findings, Violation};
use crate::requests::fingerprint;

/// What was said outside, until the journals are complete.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Off: nothing is kept.
    kept: bool,
    /// (partition, request, outcome) of every decision.
    decided: HashSet<(u32, u64, u64)>,
    /// Assignments and grants.
    ordered: HashSet<u64>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) work: Vec<WorkMessage>,
}

impl Effects {
    pub(crate) fn new(kept: bool) -> Self {
        Self { kept, ..Self::default() }
    }

    pub(crate) fn decided(&mut self, at: &At<'_>, request: &RequestId, outcome: &Outcome) {
        if self.kept && *outcome != Outcome::Repeated {
            self.decided.insert((at.partition, fingerprint(request), of_outcome(outcome)));
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if !self.kept {
            return;
        }
        match event {
            Event::Batch(BatchEvent::Assigned { token, worker, .. })
            | Event::FinalCommand(FinalCommandEvent::Assigned { token, worker, .. }) => {
                self.ordered.insert(fingerprint(&("assigned", token, worker)));
            }
            Event::Batch(BatchEvent::AssignedWithRight { token, right, .. }) => {
                self.ordered.insert(fingerprint(&("right", token, right)));
            }
            Event::Attempt(AttemptEvent::StartGranted { token, incarnation, nonce, .. })
            | Event::FinalCommand(FinalCommandEvent::Granted { token, incarnation, nonce, .. }) => {
                self.ordered.insert(fingerprint(&("granted", token, incarnation, nonce)));
            }
            // A question that nobody asked stands for its own.
            Event::Attempt(AttemptEvent::Adopted { token, incarnation, .. }) => {
                self.ordered.insert(fingerprint(&("granted", token, incarnation, Nonce::new(""))));
            }
            _ => {}
        }
    }

    /// `acknowledged_is_on_record` and `work_is_on_record`
    pub(crate) fn finish(&self, found: &Findings) {
        for reply in &self.replies {
            let key = (reply.partition, fingerprint(&reply.request), of_outcome(&reply.outcome));
            if !self.decided.contains(&key) {
                let why = format!("the reply to request {} stands in no record that counts", reply.request);
                let record = reply.to_json();
                let (rule, place) = (Invariant::AcknowledgedIsOnRecord, (reply.partition, reply.offset));
                found.violation(Violation { record, ..Violation::of(rule, place, why) });
            }
        }
        for message in &self.work {
            if let Some((key, what)) = wanted(message).filter(|(key, _)| !self.ordered.contains(key)) {
                let why = format!("{what} stands in no record that counts ({key:016x})");
                let record = message.to_json();
                let rule = Invariant::WorkIsOnRecord;
                found.violation(Violation { record, ..Violation::of(rule, (0, 0), why) });
            }
        }
    }
}

/// What a work order needs in the journal.
fn wanted(message: &WorkMessage) -> Option<(u64, String)> {
    match message {
        WorkMessage::Assigned { worker, token, .. } => {
            Some((fingerprint(&("assigned", token, worker)), format!("assignment {token}")))
        }
        WorkMessage::AssignedWithRight { right, spec } => Some((
            fingerprint(&("right", &spec.token, right)),
            format!("assignment {} with a right", spec.token),
        )),
        WorkMessage::Confirmed { incarnation, nonce, token } => {
            let key = fingerprint(&("granted", token, incarnation, nonce));
            Some((key, format!("confirmed grant {token}")))
        }
        WorkMessage::Granted { incarnation, nonce, spec } => {
            let key = fingerprint(&("granted", &spec.token, incarnation, nonce));
            Some((key, format!("grant {}", spec.token)))
        }
        // The others order nothing; a worker is also told to end what was never its own, so a kill needs no record.
        _ => None,
    }
}

fn of_outcome(outcome: &Outcome) -> u64 {
    fingerprint(&outcome.to_json())
}
