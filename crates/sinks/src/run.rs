//! The role: a thread for each partition of each sink.

use std::sync::Arc;
use std::time::Duration;

use tidemill_journal::{Keepers, Session, Shutdown};
use tidemill_log::{Log, Topic};
use tidemill_store::Tables;

use crate::{Config, Error, Progress, Sink, Source, Stored};

/// How long a thread waits for records before it looks around.
const LOOK_AROUND: Duration = Duration::from_millis(500);

/// Opens one partition of a sink, again and again where it is lost.
type Open = Box<dyn Fn(u32) -> Result<Box<dyn Sink>, Error> + Send + Sync>;

/// A kind of sink that is configured.
pub struct Opener {
    /// What people call it.
    pub name: &'static str,
    /// Opens the sink of a partition; nothing need be connected yet.
    pub open: Open,
}

impl Opener {
    fn new<S: Sink + 'static>(
        name: &'static str,
        open: impl Fn(u32) -> Result<S, Error> + Send + Sync + 'static,
    ) -> Self {
        Self { name, open: Box::new(move |partition| Ok(Box::new(open(partition)?))) }
    }
}

/// The sinks that are configured.
///
/// # Errors
/// [`Error::NotBuilt`]; [`Error::Refused`] where a setting is of no use.
pub fn openers(config: &Config) -> Result<Vec<Opener>, Error> {
    if let Some((setting, feature)) = config.not_built() {
        return Err(Error::NotBuilt { setting, feature });
    }
    let mut openers = Vec::new();
    #[cfg(feature = "mysql")]
    if config.mysql.url.is_some() {
        let place = crate::mysql::Place::new(&config.mysql)?;
        openers.push(Opener::new("mysql", move |partition| Ok(crate::MysqlSink::new(&place, partition))));
    }
    if config.elasticsearch.url.is_some() {
        let config = config.elasticsearch.clone();
        let server = crate::elasticsearch::Server::new(&config)?;
        let open = move |partition| Ok(crate::ElasticsearchSink::new(&config, &server, partition));
        openers.push(Opener::new("elasticsearch", open));
    }
    #[cfg(feature = "parquet")]
    if config.parquet.root.is_some() {
        let config = config.parquet.clone();
        let open =
            move |partition| Ok(crate::ParquetSink::new(&config, crate::parquet::files(&config)?, partition));
        openers.push(Opener::new("parquet", open));
    }
    Ok(openers)
}

/// Passes task logs on to these sinks until shutdown. What is away is waited for; nothing is skipped.
///
/// # Errors
/// The first error that no waiting fixes; the other partitions and sinks go on until shutdown.
pub fn run_with(
    openers: Vec<Opener>,
    log: &Arc<dyn Log>,
    tables: &Arc<dyn Tables>,
    progress: &Progress,
    shutdown: &Shutdown,
) -> Result<(), Error> {
    let mut keepers = Keepers::new(shutdown);
    for opener in openers {
        let opener = Arc::new(opener);
        for partition in 0..log.partitions(Topic::Journal) {
            progress.change(opener.name, partition, |_| {});
            let keeper = Keeper {
                opener: Arc::clone(&opener),
                partition,
                log: Arc::clone(log),
                tables: Arc::clone(tables),
                progress: progress.clone(),
                shutdown: shutdown.clone(),
            };
            keepers
                .start(format!("sink-{}-{partition}", opener.name), keeper)
                .map_err(|source| Error::Thread { sink: opener.name, source })?;
        }
    }
    keepers.join()
}

struct Keeper {
    opener: Arc<Opener>,
    partition: u32,
    log: Arc<dyn Log>,
    tables: Arc<dyn Tables>,
    progress: Progress,
    shutdown: Shutdown,
}

impl Session for Keeper {
    type Error = Error;

    /// Follows the journal from where the sink stands until shutdown (`Ok`) or an error.
    fn run(&mut self, worked: &mut bool) -> Result<(), Error> {
        let (name, partition) = (self.opener.name, self.partition);
        let mut sink = (self.opener.open)(partition)?;
        let position = sink.position()?;
        let offset = position.as_ref().map(|head| head.offset);
        self.progress.change(name, partition, |it| {
            (it.stored, it.error) = (offset, None);
        });
        tracing::info!(sink = name, partition, offset, "partition {partition} goes to sink {name}");
        let holder = "the task logs";
        let mut source = Source::open(&*self.log, &self.tables, partition, holder, position)?;
        self.shutdown.wakes(source.waker());
        while !self.shutdown.is_requested() {
            let stored = match source.read(LOOK_AROUND)? {
                Some(batch) => sink.write(batch)?,
                None => sink.rest(false)?,
            };
            *worked = true;
            self.tell(stored);
        }
        let stored = sink.rest(true)?;
        self.tell(stored);
        Ok(())
    }

    fn failed(&mut self, error: &Error, reason: &str) -> bool {
        let goes_on = error.is_outage();
        self.progress.change(self.opener.name, self.partition, |it| {
            (it.error, it.stopped) = (Some(reason.to_owned()), !goes_on);
        });
        goes_on
    }

    fn tell_held_up(&self, reason: &str) {
        let (sink, partition) = (self.opener.name, self.partition);
        tracing::warn!(sink, partition, reason, "partition {partition} of sink {sink} is held up: {reason}");
    }

    fn tell_stopped(&self, reason: &str) {
        let (sink, partition) = (self.opener.name, self.partition);
        tracing::error!(
            sink,
            partition,
            reason,
            "partition {partition} goes to sink {sink} no more: {reason}"
        );
    }
}

impl Keeper {
    fn tell(&self, stored: Stored) {
        self.progress.change(self.opener.name, self.partition, |it| {
            it.stored = stored.offset.or(it.stored);
            it.changes += stored.changes as u64;
            it.error = None;
        });
    }
}
