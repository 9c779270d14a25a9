//! Where a journal is: on Kafka, in a data directory, or in a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_cli::{Done, Exit, Failure, files};
use tidemill_log::{Log, SqliteView};

use super::super::{archive, log};
use crate::config::{LogBackend, Settings};

/// The file of an embedded log.
const LOG_FILE: &str = "log.db";

/// A journal that can be read.
pub(super) enum Source {
    /// A log of either kind.
    Log {
        /// For people.
        name: String,
        log: Arc<dyn Log>,
    },
    /// What `journal export` has written.
    File(PathBuf),
}

impl Source {
    /// What is named, else the log of the settings. Nothing is locked, made or changed in an embedded log.
    pub(super) fn find(settings: &Settings, given: Option<&Path>) -> Done<Self> {
        let Some(path) = given else {
            return match settings.log.backend {
                LogBackend::Kafka => {
                    let name = format!("{}.* on {}", settings.log.prefix, settings.log.brokers.join(","));
                    Ok(Self::Log { name, log: log::shared(settings)? })
                }
                LogBackend::Embedded => Self::embedded(settings, &settings.data_dir),
            };
        };
        let found = fs::metadata(path).map_err(|error| Failure::unreadable(path, &error))?;
        if found.is_dir() {
            return Self::embedded(settings, path);
        }
        match path.parent() {
            Some(directory) if path.ends_with(LOG_FILE) => Self::view(settings, directory),
            // Its reader takes as much of it as there is, so it must not be a pipe or a device.
            _ => match files::open(path) {
                Ok(_) => Ok(Self::File(path.to_owned())),
                Err(error) => Err(Failure::unreadable(path, &error).hint("name a file of `journal export`")),
            },
        }
    }

    /// A data directory, or the directory of the log in it.
    pub(super) fn embedded(settings: &Settings, data: &Path) -> Done<Self> {
        let directory = [log::directory(data), data.to_owned()]
            .into_iter()
            .find(|directory| directory.join(LOG_FILE).is_file())
            .ok_or_else(|| {
                Failure::new(Exit::NotFound, format!("there is no log in {}", data.display())).hint(
                    "name a data directory or an exported file; for a log on Kafka, settings with \
                     log.backend = \"kafka\"",
                )
            })?;
        Self::view(settings, &directory)
    }

    fn view(settings: &Settings, directory: &Path) -> Done<Self> {
        let name = directory.display().to_string();
        let view = SqliteView::open(directory).map_err(|error| {
            Failure::caused(format!("cannot read the log in {name}"), &error).hint(
                "reading beside a process needs write access to the directory; copy it where there is none",
            )
        })?;
        Ok(Self::Log { name, log: archive::over(settings, Arc::new(view))? })
    }

    /// For people.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Log { name, .. } => name.clone(),
            Self::File(path) => path.display().to_string(),
        }
    }
}
