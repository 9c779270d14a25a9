//! JOB-9: a job that has unfinished batches is not deleted, unless they are to be cancelled.
//!
//! Only the shard that runs a job knows its batches, so the request is put off while the shards are asked.
//!
//! ```text
//!  catalogue   UnfinishedQueried(7) ─────────────────► UnfinishedReceived(7) ─► JobDeleted …, DeletionDecided(7)
//!                        └─ QueryUnfinished ─┐     ┌─ ReportUnfinished ─┘
//!  shard                                   ▼     │
//!                                     UnfinishedReported(7)
//! ```
//!
//! The shard's record is the moment at which nothing is unfinished. What it generates between that and the
//! deletion's arrival is seen through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Answer, ApplyEvent, Deletion, DeletionEvent, Event, InstanceId, JobEvent, JobId, Outcome,
    Rejection, RequestId, ShardId, ShardMessage, Timestamp, UnfinishedJob,
};

use super::staging::Commit;
use super::{Catalogue, NAMED_JOBS, check_limit};
use crate::decision::{Decision, Ruled, Ruling};
use crate::draft::MAX_DECISION_BYTES;
use crate::weight::of_events;

const MAX_PENDING: usize = 64;
/// After this nobody waits for the outcome any more, other requests may have followed, and answers are old.
const MAX_WAIT: SignedDuration = SignedDuration::from_secs(60);
/// What the last answer and all that follows from it may take: one decision, without its cause.
const MAX_SETTLED_WEIGHT: usize = MAX_DECISION_BYTES - 8 * 1024;

/// Who requests something, and where the outcome goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requester<'a> {
    pub(crate) request: Option<&'a RequestId>,
    pub(crate) reply_to: Option<&'a InstanceId>,
    pub(crate) actor: &'a Actor,
}

/// A request that waits for answers.
#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Pending {
    deletion: Arc<Deletion>,
    request: Option<RequestId>,
    reply_to: Option<InstanceId>,
    by: Option<Actor>,
    orphan_children: bool,
    /// When it was first asked, and the definitions' revision then.
    asked: (Timestamp, u64),
    /// Who has not answered yet, about which jobs.
    open: BTreeMap<ShardId, Vec<JobId>>,
    /// What was answered; `None`: it had nothing unfinished.
    told: BTreeMap<JobId, Option<UnfinishedJob>>,
}

impl Pending {
    fn hear(&mut self, from: ShardId, unfinished: &[UnfinishedJob]) {
        let asked = self.open.remove(&from).unwrap_or_default();
        self.told.extend(asked.into_iter().map(|job| (job, None)));
        self.told.extend(unfinished.iter().map(|job| (job.job, Some(job.clone()))));
    }
}

/// On what terms jobs may be deleted.
pub(super) struct Terms<'a> {
    unfinished: Unfinished<'a>,
    /// Though others name them as parent.
    pub(super) orphan_children: bool,
    pub(super) request: Option<&'a RequestId>,
    pub(super) reply_to: Option<&'a InstanceId>,
    /// Who asked for the deletion.
    pub(super) by: Option<&'a Actor>,
}

/// What becomes of unfinished batches.
enum Unfinished<'a> {
    /// The shards are to be asked first.
    Ask,
    /// They have answered, to the question of this number.
    Told(u64, &'a Pending),
    /// What is unfinished is to be ended.
    Cancel,
    /// Nothing is decided: somebody looks what would be.
    Planned,
}

impl<'a> Terms<'a> {
    pub(super) fn new(cancel: bool, orphan_children: bool, requester: Requester<'a>) -> Self {
        let Requester { request, reply_to, actor } = requester;
        let unfinished = if cancel { Unfinished::Cancel } else { Unfinished::Ask };
        Self { unfinished, orphan_children, request, reply_to, by: Some(actor) }
    }

    /// Of a look at what would be decided.
    pub(super) fn planned(by: Option<&'a Actor>, orphan_children: bool) -> Self {
        Self { unfinished: Unfinished::Planned, orphan_children, request: None, reply_to: None, by }
    }

    /// Of what was decided before; `by`: who wants what is unfinished ended.
    pub(super) fn decided(by: Option<&'a Actor>, orphan_children: bool) -> Self {
        Self { unfinished: Unfinished::Cancel, ..Self::planned(by, orphan_children) }
    }

    /// Who wants what is unfinished ended.
    pub(super) fn canceller(&self) -> Option<&'a Actor> {
        self.by.filter(|_| matches!(self.unfinished, Unfinished::Cancel))
    }
}

impl Catalogue {
    pub(super) fn apply_deletion(&mut self, now: Timestamp, event: &DeletionEvent) {
        match event {
            DeletionEvent::UnfinishedQueried {
                question,
                deletion,
                jobs,
                request,
                reply_to,
                by,
                orphan_children,
            } => {
                let asked = self.pending.get(question).map_or((now, self.revision), |before| before.asked);
                let pending = Pending {
                    deletion: Arc::clone(deletion),
                    request: request.clone(),
                    reply_to: reply_to.clone(),
                    by: by.clone(),
                    orphan_children: *orphan_children,
                    asked,
                    open: BTreeMap::new(),
                    told: BTreeMap::new(),
                };
                self.unfinished_queried(*question, jobs, pending);
            }
            DeletionEvent::UnfinishedReceived { question, from, jobs } => {
                if let Some(pending) = self.pending.get_mut(question) {
                    pending.hear(*from, jobs);
                }
            }
            DeletionEvent::Decided { question, .. } => {
                self.pending.remove(question);
            }
            // Facts of group shards.
            DeletionEvent::UnfinishedReported { .. } => {}
        }
    }

    /// Whether these jobs may be deleted now. If shards have to be asked before, the event that does.
    pub(super) fn may_remove(
        &self,
        jobs: &[JobId],
        terms: &Terms<'_>,
        deletion: impl FnOnce() -> Deletion,
    ) -> Result<Option<Event>, Rejection> {
        let question = match terms.unfinished {
            _ if jobs.is_empty() => return Ok(None),
            Unfinished::Cancel | Unfinished::Planned => return Ok(None),
            Unfinished::Told(_, pending) if jobs.iter().all(|job| pending.told.contains_key(job)) => {
                return self.check_finished(jobs, pending).map(|()| None);
            }
            // Others than those asked about would go by now.
            Unfinished::Told(question, _) => question,
            Unfinished::Ask => {
                let what = "the number of deletions that wait for an answer of a group's shard";
                check_limit(what, self.pending.len() + 1, MAX_PENDING)?;
                self.questions + 1
            }
        };
        Ok(Some(Event::Deletion(DeletionEvent::UnfinishedQueried {
            question,
            deletion: Arc::new(deletion()),
            jobs: jobs.to_vec(),
            request: terms.request.cloned(),
            reply_to: terms.reply_to.cloned(),
            by: terms.by.cloned(),
            orphan_children: terms.orphan_children,
        })))
    }

    fn check_finished(&self, jobs: &[JobId], pending: &Pending) -> Result<(), Rejection> {
        let busy: Vec<(String, &UnfinishedJob)> = jobs
            .iter()
            .filter_map(|job| pending.told.get(job)?.as_ref())
            .filter_map(|busy| Some((self.jobs.get(&busy.job)?.definition.full_name(), busy)))
            .take(NAMED_JOBS)
            .collect();
        let Some((job, first)) = busy.first() else { return Ok(()) };
        let others: Vec<&str> = busy[1..].iter().map(|(name, _)| name.as_str()).collect();
        let others =
            if others.is_empty() { String::new() } else { format!(", and so have {}", others.join(", ")) };
        let reason = format!(
            "it has unfinished batches ({}, the newest is {}){others}; wait for them, or cancel them with the \
             deletion",
            first.batches, first.newest
        );
        Err(Rejection::JobInUse { job: job.clone(), reason })
    }

    /// The events that delete a job, and end what is unfinished of it if somebody wants that. `goes_too`: children that
    /// are deleted or defined anew with it.
    pub(super) fn removed(
        &self,
        job: JobId,
        terms: &Terms<'_>,
        goes_too: &dyn Fn(JobId) -> bool,
    ) -> Vec<Event> {
        let orphans = terms.orphan_children.then(|| self.orphaned_by(job, goes_too)).flatten();
        let cancelled = terms.canceller().zip(self.shard_of(job));
        let cancelled = cancelled.map(|(by, shard)| JobEvent::Cancelled { job, shard, by: by.clone() });
        let deleted = Event::Job(JobEvent::Deleted { job });
        orphans.into_iter().chain([deleted]).chain(cancelled.map(Event::Job)).collect()
    }

    /// What a shard says of the jobs' batches; once all have said it, the deletion is decided.
    pub(super) fn report_unfinished(
        &self,
        events: &mut Vec<Event>,
        (from, question): (ShardId, u64),
        jobs: &[UnfinishedJob],
        now: Timestamp,
    ) {
        let received = DeletionEvent::UnfinishedReceived { question, from, jobs: jobs.to_vec() };
        events.push(received.into());
        let Some(mut pending) = self.pending.get(&question).cloned() else { return };
        pending.hear(from, jobs);
        if pending.open.is_empty() {
            let room = MAX_SETTLED_WEIGHT.saturating_sub(of_events(events));
            events.extend(self.settle(question, &pending, now, room));
        }
    }

    /// All have answered: what was put off is decided, as if it were requested now. What would not fit beside the
    /// answer in one record is refused: the answer must be taken in, or it comes again for ever.
    fn settle(&self, question: u64, pending: &Pending, now: Timestamp, room: usize) -> Vec<Event> {
        let terms = Terms {
            unfinished: Unfinished::Told(question, pending),
            orphan_children: pending.orphan_children,
            request: pending.request.as_ref(),
            reply_to: pending.reply_to.as_ref(),
            by: pending.by.as_ref(),
        };
        let decided = Decision::from(self.decide_deletion(pending, &terms, now));
        let (mut events, outcome) = match decided.ruling {
            Ruling::Refused(rejection) => (Vec::new(), Outcome::Refused(rejection)),
            Ruling::Accepted { events, answer } => {
                (events, Outcome::Answered(answer.unwrap_or(Answer::Done)))
            }
        };
        let is_asked_again = events
            .iter()
            .any(|event| matches!(event, Event::Deletion(DeletionEvent::UnfinishedQueried { .. })));
        // Who commits a large request hears when it is carried out.
        let is_committed =
            events.iter().any(|event| matches!(event, Event::Apply(ApplyEvent::Committed { .. })));
        let decided = |outcome, hears: bool| {
            let (request, reply_to) = (pending.request.clone(), pending.reply_to.clone());
            let (request, reply_to) = (request.filter(|_| hears), reply_to.filter(|_| hears));
            let by = pending.by.clone();
            Event::Deletion(DeletionEvent::Decided { question, request, reply_to, outcome, by })
        };
        if is_committed || !is_asked_again {
            events.push(decided(outcome, !is_committed));
        }
        let weight = of_events(&events);
        if weight > room {
            let reason = format!("its outcome would take {weight} bytes, and {room} are left");
            return vec![decided(Outcome::Refused(Rejection::DeadLettered { reason }), true)];
        }
        events
    }

    fn decide_deletion(&self, pending: &Pending, terms: &Terms<'_>, now: Timestamp) -> Ruled {
        let (asked, expected) = pending.asked;
        if now.duration_since(asked) > MAX_WAIT {
            let what = "the time in seconds for which a deletion waits for the shards' answers";
            return Err(Rejection::limit(what, MAX_WAIT.as_secs().unsigned_abs()));
        }
        if let Some(committed) = &self.committed {
            return Err(committed.rejection());
        }
        match pending.deletion.as_ref() {
            Deletion::Apply { jobs, prune } => self.apply_jobs(jobs, prune, now, terms),
            Deletion::Delete { job } => self.delete_job(*job, terms),
            Deletion::Staged { .. } if expected != self.revision => {
                Err(Rejection::RevisionChanged { expected, revision: self.revision })
            }
            Deletion::Staged { apply, parts, prune } => {
                self.commit_apply(&Commit { apply, parts: *parts, prune, if_revision: None }, terms)
            }
        }
    }

    fn unfinished_queried(&mut self, question: u64, jobs: &[JobId], mut pending: Pending) {
        for job in jobs.iter().copied().collect::<BTreeSet<JobId>>() {
            if let Some(shard) = self.shard_of(job) {
                pending.open.entry(shard).or_default().push(job);
            }
        }
        for (shard, jobs) in &pending.open {
            self.mailbox.send(*shard, ShardMessage::QueryUnfinished { question, jobs: jobs.clone() });
        }
        self.questions = self.questions.max(question);
        self.pending.insert(question, pending);
    }
}
