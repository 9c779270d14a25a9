//! Journals to archive, and a store in memory that does what a test wants.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidemill_archive::{Archive, ArchivedLog, Archiver, Bounds, Cycle, Error, Listing, Object, Store, When};
use tidemill_log::{Chain, From, Kind, Log, MemoryLog, Reader, Readers, Record, Source, Topic, append_wait};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a store is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    List,
    Read,
    Write,
}

type Hook = Box<dyn FnMut(Call, &str) -> Option<Fault> + Send>;

/// What befalls a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails, and nothing is done.
    Fails,
    /// A write is done, and said to have failed.
    FailsAfterwards,
    /// A write is said to be done, and one of its bytes is another one.
    WritesAnother,
    /// A write is said to be done, and nothing is there.
    Forgets,
}

/// Objects in memory.
#[derive(Default)]
pub(crate) struct MemoryStore {
    pub(crate) objects: Mutex<BTreeMap<String, Vec<u8>>>,
    hook: Mutex<Option<Hook>>,
}

impl MemoryStore {
    pub(crate) fn set_hook(&self, hook: impl FnMut(Call, &str) -> Option<Fault> + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    pub(crate) fn clear_hook(&self) {
        *self.hook.lock().unwrap() = None;
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }

    fn fault(&self, call: Call, name: &str) -> Result<Option<Fault>, Source> {
        let fault = self.hook.lock().unwrap().as_mut().and_then(|hook| hook(call, name));
        if fault == Some(Fault::Fails) {
            Err(format!("{call:?} fails in this test").into())
        } else {
            Ok(fault)
        }
    }
}

impl Store for MemoryStore {
    fn place(&self) -> String {
        "memory:".to_owned()
    }

    fn list(&self, name: &str) -> Result<Listing, Source> {
        self.fault(Call::List, name)?;
        let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
        let mut listing = Listing::default();
        for (name, bytes) in &*self.objects.lock().unwrap() {
            let Some(rest) = name.strip_prefix(&prefix) else { continue };
            match rest.split_once('/') {
                Some((directory, _)) => listing.directories.push(directory.to_owned()),
                None => listing.objects.push(Object { name: rest.to_owned(), bytes: bytes.len() as u64 }),
            }
        }
        listing.directories.dedup();
        Ok(listing)
    }

    fn read(&self, name: &str, range: Range<u64>) -> Result<Option<Vec<u8>>, Source> {
        self.fault(Call::Read, name)?;
        let objects = self.objects.lock().unwrap();
        let Some(bytes) = objects.get(name) else { return Ok(None) };
        let at = |offset: u64| usize::try_from(offset).unwrap().min(bytes.len());
        Ok(Some(bytes[at(range.start)..at(range.end)].to_vec()))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Source> {
        let fault = self.fault(Call::Write, name)?;
        let mut bytes = bytes.to_vec();
        if fault == Some(Fault::WritesAnother) {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        if fault != Some(Fault::Forgets) {
            self.objects.lock().unwrap().insert(name.to_owned(), bytes);
        }
        if fault == Some(Fault::FailsAfterwards) { Err("written all the same".into()) } else { Ok(()) }
    }

    fn remove(&self, name: &str) -> Result<(), Source> {
        self.objects.lock().unwrap().remove(name);
        Ok(())
    }
}

/// Every record is a segment, and everything leaves the log, but for what a test says.
pub(crate) const ALL: Bounds =
    Bounds { segment_bytes: 1, segment_age_ms: 0, keep_ms: 0, keep_bytes: 0, releases: true };

/// A log, and its archive.
pub(crate) struct World {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) archive: Arc<Archive>,
}

impl World {
    pub(crate) fn over(log: Arc<dyn Log>) -> Self {
        let store = Arc::new(MemoryStore::default());
        let archive = archive(&log, &store);
        Self { log, store, archive }
    }

    /// The log read through the archive.
    pub(crate) fn through(&self) -> ArchivedLog {
        let archive = archive(&self.log, &self.store);
        ArchivedLog::new(Arc::clone(&self.log), Some(archive)).unwrap()
    }

    /// One cycle of an archiver that begins with it, as after a kill.
    pub(crate) fn cycle(&self, bounds: Bounds, when: When) -> Result<Cycle, Error> {
        let partitions: Vec<u32> = (0..self.log.partitions(Topic::Journal)).collect();
        Archiver::new(Arc::clone(&self.log), Arc::clone(&self.archive), bounds).cycle(
            &partitions,
            when,
            &|| false,
        )
    }
}

fn archive(log: &Arc<dyn Log>, store: &Arc<MemoryStore>) -> Arc<Archive> {
    Arc::new(Archive::new(Arc::clone(store) as Arc<dyn Store>, log.log_id().clone()))
}

/// What happens in a journal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Somebody takes the partition.
    Claim,
    /// The owner appends a body of so many bytes.
    Envelope(usize),
    /// Bytes that are no frame.
    Garbage(usize),
    /// A frame that does not link.
    Stale,
    /// The owner leaves.
    Resign,
}

/// Appends what happens to a log that stores what does not count, too.
pub(crate) fn write(log: &dyn Log, partition: u32, steps: &[Step]) {
    let producer = log.producer().unwrap();
    let mut chain = Chain::new();
    for record in read_all(log, partition) {
        chain.accept(record.offset, &record.value);
    }
    for (number, step) in steps.iter().enumerate() {
        let head = chain.head().unwrap().clone();
        let next = |kind, body| head.tip().next(kind, body).unwrap().0;
        let record = match step {
            Step::Claim => head.claim(&format!("owner {number}"), "127.0.0.1:1").unwrap(),
            Step::Envelope(bytes) => next(Kind::Envelope, vec![b'e'; *bytes]),
            Step::Garbage(bytes) => vec![b'g'; *bytes],
            Step::Stale => {
                let tip = tidemill_log::Tip { seq: head.seq + 7, ..head.tip() };
                tip.next(Kind::Envelope, b"stale".to_vec()).unwrap().0
            }
            Step::Resign => next(Kind::Resigned, Vec::new()),
        };
        let key = format!("{number}");
        let offset =
            append_wait(&*producer, Topic::Journal, partition, key.as_bytes(), record.clone(), PATIENCE)
                .unwrap();
        chain.accept(offset, &record.as_slice().into());
    }
}

/// Reads exactly so many records.
pub(crate) fn take(reader: &mut dyn Reader, count: usize) -> Vec<Record> {
    let mut records = Vec::new();
    while records.len() < count {
        let more = reader.poll(count - records.len(), PATIENCE).unwrap();
        assert!(!more.is_empty(), "{} of {count} records", records.len());
        records.extend(more);
    }
    records
}

/// All of a journal.
pub(crate) fn read_all(log: &dyn Readers, partition: u32) -> Vec<Record> {
    let end = log.range(Topic::Journal, partition).unwrap().end;
    let mut reader = log.reader(Topic::Journal, partition, From::Start).unwrap();
    let records = take(reader.as_mut(), usize::try_from(end).unwrap());
    assert!(reader.poll(1, Duration::ZERO).unwrap().is_empty());
    records
}

/// A log in memory with this journal in its last partition.
pub(crate) fn journal(steps: &[Step]) -> World {
    let log: Arc<dyn Log> = Arc::new(MemoryLog::new(2));
    write(&*log, 1, steps);
    World::over(log)
}
