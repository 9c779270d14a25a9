//! Against a broker that says for a while that there are none, as one does that has just begun. It speaks no more of
//! Kafka's protocol than a client asks of it first: which requests it takes, and what it knows of the cluster.

use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use super::{Listens as _, Plain, serve};
use crate::kafka::config::KafkaConfig;
use crate::kafka::connection::Connection;
use crate::kafka::membership::{Group, Subscribed};
use crate::kafka::reader::KafkaReader;
use crate::{Intake as _, Membership as _, Producer as _, Reader as _, Topic};

const METADATA: i16 = 3;
const FIND_COORDINATOR: i16 = 10;
const API_VERSIONS: i16 = 18;
const LEADER_NOT_AVAILABLE: i16 = 5;
const TURN: Duration = Duration::from_millis(50);
const FORGET: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);

struct Broker {
    port: u16,
    /// Whether it names itself.
    is_known: AtomicBool,
    /// Answers of each kind.
    with: AtomicU64,
    without: AtomicU64,
}

impl Broker {
    fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let broker = Self {
            port,
            is_known: AtomicBool::new(true),
            with: AtomicU64::new(0),
            without: AtomicU64::new(0),
        };
        let broker = Arc::new(broker);
        let served = Arc::clone(&broker);
        thread::spawn(move || {
            for client in listener.incoming() {
                let broker = Arc::clone(&served);
                // A client hangs up when it likes.
                thread::spawn(move || broker.serve(client.unwrap()).unwrap_err());
            }
        });
        broker
    }

    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        loop {
            let mut size = [0; 4];
            client.read_exact(&mut size)?;
            let mut request = vec![0; u32::from_be_bytes(size) as usize];
            client.read_exact(&mut request)?;
            let kind = i16::from_be_bytes([request[0], request[1]]);
            let mut answer = request[4..8].to_vec();
            match kind {
                API_VERSIONS => answer.extend(api_versions()),
                FIND_COORDINATOR => {
                    answer.extend([0, 0, 0, 0, 0, 1]);
                    answer.extend(text(b"127.0.0.1"));
                    answer.extend(u32::from(self.port).to_be_bytes());
                }
                METADATA => answer.extend(self.metadata(&request)),
                _ => continue,
            }
            let size = u32::try_from(answer.len()).unwrap().to_be_bytes();
            client.write_all(&[size.as_slice(), &answer].concat())?;
        }
    }

    /// Version 4 of the answer: the topics that were asked for have one partition each.
    fn metadata(&self, request: &[u8]) -> Vec<u8> {
        let is_known = self.is_known.load(Ordering::SeqCst);
        let names = asked_for(request);
        // A client that asked for no topic asks again.
        if !names.is_empty() {
            let told = if is_known { &self.with } else { &self.without };
            told.fetch_add(1, Ordering::SeqCst);
        }
        let mut answer = vec![0; 4];
        if is_known {
            answer.extend([0, 0, 0, 1, 0, 0, 0, 1]);
            answer.extend(text(b"127.0.0.1"));
            answer.extend(u32::from(self.port).to_be_bytes());
            answer.extend((-1_i16).to_be_bytes());
        } else {
            answer.extend([0; 4]);
        }
        answer.extend(text(b"cluster"));
        answer.extend(1_i32.to_be_bytes());
        answer.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        let (error, leader) = if is_known { (0, 1_i32) } else { (LEADER_NOT_AVAILABLE, -1) };
        for name in names {
            answer.extend(0_i16.to_be_bytes());
            answer.extend(text(&name));
            answer.extend([0, 0, 0, 0, 1]);
            answer.extend(error.to_be_bytes());
            answer.extend(0_i32.to_be_bytes());
            answer.extend(leader.to_be_bytes());
            answer.extend([0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]);
        }
        answer
    }
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [u16::try_from(bytes.len()).unwrap().to_be_bytes().as_slice(), bytes].concat()
}

/// Which versions of which requests are taken, in the form of version 3.
fn api_versions() -> Vec<u8> {
    let mut answer = vec![0, 0, 4];
    for (kind, last) in [(METADATA, 4_i16), (FIND_COORDINATOR, 0), (API_VERSIONS, 3)] {
        answer.extend(kind.to_be_bytes());
        answer.extend(0_i16.to_be_bytes());
        answer.extend(last.to_be_bytes());
        answer.push(0);
    }
    answer.extend([0; 5]);
    answer
}

/// The names of topics in a request: behind its kind, version, number and the client's name.
fn asked_for(request: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &request[8..];
    let mut take = |bytes: usize| {
        let (taken, left) = rest.split_at(bytes);
        rest = left;
        taken
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
    let client = number(take(2));
    take(client);
    let all = u32::MAX as usize;
    let count = Some(number(take(4))).filter(|count| *count != all).unwrap_or_default();
    let mut name = || {
        let bytes = number(take(2));
        take(bytes).to_vec()
    };
    (0..count).map(|_| name()).collect()
}

fn config(broker: &Broker) -> KafkaConfig {
    KafkaConfig::new(format!("127.0.0.1:{}", broker.port))
}

/// The client hears of a cluster with a broker, of one without, and has to ask again once there is one.
fn finds_again(broker: &Broker, serve: impl Fn()) {
    let until = |count: &AtomicU64, what: &str| {
        let (seen, since) = (count.load(Ordering::SeqCst), Instant::now());
        while count.load(Ordering::SeqCst) == seen {
            assert!(since.elapsed() < PATIENCE, "{what}");
            serve();
        }
    };
    until(&broker.with, "the client asks at first");
    broker.is_known.store(false, Ordering::SeqCst);
    until(&broker.without, "the client asks once more");
    let since = Instant::now();
    while since.elapsed() < FORGET {
        serve();
    }
    broker.is_known.store(true, Ordering::SeqCst);
    until(&broker.with, "the client forgot its broker for good");
}

fn connection(broker: &Broker) -> Connection {
    let mut connection = Connection::open(&config(broker)).unwrap();
    connection.counts = [1; Topic::ALL.len()];
    connection
}

/// OPS-3
#[test]
fn client_that_asks_finds_its_broker_again() {
    let broker = Broker::start();
    let connection = connection(&broker);
    finds_again(&broker, || drop(connection.describe("any")));
}

/// OPS-3
#[test]
fn reader_finds_its_broker_again() {
    let broker = Broker::start();
    let connection = connection(&broker);
    let reader = KafkaReader::start(&connection, Topic::Journal, 0, 0);
    let reader = RefCell::new(reader.unwrap());
    finds_again(&broker, || drop(reader.borrow_mut().poll(1, TURN)));
}

/// OPS-3
#[test]
fn producer_finds_its_broker_again() {
    let broker = Broker::start();
    let producer = connection(&broker).producer().unwrap();
    producer.append(Topic::Journal, 0, b"key", b"value".to_vec(), Box::new(drop));
    finds_again(&broker, || thread::sleep(TURN));
}

/// OPS-3
#[test]
fn member_finds_its_broker_again() {
    let broker = Broker::start();
    let member = RefCell::new(Group::join(&config(&broker), "owners", "one").unwrap());
    finds_again(&broker, || drop(member.borrow_mut().suggested(TURN)));
}

/// OPS-3
#[test]
fn intake_finds_its_broker_again() {
    let broker = Broker::start();
    let intake = RefCell::new(Subscribed::join(&config(&broker), "reports", "one").unwrap());
    finds_again(&broker, || drop(intake.borrow_mut().poll(1, TURN)));
}

/// A reader that nobody asked for a while has many lines for the log, and what it said of its brokers stands behind them.
#[test]
fn all_events_are_served_at_once() {
    let mut config = KafkaConfig::new("127.0.0.1:1");
    config.extra.insert("debug".to_owned(), "broker".to_owned());
    let mut client = config.reader();
    client.set_log_level(RDKafkaLogLevel::Debug);
    let consumer: BaseConsumer<Plain> = client.create_with_context(Plain::new(&config)).unwrap();
    // A machine that is busy takes longer to say as much.
    let served_at_once = |seconds| {
        let before = consumer.context().said().events();
        thread::sleep(Duration::from_secs(seconds));
        serve(&consumer, |_| ());
        consumer.context().said().events() - before
    };
    assert!([1, 4, 16].into_iter().any(|seconds| served_at_once(seconds) > 10));
}
