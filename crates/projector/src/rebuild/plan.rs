//! What a rebuild would do. Nothing is changed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use tidemill_journal::{Journal, Shutdown, Start};
use tidemill_log::Log;
use tidemill_model::Timestamp;
use tidemill_store::{Position, RebuildInProgress, Tables, rows};

use super::refold::Refold;
use super::since::{Begin, ToldKey, is_history};
use super::{Since, unfinished};
use crate::fold::Fold;
use crate::verify::{Scratch, ends};
use crate::{Config, Difference, Error, VerifyConfig, verify_within};

/// A sample is folded for so long.
const SAMPLE: Duration = Duration::from_secs(1);
const RECORDS: usize = 128;

/// What is asked of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRequest {
    /// From a time; absent: from the beginning.
    pub since: Option<Since>,
    /// Whether the tables are compared with the journal, which takes about as long as a rebuild.
    pub compare: bool,
    /// What a comparison may take, and where the sample is put aside.
    pub verify: VerifyConfig,
}

/// What a rebuild reads of one journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedPartition {
    /// Which journal.
    pub partition: u32,
    /// The first record that is read.
    pub from: u64,
    /// Where everything is folded from: before it, of rows of history only those that change later. The same as `from`
    /// in a rebuild from the beginning.
    pub folded_from: u64,
    /// The offset after the last record.
    pub end: u64,
    /// Of these, how many are read from the archive.
    pub archived_records: u64,
    /// The segments of the archive that are needed.
    pub segments: Vec<String>,
    /// Their bytes.
    pub segment_bytes: u64,
}

/// A table as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedTable {
    /// Its name.
    pub table: &'static str,
    /// Rows in the set in use.
    pub rows: u64,
    /// Whether rows that nothing has changed since the time are copied.
    pub copied: bool,
}

/// What differs from the journal now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// How many differences there are.
    pub difference_count: u64,
    /// Of those that are listed, how many the rebuild would mend.
    pub mended: u64,
    /// Of those that are listed, how many it would leave, because their rows would be copied.
    pub left: u64,
    /// The first thousand differences.
    pub differences: Vec<PlannedDifference>,
}

/// A difference, and what would become of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedDifference {
    /// What differs.
    #[serde(flatten)]
    pub difference: Difference,
    /// Whether the rebuild would mend it.
    pub mended: bool,
}

/// What a rebuild would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The set of tables in use; absent: there is none of this form.
    pub generation: Option<u32>,
    /// A set that an interrupted rebuild left, which would be gone on with.
    pub unfinished: Option<u32>,
    /// The rebuild that goes on now, or was cut off a moment ago: it keeps another one out.
    pub in_progress: Option<RebuildInProgress>,
    /// From which time; absent: from the beginning.
    #[serde(rename = "from")]
    pub since: Option<Timestamp>,
    /// What is read.
    pub partitions: Vec<PlannedPartition>,
    /// Records that are read.
    pub records: u64,
    /// Rows of the tables in use.
    pub rows: u64,
    /// The same, table by table.
    pub tables: Vec<PlannedTable>,
    /// About how long it takes, seconds, by a sample that is folded into a file beside; absent: there is nothing to fold.
    pub estimated_s: Option<f64>,
    /// What differs now; absent: it was not asked for.
    pub comparison: Option<Compared>,
}

/// Says what [`super::rebuild`], or [`super::rebuild_since`], would do.
///
/// # Errors
/// As those.
pub fn plan_rebuild(
    config: &Config,
    request: &PlanRequest,
    log: &dyn Log,
    tables: &dyn Tables,
    shutdown: &Shutdown,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<Plan, Error> {
    let since = request.since.as_ref();
    if request.compare {
        tables.in_use().map_err(Error::tables("compare the tables"))?;
    }
    let begin = since.map(|since| Begin::find(since, log, tables)).transpose()?;
    let active = tables.active().map_err(Error::tables("find the tables in use"))?;
    let active = active.map(|active| active.number);
    // From a time, it begins anew in any case.
    let unfinished = if since.is_none() { unfinished(config, log, tables)? } else { None };
    let partitions = partitions(log, tables, begin.as_ref(), unfinished)?;
    let records = partitions.iter().map(|it| it.end - it.from).sum();
    let mut counted = Vec::new();
    for table in rows::TABLES {
        let Some(active) = active else { break };
        let rows = tables.count(active, table).map_err(Error::tables("count rows"))?;
        counted.push(PlannedTable { table: table.name, rows, copied: since.is_some() && is_history(table) });
    }
    let rate = sample(config, request, log, shutdown)?;
    let comparison = match request.compare {
        true => Some(compare(config, request, (log, tables), begin.as_ref(), shutdown, on_progress)?),
        false => None,
    };
    let in_progress = tables.rebuild_in_progress().map_err(Error::tables("ask who rebuilds the tables"))?;
    Ok(Plan {
        generation: active,
        unfinished,
        in_progress,
        since: since.map(|since| since.at),
        partitions,
        records,
        rows: counted.iter().map(|table| table.rows).sum(),
        tables: counted,
        estimated_s: rate.map(|rate| (f64_of(records) / rate * 10.0).ceil() / 10.0),
        comparison,
    })
}

fn partitions(
    log: &dyn Log,
    tables: &dyn Tables,
    begin: Option<&Begin>,
    unfinished: Option<u32>,
) -> Result<Vec<PlannedPartition>, Error> {
    let stands = unfinished.map(|set| tables.positions(set).map_err(Error::tables("read the positions")));
    let stands = stands.transpose()?.unwrap_or_default();
    let planned = |(partition, end): (u32, u64)| {
        let from = stands.get(&partition).map_or(0, |position| position.offset + 1).min(end);
        let parts = log.archived(partition, from).map_err(Error::journal(partition))?;
        let folded_from = begin.map_or(from, |begin| begin.cuts[partition as usize].max(from));
        Ok(PlannedPartition {
            partition,
            from,
            folded_from,
            end,
            archived_records: parts.iter().map(|part| part.next - part.first).sum(),
            segment_bytes: parts.iter().map(|part| part.bytes).sum(),
            segments: parts.into_iter().map(|part| part.segment).collect(),
        })
    };
    (0..).zip(ends(log)?).map(planned).collect()
}

/// Records in a second, of the longest journal; absent: there are none.
fn sample(
    config: &Config,
    request: &PlanRequest,
    log: &dyn Log,
    shutdown: &Shutdown,
) -> Result<Option<f64>, Error> {
    let longest = (0..).zip(ends(log)?).max_by_key(|(_, end): &(u32, u64)| *end);
    let Some((partition, end)) = longest.filter(|(_, end)| *end > 0) else { return Ok(None) };
    let scratch = Scratch::new(&request.verify.scratch)?;
    let mut journal = Journal::open(log, partition, "the tables", Start::Beginning)?;
    let (mut fold, mut written) = (Fold::new(partition, config.cached_rows), None::<Position>);
    let (begun_at, mut next) = (Instant::now(), 0);
    while next < end && begun_at.elapsed() < SAMPLE {
        if shutdown.is_requested() {
            return Err(Error::Interrupted);
        }
        let read = journal.poll(RECORDS, SAMPLE)?;
        let Some(last) = read.last else { break };
        next = last + 1;
        read.entries.iter().for_each(|entry| fold.need(&entry.envelope));
        for (table, keys) in fold.take_missing() {
            let rows = scratch.load(table, &keys)?;
            fold.provide(table, rows).map_err(Error::tables("fold the journal"))?;
        }
        read.entries.iter().for_each(|entry| fold.apply(entry.offset, &entry.envelope));
        let to = Position { offset: last, head: format!("{last}").into() };
        scratch.write(partition, written.replace(to.clone()), to, fold.take_changes())?;
    }
    let took = begun_at.elapsed().as_secs_f64();
    Ok((next > 0 && took > 0.0).then(|| f64_of(next) / took))
}

fn compare(
    config: &Config,
    request: &PlanRequest,
    (log, tables): (&dyn Log, &dyn Tables),
    begin: Option<&Begin>,
    shutdown: &Shutdown,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<Compared, Error> {
    let report = verify_within(&request.verify, log, tables, shutdown, on_progress)?;
    let keys = match (begin, &request.since) {
        (Some(begin), Some(since)) if report.difference_count > 0 => {
            let (stood, cached_rows) = (&BTreeMap::new(), config.cached_rows);
            let work = Refold { since, log, shutdown, stood, cached_rows };
            Some(work.fold(&begin.cuts, on_progress)?.keys)
        }
        _ => None,
    };
    let told = |it: &Difference| -> ToldKey { (it.table, it.key.clone()) };
    let asked = report.differences.iter().map(told).collect();
    let folded = keys.map(|keys| keys.named(&asked));
    let is_mended = |difference: &Difference| {
        let table = rows::table(difference.table).filter(|table| is_history(table));
        let folded = folded.as_ref().zip(table);
        folded.is_none_or(|(folded, _)| folded.contains(&told(difference)))
    };
    let planned = |difference: Difference| {
        let mended = is_mended(&difference);
        PlannedDifference { difference, mended }
    };
    let differences: Vec<_> = report.differences.into_iter().map(planned).collect();
    let mended = differences.iter().filter(|it| it.mended).count() as u64;
    let left = differences.len() as u64 - mended;
    Ok(Compared { difference_count: report.difference_count, mended, left, differences })
}

fn f64_of(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}
