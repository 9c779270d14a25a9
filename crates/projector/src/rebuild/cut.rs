//! Where a time is in a journal.

use std::ops::Range;
use std::time::Duration;

use tidemill_log::{From, Kind, Log, Topic};
use tidemill_model::{Envelope, Timestamp};

use crate::Error;

pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// A read that gives nothing so often though there is more does not go on.
pub(super) const TRIES: u32 = 60;

/// The first record of a journal of this time or later; its end where there is none.
pub(super) fn cut(log: &dyn Log, partition: u32, at: Timestamp) -> Result<u64, Error> {
    let range = log.range(Topic::Journal, partition).map_err(Error::journal(partition))?;
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match envelope_from(log, partition, middle, high)? {
            // Between them no record has a time.
            None => high = middle,
            Some((_, now)) if now >= at => high = middle,
            Some((offset, _)) => low = offset + 1,
        }
    }
    Ok(low)
}

/// Offset and time of the first envelope from one offset to before another, whether it counts or not.
fn envelope_from(
    log: &dyn Log,
    partition: u32,
    from: u64,
    to: u64,
) -> Result<Option<(u64, Timestamp)>, Error> {
    let mut found = None;
    each(log, partition, from..to, 8, &mut |offset, envelope| {
        found = Some((offset, envelope.now));
        Ok(false)
    })?;
    Ok(found)
}

/// Every envelope of a range that can be read, whether it counts or not, until `on_envelope` says that it is enough.
pub(super) fn each(
    log: &dyn Log,
    partition: u32,
    range: Range<u64>,
    at_once: usize,
    on_envelope: &mut dyn FnMut(u64, &Envelope) -> Result<bool, Error>,
) -> Result<(), Error> {
    let failed = |source| Error::journal(partition)(source);
    let mut reader = log.reader(Topic::Journal, partition, From::Offset(range.start)).map_err(failed)?;
    let (mut next, mut tries) = (range.start, 0);
    while next < range.end {
        let most = usize::try_from(range.end - next).unwrap_or(usize::MAX).min(at_once);
        let records = reader.poll(most, PATIENCE).map_err(failed)?;
        tries = if records.is_empty() { tries + 1 } else { 0 };
        if tries == TRIES {
            return Err(Error::NoRecords { partition, offset: next });
        }
        for record in records {
            next = record.offset + 1;
            if !record.value.header().is_ok_and(|header| header.kind == Kind::Envelope) {
                continue;
            }
            // One that cannot be read is void, or ends the fold.
            let read = |body: &[u8]| Envelope::read(body, tidemill_journal::reads());
            let Ok(envelope) = record.value.decoded(read) else { continue };
            if !on_envelope(record.offset, &envelope)? {
                return Ok(());
            }
        }
    }
    Ok(())
}
