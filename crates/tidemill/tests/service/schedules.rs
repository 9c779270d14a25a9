//! JOB-3: which logical times schedules make, on the clock of their zone, through REST and the command line.

use crate::server::clock::Clock;
use crate::server::{Server, until};
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Jobs by name with their schedules, and what each makes between [`DEFINED`] and [`BACK`], as instants.
type Row = (&'static str, &'static str, &'static [&'static str]);

/// It is 01:30 in Berlin on the day on which clocks go back from 03:00 to 02:00.
const DEFINED: &str = "2026-10-24T23:30:00.000Z";
/// What was missed for longer than a week is not made up for, so it is back for a moment in between.
const BETWEEN: &str = "2026-10-28T12:00:00.000Z";
/// 09:00 there, on a Monday, the month after.
const BACK: &str = "2026-11-02T08:00:00.000Z";

/// What is left out, `hourly`, makes every hour.
const TABLE: &[Row] = &[
    (
        "daily",
        "{period: day, zone: Europe/Berlin}",
        &[
            "2026-10-25T23:00:00.000Z",
            "2026-10-26T23:00:00.000Z",
            "2026-10-27T23:00:00.000Z",
            "2026-10-28T23:00:00.000Z",
            "2026-10-29T23:00:00.000Z",
            "2026-10-30T23:00:00.000Z",
            "2026-10-31T23:00:00.000Z",
            "2026-11-01T23:00:00.000Z",
        ],
    ),
    (
        "weekly",
        "{period: week, zone: Europe/Berlin}",
        &["2026-10-25T23:00:00.000Z", "2026-11-01T23:00:00.000Z"],
    ),
    ("monthly", "{period: month, zone: Europe/Berlin}", &["2026-10-31T23:00:00.000Z"]),
    // 02:30 comes twice on the first of these days, and fires in its first pass.
    (
        "fixed",
        "{cron: '0 30 2 * * ?', zone: Europe/Berlin}",
        &[
            "2026-10-25T00:30:00.000Z",
            "2026-10-26T01:30:00.000Z",
            "2026-10-27T01:30:00.000Z",
            "2026-10-28T01:30:00.000Z",
            "2026-10-29T01:30:00.000Z",
            "2026-10-30T01:30:00.000Z",
            "2026-10-31T01:30:00.000Z",
            "2026-11-01T01:30:00.000Z",
            "2026-11-02T01:30:00.000Z",
        ],
    ),
    ("last-day", "{cron: '0 0 23 L * ?', zone: Europe/Berlin}", &["2026-10-31T22:00:00.000Z"]),
    // The 1st is a Sunday.
    ("weekday", "{cron: '0 0 6 1W * ?', zone: Europe/Berlin}", &["2026-11-02T05:00:00.000Z"]),
    ("first-monday", "{cron: '0 0 7 ? * 2#1', zone: Europe/Berlin}", &["2026-11-02T06:00:00.000Z"]),
    // Where the zone is left out, it is that of the configuration at that time.
    ("zoneless", "{cron: '0 0 12 ? * 7'}", &["2026-10-31T06:30:00.000Z"]),
];

fn every_hour() -> Vec<Timestamp> {
    let (first, last) = (time("2026-10-25T00:00:00.000Z"), time("2026-11-02T07:00:00.000Z"));
    first.series(1.hour()).take_while(|at| *at <= last).collect()
}

/// The logical times of a job's batches, in order.
fn made(server: &Server, job: &str) -> Vec<Timestamp> {
    let batches = server.json(&["batch", "ls", "--job", &format!("default/{job}"), "--limit", "1000"]);
    let of = |batch: &Value| time(batch["logical_time"].as_str().unwrap());
    let mut times: Vec<Timestamp> = batches["items"].as_array().unwrap().iter().map(of).collect();
    times.sort_unstable();
    times
}

fn next_fire(server: &Server, job: &str) -> (Timestamp, Timestamp) {
    let preview = server.json(&["job", "preview", &format!("default/{job}"), "-n", "1"]);
    let of = |field: &str| time(preview["fires"][0][field].as_str().unwrap());
    (of("at"), of("logical_time"))
}

/// JOB-3, GEN-2: each period and form of cron makes each of its logical times once: over an hour that comes twice, the
/// end of a month, and a time in which nothing ran; at the base time of its period, for that period's start; in the
/// zone of the job, or the one that was configured when it was applied. Templates that cannot tell the two hours apart
/// are warned about.
#[test]
fn schedules_make_each_logical_time_once_whatever_clocks_do() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, data) = (Clock::build(dir.path()), dir.path().join("data"));
    let zone = |zone: &'static str| [("API__DEFAULT_ZONE", zone)];
    let server = clock.start(time(DEFINED).into(), &data, &zone("Asia/Kolkata"));
    let more = "max_concurrent: 999, missed_runs: all";
    let jobs: String = TABLE
        .iter()
        .map(|(name, schedule, _)| {
            format!("- {{name: {name}, group: default, type: noop, schedule: {schedule}, {more}}}\n")
        })
        .collect();
    let applied = server.apply(&format!(
        "jobs:\n{jobs}\
        - {{name: hourly, group: default, type: shell, command: ': ${{yyyyMMddHH}}', host: none, {more}, \
            schedule: {{period: hour, zone: Europe/Berlin}}}}\n"
    ));
    // The worker may not have registered yet, which is warned of as well.
    let warnings = applied["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap());
    let warnings: Vec<&str> = warnings.filter(|warning| !warning.contains("no live worker")).collect();
    assert_eq!(warnings.len(), 1, "{applied}");
    let warning = warnings[0];
    assert!(warning.contains("default/hourly") && warning.contains("without its offset"), "{warning}");
    for (job, at, logical_time) in [
        ("hourly", "2026-10-25T00:01:00.000Z", "2026-10-25T00:00:00.000Z"),
        ("daily", "2026-10-25T23:01:00.000Z", "2026-10-25T23:00:00.000Z"),
        ("weekly", "2026-10-25T23:02:00.000Z", "2026-10-25T23:00:00.000Z"),
        ("monthly", "2026-10-31T23:05:00.000Z", "2026-10-31T23:00:00.000Z"),
        ("fixed", "2026-10-25T00:30:00.000Z", "2026-10-25T00:30:00.000Z"),
    ] {
        assert_eq!(next_fire(&server, job), (time(at), time(logical_time)), "{job}");
    }
    assert_eq!(server.stop(), Some(0));

    let server = clock.start(time(BETWEEN).into(), &data, &zone("UTC"));
    until("the last hour is generated", || {
        (made(&server, "hourly").last() >= Some(&time("2026-10-28T11:00:00.000Z"))).then_some(())
    });
    assert_eq!(server.stop(), Some(0));

    let server = clock.start(time(BACK).into(), &data, &zone("UTC"));
    let hourly = until("the last hour is generated", || {
        Some(made(&server, "hourly")).filter(|times| times.last() >= every_hour().last())
    });
    // However slow this is, it may have become later since.
    let hourly: Vec<_> = hourly.into_iter().filter(|at| *at < time(BACK)).collect();
    assert_eq!(hourly, every_hour());
    for (job, _, wanted) in TABLE {
        let wanted: Vec<Timestamp> = wanted.iter().map(|text| time(text)).collect();
        let complete = || Some(made(&server, job)).filter(|times| times.len() >= wanted.len());
        assert_eq!(until(&format!("{job} is generated"), complete), wanted, "{job}");
    }
    let exported = server.json(&["job", "export"]);
    let zoneless = exported["jobs"].as_array().unwrap().iter().find(|job| job["name"] == "zoneless").unwrap();
    assert_eq!(zoneless["schedule"]["zone"], "Asia/Kolkata", "{zoneless}");
    assert_eq!(server.json(&["verify", "--journal"])["finding_count"], 0);
    assert_eq!(server.stop(), Some(0));
}

/// JOB-3: a schedule that is none is refused by REST with its field and its rule, and nothing is changed.
#[test]
fn schedules_that_cannot_be_are_refused_by_field() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for (number, (schedule, field, said)) in [
        (json!({"period": "year"}), "schedule.period", "month"),
        (json!({"cron": "0 0 0 * *"}), "schedule.cron", "second, minute"),
        (json!({"cron": "0 0 0 32 * ?"}), "schedule.cron", "32"),
        (json!({"cron": "0 0 0 30 2 ?"}), "schedule.cron", "never"),
        (json!({"period": "day", "zone": "Mars/Base"}), "schedule.zone", "IANA"),
        (json!({"period": "day", "cron": "0 0 0 * * ?"}), "schedule", "cron"),
    ]
    .into_iter()
    .enumerate()
    {
        let job = json!({"name": "a", "group": "default", "type": "noop", "schedule": schedule});
        let (status, problem) =
            server.post("/api/jobs/apply", &format!("bad-{number}"), &json!({"jobs": [job]}));
        assert_eq!(status, 422, "{problem}");
        let error = &problem["errors"][0];
        assert!(error["field"].as_str().unwrap().contains(field), "{problem}");
        assert!(error.to_string().contains(said), "{said}: {problem}");
    }
    assert_eq!(server.json(&["job", "ls"])["items"], json!([]));
}
