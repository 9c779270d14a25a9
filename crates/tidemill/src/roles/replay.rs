//! `tidemill rebuild` and `tidemill verify`: the tables anew from the journal, or compared with it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::Receiver;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tidemill_log::Log;
use tidemill_projector::{Difference, Report, Shutdown};

use super::{log, tables};
use crate::config::{LogBackend, Settings};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;

/// Builds a second set of tables beside the first, then puts it to use.
pub(crate) fn rebuild(settings: &Settings, stop: Receiver<()>) -> Done<Exit> {
    let (log, tables) = (open(settings)?, tables::open(settings)?);
    let shutdown = shutdown(stop)?;
    let bar = bar("rebuild");
    let generation = tidemill_projector::rebuild(
        &settings.projector_config(),
        &*log,
        &*tables,
        &shutdown,
        &mut |progress| {
            bar.set_length(progress.total);
            bar.set_position(progress.folded);
        },
    )
    .map_err(|error| {
        Failure::caused("the tables are not rebuilt; those in use are untouched", &error)
            .hint("called again it goes on where it was")
    })?;
    bar.finish_and_clear();
    output::line(format!(
        "Tables {generation} are rebuilt from {} journal records and in use.",
        bar.position()
    ));
    Ok(Exit::Success)
}

/// Folds the journal again and compares it with the tables, row by row.
pub(crate) fn verify(settings: &Settings, stop: Receiver<()>, as_json: bool) -> Done<Exit> {
    let (log, tables) = (open(settings)?, tables::open(settings)?);
    let shutdown = shutdown(stop)?;
    let bar = bar("verify");
    let report = tidemill_projector::verify(&*log, &*tables, &shutdown, &mut |folded, total| {
        bar.set_length(total);
        bar.set_position(folded);
    })
    .map_err(|error| Failure::caused("the tables cannot be verified", &error))?;
    bar.finish_and_clear();
    if as_json {
        output::json(&report_json(&report));
    } else {
        output::line(told(&report));
    }
    Ok(if report.is_clean() { Exit::Success } else { Exit::Failure })
}

/// The log, also the embedded one of a process that does not run.
fn open(settings: &Settings) -> Done<Arc<dyn Log>> {
    match settings.log.backend {
        LogBackend::Kafka => log::shared(settings),
        LogBackend::Embedded => Ok(log::embedded(settings)?),
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

fn bar(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} records, {per_sec}, {eta} left")
        .expect("the template is well formed");
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    ProgressBar::with_draw_target(Some(0), target).with_style(style).with_prefix(what)
}

fn told(report: &Report) -> String {
    let Report { generation, records, void_records, rows, difference_count, .. } = report;
    let mut text = format!(
        "Tables {generation}: {rows} rows, {records} journal records, {void_records} of them void.\n"
    );
    for difference in &report.differences {
        text.push_str(&format!("  {}\n", line(difference)));
    }
    match difference_count {
        0 => text.push_str("No differences."),
        count => text.push_str(&format!("{count} differences. `tidemill rebuild` makes the tables anew.")),
    }
    text
}

fn line(difference: &Difference) -> String {
    let Difference { table, key, column, expected, found } = difference;
    let expected = expected.as_deref().unwrap_or("no row");
    let found = found.as_deref().unwrap_or("no row");
    let column = column.map(|column| format!(".{column}")).unwrap_or_default();
    format!("{table}{column} of ({key}): the journal says {expected}, the table has {found}")
}

fn report_json(report: &Report) -> serde_json::Value {
    let differences: Vec<_> = report
        .differences
        .iter()
        .map(|difference| {
            json!({
                "table": difference.table, "key": difference.key, "column": difference.column,
                "expected": difference.expected, "found": difference.found,
            })
        })
        .collect();
    json!({
        "generation": report.generation, "records": report.records, "void_records": report.void_records,
        "rows": report.rows, "difference_count": report.difference_count, "differences": differences,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            1 differences. `tidemill rebuild` makes the tables anew."#]]
        .assert_eq(&told(&report));
    }
}
