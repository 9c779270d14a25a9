//! GEN-10: whatever its owner has evicted, a batch is run again as it was, and can be marked.

use std::collections::HashMap;

use tidemill_model::{
    BatchCommand, BatchEvent, BatchId, Command, JobId, Origin, Outcome, Rejection, RerunDefinition, RunSkip,
    ShardCommand, ShardMessage, Timestamp,
};

use super::Shard;
use super::job::{Job, Run};
use crate::requests::fingerprint;
use crate::{At, Invariant};

/// Versions of a definition that an owner keeps for what it has evicted.
const KEPT_VERSIONS: usize = 100;
/// The longest reason of a mark.
const LONGEST_REASON: usize = 500;

/// The parameters, as fingerprints, of the runs of a logical time that are not the newest any more.
pub(super) type OlderRuns = HashMap<(JobId, Timestamp), Vec<(BatchId, u64)>>;

impl Shard {
    /// `reruns_keep_their_facts`, before the event counts.
    pub(super) fn rerun_as_it_was(&self, at: &At<'_>, event: &BatchEvent) {
        let BatchEvent::Generated { job, version, logical_time, parameters, origin, rerun, .. } = event
        else {
            return;
        };
        let of = (*job, *logical_time);
        let Some(newest) = self.runs.get(&of) else { return };
        if !matches!(origin, Origin::Rerun | Origin::ColdStart) {
            return;
        }
        let rule = Invariant::RerunsKeepTheirFacts;
        let has = fingerprint(parameters);
        let wanted = match at.command() {
            Some(Command::Batch(BatchCommand::Rerun { batch, recorded: Some(_), .. })) => {
                self.parameters_of(of, newest, *batch)
            }
            Some(_) => Some(newest.parameters),
            // Which of its runs was named is not known.
            None => rerun.is_some().then_some(newest.parameters),
        };
        if wanted.is_some_and(|wanted| wanted != has) {
            let why = format!("job {job} is run again for {logical_time} with other parameters than it had");
            at.contradicts(rule, why, &[newest.said]);
        }
        self.parameters_of_its_account(at, event, newest);
        let asked = match at.command() {
            Some(Command::Shard(ShardCommand::Deliver {
                message: ShardMessage::StartRun(start), ..
            })) => start.definition,
            Some(Command::Batch(BatchCommand::Rerun { .. })) => RerunDefinition::Today,
            Some(_) | None => return,
        };
        let today = self.jobs.get(job).and_then(Job::newest).map(|newest| newest.definition.version);
        let wanted = match asked {
            RerunDefinition::Recorded => Some(newest.version),
            RerunDefinition::Today => today,
        };
        if let Some(wanted) = wanted.filter(|wanted| wanted != version) {
            let why = format!("job {job} is run again for {logical_time} in version {version}, not {wanted}");
            at.contradicts(rule, why, &[newest.said]);
        }
    }

    /// `parameters_stay_with_their_account`, for the `newest` run before it.
    fn parameters_of_its_account(&self, at: &At<'_>, event: &BatchEvent, newest: &Run) {
        let BatchEvent::Generated { job, version, parameters, rerun: Some(_), .. } = event else {
            return;
        };
        let Some(known) = self.jobs.get(job).filter(|_| !parameters.is_empty()) else { return };
        let account = |version: u32| known.versions.get(&version)?.spec().run_as.as_ref();
        let (had, has) = (account(newest.version), account(*version));
        if has.is_some() && had != has {
            let why = format!(
                "batch {} of job {job} takes parameters to account {has:?} that were given for {had:?}",
                newest.batch
            );
            at.contradicts(Invariant::ParametersStayWithTheirAccount, why, &[newest.said]);
        }
    }

    fn parameters_of(&self, of: (JobId, Timestamp), newest: &Run, batch: BatchId) -> Option<u64> {
        if newest.batch == batch {
            return Some(newest.parameters);
        }
        let older = self.older_runs.get(&of)?;
        older.iter().find(|(known, _)| *known == batch).map(|(_, parameters)| *parameters)
    }

    /// `reruns_keep_their_facts`: a planned run is not left out for what its owner has to know.
    pub(super) fn run_left_out(&self, at: &At<'_>, job: JobId, reason: RunSkip) {
        if self.jobs.get(&job).is_some_and(|job| job.tenure.is_some()) {
            return;
        }
        let known = self.jobs.get(&job).map_or(0, |job| job.versions.len());
        if reason == RunSkip::UnknownDefinition && known <= KEPT_VERSIONS {
            let why =
                format!("a run of job {job} is left out for its definition, of which there are {known}");
            at.breaks(Invariant::RerunsKeepTheirFacts, why);
        }
    }

    /// `known_batches_can_be_marked`
    pub(crate) fn mark_accepted(&self, at: &At<'_>, command: &Command, outcome: &Outcome) {
        let Command::Batch(BatchCommand::OverrideResult {
            batch,
            job,
            logical_time,
            reason,
            run: Some(number),
            ..
        }) = command
        else {
            return;
        };
        let Outcome::Refused(rejection) = outcome else { return };
        let length = reason.trim().chars().count();
        // Then the mark itself was not looked at.
        let is_unread = matches!(rejection, Rejection::DeadLettered { .. } | Rejection::RequestKeyReused {});
        if is_unread || length == 0 || length > LONGEST_REASON {
            return;
        }
        // An ad-hoc job may be forgotten, and nothing waits for it then.
        let is_kept = self.jobs.get(job).is_some_and(|of| !of.removed && job.shard() != self.id);
        let newest = self.runs.get(&(*job, *logical_time)).filter(|_| is_kept);
        if let Some(newest) = newest.filter(|newest| (newest.batch, newest.number) == (*batch, *number)) {
            let why = format!("batch {batch} is the newest run of {logical_time}, and a mark is refused");
            at.contradicts(Invariant::KnownBatchesCanBeMarked, why, &[newest.said]);
        }
    }
}
