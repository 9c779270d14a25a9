//! Which rule a command falls under.

use tidemill_model::{
    Actor, BatchCommand, Command, ObservationCommand, Rejection, ShardCommand, Timestamp, WorkerCommand,
    WorkerId,
};

use super::GroupShard;
use super::batches::mark::Marking;
use super::generation::by_hand::{ByHand, Rerun};
use crate::decision::Decision;

impl GroupShard {
    pub(crate) fn decide(&self, command: &Command, actor: &Actor, now: Timestamp) -> Decision {
        match command {
            Command::Batch(command) => self.decide_batch(actor, now, command),
            Command::Worker(command) => self.decide_worker(actor, now, command),
            Command::Observation(command) => self.decide_observation(actor, now, command),
            Command::Task(command) => self.decide_pull(command, actor, now).into(),
            Command::Shard(ShardCommand::Deliver { from, number, message }) => {
                self.deliver((*from, *number), message, now).into()
            }
            Command::Shard(ShardCommand::PlantedPanic {}) => panic!("planted"),
            Command::Shard(ShardCommand::Acknowledge { .. } | ShardCommand::SetTime { .. })
            | Command::Catalogue(_)
            | Command::Directory(_)
            | Command::Credential(_)
            | Command::Access(_)
            | Command::Job(_)
            | Command::Rerun(_)
            | Command::Bulk(_)
            | Command::Level(_) => {
                let what = "a command of the catalogue".to_owned();
                Rejection::WrongShard { what, shard: self.id.0 }.into()
            }
        }
    }

    fn decide_batch(&self, actor: &Actor, now: Timestamp, command: &BatchCommand) -> Decision {
        match *command {
            BatchCommand::SubmitJob(ref submission) => self.submit_job(submission, now).into(),
            BatchCommand::RunJob { job, logical_time, ref parameters, concurrent } => {
                self.run_job(job, &ByHand { logical_time, parameters, concurrent }, now).into()
            }
            BatchCommand::Rerun { batch, job, logical_time, ref recorded } => {
                let recorded = recorded.as_deref();
                self.rerun_batch(&Rerun { batch, job, logical_time, recorded }, now).into()
            }
            BatchCommand::Kill { batch, ref reason } => self.kill_batch(batch, actor, reason).into(),
            BatchCommand::VouchEnded { batch, token, ref reason } => {
                self.vouch_attempt_ended((batch, token), reason, actor, now).into()
            }
            BatchCommand::Adopt { batch, token, ref reason } => {
                self.adopt_stray((batch, token), reason, actor).into()
            }
            BatchCommand::OverrideResult { batch, job, logical_time, result, ref reason, run } => {
                let marking = Marking { batch, job, logical_time, result, by: actor, reason, run };
                self.override_batch_result(&marking).into()
            }
            BatchCommand::KillJob { job } => self.kill_job(job, actor).into(),
            BatchCommand::OverrideDependency { batch, ref what, ref reason } => {
                self.override_dependency(batch, what, reason, actor).into()
            }
            BatchCommand::SendQuality { batch, number, ref by } => {
                self.send_quality(batch, number, by).into()
            }
            BatchCommand::AnswerQuality { batch, allowed, ref reason } => {
                self.answer_quality(batch, allowed, reason, actor).into()
            }
        }
    }

    fn decide_worker(&self, actor: &Actor, now: Timestamp, command: &WorkerCommand) -> Decision {
        match command {
            WorkerCommand::Drain { worker } => self.drain_by_worker(worker, true, actor).into(),
            WorkerCommand::Resume { worker } => self.drain_by_worker(worker, false, actor).into(),
            WorkerCommand::DrainHost { host, reason } => self.drain_host(host, reason, actor).into(),
            WorkerCommand::ResumeHost { host } => self.resume_host(host, actor).into(),
            WorkerCommand::VouchEnded { worker, reason } => self.vouch_ended(worker, reason, actor).into(),
            WorkerCommand::EndStray { worker, token, reason } => {
                self.end_stray(worker, *token, reason, actor).into()
            }
            WorkerCommand::Register(registration) => self.register_worker(registration).into(),
            WorkerCommand::Heartbeat(heartbeat) => self.heartbeat(heartbeat, now),
            WorkerCommand::RequestStart(request) => self.request_start(request),
            WorkerCommand::RejectAssignment { token, worker, nonce, reason, lacks_resources } => {
                self.reject_assignment(*token, (worker, nonce.as_ref()), (reason, *lacks_resources), now)
            }
            WorkerCommand::ReportUserCode { token, code, .. } => self.report_user_code(*token, *code).into(),
            WorkerCommand::ReportStarted { token, worker } => self.report_started(*token, worker).into(),
            WorkerCommand::ReportFinished { token, worker, outcome, usage, interrupted, external } => {
                let usage = (usage.as_deref(), *interrupted);
                self.report_finished(*token, worker, outcome, usage, external.as_deref(), now)
            }
            WorkerCommand::DeclareLost { worker, incarnation } => {
                match self.gone_quietly(worker, incarnation) {
                    Some(left) => Decision::events(vec![left]),
                    None => self.workers.declare_lost(worker, incarnation),
                }
            }
            WorkerCommand::ExpireLease { worker, incarnation } => self.expire_lease(worker, incarnation),
            WorkerCommand::WarnOfLease { worker, incarnation } => self.warn_of_lease(worker, incarnation),
            WorkerCommand::EndStartRight { token } => self.end_start_right(*token),
        }
    }

    fn decide_observation(&self, actor: &Actor, now: Timestamp, command: &ObservationCommand) -> Decision {
        match command {
            ObservationCommand::ReportPaths { answers, .. } => self.external.report_paths(answers).into(),
            ObservationCommand::ReportOutputs { answers, .. } => self.report_outputs(answers, now).into(),
            ObservationCommand::RecheckFailed { token, worker, external_dependencies } => {
                self.recheck_failed(*token, worker, external_dependencies).into()
            }
            ObservationCommand::ProbeNow { batch } => self.probe_now(*batch, actor).into(),
        }
    }

    /// The workers that hold tokens.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &WorkerId> {
        self.workers.iter().filter(|(_, worker)| !worker.tokens.is_empty()).map(|(id, _)| id)
    }
}
