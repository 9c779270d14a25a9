//! The catalogue: groups, keys, and every job's definition with the graph they form. What a group's shard
//! must know of it goes there through the numbered outbox, in the order in which it was decided.

mod accept;
mod accounts;
mod apply_jobs;
mod bulk;
mod calendars;
mod data;
mod foreign;
mod freeze;
mod graph;
mod manage;
mod moves;
mod names;
mod plan;
mod pools;
mod remove;
mod reports;
mod reruns;
mod staging;
mod templates;
mod told;
mod users;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_model::{
    Command, Event, GroupId, GroupName, GroupSettings, JobDefinition, JobId, JobName, Rejection, RequestId,
    ShardId, ShardMessage, Timestamp,
};

pub(crate) use self::accept::{check_parameters, check_program};
pub(crate) use self::apply_jobs::MAX_DECLARED_TIMES;
use self::bulk::Bulks;
use self::calendars::Calendars;
use self::freeze::Freezes;
use self::manage::{Key, NewKey};
use self::moves::Moves;
pub use self::plan::check_jobs;
use self::pools::Pools;
pub(crate) use self::remove::Wisher;
use self::remove::{Pending, Terms};
use self::reports::Reports;
use self::reruns::Reruns;
pub(crate) use self::staging::{Chore, finished};
use self::staging::{Commit, Committed, Staging};
use self::templates::Templates;
use self::users::Users;
pub(crate) use self::values::check_values;
use crate::decision::Decision;
use crate::outbox::Post;
use crate::rig::Rig;

/// The catalogue's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    pub(crate) groups: BTreeMap<GroupName, Group>,
    pub(crate) keys: BTreeMap<String, Key>,
    pub(crate) freezes: Freezes,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) names: BTreeMap<(GroupName, JobName), JobId>,
    /// Jobs on their way from one group to another.
    pub(crate) moves: Moves,
    /// Job → those that name it as parent.
    pub(crate) children: BTreeMap<JobId, BTreeSet<JobId>>,
    pub(crate) calendars: Calendars,
    pub(crate) pools: Pools,
    // Tasks that clients pull.
    pub(crate) templates: Templates,
    pub(crate) users: Users,
    pub(crate) jobs_minted: u64,
    /// Counts the changes of definitions.
    pub(crate) revision: u64,
    pub(crate) stagings: BTreeMap<RequestId, Staging>,
    /// The large wish that is being carried out.
    pub(crate) committed: Option<Committed>,
    /// Wishes to delete jobs that wait for answers of shards, by question.
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// Questions asked so far.
    pub(crate) questions: u64,
    /// Of the things that batches wait for.
    pub(crate) reports: Reports,
    pub(crate) reruns: Reruns,
    pub(crate) bulks: Bulks,
    pub(crate) post: Post,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    pub(crate) shard: ShardId,
    pub(crate) worker_key: String,
    pub(crate) settings: GroupSettings,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) enabled: bool,
    /// Known by its id only.
    pub(crate) unnamed: bool,
}

impl Catalogue {
    pub(crate) fn decide(
        &self,
        command: &Command,
        wisher: Wisher<'_>,
        now: Timestamp,
        rig: &Rig,
    ) -> Decision {
        if let Some(committed) = &self.committed
            && changes_definitions(command)
        {
            return committed.rejection().into();
        }
        match command {
            Command::DefineGroup { name, worker_key, settings } => {
                self.define_group(name, worker_key, settings).into()
            }
            Command::DefineKey { app, hash, role, groups, run_as, first_only } => {
                let most = rig.max_keys.unwrap_or(manage::MAX_KEYS);
                let (role, first_only) = (*role, *first_only);
                self.define_key(&NewKey { app, hash, role, groups, run_as, first_only }, most).into()
            }
            Command::RevokeKey { app } => self.revoke_key(app).into(),
            Command::Freeze { group, latest, reason } => {
                self.freeze(group.as_ref(), latest.unwrap_or(now), wisher.actor, reason).into()
            }
            Command::Thaw { group, reason } => self.thaw(group.as_ref(), wisher.actor, reason).into(),
            Command::ApplyJobs { jobs, prune, cancel } => {
                self.apply_jobs(jobs, prune, now, &Terms::new(*cancel, wisher)).into()
            }
            Command::StageJobs { apply, part, jobs } => self.stage_jobs(apply, *part, jobs, now).into(),
            Command::CommitApply { apply, parts, prune, cancel, if_revision } => {
                let (request, reply_to) = (wisher.request, wisher.reply_to);
                let (parts, if_revision) = (*parts, *if_revision);
                let commit = Commit { apply, parts, prune, if_revision, request, reply_to };
                self.commit_apply(&commit, &Terms::new(*cancel, wisher)).into()
            }
            Command::DefineJob { job, parents } => self.define_job(job, parents, wisher.actor).into(),
            Command::RequestBulk { action, items, reason } => {
                self.request_bulk(*action, items, reason, wisher.actor).into()
            }
            Command::ReportBulk { bulk, outcomes } => self.report_bulk(*bulk, outcomes).into(),
            Command::RenameJob { job, name } => self.rename_job(*job, name, wisher.actor).into(),
            Command::MoveJob { job, to } => self.move_job(*job, to, now, wisher).into(),
            Command::SwitchJob { job, enabled } => self.switch_job(*job, *enabled).into(),
            Command::DeleteJob { job, cancel } => self.delete_job(*job, &Terms::new(*cancel, wisher)).into(),
            Command::DefineCalendar { calendar } => self.define_calendar(calendar).into(),
            Command::RemoveCalendar { name } => self.remove_calendar(name).into(),
            Command::DefineTemplate { template } => self.define_template(template).into(),
            Command::RemoveTemplate { name } => self.remove_template(name).into(),
            Command::AssignUsers { group, users } => self.assign_users(group, users).into(),
            Command::MoveUser { user, to } => self.move_user(user, to, wisher).into(),
            Command::RemoveUser { user } => self.remove_user(user, wisher).into(),
            Command::DefinePool { pool } => self.define_pool(pool).into(),
            Command::RemovePool { name } => self.remove_pool(name).into(),
            Command::PlanRerun(wish) => self.plan_rerun(wish, wisher.actor, now).into(),
            Command::ApproveRerun { rerun } => self.approve_rerun(*rerun, wisher.actor).into(),
            Command::PauseRerun { rerun } => self.pause_rerun(*rerun, wisher.actor).into(),
            Command::ResumeRerun { rerun } => self.resume_rerun(*rerun, wisher.actor).into(),
            Command::CancelRerun { rerun, kill } => self.cancel_rerun(*rerun, *kill, wisher.actor).into(),
            Command::Deliver { from, number, message } => self.deliver(*from, *number, message, now).into(),
            Command::ReportThirdParty(report) => self.report_third_party(report, wisher.actor, now).into(),
            Command::ReportChecks(report) => self.report_checks(report, now).into(),
            Command::CheckNow { batch: None } => self.check_everything(wisher.actor),
            Command::PlantedPanic {} => panic!("planted"),
            Command::SubmitJob(_)
            | Command::RunJob { .. }
            | Command::RerunBatch { .. }
            | Command::KillBatch { .. }
            | Command::MarkBatch { .. }
            | Command::KillJob { .. }
            | Command::DrainWorker { .. }
            | Command::ResumeWorker { .. }
            | Command::RegisterWorker(_)
            | Command::Heartbeat(_)
            | Command::RequestStart(_)
            | Command::RejectAssignment { .. }
            | Command::ReportCode { .. }
            | Command::ReportStarted { .. }
            | Command::ReportFinished { .. }
            | Command::ReportPaths { .. }
            | Command::RecheckFailed { .. }
            | Command::OverrideDependency { .. }
            | Command::CheckNow { batch: Some(_) }
            | Command::CreateTask { .. }
            | Command::ChangeTask { .. }
            | Command::DeleteTask { .. }
            | Command::Pull { .. }
            | Command::CompleteTask { .. }
            | Command::ReturnGrant { .. }
            | Command::TakeQuality { .. }
            | Command::AnswerQuality { .. }
            | Command::DeclareLost { .. }
            | Command::ExpireLease { .. }
            | Command::Acknowledge { .. }
            | Command::SetTime { .. } => {
                let what = "a command of a group's shard".to_owned();
                Rejection::WrongShard { what, shard: ShardId::CATALOGUE.0 }.into()
            }
        }
    }

    pub(crate) fn apply(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::GroupDefined { group, name, shard, worker_key, settings } => {
                let message = ShardMessage::Group {
                    id: *group,
                    name: name.clone(),
                    worker_key: worker_key.clone(),
                    settings: settings.clone(),
                };
                self.post.send(*shard, message);
                if !self.groups.contains_key(name) {
                    self.freeze_new_group(*shard);
                    self.tell_of_shared_pools(*shard);
                    self.tell_of_templates(*shard);
                }
                let (worker_key, settings) = (worker_key.clone(), settings.clone());
                let group = Group { id: *group, shard: *shard, worker_key, settings };
                self.groups.insert(name.clone(), group);
            }
            Event::KeyDefined { app, role, groups, run_as, .. } => {
                let key = Key { role: *role, is_bound: !groups.is_empty(), run_as: run_as.clone() };
                self.keys.insert(app.clone(), key);
            }
            Event::KeyRevoked { app } => {
                self.keys.remove(app);
            }
            Event::Frozen { group, freeze } => self.frozen(group.as_ref(), Some(freeze)),
            Event::Thawed { group, .. } => self.frozen(group.as_ref(), None),
            Event::JobDefined { definition, enabled, unnamed, previous_name } => {
                if let Some(previous) = previous_name {
                    self.names.remove(&(definition.group.clone(), previous.clone()));
                }
                let (definition, enabled) = (Arc::clone(definition), *enabled);
                let message = ShardMessage::Job { definition: Arc::clone(&definition), enabled };
                self.job_defined(Job { definition, enabled, unnamed: *unnamed }, message);
            }
            Event::JobMoveAsked { .. } => self.job_move_asked(event),
            Event::JobMoved { .. } => self.job_moved(event),
            Event::JobMoveRefused { job, .. } => self.job_move_refused(*job),
            Event::JobEnabled { job } => self.switched(*job, true),
            Event::JobDisabled { job } => self.switched(*job, false),
            Event::JobDeleted { job } => self.job_deleted(*job),
            Event::UnfinishedAsked { .. } => self.unfinished_asked(now, event),
            Event::UnfinishedHeard { question, from, jobs } => self.unfinished_heard(*question, *from, jobs),
            Event::RemovalDecided { question, .. } => {
                self.pending.remove(question);
            }
            Event::JobCancelled { job, shard, by } => {
                self.post.send(*shard, ShardMessage::Cancel { job: *job, by: by.clone() });
            }
            Event::CalendarDefined { calendar } => self.calendar_defined(calendar),
            Event::CalendarRemoved { name } => self.calendar_removed(name),
            // Templates and users of pull tasks.
            Event::TemplateDefined { template } => self.template_defined(template),
            Event::TemplateRemoved { name } => self.template_removed(name),
            Event::UsersAssigned { shard, users, .. } => self.users_assigned(*shard, users),
            Event::UserMoveAsked { .. } => self.user_move_asked(event),
            Event::UserMoved { .. } => self.user_moved(event),
            Event::UserMoveRefused { user, .. } => self.user_move_refused(user),
            Event::PoolDefined { pool } => self.pool_defined(pool),
            Event::PoolRemoved { name } => self.pool_removed(name),
            Event::PermitsHeard { from, report } => self.permits_heard(now, *from, report),
            Event::PermitsGranted { to, pools, permits } => self.permits_granted(*to, pools, *permits),
            Event::RateOpened { name } => self.rate_opened(now, name),
            Event::JobsStaged { .. }
            | Event::StagingDropped { .. }
            | Event::ApplyCommitted { .. }
            | Event::ApplyAdvanced { .. }
            | Event::ApplyFinished { .. } => self.fold_staging(now, event),
            Event::ThirdPartyReported { .. }
            | Event::ThirdPartyForgotten { .. }
            | Event::ChecksLate { .. }
            | Event::ChecksRecovered { .. }
            | Event::ChecksRequested { batch: None, .. } => self.fold_reports(now, event),
            Event::RerunRequested { .. }
            | Event::RunsAsked { .. }
            | Event::RunsHeard { .. }
            | Event::JobsSkipped { .. }
            | Event::BatchesPlanned { .. }
            | Event::RerunPlanned { .. }
            | Event::RerunApproved { .. }
            | Event::RunsOrdered { .. }
            | Event::RunEnded { .. }
            | Event::RunsBlocked { .. }
            | Event::RerunPaused { .. }
            | Event::RerunResumed { .. }
            | Event::RerunCancelled { .. }
            | Event::RerunEnded { .. } => self.fold_rerun(event),
            Event::BulkRequested { bulk, items, .. } => self.bulk_requested(*bulk, items),
            Event::BulkAdvanced { bulk, outcomes, ended } => self.bulk_advanced(*bulk, outcomes, *ended),
            Event::MessageReceived { from, number } => self.post.receive(*from, *number),
            Event::OutboxAcknowledged { to, upto } => self.post.acknowledge(*to, *upto),
            // Facts of group shards, which the catalogue's journal never holds for it.
            Event::UnfinishedTold { .. }
            | Event::RunsTold { .. }
            | Event::RunSkipped { .. }
            | Event::CancelReceived { .. }
            | Event::ParentsReceived { .. }
            | Event::StandingsHeard { .. }
            | Event::GenerationsHeard { .. }
            | Event::TimesHeard { .. }
            | Event::ParentFollowed { .. }
            | Event::ParentWatched { .. }
            | Event::ParentUnwatched { .. }
            | Event::TemplateReceived { .. }
            | Event::TemplateForgotten { .. }
            | Event::UsersReceived { .. }
            | Event::UserReleased { .. }
            | Event::UserKept { .. }
            | Event::UserReceived { .. }
            | Event::TaskCreated { .. }
            | Event::TaskChanged { .. }
            | Event::TaskDeleted { .. }
            | Event::TaskGranted { .. }
            | Event::TaskCompleted { .. }
            | Event::GrantReturned { .. }
            | Event::GrantExpired { .. }
            | Event::TasksPurged { .. }
            | Event::PoolReceived { .. }
            | Event::PoolForgotten { .. }
            | Event::PermitsReceived { .. }
            | Event::PermitsReported { .. }
            | Event::GroupReceived { .. }
            | Event::JobReceived { .. }
            | Event::JobSwitched { .. }
            | Event::JobRemoved { .. }
            | Event::JobReleased { .. }
            | Event::JobKept { .. }
            | Event::JobTaken { .. }
            | Event::JobSubmitted { .. }
            | Event::BatchGenerated { .. }
            | Event::FiresSkipped { .. }
            | Event::CalendarReceived { .. }
            | Event::CalendarForgotten { .. }
            | Event::FireMoved { .. }
            | Event::GenerationFailed { .. }
            | Event::FreezeReceived { .. }
            | Event::StartDue { .. }
            | Event::DependencySatisfied { .. }
            | Event::DependencyWithdrawn { .. }
            | Event::BatchAssigned { .. }
            | Event::AssignmentReturned { .. }
            | Event::StartGranted { .. }
            | Event::AttemptStarted { .. }
            | Event::CodeReported { .. }
            | Event::FinalCommandAssigned { .. }
            | Event::FinalCommandGranted { .. }
            | Event::FinalCommandEnded { .. }
            | Event::FinalCommandNotRun { .. }
            | Event::WorkerUnfit { .. }
            | Event::WorkerFit { .. }
            | Event::AttemptFinished { .. }
            | Event::RetryScheduled { .. }
            | Event::RetryDue { .. }
            | Event::KillRequested { .. }
            | Event::BatchFinished { .. }
            | Event::BatchMarked { .. }
            | Event::BatchBlocked { .. }
            | Event::BatchUnblocked { .. }
            | Event::TimeoutMarked { .. }
            | Event::AlarmRaised { .. }
            | Event::HistoryEvicted { .. }
            | Event::ThingWaited { .. }
            | Event::ThingSatisfied { .. }
            | Event::ThingWithdrawn { .. }
            | Event::ThingsForgotten { .. }
            | Event::DependencyOverridden { .. }
            | Event::ChecksRequested { batch: Some(_), .. }
            | Event::QualityRequested { .. }
            | Event::QualityTaken { .. }
            | Event::QualityAnswered { .. }
            | Event::WorkerRegistered { .. }
            | Event::WorkerMeasured { .. }
            | Event::WorkerLost { .. }
            | Event::WorkerFound { .. }
            | Event::LeaseExpired { .. }
            | Event::WorkerDrained { .. }
            | Event::WorkerResumed { .. }
            | Event::CommandQuarantined { .. }
            | Event::TimerSuspended { .. }
            | Event::TimeSet { .. }
            | Event::LossAccepted { .. } => {}
        }
    }

    /// The message is what its group's shard hears.
    fn job_defined(&mut self, job: Job, message: ShardMessage) {
        let definition = Arc::clone(&job.definition);
        let id = definition.id;
        self.revision += 1;
        match self.jobs.get(&id) {
            None => self.jobs_minted += 1,
            Some(old) => {
                for parent in &old.definition.parents {
                    if let Some(children) = self.children.get_mut(&parent.job) {
                        children.remove(&id);
                    }
                }
            }
        }
        for parent in definition.other_parents() {
            self.children.entry(parent).or_default().insert(id);
        }
        if !job.unnamed {
            self.names.insert((definition.group.clone(), definition.name.clone()), id);
        }
        self.send_calendar_of(&definition);
        self.tell_foreign_parents(&definition);
        self.send(&definition.group, message);
        let shard = self.groups.get(&definition.group).map(|group| group.shard);
        if let (Some(shard), Some(data)) = (shard, &definition.data) {
            self.listen(shard, &data.third_party);
        }
        let old = self.jobs.insert(id, job);
        self.tell_foreign_children(id, old.as_ref().map(|old| old.definition.as_ref()));
    }

    fn switched(&mut self, id: JobId, enabled: bool) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        self.revision += 1;
        job.enabled = enabled;
        let group = job.definition.group.clone();
        self.send(&group, ShardMessage::Switch { job: id, enabled });
    }

    fn job_deleted(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.revision += 1;
        for parent in &job.definition.parents {
            if let Some(children) = self.children.get_mut(&parent.job) {
                children.remove(&id);
            }
        }
        self.children.remove(&id);
        if !job.unnamed {
            self.names.remove(&(job.definition.group.clone(), job.definition.name.clone()));
        }
        self.send(&job.definition.group, ShardMessage::Remove { job: id });
    }

    fn send(&mut self, group: &GroupName, message: ShardMessage) {
        if let Some(group) = self.groups.get(group) {
            self.post.send(group.shard, message);
        }
    }
}

/// What has to wait while a large wish is carried out.
fn changes_definitions(command: &Command) -> bool {
    matches!(
        command,
        Command::ApplyJobs { .. }
            | Command::CommitApply { .. }
            | Command::DefineJob { .. }
            | Command::RenameJob { .. }
            | Command::MoveJob { .. }
            | Command::SwitchJob { .. }
            | Command::DeleteJob { .. }
            | Command::DefineCalendar { .. }
            | Command::RemoveCalendar { .. }
            | Command::DefinePool { .. }
            | Command::RemovePool { .. }
    )
}
