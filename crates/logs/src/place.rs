//! Where logs are kept: objects in a directory, a bucket or HDFS, each there as a whole or not at all.
//!
//! Every call has a bound of time: the client of HDFS has none, and calls that hang block the connection. After one that took
//! too long the next one has a new client.

use std::future::Future;
use std::os::fd::AsFd as _;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutPayload};
use tokio::sync::Semaphore;

use crate::error::Source;
use crate::{Config, Error};

/// Between two times that what was written to a directory is made durable.
const SYNC_EVERY: Duration = Duration::from_secs(5);

type Open = Box<dyn Fn() -> Result<Arc<dyn ObjectStore>, Source> + Send + Sync>;

/// A place.
pub(crate) struct Place {
    /// For people.
    pub(crate) name: String,
    prefix: Path,
    open: Open,
    client: Mutex<Option<Arc<dyn ObjectStore>>>,
    calls: Semaphore,
    timeout: Duration,
    /// Of a directory: open all the time, so that no error of its disk is told to somebody else.
    directory: Option<Arc<std::fs::File>>,
    /// Whether a place that is not there says so where it is listed.
    is_bucket: bool,
}

/// An object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) path: Path,
    pub(crate) bytes: u64,
    /// When it was written, milliseconds since 1970.
    pub(crate) written_ms: i64,
}

impl Place {
    /// Opens the place of a configuration. Nothing is connected yet.
    pub(crate) fn open(name: &str, config: &Config) -> Result<Self, Error> {
        let failed = |source: Source| Error::Open { place: name.to_owned(), source };
        let (prefix, open, directory) = match name.split_once("://") {
            Some(("s3", inside)) => s3(inside, config).map_err(failed)?,
            Some(("hdfs", inside)) => hdfs(inside, config).map_err(failed)?,
            _ => directory(FilePath::new(name)).map_err(failed)?,
        };
        // Settings that no client can be made of are told now. The one that is used is made where it is.
        drop(open().map_err(failed)?);
        Ok(Self {
            name: name.to_owned(),
            prefix,
            open,
            client: Mutex::new(None),
            calls: Semaphore::new(config.calls_in_flight as usize),
            timeout: config.call_timeout(),
            directory: directory
                .map(std::fs::File::open)
                .transpose()
                .map_err(|error| failed(error.into()))?
                .map(Arc::new),
            is_bucket: name.starts_with("s3://"),
        })
    }

    /// Whether several stores see the same objects there.
    pub(crate) fn is_shared(&self) -> bool {
        self.directory.is_none()
    }

    /// The path of an object with this name.
    pub(crate) fn path(&self, name: &str) -> Path {
        name.split('/').filter(|part| !part.is_empty()).fold(self.prefix.clone(), Path::join)
    }

    /// What is below a name, however deep.
    pub(crate) async fn list(&self, name: &str) -> Result<Vec<Object>, Error> {
        let below = self.path(name);
        let objects = self
            .call("list objects", |client| async move {
                client.list(Some(&below)).map_ok(|meta| object(&meta)).try_collect::<Vec<_>>().await
            })
            .await?;
        match objects {
            // Nothing is below a name that is not there; but a bucket is.
            None if self.is_bucket => Err(self.failed("list objects")("there is no such bucket".into())),
            objects => Ok(objects.unwrap_or_default()),
        }
    }

    /// The last parts of the names directly below a name that have objects below them.
    pub(crate) async fn directories(&self, name: &str) -> Result<Vec<String>, Error> {
        let below = self.path(name);
        let found = self
            .call("list objects", |client| async move { client.list_with_delimiter(Some(&below)).await })
            .await?;
        let prefixes = found.map(|found| found.common_prefixes).unwrap_or_default();
        Ok(prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect())
    }

    /// These bytes of an object; `None`: there is none.
    pub(crate) async fn read(
        &self,
        path: &Path,
        range: std::ops::Range<u64>,
    ) -> Result<Option<Bytes>, Error> {
        if range.is_empty() {
            return Ok(Some(Bytes::new()));
        }
        let path = path.clone();
        self.call("read an object", |client| async move { client.get_range(&path, range).await }).await
    }

    /// Writes an object of these pieces, in the place of one of the same name. What of a directory is not durable yet is after [`Self::sync`].
    pub(crate) async fn write(&self, path: &Path, pieces: Vec<Bytes>) -> Result<(), Error> {
        let (path, bytes) = (path.clone(), PutPayload::from_iter(pieces));
        let written =
            self.call("write an object", |client| async move { client.put(&path, bytes).await }).await?;
        let absent = || self.failed("write an object")("there is no such bucket or directory".into());
        written.map(drop).ok_or_else(absent)
    }

    /// Removes an object; that there is none is no error.
    pub(crate) async fn remove(&self, path: &Path) -> Result<(), Error> {
        let path = path.clone();
        self.call("remove an object", |client| async move { client.delete(&path).await }).await.map(drop)
    }

    /// Removes a directory in which nothing is any more, where empty ones stay. That one stays is no error.
    pub(crate) async fn remove_directory(&self, name: &str) {
        if self.name.starts_with("hdfs://") {
            let _ = self.remove(&self.path(name)).await;
        }
    }

    /// How often [`Self::sync`] is worth its cost; `None`: never, for what is written is durable.
    pub(crate) fn sync_every(&self) -> Option<Duration> {
        self.directory.is_some().then_some(SYNC_EVERY)
    }

    /// Makes durable what was written to a directory.
    pub(crate) async fn sync(&self) -> Result<(), Error> {
        let Some(directory) = self.directory.clone() else { return Ok(()) };
        let synced = tokio::task::spawn_blocking(move || {
            // One call for all that was written, instead of two for each object.
            rustix::fs::syncfs(directory.as_fd()).map_err(std::io::Error::from)
        });
        let synced = synced.await.map_err(std::io::Error::other).flatten();
        synced.map_err(|error| self.failed("make objects durable")(error.into()))
    }

    async fn call<T, F>(
        &self,
        what: &'static str,
        work: impl FnOnce(Arc<dyn ObjectStore>) -> F,
    ) -> Result<Option<T>, Error>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let _one = self.calls.acquire().await.map_err(|error| self.failed(what)(error.into()))?;
        let client = self.client().map_err(self.failed(what))?;
        match tokio::time::timeout(self.timeout, work(client)).await {
            Ok(Ok(done)) => Ok(Some(done)),
            Ok(Err(StoreError::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(self.failed(what)(error.into())),
            Err(_) => {
                *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Err(self.failed(what)(format!("no answer within {} s", self.timeout.as_secs()).into()))
            }
        }
    }

    fn client(&self) -> Result<Arc<dyn ObjectStore>, Source> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        Ok(Arc::clone(client.insert((self.open)()?)))
    }

    fn failed(&self, what: &'static str) -> impl Fn(Source) -> Error {
        let place = self.name.clone();
        move |source| Error::Place { what, place: place.clone(), source }
    }
}

fn object(meta: &ObjectMeta) -> Object {
    Object {
        path: meta.location.clone(),
        bytes: meta.size,
        written_ms: meta.last_modified.timestamp_millis(),
    }
}

type Opened = (Path, Open, Option<std::path::PathBuf>);

fn directory(path: &FilePath) -> Result<Opened, Source> {
    std::fs::create_dir_all(path)?;
    let root = path.to_owned();
    let open = move || -> Result<Arc<dyn ObjectStore>, Source> {
        Ok(Arc::new(LocalFileSystem::new_with_prefix(&root)?.with_automatic_cleanup(true)))
    };
    Ok((Path::default(), Box::new(open), Some(path.to_owned())))
}

#[cfg(feature = "s3")]
fn s3(inside: &str, config: &Config) -> Result<Opened, Source> {
    /// For one request; the call as a whole has its own bound.
    const CONNECT: Duration = Duration::from_secs(5);
    const RETRIES: usize = 2;
    let (bucket, prefix) = inside.split_once('/').unwrap_or((inside, ""));
    let (bucket, s3, answer) = (bucket.to_owned(), config.s3.clone(), config.call_timeout());
    let open = move || -> Result<Arc<dyn ObjectStore>, Source> {
        let access = tidemill_probe::S3Access {
            endpoint: s3.endpoint.as_deref(),
            region: &s3.region,
            keys: s3.access_key_id.as_deref().zip(s3.secret_access_key.as_deref()),
            connect: CONNECT,
            answer,
            retries: RETRIES,
        };
        Ok(Arc::new(tidemill_probe::s3_client(&bucket, &access)?))
    };
    Ok((Path::from(prefix), Box::new(open), None))
}

#[cfg(not(feature = "s3"))]
fn s3(_: &str, _: &Config) -> Result<Opened, Source> {
    Err("this program was built without S3; build it with `--features s3`".into())
}

#[cfg(feature = "hdfs")]
fn hdfs(inside: &str, config: &Config) -> Result<Opened, Source> {
    /// To how many further name nodes of a name service one call turns.
    const FAILOVERS: u32 = 3;
    let (node, path) = inside.split_once('/').unwrap_or((inside, ""));
    let (node, hdfs) = (node.to_owned(), config.hdfs.clone());
    let failovers = if node.contains(':') { 0 } else { FAILOVERS };
    let open = move || -> Result<Arc<dyn ObjectStore>, Source> {
        let mut settings: std::collections::HashMap<String, String> =
            hdfs.settings.clone().into_iter().collect();
        settings.entry("dfs.client.failover.max.attempts".to_owned()).or_insert(failovers.to_string());
        let mut builder =
            hdfs_native::ClientBuilder::new().with_url(format!("hdfs://{node}")).with_config(settings);
        // One of its own could not be dropped by a task.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            builder = builder.with_io_runtime(runtime);
        }
        if let Some(directory) = &hdfs.conf_dir {
            builder = builder.with_config_dir(directory);
        }
        if let Some(user) = &hdfs.user {
            builder = builder.with_user(user);
        }
        Ok(Arc::new(hdfs_native_object_store::HdfsObjectStore::new(builder.build()?)))
    };
    Ok((Path::from(path), Box::new(open), None))
}

#[cfg(not(feature = "hdfs"))]
fn hdfs(_: &str, _: &Config) -> Result<Opened, Source> {
    Err("this program was built without HDFS; build it with `--features hdfs`".into())
}
