//! What the clients asked for, and what they were told.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// One batch of a job by hand.
    Run,
    /// The same logical time of a batch again.
    Rerun(i64),
    /// The end of a batch.
    Kill(i64),
    /// A job's definition with this comment.
    Apply(String),
    /// A job switched on or off.
    Switch(i64, bool),
    /// A job of no definition, once.
    Submit,
    /// Batches of a schedule again, by a plan.
    Plan,
    /// A third party's word for a logical time.
    Report(Timestamp),
    /// Whatever is due for a user.
    Pull(String),
    /// A grant is done.
    Complete(i64),
    /// A grant is given back.
    Return(i64),
    /// A task to pull.
    Task,
    /// A user's move to a group.
    Move(String, String),
    /// Something that no owner can grant.
    Absurd,
}

/// How it ended for the client.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// Done, with this answer.
    Ok(Value),
    /// Not done, and why.
    Refused(String),
    /// Nobody knows.
    Unknown(String),
}

/// A write of a client, all its tries together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Written {
    /// The name of the request; unique.
    pub key: String,
    /// What it was.
    pub action: Action,
    /// How often it was sent.
    pub tries: u32,
    /// When the last answer came, milliseconds since 1970.
    pub at_ms: i64,
    /// How it ended.
    pub told: Told,
}

/// A part of the standard output of an attempt, as a client was given it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Shown {
    /// Of which batch.
    pub batch: i64,
    /// Which attempt of it, from 1.
    pub attempt: u32,
    /// The byte that it begins with.
    pub offset: usize,
    /// The lines.
    pub content: String,
}

/// All that one client did.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct History {
    /// Its writes.
    pub writes: Vec<Written>,
    /// Parts of logs that it read.
    pub shown: Vec<Shown>,
    /// Reads with an answer.
    pub reads_ok: u64,
    /// Reads without one.
    pub reads_failed: u64,
    /// What the client itself saw go wrong.
    pub violations: Vec<String>,
}
