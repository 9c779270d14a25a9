//! A client of one bucket of S3, or of what speaks its protocol.

use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{ClientOptions, RetryConfig};

/// How a bucket is reached.
#[derive(Debug, Clone, Copy)]
pub struct S3Access<'a> {
    /// Address of the service; absent: that of Amazon in `region`. `http://` is taken as it is.
    pub endpoint: Option<&'a str>,
    /// Its region.
    pub region: &'a str,
    /// Access key and secret; absent: the environment's `AWS_…` variables, else the machine's own role.
    pub keys: Option<(&'a str, &'a str)>,
    /// How long a connection may take to be made.
    pub connect: Duration,
    /// How long a request may take.
    pub answer: Duration,
    /// How often one is sent again by the client itself.
    pub retries: usize,
}

/// The client of a bucket. Nothing is connected yet.
///
/// # Errors
/// Settings that no client can be made of.
pub fn s3_client(bucket: &str, access: &S3Access<'_>) -> Result<AmazonS3, object_store::Error> {
    let plain = access.endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let options = ClientOptions::new()
        .with_allow_http(plain)
        .with_timeout(access.answer)
        .with_connect_timeout(access.connect);
    let retry =
        RetryConfig { max_retries: access.retries, retry_timeout: access.answer, ..RetryConfig::default() };
    let base = match access.keys {
        Some((id, secret)) => AmazonS3Builder::new().with_access_key_id(id).with_secret_access_key(secret),
        None => AmazonS3Builder::from_env(),
    };
    let builder = base
        .with_bucket_name(bucket)
        .with_region(access.region)
        .with_retry(retry)
        .with_client_options(options);
    match access.endpoint {
        Some(endpoint) => builder.with_endpoint(endpoint),
        None => builder,
    }
    .build()
}
