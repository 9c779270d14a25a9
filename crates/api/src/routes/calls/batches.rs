//! Batches, their attempts and their logs.

use tidemill_model::{BatchId, JobId, Role};

use super::{AT_LEAST, PAGE};
use crate::call::{Call, Calls, Verb};
use crate::parameter::{Parameter, Rule};
use crate::routes::{attempts, batches, logs, run};
use crate::view::{AttemptView, BatchDetail, BatchView, List, ReturnView, Written};
use crate::worker_logs::{LogPart, Stream};

const AS_OF: Parameter = Parameter::new(
    "as_of",
    "A moment of the past: a time as RFC 3339 has it, or a `position` of the batch's partition; absent: now. The journal is \
     read up to there, one such question at a time, for at most 30 seconds.",
    Rule::of::<batches::AsOf>(),
);

pub(super) fn calls(calls: Calls) -> Calls {
    attempts_of(decisions(reads(calls)))
}

/// Lists and questions.
fn reads(calls: Calls) -> Calls {
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
}

/// What a person decides about one.
fn decisions(calls: Calls) -> Calls {
    calls
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
}

/// Their attempts and logs.
fn attempts_of(calls: Calls) -> Calls {
    calls
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
