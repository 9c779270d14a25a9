//! Where segments are: objects with names, each there whole or not at all.

mod directory;
#[cfg(feature = "s3")]
mod s3;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tidemill_log::Source;

pub use directory::DirectoryStore;
#[cfg(feature = "s3")]
pub use s3::S3Store;

use crate::{Config, Error};

/// An object that is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// The last part of its name.
    pub name: String,
    /// How many bytes it has.
    pub bytes: u64,
}

/// What is below a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The objects directly there, by name.
    pub objects: Vec<Object>,
    /// The last parts of the names of what has objects below it, sorted.
    pub directories: Vec<String>,
}

/// Keeps objects. Names are parts of `a-z 0-9 - .` with `/` between them; the empty one is the whole store.
pub trait Store: Send + Sync {
    /// Where it is, for people.
    fn place(&self) -> String;

    /// What is below a name; nothing, where nothing is there.
    ///
    /// # Errors
    /// The store cannot say it.
    fn list(&self, name: &str) -> Result<Listing, Source>;

    /// These bytes of an object, fewer where it is shorter; `None`: there is none.
    ///
    /// # Errors
    /// The store cannot give them.
    fn read(&self, name: &str, range: Range<u64>) -> Result<Option<Vec<u8>>, Source>;

    /// Writes an object, in the place of one of the same name. It is durable once this returns; until then readers find
    /// what was there before.
    ///
    /// # Errors
    /// It is not there, or not certain to last.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Source>;

    /// Removes an object; that there is none is no error. Nobody removes a segment: this is for what can be made again.
    ///
    /// # Errors
    /// It may be there still.
    fn remove(&self, name: &str) -> Result<(), Source>;
}

/// The store of a configuration; `None`: there is no archive.
///
/// # Errors
/// The place cannot be used, or needs a feature that this program lacks.
pub fn open_store(config: &Config) -> Result<Option<Arc<dyn Store>>, Error> {
    let Some(place) = &config.place else { return Ok(None) };
    if place.starts_with("s3://") {
        return s3(place, config).map(Some);
    }
    Ok(Some(Arc::new(DirectoryStore::new(Path::new(place)))))
}

#[cfg(feature = "s3")]
fn s3(place: &str, config: &Config) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(S3Store::new(place, &config.s3)?))
}

#[cfg(not(feature = "s3"))]
fn s3(place: &str, _: &Config) -> Result<Arc<dyn Store>, Error> {
    let source = "this program was built without S3; build it with `--features s3`".into();
    Err(Error::Open { place: place.to_owned(), source })
}
