//! Chain, time, envelopes.

use serde_json::json;
use tidemill_checker::{Invariant, Void};
use tidemill_log::{Hash, Kind};
use tidemill_model::{Envelope, Level, Outcome, Recorded, ShardId, Source};

use crate::kit::{Case, History, T0, at, case, done, event, harmless, world};

pub(crate) fn cases() -> Vec<Case> {
    let owned = || History::new().timer([harmless()]);
    let tip = owned().tip();
    let envelope = serde_json::to_vec(&empty()).unwrap();
    let beside = (1, tip.seq + 1, Hash::of(b"elsewhere"));
    vec![
        case(
            Invariant::OffsetsDense,
            "a record is missing",
            done(),
            done().skip_offset().timer([harmless()]),
        ),
        case(
            Invariant::ChainUnbroken,
            "the owner writes beside the chain",
            owned().claim(2).stray(Kind::Envelope, (1, tip.seq + 1, tip.hash), &envelope),
            owned().stray(Kind::Envelope, beside, &envelope),
        ),
        case(
            Invariant::ChainUnbroken,
            "a forged record of an old epoch",
            owned().claim(2).timer([harmless()]),
            owned().claim(2).stray(Kind::Envelope, beside, &envelope),
        ),
        case(Invariant::ChainUnbroken, "a flipped bit", owned(), owned().then(flip_last)),
        case(
            Invariant::EpochsRiseSeqContiguous,
            "a number is left out",
            owned(),
            owned().stray(Kind::Envelope, (1, tip.seq + 2, tip.hash), &envelope),
        ),
        case(
            Invariant::EpochsRiseSeqContiguous,
            "an owner that has resigned writes on",
            owned().put(Kind::Resigned, vec![]).claim(2).timer([harmless()]),
            owned().put(Kind::Resigned, vec![]).timer([harmless()]),
        ),
        case(
            Invariant::EpochsRiseSeqContiguous,
            "a claim leaves an epoch out",
            owned().claim(2),
            owned().stray(Kind::Claim, (3, 1, tip.hash), br#"{"epoch":3,"incarnation":"i","address":"a"}"#),
        ),
        case(
            Invariant::EnvelopesBounded,
            "a body that is no envelope",
            owned(),
            owned().put(Kind::Envelope, b"{}".to_vec()),
        ),
        case(
            Invariant::EnvelopesBounded,
            "one command with events of 400 KB",
            owned(),
            owned().command(
                [(); 4].map(|()| event(json!({"catalogue": {"key_revoked": {"app": "x".repeat(100_000)}}}))),
            ),
        ),
        case(
            Invariant::CausesCoverEvents,
            "an event without a cause",
            owned(),
            owned().envelope(&uncaused()),
        ),
        case(
            Invariant::NowNeverGoesBack,
            "a step back, which only an operator may order",
            owned().at("2026-03-02T09:00:00.000Z").then(set_back),
            owned().at("2026-03-02T09:00:00.000Z").timer([harmless()]),
        ),
        case(
            Invariant::NowNotAheadOfTheLog,
            "a day ahead for one envelope",
            owned(),
            owned().envelope(&Envelope { now: at("2026-03-03T10:00:30.000Z"), ..empty() }),
        ),
        case(
            Invariant::ShardsStayInTheirPartition,
            "shard 1 in the catalogue's partition",
            History::with_partitions(3).on(1, 1).timer([harmless()]),
            History::with_partitions(3).on(0, 1).timer([harmless()]),
        ),
    ]
}

fn empty() -> Envelope {
    Envelope { now: at(T0), level: Level::FIRST, resume: None, causes: vec![], events: vec![] }
}

fn uncaused() -> Envelope {
    Envelope { events: vec![Recorded { shard: ShardId(1), event: harmless() }], ..empty() }
}

fn set_back(history: History) -> History {
    let set = event(json!({"partition": {"clock_set": {"now": "2026-03-02T09:00:00.000Z"}}}));
    let envelope = Envelope {
        causes: vec![tidemill_model::Cause { source: Source::Timer, outcome: Outcome::Done, events: 1 }],
        events: vec![Recorded { shard: ShardId(1), event: set }],
        ..empty()
    };
    history.at(T0).envelope(&envelope).at("2026-03-02T09:00:01.000Z").timer([harmless()])
}

fn flip_last(mut history: History) -> History {
    if let Some(crate::kit::Step::Journal { bytes, .. }) = history.steps.last_mut() {
        *bytes.last_mut().unwrap() ^= 1;
    }
    history
}

/// Late records of a deposed owner, its pipelined successor, and a lost race for an epoch are void and no fault.
#[test]
fn voids_of_a_sound_log_are_counted_and_no_violations() {
    let owned = world();
    let tip = owned.tip();
    let body = serde_json::to_vec(&empty()).unwrap();
    let late = tidemill_log::Frame {
        kind: Kind::Envelope,
        epoch: 1,
        seq: tip.seq + 1,
        prev: tip.hash,
        codec: tidemill_log::Codec::Plain,
        body: body.clone(),
    };
    let late = late.encode().unwrap();
    let lost_race = br#"{"epoch":2,"incarnation":"other","address":"a"}"#;
    let history = owned
        .claim(2)
        .stray(Kind::Claim, (2, tip.seq + 1, tip.hash), lost_race)
        .raw(late.clone())
        .stray(Kind::Envelope, (1, tip.seq + 2, Hash::of(&late)), &body)
        .timer([harmless()]);
    let report = history.check();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.voids[&Void::WrongEpoch], 3);
    assert_eq!(report.partitions[0].epoch, 2);
}

/// A second owner of one epoch that did not read its claim back, and its pipelined second record.
#[test]
fn two_owners_of_one_epoch_are_told_apart_by_their_links() {
    let owned = world();
    let tip = owned.tip();
    let body = serde_json::to_vec(&empty()).unwrap();
    let other = br#"{"epoch":2,"incarnation":"other","address":"a"}"#;
    let frame = tidemill_log::Frame {
        kind: Kind::Claim,
        epoch: 2,
        seq: tip.seq + 1,
        prev: tip.hash,
        codec: tidemill_log::Codec::Plain,
        body: other.to_vec(),
    };
    let claim = frame.encode().unwrap();
    let history = owned
        .claim(2)
        .raw(claim.clone())
        .stray(Kind::Envelope, (2, tip.seq + 2, Hash::of(&claim)), &body)
        .timer([harmless()]);
    let report = history.check();
    assert_eq!(report.counts.keys().copied().collect::<Vec<_>>(), ["chain_unbroken"], "{report}");
    assert_eq!(report.violations.len(), 1);
}
