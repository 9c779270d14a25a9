//! How the vocabulary is written as JSON, and read again: compiled once, here.

use serde_json::Result;

use crate::{
    CommandRecord, Envelope, Event, JobDefinition, JobSpec, MovedJob, MovedRuns, Outcome, Recorded,
    Rejection, Reply, RerunSpec, TaskSpec, WorkMessage,
};

/// What goes through the log, and what that is made of. `serde_json` says the same of it, in some thousand functions, which
/// every crate that called it would compile again.
pub trait Json: Sized {
    /// Of the JSON that [`to_json`](Self::to_json) gives.
    fn from_json(json: &[u8]) -> Result<Self>;

    /// In the order of the fields, so that equal values are the same text.
    fn to_json(&self) -> String;
}

macro_rules! json {
    ($($of:ty),+ $(,)?) => { $(
        impl Json for $of {
            fn from_json(json: &[u8]) -> Result<Self> {
                serde_json::from_slice(json)
            }

            fn to_json(&self) -> String {
                serde_json::to_string(self).expect("the vocabulary is plain data with string keys")
            }
        }
    )+ };
}

json!(
    CommandRecord,
    Envelope,
    Event,
    JobDefinition,
    JobSpec,
    MovedJob,
    MovedRuns,
    Outcome,
    Recorded,
    Rejection,
    Reply,
    RerunSpec,
    TaskSpec,
    WorkMessage,
);
