//! Waiting for the tables, for whoever does not fill them.

use std::time::{Duration, Instant};

use crate::{Error, Tables};

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
