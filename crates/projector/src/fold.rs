//! The fold: facts in, changed rows out. Pure; whoever drives it does the reading and writing.
//!
//! ```text
//!  entries ─► need ─► keys ─► (load) ─► provide ─► apply … ─► take_changes ─► (write with the position)
//! ```
//! Rows that a fact changes have to be known; those that are not in the cache are asked for by key. What
//! cannot change soon leaves the cache with the changes: finished batches, ended attempts, definitions of
//! the catalogue. The rest is bounded: above the bound everything leaves, and is asked for again.
//!
//! A fact about a row that is not there changes nothing. That happens only where somebody removed rows by
//! hand, and `verify` names them.

mod attempt;
mod audit;
mod batch;
mod bulk;
mod cache;
mod catalogue;
mod directory;
mod external_dependencies;
mod generated;
mod group;
mod job;
mod pull;
mod replication;
mod requesters;
mod rerun;

use std::sync::Arc;

use tidemill_model::{
    Actor, Cause, Envelope, Event, JobId, Outcome, PartitionEvent, Recorded, ReplicationEvent, ScheduleEvent,
    Source, TransferEvent,
};
use tidemill_store::rows::DeadLetterRow;
use tidemill_store::{Error, Row, Table, TableChanges, Value, for_each_row};

use cache::Cache;
use requesters::{Requesters, requester};

/// Keys of rows to be loaded, table by table.
pub(crate) type Keys = Vec<(&'static Table, Vec<Vec<Value>>)>;

/// Where a fact stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    partition: i64,
    offset: i64,
    index: i64,
    shard: i64,
    now: i64,
}

macro_rules! caches {
    ($($name:ident: $row:path),+) => {
        /// The rows of one partition that the facts to come are likely to change.
        #[derive(Default)]
        struct Caches {
            $($name: Cache<$row>,)+
            /// Who asked for the fact that is applied, as far as the envelope tells.
            by: Option<Actor>,
        }

        impl Caches {
            fn take_missing(&mut self) -> Keys {
                let mut keys = Keys::new();
                $(
                    let missing = self.$name.take_missing();
                    if !missing.is_empty() {
                        keys.push((<$row as Row>::TABLE, missing));
                    }
                )+
                keys
            }

            fn provide(&mut self, table: &'static Table, rows: Vec<Vec<Value>>) -> Result<(), Error> {
                $(if table == <$row as Row>::TABLE {
                    return self.$name.provide(rows);
                })+
                Ok(())
            }

            fn take_changes(&mut self) -> Vec<TableChanges> {
                let mut changes = Vec::new();
                $(changes.extend(self.$name.take_changes());)+
                changes
            }

            fn settle(&mut self) {
                $(self.$name.settle();)+
            }

            fn len(&self) -> usize {
                0 $(+ self.$name.len())+
            }
        }
    };
}
for_each_row!(caches);

/// The fold of one partition.
pub struct Fold {
    partition: u32,
    max_rows: usize,
    rows: Caches,
}

impl Fold {
    /// A fold that keeps about this many rows in memory between two calls of [`Fold::take_changes`].
    #[must_use]
    pub fn new(partition: u32, max_rows: usize) -> Self {
        Self { partition, max_rows, rows: Caches::new() }
    }

    /// Notes which rows the envelope will change.
    pub(crate) fn need(&mut self, envelope: &Envelope) {
        let partition = i64::from(self.partition);
        for Recorded { shard, event } in &envelope.events {
            self.rows.need(i64::from(shard.0), event);
            if let Some(job) = resumed(event) {
                self.rows.dead_letters.need(timer_key(partition, job));
            }
        }
        for (index, _) in audit::actions(envelope) {
            let Recorded { shard, event } = &envelope.events[index];
            self.rows.need_audit(i64::from(shard.0), event);
        }
        for (offset, _) in redrives(envelope) {
            self.rows.dead_letters.need((partition, COMMAND.into(), offset.to_string().into()));
        }
    }

    /// The keys noted and not in the cache. Their rows have to be provided before anything is applied.
    pub(crate) fn take_missing(&mut self) -> Keys {
        self.rows.take_missing()
    }

    /// Gives rows that were asked for; those that are not given are not there.
    pub(crate) fn provide(&mut self, table: &'static Table, rows: Vec<Vec<Value>>) -> Result<(), Error> {
        self.rows.provide(table, rows)
    }

    /// Applies the facts of one accepted envelope. All that [`Fold::need`] noted has to be known.
    pub(crate) fn apply(&mut self, offset: u64, envelope: &Envelope) {
        let now = envelope.now.as_millisecond();
        let mut requesters = Requesters::of(envelope);
        let mut actions = audit::actions(envelope).into_iter().peekable();
        for (index, Recorded { shard, event }) in envelope.events.iter().enumerate() {
            let place = Place {
                partition: i64::from(self.partition),
                offset: offset.cast_signed(),
                index: job::count(index),
                shard: i64::from(shard.0),
                now,
            };
            self.rows.by = requesters.next();
            if let Some((_, asker)) = actions.next_if(|(of, _)| *of == index) {
                self.rows.audit(place, event, &asker);
            }
            self.rows.apply(place, event);
            if let Some(job) = resumed(event) {
                self.rows.timer_goes_on(place, job);
            }
        }
        for (offset, cause) in redrives(envelope) {
            self.rows.redriven(i64::from(self.partition), now, offset, cause);
        }
    }

    /// Rows in memory, and keys of those that are not there.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The last state of every row changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<TableChanges> {
        let changes = self.rows.take_changes();
        self.rows.settle();
        if self.rows.len() > self.max_rows {
            self.rows = Caches::new();
        }
        changes
    }
}

/// The job whose timer runs from this fact on, or is gone.
fn resumed(event: &Event) -> Option<JobId> {
    match event {
        Event::Replication(ReplicationEvent::JobReplicated { definition, next: Some(_), .. })
        | Event::Transfer(TransferEvent::JobAttached { definition, next: Some(_), .. }) => {
            Some(definition.id)
        }
        Event::Replication(ReplicationEvent::JobSwitchReplicated { job, next: Some(_), .. })
        | Event::Schedule(ScheduleEvent::Rescheduled { job, next: Some(_) }) => Some(*job),
        Event::Replication(ReplicationEvent::JobDropped { job, .. })
        | Event::Transfer(TransferEvent::JobDetached { job, .. }) => Some(*job),
        _ => None,
    }
}

/// The commands of an envelope that had been set aside and were sent again, by their first offset.
fn redrives(envelope: &Envelope) -> impl Iterator<Item = (u64, &Cause)> {
    envelope.causes.iter().filter_map(|cause| match &cause.source {
        Source::Command { request: Some(request), .. } => Some((request.redriven_offset()?, cause)),
        Source::Command { .. } | Source::Timer | Source::Observed => None,
    })
}

impl Caches {
    /// Who asked for the fact that is applied.
    fn requester(&self) -> Option<Arc<str>> {
        self.by.as_ref().map(batch::person)
    }

    /// What a fact to come is likely to change stays in memory; of the other tables, no row does.
    fn new() -> Self {
        let mut caches = Self::default();
        // These are few.
        caches.shards.stays = |_| true;
        caches.workers.stays = |_| true;
        caches.drained_hosts.stays = |_| true;
        caches.shard_jobs.stays = |_| true;
        caches.batches.stays = |batch| batch.state < 3;
        caches.attempts.stays = |attempt| attempt.finished_at.is_none();
        caches.batch_dependencies.stays = |dependency| !dependency.met;
        caches.external_dependencies.stays = |dependency| dependency.evicted_at.is_none();
        caches.batch_quality.stays = |quality| quality.answered_at.is_none();
        caches.reruns.stays = |rerun| rerun.ended_at.is_none();
        caches.rerun_batches.stays = |batch| &*batch.state == "started";
        caches.bulk_operations.stays = |bulk| bulk.ended_at.is_none();
        // What somebody has now is likely to change soon; a task that nobody has is asked for again.
        caches.pull_tasks.stays = |task| task.live > 0;
        caches.pull_ledger.stays = |occurrence| occurrence.live > 0;
        caches.pull_grants.stays = |grant| &*grant.state == "live";
        caches
    }

    /// The rows that an event changes or reads have to be known before it is applied.
    fn need(&mut self, shard: i64, event: &Event) {
        match event {
            Event::Catalogue(event) => self.need_catalogue(event),
            Event::Job(event) => self.need_job(event),
            Event::Replication(event) => self.need_replication(shard, event),
            Event::Schedule(event) => self.need_schedule(shard, event),
            Event::Transfer(event) => self.need_transfer(shard, event),
            Event::Batch(event) => self.need_batch(shard, event),
            Event::Attempt(event) => self.need_attempt(event),
            Event::FinalCommand(event) => self.need_final_command(event),
            Event::Observation(event) => self.need_observation(event),
            Event::Worker(event) => self.need_worker(shard, event),
            Event::Bulk(event) => self.need_bulk(event),
            Event::Task(event) => pull::need(self, shard, event),
            Event::Rerun(event) => rerun::need(self, event),
            Event::Directory(event) => self.need_directory(event),
            Event::Partition(_)
            | Event::Subscription(_)
            | Event::Alarm(_)
            | Event::Deletion(_)
            | Event::Apply(_)
            | Event::Level(_)
            | Event::Access(_)
            | Event::Credential(_)
            | Event::Permit(_) => {}
        }
    }

    fn apply(&mut self, at: Place, event: &Event) {
        match event {
            Event::Catalogue(event) => self.apply_catalogue(at, event),
            Event::Job(event) => self.apply_job(at, event),
            Event::Schedule(event) => self.apply_schedule(at, event),
            Event::Batch(event) => self.apply_batch(at, event),
            Event::Attempt(event) => self.apply_attempt(at, event),
            Event::FinalCommand(event) => self.apply_final_command(at, event),
            Event::Observation(event) => self.apply_observation(at, event),
            Event::Worker(event) => self.apply_worker(at, event),
            Event::Task(event) => self.apply_task(at, event),
            Event::Rerun(event) => self.apply_rerun(at, event),
            Event::Bulk(event) => self.apply_bulk(at, event),
            Event::Replication(event) => self.apply_replication(at, event),
            Event::Transfer(event) => self.apply_transfer(at, event),
            Event::Directory(event) => self.apply_directory(at, event),
            Event::Partition(PartitionEvent::CommandDeadLettered { offset, reason }) => {
                self.set_aside(at, COMMAND, &offset.to_string(), reason);
            }
            Event::Partition(PartitionEvent::TimerSuspended { entity, reason }) => {
                self.set_aside(at, TIMER, entity, reason)
            }
            // No table shows these: they concern the shards' own state, and the feed has what is public.
            Event::Partition(
                PartitionEvent::MessageReceived { .. }
                | PartitionEvent::OutboxAcknowledged { .. }
                | PartitionEvent::HistoryEvicted { .. }
                | PartitionEvent::ClockSet { .. }
                | PartitionEvent::CommandLossAccepted { .. }
                | PartitionEvent::Restored { .. }
                | PartitionEvent::SnapshotTaken { .. },
            )
            | Event::Subscription(_)
            | Event::Alarm(_)
            | Event::Deletion(_)
            | Event::Apply(_)
            | Event::Level(_)
            | Event::Access(_)
            | Event::Credential(_)
            | Event::Permit(_) => {}
        }
    }

    fn set_aside(&mut self, at: Place, kind: &str, subject: &str, reason: &str) {
        self.dead_letters.put(DeadLetterRow {
            journal_partition: at.partition,
            kind: kind.into(),
            subject: subject.into(),
            journal_offset: at.offset,
            event_index: at.index,
            reason: reason.into(),
            recorded_at: at.now,
            is_open: true,
            ..DeadLetterRow::default()
        });
    }

    /// The timer of a job runs again, or the shard has no such job any more.
    fn timer_goes_on(&mut self, at: Place, job: JobId) {
        self.dead_letters.change(timer_key(at.partition, job), |row| {
            if row.is_open {
                row.is_open = false;
                row.closed_at = Some(at.now);
            }
        });
    }

    /// A command that was set aside was sent again.
    fn redriven(&mut self, partition: i64, now: i64, offset: u64, cause: &Cause) {
        let Source::Command { actor, .. } = &cause.source else { return };
        let outcome = match &cause.outcome {
            Outcome::Refused(rejection) => rejection.to_string().into(),
            Outcome::Done | Outcome::Answered(_) | Outcome::Deferred => "done".into(),
            // Only the first one counts.
            Outcome::Repeated => return,
        };
        self.dead_letters.change((partition, COMMAND.into(), offset.to_string().into()), |row| {
            row.is_open = false;
            row.closed_at = Some(now);
            row.redriven_by = Some(batch::person(actor));
            row.redrive_outcome = Some(outcome);
        });
    }
}

/// The two kinds of what is set aside.
const COMMAND: &str = "command";
const TIMER: &str = "timer";

fn timer_key(partition: i64, job: JobId) -> (i64, Arc<str>, Arc<str>) {
    (partition, TIMER.into(), format!("job/{job}").into())
}
