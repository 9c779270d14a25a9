//! EXE-13: work that attempts start elsewhere.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, batch_id, case, event, finished, generated, granted, group, job, registered,
    started, token,
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

pub(crate) fn cases() -> Vec<Case> {
    let once = Invariant::ExternalWorkFoundOnce;
    let told = Invariant::UnconfirmedEndsAreTold;
    let ended = || [ends("success"), finished(1, "success")];
    let many: Vec<String> = (0..101).map(|number| format!("application_{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    vec![
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
