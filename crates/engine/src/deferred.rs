//! Requests whose outcome comes with a later record than the one that took them in.

use tidemill_model::{
    Answer, ApplyEvent, CatalogueEvent, DeletionEvent, Event, InstanceId, JobEvent, Outcome, RequestId,
};

use crate::catalogue::finished;

/// What came of a request that was put off.
#[derive(Debug)]
pub(crate) struct Decided<'a> {
    pub(crate) request: Option<&'a RequestId>,
    pub(crate) reply_to: Option<&'a InstanceId>,
    pub(crate) outcome: Outcome,
}

/// Whether a command with these events is answered later.
pub(crate) fn puts_off(events: &[Event]) -> bool {
    let asks = |event: &Event| {
        matches!(
            event,
            Event::Deletion(DeletionEvent::UnfinishedQueried { .. })
                | Event::Apply(ApplyEvent::Committed { .. })
                | Event::Job(JobEvent::MoveRequested { .. })
                | Event::Catalogue(CatalogueEvent::UserMoveRequested { .. })
        )
    };
    // An answer of a shard may ask again, for a request that was put off before.
    events.iter().any(asks)
        && !events
            .iter()
            .any(|event| matches!(event, Event::Deletion(DeletionEvent::UnfinishedReceived { .. })))
}

/// What an event says of a request that was put off.
pub(crate) fn decided(event: &Event) -> Option<Decided<'_>> {
    let (request, reply_to, outcome) =
        if let Event::Deletion(DeletionEvent::Decided { request, reply_to, outcome, .. }) = event {
            (request, reply_to, outcome.clone())
        } else if let Event::Apply(ApplyEvent::Finished { request, reply_to, .. }) = event {
            (request, reply_to, finished())
        } else if let Event::Catalogue(CatalogueEvent::UserMoved { request, reply_to, .. })
        | Event::Job(JobEvent::Moved { request, reply_to, .. }) = event
        {
            (request, reply_to, Outcome::Answered(Answer::Done))
        } else if let Event::Catalogue(CatalogueEvent::UserMoveRejected {
            request, reply_to, reason, ..
        })
        | Event::Job(JobEvent::MoveRejected { request, reply_to, reason, .. }) = event
        {
            (request, reply_to, Outcome::Refused(reason.clone()))
        } else {
            return None;
        };
    Some(Decided { request: request.as_ref(), reply_to: reply_to.as_ref(), outcome })
}
