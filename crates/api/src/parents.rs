//! What is told of parents (API-5): whoever sees a job, or may depend on it, is told its name and how the batches stand that are
//! waited for. Of any other parent a batch's own job alone says that there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use tidemill_calendar::Template;
use tidemill_model::{Condition, JobId, Rejection, ShardId, WaivedParent, Why};
use tidemill_store::rows::BatchRow;
use tidemill_store::{ReadTables, Tables};
use tokio::time::{Instant, sleep};

use crate::Problem;
use crate::app::App;
use crate::object::Object;
use crate::rights::Caller;
use crate::view::{DependencyView, OverrideView, definition_of};

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

    /// A job as far as this caller's rights need it known, where no table has to be asked: one of the catalogue, and of those that were
    /// submitted to run once, which stay in their group, any where that decides.
    async fn object_without_tables(&self, caller: &Caller, job: JobId) -> Result<Option<Object>, Problem> {
        if job.shard() == ShardId::CATALOGUE || !caller.is_bound_to_groups_alone() {
            return self.object_of_known_job(job).await;
        }
        let group = self.group_of_shard(job.shard()).await?;
        Ok(group.map(|group| Object::new("job", job, group.name.as_str())))
    }

    /// Which of these jobs the caller may not be told the names of, nor how their batches stand; nobody is told of one that is not
    /// there. While the tables' database is away, those that it alone knows are hidden: the others are told of nevertheless.
    async fn hidden(
        &self,
        caller: &Caller,
        jobs: impl IntoIterator<Item = JobId>,
    ) -> Result<BTreeSet<JobId>, Problem> {
        // Of those who reach everything nothing is asked.
        if caller.is_of_site() {
            return Ok(BTreeSet::new());
        }
        let (mut hidden, mut others) = (jobs.into_iter().collect::<BTreeSet<_>>(), Vec::new());
        for job in hidden.clone() {
            match self.object_without_tables(caller, job).await? {
                Some(object) if caller.names(&object) => drop(hidden.remove(&job)),
                Some(_) => {}
                None => others.push(job),
            }
        }
        if others.is_empty() {
            return Ok(hidden);
        }
        let read = move |tables: &dyn Tables| {
            let rows = others.iter().filter_map(|job| tables.job(job.0).transpose());
            rows.collect::<Result<Vec<_>, _>>().map(Some)
        };
        for row in self.in_tables(read).await?.unwrap_or_default() {
            if caller.names(&Object::of_row(&row)) {
                hidden.remove(&JobId(row.id));
            }
        }
        Ok(hidden)
    }

    /// Says of why a batch does not run what the caller may know of its parents.
    pub(crate) async fn tell_parents(&self, caller: &Caller, why: &mut Why) -> Result<(), Problem> {
        let of_conditions = why.conditions.iter().chain(&why.blocked).filter_map(|condition| condition.job);
        let jobs: Vec<JobId> = of_conditions.chain(why.left_out.iter().map(|left| left.job)).collect();
        let hidden = self.hidden(caller, jobs).await?;
        let is_hidden = |job: JobId| hidden.contains(&job);
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
        let hidden = self.hidden(caller, dependencies.iter().map(parent)).await?;
        let before = dependencies.len();
        dependencies.retain(|of| !hidden.contains(&parent(of)));
        Ok((before - dependencies.len()) as u64)
    }

    /// Takes out of batches which parent blocks them, since when and for which time, where the caller may not be told of it; `why` says
    /// then that there is one.
    pub(crate) async fn hide_blockers(
        &self,
        caller: &Caller,
        batches: impl IntoIterator<Item = &mut BatchRow>,
    ) -> Result<(), Problem> {
        let mut blocked: Vec<&mut BatchRow> =
            batches.into_iter().filter(|row| row.blocked_by.is_some()).collect();
        let hidden = self.hidden(caller, blocked.iter().filter_map(|row| row.blocked_by).map(JobId)).await?;
        for row in
            blocked.iter_mut().filter(|row| row.blocked_by.is_some_and(|job| hidden.contains(&JobId(job))))
        {
            (row.blocked_by, row.blocked_by_time, row.blocked_since) = (None, None, None);
        }
        Ok(())
    }

    /// Leaves out of what a batch runs without those parents that the caller may not be told of.
    pub(crate) async fn without_hidden_overrides(
        &self,
        caller: &Caller,
        overrides: &mut [OverrideView],
    ) -> Result<(), Problem> {
        let unreadable = |_| Problem::internal("what the batch runs without cannot be read");
        let parents = overrides.iter().map(|of| serde_json::from_str::<Vec<WaivedParent>>(&of.0.parents));
        let parents = parents.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let hidden = self.hidden(caller, parents.iter().flatten().map(|parent| parent.job)).await?;
        if hidden.is_empty() {
            return Ok(());
        }
        for (of, mut parents) in overrides.iter_mut().zip(parents) {
            parents.retain(|parent| !hidden.contains(&parent.job));
            of.0.parents = json!(parents).to_string().into();
        }
        Ok(())
    }

    /// API-5: parameters of a run by hand read values of those parents alone that the caller sees: to depend on a job shows nothing
    /// that it says of itself. What a batch was given once it is given again by reruns, whoever asks for them.
    ///
    /// # Errors
    /// One names a value of another job, or of none; there is no such job; the tables.
    pub(crate) async fn check_values_seen(
        &self,
        caller: &Caller,
        job: JobId,
        parameters: &BTreeMap<String, String>,
    ) -> Result<(), Problem> {
        let read: Vec<(&str, Template)> = parameters
            .iter()
            .filter(|(_, text)| text.contains("${values."))
            .filter_map(|(name, text)| Some((name.as_str(), Template::parse(text).ok()?)))
            .collect();
        // Whoever reaches everything sees all parents.
        if read.is_empty() || caller.is_of_site() {
            return Ok(());
        }
        let row = self.find("job", job, |tables, job| tables.job(job.0)).await?;
        let mut seen = Vec::new();
        for parent in definition_of(&row)?.other_parents() {
            seen.extend(self.object_of_any_job(parent).await?.filter(|object| caller.sees(object)));
        }
        let is_seen = |path: &str| seen.iter().filter_map(Object::job).any(|of| of.is_called(path));
        for (name, template) in read {
            let full = |parent: &str| match parent.contains('/') {
                true => parent.to_owned(),
                false => format!("{}/{parent}", row.group_name),
            };
            if let Some((parent, key)) = template.value_names().find(|(parent, _)| !is_seen(&full(parent))) {
                let rule = "must be a value of a parent of the job that the caller sees; ask who owns the parent for `view`, or \
                            leave it out";
                let field = format!("parameters.{name}");
                return Err(Problem::field(field, format!("${{values.{parent}.{key}}}"), rule));
            }
        }
        Ok(())
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
