//! What the file has of each topic, and by how much that grows, without reading all of it: some records stand for the rest.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _};

use super::file::table;
use super::is_durable;
use super::older::open_read_only;
use crate::{Error, Topic, TopicUsage, Usage, clock};

/// Records that are looked at, evenly over all of a partition.
const SAMPLES: i64 = 64;
/// Of a row, beside key and value.
const ROW_BYTES: i64 = 24;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const HOUR_MS: i64 = 60 * 60 * 1_000;

/// Of the log in this file, which takes so many bytes.
pub(crate) fn of(file: &Path, partitions: u32, bytes: u64) -> Result<Usage, Error> {
    let failed = |error: rusqlite::Error| Error::Usage { source: error.into() };
    let connection = open_read_only(file).map_err(failed)?;
    let pragma = |name: &str| {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).map_err(failed)
    };
    let free = pragma("freelist_count")?.saturating_mul(pragma("page_size")?).cast_unsigned();
    let mut topics = BTreeMap::new();
    for topic in Topic::ALL.into_iter().filter(|topic| is_durable(*topic)) {
        let mut sum = TopicUsage::default();
        for partition in 0..partitions {
            let more = of_table(&connection, &table(topic, partition)).map_err(failed)?;
            sum.records += more.records;
            sum.bytes += more.bytes;
            sum.bytes_per_day += more.bytes_per_day;
        }
        topics.insert(topic, sum);
    }
    Ok(Usage { bytes: Some(bytes), free_bytes: Some(free), topics })
}

fn of_table(connection: &Connection, table: &str) -> rusqlite::Result<TopicUsage> {
    let ends = format!("SELECT min(offset), max(offset) FROM {table}");
    let ends = connection
        .query_row(&ends, [], |row| Ok(row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<i64>>(1)?)))?;
    let Some((first, last)) = ends else { return Ok(TopicUsage::default()) };
    let now_ms = clock::now_ms();
    let at = |offset: i64| -> rusqlite::Result<i64> {
        let sql = format!("SELECT at_ms FROM {table} WHERE offset >= ?1 ORDER BY offset LIMIT 1");
        let at = connection.prepare_cached(&sql)?.query_row([offset], |row| row.get(0)).optional()?;
        Ok(at.unwrap_or(now_ms))
    };
    let begun_ms = now_ms.saturating_sub(at(first)?).clamp(HOUR_MS, DAY_MS);
    // The first record of the last day: append times grow with the offsets.
    let (mut low, mut high) = (first, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if at(middle)? < now_ms - DAY_MS { low = middle + 1 } else { high = middle }
    }
    let bytes = sampled(connection, table, first..last + 1)?;
    let young = sampled(connection, table, low..last + 1)?;
    let per_day = i128::from(young) * i128::from(DAY_MS) / i128::from(begun_ms);
    Ok(TopicUsage {
        records: (last + 1 - first).cast_unsigned(),
        bytes: bytes.cast_unsigned(),
        bytes_per_day: u64::try_from(per_day).unwrap_or(u64::MAX),
    })
}

/// About how many bytes these records take.
fn sampled(connection: &Connection, table: &str, offsets: std::ops::Range<i64>) -> rusqlite::Result<i64> {
    let count = offsets.end - offsets.start;
    let samples = count.min(SAMPLES);
    // The length of a value is known without reading it.
    let sql = format!(
        "SELECT length(key) + length(value) + {ROW_BYTES} FROM {table} WHERE offset >= ?1 ORDER BY offset LIMIT 1"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut sum = 0_i64;
    for sample in 0..samples {
        let offset = offsets.start
            + i64::try_from(i128::from(count) * i128::from(sample) / i128::from(samples)).unwrap_or(0);
        sum += statement.query_row([offset], |row| row.get::<_, i64>(0)).optional()?.unwrap_or(0);
    }
    let bytes = i128::from(sum) * i128::from(count) / i128::from(samples.max(1));
    Ok(i64::try_from(bytes).unwrap_or(i64::MAX))
}
