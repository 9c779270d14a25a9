//! GEN-1 to GEN-5, BYD-1, BYD-2: how batches come to be, through the command line and REST.

use std::path::Path;

use crate::server::{Server, code, text, until};
use jiff::{SignedDuration, ToSpan};
use serde_json::{Value, json};
use tidemill_model::Timestamp;

fn pass(time: Timestamp) {
    until("time passes", || (Timestamp::from(jiff::Timestamp::now()) > time).then_some(()));
}

fn items(answer: &Value) -> Vec<Value> {
    answer["items"].as_array().unwrap().clone()
}

/// The batches of a job, the oldest logical time first.
fn batches(server: &Server, job: &str) -> Vec<Value> {
    let mut batches = items(&server.json(&["batch", "ls", "--job", job, "--limit", "1000"]));
    batches.sort_by_key(|batch| time(&batch["logical_time"]));
    batches
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

fn times(batches: &[Value]) -> Vec<Timestamp> {
    batches.iter().map(|batch| time(&batch["logical_time"])).collect()
}

fn seconds_apart(times: &[Timestamp]) -> Vec<i64> {
    times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs()).collect()
}

/// GEN-1: at each of its times an enabled job gets one batch, with its parents resolved for that logical time; a
/// disabled one gets none.
#[test]
fn each_time_makes_one_batch_with_its_dependencies() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs:\n\
        - {name: a, group: default, type: noop, schedule: {cron: '0/2 * * * * ?'}, max_concurrent: 9}\n\
        - {name: b, group: default, type: noop, schedule: {cron: '0/2 * * * * ?'}, max_concurrent: 9, parents: [a]}\n\
        - {name: idle, group: default, type: noop, schedule: {cron: '* * * * * ?'}, enabled: false}\n",
    );
    let made = until("three batches", || Some(batches(&server, "default/b")).filter(|made| made.len() > 2));
    assert!(seconds_apart(&times(&made)).iter().all(|apart| *apart == 2), "{made:?}");
    for batch in &made {
        let shown = server.json(&["batch", "show", &batch["id"].to_string()]);
        let waits = shown["dependencies"].as_array().unwrap();
        assert_eq!(waits.len(), 1, "{shown}");
        assert_eq!(waits[0]["logical_time"], shown["logical_time"]);
        assert_eq!((&shown["origin"], &shown["run"]), (&json!("schedule"), &json!(0)));
    }
    assert!(batches(&server, "default/idle").is_empty());
}

/// GEN-2, GEN-3: a process that is killed and comes back loses no logical time and makes none twice; what was missed
/// beyond the job's bound is skipped, on record (BYD-1).
#[test]
fn killed_generator_loses_and_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs:\n\
        - {name: all, group: default, type: noop, schedule: {cron: '* * * * * ?'}, max_concurrent: 99}\n\
        - {name: near, group: default, type: noop, schedule: {cron: '* * * * * ?'}, max_concurrent: 99, \
            missed_runs: {policy: all, max_lateness_s: 2}}\n",
    );
    until("batches", || (batches(&server, "default/near").len() > 2).then_some(()));
    server.signal("-KILL");
    drop(server);
    pass(Timestamp::from(jiff::Timestamp::now()) + SignedDuration::from_secs(6));
    let server = Server::start(dir.path());
    let back = Timestamp::from(jiff::Timestamp::now());
    let after = |job: &str| {
        let made = batches(&server, job);
        times(&made).last().is_some_and(|last| *last > back).then_some(made)
    };
    let all = times(&until("it goes on", || after("default/all")));
    assert!(seconds_apart(&all).iter().all(|apart| *apart == 1), "{all:?}");
    let near = times(&until("it goes on", || after("default/near")));
    let last = *near.last().unwrap();
    let mut skipped = items(&server.json(&["job", "skipped", "default/near"]));
    assert!(skipped.iter().all(|skip| skip["reason"] == "too_late"), "{skipped:?}");
    // Where this is slow, more have been too late before the first, or since.
    skipped.retain(|skip| (near[0]..last).contains(&time(&skip["from"])));
    let late: i64 = skipped.iter().map(|skip| skip["count"].as_i64().unwrap()).sum();
    assert!(late >= 2, "{skipped:?}");
    let span = last.duration_since(near[0]).as_secs() + 1;
    assert_eq!(near.len() as i64 + late, span, "{near:?} {skipped:?}");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// GEN-5: a manual run makes one batch for the current logical time, and is refused with its reason while one of the
/// job is unfinished, whatever its logical time, but with --concurrent.
#[test]
fn manual_run_is_refused_while_one_is_unfinished() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs: [{name: long, group: default, type: shell, command: exec sleep 1000, schedule: {period: month, zone: UTC}}]",
    );
    let batch = server.json(&["job", "run", "default/long"])["batch"].to_string();
    let shown = server.json(&["batch", "show", &batch]);
    let first = time(&shown["logical_time"]).to_zoned(jiff::tz::TimeZone::UTC);
    assert_eq!((first.day(), first.hour(), &shown["origin"]), (1, 0, &json!("manual")), "{shown}");
    let refused = server.run(&["job", "run", "default/long"]);
    let told = text(&refused.stderr);
    assert_eq!(code(&refused), 3, "{told}");
    assert!(told.contains("unfinished batch") && told.contains(&batch), "{told}");
    let other = ["job", "run", "default/long", "--logical-time", "2026-01-01T00:00:00.000Z"];
    let refused = server.run(&other);
    let told = text(&refused.stderr);
    assert_eq!(code(&refused), 3, "{told}");
    assert!(
        told.contains(&format!("unfinished batch {batch} for")) && told.contains("--concurrent"),
        "{told}"
    );
    let beside = server.json(&[&other[..], &["--concurrent"]].concat())["batch"].to_string();
    server.json(&["batch", "kill", &beside]);
    server.json(&["batch", "kill", &batch]);
    for batch in [&batch, &beside] {
        until("it ends", || (server.json(&["batch", "show", batch])["state"] == "finished").then_some(()));
    }
    server.json(&["job", "run", "default/long"]);
}

/// BYD-1: skip makes no batch beside an unfinished one, and says so; cancel_old ends the old one first, with its reason.
#[test]
fn overlap_is_what_the_job_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(
        "jobs:\n\
        - {name: skips, group: default, type: shell, command: sleep 3, schedule: {cron: '* * * * * ?'}, overlap: skip}\n\
        - {name: ends, group: default, type: shell, command: exec sleep 1000, schedule: {cron: '0/2 * * * * ?'}, \
            overlap: cancel_old}\n",
    );
    let skipped = until("fires are skipped", || {
        let skipped = items(&server.json(&["job", "skipped", "default/skips"]));
        (skipped.len() > 2 && batches(&server, "default/skips").len() > 1).then_some(skipped)
    });
    assert!(skipped.iter().all(|skip| skip["reason"] == "overlap"), "{skipped:?}");
    let made = batches(&server, "default/skips");
    for pair in made.windows(2) {
        assert!(time(&pair[0]["finished_at"]) <= time(&pair[1]["generated_at"]), "{pair:?}");
    }
    let ended = until("old ones are ended", || {
        let made = batches(&server, "default/ends");
        let killed: Vec<_> = made.into_iter().filter(|batch| batch["result"] == "killed").collect();
        (killed.len() > 1).then_some(killed)
    });
    let message = ended[0]["message"].as_str().unwrap();
    assert!(message.contains("killed") || message.contains("cancel_old"), "{message}");
    assert_eq!(ended[0]["killed_by"], "owner");
}

/// BYD-1: what is previewed, zone shown, is what fires, and ends with the validity.
#[test]
fn preview_is_what_fires_until_the_validity_ends() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    // Where this is slow, little of the validity is left when it is looked at.
    let found = [9, 30, 60].into_iter().find_map(|seconds| {
        let end = Timestamp::from(jiff::Timestamp::now()) + SignedDuration::from_secs(seconds);
        server.apply(&format!(
            "jobs: [{{name: a, group: default, type: noop, max_concurrent: 99, \
             schedule: {{cron: '0/2 * * * * ?', zone: Europe/Berlin}}, valid_until: '{end}'}}]"
        ));
        let preview = server.json(&["job", "preview", "default/a", "-n", "100"]);
        assert_eq!(preview["zone"], "Europe/Berlin");
        let previewed: Vec<Timestamp> =
            preview["fires"].as_array().unwrap().iter().map(|fire| time(&fire["logical_time"])).collect();
        assert!(previewed.len() as i64 <= seconds / 2 + 1, "{preview}");
        (previewed.len() >= 2).then_some((end, previewed))
    });
    let (end, previewed) = found.unwrap();
    pass(end + SignedDuration::from_secs(3));
    let mut fired = times(&batches(&server, "default/a"));
    // One may have fired between the definition and the preview.
    fired.retain(|at| *at >= previewed[0]);
    assert_eq!(fired, previewed);
    assert_eq!(server.json(&["job", "show", "default/a"])["next_fire_at"], Value::Null);
    assert!(server.json(&["job", "preview", "default/a"])["fires"].as_array().unwrap().is_empty());
}

fn calendar(server: &Server, yaml: &str) -> Value {
    let file = server.data.join("calendars.yaml");
    std::fs::write(&file, yaml).unwrap();
    server.json(&["calendar", "apply", "-f", file.to_str().unwrap()])
}

fn next_fire(server: &Server, job: &str) -> Timestamp {
    time(&server.json(&["job", "show", job])["next_fire_at"])
}

/// BYD-2: calendars are defined, changed, listed, exported and removed; a change moves the next fires of the jobs that
/// keep to one, batches name the version they were made with, and a used one is not removed.
#[test]
fn jobs_keep_to_their_calendars() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let today = Timestamp::from(jiff::Timestamp::now()).to_zoned(jiff::tz::TimeZone::UTC).date();
    let [tomorrow, later] = [1, 20].map(|days: i64| today.checked_add(days.days()).unwrap());
    let now = calendar(
        &server,
        &format!(
            "calendars: [{{name: site, week: [], working_days: ['{today}', '{tomorrow}']}}, {{name: other}}]"
        ),
    );
    let version = now["items"][0]["version"].as_i64().unwrap();
    server.apply(
        "jobs:\n\
        - {name: a, group: default, type: noop, max_concurrent: 9, schedule: {cron: '* * * * * ?', zone: UTC}, \
            calendar: {name: site}}\n\
        - {name: h, group: default, type: noop, schedule: {period: day, zone: UTC}, \
            calendar: {name: site, on: working_days, shift: next}}\n",
    );
    let made = until("a batch", || batches(&server, "default/a").pop());
    assert_eq!(made["calendar_version"], version);
    let changed =
        calendar(&server, &format!("calendars: [{{name: site, week: [], working_days: ['{later}']}}]"));
    assert!(changed["items"][0]["version"].as_i64().unwrap() > version, "{changed}");
    let next = until("the next fire moves", || {
        Some(next_fire(&server, "default/a"))
            .filter(|next| next.to_zoned(jiff::tz::TimeZone::UTC).date() == later)
    });
    let preview = server.json(&["job", "preview", "default/a", "-n", "1"]);
    assert_eq!(time(&preview["fires"][0]["at"]), next);
    let shifted = server.json(&["job", "preview", "default/h", "-n", "3"]);
    let fires = shifted["fires"].as_array().unwrap();
    assert!(
        fires.iter().all(|fire| fire["at"].as_str().unwrap().starts_with(&later.to_string())),
        "{shifted}"
    );
    assert!(fires.windows(2).all(|pair| pair[0]["logical_time"] != pair[1]["logical_time"]), "{shifted}");

    let refused = server.run(&["calendar", "delete", "site"]);
    let told = text(&refused.stderr);
    assert_eq!(code(&refused), 3, "{told}");
    assert!(told.contains("default/a") && told.contains("default/h"), "{told}");
    server.json(&["calendar", "delete", "other"]);
    let listed = items(&server.json(&["calendar", "ls"]));
    assert_eq!(
        listed.iter().map(|calendar| calendar["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["site"]
    );
    let exported = text(&server.run(&["calendar", "export"]).stdout);
    let again = calendar(&server, &exported);
    assert_eq!(again["items"][0]["version"], changed["items"][0]["version"], "{exported}");
    assert_eq!(exported, text(&server.run(&["calendar", "show", "site"]).stdout));
    let (status, problem) =
        server.post("/api/calendars", "r-1", &json!({"name": "x", "holidays": ["2026-02-30"]}));
    assert_eq!((status, &problem["errors"][0]["field"]), (422, &json!("holidays[0]")), "{problem}");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    rebuilt(&server);
}

fn rebuilt(server: &Server) {
    server.json(&["rebuild"]);
    assert_eq!(items(&server.json(&["calendar", "ls"])).len(), 1);
}

/// JOB-5, BYD-1, BYD-2: how a schedule is followed comes out as it went in, and what it cannot be is refused by field.
#[test]
fn firing_is_exported_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    calendar(&server, "calendars: [{name: site, zone: Asia/Tokyo, holidays: ['2026-01-01']}]");
    server.apply(
        "jobs:\n\
        - {name: a, group: default, type: noop, schedule: {period: day, zone: Asia/Shanghai}, overlap: skip, \
            valid_from: '2026-01-01T00:00:00+08:00', valid_until: '2036-01-01T00:00:00+08:00', \
            missed_runs: {policy: latest, max_lateness_s: 3600}, \
            calendar: {name: site, on: holidays, shift: previous}}\n\
        - {name: b, group: default, type: noop, schedule: {period: day, zone: UTC}, missed_runs: latest, overlap: queue}\n",
    );
    let exported = text(&server.run(&["job", "export", "--group", "default"]).stdout);
    for line in
        ["overlap: skip", "valid_from:", "max_lateness_s: 3600", "\"on\": holidays", "shift: previous"]
    {
        assert!(exported.contains(line), "{line} is not in {exported}");
    }
    assert!(exported.contains("missed_runs: latest"), "{exported}");
    let again = server.apply(&exported);
    let changes = again["changes"].as_array().unwrap();
    assert!(changes.iter().all(|change| change["change"] == "unchanged"), "{changes:?}");
    let bad = "jobs: [{name: c, group: default, type: noop, schedule: {period: day}, overlap: allow}]";
    let file = Path::new(&server.data).join("bad.yaml");
    std::fs::write(&file, bad).unwrap();
    let refused = server.run(&["job", "apply", "-f", file.to_str().unwrap()]);
    let told = text(&refused.stderr);
    assert_eq!(code(&refused), 2, "{told}");
    assert!(told.contains("overlap") && told.contains("max_concurrent above 1"), "{told}");
}
