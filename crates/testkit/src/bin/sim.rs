//! Runs histories: `sim --seeds 0..10000`, or one of them in full: `sim --seed 17 --trace`.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tidemill_checker::export_records;
use tidemill_testkit::{Coverage, Mask, Mode, Report, journals, run_in, shrink};

/// Half of the time would go into allocating otherwise.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
usage: sim [--mode MODE] [--seeds FROM..TO | --seed N] [--minutes M] [--trace] [--shrink] [--coverage]
  --mode MODE      usual (the default), lost-tail, lost-topic, failing-fold, restored
  --seeds FROM..TO the histories of these seeds; default 0..1000
  --seed N         that one
  --minutes M      stop after so long, whatever is left
  --trace          tell what happens, of the first seed only
  --shrink         leave out of the first failing history what its failure does not need
  --coverage       print what happened in how many histories
  --export FILE    write the journals of the first seed, in the form of `tidemill journal export`
";

struct Arguments {
    mode: Mode,
    seeds: Range<u64>,
    minutes: Option<f64>,
    trace: bool,
    shrink: bool,
    coverage: bool,
    export: Option<PathBuf>,
}

fn arguments() -> Option<Arguments> {
    let (mode, seeds, minutes) = (Mode::Usual, 0..1_000, None);
    let (trace, shrink, coverage, export) = (false, false, false, None);
    let mut arguments = Arguments { mode, seeds, minutes, trace, shrink, coverage, export };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        match name.as_str() {
            "--mode" => {
                let wanted = given.next()?;
                arguments.mode = Mode::ALL.iter().find(|(_, name)| *name == wanted)?.0;
            }
            "--seeds" => {
                let range = given.next()?;
                let (from, to) = range.split_once("..")?;
                arguments.seeds = from.parse().ok()?..to.parse().ok()?;
            }
            "--seed" => {
                let seed: u64 = given.next()?.parse().ok()?;
                arguments.seeds = seed..seed + 1;
            }
            "--minutes" => arguments.minutes = Some(given.next()?.parse().ok()?),
            "--trace" => arguments.trace = true,
            "--shrink" => arguments.shrink = true,
            "--coverage" => arguments.coverage = true,
            "--export" => arguments.export = Some(PathBuf::from(given.next()?)),
            _ => return None,
        }
    }
    Some(arguments)
}

#[derive(Default)]
struct Sum {
    count: u64,
    coverage: Coverage,
    failed: Vec<Report>,
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    // Panics that are planted, and caught, are not worth a line each.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(file) = &arguments.export {
        return export(arguments.seeds.start, file);
    }
    if arguments.trace {
        return one(&arguments);
    }
    let began = Instant::now();
    println!("seeds {}..{}", arguments.seeds.start, arguments.seeds.end);
    let sum = all(&arguments);
    let seconds = began.elapsed().as_secs_f64();
    println!("{} histories in {seconds:.1} s: {:.0} a minute", sum.count, sum.count as f64 * 60.0 / seconds);
    if arguments.coverage {
        print!("{}", sum.coverage);
    }
    tell_failures(&arguments, &sum);
    let is_covered = arguments.mode != Mode::Usual || covers(&sum);
    if sum.failed.is_empty() && is_covered { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell_failures(arguments: &Arguments, sum: &Sum) {
    let name = Mode::ALL.iter().find(|(mode, _)| *mode == arguments.mode).map_or("", |(_, name)| name);
    for report in sum.failed.iter().take(20) {
        println!("seed {} failed: {}", report.seed, report.wrong.join("\n    "));
        println!("    again: sim --mode {name} --seed {} --trace", report.seed);
    }
    if arguments.shrink
        && let Some(report) = sum.failed.first()
    {
        let (mask, smaller) = shrink(arguments.mode, report.seed);
        println!("seed {}, without {mask:?}: {:?}", report.seed, smaller.wrong);
    }
    println!("{} of {} failed", sum.failed.len(), sum.count);
}

/// A few hundred histories are too few to tell.
fn covers(sum: &Sum) -> bool {
    let names = |what: Vec<tidemill_testkit::Counted>| {
        what.into_iter().map(|(class, name)| format!("{class} {name}")).collect::<Vec<_>>().join(", ")
    };
    let (rare, surprising) = (names(sum.coverage.rare()), names(sum.coverage.surprising()));
    if rare.is_empty() {
        println!("every kind of event, rejection and fault is in 1 % of the histories at least");
    } else {
        println!("in less than 1 % of the histories: {rare}");
    }
    if !surprising.is_empty() {
        println!("happened, though it is said never to: {surprising}");
    }
    surprising.is_empty() && (rare.is_empty() || sum.count < 1_000)
}

fn one(arguments: &Arguments) -> ExitCode {
    let seed = arguments.seeds.start;
    let mask = if arguments.shrink { shrink(arguments.mode, seed).0 } else { Mask::default() };
    let report = run_in(arguments.mode, seed, &mask, true);
    for line in &report.trace {
        println!("{line}");
    }
    println!("journals {}", report.hash);
    println!("without {mask:?}; wrong: {:#?}", report.wrong);
    if report.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn export(seed: u64, path: &Path) -> ExitCode {
    let written = File::create(path)
        .map_err(|error| error.to_string())
        .and_then(|file| export_records(&journals(seed), file).map_err(|error| error.to_string()));
    match &written {
        Ok(records) => println!("{records} records of seed {seed} are in {}", path.display()),
        Err(error) => eprintln!("{}: {error}", path.display()),
    }
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// On as many threads as there are cores; each history has one of them to itself.
fn all(arguments: &Arguments) -> Sum {
    let next = AtomicU64::new(arguments.seeds.start);
    let sum = Mutex::new(Sum::default());
    let began = Instant::now();
    let is_over = || arguments.minutes.is_some_and(|most| began.elapsed().as_secs_f64() >= most * 60.0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Sum::default();
                while !is_over() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= arguments.seeds.end {
                        break;
                    }
                    let report = run_in(arguments.mode, seed, &Mask::default(), false);
                    own.count += 1;
                    own.coverage.add(&report.stats);
                    if !report.wrong.is_empty() {
                        println!("seed {seed} failed: {}", report.wrong.join("\n    "));
                        own.failed.push(report);
                    }
                }
                let mut sum = sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                sum.count += own.count;
                sum.coverage.merge(&own.coverage);
                sum.failed.extend(own.failed);
            });
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    sum.failed.sort_by_key(|report| report.seed);
    sum
}
