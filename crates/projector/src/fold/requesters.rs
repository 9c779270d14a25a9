//! Who asked for the facts of an envelope.

use tidemill_model::{
    Actor, ApplyEvent, Cause, DeletionEvent, Envelope, Event, JobEvent, PartitionEvent, Recorded, Source,
};

/// Who asked for each fact of an envelope, in order.
///
/// A command names its sender. What an owner carries out later, by itself or once another shard has answered, names
/// the requester in one of the facts that it makes at the same time.
pub(super) struct Requesters<'a> {
    causes: std::slice::Iter<'a, Cause>,
    events: &'a [Recorded],
    left: u32,
    by: Option<&'a Actor>,
}

impl<'a> Requesters<'a> {
    pub(super) fn of(envelope: &'a Envelope) -> Self {
        Self { causes: envelope.causes.iter(), events: &envelope.events, left: 0, by: None }
    }

    pub(super) fn next(&mut self) -> Option<Actor> {
        while self.left == 0 {
            let cause = self.causes.next()?;
            self.left = cause.events;
            let made = self.events.len().min(cause.events as usize);
            let (made, later) = self.events.split_at(made);
            self.events = later;
            self.by = requester(&cause.source, made);
        }
        self.left -= 1;
        self.by.cloned()
    }
}

/// Who asked for what came of a source; `None`: nobody did.
pub(super) fn requester<'a>(source: &'a Source, made: &'a [Recorded]) -> Option<&'a Actor> {
    let named = made.iter().find_map(|recorded| match &recorded.event {
        Event::Apply(ApplyEvent::Advanced { by, .. } | ApplyEvent::Finished { by, .. })
        | Event::Job(JobEvent::Moved { by, .. })
        | Event::Deletion(DeletionEvent::Decided { by, .. }) => by.as_ref(),
        _ => None,
    });
    let first = made.first().map(|recorded| &recorded.event);
    let is_message = matches!(first, Some(Event::Partition(PartitionEvent::MessageReceived { .. })));
    match source {
        Source::Command { actor, .. } => named.or((!is_message).then_some(actor)),
        Source::Timer | Source::Observed => named,
    }
}
