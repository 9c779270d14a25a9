//! Making the tables anew from the journal, beside those in use.

mod cut;
pub(crate) mod plan;
mod refold;
mod since;

use std::path::PathBuf;
use std::time::Duration;

use tidemill_journal::{Shutdown, now};
use tidemill_log::{Log, Topic};
use tidemill_model::Timestamp;
use tidemill_store::{Tables, rows};

use crate::projection::Projection;
use crate::verify::ends;
use crate::{Config, Error, purge};

/// How far a rebuild is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebuildProgress {
    /// The number of the new set of tables.
    pub generation: u32,
    /// Journal records folded, in all partitions, those of earlier runs included.
    pub folded: u64,
    /// Journal records that there are.
    pub total: u64,
}

/// From when on a rebuild folds everything, and what it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// Rows of history that nothing has changed since then are copied from the tables in use.
    pub at: Timestamp,
    /// The present: a time after it is refused.
    pub now: Timestamp,
    /// Where rows are put aside meanwhile.
    pub scratch: PathBuf,
    /// Rows that may have changed since then, at most. Default 2,000,000; about 200 bytes each.
    pub max_rows: usize,
}

impl Since {
    /// With the default bounds, and the clock's time as the present.
    #[must_use]
    pub fn new(at: Timestamp) -> Self {
        Self { at, now: now(), scratch: std::env::temp_dir(), max_rows: 2_000_000 }
    }
}

/// What a rebuild did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebuilt {
    /// The number of the new set.
    pub generation: u32,
    /// Journal records folded.
    pub records: u64,
    /// Rows that are copies of what was in the tables, and were not looked at.
    pub copied_rows: u64,
}

/// Builds a second set of tables from the beginning of the journal, puts it to use once it has caught up with
/// the first, and only then drops the first. Readers and the projector go on meanwhile, and go over by
/// themselves. Interrupted, it goes on where it was when called again. Gives the number of the new set.
///
/// # Errors
/// [`Error::Interrupted`] on shutdown; the log; the database.
pub fn rebuild(
    config: &Config,
    log: &dyn Log,
    tables: &dyn Tables,
    shutdown: &Shutdown,
    on_progress: &mut dyn FnMut(RebuildProgress),
) -> Result<u32, Error> {
    let generation = match unfinished(tables, None)? {
        Some(generation) => generation,
        None => tables.create_generation().map_err(Error::tables("make tables"))?,
    };
    finish((config, log, tables), shutdown, generation, on_progress)?;
    Ok(generation)
}

/// [`rebuild`], where rows of history that nothing has changed since a time are copied from the tables in use: they are
/// right if they were. All others are folded from the journal.
///
/// # Errors
/// [`Error::Since`] where that time cannot be right; as [`rebuild`].
pub fn rebuild_since(
    config: &Config,
    since: &Since,
    log: &dyn Log,
    tables: &dyn Tables,
    shutdown: &Shutdown,
    on_progress: &mut dyn FnMut(RebuildProgress),
) -> Result<Rebuilt, Error> {
    let begin = since::Begin::find(since, log, tables)?;
    let generation = match unfinished(tables, Some(since.at))? {
        Some(generation) => generation,
        None => begin.make(tables)?,
    };
    let copied_rows = begin.fill((config, since, log, tables), shutdown, generation, on_progress)?;
    let records = finish((config, log, tables), shutdown, generation, on_progress)?;
    Ok(Rebuilt { generation, records, copied_rows })
}

/// Folds what is left, swaps, and removes what nobody uses any more. Gives how many records there were.
fn finish(
    (config, log, tables): (&Config, &dyn Log, &dyn Tables),
    shutdown: &Shutdown,
    generation: u32,
    on_progress: &mut dyn FnMut(RebuildProgress),
) -> Result<u64, Error> {
    let open = |partition| Projection::open(log, tables, generation, partition, config.cached_rows);
    let mut projections = (0..log.partitions(Topic::Journal)).map(open).collect::<Result<Vec<_>, _>>()?;
    loop {
        catch_up((log, tables), shutdown, &open, &mut projections, on_progress)?;
        match tables.activate(generation) {
            Ok(()) => break,
            // The first set was ahead: there is more to read by now.
            Err(tidemill_store::Error::Behind { .. }) => {}
            Err(source) => return Err(Error::Tables { what: "activate tables", source }),
        }
    }
    // Sets of another form are those of another version.
    let form = tables.form();
    for old in tables.generations().map_err(Error::tables("list the tables"))? {
        if !old.active && old.format == form {
            tables.drop_generation(old.number).map_err(Error::tables("drop tables"))?;
        }
    }
    // What had left the first set leaves this one, too.
    let horizon = tables.horizon().map_err(Error::tables("read the horizon"))?;
    if let Some(before) = horizon.and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
        purge(tables, before, shutdown)?;
    }
    Ok(projections.iter().map(next).sum())
}

/// A set that an earlier run left unfinished, if it can be gone on with: it was begun from the same time. With `drop`,
/// those that cannot are dropped.
pub(crate) fn left_unfinished(
    tables: &dyn Tables,
    since: Option<Timestamp>,
    drop: bool,
) -> Result<Option<u32>, Error> {
    let (generations, form) =
        (tables.generations().map_err(Error::tables("list the tables"))?, tables.form());
    let ours = || generations.iter().filter(|it| it.format == form);
    let active = ours().find(|it| it.active).map_or(0, |it| it.number);
    for begun in ours().filter(|it| it.number > active) {
        let whole = rows::TABLES.iter().all(|table| {
            let key = vec![tidemill_store::Value::from(""); table.key.len()];
            tables.load(begun.number, table, &[key]).is_ok()
        });
        let origin = tables.origin(begun.number).map_err(Error::tables("list the tables"))?;
        if whole && origin.map(|origin| origin.since_ms) == since.map(Timestamp::as_millisecond) {
            return Ok(Some(begun.number));
        }
        if drop {
            tables.drop_generation(begun.number).map_err(Error::tables("drop tables"))?;
        }
    }
    Ok(None)
}

fn unfinished(tables: &dyn Tables, since: Option<Timestamp>) -> Result<Option<u32>, Error> {
    left_unfinished(tables, since, true)
}

/// Folds every partition to where its journal ends at the time of the call.
fn catch_up(
    (log, tables): (&dyn Log, &dyn Tables),
    shutdown: &Shutdown,
    open: &dyn Fn(u32) -> Result<Projection, Error>,
    projections: &mut [Projection],
    on_progress: &mut dyn FnMut(RebuildProgress),
) -> Result<(), Error> {
    let ends = ends(log)?;
    let total = ends.iter().sum();
    for (index, partition) in (0..projections.len()).zip(0..) {
        while next(&projections[index]) < ends[index] {
            if shutdown.is_requested() {
                return Err(Error::Interrupted);
            }
            match projections[index].step(tables, Duration::from_millis(500)) {
                Ok(_) => {}
                // A projector of this version fills the same set: it goes on from where that is.
                Err(error) if is_conflict(&error) => {
                    let further = open(partition)?;
                    if next(&further) <= next(&projections[index]) {
                        return Err(error);
                    }
                    projections[index] = further;
                }
                Err(error) => return Err(error),
            }
            let generation = projections[index].generation;
            let folded = projections.iter().map(next).sum();
            on_progress(RebuildProgress { generation, folded, total });
        }
    }
    Ok(())
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Tables { source: tidemill_store::Error::PositionConflict { .. }, .. })
}

fn next(projection: &Projection) -> u64 {
    projection.projected().map_or(0, |offset| offset + 1)
}
