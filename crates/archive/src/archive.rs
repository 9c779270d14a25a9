//! The segments of one log in a store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_log::LogId;

use crate::segment::Segment;
use crate::{Error, SegmentName, Store};

/// A segment that is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: SegmentName,
    /// How many bytes it has there.
    pub bytes: u64,
}

/// The segments of a journal, by their first offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog(Vec<Found>);

impl Catalog {
    /// All of them, overlapping ones too.
    pub fn segments(&self) -> impl Iterator<Item = &Found> {
        self.0.iter()
    }

    /// The segment with this offset; of several the one that reaches furthest.
    #[must_use]
    pub fn find(&self, offset: u64) -> Option<&Found> {
        let until = self.0.partition_point(|found| found.name.first <= offset);
        let with = self.0[..until].iter().filter(|found| found.name.next > offset);
        with.max_by_key(|found| found.name.next)
    }

    /// The segment that ends before this offset.
    #[must_use]
    pub fn before(&self, next: u64) -> Option<&Found> {
        self.0.iter().find(|found| found.name.next == next)
    }

    /// Up to where there is no gap from this offset on.
    #[must_use]
    pub fn reaches(&self, from: u64) -> u64 {
        let mut next = from;
        while let Some(found) = self.find(next) {
            next = found.name.next;
        }
        next
    }

    /// What its segments take in the store.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|found| found.bytes).sum()
    }
}

/// The archive of one log.
pub struct Archive {
    store: Arc<dyn Store>,
    log_id: LogId,
    catalogs: Mutex<BTreeMap<u32, Arc<Catalog>>>,
}

impl Archive {
    /// That of this log in the store; nothing is read yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, log_id: LogId) -> Self {
        Self { store, log_id, catalogs: Mutex::default() }
    }

    /// Whose it is.
    #[must_use]
    pub fn log_id(&self) -> &LogId {
        &self.log_id
    }

    /// Where it is, for people.
    #[must_use]
    pub fn place(&self) -> String {
        self.store.place()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Catalog>>> {
        // What is in it is whole at any time.
        self.catalogs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The segments of a journal as the store has them now.
    ///
    /// # Errors
    /// The store cannot say it.
    pub fn catalog(&self, partition: u32) -> Result<Arc<Catalog>, Error> {
        let directory = SegmentName::directory(&self.log_id, partition);
        let whole = || format!("{}/{directory}", self.place());
        let listed = self.store.list(&directory).map_err(|source| Error::store("list", whole(), source))?;
        let found = |object: crate::Object| {
            let name = SegmentName::parse(&self.log_id, partition, &object.name)?;
            Some(Found { name, bytes: object.bytes })
        };
        let mut segments: Vec<Found> = listed.objects.into_iter().filter_map(found).collect();
        segments.sort_by(|one, other| one.name.cmp(&other.name));
        let catalog = Arc::new(Catalog(segments));
        self.known().insert(partition, Arc::clone(&catalog));
        Ok(catalog)
    }

    /// The segment with this record; the store is asked where it was not known.
    pub(crate) fn segment_with(&self, partition: u32, offset: u64) -> Result<Segment, Error> {
        let known = self.known().get(&partition).and_then(|catalog| catalog.find(offset).cloned());
        let found = match known {
            Some(found) => Some(found),
            None => self.catalog(partition)?.find(offset).cloned(),
        };
        let found = found.ok_or_else(|| Error::Missing {
            place: self.place(),
            log_id: self.log_id.to_string(),
            partition,
            offset,
        })?;
        self.open(&found)
    }

    pub(crate) fn open(&self, found: &Found) -> Result<Segment, Error> {
        Segment::open(&self.store, &found.name, found.bytes)
    }

    /// What a segment says of itself.
    ///
    /// # Errors
    /// It is damaged, or another one.
    pub fn footer(&self, found: &Found) -> Result<crate::Footer, Error> {
        self.open(found).map(|segment| segment.footer().clone())
    }

    /// Reads all of a segment: every block is as it was written, and the chain leads through it.
    ///
    /// # Errors
    /// It is damaged, or another one.
    pub fn verify(&self, found: &Found) -> Result<crate::Footer, Error> {
        let segment = self.open(found)?;
        segment.verify(|_| Ok(()))?;
        Ok(segment.footer().clone())
    }
}
