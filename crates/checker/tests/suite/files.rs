//! Whole histories: a live log, an exported file, and the journal of a real demo.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidemill_checker::{Checker, Options, check_file, check_log, export_journal};
use tidemill_log::{From, Log, MemoryLog, Readers, Topic, append_wait};

use serde_json::json;
use tidemill_model::Outcome;

use crate::kit::{History, Step, done, event, harmless, resume, source};

fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/demo.journal")
}

fn at_rest() -> Options {
    Options { at_rest: true, ..Options::default() }
}

/// A memory log with the journal of `done()` behind its own genesis.
fn live() -> MemoryLog {
    live_with(|history| history.command([crate::kit::group(), crate::kit::harmless()]))
}

/// A memory log with a claim and what follows behind its own genesis.
fn live_with(follows: impl FnOnce(History) -> History) -> MemoryLog {
    let log = MemoryLog::new(1);
    let producer = log.producer().unwrap();
    let mut reader = log.reader(Topic::Journal, 0, From::Start).unwrap();
    let genesis = reader.poll(1, Duration::from_secs(5)).unwrap().remove(0);
    let mut rest = History::new().restart(genesis.value.to_vec());
    rest = follows(rest.claim(1));
    for step in rest.steps.drain(1..) {
        let Step::Journal { bytes, .. } = step else { continue };
        append_wait(&*producer, Topic::Journal, 0, b"", bytes, Duration::from_secs(5)).unwrap();
    }
    log
}

#[test]
fn a_live_log_and_its_export_give_the_same_report() {
    let log = live();
    let options = Options { commands: false, clock_tolerance_ms: 0, ..Options::default() };
    let report = check_log(&log, options).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.envelopes, report.events), (1, 2));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.journal");
    assert_eq!(export_journal(&log, std::fs::File::create(&path).unwrap()).unwrap(), 3);
    assert_eq!(check_file(&path, options).unwrap(), report);
}

/// Rule 5: the commands that are there were never those of the journal before an accepted loss.
#[test]
fn commands_are_compared_with_what_follows_an_accepted_loss() {
    let command = |worker: &str| {
        let spec = json!({"worker": {"resume": {"worker": worker}}});
        serde_json::to_vec(&json!({"shard": 1, "actor": {"app": ""}, "command": spec})).unwrap()
    };
    let [marker, next] = ["marker", "next"].map(command);
    let loss = json!({"by": "me", "reason": "r", "done": 5, "kept_from": 0, "resumed_at": 0});
    let loss = event(json!({ "partition": {"command_loss_accepted": loss }}));
    let one = |offset, events| [(source(offset, None), Outcome::Done, events)];
    let options = Options { clock_tolerance_ms: 0, ..Options::default() };
    for (decided, clean) in [(&next, true), (&marker, false)] {
        let log = live_with(|history| {
            let history = history.causes_to(resume(5, b"old"), one(5, vec![harmless()]));
            let history = history.causes_to(resume(0, &marker), one(0, vec![loss.clone()]));
            history.causes_to(resume(1, decided), one(1, vec![harmless()]))
        });
        let producer = log.producer().unwrap();
        for value in [&marker, &next] {
            append_wait(&*producer, Topic::Commands, 0, b"1", value.clone(), Duration::from_secs(5)).unwrap();
        }
        let report = check_log(&log, options).unwrap();
        assert_eq!(report.is_clean(), clean, "{report}");
        assert_eq!(report.commands, 2);
    }
}

/// BYD-9: the journal of a real run is whole, and keeps every rule at rest, its commands included.
#[test]
fn the_demo_keeps_every_rule() {
    let report = check_file(&demo(), at_rest()).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.partitions.len(), 2);
    assert!(report.events > 50 && report.commands > 30, "{report}");
}

#[test]
fn a_file_that_is_cut_off_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.journal");
    let bytes = std::fs::read(demo()).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(check_file(&path, at_rest()).unwrap_err().to_string().contains("cut off"));
    std::fs::write(&path, b"something else").unwrap();
    assert!(check_file(&path, at_rest()).unwrap_err().to_string().contains("TDMLJRN1"));
}

/// Journal records of the demo's partition 1, by offset.
fn demo_records() -> Vec<Vec<u8>> {
    let bytes = std::fs::read(demo()).unwrap();
    let (mut rest, mut records) = (&bytes[8..], Vec::new());
    while rest[0] != b'E' {
        let length = u32::from_be_bytes(rest[21..25].try_into().unwrap()) as usize;
        if rest[0] == b'J' && rest[1..5] == 1_u32.to_be_bytes() {
            records.push(rest[25..25 + length].to_vec());
        }
        rest = &rest[25 + length..];
    }
    records
}

/// The offsets that a check of these records names first, by rule.
fn first_named(records: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Vec<(&'static str, u64)> {
    let mut checker = Checker::new(Options::default());
    for (offset, bytes) in records {
        checker.push(1, offset, &bytes);
    }
    checker.finish().violations.iter().map(|violation| (violation.invariant, violation.offset)).collect()
}

/// BYD-9: one record flipped, removed, swapped, or forged is found, and named by its position.
#[test]
fn tampering_is_named_by_its_position() {
    let whole = demo_records();
    let numbered = |records: Vec<Vec<u8>>| (0..).zip(records).collect::<Vec<(u64, Vec<u8>)>>();
    assert_eq!(first_named(numbered(whole.clone())), []);

    let mut flipped = whole.clone();
    flipped[6][100] ^= 1;
    assert_eq!(first_named(numbered(flipped))[0], ("chain_unbroken", 6));

    let mut removed = numbered(whole.clone());
    removed.remove(6);
    let named = first_named(removed);
    assert_eq!(named[0], ("offsets_dense", 7));
    assert_eq!(named[1], ("chain_unbroken", 7));

    let mut swapped = whole.clone();
    swapped.swap(6, 7);
    assert_eq!(first_named(numbered(swapped))[0], ("chain_unbroken", 6));

    let mut forged = whole.clone();
    let mut frame = tidemill_log::Frame::decode(&whole[6]).unwrap();
    frame.epoch = 0;
    forged.insert(9, frame.encode().unwrap());
    assert_eq!(first_named(numbered(forged)), [("chain_unbroken", 9)]);
}

/// Whatever the bytes, a checker reports and does not panic.
#[test]
fn no_bytes_make_a_checker_panic() {
    let whole = demo_records();
    for at in (0..whole[5].len()).step_by(7) {
        let mut records = whole.clone();
        let body = 64 + at % (records[5].len() - 64);
        records[5][body] = b'9';
        first_named((0..).zip(records));
    }
    let done = done().check();
    assert!(done.is_clean(), "{done}");
}
