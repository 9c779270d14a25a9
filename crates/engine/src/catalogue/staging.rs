//! Requests too large for one decision (JOB-5): staged in parts, committed in one event, carried out in chunks.
//!
//! ```text
//!  JobsStaged …  ─► ApplyCommitted ─► [JobDefined … ApplyAdvanced] … ─► [… ApplyFinished]
//!  no effect        point of no return     by itself, chunk after chunk
//! ```
//!
//! *Invariant:* between the commit and its end no other change of definitions is accepted, so that what the
//! commit found good stays good, and every chunk can be made.
//!
//! Jobs are defined ancestors first, whatever order they were staged in.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Answer, ApplyEvent, Deletion, Event, GroupName, InstanceId, JobId, JobSpec, Level, PermitEvent,
    PoolName, Rejection, RequestId, RerunId, Timestamp,
};

use super::apply_jobs::{MAX_BYTES, MAX_JOBS};
use super::keys::Vouch;
use super::names::Names;
use super::remove::Terms;
use super::{Catalogue, check_limit};
use crate::decision::{Decision, Ruled};
use crate::weight::{of_event, of_events};

/// Stagings at once; another one makes the oldest go.
const MAX_STAGINGS: usize = 4;
const MAX_PARTS: u32 = 4_096;
/// Bytes of a part that is one job.
const MAX_JOB_BYTES: usize = 272 * 1024;
const MAX_STAGED_JOBS: usize = 40_000;
/// Bytes of one staging, as JSON.
const MAX_STAGED_BYTES: usize = 16 << 20;
/// Jobs that one staged `apply` may delete: the shards that run them are asked in one message.
const MAX_DELETED: usize = 2_000;
/// A staging that is not committed is gone after this.
const KEPT: SignedDuration = SignedDuration::from_mins(10);
const MAX_ID_BYTES: usize = 255;
/// Jobs of one chunk; a deleted one makes up to two events.
const CHUNK_JOBS: usize = 200;
const CHUNK_BYTES: usize = 96 * 1024;

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Staging {
    parts: BTreeMap<u32, Arc<Vec<JobSpec>>>,
    jobs: usize,
    bytes: usize,
    begun: Timestamp,
}

impl Staging {
    fn begun(at: Timestamp) -> Self {
        Self { parts: BTreeMap::new(), jobs: 0, bytes: 0, begun: at }
    }

    fn expires(&self) -> Timestamp {
        self.begun.checked_add(KEPT).unwrap_or(Timestamp::MAX)
    }
}

/// A request that was committed, and how far it is carried out.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Committed {
    apply: RequestId,
    jobs: Vec<JobSpec>,
    names: Names,
    delete: Vec<JobId>,
    cancel: Option<Actor>,
    orphan_children: bool,
    request: Option<RequestId>,
    reply_to: Option<InstanceId>,
    by: Option<Actor>,
    /// DSP-2: its key had the accounts then.
    accounts_found: bool,
    /// Of the jobs and then the deletions, those that are done.
    done: usize,
}

impl Committed {
    /// The jobs that it names, carried out or not.
    pub(super) fn specs(&self) -> &[JobSpec] {
        &self.jobs
    }

    /// What it is called where something else has to wait for it.
    pub(super) fn rejection(&self) -> Rejection {
        Rejection::ApplyRunning { apply: self.apply.as_str().to_owned() }
    }
}

/// What the catalogue asks for by itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Chore {
    /// The next chunk of what was committed.
    Advance,
    /// A staging that nobody committed.
    Drop(RequestId),
    /// The next step of a rerun.
    Rerun(RerunId),
    /// More batches of a shared pool may start again.
    Open(PoolName),
    /// Permits of shared pools are to be given.
    Grant(Box<Event>),
    /// Every process reads a higher level than the one that stands.
    Raise(Level),
}

pub(super) struct Commit<'a> {
    pub(super) apply: &'a RequestId,
    pub(super) parts: u32,
    pub(super) prune: &'a [GroupName],
    pub(super) if_revision: Option<u64>,
}

impl Catalogue {
    pub(super) fn stage_jobs(&self, apply: &RequestId, part: u32, jobs: &[JobSpec], now: Timestamp) -> Ruled {
        if apply.as_str().is_empty() || apply.as_str().len() > MAX_ID_BYTES {
            let rule = format!("must be 1 to {MAX_ID_BYTES} bytes");
            return Err(Rejection::field("apply", apply.as_str(), rule));
        }
        if part >= MAX_PARTS {
            return Err(Rejection::field("part", part, format!("must be below {MAX_PARTS}")));
        }
        self.check_limits_known(jobs)?;
        let fresh = Staging::begun(now);
        let known = self.stagings.get(apply);
        let staging = known.unwrap_or(&fresh);
        match staging.parts.get(&part) {
            Some(there) if there[..] == *jobs => return Ok(Decision::unchanged(Answer::Done)),
            Some(_) => return Err(Rejection::AlreadyThere { what: format!("part {part} of {apply}") }),
            None => {}
        }
        let event =
            Event::Apply(ApplyEvent::Staged { apply: apply.clone(), part, jobs: Arc::new(jobs.to_vec()) });
        let bytes = of_event(&event);
        let most = if jobs.len() == 1 { MAX_JOB_BYTES } else { MAX_BYTES };
        if jobs.is_empty() || jobs.len() > MAX_JOBS || bytes > most {
            let rule = format!("one part has 1 to {MAX_JOBS} jobs and at most {most} bytes");
            return Err(Rejection::field("jobs", format!("{} jobs, {bytes} bytes", jobs.len()), rule));
        }
        check_limit("the number of jobs of one apply", staging.jobs + jobs.len(), MAX_STAGED_JOBS)?;
        check_limit("the size in bytes of one apply", staging.bytes + bytes, MAX_STAGED_BYTES)?;
        let mut events = Vec::new();
        if known.is_none() && self.stagings.len() >= MAX_STAGINGS {
            let oldest = self.stagings.iter().min_by_key(|(_, staging)| staging.begun);
            events.extend(
                oldest.map(|(apply, _)| Event::Apply(ApplyEvent::StagingDiscarded { apply: apply.clone() })),
            );
        }
        events.push(event);
        Ok(Decision::answered(events, Answer::Done))
    }

    pub(super) fn commit_apply(&self, commit: &Commit<'_>, terms: &Terms<'_>) -> Ruled {
        let staging =
            self.stagings.get(commit.apply).ok_or_else(|| Rejection::unknown("staging", commit.apply))?;
        if !staging.parts.keys().copied().eq(0..commit.parts) {
            let rule = format!("must be what was staged, {} parts numbered from 0", staging.parts.len());
            return Err(Rejection::field("parts", commit.parts, rule));
        }
        if let Some(expected) = commit.if_revision.filter(|expected| *expected != self.revision) {
            return Err(Rejection::RevisionChanged { expected, revision: self.revision });
        }
        // What is carried out in many steps does not begin while a job is on its way.
        self.moves.keys().try_for_each(|id| self.check_stays(*id))?;
        let jobs: Vec<&JobSpec> = staging.parts.values().flat_map(|part| part.iter()).collect();
        let checked = self.check(&jobs, commit.prune, terms)?;
        let delete = checked.gone();
        check_limit("the number of jobs that one apply deletes", delete.len(), MAX_DELETED)?;
        let (apply, parts, prune) = (commit.apply.clone(), commit.parts, commit.prune.to_vec());
        let deletion = || Deletion::Staged { apply, parts, prune };
        if let Some(asked) = self.may_remove(&delete, terms, deletion)? {
            return Ok(Decision::of(asked));
        }
        Ok(Decision::of(ApplyEvent::Committed {
            apply: commit.apply.clone(),
            delete,
            ancestors_first: true,
            cancel: terms.canceller().cloned(),
            orphan_children: terms.orphan_children,
            request: terms.request.cloned(),
            reply_to: terms.reply_to.cloned(),
            by: terms.by.cloned(),
            accounts_found: true,
        }))
    }

    pub(crate) fn next_chore(&self, horizon: Timestamp) -> Option<Chore> {
        if self.committed.is_some() {
            return Some(Chore::Advance);
        }
        let over = self.stagings.iter().find(|(_, staging)| staging.expires() <= horizon);
        let drop = over.map(|(apply, _)| Chore::Drop(apply.clone()));
        let open =
            || self.pools.next_opening().filter(|(at, _)| *at <= horizon).map(|(_, name)| Chore::Open(name));
        let grant = || self.pools.next_grant(&self.mailbox).map(|grant| Chore::Grant(Box::new(grant)));
        let raise = || self.levels.next_raise().map(Chore::Raise);
        drop.or_else(|| self.next_rerun().map(Chore::Rerun)).or_else(open).or_else(grant).or_else(raise)
    }

    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        let opening = self.pools.next_opening().map(|(at, _)| at);
        self.stagings.values().map(Staging::expires).chain(opening).min()
    }

    pub(crate) fn decide_chore(&self, chore: &Chore) -> Vec<Event> {
        match chore {
            Chore::Advance => self.committed.as_ref().map(|plan| self.advance(plan)).unwrap_or_default(),
            Chore::Drop(apply) => vec![Event::Apply(ApplyEvent::StagingDiscarded { apply: apply.clone() })],
            Chore::Rerun(rerun) => self.carry_on(*rerun),
            Chore::Open(name) => vec![Event::Permit(PermitEvent::RateLimitReset { name: name.clone() })],
            Chore::Grant(grant) => vec![Event::clone(grant)],
            Chore::Raise(level) => self.raised(*level),
        }
    }

    fn advance(&self, plan: &Committed) -> Vec<Event> {
        let mut events = Vec::new();
        let (mut weight, mut done) = (0, plan.done);
        let end = plan.jobs.len() + plan.delete.len();
        while done < end && done < plan.done + CHUNK_JOBS && weight < CHUNK_BYTES {
            let made = self.carry_out(plan, done);
            weight += of_events(&made);
            events.extend(made);
            done += 1;
        }
        let (apply, by) = (plan.apply.clone(), plan.by.clone());
        events.push(if done < end {
            Event::Apply(ApplyEvent::Advanced { apply, done: u32::try_from(done).unwrap_or(u32::MAX), by })
        } else {
            let (request, reply_to) = (plan.request.clone(), plan.reply_to.clone());
            Event::Apply(ApplyEvent::Finished { apply, request, reply_to, by })
        });
        events
    }

    /// The facts of one job of the plan.
    fn carry_out(&self, plan: &Committed, index: usize) -> Vec<Event> {
        let Some(spec) = plan.jobs.get(index) else {
            let job = plan.delete[index - plan.jobs.len()];
            let goes_too = |child| plan.delete.contains(&child) || plan.names.ids().any(|id| id == child);
            let terms = Terms::decided(plan.cancel.as_ref(), plan.orphan_children);
            return self.removed(job, &terms, &goes_too);
        };
        let vouch = plan.by.as_ref().filter(|_| plan.accounts_found).map_or(Vouch::Nobody, Vouch::Found);
        let (definition, enabled) = self
            .definition(spec, plan.names.id_of(spec), &plan.names, vouch)
            .expect("the commit accepted it, and nothing else changes definitions until the plan is done");
        self.change(Arc::new(definition), enabled).0.into_iter().collect()
    }

    pub(super) fn apply_apply(&mut self, now: Timestamp, event: &ApplyEvent) {
        match event {
            ApplyEvent::Staged { apply, part, jobs } => {
                let staging = self.stagings.entry(apply.clone()).or_insert_with(|| Staging::begun(now));
                staging.parts.insert(*part, Arc::clone(jobs));
                staging.jobs += jobs.len();
                staging.bytes += of_event(&event.clone().into());
            }
            ApplyEvent::StagingDiscarded { apply } => {
                self.stagings.remove(apply);
            }
            ApplyEvent::Committed {
                apply,
                delete,
                ancestors_first,
                cancel,
                orphan_children,
                request,
                reply_to,
                by,
                accounts_found,
            } => {
                let parts = self.stagings.remove(apply).map(|staging| staging.parts).unwrap_or_default();
                let jobs: Vec<JobSpec> = parts.into_values().flat_map(Arc::unwrap_or_clone).collect();
                let names = self.names_of(jobs.iter());
                self.committed = Some(Committed {
                    apply: apply.clone(),
                    jobs: if *ancestors_first { self.in_order(jobs, &names) } else { jobs },
                    names,
                    delete: delete.clone(),
                    cancel: cancel.clone(),
                    orphan_children: *orphan_children,
                    request: request.clone(),
                    reply_to: reply_to.clone(),
                    by: by.clone(),
                    accounts_found: *accounts_found,
                    done: 0,
                });
            }
            ApplyEvent::Advanced { done, .. } => {
                if let Some(plan) = &mut self.committed {
                    plan.done = *done as usize;
                }
            }
            ApplyEvent::Finished { .. } => self.committed = None,
        }
    }
}
