//! The end of a run: everything stopped in order, and what has to hold.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tidemill_checker::{Invariant, Options, check_log};
use tidemill_model::{BatchEvent, BatchResult, Event, JobEvent};

use crate::conduct::{self, Conduct, traces};
use crate::fixture::Fixture;
use crate::history::{Action, History, Told};
use crate::journal::Journal;
use crate::recovery::events;
use crate::report::{Operations, Report};
use crate::role::Part;
use crate::{compare, doings, jobs, logs, pulled, takeover, witness};

/// Until the tables, and what is decided, have caught up.
const SETTLE: Duration = Duration::from_secs(60);

/// From so many on one has its path and its report, and time.
const GATED: usize = 10;

/// Rules of this run beyond those of the checker.
const OWN_RULES: [&str; 26] = [
    "acknowledged_write_has_its_event",
    "refused_write_has_none",
    "unknown_write_has_none_or_one",
    "repeated_request_gets_the_same_answer",
    "read_shows_what_was_acknowledged",
    "one_grant_of_a_user_until_it_is_over",
    "task_is_offered_within_1_s",
    "one_live_attempt_on_disk",
    "no_process_outlives_its_attempt",
    "tables_equal_the_journal",
    "takeover_within_10_s",
    "recovered_within_30_s_and_drained",
    "no_process_panics",
    "reader_of_the_log_goes_on",
    conduct::ANSWERED,
    conduct::CHANGES_NOTHING,
    conduct::SERVED,
    logs::KEPT,
    logs::WHOLE,
    logs::AGREES,
    logs::SHOWN,
    doings::ONCE,
    doings::AGAIN,
    doings::REFUSED,
    pulled::CALLS,
    pulled::OUTLIVE,
];

/// Stops the roles in order, so that every command is decided and the tables have it all.
pub(crate) fn settle(fixture: &Fixture, journal: &mut Journal, report: &mut Report) -> Result<()> {
    let stop = |part, report: &mut Report| {
        for role in fixture.of_part(part) {
            match role.stop() {
                Ok(status) if status.success() => {}
                Ok(status) => report.violations.push(format!("{} stopped with {status}", role.name)),
                Err(error) => report.violations.push(format!("{error:#}")),
            }
        }
    };
    stop(Part::Executor, report);
    stop(Part::Producers, report);
    stop(Part::Api, report);
    stop(Part::Logs, report);
    let begun_at = Instant::now();
    loop {
        journal.catch_up()?;
        if journal.has_decided_all()? {
            break;
        }
        if begun_at.elapsed() > SETTLE {
            report.violations.push(format!("commands are undecided after {SETTLE:?}"));
            break;
        }
        thread::sleep(Duration::from_millis(200));
    }
    // It tells of rows that differ, and waits for nobody: the projector may need a moment more.
    let begun_at = Instant::now();
    let verified = loop {
        let verified = fixture.admin(&["verify", "-o", "json"]);
        if verified.is_ok() || begun_at.elapsed() > SETTLE / 4 {
            break verified;
        }
    };
    if let Err(error) = verified {
        report.violations.push(format!("tables_equal_the_journal: {error:#}"));
    }
    stop(Part::Projector, report);
    stop(Part::Dispatcher, report);
    journal.catch_up()?;
    Ok(())
}

/// Everything that has to hold.
pub(crate) fn judge(
    fixture: &Fixture,
    journal: &mut Journal,
    histories: Vec<History>,
    conduct: &Conduct,
    report: &mut Report,
) -> Result<()> {
    report.invariants = Invariant::ALL.iter().map(|rule| rule.name().to_owned()).collect();
    report.invariants.extend(OWN_RULES.map(str::to_owned));
    let checked = check_log(journal.log(), Options { at_rest: true, ..Options::default() })?;
    report.checked = checked.to_string().lines().next().unwrap_or_default().to_owned();
    report.violations.extend(checked.violations.iter().map(ToString::to_string));

    let stalls = journal.stalls().iter().map(|stall| format!("reader_of_the_log_goes_on: {stall}"));
    report.violations.extend(stalls);
    count(&histories, journal, report);
    let violations = histories.iter().flat_map(|history| history.violations.clone());
    report.violations.extend(violations);
    let writes: Vec<_> = histories.into_iter().flat_map(|history| history.writes).collect();
    std::fs::write(fixture.dir.join("history.json"), serde_json::to_vec(&writes)?)?;
    report.violations.extend(compare::compare("admin", &writes, journal.entries()));

    report.hostile = conduct.ends();
    report.violations.extend(conduct.violations(&report.struck));
    report.violations.extend(traces(journal.entries()));

    let seen = witness::check(&fixture.dir.join("witness"), journal.entries())?;
    report.attempts_on_disk = seen.starts;
    report.violations.extend(seen.wrong);

    let address_of = |name: &str| fixture.role(name).ok().map(|role| role.address.clone());
    report.takeovers = takeover::takeovers(journal.entries(), &report.struck, &address_of);
    let late = report.takeovers.iter().filter(|it| !it.disturbed && it.took_ms > takeover::BOUND_MS);
    let late: Vec<_> = late.map(|it| format!("takeover_within_10_s: {it:?}")).collect();
    report.violations.extend(late);
    for role in &fixture.roles {
        let panics =
            role.panics().into_iter().map(|line| format!("no_process_panics: {}: {line}", role.name));
        report.violations.extend(panics);
    }
    let nothing =
        report.all_writes().ok == 0 || report.batches.get("success").is_none_or(|count| *count == 0);
    if nothing {
        report.violations.push("nothing succeeded".to_owned());
    }
    report.violations.extend(no_gate_opens(journal));
    Ok(())
}

/// Batches that waited for a path and a report, so many that one of them must have succeeded, and none has.
fn no_gate_opens(journal: &Journal) -> Option<String> {
    let (mut gated, mut batches, mut opened) = (None, BTreeSet::new(), 0);
    for event in events(journal.entries()) {
        match event {
            Event::Job(JobEvent::Defined { definition, .. }) if definition.full_name() == jobs::GATED => {
                gated = Some(definition.id);
            }
            Event::Batch(BatchEvent::Generated { batch, job, .. }) if gated == Some(*job) => {
                batches.insert(*batch);
            }
            Event::Batch(BatchEvent::Finished { batch, result: BatchResult::Success, .. })
                if batches.contains(batch) =>
            {
                opened += 1;
            }
            _ => {}
        }
    }
    (batches.len() >= GATED && opened == 0)
        .then(|| format!("none of {} batches that waited for a path was done", batches.len()))
}

fn count(histories: &[History], journal: &Journal, report: &mut Report) {
    for history in histories {
        report.reads.ok += history.reads_ok;
        report.reads.failed += history.reads_failed;
        for written in &history.writes {
            let operations: &mut Operations = report.writes.entry(name_of(&written.action)).or_default();
            match &written.told {
                Told::Ok(_) => operations.ok += 1,
                Told::Refused(_) => operations.failed += 1,
                Told::Unknown(_) => operations.unknown += 1,
            }
        }
    }
    for event in events(journal.entries()) {
        if let Event::Batch(BatchEvent::Finished { result, .. }) = event {
            *report.batches.entry(result.as_str()).or_default() += 1;
        }
    }
}

const fn name_of(action: &Action) -> &'static str {
    match action {
        Action::Run => "run",
        Action::Rerun(_) => "rerun",
        Action::Kill(_) => "kill",
        Action::Apply(_) => "apply",
        Action::Switch(..) => "switch",
        Action::Submit => "submit",
        Action::Plan => "plan",
        Action::Report(_) => "report",
        Action::Pull(_) => "pull",
        Action::Complete(_) => "complete",
        Action::Return(_) => "return",
        Action::Task => "task",
        Action::Move(..) => "move",
        Action::Absurd => "absurd",
    }
}
