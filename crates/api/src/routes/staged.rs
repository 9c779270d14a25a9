//! How a request to change jobs is brought to the catalogue: in one command if it fits, else staged and committed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidemill_model::{
    Answer, ApplyPlan, Command, JobChange, JobChangeKind, JobCommand, JobSpec, LiveAnswer, LiveQuery,
    PlannedChange, Rejection, ShardId,
};

use super::apply_body::{Applied, ApplyRequest, too_large};
use crate::Problem;
use crate::app::App;
use crate::position::JournalPosition;
use crate::rights::Right;
use crate::write::Write;

const COMMAND_JOBS: usize = 400;
/// Bytes of JSON of one command that changes jobs at once.
const COMMAND_BYTES: usize = 150 * 1_024;
/// What a definition takes beyond the JSON of its job, at most, and what each parent takes.
const DEFINITION_BYTES: usize = 480;
const PARENT_BYTES: usize = 56;
/// Bytes of JSON that one job may have. Many parents take what their names do not share with the one before.
const MAX_JOB_BYTES: usize = 256 * 1_024;
/// How long it is tried to find a moment in which nothing else changes definitions.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);
pub(super) const PAUSE: Duration = Duration::from_millis(100);

impl ApplyRequest {
    /// What it would change, by the rules and state of the catalogue's owner.
    pub(super) async fn plan(&self, app: &App, right: &Right) -> Result<ApplyPlan, Problem> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.planned(app, right).await? {
                Err(Rejection::ApplyRunning { .. }) if Instant::now() < deadline => {}
                planned => return planned.map_err(Problem::from),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn planned(&self, app: &App, right: &Right) -> Result<Result<ApplyPlan, Rejection>, Problem> {
        let (jobs, prune, by) = (self.jobs.clone(), self.prune.clone(), Some(right.actor()));
        let orphan_children = self.orphan_children;
        let query = LiveQuery::PlanApply { jobs, prune, by, orphan_children };
        match app.ask(ShardId::CATALOGUE, query).await {
            Ok(LiveAnswer::Planned(plan)) => Ok(Ok(*plan)),
            Ok(LiveAnswer::Refused(rejection)) => Ok(Err(rejection)),
            Ok(_) => Err(Problem::unavailable("no_answer", "the catalogue's owner gave no plan; try again")),
            Err(problem) => Err(problem),
        }
    }

    /// Does it, and gives the place in the journal that shows all of it.
    pub(super) async fn apply(
        self,
        app: &App,
        write: &Write<'_>,
    ) -> Result<(Applied, JournalPosition), Problem> {
        let sizes: Vec<usize> = self.jobs.iter().map(json_bytes).collect();
        if let Some(large) = sizes.iter().position(|bytes| *bytes > MAX_JOB_BYTES) {
            let rule = format!("one job takes at most {MAX_JOB_BYTES} bytes of JSON");
            return Err(too_large(format!("{} bytes in {}", sizes[large], self.jobs[large].name), rule));
        }
        let parents: usize = self.jobs.iter().map(|job| job.parents.len()).sum();
        let bytes = sizes.iter().sum::<usize>() + sizes.len() * DEFINITION_BYTES + parents * PARENT_BYTES;
        if self.jobs.len() <= COMMAND_JOBS && bytes <= COMMAND_BYTES {
            let plan = self.planned(app, &write.right).await;
            let is_large = matches!(&plan, Ok(Ok(plan)) if plan.changes.len() > COMMAND_JOBS);
            if !is_large {
                return self.apply_at_once(write, plan.ok().and_then(Result::ok)).await;
            }
        }
        let deadline = Instant::now() + PATIENCE;
        for round in 0.. {
            let plan = self.plan(app, &write.right).await?;
            match self.carry_out(write, &plan, round).await? {
                Ok(position) => return Ok((Applied::of(plan, Some(position)), position)),
                Err(rejection) if is_overtaken(&rejection) && Instant::now() < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(rejection) => return Err(rejection.into()),
            }
        }
        unreachable!("the loop ends by its deadline")
    }

    /// A request that fits into one command. The plan is only for the diff: the command decides.
    async fn apply_at_once(
        self,
        write: &Write<'_>,
        plan: Option<ApplyPlan>,
    ) -> Result<(Applied, JournalPosition), Problem> {
        let planned = plan.map(|plan| plan.changes).unwrap_or_default();
        let mut diffs: BTreeMap<String, PlannedChange> =
            planned.into_iter().map(|planned| (planned.change.name.clone(), planned)).collect();
        let Self { jobs, prune, cancel, orphan_children, .. } = self;
        let command = Command::Job(JobCommand::Apply { jobs, prune, cancel, orphan_children });
        let done = write.send(ShardId::CATALOGUE, command).await?;
        let position = done.position;
        let Answer::Applied { changes, warnings } = done.answer else { return Err(done.unexpected()) };
        let mut told = |change: JobChange| {
            let planned = diffs.remove(&change.name).filter(|planned| planned.change == change);
            planned.unwrap_or(PlannedChange { change, diff: Vec::new() })
        };
        let changes = changes.into_iter().map(&mut told).collect();
        Ok((Applied::of(ApplyPlan { revision: 0, changes, warnings }, Some(position)), position))
    }

    /// Stages and commits what the plan changes; the position shows all of it.
    pub(super) async fn carry_out(
        &self,
        write: &Write<'_>,
        plan: &ApplyPlan,
        round: usize,
    ) -> Result<Result<JournalPosition, Rejection>, Problem> {
        let changed = |planned: &PlannedChange| planned.change.change != JobChangeKind::Unchanged;
        if !plan.changes.iter().any(changed) {
            // Nothing to change; the empty request says where the journal stands.
            let nothing = Command::Job(JobCommand::Apply {
                jobs: Vec::new(),
                prune: Vec::new(),
                cancel: false,
                orphan_children: false,
            });
            let done = write.part("nothing").send(ShardId::CATALOGUE, nothing).await?;
            return Ok(Ok(done.position));
        }
        // Without deletions, what stays as it is need not be said again: the revision holds it.
        let is_wanted = |(job, planned): (&JobSpec, &PlannedChange)| {
            (!self.prune.is_empty() || changed(planned)).then(|| job.clone())
        };
        let jobs: Vec<JobSpec> = self.jobs.iter().zip(&plan.changes).filter_map(is_wanted).collect();
        // A repeat of the whole finds its own parts again, and never those of another plan.
        let attempt = format!("{}.{round}", plan.revision);
        let apply = write.request.part(&attempt);
        let mut parts = 0;
        for jobs in in_parts(jobs) {
            let command = Command::Job(JobCommand::Stage { apply: apply.clone(), part: parts, jobs });
            let request = write.part(format!("{attempt}.{parts}"));
            if let Err(rejection) = request.send_once(ShardId::CATALOGUE, command).await? {
                return Ok(Err(rejection));
            }
            parts += 1;
        }
        let (prune, if_revision) = (self.prune.clone(), Some(plan.revision));
        let (cancel, orphan_children) = (self.cancel, self.orphan_children);
        let commit =
            Command::Job(JobCommand::Commit { apply, parts, prune, cancel, orphan_children, if_revision });
        let commit = write.part(format!("{attempt}.commit")).send_once(ShardId::CATALOGUE, commit).await?;
        Ok(commit.map(|done| done.position))
    }
}

/// Something else came between plan and commit, or dropped what was staged: plan again.
pub(super) fn is_overtaken(rejection: &Rejection) -> bool {
    matches!(
        rejection,
        Rejection::RevisionChanged { .. } | Rejection::ApplyRunning { .. } | Rejection::Unknown { .. }
    )
}

fn json_bytes(job: &JobSpec) -> usize {
    serde_json::to_vec(job).expect("a job is JSON").len()
}

/// Parts that fit into one command each, in order.
fn in_parts(jobs: Vec<JobSpec>) -> Vec<Vec<JobSpec>> {
    let mut parts: Vec<Vec<JobSpec>> = vec![Vec::new()];
    let mut bytes = 0;
    for job in jobs {
        let size = json_bytes(&job);
        let is_full = parts.last().is_some_and(|part| {
            !part.is_empty() && (part.len() >= COMMAND_JOBS || bytes + size > COMMAND_BYTES)
        });
        if is_full {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        if let Some(part) = parts.last_mut() {
            part.push(job);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(name: &str, bytes: usize) -> JobSpec {
        let job = json!({"name": name, "group": "g", "type": "noop", "comment": "x".repeat(bytes)});
        JobSpec::from_value(job).unwrap()
    }

    fn names(jobs: &[JobSpec]) -> Vec<&str> {
        jobs.iter().map(|job| job.name.as_str()).collect()
    }

    #[test]
    fn parts_stay_within_a_command() {
        let jobs: Vec<JobSpec> =
            (0..900).map(|n| job(&n.to_string(), if n == 850 { 140_000 } else { 400 })).collect();
        let parts = in_parts(jobs);
        let sizes: Vec<usize> = parts.iter().map(|part| part.iter().map(json_bytes).sum()).collect();
        assert!(sizes.iter().all(|bytes| *bytes <= COMMAND_BYTES), "{sizes:?}");
        assert!(parts.iter().all(|part| !part.is_empty() && part.len() <= COMMAND_JOBS));
        assert_eq!(parts.concat().len(), 900);
        assert_eq!(names(&parts.concat())[..3], ["0", "1", "2"]);
    }
}
