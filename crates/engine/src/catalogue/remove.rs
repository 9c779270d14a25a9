//! JOB-9: a job that has unfinished batches is not deleted, unless they are to be cancelled.
//!
//! Only the shard that runs a job knows its batches, so the wish is put off while the shards are asked.
//!
//! ```text
//!  catalogue   UnfinishedAsked(7) ─────────────────► UnfinishedHeard(7) ─► JobDeleted …, RemovalDecided(7)
//!                        └─ AskUnfinished ─┐     ┌─ TellUnfinished ─┘
//!  shard                                   ▼     │
//!                                     UnfinishedTold(7)
//! ```
//!
//! The shard's record is the moment at which nothing is unfinished. What it generates between that and the
//! deletion's arrival is seen through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use tidemill_model::{
    Actor, Answer, Command, Event, InstanceId, JobId, Outcome, Rejection, Removal, RequestId, ShardId,
    ShardMessage, Timestamp, UnfinishedJob,
};

use super::Catalogue;
use super::staging::Commit;
use crate::decision::{Decision, Verdict};
use crate::draft::MAX_DECISION_WEIGHT;
use crate::effect::Effect;
use crate::weight::of_event;

/// Wishes that wait for answers of shards.
const MAX_PENDING: usize = 64;
/// After this nobody waits for the outcome any more, other wishes may have followed, and answers are old.
const MAX_WAIT: SignedDuration = SignedDuration::from_secs(60);
/// Jobs with unfinished batches that a refusal names.
const NAMED_JOBS: usize = 10;
/// What the last answer and all that follows from it may take: one decision, without its cause.
const MAX_SETTLED_WEIGHT: usize = MAX_DECISION_WEIGHT - 8 * 1024;

/// Who wishes something, and where the outcome goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wisher<'a> {
    pub(crate) request: Option<&'a RequestId>,
    pub(crate) reply_to: Option<&'a InstanceId>,
    pub(crate) actor: &'a Actor,
}

/// A wish that waits for answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending {
    removal: Arc<Removal>,
    request: Option<RequestId>,
    reply_to: Option<InstanceId>,
    /// Who asked for it.
    by: Option<Actor>,
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
pub(super) enum Terms<'a> {
    /// The shards are to be asked first.
    Ask(Wisher<'a>),
    /// They have answered, to the question of this number.
    Told(u64, &'a Pending),
    /// What is unfinished is to be ended.
    Cancel(&'a Actor),
}

impl<'a> Terms<'a> {
    pub(super) fn new(cancel: bool, wisher: Wisher<'a>) -> Self {
        if cancel { Terms::Cancel(wisher.actor) } else { Terms::Ask(wisher) }
    }

    /// Who wants what is unfinished ended.
    pub(super) fn canceller(&self) -> Option<&'a Actor> {
        match self {
            Terms::Cancel(by) => Some(by),
            Terms::Ask(_) | Terms::Told(..) => None,
        }
    }

    /// Who asked for the deletion.
    pub(super) fn requester(&self) -> Option<&'a Actor> {
        match self {
            Terms::Ask(requester) => Some(requester.actor),
            Terms::Told(_, pending) => pending.by.as_ref(),
            Terms::Cancel(by) => Some(by),
        }
    }
}

impl Catalogue {
    /// Whether these jobs may be deleted now. If shards have to be asked before, the event that does.
    pub(super) fn may_remove(
        &self,
        jobs: &[JobId],
        terms: &Terms<'_>,
        removal: impl FnOnce() -> Removal,
    ) -> Result<Option<Event>, Rejection> {
        let (question, request, reply_to) = match terms {
            _ if jobs.is_empty() => return Ok(None),
            Terms::Cancel(_) => return Ok(None),
            Terms::Told(_, pending) if jobs.iter().all(|job| pending.told.contains_key(job)) => {
                return self.check_finished(jobs, pending).map(|()| None);
            }
            // Others than those asked about would go by now.
            Terms::Told(question, pending) => (*question, pending.request.clone(), pending.reply_to.clone()),
            Terms::Ask(_) if self.pending.len() >= MAX_PENDING => {
                let what = "the number of deletions that wait for an answer of a group's shard".to_owned();
                return Err(Rejection::LimitReached { what, limit: MAX_PENDING as u64 });
            }
            Terms::Ask(wisher) => (self.questions + 1, wisher.request.cloned(), wisher.reply_to.cloned()),
        };
        let removal = Arc::new(removal());
        let (jobs, by) = (jobs.to_vec(), terms.requester().cloned());
        Ok(Some(Event::UnfinishedAsked { question, removal, jobs, request, reply_to, by }))
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

    /// The events that delete a job.
    pub(super) fn removed(&self, job: JobId, terms: &Terms<'_>) -> Vec<Event> {
        self.removed_for(job, terms.canceller())
    }

    /// The events that delete a job, and end what is unfinished of it if somebody wants that.
    pub(super) fn removed_for(&self, job: JobId, canceller: Option<&Actor>) -> Vec<Event> {
        let mut events = vec![Event::JobDeleted { job }];
        if let Some(by) = canceller
            && let Some(shard) = self.shard_of(job)
        {
            events.push(Event::JobCancelled { job, shard, by: by.clone() });
        }
        events
    }

    pub(super) fn shard_of(&self, job: JobId) -> Option<ShardId> {
        let job = self.jobs.get(&job)?;
        self.groups.get(&job.definition.group).map(|group| group.shard)
    }

    /// The next message of a shard, exactly; an earlier one changes nothing, a later one is refused.
    pub(super) fn deliver(
        &self,
        from: ShardId,
        number: u64,
        message: &ShardMessage,
        now: Timestamp,
    ) -> Result<Decision, Rejection> {
        let expected = self.post.received(from) + 1;
        if number < expected {
            // The acknowledgement may have been lost.
            let command = Command::Acknowledge { from: ShardId::CATALOGUE, upto: expected - 1 };
            let notices = vec![Effect::Send { shard: from, command }];
            return Ok(Decision { notices, ..Decision::nothing() });
        }
        if number > expected {
            return Err(Rejection::OutOfOrder { from: from.0, number, expected });
        }
        let received = Event::MessageReceived { from, number };
        let (question, jobs) = match message {
            ShardMessage::TellUnfinished { question, jobs } => (question, jobs),
            ShardMessage::TellRuns { rerun, part, runs } => {
                let heard = Event::RunsHeard { rerun: *rerun, part: *part, from, runs: runs.clone() };
                return Ok(Decision::events(vec![received, heard]));
            }
            ShardMessage::TellEnd { place, end } => {
                let ended = Event::RunEnded { place: *place, end: end.clone() };
                return Ok(Decision::events(vec![received, ended]));
            }
            ShardMessage::ReportPermits { report } => {
                let heard = Event::PermitsHeard { from, report: report.clone() };
                return Ok(Decision::events(vec![received, heard]));
            }
            ShardMessage::TellReleased { user, history, tasks } => {
                let moved = self.user_let_go(from, user, history, tasks);
                return Ok(Decision::events(vec![received, moved]));
            }
            ShardMessage::TellKept { user, reason } => {
                let refused = self.user_not_let_go(user, reason);
                return Ok(Decision::events(vec![received, refused]));
            }
            ShardMessage::TellJobReleased { job, moved } => {
                let moved = self.job_let_go(from, *job, moved);
                return Ok(Decision::events([received].into_iter().chain(moved).collect()));
            }
            ShardMessage::TellJobKept { job, reason } => {
                let refused = self.job_not_let_go(*job, reason);
                return Ok(Decision::events(vec![received, refused]));
            }
            ShardMessage::Group { .. }
            | ShardMessage::ReleaseJob { .. }
            | ShardMessage::TakeJob { .. }
            | ShardMessage::Template { .. }
            | ShardMessage::ForgetTemplate { .. }
            | ShardMessage::Users { .. }
            | ShardMessage::ReleaseUser { .. }
            | ShardMessage::ReceiveUser { .. }
            | ShardMessage::Pool { .. }
            | ShardMessage::ForgetPool { .. }
            | ShardMessage::GrantPermits { .. }
            | ShardMessage::Job { .. }
            | ShardMessage::Switch { .. }
            | ShardMessage::Calendar { .. }
            | ShardMessage::ForgetCalendar { .. }
            | ShardMessage::Freeze { .. }
            | ShardMessage::Remove { .. }
            | ShardMessage::Parents { .. }
            | ShardMessage::Follow { .. }
            | ShardMessage::Watch { .. }
            | ShardMessage::Unwatch { .. }
            | ShardMessage::Stands { .. }
            | ShardMessage::Generated { .. }
            | ShardMessage::Known { .. }
            | ShardMessage::AskUnfinished { .. }
            | ShardMessage::ThirdParty { .. }
            | ShardMessage::CheckNow { .. }
            | ShardMessage::AskRuns { .. }
            | ShardMessage::StartRun(_)
            | ShardMessage::KillRun { .. }
            | ShardMessage::Cancel { .. } => {
                let what = "a message of the catalogue".to_owned();
                return Err(Rejection::WrongShard { what, shard: ShardId::CATALOGUE.0 });
            }
        };
        let mut events =
            vec![received, Event::UnfinishedHeard { question: *question, from, jobs: jobs.clone() }];
        if let Some(mut pending) = self.pending.get(question).cloned() {
            pending.hear(from, jobs);
            if pending.open.is_empty() {
                let room = MAX_SETTLED_WEIGHT.saturating_sub(weight(&events));
                events.extend(self.settle(*question, &pending, now, room));
            }
        }
        Ok(Decision::events(events))
    }

    /// All have answered: what was put off is decided, as if it were wished now. What would not fit beside the
    /// answer in one record is refused: the answer must be taken in, or it comes again for ever.
    fn settle(&self, question: u64, pending: &Pending, now: Timestamp, room: usize) -> Vec<Event> {
        let terms = Terms::Told(question, pending);
        let (asked, expected) = pending.asked;
        let is_late = now.duration_since(asked) > MAX_WAIT;
        let late = is_late.then(|| {
            let what = "the time in seconds for which a deletion waits for the shards' answers".to_owned();
            Rejection::LimitReached { what, limit: MAX_WAIT.as_secs().unsigned_abs() }
        });
        let no = late.or_else(|| self.committed.as_ref().map(|committed| committed.rejection())).map(Err);
        let decided = no.unwrap_or_else(|| match pending.removal.as_ref() {
            Removal::Staged { .. } if expected != self.revision => {
                Err(Rejection::RevisionChanged { expected, revision: self.revision })
            }
            Removal::Apply { jobs, prune } => self.apply_jobs(jobs, prune, now, &terms),
            Removal::Delete { job } => self.delete_job(*job, &terms),
            Removal::Staged { apply, parts, prune } => {
                let (request, reply_to) = (pending.request.as_ref(), pending.reply_to.as_ref());
                let commit = Commit { apply, parts: *parts, prune, if_revision: None, request, reply_to };
                self.commit_apply(&commit, &terms)
            }
        });
        let (mut events, outcome) = match Decision::from(decided).verdict {
            Verdict::Refused(rejection) => (Vec::new(), Outcome::Refused(rejection)),
            Verdict::Accepted { events, answer } => {
                (events, Outcome::Answered(answer.unwrap_or(Answer::Done)))
            }
        };
        let is_asked_again = events.iter().any(|event| matches!(event, Event::UnfinishedAsked { .. }));
        // Who commits a large wish hears when it is carried out.
        let is_committed = events.iter().any(|event| matches!(event, Event::ApplyCommitted { .. }));
        let by = pending.by.clone();
        if is_committed {
            events.push(Event::RemovalDecided { question, request: None, reply_to: None, outcome, by });
        } else if !is_asked_again {
            let (request, reply_to) = (pending.request.clone(), pending.reply_to.clone());
            events.push(Event::RemovalDecided { question, request, reply_to, outcome, by });
        }
        let weight = weight(&events);
        if weight > room {
            let reason = format!("its outcome would take {weight} bytes, and {room} are left");
            let outcome = Outcome::Refused(Rejection::Quarantined { reason });
            let (request, reply_to) = (pending.request.clone(), pending.reply_to.clone());
            let by = pending.by.clone();
            return vec![Event::RemovalDecided { question, request, reply_to, outcome, by }];
        }
        events
    }

    pub(super) fn unfinished_asked(&mut self, now: Timestamp, event: &Event) {
        let Event::UnfinishedAsked { question, removal, jobs, request, reply_to, by } = event else { return };
        let mut open: BTreeMap<ShardId, Vec<JobId>> = BTreeMap::new();
        let known: BTreeSet<JobId> = jobs.iter().copied().collect();
        for job in known {
            if let Some(shard) = self.shard_of(job) {
                open.entry(shard).or_default().push(job);
            }
        }
        for (shard, jobs) in &open {
            let message = ShardMessage::AskUnfinished { question: *question, jobs: jobs.clone() };
            self.post.send(*shard, message);
        }
        self.questions = self.questions.max(*question);
        let (removal, told) = (Arc::clone(removal), BTreeMap::new());
        let (request, reply_to) = (request.clone(), reply_to.clone());
        let asked = self.pending.get(question).map_or((now, self.revision), |before| before.asked);
        let by = by.clone();
        self.pending.insert(*question, Pending { removal, request, reply_to, by, asked, open, told });
    }

    pub(super) fn unfinished_heard(&mut self, question: u64, from: ShardId, jobs: &[UnfinishedJob]) {
        if let Some(pending) = self.pending.get_mut(&question) {
            pending.hear(from, jobs);
        }
    }
}

fn weight(events: &[Event]) -> usize {
    events.iter().map(of_event).sum()
}
