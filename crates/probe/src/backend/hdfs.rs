//! A name node, or a name service, by a client that needs neither libhdfs nor a JVM.
//!
//! That client has no timeout of its own and retries a dead name node for minutes; both are switched off here and
//! done by the caller. A call that is dropped stays queued on the connection, so connections on which calls hung
//! are thrown away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hdfs_native::client::ListStatusIterator;
use hdfs_native::{Client, ClientBuilder, HdfsError};
use tidemill_model::Timestamp;

use super::{Backend, Fault, Found, LOOKED_AT_BELOW, Page, Pages, Target, of_millisecond, one_line};
use crate::config::Hdfs;

/// What a name node listens on where nothing else is said.
const DEFAULT_PORT: u16 = 8_020;
/// Entries in one page; name nodes have `dfs.ls.limit`, by default the same.
const PAGE: usize = 1_000;
/// A page of a listing costs a name node about as much as this many single looks (measured: 5 ms and 67 µs).
const LOOKS_PER_PAGE: usize = 64;

/// To how many further name nodes of a name service one call turns. All other retries are the caller's.
const SERVICE_FAILOVERS: u32 = 3;

/// A name node, or a name service.
#[derive(Debug)]
pub struct HdfsBackend {
    url: String,
    config: Hdfs,
    client: Mutex<Option<Client>>,
}

impl HdfsBackend {
    /// The name node `host:port`, or the name service, as configured. Nothing is connected yet.
    ///
    /// # Errors
    /// Settings that no client can be made of.
    pub fn open(name_node: &str, config: &Hdfs) -> Result<Self, Fault> {
        let url = format!("hdfs://{name_node}");
        let (url, client) = match build(&url, config) {
            // Neither a port nor a name service of that name: a host with the default port.
            Err(HdfsError::InvalidArgument(_)) if !name_node.contains(':') => {
                let url = format!("{url}:{DEFAULT_PORT}");
                let client = build(&url, config);
                (url, client)
            }
            client => (url, client),
        };
        let client = client.map_err(|error| Fault::Refused(one_line(&error)))?;
        Ok(Self { url, config: config.clone(), client: Mutex::new(Some(client)) })
    }

    fn client(&self) -> Result<Client, Fault> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let made = build(&self.url, &self.config).map_err(|error| Fault::Refused(one_line(&error)))?;
        Ok(client.insert(made).clone())
    }
}

fn build(url: &str, config: &Hdfs) -> Result<Client, HdfsError> {
    let mut settings: HashMap<String, String> = config.settings.clone().into_iter().collect();
    let name = url.trim_start_matches("hdfs://");
    let failovers = if name.contains(':') { 0 } else { SERVICE_FAILOVERS };
    settings.insert("dfs.client.failover.max.attempts".to_owned(), failovers.to_string());
    settings.entry("dfs.client.failover.sleep.base.millis".to_owned()).or_insert_with(|| "50".to_owned());
    // So that a client rebuilt does not begin with the name node that hung.
    settings.entry(format!("dfs.client.failover.random.order.{name}")).or_insert_with(|| "true".to_owned());
    let mut builder = ClientBuilder::new().with_url(url).with_config(settings);
    if let Some(directory) = &config.conf_dir {
        builder = builder.with_config_dir(directory);
    }
    if let Some(user) = &config.user {
        builder = builder.with_user(user);
    }
    builder.build()
}

/// `Ok(false)` where the error says that nothing is there.
fn absent_or_fault(error: HdfsError) -> Result<bool, Fault> {
    match &error {
        HdfsError::FileNotFound(_) => Ok(false),
        HdfsError::RPCError(class, message) | HdfsError::FatalRPCError(class, message) => {
            // A path below a file; whoever is no superuser gets it as a refusal.
            if class.ends_with(".FileNotFoundException") || message.contains("is not a directory") {
                return Ok(false);
            }
            let name = class.rsplit('.').next().unwrap_or(class);
            let line = message.lines().next().unwrap_or_default();
            let reason: String = format!("{name}: {line}").chars().take(300).collect();
            match name {
                "AccessControlException"
                | "AuthorizationException"
                | "InvalidPathException"
                | "UnresolvedLinkException"
                | "UnresolvedPathException" => Err(Fault::Refused(reason)),
                _ => Err(Fault::Unavailable(reason)),
            }
        }
        HdfsError::InvalidPath(_)
        | HdfsError::InvalidArgument(_)
        | HdfsError::UrlParseError(_)
        | HdfsError::UnsupportedFeature(_)
        | HdfsError::XmlParseError(_) => Err(Fault::Refused(one_line(&error))),
        _ => Err(Fault::Unavailable(one_line(&error))),
    }
}

impl Backend for HdfsBackend {
    fn look(&self, target: Target) -> BoxFuture<'static, Result<Found, Fault>> {
        let client = match self.client() {
            Ok(client) => client,
            Err(fault) => return std::future::ready(Err(fault)).boxed(),
        };
        async move {
            let present = match client.get_file_info(&target.inside).await {
                Ok(_) => true,
                Err(error) => absent_or_fault(error)?,
            };
            Ok(Found { present, calls: 1 })
        }
        .boxed()
    }

    fn changed_at(&self, inside: &str) -> BoxFuture<'static, Result<Option<Timestamp>, Fault>> {
        let client = match self.client() {
            Ok(client) => client,
            Err(fault) => return std::future::ready(Err(fault)).boxed(),
        };
        let inside = inside.to_owned();
        async move {
            let status = match client.get_file_info(&inside).await {
                Ok(status) => status,
                Err(error) => return absent_or_fault(error).map(|_| None),
            };
            let mut newest = status.modification_time;
            if status.isdir {
                let entries = client.list_status_iter(&inside, false);
                // What was found before a fault counts: it can only be newer.
                for _ in 0..LOOKED_AT_BELOW {
                    let Some(Ok(entry)) = entries.next().await else { break };
                    newest = newest.max(entry.modification_time);
                }
            }
            of_millisecond(newest).map(Some)
        }
        .boxed()
    }

    fn list(&self, directory: &str) -> Option<Box<dyn Pages>> {
        let client = self.client().ok()?;
        Some(Box::new(Listing { entries: Arc::new(client.list_status_iter(directory, false)), ended: false }))
    }

    fn looks_per_page(&self) -> usize {
        LOOKS_PER_PAGE
    }

    fn retries_hung(&self) -> bool {
        true
    }

    fn renew(&self) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

struct Listing {
    entries: Arc<ListStatusIterator>,
    ended: bool,
}

impl Pages for Listing {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, Fault>> {
        async move {
            if self.ended {
                return Ok(None);
            }
            let mut names = Vec::with_capacity(PAGE);
            while !self.ended && names.len() < PAGE {
                match self.entries.next().await {
                    // Name nodes give names without slashes, in the order of bytes.
                    Some(Ok(status)) => {
                        names.push(status.path.rsplit('/').next().unwrap_or_default().to_owned());
                    }
                    Some(Err(error)) => {
                        self.ended = true;
                        absent_or_fault(error)?;
                    }
                    None => self.ended = true,
                }
            }
            let complete_to = names.last().filter(|name| name.is_ascii()).cloned();
            Ok(Some(Page { names, complete_to, last: self.ended }))
        }
        .boxed()
    }
}
