//! Requests. Anyone with the right may append one; only the owner of the shard decides it.
//!
//! A command belongs to one aggregate, which has a file here unless it is short; the aggregate says whose shard decides it.

mod batch;
mod catalogue;
mod credential;
mod job;
mod level;
mod sealed;
mod shard_message;
mod worker;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::{Levelled, Word, vocabulary};

pub use self::batch::{BatchCommand, Submission};
pub use self::catalogue::CatalogueCommand;
pub use self::credential::CredentialCommand;
pub use self::job::{Deletion, JobCommand};
pub use self::level::LevelCommand;
pub use self::sealed::{SEAL_BYTES, seal_parts, sealed_value};
pub use self::shard_message::{ShardMessage, UnfinishedJob};
pub use self::worker::{Heartbeat, Leaving, Registration, StartRequest, WorkerCommand};
use crate::{
    BatchId, BulkAction, BulkId, BulkOutcome, DirectoryChange, ExternalDependencyId, GrantId, InstanceId,
    Json as _, Level, OutputAnswer, PathAnswer, ReadError, Refusal, RequestId, RerunId, RerunSpec, ShardId,
    TaskId, TaskSpec, Timestamp, Token, UserName, WorkerId,
};

/// Who requests it.
#[vocabulary(Eq, Default)]
pub struct Actor {
    /// The application key's name, or the role of the program (`worker`, `owner`).
    pub app: Arc<str>,
    /// The person, as the application names them.
    pub user: Option<Arc<str>>,
}

impl Actor {
    /// The owner of a partition, for what the state asks for by itself.
    pub fn owner() -> Self {
        Self { app: "owner".into(), user: None }
    }
}

/// What an application key allows.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Word)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, submits and acts on the groups it is bound to.
    User,
    /// Everything but keys and groups.
    Administrator,
    /// Everything.
    SuperAdministrator,
}

/// One record of the commands topic.
#[vocabulary]
pub struct CommandRecord {
    /// Which shard decides it.
    pub shard: ShardId,
    /// Kept over the sender's retries.
    pub request: Option<RequestId>,
    /// Who waits for the outcome.
    pub reply_to: Option<InstanceId>,
    /// Who requests it.
    pub actor: Actor,
    /// What.
    pub command: Command,
}

macro_rules! commands {
    ($($(#[doc = $doc:literal])+ $aggregate:ident($command:ident),)+) => {
        /// A request.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Command {
            $($(#[doc = $doc])+ $aggregate($command),)+
        }

        impl Command {
            /// The level since which it may be written (rule 13).
            #[must_use]
            pub const fn level(&self) -> Level {
                match self {
                    $(Self::$aggregate(command) => command.level(),)+
                }
            }
        }

        $(impl From<$command> for Command {
            fn from(command: $command) -> Self {
                Self::$aggregate(command)
            }
        })+
    };
}

commands! {
    /// What the catalogue keeps besides jobs. To the catalogue.
    Catalogue(CatalogueCommand),
    /// People and departments. To the catalogue.
    Directory(DirectoryCommand),
    /// What people sign in with. To the catalogue.
    Credential(CredentialCommand),
    /// What the audit list is to have of calls. To the catalogue.
    Access(AccessCommand),
    /// Definitions of jobs. To the catalogue.
    Job(JobCommand),
    /// Reruns and backfills (cold starts). To the catalogue.
    Rerun(RerunCommand),
    /// One action for many batches or jobs. To the catalogue.
    Bulk(BulkCommand),
    /// Processes and the level of what is written. To the catalogue.
    Level(LevelCommand),
    /// Tasks that clients pull. To the shard of the group.
    Task(TaskCommand),
    /// Batches. To the shard of the group.
    Batch(BatchCommand),
    /// What is found out outside. To the shard that waits for it.
    Observation(ObservationCommand),
    /// Workers, and what they say of attempts. To the shard of the group.
    Worker(WorkerCommand),
    /// From owner to owner.
    Shard(ShardCommand),
}

/// People and departments. To the catalogue.
#[vocabulary(Levelled)]
pub enum DirectoryCommand {
    /// Changes the directory: all of it, or nothing.
    #[level(4)]
    Change {
        /// The changes of the directory that were made before, as whoever planned these knew it: where it is another number by now,
        /// nothing is changed.
        revision: u64,
        /// What changes, 1 to 200.
        changes: Vec<DirectoryChange>,
    },
}

/// What the audit list is to have of calls. To the catalogue.
#[vocabulary(Levelled)]
pub enum AccessCommand {
    /// Calls that an interface refused.
    #[level(4)]
    ReportRefusals {
        /// 1 to 100.
        refusals: Vec<Refusal>,
    },
}

/// Reruns and backfills (cold starts). To the catalogue.
#[vocabulary(Levelled)]
pub enum RerunCommand {
    /// Plans a rerun or a cold start.
    Plan(Box<RerunSpec>),
    /// Lets a planned one run.
    Approve {
        /// Which.
        rerun: RerunId,
    },
    /// Starts no more of it for now.
    Pause {
        /// Which.
        rerun: RerunId,
    },
    /// Goes on with it.
    Resume {
        /// Which.
        rerun: RerunId,
    },
    /// Starts no more of it.
    Cancel {
        /// Which.
        rerun: RerunId,
        /// Also end what runs of it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        kill: bool,
    },
}

/// One action for many batches or jobs. To the catalogue.
#[vocabulary(Levelled)]
pub enum BulkCommand {
    /// One action for many batches or jobs, as one operation (BYD-3).
    Request {
        /// What to do.
        action: BulkAction,
        /// The ids of the batches or jobs, at most 5,000.
        items: Vec<i64>,
        /// Why, 1 to 500 characters.
        reason: String,
    },
    /// What came of items of an operation.
    Report {
        /// Which operation.
        bulk: BulkId,
        /// Of each item, at most 200.
        outcomes: Vec<BulkOutcome>,
    },
}

/// Tasks that clients pull. To the shard of the group.
#[vocabulary(Levelled)]
pub enum TaskCommand {
    /// A new task (PUL-2, PUL-3).
    Create {
        /// As written.
        spec: TaskSpec,
    },
    /// Changes a task. Live grants keep what they were given.
    Change {
        /// Which.
        task: TaskId,
        /// As written; the executor stays.
        spec: TaskSpec,
    },
    /// Deletes a task. Its live grants can still be completed.
    Delete {
        /// Which.
        task: TaskId,
    },
    /// A client asks for work (PUL-5): the live grant again, or the earliest task that is due for the user.
    Pull {
        /// Who.
        user: UserName,
    },
    /// A client has done it (PUL-7).
    Complete {
        /// Who.
        user: UserName,
        /// The live grant.
        grant: GrantId,
        /// 1 to 4,096 bytes.
        result: String,
    },
    /// A client, or somebody for it, gives a grant back.
    ReturnGrant {
        /// Who has it.
        user: UserName,
        /// The live grant.
        grant: GrantId,
        /// Why.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
}

/// What is found out outside. To the shard that waits for it.
#[vocabulary(Levelled)]
pub enum ObservationCommand {
    /// What probers found, to the shard that waits for it; at most 500 answers.
    ReportPaths {
        /// Those that change nothing are ignored.
        answers: Vec<PathAnswer>,
        /// The prober's seal, which an owner asks for from level 3 on, in hex. Owners of earlier versions pass over it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        seal: String,
    },
    /// A worker did not find, before start, what the batch needs: it is gone for all that wait for it, and the
    /// batch waits again (DEP-6).
    RecheckFailed {
        /// The assignment.
        token: Token,
        /// Who.
        worker: WorkerId,
        /// What is not there.
        external_dependencies: Vec<ExternalDependencyId>,
    },
    /// What probers found of outputs of lost attempts, to their shard; at most 64 answers (ZMB-1).
    #[level(3)]
    ReportOutputs {
        /// Those that nobody waits for any more are ignored.
        answers: Vec<OutputAnswer>,
        /// The prober's seal, in hex. Owners of earlier versions pass over it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        seal: String,
    },
    /// Probe at once (DEP-9): what one batch waits for, to its shard; everything, to the catalogue.
    ProbeNow {
        /// Which; absent: everything.
        batch: Option<BatchId>,
    },
}

/// From owner to owner.
#[vocabulary]
pub enum ShardCommand {
    /// A numbered message from another shard.
    Deliver {
        /// Which shard sends.
        from: ShardId,
        /// Its number in the outbox for this shard, from 1.
        number: u64,
        /// What it says.
        message: ShardMessage,
    },
    /// Another shard has applied this shard's messages up to a number.
    Acknowledge {
        /// The shard that received.
        from: ShardId,
        /// The last number applied.
        upto: u64,
    },
    /// Repairs a `now` that got ahead.
    SetTime {
        /// The time from which on the shard's clock counts again.
        now: Timestamp,
    },
    /// Panics while it is decided. Exists so that dead letters can be shown.
    #[doc(hidden)]
    #[schemars(skip)]
    PlantedPanic {},
}

impl ShardCommand {
    /// The level since which it may be written (rule 13): of a message, its own.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            Self::Deliver { message, .. } => message.level(),
            Self::Acknowledge { .. } | Self::SetTime { .. } | Self::PlantedPanic {} => Level::FIRST,
        }
    }
}

/// A command of a level after the first says which, for readers that cannot decode it.
#[derive(Serialize)]
struct OfLevel<'a> {
    level: Level,
    #[serde(flatten)]
    record: &'a CommandRecord,
}

impl CommandRecord {
    /// Its bytes, for the commands topic where `level` stands.
    ///
    /// # Panics
    /// When the command is of a higher level: not every process that may have to read it can.
    #[must_use]
    pub fn encoded(&self, level: Level) -> Vec<u8> {
        let needed = self.command.level();
        assert!(level.allows(needed), "a command of level {needed} is written where level {level} stands");
        if needed == Level::FIRST {
            return self.to_json().into_bytes();
        }
        serde_json::to_vec(&OfLevel { level: needed, record: self }).expect("plain data")
    }

    /// Decodes a record of the commands topic, sealed or not.
    ///
    /// # Errors
    /// Its body is no command that this version knows.
    pub fn decode(value: &[u8]) -> Result<Self, serde_json::Error> {
        Self::from_json(seal_parts(value).0)
    }

    /// Reads a record of the commands topic, up to a level. Whether its seal is right is the owner's to know.
    ///
    /// # Errors
    /// [`ReadError::TooNew`] for whatever is of a higher level, known here or not.
    pub fn read(value: &[u8], reads: Level) -> Result<Self, ReadError> {
        let (body, _) = seal_parts(value);
        let record = Self::from_json(body).map_err(|error| ReadError::of(error, body, reads))?;
        let level = record.command.level();
        if reads.allows(level) { Ok(record) } else { Err(ReadError::TooNew { level, reads }) }
    }
}
