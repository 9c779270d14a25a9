//! A log to test on, which can be closed and opened again.

use std::any::Any;
use std::sync::Arc;

use tidemill_dispatcher::{Config, Dispatcher};
use tidemill_log::{Log, MemoryLog, SqliteConfig, SqliteLog};

pub struct Cluster {
    log: Option<Arc<dyn Log>>,
    open: Box<dyn Fn() -> Arc<dyn Log>>,
    /// The log stores what the chain does not accept; else it refuses that.
    pub stores_void: bool,
    _ground: Box<dyn Any>,
}

impl Cluster {
    pub fn new(open: Box<dyn Fn() -> Arc<dyn Log>>, stores_void: bool, ground: Box<dyn Any>) -> Self {
        Self { log: Some(open()), open, stores_void, _ground: ground }
    }

    pub fn memory() -> Self {
        let log = MemoryLog::new(3);
        Self::new(Box::new(move || Arc::new(log.clone())), true, Box::new(()))
    }

    /// One partition, so that the catalogue and the group share a journal.
    pub fn sqlite() -> Self {
        let ground = tempfile::tempdir().unwrap();
        let config = SqliteConfig::new(ground.path());
        let open = move || -> Arc<dyn Log> { Arc::new(SqliteLog::open(&config, Box::new(|_| {})).unwrap()) };
        Self::new(Box::new(open), false, Box::new(ground))
    }

    pub fn log(&self) -> Arc<dyn Log> {
        Arc::clone(self.log.as_ref().unwrap())
    }

    /// Closes the log, which nobody may use any more, and opens it again.
    pub fn reopen(&mut self) {
        let log = self.log.take().unwrap();
        assert_eq!(Arc::strong_count(&log), 1, "somebody still holds the log");
        drop(log);
        self.log = Some((self.open)());
    }
}

pub fn dispatcher(log: Arc<dyn Log>, incarnation: &str) -> Dispatcher {
    let config = Config { claim_after_ms: 300, ..Config::default() };
    tidemill_dispatcher::run(config, log, incarnation).unwrap()
}

/// One that waits for ever before it takes a partition from an owner that is silent.
pub fn patient_dispatcher(log: Arc<dyn Log>, incarnation: &str) -> Dispatcher {
    let config = Config { claim_after_ms: 60_000, ..Config::default() };
    tidemill_dispatcher::run(config, log, incarnation).unwrap()
}

/// A log on the broker that `TIDEMILL_TEST_KAFKA` names, with topics of its own.
#[cfg(feature = "kafka")]
pub fn kafka_config() -> tidemill_log::KafkaConfig {
    let brokers = std::env::var("TIDEMILL_TEST_KAFKA").expect(
        "TIDEMILL_TEST_KAFKA names no broker (host:port): start one with `deploy/dev/services start kafka`",
    );
    let config = tidemill_log::KafkaConfig {
        prefix: format!("test-{}", tidemill_log::LogId::random()),
        partitions: 3,
        single_broker: true,
        ..tidemill_log::KafkaConfig::new(brokers)
    };
    tidemill_log::KafkaLog::create_topics(&config).unwrap();
    config
}

#[cfg(feature = "kafka")]
impl Cluster {
    pub fn kafka() -> Self {
        let config = kafka_config();
        let open = move || -> Arc<dyn Log> { Arc::new(tidemill_log::KafkaLog::open(&config).unwrap()) };
        Self::new(Box::new(open), true, Box::new(()))
    }
}
