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

    /// Appends it, in the order of the fields, so that equal values are the same text.
    fn write_json(&self, to: &mut Vec<u8>);

    /// What [`write_json`](Self::write_json) appends.
    fn to_json(&self) -> String {
        let mut json = Vec::with_capacity(128);
        self.write_json(&mut json);
        String::from_utf8(json).expect("JSON is text")
    }
}

macro_rules! json {
    ($($of:ty),+ $(,)?) => { $(
        impl Json for $of {
            fn from_json(json: &[u8]) -> Result<Self> {
                serde_json::from_slice(json)
            }

            fn write_json(&self, to: &mut Vec<u8>) {
                serde_json::to_writer(to, self).expect("the vocabulary is plain data with string keys");
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
