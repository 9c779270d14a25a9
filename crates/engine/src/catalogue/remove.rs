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
use tidemill_model::{
    Actor, Answer, ApplyEvent, Deletion, DeletionEvent, Event, InstanceId, JobEvent, JobId, Outcome,
    Rejection, RequestId, ShardId, ShardMessage, Timestamp, UnfinishedJob,
};

use super::Catalogue;
use super::staging::Commit;
use crate::decision::{Decision, Ruling};
use crate::draft::MAX_DECISION_WEIGHT;
use crate::weight::of_event;

/// Requests that wait for answers of shards.
const MAX_PENDING: usize = 64;
/// After this nobody waits for the outcome any more, other requests may have followed, and answers are old.
const MAX_WAIT: SignedDuration = SignedDuration::from_secs(60);
/// Jobs with unfinished batches that a refusal names.
const NAMED_JOBS: usize = 10;
/// What the last answer and all that follows from it may take: one decision, without its cause.
const MAX_SETTLED_WEIGHT: usize = MAX_DECISION_WEIGHT - 8 * 1024;

/// Who requests something, and where the outcome goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requester<'a> {
    pub(crate) request: Option<&'a RequestId>,
    pub(crate) reply_to: Option<&'a InstanceId>,
    pub(crate) actor: &'a Actor,
}

/// A request that waits for answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending {
    deletion: Arc<Deletion>,
    request: Option<RequestId>,
    reply_to: Option<InstanceId>,
    /// Who asked for it.
    by: Option<Actor>,
    /// Jobs that others name as parent are deleted, too.
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
}

/// What becomes of unfinished batches.
enum Unfinished<'a> {
    /// The shards are to be asked first.
    Ask(Requester<'a>),
    /// They have answered, to the question of this number.
    Told(u64, &'a Pending),
    /// What is unfinished is to be ended.
    Cancel(&'a Actor),
    /// Nothing is decided: somebody looks what would be.
    Planned(Option<&'a Actor>),
}

impl<'a> Terms<'a> {
    pub(super) fn new(cancel: bool, orphan_children: bool, requester: Requester<'a>) -> Self {
        let unfinished =
            if cancel { Unfinished::Cancel(requester.actor) } else { Unfinished::Ask(requester) };
        Self { unfinished, orphan_children }
    }

    /// Of a look at what would be decided.
    pub(super) fn planned(by: Option<&'a Actor>, orphan_children: bool) -> Self {
        Self { unfinished: Unfinished::Planned(by), orphan_children }
    }

    /// Who wants what is unfinished ended.
    pub(super) fn canceller(&self) -> Option<&'a Actor> {
        match self.unfinished {
            Unfinished::Cancel(by) => Some(by),
            Unfinished::Ask(_) | Unfinished::Told(..) | Unfinished::Planned(_) => None,
        }
    }

    /// Who asked for the deletion.
    pub(super) fn requester(&self) -> Option<&'a Actor> {
        match self.unfinished {
            Unfinished::Ask(requester) => Some(requester.actor),
            Unfinished::Told(_, pending) => pending.by.as_ref(),
            Unfinished::Cancel(by) => Some(by),
            Unfinished::Planned(by) => by,
        }
    }
}

impl Catalogue {
    pub(super) fn apply_deletion(&mut self, now: Timestamp, event: &DeletionEvent) {
        match event {
            DeletionEvent::UnfinishedQueried { .. } => self.unfinished_queried(now, event),
            DeletionEvent::UnfinishedReceived { question, from, jobs } => {
                self.unfinished_received(*question, *from, jobs)
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
        let (question, request, reply_to) = match &terms.unfinished {
            _ if jobs.is_empty() => return Ok(None),
            Unfinished::Cancel(_) | Unfinished::Planned(_) => return Ok(None),
            Unfinished::Told(_, pending) if jobs.iter().all(|job| pending.told.contains_key(job)) => {
                return self.check_finished(jobs, pending).map(|()| None);
            }
            // Others than those asked about would go by now.
            Unfinished::Told(question, pending) => {
                (*question, pending.request.clone(), pending.reply_to.clone())
            }
            Unfinished::Ask(_) if self.pending.len() >= MAX_PENDING => {
                return Err(Rejection::limit(
                    "the number of deletions that wait for an answer of a group's shard",
                    MAX_PENDING as u64,
                ));
            }
            Unfinished::Ask(requester) => {
                (self.questions + 1, requester.request.cloned(), requester.reply_to.cloned())
            }
        };
        let deletion = Arc::new(deletion());
        let (jobs, by, orphan_children) = (jobs.to_vec(), terms.requester().cloned(), terms.orphan_children);
        Ok(Some(Event::Deletion(DeletionEvent::UnfinishedQueried {
            question,
            deletion,
            jobs,
            request,
            reply_to,
            by,
            orphan_children,
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

    /// The events that delete a job. `goes_too`: children that are deleted or defined anew with it.
    pub(super) fn removed(
        &self,
        job: JobId,
        terms: &Terms<'_>,
        goes_too: &dyn Fn(JobId) -> bool,
    ) -> Vec<Event> {
        let orphans = terms.orphan_children.then(|| self.orphaned_by(job, goes_too)).flatten();
        self.removed_for(job, orphans, terms.canceller())
    }

    /// The events that delete a job, and end what is unfinished of it if somebody wants that. `orphans`: what says that
    /// jobs go on naming it.
    pub(super) fn removed_for(
        &self,
        job: JobId,
        orphans: Option<Event>,
        canceller: Option<&Actor>,
    ) -> Vec<Event> {
        let mut events: Vec<Event> =
            orphans.into_iter().chain([Event::Job(JobEvent::Deleted { job })]).collect();
        if let Some(by) = canceller
            && let Some(shard) = self.shard_of(job)
        {
            events.push(Event::Job(JobEvent::Cancelled { job, shard, by: by.clone() }));
        }
        events
    }

    /// What a shard says of the jobs' batches; once all have said it, the deletion is decided.
    pub(super) fn report_unfinished(
        &self,
        events: &mut Vec<Event>,
        (from, question): (ShardId, u64),
        jobs: &[UnfinishedJob],
        now: Timestamp,
    ) {
        events.push(Event::Deletion(DeletionEvent::UnfinishedReceived {
            question,
            from,
            jobs: jobs.to_vec(),
        }));
        let Some(mut pending) = self.pending.get(&question).cloned() else { return };
        pending.hear(from, jobs);
        if pending.open.is_empty() {
            let room = MAX_SETTLED_WEIGHT.saturating_sub(weight(events));
            events.extend(self.settle(question, &pending, now, room));
        }
    }

    /// All have answered: what was put off is decided, as if it were requested now. What would not fit beside the
    /// answer in one record is refused: the answer must be taken in, or it comes again for ever.
    fn settle(&self, question: u64, pending: &Pending, now: Timestamp, room: usize) -> Vec<Event> {
        let unfinished = Unfinished::Told(question, pending);
        let terms = Terms { unfinished, orphan_children: pending.orphan_children };
        let (asked, expected) = pending.asked;
        let is_late = now.duration_since(asked) > MAX_WAIT;
        let late = is_late.then(|| {
            Rejection::limit(
                "the time in seconds for which a deletion waits for the shards' answers",
                MAX_WAIT.as_secs().unsigned_abs(),
            )
        });
        let no = late.or_else(|| self.committed.as_ref().map(|committed| committed.rejection())).map(Err);
        let decided = no.unwrap_or_else(|| match pending.deletion.as_ref() {
            Deletion::Staged { .. } if expected != self.revision => {
                Err(Rejection::RevisionChanged { expected, revision: self.revision })
            }
            Deletion::Apply { jobs, prune } => self.apply_jobs(jobs, prune, now, &terms),
            Deletion::Delete { job } => self.delete_job(*job, &terms),
            Deletion::Staged { apply, parts, prune } => {
                let (request, reply_to) = (pending.request.as_ref(), pending.reply_to.as_ref());
                let commit = Commit { apply, parts: *parts, prune, if_revision: None, request, reply_to };
                self.commit_apply(&commit, &terms)
            }
        });
        let (mut events, outcome) = match Decision::from(decided).ruling {
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
        let weight = weight(&events);
        if weight > room {
            let reason = format!("its outcome would take {weight} bytes, and {room} are left");
            return vec![decided(Outcome::Refused(Rejection::DeadLettered { reason }), true)];
        }
        events
    }

    pub(super) fn unfinished_queried(&mut self, now: Timestamp, event: &DeletionEvent) {
        let DeletionEvent::UnfinishedQueried {
            question,
            deletion,
            jobs,
            request,
            reply_to,
            by,
            orphan_children,
        } = event
        else {
            return;
        };
        let mut open: BTreeMap<ShardId, Vec<JobId>> = BTreeMap::new();
        let known: BTreeSet<JobId> = jobs.iter().copied().collect();
        for job in known {
            if let Some(shard) = self.shard_of(job) {
                open.entry(shard).or_default().push(job);
            }
        }
        for (shard, jobs) in &open {
            let message = ShardMessage::QueryUnfinished { question: *question, jobs: jobs.clone() };
            self.mailbox.send(*shard, message);
        }
        self.questions = self.questions.max(*question);
        let (deletion, told) = (Arc::clone(deletion), BTreeMap::new());
        let (request, reply_to) = (request.clone(), reply_to.clone());
        let asked = self.pending.get(question).map_or((now, self.revision), |before| before.asked);
        let (by, orphan_children) = (by.clone(), *orphan_children);
        let pending = Pending { deletion, request, reply_to, by, orphan_children, asked, open, told };
        self.pending.insert(*question, pending);
    }

    pub(super) fn unfinished_received(&mut self, question: u64, from: ShardId, jobs: &[UnfinishedJob]) {
        if let Some(pending) = self.pending.get_mut(&question) {
            pending.hear(from, jobs);
        }
    }
}

fn weight(events: &[Event]) -> usize {
    events.iter().map(of_event).sum()
}
