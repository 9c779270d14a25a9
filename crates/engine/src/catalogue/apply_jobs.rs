//! `apply`: many definitions at once, all or none (JOB-5, JOB-6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_calendar::Timetable;
use tidemill_model::{
    Actor, Answer, Deletion, Event, FieldError, GroupName, JobChange, JobChangeKind, JobDefinition, JobEvent,
    JobId, JobName, JobSpec, Mapping, Parent, ParentSpec, Rejection, ShardId, Timestamp,
};

use super::accept::{self, check_failure_rule, check_program, check_values, is_ambiguous_in_overlap};
use super::depend::Parents;
use super::graph::{Overlay, ancestors_first};
use super::keys::Vouch;
use super::names::Names;
use super::{Catalogue, Job, Terms, check_count};
use crate::decision::{Decision, Ruled};
use crate::schedule::{grid_from_spec, same_grid};
use crate::weight::of_definition;

/// Jobs that one command can name; the events of one decision stay within this, too.
pub(super) const MAX_JOBS: usize = 400;
pub(super) const MAX_BYTES: usize = 170 * 1024;
const MAX_PARENTS: usize = 20_000;
/// Those of other groups, or at other logical times than the batch's own: every batch lists them.
pub(super) const MAX_LISTED_PARENTS: usize = 1_000;
pub(super) const MAX_ERRORS: usize = 20;
/// Logical times of all its parents together that a batch of a job may wait for.
pub(crate) const MAX_DECLARED_TIMES: usize = 2_000;

/// A request that was found good.
pub(super) struct Checked<'a> {
    /// The definitions, and whether they are enabled, in the order given.
    pub(super) accepted: Vec<(Arc<JobDefinition>, bool)>,
    /// The same jobs, ancestors first.
    order: Vec<JobId>,
    /// What would be deleted.
    pub(super) pruned: Vec<(JobId, &'a Job)>,
}

impl Checked<'_> {
    pub(super) fn gone(&self) -> Vec<JobId> {
        self.pruned.iter().map(|(id, _)| *id).collect()
    }
}

impl Catalogue {
    /// All that can be wrong with jobs, whatever their number.
    pub(super) fn check(
        &self,
        specs: &[&JobSpec],
        prune: &[GroupName],
        terms: &Terms<'_>,
    ) -> Result<Checked<'_>, Rejection> {
        let names = self.check_names(specs)?;
        let accepted = self.accept(specs, &names, terms.by.map_or(Vouch::Nobody, Vouch::Key))?;
        let definitions: Vec<Arc<JobDefinition>> =
            accepted.iter().map(|(definition, _)| Arc::clone(definition)).collect();
        self.check_all_stay(&definitions)?;
        let reach = self.reach_of(terms.by);
        self.check_editable((&definitions, true), reach, |index| format!("jobs[{index}]"))?;
        let order = self.check_graph(&definitions, reach, |index| format!("jobs[{index}]"))?;
        let pruned = self.pruned(&names, prune, &definitions, terms)?;
        let rewritten: BTreeSet<JobId> = names.ids().chain(pruned.iter().map(|(id, _)| *id)).collect();
        self.check_renames(specs, &names, reach, |child| !rewritten.contains(&child))?;
        Ok(Checked { accepted, order, pruned })
    }

    pub(super) fn apply_jobs(
        &self,
        specs: &[JobSpec],
        prune: &[GroupName],
        now: Timestamp,
        terms: &Terms<'_>,
    ) -> Ruled {
        let written: Vec<&JobSpec> = specs.iter().collect();
        let checked = self.check(&written, prune, terms)?;
        let gone = checked.gone();
        let mut warnings: Vec<String> = checked.move_warnings().collect();
        let Checked { accepted, order, pruned } = checked;
        let bytes: usize = accepted.iter().map(|(definition, _)| of_definition(definition)).sum();
        if accepted.len() + pruned.len() > MAX_JOBS || bytes > MAX_BYTES {
            let rule = format!(
                "one apply can name at most {MAX_JOBS} jobs (deleted ones included) and {MAX_BYTES} bytes; split it"
            );
            return Err(Rejection::field("jobs", format!("{} jobs, {bytes} bytes", specs.len()), rule));
        }
        let deletion = || Deletion::Apply { jobs: specs.to_vec(), prune: prune.to_vec() };
        if let Some(asked) = self.may_remove(&gone, terms, deletion)? {
            return Ok(Decision::of(asked));
        }
        warnings.extend(accepted.iter().filter_map(|(definition, _)| overlap_warning(definition, now)));
        let mut facts = BTreeMap::new();
        let mut changes = Vec::with_capacity(accepted.len() + pruned.len());
        for (definition, enabled) in accepted {
            let id = definition.id;
            let (event, change) = self.change(definition, enabled);
            facts.extend(event.map(|event| (id, event)));
            changes.push(change);
        }
        let mut events: Vec<Event> = order.iter().filter_map(|id| facts.remove(id)).collect();
        let goes_too: BTreeSet<JobId> = gone.into_iter().chain(order).collect();
        for (id, job) in pruned {
            events.extend(self.removed(id, terms, &|child| goes_too.contains(&child)));
            changes.push(change_of(&job.definition, JobChangeKind::Deleted, Vec::new()));
        }
        Ok(Decision::answered(events, Answer::Applied { changes, warnings }))
    }

    /// API-1 with cron or parents: a job that is known by its id only.
    pub(super) fn define_job(&self, spec: &JobSpec, parents: &[JobId], by: &Actor) -> Ruled {
        let id = JobId::mint(self.jobs_minted + 1, ShardId::CATALOGUE);
        let may_be = self.parents_for(id, Vouch::Key(by));
        let unknown = |parent: &&JobId| !self.jobs.contains_key(parent) || !may_be.may_be(**parent);
        if let Some(unknown) = parents.iter().find(unknown) {
            return Err(Rejection::unknown("job", unknown));
        }
        let (mut definition, enabled) = self.definition(spec, id, &Names::default(), Vouch::Key(by))?;
        self.check_limits(spec)?;
        // Its owner is whoever the application names as its user, whether the directory has them or not.
        // A parent on the same grid is waited for at the same time, any other by its newest one.
        let own = Timetable::of(&definition, |name| self.calendars.days(name)).ok().flatten();
        let today = Overlay::new(self, &[]);
        let mapping = |parent: JobId| match (&own, today.grid(parent)) {
            (None, Some(_)) => Mapping::Same,
            (Some(own), Some(parents)) if same_grid(own, &parents) => Mapping::Same,
            _ => Mapping::Latest,
        };
        definition.parents.extend(parents.iter().map(|job| Parent { job: *job, mapping: mapping(*job) }));
        let definition = Arc::new(definition);
        let alone = std::slice::from_ref(&definition);
        self.check_all_stay(alone)?;
        let reach = self.reach_of(Some(by));
        self.check_editable((alone, false), reach, |_| String::new())?;
        self.check_graph(alone, reach, |_| String::new())?;
        let event = Event::Job(JobEvent::Defined { definition, enabled, unnamed: true, previous_name: None });
        Ok(Decision::answered(vec![event], Answer::Submitted { job: id, batch: None }))
    }

    fn accept(
        &self,
        specs: &[&JobSpec],
        names: &Names,
        vouch: Vouch<'_>,
    ) -> Result<Vec<(Arc<JobDefinition>, bool)>, Rejection> {
        let mut accepted = Vec::new();
        let mut errors = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            if errors.len() == MAX_ERRORS {
                break;
            }
            let id = names.id_of(spec);
            let definition = self.definition(spec, id, names, vouch);
            let allowed = || self.check_limits(spec).and_then(|()| self.check_owner(id, spec));
            match definition.and_then(|accepted| allowed().map(|()| accepted)) {
                Ok((definition, enabled)) => accepted.push((Arc::new(definition), enabled)),
                Err(error) => errors.push(error.within(&format!("jobs[{index}]"))),
            }
        }
        check_none(errors).map(|()| accepted)
    }

    pub(super) fn definition(
        &self,
        spec: &JobSpec,
        id: JobId,
        names: &Names,
        vouch: Vouch<'_>,
    ) -> Result<(JobDefinition, bool), FieldError> {
        let unknown = || FieldError::new("group", &spec.group, "there is no such group");
        let group = self.groups.get(&spec.group).ok_or_else(unknown)?;
        accept::check(spec)?;
        if let Some(used) = &spec.calendar
            && self.calendars.days(&used.name).is_none()
        {
            let rule = "there is no calendar of that name; define it first";
            return Err(FieldError::new("calendar.name", &used.name, rule));
        }
        let may_be = self.parents_for(id, vouch);
        let parents = self.parents((spec, id), names, &may_be)?;
        self.check_pools(spec)?;
        let mut definition = JobDefinition {
            id,
            version: self.jobs.get(&id).map_or(1, |job| job.definition.version + 1),
            group_id: group.id,
            parents,
            run_as_by: None,
            spec: spec.clone().normalized(),
        };
        check_failure_rule(&definition)?;
        check_program(&definition)?;
        let parents: Vec<&str> = spec.parents.iter().map(ParentSpec::job).collect();
        check_values(&definition, &parents)?;
        self.check_values_seen(&definition, &may_be)?;
        self.vouch(&mut definition, vouch)?;
        Ok((definition, spec.enabled))
    }

    fn parents(
        &self,
        (spec, id): (&JobSpec, JobId),
        names: &Names,
        may_be: &Parents<'_>,
    ) -> Result<Vec<Parent>, FieldError> {
        check_count("parents", spec.parents.len(), MAX_PARENTS, " parents")?;
        let mut listed = 0;
        let mut parents = Vec::with_capacity(spec.parents.len());
        let mut seen = BTreeSet::new();
        for (index, written) in spec.parents.iter().enumerate() {
            let field = format!("parents[{index}]");
            let name = full_name(written.job(), &spec.group)
                .ok_or_else(|| FieldError::new(&field, written.job(), "must be a job name, or group/name"))?;
            let job = self.named(&name, names).filter(|job| *job == id || may_be.may_be(*job));
            let job = job.ok_or_else(|| Self::unknown_parent(&field, written.job(), &name, names))?;
            if job == id {
                let rule =
                    "a job cannot be its own parent; for its previous batch write depends_on_past: true";
                return Err(FieldError::new(field, written.job(), rule));
            }
            if !seen.insert(job) {
                return Err(FieldError::new(field, written.job(), "stands twice among the parents"));
            }
            listed += usize::from(written.mapping() != Mapping::Same || name.0 != spec.group);
            if listed > MAX_LISTED_PARENTS {
                let rule = format!(
                    "is one more than {MAX_LISTED_PARENTS} parents that are in other groups or have another mapping than \
                     same, each of which every batch lists; put jobs between them"
                );
                return Err(FieldError::new(field, written.job(), rule));
            }
            parents.push(Parent { job, mapping: written.mapping() });
        }
        if spec.depends_on_past {
            parents.push(Parent { job: id, mapping: Mapping::Offset(1) });
        }
        Ok(parents)
    }

    /// Specs that were found good, ancestors first.
    pub(super) fn in_order(&self, specs: Vec<JobSpec>, names: &Names) -> Vec<JobSpec> {
        let ids: Vec<JobId> = specs.iter().map(|spec| names.id_of(spec)).collect();
        let mut specs: BTreeMap<JobId, JobSpec> = ids.iter().copied().zip(specs).collect();
        let order = ancestors_first(&ids, |id| {
            let Some(spec) = specs.get(&id) else {
                let known = self.jobs.get(&id);
                return known.into_iter().flat_map(|job| job.definition.other_parents()).collect();
            };
            let written = spec.parents.iter().filter_map(|parent| full_name(parent.job(), &spec.group));
            written.filter_map(|name| self.named(&name, names)).collect()
        });
        order.unwrap_or(ids).into_iter().filter_map(|id| specs.remove(&id)).collect()
    }

    fn pruned(
        &self,
        names: &Names,
        prune: &[GroupName],
        changed: &[Arc<JobDefinition>],
        terms: &Terms<'_>,
    ) -> Result<Vec<(JobId, &Job)>, Rejection> {
        let named: BTreeSet<JobId> = names.ids().collect();
        let in_scope = |job: &&Job| !job.unnamed && prune.contains(&job.definition.spec.group);
        let jobs = self.jobs.iter().filter(|(id, job)| in_scope(job) && !named.contains(id));
        let pruned: Vec<(JobId, &Job)> = jobs.map(|(id, job)| (*id, job)).collect();
        let gone: BTreeSet<JobId> = pruned.iter().map(|(id, _)| *id).collect();
        for (index, definition) in changed.iter().enumerate() {
            if let Some(at) = definition.parents.iter().position(|parent| gone.contains(&parent.job)) {
                let parent = self.jobs.get(&definition.parents[at].job);
                let parent = parent.map_or_else(String::new, |job| job.definition.full_name());
                let rule = "is deleted by this same apply; name it among the jobs, or leave it out here";
                return Err(Rejection::field(format!("jobs[{index}].parents[{at}]"), parent, rule));
            }
        }
        for (id, job) in &pruned {
            let goes_too = |child| gone.contains(&child) || named.contains(&child);
            self.check_unneeded(*id, job, terms, &goes_too)?;
        }
        Ok(pruned)
    }

    /// What an apply changes of one job, and in which fields.
    pub(super) fn change(&self, definition: Arc<JobDefinition>, enabled: bool) -> (Option<Event>, JobChange) {
        let Some(old) = self.jobs.get(&definition.id) else {
            let change = change_of(&definition, JobChangeKind::Added, Vec::new());
            return (Some(self.defined(definition, enabled)), change);
        };
        let mut fields = differing(&old.definition, &definition);
        let is_as_it_was = fields.is_empty();
        if old.enabled != enabled {
            fields.push("enabled".to_owned());
        } else if is_as_it_was {
            return (None, change_of(&old.definition, JobChangeKind::Unchanged, fields));
        }
        if is_as_it_was {
            let event = switched(definition.id, enabled).into();
            return (Some(event), change_of(&old.definition, JobChangeKind::Changed, fields));
        }
        let change = change_of(&definition, JobChangeKind::Changed, fields);
        (Some(self.defined(definition, enabled)), change)
    }
}

pub(super) fn switched(job: JobId, enabled: bool) -> JobEvent {
    if enabled { JobEvent::Enabled { job } } else { JobEvent::Disabled { job } }
}

pub(super) fn change_of(definition: &JobDefinition, change: JobChangeKind, fields: Vec<String>) -> JobChange {
    let (job, name, version) = (definition.id, definition.full_name(), definition.version);
    JobChange { job, name, change, version, fields }
}

/// The fields in which two definitions differ, their version aside.
fn differing(old: &JobDefinition, new: &JobDefinition) -> Vec<String> {
    if *old == (JobDefinition { version: old.version, ..new.clone() }) {
        return Vec::new();
    }
    let [old_spec, new_spec] = [old, new].map(|definition| {
        let value = serde_json::to_value(&definition.spec).expect("a job is plain data with string keys");
        value.as_object().cloned().unwrap_or_default()
    });
    let differs = |name: &&String| old_spec.get(*name) != new_spec.get(*name);
    let mut fields: BTreeSet<String> =
        old_spec.keys().chain(new_spec.keys()).filter(differs).cloned().collect();
    let others = |definition: &JobDefinition| -> Vec<Parent> {
        definition.parents.iter().filter(|parent| parent.job != definition.id).cloned().collect()
    };
    fields.extend((others(old) != others(new)).then(|| "parents".to_owned()));
    fields.extend((old.run_as_by != new.run_as_by).then(|| "run_as".to_owned()));
    fields.into_iter().collect()
}

pub(super) fn check_none(mut errors: Vec<FieldError>) -> Result<(), Rejection> {
    errors.truncate(MAX_ERRORS);
    if errors.is_empty() { Ok(()) } else { Err(Rejection::Invalid { fields: errors }) }
}

/// JOB-3: what the writer of a template should know about clock changes.
pub(super) fn overlap_warning(definition: &JobDefinition, now: Timestamp) -> Option<String> {
    let schedule = grid_from_spec(&definition.spec.schedule_spec()?).ok()?;
    let has_dst = tidemill_calendar::has_dst(&schedule.zone, now);
    (schedule.is_sub_daily() && has_dst && is_ambiguous_in_overlap(definition)).then(|| {
        format!(
            "{}: a template writes the local hour without its offset, so the two hours of a clock change \
             look alike; add XXX",
            definition.full_name()
        )
    })
}

pub(super) fn full_name(written: &str, group: &GroupName) -> Option<(GroupName, JobName)> {
    match written.split_once('/') {
        Some((group, name)) => Some((GroupName::try_from(group).ok()?, JobName::try_from(name).ok()?)),
        None => Some((group.clone(), JobName::try_from(written).ok()?)),
    }
}
