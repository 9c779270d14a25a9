//! Which stores of logs there are, and which partitions' attempts each has.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidemill_cluster::Peers;
use tidemill_model::{LogParts, ShardId};
use tidemill_serving::tls::Roles;

use crate::Error;

/// Addresses that all their names stand for; what is beyond is not asked.
const MAX_STORES: usize = 256;
/// What is known is looked at again after so long.
const FRESH: Duration = Duration::from_secs(1);
/// And is waited for where it is older than this.
const KNOWN_FOR: Duration = Duration::from_secs(5);
/// Looking for names and parts takes no longer.
const LOOKS_WITHIN: Duration = Duration::from_secs(1);

/// A store.
pub(super) struct Store {
    /// Its name and port, as configured.
    pub(super) name: String,
    pub(super) address: SocketAddr,
    /// Connects to its address alone, whatever else its name stands for.
    pub(super) client: reqwest::Client,
}

/// A store, and what it says it has; `None`: it does not answer.
#[derive(Clone)]
struct Seen {
    store: Arc<Store>,
    parts: Option<LogParts>,
}

/// What was found at a time.
#[derive(Clone)]
pub(super) struct Found {
    at: Instant,
    stores: Arc<[Seen]>,
    /// Whether every name stood for an address.
    all_resolved: bool,
}

/// Whom to ask about an attempt.
pub(super) struct Askable {
    /// Those that have its partition, then the other ones that answer.
    pub(super) stores: Vec<Arc<Store>>,
    /// Whether all stores are among them, one of which has the partition: what none of them has is kept nowhere.
    pub(super) is_all: bool,
}

/// Looks for stores when they are needed.
pub(super) struct KnownStores {
    names: Vec<String>,
    roles: Option<Roles>,
    scheme: &'static str,
    internal_key: String,
    timeout: Duration,
    found: Mutex<Option<Found>>,
    /// One looks at a time.
    looking: Arc<tokio::sync::Mutex<()>>,
}

impl KnownStores {
    pub(super) fn new(
        names: &[String],
        internal_key: &str,
        timeout: Duration,
        roles: Option<&Roles>,
    ) -> Result<Self, Error> {
        let known = Self {
            names: names.to_vec(),
            scheme: Peers::new(roles).scheme,
            roles: roles.cloned(),
            internal_key: internal_key.to_owned(),
            timeout,
            found: Mutex::new(None),
            looking: Arc::default(),
        };
        // What the configuration says is not right shows now, not with the first reader.
        known.client("localhost", SocketAddr::from(([127, 0, 0, 1], 0))).map_err(Error::Client)?;
        Ok(known)
    }

    pub(super) fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// The stores, from what is at most some seconds old.
    pub(super) async fn now(self: &Arc<Self>) -> Found {
        match self.last() {
            Some(found) if found.at.elapsed() < FRESH => found,
            Some(found) if found.at.elapsed() < KNOWN_FOR => {
                if let Ok(looking) = Arc::clone(&self.looking).try_lock_owned() {
                    let known = Arc::clone(self);
                    tokio::spawn(async move {
                        known.look().await;
                        drop(looking);
                    });
                }
                found
            }
            Some(_) | None => {
                let _looking = self.looking.lock().await;
                // Somebody else may have looked meanwhile.
                match self.last() {
                    Some(found) if found.at.elapsed() < FRESH => found,
                    Some(_) | None => self.look().await,
                }
            }
        }
    }

    fn last(&self) -> Option<Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn look(&self) -> Found {
        let (addresses, all_resolved) = self.addresses().await;
        let last = self.last();
        let before = |name: &str, address: SocketAddr| {
            let stores = last.iter().flat_map(|found| found.stores.iter());
            let is_it = |seen: &&Seen| seen.store.name == name && seen.store.address == address;
            stores.into_iter().find(is_it).map(|seen| Arc::clone(&seen.store))
        };
        let stores = addresses.into_iter().filter_map(|(name, address)| {
            before(&name, address).or_else(|| match self.client(host_of(&name), address) {
                Ok(client) => Some(Arc::new(Store { name, address, client })),
                Err(error) => {
                    tracing::warn!(%error, name, "a store of logs cannot be asked");
                    None
                }
            })
        });
        let seen = stores.map(|store| async move { Seen { parts: self.parts(&store).await, store } });
        let stores = without_silent_families(join_all(seen).await).into();
        let found = Found { at: Instant::now(), stores, all_resolved };
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
        found
    }

    /// What the names stand for, each address once; and whether every name stood for one. Of a name that cannot be looked up at
    /// the moment those of before count.
    async fn addresses(&self) -> (Vec<(String, SocketAddr)>, bool) {
        let looked_up = self.names.iter().map(|name| async move {
            let found = tokio::time::timeout(LOOKS_WITHIN, tokio::net::lookup_host(name.as_str())).await;
            let found: Vec<_> = found.ok().and_then(Result::ok).into_iter().flatten().collect();
            (name, found)
        });
        let last = self.last();
        let (mut addresses, mut all_resolved) = (BTreeMap::new(), true);
        for (name, mut found) in join_all(looked_up).await {
            if found.is_empty() {
                all_resolved = false;
                tracing::warn!(name, "the name of a store of logs stands for no address at the moment");
                let stores = last.iter().flat_map(|last| last.stores.iter());
                found = stores.filter(|it| it.store.name == *name).map(|it| it.store.address).collect();
            }
            for address in found {
                addresses.entry(address).or_insert_with(|| name.clone());
            }
        }
        let addresses = addresses.into_iter().map(|(address, name)| (name, address));
        (addresses.take(MAX_STORES).collect(), all_resolved)
    }

    fn client(&self, host: &str, address: SocketAddr) -> Result<reqwest::Client, reqwest::Error> {
        let quiet = self.timeout + super::stores::WAITS;
        Peers::new(self.roles.as_ref()).client(|builder| {
            builder.connect_timeout(self.timeout).read_timeout(quiet).resolve(host, address)
        })
    }

    async fn parts(&self, store: &Store) -> Option<LogParts> {
        let url = format!("{}://{}/parts", self.scheme, store.name);
        let request = store.client.get(url).bearer_auth(&self.internal_key);
        let sent = request.timeout(self.timeout.min(LOOKS_WITHIN)).send().await;
        let read = async { sent?.error_for_status()?.json().await };
        let read: Result<LogParts, reqwest::Error> = read.await;
        read.inspect_err(|error| {
            let (name, address) = (&store.name, store.address);
            let error = error as &dyn std::error::Error;
            tracing::debug!(name, %address, error, "a store of logs does not say what it has");
        })
        .ok()
    }
}

impl Found {
    /// Whom to ask about attempts of this shard.
    pub(super) fn askable(&self, shard: ShardId) -> Askable {
        let has = |seen: &&Seen| {
            let has = |parts: &LogParts| parts.mine.contains(&shard.partition(parts.count));
            seen.parts.as_ref().is_some_and(has)
        };
        let (mut stores, mut others) = (Vec::new(), Vec::new());
        for seen in self.stores.iter().filter(|seen| seen.parts.is_some()) {
            let to = if has(&seen) { &mut stores } else { &mut others };
            to.push(Arc::clone(&seen.store));
        }
        let is_owned = !stores.is_empty();
        stores.append(&mut others);
        let is_all = is_owned && self.all_resolved && stores.len() == self.stores.len();
        Askable { stores, is_all }
    }

    /// The first store that says that it has attempts of this shard.
    pub(super) fn owner(&self, shard: ShardId) -> Option<SocketAddr> {
        let has = |parts: &LogParts| parts.mine.contains(&shard.partition(parts.count));
        let owner = self.stores.iter().find(|seen| seen.parts.as_ref().is_some_and(has));
        owner.map(|seen| seen.store.address)
    }
}

/// Without the addresses of a name that are of a family of which none answers, where one of the other family does: the name stands
/// for hosts that are known by both, and listen on one.
fn without_silent_families(seen: Vec<Seen>) -> Vec<Seen> {
    let answers = |name: &str, is_v4: bool| {
        let is_it = |it: &Seen| it.store.name == name && it.store.address.is_ipv4() == is_v4;
        seen.iter().any(|it| is_it(it) && it.parts.is_some())
    };
    let is_silent = |Seen { store, .. }: &Seen| {
        let is_v4 = store.address.is_ipv4();
        !answers(&store.name, is_v4) && answers(&store.name, !is_v4)
    };
    seen.iter().filter(|it| !is_silent(it)).cloned().collect()
}

/// Of `host:port`; an address of IPv6 has brackets.
fn host_of(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(host, _)| host)
}
