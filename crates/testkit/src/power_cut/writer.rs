//! Who writes the log, and tells of what somebody may act on.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use tidemill_log::{
    AppendError, Chain, From, Hash, Kind, Log, NewRecord, Readers, SqliteConfig, SqliteLog, Topic, Verdict,
};

use crate::Rng;

const PATIENCE: Duration = Duration::from_secs(30);
/// So that the write-ahead log begins anew several times.
const CHECKPOINT_PAGES: usize = 100;
const ROUNDS: u64 = 150;
/// How a line begins that tells of something.
pub(super) const TOLD: &str = "told ";

pub(super) fn config(directory: &Path) -> SqliteConfig {
    SqliteConfig {
        checkpoint_pages: CHECKPOINT_PAGES,
        // Done with is forgotten.
        keep_commands_ms: 0,
        ..SqliteConfig::new(directory)
    }
}

/// Writes commands, and journal records that rest on them, into the log of this directory, which it may have written before.
///
/// # Errors
/// The log cannot be read or written.
pub fn write(directory: &Path, seed: u64) -> Result<(), String> {
    let log: Arc<dyn Log> = Arc::new(
        SqliteLog::open(&config(directory), Box::new(|_| std::process::exit(3)))
            .map_err(|error| error.to_string())?,
    );
    let mut writer = Writer::begin(log)?;
    let mut rng = Rng::new(seed, "power cut writer", writer.tip.seq);
    for round in 0..ROUNDS {
        writer.round(&mut rng)?;
        if round == 4 {
            writer.idle()?;
        }
    }
    let last = writer.command;
    // The last that holds the log closes it.
    drop(writer);
    tell_command(last);
    Ok(())
}

fn tell_command((commands, hash): (u64, Hash)) {
    if let Some(offset) = commands.checked_sub(1) {
        tell(&format!("{} {offset} {hash}", Topic::Commands));
    }
}

/// In one write, which the trace has between the others.
fn tell(what: &str) {
    let line = format!("{TOLD}{what}\n");
    let mut out = std::io::stdout().lock();
    let told = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    told.expect("somebody traces this");
}

/// Where a record is, if it is.
type Outcome = Result<(Topic, u64, Hash), AppendError>;

struct Writer {
    log: Arc<dyn Log>,
    producer: Arc<dyn tidemill_log::Producer>,
    tip: tidemill_log::Tip,
    /// How many commands are in the log, and what the last one is.
    command: (u64, Hash),
    outcomes: (Sender<Outcome>, Receiver<Outcome>),
}

impl Writer {
    /// Acts on what lies there, as an owner does that takes it over, and claims.
    fn begin(log: Arc<dyn Log>) -> Result<Self, String> {
        let chain = journal(&*log, |offset, value| {
            tell(&format!("{} {offset} {}", Topic::Journal, Hash::of(value)))
        })?;
        let head = chain.head().ok_or("a journal without its genesis")?;
        let claim = head.claim("writer", "").map_err(|error| error.to_string())?;
        let tip = tidemill_log::Tip { epoch: head.epoch + 1, seq: head.seq + 1, hash: Hash::of(&claim) };
        let commands = log.range(Topic::Commands, 0).map_err(|error| error.to_string())?;
        let command = if commands.is_empty() {
            (0, Hash::ZERO)
        } else {
            let reader = log.reader(Topic::Commands, 0, From::Offset(commands.end - 1));
            let last =
                reader.and_then(|mut reader| reader.poll(1, PATIENCE)).map_err(|error| error.to_string())?;
            (commands.end, last.first().map_or(Hash::ZERO, |last| Hash::of(&last.value)))
        };
        let producer = log.producer().map_err(|error| error.to_string())?;
        let mut this = Self { log, producer, tip, command, outcomes: mpsc::channel() };
        let claim = this.record(Topic::Journal, claim);
        this.append(vec![claim])?;
        Ok(this)
    }

    fn record(&self, topic: Topic, value: Vec<u8>) -> NewRecord {
        self.record_acted_on(topic, value, false)
    }

    /// `acted_on`: somebody acts on its acknowledgement alone, as on that of a question under a right.
    fn record_acted_on(&self, topic: Topic, value: Vec<u8>, acted_on: bool) -> NewRecord {
        let (outcomes, hash) = (self.outcomes.0.clone(), Hash::of(&value));
        let done = Box::new(move |outcome: Result<u64, AppendError>| {
            let acts = acted_on || matches!(topic, Topic::Journal | Topic::DeadLetters);
            if let (Ok(offset), true) = (&outcome, acts) {
                tell(&format!("{topic} {offset} {hash}"));
            }
            // Nobody waits for the outcome of a writer that has ended.
            let _ = outcomes.send(outcome.map(|offset| (topic, offset, hash)));
        });
        NewRecord { topic, partition: 0, key: Vec::new(), value: value.into(), acted_on, done }
    }

    /// All at once or one after the other is up to the log; returns when all are in it.
    fn append(&mut self, records: Vec<NewRecord>) -> Result<(), String> {
        let count = records.len();
        self.producer.append_all(records);
        for _ in 0..count {
            let outcome = self.outcomes.1.recv_timeout(PATIENCE).map_err(|error| error.to_string())?;
            let (topic, offset, hash) = outcome.map_err(|error| error.to_string())?;
            if topic == Topic::Commands && offset >= self.command.0 {
                self.command = (offset + 1, hash);
            }
        }
        Ok(())
    }

    /// Longer than anything waits to be synced.
    fn idle(&mut self) -> Result<(), String> {
        let command = self.record(Topic::Commands, b"alone".to_vec());
        self.append(vec![command])?;
        std::thread::sleep(Duration::from_millis(1_300));
        tell_command(self.command);
        Ok(())
    }

    /// A few commands, then records that say how many commands they rest on, and which is the last.
    fn round(&mut self, rng: &mut Rng) -> Result<(), String> {
        for _ in 0..rng.range(1, 4) {
            let bytes = |rng: &mut Rng| vec![rng.next().to_le_bytes()[0]; rng.below(6_000)];
            let lot = (0..rng.range(1, 4)).map(|_| self.record(Topic::Commands, bytes(rng))).collect();
            self.append(lot)?;
        }
        if rng.chance(40) {
            let question = self.record_acted_on(Topic::Commands, vec![9; rng.below(300)], true);
            self.append(vec![question])?;
        }
        let mut lot = Vec::new();
        for _ in 0..rng.below(3) {
            let (commands, last) = self.command;
            let rests_on = format!("{commands} {last} {:<1$}", "", rng.below(3_000)).into_bytes();
            let (record, tip) = self.tip.next(Kind::Envelope, rests_on).map_err(|error| error.to_string())?;
            self.tip = tip;
            lot.push(self.record(Topic::Journal, record));
        }
        if rng.chance(10) {
            lot.push(self.record(Topic::DeadLetters, vec![7; rng.below(2_000)]));
        }
        if rng.chance(30) {
            lot.push(self.record(Topic::Events, vec![8; rng.below(2_000)]));
        }
        self.append(lot)?;
        if rng.chance(20) {
            self.log.trim(Topic::Commands, 0, self.command.0).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Reads a journal from its beginning; `each` is given what counts.
pub(super) fn journal(log: &dyn Readers, mut each: impl FnMut(u64, &[u8])) -> Result<Chain, String> {
    let end = log.range(Topic::Journal, 0).map_err(|error| error.to_string())?.end;
    let mut reader = log.reader(Topic::Journal, 0, From::Start).map_err(|error| error.to_string())?;
    let (mut chain, mut next) = (Chain::new(), 0);
    while next < end {
        for record in reader.poll(1_000, PATIENCE).map_err(|error| error.to_string())? {
            if let Verdict::Void(reason) = chain.accept(record.offset, &record.value) {
                return Err(format!("the journal is broken at {}: {reason}", record.offset));
            }
            each(record.offset, &record.value);
            next = record.offset + 1;
        }
    }
    Ok(chain)
}
