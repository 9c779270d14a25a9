//! What every handler shares.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_cluster::{Live, Submitter};
use tidemill_directory::Known;
use tidemill_model::{BulkId, LiveAnswer, LiveQuery, ShardId};
use tidemill_seal::OwnersSecret;
use tidemill_serving::Limits;
use tidemill_serving::tls::Roles;
use tidemill_store::Tables;
use tidemill_store::hints::Hints;
use tokio::sync::{Notify, Semaphore, watch};

use crate::arrivals::Arrivals;
use crate::cookie::Cookie;
use crate::flow_seal::FlowSeal;
use crate::log_stores::Stores;
use crate::passwords::Passwords;
use crate::ports::{Admin, Cluster, Feed, Freshness, Past, SentCommands};
use crate::position::JournalPosition;
use crate::proxies::Proxies;
use crate::refusals::Refusals;
use crate::sign_in_limits::SignInLimits;
use crate::table_keys::TableKeys;
use crate::turns::{Told, Turns};
use crate::uses::Uses;
use crate::workers::Workers;
use crate::{Config, Error, Problem};

/// What the interface stands on.
#[derive(Clone)]
pub struct Deps {
    /// The read tables.
    pub tables: Arc<dyn Tables>,
    /// Sends commands.
    pub submitter: Submitter,
    /// Asks owners.
    pub live: Arc<dyn Live>,
    /// What is known of the catalogue at once: keys, groups, places of jobs and users, people. Somebody has to keep it.
    pub known: Known,
    /// Answers about the past.
    pub past: Arc<dyn Past>,
    /// Knows how far the tables are.
    pub freshness: Arc<dyn Freshness>,
    /// Commands as they were sent.
    pub commands: Arc<dyn SentCommands>,
    /// The public feed.
    pub feed: Arc<dyn Feed>,
    /// What is known of the whole.
    pub cluster: Arc<dyn Cluster>,
    /// Rebuilds and verifies.
    pub admin: Arc<dyn Admin>,
    /// How workers and stores are asked for logs, where roles speak encrypted.
    pub roles: Option<Roles>,
    /// What spares empty answers to those who pull.
    pub hints: Arc<dyn Hints>,
    /// Partitions of the journal.
    pub partitions: u32,
}

pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) deps: Deps,
    pub(crate) table_keys: TableKeys,
    pub(crate) workers: Workers,
    /// None: none is configured.
    pub(crate) stores: Option<Stores>,
    /// By which owners know what was checked here.
    pub(crate) secret: OwnersSecret,
    pub(crate) bulks: Bulks,
    /// Until the audit list has them.
    pub(crate) refusals: Refusals,
    /// The same of credentials that were shown.
    pub(crate) uses: Uses,
    pub(crate) passwords: Passwords,
    /// By whom people sign in, beside passwords.
    pub(crate) oidc: Option<tidemill_oidc::Provider>,
    pub(crate) flow_seal: FlowSeal,
    pub(crate) sign_in_limits: SignInLimits,
    pub(crate) proxies: Proxies,
    pub(crate) requests: Arc<Semaphore>,
    pub(crate) arrivals: Arc<Arrivals>,
    /// Answers that go on: how many of them are open, over all and for each key (OPS-7).
    pub(crate) streams: Arc<Turns>,
    /// Threads that read the feed for streams.
    pub(crate) feed_reads: Arc<Turns>,
    /// Questions about the past, of which one is answered at a time.
    pub(crate) past_reads: Arc<Turns>,
    pub(crate) waiting_pulls: Arc<Semaphore>,
    pub(crate) asking_pulls: Arc<Semaphore>,
    /// Whether it was ready, and when that was looked at.
    pub(crate) ready: tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>,
    /// True once the program stops.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Where each application wrote last by a call that gives no position.
    written: Mutex<HashMap<Arc<str>, JournalPosition>>,
}

/// What those are told whose answer would be one too many that goes on.
const STREAMS: Told =
    Told { what: "event streams and downloads", per_key: " (max_streams_per_key)", bound: " (max_streams)" };
/// Streams for which the feed is read at once; the others wait their turn.
const FEED_READS: usize = 4;
/// Questions about the past that are answered or wait for it, of all keys.
const PAST_READS: usize = 32;
/// Those of one key; keys take turns.
const PAST_READS_PER_KEY: usize = 2;

fn provider_of(config: &Config) -> Result<Option<tidemill_oidc::Provider>, Error> {
    let provider = config.sign_in.oidc.clone().map(tidemill_oidc::Provider::new).transpose();
    provider.map_err(|error| Error::Config(format!("sign_in.oidc: {error}")))
}

impl App {
    pub(crate) fn new(
        config: Config,
        limits: &Limits,
        deps: Deps,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        config.check().map_err(Error::Config)?;
        let config = config.within(limits);
        let peer_timeout = Duration::from_millis(config.peer_timeout_ms);
        Ok(Self {
            stores: Stores::new(&config, deps.roles.as_ref())?,
            bulks: Bulks::default(),
            secret: OwnersSecret::of(&config.internal_key),
            table_keys: TableKeys::default(),
            workers: Workers::new(&config.logs_key, peer_timeout, deps.roles.as_ref())?,
            refusals: Refusals::default(),
            uses: Uses::default(),
            passwords: Passwords::default(),
            oidc: provider_of(&config)?,
            flow_seal: FlowSeal::of(&config.internal_key),
            sign_in_limits: SignInLimits::default(),
            proxies: Proxies::of(&config.trusted_proxies).map_err(Error::Config)?,
            requests: Arc::new(Semaphore::new(config.max_requests)),
            arrivals: Arrivals::new(config.max_requests.min(limits.connections / 2), limits.per_address / 4),
            streams: Turns::new(STREAMS, config.max_streams, config.max_streams_per_key, config.max_streams),
            // What waits is bounded by the streams themselves.
            feed_reads: Turns::new(Told::of("reads of event streams"), FEED_READS, usize::MAX, usize::MAX),
            past_reads: Turns::new(Told::of("questions about the past"), 1, PAST_READS_PER_KEY, PAST_READS),
            waiting_pulls: Arc::new(Semaphore::new(config.max_waiting_pulls)),
            asking_pulls: Arc::new(Semaphore::new(config.max_pull_requests_in_flight)),
            ready: tokio::sync::Mutex::default(),
            stopping,
            written: Mutex::default(),
            config,
            deps,
        })
    }

    /// How sessions are kept in browsers.
    pub(crate) fn cookie(&self) -> Cookie {
        Cookie { is_secure: self.config.sign_in.secure_cookies }
    }

    /// How many pulls wait at the moment.
    pub(crate) fn pulls_waiting(&self) -> u32 {
        let free = self.waiting_pulls.available_permits();
        u32::try_from(self.config.max_waiting_pulls.saturating_sub(free)).unwrap_or(u32::MAX)
    }

    /// An application wrote here; reads of its own that miss something wait for it.
    pub(crate) fn remember(&self, app: &Arc<str>, position: JournalPosition) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(Arc::clone(app), position);
    }

    /// Where the application wrote last.
    pub(crate) fn remembered(&self, app: &str) -> Option<JournalPosition> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).get(app).copied()
    }

    /// Reads the tables, which block, on a thread that may.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Tables) -> Result<T, tidemill_store::Error> + Send + 'static,
    ) -> Result<T, Problem> {
        let tables = Arc::clone(&self.deps.tables);
        let read = tokio::task::spawn_blocking(move || ask(&*tables)).await;
        match read {
            Ok(result) => result.map_err(Problem::from),
            Err(_) => Err(Problem::internal("a read of the tables ended unexpectedly")),
        }
    }

    /// What the tables have under an id.
    ///
    /// # Errors
    /// They have nothing under it; the tables.
    pub(crate) async fn find<I, T>(
        &self,
        what: &str,
        id: I,
        ask: impl FnOnce(&dyn Tables, &I) -> Result<Option<T>, tidemill_store::Error> + Send + 'static,
    ) -> Result<T, Problem>
    where
        I: Clone + Display + Send + 'static,
        T: Send + 'static,
    {
        let wanted = id.clone();
        let found = self.read(move |tables| ask(tables, &wanted)).await?;
        found.ok_or_else(|| Problem::unknown(what, id))
    }

    /// Asks the owner of a shard; why it could not be asked is in the log.
    pub(crate) async fn ask(&self, shard: ShardId, query: LiveQuery) -> Result<LiveAnswer, Problem> {
        self.deps.live.query(shard, query).await.map_err(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "an owner could not be asked");
            Problem::unavailable("owner_unavailable", format!("{error}; try again later"))
        })
    }
}

/// The shard that a row names.
pub(crate) fn shard_in(column: i64) -> ShardId {
    ShardId(u16::try_from(column).expect("the tables hold the shard that an event named"))
}

/// What this instance knows of operations on many batches or jobs, beyond the tables: those that it began.
#[derive(Debug, Default)]
pub(crate) struct Bulks {
    own: Mutex<BTreeSet<BulkId>>,
    pub(crate) news: Notify,
}

impl Bulks {
    /// This instance took the request.
    pub(crate) fn begun(&self, bulk: BulkId) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).insert(bulk);
        self.news.notify_one();
    }

    pub(crate) fn is_own(&self, bulk: BulkId) -> bool {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).contains(&bulk)
    }

    pub(crate) fn keep(&self, open: &BTreeSet<BulkId>) {
        // One that the tables do not show yet has an id above those that they do.
        let newest = open.last().copied();
        let is_kept = |bulk: &BulkId| open.contains(bulk) || newest.is_none_or(|newest| *bulk > newest);
        self.own.lock().unwrap_or_else(PoisonError::into_inner).retain(is_kept);
    }
}
