//! How far the tables are behind a journal, and whether they can go on to its end.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tidemill_journal::{Journal, Shutdown, causes};
use tidemill_log::{Log, Topic};

use super::RECORDS;
use crate::Error;

/// Of what is said about a record: what is in it may be quoted there.
const MOST_REASON_CHARS: usize = 500;

/// Where the tables stand in the journal of one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stand {
    /// Which journal.
    pub partition: u32,
    /// Offset of the last record that the tables show; absent: they show nothing of it.
    pub offset: Option<u64>,
    /// The journal's end when the comparison began: the offset that would be written next.
    pub end: u64,
    /// Records between that are not in the tables, but for void ones, of which there is nothing to show. Those that could not
    /// be read count.
    pub behind: u64,
    /// The first of them that cannot be read. The tables do not go past it.
    pub unreadable: Option<Unreadable>,
}

/// A record of a journal that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// Where.
    pub offset: u64,
    /// What stores it; absent: it is not a file of this machine, or can be read and is not understood.
    pub file: Option<PathBuf>,
    /// What is wrong, for people; at most 500 characters.
    pub reason: String,
    /// What to do, for people.
    pub remedy: &'static str,
}

impl Unreadable {
    /// Of an error that is about one record; no broker or disk that is away.
    fn of(error: &tidemill_journal::Error) -> Option<Self> {
        use tidemill_journal::Error as Journal;
        use tidemill_log::Error as Log;
        let (offset, file) = match error {
            Journal::Body { offset, .. } | Journal::Read { source: Log::Gap { offset, .. }, .. } => {
                (*offset, None)
            }
            Journal::Read { source: Log::Damaged { offset, file, .. }, .. } => (*offset, Some(file.clone())),
            _ => return None,
        };
        let reason = causes(error).chars().take(MOST_REASON_CHARS).collect();
        error.remedy().map(|remedy| Self { offset, file, reason, remedy })
    }
}

impl Stand {
    /// Reads on from where the tables stand to this end.
    pub(super) fn read(
        journal: &mut Journal,
        (partition, offset, end): (u32, Option<u64>, u64),
        shutdown: &Shutdown,
        on_progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let mut next = offset.map_or(0, |offset| offset + 1);
        let mut stand = Self { partition, offset, end, behind: end.saturating_sub(next), unreadable: None };
        while next < end {
            if shutdown.is_requested() {
                return Err(Error::Interrupted);
            }
            let most = usize::try_from(end - next).unwrap_or(usize::MAX);
            match journal.poll(most.min(RECORDS), Duration::from_millis(500)) {
                Ok(read) => {
                    stand.behind -= read.voids;
                    next = read.last.map_or(next, |last| last + 1);
                    on_progress(next);
                }
                Err(error) => {
                    stand.unreadable = Some(Unreadable::of(&error).ok_or(error)?);
                    break;
                }
            }
        }
        Ok(stand)
    }
}

/// The end that each journal has at this moment, by partition.
pub(crate) fn ends(log: &dyn Log) -> Result<Vec<u64>, Error> {
    let end = |partition| {
        let range = log.range(Topic::Journal, partition).map_err(Error::journal(partition))?;
        Ok(range.end)
    };
    (0..log.partitions(Topic::Journal)).map(end).collect()
}
