//! A batch as it is generated: its row, and one for each thing that it waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_model::{BatchEvent, BatchId, BatchState, Dependency, JobId, Origin};
use tidemill_store::rows::{BatchDependencyRow, BatchOutputRow, BatchRow};

use super::batch::state;
use super::job::is_copy;
use super::job::{json, mapping_word};
use super::{Caches, Place};

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
            origin: origin_word(*origin).into(),
            rerun_id: rerun.map(|place| place.rerun.0),
            rerun_number: rerun.map(|place| i64::from(place.number)),
            parameters: json(parameters),
            unmet: i64::try_from(unmet).expect("an event is bounded in size"),
            counted_parents: counted_parents.map_or(0, |counted| i64::from(counted.parents)),
            generated_at: at.now,
            ready_at: (unmet == 0).then_some(at.now),
            earliest_start_at: earliest_start.map(|time| time.as_millisecond()),
            ..untouched()
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

    /// Name, group and type, as the shard knows them.
    fn names(&self, at: Place, job: JobId) -> (Arc<str>, Arc<str>, Arc<str>) {
        let copy = self.shard_jobs.get(&(job.0, at.shard));
        let copy = copy.map(|row| (row.name.clone(), row.group_name.clone(), row.job_type.clone()));
        let submitted = || {
            let row = self.jobs.get(&(job.0,))?;
            Some((row.name.clone(), row.group_name.clone(), row.job_type.clone()))
        };
        copy.or_else(submitted).unwrap_or_else(|| ("".into(), "".into(), "".into()))
    }

    /// One row per parent and logical time, even where two mappings gave it.
    fn await_times(&mut self, at: Place, batch: BatchId, dependencies: &[Dependency]) {
        let mut times: BTreeMap<(i64, i64), (Vec<&str>, bool)> = BTreeMap::new();
        for dependency in dependencies {
            for time in &dependency.times {
                let entry = times.entry((dependency.parent.0, time.as_millisecond())).or_default();
                entry.0.push(mapping_word(dependency.mapping));
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

/// Waiting, and nothing has become of it; what the event says of it is to be put in.
fn untouched() -> BatchRow {
    let none: Arc<str> = "".into();
    BatchRow {
        id: 0,
        job_id: 0,
        job_version: 0,
        calendar_version: None,
        job_name: Arc::clone(&none),
        group_name: Arc::clone(&none),
        job_type: Arc::clone(&none),
        logical_time: 0,
        run: 0,
        origin: Arc::clone(&none),
        rerun_id: None,
        rerun_number: None,
        parameters: Arc::clone(&none),
        state: state(BatchState::Waiting),
        result: None,
        unmet: 0,
        counted_parents: 0,
        attempt: 0,
        attempts: 0,
        returned: 0,
        worker_id: None,
        token: None,
        message: none,
        killed_by: None,
        generated_at: 0,
        ready_at: None,
        assigned_at: None,
        start_by: None,
        started_at: None,
        retry_at: None,
        kill_requested_at: None,
        finished_at: None,
        earliest_start_at: None,
        dependency_timeout_at: None,
        output_timeout_at: None,
        not_successful_by_at: None,
        blocked_since: None,
        blocked_by: None,
        blocked_by_time: None,
        overridden_result: None,
        result_overridden_at: None,
        result_overridden_by: None,
        result_override_reason: None,
        final_token: None,
        final_result: None,
        final_message: None,
        final_ended_at: None,
    }
}

fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Schedule => "schedule",
        Origin::Parent => "parent",
        Origin::Manual => "manual",
        Origin::Rerun => "rerun",
        Origin::ColdStart => "cold_start",
        Origin::Submission => "submission",
    }
}
