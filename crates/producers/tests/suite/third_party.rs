//! Reports of third parties, from a topic that a test writes to the catalogue of a memory log.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::kit::{Fixture, PATIENCE, until};
use tidemill_log::{
    Error, From, Intake, Log, LogId, Membership, MemoryLog, Producer, Reader, Readers, Taken, Topic, Usage,
};
use tidemill_model::{CatalogueCommand, Command, FieldError, Outcome, Rejection, ShardId, ThirdPartyReport};
use tidemill_producers::third_party::{Config, start};

/// A memory log beside which somebody else writes a topic of two partitions.
struct Beside {
    log: MemoryLog,
    records: Arc<Mutex<VecDeque<Taken>>>,
    done: Arc<Mutex<Vec<(u32, u64)>>>,
}

impl Readers for Beside {
    fn log_id(&self) -> &LogId {
        self.log.log_id()
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.log.partitions(topic)
    }

    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        self.log.reader(topic, partition, from)
    }

    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        self.log.range(topic, partition)
    }
}

impl Log for Beside {
    fn producer(&self) -> Result<Arc<dyn Producer>, Error> {
        self.log.producer()
    }

    fn membership(&self, member: &str) -> Result<Box<dyn Membership>, Error> {
        self.log.membership(member)
    }

    fn intake(&self, _: &str, _: &str) -> Result<Box<dyn Intake>, Error> {
        Ok(Box::new(Written { records: Arc::clone(&self.records), done: Arc::clone(&self.done) }))
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.log.usage()
    }
}

struct Written {
    records: Arc<Mutex<VecDeque<Taken>>>,
    done: Arc<Mutex<Vec<(u32, u64)>>>,
}

impl Intake for Written {
    fn poll(&mut self, max: usize, _: Duration) -> Result<Vec<Taken>, Error> {
        let mut records = self.records.lock().unwrap();
        let count = records.len().min(max);
        if count == 0 {
            std::thread::yield_now();
        }
        Ok(records.drain(..count).collect())
    }

    fn done(&mut self, partition: u32, below: u64) -> Result<(), Error> {
        self.done.lock().unwrap().push((partition, below));
        Ok(())
    }
}

fn config() -> Config {
    Config { topic: Some("fixture.ready".to_owned()) }
}

fn record(partition: u32, offset: u64, value: &str) -> Taken {
    Taken { partition, offset, value: value.as_bytes().to_vec() }
}

fn report(code: &str, ready: bool) -> String {
    format!(r#"{{"code": "{code}", "logical_time": "2026-03-01T00:00:00.000Z", "ready": {ready}}}"#)
}

fn reports(fixture: &Fixture) -> Vec<(String, bool)> {
    let of =
        |(shard, command)| match command {
            Command::Catalogue(CatalogueCommand::ReportThirdParty(ThirdPartyReport {
                code, ready, ..
            })) if shard == ShardId::CATALOGUE => Some((code.to_string(), ready)),
            _ => None,
        };
    fixture.heard().into_iter().filter_map(of).collect()
}

/// DEP-2, EVT-9: what stands on the topic reaches the catalogue, reports of one code in their order; what cannot
/// be read or is refused is set aside, and the rest goes on.
#[test]
fn reports_of_the_topic_reach_the_catalogue_in_order() {
    let fixture = Fixture::start(|record| match &record.command {
        Command::Catalogue(CatalogueCommand::ReportThirdParty(report)) if &*report.code == "unheard" => {
            let fields = vec![FieldError::new("code", &report.code, "is not known")];
            Outcome::Refused(Rejection::Invalid { fields })
        }
        _ => Outcome::Done,
    });
    let values = [
        report("erp", true),
        "{}".to_owned(),
        report("unheard", true),
        report("erp", false),
        report("crm", true),
    ];
    let records = (0..).zip(&values).map(|(offset, value)| record(0, offset, value));
    let beside = Beside {
        log: fixture.log.clone(),
        records: Arc::new(Mutex::new(records.chain([record(1, 7, &report("mes", true))]).collect())),
        done: Arc::default(),
    };
    let done = Arc::clone(&beside.done);
    let mut outside = fixture.outside("one");
    outside.log = Arc::new(beside);
    let running = start(&config(), outside).unwrap().unwrap();
    until("all is done", || (*done.lock().unwrap() == [(0, 5), (1, 8)]).then_some(()));
    running.stop().unwrap();
    let told = reports(&fixture);
    let erp: Vec<bool> = told.iter().filter(|(code, _)| code == "erp").map(|(_, ready)| *ready).collect();
    assert_eq!((erp, told.len()), (vec![true, false], 5), "{told:?}");

    let mut letters = Vec::new();
    for partition in 0..fixture.log.partitions(Topic::DeadLetters) {
        let mut reader = fixture.log.reader(Topic::DeadLetters, partition, From::Start).unwrap();
        let end = fixture.log.range(Topic::DeadLetters, partition).unwrap().end;
        while (letters.len() as u64) < end {
            letters.extend(reader.poll(10, PATIENCE).unwrap());
        }
    }
    let letters: Vec<serde_json::Value> =
        letters.iter().map(|letter| serde_json::from_slice(&letter.value).unwrap()).collect();
    let mut offsets: Vec<_> = letters.iter().map(|letter| letter["offset"].as_u64().unwrap()).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [1, 2]);
    assert!(
        letters.iter().all(|letter| letter["topic"] == "fixture.ready" && letter["reason"] != ""),
        "{letters:?}"
    );
}

/// DEP-2: a record that is read again is the same request, which is decided once.
#[test]
fn record_read_twice_is_one_request() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&requests);
    let fixture = Fixture::start(move |record| {
        heard.lock().unwrap().push(record.request.clone().unwrap());
        Outcome::Done
    });
    let once = record(3, 9, &report("erp", true));
    let beside = Beside {
        log: fixture.log.clone(),
        records: Arc::new(Mutex::new([once.clone(), once].into())),
        done: Arc::default(),
    };
    let done = Arc::clone(&beside.done);
    let mut outside = fixture.outside("one");
    outside.log = Arc::new(beside);
    let running = start(&config(), outside).unwrap().unwrap();
    until("it is done", || (!done.lock().unwrap().is_empty()).then_some(()));
    running.stop().unwrap();
    let requests = requests.lock().unwrap();
    assert_eq!(
        requests.iter().map(|request| request.as_str()).collect::<Vec<_>>(),
        ["third-party-fixture.ready-3-9"; 2]
    );
}

/// EVT-10: on a log that nobody else writes, third parties report by REST.
#[test]
fn without_a_topic_nothing_is_read_and_one_that_cannot_be_is_named() {
    let fixture = Fixture::start(|_| Outcome::Done);
    assert!(start(&Config::default(), fixture.outside("one")).unwrap().is_none());
    let refused = start(&config(), fixture.outside("two")).unwrap_err();
    let source = std::error::Error::source(&refused).unwrap();
    assert_eq!(source.to_string(), "cannot read the topic fixture.ready");
}
