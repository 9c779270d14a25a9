//! One workload on one site, measured.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use tidemill_journal::now;
use tidemill_model::{
    AttemptEvent, BatchCommand, BatchEvent, Command, Event, JobId, JobSpec, ReplicationEvent, ShardId,
    Timestamp,
};

use crate::backend::Backend;
use crate::fixture::Fixture;
use crate::history::{self, History};
use crate::place;
use crate::raw;
use crate::requests::{job, submission};
use crate::row::{Row, percentile};
use crate::usage::{self, Usage};
use crate::workload::{PROCESSES_AT_ONCE, Workload};

pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
pub(crate) const FINISHED: &str = "{\"batch\":{\"finished\":";
pub(crate) const GENERATED: &str = "{\"batch\":{\"generated\":";
pub(crate) const RECEIVED: &str = "\"job_replicated\":";
/// Of a record whose like the log is asked for.
const RECORD_BYTES: usize = 300;
/// Durable appends, one at a time.
const APPENDS: usize = 300;
/// A job has at most 1,000 parents, so the end of a fan gathers in two steps.
const GATHERED_AT_ONCE: usize = 500;

pub(crate) struct Run<'a> {
    pub(crate) workload: Workload,
    pub(crate) backend: Backend,
    pub(crate) fixture: &'a Fixture,
    pub(crate) attempts: &'a Path,
}

/// A clock, and what had been used when it was started.
pub(crate) struct Stopwatch {
    started: Instant,
    before: Usage,
}

/// What the clock showed when it was stopped.
pub(crate) struct Lap {
    pub(crate) seconds: f64,
    pub(crate) cpu_s: f64,
    pub(crate) peak_rss_mb: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { before: Usage::now(), started: Instant::now() }
    }

    pub(crate) fn stop(&self) -> Lap {
        let seconds = self.started.elapsed().as_secs_f64();
        let Usage { cpu_s, peak_rss_mb } = Usage::now();
        Lap { seconds, cpu_s: cpu_s - self.before.cpu_s, peak_rss_mb }
    }
}

pub(crate) struct Raw {
    limit: f64,
    unit: &'static str,
}

impl Run<'_> {
    pub(crate) fn lifecycle(&self, n: usize) -> anyhow::Result<Row> {
        self.warm_up()?;
        let lap = self.send_and_finish(n, "noop", None)?;
        let times_ms = lives(&self.history()?);
        self.row(n, lap, times_ms, self.records_limit(200_000.min(4 * n))?)
    }

    pub(crate) fn processes(&self, n: usize) -> anyhow::Result<Row> {
        self.warm_up()?;
        let lap = self.send_and_finish(n, "shell", Some(raw::PROGRAM))?;
        let times_ms = lives(&self.history()?);
        self.row(n, lap, times_ms, self.processes_limit(n)?)
    }

    pub(crate) fn processes_limit(&self, n: usize) -> anyhow::Result<Raw> {
        let limit = raw::processes_per_second(self.attempts, n, PROCESSES_AT_ONCE)?;
        Ok(Raw { limit, unit: "processes/s" })
    }

    pub(crate) fn chain(&self, n: usize) -> anyhow::Result<Row> {
        let name = |index: usize| format!("hop-{index:05}");
        let parents = |index: usize| if index == 0 { Vec::new() } else { vec![name(index - 1)] };
        let jobs: Vec<JobSpec> =
            (0..n).map(|index| job(&name(index), "noop", &parents(index), None)).collect();
        let (lap, history) = self.run_graph(&jobs)?;
        let mut finished =
            times_of(&history, |event| matches!(event, Event::Batch(BatchEvent::Finished { .. })));
        finished.sort();
        let times_ms = finished.windows(2).map(|pair| milliseconds(pair[0], pair[1])).collect();
        self.row(n, lap, times_ms, self.append_limit()?)
    }

    pub(crate) fn fan(&self, width: usize) -> anyhow::Result<Row> {
        let names: Vec<String> = (0..width).map(|index| format!("fan-{index:05}")).collect();
        let mut jobs = vec![job("fan-root", "noop", &[], None)];
        jobs.extend(names.iter().map(|name| job(name, "noop", &["fan-root".to_owned()], None)));
        let gathers = names.chunks(GATHERED_AT_ONCE).enumerate();
        let gathers: Vec<JobSpec> =
            gathers.map(|(index, part)| job(&format!("gather-{index:03}"), "anchor", part, None)).collect();
        let last: Vec<String> = gathers.iter().map(|job| job.name.to_string()).collect();
        jobs.extend(gathers);
        jobs.push(job("fan-end", "noop", &last, None));
        let (lap, history) = self.run_graph(&jobs)?;
        // The anchors are not counted: no worker has anything to do with them.
        self.row(width + 2, lap, lives(&history), self.records_limit(100_000)?)
    }

    /// Defines the jobs, runs the first by hand and waits until each has run.
    fn run_graph(&self, jobs: &[JobSpec]) -> anyhow::Result<(Lap, History)> {
        self.warm_up()?;
        self.fixture.apply(jobs)?;
        self.fixture.until(RECEIVED, jobs.len(), PATIENCE)?;
        self.fixture.settle()?;
        let watch = Stopwatch::start();
        let root = JobId::mint(1, ShardId::CATALOGUE);
        let command = Command::Batch(BatchCommand::RunJob {
            job: root,
            logical_time: None,
            parameters: BTreeMap::new(),
            concurrent: true,
        });
        self.fixture.ask(self.fixture.shard, command)?;
        self.fixture.until(FINISHED, jobs.len(), PATIENCE)?;
        self.fixture.settle()?;
        let lap = watch.stop();
        let mut history = self.history()?;
        let first = history.facts.iter().position(|(_, event)| {
            matches!(event, Event::Replication(ReplicationEvent::JobReplicated { .. }))
        });
        history.facts.drain(..first.unwrap_or(0));
        Ok((lap, history))
    }

    /// No worker runs, so every batch stays waiting. The clock runs from the time that the jobs are due until
    /// the last batch can be read from the journal.
    pub(crate) fn burst(&self, n: usize) -> anyhow::Result<Row> {
        let seconds_to_define = 10 + (n / 5_000) as i64;
        let due = now() + jiff::SignedDuration::from_secs(seconds_to_define);
        let at = due.to_zoned(jiff::tz::TimeZone::UTC);
        let due = Timestamp::from_second(due.as_second())?;
        let cron = at.strftime("%-S %-M %-H %-d %-m ? %Y").to_string();
        let jobs: Vec<JobSpec> =
            (0..n).map(|index| job(&format!("burst-{index:06}"), "noop", &[], Some(&cron))).collect();
        self.fixture.apply(&jobs)?;
        self.fixture.until(RECEIVED, n, PATIENCE)?;
        self.fixture.settle()?;
        if now() > due {
            anyhow::bail!("defining {n} jobs took more than {seconds_to_define} s; give them longer");
        }
        let resident = usage::resident();
        let watch = Stopwatch::start();
        self.fixture.until(GENERATED, n, PATIENCE)?;
        let seconds = milliseconds(due, now()) / 1e3;
        self.fixture.settle()?;
        let lap = Lap { seconds, ..watch.stop() };
        let grown = (usage::resident() - resident).max(0.0) / n as f64;
        let generated =
            times_of(&self.history()?, |event| matches!(event, Event::Batch(BatchEvent::Generated { .. })));
        let times_ms = generated.iter().map(|at| milliseconds(due, *at)).collect();
        let row = self.row(n, lap, times_ms, self.records_limit(n)?)?;
        Ok(Row { bytes_per_waiting: Some(grown), ..row })
    }

    pub(crate) fn latency(&self, n: usize, kind: &str, program: Option<&str>) -> anyhow::Result<Row> {
        self.warm_up()?;
        let watch = Stopwatch::start();
        let mut sent = Vec::with_capacity(n);
        for _ in 0..n {
            sent.push(now());
            self.fixture.send_all(std::iter::once(submission("single", kind, program, self.fixture)))?;
            self.fixture.until(FINISHED, 1, PATIENCE)?;
        }
        self.fixture.settle()?;
        let lap = watch.stop();
        let mut begun =
            times_of(&self.history()?, |event| matches!(event, Event::Attempt(AttemptEvent::Started { .. })));
        let begun = begun.split_off(begun.len().saturating_sub(n));
        let times_ms = sent.iter().zip(&begun).map(|(sent, begun)| milliseconds(*sent, *begun)).collect();
        self.row(n, lap, times_ms, self.append_limit()?)
    }

    /// One batch to its end, so that the worker is there and nothing of it is left to come.
    pub(crate) fn warm_up(&self) -> anyhow::Result<()> {
        self.fixture.ask(self.fixture.shard, submission("warm-up", "noop", None, self.fixture))?;
        self.fixture.until(FINISHED, 1, PATIENCE)?;
        self.fixture.settle()
    }

    fn send_and_finish(&self, n: usize, kind: &str, program: Option<&str>) -> anyhow::Result<Lap> {
        let watch = Stopwatch::start();
        self.fixture.send_all((0..n).map(|_| submission("life", kind, program, self.fixture)))?;
        self.fixture.until(FINISHED, n, PATIENCE)?;
        self.fixture.settle()?;
        Ok(watch.stop())
    }

    pub(crate) fn history(&self) -> anyhow::Result<History> {
        history::read(self.fixture.log.as_ref(), self.fixture.journal_partition())
    }

    fn records_limit(&self, count: usize) -> anyhow::Result<Raw> {
        let limit = raw::records_per_second(&self.fixture.log, count, RECORD_BYTES)?;
        Ok(Raw { limit, unit: "records/s" })
    }

    pub(crate) fn append_limit(&self) -> anyhow::Result<Raw> {
        Ok(Raw { limit: raw::append_and_read_ms(&self.fixture.log, APPENDS)?, unit: "ms" })
    }

    pub(crate) fn row(&self, n: usize, lap: Lap, mut times_ms: Vec<f64>, raw: Raw) -> anyhow::Result<Row> {
        let p50_ms = percentile(&mut times_ms, 0.5);
        let per_second = n as f64 / lap.seconds;
        let own = if self.workload.is_about_time() { p50_ms.unwrap_or_default() } else { per_second };
        let has_processes = self.workload.has_processes();
        Ok(Row {
            workload: self.workload.name(),
            backend: self.backend.name(),
            runs: 1,
            n,
            per_second,
            p50_ms,
            p99_ms: percentile(&mut times_ms, 0.99),
            cpu_s: lap.cpu_s,
            peak_rss_mb: lap.peak_rss_mb,
            raw_limit: raw.limit,
            ratio: own / raw.limit,
            raw_unit: raw.unit.to_owned(),
            attempts_on: has_processes.then(|| place::file_system(self.attempts)).flatten(),
            ..Row::default()
        })
    }
}

pub(crate) fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() * 1e3
}

pub(crate) fn times_of(history: &History, which: impl Fn(&Event) -> bool) -> Vec<Timestamp> {
    history.facts.iter().filter(|(_, event)| which(event)).map(|(at, _)| *at).collect()
}

/// Milliseconds from generated to finished, of every batch that did both.
fn lives(history: &History) -> Vec<f64> {
    let mut begun = BTreeMap::new();
    let mut lives = Vec::new();
    for (at, event) in &history.facts {
        if let Event::Batch(BatchEvent::Generated { batch, .. }) = event {
            begun.insert(*batch, *at);
        }
        if let Event::Batch(BatchEvent::Finished { batch, .. }) = event
            && let Some(begun) = begun.remove(batch)
        {
            lives.push(milliseconds(begun, *at));
        }
    }
    lives
}
