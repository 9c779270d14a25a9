//! Files in a bucket: an object is there whole or not at all, so nothing is written elsewhere first.

use std::future::Future;
use std::time::Duration;

use object_store::aws::AmazonS3;
use object_store::path::Path as Key;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt};
use tidemill_probe::{S3Access, s3_client};
use tokio::runtime::{Builder, Runtime};

use super::Files;
use crate::Error;
use crate::config::S3Config;

const CONNECT: Duration = Duration::from_secs(5);
/// For one request; files are some dozen megabytes.
const ANSWER: Duration = Duration::from_secs(60);

/// A prefix of a bucket.
pub struct S3Files {
    /// `s3://bucket/prefix`
    root: String,
    prefix: String,
    store: AmazonS3,
    runtime: Runtime,
}

impl S3Files {
    /// Files below `s3://bucket/prefix`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Refused`] where no client can be made of the settings.
    pub fn new(root: &str, config: &S3Config) -> Result<Self, Error> {
        let refused = |source: crate::Cause| Error::Refused {
            what: "be where task logs are written",
            place: root.to_owned(),
            source,
        };
        let inside = root.strip_prefix("s3://").unwrap_or(root);
        let (bucket, prefix) = inside.split_once('/').unwrap_or((inside, ""));
        let access = S3Access {
            endpoint: config.endpoint.as_deref(),
            region: &config.region,
            keys: config.access_key_id.as_deref().zip(config.secret_access_key.as_deref()),
            connect: CONNECT,
            answer: ANSWER,
            // Everything is tried again from the position on, for as long as it takes.
            retries: 1,
        };
        let store = s3_client(bucket, &access).map_err(|source| refused(source.into()))?;
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|source| refused(source.into()))?;
        Ok(Self { root: root.to_owned(), prefix: prefix.trim_matches('/').to_owned(), store, runtime })
    }

    fn key(&self, parts: &[&str]) -> Key {
        let parts = std::iter::once(self.prefix.as_str()).chain(parts.iter().copied());
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        Key::from(parts.join("/"))
    }

    fn wait<T>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<Option<T>, Error> {
        let failed = |source: StoreError| {
            let (place, is_final) = (self.root.clone(), is_final(&source));
            match is_final {
                true => Error::Refused { what, place, source: source.into() },
                false => Error::Outage { what, place, source: source.into() },
            }
        };
        match self.runtime.block_on(work) {
            Ok(done) => Ok(Some(done)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(source) => Err(failed(source)),
        }
    }
}

fn is_final(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::PermissionDenied { .. }
            | StoreError::Unauthenticated { .. }
            | StoreError::InvalidPath { .. }
            | StoreError::NotSupported { .. }
            | StoreError::UnknownConfigurationKey { .. }
    )
}

impl Files for S3Files {
    fn begin(&mut self, _partition: u32) -> Result<(), Error> {
        Ok(())
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, Error> {
        let key = self.key(&[directory]);
        let found = self.wait("list files", self.store.list_with_delimiter(Some(&key)))?;
        let Some(found) = found else { return Ok(Vec::new()) };
        let files = found.objects.iter().map(|object| &object.location);
        let names = files.chain(&found.common_prefixes).filter_map(Key::filename);
        Ok(names.map(ToOwned::to_owned).collect())
    }

    fn get(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let key = self.key(&[directory, name]);
        let bytes = self.wait("read a file", async { self.store.get(&key).await?.bytes().await })?;
        Ok(bytes.map(Into::into))
    }

    fn put(&self, directory: &str, name: &str, bytes: &[u8]) -> Result<(), Error> {
        const WHAT: &str = "write a file";
        let (key, bytes) = (self.key(&[directory, name]), bytes.to_vec());
        let put = self.wait(WHAT, self.store.put(&key, bytes.into()))?;
        put.map(drop).ok_or_else(|| Error::Refused {
            what: WHAT,
            place: self.root.clone(),
            source: "there is no such bucket".into(),
        })
    }

    fn place(&self, name: &str) -> String {
        format!("{name} below {}", self.root)
    }
}
