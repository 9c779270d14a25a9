//! What stands in commands and journals, decoded.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_corpus::corpus;
use tidemill_model::{CommandRecord, Envelope};

/// What is decoded is the same after it was written and read again: else a replay would differ.
fn survives<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(input: &[u8]) {
    let Ok(decoded) = serde_json::from_slice::<T>(input) else { return };
    let text = serde_json::to_vec(&decoded).expect("what was read can be written");
    let again = serde_json::from_slice::<T>(&text);
    assert_eq!(again.ok().as_ref(), Some(&decoded), "{}", String::from_utf8_lossy(&text));
}

/// EVT-2
#[test]
fn commands_are_refused_or_survive_a_round_trip() {
    corpus!("command").fuzz(4_000, survives::<CommandRecord>);
}

/// EVT-2
#[test]
fn envelopes_are_refused_or_survive_a_round_trip() {
    corpus!("envelope").fuzz(1_500, survives::<Envelope>);
}

/// The decoder's own bound on depth is what keeps a record from exhausting the stack.
#[test]
fn depth_is_bounded() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for text in [deep.clone(), format!("{{\"shard\":1,\"command\":{{\"define_job\":{deep}}}}}")] {
        assert!(serde_json::from_str::<CommandRecord>(&text).is_err());
        assert!(serde_json::from_str::<Envelope>(&text).is_err());
    }
}
