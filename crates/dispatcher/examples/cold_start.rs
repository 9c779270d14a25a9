//! How long a dispatcher takes from its start to its first decision, with and without a snapshot, by the length of the journal. One
//! event in ten of the history is a batch that waits for its parent; all else came and went.
//!
//! ```text
//! cargo run --release -p tidemill-dispatcher --example cold_start [EVENTS …]
//! ```
//! Without arguments: 100000 and 300000 events. The log is the embedded one in a directory for temporary files: 10,000,000 events take
//! some 4 GB there, and 4 GB of memory.

#![allow(clippy::unwrap_used, reason = "an example that fails may say so bluntly")]

#[path = "cold_start/journal.rs"]
mod journal;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_dispatcher::{Config, Snapshotting, run_with_snapshots};
use tidemill_log::{From, Log, SqliteConfig, SqliteLog, Topic};
use tidemill_model::Level;
use tidemill_snapshots::{Config as SnapshotConfig, Mark, Sight, Snapshots, take};

use crate::journal::Writer;

/// A snapshot is taken so many events before the end, at most a tenth of all: what comes between two of them.
const BEHIND: u64 = 500_000;

fn main() {
    let wanted: Vec<u64> = std::env::args().skip(1).map(|text| text.parse().unwrap()).collect();
    let wanted = if wanted.is_empty() { vec![100_000, 300_000] } else { wanted };
    println!(
        "{:>10} {:>9} {:>10} {:>10} {:>11} {:>10}",
        "events", "live", "state", "take", "without", "with"
    );
    for events in wanted {
        measure(events);
    }
}

fn open(directory: &Path) -> Arc<dyn Log> {
    let config = SqliteConfig::new(directory);
    Arc::new(SqliteLog::open(&config, Box::new(|_| std::process::abort())).unwrap())
}

fn measure(events: u64) {
    let ground = tempfile::tempdir().unwrap();
    let (directory, place) = (ground.path().join("log"), ground.path().join("snapshots"));
    let config = SnapshotConfig { place: Some(place.display().to_string()), ..SnapshotConfig::default() };
    let log = open(&directory);
    let snapshots = Snapshots::open(&config, log.log_id().clone()).unwrap().unwrap();
    let mut writer = Writer::begin(&log);
    writer.wait(events / 10);
    writer.until(events - BEHIND.min(events / 10));
    let mark = Mark::from(&writer.head());
    let began = Instant::now();
    let is_stopped: &dyn Fn() -> bool = &|| false;
    let sight = Sight { log: &*log, snapshots: &snapshots, partition: 0, reads: Level::READS, is_stopped };
    let taken = take(&sight, mark, false).unwrap();
    let took = began.elapsed();
    writer.record(taken.event());
    writer.until(events);
    let live = writer.unfinished();
    drop(writer);
    drop(log);
    let without = first_decision(&directory, None);
    let with = first_decision(&directory, Some(Snapshotting { snapshots, config }));
    let (state, ms) = (taken.bytes >> 20, |time: Duration| time.as_millis());
    println!(
        "{events:>10} {live:>9} {state:>6} MiB {:>7} ms {:>8} ms {:>7} ms",
        ms(took),
        ms(without),
        ms(with)
    );
}

/// From the start of a dispatcher, the log opened, to the record of its first decision.
fn first_decision(directory: &Path, snapshotting: Option<Snapshotting>) -> Duration {
    let log = open(directory);
    let end = log.range(Topic::Journal, 0).unwrap().end;
    let mut reader = log.reader(Topic::Journal, 0, From::Offset(end)).unwrap();
    journal::ask(&log);
    let began = Instant::now();
    let config = Config { claim_after_ms: 0, ..Config::default() };
    let dispatcher = run_with_snapshots(config, Arc::clone(&log), "cold", snapshotting).unwrap();
    let mut records = 0;
    // Its claim, and what it decides first.
    while records < 2 {
        records += reader.poll(16, Duration::from_secs(1)).unwrap().len();
    }
    let took = began.elapsed();
    dispatcher.stop().unwrap();
    took
}
