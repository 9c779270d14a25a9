//! Runs histories: `sim --seeds 0..10000`, or one of them in full: `sim --seed 17 --trace`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tidemill_testkit::{Counted, Fault, Mask, Report, run, shrink};

/// What cannot come up within a few minutes of a cluster's life.
const NEVER: &[Counted] =
    &[("event", "history.evicted"), ("event", "timer.suspended"), ("rejection", "limit_reached")];

const EVENTS: &[&str] = &[
    "group.defined",
    "key.defined",
    "key.revoked",
    "job.defined",
    "job.enabled",
    "job.disabled",
    "job.deleted",
    "message.received",
    "outbox.acknowledged",
    "group.received",
    "job.received",
    "job.switched",
    "job.removed",
    "job.submitted",
    "batch.generated",
    "fires.skipped",
    "dependency.satisfied",
    "dependency.withdrawn",
    "batch.assigned",
    "assignment.returned",
    "start.granted",
    "attempt.started",
    "attempt.finished",
    "retry.scheduled",
    "retry.due",
    "kill.requested",
    "batch.finished",
    "history.evicted",
    "worker.registered",
    "worker.lost",
    "worker.found",
    "lease.expired",
    "worker.drained",
    "worker.resumed",
    "command.quarantined",
    "timer.suspended",
    "time.set",
];

const REJECTIONS: &[&str] = &[
    "invalid",
    "cycle",
    "unknown",
    "batch_already_finished",
    "batch_unfinished",
    "job_in_use",
    "job_disabled",
    "stale_token",
    "bad_registration",
    "out_of_order",
    "wrong_shard",
    "limit_reached",
    "already_there",
    "quarantined",
];

struct Arguments {
    seeds: Range<u64>,
    trace: bool,
    shrink: bool,
    verbose: bool,
}

fn arguments() -> Option<Arguments> {
    let mut arguments = Arguments { seeds: 0..1_000, trace: false, shrink: false, verbose: false };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        match name.as_str() {
            "--seeds" => {
                let range = given.next()?;
                let (from, to) = range.split_once("..")?;
                arguments.seeds = from.parse().ok()?..to.parse().ok()?;
            }
            "--seed" => {
                let seed: u64 = given.next()?.parse().ok()?;
                arguments.seeds = seed..seed + 1;
            }
            "--trace" => arguments.trace = true,
            "--shrink" => arguments.shrink = true,
            "--counts" => arguments.verbose = true,
            _ => return None,
        }
    }
    Some(arguments)
}

#[derive(Default)]
struct Sum {
    /// In how many histories it happened, and how often in all.
    seen: BTreeMap<Counted, (u64, u64)>,
    failed: Vec<Report>,
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("usage: sim [--seeds FROM..TO | --seed N] [--trace] [--shrink] [--counts]");
        return ExitCode::from(2);
    };
    // Panics that are planted, and caught, are not worth a line each.
    std::panic::set_hook(Box::new(|_| {}));
    if arguments.trace {
        return one(&arguments);
    }
    let began = Instant::now();
    let sum = all(&arguments.seeds);
    let count = arguments.seeds.end - arguments.seeds.start;
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!("{count} histories in {:.1} s: {:.0} a minute", minutes * 60.0, count as f64 / minutes);
    if arguments.verbose {
        for ((class, name), (histories, times)) in &sum.seen {
            let percent = *histories as f64 * 100.0 / count as f64;
            println!("  {class:<10} {name:<32} {percent:>6.1} %  {times:>9}");
        }
    }
    for report in sum.failed.iter().take(20) {
        println!("seed {} failed: {}", report.seed, report.wrong.join("\n    "));
        println!("    again: sim --seed {} --trace", report.seed);
    }
    if arguments.shrink
        && let Some(report) = sum.failed.first()
    {
        let (mask, smaller) = shrink(report.seed);
        println!("seed {}, without {mask:?}: {:?}", report.seed, smaller.wrong);
    }
    println!("{} of {count} failed", sum.failed.len());
    let covered = covered(&sum, count);
    if sum.failed.is_empty() && covered { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(arguments: &Arguments) -> ExitCode {
    let seed = arguments.seeds.start;
    let mask = if arguments.shrink { shrink(seed).0 } else { Mask::default() };
    let report = run(seed, &mask, true);
    for line in &report.trace {
        println!("{line}");
    }
    println!("journals {}", report.hash);
    println!("without {mask:?}; wrong: {:#?}", report.wrong);
    if report.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// On as many threads as there are cores; each history has one of them to itself.
fn all(seeds: &Range<u64>) -> Sum {
    let next = AtomicU64::new(seeds.start);
    let sum = Mutex::new(Sum::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Sum::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let report = run(seed, &Mask::default(), false);
                    for (what, times) in report.stats.iter() {
                        let seen = own.seen.entry(what).or_default();
                        *seen = (seen.0 + 1, seen.1 + times);
                    }
                    if !report.wrong.is_empty() {
                        own.failed.push(report);
                    }
                }
                let mut sum = sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                for (what, (histories, times)) in own.seen {
                    let seen = sum.seen.entry(what).or_default();
                    *seen = (seen.0 + histories, seen.1 + times);
                }
                sum.failed.extend(own.failed);
            });
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    sum.failed.sort_by_key(|report| report.seed);
    sum
}

/// Every kind of event, rejection and fault is in one of 100 histories at least. A hundred histories are too
/// few to tell.
fn covered(sum: &Sum, count: u64) -> bool {
    let events = EVENTS.iter().map(|name| ("event", *name));
    let rejections = REJECTIONS.iter().map(|name| ("rejection", *name));
    let faults = Fault::ALL.iter().map(|(_, name)| ("fault", *name));
    let wanted = events.chain(rejections).chain(faults).filter(|what| !NEVER.contains(what));
    let rare: Vec<String> = wanted
        .filter(|what| sum.seen.get(what).map_or(0, |(histories, _)| *histories) * 100 < count)
        .map(|(class, name)| format!("{class} {name}"))
        .collect();
    if rare.is_empty() {
        println!("every kind of event, rejection and fault is in 1 % of the histories at least");
    } else {
        println!("in less than 1 % of the histories: {}", rare.join(", "));
    }
    rare.is_empty() || count < 1_000
}
