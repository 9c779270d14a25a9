//! What goes along with a job that moves to another group (JOB-9).

use std::collections::BTreeMap;

use tidemill_derive::vocabulary;

use crate::{BatchResult, Fire, Timestamp};

/// What the old group's shard knows of a job that it lets go. Nothing of it is unfinished.
#[vocabulary(Default, Eq)]
pub struct MovedJob {
    /// The newest run of each of its logical times, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<MovedRuns>,
    /// The fire that is to come.
    pub next: Option<Fire>,
    /// The logical time of its schedule up to which all is dealt with, where days of a calendar are left out.
    pub passed: Option<Timestamp>,
    /// The last batch of its schedule was behind its time, so more may be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub catching_up: bool,
    /// Since when it is switched off.
    pub disabled_since: Option<Timestamp>,
    /// While it is switched off: the time before which its schedule made no batches when it was switched off.
    pub skipped_before_off: Option<Timestamp>,
}

/// The newest runs of logical times at equal distances, of which the same is known.
#[vocabulary(Eq)]
pub struct MovedRuns {
    /// The first logical time.
    pub first: Timestamp,
    /// How many there are.
    #[serde(default = "crate::one", skip_serializing_if = "is_one")]
    pub times: u32,
    /// From one to the next, milliseconds; 0 for a single one.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub step_ms: i64,
    /// The number of the run.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub run: u32,
    /// How it ended.
    pub result: BatchResult,
    /// The version of its definition.
    pub version: u32,
    /// The parameters of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// It had parameters of its own, and they are not kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parameters_dropped: bool,
    /// What it passed on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// It passed values on, and they are not kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub values_dropped: bool,
}

impl MovedRuns {
    /// Its logical times, oldest first.
    pub fn logical_times(&self) -> impl Iterator<Item = Timestamp> + '_ {
        let step = jiff::SignedDuration::from_millis(self.step_ms);
        let next = move |time: &Timestamp| time.checked_add(step).ok();
        std::iter::successors(Some(self.first), next).take(self.times as usize)
    }
}

fn is_one(times: &u32) -> bool {
    *times == 1
}
