//! `tidemill rebuild` and `tidemill verify`: the tables anew from the journal, or compared with it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use tidemill_api::ports::{RebuildRequest, Task};
use tidemill_cli::{Done, Exit, Failure, Global, Server, Target, output, render::one_line};
use tidemill_journal::Shutdown;
use tidemill_log::Log;
use tidemill_projector::{Config, VerifyConfig};
use tidemill_store::Tables;
use tidemill_store::hints::Hints;

use super::{hints, log, rebuilding, tables};
use crate::config::{LogBackend, Settings};

/// Between two looks at an operation of another process.
const LOOK: Duration = Duration::from_millis(100);

/// Does it here, or has the process do it that has the data directory, or the server that is named.
pub(crate) fn run(global: &Global, settings: &Settings, task: &Task, stop: &Receiver<()>) -> Done<Exit> {
    let bar = bar(task.operation().as_str());
    let report = match opened(global, settings)? {
        Some(log) => here(settings, &*log, task, stop, &bar),
        None => there(global, settings, task, stop, &bar),
    }?;
    bar.finish_and_clear();
    output::answer(global.output, &report, |report| match task {
        Task::Rebuild(_) => rebuilding::told(report),
        Task::Verify => told(report),
    });
    let is_same = report["difference_count"].as_u64().unwrap_or(0) == 0;
    Ok(if is_same && stands(&report).all(|stand| stand["unreadable"].is_null()) {
        Exit::Success
    } else {
        Exit::Failure
    })
}

/// The log; absent where another process has to be asked.
fn opened(global: &Global, settings: &Settings) -> Done<Option<Arc<dyn Log>>> {
    match settings.log.backend {
        _ if global.server.is_some() => Ok(None),
        LogBackend::Kafka => log::shared(settings).map(Some),
        LogBackend::Embedded => {
            Ok(log::embedded_unless_served(settings)?.ok().map(|log| -> Arc<dyn Log> { log }))
        }
    }
}

fn here(
    settings: &Settings,
    log: &dyn Log,
    task: &Task,
    stop: &Receiver<()>,
    bar: &ProgressBar,
) -> Done<Value> {
    let tables = match task {
        Task::Rebuild(RebuildRequest { dry_run: true, .. }) => tables::look(settings)?,
        Task::Rebuild(_) | Task::Verify => tables::open(settings)?,
    };
    let (config, verify) = (settings.projector.clone(), settings.verify_config());
    let hints = hints::shared(settings, log)?;
    let shutdown = shutdown(stop.clone())?;
    let sight = Sight {
        config: &config,
        verify: &verify,
        log,
        tables: &*tables,
        hints: hints.as_deref(),
        shutdown: &shutdown,
    };
    work(&sight, task, &mut |records, total| show(bar, records, total))
}

/// Asks the process that serves, and follows what it does.
fn there(
    global: &Global,
    settings: &Settings,
    task: &Task,
    stop: &Receiver<()>,
    bar: &ProgressBar,
) -> Done<Value> {
    let mut target = Target::find(global.server.as_deref(), global.key.as_deref(), &settings.of_clients())?
        .trusting(global.ca_file.as_deref());
    if global.server.is_none() && global.key.is_none() {
        target = target.with_operator_key(&settings.of_clients())?;
    }
    let server = Server::new(target)?;
    let name = task.operation().as_str();
    let body = match task {
        Task::Rebuild(request) => Some(json!(request)),
        Task::Verify => None,
    };
    let begun = server.post(&format!("/api/admin/{name}"), body.as_ref())?;
    let interrupted =
        || Failure::new(Exit::Failure, format!("no longer follows the {name}; the server goes on with it"));
    loop {
        let mut now = server.get("/api/admin", &[])?;
        if now["number"] != begun["number"] {
            return Err(Failure::new(Exit::OutcomeUnknown, format!("the server has forgotten the {name}"))
                .hint("it was started again meanwhile; repeat the command"));
        }
        show(bar, now["records"].as_u64().unwrap_or(0), now["total_records"].as_u64().unwrap_or(0));
        match now["state"].as_str() {
            Some("running") => {}
            Some("done") => return Ok(now["report"].take()),
            _ => return Err(Failure::new(Exit::Failure, one_line(&now["error"]))),
        }
        if !matches!(stop.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
            return Err(interrupted());
        }
    }
}

/// What an operation works on.
pub(super) struct Sight<'a> {
    pub(super) config: &'a Config,
    pub(super) verify: &'a VerifyConfig,
    pub(super) log: &'a dyn Log,
    pub(super) tables: &'a dyn Tables,
    /// Absent: there are none that processes share.
    pub(super) hints: Option<&'a dyn Hints>,
    pub(super) shutdown: &'a Shutdown,
}

/// Does it; `on_progress` hears how many records are folded, of how many. Gives the report.
pub(super) fn work(sight: &Sight<'_>, task: &Task, on_progress: &mut dyn FnMut(u64, u64)) -> Done<Value> {
    let Sight { verify, log, tables, hints, shutdown, .. } = *sight;
    match task {
        Task::Rebuild(request) => rebuilding::work(sight, request, on_progress),
        Task::Verify => {
            let mut report = tidemill_projector::verify_within(verify, log, tables, shutdown, on_progress)
                .map_err(|error| {
                    let missing = "where tables are missing, `tidemill rebuild` makes them anew";
                    Failure::caused("the tables cannot be verified", &error)
                        .hint(error.remedy().unwrap_or(missing))
                })?;
            if let Some(hints) = hints {
                tidemill_projector::verify_hints(log, hints, shutdown, &mut report, on_progress).map_err(
                    |error| {
                        let absent =
                            "start the server of redis.url; without redis.url only the tables are verified";
                        Failure::caused("the hints cannot be verified", &error)
                            .hint(error.remedy().unwrap_or(absent))
                    },
                )?;
            }
            Ok(json!(report))
        }
    }
}

/// A signal interrupts.
fn shutdown(stop: Receiver<()>) -> Done<Shutdown> {
    let shutdown = Shutdown::new();
    let told = shutdown.clone();
    thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            if stop.recv().is_ok() {
                told.request();
            }
        })
        .map_err(|error| Failure::caused("cannot start a thread", &error))?;
    Ok(shutdown)
}

pub(super) fn bar(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} records, {per_sec}, {eta} left")
        .expect("the template is well formed");
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    ProgressBar::with_draw_target(Some(0), target).with_style(style).with_prefix(what)
}

fn show(bar: &ProgressBar, records: u64, total: u64) {
    bar.set_length(total);
    bar.set_position(records);
}

fn told(report: &Value) -> String {
    let number = |field: &str| one_line(&report[field]);
    let (generation, records) = (number("generation"), number("records"));
    let (rows, void) = (number("rows"), number("void_records"));
    let mut text =
        format!("Tables {generation}: {rows} rows, {records} journal records, {void} of them void.\n");
    if let Some(hints) = report["hints"].as_u64().filter(|hints| *hints > 0) {
        text.push_str(&format!("Hints of pulls that count: {hints}.\n"));
    }
    stands(report).filter_map(stand_line).for_each(|line| text.push_str(&line));
    for difference in report["differences"].as_array().into_iter().flatten() {
        text.push_str(&format!("  {}\n", line(difference)));
    }
    match report["difference_count"].as_u64() {
        Some(0) if stands(report).all(|stand| stand["behind"] == 0) => text.push_str("No differences."),
        Some(0) => text.push_str("No differences up to where the tables stand."),
        _ => {
            let count = number("difference_count");
            text.push_str(&format!("Differences: {count}. `tidemill rebuild` rebuilds the tables."));
            let is_hint = |difference: &Value| difference["table"] == "hints";
            if report["differences"].as_array().is_some_and(|all| all.iter().any(is_hint)) {
                text.push_str(" `tidemill rebuild hints` rebuilds the hints, which is safe at any time.");
            }
        }
    }
    text
}

/// Where the tables stand, partition by partition.
fn stands(report: &Value) -> impl Iterator<Item = &Value> {
    report["partitions"].as_array().into_iter().flatten()
}

/// Of a partition whose tables are behind.
fn stand_line(stand: &Value) -> Option<String> {
    let behind = stand["behind"].as_u64().filter(|behind| *behind > 0)?;
    let partition = one_line(&stand["partition"]);
    let last = stand["end"].as_u64().unwrap_or(0).saturating_sub(1);
    let shown = match stand["offset"].as_u64() {
        Some(offset) => format!("they show it up to record {offset}"),
        None => "they show nothing of it".to_owned(),
    };
    let records = if behind == 1 { "record" } else { "records" };
    let mut text = format!(
        "Partition {partition}: the tables are {behind} {records} behind the journal: {shown}, it ends with record {last}.\n"
    );
    let unreadable = &stand["unreadable"];
    if !unreadable.is_null() {
        let (offset, reason) = (one_line(&unreadable["offset"]), one_line(&unreadable["reason"]));
        let remedy = one_line(&unreadable["remedy"]);
        text.push_str(&format!(
            "  Record {offset} cannot be read, and the tables do not go past it: {reason}.\n  hint: {remedy}\n"
        ));
    }
    Some(text)
}

pub(super) fn line(difference: &Value) -> String {
    let text = |field: &str| difference[field].as_str().unwrap_or("no row");
    let column = difference["column"].as_str().map(|column| format!(".{column}")).unwrap_or_default();
    let (table, key, expected, found) = (text("table"), text("key"), text("expected"), text("found"));
    if table == "hints" {
        return format!("hint of ({key}): the journal says {expected}, the hint says {found}");
    }
    format!("{table}{column} of ({key}): the journal says {expected}, the table has {found}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_projector::{Difference, Report, Stand};

    /// A7: a changed row is named.
    #[test]
    fn report_names_row_and_column() {
        let difference = Difference {
            table: "batches",
            key: "4097".to_owned(),
            column: Some("state"),
            expected: Some("3".to_owned()),
            found: Some("2".to_owned()),
        };
        let report = Report {
            generation: 1,
            records: 10,
            rows: 5,
            differences: vec![difference],
            difference_count: 1,
            ..Report::default()
        };
        expect_test::expect![[r#"
            Tables 1: 5 rows, 10 journal records, 0 of them void.
              batches.state of (4097): the journal says 3, the table has 2
            Differences: 1. `tidemill rebuild` rebuilds the tables."#]]
        .assert_eq(&told(&json!(report)));
    }

    /// Tables that show nothing of a journal are as far behind as it is long; those that show all of it are not mentioned.
    #[test]
    fn report_says_how_far_behind_the_tables_are() {
        let stand = |partition, offset, behind| Stand { partition, offset, end: 8, behind, unreadable: None };
        let stands = vec![stand(0, Some(7), 0), stand(1, None, 8), stand(2, Some(6), 1)];
        let report = Report { generation: 1, stands, ..Report::default() };
        expect_test::expect![[r#"
            Tables 1: 0 rows, 0 journal records, 0 of them void.
            Partition 1: the tables are 8 records behind the journal: they show nothing of it, it ends with record 7.
            Partition 2: the tables are 1 record behind the journal: they show it up to record 6, it ends with record 7.
            No differences up to where the tables stand."#]].assert_eq(&told(&json!(report)));
    }
}
