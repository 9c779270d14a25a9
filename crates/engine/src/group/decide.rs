//! Which rule a command falls under.

use tidemill_model::{Actor, Command, Rejection, Timestamp, WorkerId};

use super::GroupShard;
use super::by_hand::{ByHand, Rerun};
use super::mark::Marking;
use crate::decision::Decision;

impl GroupShard {
    pub(crate) fn decide(&self, command: &Command, actor: &Actor, now: Timestamp) -> Decision {
        match command {
            Command::SubmitJob(submission) => self.submit_job(submission, now).into(),
            Command::RunJob { job, logical_time, parameters, concurrent } => {
                let by_hand = ByHand { logical_time: *logical_time, parameters, concurrent: *concurrent };
                self.run_job(*job, &by_hand, now).into()
            }
            Command::RerunBatch { batch, job, logical_time, recorded } => {
                let (batch, job, logical_time) = (*batch, *job, *logical_time);
                self.rerun_batch(&Rerun { batch, job, logical_time, recorded: recorded.as_deref() }, now)
                    .into()
            }
            Command::KillBatch { batch, reason } => self.kill_batch(*batch, actor, reason).into(),
            Command::OverrideBatchResult { batch, job, logical_time, result, reason, run } => {
                let (batch, job, logical_time, result, run) = (*batch, *job, *logical_time, *result, *run);
                self.override_batch_result(&Marking {
                    batch,
                    job,
                    logical_time,
                    result,
                    by: actor,
                    reason,
                    run,
                })
                .into()
            }
            Command::KillJob { job } => self.kill_job(*job, actor).into(),
            Command::DrainWorker { worker } => self.drain_worker(worker).into(),
            Command::ResumeWorker { worker } => self.resume_worker(worker).into(),
            Command::RegisterWorker(registration) => self.register_worker(registration).into(),
            Command::Heartbeat(heartbeat) => self.heartbeat(heartbeat, now),
            Command::RequestStart(request) => self.request_start(request),
            Command::RejectAssignment { token, worker, nonce, reason } => {
                self.reject_assignment(*token, (worker, nonce.as_ref()), reason, now)
            }
            Command::ReportUserCode { token, code } => self.report_user_code(*token, *code).into(),
            Command::ReportStarted { token, worker } => self.report_started(*token, worker).into(),
            Command::ReportFinished { token, worker, outcome, usage } => {
                self.report_finished(*token, worker, outcome, usage.as_ref(), now)
            }
            Command::ReportPaths { answers } => self.report_paths(answers).into(),
            Command::RecheckFailed { token, worker, external_dependencies } => {
                self.recheck_failed(*token, worker, external_dependencies).into()
            }
            Command::OverrideDependency { batch, what, reason } => {
                self.override_dependency(*batch, what, reason, actor).into()
            }
            Command::ProbeNow { batch } => self.probe_now(*batch, actor).into(),
            Command::SendQuality { batch, number, by } => self.send_quality(*batch, *number, by).into(),
            Command::AnswerQuality { batch, allowed, reason } => {
                self.answer_quality(*batch, *allowed, reason, actor).into()
            }
            Command::DeclareLost { worker, incarnation } => self.declare_lost(worker, incarnation),
            Command::ExpireLease { worker, incarnation } => self.expire_lease(worker, incarnation),
            Command::CreateTask { .. }
            | Command::ChangeTask { .. }
            | Command::DeleteTask { .. }
            | Command::Pull { .. }
            | Command::CompleteTask { .. }
            | Command::ReturnGrant { .. } => self.decide_pull(command, actor, now).into(),
            Command::Deliver { from, number, message } => self.deliver(*from, *number, message, now).into(),
            Command::PlantedPanic {} => panic!("planted"),
            Command::Acknowledge { .. }
            | Command::SetTime { .. }
            | Command::DefineGroup { .. }
            | Command::DefineKey { .. }
            | Command::Freeze { .. }
            | Command::LiftFreeze { .. }
            | Command::RevokeKey { .. }
            | Command::ApplyJobs { .. }
            | Command::StageJobs { .. }
            | Command::CommitApply { .. }
            | Command::DefineJob { .. }
            | Command::DefineTemplate { .. }
            | Command::DeleteTemplate { .. }
            | Command::AssignUsers { .. }
            | Command::MoveUser { .. }
            | Command::DeleteUser { .. }
            | Command::DefinePool { .. }
            | Command::DeletePool { .. }
            | Command::DefineCalendar { .. }
            | Command::DeleteCalendar { .. }
            | Command::PlanRerun(_)
            | Command::ApproveRerun { .. }
            | Command::RequestBulk { .. }
            | Command::ReportBulk { .. }
            | Command::PauseRerun { .. }
            | Command::ResumeRerun { .. }
            | Command::CancelRerun { .. }
            | Command::RenameJob { .. }
            | Command::MoveJob { .. }
            | Command::SwitchJob { .. }
            | Command::ReportThirdParty(_)
            | Command::ReportProbes(_)
            | Command::DeleteJob { .. } => {
                let what = "a command of the catalogue".to_owned();
                Rejection::WrongShard { what, shard: self.id.0 }.into()
            }
        }
    }

    /// The workers that hold tokens.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &WorkerId> {
        self.workers.iter().filter(|(_, worker)| !worker.tokens.is_empty()).map(|(id, _)| id)
    }
}
