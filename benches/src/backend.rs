//! The logs that are measured.

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use tidemill_log::{Log, SqliteConfig, SqliteLog};

/// Names the broker.
pub(crate) const KAFKA: &str = "TIDEMILL_TEST_KAFKA";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    Embedded,
    Kafka,
}

impl Backend {
    /// As the command line has it.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("every back end has a name").get_name().to_owned()
    }

    /// A new log of two partitions: the catalogue's and one for groups.
    pub(crate) fn open(self, directory: &Path) -> anyhow::Result<Arc<dyn Log>> {
        match self {
            Backend::Embedded => {
                let config = SqliteConfig { partitions: 2, ..SqliteConfig::new(directory.join("log")) };
                let fatal = Box::new(|reason: &str| eprintln!("the log has ended: {reason}"));
                Ok(Arc::new(SqliteLog::open(&config, fatal)?))
            }
            Backend::Kafka => kafka(),
        }
    }
}

#[cfg(feature = "kafka")]
fn kafka() -> anyhow::Result<Arc<dyn Log>> {
    let config = kafka_config()?;
    tidemill_log::KafkaLog::create_topics(&config)?;
    Ok(Arc::new(tidemill_log::KafkaLog::open(&config)?))
}

/// Topics that nobody has yet, of two partitions.
#[cfg(feature = "kafka")]
pub(crate) fn kafka_config() -> anyhow::Result<tidemill_log::KafkaConfig> {
    use anyhow::Context;
    let brokers = std::env::var(KAFKA).with_context(|| format!("{KAFKA} has to name a broker"))?;
    let nanos = jiff::Timestamp::now().as_nanosecond();
    let mut config = tidemill_log::KafkaConfig::new(brokers);
    config.prefix = format!("bench-{}-{nanos}", std::process::id());
    config.partitions = 2;
    config.single_broker = true;
    Ok(config)
}

#[cfg(not(feature = "kafka"))]
fn kafka() -> anyhow::Result<Arc<dyn Log>> {
    anyhow::bail!("this program was built without the feature kafka")
}
