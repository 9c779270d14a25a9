//! What is missed while everything is down, on the embedded log.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use serde_json::Value;
use tidemill_log::{Chain, From, Kind, Readers, SqliteConfig, SqliteLog, Topic};
use tidemill_model::{BatchEvent, Envelope, Event, JobEvent, JobId, ScheduleEvent, SkipReason, Timestamp};

const TIDEMILL: &str = env!("CARGO_BIN_EXE_tidemill");
const PATIENCE: Duration = Duration::from_secs(120);
/// A base time counts as missed for the policy `none` when it is older.
const NONE_MISSED_AFTER: i64 = 60;
const JOBS: &str = "
jobs:
- {name: all, group: default, type: noop, max_concurrent: 100, schedule: {cron: '* * * * * ?'}}
- {name: latest, group: default, type: noop, max_concurrent: 100, schedule: {cron: '* * * * * ?'}, missed_runs: latest}
- {name: none, group: default, type: noop, max_concurrent: 100, schedule: {cron: '* * * * * ?'}, missed_runs: none}
";

/// A running `tidemill standalone`.
struct Server(Child);

impl Server {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(TIDEMILL)
            .args(["standalone", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("TIDEMILL__LOG_FILTER", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It says where it serves once it does.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = lines.find(|line| line.as_ref().unwrap().contains("http://"));
        assert!(found.is_some(), "standalone ended: {:?}", child.wait());
        thread::spawn(move || lines.for_each(drop));
        Self(child)
    }

    fn signal(mut self, signal: &str) -> Option<i32> {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already where the test got that far.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun_at = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun_at.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn json(data: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(TIDEMILL);
    command.args(arguments).args(["-o", "json", "--data"]).arg(data);
    let output = command.env_remove("TIDEMILL_SERVER").env_remove("TIDEMILL_KEY").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Waits until each job has a batch for a logical time from this one on that has succeeded.
fn all_succeed_from(data: &Path, from: Timestamp) {
    for job in ["all", "latest", "none"] {
        let (name, from) = (format!("default/{job}"), from.to_string());
        let arguments =
            ["batch", "ls", "--job", &name, "--result", "success", "--from", &from, "--limit", "1"];
        until(&format!("{job} succeeds for {from} or later"), || {
            let answer = json(data, &arguments);
            (!answer["items"].as_array().unwrap().is_empty()).then_some(())
        });
    }
}

/// What the journal says of one job.
#[derive(Default)]
struct Times {
    id: Option<JobId>,
    /// Generated before the outage, in order.
    before: Vec<Timestamp>,
    /// And after it.
    after: Vec<Timestamp>,
    /// Skipped by policy.
    skipped: Vec<Timestamp>,
}

/// Reads the journal of a process that has ended; what follows the last claim is after the outage.
fn journal(data: &Path) -> [Times; 3] {
    let mut config = SqliteConfig::new(data.join("log"));
    config.partitions = 2;
    let log = SqliteLog::open(&config, Box::new(|reason| panic!("{reason}"))).unwrap();
    let mut times: [Times; 3] = Default::default();
    for partition in 0..log.partitions(Topic::Journal) {
        let mut reader = log.reader(Topic::Journal, partition, From::Start).unwrap();
        let end = log.range(Topic::Journal, partition).unwrap().end;
        let (mut chain, mut next) = (Chain::new(), 0);
        while next < end {
            for record in reader.poll(1_000, PATIENCE).unwrap() {
                next = record.offset + 1;
                let Some(header) = chain.accept(record.offset, &record.value).accepted() else { continue };
                if header.kind == Kind::Envelope {
                    let envelope: Envelope = serde_json::from_slice(&record.value.body()).unwrap();
                    for recorded in envelope.events {
                        follow(&mut times, &recorded.event, header.epoch);
                    }
                }
            }
        }
    }
    times
}

fn follow(times: &mut [Times; 3], event: &Event, epoch: u64) {
    match event {
        Event::Job(JobEvent::Defined { definition, .. }) => {
            let index =
                ["all", "latest", "none"].iter().position(|name| *name == definition.spec.name.as_str());
            times[index.unwrap()].id = Some(definition.id);
        }
        Event::Batch(BatchEvent::Generated { job, logical_time, .. }) => {
            let times = of(times, *job);
            let list = if epoch == 1 { &mut times.before } else { &mut times.after };
            list.push(*logical_time);
        }
        Event::Schedule(ScheduleEvent::Skipped { job, from, to, count, reason, .. }) => {
            let skipped = seconds(*from, *to);
            assert_eq!((*reason, *count), (SkipReason::Policy, skipped.len() as u64));
            of(times, *job).skipped.extend(skipped);
        }
        _ => {}
    }
}

fn of(times: &mut [Times; 3], job: JobId) -> &mut Times {
    times.iter_mut().find(|it| it.id == Some(job)).unwrap()
}

/// Each second from the first to the last, once.
fn seconds(from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let mut at = from;
    let next = std::iter::from_fn(|| {
        let this = at;
        at += SignedDuration::from_secs(1);
        (this <= to).then_some(this)
    });
    next.collect()
}

/// Runs three jobs every second, ends everything by this signal for so many base times, and goes on.
fn outage(signal: &str, exit: Option<i32>, seconds_down: i64) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    let file = data.join("jobs.yaml");
    fs::write(&file, JOBS).unwrap();
    json(data, &["job", "apply", "-f", file.to_str().unwrap()]);
    all_succeed_from(data, Timestamp::UNIX_EPOCH);
    assert_eq!(server.signal(signal), exit);
    let down = Timestamp::from(jiff::Timestamp::now());

    let back = down + SignedDuration::from_secs(seconds_down);
    until("base times pass", || (Timestamp::from(jiff::Timestamp::now()) > back).then_some(()));
    let up = Timestamp::from(jiff::Timestamp::now());
    let server = Server::start(data);
    all_succeed_from(data, up + SignedDuration::from_secs(1));
    assert_eq!(server.signal("-TERM"), Some(0));

    let [all, latest, none] = journal(data);
    for times in [&all, &latest, &none] {
        // Every logical time is either generated or skipped, and each once.
        let mut known = [times.before.as_slice(), &times.after, &times.skipped].concat();
        known.sort();
        assert_eq!(known, seconds(known[0], *known.last().unwrap()));
        assert!(times.after.is_sorted() && times.before.is_sorted());
    }
    // All: as if nothing had been.
    assert!(all.skipped.is_empty(), "{:?}", all.skipped);
    let made_up = all.after.iter().filter(|time| **time < up).count() as i64;
    assert!(made_up >= seconds_down, "only {made_up} of {seconds_down} missed base times were made up for");
    // Latest: the newest of those that were missed, and no other.
    let first = latest.after[0];
    assert!(first > up - SignedDuration::from_secs(1), "{first} is not the newest at {up}");
    let skipped = latest.skipped.iter().filter(|time| (down..up).contains(time)).count() as i64;
    assert!(skipped >= seconds_down - 1, "{skipped} skipped");
    // None: none that is a minute old.
    let minute_ago = up - SignedDuration::from_secs(NONE_MISSED_AFTER);
    let (first, skipped) = (none.after[0], none.skipped.len() as i64);
    assert!(first > minute_ago, "{first} was missed at {up}");
    assert!(skipped >= seconds_down - NONE_MISSED_AFTER, "{skipped} skipped");
    assert!(none.skipped.iter().all(|time| *time < none.after[0]));
    if seconds_down < NONE_MISSED_AFTER {
        assert_eq!(skipped, 0, "{:?}", none.skipped);
    }
}

/// A5, GEN-3: killed and down for more than a minute, then exactly what each policy says of the base times that
/// were missed.
#[test]
fn killed_process_makes_up_for_missed_runs_by_policy() {
    outage("-KILL", None, NONE_MISSED_AFTER + 4);
}

/// A5, GEN-3: stopped and down over five base times, likewise.
#[test]
fn stopped_process_makes_up_for_missed_runs_by_policy() {
    outage("-TERM", Some(0), 5);
}
