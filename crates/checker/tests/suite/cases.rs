//! The table of all rules.

use std::collections::BTreeSet;

use tidemill_checker::Invariant;

use crate::kit::Case;
use crate::{
    applies, bulks, commands, credentials, depend, dependencies, directory, external_dependencies,
    external_work, facts, firing, foreign, generation, journal, leaving, levels, life, limits, lost_output,
    moves, pools, pulls, removals, reruns, rights, shards, snapshots, strays, workers,
};

fn cases() -> Vec<Case> {
    [
        journal::cases(),
        levels::cases(),
        snapshots::cases(),
        commands::cases(),
        shards::cases(),
        applies::cases(),
        applies::names(),
        bulks::cases(),
        credentials::cases(),
        depend::cases(),
        directory::owners(),
        directory::cases(),
        removals::cases(),
        moves::cases(),
        reruns::cases(),
        generation::cases(),
        firing::cases(),
        dependencies::cases(),
        foreign::cases(),
        external_dependencies::cases(),
        pools::cases(),
        pulls::cases(),
        life::cases(),
        external_work::cases(),
        lost_output::cases(),
        limits::cases(),
        rights::cases(),
        facts::cases(),
        workers::cases(),
        leaving::cases(),
        strays::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn good_histories_keep_every_rule() {
    for case in cases() {
        let report = case.good.check();
        assert!(report.is_clean(), "{}, {}: {report}", case.rule, case.what);
    }
}

#[test]
fn bad_histories_break_exactly_the_rule_that_is_meant() {
    let mut wrong = String::new();
    for case in cases() {
        let report = case.bad.check();
        if !report.counts.keys().copied().eq([case.rule.name()]) {
            wrong += &format!("{}, {}: {report}\n", case.rule, case.what);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_rule_has_a_case() {
    let shown: BTreeSet<_> = cases().iter().map(|case| case.rule).collect();
    let missing: Vec<_> = Invariant::ALL.iter().filter(|rule| !shown.contains(rule)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn violations_name_their_place_and_record() {
    let case = cases().into_iter().find(|case| case.rule == Invariant::FinishedIsFinal).unwrap();
    let report = case.bad.check();
    let violation = &report.violations[0];
    assert_eq!((violation.partition, violation.event), (0, Some(0)));
    assert!(violation.record.contains("kill_requested"), "{violation}");
}

#[test]
fn output_is_bounded() {
    let many =
        (0..50).fold(crate::kit::world(), |history, _| history.command([crate::kit::finished(7, "success")]));
    let report = many.check();
    assert_eq!(report.counts["only_allowed_transitions"], 50);
    assert_eq!(report.violations.len(), 20);
}
