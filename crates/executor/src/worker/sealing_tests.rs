//! From when on the worker seals, and what it does about an owner with another key.

use expect_test::expect;
use tidemill_model::{Incarnation, WorkMessage};

use super::tests::{heard, registered_worker, worker};
use super::{Input, Output, Tag};

/// EXE-11: the key comes with the answer to the first registration, and nothing is registered again for it.
#[test]
fn key_that_comes_with_the_answer_seals_what_follows() {
    worker().check(expect![[r#"
        > tick 1000
        register i-1, live []
        heartbeat
        > key one for i-1
        seal
        heartbeat
        > registered i-1
        > key one for i-1
        > assigned 8 noop
        request 8 with i-1-1
    "#]]);
}

/// EXE-11: registered where nothing was sealed, it registers again in the same life, so that what runs and what was asked stays.
#[test]
fn key_for_a_registered_worker_makes_it_register_again_in_the_same_life() {
    registered_worker().check(expect![[r#"
        > assigned 8 shell
        request 8 with i-1-1
        > granted 8 shell for i-1-1
        spawn 8, lease Some((590000, 600000)), grace 10000
        > started 8
        report 8 started
        > assigned 9 shell
        request 9 with i-1-2
        > key one for i-1
        seal
        register i-1, live [Token(8)]
        heartbeat
        > registered i-1 8
        > granted 9 shell for i-1-2
        spawn 9, lease Some((590000, 600000)), grace 10000
        > tick 3000
        report 8 started
    "#]]);
}

/// EXE-11: the cluster's key was changed: the worker takes the new one, and says again what may have been passed over.
#[test]
fn another_key_is_taken_and_what_runs_is_said_again() {
    registered_worker().after(&["key one for i-1", "registered i-1"]).check(expect![[r#"
        > assigned 8 shell
        request 8 with i-1-1
        > granted 8 shell for i-1-1
        spawn 8, lease Some((590000, 600000)), grace 10000
        > started 8
        report 8 started
        > key two for i-1
        seal
        register i-1, live [Token(8)]
        heartbeat
        > registered i-1 8
        > tick 2500
        report 8 started
    "#]]);
}

/// EXE-11: who writes in its name makes its owner say the key again; that changes nothing, nor does a key for another life.
#[test]
fn known_key_and_a_key_for_another_life_change_nothing() {
    registered_worker().after(&["key one for i-1", "registered i-1"]).check(expect![[r#"
        > key one for i-1
        > key two for i-2
    "#]]);
    let mut worker = registered_worker();
    for key in ["", "zz", &"00".repeat(32), &"é".repeat(32)] {
        let message = WorkMessage::SealReports { incarnation: Incarnation::new("i-1"), key: key.to_owned() };
        assert!(worker.step(Input::Work(message)).is_empty(), "{key}");
    }
}

/// EXE-11: each life seals with a key of its own, its registration included.
#[test]
fn another_life_seals_with_another_key_from_its_registration_on() {
    registered_worker().after(&["key one for i-1", "registered i-1"]).check(expect![[r#"
        > unregistered i-1
        seal
        register i-1.2, live []
        heartbeat
        > registered i-1.2
    "#]]);
}

/// Rule 8: what an owner may pass over starts nothing. While a registration without a seal is not answered, and under a heartbeat
/// before it, the log's word that it has the question is not waited for: the answer decides.
#[test]
fn nothing_starts_under_a_right_by_a_question_that_may_be_passed_over() {
    let mut worker = registered_worker();
    let mut is_acted_on = |line: &str| {
        let outputs = worker.step(heard(line));
        let asked = |output: &Output| matches!(output, Output::Append { tag: Tag::Asked { .. }, .. });
        outputs.iter().any(asked)
    };
    assert!(!is_acted_on("right 7 shell under 0"), "before the first registration");
    assert!(is_acted_on("right 8 shell under 1"));
    assert!(!is_acted_on("missed"));
    assert!(!is_acted_on("right 9 shell under 2"), "the registration is not answered");
    assert!(!is_acted_on("registered i-1"));
    assert!(!is_acted_on("right 10 shell under 1"), "its owner may not have read the registration");
    assert!(is_acted_on("right 11 shell under 2"));
    assert!(!is_acted_on("key one for i-1"));
    assert!(is_acted_on("right 12 shell under 1"), "what is sealed is not passed over");
}

/// Rule 8: the same of a no-op, which waits for nothing else.
#[test]
fn noop_waits_for_its_answer_where_its_question_may_be_passed_over() {
    registered_worker().check(expect![[r#"
        > missed
        register i-1, live []
        heartbeat
        > right 8 noop under 1
        request 8 with i-1-1
        > confirmed 8 for i-1-1
        report 8 started
        report 8 Success: exit code 0
        > registered i-1 8
        report 8 Success: exit code 0
        > right 9 noop under 2
        request 9 with i-1-2
        report 9 started
        report 9 Success: exit code 0
    "#]]);
}
