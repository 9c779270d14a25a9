//! EXE-7: attempts over a limit, and failures that use up no retry.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{
    Case, History, assigned, batch_id, case, event, finished, generated, granted, group, job, registered,
    retry, retry_due, started, token,
};

const MINUTE: &str = "2026-03-02T10:01:30.000Z";

fn over(n: u64, kind: &str, spares: bool) -> Event {
    event(json!({"attempt": {"over_limit": {
        "batch": batch_id(1), "token": token(n), "worker": "w", "spares_retry": spares,
        "excess": {"kind": kind, "limit": 64},
    }}}))
}

fn alarm() -> Event {
    event(json!({"alarm": {"raised": {
        "kind": "over_limit", "severity": "critical", "batch": batch_id(1), "worker": "w", "message": "m",
    }}}))
}

/// The end of attempt n, with its token.
fn ends(n: u64, result: &str, excess: Option<&str>) -> Event {
    let excess = excess.map(|kind| json!({"kind": kind}));
    event(json!({"attempt": {"finished": {
        "batch": batch_id(1), "token": token(n), "attempt": n, "worker": "w",
        "outcome": {"result": result, "excess": excess},
    }}}))
}

/// Attempt 1 of a job with so many retries.
fn runs(retries: u32) -> History {
    let world = History::new().raised(3);
    let world = world.command([group(), job(1, json!({"retries": retries})), registered("w", "i", 4)]);
    let given = world.command([generated(1, 1, json!({}))]).timer([assigned(1, 1, "w", 1)]);
    given.command([granted(1, 1, "w", "i"), started(1, 1)])
}

fn host(n: u64, spares: bool) -> [Event; 3] {
    [over(n, "host_memory", spares), alarm(), ends(n, "failed", Some("host_memory"))]
}

/// So many attempts that fail for want of memory on the host and are spared, each followed by another.
fn spared(retries: u32, attempts: u64) -> History {
    (1..=attempts).fold(runs(retries), |history, n| {
        let [over, alarm, end] = host(n, true);
        let next = u32::try_from(n).unwrap() + 1;
        let minutes = |of: u64| format!("2026-03-02T10:{of:02}:30.000Z");
        let history = history.command([over, alarm, end, retry(1, next, &minutes(n))]).at(&minutes(n));
        let history = history.timer([retry_due(1), assigned(1, n + 1, "w", next)]);
        history.command([granted(1, n + 1, "w", "i"), started(1, n + 1)])
    })
}

pub(crate) fn cases() -> Vec<Case> {
    let told = Invariant::ExcessesAreTold;
    let spares = Invariant::HostMemoryUsesUpNoRetry;
    let ended = |excess: Option<&str>| [ends(1, "success", excess), finished(1, "success")];
    let beats = |events: [Event; 4]| runs(0).command(events).command(ended(None));
    vec![
        case(
            told,
            "an attempt ends over its limit, and nobody was told",
            runs(0).command([over(1, "memory", false), alarm()]).command(ended(Some("memory"))),
            runs(0).command(ended(Some("memory"))),
        ),
        case(
            told,
            "told of another kind",
            runs(0).command([over(1, "memory", false), alarm()]).command(ended(Some("memory"))),
            runs(0).command([over(1, "output", false), alarm()]).command(ended(Some("memory"))),
        ),
        case(
            told,
            "no alarm follows",
            runs(0).command([over(1, "output", false), alarm()]).command(ended(None)),
            runs(0).command([over(1, "output", false)]).command(ended(None)),
        ),
        case(
            told,
            "an alarm without a cause",
            runs(0).command(ended(None)),
            runs(0).command([alarm()]).command(ended(None)),
        ),
        case(
            told,
            "twice of one attempt",
            beats([over(1, "output", false), alarm(), over(1, "processes", false), alarm()]),
            beats([over(1, "output", false), alarm(), over(1, "output", false), alarm()]),
        ),
        case(
            spares,
            "want of memory on the host uses up a retry",
            spared(1, 1).command([ends(2, "failed", None), retry(1, 3, "2026-03-02T10:02:30.000Z")]),
            {
                let [over, alarm, end] = host(1, false);
                runs(1).command([over, alarm, end, retry(1, 2, MINUTE)])
            },
        ),
        case(
            spares,
            "its own limit is spared",
            runs(1).command([
                over(1, "memory", false),
                alarm(),
                ends(1, "failed", Some("memory")),
                retry(1, 2, MINUTE),
            ]),
            runs(1).command([
                over(1, "memory", true),
                alarm(),
                ends(1, "failed", Some("memory")),
                retry(1, 2, MINUTE),
            ]),
        ),
        case(
            spares,
            "spared a sixth time",
            {
                let [over, alarm, end] = host(6, false);
                spared(0, 5).command([over, alarm, end, finished(1, "failed")])
            },
            {
                let [over, alarm, end] = host(6, true);
                spared(0, 5).command([over, alarm, end, retry(1, 7, "2026-03-02T10:06:30.000Z")])
            },
        ),
        case(
            Invariant::RetriesUsedBeforeFailure,
            "what was spared counts as a retry",
            spared(1, 1).command([ends(2, "failed", None), retry(1, 3, "2026-03-02T10:02:30.000Z")]),
            spared(1, 1).command([ends(2, "failed", None), finished(1, "failed")]),
        ),
    ]
}
