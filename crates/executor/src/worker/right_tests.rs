//! Starting under a right (rule 8).

use expect_test::expect;

use super::tests::registered_worker;

/// Rule 8: the process starts once the log has the question, once, and the answer changes nothing then.
#[test]
fn process_starts_when_the_log_has_its_question() {
    registered_worker().check(expect![[r#"
        > right 8 shell under 1
        request 8 with i-1-1
        > logged 8 7
        > logged 8 1
        spawn 8, lease Some((590000, 600000)), grace 10000
        > logged 8 1
        > right 8 shell under 1
        > confirmed 8 for i-1-1
        > started 8
        report 8 started
    "#]]);
}

/// Rule 8: a no-op has nothing to wait for: the log gets question, start and end together.
#[test]
fn noop_ends_at_once() {
    registered_worker().check(expect![[r#"
        > right 8 noop under 1
        request 8 with i-1-1
        report 8 started
        report 8 Success: exit code 0
        > confirmed 8 for i-1-1
        > recorded 8
        > right 8 noop under 1
        > tick 7000
        > right 9 noop under 1
        request 9 with i-1-2
        > confirmed 9 for i-1-2
        report 9 started
        report 9 Success: exit code 0
    "#]]);
}

/// Rule 8: from the sending of its heartbeat on, whatever was sent since; after that the answer decides.
#[test]
fn right_counts_from_the_sending_of_its_heartbeat() {
    registered_worker().check(expect![[r#"
        > tick 4000
        > unready: no room
        heartbeat: no room
        > ready
        heartbeat
        > alive 4000
        lease 593000 603000
        > tick 5999
        > right 8 shell under 1
        request 8 with i-1-1
        > right 9 shell under 1
        request 9 with i-1-2
        > logged 8 1
        spawn 8, lease Some((593000, 603000)), grace 10000
        > tick 6000
        > logged 9 2
        > confirmed 9 for i-1-2
        spawn 9, lease Some((593000, 603000)), grace 10000
        > right 10 shell under 1
        request 10 with i-1-3
        > logged 10 3
        > right 11 shell under 99
        request 11 with i-1-4
        > logged 11 4
    "#]]);
}

/// Rule 8: another life has no rights of an earlier one, and what that asked starts nothing.
#[test]
fn right_ends_with_its_life() {
    registered_worker().check(expect![[r#"
        > right 8 shell under 1 of i-0
        > right 9 shell under 1
        request 9 with i-1-1
        > unregistered i-1
        register i-1.2, live []
        heartbeat
        > logged 9 1
        > registered i-1.2
        > right 10 shell under 2
        > right 11 shell under 1 of i-1.2
        request 11 with i-1.2-2
        > right 12 shell under 2 of i-1.2
        request 12 with i-1.2-3
        > logged 12 3
        spawn 12, lease Some((590000, 600000)), grace 10000
    "#]]);
}

/// Rule 8: what was spoken of starts no more under a right, however late that comes.
#[test]
fn what_was_spoken_of_starts_no_more() {
    registered_worker().check(expect![[r#"
        > kill 7
        report 7 Killed: it does not run on this worker
        > recorded 7
        > right 7 shell under 1
        > right 8 shell under 1
        request 8 with i-1-1
        > kill 8
        report 8 Killed: killed before it started
        > logged 8 1
        > recorded 8
        > right 8 shell under 1
        > right 9 shell under 1
        request 9 with i-1-2
        > asked back 9
        reject 9 (i-1-2): it was asked back
        > logged 9 2
        > confirmed 9 for i-1-2
        > tick 3000
        reject 9 (i-1-2): it was asked back
        > refused 9
        > right 9 shell under 1
        > asked back 10
        reject 10 (nothing asked): it was asked back
        > right 10 shell under 1
    "#]]);
}

/// Rule 8: what is given back unasked, and turns out to be granted to a question of an earlier life, is told to be lost: the
/// grant is of a question that this life does not know.
#[test]
fn given_back_unasked_and_granted_is_lost() {
    registered_worker().check(expect![[r#"
        > right 8 shell under 1
        request 8 with i-1-1
        > unregistered i-1
        register i-1.2, live []
        heartbeat
        > asked back 8
        reject 8 (nothing asked): it was asked back
        > registered i-1.2 8
        report 8 Lost: the worker does not have it
    "#]]);
}

/// Rule 8: an owner's list may be older than the question of what runs under a right: what is missing there is not ended before it was
/// confirmed, or a while has passed.
#[test]
fn older_list_ends_nothing_that_was_begun_under_a_right() {
    registered_worker().check(expect![[r#"
        > right 8 shell under 1
        request 8 with i-1-1
        > right 9 noop under 1
        request 9 with i-1-2
        report 9 started
        report 9 Success: exit code 0
        > logged 8 1
        spawn 8, lease Some((590000, 600000)), grace 10000
        > started 8
        report 8 started
        > missed
        register i-1, live [Token(8)]
        heartbeat
        > registered i-1
        > confirmed 8 for i-1-1
        > missed
        register i-1, live [Token(8)]
        heartbeat
        > registered i-1
        kill 8, grace 10000, disowned
    "#]]);
    registered_worker().check(expect![[r#"
        > right 8 shell under 1
        request 8 with i-1-1
        > logged 8 1
        spawn 8, lease Some((590000, 600000)), grace 10000
        > started 8
        report 8 started
        > tick 65000
        heartbeat
        > missed
        register i-1, live [Token(8)]
        heartbeat
        > registered i-1
        kill 8, grace 10000, disowned
    "#]]);
}
