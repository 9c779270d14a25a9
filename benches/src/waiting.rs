//! Batches that wait for paths: what one of them takes, and what it costs that a path is there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use jiff::SignedDuration;
use tidemill_model::{
    BatchCommand, Command, Event, ExternalDependency, ExternalDependencyId, JobId, JobSpec,
    ObservationCommand, ObservationEvent, PathAnswer, ShardId, Timestamp,
};

use crate::history::History;
use crate::requests::waiting_for;
use crate::row::{Row, percentile};
use crate::run::{GENERATED, Lap, PATIENCE, RECEIVED, Run, Stopwatch};
use crate::usage;

const SATISFIED: &str = "\"external_dependency_satisfied\":";
/// Paths that one batch each waits for.
const SINGLES: usize = 100;
/// Jobs whose batches all wait for one path.
const WIDE_JOBS: usize = 10;
const JOBS: usize = 1_000;
/// Of these, so many of one logical time wait for the same path.
const SHARED_BY: usize = 10;
const WIDE: &str = "/in/wide";

/// What one path's coming took.
struct Cost {
    /// Until the record of it can be read, from which on its batches are ready.
    on_record_ms: f64,
    /// Until tables and feed show it.
    shown_ms: f64,
    journal_bytes: f64,
}

impl Run<'_> {
    /// No worker runs. `n` batches wait, ten for each path; `wide` more wait for a single one, and one each for some.
    pub(crate) fn waiting(&self, n: usize, wide: usize) -> anyhow::Result<Row> {
        let (each, each_wide) = ((n / JOBS).max(1), (wide / WIDE_JOBS).max(1));
        self.define(each_wide)?;
        self.generate(0..1, SINGLES)?;
        self.generate(1..1 + WIDE_JOBS, each_wide)?;
        let external_dependencies = external_dependencies(&self.history()?);
        let resident = usage::resident();
        let watch = Stopwatch::start();
        self.generate(1 + WIDE_JOBS..1 + WIDE_JOBS + JOBS, each)?;
        let lap = watch.stop();
        let n = JOBS * each;
        let grown = (usage::resident() - resident).max(0.0) / n as f64;

        let singles = external_dependencies
            .iter()
            .filter(|(path, _)| path.as_str() != WIDE)
            .map(|(_, external_dependency)| *external_dependency);
        let singles = singles
            .map(|external_dependency| self.satisfy(external_dependency))
            .collect::<anyhow::Result<Vec<Cost>>>()?;
        let wide =
            external_dependencies.get(WIDE).ok_or_else(|| anyhow::anyhow!("nobody waits for {WIDE}"))?;
        let wide = self.satisfy(*wide)?;
        self.costs(n, each_wide * WIDE_JOBS, grown, lap, &singles, &wide)
    }

    fn costs(
        &self,
        n: usize,
        waiters: usize,
        grown: f64,
        lap: Lap,
        singles: &[Cost],
        wide: &Cost,
    ) -> anyhow::Result<Row> {
        let median = |of: fn(&Cost) -> f64| {
            percentile(&mut singles.iter().map(of).collect::<Vec<_>>(), 0.5).unwrap_or_default()
        };
        let on_record_ms = singles.iter().map(|cost| cost.on_record_ms).collect();
        let row = self.row(n, lap, on_record_ms, self.append_limit()?)?;
        let of_wide = |what: &str| format!("a path with {waiters} waiters: {what}");
        let row = Row { bytes_per_waiting: Some(grown), ..row }
            .with("a path with 1 waiter: on record, ms", median(|cost| cost.on_record_ms))
            .with("a path with 1 waiter: shown, ms", median(|cost| cost.shown_ms))
            .with("a path with 1 waiter: bytes of the journal", median(|cost| cost.journal_bytes));
        Ok(row
            .with(&of_wide("on record, ms"), wide.on_record_ms)
            .with(&of_wide("shown, ms"), wide.shown_ms)
            .with(&of_wide("bytes of the journal"), wide.journal_bytes))
    }

    /// First one job with a path for each batch, then those with one path, then those that share theirs by tens.
    fn define(&self, at_once: usize) -> anyhow::Result<()> {
        let at_once = u32::try_from(at_once)?;
        let mut jobs = vec![waiting_for("/in/single/${yyyyMMddHHmmss}", "single", at_once)];
        jobs.extend((0..WIDE_JOBS).map(|index| waiting_for(WIDE, &format!("wide-{index:02}"), at_once)));
        let shared = |index: usize| format!("/in/{:03}/${{yyyyMMddHHmmss}}", index / SHARED_BY);
        let many = (0..JOBS).map(|index| waiting_for(&shared(index), &format!("many-{index:04}"), at_once));
        let jobs: Vec<JobSpec> = jobs.into_iter().chain(many).collect();
        self.fixture.apply(&jobs)?;
        self.fixture.until(RECEIVED, jobs.len(), PATIENCE)?;
        self.fixture.settle()
    }

    /// So many batches of each of these jobs, for one logical time after the other.
    fn generate(&self, jobs: Range<usize>, each: usize) -> anyhow::Result<()> {
        let time = |index: usize| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(index as i64);
        let requests = (0..each).flat_map(|index| jobs.clone().map(move |job| (job, time(index))));
        self.fixture.send_all(requests.map(|(job, time)| {
            Command::Batch(BatchCommand::RunJob {
                // In the order in which they were defined, from 1.
                job: JobId::mint(job as u64 + 1, ShardId::CATALOGUE),
                logical_time: Some(time),
                parameters: BTreeMap::new(),
                concurrent: true,
            })
        }))?;
        self.fixture.until(GENERATED, jobs.len() * each, PATIENCE)?;
        self.fixture.settle()
    }

    fn satisfy(&self, external_dependency: ExternalDependencyId) -> anyhow::Result<Cost> {
        let bytes = self.fixture.journal_bytes();
        let begun = Instant::now();
        let answers = vec![PathAnswer { external_dependency, generation: 1, exists: true }];
        let found = ObservationCommand::ReportPaths { answers, seal: String::new() };
        self.fixture.send_all(std::iter::once(found.into()))?;
        self.fixture.until(SATISFIED, 1, PATIENCE)?;
        let on_record_ms = begun.elapsed().as_secs_f64() * 1e3;
        self.fixture.settle()?;
        let shown_ms = begun.elapsed().as_secs_f64() * 1e3;
        Ok(Cost { on_record_ms, shown_ms, journal_bytes: (self.fixture.journal_bytes() - bytes) as f64 })
    }
}

/// Paths that are waited for.
fn external_dependencies(history: &History) -> BTreeMap<String, ExternalDependencyId> {
    let paths = history.facts.iter().filter_map(|(_, event)| match event {
        Event::Observation(ObservationEvent::ExternalDependencyRegistered {
            external_dependency,
            what: ExternalDependency::Path { path, .. },
        }) => Some((path.to_string(), *external_dependency)),
        _ => None,
    });
    paths.collect()
}
