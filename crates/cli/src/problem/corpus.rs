//! What a server answers, which may be none of Tidemill's.

use serde_json::Value;
use tidemill_client::{Problem, segment};
use tidemill_corpus::corpus;

use super::failure;
use crate::server::Kind;

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
            let told = failure(&Problem::new(status.unwrap_or(400), &value), kind);
            assert!(!told.message.is_empty());
        }
    });
}
