//! Batches, their attempts and their logs; bulk operations and reruns of them, and what they wait for outside.

use tidemill_model::{KeptLog, LiveUsage, LogMatches, Permission, ThirdPartyReport, Why};

use crate::call::{Call, Calls};
use crate::log_stores::LogPart;
use crate::routes::{
    attempts, batch_commands, batches, bulk, external_dependencies, log_tail, logs, rerun_plans, reruns, run,
};
use crate::view::{
    AttemptView, BatchDetail, BatchView, BulkItemView, BulkView, LateProbeView, List, RerunBatchView,
    RerunJobs, RerunView, ReturnView, ThirdPartyView,
};

pub(super) fn calls(calls: Calls) -> Calls {
    logs_of(attempts_of(of_batches(calls)))
}

fn of_batches(calls: Calls) -> Calls {
    calls
        .add(
            Call::list::<BatchView>("/api/batches", "Batches, the newest first")
                .with(batches::JOB)
                .with(batches::GROUP)
                .with(batches::STATE)
                .with(batches::RESULT)
                .with(batches::BLOCKED)
                .with(batches::TRIGGERED_BY)
                .with(batches::MINE)
                .with(batches::FROM)
                .with(batches::TO),
            batches::list,
        )
        .add(
            Call::one::<BatchDetail>("/api/batches/{id}", "A batch, what it waits for, and its attempts"),
            batches::get,
        )
        .add(
            Call::one::<Why>("/api/batches/{id}/why", "Every condition that keeps a batch from running")
                .named("explainBatch")
                .with(batches::AS_OF),
            batches::why,
        )
        .add(
            Call::one::<List<ReturnView>>(
                "/api/batches/{id}/assignment-returns",
                "Assignments of a batch that ended without an attempt",
            ),
            batches::assignment_returns,
        )
        .add(
            Call::act("/api/batches/{id}/kill", "Ends a batch").takes::<batch_commands::KillRequest>(),
            batch_commands::kill,
        )
        .add(
            Call::act("/api/batches/{id}/mark", "Says how a batch ended; what runs of it is ended first")
                .takes::<batch_commands::OverrideResultRequest>(),
            batch_commands::mark,
        )
        .add(
            Call::act(
                "/api/batches/{id}/vouch",
                "A person says that nothing of an attempt runs any more; it ends as lost",
            )
            .named("vouchForAttempt")
            .needing(Permission::DeclareDead)
            .takes::<batch_commands::VouchRequest>(),
            batch_commands::vouch,
        )
        .add(
            Call::act(
                "/api/batches/{id}/adopt",
                "An attempt of a lost life of the log becomes that of the batch; its end counts",
            )
            .named("adoptAttempt")
            .needing(Permission::DeclareDead)
            .takes::<batch_commands::AdoptRequest>(),
            batch_commands::adopt,
        )
        .add(
            Call::act("/api/batches/{id}/rerun", "The same logical time again, run + 1")
                .gives::<run::Generated>(),
            batch_commands::rerun,
        )
}

/// Their attempts.
fn attempts_of(calls: Calls) -> Calls {
    calls
        .add(
            Call::get("/api/batches/{id}/usage", "What a running batch uses now, by its worker")
                .of_group(Permission::View)
                .fresh()
                .gives::<LiveUsage>(),
            attempts::used,
        )
        .add(
            Call::list::<AttemptView>("/api/attempts", "Attempts, the newest first")
                .with(attempts::BATCH)
                .with(attempts::JOB)
                .with(attempts::WORKER),
            attempts::list,
        )
}

/// The logs of their attempts.
fn logs_of(calls: Calls) -> Calls {
    calls
        .add(
            Call::one::<LogPart>(
                "/api/batches/{id}/log",
                "A part of an attempt's log: whole lines, but for one longer than 1 MiB, which comes in parts",
            ).needing(Permission::ReadLogs)
                .with(logs::TYPE)
                .with(logs::OFFSET)
                .with(logs::LINE)
                .with(logs::LAST)
                .with(logs::LINES)
                .with(logs::ATTEMPT),
            logs::read,
        )
        .add(
            Call::get(
                "/api/batches/{id}/log/download",
                "An attempt's whole log byte for byte, or the part that the header `Range` names (206)",
            )
            .named("downloadBatchLog")
            .of_group(Permission::ReadLogs)
            .with(logs::TYPE)
            .with(logs::ATTEMPT)
            .fresh()
            .gives_media("text/plain"),
            logs::download,
        )
        .add(
            Call::one::<LogMatches>(
                "/api/batches/{id}/log/search",
                "Lines of an attempt's log that have a text; goes on from the `offset` of the part before",
            )
            .named("searchBatchLog")
            .needing(Permission::ReadLogs)
            .with(logs::TEXT)
            .with(logs::IGNORE_CASE)
            .with(logs::TYPE)
            .with(logs::OFFSET)
            .with(logs::LIMIT)
            .with(logs::ATTEMPT),
            logs::search,
        )
        .add(
            Call::one::<KeptLog>(
                "/api/batches/{id}/log/summary",
                "How long an attempt's log is, and the first line that looks like an error",
            ).needing(Permission::ReadLogs)
            .with(logs::ATTEMPT),
            logs::summary,
        )
        .add(
            Call::get(
                "/api/batches/{id}/log/tail",
                "The log of a batch over all its attempts as it grows, as server-sent events: `attempt` {attempt, token} \
                 where the output of one begins, `chunk` {attempt, stream, offset, at, content} of whole lines, but for one \
                 longer than 256 KiB, which comes in parts, `cut` or `gone` {attempt} where one is not complete or not kept, \
                 `progress` {} where only an id has to be told, `end` {result} once the batch has finished",
            )
            .named("tailBatchLog")
            .of_group(Permission::ReadLogs)
            .with(log_tail::ATTEMPT)
            .with(log_tail::TYPE)
            .with(log_tail::FROM)
            .fresh()
            .gives_media("text/event-stream"),
            log_tail::tail,
        )
}

/// One action for many batches or jobs.
pub(super) fn bulk(calls: Calls) -> Calls {
    calls
        .add(
            Call::act("/api/bulk", "One action for all batches or jobs that fit a filter, as one operation")
                .named("startBulkOperation")
                .takes::<bulk::BulkRequest>()
                .gives::<bulk::BulkPlan>()
                .begins::<bulk::BulkStarted>(),
            bulk::begin,
        )
        .add(
            Call::list::<BulkView>("/api/bulk", "Operations on many batches or jobs, newest first")
                .named("listBulkOperations")
                .of_site(Permission::View),
            bulk::list,
        )
        .add(
            Call::one::<BulkView>("/api/bulk/{id}", "How far an operation is")
                .named("getBulkOperation")
                .own(Permission::View),
            bulk::get,
        )
        .add(
            Call::get("/api/bulk/{id}/items", "What came of each batch or job of an operation")
                .named("listBulkOperationItems")
                .own(Permission::View)
                .with(bulk::OUTCOME)
                .page()
                .gives::<List<BulkItemView>>(),
            bulk::items,
        )
}

/// Reruns and cold starts: what is to be run again is planned first.
pub(super) fn reruns(calls: Calls) -> Calls {
    calls
        .add(
            Call::act("/api/reruns", "Plans a rerun of a span of logical times")
                .named("planRerun")
                .takes::<rerun_plans::RerunRequest>()
                .gives::<rerun_plans::RerunPlanned>(),
            rerun_plans::request,
        )
        .add(
            Call::act("/api/cold-starts", "Plans a cold start of the jobs of a period")
                .named("planColdStart")
                .of_site(Permission::ColdStart)
                .takes::<rerun_plans::ColdStartRequest>()
                .gives::<rerun_plans::RerunPlanned>(),
            rerun_plans::cold_start,
        )
        .add(
            Call::act("/api/batches/{id}/clear", "Plans to run a batch and all after it again")
                .takes::<rerun_plans::ClearRequest>()
                .gives::<rerun_plans::RerunPlanned>(),
            rerun_plans::clear,
        )
        .add(
            Call::list::<RerunView>("/api/reruns", "Reruns and cold starts, the newest first")
                .with(reruns::KIND)
                .with(reruns::STATE),
            reruns::list,
        )
        .add(
            Call::one::<RerunView>("/api/reruns/{id}", "A rerun or cold start, with its counters"),
            reruns::get,
        )
        .add(
            Call::one::<RerunJobs>("/api/reruns/{id}/jobs", "Its jobs, and those that it leaves out"),
            reruns::jobs,
        )
        .add(
            Call::list::<RerunBatchView>("/api/reruns/{id}/batches", "The batches of its plan, by number")
                .with(reruns::RUN_STATE),
            reruns::batches,
        )
        .add(Call::act("/api/reruns/{id}/approve", "Lets a planned one run"), reruns::approve)
        .add(Call::act("/api/reruns/{id}/pause", "Starts no more of it for now"), reruns::pause)
        .add(Call::act("/api/reruns/{id}/resume", "Goes on with it"), reruns::resume)
        .add(
            Call::act("/api/reruns/{id}/cancel", "Starts no more of it").takes::<reruns::CancelRequest>(),
            reruns::cancel,
        )
}

/// What batches wait for outside: paths, the quality service, third parties.
pub(super) fn external_dependencies(calls: Calls) -> Calls {
    calls
        .add(
            Call::act("/api/batches/{id}/override", "Lets a batch run without some of its unmet conditions").needing(Permission::Override)
                .takes::<external_dependencies::OverrideRequest>(),
            external_dependencies::waive,
        )
        .add(
            Call::act("/api/batches/{id}/quality", "The quality service's word on a batch")
                .named("reportBatchQuality")
                .needing(Permission::Answer)
                .takes::<external_dependencies::QualityRequest>(),
            external_dependencies::quality,
        )
        .add(
            Call::act(
                "/api/third-party",
                "A third party says that something is ready, or is so no longer; kept for batches to come",
            )
            .named("reportThirdParty")
            .of_site(Permission::Answer)
            .takes::<ThirdPartyReport>(),
            external_dependencies::report,
        )
        .add(
            Call::list::<ThirdPartyView>(
                "/api/third-party",
                "What third parties said last, by code and logical time",
            )
            .named("listThirdPartyReports")
            .everybody(Permission::View)
            .with(external_dependencies::CODE),
            external_dependencies::reports,
        )
        .add(
            Call::act(
                "/api/probes",
                "Probes the paths that a batch waits for at once; everything, with an administrator's key that is bound to no group",
            )
            .named("runProbes")
            .takes::<external_dependencies::ProbeRequest>(),
            external_dependencies::probe_now,
        )
        .add(
            Call::one::<List<LateProbeView>>("/api/probes/late", "Checks of paths that fail or are late")
                .named("listLateProbes")
                .of_site(Permission::View),
            external_dependencies::late_probes,
        )
}
