//! A cluster that is not there: a memory log, owners that say what a test gives them, and decide everything.

pub(crate) mod service;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_log::{From, Log, MemoryLog, Readers, Topic, append_wait};
use tidemill_model::{
    Command, CommandRecord, LiveAnswer, LiveQuery, Outcome, QualityAsk, Reply, ShardId, ThingId, WantedThing,
};
use tidemill_producers::{Config, Outside, Submitter, instance_id};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const PARTITIONS: u32 = 4;

type Decide = dyn Fn(&CommandRecord) -> Outcome + Send + Sync;

/// The log, and what owners know.
pub(crate) struct Site {
    pub(crate) log: MemoryLog,
    pub(crate) things: Arc<Mutex<BTreeMap<ShardId, Vec<WantedThing>>>>,
    pub(crate) asks: Arc<Mutex<BTreeMap<ShardId, Vec<QualityAsk>>>>,
    heard: Arc<Mutex<Vec<CommandRecord>>>,
    end: Arc<AtomicBool>,
    owners: Vec<JoinHandle<()>>,
}

impl Site {
    /// Owners that decide everything as this says.
    pub(crate) fn start(decide: impl Fn(&CommandRecord) -> Outcome + Send + Sync + 'static) -> Self {
        let mut site = Self {
            log: MemoryLog::new(PARTITIONS),
            things: Arc::default(),
            asks: Arc::default(),
            heard: Arc::default(),
            end: Arc::default(),
            owners: Vec::new(),
        };
        let decide: Arc<Decide> = Arc::new(decide);
        for partition in 0..PARTITIONS {
            site.owners.push(site.own(partition, Arc::clone(&decide)));
        }
        site
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
        let (things, asks) = (Arc::clone(&self.things), Arc::clone(&self.asks));
        let known = Arc::clone(&self.things);
        let gates = Arc::clone(&self.asks);
        let submitter =
            Submitter::start(Arc::new(self.log.clone()), instance_id(name), Config::default()).unwrap();
        Outside {
            log: Arc::new(self.log.clone()),
            submitter,
            ask: Arc::new(move |shard, query| {
                Ok(match query {
                    LiveQuery::WantedThings { after, limit } => {
                        let all = things.lock().unwrap().get(&shard).cloned().unwrap_or_default();
                        let (things, more) = page(all, after, limit, |thing| thing.id);
                        LiveAnswer::Wanted { things, more }
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
        let thing = |(number, path): (i64, String)| WantedThing {
            id: ThingId::mint(number as u64, shard),
            generation: 1,
            path: path.into(),
            mark: None,
            urgent: false,
            nudge: 0,
        };
        self.things.lock().unwrap().insert(shard, (1..).zip(paths).map(thing).collect());
    }

    /// Commands so far.
    pub(crate) fn heard(&self) -> Vec<(ShardId, Command)> {
        let heard = self.heard.lock().unwrap();
        heard.iter().map(|record| (record.shard, record.command.clone())).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        for owner in self.owners.drain(..) {
            owner.join().unwrap();
        }
    }
}

/// As owners give it: two things at most, so that there are pages.
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
