//! Definitions, their parents, and the copies that shards hold.

use std::sync::Arc;

use serde::Serialize;
use tidemill_model::{
    Fire, JobDefinition, JobEvent, JobId, Json as _, Mapping, ScheduleEvent, ShardId, bounds,
};
use tidemill_store::rows::{JobParentRow, JobRow, JobVersionRow, SkippedRunsRow};

use super::{Caches, Place};

/// As JSON, in the order of the fields, so that the same value is the same text.
pub(super) fn json(value: &impl Serialize) -> Arc<str> {
    serde_json::to_string(value).expect("the vocabulary is made of what JSON can hold").into()
}

/// A duration or count; above 2^63 it says 2^63 − 1.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Of a list in an event, or in what it defines.
pub(super) fn count(items: usize) -> i64 {
    i64::try_from(items).expect("an event is bounded in size")
}

/// Whether a job is defined in the catalogue, so that its shard holds a copy, or submitted to that shard.
pub(super) fn is_copy(job: JobId) -> bool {
    job.shard() == ShardId::CATALOGUE
}

impl Caches {
    pub(super) fn need_job(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Defined { definition, .. } | JobEvent::Moved { definition, .. } => {
                self.jobs.need((definition.id.0,))
            }
            JobEvent::Enabled { job } | JobEvent::Disabled { job } | JobEvent::Deleted { job } => {
                self.jobs.need((job.0,));
            }
            JobEvent::Submitted { definition } => self.jobs.expect_new((definition.id.0,)),
            JobEvent::MoveRequested { .. }
            | JobEvent::MoveRejected { .. }
            | JobEvent::ParentDeleted { .. }
            | JobEvent::Cancelled { .. } => {}
        }
    }

    pub(super) fn apply_job(&mut self, at: Place, event: &JobEvent) {
        match event {
            JobEvent::Defined { definition, enabled, unnamed, .. }
            | JobEvent::Moved { definition, enabled, unnamed, .. } => {
                self.define(at, definition, *enabled, *unnamed);
            }
            JobEvent::Enabled { job } => self.switch(at, job.0, true),
            JobEvent::Disabled { job } => self.switch(at, job.0, false),
            JobEvent::Deleted { job } => {
                let by = self.requester();
                self.jobs.change((job.0,), |row| {
                    row.deleted_at = Some(at.now);
                    row.changed_at = at.now;
                    row.changed_by = by;
                });
            }
            JobEvent::Submitted { definition } => {
                let row = JobRow {
                    submitted: true,
                    unnamed: true,
                    changed_by: self.requester(),
                    ..job_row(at, definition, true)
                };
                self.parents(definition, 0);
                self.jobs.put(row);
            }
            // No table shows these.
            JobEvent::ParentDeleted { .. }
            | JobEvent::MoveRequested { .. }
            | JobEvent::MoveRejected { .. }
            | JobEvent::Cancelled { .. } => {}
        }
    }

    pub(super) fn need_schedule(&mut self, shard: i64, event: &ScheduleEvent) {
        match event {
            ScheduleEvent::Rescheduled { job, .. } | ScheduleEvent::Skipped { job, .. } => {
                if is_copy(*job) {
                    self.shard_jobs.need((job.0, shard));
                }
            }
            ScheduleEvent::GenerationFailed { .. } => {}
        }
    }

    pub(super) fn apply_schedule(&mut self, at: Place, event: &ScheduleEvent) {
        match event {
            ScheduleEvent::Rescheduled { job, next } => self.fires_next(at, job.0, *next),
            ScheduleEvent::Skipped { job, from, to, count, reason, next } => {
                self.skipped_runs.put(SkippedRunsRow {
                    journal_partition: at.partition,
                    journal_offset: at.offset,
                    event_index: at.index,
                    job_id: job.0,
                    from_time: from.as_millisecond(),
                    to_time: to.as_millisecond(),
                    fires: number(*count),
                    reason: reason.as_str().into(),
                    skipped_at: at.now,
                });
                if is_copy(*job) {
                    self.fires_next(at, job.0, *next);
                }
            }
            // No table shows these.
            ScheduleEvent::GenerationFailed { .. } => {}
        }
    }

    pub(super) fn fires_next(&mut self, at: Place, job: i64, next: Option<Fire>) {
        self.shard_jobs.change((job, at.shard), |row| {
            row.next_fire_at = next.map(|next| next.at.as_millisecond());
            row.next_logical_time = next.map(|next| next.logical_time.as_millisecond());
        });
    }

    fn define(&mut self, at: Place, definition: &JobDefinition, enabled: bool, unnamed: bool) {
        let by = self.requester();
        let old = self.jobs.get(&(definition.id.0,));
        let (defined_at, old_parents) = old.map_or((at.now, 0), |old| (old.defined_at, old.parent_count));
        let off = old.filter(|old| !old.enabled).map(|old| (old.disabled_at, old.disabled_by.clone()));
        let off = off.unwrap_or_else(|| (Some(at.now), by.clone()));
        let (disabled_at, disabled_by) = if enabled { (None, None) } else { off };
        let changed_by = by.clone();
        let row = JobRow {
            unnamed,
            defined_at,
            changed_by,
            disabled_at,
            disabled_by,
            ..job_row(at, definition, enabled)
        };
        self.job_versions.put(JobVersionRow {
            job_id: row.id,
            version: row.version,
            definition: Arc::clone(&row.definition),
            defined_at: at.now,
            defined_by: by,
        });
        self.parents(definition, old_parents);
        self.jobs.put(row);
    }

    fn parents(&mut self, definition: &JobDefinition, old: i64) {
        let job_id = definition.id.0;
        for (position, parent) in (0..).zip(&definition.parents) {
            self.job_parents.put(JobParentRow {
                job_id,
                position,
                parent_id: parent.job.0,
                mapping: parent.mapping.as_str().into(),
                mapping_offset: match parent.mapping {
                    Mapping::Offset(back) => Some(i64::from(back)),
                    Mapping::Same | Mapping::All | Mapping::Latest | Mapping::Any => None,
                },
            });
        }
        for position in count(definition.parents.len())..old {
            self.job_parents.remove((job_id, position));
        }
    }

    fn switch(&mut self, at: Place, job: i64, enabled: bool) {
        let by = self.requester();
        self.jobs.change((job,), |row| {
            row.enabled = enabled;
            row.changed_at = at.now;
            row.changed_by.clone_from(&by);
            row.disabled_at = (!enabled).then_some(at.now);
            row.disabled_by = by.filter(|_| !enabled);
        });
    }
}

/// A text that may be a name; nothing, where it is empty or too long to be one.
fn name_in_column(text: &str) -> Option<Arc<str>> {
    (1..=bounds::BUSINESS_NAME_CHARS).contains(&text.chars().count()).then(|| text.into())
}

fn job_row(at: Place, definition: &JobDefinition, enabled: bool) -> JobRow {
    let spec = &definition.spec;
    JobRow {
        id: definition.id.0,
        version: i64::from(definition.version),
        group_name: spec.group.as_str().into(),
        group_id: i64::from(definition.group_id.0),
        name: spec.name.as_str().into(),
        owner: spec.owner.as_str().into(),
        owner_name: name_in_column(&spec.owner),
        business_name: name_in_column(spec.class()),
        job_type: spec.job_type.as_str().into(),
        parent_count: count(definition.parents.len()),
        definition: definition.to_json().into(),
        enabled,
        defined_at: at.now,
        changed_at: at.now,
        ..JobRow::default()
    }
}
