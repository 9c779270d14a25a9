//! What a decision consists of, and what decides a request whose outcome comes with a later record than the one that took
//! it in.

use tidemill_model::{
    Answer, ApplyEvent, CatalogueEvent, DeletionEvent, Event, InstanceId, JobEvent, Outcome, Rejection,
    RequestId, Token, WorkMessage, WorkerId,
};

use crate::effect::Effect;

/// What came of a command or a timer, before anything was applied.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    /// The facts, or why there are none.
    pub ruling: Ruling,
    /// What somebody must hear though nothing changed: a worker that it is unknown or a token stale, a shard
    /// that its message had arrived before. Each says only what any later state says as well, so it may be
    /// sent late, twice or never.
    pub notices: Vec<Effect>,
}

/// What a rule comes to: a decision, or why there is none.
pub(crate) type Ruled = Result<Decision, Rejection>;

/// Accepted or refused.
#[derive(Debug, Clone, PartialEq)]
pub enum Ruling {
    /// These facts, and perhaps something for the sender.
    Accepted {
        /// In order.
        events: Vec<Event>,
        /// For a sender that waits.
        answer: Option<Answer>,
    },
    /// Nothing changes.
    Refused(Rejection),
}

impl Default for Ruling {
    fn default() -> Self {
        Ruling::Accepted { events: Vec::new(), answer: None }
    }
}

impl Decision {
    /// Accepted without an answer of its own.
    pub fn events(events: Vec<Event>) -> Self {
        Self { ruling: Ruling::Accepted { events, answer: None }, notices: Vec::new() }
    }

    /// This one fact, without an answer of its own.
    pub fn of(event: impl Into<Event>) -> Self {
        Self::events(vec![event.into()])
    }

    /// Accepted, with something for the sender.
    pub fn answered(events: Vec<Event>, answer: Answer) -> Self {
        Self { ruling: Ruling::Accepted { events, answer: Some(answer) }, notices: Vec::new() }
    }

    /// This one fact, of which the sender hears that it is done.
    pub fn done(event: impl Into<Event>) -> Self {
        Self::answered(vec![event.into()], Answer::Done)
    }

    /// What the sender wants is so already.
    pub fn unchanged(answer: Answer) -> Self {
        Self::answered(Vec::new(), answer)
    }

    /// Nothing to do, and that is fine.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// The token is not that worker's to act on, and it hears that.
    pub(crate) fn refused(worker: &WorkerId, token: Token, reason: &str) -> Self {
        let message = WorkMessage::Refused { token, reason: reason.to_owned() };
        Self::from(Rejection::stale(token, reason)).telling(worker, message)
    }

    /// Nothing changes, and this worker hears again what it may have missed.
    pub(crate) fn repeated(worker: &WorkerId, message: Option<WorkMessage>) -> Self {
        message.into_iter().fold(Self::nothing(), |decision, message| decision.telling(worker, message))
    }

    /// All that was accepted; nothing, where it was refused.
    pub fn into_events(self) -> Vec<Event> {
        match self.ruling {
            Ruling::Accepted { events, .. } => events,
            Ruling::Refused(_) => Vec::new(),
        }
    }

    /// The same, and this worker hears that.
    pub fn telling(mut self, worker: &WorkerId, message: WorkMessage) -> Self {
        self.notices.push(Effect::Work { worker: worker.clone(), message });
        self
    }
}

impl From<Rejection> for Decision {
    fn from(rejection: Rejection) -> Self {
        Self { ruling: Ruling::Refused(rejection), notices: Vec::new() }
    }
}

impl From<Ruled> for Decision {
    fn from(result: Ruled) -> Self {
        result.unwrap_or_else(Decision::from)
    }
}

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
        } else if let Event::Apply(ApplyEvent::Finished { request, reply_to, .. })
        | Event::Catalogue(CatalogueEvent::UserMoved { request, reply_to, .. })
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
