//! Calls of clients that pull tasks.

use serde::Deserialize;
use serde_json::{Value, json};
use tidemill_model::{GrantId, TaskId, Timestamp};

use crate::client::{Client, Written};
use crate::error::Error;

/// What a user is to do, or when to ask again.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Pulled {
    /// What the user is to do; none: nothing is due.
    pub grant: Option<Grant>,
    /// Where nothing is due: when the next task begins for the user, as far as is known.
    pub next_at: Option<Timestamp>,
    /// Where nothing is due: after how many seconds to pull again, 1 to 30.
    pub retry_after_s: Option<u64>,
}

/// A task that is given to a user until its lease ends.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Grant {
    /// Its number, with which it is completed or returned.
    pub grant: GrantId,
    /// The task.
    pub task: TaskId,
    /// The parameters of the task.
    #[serde(default)]
    pub parameters: Value,
    /// When the lease ends: a result that comes later is refused. None: it does not end.
    pub expires_at: Option<Timestamp>,
    /// Whether the user had it already.
    #[serde(default)]
    pub redo: bool,
}

impl Client {
    /// Asks for the next task of a user, and waits up to `wait_s` seconds for one, 0 to 30.
    ///
    /// # Errors
    /// The user has no group, or as [`Call::send`](crate::Call::send). Asked again, the server gives the same grant.
    pub fn pull(&self, user: &str, wait_s: u32) -> Result<Pulled, Error> {
        self.post("/api/pull").body(&json!({ "user": user, "wait_s": wait_s })).send()
    }

    /// Says what came of a grant, 1 to 4,096 bytes.
    ///
    /// # Errors
    /// Its lease is over, another result was given, or as [`Call::send`](crate::Call::send).
    pub fn complete(&self, user: &str, grant: GrantId, result: &str) -> Result<Written, Error> {
        let body = json!({ "user": user, "grant": grant, "result": result });
        self.post("/api/pull/complete").body(&body).send()
    }

    /// Gives a grant back: others can have the task. `reason` is for people.
    ///
    /// # Errors
    /// It is not live, or as [`Call::send`](crate::Call::send).
    pub fn give_back(&self, user: &str, grant: GrantId, reason: &str) -> Result<Written, Error> {
        let body = json!({ "user": user, "grant": grant, "reason": reason });
        self.post("/api/pull/return").body(&body).send()
    }
}
