//! Whether the rules become slower as a site grows: the time of one batch, from the command to its end, against how many
//! batches live, how many jobs and groups there are, and how deep the jobs depend on each other.
//!
//! ```text
//! cargo run --release -p tidemill-engine --example growth
//! ```
//! Each figure is the median of three runs. The last column is by how much a batch becomes slower each time the size doubles.

#![allow(clippy::unwrap_used, reason = "an example that fails may say so bluntly")]

mod fixture;

use std::time::{Duration, Instant};

use fixture::{Fixture, IN_FLIGHT, run, submission};
use jiff::SignedDuration;
use tidemill_model::{JobId, ShardId};

/// Batches that are timed.
const BATCHES: usize = 20_000;
const RUNS: usize = 3;

fn main() {
    println!("{:<28} {:>9} {:>12} {:>14}", "", "size", "µs a batch", "a doubling");
    rows("live batches", &[10_000, 100_000, 1_000_000], live);
    rows("jobs", &[100, 1_000, 10_000, 100_000], jobs);
    rows("groups", &[1, 4, 16, 64], groups);
    rows("depth of the jobs", &[1, 10, 100, 1_000], depth);
}

fn rows(what: &str, sizes: &[usize], measure: fn(usize) -> Duration) {
    let mut before: Option<(usize, f64)> = None;
    for size in sizes {
        let mut runs: Vec<Duration> = (0..RUNS).map(|_| measure(*size)).collect();
        runs.sort();
        let each = runs[RUNS / 2].as_secs_f64() * 1e6 / BATCHES as f64;
        let growth = before.map_or_else(String::new, |(smaller, cost)| {
            let doublings = (*size as f64 / smaller as f64).log2();
            format!("{:+.1} %", ((each / cost).powf(1.0 / doublings) - 1.0) * 100.0)
        });
        println!("{what:<28} {size:>9} {each:>12.1} {growth:>14}");
        before = Some((*size, each));
    }
}

/// So many wait for a job that never runs, while others come and go.
fn live(size: usize) -> Duration {
    let mut fixture = Fixture::new(1);
    let jobs = fixture.define(100, |n| if n == 0 { Vec::new() } else { vec!["j0".to_owned()] });
    for n in 0..size {
        let time = fixture.wall.checked_add(SignedDuration::from_millis(n as i64)).unwrap();
        fixture.send(ShardId(1), run(jobs[1 + n % (jobs.len() - 1)], time));
        if fixture.commands.len() == IN_FLIGHT {
            fixture.settle();
        }
    }
    fixture.settle();
    fixture.register();
    timed(&mut fixture, |fixture, n| fixture.send(ShardId(1), submission(n, 1)))
}

fn jobs(size: usize) -> Duration {
    let mut fixture = Fixture::new(1);
    let jobs = fixture.define(size, |_| Vec::new());
    fixture.register();
    timed(&mut fixture, |fixture, n| run_one(fixture, &jobs, n, 1))
}

fn groups(size: usize) -> Duration {
    let groups = u16::try_from(size).unwrap();
    let mut fixture = Fixture::new(groups);
    let jobs = fixture.define(100, |_| Vec::new());
    fixture.register();
    timed(&mut fixture, |fixture, n| run_one(fixture, &jobs, n, groups))
}

/// One batch of the first job brings forth one of each job below it.
fn depth(size: usize) -> Duration {
    let mut fixture = Fixture::new(1);
    let jobs = fixture.define(size, |n| if n == 0 { Vec::new() } else { vec![format!("j{}", n - 1)] });
    fixture.register();
    let chains = BATCHES / size;
    let begin = Instant::now();
    for n in 0..chains {
        run_one(&mut fixture, &jobs[..1], n, 1);
        while fixture.unfinished() + fixture.commands.len() >= IN_FLIGHT.min(chains) {
            fixture.draft();
        }
    }
    while fixture.unfinished() + fixture.commands.len() > 0 {
        fixture.draft();
    }
    begin.elapsed()
}

fn run_one(fixture: &mut Fixture, jobs: &[JobId], n: usize, groups: u16) {
    let time = fixture.wall.checked_add(SignedDuration::from_millis(n as i64)).unwrap();
    let at = n % jobs.len();
    fixture.send(ShardId(at as u16 % groups + 1), run(jobs[at], time));
}

/// The time of [`BATCHES`] that `begin` begins, some at once.
fn timed(fixture: &mut Fixture, mut begin: impl FnMut(&mut Fixture, usize)) -> Duration {
    let (rest, began) = (fixture.unfinished(), Instant::now());
    let mut count = 0;
    while count < BATCHES || fixture.unfinished() > rest {
        while count < BATCHES && fixture.unfinished() - rest + fixture.commands.len() < IN_FLIGHT {
            begin(fixture, count);
            count += 1;
        }
        fixture.draft();
    }
    began.elapsed()
}
