//! The port to what is asked: one make for each kind of authority.

#[cfg(feature = "hdfs")]
mod hdfs;
mod local;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "hdfs")]
pub use hdfs::HdfsBackend;
pub use local::{LocalBackend, Stat};
#[cfg(feature = "s3")]
pub use s3::S3Backend;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tidemill_model::Timestamp;

use crate::{Authority, Config};

/// Of what stands right below a directory, so many are looked at for when it last changed.
pub(crate) const LOOKED_AT_BELOW: usize = 1_000;

/// One authority that can be asked. Calls may hang: the caller abandons them by dropping the future.
pub trait Backend: Send + Sync + 'static {
    /// Whether something is there.
    fn look(&self, target: Target) -> BoxFuture<'static, Result<Found, Fault>>;

    /// When what has this path, as in [`Target::inside`], last changed: the thing itself or, of a directory, the newest of it and
    /// what stands right below it, of which the first thousand are looked at. `None`: nothing is there.
    fn changed_at(&self, inside: &str) -> BoxFuture<'static, Result<Option<Timestamp>, Fault>>;

    /// The names in a directory, page by page, or nothing where single looks are always cheaper.
    fn list(&self, directory: &str) -> Option<Box<dyn Pages>> {
        let _ = directory;
        None
    }

    /// How many looks cost as much as a page of a listing: fewer questions than this are asked singly, and a listing is
    /// given up after one page for this many questions.
    fn looks_per_page(&self) -> usize {
        usize::MAX
    }

    /// Whether a call that hung is worth another try at once, or still holds what it hangs on.
    fn retries_hung(&self) -> bool;

    /// Throws away connections on which calls hung; nothing where they are rebuilt by themselves.
    fn renew(&self) {}
}

/// A listing under way.
pub trait Pages: Send {
    /// The next page; none at the end. A directory that is not there is empty.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, Fault>>;
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The path proper, absolute, or the key.
    pub inside: String,
    /// Whether it is a mark: then, in S3, a directory of that name is no answer.
    pub mark: bool,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Whether it is there.
    pub present: bool,
    /// How many calls that took.
    pub calls: u32,
}

/// Some names of a directory, without the directory itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The names.
    pub names: Vec<String>,
    /// Every ASCII name up to this one was in this page or an earlier one; none where the order is not known.
    /// (Orders of other names differ between back ends.)
    pub complete_to: Option<String>,
    /// Whether nothing follows; a further call would only say that.
    pub last: bool,
}

/// Why a call brought no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The authority answered that it will not tell, or cannot be asked at all.
    #[error("{0}")]
    Refused(String),
    /// The authority did not answer, or with an error that may pass.
    #[error("{0}")]
    Unavailable(String),
    /// An earlier call to the same target still hangs; no second one is made.
    #[error("an earlier call to the same path still hangs")]
    StillHangs,
}

/// What a back end says of a time.
pub(crate) fn of_millisecond(ms: impl TryInto<i64>) -> Result<Timestamp, Fault> {
    let time = ms.try_into().ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.ok_or_else(|| Fault::Refused("it changed at a time that no clock shows".to_owned()))
}

/// The first line of an error with its causes, cut to what an answer can carry.
pub(crate) fn one_line(error: &dyn std::error::Error) -> String {
    causes(error).lines().next().unwrap_or_default().chars().take(300).collect()
}

/// An error with its causes, each said once.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let below = std::iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string);
    below.fold(error.to_string(), |text, more| if text.contains(&more) { text } else { text + ": " + &more })
}

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
            Authority::Hdfs(name_node) => Ok(Arc::new(HdfsBackend::open(name_node, &self.0.hdfs)?)),
            #[cfg(feature = "s3")]
            Authority::S3(bucket) => Ok(Arc::new(S3Backend::open(bucket, &self.0.s3)?)),
            #[cfg(not(all(feature = "hdfs", feature = "s3")))]
            other => {
                Err(Fault::Refused(format!("this build cannot ask {other}: it was compiled without it")))
            }
        }
    }
}
