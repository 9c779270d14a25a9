//! What owners say, in any order and any form.

use std::collections::BTreeSet;

use serde_json::Value;
use tidemill_corpus::corpus;
use tidemill_model::{Command, Nonce, Token, WorkerCommand};

use super::tests::registered_worker;
use super::{Input, Output, Tag};

/// A message makes no more than this to do for each attempt that it is about.
const MOST_FOR_EACH: usize = 4;

/// Rule 8: whatever is said, a process starts only on a grant of a question that this worker has asked, and once on each; what is
/// to be done is bounded by what was said.
#[test]
fn only_what_was_asked_is_started() {
    corpus!("work").fuzz(1_500, |input| {
        let Ok(said) = serde_json::from_slice::<Vec<Value>>(input) else { return };
        let mut worker = registered_worker();
        let mut asked: BTreeSet<(Token, Nonce)> = BTreeSet::new();
        let mut granted: Option<(Token, Nonce)> = None;
        let (mut now_ms, mut bytes) = (1_000, 0);
        for value in said {
            let Ok(message) = serde_json::from_value(value) else { continue };
            if let tidemill_model::WorkMessage::Granted { nonce, spec, .. } = &message {
                granted = Some((spec.token, nonce.clone()));
            }
            if let tidemill_model::WorkMessage::Confirmed { nonce, token, .. } = &message {
                granted = Some((*token, nonce.clone()));
            }
            bytes += serde_json::to_string(&message).unwrap().len();
            now_ms += 2_000;
            let tick = Input::Ticked { boottime_ms: now_ms };
            let inputs = [Input::Work(message), tick, Input::Acknowledged(Tag::Alive { sent_at_ms: now_ms })];
            for input in inputs {
                let outputs = worker.step(input);
                // Whatever an attempt is, naming it took 2 bytes at least.
                let most = 10 + MOST_FOR_EACH * bytes / 2;
                assert!(outputs.len() <= most, "{} to do", outputs.len());
                for output in outputs {
                    match output {
                        Output::Append {
                            command: Command::Worker(WorkerCommand::RequestStart(request)),
                            ..
                        } => {
                            asked.insert((request.token, request.nonce));
                        }
                        Output::Spawn { spec, .. } => {
                            let (token, nonce) = granted.take().expect("it was granted just now");
                            assert_eq!(spec.token, token);
                            assert!(
                                asked.remove(&(token, nonce)),
                                "{token} starts twice, or was never asked for"
                            );
                        }
                        _ => {}
                    }
                }
            }
        }
    });
}
