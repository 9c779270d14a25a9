//! Making the tables anew from the journal, beside those in use.

use std::time::Duration;

use tidemill_journal::Shutdown;
use tidemill_log::{Log, Topic};
use tidemill_model::Timestamp;
use tidemill_store::{FORMAT, Tables, rows};

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
    let generation = match unfinished(tables)? {
        Some(generation) => generation,
        None => tables.create_generation().map_err(Error::tables("make tables"))?,
    };
    let open = |partition| Projection::open(log, tables, generation, partition, config.cached_rows);
    let mut projections = (0..log.partitions(Topic::Journal)).map(open).collect::<Result<Vec<_>, _>>()?;
    loop {
        catch_up(log, tables, shutdown, generation, &mut projections, on_progress)?;
        match tables.activate(generation) {
            Ok(()) => break,
            // The first set was ahead: there is more to read by now.
            Err(tidemill_store::Error::Behind { .. }) => {}
            Err(source) => return Err(Error::Tables { what: "activate tables", source }),
        }
    }
    for old in tables.generations().map_err(Error::tables("list the tables"))? {
        if !old.active {
            tables.drop_generation(old.number).map_err(Error::tables("drop tables"))?;
        }
    }
    // What had left the first set leaves this one, too.
    let horizon = tables.horizon().map_err(Error::tables("read the horizon"))?;
    if let Some(before) = horizon.and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
        purge(tables, before, shutdown)?;
    }
    Ok(generation)
}

/// A set that an earlier run left unfinished, if it can be gone on with.
fn unfinished(tables: &dyn Tables) -> Result<Option<u32>, Error> {
    let generations = tables.generations().map_err(Error::tables("list the tables"))?;
    let active = generations.iter().find(|it| it.active).map_or(0, |it| it.number);
    for begun in generations.iter().filter(|it| it.number > active) {
        let whole = rows::TABLES.iter().all(|table| {
            let key = vec![tidemill_store::Value::from(""); table.key.len()];
            tables.load(begun.number, table, &[key]).is_ok()
        });
        if whole && begun.format == *FORMAT {
            return Ok(Some(begun.number));
        }
        tables.drop_generation(begun.number).map_err(Error::tables("drop tables"))?;
    }
    Ok(None)
}

/// Folds every partition to where its journal ends at the time of the call.
fn catch_up(
    log: &dyn Log,
    tables: &dyn Tables,
    shutdown: &Shutdown,
    generation: u32,
    projections: &mut [Projection],
    on_progress: &mut dyn FnMut(RebuildProgress),
) -> Result<(), Error> {
    let ends = ends(log)?;
    let total = ends.iter().sum();
    for index in 0..projections.len() {
        while next(&projections[index]) < ends[index] {
            if shutdown.is_requested() {
                return Err(Error::Interrupted);
            }
            projections[index].step(tables, Duration::from_millis(500))?;
            let folded = projections.iter().map(next).sum();
            on_progress(RebuildProgress { generation, folded, total });
        }
    }
    Ok(())
}

fn next(projection: &Projection) -> u64 {
    projection.projected().map_or(0, |offset| offset + 1)
}
