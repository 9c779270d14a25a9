//! Two dispatchers in two processes on Kafka, one of which is killed. Without a harness: this program starts
//! itself again as the one to be killed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[allow(unused_imports, unused_macros, reason = "the suite is for the other binary")]
#[path = "suite/kit/mod.rs"]
mod kit;

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use kit::client::{Client, submission};
use kit::journal::History;
use kit::worker::{Memory, Worker};
use tidemill_dispatcher::Config;
use tidemill_log::{KafkaConfig, KafkaLog, Log, Topic};
use tidemill_model::GroupSettings;

const VICTIM: &str = "TIDEMILL_TEST_VICTIM";
fn main() {
    match std::env::var(VICTIM) {
        Ok(config) => be_killed(&serde_json::from_str(&config).unwrap()),
        Err(_) => killed_owner_is_replaced(),
    }
}

fn open(config: &KafkaConfig) -> Arc<dyn Log> {
    Arc::new(KafkaLog::open(config).unwrap())
}

/// Owns what is suggested until it is killed, or nobody is left who would kill it.
fn be_killed(config: &KafkaConfig) {
    let _owner = tidemill_dispatcher::run(Config::default(), open(config), "victim").unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

/// Killed and reaped, however the test ends.
struct Victim(Child);

impl Victim {
    fn start(config: &KafkaConfig) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(VICTIM, serde_json::to_string(config).unwrap()).stdin(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn owner_of(log: &Arc<dyn Log>, partition: u32) -> String {
    let head = History::now(log, partition).head().clone();
    head.owner.filter(|_| !head.resigned).map(|claim| claim.incarnation).unwrap_or_default()
}

fn until_owned(log: &Arc<dyn Log>, partition: u32, by: &str) {
    History::until(log, partition, &format!("{by} owns {partition}"), |history| {
        let head = history.chain.head();
        head.is_some_and(|head| !head.resigned && head.owner.as_ref().is_some_and(|o| o.incarnation == by))
    });
}

/// A2, rule 3: after a kill the other dispatcher owns everything, and nothing happens twice. How long that takes is
/// measured by `make chaos`, which holds it to 10 s.
fn killed_owner_is_replaced() {
    let config = kit::cluster::kafka_config();
    let log = open(&config);
    let partitions = log.partitions(Topic::Journal);
    let mut victim = Victim::start(&config);
    (0..partitions).for_each(|partition| until_owned(&log, partition, "victim"));
    let heir = tidemill_dispatcher::run(Config::default(), open(&config), "heir").unwrap();
    let end = Instant::now() + kit::PATIENCE;
    let owners = loop {
        assert!(Instant::now() < end, "the two share the partitions");
        let owners: Vec<String> = (0..partitions).map(|partition| owner_of(&log, partition)).collect();
        if owners.iter().any(|owner| owner == "heir") && owners.iter().all(|owner| !owner.is_empty()) {
            break owners;
        }
    };
    let mut client = Client::new(&log);
    let shard = client.define_group("demo", GroupSettings::default());
    let memory = Arc::new(Memory::default());
    let _worker = Worker::start(&log, shard, "w1", 4, &memory);
    let before: Vec<_> = (0..50).map(|n| client.submit(shard, &format!("before{n}"))).collect();
    client.reply(&before[0]);

    let killed_at = Instant::now();
    victim.kill();
    for partition in 0..partitions {
        until_owned(&log, partition, "heir");
        println!("partition {partition}, owned by {}: {:?}", owners[partition as usize], killed_at.elapsed());
    }
    let took = killed_at.elapsed();
    client.ask(shard, submission("after"));
    println!("an answer after {:?}", killed_at.elapsed());
    let partition = shard.partition(partitions);
    let history = History::until(&log, partition, "all are finished", |h| h.finished() >= 51);
    history.assert_nothing_twice();
    assert_eq!(memory.runs.lock().unwrap().len(), 51);
    heir.stop().unwrap();
    println!("test killed_owner_is_replaced ... ok ({took:?})");
}
