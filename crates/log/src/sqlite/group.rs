//! One group of appends: one transaction, all or nothing.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::Shared;
use super::durability::Durability;
use super::file::{PAGE_BYTES, next_offset, store_head, table};
use super::queue::Item;
use super::trim::Kept;
use crate::in_flight::Pending;
use crate::{AppendError, Chain, Payload, Record, Topic, Verdict, clock};

/// A journal's verified head is stored every so many records, so that opening stays quick.
const HEAD_EVERY: u64 = 4096;

/// A journal as the writer knows it.
pub(crate) struct Journal {
    pub(crate) chain: Chain,
    /// `seq` of the head that is stored.
    pub(crate) stored_seq: u64,
}

/// Why a group was not stored.
pub(crate) enum Failed {
    /// The disk is full; nothing of the group is in the log.
    Full,
    /// It may or may not be in the log.
    Unknown(rusqlite::Error),
}

/// What is to be told to whom, once it is known what became of the group.
pub(crate) struct Owed {
    pending: Pending,
    outcome: Result<u64, AppendError>,
    stored: bool,
}

impl Owed {
    /// Tells; a group that failed gives another outcome to what it would have stored.
    pub(crate) fn tell(self, failure: Option<&AppendError>) {
        match failure {
            Some(error) if self.stored => self.pending.finish(Err(error.clone())),
            _ => self.pending.finish(self.outcome),
        }
    }
}

pub(crate) struct Group<'a> {
    shared: &'a Shared,
    connection: &'a Connection,
    inserts: &'a [String],
    durability: &'a mut Durability,
    staged: BTreeMap<usize, Staged>,
    /// Chains as they were, to go back to.
    before: BTreeMap<u32, Chain>,
    /// Lanes of which something was to be forgotten, with what is kept of them.
    trimmed: Vec<(usize, Option<Kept>)>,
    now_ms: i64,
    pub(crate) owed: Vec<Owed>,
}

struct Staged {
    next: u64,
    bytes: usize,
    records: Vec<Record>,
}

impl<'a> Group<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        connection: &'a Connection,
        inserts: &'a [String],
        durability: &'a mut Durability,
    ) -> Self {
        let (staged, before, trimmed) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let now_ms = clock::now_ms();
        let owed = Vec::new();
        Self { shared, connection, inserts, durability, staged, before, trimmed, now_ms, owed }
    }

    /// Stores the items, makes them visible to readers, and leaves in `owed` what is to be told.
    pub(crate) fn commit(&mut self, items: Vec<Item>, journals: &mut [Journal]) -> Result<(), Failed> {
        match self.write(items, journals) {
            Ok(()) => {
                for (lane, staged) in std::mem::take(&mut self.staged) {
                    self.shared.lanes[lane].extend(staged.records.into_iter());
                }
                for (lane, kept) in std::mem::take(&mut self.trimmed) {
                    self.shared.trimmed(lane, kept);
                }
                Ok(())
            }
            Err(error) => {
                for (lane, _) in std::mem::take(&mut self.trimmed) {
                    self.shared.trimmed(lane, None);
                }
                Err(self.undo(error, journals))
            }
        }
    }

    fn write(&mut self, items: Vec<Item>, journals: &mut [Journal]) -> rusqlite::Result<()> {
        let before = self.connection.total_changes();
        let mut failed = self.begin(&items);
        for item in items {
            match item {
                Item::Append { lane, key, value, synced: _, pending } => {
                    let outcome = match &failed {
                        Ok(()) => self.stage(lane, key, value, journals),
                        Err(_) => Ok(Ok(0)),
                    };
                    let stored = !matches!(outcome, Ok(Err(_)));
                    let outcome = outcome.unwrap_or_else(|error| {
                        failed = Err(error);
                        Ok(0)
                    });
                    self.owed.push(Owed { pending, outcome, stored });
                }
                Item::Trim(trim) => {
                    let run = || trim.run(self.shared, self.connection);
                    let kept = if failed.is_ok() { run().map(Some) } else { Ok(None) };
                    let kept = kept.unwrap_or_else(|error| {
                        failed = Err(error);
                        None
                    });
                    self.trimmed.push((trim.lane, kept));
                }
                // The writer takes them out.
                Item::Release(_) => {}
            }
        }
        failed?;
        self.store_heads(journals)?;
        self.run("COMMIT")?;
        // A commit that changed nothing syncs nothing, not even earlier commits.
        let changes = self.connection.total_changes() - before;
        if changes > 0 {
            let bytes: usize = self.staged.values().map(|staged| staged.bytes).sum();
            self.durability.committed(2 * self.staged.len() + bytes / PAGE_BYTES as usize);
        }
        Ok(())
    }

    fn begin(&mut self, items: &[Item]) -> rusqlite::Result<()> {
        let acted_on = items.iter().any(|item| match item {
            Item::Append { synced, .. } => *synced,
            Item::Trim(_) | Item::Release(_) => false,
        });
        self.durability.begin(self.connection, acted_on)?;
        self.run("BEGIN IMMEDIATE")
    }

    fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn stage(
        &mut self,
        lane: usize,
        key: Vec<u8>,
        value: Payload,
        journals: &mut [Journal],
    ) -> rusqlite::Result<Result<u64, AppendError>> {
        let place = &*self.shared.lanes[lane];
        let first = || Staged { next: place.next(), bytes: 0, records: Vec::new() };
        let staged = self.staged.entry(lane).or_insert_with(first);
        let offset = staged.next;
        if place.topic == Topic::Journal {
            let journal = &mut journals[usize::try_from(place.partition).expect("fits: it indexed a lane")];
            self.before.entry(place.partition).or_insert_with(|| journal.chain.clone());
            if let Verdict::Void(reason) = journal.chain.accept(offset, &value) {
                return Ok(Err(AppendError::Refused(reason.to_string())));
            }
        }
        let mut insert = self.connection.prepare_cached(&self.inserts[lane])?;
        insert.execute(params![offset.cast_signed(), self.now_ms, key, &value[..]])?;
        staged.next += 1;
        staged.bytes += key.len() + value.len();
        staged.records.push(Record { offset, timestamp_ms: self.now_ms, key, value });
        Ok(Ok(offset))
    }

    fn store_heads(&self, journals: &mut [Journal]) -> rusqlite::Result<()> {
        for partition in self.before.keys() {
            let journal = &mut journals[usize::try_from(*partition).expect("fits: it indexed a journal")];
            let Some(head) = journal.chain.head() else { continue };
            if head.seq.saturating_sub(journal.stored_seq) >= HEAD_EVERY {
                store_head(self.connection, head)?;
                journal.stored_seq = head.seq;
            }
        }
        Ok(())
    }

    /// Only a full disk is forgiven, and only where the file itself says that nothing of the group is in it.
    fn undo(&mut self, error: rusqlite::Error, journals: &mut [Journal]) -> Failed {
        if !self.connection.is_autocommit() && self.run("ROLLBACK").is_err() {
            return Failed::Unknown(error);
        }
        let full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
        let untouched = || {
            self.staged.keys().all(|lane| {
                let lane = &self.shared.lanes[*lane];
                next_offset(self.connection, lane.topic, lane.partition).ok() == Some(lane.next())
            })
        };
        if !full || !self.connection.is_autocommit() || !untouched() {
            return Failed::Unknown(error);
        }
        for (partition, chain) in std::mem::take(&mut self.before) {
            let journal = &mut journals[usize::try_from(partition).expect("fits: it indexed a journal")];
            let stored = chain.head().map_or(0, |head| head.seq);
            journal.chain = chain;
            journal.stored_seq = journal.stored_seq.min(stored);
        }
        Failed::Full
    }
}

/// The statement that appends to each lane; nothing for those that are not on disk.
pub(crate) fn inserts(shared: &Shared) -> Vec<String> {
    let insert =
        |topic, partition| format!("INSERT INTO {} VALUES (?1, ?2, ?3, ?4)", table(topic, partition));
    shared.lanes.iter().map(|lane| insert(lane.topic, lane.partition)).collect()
}
