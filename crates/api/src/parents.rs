//! What is told of parents (API-5): whoever sees a job, or may depend on it, is told its name and how the batches stand that are
//! waited for. Of any other parent a batch's own job alone says that there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidemill_model::{Condition, JobId, Rejection, Why};
use tidemill_store::ReadTables;
use tokio::time::{Instant, sleep};

use crate::Problem;
use crate::app::App;
use crate::object::Object;
use crate::rights::Caller;
use crate::view::DependencyView;

/// What stands in the place of a parent's name and state.
const HIDDEN: &str = "a parent that the caller may not see";
/// So long the tables may be behind a job that was submitted just before.
const CATCHES_UP: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);

impl App {
    /// A job, wherever it is known; nothing: nowhere.
    async fn object_of_any_job(&self, job: JobId) -> Result<Option<Object>, Problem> {
        match self.object_of_known_job(job).await? {
            Some(object) => Ok(Some(object)),
            // It was submitted to run once, or is deleted.
            None => Ok(self.read(move |tables| tables.job(job.0)).await?.as_ref().map(Object::of_row)),
        }
    }

    /// Whether the caller may be told the name of this job, and how its batches stand; nobody is told of one that is not there.
    async fn may_name(&self, caller: &Caller, job: JobId) -> Result<bool, Problem> {
        Ok(self.object_of_any_job(job).await?.is_some_and(|object| caller.names(&object)))
    }

    /// The same of each, and of nobody who reaches everything is anything asked.
    async fn named(
        &self,
        caller: &Caller,
        jobs: impl IntoIterator<Item = JobId>,
    ) -> Result<BTreeMap<JobId, bool>, Problem> {
        let mut named = BTreeMap::new();
        for job in jobs.into_iter().collect::<BTreeSet<JobId>>() {
            named.insert(job, caller.is_of_site() || self.may_name(caller, job).await?);
        }
        Ok(named)
    }

    /// Says of why a batch does not run what the caller may know of its parents.
    pub(crate) async fn tell_parents(&self, caller: &Caller, why: &mut Why) -> Result<(), Problem> {
        let of_conditions = why.conditions.iter().chain(&why.blocked).filter_map(|condition| condition.job);
        let jobs: Vec<JobId> = of_conditions.chain(why.left_out.iter().map(|left| left.job)).collect();
        let named = self.named(caller, jobs).await?;
        let is_hidden = |job: JobId| !named.get(&job).copied().unwrap_or_default();
        for condition in why.conditions.iter_mut().filter(|of| of.job.is_some_and(is_hidden)) {
            hide(condition, format!("waits for {HIDDEN}"));
        }
        for blocked in why.blocked.iter_mut().filter(|of| of.job.is_some_and(is_hidden)) {
            hide(blocked, format!("blocked by {HIDDEN}"));
        }
        why.left_out.retain(|left| !is_hidden(left.job));
        Ok(())
    }

    /// Leaves out parents that the caller may not be told of; how many logical times of theirs they are.
    pub(crate) async fn without_hidden(
        &self,
        caller: &Caller,
        dependencies: &mut Vec<DependencyView>,
    ) -> Result<u64, Problem> {
        let parent = |of: &DependencyView| JobId(of.row.0.parent_id);
        let named = self.named(caller, dependencies.iter().map(parent)).await?;
        let before = dependencies.len();
        dependencies.retain(|of| named[&parent(of)]);
        Ok((before - dependencies.len()) as u64)
    }

    /// Whether a job of this caller that runs once may wait for these of its own group, which its shard decides without knowing
    /// who may what.
    ///
    /// # Errors
    /// It may not for one of them, and is told what those are told who name one that is not there; the tables.
    pub(crate) async fn check_waits_for(&self, caller: &Caller, parents: &[JobId]) -> Result<(), Problem> {
        if caller.is_bound_to_groups_alone() {
            return Ok(());
        }
        let until = Instant::now() + CATCHES_UP;
        for parent in parents {
            // What was submitted a moment ago may not be in the tables yet; one that is there and foreign takes as long.
            loop {
                let object = self.object_of_any_job(*parent).await?;
                if object.as_ref().is_some_and(|object| caller.names(object)) {
                    break;
                }
                if Instant::now() >= until {
                    let unknown = Problem::from(Rejection::unknown("job", parent));
                    return Err(if object.is_some() { unknown.foreign() } else { unknown });
                }
                sleep(LOOK).await;
            }
        }
        Ok(())
    }
}

fn hide(condition: &mut Condition, message: String) {
    (condition.job, condition.logical_time, condition.since) = (None, None, None);
    condition.message = message;
}
