use std::sync::Arc;

use tidemill_derive::{Aggregate, vocabulary};

use crate::{Actor, InstanceId, JobId, JobSpec, RequestId};

/// Applies that are too large for one record: staged, committed, carried out.
#[vocabulary(Aggregate)]
#[event(subject = "apply/{apply}")]
pub enum ApplyEvent {
    /// Part of a large request is there; without effect until it is committed.
    #[event(kind = "jobs.staged", internal = "ApplyStep")]
    Staged {
        /// Which request.
        apply: RequestId,
        /// The part's number, from 0.
        part: u32,
        /// As written.
        jobs: Arc<Vec<JobSpec>>,
    },
    /// What was staged is forgotten: nobody committed it in time, or newer stagings needed its place.
    #[event(kind = "staging.discarded", internal = "ApplyStep")]
    StagingDiscarded {
        /// Which request.
        apply: RequestId,
    },
    /// A client commits a staged apply, which is then carried out to its end.
    ///
    /// Until then no other change of definitions is accepted.
    #[event(kind = "apply.committed", public)]
    Committed {
        /// Which request.
        apply: RequestId,
        /// The jobs that are deleted when all others are defined.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        delete: Vec<JobId>,
        /// Its jobs are defined ancestors first; absent: as they were staged, which is how it was done at first.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ancestors_first: bool,
        /// Who wants what is unfinished of those ended.
        cancel: Option<Actor>,
        /// Jobs that others name as parent are deleted, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
        /// The request id.
        request: Option<RequestId>,
        /// Who waits for its end.
        reply_to: Option<InstanceId>,
        /// Who asked for it; absent in records of versions that did not note it.
        by: Option<Actor>,
        /// DSP-2: its key was found to have the accounts of all that it changes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        accounts_found: bool,
    },
    /// A chunk of a committed request is carried out.
    #[event(kind = "apply.advanced", internal = "ApplyStep")]
    Advanced {
        /// Which request.
        apply: RequestId,
        /// How many of its jobs and deletions are done.
        done: u32,
        /// Who asked for it; absent in records of versions that did not note it.
        by: Option<Actor>,
    },
    /// The catalogue has carried out every change of a committed apply.
    #[event(kind = "apply.finished", public)]
    Finished {
        /// Which request.
        apply: RequestId,
        /// Its request id.
        request: Option<RequestId>,
        /// Who waits for it.
        reply_to: Option<InstanceId>,
        /// Who asked for it; absent in records of versions that did not note it.
        by: Option<Actor>,
    },
}
