//! What the catalogue and other groups tell a group's shard.

use tidemill_model::{
    Command, Event, Fire, JobDefinition, JobId, Rejection, ShardId, ShardMessage, Timestamp,
};

use super::GroupShard;
use crate::decision::Decision;
use crate::effect::Effect;

impl GroupShard {
    /// The next message of a shard, exactly; an earlier one changes nothing, a later one is refused.
    pub(crate) fn deliver(
        &self,
        from: ShardId,
        number: u64,
        message: &ShardMessage,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        let expected = self.post.received(from) + 1;
        if number < expected {
            // The acknowledgement may have been lost.
            let command = Command::Acknowledge { from: self.id, upto: expected - 1 };
            let notices = vec![Effect::Send { shard: from, command }];
            return Ok(Decision { notices, ..Decision::nothing() });
        }
        if number > expected && !planted!(OutboxGapSkipped) {
            return Err(Rejection::OutOfOrder { from: from.0, number, expected });
        }
        let received = Event::MessageReceived { from, number };
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
            ShardMessage::Parents { parents } => Event::ParentsReceived { parents: parents.clone() },
            ShardMessage::Follow { job, what } => Event::ParentFollowed { job: *job, by: from, what: *what },
            ShardMessage::Watch { job, times } => {
                Event::ParentWatched { job: *job, by: from, times: times.clone() }
            }
            ShardMessage::Unwatch { job, times } => {
                Event::ParentUnwatched { job: *job, by: from, times: times.clone() }
            }
            // Of before the job went to another group, which says how it stands now.
            ShardMessage::Stands { job, .. } if !self.may_tell_of(*job, from) => return Ok(Vec::new()),
            ShardMessage::Stands { job, standings } => {
                Event::StandingsHeard { parent: *job, standings: standings.clone() }
            }
            ShardMessage::Generated { job, times, left_out } => {
                Event::GenerationsHeard { parent: *job, times: times.clone(), left_out: *left_out }
            }
            ShardMessage::Known { job, times } => Event::TimesHeard { parent: *job, times: times.clone() },
            ShardMessage::Group { id, name, worker_key, settings } => Event::GroupReceived {
                group: *id,
                name: name.clone(),
                worker_key: worker_key.clone(),
                settings: settings.clone(),
            },
            ShardMessage::Job { definition, enabled } => Event::JobReceived {
                definition: std::sync::Arc::clone(definition),
                enabled: *enabled,
                next: if *enabled { self.next_fire(definition, now) } else { None },
            },
            ShardMessage::Switch { job, enabled } => Event::JobSwitched {
                job: *job,
                enabled: *enabled,
                next: if *enabled { self.next_of(*job, now) } else { None },
            },
            ShardMessage::Calendar { calendar } => {
                Event::CalendarReceived { calendar: std::sync::Arc::clone(calendar) }
            }
            ShardMessage::ForgetCalendar { name } => Event::CalendarForgotten { name: name.clone() },
            ShardMessage::Freeze { scope, freeze } => {
                Event::FreezeReceived { scope: *scope, freeze: freeze.clone() }
            }
            ShardMessage::ReleaseJob { job, until } => self.release_job(*job, *until, now),
            ShardMessage::TakeJob { definition, enabled, moved } => {
                self.take_job(definition, *enabled, moved, now)
            }
            ShardMessage::Remove { job } => Event::JobRemoved { job: *job },
            ShardMessage::AskUnfinished { question, jobs } => {
                Event::UnfinishedTold { question: *question, jobs: self.unfinished_of(jobs) }
            }
            ShardMessage::Cancel { job, by } => Event::CancelReceived { job: *job, by: by.clone() },
            ShardMessage::AskRuns { rerun, part, asked } => {
                Event::RunsTold { rerun: *rerun, part: *part, runs: self.runs_of(asked) }
            }
            ShardMessage::StartRun(start) => return Ok(self.start_run(start, now)),
            ShardMessage::KillRun { place, by } => return Ok(self.kill_run(*place, by)),
            ShardMessage::ThirdParty { reports } => return Ok(self.third_party_reported(reports)),
            ShardMessage::CheckNow { by } => Event::ChecksRequested { batch: None, by: by.clone() },
            ShardMessage::Template { template } => {
                Event::TemplateReceived { template: std::sync::Arc::clone(template) }
            }
            ShardMessage::ForgetTemplate { name } => Event::TemplateForgotten { name: name.clone() },
            ShardMessage::Users { users } => Event::UsersReceived { users: users.clone() },
            ShardMessage::ReleaseUser { user } => self.release_user(user),
            ShardMessage::ReceiveUser { user, history, tasks } => {
                Event::UserReceived { user: user.clone(), history: history.clone(), tasks: tasks.clone() }
            }
            ShardMessage::Pool { pool } => Event::PoolReceived { pool: std::sync::Arc::clone(pool) },
            ShardMessage::ForgetPool { name } => Event::PoolForgotten { name: name.clone() },
            ShardMessage::GrantPermits { pools, permits } => {
                Event::PermitsReceived { pools: pools.clone(), permits: *permits }
            }
            ShardMessage::TellUnfinished { .. }
            | ShardMessage::ReportPermits { .. }
            | ShardMessage::TellReleased { .. }
            | ShardMessage::TellKept { .. }
            | ShardMessage::TellJobReleased { .. }
            | ShardMessage::TellJobKept { .. }
            | ShardMessage::TellRuns { .. }
            | ShardMessage::TellEnd { .. } => {
                let what = "an answer to the catalogue".to_owned();
                return Err(Rejection::WrongShard { what, shard: self.id.0 });
            }
        }])
    }

    /// A changed definition keeps a fire that is pending on the same timetable; otherwise times count from
    /// now on (GEN-9).
    fn next_fire(&self, definition: &JobDefinition, now: Timestamp) -> Option<Fire> {
        let known = self.jobs.get(&definition.id).filter(|known| known.enabled);
        let timetable = self.calendars.timetable(definition);
        let same = known
            .filter(|known| known.definition.schedule == definition.schedule && known.schedule == timetable);
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
