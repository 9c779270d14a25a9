use std::collections::{BTreeMap, BTreeSet};

use tidemill_derive::{Aggregate, vocabulary};

use crate::{
    Actor, AttemptOutcome, ExternalEnd, GroupSettings, Incarnation, JobType, LimitsKept, Measure, Reserved,
    RunningAttempt, Token, TypeStatus, WorkerId, WorkerLabel,
};

/// Workers.
#[vocabulary(Aggregate)]
#[event(subject = "worker/{worker}")]
pub enum WorkerEvent {
    /// A worker registers with the shard of its group.
    #[event(kind = "worker.registered", public)]
    Registered {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Its host's name.
        host: String,
        /// Where its logs are served.
        address: String,
        /// Attempts at once, by job type.
        slots: BTreeMap<JobType, u32>,
        /// What jobs can ask for it by.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        labels: BTreeSet<WorkerLabel>,
        /// The bounds that it is told, which it goes by until it registers again. Absent in old records: those
        /// of the group at this point.
        settings: Option<Box<GroupSettings>>,
        /// Slots that are kept for some jobs, by job type.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        reserved: BTreeMap<JobType, Reserved>,
        /// How it keeps limits of attempts; absent: it did not say.
        keeps: Option<LimitsKept>,
        /// What it can run, and why not the rest, by job type; empty: it did not say.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        types: BTreeMap<JobType, TypeStatus>,
    },
    /// A worker reports that the load or memory of its machine changed notably.
    #[event(kind = "worker.measured", public)]
    Measured {
        /// Which.
        worker: WorkerId,
        /// How it stands.
        #[serde(flatten)]
        measure: Measure,
        /// It is beyond a bound of its group, and gets no work until it has recovered.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        overloaded: bool,
    },
    /// A worker sends no heartbeat for longer than its limit.
    #[event(kind = "worker.lost", public)]
    Lost {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// A lost worker sends a heartbeat again, without having restarted.
    #[event(kind = "worker.recovered", public)]
    Recovered {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// The lease of a lost worker expires: none of its processes is running any more.
    #[event(kind = "lease.expired", public)]
    LeaseExpired {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// A person vouches that nothing of a lost worker runs any more.
    ///
    /// What it held ends as with a lease that expires.
    #[event(kind = "worker.end_vouched", public, level = 2)]
    EndVouched {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Who vouches.
        by: Actor,
        /// How they know, for people.
        reason: String,
    },
    /// Half of the lease of a lost worker has passed: what it runs is ended when the rest has.
    #[event(kind = "worker.lease_half_over", public, level = 3)]
    LeaseHalfOver {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// A worker that was told to stop reports that it leaves, and gets no new work.
    ///
    /// What it has not started goes to others at once.
    #[event(kind = "worker.leaving", public, level = 3)]
    Leaving {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// What runs goes on, for the worker's next life to take over; else it is ended after a while.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keeps_jobs: bool,
    },
    /// A leaving worker has ended, and nothing runs on it any more.
    #[event(kind = "worker.left", public, level = 3)]
    Left {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
    /// A worker that registers runs attempts of a lost life of the log, which are held as strays.
    ///
    /// An alarm follows. No batch of their jobs and logical times starts until each of them has ended, or a person adopts it.
    #[event(kind = "worker.strays_found", public, level = 3)]
    StraysFound {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// What it runs; at most 1,000.
        strays: Vec<RunningAttempt>,
    },
    /// A person requests the end of a stray.
    #[event(kind = "worker.stray_kill_requested", public, level = 3)]
    StrayKillRequested {
        /// Where it runs.
        worker: WorkerId,
        /// The attempt to be ended.
        token: Token,
        /// Who.
        by: Actor,
        /// Why.
        reason: String,
    },
    /// A stray has ended, and holds its logical time no more.
    ///
    /// Its worker says so, or a person vouches for the worker.
    #[event(kind = "worker.stray_ended", public, level = 3)]
    StrayEnded {
        /// Where it ran.
        worker: WorkerId,
        /// The attempt.
        token: Token,
        /// How it ended, as its worker says; absent: it does not say. It counts for no batch.
        outcome: Option<AttemptOutcome>,
        /// What it started elsewhere; absent: nothing, and nothing of that is left. What nobody confirms to have ended is for the next attempt
        /// of its logical time to end.
        external: Option<Box<ExternalEnd>>,
    },
    /// A client drains a worker, which gets no new work.
    #[event(kind = "worker.drained", public)]
    Drained {
        /// Which.
        worker: WorkerId,
    },
    /// A client resumes a drained worker, which gets work again.
    #[event(kind = "worker.resumed", public)]
    Resumed {
        /// Which.
        worker: WorkerId,
    },
    /// A client drains a host: its workers get no new work, those that register later among them.
    ///
    /// `worker.drained` follows for each of them.
    #[event(kind = "host.drained", subject = "host/{host}", public, level = 3)]
    HostDrained {
        /// Which.
        host: String,
        /// Who.
        by: Actor,
        /// Why, for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// The last attempt on a drained host has ended, and nothing is assigned there.
    #[event(kind = "host.emptied", subject = "host/{host}", public, level = 3)]
    HostEmptied {
        /// Which.
        host: String,
    },
    /// A client resumes a drained host, and its workers get work again.
    ///
    /// `worker.resumed` follows for each of them.
    #[event(kind = "host.resumed", subject = "host/{host}", public, level = 3)]
    HostResumed {
        /// Which.
        host: String,
        /// Who.
        by: Actor,
    },
    /// A worker reports that it cannot take new work.
    #[event(kind = "worker.unready", public)]
    Unready {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Why, for people.
        reason: String,
    },
    /// A worker reports that it can take work again.
    #[event(kind = "worker.ready", public)]
    Ready {
        /// Which.
        worker: WorkerId,
        /// Which life of it.
        incarnation: Incarnation,
    },
}
