//! How schedules are followed: calendars, overlap, lateness, and fires that fail.

use serde_json::{Value, json};
use tidemill_checker::Invariant;
use tidemill_model::Event;

use crate::kit::{Case, History, case, definition, event, generated, harmless, job, job_id, killed_by};

pub(crate) fn cases() -> Vec<Case> {
    [calendars(), unknown(), left_out(), overlaps(), failing()].into_iter().flatten().collect()
}

fn fire(at: &str, logical_time: &str) -> Value {
    json!({"at": at, "logical_time": logical_time})
}

fn hour(hour: u32) -> Value {
    fire(&format!("2026-03-02T{hour:02}:01:00.000Z"), &format!("2026-03-02T{hour:02}:00:00.000Z"))
}

/// Job 1, hourly, followed in this way; first at 10:01 on a Monday.
fn hourly(firing: Value) -> Event {
    let schedule = json!({"period": "hour", "zone": "UTC"});
    let mut more = json!({"schedule": schedule});
    more.as_object_mut().unwrap().extend(firing.as_object().unwrap().clone());
    let definition = definition(1, more);
    event(
        json!({"replication": {"job_replicated": {"definition": definition, "enabled": true, "next": hour(10)}}}),
    )
}

fn fired(n: u64, at: u32, next: Value, more: Value) -> Event {
    let mut batch = json!({
        "origin": "schedule", "logical_time": format!("2026-03-02T{at:02}:00:00.000Z"), "next": next,
    });
    batch.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    generated(n, 1, batch)
}

fn skipped(from: &str, to: &str, count: u64, reason: &str, next: Value) -> Event {
    event(json!({"schedule": {"skipped": {
        "job": job_id(1), "from": from, "to": to, "count": count, "reason": reason, "next": next,
    }}}))
}

fn calendar(version: u32, more: Value) -> Event {
    let mut spec = json!({"name": "cn"});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event(json!({"replication": {"calendar_replicated": {"calendar": {"version": version, "spec": spec}}}}))
}

fn dropped(history: History) -> History {
    history.command([event(json!({"replication": {"calendar_dropped": {"name": "cn"}}}))])
}

fn kept(more: Value) -> History {
    History::new()
        .at("2026-03-02T09:30:00.000Z")
        .command([calendar(1, more)])
        .command([hourly(json!({"calendar": {"name": "cn"}}))])
}

fn moved(next: Value) -> Event {
    event(json!({"schedule": {"rescheduled": {"job": job_id(1), "next": next}}}))
}

fn calendars() -> Vec<Case> {
    let rule = Invariant::CalendarsFollowed;
    let at_ten =
        |more: Value| kept(json!({})).at("2026-03-02T10:01:00.000Z").timer([fired(1, 10, hour(11), more)]);
    let holiday = || kept(json!({})).command([calendar(2, json!({"holidays": ["2026-03-02"]}))]);
    let tomorrow = fire("2026-03-03T00:01:00.000Z", "2026-03-03T00:00:00.000Z");
    let defined = |version: u32| {
        let calendar = json!({"version": version, "spec": {"name": "cn"}});
        History::new()
            .on(0, 0)
            .command([event(json!({"catalogue": {"calendar_defined": {"calendar": calendar}}}))])
    };
    let again = |history: History, version: u32| {
        let calendar = json!({"version": version, "spec": {"name": "us"}});
        history.command([event(json!({"catalogue": {"calendar_defined": {"calendar": calendar}}}))])
    };
    vec![
        case(
            rule,
            "BYD-2: a batch names a version that is not the one known",
            at_ten(json!({"calendar": 1})),
            at_ten(json!({"calendar": 2})),
        ),
        case(
            rule,
            "BYD-2: a holiday does not move the fire of its day",
            holiday().timer([moved(tomorrow.clone())]),
            holiday().timer([moved(hour(10))]),
        ),
        case(
            rule,
            "BYD-2: a change moves nothing at all",
            holiday().timer([moved(tomorrow)]).at_rest(),
            holiday().timer([harmless()]).at_rest(),
        ),
        case(
            Invariant::VersionsRise,
            "BYD-2: a version comes again",
            again(defined(3), 4),
            again(defined(3), 3),
        ),
        case(
            Invariant::VersionsRise,
            "BYD-2: a group goes back to an old version",
            kept(json!({})).command([calendar(2, json!({}))]),
            kept(json!({})).command([calendar(1, json!({}))]),
        ),
        case(
            Invariant::VersionsRise,
            "BYD-2: a group drops a calendar twice",
            dropped(History::new().command([calendar(1, json!({}))])),
            dropped(dropped(History::new().command([calendar(1, json!({}))]))),
        ),
    ]
}

/// A job whose calendar has no working day skips every logical time; one whose calendar has not come yet, as after a lost
/// tail of the log, skips none that is known.
fn unknown() -> Vec<Case> {
    let waiting = |history: History| {
        let schedule = json!({"period": "hour", "zone": "UTC"});
        let parent = job(1, json!({"schedule": schedule, "calendar": {"name": "cn"}}));
        let child = job(2, json!({"parents": [{"job": job_id(1), "mapping": "same"}]}));
        let waits =
            json!({"parent": job_id(1), "mapping": "same", "times": ["2026-03-02T09:00:00.000Z"], "met": []});
        history.command([parent, child]).command([generated(1, 2, json!({"dependencies": [waits]}))])
    };
    vec![case(
        Invariant::DependencyEventsMatchNewestRuns,
        "DEP-3: a batch waits for a time that its parent's calendar leaves out",
        waiting(History::new()),
        waiting(History::new().command([calendar(1, json!({"week": []}))])),
    )]
}

/// What a calendar leaves out counts as skipped, and the fire after it is the first on a day that fits.
fn left_out() -> Vec<Case> {
    let rule = Invariant::DueTimesGeneratedOrSkipped;
    let from_three = json!({"working_days": [], "holidays": ["2026-03-03"]});
    let next_day = fire("2026-03-04T00:01:00.000Z", "2026-03-04T00:00:00.000Z");
    let last = |next: Value| {
        let history = kept(from_three.clone());
        (10..23)
            .fold(history, |history, at| {
                let now = format!("2026-03-02T{at:02}:01:00.000Z");
                history.at(&now).timer([fired(u64::from(at) - 9, at, hour(at + 1), json!({"calendar": 1}))])
            })
            .at("2026-03-02T23:01:00.000Z")
            .timer([fired(14, 23, next, json!({"calendar": 1}))])
    };
    let skips = |count: u64| {
        let skip = skipped(
            "2026-03-03T00:00:00.000Z",
            "2026-03-03T23:00:00.000Z",
            count,
            "calendar",
            next_day.clone(),
        );
        last(next_day.clone()).at("2026-03-04T00:01:00.000Z").timer([skip])
    };
    let excluded = fire("2026-03-03T00:01:00.000Z", "2026-03-03T00:00:00.000Z");
    // Due before the calendar closed the day: it is not moved any more, and counts.
    let closed_meanwhile = |count: u64| {
        let ten = "2026-03-02T10:00:00.000Z";
        let firing =
            json!({"calendar": {"name": "cn"}, "missed_runs": {"policy": "all", "max_lateness_s": 60}});
        let tomorrow = fire("2026-03-03T00:01:00.000Z", "2026-03-03T00:00:00.000Z");
        History::new()
            .at("2026-03-02T09:30:00.000Z")
            .command([calendar(1, json!({}))])
            .command([hourly(firing)])
            .at("2026-03-02T11:00:00.000Z")
            .command([calendar(2, json!({"holidays": ["2026-03-02"]}))])
            .timer([moved(hour(10))])
            .timer([skipped(ten, ten, count, "too_late", tomorrow)])
    };
    vec![
        case(
            rule,
            "BYD-2: what was due before its day was closed counts twice",
            closed_meanwhile(1),
            closed_meanwhile(2),
        ),
        case(
            rule,
            "BYD-2: the next fire is on a day that is left out",
            last(next_day.clone()),
            last(excluded),
        ),
        case(rule, "BYD-2: what is left out is counted wrong", skips(24), skips(23)),
    ]
}

fn overlaps() -> Vec<Case> {
    let rule = Invariant::OverlapsAsTheJobSays;
    let first = |overlap: &str| {
        History::new()
            .at("2026-03-02T09:30:00.000Z")
            .command([hourly(json!({"overlap": overlap}))])
            .at("2026-03-02T10:01:00.000Z")
            .timer([fired(1, 10, hour(11), json!({}))])
            .at("2026-03-02T11:01:00.000Z")
    };
    let eleven = "2026-03-02T11:00:00.000Z";
    let second = || fired(2, 11, hour(12), json!({}));
    let skip = |reason: &str| skipped(eleven, eleven, 1, reason, hour(12));
    let late = |firing: Value| {
        History::new()
            .at("2026-03-02T09:30:00.000Z")
            .command([hourly(firing)])
            .at("2026-03-02T10:30:00.000Z")
            .timer([skipped("2026-03-02T10:00:00.000Z", "2026-03-02T10:00:00.000Z", 1, "too_late", hour(11))])
    };
    vec![
        case(
            rule,
            "BYD-1: a job that skips gets a batch beside an unfinished one",
            first("skip").timer([skip("overlap")]),
            first("skip").timer([second()]),
        ),
        case(
            rule,
            "BYD-1: the old one is not ended first",
            first("cancel_old").timer([killed_by(1), second()]),
            first("cancel_old").timer([second()]),
        ),
        case(
            rule,
            "BYD-1: a fire is skipped though nothing is unfinished",
            first("skip").timer([skip("overlap")]),
            first("skip").command([killed_by(1)]).timer([skip("overlap")]),
        ),
        case(
            rule,
            "BYD-1: a fire is skipped for being late, and may be",
            late(json!({"missed_runs": {"policy": "all", "max_lateness_s": 60}})),
            late(json!({"overlap": "skip"})),
        ),
    ]
}

fn failing() -> Vec<Case> {
    let rule = Invariant::FailingGenerationTold;
    let failed = |failures: u32, retry_at: Option<&str>| {
        let failed = json!({"schedule": {"generation_failed": {
            "job": job_id(1), "logical_time": "2026-03-02T10:00:00.000Z", "failures": failures, "reason": "x",
            "retry_at": retry_at,
        }}});
        event(failed)
    };
    let suspended = || {
        event(
            json!({"partition": {"timer_suspended": {"entity": format!("job/{}", job_id(1)), "reason": "x"}}}),
        )
    };
    let alarm = |job: i64| {
        event(json!({"alarm": {"raised": {
            "kind": "generation_failed", "severity": "notice", "job": job, "message": "x",
        }}}))
    };
    let thrice = || {
        let begun = History::new()
            .at("2026-03-02T09:30:00.000Z")
            .command([hourly(json!({}))])
            .at("2026-03-02T10:01:00.000Z")
            .timer([failed(1, Some("2026-03-02T10:01:05.000Z"))]);
        begun
            .at("2026-03-02T10:01:05.000Z")
            .timer([failed(2, Some("2026-03-02T10:01:10.000Z"))])
            .at("2026-03-02T10:01:10.000Z")
            .timer([failed(3, Some("2026-03-02T10:01:15.000Z"))])
            .at("2026-03-02T10:01:15.000Z")
    };
    let good = || thrice().timer([failed(4, None), suspended(), alarm(job_id(1))]);
    vec![
        case(
            rule,
            "GEN-4: nobody is told",
            good(),
            thrice().timer([failed(4, None), suspended(), harmless()]),
        ),
        case(rule, "GEN-4: it is tried no more after the third time", good(), {
            let again = failed(4, Some("2026-03-02T10:01:20.000Z"));
            thrice().timer([again])
        }),
        case(rule, "GEN-4: an alarm for nothing", good(), thrice().timer([alarm(job_id(1))])),
    ]
}
