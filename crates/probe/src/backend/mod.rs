//! The port to what is asked: one make for each kind of authority.

mod local;
mod opener;

#[cfg(feature = "hdfs")]
mod hdfs;
#[cfg(feature = "s3")]
mod s3;

use futures_util::future::BoxFuture;

#[cfg(feature = "hdfs")]
pub use hdfs::HdfsBackend;
pub use local::{LocalBackend, Stat};
pub use opener::{BuiltIn, Opener};
#[cfg(feature = "s3")]
pub use s3::S3Backend;

/// One authority that can be asked. Calls may hang: the caller abandons them by dropping the future.
pub trait Backend: Send + Sync + 'static {
    /// Whether something is there.
    fn look(&self, target: Target) -> BoxFuture<'static, Result<Found, Fault>>;

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

/// The first line of an error with its causes, cut to what an answer can carry.
pub(crate) fn one_line(error: &dyn std::error::Error) -> String {
    causes(error).lines().next().unwrap_or_default().chars().take(300).collect()
}

/// An error with its causes, each said once.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let below = std::iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string);
    below.fold(error.to_string(), |text, more| if text.contains(&more) { text } else { text + ": " + &more })
}
