//! What the catalogue and other groups tell a group's shard.

use tidemill_model::{
    Command, DeletionEvent, Event, Fire, JobDefinition, JobId, ObservationEvent, PartitionEvent, PermitEvent,
    Rejection, ReplicationEvent, RerunEvent, ShardCommand, ShardId, ShardMessage, SubscriptionEvent,
    Timestamp, TransferEvent,
};

use crate::decision::Decision;
use crate::effect::Effect;
use crate::group::GroupShard;

impl GroupShard {
    /// The next message of a shard, exactly; an earlier one changes nothing, a later one is refused.
    pub(crate) fn deliver(
        &self,
        from: ShardId,
        number: u64,
        message: &ShardMessage,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        let expected = self.mailbox.received(from) + 1;
        if number < expected {
            // The acknowledgement may have been lost.
            let command = Command::Shard(ShardCommand::Acknowledge { from: self.id, upto: expected - 1 });
            let notices = vec![Effect::Send { shard: from, command }];
            return Ok(Decision { notices, ..Decision::nothing() });
        }
        if number > expected && !planted!(OutboxGapSkipped) {
            return Err(Rejection::OutOfOrder { from: from.0, number, expected });
        }
        let received = Event::Partition(PartitionEvent::MessageReceived { from, number });
        let mut events = vec![received];
        events.extend(self.learned(from, message, now)?);
        Ok(Decision::events(events))
    }

    fn learned(
        &self,
        from: ShardId,
        message: &ShardMessage,
        now: Timestamp,
    ) -> Result<Vec<Event>, Rejection> {
        Ok(vec![match message {
            ShardMessage::Parents { parents } => {
                Event::Replication(ReplicationEvent::ParentsReplicated { parents: parents.clone() })
            }
            ShardMessage::Subscription { job, what } => {
                Event::Subscription(SubscriptionEvent::ParentSubscribed { job: *job, by: from, what: *what })
            }
            ShardMessage::Watch { job, times } => {
                Event::Subscription(SubscriptionEvent::ParentTimesSubscribed {
                    job: *job,
                    by: from,
                    times: times.clone(),
                })
            }
            ShardMessage::Unwatch { job, times } => {
                Event::Subscription(SubscriptionEvent::ParentTimesUnsubscribed {
                    job: *job,
                    by: from,
                    times: times.clone(),
                })
            }
            // Of before the job went to another group, which says how it stands now.
            ShardMessage::Stands { job, .. } if !self.dependencies.may_tell_of(*job, from) => {
                return Ok(Vec::new());
            }
            ShardMessage::Stands { job, standings } => {
                Event::Replication(ReplicationEvent::ParentStatusUpdated {
                    parent: *job,
                    standings: standings.clone(),
                })
            }
            ShardMessage::Generated { job, times, left_out } => {
                Event::Replication(ReplicationEvent::ParentGenerationsReceived {
                    parent: *job,
                    times: times.clone(),
                    left_out: *left_out,
                })
            }
            ShardMessage::Known { job, times } => Event::Replication(ReplicationEvent::ParentTimesReceived {
                parent: *job,
                times: times.clone(),
            }),
            ShardMessage::Group { id, name, worker_key, settings } => {
                Event::Replication(ReplicationEvent::GroupReplicated {
                    group: *id,
                    name: name.clone(),
                    worker_key: worker_key.clone(),
                    settings: settings.clone(),
                })
            }
            ShardMessage::Job { definition, enabled } => {
                Event::Replication(ReplicationEvent::JobReplicated {
                    definition: std::sync::Arc::clone(definition),
                    enabled: *enabled,
                    next: if *enabled { self.next_fire(definition, now) } else { None },
                })
            }
            ShardMessage::Switch { job, enabled } => {
                Event::Replication(ReplicationEvent::JobSwitchReplicated {
                    job: *job,
                    enabled: *enabled,
                    next: if *enabled { self.next_of(*job, now) } else { None },
                })
            }
            ShardMessage::Calendar { calendar } => Event::Replication(ReplicationEvent::CalendarReplicated {
                calendar: std::sync::Arc::clone(calendar),
            }),
            ShardMessage::DropCalendar { name } => {
                Event::Replication(ReplicationEvent::CalendarDropped { name: name.clone() })
            }
            ShardMessage::Freeze { scope, freeze } => {
                Event::Replication(ReplicationEvent::FreezeReplicated {
                    scope: *scope,
                    freeze: freeze.clone(),
                })
            }
            ShardMessage::DetachJob { job, until } => self.detach_job(*job, *until, now),
            ShardMessage::AttachJob { definition, enabled, moved } => {
                self.jobs.attach_job(definition, *enabled, moved, now)
            }
            ShardMessage::Remove { job, orphaned_in } => Event::Replication(ReplicationEvent::JobDropped {
                job: *job,
                orphaned_in: orphaned_in.clone(),
            }),
            ShardMessage::ParentDeleted { parent, name, deleted_at, coming } => {
                self.parent_deletion(*parent, name, *deleted_at, *coming)
            }
            ShardMessage::QueryUnfinished { question, jobs } => {
                Event::Deletion(DeletionEvent::UnfinishedReported {
                    question: *question,
                    jobs: self.unfinished_of(jobs),
                })
            }
            ShardMessage::Cancel { job, by } => {
                Event::Replication(ReplicationEvent::CancellationReplicated { job: *job, by: by.clone() })
            }
            ShardMessage::QueryRuns { rerun, part, asked } => Event::Rerun(RerunEvent::RunsReported {
                rerun: *rerun,
                part: *part,
                runs: self.runs_of(asked),
            }),
            ShardMessage::StartRun(start) => return Ok(self.start_run(start, now)),
            ShardMessage::KillRun { place, by } => return Ok(self.kill_run(*place, by)),
            ShardMessage::ThirdParty { reports } => return Ok(self.third_party_reported(reports)),
            ShardMessage::ProbeNow { by } => {
                Event::Observation(ObservationEvent::ProbesRequested { batch: None, by: by.clone() })
            }
            ShardMessage::Template { template } => Event::Replication(ReplicationEvent::TemplateReplicated {
                template: std::sync::Arc::clone(template),
            }),
            ShardMessage::DropTemplate { name } => {
                Event::Replication(ReplicationEvent::TemplateDropped { name: name.clone() })
            }
            ShardMessage::Users { users } => {
                Event::Replication(ReplicationEvent::UsersReplicated { users: users.clone() })
            }
            ShardMessage::DetachUser { user } => self.pull.detach_user(user),
            ShardMessage::AttachUser { user, history, tasks } => {
                Event::Transfer(TransferEvent::UserAttached {
                    user: user.clone(),
                    history: history.clone(),
                    tasks: tasks.clone(),
                })
            }
            ShardMessage::Pool { pool } => {
                Event::Replication(ReplicationEvent::PoolReplicated { pool: std::sync::Arc::clone(pool) })
            }
            ShardMessage::DropPool { name } => {
                Event::Replication(ReplicationEvent::PoolDropped { name: name.clone() })
            }
            ShardMessage::GrantPermits { pools, permits } => {
                Event::Permit(PermitEvent::Received { pools: pools.clone(), permits: *permits })
            }
            ShardMessage::ReportUnfinished { .. }
            | ShardMessage::ReportPermits { .. }
            | ShardMessage::ReportUserDetached { .. }
            | ShardMessage::ReportUserDetachRejected { .. }
            | ShardMessage::ReportJobDetached { .. }
            | ShardMessage::ReportJobDetachRejected { .. }
            | ShardMessage::ReportRuns { .. }
            | ShardMessage::ReportRunFinished { .. } => {
                let what = "an answer to the catalogue".to_owned();
                return Err(Rejection::WrongShard { what, shard: self.id.0 });
            }
        }])
    }

    /// A changed definition keeps a fire that is pending on the same timetable; otherwise times count from
    /// now on (GEN-9).
    fn next_fire(&self, definition: &JobDefinition, now: Timestamp) -> Option<Fire> {
        let known = self.jobs.get(&definition.id).filter(|known| known.enabled);
        let timetable = self.jobs.calendars().timetable(definition);
        let same = known.filter(|known| {
            known.definition.spec.schedule == definition.spec.schedule && known.schedule == timetable
        });
        if let Some(pending) = same.and_then(|known| known.next) {
            return Some(pending);
        }
        timetable?.first_after(now)
    }

    fn next_of(&self, job: JobId, now: Timestamp) -> Option<Fire> {
        let known = self.jobs.get(&job)?;
        if known.enabled && known.next.is_some() {
            return known.next;
        }
        known.schedule.as_ref()?.first_after(now)
    }
}
