//! Pages of a list of a million batches, for readers who may see all of it, or little (API-5, API-7).

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use tidemill_store::rows::{BatchRow, JobRow};
use tidemill_store::{
    BatchFilter, PageRequest, Position, Reach, ReadTables, RowBatch, SqliteTables, TableChanges, Tables,
    Within,
};

use crate::backend::Backend;
use crate::row::{Row, percentile};
use crate::usage::Usage;

/// Jobs, of which each tenth batch is one more.
const BATCHES_OF_JOB: usize = 10;
const PAGE: usize = 100;
const PAGES: usize = 200;
/// Rows written at once.
const PART: usize = 10_000;

pub(crate) const OF_ALL: &str = "a page of 100 for who may see all, 99 of 100, ms";
pub(crate) const OF_FEW: &str = "a page of 100 for who may see 3 jobs, 99 of 100, ms";
pub(crate) const OF_MANY: &str = "a page of 100 for who may see 500 jobs, 99 of 100, ms";
pub(crate) const OF_GROUP: &str = "a page of 100 for a key of one of ten groups, 99 of 100, ms";

/// So many batches of a tenth as many jobs.
pub(crate) fn measure(name: &str, backend: Backend, batches: usize) -> anyhow::Result<Row> {
    let directory = tempfile::tempdir()?;
    let (tables, _database) = open(backend, directory.path())?;
    let before = Usage::now();
    let begun = Instant::now();
    write(&*tables, batches)?;
    let written = begun.elapsed().as_secs_f64();
    let of_owner = |owner: &str| {
        Some(Reach(vec![Within { owners: vec![owner.to_owned(), "nobody".to_owned()], ..Within::default() }]))
    };
    let of_group = Some(Reach(vec![Within { groups: vec!["g3".to_owned()], ..Within::default() }]));
    let cases =
        [(OF_ALL, None), (OF_FEW, of_owner("few")), (OF_MANY, of_owner("many")), (OF_GROUP, of_group)];
    let mut figures = Vec::new();
    for (figure, reach) in cases {
        figures.push((figure, walk(&*tables, reach).with_context(|| figure.to_owned())?));
    }
    let raw_limit = figures[0].1;
    let row = Row {
        workload: name.to_owned(),
        backend: backend.name(),
        runs: 1,
        n: batches,
        per_second: batches as f64 / written,
        p99_ms: Some(figures[0].1),
        cpu_s: Usage::now().cpu_s - before.cpu_s,
        peak_rss_mb: Usage::now().peak_rss_mb,
        raw_limit,
        ratio: figures[1].1 / raw_limit,
        raw_unit: "ms".to_owned(),
        ..Row::default()
    };
    Ok(figures.into_iter().fold(row, |row, (figure, value)| row.with(figure, value)))
}

#[cfg(feature = "kafka")]
type Kept = Option<crate::database::Database>;
#[cfg(not(feature = "kafka"))]
type Kept = ();

fn open(backend: Backend, directory: &Path) -> anyhow::Result<(Arc<dyn Tables>, Kept)> {
    match backend {
        Backend::Embedded => {
            Ok((Arc::new(SqliteTables::open(directory.join("tables.sqlite"))?), Kept::default()))
        }
        #[cfg(feature = "kafka")]
        Backend::Kafka => {
            let database = crate::database::Database::create()?;
            Ok((Arc::new(tidemill_store::MysqlTables::open(&database.url)?), Some(database)))
        }
        #[cfg(not(feature = "kafka"))]
        Backend::Kafka => anyhow::bail!("built without the feature kafka"),
    }
}

/// Three jobs are of `few`, 500 of `many`, all others of 20,000 people; their batches come in turns.
fn write(tables: &dyn Tables, batches: usize) -> anyhow::Result<()> {
    let generation = tables.create_generation()?;
    tables.activate(generation, &[])?;
    let count = (batches / BATCHES_OF_JOB).max(1_000);
    let owner = |number: usize| match number {
        0..3 => "few".to_owned(),
        3..503 => "many".to_owned(),
        number => format!("person-{}", number % 20_000),
    };
    let job = |number: usize| JobRow {
        id: id(number),
        version: 1,
        group_name: format!("g{}", number % 10).into(),
        group_id: 1,
        name: format!("job-{number}").into(),
        owner: owner(number).into(),
        owner_name: Some(owner(number).into()),
        job_type: "noop".into(),
        definition: "{}".into(),
        enabled: true,
        ..JobRow::default()
    };
    let batch = |number: usize| {
        // Those of the few come as often as all others.
        let of = number % count;
        BatchRow {
            id: id(number) + 1,
            job_id: id(of),
            job_version: 1,
            job_name: format!("job-{of}").into(),
            group_name: format!("g{}", of % 10).into(),
            job_type: "noop".into(),
            origin: "schedule".into(),
            parameters: "{}".into(),
            message: "".into(),
            state: 3,
            result: Some("success".into()),
            logical_time: time(number),
            generated_at: time(number),
            ..BatchRow::default()
        }
    };
    let mut writer = Writer { tables, generation, from: None };
    for part in 0..count.div_ceil(PART) {
        let rows: Vec<JobRow> = (part * PART..count.min((part + 1) * PART)).map(job).collect();
        writer.write(&rows)?;
    }
    for part in 0..batches.div_ceil(PART) {
        let rows: Vec<BatchRow> = (part * PART..batches.min((part + 1) * PART)).map(batch).collect();
        writer.write(&rows)?;
    }
    Ok(())
}

fn id(number: usize) -> i64 {
    i64::try_from(number + 1).unwrap_or(i64::MAX) << 12
}

fn time(number: usize) -> i64 {
    1_700_000_000_000 + i64::try_from(number).unwrap_or(0) * 10
}

struct Writer<'a> {
    tables: &'a dyn Tables,
    generation: u32,
    from: Option<Position>,
}

impl Writer<'_> {
    fn write<R: tidemill_store::Row>(&mut self, rows: &[R]) -> anyhow::Result<()> {
        let offset = self.from.as_ref().map_or(0, |from| from.offset + 1);
        let to = Position { offset, head: format!("head {offset}").into() };
        let upserts = rows.iter().map(R::values).collect();
        let changes = vec![TableChanges { table: R::TABLE, upserts, deletes: Vec::new() }];
        let batch = RowBatch { partition: 0, from: self.from.clone(), to: to.clone(), changes };
        self.tables.write(self.generation, &batch)?;
        self.from = Some(to);
        Ok(())
    }
}

/// From the newest page on, and again from the newest one where the list ends.
fn walk(tables: &dyn Tables, reach: Option<Reach>) -> anyhow::Result<f64> {
    let filter = BatchFilter { reach, ..BatchFilter::default() };
    let (mut times, mut request) = (Vec::new(), PageRequest::first(PAGE));
    for _ in 0..PAGES {
        let begun = Instant::now();
        let page = tables.batches(&filter, &request)?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(!page.items.is_empty(), "a page is empty");
        request.after = page.next;
    }
    percentile(&mut times, 0.99).context("some were measured")
}
