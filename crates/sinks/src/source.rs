//! Where changes of task logs come from: the journal, and what the read tables know of its grants.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_journal::{Entry, Journal, Start};
use tidemill_log::{Head, Log, Waker};
use tidemill_model::{Json as _, TaskSpec};
use tidemill_store::rows::{PullGrantRow, PullTaskVersionRow};
use tidemill_store::{Row, Tables, wait_in_tables};

use crate::{Change, Error, Given, State};

/// Changes after which a batch is full.
const MAX_CHANGES: usize = 2_000;
/// Bytes after which it is.
const MAX_BYTES: usize = 8 << 20;
/// Reading for one batch takes no longer than this, however fast records come in.
const MAX_READING: Duration = Duration::from_millis(100);
/// How long the tables are waited for before that is told.
const TABLES: Duration = Duration::from_secs(5);
/// Versions of tasks that are kept in memory.
const CACHED_VERSIONS: usize = 1_000;
const ROWS: usize = 500;

/// What was read of a partition: all changes up to a head, perhaps none.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// In the order in which they were decided.
    pub changes: Vec<Change>,
    /// The last record read that counts: the position once the changes are stored.
    pub head: Head,
}

/// A fact about a grant, as the journal has it.
struct Fact {
    offset: u64,
    index: u32,
    at: i64,
    grant: i64,
    shard: i64,
    state: State,
}

/// What a version of a task says about its grants.
#[derive(Clone)]
struct Version {
    template: Option<Arc<str>>,
    parameters: Arc<str>,
}

/// Task, version, shard.
type VersionKey = (i64, i64, i64);

/// Reads one partition.
pub struct Source {
    partition: u32,
    journal: Journal,
    /// Read, and the first of the next batch.
    held: Option<Entry>,
    tables: Arc<dyn Tables>,
    versions: HashMap<VersionKey, Version>,
}

impl Source {
    /// Reads on after `position`, whose record the journal has to have; from the beginning without one.
    ///
    /// # Errors
    /// The journal; it names `holder`, whose position it is, where it does not fit.
    pub fn open(
        log: &dyn Log,
        tables: &Arc<dyn Tables>,
        partition: u32,
        holder: &'static str,
        position: Option<Head>,
    ) -> Result<Self, Error> {
        let start = position.map_or(Start::Beginning, Start::After);
        let journal = Journal::open(log, partition, holder, start).map_err(Error::Journal)?;
        Ok(Self { partition, journal, held: None, tables: Arc::clone(tables), versions: HashMap::new() })
    }

    /// Ends a wait for records.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.journal.waker()
    }

    /// Reads what there is, waiting up to `timeout` for it; `None` where there is nothing. All changes of a batch
    /// are of one UTC day.
    ///
    /// # Errors
    /// The journal; the tables, also where they do not show yet what was read. Then it has to be opened anew.
    pub fn read(&mut self, timeout: Duration) -> Result<Option<Batch>, Error> {
        let (mut facts, mut bytes, mut wait) = (Vec::<Fact>::new(), 0, timeout);
        let (mut head, mut deadline) = (None, None);
        while facts.len() < MAX_CHANGES && bytes < MAX_BYTES && deadline.is_none_or(|it| Instant::now() < it)
        {
            let entry = match self.held.take() {
                Some(entry) => entry,
                None => match self.journal.next(wait).map_err(Error::Journal)? {
                    Some(entry) => entry,
                    None => break,
                },
            };
            wait = Duration::ZERO;
            deadline = deadline.or(Some(Instant::now() + MAX_READING));
            let at = entry.envelope.now.as_millisecond();
            if facts.last().is_some_and(|last| day(last.at) != day(at)) {
                self.held = Some(entry);
                break;
            }
            bytes += facts_of(&entry, at, &mut facts);
            head = self.journal.head().cloned();
        }
        let Some(head) = head else { return Ok(None) };
        let changes = self.complete(facts)?;
        Ok(Some(Batch { changes, head }))
    }

    /// Adds what the tables know.
    fn complete(&mut self, facts: Vec<Fact>) -> Result<Vec<Change>, Error> {
        let Some(last) = facts.last() else { return Ok(Vec::new()) };
        let failed = |source| Error::Tables { what: "look grants up in the read tables", source };
        if !wait_in_tables(&*self.tables, self.partition, last.offset, TABLES).map_err(failed)? {
            return Err(Error::TablesBehind { partition: self.partition, offset: last.offset });
        }
        let generation = self.tables.in_use().map_err(failed)?.number;
        let mut ids: Vec<_> = facts.iter().map(|fact| (fact.grant,)).collect();
        ids.sort_unstable();
        ids.dedup();
        let rows = self.load::<PullGrantRow>(generation, &ids)?;
        self.know_versions(generation, rows.iter().map(|row| (row.task_id, row.task_version, row.shard)))?;
        let (mut given, mut without_task) = (HashMap::with_capacity(rows.len()), None);
        for row in rows {
            match self.versions.get(&(row.task_id, row.task_version, row.shard)) {
                Some(version) => {
                    given.insert((row.id, row.shard), Arc::new(given_of(row, version)));
                }
                // It may have left the tables since the grant was looked up, and the grant before it.
                None => without_task = Some(row.task_id),
            }
        }
        let (facts, missing): (Vec<_>, Vec<_>) =
            facts.into_iter().partition(|fact| given.contains_key(&(fact.grant, fact.shard)));
        self.pass_over(&missing, without_task)?;
        let change = |Fact { offset, index, at, grant, shard, state }| {
            let given = Arc::clone(&given[&(grant, shard)]);
            Change { offset, index, at, given, state }
        };
        Ok(facts.into_iter().map(change).collect())
    }

    /// Facts whose grants are missing: they may be so where these have left by age, and only there.
    fn pass_over(&self, missing: &[Fact], without_task: Option<i64>) -> Result<(), Error> {
        if missing.is_empty() {
            return Ok(());
        }
        let failed = |source| Error::Tables { what: "ask which grants have left the read tables", source };
        // Noted before the first of them goes, so it is noted if one was missing.
        let left = self.tables.left_grants().map_err(failed)?;
        let has_left = |fact: &&Fact| left.get(&fact.shard).is_some_and(|newest| fact.grant <= *newest);
        let (partition, count) = (self.partition, missing.len());
        if let Some(fact) = missing.iter().find(|fact| !has_left(fact)) {
            let (what, id) = without_task.map_or(("grant", fact.grant), |task| ("task", task));
            return Err(Error::NotInTables { partition, what, id });
        }
        tracing::warn!(
            partition,
            count,
            "{count} facts of partition {partition} are passed over: their grants have left the read tables by age"
        );
        Ok(())
    }

    fn load<R: Row>(&self, generation: u32, keys: &[R::Key]) -> Result<Vec<R>, Error> {
        let failed = |source| Error::Tables { what: "look grants up in the read tables", source };
        let mut rows = Vec::with_capacity(keys.len());
        for keys in keys.chunks(ROWS) {
            let keys: Vec<_> = keys.iter().map(R::key_values).collect();
            for values in self.tables.load(generation, R::TABLE, &keys).map_err(failed)? {
                rows.push(R::from_values(values).map_err(failed)?);
            }
        }
        Ok(rows)
    }

    fn know_versions(
        &mut self,
        generation: u32,
        wanted: impl Iterator<Item = VersionKey>,
    ) -> Result<(), Error> {
        if self.versions.len() > CACHED_VERSIONS {
            self.versions.clear();
        }
        let mut missing: Vec<_> = wanted.filter(|key| !self.versions.contains_key(key)).collect();
        missing.sort_unstable();
        missing.dedup();
        for row in self.load::<PullTaskVersionRow>(generation, &missing)? {
            let unreadable = |_| Error::NotInTables { partition: self.partition, what: "task", id: row.id };
            let spec = TaskSpec::from_json(row.definition.as_bytes()).map_err(unreadable)?;
            let parameters = serde_json::to_string(&spec.parameters).map_err(unreadable)?;
            let template = spec.template.map(|template| template.as_str().into());
            let version = Version { template, parameters: parameters.into() };
            self.versions.insert((row.id, row.version, row.shard), version);
        }
        Ok(())
    }
}

fn given_of(row: PullGrantRow, version: &Version) -> Given {
    Given {
        grant: row.id,
        task: row.task_id,
        task_version: row.task_version,
        task_name: row.task_name,
        template: version.template.clone(),
        parameters: Arc::clone(&version.parameters),
        group: row.group_name,
        user: row.user_name,
        start_at: row.start_at,
        granted_at: row.granted_at,
        expires_at: row.expires_at,
    }
}

/// Days since 1970, UTC.
fn day(at: i64) -> i64 {
    at.div_euclid(86_400_000)
}

/// Adds the facts about grants; gives about how many bytes they have.
fn facts_of(entry: &Entry, at: i64, facts: &mut Vec<Fact>) -> usize {
    let mut bytes = 0;
    for (index, recorded) in entry.envelope.events.iter().enumerate() {
        let Some((grant, state)) = State::of(&recorded.event) else { continue };
        bytes += 256 + state.result().map_or(0, str::len);
        facts.push(Fact {
            offset: entry.offset,
            index: u32::try_from(index).expect("an envelope holds few events"),
            at,
            grant: grant.0,
            shard: i64::from(recorded.shard.0),
            state,
        });
    }
    bytes
}
