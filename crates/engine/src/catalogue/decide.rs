//! Which rule a command falls under, and what other shards say.

use crate::catalogue::keys::NewKey;
use crate::catalogue::remove::{Requester, Terms};
use crate::catalogue::staging::Commit;
use crate::catalogue::{Catalogue, access, keys};
use crate::decision::{Decision, Ruled};
use crate::fault_injection::FaultInjection;
use tidemill_model::{
    Actor, BulkCommand, CatalogueCommand, Command, DirectoryCommand, Event, JobCommand, ObservationCommand,
    ObservationEvent, PermitEvent, Rejection, RerunCommand, RerunEvent, ShardCommand, ShardId, ShardMessage,
    Timestamp,
};

impl Catalogue {
    pub(crate) fn decide(
        &self,
        command: &Command,
        requester: Requester<'_>,
        now: Timestamp,
        fault_injection: &FaultInjection,
    ) -> Decision {
        if let Some(committed) = &self.committed
            && changes_definitions(command)
        {
            return committed.rejection().into();
        }
        match command {
            Command::Catalogue(command) => self.decide_catalogue(requester, now, command, fault_injection),
            Command::Job(command) => self.decide_job(requester, now, command),
            Command::Bulk(command) => self.decide_bulk(requester.actor, command),
            Command::Rerun(command) => self.decide_rerun(requester.actor, now, command),
            Command::Level(command) => self.decide_level(requester.actor, command),
            Command::Directory(command) => self.decide_directory(command),
            Command::Credential(command) => self.decide_credential(requester.actor, now, command).into(),
            Command::Access(command) => access::decide_access(command),
            Command::Shard(ShardCommand::Deliver { from, number, message }) => {
                self.deliver((*from, *number), message, now).into()
            }
            Command::Shard(ShardCommand::PlantedPanic {}) => panic!("planted"),
            Command::Observation(ObservationCommand::ProbeNow { batch: None }) => {
                Decision::done(ObservationEvent::ProbesRequested { batch: None, by: requester.actor.clone() })
            }
            Command::Shard(ShardCommand::Acknowledge { .. } | ShardCommand::SetTime { .. })
            | Command::Observation(
                ObservationCommand::ReportPaths { .. }
                | ObservationCommand::ReportOutputs { .. }
                | ObservationCommand::RecheckFailed { .. }
                | ObservationCommand::ProbeNow { batch: Some(_) },
            )
            | Command::Batch(_)
            | Command::Worker(_)
            | Command::Task(_) => wrong_shard("a command of a group's shard").into(),
        }
    }

    fn decide_catalogue(
        &self,
        requester: Requester<'_>,
        now: Timestamp,
        command: &CatalogueCommand,
        fault_injection: &FaultInjection,
    ) -> Decision {
        match command {
            CatalogueCommand::DefineGroup { name, worker_key, settings } => {
                self.define_group(name, worker_key, settings).into()
            }
            CatalogueCommand::DefineKey { app, hash, role, groups, run_as, may, department, first_only } => {
                let most = fault_injection.max_keys.unwrap_or(keys::MAX_KEYS);
                let (role, first_only) = (*role, *first_only);
                let department = department.as_ref();
                let key = NewKey { app, hash, role, groups, run_as, may, department, first_only };
                self.define_key(&key, most).into()
            }
            CatalogueCommand::RevokeKey { app } => self.revoke_key(app).into(),
            CatalogueCommand::Freeze { group, latest, reason } => {
                self.freeze(group.as_ref(), latest.unwrap_or(now), requester.actor, reason).into()
            }
            CatalogueCommand::LiftFreeze { group, reason } => {
                self.lift_freeze(group.as_ref(), requester.actor, reason).into()
            }
            CatalogueCommand::DefineCalendar { calendar } => self.define_calendar(calendar).into(),
            CatalogueCommand::DeleteCalendar { name } => self.delete_calendar(name).into(),
            CatalogueCommand::DefineTemplate { template } => self.define_template(template).into(),
            CatalogueCommand::DeleteTemplate { name } => self.delete_template(name).into(),
            CatalogueCommand::AssignUsers { group, users } => self.assign_users(group, users).into(),
            CatalogueCommand::MoveUser { user, to } => self.move_user(user, to, requester).into(),
            CatalogueCommand::DeleteUser { user } => self.delete_user(user, requester).into(),
            CatalogueCommand::DefinePool { pool } => self.define_pool(pool).into(),
            CatalogueCommand::DeletePool { name } => self.delete_pool(name).into(),
            CatalogueCommand::ReportThirdParty(report) => {
                self.report_third_party(report, requester.actor, now).into()
            }
            CatalogueCommand::ReportProbes(report) => self.report_probes(report, now).into(),
        }
    }

    fn decide_job(&self, requester: Requester<'_>, now: Timestamp, command: &JobCommand) -> Decision {
        match command {
            JobCommand::Apply { jobs, prune, cancel, orphan_children } => {
                let terms = Terms::new(*cancel, *orphan_children, requester);
                self.apply_jobs(jobs, prune, now, &terms).into()
            }
            JobCommand::Stage { apply, part, jobs } => self.stage_jobs(apply, *part, jobs, now).into(),
            JobCommand::Commit { apply, parts, prune, cancel, orphan_children, if_revision } => {
                let commit = Commit { apply, parts: *parts, prune, if_revision: *if_revision };
                self.commit_apply(&commit, &Terms::new(*cancel, *orphan_children, requester)).into()
            }
            JobCommand::Define { job, parents } => self.define_job(job, parents, requester.actor).into(),
            JobCommand::Rename { job, name } => self.rename_job(*job, name, requester.actor).into(),
            JobCommand::Move { job, to } => self.move_job(*job, to, now, requester).into(),
            JobCommand::Switch { job, enabled } => self.switch_job(*job, *enabled).into(),
            JobCommand::Delete { job, cancel, orphan_children } => {
                self.delete_job(*job, &Terms::new(*cancel, *orphan_children, requester)).into()
            }
        }
    }

    fn decide_bulk(&self, by: &Actor, command: &BulkCommand) -> Decision {
        match command {
            BulkCommand::Request { action, items, reason } => {
                self.request_bulk(*action, items, reason, by).into()
            }
            BulkCommand::Report { bulk, outcomes } => self.report_bulk(*bulk, outcomes).into(),
        }
    }

    fn decide_rerun(&self, by: &Actor, now: Timestamp, command: &RerunCommand) -> Decision {
        match command {
            RerunCommand::Plan(request) => self.plan_rerun(request, by, now).into(),
            RerunCommand::Approve { rerun } => self.approve_rerun(*rerun, by).into(),
            RerunCommand::Pause { rerun } => self.pause_rerun(*rerun, by).into(),
            RerunCommand::Resume { rerun } => self.resume_rerun(*rerun, by).into(),
            RerunCommand::Cancel { rerun, kill } => self.cancel_rerun(*rerun, *kill, by).into(),
        }
    }
}

impl Catalogue {
    /// What another shard says.
    fn deliver(&self, (from, number): (ShardId, u64), message: &ShardMessage, now: Timestamp) -> Ruled {
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
                Vec::from_iter(self.job_let_go(from, *job, moved))
            }
            ShardMessage::ReportJobDetachRejected { job, reason } => vec![self.job_not_let_go(*job, reason)],
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
            | ShardMessage::Level { .. }
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
                return Err(wrong_shard("a message of the catalogue"));
            }
        })
    }
}

/// What has to wait while a large request is carried out: definitions, and what they were held against when it was found good.
fn changes_definitions(command: &Command) -> bool {
    matches!(
        command,
        Command::Job(
            JobCommand::Apply { .. }
                | JobCommand::Commit { .. }
                | JobCommand::Define { .. }
                | JobCommand::Rename { .. }
                | JobCommand::Move { .. }
                | JobCommand::Switch { .. }
                | JobCommand::Delete { .. }
        ) | Command::Catalogue(
            CatalogueCommand::DefineCalendar { .. }
                | CatalogueCommand::DeleteCalendar { .. }
                | CatalogueCommand::DefinePool { .. }
                | CatalogueCommand::DeletePool { .. }
        ) | Command::Directory(DirectoryCommand::Change { .. })
    )
}

fn wrong_shard(what: &str) -> Rejection {
    Rejection::WrongShard { what: what.to_owned(), shard: ShardId::CATALOGUE.0 }
}
