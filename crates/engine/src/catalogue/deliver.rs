//! What other shards say to the catalogue.

use crate::catalogue::Catalogue;
use crate::decision::Decision;
use crate::effect::Effect;
use tidemill_model::{
    Command, Event, PartitionEvent, PermitEvent, Rejection, RerunEvent, ShardCommand, ShardId, ShardMessage,
    Timestamp,
};

impl Catalogue {
    /// The next message of a shard, exactly; an earlier one changes nothing, a later one is refused.
    pub(super) fn deliver(
        &self,
        from: ShardId,
        number: u64,
        message: &ShardMessage,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        let expected = self.mailbox.received(from) + 1;
        if number < expected {
            // The acknowledgement may have been lost.
            let command =
                Command::Shard(ShardCommand::Acknowledge { from: ShardId::CATALOGUE, upto: expected - 1 });
            let notices = vec![Effect::Send { shard: from, command }];
            return Ok(Decision { notices, ..Decision::nothing() });
        }
        if number > expected {
            return Err(Rejection::OutOfOrder { from: from.0, number, expected });
        }
        let mut events = vec![Event::Partition(PartitionEvent::MessageReceived { from, number })];
        if let ShardMessage::ReportUnfinished { question, jobs } = message {
            self.report_unfinished(&mut events, (from, *question), jobs, now);
        } else {
            events.extend(self.learned(from, message)?);
        }
        Ok(Decision::events(events))
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
