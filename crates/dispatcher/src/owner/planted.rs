//! What planted bugs of an owner need beyond a line at their place.

use tidemill_engine::{Effect, effects};
use tidemill_model::{BatchEvent, Envelope, Event, Fire, Origin};

use super::{Output, Owner};

impl Owner {
    /// Says at once what an envelope that was only just appended means outside.
    pub(super) fn said_early(&self, mut outputs: Vec<Output>, which: fn(&Effect) -> bool) -> Vec<Output> {
        let envelope = self.under_way.as_ref().and_then(|own| own.envelope.as_ref());
        let early = envelope.map(|envelope| effects(&self.state, envelope, self.journal_next));
        outputs.extend(early.unwrap_or_default().into_iter().filter(which).map(Output::Act));
        outputs
    }
}

pub(super) fn is_reply(effect: &Effect) -> bool {
    matches!(effect, Effect::Reply { .. })
}

pub(super) fn is_message(effect: &Effect) -> bool {
    !is_reply(effect)
}

/// The envelope as if its fires were still to come.
pub(super) fn not_fired(mut envelope: Envelope) -> Envelope {
    for recorded in &mut envelope.events {
        if let Event::Batch(BatchEvent::Generated { origin: Origin::Schedule, logical_time, next, .. }) =
            &mut recorded.event
        {
            *next = Some(Fire { at: *logical_time, logical_time: *logical_time });
        }
    }
    envelope
}
