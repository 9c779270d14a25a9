//! Many attempts that run and do nothing: what they cost, and how fast the executor's next process takes them over (EXE-10).

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tidemill_log::{From, Topic};

use crate::backend::Backend;
use crate::fixture::Fixture;
use crate::place;
use crate::requests::submission;
use crate::row::Row;
use crate::run::{FINISHED, Lap, PATIENCE, Run, Stopwatch};
use crate::usage::Tree;
use crate::workload::Workload;

pub(crate) const MEMORY: &str = "memory of a shim, its share of what it has in common with others, KiB";
pub(crate) const ADOPTED: &str = "until the executor's next process has taken all over, s";
const CPU: &str = "processor time of executor and shims while nothing happens, ms a second";
const STARTED: &str = "{\"attempt\":{\"started\":";
const REPORTED: &[u8] = b"\"report_started\"";
/// How long nothing happens.
const IDLE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);
const RECORDS_AT_ONCE: usize = 1_000;

/// So many attempts at once.
pub(crate) fn measure(workload: Workload, backend: Backend, n: usize) -> anyhow::Result<Row> {
    let directory = tempfile::tempdir()?;
    let attempts = tempfile::tempdir_in(place::on_disk())?;
    let mut fixture = Fixture::start(backend, directory.path())?;
    let slots = [("noop", 1), ("shell", u32::try_from(n)?)];
    fixture.work(attempts.path(), &slots)?;
    Run { workload, backend, fixture: &fixture, attempts: attempts.path() }.warm_up()?;
    let gate = attempts.path().join("gate");
    let status = std::process::Command::new("mkfifo").arg(&gate).status()?;
    ensure!(status.success(), "mkfifo ended with {status}");
    // The shell waits until somebody opens the other end.
    let program = format!(": < {}", gate.display());
    fixture.send_all((0..n).map(|_| submission("running", "shell", Some(&program), &fixture)))?;
    fixture.until(STARTED, n, PATIENCE)?;
    fixture.settle()?;

    let watch = Stopwatch::start();
    let before = Tree::now();
    std::thread::sleep(IDLE);
    let idle = Tree::now();
    fixture.stop_work();
    let adopted = adoption(&mut fixture, attempts.path(), &slots, n)?;
    let lap = watch.stop();

    let gate = File::options().write(true).open(&gate).context("opening the gate")?;
    fixture.until(FINISHED, n, PATIENCE)?;
    drop(gate);
    let run = Run { workload, backend, fixture: &fixture, attempts: attempts.path() };
    let row = run.row(n, Lap { seconds: adopted, ..lap }, Vec::new(), run.processes_limit(n)?)?;
    fixture.stop()?;
    let cpu_ms = (idle.cpu_s - before.cpu_s) * 1e3 / IDLE.as_secs_f64();
    Ok(row.with(MEMORY, idle.shims_kib / n as f64).with(CPU, cpu_ms).with(ADOPTED, adopted))
}

/// Starts the executor's next process, and gives how long it takes until it has said of each attempt that it runs, seconds.
fn adoption(fixture: &mut Fixture, attempts: &Path, slots: &[(&str, u32)], n: usize) -> anyhow::Result<f64> {
    let partition = fixture.shard.partition(fixture.log.partitions(Topic::Commands));
    let mut commands = fixture.log.reader(Topic::Commands, partition, From::End)?;
    let begun = Instant::now();
    fixture.work(attempts, slots)?;
    let mut reported = 0;
    while reported < n {
        ensure!(begun.elapsed() < PATIENCE, "only {reported} of {n} attempts were taken over");
        for record in commands.poll(RECORDS_AT_ONCE, POLL)? {
            reported += memchr::memmem::find_iter(&record.value, REPORTED).count();
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}
