//! Making the tables anew from the journal, beside those in use.

mod alone;
mod cut;
pub(crate) mod plan;
mod refold;
mod since;

use std::path::PathBuf;
use std::time::Duration;

use tidemill_journal::{Shutdown, causes, now};
use tidemill_log::{Log, Topic};
use tidemill_model::Timestamp;
use tidemill_store::{Aged, RebuildRight, Tables};

use crate::projection::Projection;
use crate::purge::purge_aged;
use crate::verify::ends;
use crate::{Config, Error};
use alone::alone;

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
/// [`Error::Interrupted`] on shutdown; [`tidemill_store::Error::RebuildGoesOn`]; the log; the database.
pub fn rebuild(
    config: &Config,
    log: &dyn Log,
    tables: &dyn Tables,
    shutdown: &Shutdown,
    on_progress: &mut dyn FnMut(RebuildProgress),
) -> Result<u32, Error> {
    alone(tables, |right| {
        let begun = unfinished(config, log, tables)?;
        drop_unused(tables, right, begun)?;
        let generation = match begun {
            Some(generation) => generation,
            None => tables.create_generation().map_err(Error::tables("make tables"))?,
        };
        finish((config, log, tables), (right, generation), shutdown, on_progress)?;
        Ok(generation)
    })
}

/// [`rebuild`], where rows of history that nothing has changed since a time are copied from the tables in use: they are
/// right if they were. All others are folded from the journal. Interrupted, it begins anew when called again: what was
/// copied may have changed since.
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
    alone(tables, |right| {
        let begin = since::Begin::find(since, log, tables)?;
        drop_unused(tables, right, None)?;
        let generation = tables.create_for_copies(right).map_err(Error::tables("make tables"))?;
        let set = (right, generation);
        let copied_rows = begin.fill((config, since, log, tables), set, shutdown, on_progress)?;
        let records = finish((config, log, tables), set, shutdown, on_progress)?;
        Ok(Rebuilt { generation, records, copied_rows })
    })
}

/// Folds what is left, swaps, and removes what nobody uses any more. Gives how many records there were.
fn finish(
    (config, log, tables): (&Config, &dyn Log, &dyn Tables),
    (right, generation): (RebuildRight, u32),
    shutdown: &Shutdown,
    on_progress: &mut dyn FnMut(RebuildProgress),
) -> Result<u64, Error> {
    let open = |partition| Projection::open(log, tables, generation, partition, config.cached_rows);
    let mut projections = (0..log.partitions(Topic::Journal)).map(open).collect::<Result<Vec<_>, _>>()?;
    loop {
        catch_up((log, tables, right), shutdown, &open, &mut projections, on_progress)?;
        let reached = |partition| projections.get(partition as usize).map(next);
        if put_to_use(log, tables, generation, &reached)? {
            break;
        }
        if shutdown.is_requested() {
            return Err(Error::Interrupted);
        }
    }
    clean_up(tables, right, shutdown);
    Ok(projections.iter().map(next).sum())
}

/// What is left to do when the new set is in use. What fails of it takes nothing back, and others do it later.
fn clean_up(tables: &dyn Tables, right: RebuildRight, shutdown: &Shutdown) {
    let views = tables.repair_views().map_err(Error::tables("point the views to the tables"));
    let dropped = views
        .and_then(|()| drop_unused(tables, right, None))
        .and_then(|()| sweep(tables, shutdown).map_err(Error::tables("drop tables")));
    if let Err(error) = dropped {
        let reason = causes(&error);
        tracing::warn!(
            reason,
            "the tables are rebuilt and in use; the old ones stay until the next rebuild: {reason}"
        );
    }
    // What had left the first set leaves this one, too.
    let purged = [Aged::Pull, Aged::Audit].into_iter().try_for_each(|of| {
        let horizon = tables.horizon(of).map_err(Error::tables("read the horizon"))?;
        match horizon.and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
            Some(before) => purge_aged(tables, of, before, shutdown).map(drop),
            None => Ok(()),
        }
    });
    if let Err(error) = purged {
        let reason = causes(&error);
        tracing::warn!(
            reason,
            "rows that had left the tables stay until the projector deletes them: {reason}"
        );
    }
}

/// Records of one partition that a set may have less than its journal when it takes the place of one that is beyond that.
const MAY_LACK: u64 = 64;

/// Makes a set the one in use, if it has folded as much as the one that it takes the place of; `false`: not yet. Where that
/// one shows records that its journal does not have, because that was restored or lost its end, the journal itself is the
/// measure: `next` says how many of its records, void ones among them, the new set has of a partition.
pub(crate) fn put_to_use(
    log: &dyn Log,
    tables: &dyn Tables,
    generation: u32,
    next: &dyn Fn(u32) -> Option<u64>,
) -> Result<bool, Error> {
    let mut beyond = Vec::new();
    loop {
        match tables.activate(generation, &beyond) {
            Ok(()) => return Ok(true),
            Err(tidemill_store::Error::Behind { partition, .. })
                if !beyond.contains(&partition) && is_beyond(log, tables, partition, next(partition))? =>
            {
                beyond.push(partition);
            }
            Err(tidemill_store::Error::Behind { .. }) => return Ok(false),
            Err(source) => return Err(Error::Tables { what: "activate tables", source }),
        }
    }
}

/// Whether a set in use shows records of a partition that the journal does not have, while a new one with so many records
/// has all that are there.
fn is_beyond(log: &dyn Log, tables: &dyn Tables, partition: u32, next: Option<u64>) -> Result<bool, Error> {
    const WHAT: &str = "read the positions";
    if partition >= log.partitions(Topic::Journal) {
        return Ok(true);
    }
    let Some(next) = next else { return Ok(false) };
    let mut shown = None;
    for set in tables.generations().map_err(Error::tables(WHAT))?.iter().filter(|set| set.active) {
        let positions = tables.positions(set.number).map_err(Error::tables(WHAT))?;
        shown = shown.max(positions.get(&partition).map(|position| position.offset));
    }
    // Asked for after the positions, for a journal that is whole is longer than what anybody has shown of it.
    let end = log.range(Topic::Journal, partition).map_err(Error::journal(partition))?.end;
    Ok(shown.is_some_and(|offset| offset >= end) && next + MAY_LACK >= end)
}

/// The set that an earlier rebuild from the beginning left unfinished, where it is of this journal.
pub(crate) fn unfinished(config: &Config, log: &dyn Log, tables: &dyn Tables) -> Result<Option<u32>, Error> {
    let (generations, form) =
        (tables.generations().map_err(Error::tables("list the tables"))?, tables.form());
    let ours = || generations.iter().filter(|it| it.format == form);
    let active = ours().find(|it| it.active).map_or(0, |it| it.number);
    for set in ours().filter(|it| it.number > active && !it.has_copies) {
        let is_whole = tables.is_whole(set.number).map_err(Error::tables("look for the tables of a set"))?;
        if is_whole && fits(config, log, tables, set.number)? {
            return Ok(Some(set.number));
        }
    }
    Ok(None)
}

/// Whether a set can go on with this journal: not so where that was restored, or lost its end, since the set was begun.
fn fits(config: &Config, log: &dyn Log, tables: &dyn Tables, generation: u32) -> Result<bool, Error> {
    use tidemill_journal::Error::{AheadOfRestore, PositionMismatch};
    for partition in 0..log.partitions(Topic::Journal) {
        match Projection::open(log, tables, generation, partition, config.cached_rows) {
            Ok(_) => {}
            Err(
                Error::Journal(AheadOfRestore { .. } | PositionMismatch { .. })
                | Error::StoredPosition { .. },
            ) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Drops every set of this form that is neither in use nor this one. Sets of another form are those of another version.
fn drop_unused(tables: &dyn Tables, right: RebuildRight, but: Option<u32>) -> Result<(), Error> {
    let form = tables.form();
    for set in tables.generations().map_err(Error::tables("list the tables"))? {
        if !set.active && set.format == form && Some(set.number) != but {
            tables.drop_generation(right, set.number).map_err(Error::tables("drop tables"))?;
        }
    }
    Ok(())
}

/// Between two pieces of tables that are dropped, so that others come to write.
const REST: Duration = Duration::from_millis(5);

/// Removes the tables of sets that were dropped, until it is told to stop: then the next one goes on with it.
pub(crate) fn sweep(tables: &dyn Tables, shutdown: &Shutdown) -> Result<(), tidemill_store::Error> {
    while tables.sweep()? && !shutdown.wait(REST) {}
    Ok(())
}

/// Folds every partition to where its journal ends at the time of the call.
fn catch_up(
    (log, tables, right): (&dyn Log, &dyn Tables, RebuildRight),
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
            tables.keep_rebuild(right).map_err(Error::tables("go on with the rebuild"))?;
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
