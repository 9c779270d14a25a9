//! EXE-13: work that attempts start elsewhere.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, batch_id, case, event, finished, generated, granted, group, job, registered,
    retry, retry_due, started, token,
};

fn found(ids: &[&str]) -> Event {
    event(json!({"attempt": {"external_work_found": {
        "batch": batch_id(1), "token": token(1), "worker": "w", "ids": ids,
    }}}))
}

fn unconfirmed() -> Event {
    event(json!({"attempt": {"external_work_unconfirmed": {
        "batch": batch_id(1), "token": token(1), "worker": "w",
    }}}))
}

fn ends(result: &str) -> Event {
    event(json!({"attempt": {"finished": {
        "batch": batch_id(1), "token": token(1), "attempt": 1, "worker": "w", "outcome": {"result": result},
    }}}))
}

fn runs() -> History {
    let world = History::new().raised(3);
    let world = world.command([group(), job(1, json!({})), registered("w", "i", 4)]);
    let given = world.command([generated(1, 1, json!({}))]).timer([assigned(1, 1, "w", 1)]);
    given.command([granted(1, 1, "w", "i"), started(1, 1)])
}

fn lost<const N: usize>(end: [Event; N]) -> History {
    let lost = event(json!({"worker": {"lost": {"worker": "w", "incarnation": "i"}}}));
    let expired = event(json!({"worker": {"lease_expired": {"worker": "w", "incarnation": "i"}}}));
    runs().command([lost]).at("2026-03-02T10:30:00.000Z").command([expired]).timer(end)
}

/// The first attempt ends, and the second is granted, after what that has left was said or not, and a person vouches for the second.
fn vouched<const N: usize>(end: Vec<Event>, before: [Event; N]) -> History {
    const MINUTE: &str = "2026-03-02T10:01:30.000Z";
    let world = History::new().raised(3);
    let world = world.command([group(), job(1, json!({"retries": 2})), registered("w", "i", 4)]);
    let given = world.command([generated(1, 1, json!({}))]).timer([assigned(1, 1, "w", 1)]);
    let mut runs = given.command([granted(1, 1, "w", "i"), started(1, 1)]);
    for event in end {
        runs = runs.command([event]);
    }
    let ended = runs.command([ends("failed"), retry(1, 2, MINUTE)]).at(MINUTE);
    let next = ended.timer([retry_due(1), assigned(1, 2, "w", 2)]).command([granted(1, 2, "w", "i")]);
    let vouched = event(json!({"attempt": {"end_vouched": {
        "batch": batch_id(1), "token": token(2), "worker": "w", "by": {"app": "me"}, "reason": "looked",
    }}}));
    let over = [vouched, crate::kit::ended(1, 2, "w", 2, "lost"), retry(1, 3, "2026-03-02T10:02:30.000Z")];
    before.into_iter().fold(next, |history, event| history.command([event])).command(over)
}

pub(crate) fn cases() -> Vec<Case> {
    let once = Invariant::ExternalWorkFoundOnce;
    let told = Invariant::UnconfirmedEndsAreTold;
    let ended = || [ends("success"), finished(1, "success")];
    let many: Vec<String> = (0..101).map(|number| format!("application_{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let word = Invariant::NoAttemptBeforeLeaseOver;
    let left = || vouched(vec![unconfirmed()], []);
    vec![
        case(
            word,
            "a person vouches for an attempt that has not begun, and has nothing to end before",
            left(),
            vouched(Vec::new(), []),
        ),
        case(
            word,
            "a person vouches for an attempt that has begun, since what it had to end before has ended",
            left(),
            vouched(vec![unconfirmed()], [started(1, 2)]),
        ),
        case(
            once,
            "an id is found again",
            runs().command([found(&["a", "b"])]).command([found(&["c"])]).command(ended()),
            runs().command([found(&["a", "b"])]).command([found(&["b"])]).command(ended()),
        ),
        case(
            once,
            "there are too many",
            runs().command([found(&many[..60])]).command([found(&many[60..100])]).command(ended()),
            runs().command([found(&many[..60])]).command([found(&many[60..])]).command(ended()),
        ),
        case(
            told,
            "the lease is over, and nobody says that external work may run on",
            lost([unconfirmed(), ends("lost"), finished(1, "failed")]),
            lost([ends("lost"), finished(1, "failed")]),
        ),
    ]
}
