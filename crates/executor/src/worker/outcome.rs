//! From how a process ended to how the attempt ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{AttemptOutcome, AttemptResult, Excess, ExcessKind, Timestamp, Usage, is_newer};

use super::ProcessEnd;
use crate::attempt_dir::ExitRecord;
use crate::external_work::ExternalState;
use crate::shim::KillCause;

/// Longest message, characters: the record of an end stands where jobs of the worker's account can write, and a report
/// that no envelope has room for would be repeated for ever.
const MESSAGE_MAX: usize = 1_000;
/// EXE-13: a person looks for it where no attempt follows.
const UNCONFIRMED: &str = "whether its external work has ended is not known";
pub(crate) const VANISHED: &str =
    "its shim was killed, so how it ended is not known; nothing of it runs any more";

/// How the attempt ended, and what it used.
pub(crate) fn of_process(end: ProcessEnd) -> (AttemptOutcome, Option<Usage>) {
    let is_unconfirmed =
        end.record().and_then(|record| record.external.as_ref()).is_some_and(|of| of.unconfirmed);
    let (mut outcome, usage) = of_whole(end);
    if is_unconfirmed && !outcome.message.contains(UNCONFIRMED) {
        let said = [std::mem::take(&mut outcome.message), UNCONFIRMED.to_owned()];
        outcome.message = said.into_iter().filter(|said| !said.is_empty()).collect::<Vec<_>>().join("; ");
    }
    if let Some((end, _)) = outcome.message.char_indices().nth(MESSAGE_MAX) {
        outcome.message.truncate(end);
        outcome.message.push('…');
    }
    (outcome, usage)
}

fn of_whole(end: ProcessEnd) -> (AttemptOutcome, Option<Usage>) {
    match end {
        ProcessEnd::Recorded(record) => {
            let usage = usage(&record);
            (of_record(record), Some(usage))
        }
        ProcessEnd::Checked { record, path, exists } => {
            let usage = usage(&record);
            (by_output_path(record, &path, exists), Some(usage))
        }
        ProcessEnd::Judged { record, path, values, since, changed_at } => {
            let usage = record.as_ref().map(usage);
            (by_newer_output(record, &path, values, (since, changed_at)), usage)
        }
        ProcessEnd::NotStarted(reason) => (without_process(AttemptResult::Failed, &reason), None),
        // Found of an earlier life, it is spoken of as lost.
        ProcessEnd::NoRoom(reason) => (without_process(AttemptResult::Lost, &reason), None),
        ProcessEnd::Abandoned => {
            let message = "the worker process ended before it was started";
            (without_process(AttemptResult::Lost, message), None)
        }
        ProcessEnd::Vanished => (without_process(AttemptResult::Lost, VANISHED), None),
    }
}

fn usage(record: &ExitRecord) -> Usage {
    Usage {
        duration_ms: record.duration_ms,
        cpu_ms: record.cpu_ms,
        peak_memory_kib: record.peak_memory_kib,
        peak_processes: record.peak_processes,
        read_kib: record.read_kib,
        written_kib: record.written_kib,
        unenforced: record.unenforced.clone(),
    }
}

/// EXE-7: what an attempt that failed wanted too much of, for people; nothing where that did not end it.
pub(crate) fn said_of_excess(excess: Option<Excess>) -> Option<String> {
    let Excess { kind, limit, seen } = excess?;
    let limit = limit.map(|limit| limit.to_string()).unwrap_or_default();
    let seen = seen.map(|seen| format!(" ({seen} were seen)")).unwrap_or_default();
    match kind {
        ExcessKind::Memory => Some(format!("it wanted more memory than its limit of {limit} MiB{seen}")),
        ExcessKind::HostMemory => {
            Some("the kernel ended a process of it, for its host had too little memory".to_owned())
        }
        ExcessKind::Processes => Some(format!("it wanted more processes than its limit of {limit}{seen}")),
        ExcessKind::MemoryAlarm | ExcessKind::Output => None,
    }
}

/// EXE-4: its exit code is told and does not count. EXE-13: where the final state decides, that counts first.
fn by_output_path(record: ExitRecord, path: &str, exists: Result<bool, Arc<str>>) -> AttemptOutcome {
    let fault = fault(&record);
    let (result, message) = match (by_final_states(&record), exists) {
        (Some(Err(said)), _) => said,
        (_, Ok(true)) => said_by_values(fault),
        (_, Ok(false)) => (AttemptResult::Failed, format!("its output path {path} does not exist")),
        (_, Err(why)) => {
            (AttemptResult::Failed, format!("whether its output path {path} exists is not known: {why}"))
        }
    };
    let ExitRecord { exit_code, signal, values, excess, .. } = record;
    AttemptOutcome { result, exit_code, signal, message, excess, values }
}

/// ZMB-1: of an attempt that would be lost. An output that stood there before it began proves nothing. With which code or signal
/// its processes were ended says nothing of its work.
fn by_newer_output(
    record: Option<ExitRecord>,
    path: &str,
    values: Result<BTreeMap<String, String>, String>,
    (since, changed_at): (Timestamp, Result<Option<Timestamp>, Arc<str>>),
) -> AttemptOutcome {
    let lost = record.map_or_else(|| without_process(AttemptResult::Lost, VANISHED), of_record);
    let (values, fault) = match values {
        Ok(values) => (values, None),
        Err(fault) => (BTreeMap::new(), Some(values_fault(&fault))),
    };
    let (result, said) = match changed_at {
        Ok(Some(at)) if is_newer(at, since) => {
            let (result, fault) = said_by_values(fault);
            let follows = match result {
                AttemptResult::Success => "so it has succeeded".to_owned(),
                _ => format!("but {fault}"),
            };
            (result, format!("its output path {path} changed at {at}, after it began at {since}, {follows}"))
        }
        Ok(Some(at)) => {
            let said = format!(
                "its output path {path} changed last at {at}, before it began at {since}, and proves nothing"
            );
            (AttemptResult::Failed, said)
        }
        Ok(None) => (AttemptResult::Failed, format!("its output path {path} does not exist")),
        Err(why) => (
            lost.result,
            format!("whether its output path {path} is newer than its start is not known: {why}"),
        ),
    };
    let message = format!("{}; {said}", lost.message);
    match result {
        AttemptResult::Lost => AttemptOutcome { message, ..lost },
        result => AttemptOutcome { result, exit_code: None, signal: None, message, values, ..lost },
    }
}

/// EXE-13: how it did by the states in which what it started elsewhere has ended, where they say that. It has not succeeded where
/// nobody could ask for all of them, whatever its client did.
fn by_final_states(record: &ExitRecord) -> Option<Result<(), (AttemptResult, String)>> {
    let external = record.external.as_ref().filter(|external| external.decides)?;
    let failed = external.work.iter().find_map(|(id, state)| {
        let state = state.filter(|state| *state != ExternalState::Succeeded)?;
        Some(format!("its external work {id} ended as {}", state.word()))
    });
    if let Some(why) = failed {
        return Some(Err((AttemptResult::Failed, why)));
    }
    if external.unconfirmed || external.work.values().any(Option::is_none) {
        return Some(Err((AttemptResult::Lost, UNCONFIRMED.to_owned())));
    }
    (!external.work.is_empty()).then_some(Ok(()))
}

/// BYD-20: what is wrong with what it passes on.
fn fault(record: &ExitRecord) -> Option<String> {
    record.values_fault.as_deref().map(values_fault)
}

fn values_fault(fault: &str) -> String {
    format!("the file that TIDEMILL_VALUES names {fault}")
}

/// Of one that has done what it should: its children are to have what it passes on, too.
fn said_by_values(fault: Option<String>) -> (AttemptResult, String) {
    match fault {
        Some(fault) => (AttemptResult::Failed, fault),
        None => (AttemptResult::Success, String::new()),
    }
}

/// An outcome that no process had a part in.
pub(super) fn without_process(result: AttemptResult, message: &str) -> AttemptOutcome {
    AttemptOutcome { message: message.to_owned(), ..AttemptOutcome::bare(result) }
}

fn of_record(record: ExitRecord) -> AttemptOutcome {
    let (fault, elsewhere) = (fault(&record), by_final_states(&record));
    let ExitRecord { exit_code, signal, kill_cause, error, values, excess, .. } = record;
    let (result, message) = match (kill_cause, error) {
        (Some(because), _) => killed(because),
        (None, Some(error)) => (AttemptResult::Failed, error),
        (None, None) => match (elsewhere, exit_code, signal) {
            (Some(Ok(())), _, _) | (None, Some(0), _) => said_by_values(fault),
            (Some(Err((AttemptResult::Failed, why))), _, _) => {
                (AttemptResult::Failed, said_of_excess(excess).unwrap_or(why))
            }
            (Some(Err(said)), _, _) => said,
            // Exit code and signal speak for themselves.
            (None, Some(_), _) | (None, None, Some(_)) => {
                (AttemptResult::Failed, said_of_excess(excess).or(fault).unwrap_or_default())
            }
            (None, None, None) => (AttemptResult::Failed, "ended without exit code or signal".to_owned()),
        },
    };
    AttemptOutcome { result, exit_code, signal, message, excess, values }
}

/// Only what was asked for is *killed*; otherwise the attempt was lost, and another may follow.
pub(crate) fn killed(because: KillCause) -> (AttemptResult, String) {
    let (result, message) = match because {
        KillCause::Asked => (AttemptResult::Killed, "killed on request"),
        KillCause::WorkerStopped => (AttemptResult::Lost, "killed because the worker was stopped"),
        KillCause::WorkerGone => (AttemptResult::Lost, "killed because the worker process was gone"),
        KillCause::Lease => (AttemptResult::Lost, "killed because the worker's lease ran out"),
        KillCause::TimedOut => (AttemptResult::TimedOut, "ended because its execution timeout had passed"),
        KillCause::Disowned => (AttemptResult::Lost, "killed because the owner does not know of it"),
    };
    (result, message.to_owned())
}
