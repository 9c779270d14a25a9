//! Old records of journals go to the archive, and journals are read through it.

mod command;

pub(crate) use command::command;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
#[cfg(feature = "kafka")]
use tidemill_archive::origin;
use tidemill_archive::{Archive, ArchivedLog, Archiver, Cycle, Error, When, open_store};
use tidemill_cli::{Done, Exit, Failure};
use tidemill_cluster::instance_id;
use tidemill_journal::Shutdown;
#[cfg(feature = "kafka")]
use tidemill_log::Genesis;
use tidemill_log::{Log, Readers, SqliteView, Topic};

use super::log;
use super::registration::Registration;
use super::standalone::spawn;
use crate::config::{LogBackend, Settings};

/// What is to be done where the archive does not answer or a segment is not whole.
const HINT: &str = "`tidemill archive verify` names every segment that is missing or damaged";

/// Between two looks which journals are this process's.
const LOOK: Duration = Duration::from_millis(500);

/// The log, read through the archive of the settings.
pub(crate) fn over(settings: &Settings, log: Arc<dyn Log>) -> Done<Arc<ArchivedLog>> {
    let store = open_store(&settings.archive).map_err(|error| failed(&error))?;
    let archive = store.map(|store| Arc::new(Archive::new(store, log.log_id().clone())));
    let archived = ArchivedLog::new(log, archive).map_err(|error| {
        Failure::caused("the log cannot be read from its beginning", &error)
            .hint("set archive.place to where its first records were archived")
    })?;
    Ok(Arc::new(archived))
}

/// The genesis of a log on Kafka whose topic does not begin with it.
#[cfg(feature = "kafka")]
pub(super) fn genesis(settings: &Settings, first: u64) -> Result<Genesis, tidemill_log::Error> {
    let told = |source: Error| tidemill_log::Error::Archive { partition: 0, source: source.into() };
    match open_store(&settings.archive).map_err(told)? {
        Some(store) => origin(&store, first).map_err(told),
        None => Err(tidemill_log::Error::JournalBeginsLater { partition: 0, first }),
    }
}

pub(super) fn failed(error: &Error) -> Failure {
    Failure::caused("the archive cannot be used", error).hint(HINT)
}

/// How the archiver of this process does.
#[derive(Clone, Default)]
pub(crate) struct Archiving(Arc<Mutex<Option<String>>>);

impl Archiving {
    fn last(&self) -> MutexGuard<'_, Option<String>> {
        // One assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the last cycle did not come to its end.
    pub(crate) fn error(&self) -> Option<String> {
        self.last().clone()
    }

    /// Tells what came of a cycle; a failure that goes on is told once.
    fn note(&self, outcome: Result<Cycle, Error>) {
        let error = match outcome {
            Ok(_) | Err(Error::Interrupted) => None,
            Err(error) => Some(Failure::caused("journals are not archived", &error).message),
        };
        let mut last = self.last();
        match &error {
            Some(error) if last.as_ref() != Some(error) => tracing::error!("{error}"),
            None if last.is_some() => tracing::info!("journals are archived again"),
            _ => {}
        }
        *last = error;
    }
}

/// An archiver of the whole log; `None` where there is no archive.
pub(super) fn archiver(settings: &Settings, log: &ArchivedLog) -> Option<Archiver> {
    let archive = log.archive()?;
    let releases = settings.log.backend == LogBackend::Embedded || settings.archive.delete_from_kafka;
    let bounds = settings.archive.bounds(releases);
    Some(Archiver::new(Arc::clone(log.inner()), Arc::clone(archive), bounds))
}

/// What starts the archiver of a process that has the log for itself.
pub(super) fn of_standalone(
    settings: &Settings,
    log: &ArchivedLog,
    archiving: &Archiving,
) -> Option<impl FnOnce(&Shutdown) -> Done<JoinHandle<Done>> + use<>> {
    let mut archiver = archiver(settings, log)?;
    let partitions: Vec<u32> = (0..log.partitions(Topic::Journal)).collect();
    let (interval, archiving) = (interval(settings), archiving.clone());
    Some(move |shutdown: &Shutdown| {
        let stop = shutdown.clone();
        spawn("archiver", move || {
            while !stop.is_requested() {
                archiving.note(archiver.cycle(&partitions, When::Due, &|| stop.is_requested()));
                stop.wait(interval);
            }
            Ok(())
        })
    })
}

pub(super) fn interval(settings: &Settings) -> Duration {
    Duration::from_secs(u64::from(settings.archive.interval_s))
}

/// The log with its archive, to be looked at: nothing is locked or changed.
pub(super) fn looked_at(settings: &Settings) -> Done<Arc<ArchivedLog>> {
    if settings.log.backend == LogBackend::Kafka {
        return log::shared_with_archive(settings);
    }
    let directory = log::directory(&settings.data_dir);
    let view = SqliteView::open(&directory).map_err(|error| {
        Failure::caused(format!("cannot read the log in {}", directory.display()), &error)
            .hint("name the data directory with --data")
    })?;
    over(settings, Arc::new(view))
}

/// `tidemill archiver`: copies journals on Kafka, those that are suggested to this process.
pub(crate) fn run(settings: &Settings, stop: &Receiver<()>) -> Done<Exit> {
    let log = log::shared_with_archive(settings)?;
    let Some(mut archiver) = archiver(settings, &log) else {
        return Err(Failure::bad_input("archive.place: there is no archive")
            .hint("set it to the directory, or s3://bucket/prefix, where old records of journals go"));
    };
    let member = instance_id("archiver");
    let mut peers = log
        .peers("archiver", member.as_str())
        .map_err(|error| Failure::caused("cannot share the work with other archivers", &error))?;
    let (archiving, interval) = (Archiving::default(), interval(settings));
    let shared: Arc<dyn Log> = Arc::clone(&log) as Arc<dyn Log>;
    let registration = Registration::start(settings, &shared, &["archiver"])?;
    let mut cycled_at: Option<Instant> = None;
    let outcome = loop {
        if stop.try_recv().is_ok() {
            break Ok(Exit::Success);
        }
        if let Some(failure) = registration.too_old() {
            break Err(failure);
        }
        let suggested = match peers.suggested(LOOK) {
            Ok(suggested) => suggested,
            Err(error) => {
                break Err(Failure::caused("cannot share the work with other archivers", &error));
            }
        };
        if !suggested.is_empty() && cycled_at.is_none_or(|at| at.elapsed() >= interval) {
            archiving.note(archiver.cycle(&suggested, When::Due, &|| !stop.is_empty()));
            cycled_at = Some(Instant::now());
        }
    };
    registration.end(outcome)
}
