//! What other shards say to the catalogue.

use crate::catalogue::Catalogue;
use crate::decision::Decision;
use tidemill_model::{Event, PermitEvent, Rejection, RerunEvent, ShardId, ShardMessage, Timestamp};

impl Catalogue {
    pub(super) fn deliver(
        &self,
        (from, number): (ShardId, u64),
        message: &ShardMessage,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        self.mailbox.deliver(ShardId::CATALOGUE, (from, number), |events| match message {
            ShardMessage::ReportUnfinished { question, jobs } => {
                self.report_unfinished(events, (from, *question), jobs, now);
                Ok(())
            }
            message => self.learned(from, message).map(|learned| events.extend(learned)),
        })
    }

    fn learned(&self, from: ShardId, message: &ShardMessage) -> Result<Vec<Event>, Rejection> {
        Ok(match message {
            ShardMessage::ReportRuns { rerun, part, runs } => {
                let (rerun, part, runs) = (*rerun, *part, runs.clone());
                vec![Event::Rerun(RerunEvent::RunsReceived { rerun, part, from, runs })]
            }
            ShardMessage::ReportRunFinished { place, end } => {
                vec![Event::Rerun(RerunEvent::RunFinished { place: *place, end: end.clone() })]
            }
            ShardMessage::ReportPermits { report } => {
                vec![Event::Permit(PermitEvent::ReportReceived { from, report: report.clone() })]
            }
            ShardMessage::ReportUserDetached { user, history, tasks } => {
                vec![self.user_let_go(from, user, history, tasks)]
            }
            ShardMessage::ReportUserDetachRejected { user, reason } => {
                vec![self.user_not_let_go(user, reason)]
            }
            ShardMessage::ReportJobDetached { job, moved } => {
                self.job_let_go(from, *job, moved).into_iter().collect()
            }
            ShardMessage::ReportJobDetachRejected { job, reason } => {
                vec![self.job_not_let_go(*job, reason)]
            }
            ShardMessage::ReportUnfinished { .. }
            | ShardMessage::Group { .. }
            | ShardMessage::DetachJob { .. }
            | ShardMessage::AttachJob { .. }
            | ShardMessage::Template { .. }
            | ShardMessage::DropTemplate { .. }
            | ShardMessage::Users { .. }
            | ShardMessage::DetachUser { .. }
            | ShardMessage::AttachUser { .. }
            | ShardMessage::Pool { .. }
            | ShardMessage::DropPool { .. }
            | ShardMessage::GrantPermits { .. }
            | ShardMessage::Job { .. }
            | ShardMessage::Switch { .. }
            | ShardMessage::Calendar { .. }
            | ShardMessage::DropCalendar { .. }
            | ShardMessage::Freeze { .. }
            | ShardMessage::Remove { .. }
            | ShardMessage::ParentDeleted { .. }
            | ShardMessage::ReleaseParent { .. }
            | ShardMessage::Parents { .. }
            | ShardMessage::Subscription { .. }
            | ShardMessage::Watch { .. }
            | ShardMessage::Unwatch { .. }
            | ShardMessage::Stands { .. }
            | ShardMessage::Generated { .. }
            | ShardMessage::Known { .. }
            | ShardMessage::QueryUnfinished { .. }
            | ShardMessage::ThirdParty { .. }
            | ShardMessage::ProbeNow { .. }
            | ShardMessage::QueryRuns { .. }
            | ShardMessage::StartRun(_)
            | ShardMessage::KillRun { .. }
            | ShardMessage::Cancel { .. } => {
                let what = "a message of the catalogue".to_owned();
                return Err(Rejection::WrongShard { what, shard: ShardId::CATALOGUE.0 });
            }
        })
    }
}
