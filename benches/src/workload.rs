//! The workloads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use jiff::Timestamp;
use tidemill_model::{
    BatchId, Command, Event, GroupName, JobId, JobName, JobSpec, JobType, ParentSpec, Priority, Program,
    ScheduleInput, Submission,
};

use crate::backend::Backend;
use crate::history::{self, History};
use crate::raw;
use crate::report::{self, Row, percentile};
use crate::site::{Site, group};

const PATIENCE: Duration = Duration::from_secs(600);
const FINISHED: &str = "\"batch_finished\":";
const GENERATED: &str = "\"batch_generated\":";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Batches of type noop through all transitions.
    Lifecycle,
    /// 1,000 jobs, each after the one before.
    Chain,
    /// One, then 10,000, then one.
    Fan,
    /// 100,000 jobs due in one second.
    Burst,
    /// One at a time.
    Latency,
    /// Real processes.
    Processes,
    /// One real process at a time.
    ProcessLatency,
}

impl Workload {
    pub(crate) const ALL: [Self; 7] = [
        Self::Lifecycle,
        Self::Chain,
        Self::Fan,
        Self::Burst,
        Self::Latency,
        Self::Processes,
        Self::ProcessLatency,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Chain => "chain",
            Self::Fan => "fan",
            Self::Burst => "burst",
            Self::Latency => "latency",
            Self::Processes => "processes",
            Self::ProcessLatency => "process-latency",
        }
    }

    pub(crate) fn measure(self, backend: Backend, scale: usize) -> anyhow::Result<Row> {
        let directory = tempfile::tempdir()?;
        let mut site = Site::start(backend, directory.path())?;
        if self != Self::Burst {
            site.work(directory.path(), &[("noop", 10_000), ("shell", 8)])?;
            site.ask(site.shard, submission("warm-up", "noop", None, &site))?;
            site.settle()?;
        }
        let partition = site.shard.partition(site.log.partitions(tidemill_log::Topic::Journal));
        let run =
            Run { workload: self, backend, partition, from: site.journal_end()?, cpu: report::usage().0 };
        let row = match self {
            Self::Lifecycle => run.lifecycle(&site, 200_000 / scale, "noop", None),
            Self::Processes => run.processes(&site, 3_000 / scale),
            Self::Chain => run.chain(&site, 1_000 / scale),
            Self::Fan => run.fan(&site, 10_000 / scale),
            Self::Burst => run.burst(&site, 100_000 / scale),
            Self::Latency => run.latency(&site, 500 / scale, "noop", None),
            Self::ProcessLatency => run.latency(&site, 200 / scale, "shell", Some("true")),
        }?;
        site.stop()?;
        Ok(row)
    }
}

struct Run {
    workload: Workload,
    backend: Backend,
    partition: u32,
    from: u64,
    cpu: f64,
}

struct Measured {
    n: usize,
    seconds: f64,
    times_ms: Vec<f64>,
    raw_limit: f64,
    raw_unit: &'static str,
    bytes_per_waiting: Option<f64>,
}

impl Run {
    fn lifecycle(&self, site: &Site, n: usize, kind: &str, command: Option<&str>) -> anyhow::Result<Row> {
        let started = Instant::now();
        site.send_all((0..n).map(|_| submission("life", kind, command, site)))?;
        self.wait(site, FINISHED, n)?;
        site.settle()?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu = report::usage().0 - self.cpu;
        let times_ms = lives(&history::read(site.log.as_ref(), self.partition)?);
        let raw_limit = raw::records_per_second(&site.log, 200_000.min(4 * n), 300)?;
        let measured =
            Measured { n, seconds, times_ms, raw_limit, raw_unit: "records/s", bytes_per_waiting: None };
        Ok(self.row(measured, cpu))
    }

    fn processes(&self, site: &Site, n: usize) -> anyhow::Result<Row> {
        let mut row = self.lifecycle(site, n, "shell", Some("true"))?;
        row.raw_limit = raw::processes_per_second(2 * n)?;
        row.raw_unit = "processes/s".to_owned();
        row.ratio = row.per_second / row.raw_limit;
        Ok(row)
    }

    fn chain(&self, site: &Site, n: usize) -> anyhow::Result<Row> {
        let name = |index: usize| format!("hop-{index:05}");
        let parents = |index: usize| if index == 0 { Vec::new() } else { vec![name(index - 1)] };
        let jobs: Vec<JobSpec> =
            (0..n).map(|index| job(&name(index), "noop", &parents(index), None)).collect();
        let history = self.run_graph(site, &jobs, n)?;
        let mut finished: Vec<Timestamp> =
            times_of(&history.0, |event| matches!(event, Event::BatchFinished { .. }).then_some(()));
        finished.sort();
        let times_ms: Vec<f64> = finished.windows(2).map(|pair| milliseconds(pair[0], pair[1])).collect();
        let raw_limit = raw::append_and_read_ms(&site.log, 300)?;
        let measured =
            Measured { n, seconds: history.1, times_ms, raw_limit, raw_unit: "ms", bytes_per_waiting: None };
        Ok(self.row(measured, history.2))
    }

    fn fan(&self, site: &Site, width: usize) -> anyhow::Result<Row> {
        let name = |index: usize| format!("fan-{index:05}");
        let mut jobs = vec![job("fan-root", "noop", &[], None)];
        jobs.extend((0..width).map(|index| job(&name(index), "noop", &["fan-root".to_owned()], None)));
        // A job has at most 1,000 parents, so the end gathers in two steps.
        let gathers: Vec<JobSpec> = (0..width)
            .collect::<Vec<_>>()
            .chunks(500)
            .enumerate()
            .map(|(index, part)| {
                let parents: Vec<String> = part.iter().map(|index| name(*index)).collect();
                job(&format!("gather-{index:03}"), "anchor", &parents, None)
            })
            .collect();
        let last: Vec<String> = gathers.iter().map(|job| job.name.to_string()).collect();
        let n = width + 2;
        let all = n + gathers.len();
        jobs.extend(gathers);
        jobs.push(job("fan-end", "noop", &last, None));
        let (history, seconds, cpu) = self.run_graph(site, &jobs, all)?;
        let raw_limit = raw::records_per_second(&site.log, 100_000, 300)?;
        let times_ms = lives(&history);
        let measured =
            Measured { n, seconds, times_ms, raw_limit, raw_unit: "records/s", bytes_per_waiting: None };
        Ok(self.row(measured, cpu))
    }

    /// Defines the jobs, runs the first by hand and waits for `finished` batches.
    fn run_graph(
        &self,
        site: &Site,
        jobs: &[JobSpec],
        finished: usize,
    ) -> anyhow::Result<(History, f64, f64)> {
        site.apply(jobs)?;
        self.wait(site, "\"job_received\":", jobs.len())?;
        site.settle()?;
        let root = JobId::mint(1, tidemill_model::ShardId::CATALOGUE);
        let cpu = report::usage().0;
        let started = Instant::now();
        let command = Command::RunJob { job: root, logical_time: None, parameters: BTreeMap::new() };
        let from = site.journal_end()?;
        site.ask(site.shard, command)?;
        history::wait_for(site.log.as_ref(), self.partition, from, FINISHED, finished, PATIENCE)?;
        site.settle()?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu = report::usage().0 - cpu;
        let mut history = history::read(site.log.as_ref(), self.partition)?;
        let first = history.facts.iter().position(|(_, event)| matches!(event, Event::JobReceived { .. }));
        history.facts.drain(..first.unwrap_or(0));
        Ok((history, seconds, cpu))
    }

    /// No worker runs, so every batch stays waiting.
    fn burst(&self, site: &Site, n: usize) -> anyhow::Result<Row> {
        let seconds_to_define = 20 + (n / 2_000) as i64;
        let due = Timestamp::now() + jiff::SignedDuration::from_secs(seconds_to_define);
        let at = due.to_zoned(jiff::tz::TimeZone::UTC);
        let cron = at.strftime("%-S %-M %-H %-d %-m ? %Y").to_string();
        let jobs: Vec<JobSpec> =
            (0..n).map(|index| job(&format!("burst-{index:06}"), "noop", &[], Some(&cron))).collect();
        site.apply(&jobs)?;
        self.wait(site, "\"job_received\":", n)?;
        site.settle()?;
        if Timestamp::now() > due {
            anyhow::bail!("defining {n} jobs took more than {seconds_to_define} s; give them longer");
        }
        let resident = report::resident();
        let cpu = report::usage().0;
        self.wait(site, GENERATED, n)?;
        let due = Timestamp::from_second(due.as_second())?;
        let history = history::read(site.log.as_ref(), self.partition)?;
        let generated =
            times_of(&history, |event| matches!(event, Event::BatchGenerated { .. }).then_some(()));
        let seconds = generated.iter().map(|at| milliseconds(due, *at) / 1e3).fold(0.0, f64::max);
        drop(history);
        site.settle()?;
        let cpu = report::usage().0 - cpu;
        let grown = (report::resident() - resident).max(0.0) / n as f64;
        let times_ms = generated.iter().map(|at| milliseconds(due, *at)).collect();
        let raw_limit = raw::records_per_second(&site.log, n, 300)?;
        let measured = Measured {
            n,
            seconds,
            times_ms,
            raw_limit,
            raw_unit: "records/s",
            bytes_per_waiting: Some(grown),
        };
        Ok(self.row(measured, cpu))
    }

    fn latency(&self, site: &Site, n: usize, kind: &str, command: Option<&str>) -> anyhow::Result<Row> {
        let started = Instant::now();
        let mut sent = Vec::with_capacity(n);
        for _ in 0..n {
            let from = site.journal_end()?;
            sent.push(Timestamp::now());
            site.send_all(std::iter::once(submission("single", kind, command, site)))?;
            history::wait_for(site.log.as_ref(), self.partition, from, FINISHED, 1, PATIENCE)?;
        }
        site.settle()?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu = report::usage().0 - self.cpu;
        let history = history::read(site.log.as_ref(), self.partition)?;
        let mut begun =
            times_of(&history, |event| matches!(event, Event::AttemptStarted { .. }).then_some(()));
        let begun = begun.split_off(begun.len() - n);
        let times_ms = sent.iter().zip(&begun).map(|(sent, begun)| milliseconds(*sent, *begun)).collect();
        let raw_limit = raw::append_and_read_ms(&site.log, 300)?;
        let measured = Measured { n, seconds, times_ms, raw_limit, raw_unit: "ms", bytes_per_waiting: None };
        Ok(self.row(measured, cpu))
    }

    fn wait(&self, site: &Site, needle: &str, count: usize) -> anyhow::Result<()> {
        history::wait_for(site.log.as_ref(), self.partition, self.from, needle, count, PATIENCE)
    }

    fn row(&self, mut measured: Measured, cpu_s: f64) -> Row {
        let p50_ms = percentile(&mut measured.times_ms, 0.5);
        let p99_ms = percentile(&mut measured.times_ms, 0.99);
        let per_second = measured.n as f64 / measured.seconds;
        let ratio = match self.workload {
            Workload::Chain | Workload::Latency | Workload::ProcessLatency => {
                p50_ms.unwrap_or_default() / measured.raw_limit
            }
            Workload::Lifecycle | Workload::Fan | Workload::Burst | Workload::Processes => {
                per_second / measured.raw_limit
            }
        };
        Row {
            workload: self.workload.name().to_owned(),
            backend: self.backend.name().to_owned(),
            n: measured.n,
            per_second,
            p50_ms,
            p99_ms,
            cpu_s,
            peak_rss_mb: report::usage().1,
            raw_limit: measured.raw_limit,
            raw_unit: measured.raw_unit.to_owned(),
            ratio,
            bytes_per_waiting: measured.bytes_per_waiting,
        }
    }
}

fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() * 1e3
}

fn times_of(history: &History, which: impl Fn(&Event) -> Option<()>) -> Vec<Timestamp> {
    history.facts.iter().filter(|(_, event)| which(event).is_some()).map(|(at, _)| *at).collect()
}

/// Milliseconds from generated to finished, of every batch that did both.
fn lives(history: &History) -> Vec<f64> {
    let mut begun: BTreeMap<BatchId, Timestamp> = BTreeMap::new();
    let mut lives = Vec::new();
    for (at, event) in &history.facts {
        if let Event::BatchGenerated { batch, .. } = event {
            begun.insert(*batch, *at);
        }
        if let Event::BatchFinished { batch, .. } = event
            && let Some(begun) = begun.remove(batch)
        {
            lives.push(milliseconds(begun, *at));
        }
    }
    lives
}

fn submission(name: &str, kind: &str, command: Option<&str>, site: &Site) -> Command {
    Command::SubmitJob(Box::new(Submission {
        name: JobName::try_from(name).expect("is a name"),
        group: group(),
        group_id: site.group_id,
        app_name: "bench".to_owned(),
        owner: String::new(),
        job_type: JobType::try_from(kind).expect("is a name"),
        program: command.map_or(Program::None, |command| Program::Command(command.to_owned())),
        parameters: BTreeMap::new(),
        priority: Priority::DEFAULT,
        parents: Vec::new(),
        retries: 0,
        retry_interval_ms: 0,
    }))
}

fn job(name: &str, kind: &str, parents: &[String], cron: Option<&str>) -> JobSpec {
    let group: GroupName = group();
    let mut value = serde_json::json!({ "name": name, "group": group, "type": kind });
    if let Some(cron) = cron {
        let schedule =
            ScheduleInput { period: None, cron: Some(cron.to_owned()), zone: Some("UTC".to_owned()) };
        value["schedule"] = serde_json::to_value(schedule).expect("is plain data");
    }
    let mut spec = JobSpec::from_value(value).expect("is a whole job");
    spec.parents = parents.iter().cloned().map(ParentSpec::Name).collect();
    spec
}
