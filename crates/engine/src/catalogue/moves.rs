//! JOB-9: a job goes from one group to another, and keeps its id, its run numbers and the fire that is to come.
//!
//! What became of a job's logical times only the shard of its group knows, so a move asks that shard first.
//!
//! ```text
//!  catalogue   JobMoveRequested ───────────────────────► JobMoved ───────┐
//!                  └─ DetachJob ─┐  ┌─ ReportJobDetached ─┘           └─ AttachJob ─┐
//!  old shard                      ▼  │                                           │
//!                             JobDetached                                        │
//!  new shard                                                                     └► JobAttached
//! ```
//!
//! *Invariant:* a job is run by at most one shard. The old one forgets it with the record that says what it knew, and
//! from there on that record's message, the catalogue's record and its message carry it, each in a numbered outbox,
//! until the new shard has it. A shard that cannot let it go says why (`JobDetachRejected`, `JobMoveRejected`), and it is as it was.
//!
//! *Invariant:* from `JobMoveRequested` to the end nothing else changes the job, nobody becomes its child, no plan lists it,
//! and its name is taken in both groups. So what was found good when the move was asked still is when it is done.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Answer, Event, GroupName, InstanceId, JobDefinition, JobEvent, JobId, JobSpec, Mapping, MovedJob,
    Parent, Rejection, RequestId, ShardId, ShardMessage, Timestamp,
};

use super::accept::value_read;
use super::apply_jobs::{Checked, MAX_LISTED_PARENTS};
use super::graph::Overlay;
use super::{Catalogue, Job, Requester, check_limit};
use crate::decision::{Decision, Ruled};

/// Jobs that are on their way at once.
const MAX_MOVING: usize = 64;
/// After this nobody waits for the outcome any more, and a job is not let go.
const MAX_WAIT: SignedDuration = SignedDuration::from_secs(60);

/// Jobs on their way from one group to another.
pub(crate) type Moves = BTreeMap<JobId, Move>;

/// A request that waits for the answer of the shard of the job's group.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Move {
    to: GroupName,
    request: Option<RequestId>,
    reply_to: Option<InstanceId>,
    by: Option<Actor>,
}

impl Move {
    pub(super) fn goes_to(&self, group: &GroupName) -> bool {
        self.to == *group
    }
}

impl Catalogue {
    pub(super) fn move_job(
        &self,
        id: JobId,
        to: &GroupName,
        now: Timestamp,
        requester: Requester<'_>,
    ) -> Ruled {
        let job = self.known_job(id)?;
        self.check_stays(id)?;
        let unknown = || Rejection::field("group", to, "there is no such group");
        let group = self.groups.get(to).ok_or_else(unknown)?;
        if job.definition.spec.group == *to {
            return Ok(Decision::unchanged(Answer::Done));
        }
        self.check_account(&job.definition, requester.actor)?;
        // What is granted on a job or a group ends where it goes.
        let mut there = (*job.definition).clone();
        there.spec.group = to.clone();
        self.check_editable(
            (&[Arc::new(there)], !job.unnamed),
            self.reach_of(Some(requester.actor)),
            |_| String::new(),
        )?;
        self.check_move(id, job, to, requester.actor)?;
        check_limit("the number of jobs that are being moved", self.moves.len() + 1, MAX_MOVING)?;
        let coming = self.moves.values().filter(|of| of.to == *to).count();
        self.check_mailbox(to, group.shard, coming)?;
        let from = self.known_group(&job.definition.spec.group)?.shard;
        Ok(Decision::of(JobEvent::MoveRequested {
            job: id,
            from,
            to: to.clone(),
            until: now.saturating_add(MAX_WAIT).unwrap_or(Timestamp::MAX),
            request: requester.request.cloned(),
            reply_to: requester.reply_to.cloned(),
            by: Some(requester.actor.clone()),
        }))
    }

    /// Whether the definition can be one of the other group, and nothing of the catalogue needs the job where it is.
    fn check_move(&self, id: JobId, job: &Job, to: &GroupName, by: &Actor) -> Result<(), Rejection> {
        let definition = &job.definition;
        let refused = |rule: String| Err(Rejection::field("group", to, rule));
        if !job.unnamed && self.names.contains_key(&(to.clone(), definition.spec.name.clone())) {
            let name = &definition.spec.name;
            return refused(format!("group {to} has a job {name} already; rename one of them first"));
        }
        let pools = definition.spec.pools.iter().filter_map(|used| self.pool_spec(&used.name));
        if let Some((pool, of)) =
            pools.filter_map(|pool| Some((&pool.name, pool.group.as_ref()?))).find(|(_, of)| *of != to)
        {
            return refused(format!(
                "the job uses pool {pool}, which is for jobs of group {of} only; take it out first"
            ));
        }
        if let Some((field, value)) = value_read(definition, |name| !name.contains('/')) {
            return refused(format!(
                "field {field} of the job reads ${{{value}}}, which names a job of its group; write group/name there \
                 first"
            ));
        }
        let is_listed = |parent: &&Parent| {
            let of_group = |known: &Job| known.definition.spec.group == *to;
            parent.mapping != Mapping::Same || !self.jobs.get(&parent.job).is_some_and(of_group)
        };
        if definition.parents.iter().filter(is_listed).count() > MAX_LISTED_PARENTS {
            return refused(format!(
                "more than {MAX_LISTED_PARENTS} parents of the job would be in other groups, each of which every batch \
                 lists; put jobs between them first"
            ));
        }
        self.check_limits_move(&definition.spec, to)?;
        self.check_not_needed_here(id, job, by)
    }

    fn check_not_needed_here(&self, id: JobId, job: &Job, by: &Actor) -> Result<(), Rejection> {
        let stays = |reason: String| Err(Rejection::JobNotMoved { job: job.definition.full_name(), reason });
        let children = self.children.get(&id).into_iter().flatten();
        let children: Vec<JobId> = children.copied().filter(|child| self.jobs.contains_key(child)).collect();
        if !children.is_empty() {
            let named = self.named_for(&children, self.reach_of(Some(by)));
            let reason =
                format!("it is a parent of {named}; point them elsewhere first, and back when it has moved");
            return stays(reason);
        }
        if let Some(rerun) = self.rerun_of(id) {
            return stays(format!("rerun {rerun} lists it and has not ended; wait for that, or cancel it"));
        }
        if job.enabled && self.depends_on_generations(&job.definition) {
            let reason = "which batches it gets, or waits for, follows from what its parents generate, and of that \
                          something could be lost on the way; disable it first, and enable it when it has moved";
            return stays(reason.to_owned());
        }
        Ok(())
    }

    /// Whether batches of the job come with those of its parents, or wait for the newest that a parent without any
    /// grid has: both go by what its shard was told of generations.
    fn depends_on_generations(&self, definition: &JobDefinition) -> bool {
        let mut parents = definition.parents.iter().filter(|parent| parent.job != definition.id);
        let today = Overlay::new(self, &[]);
        parents.any(|parent| {
            definition.spec.schedule.is_none()
                || parent.mapping == Mapping::Latest && today.grid(parent.job).is_none()
        })
    }

    /// Refuses what would change a job that is on its way, or count on where it is.
    pub(super) fn check_stays(&self, id: JobId) -> Result<(), Rejection> {
        let Some((of, job)) = self.moves.get(&id).zip(self.jobs.get(&id)) else { return Ok(()) };
        Err(Rejection::JobMoving { job: job.definition.full_name(), group: of.to.to_string() })
    }

    /// The same of these jobs, and of those that the definitions name as parents.
    pub(super) fn check_all_stay(&self, definitions: &[Arc<JobDefinition>]) -> Result<(), Rejection> {
        if self.moves.is_empty() {
            return Ok(());
        }
        let mut concerned = definitions
            .iter()
            .flat_map(|definition| iter::once(definition.id).chain(definition.other_parents()));
        concerned.try_for_each(|id| self.check_stays(id))
    }

    /// The job has left its old group: this record says where it is now.
    pub(super) fn job_let_go(&self, from: ShardId, id: JobId, moved: &Arc<MovedJob>) -> Option<Event> {
        let (request, job) = self.moves.get(&id).zip(self.jobs.get(&id))?;
        let group = self.groups.get(&request.to)?;
        let old = job.definition.as_ref();
        let spec = JobSpec { group: request.to.clone(), ..old.spec.clone() };
        let definition = JobDefinition { group_id: group.id, version: old.version + 1, spec, ..old.clone() };
        Some(Event::Job(JobEvent::Moved {
            definition: Arc::new(definition),
            enabled: job.enabled,
            unnamed: job.unnamed,
            previous_group: old.spec.group.clone(),
            from,
            moved: Arc::clone(moved),
            request: request.request.clone(),
            reply_to: request.reply_to.clone(),
            by: request.by.clone(),
        }))
    }

    pub(super) fn job_not_let_go(&self, id: JobId, reason: &Rejection) -> Event {
        let of = self.moves.get(&id).cloned();
        let (request, reply_to) = of.map_or((None, None), |of| (of.request, of.reply_to));
        JobEvent::MoveRejected { job: id, reason: reason.clone(), request, reply_to }.into()
    }

    pub(super) fn job_move_requested(&mut self, event: &JobEvent) {
        let JobEvent::MoveRequested { job, from, to, until, request, reply_to, by } = event else { return };
        if let Some(known) = self.jobs.get(job).filter(|known| !known.unnamed) {
            self.names.insert((to.clone(), known.definition.spec.name.clone()), *job);
        }
        let (request, reply_to, by) = (request.clone(), reply_to.clone(), by.clone());
        self.moves.insert(*job, Move { to: to.clone(), request, reply_to, by });
        self.mailbox.send(*from, ShardMessage::DetachJob { job: *job, until: *until });
    }

    pub(super) fn job_moved(&mut self, event: &JobEvent) {
        let JobEvent::Moved { definition, enabled, unnamed, previous_group, moved, .. } = event else {
            return;
        };
        self.moves.remove(&definition.id);
        if !unnamed {
            self.names.remove(&(previous_group.clone(), definition.spec.name.clone()));
        }
        let (id, enabled, unnamed) = (definition.id, *enabled, *unnamed);
        let (definition, moved) = (Arc::clone(definition), Arc::clone(moved));
        let message = ShardMessage::AttachJob { definition: Arc::clone(&definition), enabled, moved };
        self.tell_deleted_parents(&definition);
        self.job_defined(Job { definition, enabled, unnamed }, message);
        self.tell_everybody_where(id);
    }

    pub(super) fn job_move_rejected(&mut self, id: JobId) {
        let Some(of) = self.moves.remove(&id) else { return };
        if let Some(known) = self.jobs.get(&id).filter(|known| !known.unnamed) {
            self.names.remove(&(of.to, known.definition.spec.name.clone()));
        }
    }
}

impl Checked<'_> {
    /// Who deletes a job in one group and defines one of its name in another has mostly meant to move it.
    pub(super) fn move_warnings(&self) -> impl Iterator<Item = String> + '_ {
        let defined = self
            .accepted
            .iter()
            .map(|(definition, _)| definition)
            .filter(|definition| definition.version == 1);
        defined.filter_map(|new| {
            let is_it = |old: &&JobDefinition| old.spec.name == new.spec.name && old.spec.group != new.spec.group;
            let old = self.pruned.iter().map(|(_, job)| job.definition.as_ref()).find(is_it)?.full_name();
            let (name, group) = (new.full_name(), &new.spec.group);
            Some(format!(
                "job {old} is deleted, and job {name} is another one: with `tidemill job move {old} {group}` before this \
                 apply it is the same job, with its id and its run numbers"
            ))
        })
    }
}
