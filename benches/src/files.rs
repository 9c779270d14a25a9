//! A directory of job files: checked without a server, applied as one, applied again (C7).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::backend::Backend;
use crate::program::Running;
use crate::raw;
use crate::row::Row;
use crate::usage::Usage;

pub(crate) const VALIDATED: &str = "until the files are checked without a server, s";
pub(crate) const APPLIED: &str = "until they are applied and in effect, s";
const AGAIN: &str = "until a second apply says that nothing is to change, s";
const CYCLE: &str = "until a cycle through all levels is named, s";

const LEVELS: usize = 50;
const RECORD_BYTES: usize = 300;

/// A DAG of so many jobs, a file each.
pub(crate) fn measure(name: &str, backend: Backend, jobs: usize) -> anyhow::Result<Row> {
    let directory = tempfile::tempdir()?;
    let fixture = Running::start(backend, directory.path())?;
    let files = directory.path().join("jobs");
    fs::create_dir_all(&files)?;
    let width = (jobs / LEVELS).max(1);
    let jobs = LEVELS * width;
    for level in 0..LEVELS {
        for number in 0..width {
            write_job(&files, level, number, width, None)?;
        }
    }
    let path = files.to_str().context("a path of plain letters")?;
    let timed = |arguments: &[&str], said: &str| -> anyhow::Result<f64> {
        let begun = Instant::now();
        let output = fixture.client(arguments)?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(text(&output).contains(said), "{arguments:?} said {}, not {said}", text(&output));
        Ok(seconds)
    };
    let before = Usage::now();
    let validated = timed(&["job", "validate", path], &format!("{jobs} jobs in {jobs} files are good"))?;
    let applied = timed(&["job", "apply", "-f", path], &format!("{jobs} changed"))?;
    let again = timed(&["job", "apply", "-f", path], "Nothing to change")?;
    write_job(&files, 0, 0, width, Some(&format!("l{}-0", LEVELS - 1)))?;
    let cycle = timed(&["job", "apply", "-f", path], "dependency cycle: ")?;
    let cpu_s = Usage::now().cpu_s - before.cpu_s;
    let peaks = fixture.peaks_mb();
    drop(fixture);
    let raw_limit =
        raw::records_per_second(&backend.open(&directory.path().join("raw"))?, 200_000, RECORD_BYTES)?;
    let per_second = jobs as f64 / applied;
    let row = Row {
        workload: name.to_owned(),
        backend: backend.name(),
        runs: 1,
        n: jobs,
        per_second,
        cpu_s,
        peak_rss_mb: peaks.iter().map(|(_, mb)| mb).sum(),
        raw_limit,
        ratio: per_second / raw_limit,
        raw_unit: "records/s".to_owned(),
        ..Row::default()
    };
    let figures = [(VALIDATED, validated), (APPLIED, applied), (AGAIN, again), (CYCLE, cycle)];
    Ok(figures.into_iter().fold(row, |row, (figure, value)| row.with(figure, value)))
}

/// Each job but those of the first level is the child of two of the level before.
fn write_job(
    directory: &Path,
    level: usize,
    number: usize,
    width: usize,
    parent: Option<&str>,
) -> anyhow::Result<()> {
    let name = format!("l{level}-{number}");
    let mut job = format!(
        "jobs:\n- name: {name}\n  group: bench\n  type: shell\n  command: |\n    echo ${{yyyyMMdd-1d}}\n    exit 0\n"
    );
    match (level.checked_sub(1), parent) {
        (Some(above), _) => {
            let next = (number + 1) % width;
            writeln!(job, "  parents: [l{above}-{number}, l{above}-{next}]")?;
        }
        (None, parent) => {
            job.push_str("  enabled: false\n  schedule: {period: day, zone: Europe/Berlin}\n");
            if let Some(parent) = parent {
                writeln!(job, "  parents: [{parent}]")?;
            }
        }
    }
    let file = directory.join(format!("{name}.yaml"));
    fs::write(&file, job).with_context(|| format!("writing {}", file.display()))
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}
