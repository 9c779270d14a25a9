//! Plants each bug in turn and runs histories until the rule that has to notice it does:
//! `planted`, or `planted --bug double_grant --explain`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tidemill_testkit::planted::{EXPECTED, Expected, Verdict, is_checked, judge, plant, sentence};
use tidemill_testkit::power_cut::write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/planted.md");

struct Arguments {
    from: u64,
    bugs: Vec<&'static Expected>,
    writes: bool,
    explains: bool,
    all: bool,
}

fn arguments() -> Option<Arguments> {
    let mut arguments =
        Arguments { from: 0, bugs: EXPECTED.iter().collect(), writes: false, explains: false, all: false };
    let (mut rotate, mut turn) = (None, None);
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        match name.as_str() {
            "--from" => arguments.from = given.next()?.parse().ok()?,
            "--bug" => {
                let wanted = given.next()?;
                arguments.bugs.retain(|expected| expected.bug.name() == wanted);
            }
            "--rotate" => rotate = Some(given.next()?.parse().ok()?),
            "--turn" => turn = Some(given.next()?.parse().ok()?),
            "--write" => arguments.writes = true,
            "--explain" => arguments.explains = true,
            "--all-rules" => arguments.all = true,
            _ => return None,
        }
    }
    if let Some(count) = rotate {
        arguments.bugs = rotated(count, turn.unwrap_or_else(today));
    }
    (!arguments.bugs.is_empty()).then_some(arguments)
}

/// A few bugs, others each day, all of them in turn.
fn rotated(count: usize, turn: usize) -> Vec<&'static Expected> {
    let first = turn.wrapping_mul(count) % EXPECTED.len();
    EXPECTED.iter().cycle().skip(first).take(count.min(EXPECTED.len())).collect()
}

fn today() -> usize {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    usize::try_from(since.as_secs() / 86_400).unwrap_or(0)
}

/// How a bug was caught, if it was.
struct Outcome {
    expected: &'static Expected,
    caught: Option<Caught>,
    /// Histories that ended with a panic before that.
    panics: u64,
    panic: Option<String>,
    /// Other rules that were broken up to there.
    others: Vec<String>,
    /// Histories that prove nothing, for the same rule is broken in them without the bug.
    unclean: Vec<String>,
    took: Duration,
}

struct Caught {
    rule: String,
    what: String,
    histories: u64,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--writer") {
        return written();
    }
    let Some(arguments) = arguments() else {
        eprintln!(
            "usage: planted [--from SEED] [--bug NAME | --rotate N [--turn T]] [--write] [--explain] [--all-rules]"
        );
        return ExitCode::from(2);
    };
    // Panics are caught, and told of in the table.
    std::panic::set_hook(Box::new(|_| {}));
    println!("{:<34} {:<42} {:>5} {:>6} {:>6}", "bug", "caught by", "seeds", "limit", "s");
    let mut outcomes = Vec::new();
    for expected in &arguments.bugs {
        let outcome = hunt(expected, arguments.from);
        print(&outcome, &arguments);
        outcomes.push(outcome);
    }
    let escaped = outcomes.iter().filter(|outcome| outcome.caught.is_none()).count();
    println!("{} bugs, {escaped} escaped", outcomes.len());
    if arguments.writes
        && outcomes.len() == EXPECTED.len()
        && escaped == 0
        && let Err(error) = std::fs::write(PAGE, page(&outcomes, arguments.from))
    {
        println!("{PAGE}: {error}");
        return ExitCode::FAILURE;
    }
    if escaped == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The process from whose log a power cut takes something: `--writer DIRECTORY SEED BUG`.
fn written() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(2).collect();
    let [directory, seed, bug] = &given[..] else { return ExitCode::from(2) };
    plant(EXPECTED.iter().map(|expected| expected.bug).find(|known| known.name() == bug));
    match write(std::path::Path::new(directory), seed.parse().unwrap_or_default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print(outcome: &Outcome, arguments: &Arguments) {
    let (name, within) = (outcome.expected.bug.name(), outcome.expected.within);
    let seconds = outcome.took.as_secs_f64();
    match &outcome.caught {
        Some(caught) => {
            println!("{name:<34} {:<42} {:>5} {within:>6} {seconds:>6.1}", caught.rule, caught.histories);
            if arguments.explains {
                println!("    {}", caught.what);
            }
        }
        None => println!("{name:<34} {:<42} {:>5} {within:>6} {seconds:>6.1}", "ESCAPED", "-"),
    }
    for what in &outcome.unclean {
        println!("    {what}");
    }
    if let Some(panic) = outcome.panic.as_ref().filter(|_| outcome.caught.is_none() || arguments.explains) {
        println!("    {} panics, as {panic}", outcome.panics);
    }
    if outcome.caught.is_none() || arguments.all {
        println!("    other rules: {}", outcome.others.join(", "));
    }
}

/// Runs histories until one of the expected rules is broken, which holds in the same history without the bug.
fn hunt(expected: &'static Expected, from: u64) -> Outcome {
    let began = Instant::now();
    let end = from + expected.within;
    let mut outcome = Outcome {
        expected,
        caught: None,
        panics: 0,
        panic: None,
        others: Vec::new(),
        unclean: Vec::new(),
        took: Duration::ZERO,
    };
    let mut next = from;
    while next < end && outcome.caught.is_none() {
        plant(Some(expected.bug));
        let verdicts = Mutex::new(BTreeMap::new());
        each(next..end, |seed| {
            let verdict = judge(seed, expected);
            let is_caught = notices(expected, &verdict).is_some();
            lock(&verdicts).insert(seed, verdict);
            if is_caught { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        plant(None);
        next = end;
        for (seed, verdict) in verdicts.into_inner().unwrap_or_else(PoisonError::into_inner) {
            if outcome.take(seed, seed - from + 1, verdict) {
                next = seed + 1;
                break;
            }
        }
    }
    outcome.took = began.elapsed();
    outcome
}

impl Outcome {
    /// Adds a history; tells whether an expected rule is broken in it.
    fn take(&mut self, seed: u64, histories: u64, verdict: Verdict) -> bool {
        let expected = self.expected;
        let noticed = notices(expected, &verdict).cloned();
        if let Some((rule, what)) = &noticed {
            let clean = judge(seed, expected);
            if clean.broken.iter().any(|(broken, _)| broken == rule) {
                self.unclean.push(format!("seed {seed} breaks {rule} without the bug, too"));
            } else {
                let (rule, what) = (rule.clone(), format!("seed {seed}: {what}"));
                self.caught = Some(Caught { rule, what, histories });
            }
        }
        self.panics += u64::from(verdict.panic.is_some());
        self.panic = self.panic.take().or(verdict.panic);
        for (rule, _) in verdict.broken {
            if !expected.by.contains(&rule.as_str()) && !self.others.contains(&rule) {
                self.others.push(rule);
            }
        }
        noticed.is_some()
    }
}

fn notices<'a>(expected: &Expected, verdict: &'a Verdict) -> Option<&'a (String, String)> {
    expected.by.iter().find_map(|rule| verdict.broken.iter().find(|(broken, _)| broken == rule))
}

/// Looks at seeds on all cores, in order, until one breaks it off; the smaller ones are still finished.
fn each(seeds: std::ops::Range<u64>, look: impl Fn(u64) -> ControlFlow<()> + Sync) {
    let (next, end) = (AtomicU64::new(seeds.start), AtomicU64::new(seeds.end));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end.load(Ordering::Relaxed) {
                        break;
                    }
                    if look(seed).is_break() {
                        end.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn page(outcomes: &[Outcome], from: u64) -> String {
    let mut page = "# Planted bugs\n\n\
        This page is generated: `make planted` plants each of these bugs in the product, one after the other, and\n\
        runs simulated histories until the rule that has to notice it does; `make planted ARGS=--write` writes the\n\
        page anew. Assertions and panics of the product do not count. A rule in *italics* is watched from outside,\n\
        by the simulator, for what leaves no trace in a journal, or in a real log after a power cut, which needs\n\
        `strace`; all others are the checker's, over the journal alone. A bug that escapes its limit fails the run.\n\n"
        .to_owned();
    let total: u64 = outcomes.iter().filter_map(|it| it.caught.as_ref()).map(|it| it.histories).sum();
    let _ = writeln!(
        page,
        "{} bugs, {total} histories in all, counted from seed {from}.\n\n\
         | bug | what it does wrong | the rule that notices | histories | limit |\n|---|---|---|---:|---:|",
        outcomes.len(),
    );
    let mut rules = BTreeSet::new();
    for outcome in outcomes {
        let Some(caught) = &outcome.caught else { continue };
        let (bug, within) = (outcome.expected.bug, outcome.expected.within);
        rules.insert(caught.rule.clone());
        let rule = &caught.rule;
        let rule = if is_checked(rule) { format!("`{rule}`") } else { format!("*`{rule}`*") };
        let _ = writeln!(
            page,
            "| `{}` | {} | {rule} | {} | {within} |",
            bug.name(),
            bug.what(),
            caught.histories
        );
    }
    page.push_str("\nWhat these rules say:\n\n");
    for rule in rules {
        let _ = writeln!(page, "- `{rule}`: {}", sentence(&rule).unwrap_or_default());
    }
    page
}
