//! A log whose journals are read through the archive.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tidemill_log::{
    ArchivedPart, Error, From, Head, Intake, Log, LogId, Membership, Producer, Reader, Readers, Restore,
    Topic, Usage,
};

use crate::Archive;
use crate::reader::JournalReader;

/// The log as it was before anything was released: a journal begins with its genesis, wherever that is now. Everything
/// but reading journals is the log's own.
pub struct ArchivedLog {
    log: Arc<dyn Log>,
    archive: Option<Arc<Archive>>,
}

impl ArchivedLog {
    /// The log with its archive. Without one, a reader of what is not in the log any more hears what to configure.
    ///
    /// # Errors
    /// A journal does not begin with its genesis, and there is no archive; the log.
    pub fn new(log: Arc<dyn Log>, archive: Option<Arc<Archive>>) -> Result<Self, Error> {
        if archive.is_none() {
            for partition in 0..log.partitions(Topic::Journal) {
                let first = log.range(Topic::Journal, partition)?.start;
                if first > 0 {
                    return Err(Error::JournalBeginsLater { partition, first });
                }
            }
        }
        Ok(Self { log, archive })
    }

    /// The archive, if there is one.
    #[must_use]
    pub fn archive(&self) -> Option<&Arc<Archive>> {
        self.archive.as_ref()
    }

    /// The log itself, of which what was released is gone.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn Log> {
        &self.log
    }
}

impl Readers for ArchivedLog {
    fn log_id(&self) -> &LogId {
        self.log.log_id()
    }

    fn restores(&self, partition: u32) -> &[Restore] {
        self.log.restores(partition)
    }

    fn partitions(&self, topic: Topic) -> u32 {
        self.log.partitions(topic)
    }

    fn reader(&self, topic: Topic, partition: u32, from: From) -> Result<Box<dyn Reader>, Error> {
        if topic != Topic::Journal {
            return self.log.reader(topic, partition, from);
        }
        let range = self.range(topic, partition)?;
        let next = match from {
            From::Start if range.start > 0 => {
                return Err(Error::JournalBeginsLater { partition, first: range.start });
            }
            From::Start => range.start,
            From::End => range.end,
            From::Offset(wanted) if wanted <= range.end => wanted,
            From::Offset(wanted) => {
                let (low, high) = (range.start, range.end);
                return Err(Error::OffsetOutOfRange { topic, partition, wanted, low, high });
            }
        };
        JournalReader::open(&self.log, self.archive.as_ref(), partition, next)
            .map(|reader| Box::new(reader) as Box<dyn Reader>)
    }

    fn archived(&self, partition: u32, from: u64) -> Result<Vec<ArchivedPart>, Error> {
        let kept_from = self.log.range(Topic::Journal, partition)?.start;
        let Some(archive) = self.archive.as_ref().filter(|_| from < kept_from) else { return Ok(Vec::new()) };
        let told = |source: crate::Error| Error::Archive { partition, source: source.into() };
        let catalog = archive.catalog(partition).map_err(told)?;
        let (mut parts, mut first) = (Vec::new(), from);
        // Where one is missing, whoever reads hears of it.
        while let Some(found) = catalog.find(first).filter(|_| first < kept_from) {
            let (segment, next) = (found.name.to_string(), found.name.next);
            parts.push(ArchivedPart { segment, first, next, bytes: found.bytes });
            first = next;
        }
        Ok(parts)
    }

    /// With an archive a journal has all its offsets, from 0 on.
    fn range(&self, topic: Topic, partition: u32) -> Result<Range<u64>, Error> {
        let range = self.log.range(topic, partition)?;
        Ok(if topic == Topic::Journal && self.archive.is_some() { 0..range.end } else { range })
    }
}

impl Log for ArchivedLog {
    fn keeps_acknowledged(&self) -> bool {
        self.log.keeps_acknowledged()
    }

    fn producer(&self) -> Result<Arc<dyn Producer>, Error> {
        self.log.producer()
    }

    fn trim(&self, topic: Topic, partition: u32, below: u64) -> Result<(), Error> {
        self.log.trim(topic, partition, below)
    }

    fn release_archived(&self, below: u64, head: &Head) -> Result<(), Error> {
        self.log.release_archived(below, head)
    }

    fn membership(&self, member: &str) -> Result<Box<dyn Membership>, Error> {
        self.log.membership(member)
    }

    fn peers(&self, role: &str, member: &str) -> Result<Box<dyn Membership>, Error> {
        self.log.peers(role, member)
    }

    fn intake(&self, topic: &str, member: &str) -> Result<Box<dyn Intake>, Error> {
        self.log.intake(topic, member)
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.log.usage()
    }

    fn stalled_readers(&self) -> BTreeMap<Topic, u64> {
        self.log.stalled_readers()
    }
}
