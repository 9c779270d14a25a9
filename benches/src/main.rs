//! Measures Tidemill: each workload in a process of its own, on each back end, and beside it the raw limit of
//! the same machine in the same process. Only ratios compare across machines.
//!
//! The clock of a workload stops when the read tables *and* a reader of the public feed have reached the end of
//! the journal.

mod backend;
#[cfg(feature = "kafka")]
mod database;
mod fairness;
mod fake_workers;
mod files;
mod fixture;
mod history;
mod lag;
mod logs;
mod machine;
mod pages;
mod place;
mod placement;
mod program;
mod pull;
mod raw;
mod report;
mod requests;
mod row;
mod run;
mod running;
mod target;
mod usage;
mod waiting;
mod watch;
mod workload;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum as _};

use crate::backend::Backend;
use crate::report::Conditions;
use crate::row::Row;
use crate::workload::Workload;

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Workloads and raw limits, as a table and as JSON.
#[derive(Debug, Parser)]
#[command(name = "tidemill-bench")]
struct Args {
    /// Only these workloads; default all.
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Workload>,
    /// Only these back ends; default embedded, and Kafka where TIDEMILL_TEST_KAFKA names a broker.
    #[arg(long, value_enum, value_delimiter = ',')]
    backend: Vec<Backend>,
    /// Runs of each; the median by throughput (by time, where time is what it is about) is reported.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Divides every workload's size.
    #[arg(long, default_value_t = 1)]
    scale: usize,
    /// Writes benchmarks.md and benchmarks.json into this directory.
    #[arg(long, value_name = "DIRECTORY")]
    write: Option<PathBuf>,
    /// Keeps the rows that stand there of what is not measured now; the conditions are those of now.
    #[arg(long, requires = "write")]
    add: bool,
    /// Measures one workload in this process and prints its row as JSON; what the runner starts.
    #[arg(long, hide = true)]
    here: bool,
    /// Acts as the shim of one attempt; what the executor starts.
    #[arg(long, hide = true)]
    shim: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(directory) = &args.shim {
        std::process::exit(tidemill_executor::shim_main(directory));
    }
    // The row goes to standard output, alone.
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .init();
    if args.here {
        let (Some(workload), Some(backend)) = (args.workload.first(), args.backend.first()) else {
            bail!("--here needs --workload and --backend");
        };
        println!("{}", serde_json::to_string(&workload.measure(*backend, args.scale.max(1))?)?);
        return Ok(());
    }
    let mut rows = Vec::new();
    for backend in backends(&args)? {
        for workload in workloads(&args) {
            let median = median_of(workload, backend, &args)?;
            eprintln!("{}", report::line(&median));
            rows.push(median);
        }
    }
    println!("{}", report::tables(&rows));
    if let Some(directory) = &args.write {
        let rows = if args.add { report::added(directory, rows)? } else { rows };
        report::write(directory, &rows, &conditions(&args))?;
    }
    Ok(())
}

fn conditions(args: &Args) -> Conditions {
    Conditions {
        machine: machine::describe(),
        arguments: std::env::args().skip(1).collect(),
        day: jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string(),
        scale: args.scale.max(1),
    }
}

/// The whole row of the run in the middle, so that what stands beside each other was measured together.
fn median_of(workload: Workload, backend: Backend, args: &Args) -> anyhow::Result<Row> {
    let run = |_| in_a_process_of_its_own(workload, backend, args.scale);
    let mut runs = (0..args.runs.max(1)).map(run).collect::<anyhow::Result<Vec<Row>>>()?;
    let key = |row: &Row| {
        if workload.is_about_time() { row.p50_ms.unwrap_or_default() } else { row.per_second }
    };
    runs.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let count = runs.len();
    Ok(Row { runs: count, ..runs.swap_remove(count / 2) })
}

fn workloads(args: &Args) -> Vec<Workload> {
    if args.workload.is_empty() { Workload::value_variants().to_vec() } else { args.workload.clone() }
}

fn backends(args: &Args) -> anyhow::Result<Vec<Backend>> {
    if !args.backend.is_empty() {
        return Ok(args.backend.clone());
    }
    let kafka = cfg!(feature = "kafka") && std::env::var_os(backend::KAFKA).is_some();
    Ok(if kafka { vec![Backend::Embedded, Backend::Kafka] } else { vec![Backend::Embedded] })
}

fn in_a_process_of_its_own(workload: Workload, backend: Backend, scale: usize) -> anyhow::Result<Row> {
    let own = std::env::current_exe().context("finding this program")?;
    let output = Command::new(own)
        .args(["--here", "--workload", &workload.name(), "--backend", &backend.name()])
        .args(["--scale", &scale.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("starting a measurement")?;
    if !output.status.success() {
        bail!("{} on {} failed: {}", workload.name(), backend.name(), output.status);
    }
    serde_json::from_slice(&output.stdout).context("reading a measurement")
}
