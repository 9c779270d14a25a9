//! What holds of one envelope, whatever came before it.

use jiff::SignedDuration;
use tidemill_model::{
    Cause, Envelope, Event, Json as _, Outcome, PartitionEvent, Recorded, Rejection, Source, Timestamp,
};

use crate::{At, Invariant};

/// The most that one decision of a command may weigh, bytes of its events.
const MAX_DECISION_BYTES: usize = 256 * 1024;

/// `now_not_ahead_of_the_log`: owners stop when their clock is 5 s off, or steps by as much.
pub(super) fn now_not_ahead_of_the_log(at: &At<'_>, taken_ms: Option<i64>, tolerance: SignedDuration) {
    let Some(taken) = taken_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok()) else { return };
    // The log counts whole milliseconds.
    let slack = tolerance.saturating_mul(2).saturating_add(SignedDuration::from_millis(1));
    if at.now.duration_since(taken) > slack {
        let why = format!("the envelope's time is {}, and the log took it at {taken}", at.now);
        at.breaks(Invariant::NowNotAheadOfTheLog, why);
    }
}

/// `causes_cover_events`
pub(super) fn causes_cover_events(at: &At<'_>, envelope: &Envelope) -> bool {
    let sum: u64 = envelope.causes.iter().map(|cause| u64::from(cause.events)).sum();
    let covered = sum == envelope.events.len() as u64;
    if !covered {
        let why = format!("the causes account for {sum} events, and there are {}", envelope.events.len());
        at.breaks(Invariant::CausesCoverEvents, why);
    }
    covered
}

/// `refused_changes_nothing`
pub(super) fn refused_changes_nothing(at: &At<'_>, cause: &Cause, caused: &[Recorded]) {
    let is_set_aside = |event: &Event| match (event, &cause.source) {
        (
            Event::Partition(PartitionEvent::CommandDeadLettered { offset, .. }),
            Source::Command { offset: of, .. },
        ) => offset == of,
        _ => false,
    };
    let why = match &cause.outcome {
        Outcome::Done | Outcome::Answered(_) | Outcome::Deferred => return,
        Outcome::Refused(Rejection::DeadLettered { .. }) => {
            if caused.len() == 1 && is_set_aside(&caused[0].event) {
                return;
            }
            format!("a command that was set aside has {} events, not just that one", caused.len())
        }
        Outcome::Refused(_) | Outcome::Repeated if caused.is_empty() => return,
        Outcome::Refused(rejection) => {
            format!("a command refused ({}) has {} events", rejection.code(), caused.len())
        }
        Outcome::Repeated => format!("a repeated command has {} events", caused.len()),
    };
    at.breaks(Invariant::RefusedChangesNothing, why);
}

/// `envelopes_bounded`, of one decision; the frame bounds the record.
pub(super) fn decision_bounded(at: &At<'_>, events: &[Recorded]) {
    // Shorter than any decision that could be too large.
    if events.len() < 4 {
        return;
    }
    let bytes: usize = events.iter().map(|event| event.to_json().len()).sum();
    if bytes > MAX_DECISION_BYTES {
        let why = format!("one command has events of {bytes} bytes, and may have {MAX_DECISION_BYTES}");
        at.breaks(Invariant::EnvelopesBounded, why);
    }
}
