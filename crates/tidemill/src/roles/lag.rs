//! How long the tables have lacked what a journal holds (TBL-3).

use std::time::Duration;

use serde::Deserialize;
use tidemill_log::{From, Kind, Log, Record, Topic};
use tidemill_model::Timestamp;

/// Records taken at once: the first may be a claim, which has no time.
const RECORDS: usize = 16;
/// A lag whose record does not come within this is shown without its time.
const PATIENCE: Duration = Duration::from_millis(200);

/// When an envelope was decided; the rest of it is not looked at.
#[derive(Deserialize)]
struct Decided {
    now: Timestamp,
}

/// How many milliseconds ago the first of so many records from `offset` on was decided; `None` where it cannot be read now.
pub(super) fn lag_ms(log: &dyn Log, partition: u32, offset: u64, records: u64) -> Option<u64> {
    if records == 0 {
        return Some(0);
    }
    let mut reader = log.reader(Topic::Journal, partition, From::Offset(offset)).ok()?;
    let decided = |record: &Record| {
        record.value.header().ok().filter(|header| header.kind == Kind::Envelope)?;
        serde_json::from_slice::<Decided>(&record.value.body()).ok()
    };
    let decided = loop {
        let records = reader.poll(RECORDS, PATIENCE).ok().filter(|records| !records.is_empty())?;
        if let Some(decided) = records.iter().find_map(decided) {
            break decided;
        }
    };
    let age = tidemill_journal::now().as_millisecond() - decided.now.as_millisecond();
    // The owner's clock may be ahead of this one.
    Some(u64::try_from(age).unwrap_or(0))
}
