//! The role: one thread per partition keeps the tables in use close to the journal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_journal::{Keepers, Progress, Session, Shutdown, causes};
use tidemill_log::{Log, Topic};
use tidemill_store::Tables;

use crate::projection::Projection;
use crate::rebuild::put_to_use;
use crate::retire::keep_retiring;
use crate::{Error, purge};

/// The role that fills the read tables and publishes the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ProjectorSettings")]
pub struct Config {
    /// Rows of each partition kept in memory between transactions, about 400 bytes each. Default 32,768.
    pub cached_rows: usize,
    /// Under load, transactions of one partition begin at least this far apart, milliseconds, and three times as far as the
    /// last one took, up to 50 ms: rows that change again meanwhile are written once. Default 10; 0 to 500; 0: at once.
    pub min_write_interval_ms: u64,
    /// How long the tables keep what became of pull tasks, days: grants since they were given, occurrences and tasks
    /// for once since their start. Default 400; 0 to 36,500; 0: for ever. What its owner has not forgotten stays.
    pub pull_retention_days: u32,
    /// How long the tables keep the audit list, days. Default 400; 0 to 36,500; 0: for ever. The journal keeps what it is made of.
    pub audit_keep_days: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cached_rows: 32_768,
            min_write_interval_ms: 10,
            pull_retention_days: 400,
            audit_keep_days: 400,
        }
    }
}

impl Config {
    /// From the beginning of a transaction that took so long to that of the next.
    fn pause(&self, took: Duration) -> Duration {
        let least = Duration::from_millis(self.min_write_interval_ms);
        if least.is_zero() { least } else { least.max(MAX_REST.min(took.saturating_mul(REST))) }
    }
}

/// Under load, a transaction begins so many times as long after the one before as that took, as far as this goes.
const REST: u32 = 3;
const MAX_REST: Duration = Duration::from_millis(50);
/// How long a thread waits for records before it looks around: which tables are in use now?
const LOOK_AROUND: Duration = Duration::from_millis(500);

/// Keeps the tables in use up to date with every partition until shutdown. Makes a first set of tables where
/// there is none. A database or broker that is away is waited for; nothing is ever skipped.
///
/// # Errors
/// The first partition's error that no waiting fixes; the other partitions go on until shutdown.
pub fn run(
    config: &Config,
    log: &Arc<dyn Log>,
    tables: &Arc<dyn Tables>,
    progress: &Progress,
    shutdown: &Shutdown,
) -> Result<(), Error> {
    point_views(&**tables);
    let mut keepers = Keepers::new(shutdown);
    let built = Built::default();
    for partition in 0..log.partitions(Topic::Journal) {
        progress.change(partition, |_| {});
        let keeper = Keeper {
            config: config.clone(),
            partition,
            log: Arc::clone(log),
            tables: Arc::clone(tables),
            progress: progress.clone(),
            shutdown: shutdown.clone(),
            built: Arc::clone(&built),
            projection: None,
        };
        keepers
            .start(format!("projector-{partition}"), keeper)
            .map_err(|source| Error::Thread { partition, source })?;
    }
    // It ends with the partitions, also where they end by themselves.
    let purged = Shutdown::new();
    let (retired, told) = (Arc::clone(tables), purged.clone());
    let retiring = thread::Builder::new()
        .name("retire".to_owned())
        .spawn(move || keep_retiring(&*retired, &told))
        .map_err(|source| Error::Thread { partition: 0, source })?;
    let kept = purge::kept_days(config);
    let purging = (!kept.is_empty()).then(|| {
        let (tables, told) = (Arc::clone(tables), purged.clone());
        thread::Builder::new()
            .name("purge".to_owned())
            .spawn(move || purge::keep_purging(&*tables, &kept, &told))
    });
    let outcome = keepers.join();
    purged.request();
    drop(retiring.join());
    match purging {
        Some(Ok(thread)) => drop(thread.join()),
        Some(Err(error)) => {
            tracing::warn!(%error, "old rows stay in the tables: there is no thread to delete them")
        }
        None => {}
    }
    outcome
}

/// A swap that was cut off may have left the views for people on the old tables.
fn point_views(tables: &dyn Tables) {
    if let Err(error) = tables.repair_views() {
        let reason = causes(&error);
        tracing::warn!(reason, "the views could not be pointed to the tables in use: {reason}");
    }
}

/// How many records of each partition the set has that is built, void ones among them, and which set that is.
type Built = Arc<Mutex<BTreeMap<u32, (u32, u64)>>>;

/// Keeps one partition.
struct Keeper {
    config: Config,
    partition: u32,
    log: Arc<dyn Log>,
    tables: Arc<dyn Tables>,
    progress: Progress,
    shutdown: Shutdown,
    built: Built,
    /// Kept over an outage of the database: what was read and folded need not be done again.
    projection: Option<Projection>,
}

impl Session for Keeper {
    type Error = Error;

    fn run(&mut self, worked: &mut bool) -> Result<(), Error> {
        let mut kept = self.projection.take();
        let outcome = self.session(&mut kept, worked);
        self.projection = kept;
        outcome
    }

    fn failed(&mut self, error: &Error, reason: &str) -> bool {
        if !matches!(error, Error::Tables { .. }) || is_overtaken(error) {
            self.projection = None;
        }
        self.progress.change(self.partition, |it| it.error = Some(reason.to_owned()));
        error.is_outage() || is_overtaken(error)
    }

    fn tell_held_up(&self, reason: &str) {
        let partition = self.partition;
        tracing::warn!(partition, reason, "the projection of partition {partition} is held up: {reason}");
    }

    fn tell_stopped(&self, reason: &str) {
        let partition = self.partition;
        tracing::error!(partition, reason, "partition {partition} is not projected any more: {reason}");
    }
}

impl Keeper {
    /// Follows the journal until shutdown (`Ok`) or an error. Goes over to other tables when they are in use.
    fn session(&self, kept: &mut Option<Projection>, worked: &mut bool) -> Result<(), Error> {
        let mut target = self.target()?;
        let mut projection = match kept.take() {
            Some(same) if same.generation == target.set && same.fits(&*self.tables)? => kept.insert(same),
            Some(_) | None => kept.insert(self.open(target.set)?),
        };
        let mut written = None::<(Instant, Duration)>;
        let mut swap_tried_at = None::<Instant>;
        while !self.shutdown.is_requested() {
            if let Some((at, took)) = written {
                let _ = self.shutdown.wait(self.config.pause(took).saturating_sub(at.elapsed()));
            }
            let step = projection.step(&*self.tables, LOOK_AROUND)?;
            *worked = true;
            let now = match step.active {
                Some(Some(set)) => Target { set, in_use: true },
                Some(None) => target,
                None => self.target()?,
            };
            // Tables that were lost come back under the same number.
            let is_same = now.set == projection.generation
                && (step.active.is_some() || projection.fits(&*self.tables)?);
            target = now;
            if !is_same {
                let (partition, set) = (self.partition, target.set);
                tracing::info!(partition, set, "partition {partition} goes over to tables {set}");
                projection = kept.insert(self.open(set)?);
                continue;
            }
            let may_swap = step.events == 0 || swap_tried_at.is_none_or(|at| at.elapsed() >= LOOK_AROUND);
            if !target.in_use && may_swap {
                target.in_use = self.swap(target.set, projection.projected())?;
                swap_tried_at = Some(Instant::now());
            }
            // Without anything to write there is no load.
            written = step.active.and(step.begun_at).map(|at| (at, at.elapsed()));
            let (projected, voids) = (projection.projected(), std::mem::take(&mut projection.voids));
            self.progress.change(self.partition, |it| {
                it.projected = projected;
                it.void_records += voids;
                it.error = None;
            });
        }
        Ok(())
    }

    fn open(&self, generation: u32) -> Result<Projection, Error> {
        let rows = self.config.cached_rows;
        let projection = Projection::open(&*self.log, &*self.tables, generation, self.partition, rows)?;
        self.shutdown.wakes(projection.waker());
        Ok(projection)
    }

    /// The tables in use. Where those that are there are of another version, the ones that are built beside them; where
    /// there are none, it makes the first.
    fn target(&self) -> Result<Target, Error> {
        const WHAT: &str = "find the tables in use";
        let look = || -> Result<(Option<u32>, bool), Error> {
            let (form, sets) = (self.tables.form(), self.tables.generations().map_err(Error::tables(WHAT))?);
            let ours = sets.iter().find(|set| set.active && set.format == form);
            Ok((ours.map(|set| set.number), sets.iter().any(|set| set.active)))
        };
        if let (Some(set), _) = look()? {
            return Ok(Target { set, in_use: true });
        }
        // All threads come here at the first start: one of them makes the tables.
        let _turn = FIRST_TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        match look()? {
            (Some(set), _) => Ok(Target { set, in_use: true }),
            (None, true) => {
                let set = self.tables.build_beside().map_err(Error::tables("make tables"))?;
                Ok(Target { set, in_use: false })
            }
            (None, false) => {
                let set = self.tables.create_generation().map_err(Error::tables("make tables"))?;
                self.tables.activate(set, &[]).map_err(Error::tables("activate tables"))?;
                Ok(Target { set, in_use: true })
            }
        }
    }

    /// Puts the tables that were built beside those of another version to use, if all partitions have caught up with those.
    fn swap(&self, set: u32, projected: Option<u64>) -> Result<bool, Error> {
        let built = || self.built.lock().unwrap_or_else(PoisonError::into_inner);
        built().insert(self.partition, (set, projected.map_or(0, |offset| offset + 1)));
        let next = |partition| built().get(&partition).filter(|(of, _)| *of == set).map(|(_, next)| *next);
        let is_done = put_to_use(&*self.log, &*self.tables, set, &next)?;
        if is_done {
            tracing::info!(
                set,
                "tables {set} have caught up with those of the version before, and are in use"
            );
        }
        Ok(is_done)
    }
}

/// A set of tables to fill.
#[derive(Clone, Copy)]
struct Target {
    set: u32,
    /// Programs of this form use it; else it is built.
    in_use: bool,
}

/// Whether somebody else moved or replaced the tables, so that a fresh look helps.
fn is_overtaken(error: &Error) -> bool {
    use tidemill_store::Error as Store;
    matches!(
        error,
        Error::Tables {
            source: Store::PositionConflict { .. } | Store::UnknownGeneration { .. } | Store::Behind { .. },
            ..
        }
    )
}

/// One thread of this process at a time makes first tables.
static FIRST_TABLES: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_as_far_apart_as_they_take_within_bounds() {
        let after = |least_ms, took_ms| {
            let config = Config { min_write_interval_ms: least_ms, ..Config::default() };
            config.pause(Duration::from_millis(took_ms)).as_millis()
        };
        assert_eq!([after(10, 0), after(10, 3), after(10, 4), after(10, 16)], [10, 10, 12, 48]);
        assert_eq!([after(10, 17), after(10, 1_000), after(200, 17), after(0, 17)], [50, 50, 200, 0]);
    }
}
