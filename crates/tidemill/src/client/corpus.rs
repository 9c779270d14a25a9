//! What a server answers, which may be none of Tidemill's.

use std::io::{BufReader, Cursor};

use serde_json::Value;
use tidemill_corpus::corpus;

use super::sse::{Message, Messages};
use super::{Kind, problem, segment};

fn read(input: &[u8], at_once: usize) -> (Vec<Message>, bool) {
    let lines = BufReader::with_capacity(at_once, Cursor::new(input.to_vec()));
    let mut messages = Vec::new();
    for message in Messages::new(Box::new(lines)) {
        match message {
            Ok(message) => messages.push(message),
            Err(_) => return (messages, true),
        }
    }
    (messages, false)
}

/// Events are the same however they are cut on their way, and hold no more than came.
#[test]
fn events_are_read_the_same_however_they_are_cut() {
    corpus!("stream").fuzz(1_000, |input| {
        let (messages, failed) = read(input, 4_096);
        let bytes: usize = messages.iter().map(|message| message.data.len()).sum();
        assert!(bytes <= input.len());
        assert_eq!(read(input, 7), (messages, failed));
    });
}

/// Any answer that is no success is told as a failure; any name is one segment of a path.
#[test]
fn any_refusal_is_told() {
    corpus!("problem").fuzz(1_000, |input| {
        let text = String::from_utf8_lossy(input);
        let encoded = segment(&text);
        assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/'), "{encoded}");
        let Ok(value) = serde_json::from_slice::<Value>(input) else { return };
        let status =
            value.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
        for kind in [Kind::Read, Kind::Write] {
            let told = problem::failure(status.unwrap_or(400), &value, kind);
            assert!(!told.message.is_empty());
        }
    });
}
