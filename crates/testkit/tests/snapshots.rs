//! EVT-6: the state as bytes, which is what a snapshot holds.
#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tidemill_checker::exported_journals;
use tidemill_engine::{Partition, form};
use tidemill_log::{Chain, Hash, Kind, Record, Verdict};
use tidemill_model::{Envelope, Level};
use tidemill_testkit::journals;

/// The envelopes that count.
fn envelopes(records: &[Record]) -> Vec<Envelope> {
    let mut chain = Chain::new();
    let counts = |record: &Record| match chain.accept(record.offset, &record.value) {
        Verdict::Accepted(header) if header.kind == Kind::Envelope => {
            Some(Envelope::read(&record.value.body(), Level::READS).unwrap())
        }
        Verdict::Accepted(_) | Verdict::Void(_) => None,
    };
    records.iter().filter_map(counts).collect()
}

/// EVT-6: a state that was stored and read again at any record folds on as if it had not been, gives the same bytes, and says the
/// same of what is outstanding.
#[test]
fn state_that_is_stored_at_any_record_goes_on_as_if_it_had_not_been() {
    for seed in 100..106 {
        let journals = journals(seed);
        let count = u32::try_from(journals.len()).unwrap();
        for (number, records) in (0..).zip(&journals) {
            let envelopes = envelopes(records);
            let (mut whole, mut restored) = (Partition::new(number, count), Partition::new(number, count));
            for (at, envelope) in envelopes.iter().enumerate() {
                whole.apply(envelope);
                restored.apply(envelope);
                if at % 7 == 0 || at + 1 == envelopes.len() {
                    let bytes = restored.to_bytes();
                    assert!(bytes == whole.to_bytes(), "seed {seed}, partition {number}, envelope {at}");
                    restored = Partition::from_bytes(&bytes).unwrap();
                    assert!(restored == whole, "seed {seed}, partition {number}, envelope {at}");
                }
            }
            assert_eq!(restored.outstanding(), whole.outstanding());
            assert_eq!(restored.next_timer(), whole.next_timer());
        }
    }
}

/// EVT-6: bytes that are cut off or changed never panic, and what is cut off is never taken for a state.
#[test]
fn damaged_bytes_are_refused_or_read_and_never_panic() {
    let journals = journals(101);
    let mut state = Partition::new(1, u32::try_from(journals.len()).unwrap());
    envelopes(&journals[1]).iter().for_each(|envelope| state.apply(envelope));
    let bytes = state.to_bytes();
    let step = bytes.len() / 997 + 1;
    for at in (0..bytes.len()).step_by(step) {
        assert!(Partition::from_bytes(&bytes[..at]).is_err(), "cut off at {at}");
        for bit in [0, 3, 7] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            // Another digest tells; here it only has to come to an end.
            let _ = Partition::from_bytes(&damaged);
        }
    }
    let more = [bytes.as_slice(), &[0]].concat();
    assert!(Partition::from_bytes(&more).is_err(), "a byte too many");
}

fn golden() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals");
    let entries = |dir: &Path| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries(&root).flat_map(|level| entries(&level).collect::<Vec<_>>()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "journal"));
    paths.sort();
    paths
}

/// EVT-6: a snapshot has no names of fields, so a program reads only those of its own form. The form follows from the types; where
/// the same types come to mean something else, `MEANING` in `crates/engine/src/stored/shape.rs` has to be raised. Golden
/// journals show it: while the form is the same, they give the same bytes. `UPDATE_EXPECT=1` writes those of a new form.
#[test]
fn form_is_that_of_the_golden_states() {
    let mut text = format!("form {}\n", form());
    for path in golden() {
        let journals = exported_journals(&path).unwrap();
        let count = u32::try_from(journals.len()).unwrap();
        for (number, records) in (0..).zip(&journals) {
            let mut state = Partition::new(number, count);
            envelopes(records).iter().for_each(|envelope| state.apply(envelope));
            let bytes = state.to_bytes();
            assert!(Partition::from_bytes(&bytes).unwrap() == state);
            let name = path.file_name().unwrap().to_str().unwrap();
            writeln!(text, "{name} {number} {} bytes, {}", bytes.len(), Hash::of(&bytes)).unwrap();
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/states.txt");
    let known = fs::read_to_string(&file).unwrap_or_default();
    if known == text {
        return;
    }
    let is_new = known.lines().next() != text.lines().next();
    let may_write = std::env::var_os("UPDATE_EXPECT").is_some();
    // More journals of the same form are no change.
    let is_more = known.lines().all(|line| text.lines().any(|new| new == line));
    assert!(
        is_new || is_more,
        "the same form has other bytes: raise MEANING in crates/engine/src/stored/shape.rs\n{known}\n{text}"
    );
    assert!(may_write, "the form is a new one: UPDATE_EXPECT=1 writes it down\n{text}");
    fs::write(file, text).unwrap();
}
