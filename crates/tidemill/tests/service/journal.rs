//! The checker over journals of the real program: beside it, after it was killed, and in exported files that
//! somebody has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::server::{Server, code, text, tidemill};
use serde_json::Value;
use tempfile::TempDir;
use tidemill_log::{Frame, Kind};

/// One finding needs one name: this is the code that says so.
const RULE_BROKEN: i32 = 12;
const JOBS: &str = "jobs:\n- {name: a, group: default, type: noop}\n- {name: b, group: default, type: shell, command: exit 1}\n";

/// A data directory in which two processes worked one after the other; the second was killed.
fn worked() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply(JOBS);
    for _ in 0..3 {
        server.json(&["job", "run", "default/a", "--wait"]);
    }
    assert_eq!(server.stop(), Some(0));
    let mut server = Server::start(dir.path());
    assert_eq!(code(&server.run(&["job", "run", "default/b", "--wait"])), 10);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    dir
}

/// `tidemill verify --journal SOURCE -o json`: exit code and answer.
fn verify(data: &Path, source: &Path) -> (i32, Value) {
    let output = tidemill(data, &["verify", "--journal", source.to_str().unwrap(), "-o", "json"]);
    let told = serde_json::from_slice(&output.stdout);
    (code(&output), told.unwrap_or_else(|_| panic!("{}", text(&output.stderr))))
}

/// Exit code 0 and no finding; gives how many envelopes were read.
fn clean(data: &Path, source: &Path) -> u64 {
    let (code, told) = verify(data, source);
    assert_eq!((code, &told["finding_count"]), (0, &Value::from(0)), "{told:#}");
    told["envelopes"].as_u64().unwrap()
}

fn export(data: &Path, file: &Path) -> Output {
    tidemill(data, &["journal", "export", file.to_str().unwrap()])
}

/// An exported file, taken apart. The form stands in `checker/src/export.rs`.
#[derive(Clone)]
struct Exported(Vec<Entry>);

#[derive(Clone)]
struct Entry {
    /// Kind, partition, offset and time, as they stand there.
    head: [u8; 21],
    bytes: Vec<u8>,
}

impl Exported {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let (mut rest, mut entries) = (&bytes[8..], Vec::new());
        while rest[0] != b'E' {
            let length = u32::from_be_bytes(rest[21..25].try_into().unwrap()) as usize;
            let head = rest[..21].try_into().unwrap();
            entries.push(Entry { head, bytes: rest[25..25 + length].to_vec() });
            rest = &rest[25 + length..];
        }
        Self(entries)
    }

    fn write(&self, path: &Path) {
        let mut bytes = b"TDMLJRN1".to_vec();
        for Entry { head, bytes: record } in &self.0 {
            bytes.extend(head);
            bytes.extend((record.len() as u32).to_be_bytes());
            bytes.extend(record);
        }
        bytes.push(b'E');
        bytes.extend((self.0.len() as u64).to_be_bytes());
        fs::write(path, bytes).unwrap();
    }

    /// Where the journal records of the partition stand in the file, by offset.
    fn journal(&self, partition: u32) -> Vec<usize> {
        let is_wanted = |entry: &Entry| entry.head[0] == b'J' && entry.head[1..5] == partition.to_be_bytes();
        (0..self.0.len()).filter(|at| is_wanted(&self.0[*at])).collect()
    }
}

/// A changed copy of an export, and what a check of it has to name first.
struct Case {
    changed: Exported,
    invariant: &'static str,
    offset: usize,
}

/// One record in the middle of partition 1 flipped, removed, swapped with its neighbour, and one forged.
fn cases(whole: &Exported) -> Vec<(&'static str, Case)> {
    let places = whole.journal(1);
    let at = places.len() / 2;
    let case = |invariant, offset, change: &dyn Fn(&mut Vec<Entry>)| {
        let mut changed = whole.clone();
        change(&mut changed.0);
        Case { changed, invariant, offset }
    };
    let flip = |entries: &mut Vec<Entry>| {
        let middle = entries[places[at]].bytes.len() / 2;
        entries[places[at]].bytes[middle] ^= 1;
    };
    let remove = |entries: &mut Vec<Entry>| drop(entries.remove(places[at]));
    let swap = |entries: &mut Vec<Entry>| {
        let (one, other) = (entries[places[at]].bytes.clone(), entries[places[at + 1]].bytes.clone());
        (entries[places[at]].bytes, entries[places[at + 1]].bytes) = (other, one);
    };
    let forge = |entries: &mut Vec<Entry>| {
        let last = entries[*places.last().unwrap()].clone();
        let mut frame = Frame::decode(&last.bytes).unwrap();
        assert!(frame.kind == Kind::Envelope && frame.epoch == 2, "{frame:?}");
        (frame.epoch, frame.seq) = (1, frame.seq + 1);
        frame.prev = tidemill_log::Hash::of(&last.bytes);
        let mut forged = Entry { bytes: frame.encode().unwrap(), ..last };
        forged.head[5..13].copy_from_slice(&(places.len() as u64).to_be_bytes());
        entries.push(forged);
    };
    vec![
        ("flipped", case("chain_unbroken", at, &flip)),
        ("removed", case("offsets_dense", at + 1, &remove)),
        ("swapped", case("chain_unbroken", at, &swap)),
        ("forged", case("chain_unbroken", places.len(), &forge)),
    ]
}

/// BYD-9, B5: in an exported journal, one record flipped, one removed, one swapped with its neighbour, and one
/// forged with a stale epoch: each is found, and named by its position.
#[test]
fn each_tampering_with_an_export_is_named_by_its_position() {
    let dir = worked();
    let data = dir.path();
    let file = data.join("x.journal");
    let exported = export(data, &file);
    assert_eq!(code(&exported), 0, "{}", text(&exported.stderr));
    assert_eq!(clean(data, &file), clean(data, data), "a copy gives what the log gives");
    let whole = Exported::read(&file);
    assert!(whole.journal(1).len() > 8, "{}", whole.journal(1).len());
    for (what, Case { changed, invariant, offset }) in cases(&whole) {
        let file = data.join(format!("{what}.journal"));
        changed.write(&file);
        let (code, told) = verify(data, &file);
        let place = format!("1:{offset}");
        assert_eq!(code, RULE_BROKEN, "{what}: {told:#}");
        assert_eq!(told["findings"][0]["position"], *place, "{what}: {told:#}");
        assert_eq!(told["findings"][0]["invariant"], invariant, "{what}: {told:#}");
        let table = tidemill(data, &["verify", "--journal", file.to_str().unwrap()]);
        let found =
            text(&table.stdout).lines().any(|line| line.starts_with(&format!("{place}  {invariant}: ")));
        assert!(found, "{what}: {}", text(&table.stdout));
    }
}

/// The checker reads beside a process that serves, after one that was killed, and names damage that no process
/// would start on.
#[test]
fn data_directory_is_checked_in_use_after_a_kill_and_damaged() {
    let dir = worked();
    let data = dir.path();
    let before = clean(data, data);
    assert_eq!(clean(data, &data.join("log/log.db")), before);
    let server = Server::start(data);
    server.json(&["job", "run", "default/a", "--wait"]);
    let during = tidemill(data, &["verify", "--journal"]);
    let told = text(&during.stdout);
    assert_eq!(code(&during), 0, "{told}{}", text(&during.stderr));
    assert!(told.contains("No findings: every rule holds."), "{told}");
    let beside = data.join("beside.journal");
    assert_eq!(code(&export(data, &beside)), 0);
    assert!(clean(data, &beside) > before);
    assert_eq!(server.stop(), Some(0));

    let log = rusqlite::Connection::open(data.join("log/log.db")).unwrap();
    log.execute("UPDATE journal_1 SET value = substr(value, 1, 90) WHERE offset = 3", []).unwrap();
    drop(log);
    let (code, told) = verify(data, data);
    assert_eq!(code, RULE_BROKEN, "{told:#}");
    assert_eq!(told["findings"][0]["position"], "1:3", "{told:#}");
}

/// A6: what cannot be checked or written is told with what to do, and leaves nothing behind.
#[test]
fn what_is_no_journal_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let run = |arguments: &[&str]| {
        let output = tidemill(data, arguments);
        (code(&output), text(&output.stderr))
    };
    let (code, told) = run(&["verify", "--journal"]);
    assert!(code == 4 && told.contains("there is no log in") && told.contains("hint: "), "{code}: {told}");
    let (code, told) = run(&["verify", "--journal", "/nonexistent/x"]);
    assert!(code == 2 && told.contains("/nonexistent/x"), "{code}: {told}");
    let garbage = data.join("garbage");
    fs::write(&garbage, "TDMLJRN1J").unwrap();
    let (code, told) = run(&["verify", "--journal", garbage.to_str().unwrap()]);
    assert!(code == 2 && told.contains("cut off"), "{code}: {told}");

    drop(empty_log(data));
    let names =
        || -> Vec<PathBuf> { fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect() };
    let before = names();
    let (code, told) = run(&["journal", "export", data.join("log").to_str().unwrap()]);
    assert!(code == 1 && told.contains("name a file"), "{code}: {told}");
    let (code, _) = run(&["journal", "export", data.join("absent/x").to_str().unwrap()]);
    assert_eq!((code, names()), (1, before));
}

/// An embedded log with nothing but its geneses.
fn empty_log(data: &Path) -> tidemill_log::SqliteLog {
    let mut config = tidemill_log::SqliteConfig::new(data.join("log"));
    config.partitions = 2;
    tidemill_log::SqliteLog::open(&config, Box::new(|reason| panic!("{reason}"))).unwrap()
}
