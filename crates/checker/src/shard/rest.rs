//! What holds once nothing is on its way any more.

use super::Shard;
use crate::Invariant;
use crate::at::At;
use crate::calendar::words;

impl Shard {
    /// Checks what has to hold at quiescence: `every_assignment_ends`, `children_generated_with_parents`,
    /// and that nothing due is left.
    pub(crate) fn at_rest(&self, at: &At<'_>) {
        self.every_assignment_ends(at);
        self.children_generated_with_parents(at);
        self.nothing_due_is_left(at);
        self.all_have_heard(at);
        self.no_timeout_is_missed(at);
        self.none_is_left_to_end(at);
        self.blocked_ones_say_so(at);
        self.nothing_is_left_of_external_dependencies(at);
        self.calendars_followed(at);
        self.final_commands_end(at);
        self.none_runs_long_untold(at);
        self.permits_are_back(at);
        self.no_grant_is_overdue(at);
    }

    fn every_assignment_ends(&self, at: &At<'_>) {
        for (id, batch) in self.batches.iter().filter(|(_, batch)| batch.phase.assignment().is_some()) {
            let why = format!("batch {id} is still {}", batch.phase.word());
            let at = At { offset: batch.said, ..*at };
            at.breaks(Invariant::EveryAssignmentEnds, why);
        }
    }

    fn children_generated_with_parents(&self, at: &At<'_>) {
        for (job, time) in &self.triggered {
            let why = format!("job {job} has no batch for {time}, though a parent got one");
            at.breaks(Invariant::ChildrenGeneratedWithParents, why);
        }
    }

    fn nothing_due_is_left(&self, at: &At<'_>) {
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.enabled && !job.suspended) {
            if let Some(next) = job.next.filter(|next| next.at < at.now) {
                let why = format!("job {id} was due {} and it is {}", words(Some(next)), at.now);
                at.contradicts(Invariant::DueTimesGeneratedOrSkipped, why, &[job.next_said]);
            }
        }
    }
}
