//! The calls of the interface, one file for each resource.

mod admin;
mod apply;
mod apply_body;
mod attempts;
mod batches;
mod bulk;
mod calendars;
mod codes;
mod dead_letters;
mod defined;
mod events;
mod external_dependencies;
mod freezes;
mod groups;
mod jobs;
mod keys;
mod logs;
mod open;
mod pools;
mod pull;
mod pull_calls;
mod pull_tasks;
mod pull_templates;
mod pull_users;
mod reruns;
mod run;
mod staged;
mod status;
mod versions;
mod workers;

use tidemill_model::{BatchId, JobId, Role};

pub(crate) use logs::{LINES, download_attempt, newest_attempt, read_part};
pub(crate) use reruns::clearing;
pub(crate) use run::{JobPlace, job_place};

use crate::JournalPosition;
use crate::openapi::{Call, Calls, Verb};
use crate::parameter::{Parameter, Rule};
use crate::params::MAX_LIMIT;
use crate::ports::OperationStatus;
use crate::view::{
    AttemptView, BatchDetail, BatchView, BulkItemView, BulkView, CalendarDetail, CalendarVersionDetail,
    CalendarVersionView, CalendarView, ChildView, DeadLetterDetail, DeadLetterView, FreezeView, GroupView,
    JobDetail, JobVersionDetail, JobVersionView, JobView, KeyView, LateProbeView, List, PoolDetail, PoolView,
    PreviewView, Redriven, RerunBatchView, RerunJobs, RerunView, ReturnView, SkippedRunsView, ThirdPartyView,
    VersionDiff, WorkerView, Written,
};
use crate::worker_logs::{LogPart, Stream};

const PAGE: [Parameter; 2] = [
    Parameter::new("limit", "Rows of this part, 1 to 1000; default 50.", Rule::Number(1, MAX_LIMIT as u64)),
    Parameter::text("cursor", "The `next` of the part before."),
];
const AS_OF: Parameter = Parameter::new(
    "as_of",
    "A moment of the past: a time as RFC 3339 has it, or a `position` of the batch's partition; absent: now. The journal is \
     read up to there, one such question at a time, for at most 30 seconds.",
    Rule::of::<batches::AsOf>(),
);
const AT_LEAST: Parameter = Parameter::new(
    "at_least",
    "A `position`; the answer waits until it shows that write.",
    Rule::of::<JournalPosition>(),
);

const REASON: Parameter = Parameter::text("reason", "Why, for the record; at most 500 characters.");

/// The calls that need a key, as `Authorization: Bearer <app>:<secret>`.
pub(crate) fn calls() -> Calls {
    let calls = pull::calls(pull_calls::calls(external_dependency_calls(worker_calls(pool_calls(
        calendar_calls(rerun_calls(bulk_calls(batch_calls(version_calls(job_calls(Calls::new())))))),
    )))));
    dead_letter_calls(calls)
}

#[expect(clippy::too_many_lines, reason = "a table with a line for each call")]
fn job_calls(calls: Calls) -> Calls {
    let id = |verb, path, summary| Call::new(verb, path, summary).query([AT_LEAST]);
    calls
        .add(
            Call::new(Verb::Post, "/api/jobs/apply", "Adds and changes jobs, all or none")
                .of_group(Role::User)
                .query([Parameter::new("dry_run", "`true`: only say what would change; nothing is done.", Rule::Flag)])
                .settles()
                .takes::<apply::ApplyRequest>()
                .gives::<apply::Applied>(),
            apply::apply,
        )
        .add(
            Call::new(Verb::Get, "/api/jobs", "Jobs, by group and name")
                .of_group(Role::Viewer)
                .query([
                    PAGE[0],
                    PAGE[1],
                    AT_LEAST,
                    Parameter::text("group", "Of this group."),
                    Parameter::text("name", "Of exactly this name."),
                    Parameter::text("type", "Of this type."),
                    Parameter::new("enabled", "`true` or `false`.", Rule::Flag),
                    Parameter::new("submitted", "`true`: submitted to run once; `false`: defined in the catalogue.", Rule::Flag),
                ])
                .gives::<List<JobView>>(),
            jobs::list,
        )
        .add(
            Call::new(
                Verb::Get,
                "/api/jobs/export",
                "Jobs as they could have been written; `apply` takes them",
            )
            .of_group(Role::Viewer)
            .query([AT_LEAST, Parameter::text("group", "Of this group; absent: of all.")])
            .gives::<apply::Exported>(),
            apply::export,
        )
        .add(id(Verb::Get, "/api/jobs/{id}", "A job").of_group(Role::Viewer).gives::<JobDetail>(), jobs::get)
        .add(
            id(Verb::Delete, "/api/jobs/{id}", "Removes a definition")
                .of_group(Role::User)
                .query([
                    Parameter::new("cancel", "`true`: end what is unfinished of it; else it is refused while something is.", Rule::Flag),
                    Parameter::new("orphan_children", "`true`: delete it though other jobs name it as parent, whose batches go on waiting; else it is refused.", Rule::Flag),
                ])
                .settles()
                .gives::<Written>(),
            run::delete,
        )
        .add(
            id(Verb::Get, "/api/groups/{group}/jobs/{job}", "A job by the names of its group and its own")
                .of_group(Role::Viewer)
                .gives::<JobDetail>(),
            jobs::get_named,
        )
        .add(
            Call::new(
                Verb::Get,
                "/api/jobs/{id}/preview",
                "The next fires, or one logical time, with all templates resolved",
            )
            .of_group(Role::Viewer)
            .query([
                AT_LEAST,
                Parameter::new("n", "How many, 1 to 1000; default 10. Fewer are answered where the job's texts are long.", Rule::Number(1, jobs::MAX_PREVIEW as u64)),
                Parameter::new("after", "After this time; default now.", Rule::Time),
                Parameter::new("at", "This logical time alone, whatever the schedule; without n and after.", Rule::Time),
            ])
            .gives::<PreviewView>(),
            jobs::preview,
        )
        .add(
            id(Verb::Get, "/api/jobs/{id}/skipped-runs", "Fires that made no batch, and why")
                .of_group(Role::Viewer)
                .gives::<List<SkippedRunsView>>(),
            jobs::skipped,
        )
        .add(
            Call::new(Verb::Post, "/api/jobs/{id}/run", "One batch by hand")
                .of_group(Role::User)
                .takes::<run::RunRequest>()
                .gives::<run::Generated>(),
            run::run,
        )
        .add(
            Call::new(Verb::Post, "/api/jobs/{id}/enable", "Batches are generated from now on")
                .of_group(Role::User)
                .settles()
                .gives::<Written>(),
            run::enable,
        )
        .add(
            Call::new(Verb::Post, "/api/jobs/{id}/disable", "No more batches are generated")
                .of_group(Role::User)
                .settles()
                .gives::<Written>(),
            run::disable,
        )
        .add(
            Call::new(
                Verb::Post,
                "/api/jobs/{id}/rename",
                "Gives a job another name in its group; its id, its history and its run numbers stay",
            )
            .of_group(Role::User)
            .settles()
            .takes::<run::RenameRequest>()
            .gives::<Written>(),
            run::rename,
        )
        .add(
            Call::new(
                Verb::Post,
                "/api/jobs/{id}/move",
                "Gives a job to another group, unless something of it is unfinished; its id and its run numbers stay",
            )
            .of_group(Role::User)
            .settles()
            .takes::<run::MoveJobRequest>()
            .gives::<Written>(),
            run::move_to,
        )
}

fn version_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::new(Verb::Get, "/api/jobs/{id}/versions", "The versions of a definition, the newest first")
                .of_group(Role::Viewer)
                .query([PAGE[0], PAGE[1], AT_LEAST])
                .gives::<List<JobVersionView>>(),
            versions::list,
        )
        .add(
            Call::new(Verb::Get, "/api/jobs/{id}/versions/{version}", "One version of a definition")
                .of_group(Role::Viewer)
                .query([AT_LEAST])
                .gives::<JobVersionDetail>(),
            versions::get,
        )
        .add(
            Call::new(
                Verb::Get,
                "/api/jobs/{id}/versions/{version}/diff/{other}",
                "What differs between two versions of a definition, field by field",
            )
            .of_group(Role::Viewer)
            .query([AT_LEAST])
            .gives::<VersionDiff>(),
            versions::diff,
        )
        .add(
            Call::new(Verb::Get, "/api/jobs/{id}/children", "The jobs that name this one as a parent")
                .of_group(Role::Viewer)
                .query([PAGE[0], PAGE[1], AT_LEAST])
                .gives::<List<ChildView>>(),
            versions::children,
        )
}

fn dead_letter_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::new(
                Verb::Get,
                "/api/dead-letters",
                "Commands that were set aside and timers that were suspended, in the order of the journal",
            )
            .of_site(Role::SuperAdministrator)
            .query([
                PAGE[0],
                PAGE[1],
                AT_LEAST,
                Parameter::new("kind", "`command` or `timer`.", Rule::Word(dead_letters::KINDS)),
                Parameter::new(
                    "open",
                    "`true`: only those of which nothing has become yet; `false`: only the others.",
                    Rule::Flag,
                ),
            ])
            .gives::<List<DeadLetterView>>(),
            dead_letters::list,
        )
        .add(
            Call::new(Verb::Get, "/api/dead-letters/{id}", "A dead letter, with the command as it was sent")
                .of_site(Role::SuperAdministrator)
                .query([AT_LEAST])
                .gives::<DeadLetterDetail>(),
            dead_letters::get,
        )
        .add(
            Call::new(
                Verb::Post,
                "/api/dead-letters/{id}/redrive",
                "Sends the command again as a new one, or lets the job go on whose timer was suspended",
            )
            .of_site(Role::SuperAdministrator)
            .gives::<Redriven>(),
            dead_letters::redrive,
        )
}

fn bulk_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::new(
                Verb::Post,
                "/api/bulk",
                "One action for all batches or jobs that fit a filter, as one operation",
            )
            .of_group(Role::User)
            .takes::<bulk::BulkRequest>()
            .gives::<bulk::BulkStarted>()
            .or_gives::<bulk::BulkPlan>(),
            bulk::begin,
        )
        .add(
            Call::new(Verb::Get, "/api/bulk", "Operations on many batches or jobs, newest first")
                .of_site(Role::Viewer)
                .query([PAGE[0], PAGE[1], AT_LEAST])
                .gives::<List<BulkView>>(),
            bulk::list,
        )
        .add(
            Call::new(Verb::Get, "/api/bulk/{id}", "How far an operation is")
                .own(Role::Viewer)
                .query([AT_LEAST])
                .gives::<BulkView>(),
            bulk::get,
        )
        .add(
            Call::new(Verb::Get, "/api/bulk/{id}/items", "What came of each batch or job of an operation")
                .own(Role::Viewer)
                .query([
                    Parameter::new(
                        "outcome",
                        "Only `left`, `done` or `refused`.",
                        Rule::Word(bulk::OUTCOMES),
                    ),
                    PAGE[0],
                    PAGE[1],
                    AT_LEAST,
                ])
                .gives::<List<BulkItemView>>(),
            bulk::items,
        )
}

fn calendar_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::new(
                Verb::Get,
                "/api/calendars/{name}/versions",
                "The versions of a calendar, the newest first; those of a removed one, too",
            )
            .everybody(Role::Viewer)
            .query([PAGE[0], PAGE[1], AT_LEAST])
            .gives::<List<CalendarVersionView>>(),
            calendars::versions,
        )
        .add(
            Call::new(Verb::Get, "/api/calendars/{name}/versions/{version}", "One version of a calendar")
                .everybody(Role::Viewer)
                .query([AT_LEAST])
                .gives::<CalendarVersionDetail>(),
            calendars::version,
        )
        .add(
            Call::new(Verb::Get, "/api/calendars", "Calendars, by name")
                .everybody(Role::Viewer)
                .query([PAGE[0], PAGE[1], AT_LEAST])
                .gives::<List<CalendarView>>(),
            calendars::list,
        )
        .add(
            Call::new(Verb::Post, "/api/calendars", "Adds or changes a calendar")
                .settles()
                .of_site(Role::Administrator)
                .takes::<tidemill_model::CalendarSpec>()
                .gives::<defined::Defined>(),
            calendars::define,
        )
        .add(
            Call::new(
                Verb::Get,
                "/api/calendars/{name}",
                "A calendar with its days, as it could have been written",
            )
            .everybody(Role::Viewer)
            .query([AT_LEAST])
            .gives::<CalendarDetail>(),
            calendars::get,
        )
        .add(
            Call::new(Verb::Delete, "/api/calendars/{name}", "Removes a calendar that no job uses")
                .of_site(Role::Administrator)
                .gives::<Written>(),
            calendars::remove,
        )
}

fn pool_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::new(Verb::Get, "/api/pools", "Pools that batches of several jobs share, by name")
                .everybody(Role::Viewer)
                .query([PAGE[0], PAGE[1], AT_LEAST])
                .gives::<List<PoolView>>(),
            pools::list,
        )
        .add(
            Call::new(Verb::Post, "/api/pools", "Adds or changes a pool; what runs goes on")
                .settles()
                .of_group(Role::Administrator)
                .takes::<tidemill_model::PoolSpec>()
                .gives::<defined::Defined>(),
            pools::define,
        )
        .add(
            Call::new(Verb::Get, "/api/pools/{name}", "A pool, and who has slots of it now")
                .of_group(Role::Viewer)
                .query([AT_LEAST])
                .gives::<PoolDetail>(),
            pools::get,
        )
        .add(
            Call::new(Verb::Delete, "/api/pools/{name}", "Removes a pool that no job uses")
                .of_group(Role::Administrator)
                .gives::<Written>(),
            pools::remove,
        )
}

#[expect(clippy::too_many_lines, reason = "a table with a line for each call")]
fn batch_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::new(Verb::Get, "/api/batches", "Batches, the newest first")
                .of_group(Role::Viewer)
                .query([
                    PAGE[0],
                    PAGE[1],
                    AT_LEAST,
                    Parameter::new("job", "Of this job, by id.", Rule::of::<JobId>()),
                    Parameter::text("group", "Of this group."),
                    Parameter::new(
                        "state",
                        "`waiting`, `assigned`, `running` or `finished`, or its number.",
                        Rule::Word(batches::STATES),
                    ),
                    Parameter::new(
                        "result",
                        "`success`, `failed`, `killed` or `skipped`.",
                        Rule::Word(batches::RESULTS),
                    ),
                    Parameter::new("blocked", "`true`: only those that a failed parent blocks.", Rule::Flag),
                    Parameter::new("from", "Logical time at or after.", Rule::Time),
                    Parameter::new("to", "Logical time before.", Rule::Time),
                ])
                .gives::<List<BatchView>>(),
            batches::list,
        )
        .add(
            Call::new(Verb::Get, "/api/batches/{id}", "A batch, what it waits for, and its attempts")
                .of_group(Role::Viewer)
                .query([AT_LEAST])
                .gives::<BatchDetail>(),
            batches::get,
        )
        .add(
            Call::new(Verb::Get, "/api/batches/{id}/why", "Every condition that keeps a batch from running")
                .of_group(Role::Viewer)
                .query([AT_LEAST, AS_OF])
                .gives::<tidemill_model::Why>(),
            batches::why,
        )
        .add(
            Call::new(
                Verb::Get,
                "/api/batches/{id}/assignment-returns",
                "Assignments of a batch that ended without an attempt",
            )
            .of_group(Role::Viewer)
            .query([AT_LEAST])
            .gives::<List<ReturnView>>(),
            batches::assignment_returns,
        )
        .add(
            Call::new(Verb::Post, "/api/batches/{id}/kill", "Ends a batch")
                .of_group(Role::User)
                .takes::<batches::KillRequest>()
                .gives::<Written>(),
            batches::kill,
        )
        .add(
            Call::new(
                Verb::Post,
                "/api/batches/{id}/mark",
                "Says how a batch ended; what runs of it is ended first",
            )
            .of_group(Role::User)
            .takes::<batches::OverrideResultRequest>()
            .gives::<Written>(),
            batches::mark,
        )
        .add(
            Call::new(Verb::Post, "/api/batches/{id}/rerun", "The same logical time again, run + 1")
                .of_group(Role::User)
                .gives::<run::Generated>(),
            batches::rerun,
        )
        .add(
            Call::new(Verb::Get, "/api/batches/{id}/log", "A part of an attempt's log")
                .of_group(Role::Viewer)
                .query([
                    Parameter::new("type", "1 (stdout, default) or 2 (stderr).", Rule::Word(Stream::WORDS)),
                    Parameter::new("offset", "From this byte on; default 0.", Rule::Number(0, u64::MAX)),
                    Parameter::new(
                        "lines",
                        "Lines at most, 1 to 10000; default 100.",
                        Rule::Number(1, logs::LINES.1 as u64),
                    ),
                    Parameter::new(
                        "attempt",
                        "Which attempt, from 1; absent: the newest.",
                        Rule::Number(1, u64::MAX),
                    ),
                    AT_LEAST,
                ])
                .gives::<LogPart>(),
            logs::read,
        )
        .add(
            Call::new(Verb::Get, "/api/batches/{id}/log/download", "An attempt's whole log")
                .of_group(Role::Viewer)
                .query([
                    Parameter::new("type", "1 (stdout, default) or 2 (stderr).", Rule::Word(Stream::WORDS)),
                    Parameter::new(
                        "attempt",
                        "Which attempt; absent: the newest.",
                        Rule::Number(1, u64::MAX),
                    ),
                    AT_LEAST,
                ])
                .gives_media("text/plain"),
            logs::download,
        )
        .add(
            Call::new(Verb::Get, "/api/attempts", "Attempts, the newest first")
                .of_group(Role::Viewer)
                .query([
                    PAGE[0],
                    PAGE[1],
                    AT_LEAST,
                    Parameter::new("batch", "Of this batch.", Rule::of::<BatchId>()),
                    Parameter::new("job", "Of this job, by id.", Rule::of::<JobId>()),
                    Parameter::text("worker", "On this worker."),
                ])
                .gives::<List<AttemptView>>(),
            attempts::list,
        )
}

fn external_dependency_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::new(
                Verb::Post,
                "/api/batches/{id}/override",
                "Lets a batch run without some of its unmet conditions",
            )
            .of_group(Role::User)
            .takes::<external_dependencies::OverrideRequest>()
            .gives::<Written>(),
            external_dependencies::waive,
        )
        .add(
            Call::new(Verb::Post, "/api/batches/{id}/quality", "The quality service's word on a batch")
                .of_group(Role::User)
                .takes::<external_dependencies::QualityRequest>()
                .gives::<Written>(),
            external_dependencies::quality,
        )
        .add(
            Call::new(
                Verb::Post,
                "/api/third-party",
                "A third party says that something is ready, or is so no longer; kept for batches to come",
            )
            .of_site(Role::User)
            .takes::<tidemill_model::ThirdPartyReport>()
            .gives::<Written>(),
            external_dependencies::report,
        )
        .add(
            Call::new(
                Verb::Get,
                "/api/third-party",
                "What third parties said last, by code and logical time",
            )
            .everybody(Role::Viewer)
            .query([PAGE[0], PAGE[1], AT_LEAST, Parameter::text("code", "Of this code.")])
            .gives::<List<ThirdPartyView>>(),
            external_dependencies::reports,
        )
        .add(
            Call::new(
                Verb::Post,
                "/api/probes",
                "Probes the paths that a batch waits for at once; everything, with an administrator's key that is bound to no group",
            )
            .of_group(Role::User)
            .takes::<external_dependencies::ProbeRequest>()
            .gives::<Written>(),
            external_dependencies::probe_now,
        )
        .add(
            Call::new(Verb::Get, "/api/probes/late", "Checks of paths that fail or are late")
                .of_site(Role::Viewer)
                .query([AT_LEAST])
                .gives::<List<LateProbeView>>(),
            external_dependencies::late_probes,
        )
}

fn rerun_calls(calls: Calls) -> Calls {
    let act = |path, summary| Call::new(Verb::Post, path, summary).of_group(Role::User).gives::<Written>();
    calls
        .add(
            Call::new(Verb::Post, "/api/reruns", "Plans a rerun of a span of logical times")
                .of_group(Role::User)
                .takes::<reruns::RerunRequest>()
                .gives::<reruns::RerunPlanned>(),
            reruns::request,
        )
        .add(
            Call::new(Verb::Post, "/api/cold-starts", "Plans a cold start of the jobs of a period")
                .of_site(Role::SuperAdministrator)
                .takes::<reruns::ColdStartRequest>()
                .gives::<reruns::RerunPlanned>(),
            reruns::cold_start,
        )
        .add(
            Call::new(Verb::Post, "/api/batches/{id}/clear", "Plans to run a batch and all after it again")
                .of_group(Role::User)
                .takes::<reruns::ClearRequest>()
                .gives::<reruns::RerunPlanned>(),
            reruns::clear,
        )
        .add(
            Call::new(Verb::Get, "/api/reruns", "Reruns and cold starts, the newest first")
                .of_group(Role::Viewer)
                .query([
                    PAGE[0],
                    PAGE[1],
                    AT_LEAST,
                    Parameter::new("kind", "`rerun` or `cold_start`.", Rule::Word(reruns::KINDS)),
                    Parameter::new("state", "`planning`, `planned`, `running`, `paused`, `cancelling`, `done`, `done_with_failures`, \
                         `cancelled` or `refused`.", Rule::Word(reruns::STATES)),
                ])
                .gives::<List<RerunView>>(),
            reruns::list,
        )
        .add(
            Call::new(Verb::Get, "/api/reruns/{id}", "A rerun or cold start, with its counters")
                .of_group(Role::Viewer)
                .query([AT_LEAST])
                .gives::<RerunView>(),
            reruns::get,
        )
        .add(
            Call::new(Verb::Get, "/api/reruns/{id}/jobs", "Its jobs, and those that it leaves out")
                .of_group(Role::Viewer)
                .query([AT_LEAST])
                .gives::<RerunJobs>(),
            reruns::jobs,
        )
        .add(
            Call::new(Verb::Get, "/api/reruns/{id}/batches", "The batches of its plan, by number")
                .of_group(Role::Viewer)
                .query([
                    PAGE[0],
                    PAGE[1],
                    AT_LEAST,
                    Parameter::new("state", "`planned`, `started`, `success`, `failed`, `killed`, `skipped` or `blocked`.", Rule::Word(reruns::RUN_STATES)),
                ])
                .gives::<List<RerunBatchView>>(),
            reruns::batches,
        )
        .add(act("/api/reruns/{id}/approve", "Lets a planned one run"), reruns::approve)
        .add(act("/api/reruns/{id}/pause", "Starts no more of it for now"), reruns::pause)
        .add(act("/api/reruns/{id}/resume", "Goes on with it"), reruns::resume)
        .add(
            act("/api/reruns/{id}/cancel", "Starts no more of it").takes::<reruns::CancelRequest>(),
            reruns::cancel,
        )
}

#[expect(clippy::too_many_lines, reason = "a table with a line for each call")]
fn worker_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::new(Verb::Get, "/api/workers", "Workers, by id")
                .of_group(Role::Viewer)
                .query([
                    PAGE[0],
                    PAGE[1],
                    AT_LEAST,
                    Parameter::text("group", "Of this group."),
                    Parameter::new("state", "`live`, `lost` or `gone`.", Rule::Word(workers::STATES)),
                ])
                .gives::<List<WorkerView>>(),
            workers::list,
        )
        .add(
            Call::new(Verb::Get, "/api/workers/{id}", "A worker")
                .of_group(Role::Viewer)
                .query([AT_LEAST])
                .gives::<WorkerView>(),
            workers::get,
        )
        .add(
            Call::new(Verb::Post, "/api/workers/{id}/drain", "The worker takes no new work")
                .of_group(Role::User)
                .gives::<Written>(),
            workers::drain,
        )
        .add(
            Call::new(Verb::Post, "/api/workers/{id}/resume", "The worker takes work again")
                .of_group(Role::User)
                .gives::<Written>(),
            workers::resume,
        )
        .add(
            Call::new(Verb::Get, "/api/groups", "Worker groups, by number")
                .of_group(Role::Viewer)
                .query([AT_LEAST])
                .gives::<List<GroupView>>(),
            groups::list,
        )
        .add(
            Call::new(Verb::Post, "/api/groups", "Creates a group, or changes its key and bounds")
                .settles()
                .of_site(Role::SuperAdministrator)
                .takes::<groups::GroupRequest>()
                .gives::<groups::GroupDefined>(),
            groups::define,
        )
        .add(
            Call::new(Verb::Get, "/api/freezes", "What is frozen, by group")
                .of_group(Role::Viewer)
                .query([AT_LEAST])
                .gives::<List<FreezeView>>(),
            freezes::list,
        )
        .add(
            Call::new(Verb::Put, "/api/freezes/{scope}", "Lets no batch beyond a logical time be assigned")
                .settles()
                .of_group(Role::User)
                .takes::<freezes::FreezeRequest>()
                .gives::<Written>(),
            freezes::set,
        )
        .add(
            Call::new(Verb::Delete, "/api/freezes/{scope}", "Lifts a freeze")
                .settles()
                .of_group(Role::User)
                .query([REASON])
                .gives::<Written>(),
            freezes::lift,
        )
        .add(
            Call::new(Verb::Get, "/api/keys", "Application keys, by name")
                .of_site(Role::SuperAdministrator)
                .query([AT_LEAST])
                .gives::<List<KeyView>>(),
            keys::list,
        )
        .add(
            Call::new(Verb::Post, "/api/keys", "Creates or replaces an application key")
                .of_site(Role::SuperAdministrator)
                .takes::<keys::KeyRequest>()
                .gives::<keys::KeyDefined>(),
            keys::define,
        )
        .add(
            Call::new(Verb::Delete, "/api/keys/{app}", "Ends an application key")
                .of_site(Role::SuperAdministrator)
                .gives::<Written>(),
            keys::revoke,
        )
        .add(
            Call::new(Verb::Get, "/api/events", "The public feed, as server-sent events")
                .of_group(Role::Viewer)
                .query([
                    Parameter::text("cursor", "After the event with this id; the header `Last-Event-ID` does the same."),
                    Parameter::new("from", "`start`, `end` (default) or a time as RFC 3339 has it, where there is no cursor. With a time, each \
                         partition begins with its first event of that time or later.", Rule::of::<events::Begin>()),
                    Parameter::text("type", "Only types that begin so, as in `batch` or `batch.finished`; has to begin the type of a \
                         public event. docs/reference/events.md has all of them."),
                    Parameter::text("subject", "Only subjects that begin so."),
                    Parameter::new("limit", "Ends after so many events.", Rule::Number(1, u64::MAX)),
                ])
                .gives_media("text/event-stream"),
            events::stream,
        )
        .add(
            Call::new(Verb::Get, "/api/status", "The partitions and how far each is")
                .everybody(Role::Viewer)
                .gives::<status::StatusView>(),
            status::status,
        )
}

/// The calls of operators: an unbound super administrator's key, or the operator's secret.
pub(crate) fn admin_calls() -> Calls {
    let call = |verb, path, summary| Call::new(verb, path, summary).of_site(Role::SuperAdministrator);
    Calls::new()
        .add(
            call(Verb::Get, "/api/admin", "What goes on, or went on last, in this instance")
                .gives::<Option<OperationStatus>>(),
            admin::status,
        )
        .add(
            call(Verb::Post, "/api/admin/rebuild", "Begins to rebuild the read tables; one at a time")
                .gives::<OperationStatus>(),
            admin::rebuild,
        )
        .add(
            call(Verb::Post, "/api/admin/verify", "Begins to compare the read tables; one at a time")
                .gives::<OperationStatus>(),
            admin::verify,
        )
        .add(
            call(Verb::Post, "/api/admin/keys", "Creates or replaces an application key, where all are lost")
                .takes::<keys::KeyRequest>()
                .gives::<keys::KeyDefined>(),
            keys::define,
        )
        .add(
            call(Verb::Post, "/api/admin/partitions/{partition}/set-time", "Sets a partition's clock")
                .takes::<admin::SetTimeRequest>()
                .gives::<Written>(),
            admin::set_time,
        )
}

/// The calls of programs that run, with the key of their attempt.
pub(crate) fn attempt_calls() -> Calls {
    let summary = "The program of a running attempt says whether it has succeeded";
    Calls::new().add(
        Call::new(Verb::Post, "/api/attempts/{id}/code", summary)
            .attempt_key()
            .takes::<codes::CodeRequest>()
            .gives::<Written>(),
        codes::report,
    )
}

/// The calls that need no key.
pub(crate) fn open_calls() -> Calls {
    Calls::new()
        .add(Call::new(Verb::Get, "/healthz", "Whether the process lives"), open::healthz)
        .add(Call::new(Verb::Get, "/readyz", "Whether it can do its work"), open::readyz)
        .add(Call::new(Verb::Get, "/api/openapi.json", "This document"), open::openapi)
}
