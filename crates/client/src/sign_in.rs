//! People: signing in, tokens, and what else they sign in with.

use serde::Deserialize;
use serde_json::{Value, json};
use tidemill_model::{CredentialId, Permission, Timestamp};

use crate::call::Answer;
use crate::client::Client;
use crate::error::Error;

/// What a session shows: the pair of its cookie, and what a change needs beside that.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

/// A token of a person.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct Token {
    /// Its id, which is no secret.
    pub id: CredentialId,
    /// `tm_…`, as a key of [`crate::Builder::key`].
    pub token: String,
    /// From then on it is not good.
    pub expires_at: Timestamp,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Client {
    /// Signs a person in, and gives a client that calls as the person, until [`Client::sign_out`].
    ///
    /// # Errors
    /// As [`crate::Call::send`]; a wrong password is a refusal of status 401.
    pub fn sign_in(&self, person: &str, password: &str) -> Result<Client, Error> {
        let body = json!({ "person": person, "password": password });
        self.session(self.post("/api/sign-in").body(&body).unnamed().answer()?)
    }

    /// Uses an invitation: the person has this password from then on, and is signed in.
    ///
    /// # Errors
    /// As [`Client::sign_in`].
    pub fn redeem(&self, invitation: &str, person: &str, password: &str) -> Result<Client, Error> {
        let body = json!({ "code": invitation, "person": person, "password": password });
        self.session(self.post("/api/sign-in/invitation").body(&body).unnamed().answer()?)
    }

    /// Changes the password of who is signed in; the client that comes back goes on, other sessions end.
    ///
    /// # Errors
    /// As [`crate::Call::send`].
    pub fn change_password(&self, old: &str, new: &str) -> Result<Client, Error> {
        let body = json!({ "old": old, "new": new });
        self.session(self.put("/api/me/password").body(&body).unnamed().answer()?)
    }

    /// Makes a token for who is signed in. `may` empty: it may what the person may.
    ///
    /// # Errors
    /// As [`crate::Call::send`].
    pub fn make_token(&self, title: &str, may: &[Permission], days: Option<u16>) -> Result<Token, Error> {
        let body = json!({ "title": title, "may": may, "days": days });
        self.post("/api/me/tokens").body(&body).unnamed().send()
    }

    /// Ends the session.
    ///
    /// # Errors
    /// As [`crate::Call::send`].
    pub fn sign_out(&self) -> Result<(), Error> {
        self.post("/api/me/sign-out").send::<Value>().map(drop)
    }

    fn session(&self, answer: Answer) -> Result<Client, Error> {
        let cookie = answer.cookie.clone();
        let body = answer.judged(self, None)?;
        let csrf = body["csrf_token"].as_str().map(str::to_owned);
        let Some((cookie, csrf)) = cookie.zip(csrf) else {
            let title = "an answer without a session".to_owned();
            return Err(Error::Foreign { server: self.server.clone(), title });
        };
        Ok(Client { session: Some(Session { cookie, csrf }), key: None, ..self.clone() })
    }
}
