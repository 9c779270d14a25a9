//! What a check found, for people and for programs.

use serde_json::{Value, json};
use tidemill_checker::{Invariant, Report, Violation};
use tidemill_cli::render;

/// Characters of a record that a line shows; `-o json` has more of it.
const SHOWN: usize = 240;

pub(super) fn json(source: &str, report: &Report) -> Value {
    let rules: Vec<_> = Invariant::ALL
        .iter()
        .map(|rule| json!({ "name": rule.name(), "rule": rule.sentence(), "findings": findings(report, *rule) }))
        .collect();
    let violations: Vec<_> = report
        .violations
        .iter()
        .map(|violation| {
            json!({
                "invariant": violation.invariant, "position": position(violation.partition, violation.offset),
                "event": violation.event, "message": violation.message, "record": violation.record,
                "contradicts": earlier(violation),
            })
        })
        .collect();
    let voids: Vec<_> = report
        .void_records
        .iter()
        .map(|void| json!({ "position": position(void.partition, void.offset), "reason": void.reason.to_string() }))
        .collect();
    json!({
        "source": source, "partitions": report.partitions, "envelopes": report.envelopes, "events": report.events,
        "commands": report.commands, "void_records": report.voids.values().sum::<u64>(), "voids": voids,
        "finding_count": report.counts.values().sum::<u64>(), "invariants": rules, "findings": violations,
    })
}

pub(super) fn text(source: &str, report: &Report) -> String {
    let void: u64 = report.voids.values().sum();
    let mut text = format!(
        "{source}: {} partitions, {} envelopes, {} events, {} commands, {void} void records.\n\n",
        report.partitions.len(),
        report.envelopes,
        report.events,
        report.commands,
    );
    let rows = Invariant::ALL.iter().map(|rule| {
        vec![rule.name().to_owned(), findings(report, *rule).to_string(), rule.sentence().to_owned()]
    });
    text.push_str(&render::table(&["INVARIANT", "FINDINGS", "WHAT HOLDS"], rows));
    text.push_str("\n\n");
    for void in &report.void_records {
        let place = position(void.partition, void.offset);
        text.push_str(&format!("{place}  void, does not count: {}\n", void.reason));
    }
    for violation in &report.violations {
        text.push_str(&finding(violation));
    }
    let count: u64 = report.counts.values().sum();
    match (count, report.violations.len()) {
        (0, _) => text.push_str("No findings: every rule holds."),
        (count, shown) if count > shown as u64 => {
            text.push_str(&format!("Findings: {count}, of which the first {shown} are shown."));
        }
        (count, _) => text.push_str(&format!("Findings: {count}.")),
    }
    text
}

fn finding(violation: &Violation) -> String {
    let place = position(violation.partition, violation.offset);
    let event = violation.event.map(|index| format!(" event {index}")).unwrap_or_default();
    let mut text = format!("{place}{event}  {}: {}\n", violation.invariant, violation.message);
    if !violation.contradicts.is_empty() {
        text.push_str(&format!("    contradicts {}\n", earlier(violation).join(", ")));
    }
    if !violation.record.is_empty() {
        let is_cut = violation.record.chars().count() > SHOWN;
        let shown: String = violation.record.chars().take(SHOWN).collect();
        text.push_str(&format!("    {shown}{}\n", if is_cut { "…" } else { "" }));
    }
    text
}

fn findings(report: &Report, rule: Invariant) -> u64 {
    report.counts.get(rule.name()).copied().unwrap_or(0)
}

fn earlier(violation: &Violation) -> Vec<String> {
    violation.contradicts.iter().map(|offset| position(violation.partition, *offset)).collect()
}

fn position(partition: u32, offset: u64) -> String {
    format!("{partition}:{offset}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BYD-9: a finding is its place, its rule, what is wrong, and the record.
    #[test]
    fn finding_is_told_with_its_place() {
        let violation = Violation {
            invariant: Invariant::FinishedIsFinal.name(),
            partition: 1,
            offset: 17,
            event: Some(2),
            message: "batch 4097 is assigned after its end".to_owned(),
            record: "{\"shard\":1}".to_owned(),
            contradicts: vec![9],
        };
        let mut report = Report { violations: vec![violation], ..Report::default() };
        report.counts.insert(Invariant::FinishedIsFinal.name(), 3);
        let text = text("x.journal", &report);
        let (_, told) = text.split_once("1:17").expect("the place is named");
        expect_test::expect![[r#"
             event 2  finished_is_final: batch 4097 is assigned after its end
                contradicts 1:9
                {"shard":1}
            Findings: 3, of which the first 1 are shown."#]]
        .assert_eq(told);
        let row =
            text.lines().find(|line| line.starts_with("finished_is_final")).expect("the rule has a row");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            cells.join(" "),
            "finished_is_final 3 Nothing changes a finished batch but a mark by hand."
        );
        let json = json("x.journal", &report);
        assert_eq!(json["finding_count"], 3);
        assert_eq!(json["findings"][0]["position"], "1:17");
    }
}
