//! What a quality service answers that somebody else runs.

use tidemill_corpus::{Peer, corpus};
use tidemill_model::QualityQuestion;

use super::Config;
use super::service::Service;

/// What is told of a service that cannot be asked.
const MOST_TOLD: usize = 1_000;

/// DQ-1: whatever the service answers, the question is delivered or it is told in a few words why not.
#[test]
fn a_question_is_delivered_or_told_not_to_be() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let peer = Peer::listen();
    let url = Some(format!("http://{}/ask", peer.address()));
    let config = Config { url, retries: 0, timeout_ms: 2_000, ..Config::default() };
    let service = Service::new(&config, None).unwrap().expect("it has an address");
    let ask: QualityQuestion = serde_json::from_value(serde_json::json!({
        "batch": 4097, "number": 1, "job": 4096, "job_name": "j", "group": "g", "logical_time": "2026-01-01T00:00:00Z",
        "run": 0,
    }))
    .unwrap();
    corpus!("http-answer").fuzz(200, |input| {
        peer.says(input);
        if let Err(told) = runtime.block_on(service.send(&ask)) {
            assert!(!told.is_empty() && told.len() <= MOST_TOLD, "{} bytes: {told}", told.len());
        }
    });
}
