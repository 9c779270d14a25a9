//! Segments as objects of a bucket: an object is there whole or not at all.

use std::collections::BTreeSet;
use std::future::Future;
use std::ops::Range;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use object_store::aws::AmazonS3;
use object_store::path::Path as Key;
use object_store::{Error as StoreError, ObjectStore as _, ObjectStoreExt as _};
use tidemill_log::Source;
use tidemill_probe::{S3Access, s3_client};
use tokio::runtime::{Builder, Runtime};

use super::{Listing, Object, Store};
use crate::{Error, S3Config};

const CONNECT: Duration = Duration::from_secs(5);
/// For one request; segments are some megabytes.
const ANSWER: Duration = Duration::from_secs(60);
/// A request that fails is sent again so often; readers have nobody who begins anew.
const RETRIES: usize = 3;

/// A prefix of a bucket.
pub struct S3Store {
    place: String,
    prefix: String,
    store: AmazonS3,
    runtime: Runtime,
}

impl S3Store {
    /// Objects below `s3://bucket/prefix`. Nothing is connected yet.
    ///
    /// # Errors
    /// No client can be made of the settings.
    pub fn new(place: &str, config: &S3Config) -> Result<Self, Error> {
        let failed = |source: Source| Error::Open { place: place.to_owned(), source };
        let inside = place.strip_prefix("s3://").unwrap_or(place);
        let (bucket, prefix) = inside.split_once('/').unwrap_or((inside, ""));
        let access = S3Access {
            endpoint: config.endpoint.as_deref(),
            region: &config.region,
            keys: config.access_key_id.as_deref().zip(config.secret_access_key.as_deref()),
            connect: CONNECT,
            answer: ANSWER,
            retries: RETRIES,
        };
        let store = s3_client(bucket, &access).map_err(|error| failed(error.into()))?;
        // Readers on several threads wait for it at once.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("archive-s3")
            .enable_all()
            .build()
            .map_err(|error| failed(error.into()))?;
        let (place, prefix) = (place.trim_end_matches('/').to_owned(), prefix.trim_matches('/').to_owned());
        Ok(Self { place, prefix, store, runtime })
    }

    fn key(&self, name: &str) -> Key {
        let parts = [self.prefix.as_str(), name].into_iter().filter(|part| !part.is_empty());
        Key::from(parts.collect::<Vec<_>>().join("/"))
    }

    /// The next parts of the names of all that is below a key.
    fn parts_below(&self, key: &Key) -> Result<Vec<String>, Source> {
        let parts = self.store.list(Some(key)).try_fold(BTreeSet::new(), async |mut parts, object| {
            let mut below = object.location.prefix_match(key).into_iter().flatten();
            parts.extend(below.next().map(|part| part.as_ref().to_owned()));
            Ok(parts)
        });
        Ok(self.wait(parts)?.unwrap_or_default().into_iter().collect())
    }

    /// What is asked; `None`: there is no such object.
    fn wait<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<Option<T>, Source> {
        match self.runtime.block_on(work) {
            Ok(done) => Ok(Some(done)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Store for S3Store {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn list(&self, name: &str) -> Result<Listing, Source> {
        let key = self.key(name);
        let found = self.wait(self.store.list_with_delimiter(Some(&key)))?;
        let Some(found) = found else { return Ok(Listing::default()) };
        let object = |object: &object_store::ObjectMeta| {
            Some(Object { name: object.location.filename()?.to_owned(), bytes: object.size })
        };
        let mut listing = Listing {
            objects: found.objects.iter().filter_map(object).collect(),
            directories: found.common_prefixes.iter().filter_map(Key::filename).map(str::to_owned).collect(),
        };
        if listing == Listing::default() {
            // Some servers leave out what has objects only further below.
            listing.directories = self.parts_below(&key)?;
        }
        listing.objects.sort();
        listing.directories.sort();
        Ok(listing)
    }

    fn read(&self, name: &str, range: Range<u64>) -> Result<Option<Vec<u8>>, Source> {
        let key = self.key(name);
        if range.is_empty() {
            return Ok(Some(Vec::new()));
        }
        Ok(self.wait(self.store.get_range(&key, range))?.map(Into::into))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Source> {
        let (key, bytes) = (self.key(name), bytes.to_vec());
        self.wait(self.store.put(&key, bytes.into()))?
            .map(drop)
            .ok_or_else(|| "there is no such bucket".into())
    }

    fn remove(&self, name: &str) -> Result<(), Source> {
        let key = self.key(name);
        self.wait(self.store.delete(&key)).map(drop)
    }
}
