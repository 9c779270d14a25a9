//! Deletions of jobs: only after their shard has said that nothing of them is unfinished, or with its end.

use std::collections::{HashMap, HashSet};

use tidemill_model::{ApplyEvent, DeletionEvent, Event, JobEvent, JobId, Outcome};

use crate::{At, Invariant};

/// A question to the shards, as far as it was answered.
#[derive(Debug, Default)]
struct Question {
    jobs: HashSet<JobId>,
    is_heard: bool,
    busy: HashSet<JobId>,
}

/// What was asked, and what was deleted.
#[derive(Debug, Default)]
pub(super) struct Removals {
    questions: HashMap<u64, Question>,
    /// Deleted though nobody had said that nothing of it is unfinished: its cancellation has to follow at once.
    owed: Option<JobId>,
    /// Of a commit that is being carried out, what shards had said nothing is unfinished of.
    cleared: HashSet<JobId>,
    /// Whether definitions changed since the last answer of a shard.
    is_changed: bool,
}

impl Removals {
    /// `jobs_deleted_when_nothing_unfinished`
    pub(super) fn event(&mut self, at: &At<'_>, event: &Event) {
        if let Some(why) = self.wrong(event) {
            at.breaks(Invariant::JobsDeletedWhenNothingUnfinished, why);
        }
        self.fold(event);
    }

    fn wrong(&self, event: &Event) -> Option<String> {
        if let Some(job) = self.owed
            && !matches!(event, Event::Job(JobEvent::Cancelled { job: cancelled, .. }) if *cancelled == job)
        {
            return Some(format!(
                "job {job} was deleted, and nobody had said that it has nothing unfinished"
            ));
        }
        let Event::Deletion(DeletionEvent::Decided { question, outcome, .. }) = event else { return None };
        if !self.questions.contains_key(question) {
            return Some(format!("question {question} is settled, and was not asked"));
        }
        let is_refused = matches!(outcome, Outcome::Refused(_));
        (is_refused && self.is_changed)
            .then(|| format!("question {question} is refused, and definitions changed"))
    }

    fn fold(&mut self, event: &Event) {
        self.owed = None;
        match event {
            Event::Deletion(DeletionEvent::UnfinishedQueried { question, jobs, .. }) => {
                let jobs = jobs.iter().copied().collect();
                self.questions.insert(*question, Question { jobs, ..Question::default() });
            }
            Event::Deletion(DeletionEvent::UnfinishedReceived { question, jobs, .. }) => {
                self.is_changed = false;
                if let Some(question) = self.questions.get_mut(question) {
                    question.is_heard = true;
                    question.busy.extend(jobs.iter().map(|job| job.job));
                }
            }
            Event::Job(JobEvent::Deleted { job }) => {
                self.is_changed = true;
                self.owed = (!self.is_free(*job)).then_some(*job);
            }
            Event::Apply(ApplyEvent::Committed { delete, .. }) => {
                self.is_changed = true;
                self.cleared = delete.iter().copied().filter(|job| self.is_free(*job)).collect();
            }
            Event::Job(
                JobEvent::Defined { .. }
                | JobEvent::Moved { .. }
                | JobEvent::Enabled { .. }
                | JobEvent::Disabled { .. },
            ) => {
                self.is_changed = true;
            }
            Event::Deletion(DeletionEvent::Decided { question, .. }) => {
                self.questions.remove(question);
            }
            _ => {}
        }
    }

    /// Whether a shard has said so, to a question that is not settled yet, or was by the commit at hand.
    fn is_free(&self, job: JobId) -> bool {
        if self.cleared.contains(&job) {
            return true;
        }
        let mut asked = self.questions.values().filter(|question| question.jobs.contains(&job));
        asked.any(|question| question.is_heard && !question.busy.contains(&job))
    }
}
