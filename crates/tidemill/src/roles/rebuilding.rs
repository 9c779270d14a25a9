//! What `tidemill rebuild` does: tables, hints or both, or only saying what would be done.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tidemill_api::ports::{RebuildRequest, RebuildScope};
use tidemill_cli::{Done, Failure, render::one_line};
use tidemill_log::Topic;
use tidemill_model::Timestamp;
use tidemill_projector::{PlanRequest, Report, Since, plan_rebuild, rebuild, rebuild_since, verify_hints};
use tidemill_store::Error as StoreError;
use tidemill_store::hints::Hints;

use super::replay::{Sight, line};

/// Does it, and gives the report.
pub(super) fn work(
    sight: &Sight<'_>,
    request: &RebuildRequest,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Done<Value> {
    let (with_tables, with_hints) = match request.what {
        RebuildScope::Tables => (true, false),
        RebuildScope::Hints => (false, true),
        RebuildScope::All => (true, true),
    };
    // First: what cannot be is told before anything is done.
    let hints = if with_hints { Some(hints_of(sight)?) } else { None };
    let mut report = match (with_tables, request.dry_run) {
        (false, _) => json!({}),
        (true, true) => plan(sight, request, on_progress)?,
        (true, false) => tables(sight, request.from, on_progress)?,
    };
    if let Some(hints) = hints {
        report["hints"] = match request.dry_run {
            true => look_at_hints(sight, hints, request.compare, on_progress)?,
            false => forget_hints(sight, hints)?,
        };
    }
    report["dry_run"] = json!(request.dry_run);
    Ok(report)
}

fn since(sight: &Sight<'_>, from: Option<Timestamp>) -> Option<Since> {
    from.map(|at| Since { scratch: sight.verify.scratch.clone(), ..Since::new(at) })
}

fn tables(sight: &Sight<'_>, from: Option<Timestamp>, on_progress: &mut dyn FnMut(u64, u64)) -> Done<Value> {
    let Sight { config, log, tables, shutdown, .. } = *sight;
    let failed = |error: tidemill_projector::Error| match error {
        error @ tidemill_projector::Error::Since { .. } => Failure::bad_input(error.to_string()),
        error => {
            let failure = Failure::caused("the tables are not rebuilt; those in use are untouched", &error);
            let again = match from {
                None => "called again it goes on where it was",
                Some(_) => "called again it begins anew",
            };
            match error {
                // It says itself what to do.
                tidemill_projector::Error::Tables {
                    source: StoreError::RebuildGoesOn { .. } | StoreError::RebuildReplaced { .. },
                    ..
                } => failure,
                error => failure.hint(error.remedy().unwrap_or(again)),
            }
        }
    };
    let mut records = 0;
    let mut told = |progress: tidemill_projector::RebuildProgress| {
        records = progress.folded;
        on_progress(progress.folded, progress.total);
    };
    match since(sight, from) {
        None => {
            let generation = rebuild(config, log, tables, shutdown, &mut told).map_err(failed)?;
            Ok(json!({ "generation": generation, "records": records }))
        }
        Some(since) => {
            let rebuilt = rebuild_since(config, &since, log, tables, shutdown, &mut told).map_err(failed)?;
            Ok(json!({
                "generation": rebuilt.generation, "records": rebuilt.records, "from": since.at,
                "copied_rows": rebuilt.copied_rows,
            }))
        }
    }
}

fn plan(sight: &Sight<'_>, request: &RebuildRequest, on_progress: &mut dyn FnMut(u64, u64)) -> Done<Value> {
    let Sight { config, verify, log, tables, shutdown, .. } = *sight;
    let asked =
        PlanRequest { since: since(sight, request.from), compare: request.compare, verify: verify.clone() };
    let plan = plan_rebuild(config, &asked, log, tables, shutdown, on_progress);
    let plan = plan.map_err(|error| match error {
        error @ tidemill_projector::Error::Since { .. } => Failure::bad_input(error.to_string()),
        error => Failure::caused("it cannot be said what a rebuild would do; nothing was changed", &error),
    })?;
    Ok(json!(plan))
}

fn hints_of<'a>(sight: &Sight<'a>) -> Done<&'a dyn Hints> {
    sight.hints.ok_or_else(|| {
        Failure::bad_input(
            "there are no hints here: redis.url is not set, and no process serves this data directory",
        )
        .hint("hints in memory go with their process; `tidemill rebuild` without `hints` rebuilds the tables")
    })
}

fn unusable(partition: u32, error: &tidemill_store::Error) -> Failure {
    Failure::caused(format!("the hints of partition {partition} are not rebuilt"), error).hint(
        "no hint that is there misleads anybody after this, as far as it went; start the server of redis.url, and repeat it",
    )
}

/// The life of each partition ends, and its hints go; who keeps them begins a new life.
fn forget_hints(sight: &Sight<'_>, hints: &dyn Hints) -> Done<Value> {
    let mut forgotten = 0;
    for partition in 0..sight.log.partitions(Topic::Journal) {
        forgotten += hints.forget(partition).map_err(|error| unusable(partition, &error))?;
    }
    Ok(json!({ "forgotten": forgotten }))
}

fn look_at_hints(
    sight: &Sight<'_>,
    hints: &dyn Hints,
    compare: bool,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Done<Value> {
    let mut present = 0_usize;
    for partition in 0..sight.log.partitions(Topic::Journal) {
        let mut from = None;
        loop {
            let page = hints.page(partition, from).map_err(|error| unusable(partition, &error))?;
            present += page.looks.len();
            from = page.next;
            if from.is_none() {
                break;
            }
        }
    }
    let mut looked = json!({ "present": present });
    if compare {
        let mut report = Report::default();
        verify_hints(sight.log, hints, sight.shutdown, &mut report, on_progress)
            .map_err(|error| Failure::caused("the hints cannot be compared; nothing was changed", &error))?;
        looked["counting"] = json!(report.hints);
        looked["misleading"] = json!(report.difference_count);
    }
    Ok(looked)
}

/// The report for people.
pub(super) fn told(report: &Value) -> String {
    let mut text = String::new();
    let is_dry = report["dry_run"] == true;
    if is_dry && !report["partitions"].is_null() {
        planned(report, &mut text);
    } else if !report["generation"].is_null() {
        let (set, records) = (one_line(&report["generation"]), one_line(&report["records"]));
        let _ = writeln!(text, "Tables {set} are rebuilt from {records} journal records and in use.");
        if let Some(copied) = report["copied_rows"].as_u64() {
            let from = one_line(&report["from"]);
            let _ = writeln!(
                text,
                "{copied} rows that nothing has changed since {from} are copies and were not looked at: what was wrong in \
                 them before still is. `tidemill verify` names it."
            );
        }
    }
    let hints = &report["hints"];
    if let Some(forgotten) = hints["forgotten"].as_u64() {
        let _ = writeln!(text, "{forgotten} hints are forgotten. Owners are asked until there are new ones.");
    }
    if let Some(present) = hints["present"].as_u64() {
        let _ = write!(text, "{present} hints would be forgotten; no journal record is read for that.");
        if let Some(misleading) = hints["misleading"].as_u64() {
            let _ = write!(text, " {} of them count, {misleading} mislead.", one_line(&hints["counting"]));
        }
        text.push('\n');
    }
    if is_dry {
        text.push_str("Nothing was changed.");
    }
    text.trim_end().to_owned()
}

fn planned(report: &Value, text: &mut String) {
    let number = |field: &str| one_line(&report[field]);
    match (&report["unfinished"], &report["generation"]) {
        (Value::Null, _) => text.push_str("A new set of tables would be filled"),
        (set, _) => {
            let _ =
                write!(text, "Tables {}, which an interrupted rebuild left, would be filled", one_line(set));
        }
    }
    match &report["from"] {
        Value::Null => text.push_str(" from the journal.\n"),
        from => {
            let _ = writeln!(
                text,
                " from the journal; rows of history that nothing has changed since {} would be copied.",
                one_line(from)
            );
        }
    }
    for partition in report["partitions"].as_array().into_iter().flatten() {
        let field = |name: &str| one_line(&partition[name]);
        let _ =
            write!(text, "Partition {}: records {} to {}", field("partition"), field("from"), field("end"));
        if partition["folded_from"] != partition["from"] {
            let _ = write!(text, ", all of it folded from {} on", field("folded_from"));
        }
        match partition["segments"].as_array().map_or(0, Vec::len) {
            0 => text.push_str(", from the log.\n"),
            segments => {
                let (records, bytes) = (field("archived_records"), field("segment_bytes"));
                let _ = writeln!(
                    text,
                    ", {records} of them from {segments} segments of the archive, {bytes} bytes."
                );
            }
        }
    }
    let _ = writeln!(text, "{} records would be read.", number("records"));
    match &report["generation"] {
        Value::Null => text.push_str("No tables of this version are in use.\n"),
        set => {
            let _ = writeln!(text, "Tables {} are in use, with {} rows.", one_line(set), number("rows"));
        }
    }
    if let Some(holder) = report["in_progress"]["holder"].as_str() {
        let since = one_line(&report["in_progress"]["begun_at"]);
        let _ = writeln!(
            text,
            "A rebuild goes on since {since}, by {holder}: until it ends, another is refused."
        );
    }
    if let Some(seconds) = report["estimated_s"].as_f64() {
        let _ = writeln!(
            text,
            "It would take about {seconds} s, by a sample folded into a file here; a database server may take longer."
        );
    }
    if !report["comparison"].is_null() {
        compared(&report["comparison"], text);
    }
}

fn compared(compared: &Value, text: &mut String) {
    let field = |name: &str| one_line(&compared[name]);
    let _ = writeln!(
        text,
        "Differences now: {}. Of those listed {} would be mended, and {} would stay, in rows that would be copied.",
        field("difference_count"),
        field("mended"),
        field("left"),
    );
    for difference in compared["differences"].as_array().into_iter().flatten() {
        let fate = if difference["mended"] == true { "mended" } else { "stays" };
        let _ = writeln!(text, "  {fate}: {}", line(difference));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EVT-7: a person reads what a rebuild would do.
    #[test]
    fn dry_run_is_told() {
        let report = json!({
            "dry_run": true, "generation": 3, "unfinished": null, "from": "2026-01-01T00:00:00Z", "records": 40, "rows": 7,
            "estimated_s": 1.5, "partitions": [
                {"partition": 0, "from": 0, "folded_from": 10, "end": 30, "archived_records": 12, "segments": ["a", "b"],
                 "segment_bytes": 99},
                {"partition": 1, "from": 0, "folded_from": 0, "end": 10, "archived_records": 0, "segments": []},
            ],
            "in_progress": {"holder": "process 7 of a", "begun_at": "2026-01-02T00:00:00Z", "seen_at": "2026-01-02T00:00:05Z"},
            "comparison": {"difference_count": 1, "mended": 0, "left": 1, "differences": [
                {"table": "batches", "key": "7", "column": "state", "expected": "3", "found": "2", "mended": false},
            ]},
            "hints": {"present": 4, "counting": 3, "misleading": 1},
        });
        expect_test::expect![[r#"
            A new set of tables would be filled from the journal; rows of history that nothing has changed since 2026-01-01T00:00:00Z would be copied.
            Partition 0: records 0 to 30, all of it folded from 10 on, 12 of them from 2 segments of the archive, 99 bytes.
            Partition 1: records 0 to 10, from the log.
            40 records would be read.
            Tables 3 are in use, with 7 rows.
            A rebuild goes on since 2026-01-02T00:00:00Z, by process 7 of a: until it ends, another is refused.
            It would take about 1.5 s, by a sample folded into a file here; a database server may take longer.
            Differences now: 1. Of those listed 0 would be mended, and 1 would stay, in rows that would be copied.
              stays: batches.state of (7): the journal says 3, the table has 2
            4 hints would be forgotten; no journal record is read for that. 3 of them count, 1 mislead.
            Nothing was changed."#]]
        .assert_eq(&told(&report));
    }
}
