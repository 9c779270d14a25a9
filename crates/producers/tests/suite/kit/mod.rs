//! A cluster that is not there: a memory log, owners that say what a test gives them, and decide everything.

pub(crate) mod service;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_cluster::{Config, Submitter, instance_id};
use tidemill_log::{From, Log, MemoryLog, Readers, Topic, append_wait};
use tidemill_model::{
    Command, CommandRecord, ExternalDependencyId, LiveAnswer, LiveQuery, Outcome, QualityQuestion, Reply,
    ShardId, WantedExternalDependency, WantedOutput,
};
use tidemill_producers::Outside;
use tidemill_seal::OwnersSecret;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const PARTITIONS: u32 = 4;
/// `internal.key` of that cluster.
pub(crate) const INTERNAL: &str = "internal";

type Decide = dyn Fn(&CommandRecord) -> Outcome + Send + Sync;

/// The log, and what owners know.
pub(crate) struct Fixture {
    pub(crate) log: MemoryLog,
    pub(crate) external_dependencies: Arc<Mutex<BTreeMap<ShardId, Vec<WantedExternalDependency>>>>,
    /// Those of the first shard.
    pub(crate) outputs: Arc<Mutex<Vec<WantedOutput>>>,
    pub(crate) asks: Arc<Mutex<BTreeMap<ShardId, Vec<QualityQuestion>>>>,
    heard: Arc<Mutex<Vec<CommandRecord>>>,
    end: Arc<AtomicBool>,
    owners: Vec<JoinHandle<()>>,
}

impl Fixture {
    /// Owners that decide everything as this says.
    pub(crate) fn start(decide: impl Fn(&CommandRecord) -> Outcome + Send + Sync + 'static) -> Self {
        let mut fixture = Self {
            log: MemoryLog::new(PARTITIONS),
            external_dependencies: Arc::default(),
            outputs: Arc::default(),
            asks: Arc::default(),
            heard: Arc::default(),
            end: Arc::default(),
            owners: Vec::new(),
        };
        let decide: Arc<Decide> = Arc::new(decide);
        for partition in 0..PARTITIONS {
            fixture.owners.push(fixture.own(partition, Arc::clone(&decide)));
        }
        fixture
    }

    fn own(&self, partition: u32, decide: Arc<Decide>) -> JoinHandle<()> {
        let (log, heard, end) = (self.log.clone(), Arc::clone(&self.heard), Arc::clone(&self.end));
        let mut reader = log.reader(Topic::Commands, partition, From::Start).unwrap();
        std::thread::spawn(move || {
            let producer = log.producer().unwrap();
            while !end.load(Ordering::SeqCst) {
                for record in reader.poll(100, Duration::from_millis(20)).unwrap() {
                    let command: CommandRecord = serde_json::from_slice(&record.value).unwrap();
                    let reply = Reply {
                        request: command.request.clone().unwrap(),
                        outcome: decide(&command),
                        partition,
                        offset: record.offset,
                    };
                    let to = command.reply_to.clone().unwrap();
                    heard.lock().unwrap().push(command);
                    let at = tidemill_log::partition_of_key(to.as_str(), log.partitions(Topic::Replies));
                    let value = serde_json::to_vec(&reply).unwrap();
                    let key = to.as_str().as_bytes();
                    append_wait(&*producer, Topic::Replies, at, key, value, PATIENCE).unwrap();
                }
            }
        })
    }

    /// What a process of this name sees of it.
    pub(crate) fn outside(&self, name: &str) -> Outside {
        let (external_dependencies, asks) = (Arc::clone(&self.external_dependencies), Arc::clone(&self.asks));
        let (known, lost) = (Arc::clone(&self.external_dependencies), Arc::clone(&self.outputs));
        let gates = Arc::clone(&self.asks);
        let submitter =
            Submitter::start(Arc::new(self.log.clone()), instance_id(name), Config::default()).unwrap();
        Outside {
            log: Arc::new(self.log.clone()),
            submitter,
            secret: OwnersSecret::of(INTERNAL),
            ask: Arc::new(move |shard, query| {
                Ok(match query {
                    LiveQuery::WantedExternalDependencies { after, limit } => {
                        let all =
                            external_dependencies.lock().unwrap().get(&shard).cloned().unwrap_or_default();
                        let (external_dependencies, more) =
                            page(all, after, limit, |external_dependency| external_dependency.id);
                        let outputs = if after.is_none() { lost.lock().unwrap().clone() } else { Vec::new() };
                        LiveAnswer::Wanted { external_dependencies, more, outputs }
                    }
                    LiveQuery::WantedQuality { after, limit } => {
                        let all = asks.lock().unwrap().get(&shard).cloned().unwrap_or_default();
                        let (asks, more) = page(all, after, limit, |ask| ask.batch);
                        LiveAnswer::WantedQuality { asks, more }
                    }
                    other => return Err(format!("{other:?}")),
                })
            }),
            shards: Arc::new(move || {
                let mut shards: Vec<ShardId> = known.lock().unwrap().keys().copied().collect();
                shards.extend(gates.lock().unwrap().keys());
                shards.sort_unstable();
                shards.dedup();
                Ok(shards)
            }),
            instance: name.into(),
        }
    }

    /// Makes these the paths that a shard waits for.
    pub(crate) fn wait_for(&self, shard: ShardId, paths: impl IntoIterator<Item = String>) {
        let external_dependency = |(number, path): (i64, String)| WantedExternalDependency {
            id: ExternalDependencyId::mint(number as u64, shard),
            generation: 1,
            path: path.into(),
            mark: None,
            urgent: false,
            nudge: 0,
        };
        self.external_dependencies
            .lock()
            .unwrap()
            .insert(shard, (1..).zip(paths).map(external_dependency).collect());
    }

    /// Commands so far.
    pub(crate) fn heard(&self) -> Vec<(ShardId, Command)> {
        let heard = self.heard.lock().unwrap();
        heard.iter().map(|record| (record.shard, record.command.clone())).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        for owner in self.owners.drain(..) {
            owner.join().unwrap();
        }
    }
}

/// As owners give it: two external dependencies at most, so that there are pages.
fn page<T, K: PartialOrd>(
    all: Vec<T>,
    after: Option<K>,
    limit: u32,
    key: impl Fn(&T) -> K,
) -> (Vec<T>, bool) {
    let limit = if all.len() < 100 { 2 } else { limit as usize };
    let rest: Vec<T> =
        all.into_iter().filter(|it| after.as_ref().is_none_or(|after| key(it) > *after)).collect();
    let more = rest.len() > limit;
    (rest.into_iter().take(limit).collect(), more)
}

/// Waits until there is something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun_at = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun_at.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
