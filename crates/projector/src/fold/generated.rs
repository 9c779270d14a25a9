//! A batch as it is generated: its row, and one for each thing that it waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{BatchEvent, BatchId, BatchState, Dependency, JobId, Origin};
use tidemill_store::rows::{BatchDependencyRow, BatchOutputRow, BatchRow};

use super::audit::{cut, is_part};
use super::batch::{person, state};
use super::job::{count, is_copy, json};
use super::{Caches, Place};

/// The longest name of who asked for a batch, characters, as the column has it.
const TRIGGER_CHARS: usize = 300;

impl Caches {
    pub(super) fn generate(&mut self, at: Place, event: &BatchEvent) {
        let BatchEvent::Generated {
            batch,
            job,
            version,
            logical_time,
            run,
            origin,
            dependencies,
            counted_parents,
            external_dependencies,
            quality_gate,
            earliest_start,
            parameters,
            next,
            calendar,
            // Timeouts are told once they are marked.
            base: _,
            rerun,
            // For the checker: whether the run by hand was refused beside others.
            concurrent: _,
            outputs,
        } = event
        else {
            return;
        };
        let (job_name, group_name, job_type) = self.names(at, *job);
        let listed = dependencies.iter().filter(|it| !it.is_satisfied(it.met.len())).count();
        let unmet = listed + counted_parents.map_or(0, |counted| counted.unmet as usize);
        self.batches.put(BatchRow {
            id: batch.0,
            job_id: job.0,
            job_version: i64::from(*version),
            calendar_version: calendar.map(i64::from),
            job_name,
            group_name,
            job_type,
            logical_time: logical_time.as_millisecond(),
            run: i64::from(*run),
            origin: origin.as_str().into(),
            rerun_id: rerun.map(|place| place.rerun.0),
            rerun_number: rerun.map(|place| i64::from(place.number)),
            triggered_by: self.trigger(*origin),
            parameters: json(parameters),
            unmet: count(unmet),
            counted_parents: counted_parents.map_or(0, |counted| i64::from(counted.parents)),
            generated_at: at.now,
            ready_at: (unmet == 0).then_some(at.now),
            earliest_start_at: earliest_start.map(|time| time.as_millisecond()),
            state: state(BatchState::Waiting),
            ..BatchRow::default()
        });
        self.await_times(at, *batch, dependencies);
        self.await_external_dependencies(*batch, external_dependencies, *quality_gate);
        for (position, output) in (1..).zip(outputs) {
            self.batch_outputs.put(BatchOutputRow {
                batch_id: batch.0,
                position,
                path: output.path.as_str().into(),
                mark: output.mark.as_deref().map(Arc::from),
            });
        }
        if *origin == Origin::Schedule && is_copy(*job) {
            self.fires_next(at, job.0, *next);
        }
    }

    /// Who asked for a batch of this origin.
    fn trigger(&self, origin: Origin) -> Option<Arc<str>> {
        let by = self.by.as_ref().filter(|actor| !is_part(actor))?;
        match origin {
            // What the same command's batch sets off is nobody's.
            Origin::Schedule | Origin::Parent => None,
            Origin::Manual | Origin::Rerun | Origin::ColdStart | Origin::Submission => {
                Some(cut(&person(by), TRIGGER_CHARS))
            }
        }
    }

    /// Name, group and type, as the shard knows them.
    fn names(&self, at: Place, job: JobId) -> (Arc<str>, Arc<str>, Arc<str>) {
        if let Some(row) = self.shard_jobs.get(&(job.0, at.shard)) {
            return (row.name.clone(), row.group_name.clone(), row.job_type.clone());
        }
        let row = self.jobs.get(&(job.0,));
        row.map(|row| (row.name.clone(), row.group_name.clone(), row.job_type.clone())).unwrap_or_default()
    }

    /// One row per parent and logical time, even where two mappings gave it.
    fn await_times(&mut self, at: Place, batch: BatchId, dependencies: &[Dependency]) {
        let mut times: BTreeMap<(i64, i64), (Vec<&str>, bool)> = BTreeMap::new();
        for dependency in dependencies {
            for time in &dependency.times {
                let entry = times.entry((dependency.parent.0, time.as_millisecond())).or_default();
                entry.0.push(dependency.mapping.as_str());
                entry.1 |= dependency.met.contains(time);
            }
        }
        for ((parent_id, logical_time), (mappings, met)) in times {
            self.batch_dependencies.put(BatchDependencyRow {
                batch_id: batch.0,
                parent_id,
                logical_time,
                mapping: mappings.join(",").into(),
                met,
                met_at: met.then_some(at.now),
            });
        }
    }
}
