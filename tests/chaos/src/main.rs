//! `make chaos`: one run, its report, and exit code 1 where something is wrong.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::Parser;
use tidemill_chaos::fault::Kind;
use tidemill_chaos::{MOST_PYTHON_WORKERS, Place, Plan, run};
use tokio::signal::unix::{SignalKind, signal};

const PYTHON_WORKERS: u64 = 64;
/// A machine that runs all else at once as well has few processors.
const SHORT_PYTHON_WORKERS: u64 = 8;

/// Faults from a seed against the real program on services of its own.
#[derive(Debug, Parser)]
struct Options {
    /// How long faults are made.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// All choices come from it [default: a new one, which is printed]
    #[arg(long)]
    seed: Option<u64>,
    /// Only the kinds of faults of the short set
    #[arg(long)]
    short: bool,
    /// Only these kinds of faults
    #[arg(long, value_name = "NAME", value_parser = kind)]
    only: Vec<Kind>,
    /// The program [default: beside this one]
    #[arg(long)]
    tidemill: Option<PathBuf>,
    /// The script that starts services
    #[arg(long, default_value = "deploy/dev/services")]
    services: PathBuf,
    /// Users for whom the client of Python pulls, each at once, half of them with threads and half with asyncio
    /// [default: 64, with --short 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_PYTHON_WORKERS))]
    python_workers: Option<u64>,
    /// The Python that the client is installed with [default: TIDEMILL_TEST_PYTHON, else that of the services]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// Where reports are written, and what a failed run leaves
    #[arg(long, default_value = "target/chaos")]
    out: PathBuf,
}

fn kind(name: &str) -> Result<Kind, String> {
    let names = || Kind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    Kind::ALL
        .iter()
        .copied()
        .find(|kind| kind.name() == name)
        .ok_or_else(|| format!("must be one of {}", names()))
}

fn main() -> ExitCode {
    chaos(Options::parse()).unwrap_or_else(|error| {
        println!("error: {error:#}");
        ExitCode::from(2)
    })
}

fn chaos(options: Options) -> Result<ExitCode> {
    let seed = match options.seed {
        Some(seed) => seed,
        None => getrandom::u64().context("the operating system gives no random number")? % 1_000_000_000,
    };
    println!("seed {seed}");
    let kinds = match (options.only.as_slice(), options.short) {
        ([], false) => Kind::ALL.to_vec(),
        ([], true) => Kind::ALL.iter().copied().filter(|kind| kind.is_short()).collect(),
        (only, _) => only.to_vec(),
    };
    let beside = std::env::current_exe()?.with_file_name("tidemill");
    fs::create_dir_all(&options.out)?;
    let out = options.out.canonicalize()?;
    let dir = out.join(format!("run-{seed}-{}", std::process::id()));
    fs::create_dir(&dir)?;
    let named = std::env::var_os("TIDEMILL_TEST_PYTHON").filter(|it| !it.is_empty()).map(PathBuf::from);
    let place = Place {
        dir: dir.clone(),
        program: options.tidemill.unwrap_or(beside),
        services: options.services,
        python: options.python.or(named),
    };
    let lines = fs::File::create(dir.join("chaos.log"))?;
    tracing_subscriber::fmt().with_env_filter("info").with_ansi(false).with_writer(lines).init();
    let is_over = Arc::new(AtomicBool::new(false));
    stop_on_signal(&is_over)?;

    let python_workers =
        options.python_workers.unwrap_or(if options.short { SHORT_PYTHON_WORKERS } else { PYTHON_WORKERS });
    let plan = Plan { seed, minutes: options.minutes, kinds, python_workers };
    let report = run(&plan, &place, &is_over).with_context(|| {
        format!("the run of seed {seed} could not be judged; what it left is in {}", dir.display())
    })?;
    let file = out.join(format!("report-{seed}-{}.json", std::process::id()));
    fs::write(&file, serde_json::to_vec_pretty(&report)?)?;
    println!("\n{report}report           {}", file.display());
    if report.is_clean() {
        fs::remove_dir_all(&dir)?;
        return Ok(ExitCode::SUCCESS);
    }
    println!("FAILED: logs, history and journal are in {}", dir.display());
    println!("again: make chaos SEED={seed} MINUTES={}", options.minutes);
    Ok(ExitCode::FAILURE)
}

/// The first signal ends the schedule early, with everything healed and judged as ever.
fn stop_on_signal(is_over: &Arc<AtomicBool>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let is_over = Arc::clone(is_over);
    let mut signals = {
        let _inside = runtime.enter();
        [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            let [interrupt, terminate] = &mut signals;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        println!("told to stop: heals everything, and judges");
        is_over.store(true, Ordering::SeqCst);
    });
    Ok(())
}
