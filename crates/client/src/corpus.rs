//! What a server answers, which may be none of Tidemill's.

use std::io::{BufReader, Cursor};

use tidemill_corpus::corpus;

use crate::sse::{Message, Messages};

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
