use tidemill_derive::{Levelled, vocabulary};

use crate::{GroupName, JobId, JobName, JobSpec, RequestId};

/// Definitions of jobs. To the catalogue.
#[vocabulary(Levelled)]
pub enum JobCommand {
    /// Adds and changes jobs, all or none.
    Apply {
        /// As written.
        jobs: Vec<JobSpec>,
        /// Also delete the jobs of these groups that are not named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prune: Vec<GroupName>,
        /// End what is unfinished of deleted jobs; else they are not deleted while something is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancel: bool,
        /// Delete jobs that others name as parent, too: these keep their definitions, and their batches go on waiting.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
    },
    /// Jobs of a request that is too large for one [`Self::Apply`]; without effect until its
    /// [`Self::Commit`].
    Stage {
        /// Which request; drawn by its sender.
        apply: RequestId,
        /// The part's number, from 0.
        part: u32,
        /// As written, in any order.
        jobs: Vec<JobSpec>,
    },
    /// Adds and changes the staged jobs, all or none.
    Commit {
        /// Which request.
        apply: RequestId,
        /// How many parts it has.
        parts: u32,
        /// Also delete the jobs of these groups that are not named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prune: Vec<GroupName>,
        /// End what is unfinished of deleted jobs; else they are not deleted while something is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancel: bool,
        /// Delete jobs that others name as parent, too: these keep their definitions, and their batches go on waiting.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
        /// Only if the catalogue's definitions are still those of this revision.
        if_revision: Option<u64>,
    },
    /// A job with a schedule or parents, known by its id; its name need not be unique.
    Define {
        /// As written.
        job: Box<JobSpec>,
        /// Its parents, by id.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parents: Vec<JobId>,
    },
    /// Gives a job another name in its group (JOB-9).
    Rename {
        /// Which job.
        job: JobId,
        /// Its new name.
        name: JobName,
    },
    /// Gives a job to another group (JOB-9), unless something of it is unfinished.
    Move {
        /// Which job.
        job: JobId,
        /// The group that runs it from then on.
        to: GroupName,
    },
    /// Switches generation on or off.
    Switch {
        /// Which job.
        job: JobId,
        /// Whether it generates batches.
        enabled: bool,
    },
    /// Removes a definition.
    Delete {
        /// Which job.
        job: JobId,
        /// End what is unfinished of it; else it is not deleted while something is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancel: bool,
        /// Delete it though other jobs name it as parent: these keep their definitions, and their batches go on waiting.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orphan_children: bool,
    },
}

/// A request to delete jobs, kept until it is known whether they have unfinished batches (JOB-9).
#[vocabulary]
pub enum Deletion {
    /// Of [`JobCommand::Apply`].
    Apply {
        /// As written.
        jobs: Vec<JobSpec>,
        /// Groups whose other jobs are deleted.
        prune: Vec<GroupName>,
    },
    /// Of [`JobCommand::Delete`].
    Delete {
        /// Which job.
        job: JobId,
    },
    /// Of [`JobCommand::Commit`].
    Staged {
        /// Which staging.
        apply: RequestId,
        /// How many parts it has.
        parts: u32,
        /// Groups whose other jobs are deleted.
        prune: Vec<GroupName>,
    },
}
