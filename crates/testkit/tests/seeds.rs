//! Histories of a whole cluster, with the checks of a build for tests. `make sim-ci` runs thousands without.

use tidemill_testkit::{Mask, Mode, run, run_in};

fn keep_every_rule(seeds: std::ops::Range<u64>) {
    let wrong: Vec<String> = seeds
        .map(|seed| run(seed, &Mask::default(), false))
        .filter(|report| !report.wrong.is_empty())
        .map(|report| format!("sim --seed {} --trace: {:?}", report.seed, report.wrong))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn histories_keep_every_rule() {
    keep_every_rule(0..25);
}

#[test]
fn more_histories_keep_every_rule() {
    keep_every_rule(25..50);
}

#[test]
fn the_same_seed_gives_the_same_history_twice() {
    for seed in 5_000..5_010 {
        let (once, again) = (run(seed, &Mask::default(), false), run(seed, &Mask::default(), true));
        assert_eq!((once.hash, once.stats), (again.hash, again.stats), "seed {seed}");
        assert!(!again.trace.is_empty());
    }
}

#[test]
fn different_seeds_give_different_histories() {
    assert_ne!(run(1, &Mask::default(), false).hash, run(2, &Mask::default(), false).hash);
}

/// By this seed it was found that a shortened lease acted on a worker that had been told the longer one. Requests have
/// changed since; what it showed stands by hand in `a_shortened_lease_counts_for_workers_that_were_told_of_it`.
#[test]
fn the_history_of_a_shortened_lease_keeps_every_rule() {
    keep_every_rule(21_427..21_428);
}

fn keep_what_holds_in(mode: Mode) {
    let wrong: Vec<String> = (0..10)
        .map(|seed| run_in(mode, seed, &Mask::default(), false))
        .filter(|report| !report.wrong.is_empty())
        .map(|report| format!("sim --mode … --seed {} --trace: {:?}", report.seed, report.wrong))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rules 2 and 11: the end of a journal, or of the commands, is gone.
#[test]
fn what_is_left_of_a_log_that_lost_its_end_is_worked_on() {
    keep_what_holds_in(Mode::LostTail);
}

/// Rule 5: commands cut off above the resume point, or a topic rebuilt.
#[test]
fn a_partition_that_lost_its_commands_stops_and_the_others_go_on() {
    keep_what_holds_in(Mode::LostTopic);
}

/// OPS-5: the log goes on from a state before its end, and workers live on.
#[test]
fn a_restored_log_gives_nothing_twice_and_is_worked_on() {
    keep_what_holds_in(Mode::Restored);
}

/// Rule 12: what cannot be folded.
#[test]
fn a_partition_that_cannot_be_folded_says_so_and_goes_on_once_mended() {
    keep_what_holds_in(Mode::FailingFold);
}
