//! One interface, with everything that it stands on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tidemill_api::ports::{
    Admin, Cluster, ClusterStatus, Feed, FeedError, FeedEvent, FeedFrom, FeedReader, Moment, OperationState,
    OperationStatus, PartitionStatus, Past, PastError, Task,
};
use tidemill_api::{Config, Deps, JournalPast, LogCommands, Server, TablePositions};
use tidemill_cluster::{BoxFuture, Live, LiveError, Submitter, instance_id};
use tidemill_directory::Known;
use tidemill_log::MemoryLog;
use tidemill_model::{LiveAnswer, LiveQuery, Outcome, ShardId};
use tidemill_serving::Limits;
use tidemill_store::SqliteTables;
use tidemill_store::hints::MemoryHints;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::owner::{Owner, Script};
use crate::rows::{self, SECRET};

/// How the owner answers questions.
pub(crate) type Answers = Box<dyn Fn(ShardId, LiveQuery) -> Result<LiveAnswer, LiveError> + Send + Sync>;

struct ScriptedLive(Answers);

impl Live for ScriptedLive {
    fn query(&self, shard: ShardId, query: LiveQuery) -> BoxFuture<'_, Result<LiveAnswer, LiveError>> {
        // Definitions concern nobody here, where the test says nothing else.
        let concerns_nobody = matches!(query, LiveQuery::Notified { .. });
        let answer = match (self.0)(shard, query) {
            Ok(LiveAnswer::NotFound) if concerns_nobody => Ok(LiveAnswer::Notified { shards: Vec::new() }),
            answer => answer,
        };
        Box::pin(async move { answer })
    }
}

/// As the journal's past, one question at a time; a test may hold them.
pub(crate) struct HeldPast {
    past: JournalPast,
    answering: Mutex<()>,
    pub(crate) is_held: AtomicBool,
    /// Questions that came here.
    pub(crate) asked: AtomicUsize,
}

impl Past for HeldPast {
    fn query(&self, shard: ShardId, query: &LiveQuery, moment: Moment) -> Result<LiveAnswer, PastError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let Ok(_answering) = self.answering.try_lock() else { return Err(PastError::Busy) };
        while self.is_held.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        self.past.query(shard, query, moment)
    }
}

/// A feed whose cursors are indexes; it grows by [`Fixture::publish`].
#[derive(Clone, Default)]
pub(crate) struct ListFeed(Arc<Mutex<Vec<FeedEvent>>>);

struct ListReader {
    feed: ListFeed,
    next: usize,
}

impl Feed for ListFeed {
    fn open(&self, _: &Arc<str>, from: FeedFrom) -> Result<Box<dyn FeedReader>, FeedError> {
        let next = match from {
            FeedFrom::Start => 0,
            // Its events have no times.
            FeedFrom::End | FeedFrom::Time(_) => self.0.lock().unwrap().len(),
            FeedFrom::Cursor(cursor) => {
                let last: usize = cursor.parse().map_err(|_| FeedError::BadCursor { cursor })?;
                last + 1
            }
        };
        Ok(Box::new(ListReader { feed: self.clone(), next }))
    }
}

impl FeedReader for ListReader {
    fn poll(&mut self, max: usize, timeout: Duration) -> Result<Vec<FeedEvent>, FeedError> {
        let events: Vec<_> = self.feed.0.lock().unwrap().iter().skip(self.next).take(max).cloned().collect();
        self.next += events.len();
        if events.is_empty() {
            std::thread::park_timeout(timeout.min(Duration::from_millis(5)));
        }
        Ok(events)
    }
}

/// It is looked at by one at a time.
#[derive(Default)]
struct OnePartition {
    looks: AtomicUsize,
}

/// An operation that begins and never ends.
#[derive(Default)]
struct OneOperation(Mutex<Option<OperationStatus>>);

impl Admin for OneOperation {
    fn begin(&self, task: Task) -> Result<OperationStatus, Box<OperationStatus>> {
        let mut present = self.0.lock().unwrap();
        if let Some(running) = &*present {
            return Err(Box::new(running.clone()));
        }
        let state = OperationState::Running;
        let begun = OperationStatus {
            number: 1,
            operation: task.operation(),
            state,
            records: 3,
            total_records: 8,
            report: None,
            error: None,
        };
        Ok(present.insert(begun).clone())
    }

    fn status(&self) -> Option<OperationStatus> {
        self.0.lock().unwrap().clone()
    }
}

impl Cluster for OnePartition {
    fn status(&self) -> BoxFuture<'_, Result<ClusterStatus, String>> {
        let partition =
            PartitionStatus { epoch: 1, journal_end: 8, projected: 8, ..PartitionStatus::default() };
        let status = ClusterStatus {
            log_id: "test".to_owned(),
            partitions: vec![partition],
            paths: None,
            sinks: Vec::new(),
            stalled_readers: BTreeMap::from([("journal".to_owned(), 2)]),
            ..ClusterStatus::default()
        };
        Box::pin(async { Ok(status) })
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let others = self.looks.fetch_add(1, Ordering::SeqCst);
            // Others get their turn meanwhile.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            self.looks.fetch_sub(1, Ordering::SeqCst);
            if others == 0 { Ok(()) } else { Err(format!("{others} others look")) }
        })
    }
}

/// One interface, with everything that it stands on.
pub(crate) struct Fixture {
    pub(crate) owner: Owner,
    pub(crate) tables: Arc<SqliteTables>,
    pub(crate) address: SocketAddr,
    pub(crate) serving: JoinHandle<Result<(), tidemill_api::Error>>,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) feed: ListFeed,
    pub(crate) hints: Arc<MemoryHints>,
    pub(crate) past: Arc<HeldPast>,
    /// Nothing, until a test takes something in: then the tables are asked.
    pub(crate) known: Known,
    pub(crate) log: MemoryLog,
    client: reqwest::Client,
    _directory: tempfile::TempDir,
}

/// An answer as tests compare it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) media: String,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Value,
}

impl Answered {
    /// Status, media type and body, for snapshots.
    pub(crate) fn text(&self) -> String {
        let body = serde_json::to_string_pretty(&self.body).unwrap();
        format!("{} {}\n{body}\n", self.status, self.media)
    }

    pub(crate) fn code(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or(""))
    }
}

pub(crate) fn answers_done() -> Script {
    Box::new(|_| Some(Outcome::Done))
}

impl Fixture {
    pub(crate) async fn start(script: Script) -> Self {
        Self::with(Config::default(), script, Box::new(|_, _| Ok(LiveAnswer::NotFound))).await
    }

    pub(crate) async fn with(config: Config, script: Script, answers: Answers) -> Self {
        let limits = tidemill_serving::Config::default().for_everybody();
        Self::within(config, limits, script, answers).await
    }

    pub(crate) async fn within(config: Config, limits: Limits, script: Script, answers: Answers) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tables = Arc::new(SqliteTables::open(directory.path().join("tables.sqlite")).unwrap());
        rows::write_all(&*tables);
        Self::on((directory, tables), config, limits, (script, answers)).await
    }

    /// No table can be read.
    pub(crate) async fn without_tables(script: Script, answers: Answers) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tables = Arc::new(SqliteTables::open(directory.path().join("tables.sqlite")).unwrap());
        let limits = tidemill_serving::Config::default().for_everybody();
        Self::on((directory, tables), Config::default(), limits, (script, answers)).await
    }

    async fn on(
        (directory, tables): (tempfile::TempDir, Arc<SqliteTables>),
        config: Config,
        limits: Limits,
        (script, answers): (Script, Answers),
    ) -> Self {
        let log = MemoryLog::new(1);
        let owner = Owner::start(&log, script);
        // Nothing is lost here, however long an answer takes.
        let submit = tidemill_cluster::Config {
            resend_after_ms: 59_999,
            deadline_ms: 60_000,
            max_lag_ms: 600_000,
            ..Default::default()
        };
        let feed = ListFeed::default();
        let past = JournalPast::new(Arc::new(log.clone()), None, std::time::Duration::from_secs(5));
        let past = HeldPast {
            past,
            answering: Mutex::default(),
            is_held: false.into(),
            asked: AtomicUsize::default(),
        };
        let past = Arc::new(past);
        let hints = Arc::new(MemoryHints::new());
        let known = Known::new();
        let deps = Deps {
            past: past.clone(),
            known: known.clone(),
            commands: Arc::new(LogCommands::new(Arc::new(log.clone()))),
            tables: tables.clone(),
            submitter: Submitter::start(Arc::new(log.clone()), instance_id("test"), submit).unwrap(),
            live: Arc::new(ScriptedLive(answers)),
            freshness: Arc::new(TablePositions::new(tables.clone())),
            feed: Arc::new(feed.clone()),
            cluster: Arc::new(OnePartition::default()),
            admin: Arc::new(OneOperation::default()),
            roles: None,
            hints: hints.clone(),
            partitions: 1,
        };
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), ..config };
        let server = Server::bind(config, deps, limits).await.unwrap();
        let address = server.address().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(server.serve(async move {
            let _ = stopped.await;
        }));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let stop = Some(stop);
        Self {
            owner,
            tables,
            address,
            serving,
            stop,
            feed,
            hints,
            past,
            known,
            log,
            client,
            _directory: directory,
        }
    }

    /// A request with the super administrator's key.
    pub(crate) fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.request(reqwest::Method::GET, path, "root")
    }

    /// A request with the super administrator's key.
    pub(crate) fn post(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        self.request(reqwest::Method::POST, path, "root").json(body)
    }

    pub(crate) fn request(&self, method: reqwest::Method, path: &str, app: &str) -> reqwest::RequestBuilder {
        self.open(method, path).bearer_auth(format!("{app}:{SECRET}"))
    }

    /// A request without a key.
    pub(crate) fn open(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    pub(crate) fn publish(&self, shard: u16, event_type: &str, subject: &str) {
        let mut events = self.feed.0.lock().unwrap();
        let cursor = events.len().to_string();
        let json = format!(r#"{{"id":"{cursor}"}}"#);
        let (event_type, subject) = (event_type.to_owned(), subject.to_owned());
        events.push(FeedEvent { cursor, shard: ShardId(shard), event_type, subject, json });
    }
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Answered {
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (media, retry_after) = (header("content-type").unwrap_or_default(), header("retry-after"));
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answered { status, media, retry_after, body }
}
