//! The snapshots of one log in a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidemill_archive::{Store, open_store};
use tidemill_engine::FaultInjection;
use tidemill_log::LogId;

use crate::{Config, Encoded, Error, Fold, Ladder, Refusal, Snapshot, SnapshotName};

/// What the store or the log does not give at once is asked for again after each of these.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_secs(1)];

/// Where the snapshots of a log are. Cheap to clone.
#[derive(Clone)]
pub struct Snapshots {
    store: Arc<dyn Store>,
    log_id: LogId,
    fault_injection: FaultInjection,
    pub(crate) pauses: &'static [Duration],
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshots").field("place", &self.store.place()).finish_non_exhaustive()
    }
}

impl Snapshots {
    /// Those of this log in a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, log_id: LogId) -> Self {
        Self { store, log_id, fault_injection: FaultInjection::default(), pauses: &PAUSES }
    }

    /// The same for a store that fails in simulated time: it is asked once.
    #[doc(hidden)]
    #[must_use]
    pub fn asked_once(self) -> Self {
        Self { pauses: &[], ..self }
    }

    /// The same for states that a test has rigged.
    #[doc(hidden)]
    #[must_use]
    pub fn fault_injected(mut self, fault_injection: FaultInjection) -> Self {
        self.fault_injection = fault_injection;
        self
    }

    /// A fold before the first record.
    pub(crate) fn beginning(&self, partition: u32, count: u32) -> Fold {
        let fold = Fold::beginning(partition, count);
        Fold { state: fold.state.fault_injected(self.fault_injection.clone()), ..fold }
    }

    /// Those of a configuration; `None`: there is no place for any.
    ///
    /// # Errors
    /// The place cannot be used, or needs a feature that this program lacks.
    pub fn open(config: &Config, log_id: LogId) -> Result<Option<Self>, Error> {
        let Some(place) = &config.place else { return Ok(None) };
        let store = open_store(&config.of_store(place)).map_err(Error::Open)?;
        Ok(store.map(|store| Self::new(store, log_id)))
    }

    /// Of which log.
    #[must_use]
    pub fn log_id(&self) -> &LogId {
        &self.log_id
    }

    /// Where, for people.
    #[must_use]
    pub fn place(&self) -> String {
        self.store.place()
    }

    /// Those of a partition with their bytes, the newest first, whatever their form.
    ///
    /// # Errors
    /// The store cannot say it.
    pub fn list(&self, partition: u32) -> Result<Vec<(SnapshotName, u64)>, Error> {
        let directory = SnapshotName::directory(&self.log_id, partition);
        let listing = self.store.list(&directory);
        let listing = listing.map_err(|source| Error::store("list", &directory, source))?;
        let named = |object: &tidemill_archive::Object| {
            Some((SnapshotName::parse(&self.log_id, partition, &object.name)?, object.bytes))
        };
        let mut found: Vec<_> = listing.objects.iter().filter_map(named).collect();
        found.sort();
        found.reverse();
        Ok(found)
    }

    /// Reads one, and checks that it is what it is called.
    ///
    /// # Errors
    /// Why it is not used.
    pub fn read(&self, name: &SnapshotName) -> Result<Snapshot, Refusal> {
        let bytes = self.store.read(&name.to_string(), 0..u64::MAX >> 1);
        let bytes = bytes.map_err(|error| Refusal::Store(error.to_string()))?.ok_or(Refusal::Missing)?;
        let mut snapshot = Snapshot::read(&bytes)?;
        snapshot.state = snapshot.state.fault_injected(self.fault_injection.clone());
        snapshot.check_home(&self.log_id, name.partition)?;
        if snapshot.head.offset != name.offset {
            return Err(Refusal::Damaged(format!("it is of record {}", snapshot.head.offset)));
        }
        if u64::try_from(snapshot.latest.as_millisecond()).unwrap_or(0) != name.latest_ms {
            return Err(Refusal::Damaged(format!("its latest time is {}", snapshot.latest)));
        }
        Ok(snapshot)
    }

    /// Writes one.
    ///
    /// # Errors
    /// It is not there, or not certain to last.
    pub fn write(&self, snapshot: &Encoded) -> Result<(), Error> {
        let name = snapshot.name.to_string();
        self.store.write(&name, &snapshot.file).map_err(|source| Error::store("write", name, source))
    }

    /// Removes one. It is no error if it is not there.
    ///
    /// # Errors
    /// It may be there.
    pub fn remove(&self, name: &SnapshotName) -> Result<(), Error> {
        let name = name.to_string();
        self.store.remove(&name).map_err(|source| Error::store("remove", name, source))
    }

    /// Removes what the ladder does not keep, form by form, by their ages against the newest one of all. Gives how many.
    ///
    /// # Errors
    /// The first failure.
    pub fn thin(&self, partition: u32, ladder: Ladder) -> Result<usize, Error> {
        let mut all: Vec<SnapshotName> = self.list(partition)?.into_iter().map(|(name, _)| name).collect();
        all.reverse();
        let mut removed = 0;
        let newest = all.iter().map(|name| name.latest_ms).max().unwrap_or(0);
        let forms: std::collections::BTreeSet<String> = all.iter().map(|name| name.form.clone()).collect();
        for form in forms {
            let of_form: Vec<&SnapshotName> = all.iter().filter(|name| name.form == form).collect();
            let times: Vec<u64> = of_form.iter().map(|name| name.latest_ms).collect();
            for number in ladder.leaving(&times, newest) {
                self.remove(of_form[number])?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}
