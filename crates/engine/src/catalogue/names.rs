//! Which job a written name means, and renames (JOB-9): a job keeps its id, and with it its history and run numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Answer, Event, FieldError, GroupName, JobDefinition, JobEvent, JobId, JobName, JobSpec, Rejection,
    ShardId,
};

use super::Catalogue;
use super::accept::{full_parent_name, value_read};
use super::reach::Reach;
use crate::decision::{Decision, Ruled};

/// A name, unique among the jobs of the catalogue.
pub(super) type FullName = (GroupName, JobName);

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(super) struct Names {
    ids: BTreeMap<FullName, JobId>,
    /// Names that no job has any more after the apply, with the new name of the job.
    renamed: BTreeMap<FullName, JobName>,
}

impl Names {
    pub(super) fn id_of(&self, spec: &JobSpec) -> JobId {
        self.ids[&(spec.group.clone(), spec.name.clone())]
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = JobId> + '_ {
        self.ids.values().copied()
    }
}

impl Catalogue {
    /// The id of every named job, old or new. New ones get theirs in the order given; a renamed one keeps its own.
    pub(super) fn names_of<'a>(&self, specs: impl Iterator<Item = &'a JobSpec>) -> Names {
        let mut names = Names::default();
        let mut minted = self.jobs_minted;
        for spec in specs {
            let name = (spec.group.clone(), spec.name.clone());
            if names.ids.contains_key(&name) {
                continue;
            }
            let known = self.names.get(&name).copied().or_else(|| {
                let old = (spec.group.clone(), spec.previous_name.clone()?);
                let id = self.names.get(&old).copied()?;
                names.renamed.insert(old, spec.name.clone());
                Some(id)
            });
            let id = known.unwrap_or_else(|| {
                minted += 1;
                JobId::mint(minted, ShardId::CATALOGUE)
            });
            names.ids.insert(name, id);
        }
        names
    }

    /// Gives every named job its id; the same name twice is refused, and so is a rename that cannot be one.
    pub(super) fn check_names(&self, specs: &[&JobSpec]) -> Result<Names, Rejection> {
        let mut seen = BTreeSet::new();
        for (index, spec) in specs.iter().enumerate() {
            if !seen.insert((&spec.group, &spec.name)) {
                let rule = format!("stands twice in group {}; names are unique in a group", spec.group);
                return Err(Rejection::field(format!("jobs[{index}].name"), &spec.name, rule));
            }
        }
        let mut claimed = BTreeMap::new();
        for (index, spec) in specs.iter().enumerate() {
            let Some(previous) = &spec.previous_name else { continue };
            let first = claimed.insert((&spec.group, previous), index);
            let rule = match first {
                Some(first) => Some(format!("is claimed by jobs[{first}] too; a job can get one new name")),
                None => self.wrong_rename(spec, previous, seen.contains(&(&spec.group, previous))),
            };
            if let Some(rule) = rule {
                return Err(Rejection::field(format!("jobs[{index}].previous_name"), previous, rule));
            }
        }
        Ok(self.names_of(specs.iter().copied()))
    }

    /// Why a job cannot be taken for the one that had that name. One that was renamed before is left as it is.
    fn wrong_rename(&self, spec: &JobSpec, previous: &JobName, is_named_too: bool) -> Option<String> {
        let (group, name) = (&spec.group, &spec.name);
        if previous == name {
            return Some("is the name of the job itself; leave previous_name out".to_owned());
        }
        let has = |name: &JobName| self.names.contains_key(&(group.clone(), name.clone()));
        match (has(previous), has(name)) {
            (false, true) => None,
            (true, false) if is_named_too => {
                let rule = "this apply renames that job, and names a job of the old name as well; apply them one \
                            after the other";
                Some(rule.to_owned())
            }
            (true, false) => None,
            (true, true) => Some(format!(
                "group {group} has a job {name} already besides {previous}; leave previous_name out, or delete one \
                 of them first"
            )),
            (false, false) => Some(format!(
                "group {group} has neither a job of that name nor a job {name}; leave previous_name out to define a \
                 new job"
            )),
        }
    }

    /// Definitions that stay as they are must not name a value of a parent by a name that is gone (BYD-20).
    pub(super) fn check_renames(
        &self,
        specs: &[&JobSpec],
        names: &Names,
        reach: Reach<'_>,
        stays: impl Fn(JobId) -> bool,
    ) -> Result<(), Rejection> {
        for (old, new) in &names.renamed {
            let id = names.ids[&(old.0.clone(), new.clone())];
            if let Some(rule) = self.reader_of(id, old, new, reach, &stays) {
                let is_it = |spec: &&JobSpec| spec.group == old.0 && spec.name == *new;
                let index = specs.iter().position(is_it).unwrap_or_default();
                return Err(Rejection::field(format!("jobs[{index}].name"), new, rule));
            }
        }
        Ok(())
    }

    /// The rule that a rename breaks if a child that stays as it is reads a value of the job under its old name.
    fn reader_of(
        &self,
        id: JobId,
        old: &FullName,
        new: &JobName,
        reach: Reach<'_>,
        stays: &impl Fn(JobId) -> bool,
    ) -> Option<String> {
        let old = format!("{}/{}", old.0, old.1);
        let children = self.children.get(&id).into_iter().flatten().filter(|child| stays(**child));
        let mut children = children.filter_map(|child| self.jobs.get(child)).map(|job| &job.definition);
        let (child, (field, value)) = children.find_map(|child| {
            Some((child, value_read(child, |parent| full_parent_name(child, parent) == old)?))
        })?;
        if !self.is_reached(child.id, reach) {
            let child = self.named_for(&[child.id], reach);
            return Some(format!(
                "{child} reads a value of it by its old name; its owner has to take that out first"
            ));
        }
        Some(format!(
            "field {field} of job {} reads ${{{value}}}; apply both together, with `previous_name` here and {new} \
             there",
            child.full_name()
        ))
    }

    pub(super) fn rename_job(&self, job: JobId, name: &JobName, by: &Actor) -> Ruled {
        let known = self.known_job(job)?;
        self.check_stays(job)?;
        let old = &known.definition;
        if known.unnamed {
            let rule = format!("job {job} is known by its id only, and has no name of its own to change");
            return Err(Rejection::field("name", name, rule));
        }
        if old.spec.name == *name {
            return Ok(Decision::unchanged(Answer::Done));
        }
        self.check_account(old, by)?;
        if self.names.contains_key(&(old.spec.group.clone(), name.clone())) {
            let group = &old.spec.group;
            let rule = format!("is the name of another job of group {group}; names are unique in a group");
            return Err(Rejection::field("name", name, rule));
        }
        let full_name = (old.spec.group.clone(), old.spec.name.clone());
        if let Some(rule) = self.reader_of(job, &full_name, name, self.reach_of(Some(by)), &|_| true) {
            return Err(Rejection::field("name", name, rule));
        }
        let definition = JobDefinition {
            version: old.version + 1,
            spec: JobSpec { name: name.clone(), ..old.spec.clone() },
            ..JobDefinition::clone(old)
        };
        Ok(Decision::answered(vec![self.defined(definition.into(), known.enabled)], Answer::Done))
    }

    /// The event that adds or changes a job that has a name.
    pub(super) fn defined(&self, definition: Arc<JobDefinition>, enabled: bool) -> Event {
        let old = self.jobs.get(&definition.id).map(|job| &job.definition.spec.name);
        let previous_name = old.filter(|old| **old != definition.spec.name).cloned();
        Event::Job(JobEvent::Defined { definition, enabled, unnamed: false, previous_name })
    }

    /// The job of that name, as it is or as it is to be.
    pub(super) fn named(&self, name: &FullName, names: &Names) -> Option<JobId> {
        let today = || self.names.get(name).filter(|_| !names.renamed.contains_key(name));
        names.ids.get(name).or_else(today).copied()
    }

    /// What is wrong with a parent's name that means no job.
    pub(super) fn unknown_parent(field: &str, written: &str, name: &FullName, names: &Names) -> FieldError {
        let rule = match names.renamed.get(name) {
            Some(new) => format!("is renamed to {new} by this same apply; write the new name"),
            None => "there is no job of that name".to_owned(),
        };
        FieldError::new(field, written, rule)
    }
}
