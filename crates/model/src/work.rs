//! What an owner says to workers and to those who wait for an outcome. All of it is derived from
//! accepted state, so it may be repeated; receivers drop repeats by token or request.

use std::collections::BTreeMap;

use tidemill_derive::{Levelled, vocabulary};

use crate::{
    Account, BatchId, Ending, ExternalWork, GroupLimits, GroupName, GroupSettings, Incarnation, JobId,
    JobName, JobType, Limits, Nonce, Outcome, PathCheck, Program, RequestId, ShardId, Timestamp, Token,
    WorkerId,
};

/// Everything a worker needs to run an attempt. Templates are already resolved.
#[vocabulary]
pub struct RunSpec {
    /// The attempt's fence.
    pub token: Token,
    /// The batch.
    pub batch: BatchId,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The job.
    pub job: JobId,
    /// Its name.
    pub job_name: JobName,
    /// Its group.
    pub group: GroupName,
    /// What kind of program it is.
    #[serde(rename = "type")]
    pub job_type: JobType,
    /// What to run.
    pub program: Program,
    /// For which logical time.
    pub logical_time: Timestamp,
    /// That time as the job's zone writes it, RFC 3339.
    pub logical_time_text: String,
    /// Which run of it.
    pub run: u32,
    /// Definition's and batch's parameters, merged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The longest that it may run, milliseconds.
    pub execution_timeout_ms: Option<u64>,
    /// Memory that it needs, MiB; absent: it does not say.
    pub memory_mb: Option<u32>,
    /// The account that it runs as; absent: the worker's own.
    pub run_as: Option<Account>,
    /// The path that exists if it has succeeded; absent: its exit code decides, or the owner.
    pub output_path: Option<String>,
    /// What its job says that it may use.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// What its group says.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub group_limits: GroupLimits,
    /// It is the final command of a batch that has ended so.
    pub ending: Option<Ending>,
    /// Earlier attempts of the batch whose external work is not known to have ended: the worker ends it before anything starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<ExternalWork>,
}

impl RunSpec {
    /// The environment variables that follow from it; a worker adds its own.
    pub fn variables(&self) -> BTreeMap<String, String> {
        let parameters =
            self.parameters.iter().map(|(name, value)| (parameter_variable(name), value.clone()));
        let mut variables: BTreeMap<_, _> = parameters.collect();
        let own = [
            ("TIDEMILL_JOB", self.job_name.to_string()),
            ("TIDEMILL_BATCH", self.batch.to_string()),
            ("TIDEMILL_ATTEMPT", self.attempt.to_string()),
            ("TIDEMILL_LOGICAL_TIME", self.logical_time_text.clone()),
            ("TIDEMILL_RUN", self.run.to_string()),
        ];
        variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
        if let Some(Ending { result, attempts, exit_code }) = &self.ending {
            let ending = [
                ("TIDEMILL_RESULT", result.as_str().to_owned()),
                ("TIDEMILL_EXIT_CODE", exit_code.map(|code| code.to_string()).unwrap_or_default()),
                ("TIDEMILL_ATTEMPTS", attempts.to_string()),
            ];
            variables.extend(ending.map(|(name, value)| (name.to_owned(), value)));
        }
        variables
    }
}

/// The environment variable in which an attempt finds the parameter of this name. Names that differ may share one.
pub fn parameter_variable(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("TIDEMILL_PARAM_{}", name.chars().map(letter).collect::<String>())
}

/// The right to start an attempt before the question is answered (rule 8). The worker still asks, and starts when the log
/// has its question, earlier than `window_ms` after it sent the heartbeat. No later heartbeat renews it.
#[vocabulary(Eq, Hash)]
pub struct StartRight {
    /// In this life of the worker.
    pub incarnation: Incarnation,
    /// Which heartbeat of that life counts.
    pub heartbeat: u64,
    /// For so long after its sending, milliseconds.
    pub window_ms: u64,
}

/// One record of the work topic, for one worker.
#[vocabulary(Levelled)]
pub enum WorkMessage {
    /// The worker is known; this is everything outstanding for it. Tokens of its own that are not listed
    /// are to be killed, listed ones that it does not have are to be reported as lost.
    Registered {
        /// To which life of the worker.
        incarnation: Incarnation,
        /// The shard that speaks.
        shard: ShardId,
        /// The group's bounds.
        settings: GroupSettings,
        /// Granted attempts of this worker that have not ended.
        granted: Vec<Token>,
    },
    /// The worker is not, or no longer, known: register again.
    Unregistered {
        /// To which life of the worker.
        incarnation: Incarnation,
        /// The shard that speaks; older owners do not say it.
        shard: Option<ShardId>,
    },
    /// Seal all that you report from now on for the owner of this key, and register again in the same life if you did not seal for
    /// it before (ADR 48).
    #[level(3)]
    SealReports {
        /// To which life of the worker.
        incarnation: Incarnation,
        /// The owner's X25519 public key, in hex.
        key: String,
    },
    /// Ask to start this.
    Assigned {
        /// To which worker.
        worker: WorkerId,
        /// Fences it.
        token: Token,
        /// What kind of program it will be.
        #[serde(rename = "type")]
        job_type: JobType,
        /// DEP-6: paths to look at first; what is not there is reported instead.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        checks: Vec<PathCheck>,
    },
    /// Start it.
    Granted {
        /// Only this life may.
        incarnation: Incarnation,
        /// Only for this question.
        nonce: Nonce,
        /// What to run.
        spec: Box<RunSpec>,
    },
    /// Do not start it, now or later.
    Refused {
        /// Which.
        token: Token,
        /// Why.
        reason: String,
    },
    /// End it, TERM first.
    Kill {
        /// Which.
        token: Token,
        /// From TERM to KILL, milliseconds.
        grace_ms: u64,
    },
    /// Ask to start this, and start it under this right.
    #[level(2)]
    AssignedWithRight {
        /// How long the right lasts.
        right: StartRight,
        /// What to run.
        spec: Box<RunSpec>,
    },
    /// The answer to a question that was asked under a right: it is granted. What to run is known.
    #[level(2)]
    Confirmed {
        /// Only this life may.
        incarnation: Incarnation,
        /// Only for this question.
        nonce: Nonce,
        /// Which.
        token: Token,
    },
    /// Give this back if it has not begun, and do not begin it any more.
    #[level(2)]
    AskedBack {
        /// Which.
        token: Token,
    },
    /// The end of this attempt is on record; what was kept to report it may go.
    Recorded {
        /// Which.
        token: Token,
    },
}

/// One record of the replies topic, for one instance.
#[vocabulary]
pub struct Reply {
    /// The sender's id of the command.
    pub request: RequestId,
    /// What came of it; never [`Outcome::Repeated`], which is resolved to the stored answer, nor
    /// [`Outcome::Deferred`], which is none yet.
    pub outcome: Outcome,
    /// The partition of the journal that holds the decision.
    pub partition: u32,
    /// The journal offset from which on reads show it.
    pub offset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_names_become_names_of_variables() {
        assert_eq!(parameter_variable("day-of.week2"), "TIDEMILL_PARAM_DAY_OF_WEEK2");
        assert_eq!(parameter_variable("日"), "TIDEMILL_PARAM__");
    }
}
