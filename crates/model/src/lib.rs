//! The vocabulary that every part of Tidemill speaks: ids, job definitions, commands (requests),
//! events (facts), rejections, envelopes, and the messages between owners and workers.
//!
//! Pure data. This crate never reads a clock, never does I/O and knows no rule beyond the bounds of
//! single values; what may follow what is decided in `tidemill-engine`.
//!
//! Start reading at [`Command`] and [`Event`], then [`Envelope`], which is what a journal record holds.

pub mod bounds;
mod bulk;
mod calendar;
mod causes;
mod command;
mod credential;
mod definition;
mod directory;
mod envelope;
mod event;
mod event_kind;
mod execution;
mod external_dependency;
mod external_work;
mod facts;
mod fields;
mod firing;
mod foreign;
mod freeze;
mod hex;
mod id;
mod json;
mod level;
mod limits;
mod live;
mod logs;
mod moved;
mod name;
mod output;
mod parent_list;
mod permission;
mod pools;
mod pull;
mod rejection;
mod rerun;
mod resources;
mod slips;
mod spec;
mod status;
mod time;
mod timeouts;
mod unreadable;
mod versioned;
mod work;

pub use bulk::{BulkAction, BulkOutcome, MAX_BULK_ITEMS};
pub use calendar::{Calendar, CalendarSpec, Weekday};
pub use causes::causes;
pub use command::{
    AccessCommand, Actor, BatchCommand, BulkCommand, CatalogueCommand, Command, CommandRecord,
    CredentialCommand, Deletion, DirectoryCommand, Heartbeat, JobCommand, Leaving, LevelCommand,
    ObservationCommand, Registration, RerunCommand, Role, SEAL_BYTES, ShardCommand, ShardMessage,
    StartRequest, Submission, TaskCommand, UnfinishedJob, WorkerCommand, seal_parts, sealed_value,
};
pub use credential::{
    Credential, CredentialEnd, CredentialKind, CredentialProof, CredentialUse, CredentialsToEnd,
};
pub use definition::{
    GroupSettings, JobDefinition, Mapping, MissedRuns, OnParentFailure, OnSilence, Parent, Period, Priority,
    Program, RunIf, ScheduleRule, ScheduleSpec,
};
pub use directory::{
    Department, DirectoryChange, DirectoryFile, Language, Person, Refusal, RefusalReason, Rota, RotaOverride,
};
pub use envelope::{
    Answer, Cause, Envelope, EnvelopeJson, JobChange, JobChangeKind, Outcome, Recorded, Resume, Source,
};
pub use event::{
    AccessEvent, AlarmEvent, ApplyEvent, AttemptEvent, BatchEvent, BulkEvent, CatalogueEvent,
    CredentialEvent, DeletionEvent, DirectoryEvent, Event, FinalCommandEvent, JobEvent, LevelEvent,
    ObservationEvent, PartitionEvent, PermitEvent, ReplicationEvent, RerunEvent, ScheduleEvent,
    SubscriptionEvent, TaskEvent, TransferEvent, WorkerEvent,
};
pub use event_kind::{Audience, EventKind, Internal};
pub use execution::{AllowedAccounts, Backoff, Ending, ExitCodes, Factor, FinalResult, SuccessCheck};
pub use external_dependency::{
    DataPath, ExternalDependency, MAX_ANSWERS, MAX_CODE_BYTES, MAX_NEEDS, MAX_PATH_BYTES, PathAnswer,
    PathCheck, PathSpec, ProbeReport, QualityQuestion, ThirdPartyReport, WaivedParent, Waiver,
    WantedExternalDependency,
};
pub use external_work::{ExternalEnd, ExternalWork};
pub use facts::{
    AttemptOutcome, AttemptResult, BatchResult, CountedParents, Dependency, Fire, MAX_VALUES_BYTES, Origin,
    OverriddenResult, ReturnReason, SkipReason, Usage,
};
pub use fields::SpecField;
pub use firing::{BoundedMissedRuns, CalendarDays, CalendarUse, Firing, MissedRunsInput, Overlap, Shift};
pub use foreign::{ForeignParent, OrphanedChildren, Standing, Subscription};
pub use freeze::{Freeze, FreezeScope};
pub use hex::{from_hex, hex, text_or_hex};
pub use id::{
    BatchId, BulkId, ExternalDependencyId, GrantId, GroupId, Incarnation, InstanceId, JobId, Nonce,
    RequestId, RerunId, ShardId, TaskId, Token, WorkerId,
};
pub use json::Json;
pub use level::{Level, LevelCount, LevelHold, LevelState, Process, ReadError, too_new};
pub use limits::{Excess, ExcessKind, GroupLimits, LimitKind, LimitMeans, Limits, LimitsKept, RunningExcess};
pub use live::{
    ApplyPlan, BatchState, Concerned, Condition, FieldDiff, LeftOut, LiveAnswer, LiveQuery, MailboxState,
    NotifiedShard, PlannedChange, Why,
};
pub use logs::{
    FrameError, KeptLog, KeptStream, LogChunk, LogChunks, LogLines, LogMatch, LogMatches, LogOffsets,
    LogParts, LogPlace, LogStream, MAX_FRAME_BYTES, MAX_SHIPPED_AT_ONCE, ShipFrame, ShipFrames, ShipFrom,
    ShipRequest, Shipped, whole_lines,
};
pub use moved::{MovedJob, MovedRuns};
pub use name::{
    Account, CalendarName, CredentialId, DepartmentName, ExternalWorkId, GroupName, JobName, JobType,
    NameError, PersonName, PoolName, TemplateName, UserName, WorkerLabel,
};
pub use output::{
    MAX_OUTPUT_ANSWERS, MAX_WANTED_OUTPUTS, OUTPUT_WITHIN_MS, OutputAnswer, OutputFound, WantedOutput,
    is_newer,
};
pub use parent_list::{LISTED_PARENTS, parents_bytes};
pub use permission::{Grant, GrantOn, Permission};
pub use pools::{PermitReport, Pool, PoolHolder, PoolSpec, PoolUse, Rate};
pub use pull::{
    Executor, Field, FieldType, LastCompleted, Ledger, MovedOccurrence, MovedTask, NextDue, OccurrenceLedger,
    Parameters, PulledGrant, TaskLedger, TaskSpec, Template, TemplateSpec, UserHistory, UserStanding, When,
};
pub use rejection::{FieldError, Rejection, check_range};
pub use rerun::{
    Cascade, ColdStartOf, JobSkip, OrderedRun, PlannedBatch, PlannedJob, RecordedBatch, ReportedRun,
    RerunDefinition, RerunOnly, RerunOrder, RerunPlace, RerunResult, RerunScope, RerunSpec, RunOutcome,
    RunSkip, RunsQuery, SkippedJob, SkippedTimes, StartRun, TimesSkip,
};
pub use resources::{
    LiveUsage, Measure, Reserved, RunningAttempt, SlotUse, Sweep, TypeStatus, WorkerPresent, WorkerStatus,
};
pub use slips::{closest, is_close, slips};
pub use spec::{JobSpec, NOT_BUILT, ParentSpec, ScheduleInput, SpecFile};
pub use status::{AuthorityStatus, ProberStatus, SinkPartitionStatus, SinkStatus};
pub use time::Timestamp;
pub use timeouts::{AlarmKind, HourMinute, Severity, TimeOfDay, TimeoutKind};
pub use versioned::{Definable, Versioned};
pub use work::{Reply, RunSpec, StartRight, WorkMessage, parameter_variable};

/// Whether a value need not be written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What is so where nothing else is said.
fn yes() -> bool {
    true
}

/// How many there are where nothing else is said.
fn one() -> u32 {
    1
}
