//! The rules of waiting, with given times.

use std::time::{Duration, Instant};

use tidemill_cluster::{Config, Output, Outstanding, SubmitError};
use tidemill_log::AppendError;
use tidemill_model::{Outcome, Reply, RequestId};

const SECOND: Duration = Duration::from_secs(1);

fn request(name: &str) -> RequestId {
    RequestId::new(name)
}

fn reply(name: &str) -> Reply {
    Reply { request: request(name), outcome: Outcome::Done, partition: 0, offset: 7 }
}

fn submit(waiting: &mut Outstanding<&'static str>, now: Instant, name: &'static str) -> Output<&'static str> {
    waiting.submit(now, request(name), (0, b"0".to_vec(), b"{}".to_vec()), name, None)
}

fn number(output: &Output<&'static str>) -> u64 {
    match output {
        Output::Append { number, .. } => *number,
        Output::Tell { .. } => panic!("not appended: {output:?}"),
    }
}

fn told(outputs: Vec<Output<&'static str>>) -> Vec<(&'static str, Result<Reply, SubmitError>)> {
    let one = |output| match output {
        Output::Tell { waiter, result } => (waiter, *result),
        Output::Append { .. } => panic!("appended, not told"),
    };
    outputs.into_iter().map(one).collect()
}

#[test]
fn a_request_is_appended_again_every_two_seconds_until_its_deadline() {
    let start = Instant::now();
    let mut waiting = Outstanding::new(Config::default());
    let first = submit(&mut waiting, start, "a");
    assert!(waiting.appended(&request("a"), number(&first), Ok(1)).is_empty());
    let mut appended_at = Vec::new();
    for second in 1..10 {
        for output in waiting.tick(start + second * SECOND) {
            appended_at.push(second);
            assert_eq!(output, first);
            assert!(waiting.appended(&request("a"), number(&output), Ok(1)).is_empty());
        }
    }
    assert_eq!(appended_at, [2, 4, 6, 8]);
    let told = told(waiting.tick(start + 10 * SECOND));
    assert_eq!(told, [("a", Err(SubmitError::Unknown { waited_ms: 10_000 }))]);
    assert_eq!(waiting.load(start).in_flight, 0);
}

#[test]
fn an_append_that_is_still_under_way_is_not_doubled() {
    let start = Instant::now();
    let mut waiting = Outstanding::new(Config::default());
    submit(&mut waiting, start, "a");
    assert!(waiting.tick(start + 3 * SECOND).is_empty());
}

/// API-4: the same request twice is one command, and both callers get its outcome.
#[test]
fn a_second_caller_of_the_same_request_joins_the_first() {
    let now = Instant::now();
    let mut waiting = Outstanding::new(Config::default());
    assert_eq!(waiting.join(now, &request("a"), "early", None), Err("early"));
    submit(&mut waiting, now, "a");
    assert_eq!(waiting.join(now, &request("a"), "second", None), Ok(()));
    assert_eq!(told(waiting.replied(reply("a"))), [("a", Ok(reply("a"))), ("second", Ok(reply("a")))]);
    assert!(waiting.replied(reply("a")).is_empty());
}

#[test]
fn a_refused_append_is_told_at_once_unless_an_earlier_one_may_be_in_the_log() {
    let start = Instant::now();
    let mut waiting = Outstanding::new(Config::default());
    let first = submit(&mut waiting, start, "a");
    let unavailable = told(waiting.appended(&request("a"), number(&first), Err(AppendError::Full)));
    assert!(matches!(&unavailable[..], [("a", Err(SubmitError::Unavailable { .. }))]), "{unavailable:?}");

    let first = submit(&mut waiting, start, "b");
    let unknown = AppendError::Unknown("timeout".to_owned());
    assert!(waiting.appended(&request("b"), number(&first), Err(unknown)).is_empty());
    let again = waiting.tick(start + 2 * SECOND).remove(0);
    assert!(waiting.appended(&request("b"), number(&again), Err(AppendError::Full)).is_empty());
    assert_eq!(told(waiting.replied(reply("b"))), [("b", Ok(reply("b")))]);
}

#[test]
fn an_outcome_of_an_append_that_ended_does_not_touch_the_next_request_of_that_id() {
    let start = Instant::now();
    let mut waiting = Outstanding::new(Config::default());
    let first = submit(&mut waiting, start, "a");
    assert_eq!(told(waiting.replied(reply("a"))).len(), 1);
    submit(&mut waiting, start, "a");
    assert!(waiting.appended(&request("a"), number(&first), Err(AppendError::Full)).is_empty());
    assert_eq!(waiting.load(start).in_flight, 1);
}

/// OPS-7: overload is answered, with a time to try again.
#[test]
fn bounds_on_number_bytes_and_age_are_answered_as_overload() {
    let start = Instant::now();
    let overloaded = |output: Output<&'static str>| match output {
        Output::Tell { result, .. } => {
            matches!(*result, Err(SubmitError::Overloaded { retry_after_s: 1.., .. }))
        }
        Output::Append { .. } => false,
    };
    let mut waiting = Outstanding::new(Config { max_in_flight: 1, ..Config::default() });
    assert!(!overloaded(submit(&mut waiting, start, "a")));
    assert!(overloaded(submit(&mut waiting, start, "b")));
    assert_eq!(told(waiting.replied(reply("a"))).len(), 1);
    assert!(!overloaded(submit(&mut waiting, start, "b")));

    let mut waiting = Outstanding::new(Config { max_in_flight_bytes: 3, ..Config::default() });
    assert!(!overloaded(submit(&mut waiting, start, "a")));
    assert!(overloaded(submit(&mut waiting, start, "b")));

    let mut waiting = Outstanding::new(Config::default());
    assert!(!overloaded(submit(&mut waiting, start, "a")));
    assert!(!overloaded(submit(&mut waiting, start + 5 * SECOND, "b")));
    assert!(overloaded(submit(&mut waiting, start + 6 * SECOND, "c")));
    let other = waiting.submit(start + 6 * SECOND, request("d"), (1, Vec::new(), Vec::new()), "d", None);
    assert!(!overloaded(other), "another partition has no lag");
    assert_eq!(told(waiting.replied(reply("a"))).len(), 1);
    assert!(!overloaded(submit(&mut waiting, start + 6 * SECOND, "c")), "the oldest is now one second old");
}
