//! What a server says that somebody else runs, or that is none of that kind at all, and what tests send.

use std::cell::RefCell;
use std::sync::Arc;

use tidemill_corpus::{Peer, corpus};

use super::bulk::Bulk;
use super::{ElasticsearchSink, Server};
use crate::config::ElasticsearchConfig;
use crate::{Change, Error, Given, Sink as _, State};

/// What became of a grant with this fact, the fourth of its record.
pub(super) fn change(grant: i64, offset: u64, state: State) -> Change {
    let given = Given {
        grant,
        task: 1,
        task_version: 1,
        task_name: None,
        template: None,
        parameters: "{}".into(),
        group: "demo".into(),
        user: "ann".into(),
        start_at: 0,
        granted_at: 0,
        expires_at: None,
    };
    Change { offset, index: 3, at: 0, given: Arc::new(given), state }
}

/// What is told of an answer, with its causes.
const MOST_TOLD: usize = 4_000;

fn is_brief(error: &Error) {
    let mut told = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        told = format!("{told}: {cause}");
        source = cause.source();
    }
    assert!(told.len() <= MOST_TOLD, "{} bytes: {told}", told.len());
}

/// Each sent document is stored, sent again or told of; an answer about others is refused, in a few words.
#[test]
fn answers_to_bulks_are_refused_or_taken_document_by_document() {
    let config = ElasticsearchConfig { url: Some("http://127.0.0.1:9".to_owned()), ..Default::default() };
    let server = Server::new(&config).unwrap();
    let changes: Vec<_> = (0..3).map(|grant| change(grant, 7, State::Live)).collect();
    corpus!("bulk-answer").fuzz(1_000, |input| {
        let text = String::from_utf8_lossy(input);
        let sent = Bulk::pack(&changes, 0, 1 << 20).pop().expect("one request");
        match sent.left_open(&text, &server) {
            Ok(open) => assert!(open <= changes.len()),
            Err(error) => is_brief(&error),
        }
    });
}

/// Whatever comes over the connection, the sink has a position, or none, or says why not.
#[test]
fn answers_about_the_position_are_taken_or_told() {
    let peer = Peer::listen();
    let config = ElasticsearchConfig {
        url: Some(format!("http://{}", peer.address())),
        timeout_ms: 2_000,
        ..Default::default()
    };
    let sink = ElasticsearchSink::new(&config, &Server::new(&config).unwrap(), 0);
    let sink = RefCell::new(sink);
    corpus!("position-answer").fuzz(150, |input| {
        peer.says(input);
        match sink.borrow_mut().position() {
            Ok(head) => drop(head.map(|head| serde_json::to_string(&head).expect("a head is plain"))),
            Err(error) => is_brief(&error),
        }
    });
}
