use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;
use crate::{Frame, LogId, Tip};

fn genesis() -> Payload {
    let log_id = LogId::try_from("test".to_owned()).unwrap();
    Genesis { log_id, partition: 2, count: 4 }.record().into()
}

struct Journal {
    chain: Chain,
    records: Vec<Payload>,
}

impl Journal {
    fn new() -> Self {
        let mut journal = Self { chain: Chain::new(), records: Vec::new() };
        assert!(journal.add(genesis()).accepted().is_some());
        journal
    }

    fn add(&mut self, record: impl Into<Payload>) -> Verdict {
        let record = record.into();
        let verdict = self.chain.accept(self.records.len() as u64, &record);
        self.records.push(record);
        verdict
    }

    fn head(&self) -> &Head {
        self.chain.head().unwrap()
    }

    /// Claims as `owner` and gives the tip of the new epoch.
    fn claim(&mut self, owner: &str) -> Tip {
        let record = self.head().claim(owner, "here").unwrap();
        assert!(self.add(record).accepted().is_some());
        self.head().tip()
    }
}

fn envelope(tip: Tip, body: &str) -> (Vec<u8>, Tip) {
    tip.next(Kind::Envelope, body.as_bytes().to_vec()).unwrap()
}

#[test]
fn chain_goes_from_genesis_over_a_claim_to_envelopes() {
    let mut journal = Journal::new();
    assert_eq!(journal.head().owner, None);
    let tip = journal.claim("a");
    let (one, tip) = envelope(tip, "1");
    let (two, tip) = envelope(tip, "2");
    assert!(journal.add(one).accepted().is_some());
    assert!(journal.add(two).accepted().is_some());
    let head = journal.head();
    assert_eq!((head.tip(), head.offset, head.seq, head.epoch), (tip, 3, 3, 1));
    assert_eq!((head.partition, head.count, head.log_id.as_str()), (2, 4, "test"));
    assert_eq!(head.owner.as_ref().unwrap().incarnation, "a");
    assert_eq!(journal.chain.void_count(), 0);
}

#[test]
fn nothing_counts_before_the_genesis() {
    let mut chain = Chain::new();
    let (record, _) = envelope(Tip { epoch: 0, seq: 0, hash: Hash::ZERO }, "1");
    assert_eq!(chain.accept(0, &record.into()), Verdict::Void(VoidReason::BeforeGenesis));
    assert_eq!(chain.accept(1, &b"noise"[..].into()), Verdict::Void(VoidReason::Garbled));
    assert_eq!(chain.head(), None);
    assert!(chain.accept(2, &genesis()).accepted().is_some());
    assert_eq!(chain.accept(3, &genesis()), Verdict::Void(VoidReason::SecondGenesis));
    assert_eq!(chain.void_count(), 3);
}

#[test]
fn envelope_without_an_owner_is_void() {
    let mut journal = Journal::new();
    let (record, _) = envelope(journal.head().tip(), "1");
    assert_eq!(journal.add(record), Verdict::Void(VoidReason::NoOwner));
}

#[test]
fn late_record_and_its_pipelined_successor_are_void() {
    let mut journal = Journal::new();
    let (late, late_tip) = envelope(journal.claim("a"), "late");
    let (second, _) = envelope(late_tip, "second");
    let (fresh, _) = envelope(journal.claim("b"), "fresh");
    assert_eq!(journal.add(late), Verdict::Void(VoidReason::WrongEpoch));
    assert!(journal.add(fresh).accepted().is_some());
    assert_eq!(journal.add(second), Verdict::Void(VoidReason::WrongEpoch));
}

#[test]
fn successor_of_a_lost_record_is_void() {
    let mut journal = Journal::new();
    let (_lost, tip) = envelope(journal.claim("a"), "lost");
    let (second, _) = envelope(tip, "second");
    assert_eq!(journal.add(second), Verdict::Void(VoidReason::WrongPrev));
}

#[test]
fn repeated_record_is_void() {
    let mut journal = Journal::new();
    let (record, _) = envelope(journal.claim("a"), "1");
    assert!(journal.add(record.clone()).accepted().is_some());
    assert_eq!(journal.add(record), Verdict::Void(VoidReason::WrongPrev));
}

#[test]
fn number_has_to_be_the_next() {
    let mut journal = Journal::new();
    let tip = journal.claim("a");
    let (record, _) = envelope(Tip { seq: tip.seq + 1, ..tip }, "1");
    assert_eq!(journal.add(record), Verdict::Void(VoidReason::WrongSeq));
}

#[test]
fn second_claim_of_an_epoch_is_void() {
    let mut journal = Journal::new();
    let claims = ["a", "b"].map(|owner| journal.head().claim(owner, "").unwrap());
    let [first, second] = claims.map(|claim| journal.add(claim));
    assert!(first.accepted().is_some());
    assert_eq!(second, Verdict::Void(VoidReason::WrongEpoch));
    assert_eq!(journal.head().owner.as_ref().unwrap().incarnation, "a");
}

#[test]
fn claim_counts_although_it_had_not_seen_the_last_record() {
    let mut journal = Journal::new();
    let tip = journal.claim("a");
    let claim = journal.head().claim("b", "").unwrap();
    assert!(journal.add(envelope(tip, "1").0).accepted().is_some());
    assert!(journal.add(claim).accepted().is_some());
    assert_eq!((journal.head().seq, journal.head().epoch), (3, 2), "every accepted record is counted");
    let tip = journal.head().tip();
    assert!(journal.add(envelope(tip, "2").0).accepted().is_some());
}

#[test]
fn claim_whose_body_names_another_epoch_is_void() {
    let mut journal = Journal::new();
    let body = br#"{"epoch":7,"incarnation":"a","address":""}"#.to_vec();
    let frame = Frame {
        kind: Kind::Claim,
        epoch: 1,
        seq: 1,
        prev: journal.head().hash,
        codec: crate::Codec::Plain,
        body,
    };
    assert_eq!(journal.add(frame.encode().unwrap()), Verdict::Void(VoidReason::Garbled));
}

#[test]
fn resigned_owner_has_ended_and_anyone_may_claim() {
    let mut journal = Journal::new();
    let (resigned, tip) = journal.claim("a").next(Kind::Resigned, b"{}".to_vec()).unwrap();
    assert!(journal.add(resigned).accepted().is_some());
    assert!(journal.head().resigned);
    assert_eq!(journal.add(envelope(tip, "more").0), Verdict::Void(VoidReason::NoOwner));
    journal.claim("b");
    assert!(!journal.head().resigned);
}

#[test]
fn stopped_owner_has_ended() {
    let mut journal = Journal::new();
    let (stopped, tip) = journal.claim("a").next(Kind::Stopped, b"{}".to_vec()).unwrap();
    assert!(journal.add(stopped).accepted().is_some());
    assert!(journal.head().stopped);
    assert_eq!(journal.add(envelope(tip, "more").0), Verdict::Void(VoidReason::NoOwner));
    journal.claim("b");
    assert!(!journal.head().stopped);
}

#[test]
#[should_panic(expected = "the reader went back")]
fn reader_that_goes_back_is_a_bug() {
    let mut journal = Journal::new();
    let _ = journal.chain.accept(0, &b"again"[..].into());
}

/// What one of two owners does next; both may hold a view that is out of date.
#[derive(Clone, Debug)]
enum Step {
    /// Reads the journal's head.
    Read(usize),
    /// Claims from what it has read.
    Claim(usize),
    /// Appends after what it believes to be the tip.
    Append(usize),
    /// Makes a record that never lands; goes on as if it had.
    Lose(usize),
    /// Something else lands.
    Noise(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let owner = 0_usize..2;
    prop_oneof![
        2 => owner.clone().prop_map(Step::Read),
        2 => owner.clone().prop_map(Step::Claim),
        6 => owner.clone().prop_map(Step::Append),
        1 => owner.prop_map(Step::Lose),
        1 => prop_oneof![vec(any::<u8>(), 0..90), Just(genesis().to_vec())].prop_map(Step::Noise),
    ]
}

/// Plays the steps; gives the journal as it lies in the log.
fn play(steps: Vec<Step>) -> Journal {
    let mut journal = Journal::new();
    let mut views = [journal.head().clone(), journal.head().clone()];
    let mut tips = views.clone().map(|view| view.tip());
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Read(owner) => {
                views[owner] = journal.head().clone();
                tips[owner] = views[owner].tip();
            }
            Step::Claim(owner) => {
                let claim = views[owner].claim(&owner.to_string(), "").unwrap();
                journal.add(claim);
            }
            Step::Append(owner) => {
                let (record, tip) = envelope(tips[owner], &number.to_string());
                tips[owner] = tip;
                journal.add(record);
            }
            Step::Lose(owner) => tips[owner] = envelope(tips[owner], &number.to_string()).1,
            Step::Noise(bytes) => drop(journal.add(bytes)),
        }
    }
    journal
}

proptest! {
    /// An independent statement of the rule, over the accepted history alone.
    #[test]
    fn accepted_history_of_two_owners_is_always_one_chain(steps in vec(step(), 0..120)) {
        let journal = play(steps);
        let mut chain = Chain::new();
        let accepted: Vec<(Header, Hash)> = (0..)
            .zip(&journal.records)
            .filter_map(|(offset, record)| Some((chain.accept(offset, record).accepted()?, Hash::of(record))))
            .collect();
        prop_assert_eq!(&chain, &journal.chain, "every reader comes to the same");
        prop_assert_eq!(accepted.len() as u64 + chain.void_count(), journal.records.len() as u64);
        prop_assert_eq!(accepted[0].0.kind, Kind::Genesis);
        for (place, pair) in accepted.windows(2).enumerate() {
            let [(before, hash), (frame, _)] = pair else { unreachable!() };
            if frame.kind == Kind::Claim {
                prop_assert_eq!(frame.epoch, before.epoch + 1);
            } else {
                prop_assert_eq!((frame.epoch, frame.prev, frame.seq), (before.epoch, *hash, place as u64 + 1));
            }
        }
    }

    #[test]
    fn stored_head_goes_on_to_the_same_end(steps in vec(step(), 0..80), cut in any::<proptest::sample::Index>()) {
        let journal = play(steps);
        let cut = 1 + cut.index(journal.records.len());
        let mut first = Chain::new();
        for (offset, record) in (0..).zip(&journal.records[..cut]) {
            first.accept(offset, record);
        }
        let stored = serde_json::to_string(first.head().unwrap()).unwrap();
        let mut rest = Chain::resume(serde_json::from_str(&stored).unwrap());
        for (offset, record) in (cut as u64..).zip(&journal.records[cut..]) {
            rest.accept(offset, record);
        }
        prop_assert_eq!(rest.head(), journal.chain.head());
    }

    #[test]
    fn changed_record_breaks_the_chain_after_it(body in "[a-z]{1,20}", other in "[a-z]{1,20}") {
        let mut journal = Journal::new();
        let tip = journal.claim("a");
        let (forged, _) = envelope(tip, &other);
        let (_, tip) = envelope(tip, &body);
        let (second, _) = envelope(tip, "second");
        prop_assert!(journal.add(forged).accepted().is_some());
        prop_assert_eq!(journal.add(second).accepted().is_some(), body == other);
    }
}
