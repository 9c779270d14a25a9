//! What an `apply` would do, without doing it: for diffs, dry runs, and files that no server has seen.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{
    Actor, ApplyPlan, FieldDiff, GroupId, GroupName, GroupSettings, JobChangeKind, JobDefinition, JobId,
    JobSpec, JobType, Level, LiveAnswer, Parent, PlannedChange, Rejection, ShardId, Timestamp,
};

use super::apply_jobs::{change_of, full_name, overlap_warning};
use super::names::FullName;
use super::reach::Reach;
use super::{Catalogue, Group, Terms};

/// Characters of a value that a diff shows.
const SHOWN: usize = 200;

impl Catalogue {
    /// The same checks as the decision's, on the state as it is now.
    pub(crate) fn plan(
        &self,
        jobs: &[JobSpec],
        prune: &[GroupName],
        (by, orphan_children): (Option<&Actor>, bool),
        now: Timestamp,
    ) -> LiveAnswer {
        if let Some(plan) = &self.committed {
            return LiveAnswer::Refused(plan.rejection());
        }
        let jobs: Vec<&JobSpec> = jobs.iter().collect();
        match self.planned(&jobs, prune, &Terms::planned(by, orphan_children), now) {
            Ok(plan) => LiveAnswer::Planned(Box::new(plan)),
            Err(rejection) => LiveAnswer::Refused(rejection),
        }
    }

    fn planned(
        &self,
        jobs: &[&JobSpec],
        prune: &[GroupName],
        terms: &Terms<'_>,
        now: Timestamp,
    ) -> Result<ApplyPlan, Rejection> {
        let checked = self.check(jobs, prune, terms)?;
        let mut changes = Vec::new();
        let mut warnings: Vec<String> = checked.move_warnings().collect();
        let new: BTreeMap<JobId, &JobDefinition> =
            checked.accepted.iter().map(|(definition, _)| (definition.id, definition.as_ref())).collect();
        let reach = terms.by.map_or(Reach::All, |by| self.reach_of(Some(by)));
        let name = |id: JobId| {
            if self.jobs.contains_key(&id) && !new.contains_key(&id) && !self.may_depend_on(id, reach) {
                return self.named_for(&[id], reach);
            }
            let today = || self.jobs.get(&id).map(|job| job.definition.as_ref());
            let known = new.get(&id).copied().or_else(today).map(JobDefinition::full_name);
            known.or_else(|| Some(self.orphans.get(&id)?.name.clone())).unwrap_or_else(|| id.to_string())
        };
        for (definition, enabled) in &checked.accepted {
            warnings.extend(overlap_warning(definition, now));
            let (_, change) = self.change(definition.clone(), *enabled);
            let mut diff = Vec::new();
            if let Some(old) = self.jobs.get(&definition.id) {
                diff.extend(change.fields.iter().map(|field| FieldDiff {
                    field: field.clone(),
                    old: shown(field, &old.definition, old.enabled, &name),
                    new: shown(field, definition, *enabled, &name),
                }));
            }
            changes.push(PlannedChange { change, diff });
        }
        for (_, job) in &checked.pruned {
            let change = change_of(&job.definition, JobChangeKind::Deleted, Vec::new());
            changes.push(PlannedChange { change, diff: Vec::new() });
        }
        Ok(ApplyPlan { revision: self.revision, changes, warnings })
    }

    /// Known by an id that nothing stands behind: what depends on it cannot be checked here.
    fn suppose_job(&mut self, name: FullName) {
        let next = i64::MAX - i64::try_from(self.names.len()).unwrap_or(0);
        self.names.entry(name).or_insert(JobId(next));
    }
}

fn shown(field: &str, definition: &JobDefinition, enabled: bool, name: &dyn Fn(JobId) -> String) -> String {
    let text = match field {
        "enabled" => enabled.to_string(),
        "parents" => {
            let parent = |parent: &Parent| {
                let mapping = serde_json::to_value(parent.mapping).map(plain).unwrap_or_default();
                format!("{} ({mapping})", name(parent.job))
            };
            definition.parents.iter().map(parent).collect::<Vec<_>>().join(", ")
        }
        "run_as" => {
            let account = definition.spec.run_as.as_ref().map(ToString::to_string).unwrap_or_default();
            definition.run_as_by.as_ref().map_or(account.clone(), |key| format!("{account} (key {key})"))
        }
        field => serde_json::to_value(&definition.spec)
            .ok()
            .and_then(|mut fields| fields.get_mut(field).map(serde_json::Value::take))
            .map(plain)
            .unwrap_or_default(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn plain(value: serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text,
        value => value.to_string(),
    }
}

/// Checks jobs as the catalogue would, had it their groups and no other job. Gives warnings, among them every
/// parent that is not among the jobs.
///
/// # Errors
/// What `apply` would refuse wherever it is sent.
pub fn check_jobs(jobs: &[JobSpec], now: Timestamp) -> Result<Vec<String>, Rejection> {
    let mut catalogue = Catalogue::default();
    catalogue.levels.suppose(Level::READS);
    let mut known = BTreeSet::new();
    for job in jobs {
        known.insert((job.group.clone(), job.name.clone()));
        let number = catalogue.groups.len() + 1;
        catalogue.groups.entry(job.group.clone()).or_insert_with(|| Group {
            id: GroupId(i32::try_from(number).unwrap_or(i32::MAX)),
            shard: ShardId(u16::try_from(number).unwrap_or(u16::MAX)),
            worker_key: String::new(),
            settings: GroupSettings::default(),
        });
    }
    let mut warnings: Vec<String> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let mut warn = |what: String| warnings.push(format!("jobs[{index}].{what}"));
        if !JobType::BUILT_IN.contains(&job.job_type.as_str()) {
            warn(format!("type: whether any worker runs type {} is not known here", job.job_type));
        }
        for (at, pool) in job.pools.iter().enumerate() {
            warn(format!("pools[{at}]: whether there is a pool {} is not known here", pool.name));
            catalogue.suppose_pool(&pool.name);
        }
        if !job.limits.is_empty() {
            warn(format!(
                "limits: the maximum of group {}, and whether level 3 stands, is not known here",
                job.group
            ));
        }
        if let Some(used) = &job.calendar {
            warn(format!("calendar: checked as if working days of {} were Monday to Friday", used.name));
            catalogue.calendars.suppose(&used.name);
        }
        if let Some(previous) = &job.previous_name {
            warn(format!("previous_name: whether there is a job {}/{previous} is not known here", job.group));
            catalogue.suppose_job((job.group.clone(), previous.clone()));
        }
        for (at, parent) in job.parents.iter().enumerate() {
            if let Some(name) = full_name(parent.job(), &job.group).filter(|name| !known.contains(name)) {
                warn(format!("parents[{at}]: {}/{} is not in these files", name.0, name.1));
                catalogue.suppose_job(name);
            }
        }
    }
    let jobs: Vec<&JobSpec> = jobs.iter().collect();
    let plan = catalogue.planned(&jobs, &[], &Terms::planned(None, false), now)?;
    warnings.extend(plan.warnings);
    Ok(warnings)
}
