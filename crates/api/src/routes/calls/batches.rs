//! Batches, their attempts and their logs.

use tidemill_model::Role;

use crate::call::{Call, Calls};
use crate::routes::{attempts, batch_commands, batches, logs, run};
use crate::view::{AttemptView, BatchDetail, BatchView, List, ReturnView, Written};
use crate::worker_logs::LogPart;

pub(super) fn calls(calls: Calls) -> Calls {
    attempts_of(decisions(reads(calls)))
}

/// Lists and questions.
fn reads(calls: Calls) -> Calls {
    calls
        .add(
            Call::get("/api/batches", "Batches, the newest first")
                .of_group(Role::Viewer)
                .page()
                .with(batches::JOB)
                .with(batches::GROUP)
                .with(batches::STATE)
                .with(batches::RESULT)
                .with(batches::BLOCKED)
                .with(batches::FROM)
                .with(batches::TO)
                .gives::<List<BatchView>>(),
            batches::list,
        )
        .add(
            Call::get("/api/batches/{id}", "A batch, what it waits for, and its attempts")
                .of_group(Role::Viewer)
                .fresh()
                .gives::<BatchDetail>(),
            batches::get,
        )
        .add(
            Call::get("/api/batches/{id}/why", "Every condition that keeps a batch from running")
                .of_group(Role::Viewer)
                .fresh()
                .with(batches::AS_OF)
                .gives::<tidemill_model::Why>(),
            batches::why,
        )
        .add(
            Call::get(
                "/api/batches/{id}/assignment-returns",
                "Assignments of a batch that ended without an attempt",
            )
            .of_group(Role::Viewer)
            .fresh()
            .gives::<List<ReturnView>>(),
            batches::assignment_returns,
        )
}

/// What a person decides about one.
fn decisions(calls: Calls) -> Calls {
    calls
        .add(
            Call::post("/api/batches/{id}/kill", "Ends a batch")
                .of_group(Role::User)
                .takes::<batch_commands::KillRequest>()
                .gives::<Written>(),
            batch_commands::kill,
        )
        .add(
            Call::post("/api/batches/{id}/mark", "Says how a batch ended; what runs of it is ended first")
                .of_group(Role::User)
                .takes::<batch_commands::OverrideResultRequest>()
                .gives::<Written>(),
            batch_commands::mark,
        )
        .add(
            Call::post("/api/batches/{id}/rerun", "The same logical time again, run + 1")
                .of_group(Role::User)
                .gives::<run::Generated>(),
            batch_commands::rerun,
        )
}

/// Their attempts and logs.
fn attempts_of(calls: Calls) -> Calls {
    calls
        .add(
            Call::get("/api/batches/{id}/log", "A part of an attempt's log")
                .of_group(Role::Viewer)
                .with(logs::TYPE)
                .with(logs::OFFSET)
                .with(logs::LINES)
                .with(logs::ATTEMPT)
                .fresh()
                .gives::<LogPart>(),
            logs::read,
        )
        .add(
            Call::get("/api/batches/{id}/log/download", "An attempt's whole log")
                .of_group(Role::Viewer)
                .with(logs::TYPE)
                .with(logs::ATTEMPT)
                .fresh()
                .gives_media("text/plain"),
            logs::download,
        )
        .add(
            Call::get("/api/attempts", "Attempts, the newest first")
                .of_group(Role::Viewer)
                .page()
                .with(attempts::BATCH)
                .with(attempts::JOB)
                .with(attempts::WORKER)
                .gives::<List<AttemptView>>(),
            attempts::list,
        )
}
