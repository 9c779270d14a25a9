//! What the journal says of every batch, and the rules that it may not break.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{
    AttemptEvent, AttemptResult, BatchEvent, BatchId, BatchResult, Event, JobEvent, JobId, Timestamp, Token,
};

/// One batch.
pub(crate) struct Story {
    pub(crate) job: JobId,
    pub(crate) logical_time: Timestamp,
    /// The assignment or attempt that goes on.
    open: Option<Token>,
    /// The attempt that may run.
    live: Option<Token>,
    /// How attempts ended, in order.
    pub(crate) attempts: Vec<(Token, AttemptResult)>,
    pub(crate) result: Option<BatchResult>,
}

impl Story {
    /// The attempt that succeeded.
    pub(crate) fn success(&self) -> Option<Token> {
        let mut successes = self.attempts.iter().filter(|(_, result)| *result == AttemptResult::Success);
        let first = successes.next().map(|(token, _)| *token);
        assert!(successes.next().is_none(), "two attempts succeeded: {:?}", self.attempts);
        first
    }
}

/// All batches.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) jobs: BTreeMap<String, JobId>,
    pub(crate) batches: BTreeMap<BatchId, Story>,
    /// Jobs that the engine completes by itself.
    anchors: BTreeSet<JobId>,
    generated: BTreeSet<(JobId, Timestamp, u32)>,
}

impl History {
    /// Follows the facts and fails at the first that breaks a rule: no batch generated twice, never two
    /// attempts that may run, no attempt over before it began, one success for each success.
    pub(crate) fn of<'a>(events: impl Iterator<Item = &'a Event>) -> Self {
        let mut history = Self::default();
        for event in events {
            history.follow(event);
        }
        for (batch, story) in &history.batches {
            let is_done = story.result == Some(BatchResult::Success);
            let is_anchor = history.anchors.contains(&story.job);
            assert_eq!(
                story.success().is_some(),
                is_done && !is_anchor,
                "batch {batch}: {:?}",
                story.attempts
            );
        }
        history
    }

    fn follow(&mut self, event: &Event) {
        match event {
            Event::Job(JobEvent::Defined { definition, .. }) => {
                self.jobs.insert(definition.full_name(), definition.id);
                if definition.spec.job_type.as_str() == "anchor" {
                    self.anchors.insert(definition.id);
                }
            }
            Event::Batch(BatchEvent::Generated { batch, job, logical_time, run, .. }) => {
                let is_new = self.generated.insert((*job, *logical_time, *run));
                assert!(is_new, "generated twice: job {job}, {logical_time}, run {run}");
                let story = Story {
                    job: *job,
                    logical_time: *logical_time,
                    open: None,
                    live: None,
                    attempts: Vec::new(),
                    result: None,
                };
                assert!(self.batches.insert(*batch, story).is_none(), "batch {batch} twice");
            }
            Event::Batch(BatchEvent::Assigned { batch, token, .. }) => {
                let story = self.story(*batch);
                assert_eq!(
                    (story.open, story.live),
                    (None, None),
                    "batch {batch}: assigned while another lives"
                );
                story.open = Some(*token);
            }
            Event::Batch(BatchEvent::AssignmentReturned { batch, token, .. }) => {
                let story = self.story(*batch);
                assert_eq!(story.open.take(), Some(*token), "batch {batch}: returned");
                // A worker that stops may say so of what it was granted and has not begun.
                story.live = None;
            }
            Event::Attempt(AttemptEvent::StartGranted { batch, token, .. }) => {
                let story = self.story(*batch);
                assert_eq!((story.open, story.live), (Some(*token), None), "batch {batch}: granted");
                story.live = Some(*token);
            }
            Event::Attempt(AttemptEvent::Finished { batch, token, outcome, .. }) => {
                let story = self.story(*batch);
                assert_eq!(
                    story.live.take(),
                    Some(*token),
                    "batch {batch}: an attempt ended that was not granted"
                );
                story.open = None;
                story.attempts.push((*token, outcome.result));
            }
            Event::Batch(BatchEvent::Finished { batch, result, .. }) => {
                let story = self.story(*batch);
                assert_eq!(story.live, None, "batch {batch} finished while an attempt lives");
                assert_eq!(story.result.replace(*result), None, "batch {batch} finished twice");
            }
            _ => {}
        }
    }

    fn story(&mut self, batch: BatchId) -> &mut Story {
        let story =
            self.batches.get_mut(&batch).unwrap_or_else(|| panic!("batch {batch} was never generated"));
        assert_eq!(story.result, None, "batch {batch} goes on after its end");
        story
    }

    /// The batches of a job.
    pub(crate) fn of_job(&self, name: &str) -> Vec<&Story> {
        let job = self.jobs[name];
        self.batches.values().filter(|story| story.job == job).collect()
    }
}
