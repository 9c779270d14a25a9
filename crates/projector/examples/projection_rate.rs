//! How many batches per second go through the projection: a journal of `noop` lives, folded and written from
//! its beginning. `cargo run --release -p tidemill-projector --example projection_rate [batches]` writes into
//! SQLite; with `--features mysql` and an empty database in `TIDEMILL_RATE_MYSQL`, into that.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tidemill_journal::{FeedCursor, FeedReader, Shutdown};
use tidemill_log::{Head, Kind, Log, MemoryLog, Producer, Tip, Topic};
use tidemill_model::{Envelope, Level, Recorded, ShardId, Timestamp};
use tidemill_projector::{Config, rebuild, verify};
use tidemill_store::{SqliteTables, Tables};

/// Batches whose lives share their records, as under group commit.
const TOGETHER: i64 = 50;
const NOW_MS: i64 = 1_772_359_200_000;

fn main() -> Result<(), Box<dyn Error>> {
    let count: i64 = std::env::args().nth(1).map_or(Ok(100_000), |count| count.parse())?;
    let log: Arc<dyn Log> = Arc::new(MemoryLog::new(1));
    let facts = fill(&*log, count)?;
    let directory = tempfile::tempdir()?;
    let tables = open(directory.path())?;
    let begun_at = Instant::now();
    rebuild(&Config::default(), &*log, &*tables, &Shutdown::new(), &mut |_| {})?;
    report("fold and write", begun_at, count, facts);
    let begun_at = Instant::now();
    let mut reader = FeedReader::new(&*log, FeedCursor::start(log.log_id()))?;
    while reader.next(std::time::Duration::ZERO)?.is_some() || reader.is_skipping() {}
    report("feed, as CloudEvents", begun_at, count, facts);
    let begun_at = Instant::now();
    let found = verify(&*log, &*tables, &Shutdown::new(), &mut |_, _| {})?;
    report("verify", begun_at, count, facts);
    println!("{} rows, {} differences", found.rows, found.difference_count);
    Ok(())
}

fn open(directory: &std::path::Path) -> Result<Box<dyn Tables>, Box<dyn Error>> {
    #[cfg(feature = "mysql")]
    if let Ok(url) = std::env::var("TIDEMILL_RATE_MYSQL") {
        return Ok(Box::new(tidemill_store::MysqlTables::open(&url)?));
    }
    Ok(Box::new(SqliteTables::open(directory.join("tables.sqlite"))?))
}

fn report(what: &str, begun_at: Instant, count: i64, facts: u64) {
    let seconds = begun_at.elapsed().as_secs_f64();
    let per_second = |number: f64| (number / seconds).round();
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let (batches, facts) = (per_second(count as f64), per_second(facts as f64));
    println!("{what}: {seconds:.2} s, {batches} batches/s, {facts} facts/s");
}

fn fill(log: &dyn Log, count: i64) -> Result<u64, Box<dyn Error>> {
    let producer = log.producer()?;
    let mut reader = log.reader(Topic::Journal, 0, tidemill_log::From::Start)?;
    let genesis = reader.poll(1, std::time::Duration::ZERO)?.remove(0);
    let mut chain = tidemill_log::Chain::new();
    chain.accept(genesis.offset, &genesis.value);
    let head: &Head = chain.head().ok_or("no genesis")?;
    let claim = head.claim("bench", "")?;
    chain.accept(genesis.offset + 1, &claim.as_slice().into());
    producer.append(Topic::Journal, 0, b"", claim, Box::new(|_| {}));
    let mut tip = chain.head().ok_or("no claim")?.tip();
    let mut facts = 0;
    let mut append = |events: Vec<Value>| -> Result<(), Box<dyn Error>> {
        facts += u64::try_from(events.len())?;
        tip = write(&*producer, tip, events)?;
        Ok(())
    };
    append(vec![definition()])?;
    for first in (0..count).step_by(usize::try_from(TOGETHER)?) {
        let batches = first..(first + TOGETHER).min(count);
        for step in 0..4 {
            append(batches.clone().flat_map(|n| life(n, step)).collect())?;
        }
    }
    producer.flush(std::time::Duration::from_secs(60))?;
    Ok(facts)
}

fn write(producer: &dyn Producer, tip: Tip, events: Vec<Value>) -> Result<Tip, Box<dyn Error>> {
    let recorded = |event| Ok(Recorded { shard: ShardId(1), event: serde_json::from_value(event)? });
    let envelope = Envelope {
        level: Level::FIRST,
        now: Timestamp::from_millisecond(NOW_MS)?,
        resume: None,
        causes: Vec::new(),
        events: events.into_iter().map(recorded).collect::<Result<_, serde_json::Error>>()?,
    };
    let (record, tip) = tip.next(Kind::Envelope, serde_json::to_vec(&envelope)?)?;
    producer.append(Topic::Journal, 0, b"", record, Box::new(|_| {}));
    Ok(tip)
}

fn definition() -> Value {
    json!({"replication": {"job_replicated": {"enabled": true, "definition": {
        "id": 4096, "version": 1, "group_id": 1,
        "spec": {"group": "bench", "name": "noop", "type": "noop", "max_concurrent": 100},
    }}}})
}

fn life(n: i64, step: i64) -> Vec<Value> {
    let (id, time) = (((n + 1) << 12) | 1, "2026-03-01T10:00:00Z");
    match step {
        0 => vec![json!({"batch": {"generated": {
            "batch": id, "job": 4096, "version": 1, "logical_time": time, "run": n + 1, "origin": "manual",
        }}})],
        1 => vec![json!({"batch": {"assigned": {
            "batch": id, "attempt": 1, "token": id, "worker": "w-1", "start_by": time,
        }}})],
        2 => vec![
            json!({"attempt": {"start_granted": {
                "batch": id, "token": id, "worker": "w-1", "incarnation": "i-1", "nonce": "n",
            }}}),
            json!({"attempt": {"started": {"batch": id, "token": id}}}),
        ],
        _ => vec![
            json!({"attempt": {"finished": {
                "batch": id, "token": id, "attempt": 1, "worker": "w-1",
                "outcome": {"result": "success", "exit_code": 0},
                "usage": {"duration_ms": 1, "cpu_ms": 1, "peak_memory_kib": 1},
            }}}),
            json!({"batch": {"finished": {"batch": id, "result": "success"}}}),
        ],
    }
}
