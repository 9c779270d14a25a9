//! What stands in commands and journals, decoded.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_corpus::corpus;
use tidemill_model::{
    BatchId, CommandRecord, Envelope, ExternalDependencyId, GrantId, JobId, LiveAnswer, LiveQuery, Reply,
    RequestId, ShardId, ThirdPartyReport, Token, WorkMessage,
};

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

/// What is asked on the live port.
#[test]
fn questions_are_refused_or_survive_a_round_trip() {
    corpus!("question").fuzz(1_000, |input| {
        survives::<LiveQuery>(input);
        let Ok(query) = serde_json::from_slice::<LiveQuery>(input) else { return };
        let asked = [query.shard(None), query.shard(Some(ShardId::MAX))];
        assert!(asked.iter().all(|shard| *shard <= ShardId::MAX), "{asked:?} are asked {query:?}");
    });
}

/// What is answered there.
#[test]
fn answers_are_refused_or_survive_a_round_trip() {
    corpus!("answer").fuzz(1_000, survives::<LiveAnswer>);
}

/// What owners say to workers.
#[test]
fn work_messages_are_refused_or_survive_a_round_trip() {
    corpus!("work").fuzz(1_000, |input| {
        survives::<Vec<WorkMessage>>(input);
    });
}

/// What owners say to those who wait for a decision.
#[test]
fn replies_are_refused_or_survive_a_round_trip() {
    corpus!("reply").fuzz(1_000, survives::<Reply>);
}

/// DEP-2: what third parties write to their topic.
#[test]
fn third_party_reports_are_refused_or_survive_a_round_trip() {
    corpus!("report").fuzz(1_000, survives::<ThirdPartyReport>);
}

/// Numbers in paths, keys of records and names of directories.
#[test]
fn ids_are_refused_or_kept() {
    fn kept<T: std::str::FromStr + std::fmt::Display + PartialEq + std::fmt::Debug>(text: &str) {
        let Ok(id) = text.parse::<T>() else { return };
        assert_eq!(id.to_string().parse::<T>().ok().as_ref(), Some(&id), "{text:?}");
    }
    corpus!("id").fuzz(1_000, |input| {
        let text = String::from_utf8_lossy(input);
        kept::<BatchId>(&text);
        kept::<GrantId>(&text);
        kept::<JobId>(&text);
        kept::<ExternalDependencyId>(&text);
        kept::<Token>(&text);
    });
}

/// API-4, EVT-9: whatever a client takes as its key, its request has that key, and its parts too; no client's id is taken for
/// that of a redrive, and other requests with the same key are told from it.
#[test]
fn request_ids_keep_their_key() {
    corpus!("idempotency-key").fuzz(1_000, |input| {
        let text = String::from_utf8_lossy(input);
        let (app, key) = text.split_once('\n').unwrap_or(("app", &text));
        let id = RequestId::of_client(app, key, 7);
        assert_eq!(id.key(), Some(&*format!("{app}:{key}")));
        assert_eq!(id.redriven_offset(), None, "{id}");
        assert_ne!(id, RequestId::of_client(app, key, 8));
        let part = id.part(2);
        assert_eq!(part.key(), Some(&*format!("{app}:{key}~2")));
        let drawn = RequestId::new(&*text);
        if let Some(key) = drawn.key() {
            assert!(drawn.as_str().starts_with(key) && key.contains(':'), "{drawn}");
        }
        if let Some(offset) = drawn.redriven_offset() {
            assert!(drawn.key().is_none() && drawn.as_str().starts_with("redrive/"), "{drawn}: {offset}");
        }
    });
}

/// The decoder's own bound on depth is what keeps a record from exhausting the stack.
#[test]
fn depth_is_bounded() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for text in [deep.clone(), format!("{{\"shard\":1,\"command\":{{\"job\":{{\"define\":{deep}}}}}}}")] {
        assert!(serde_json::from_str::<CommandRecord>(&text).is_err());
        assert!(serde_json::from_str::<Envelope>(&text).is_err());
    }
}
