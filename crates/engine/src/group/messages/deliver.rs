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

    /// What the catalogue asks and says of reruns, pools, those who pull tasks, and what is outside.
    fn learned_otherwise(&self, message: &ShardMessage, now: Timestamp) -> Vec<Event> {
        vec![match message {
            ShardMessage::QueryUnfinished { question, jobs } => {
                let (question, jobs) = (*question, self.unfinished_of(jobs));
                DeletionEvent::UnfinishedReported { question, jobs }.into()
            }
            ShardMessage::QueryRuns { rerun, part, asked } => {
                let (rerun, part, runs) = (*rerun, *part, self.runs_of(asked));
                RerunEvent::RunsReported { rerun, part, runs }.into()
            }
            ShardMessage::StartRun(start) => return self.start_run(start, now),
            ShardMessage::KillRun { place, by } => return self.kill_run(*place, by),
            ShardMessage::ThirdParty { reports } => {
                return self.external.dependencies().reported(self.id, reports);
            }
            ShardMessage::ProbeNow { by } => {
                ObservationEvent::ProbesRequested { batch: None, by: by.clone() }.into()
            }
            ShardMessage::Template { template } => {
                Fact::TemplateReplicated { template: Arc::clone(template) }.into()
            }
            ShardMessage::DropTemplate { name } => Fact::TemplateDropped { name: name.clone() }.into(),
            ShardMessage::Users { users } => Fact::UsersReplicated { users: users.clone() }.into(),
            ShardMessage::DetachUser { user } => self.pull.detach_user(user),
            ShardMessage::AttachUser { user, history, tasks } => {
                let (user, history, tasks) = (user.clone(), history.clone(), tasks.clone());
                TransferEvent::UserAttached { user, history, tasks }.into()
            }
            ShardMessage::Pool { pool } => Fact::PoolReplicated { pool: Arc::clone(pool) }.into(),
            ShardMessage::DropPool { name } => Fact::PoolDropped { name: name.clone() }.into(),
            ShardMessage::GrantPermits { pools, permits } => {
                PermitEvent::Received { pools: pools.clone(), permits: *permits }.into()
            }
            _ => return Vec::new(),
        }]
    }

    fn learned(
        &self,
        from: ShardId,
        message: &ShardMessage,
        now: Timestamp,
    ) -> Result<Vec<Event>, Rejection> {
        let fact = match message {
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
                Fact::GroupReplicated { group: *id, name, worker_key, settings }
            }
            ShardMessage::Job { definition, enabled } => {
                let next = if *enabled { self.next_fire(definition, now) } else { None };
                let definition = Arc::clone(definition);
                Fact::JobReplicated { definition, enabled: *enabled, next }
            }
            ShardMessage::Switch { job, enabled } => {
                let next = if *enabled { self.next_of(*job, now) } else { None };
                Fact::JobSwitchReplicated { job: *job, enabled: *enabled, next }
            }
            ShardMessage::Calendar { calendar } => {
                Fact::CalendarReplicated { calendar: Arc::clone(calendar) }
            }
            ShardMessage::DropCalendar { name } => Fact::CalendarDropped { name: name.clone() },
            ShardMessage::Freeze { scope, freeze } => {
                Fact::FreezeReplicated { scope: *scope, freeze: freeze.clone() }
            }
            ShardMessage::DetachJob { job, until } => return Ok(vec![self.detach_job(*job, *until, now)]),
            ShardMessage::AttachJob { definition, enabled, moved } => {
                return Ok(vec![self.jobs.attach_job(definition, *enabled, moved, now)]);
            }
            ShardMessage::Level { level } => Fact::LevelReplicated { level: *level },
            ShardMessage::Remove { job, orphaned_in } => {
                Fact::JobDropped { job: *job, orphaned_in: orphaned_in.clone() }
            }
            ShardMessage::Cancel { job, by } => Fact::CancellationReplicated { job: *job, by: by.clone() },
            ShardMessage::QueryUnfinished { .. }
            | ShardMessage::QueryRuns { .. }
            | ShardMessage::StartRun(_)
            | ShardMessage::KillRun { .. }
            | ShardMessage::ThirdParty { .. }
            | ShardMessage::ProbeNow { .. }
            | ShardMessage::Template { .. }
            | ShardMessage::DropTemplate { .. }
            | ShardMessage::Users { .. }
            | ShardMessage::DetachUser { .. }
            | ShardMessage::AttachUser { .. }
            | ShardMessage::Pool { .. }
            | ShardMessage::DropPool { .. }
            | ShardMessage::GrantPermits { .. } => return Ok(self.learned_otherwise(message, now)),
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
        };
        Ok(vec![fact.into()])
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
