//! Facts of the journal: which records count.

use std::thread;

use tidemill_log::{AppendError, Chain, From, Genesis, Kind, LogId, Producer, Tip, Topic};

use super::fixture::{Fixture, Make, PARTITIONS, append, fixture, pipeline, read};

/// An owner after its claim was accepted.
struct Owner {
    producer: std::sync::Arc<dyn Producer>,
    tip: Tip,
}

impl Owner {
    fn claim(fixture: &Fixture, incarnation: &str) -> Self {
        let claim = fixture.head(0).claim(incarnation, "127.0.0.1:1").unwrap();
        let producer = fixture.producer();
        append(producer.as_ref(), Topic::Journal, 0, claim).unwrap();
        let head = fixture.head(0);
        assert_eq!(head.owner.as_ref().unwrap().incarnation, incarnation);
        Self { producer, tip: head.tip() }
    }

    /// The next record; the owner goes on as if it were in the log.
    fn next(&mut self, body: &str) -> Vec<u8> {
        let (record, tip) = self.tip.next(Kind::Envelope, body.into()).unwrap();
        self.tip = tip;
        record
    }

    fn append(&mut self, body: &str) -> Result<u64, AppendError> {
        let record = self.next(body);
        append(self.producer.as_ref(), Topic::Journal, 0, record)
    }
}

/// How many of these appends did not count, one way or the other.
fn not_counted(fixture: &Fixture, outcomes: &[Result<u64, AppendError>]) -> u64 {
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Err(AppendError::Refused(_)))).count();
    refused as u64 + fixture.history(0).chain.void_count()
}

pub(crate) fn journal_begins_with_its_genesis(make: &Make) {
    let fixture = fixture(make);
    for partition in 0..PARTITIONS {
        let head = fixture.head(partition);
        assert_eq!((&head.log_id, head.partition, head.count), (fixture.log.log_id(), partition, PARTITIONS));
        assert_eq!((head.offset, head.seq, head.epoch, head.owner), (0, 0, 0, None));
    }
}

pub(crate) fn second_genesis_does_not_count(make: &Make) {
    let fixture = fixture(make);
    let other = Genesis { log_id: LogId::random(), partition: 0, count: 9 };
    let outcome = append(fixture.producer().as_ref(), Topic::Journal, 0, other.record());
    assert_eq!(&fixture.head(0).log_id, fixture.log.log_id());
    assert_eq!(not_counted(&fixture, &[outcome]), 1);
}

pub(crate) fn chain_of_the_owner_counts(make: &Make) {
    let fixture = fixture(make);
    let mut owner = Owner::claim(&fixture, "a");
    owner.append("1").unwrap();
    let records: Vec<Vec<u8>> = (2..300).map(|number| owner.next(&number.to_string())).collect();
    for outcome in pipeline(owner.producer.as_ref(), Topic::Journal, 0, records) {
        outcome.unwrap();
    }
    let history = fixture.history(0);
    assert_eq!(history.bodies(), (1..300).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!((history.chain.void_count(), history.chain.head().unwrap().tip()), (0, owner.tip));
}

/// Two readers come to the same, from the start and from live reading.
pub(crate) fn stale_owner_and_its_pipelined_second_record_do_not_count(make: &Make) {
    let fixture = fixture(make);
    let mut live = fixture.reader(Topic::Journal, 0, From::Start);
    let mut old = Owner::claim(&fixture, "old");
    old.append("before").unwrap();
    let mut new = Owner::claim(&fixture, "new");
    let late = [old.next("late"), old.next("second")];
    let mut outcomes = pipeline(old.producer.as_ref(), Topic::Journal, 0, late);
    new.append("after").unwrap();
    outcomes.push(old.append("third"));
    new.append("last").unwrap();

    let history = fixture.history(0);
    assert_eq!(history.bodies(), ["before", "after", "last"]);
    assert_eq!(history.chain.head().unwrap().tip(), new.tip);
    assert_eq!(not_counted(&fixture, &outcomes), 3);

    let count = usize::try_from(fixture.log.range(Topic::Journal, 0).unwrap().end).unwrap();
    let mut chain = Chain::new();
    for record in read(live.as_mut(), count) {
        chain.accept(record.offset, &record.value);
    }
    assert_eq!(chain, history.chain);
}

pub(crate) fn claim_overtakes_the_record_in_flight(make: &Make) {
    let fixture = fixture(make);
    let mut old = Owner::claim(&fixture, "old");
    let in_flight = old.next("in flight");
    let mut new = Owner::claim(&fixture, "new");
    let outcome = append(old.producer.as_ref(), Topic::Journal, 0, in_flight);
    new.append("1").unwrap();
    assert_eq!(fixture.history(0).bodies(), ["1"]);
    assert_eq!(not_counted(&fixture, &[outcome]), 1);
}

pub(crate) fn one_of_two_claims_of_an_epoch_counts(make: &Make) {
    let fixture = fixture(make);
    let head = fixture.head(0);
    let producer = fixture.producer();
    let outcomes = ["a", "b"].map(|owner| {
        let claim = head.claim(owner, "").unwrap();
        append(producer.as_ref(), Topic::Journal, 0, claim)
    });
    let head = fixture.head(0);
    assert_eq!((head.epoch, head.owner.unwrap().incarnation.as_str()), (1, "a"));
    assert_eq!(not_counted(&fixture, &outcomes), 1);
}

pub(crate) fn racing_claims_leave_one_owner(make: &Make) {
    let fixture = fixture(make);
    let head = fixture.head(0);
    let producers: Vec<_> = (0..6).map(|_| fixture.producer()).collect();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(producers)
            .map(|(number, producer): (u32, _)| {
                let claim = head.claim(&number.to_string(), "").unwrap();
                scope.spawn(move || append(producer.as_ref(), Topic::Journal, 0, claim))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let histories = [fixture.history(0), fixture.history(0)];
    assert_eq!(histories[0], histories[1]);
    assert_eq!(histories[0].accepted.iter().filter(|frame| frame.kind == Kind::Claim).count(), 1);
    assert_eq!(not_counted(&fixture, &outcomes), 5);
}

pub(crate) fn garbled_record_does_not_count(make: &Make) {
    let fixture = fixture(make);
    let mut owner = Owner::claim(&fixture, "a");
    owner.append("1").unwrap();
    let garbled = append(owner.producer.as_ref(), Topic::Journal, 0, "noise");
    owner.append("2").unwrap();
    assert_eq!(fixture.history(0).bodies(), ["1", "2"]);
    assert_eq!(not_counted(&fixture, &[garbled]), 1);
}

pub(crate) fn stored_head_goes_on(make: &Make) {
    let fixture = fixture(make);
    let mut owner = Owner::claim(&fixture, "a");
    owner.append("1").unwrap();
    let stored = serde_json::to_string(&fixture.head(0)).unwrap();
    owner.append("2").unwrap();
    let mut chain = Chain::resume(serde_json::from_str(&stored).unwrap());
    let next = chain.head().unwrap().offset + 1;
    let mut reader = fixture.reader(Topic::Journal, 0, From::Offset(next));
    let record = &read(reader.as_mut(), 1)[0];
    assert!(chain.accept(record.offset, &record.value).accepted().is_some());
    assert_eq!(&*record.value.body(), b"2");
    assert_eq!(chain.head(), Some(&fixture.head(0)));
}
