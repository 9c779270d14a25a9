//! The mutations themselves: the same for a seed, different for different ones, and what fails is kept.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use tempfile::TempDir;
use tidemill_corpus::{Corpus, Peer};

fn corpus(inputs: &[&str]) -> (TempDir, Corpus) {
    let directory = tempfile::tempdir().unwrap();
    for (number, input) in inputs.iter().enumerate() {
        fs::write(directory.path().join(number.to_string()), input).unwrap();
    }
    let corpus = Corpus::read(directory.path().to_str().unwrap());
    (directory, corpus)
}

fn inputs(corpus: &Corpus) -> Vec<Vec<u8>> {
    let seen = RefCell::new(Vec::new());
    corpus.fuzz(300, |input| seen.borrow_mut().push(input.to_vec()));
    seen.into_inner()
}

#[test]
fn inputs_are_the_same_every_time_and_most_are_new() {
    let (_directory, corpus) = corpus(&[r#"{"a": [1, {"b": "c"}], "d": null}"#, "0 0 12 * * ?"]);
    let (once, again) = (inputs(&corpus), inputs(&corpus));
    assert_eq!(once, again);
    let different: BTreeSet<_> = once.iter().collect();
    assert!(different.len() > 200, "{}", different.len());
    let json = different.iter().filter(|input| serde_json::from_slice::<serde_json::Value>(input).is_ok());
    assert!(json.count() > 30, "many are still JSON");
}

/// Each target says how many inputs it has tried, those that are committed included.
#[test]
fn inputs_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let counts = directory.path().join("counts");
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "inputs_are_the_same_every_time_and_most_are_new"])
        .env("TIDEMILL_FUZZ_COUNTS", &counts)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    let counted = fs::read_to_string(&counts).unwrap();
    let numbers: Vec<_> = counted.lines().map(|line| line.split_once(' ').unwrap().0).collect();
    assert_eq!(numbers, ["302", "302"]);
}

/// A peer says what it is told, after the whole of what it is asked.
#[test]
fn peer_answers_what_it_is_told() {
    let peer = Peer::listen();
    for answer in ["HTTP/1.1 204 No Content\r\n\r\n", "", "anything"] {
        peer.says(answer.as_bytes());
        let mut stream = TcpStream::connect(peer.address()).unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{").unwrap();
        stream.write_all(b"}").unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, answer);
    }
}

/// What fails once is made small and becomes an input for ever.
#[test]
fn failing_input_is_made_small_and_kept() {
    let (directory, corpus) = corpus(&["a harmless text of some length"]);
    let failed = catch_unwind(AssertUnwindSafe(|| {
        corpus.fuzz(2_000, |input| assert!(!input.contains(&b'['), "a bracket"));
    }));
    let told = failed.unwrap_err().downcast::<String>().unwrap();
    assert!(told.contains("a bracket") && told.contains("kept in"), "{told}");
    let mut kept = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("crash-")).unwrap();
    let input = fs::read(kept).unwrap();
    assert!(input.contains(&b'[') && input.len() < 64, "{}", String::from_utf8_lossy(&input));
    let again = Corpus::read(directory.path().to_str().unwrap());
    assert!(catch_unwind(|| again.fuzz(1, |input| assert!(!input.contains(&b'[')))).is_err());
}
