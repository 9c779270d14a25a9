//! Which set of tables programs of this form use, why there is none, and waiting for what it shows.

use std::time::{Duration, Instant};

use crate::{Error, Generation, Tables};

impl dyn Tables + '_ {
    /// [`Self::active`]; where there is none, why.
    ///
    /// # Errors
    /// [`Error::Building`]; [`Error::NoGeneration`]; the database.
    pub fn in_use(&self) -> Result<Generation, Error> {
        let (form, sets) = (self.form(), self.generations()?);
        if let Some(set) = sets.iter().find(|set| set.active && set.format == form) {
            return Ok(*set);
        }
        let records = |set: Option<&Generation>| -> Result<u64, Error> {
            let positions = set.map(|set| self.positions(set.number)).transpose()?.unwrap_or_default();
            Ok(positions.values().map(|position| position.offset + 1).sum())
        };
        let Some(other) = sets.iter().rev().find(|set| set.active) else { return Err(Error::NoGeneration) };
        let folded = records(sets.iter().find(|set| set.format == form))?;
        Err(Error::Building { folded, records: records(Some(other))?.max(folded) })
    }

    /// The set that programs of this form use.
    ///
    /// # Errors
    /// The database.
    pub fn active(&self) -> Result<Option<Generation>, Error> {
        let form = self.form();
        Ok(self.generations()?.into_iter().find(|set| set.active && set.format == form))
    }
}

/// Waits until the tables show this journal record, by asking the database: for a process that reads tables
/// which another process fills. `false` where they do not within `timeout`.
///
/// # Errors
/// The database.
pub fn wait_in_tables(
    tables: &dyn Tables,
    partition: u32,
    offset: u64,
    timeout: Duration,
) -> Result<bool, Error> {
    const SHORTEST: Duration = Duration::from_millis(2);
    const LONGEST: Duration = Duration::from_millis(50);
    let deadline = Instant::now() + timeout;
    let mut pause = SHORTEST;
    loop {
        if let Some(active) = tables.active()? {
            let positions = tables.positions(active.number)?;
            if positions.get(&partition).is_some_and(|position| position.offset >= offset) {
                return Ok(true);
            }
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(LONGEST);
    }
}
