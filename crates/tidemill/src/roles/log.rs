//! Opens the log that the settings name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_archive::ArchivedLog;
use tidemill_cli::{Done, Exit, Failure};
use tidemill_log::{Log, Readers as _, SqliteConfig, SqliteLog, SqliteView, Topic};

use super::archive;
use crate::config::{LogBackend, Settings};

/// Partitions of the embedded log: one for the catalogue, one for the work of all groups. More would only
/// share one disk and one writer.
pub(crate) const EMBEDDED_PARTITIONS: u32 = 2;
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// Where the embedded log lives in the data directory.
const DIRECTORY: &str = "log";

/// The directory of the embedded log in a data directory.
pub(crate) fn directory(data: &Path) -> PathBuf {
    data.join(DIRECTORY)
}

/// Where a restore makes the log of a data directory, before it is one.
pub(crate) fn restoring(data: &Path) -> PathBuf {
    data.join("log.restoring")
}

/// The log in the data directory with its archive, for this process alone.
pub(crate) fn embedded(settings: &Settings) -> Done<Arc<ArchivedLog>> {
    embedded_unless_served(settings)?.map_err(|failure| {
        failure
            .with_exit(Exit::Refused)
            .hint("one data directory serves one process; name another with --data")
    })
}

/// As [`embedded`]; where another process has the log, the inner error says which.
pub(crate) fn embedded_unless_served(settings: &Settings) -> Done<Result<Arc<ArchivedLog>, Failure>> {
    let directory = directory(&settings.data_dir);
    if restoring(&settings.data_dir).exists() {
        let data = settings.data_dir.display();
        return Err(Failure::bad_input(format!("a restore into {data} did not come to its end"))
            .with_exit(Exit::Refused)
            .hint("remove all that is in it, and restore again"));
    }
    let mut config = SqliteConfig::new(&directory);
    config.partitions = partitions(&directory);
    config.keep_commands_ms = u64::from(settings.log.command_retention_days) * DAY_MS;
    let on_fatal = Box::new(|reason: &str| {
        tracing::error!(reason, "the log has failed; the process ends, and the next start verifies the log");
        std::process::exit(1);
    });
    match SqliteLog::open(&config, on_fatal) {
        Ok(log) => archive::over(settings, Arc::new(log)).map(Ok),
        Err(error) => {
            let failure = Failure::caused(format!("cannot open the log in {}", directory.display()), &error);
            if matches!(error, tidemill_log::Error::Locked { .. }) { Ok(Err(failure)) } else { Err(failure) }
        }
    }
}

/// As many as the log was made with: one that was restored from Kafka has more.
fn partitions(directory: &Path) -> u32 {
    // What is wrong with it is told when it is opened.
    SqliteView::open(directory).map_or(EMBEDDED_PARTITIONS, |view| view.partitions(Topic::Journal))
}

/// The log that the roles of a cluster share, with its archive.
pub(crate) fn shared(settings: &Settings) -> Done<Arc<dyn Log>> {
    shared_with_archive(settings).map(|log| -> Arc<dyn Log> { log })
}

/// The same, for who looks at the archive.
pub(crate) fn shared_with_archive(settings: &Settings) -> Done<Arc<ArchivedLog>> {
    match settings.log.backend {
        LogBackend::Kafka => archive::over(settings, kafka::open(settings)?),
        LogBackend::Embedded => Err(Failure::bad_input("a role by itself needs log.backend = \"kafka\"")
            .hint("`tidemill standalone` runs every role on the embedded log")),
    }
}

#[cfg(feature = "kafka")]
mod security;

#[cfg(feature = "kafka")]
pub(crate) mod kafka {
    use std::sync::Arc;

    use tidemill_cli::{Done, Failure};
    use tidemill_log::{Error, KafkaConfig, KafkaLog, Log};

    use super::super::archive;
    use super::security;
    use crate::config::Settings;

    fn config(settings: &Settings) -> Done<KafkaConfig> {
        let mut config = KafkaConfig::new(settings.log.brokers.join(","));
        config.prefix.clone_from(&settings.log.prefix);
        config.partitions = settings.log.partitions;
        config.single_broker = settings.log.single_broker;
        config.security = security::of(&settings.log.security)?;
        config.extra.clone_from(&settings.log.kafka);
        Ok(config)
    }

    fn failed(what: &str, error: &Error) -> Failure {
        Failure::caused(what, error).hint(match error {
            Error::Open { .. } => "log.brokers and log.security say how Kafka is reached, and as whom",
            _ => "`tidemill topics create` makes the topics where they are missing",
        })
    }

    pub(super) fn open(settings: &Settings) -> Done<Arc<dyn Log>> {
        let log = KafkaLog::open_archived(&config(settings)?, &|first| archive::genesis(settings, first))
            .map_err(|error| failed("cannot open the log on Kafka", &error))?;
        Ok(Arc::new(log))
    }

    /// Makes the topics that are missing, checks those that are there, and begins the journals: roles that
    /// start together would else begin them several times, and all but the first record would be void. Gives
    /// the names of the topics.
    pub(crate) fn create_topics(settings: &Settings) -> Done<Vec<String>> {
        let config = config(settings)?;
        let names =
            KafkaLog::create_topics(&config).map_err(|error| failed("cannot create the topics", &error))?;
        KafkaLog::open_archived(&config, &|first| archive::genesis(settings, first))
            .map_err(|error| Failure::caused("the topics are there, but cannot be used", &error))?;
        Ok(names)
    }
}

#[cfg(not(feature = "kafka"))]
pub(crate) mod kafka {
    use std::sync::Arc;

    use tidemill_cli::{Done, Failure};
    use tidemill_log::Log;

    use crate::config::Settings;

    fn absent() -> Failure {
        Failure::bad_input("this program was built without Kafka")
            .hint("build it with `--features kafka`, or run `tidemill standalone` on the embedded log")
    }

    pub(super) fn open(_: &Settings) -> Done<Arc<dyn Log>> {
        Err(absent())
    }

    pub(crate) fn create_topics(_: &Settings) -> Done<Vec<String>> {
        Err(absent())
    }
}
