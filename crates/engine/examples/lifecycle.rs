//! How fast the rules are by themselves: batches of type `noop` from submission to result, with a worker
//! that answers at once, everything in one thread and nothing on a disk.
//!
//! ```text
//! cargo run --release -p tidemill-engine --example lifecycle [batches [submitted|defined|memory-submitted|memory-waiting]]
//! ```

#![allow(clippy::unwrap_used, reason = "an example that fails may say so bluntly")]

mod fixture;

use std::time::Instant;

use fixture::{Fixture, IN_FLIGHT, run, submission};
use jiff::SignedDuration;
use tidemill_model::ShardId;

const GROUP: ShardId = ShardId(1);

fn main() {
    let batches: usize = std::env::args().nth(1).map_or(200_000, |count| count.parse().unwrap());
    // What is resident can be told apart only in a process of its own.
    match std::env::args().nth(2).as_deref() {
        Some("submitted") => submissions(batches),
        Some("defined") => by_hand(batches),
        Some("memory-submitted") => memory_of_submissions(batches),
        Some("memory-waiting") => memory_of_waiting_batches(batches),
        Some(other) => panic!("{other} is not measured here"),
        None => {
            for what in ["submitted", "defined", "memory-submitted", "memory-waiting"] {
                let program = std::env::current_exe().unwrap();
                let ended = std::process::Command::new(program).args([&batches.to_string(), what]).status();
                assert!(ended.unwrap().success());
            }
        }
    }
}

fn submissions(batches: usize) {
    let mut fixture = Fixture::new(1);
    fixture.register();
    let begin = Instant::now();
    let mut submitted = 0;
    while submitted < batches || fixture.unfinished() > 0 {
        while submitted < batches && fixture.unfinished() + fixture.commands.len() < IN_FLIGHT {
            submitted += 1;
            fixture.send(GROUP, submission(submitted, 1));
        }
        fixture.draft();
    }
    report(&fixture, "submitted jobs, to the end", batches, begin);
}

fn by_hand(batches: usize) {
    let mut fixture = Fixture::new(1);
    let jobs = fixture.define(100, |_| Vec::new());
    fixture.register();
    let begin = Instant::now();
    let mut submitted = 0;
    while submitted < batches || fixture.unfinished() > 0 {
        while submitted < batches && fixture.unfinished() + fixture.commands.len() < IN_FLIGHT {
            let time = fixture.wall.checked_add(SignedDuration::from_millis(submitted as i64)).unwrap();
            fixture.send(GROUP, run(jobs[submitted % jobs.len()], time));
            submitted += 1;
        }
        fixture.draft();
    }
    report(&fixture, "batches of 100 defined jobs, to the end", batches, begin);
}

fn memory_of_submissions(batches: usize) {
    let mut fixture = Fixture::new(1);
    let before = resident_bytes();
    for n in 0..batches {
        fixture.send(GROUP, submission(n, 1));
        if fixture.commands.len() == IN_FLIGHT {
            fixture.settle();
        }
    }
    fixture.settle();
    let bytes = resident_bytes().saturating_sub(before) / batches;
    println!(
        "{:<44} {bytes:>9} bytes each, {} waiting",
        "submitted jobs that wait for a worker",
        fixture.unfinished()
    );
}

fn memory_of_waiting_batches(batches: usize) {
    let mut fixture = Fixture::new(1);
    let jobs = fixture.define(100, |n| if n == 0 { Vec::new() } else { vec!["j0".to_owned()] });
    let before = resident_bytes();
    for n in 0..batches {
        let time = fixture.wall.checked_add(SignedDuration::from_millis(n as i64)).unwrap();
        fixture.send(GROUP, run(jobs[1 + n % (jobs.len() - 1)], time));
        if fixture.commands.len() == IN_FLIGHT {
            fixture.settle();
        }
    }
    fixture.settle();
    let bytes = resident_bytes().saturating_sub(before) / batches;
    println!(
        "{:<44} {bytes:>9} bytes each, {} waiting",
        "batches that wait for a parent",
        fixture.unfinished()
    );
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}

fn report(fixture: &Fixture, what: &str, batches: usize, begin: Instant) {
    let rate = batches as f64 / begin.elapsed().as_secs_f64();
    println!(
        "{what:<44} {rate:>9.0} batches/s, {} bytes of journal each, {} envelopes, largest {} KiB",
        fixture.bytes / batches,
        fixture.envelopes,
        fixture.largest / 1024
    );
}
