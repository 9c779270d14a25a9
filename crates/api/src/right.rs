//! The right to one write, and what a request asks for.

use std::sync::{Arc, OnceLock};

use tidemill_model::{Actor, PersonName, RequestId, Token};

use crate::credential::{PROVIDER, SESSION};
use crate::secret::fingerprint;

/// What a request asks for that has an id of the caller's own (API-4), as a fingerprint. Clones share the body, which comes
/// after its head.
#[derive(Debug, Clone)]
pub(crate) struct Asks {
    head: u64,
    body: Arc<OnceLock<u64>>,
}

impl Asks {
    pub(crate) fn new<'p>(head: impl IntoIterator<Item = &'p [u8]>) -> Self {
        Self { head: fingerprint(head), body: Arc::default() }
    }

    /// The body has come. There is one.
    pub(crate) fn with_body(&self, bytes: &[u8]) {
        self.body.get_or_init(|| fingerprint([bytes]));
    }

    fn fingerprint(&self) -> u64 {
        match self.body.get() {
            Some(body) => fingerprint([&self.head.to_be_bytes()[..], &body.to_be_bytes()]),
            None => self.head,
        }
    }
}

/// The right to one write: whose it is. There is one where a [`Caller`] was found to have it.
#[derive(Debug, Clone)]
pub(crate) struct Right {
    actor: Actor,
    asks: Option<Asks>,
}

impl Right {
    pub(crate) fn new(actor: Actor, asks: Option<Asks>) -> Self {
        Self { actor, asks }
    }

    pub(crate) fn actor(&self) -> Actor {
        self.actor.clone()
    }

    /// Under a key that the caller chose for the request.
    pub(crate) fn request(&self, key: &str) -> RequestId {
        // Whoever is signed in has names of their own: no name of an application or a person has a slash.
        let whose = match &self.actor.user {
            Some(person) if *self.actor.app == *SESSION => format!("{SESSION}/{person}").into(),
            Some(_) | None => Arc::clone(&self.actor.app),
        };
        match &self.asks {
            Some(asks) => RequestId::of_client(&whose, key, asks.fingerprint()),
            None => RequestId::new(format!("{whose}:{key}")),
        }
    }

    /// A person who has shown who they are, about what they sign in with.
    pub(crate) fn of_person(name: &PersonName) -> Self {
        Self { actor: Actor { app: SESSION.into(), user: Some(name.as_str().into()) }, asks: None }
    }

    /// What the provider says of a person, by whom that person signs in.
    pub(crate) fn of_provider(name: &PersonName) -> Self {
        Self { actor: Actor { app: PROVIDER.into(), user: Some(name.as_str().into()) }, asks: None }
    }

    /// The program of a running attempt, for the command of its own that its key was found good for. Request ids count for
    /// one application each: of two attempts that choose the same one, each has its own. No application's name holds a
    /// colon.
    pub(crate) fn of_attempt(token: Token, asks: Asks) -> Self {
        Self { actor: Actor { app: format!("attempt:{token}").into(), user: None }, asks: Some(asks) }
    }
}
