//! A whole Tidemill in this process: dispatcher, projector, feed, executor, and a client.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use crossbeam_channel::{Sender, bounded};
use ed25519_dalek::SigningKey;
use tidemill_cluster::{SubmitRequest, Submitter};
use tidemill_dispatcher::Dispatcher;
use tidemill_journal::{FeedCursor, FeedReader, Progress, Shutdown};
use tidemill_log::{Log, Producer, Topic};
use tidemill_model::{
    Actor, Answer, CatalogueCommand, Command, CommandRecord, GroupId, GroupName, GroupSettings, JobCommand,
    JobSpec, JobType, Level, LevelCommand, Outcome, Process, ShardId, bounds, hex,
};
use tidemill_projector::PublishConfig;
use tidemill_seal::OwnersSecret;
use tidemill_store::{SqliteTables, Tables};

use crate::backend::Backend;
use crate::fake_workers::{FakeWorkers, Terms};
use crate::watch::Watch;

const PATIENCE: Duration = Duration::from_secs(300);
/// A shard hears of its group from the catalogue, a moment after whoever defined it.
const GROUP_PATIENCE: Duration = Duration::from_secs(30);
const GROUP_REPLICATED: &str = "\"group_replicated\":";
const LEVEL_REPLICATED: &str = "\"level_replicated\":";
/// What one command that defines jobs is kept below, in a generous estimate of their bytes.
const APPLY_BYTES: usize = 160_000;
const APPLY_JOBS: usize = 400;
const JOB_BYTES: usize = 600;
const PARENT_BYTES: usize = 60;

pub(crate) struct Fixture {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) shard: ShardId,
    pub(crate) group_id: GroupId,
    submitter: Submitter,
    /// One for all: a new one has to be introduced to a broker first, which takes half a second.
    producer: Arc<dyn Producer>,
    dispatcher: Dispatcher,
    projector: Projector,
    /// By partition.
    journals: RefCell<Vec<Watch>>,
    executor: Option<(Sender<()>, JoinHandle<()>)>,
}

struct Projector {
    progress: Progress,
    /// Events of the feed that a subscriber has got.
    fed: Arc<AtomicU64>,
    backend: Backend,
    shutdown: Shutdown,
    threads: Vec<JoinHandle<()>>,
}

pub(crate) fn group() -> GroupName {
    GroupName::try_from("bench").expect("is a name")
}

fn worker_key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

impl Fixture {
    /// Starts everything but an executor.
    pub(crate) fn start(backend: Backend, directory: &Path) -> anyhow::Result<Self> {
        let log = backend.open(directory)?;
        let config =
            tidemill_dispatcher::Config { claim_after_ms: 0, reports: Some(secret()), ..Default::default() };
        let dispatcher = tidemill_dispatcher::run(config, Arc::clone(&log), "bench")?;
        let projector = Projector::start(backend, &log, directory)?;
        let instance = tidemill_cluster::instance_id("bench");
        let submitter = Submitter::start(Arc::clone(&log), instance, tidemill_cluster::Config::default())?;
        let watches = (0..log.partitions(Topic::Journal)).map(|number| Watch::start(log.as_ref(), number));
        let journals = RefCell::new(watches.collect::<anyhow::Result<_>>()?);
        let mut fixture = Self {
            producer: log.producer()?,
            log,
            shard: ShardId(1),
            group_id: GroupId(1),
            submitter,
            dispatcher,
            projector,
            journals,
            executor: None,
        };
        let settings = GroupSettings::default();
        let worker_key = hex(worker_key().verifying_key().as_bytes());
        match fixture.ask(
            ShardId::CATALOGUE,
            Command::Catalogue(CatalogueCommand::DefineGroup { name: group(), worker_key, settings }),
        )? {
            Answer::Group { group, shard } => (fixture.group_id, fixture.shard) = (group, shard),
            other => bail!("defining a group was answered {other:?}"),
        }
        // Until then it refuses whatever is for the group.
        fixture.until(GROUP_REPLICATED, 1, GROUP_PATIENCE)?;
        fixture.raise_level()?;
        Ok(fixture)
    }

    /// Registers this process, as the program does, so that everything is written as this version writes it.
    fn raise_level(&self) -> anyhow::Result<()> {
        let process = Process {
            id: tidemill_cluster::instance_id("bench"),
            host: "bench".to_owned(),
            roles: vec!["bench".to_owned()],
            version: env!("CARGO_PKG_VERSION").to_owned(),
            reads: Level::READS,
            expire_after_ms: bounds::PROCESS_EXPIRE_AFTER_MS.1,
        };
        let command = LevelCommand::RegisterProcess { process: Box::new(process), number: 0 };
        self.ask(ShardId::CATALOGUE, Command::Level(command))?;
        self.until(LEVEL_REPLICATED, 1, GROUP_PATIENCE)
    }

    /// Starts an executor with this data directory and so many slots for each type.
    pub(crate) fn work(&mut self, directory: &Path, slots: &[(&str, u32)]) -> anyhow::Result<()> {
        let slots: BTreeMap<JobType, u32> = slots
            .iter()
            .map(|(kind, slots)| (JobType::try_from(*kind).expect("is a name"), *slots))
            .collect();
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        let mut config = tidemill_executor::Config::new(tidemill_executor::Required {
            group: group(),
            shard: self.shard,
            data_dir: directory.join("worker"),
            slots,
            logs_key: "a logs key for benches".to_owned(),
            worker_private_key: hex(&worker_key().to_bytes()),
        });
        config.shim = vec![own, "--shim".to_owned()];
        config.keep_jobs_on_stop = true;
        let (stop, stopped) = bounded(1);
        let log = Arc::clone(&self.log);
        let run = move || {
            if let Err(error) = tidemill_executor::run(config, log, stopped) {
                eprintln!("the executor failed: {error}");
            }
        };
        self.executor = Some((stop, thread::Builder::new().name("executor".to_owned()).spawn(run)?));
        Ok(())
    }

    /// Starts workers without processes, and waits until their owner knows them.
    pub(crate) fn fake_workers(&self, terms: Terms) -> anyhow::Result<FakeWorkers> {
        FakeWorkers::start(terms, &self.log, self.shard, worker_key())
    }

    /// Sends a command and waits for its answer.
    pub(crate) fn ask(&self, shard: ShardId, command: Command) -> anyhow::Result<Answer> {
        let (tell, told) = bounded(1);
        let request = tidemill_cluster::request_id();
        let submit_request = SubmitRequest { shard, request, actor: actor(), command };
        self.submitter.submit_with(submit_request, Some(PATIENCE), move |result| {
            // The receiver waits below.
            let _ = tell.send(result);
        });
        match told.recv().context("the submitter has ended")??.outcome {
            Outcome::Answered(answer) => Ok(answer),
            Outcome::Done | Outcome::Repeated | Outcome::Deferred => Ok(Answer::Done),
            Outcome::Refused(rejection) => bail!("refused: {rejection}"),
        }
    }

    /// Sends commands as fast as the log takes them, without waiting for answers.
    pub(crate) fn send_all(&self, commands: impl Iterator<Item = Command>) -> anyhow::Result<()> {
        let producer = self.producer.as_ref();
        let partition = self.shard.partition(self.log.partitions(Topic::Commands));
        let key = self.shard.to_string();
        let secret = secret();
        for command in commands {
            let command = secret.sealed(command, self.shard, None);
            let record =
                CommandRecord { shard: self.shard, request: None, reply_to: None, actor: actor(), command };
            crate::raw::append_when_there_is_room(
                producer,
                Topic::Commands,
                partition,
                key.as_bytes(),
                serde_json::to_vec(&record)?,
            );
        }
        producer.flush(PATIENCE)?;
        Ok(())
    }

    /// Defines jobs, in commands of a size that the catalogue takes.
    pub(crate) fn apply(&self, jobs: &[JobSpec]) -> anyhow::Result<()> {
        let mut rest = jobs;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take(APPLY_JOBS).take_while(|job| {
                bytes += JOB_BYTES + PARENT_BYTES * job.parents.len();
                bytes < APPLY_BYTES
            });
            let (chunk, later) = rest.split_at(fits.count().max(1));
            self.ask(
                ShardId::CATALOGUE,
                Command::Job(JobCommand::Apply {
                    jobs: chunk.to_vec(),
                    prune: Vec::new(),
                    cancel: false,
                    orphan_children: false,
                }),
            )?;
            rest = later;
        }
        Ok(())
    }

    /// The partition of the group's shard.
    pub(crate) fn journal_partition(&self) -> u32 {
        self.shard.partition(self.log.partitions(Topic::Journal))
    }

    /// Waits until `needle` has come `count` times in the group's journal, behind what was waited for before.
    pub(crate) fn until(&self, needle: &str, count: usize, patience: Duration) -> anyhow::Result<()> {
        let mut journals = self.journals.borrow_mut();
        let journal = journals.get_mut(self.journal_partition() as usize);
        journal.context("there is no such partition")?.until(needle, count, patience)
    }

    /// Bytes of the group's journal as far as it has been waited for.
    pub(crate) fn journal_bytes(&self) -> u64 {
        let journals = self.journals.borrow();
        journals.get(self.journal_partition() as usize).map_or(0, Watch::bytes)
    }

    /// How far the tables are.
    pub(crate) fn progress(&self) -> &Progress {
        &self.projector.progress
    }

    /// Waits until the tables and the feed show everything that the journals hold now.
    pub(crate) fn settle(&self) -> anyhow::Result<()> {
        let mut events = 0;
        for (partition, journal) in (0..).zip(self.journals.borrow_mut().iter_mut()) {
            let (in_partition, last) = journal.read_to_end(self.log.as_ref())?;
            events += in_partition;
            self.projector.wait_for_tables(partition, last)?;
        }
        self.projector.wait_for_feed(&self.log, events)
    }

    /// Stops the executor. What runs goes on.
    pub(crate) fn stop_work(&mut self) {
        if let Some((stop, thread)) = self.executor.take() {
            drop(stop);
            // A panic there was printed there.
            let _ = thread.join();
        }
    }

    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.stop_work();
        self.submitter.stop();
        self.dispatcher.stop()?;
        self.projector.stop();
        Ok(())
    }
}

/// What owners of a bench have.
fn secret() -> OwnersSecret {
    OwnersSecret::of("the secret of a bench")
}

fn actor() -> Actor {
    Actor { app: "bench".into(), user: None }
}

impl Projector {
    fn start(backend: Backend, log: &Arc<dyn Log>, directory: &Path) -> anyhow::Result<Self> {
        let tables: Arc<dyn Tables> = Arc::new(SqliteTables::open(directory.join("tables.db"))?);
        let (progress, shutdown) = (Progress::new(), Shutdown::new());
        let fed = Arc::new(AtomicU64::new(0));
        let projecting = {
            let (log, progress, shutdown) = (Arc::clone(log), progress.clone(), shutdown.clone());
            move || {
                let config = tidemill_projector::Config::default();
                if let Err(error) = tidemill_projector::run(&config, &log, &tables, &progress, &shutdown) {
                    eprintln!("the projector failed: {error}");
                }
            }
        };
        let feeding = {
            let (log, shutdown, fed) = (Arc::clone(log), shutdown.clone(), Arc::clone(&fed));
            move || {
                let result = match backend {
                    Backend::Kafka => publish(&log, &shutdown),
                    Backend::Embedded => subscribe(&log, &shutdown, &fed),
                };
                if let Err(error) = result {
                    eprintln!("the feed failed: {error}");
                }
            }
        };
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let threads = vec![named("projector").spawn(projecting)?, named("feed").spawn(feeding)?];
        Ok(Self { progress, fed, backend, shutdown, threads })
    }

    fn wait_for_tables(&self, partition: u32, last: u64) -> anyhow::Result<()> {
        if !self.progress.wait_until(partition, last, PATIENCE) {
            bail!("the tables of partition {partition} did not reach offset {last}");
        }
        Ok(())
    }

    fn wait_for_feed(&self, log: &Arc<dyn Log>, events: u64) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.published(log)? < events {
            if Instant::now() > deadline {
                bail!("the feed did not reach {events} events");
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn published(&self, log: &Arc<dyn Log>) -> anyhow::Result<u64> {
        if self.backend == Backend::Embedded {
            return Ok(self.fed.load(Ordering::Acquire));
        }
        let ranges = (0..log.partitions(Topic::Events)).map(|partition| log.range(Topic::Events, partition));
        Ok(ranges.map(|range| range.map(|range| range.end)).sum::<Result<u64, _>>()?)
    }

    fn stop(self) {
        self.shutdown.request();
        for thread in self.threads {
            // A panic there was printed there.
            let _ = thread.join();
        }
    }
}

fn publish(log: &Arc<dyn Log>, shutdown: &Shutdown) -> anyhow::Result<()> {
    Ok(tidemill_projector::publish(&PublishConfig::default(), log, &Progress::new(), shutdown)?)
}

/// On the embedded log the feed is made from the journal as it is read: one subscriber reads it.
fn subscribe(log: &Arc<dyn Log>, shutdown: &Shutdown, fed: &AtomicU64) -> anyhow::Result<()> {
    let mut reader = FeedReader::new(log.as_ref(), FeedCursor::start(log.log_id()))?;
    while !shutdown.is_requested() {
        if reader.next(Duration::from_millis(100))?.is_some() {
            fed.fetch_add(1, Ordering::AcqRel);
        }
    }
    Ok(())
}
