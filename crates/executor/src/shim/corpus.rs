//! What a shim hears from its worker, what a worker hears from its shim, and what a job leaves in the directory of its
//! attempt, where jobs of the worker's own account can write anything.

use std::fs;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use tidemill_corpus::corpus;
use tidemill_model::MAX_VALUES_BYTES;

use super::News;
use super::attempt::hear_spec;
use crate::attempt_dir::AttemptDir;
use crate::values;
use crate::worker::{ProcessEnd, outcome_of};

/// What the file of values is refused with is told to people.
const MOST_SAID: usize = 1_000;

/// Lines of news are taken once each, whole, however they are cut on their way.
#[test]
fn news_are_taken_the_same_however_they_are_cut() {
    corpus!("news").fuzz(1_000, |input| {
        let mut whole = input.to_vec();
        let taken = News::take(&mut whole);
        assert!(!whole.contains(&b'\n') && input.ends_with(&whole));
        let (begin, end) = input.split_at(input.len() / 2);
        let mut cut = begin.to_vec();
        let mut in_two = News::take(&mut cut);
        cut.extend(end);
        in_two.extend(News::take(&mut cut));
        assert_eq!((in_two, cut), (taken.clone(), whole));
        let mut said: Vec<u8> = taken.iter().flat_map(News::to_line).collect();
        assert_eq!((News::take(&mut said), said.len()), (taken, 0));
    });
}

/// The first line is what to run, the rest is left for orders; without a whole line nothing runs.
#[test]
fn a_spec_is_refused_or_heard_with_what_follows_it() {
    corpus!("shim-spec").fuzz(1_000, |input| {
        // More than a socket holds would wait for a reader.
        let input = &input[..input.len().min(64 << 10)];
        let (worker, mut end) = UnixStream::pair().unwrap();
        end.write_all(input).unwrap();
        end.shutdown(Shutdown::Write).unwrap();
        let Ok((spec, orders)) = hear_spec(&worker) else { return };
        let line = input.iter().position(|byte| *byte == b'\n').expect("a whole line was heard");
        assert!(input[line + 1..].starts_with(&orders));
        let again = serde_json::from_slice(&serde_json::to_vec(&spec).unwrap());
        assert_eq!(again.ok().as_ref(), Some(&spec));
    });
}

/// BYD-20: a file of values is refused in a few words, or holds names and texts within their bounds, which survive being
/// written again.
#[test]
fn values_are_refused_or_within_their_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("values.json");
    corpus!("values").fuzz(500, |input| {
        fs::write(&path, input).unwrap();
        match values::read(&path) {
            Ok(values) => {
                let bytes: usize = values.iter().map(|(name, value)| name.len() + value.len()).sum();
                assert!(bytes <= MAX_VALUES_BYTES, "{bytes}");
                assert!(values.keys().all(|name| (1..=128).contains(&name.len()) && name.is_ascii()));
                assert!(values.values().all(|value| !value.contains('\0')));
                fs::write(&path, serde_json::to_vec(&values).unwrap()).unwrap();
                assert_eq!(values::read(&path), Ok(values));
            }
            Err(fault) => assert!(!fault.is_empty() && fault.len() <= MOST_SAID, "{} bytes", fault.len()),
        }
    });
}

/// A record of an end is refused, or survives being written again; what is reported of it fits into a command.
#[test]
fn a_record_of_an_end_is_refused_or_survives() {
    let place = tempfile::tempdir().unwrap();
    let dir = AttemptDir::new(place.path());
    corpus!("exit").fuzz(500, |input| {
        fs::write(dir.path().join("exit.json"), input).unwrap();
        let Ok(record) = dir.exit_record() else { return };
        let record = record.expect("the file is there");
        dir.write_exit_record(&record).unwrap();
        assert_eq!(dir.exit_record().unwrap().as_ref(), Some(&record));
        let exists = Err("nobody answers".into());
        let checked = ProcessEnd::Checked { record: record.clone(), path: "/data".to_owned(), exists };
        for end in [ProcessEnd::Recorded(record), checked] {
            let (outcome, _) = outcome_of(end);
            assert!(outcome.message.len() <= 4 * MOST_SAID, "{} bytes", outcome.message.len());
        }
    });
}
