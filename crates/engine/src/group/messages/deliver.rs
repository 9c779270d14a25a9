//! What the catalogue and other groups tell a group's shard.

use std::sync::Arc;

use tidemill_model::{
    DeletionEvent, Event, Fire, JobDefinition, JobId, LiveAnswer, MailboxState, ObservationEvent,
    PermitEvent, Rejection, ReplicationEvent as Fact, RerunEvent, ShardId, ShardMessage, SubscriptionEvent,
    Timestamp, TransferEvent,
};

use crate::decision::Decision;
use crate::group::GroupShard;

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

    /// What it has heard of others, and said to them.
    pub(crate) fn mailbox_state(&self, others: &[ShardId]) -> LiveAnswer {
        let with = others.iter().map(|shard| MailboxState {
            shard: *shard,
            received: self.mailbox.received(*shard),
            sent: self.mailbox.sent(*shard),
            unsaid: self.dependencies.foreign().is_behind(*shard)
                || self.dependencies.followers().is_behind(*shard),
        });
        LiveAnswer::Mailboxes { with: with.collect() }
    }

    /// What another group says of its jobs, or asks of this one's, for children name them as parents.
    fn learned_of_parents(&self, from: ShardId, message: &ShardMessage) -> Vec<Event> {
        let fact = match message {
            ShardMessage::Parents { parents } => Fact::ParentsReplicated { parents: parents.clone() },
            ShardMessage::ParentDeleted { parent, name, deleted_at, coming } => {
                return vec![self.parent_deletion(*parent, name, *deleted_at, *coming)];
            }
            ShardMessage::ReleaseParent { parent } => Fact::ParentReleased { parent: *parent },
            ShardMessage::Subscription { job, what } => {
                let (job, by, what) = (*job, from, *what);
                return vec![SubscriptionEvent::ParentSubscribed { job, by, what }.into()];
            }
            ShardMessage::Watch { job, times } => {
                let (job, by, times) = (*job, from, times.clone());
                return vec![SubscriptionEvent::ParentTimesSubscribed { job, by, times }.into()];
            }
            ShardMessage::Unwatch { job, times } => {
                let (job, by, times) = (*job, from, times.clone());
                return vec![SubscriptionEvent::ParentTimesUnsubscribed { job, by, times }.into()];
            }
            // Of before the job went to another group, which says how it stands now.
            ShardMessage::Stands { job, .. } if !self.dependencies.may_tell_of(*job, from) => {
                return Vec::new();
            }
            ShardMessage::Stands { job, standings } => {
                Fact::ParentStatusUpdated { parent: *job, standings: standings.clone() }
            }
            ShardMessage::Generated { job, times, left_out } => {
                let (times, left_out) = (times.clone(), *left_out);
                Fact::ParentGenerationsReceived { parent: *job, times, left_out }
            }
            ShardMessage::Known { job, times } => {
                Fact::ParentTimesReceived { parent: *job, times: times.clone() }
            }
            _ => return Vec::new(),
        };
        vec![fact.into()]
    }

    /// What the catalogue says of those who pull tasks.
    fn learned_of_pull(&self, message: &ShardMessage) -> Vec<Event> {
        let fact = match message {
            ShardMessage::Template { template } => {
                Fact::TemplateReplicated { template: Arc::clone(template) }
            }
            ShardMessage::DropTemplate { name } => Fact::TemplateDropped { name: name.clone() },
            ShardMessage::Users { users } => Fact::UsersReplicated { users: users.clone() },
            ShardMessage::DetachUser { user } => return vec![self.pull.detach_user(user)],
            ShardMessage::AttachUser { user, history, tasks } => {
                let (user, history, tasks) = (user.clone(), history.clone(), tasks.clone());
                return vec![TransferEvent::UserAttached { user, history, tasks }.into()];
            }
            _ => return Vec::new(),
        };
        vec![fact.into()]
    }

    /// What a rerun of the catalogue asks, and what it starts and ends here.
    fn learned_of_reruns(&self, message: &ShardMessage, now: Timestamp) -> Vec<Event> {
        match message {
            ShardMessage::QueryRuns { rerun, part, asked } => {
                let (rerun, part, runs) = (*rerun, *part, self.runs_of(asked));
                vec![RerunEvent::RunsReported { rerun, part, runs }.into()]
            }
            ShardMessage::StartRun(start) => self.start_run(start, now),
            ShardMessage::KillRun { place, by } => self.kill_run(*place, by),
            _ => Vec::new(),
        }
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
            ShardMessage::QueryUnfinished { question, jobs } => {
                let (question, jobs) = (*question, self.unfinished_of(jobs));
                Event::Deletion(DeletionEvent::UnfinishedReported { question, jobs })
            }
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
        ShardMessage::Pool { pool } => Fact::PoolReplicated { pool: Arc::clone(pool) }.into(),
        ShardMessage::DropPool { name } => Fact::PoolDropped { name: name.clone() }.into(),
        ShardMessage::GrantPermits { pools, permits } => {
            PermitEvent::Received { pools: pools.clone(), permits: *permits }.into()
        }
        _ => return Vec::new(),
    }]
}
