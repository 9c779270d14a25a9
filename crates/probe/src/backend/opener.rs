//! From an authority to the make that asks it.

use std::sync::Arc;

use super::{Backend, Fault, LocalBackend};
use crate::{Authority, Config};

/// Opens authorities when they are first asked. Must not block: connections are made by the first call.
pub trait Opener: Send + Sync + 'static {
    /// The back end of this authority.
    ///
    /// # Errors
    /// Why it can never be asked, in words for people.
    fn open(&self, authority: &Authority) -> Result<Arc<dyn Backend>, Fault>;
}

/// The makes that are compiled in: local always, HDFS and S3 by feature.
#[derive(Debug, Clone)]
pub struct BuiltIn(Arc<Config>);

impl BuiltIn {
    /// Opens as this configuration says.
    #[must_use]
    pub fn new(config: Arc<Config>) -> Self {
        Self(config)
    }
}

impl Opener for BuiltIn {
    fn open(&self, authority: &Authority) -> Result<Arc<dyn Backend>, Fault> {
        match authority {
            Authority::Local(_) => Ok(Arc::new(LocalBackend::new(self.0.local.in_flight))),
            #[cfg(feature = "hdfs")]
            Authority::Hdfs(name_node) => Ok(Arc::new(super::HdfsBackend::open(name_node, &self.0.hdfs)?)),
            #[cfg(feature = "s3")]
            Authority::S3(bucket) => Ok(Arc::new(super::S3Backend::open(bucket, &self.0.s3)?)),
            #[cfg(not(all(feature = "hdfs", feature = "s3")))]
            other => {
                Err(Fault::Refused(format!("this build cannot ask {other}: it was compiled without it")))
            }
        }
    }
}
