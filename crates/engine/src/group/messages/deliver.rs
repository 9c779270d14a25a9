//! What the catalogue and other groups tell a group's shard.

use tidemill_model::{
    Event, Fire, JobDefinition, JobId, ObservationEvent, PermitEvent, Rejection, ReplicationEvent as Fact,
    RerunEvent, ShardId, ShardMessage, SubscriptionEvent, Timestamp, TransferEvent,
};

use crate::decision::Decision;
use crate::group::GroupShard;

use std::sync::Arc;

impl GroupShard {
    pub(crate) fn deliver(
        &self,
        (from, number): (ShardId, u64),
        message: &ShardMessage,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        self.mailbox.deliver(self.id, (from, number), |events| {
            self.learned(from, message, now).map(|learned| events.extend(learned))
        })
    }

    /// What another group says of its jobs, or asks of this one's, for children name them as parents.
    fn learned_of_parents(&self, from: ShardId, message: &ShardMessage) -> Vec<Event> {
        vec![match message {
            ShardMessage::Parents { parents } => {
                Event::Replication(Fact::ParentsReplicated { parents: parents.clone() })
            }
            ShardMessage::ParentDeleted { parent, name, deleted_at, coming } => {
                self.parent_deletion(*parent, name, *deleted_at, *coming)
            }
            ShardMessage::ReleaseParent { parent } => {
                Event::Replication(Fact::ParentReleased { parent: *parent })
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
                return Vec::new();
            }
            ShardMessage::Stands { job, standings } => {
                Event::Replication(Fact::ParentStatusUpdated { parent: *job, standings: standings.clone() })
            }
            ShardMessage::Generated { job, times, left_out } => {
                Event::Replication(Fact::ParentGenerationsReceived {
                    parent: *job,
                    times: times.clone(),
                    left_out: *left_out,
                })
            }
            ShardMessage::Known { job, times } => {
                Event::Replication(Fact::ParentTimesReceived { parent: *job, times: times.clone() })
            }
            _ => return Vec::new(),
        }]
    }

    /// What the catalogue says of those who pull tasks.
    fn learned_of_pull(&self, message: &ShardMessage) -> Vec<Event> {
        vec![match message {
            ShardMessage::Template { template } => {
                Event::Replication(Fact::TemplateReplicated { template: Arc::clone(template) })
            }
            ShardMessage::DropTemplate { name } => {
                Event::Replication(Fact::TemplateDropped { name: name.clone() })
            }
            ShardMessage::Users { users } => {
                Event::Replication(Fact::UsersReplicated { users: users.clone() })
            }
            ShardMessage::DetachUser { user } => self.pull.detach_user(user),
            ShardMessage::AttachUser { user, history, tasks } => {
                Event::Transfer(TransferEvent::UserAttached {
                    user: user.clone(),
                    history: history.clone(),
                    tasks: tasks.clone(),
                })
            }
            _ => return Vec::new(),
        }]
    }

    /// What a rerun of the catalogue asks, and what it starts and ends here.
    fn learned_of_reruns(&self, message: &ShardMessage, now: Timestamp) -> Vec<Event> {
        vec![match message {
            ShardMessage::QueryRuns { rerun, part, asked } => Event::Rerun(RerunEvent::RunsReported {
                rerun: *rerun,
                part: *part,
                runs: self.runs_of(asked),
            }),
            ShardMessage::StartRun(start) => return self.start_run(start, now),
            ShardMessage::KillRun { place, by } => return self.kill_run(*place, by),
            _ => return Vec::new(),
        }]
    }

    fn learned(
        &self,
        from: ShardId,
        message: &ShardMessage,
        now: Timestamp,
    ) -> Result<Vec<Event>, Rejection> {
        let replicated = Event::Replication;
        Ok(vec![match message {
            ShardMessage::Parents { .. }
            | ShardMessage::ParentDeleted { .. }
            | ShardMessage::ReleaseParent { .. }
            | ShardMessage::Subscription { .. }
            | ShardMessage::Watch { .. }
            | ShardMessage::Unwatch { .. }
            | ShardMessage::Stands { .. }
            | ShardMessage::Generated { .. }
            | ShardMessage::Known { .. } => return Ok(self.learned_of_parents(from, message)),
            ShardMessage::Group { id, name, worker_key, settings } => {
                let (name, worker_key, settings) = (name.clone(), worker_key.clone(), settings.clone());
                replicated(Fact::GroupReplicated { group: *id, name, worker_key, settings })
            }
            ShardMessage::Job { definition, enabled } => {
                let next = if *enabled { self.next_fire(definition, now) } else { None };
                let definition = Arc::clone(definition);
                replicated(Fact::JobReplicated { definition, enabled: *enabled, next })
            }
            ShardMessage::Switch { job, enabled } => {
                let next = if *enabled { self.next_of(*job, now) } else { None };
                replicated(Fact::JobSwitchReplicated { job: *job, enabled: *enabled, next })
            }
            ShardMessage::Calendar { calendar } => {
                replicated(Fact::CalendarReplicated { calendar: Arc::clone(calendar) })
            }
            ShardMessage::DropCalendar { name } => replicated(Fact::CalendarDropped { name: name.clone() }),
            ShardMessage::Freeze { scope, freeze } => {
                replicated(Fact::FreezeReplicated { scope: *scope, freeze: freeze.clone() })
            }
            ShardMessage::DetachJob { job, until } => self.detach_job(*job, *until, now),
            ShardMessage::AttachJob { definition, enabled, moved } => {
                self.jobs.attach_job(definition, *enabled, moved, now)
            }
            ShardMessage::Remove { job, orphaned_in } => {
                replicated(Fact::JobDropped { job: *job, orphaned_in: orphaned_in.clone() })
            }
            ShardMessage::QueryUnfinished { question, jobs } => self.report_unfinished(*question, jobs),
            ShardMessage::Cancel { job, by } => {
                replicated(Fact::CancellationReplicated { job: *job, by: by.clone() })
            }
            ShardMessage::QueryRuns { .. } | ShardMessage::StartRun(_) | ShardMessage::KillRun { .. } => {
                return Ok(self.learned_of_reruns(message, now));
            }
            ShardMessage::ThirdParty { reports } => return Ok(self.third_party_reported(reports)),
            ShardMessage::ProbeNow { by } => {
                Event::Observation(ObservationEvent::ProbesRequested { batch: None, by: by.clone() })
            }
            ShardMessage::Template { .. }
            | ShardMessage::DropTemplate { .. }
            | ShardMessage::Users { .. }
            | ShardMessage::DetachUser { .. }
            | ShardMessage::AttachUser { .. } => return Ok(self.learned_of_pull(message)),
            ShardMessage::Pool { .. } | ShardMessage::DropPool { .. } | ShardMessage::GrantPermits { .. } => {
                return Ok(learned_of_pools(message));
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

/// What the catalogue says of pools.
fn learned_of_pools(message: &ShardMessage) -> Vec<Event> {
    vec![match message {
        ShardMessage::Pool { pool } => Event::Replication(Fact::PoolReplicated { pool: Arc::clone(pool) }),
        ShardMessage::DropPool { name } => Event::Replication(Fact::PoolDropped { name: name.clone() }),
        ShardMessage::GrantPermits { pools, permits } => {
            Event::Permit(PermitEvent::Received { pools: pools.clone(), permits: *permits })
        }
        _ => return Vec::new(),
    }]
}
