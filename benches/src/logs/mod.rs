//! Logs of attempts, by the real program: what it costs to keep them, to follow them, and to find something in them (LOG-1 to LOG-3).

mod client;
mod followers;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::backend::Backend;
use crate::program::Running;
use crate::row::{Row, percentile};
use crate::usage::{self, Usage};
use client::Client;

const CPU: &str = "processor time of worker and store for each MB of output, ms";
const AT_ONCE: &str = "1,000 attempts print 100 KB each at once: MB a second until all is kept";
pub(crate) const FOLLOWED_P50: &str =
    "1,000 followers of a job that prints: from its print to the follower, p50, ms";
pub(crate) const FOLLOWED_P99: &str = "from its print to the follower, p99, ms";
pub(crate) const FIRST_BYTE: &str = "first byte of the log of 1 GB, ms";
const MIDDLE_BYTE: &str = "first byte from its middle on, ms";
pub(crate) const SEARCHED: &str = "search for what is not in the log of 1 GB, s";
/// The other job writes as much, with the same processors, and has no log.
pub(crate) const BESIDE: &str =
    "start of a job beside one that prints 10 GB, as a multiple of beside one that writes 10 GB to /dev/null";
const BESIDE_OF_BUSY: &str = "start of a job beside one that prints 10 GB, as a multiple of beside one that computes on every processor";
const BESIDE_OF_ALONE: &str = "start of a job beside one that prints 10 GB, as a multiple of alone";
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(20);
const LINE: &str =
    "a line of output that has about a hundred bytes, as those of many programs have, with a time and text";
const FOLLOWERS: usize = 1_000;
const WRITERS: usize = 1_000;
const STARTS: usize = 30;

/// All of it, of a log of `bytes`.
pub(crate) fn measure(name: &str, scale: usize) -> anyhow::Result<Row> {
    let directory = tempfile::tempdir_in(crate::place::on_disk())?;
    let settings = [
        ("EXECUTOR__SLOTS", format!("shell={}", WRITERS + 8)),
        ("EXECUTOR__OUTPUT_MAX_MB", "1100".to_owned()),
        ("API__MAX_STREAMS", "4096".to_owned()),
        ("API__MAX_STREAMS_PER_KEY", "4096".to_owned()),
    ];
    let fixture = Running::start_with(Backend::Embedded, directory.path(), &settings)?;
    let bench = Bench {
        client: Client::new(&fixture),
        fixture,
        directory: directory.path(),
        bytes: (1 << 30) / scale,
    };
    let before = Usage::now();
    let (seconds, cpu_ms, batch) = bench.ingest()?;
    let (first, middle) = bench.first_bytes(&batch)?;
    let searched = bench.search(&batch)?;
    let at_once = bench.write_at_once(WRITERS / scale)?;
    let (p50, p99) = followers::measure(&bench, FOLLOWERS / scale)?;
    let beside = bench.beside(10 * bench.bytes)?;
    let cpu_s = Usage::now().cpu_s - before.cpu_s;
    let per_second = mb(bench.bytes) / seconds;
    let peak_rss_mb = bench.fixture.peaks_mb().iter().map(|(_, mb)| mb).sum();
    let raw_limit = bench.raw()?;
    let row = Row {
        workload: name.to_owned(),
        backend: Backend::Embedded.name(),
        runs: 1,
        n: bench.bytes,
        per_second,
        cpu_s,
        peak_rss_mb,
        raw_limit,
        ratio: per_second / raw_limit,
        raw_unit: "MB/s".to_owned(),
        ..Row::default()
    };
    let figures = [
        (CPU, cpu_ms),
        (AT_ONCE, at_once),
        (FOLLOWED_P50, p50),
        (FOLLOWED_P99, p99),
        (FIRST_BYTE, first),
        (MIDDLE_BYTE, middle),
        (SEARCHED, searched),
        (BESIDE, beside.printer / beside.silent),
        (BESIDE_OF_BUSY, beside.printer / beside.busy),
        (BESIDE_OF_ALONE, beside.printer / beside.alone),
    ];
    Ok(figures.into_iter().fold(row, |row, (figure, value)| row.with(figure, value)))
}

fn mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// Medians of starts, milliseconds: alone, beside a job that writes to nobody, beside one that keeps every processor busy as
/// a printer with its log does, and beside one that prints.
struct Beside {
    alone: f64,
    silent: f64,
    busy: f64,
    printer: f64,
}

struct Bench<'a> {
    client: Client,
    fixture: Running,
    directory: &'a Path,
    bytes: usize,
}

impl Bench<'_> {
    /// Defines a job of type shell, and gives its name.
    fn job(&self, name: &str, command: &str) -> anyhow::Result<String> {
        let group = self.fixture.group();
        let file = self.directory.join(format!("{name}.json"));
        let job = serde_json::json!({"name": name, "group": group, "type": "shell", "command": command});
        fs::write(&file, serde_json::json!({ "jobs": [job] }).to_string())?;
        let path = file.to_str().context("a path of plain letters")?;
        let applied = self.fixture.client(&["job", "apply", "-f", path])?;
        ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        Ok(format!("{group}/{name}"))
    }

    /// Runs a job, and gives its batch.
    fn run(&self, job: &str) -> anyhow::Result<String> {
        let answer = self.fixture.client(&["job", "run", job, "-o", "json"])?;
        let batch: Value = serde_json::from_slice(&answer.stdout)
            .with_context(|| String::from_utf8_lossy(&answer.stderr).into_owned())?;
        Ok(batch["batch"].to_string())
    }

    /// The bytes of stdout, where all of it is kept.
    fn kept(&self, batch: &str) -> Option<usize> {
        let summary = self.client.json(&format!("/api/batches/{batch}/log/summary")).ok()?;
        let bytes = summary["stdout"]["bytes"].as_u64()?;
        (summary["is_end"] == true).then(|| usize::try_from(bytes).unwrap_or(0))
    }

    fn until<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> anyhow::Result<T> {
        let begun = Instant::now();
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            ensure!(begun.elapsed() < PATIENCE, "not within {} s: {what}", PATIENCE.as_secs());
            std::thread::sleep(LOOK);
        }
    }

    /// One attempt prints as fast as it can: seconds until all is kept, processor time of worker and store, the batch.
    fn ingest(&self) -> anyhow::Result<(f64, f64, String)> {
        let job = self.job("large", &format!("yes '{LINE}' | head -c {}", self.bytes))?;
        let (before, begun) = (self.own_cpu_s(), Instant::now());
        let batch = self.run(&job)?;
        let bytes = self.until("the log is kept", || self.kept(&batch))?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(bytes == self.bytes, "{bytes} bytes are kept of {}", self.bytes);
        Ok((seconds, (self.own_cpu_s() - before) * 1e3 / mb(self.bytes), batch))
    }

    /// Of the program's own process, without shims and jobs.
    fn own_cpu_s(&self) -> f64 {
        self.fixture.processes().into_iter().map(usage::own_cpu_s).sum()
    }

    /// Milliseconds, each the median of some.
    fn first_bytes(&self, batch: &str) -> anyhow::Result<(f64, f64)> {
        let path = format!("/api/batches/{batch}/log/download");
        let median = |range: Option<String>| -> anyhow::Result<f64> {
            let times = (0..11).map(|_| self.client.first_byte_ms(&path, range.as_deref()));
            let mut times = times.collect::<anyhow::Result<Vec<_>>>()?;
            percentile(&mut times, 0.5).context("some were measured")
        };
        Ok((median(None)?, median(Some(format!("bytes={}-", self.bytes / 2)))?))
    }

    /// Seconds until all of it was looked at.
    fn search(&self, batch: &str) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let mut offset = 0;
        loop {
            let path = format!("/api/batches/{batch}/log/search?text=not%20there&offset={offset}");
            let found = self.client.json(&path)?;
            offset = found["offset"].as_u64().context("an offset")?;
            if found["is_end"] == true {
                return Ok(begun.elapsed().as_secs_f64());
            }
        }
    }

    /// MB a second.
    fn write_at_once(&self, writers: usize) -> anyhow::Result<f64> {
        const BYTES: usize = 100_000;
        let gate = self.directory.join("gate");
        let status = std::process::Command::new("mkfifo").arg(&gate).status()?;
        ensure!(status.success(), "mkfifo ended with {status}");
        let command = format!(": < {}; yes '{LINE}' | head -c {BYTES}", gate.display());
        let jobs = (0..writers).map(|number| {
            serde_json::json!({"name": format!("writer-{number}"), "group": self.fixture.group(), "type": "shell",
                "command": command})
        });
        let file = self.directory.join("writers.json");
        fs::write(&file, serde_json::json!({ "jobs": jobs.collect::<Vec<_>>() }).to_string())?;
        let path = file.to_str().context("a path of plain letters")?;
        let applied = self.fixture.client(&["job", "apply", "-f", path])?;
        ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        let batches = (0..writers)
            .map(|number| self.client.run(&format!("{}/writer-{number}", self.fixture.group())))
            .collect::<anyhow::Result<Vec<_>>>()?;
        self.until("all run", || {
            let running = self.client.json("/api/batches?state=running&limit=1000").ok()?;
            (running["items"].as_array()?.len() >= writers).then_some(())
        })?;
        let begun = Instant::now();
        let opened = fs::File::options().write(true).open(&gate)?;
        for batch in &batches {
            let bytes = self.until("a log is kept", || self.kept(batch))?;
            ensure!(bytes == BYTES, "{bytes} bytes are kept of {BYTES}");
        }
        drop(opened);
        Ok(mb(BYTES * writers) / begun.elapsed().as_secs_f64())
    }

    /// How long jobs take to start, alone and while another writes so many bytes.
    fn beside(&self, bytes: usize) -> anyhow::Result<Beside> {
        let stamp = self.directory.join("stamp");
        let job = self.job("small", &format!("date +%s%N > {0}.new; mv {0}.new {0}", stamp.display()))?;
        let alone = self.starts(&job, &stamp)?;
        let write = format!("yes '{LINE}' | head -c {bytes}");
        let silent = format!("while {write} > /dev/null; do :; done");
        let silent = self.starts_beside(("silent", &silent), &job, &stamp)?;
        let processors = std::thread::available_parallelism()?;
        let busy = "while :; do :; done & ".repeat(processors.get()) + "wait";
        let busy = self.starts_beside(("busy", &busy), &job, &stamp)?;
        let printing = self.run(&self.job("printer", &write)?)?;
        let beside_printer = self.starts(&job, &stamp)?;
        self.until("the printer's log is kept", || self.kept(&printing))?;
        Ok(Beside { alone, silent, busy, printer: beside_printer })
    }

    /// Beside another job, which is then killed.
    fn starts_beside(&self, (name, command): (&str, &str), job: &str, stamp: &Path) -> anyhow::Result<f64> {
        let other = self.run(&self.job(name, command)?)?;
        let median = self.starts(job, stamp)?;
        let killed = self.fixture.client(&["batch", "kill", &other])?;
        ensure!(killed.status.success(), "{}", String::from_utf8_lossy(&killed.stderr));
        self.until("the other job has ended", || self.has_ended(&other))?;
        Ok(median)
    }

    fn has_ended(&self, batch: &str) -> Option<()> {
        let shown = self.client.json(&format!("/api/batches/{batch}")).ok()?;
        (shown["state"] == "finished").then_some(())
    }

    /// The median of some, milliseconds from the request to the job's first action.
    fn starts(&self, job: &str, stamp: &Path) -> anyhow::Result<f64> {
        let mut times = Vec::new();
        for _ in 0..STARTS {
            let asked = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
            let batch = self.client.run(job)?;
            let started: u128 = self.until("a job starts", || {
                let text = fs::read_to_string(stamp).ok()?;
                fs::remove_file(stamp).ok()?;
                text.trim().parse().ok()
            })?;
            times.push((started.saturating_sub(asked)) as f64 / 1e6);
            self.until("a batch ends", || self.has_ended(&batch))?;
        }
        percentile(&mut times, 0.5).context("some were measured")
    }

    /// MB a second that go through a pipe into a file here.
    fn raw(&self) -> anyhow::Result<f64> {
        let file = self.directory.join("raw");
        let command = format!("yes '{LINE}' | head -c {} | cat > {}", self.bytes, file.display());
        let begun = Instant::now();
        let status = std::process::Command::new("sh").args(["-c", &command]).status()?;
        ensure!(status.success(), "writing a file ended with {status}");
        Ok(mb(self.bytes) / begun.elapsed().as_secs_f64())
    }
}
