//! Names, cycles and mappings of all jobs together, as an apply would leave them.

use crate::catalogue::Catalogue;
use crate::catalogue::apply_jobs::{MAX_DECLARED_TIMES, check_none};
use crate::catalogue::graph::{Overlay, ancestors_first};
use crate::catalogue::reach::Reach;
use crate::schedule::{check_mapping, required_times, same_grid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidemill_calendar::Timetable;
use tidemill_model::{FieldError, JobDefinition, JobId, Mapping, Parent, Rejection, Timestamp};

impl Catalogue {
    /// JOB-6: no cycle, across groups neither; every mapping possible between the two grids. The jobs, ancestors first.
    /// A refusal names the jobs that the request names, and of others those in groups that its key reaches.
    pub(super) fn check_graph(
        &self,
        changed: &[Arc<JobDefinition>],
        reach: Reach<'_>,
        place: impl Fn(usize) -> String,
    ) -> Result<Vec<JobId>, Rejection> {
        let overlay = Overlay::new(self, changed);
        let jobs: Vec<JobId> = changed.iter().map(|definition| definition.id).collect();
        let order = ancestors_first(&jobs, |id| overlay.parents(id).collect()).map_err(|path| {
            let parents = changed.iter().flat_map(|definition| definition.other_parents());
            let written: BTreeSet<JobId> = jobs.iter().copied().chain(parents).collect();
            Rejection::Cycle { path: self.cycle_for(&overlay, &path, &written, reach) }
        })?;
        let places: BTreeMap<JobId, usize> =
            changed.iter().enumerate().map(|(index, definition)| (definition.id, index)).collect();
        let mut errors = Vec::new();
        let mut hidden: BTreeMap<String, Vec<JobId>> = BTreeMap::new();
        for id in self.concerned(&overlay, changed) {
            let index = places.get(&id).copied();
            let errors_of = check_parents(&overlay, id).into_iter();
            if index.is_none() && !self.is_reached(id, reach) {
                errors_of.for_each(|error| hidden.entry(error.rule).or_default().push(id));
                continue;
            }
            let child =
                || overlay.get(id).map_or_else(String::new, |child| format!("child {}", child.full_name()));
            let prefix = index.map_or_else(child, &place);
            let placed = |error: FieldError| if prefix.is_empty() { error } else { error.within(&prefix) };
            errors.extend(errors_of.map(placed));
        }
        for (rule, children) in hidden {
            errors.push(FieldError::new("children", self.named_for(&children, reach), rule));
        }
        check_none(errors).map(|()| order)
    }

    /// A cycle as names. What a key may not see is counted in its place.
    fn cycle_for(
        &self,
        overlay: &Overlay<'_>,
        path: &[JobId],
        written: &BTreeSet<JobId>,
        reach: Reach<'_>,
    ) -> Vec<String> {
        let is_shown = |id: &JobId| written.contains(id) || self.is_reached(*id, reach);
        let parts = path.chunk_by(|one, next| is_shown(one) == is_shown(next));
        let names = parts.flat_map(|part| match part.first().is_some_and(is_shown) {
            true => part.iter().map(|id| overlay.name(*id)).collect(),
            false => vec![self.named_for(part, reach)],
        });
        names.collect()
    }

    /// The changed jobs, their children, and whoever takes its logical times from those.
    fn concerned(&self, overlay: &Overlay<'_>, changed: &[Arc<JobDefinition>]) -> BTreeSet<JobId> {
        let mut concerned = BTreeSet::new();
        let mut open: Vec<JobId> = changed.iter().map(|definition| definition.id).collect();
        while let Some(id) = open.pop() {
            let first = concerned.insert(id);
            let is_changed = overlay.is_changed(id);
            let passes_on = overlay.get(id).is_some_and(|definition| definition.spec.schedule.is_none());
            if first && (is_changed || passes_on) {
                open.extend(self.children.get(&id).into_iter().flatten());
            }
        }
        concerned
    }
}

/// What is wrong with a job's parents, given all grids.
fn check_parents(overlay: &Overlay<'_>, id: JobId) -> Vec<FieldError> {
    let Some(definition) = overlay.get(id) else { return Vec::new() };
    let own = overlay.grid(id);
    let mut errors = Vec::new();
    for (index, parent) in definition.parents.iter().enumerate() {
        let Some(known) = overlay.get(parent.job) else { continue };
        // What hangs on a job that is not known here can be judged only where it is.
        if overlay.is_open(id) || overlay.is_open(parent.job) {
            continue;
        }
        // Its previous batch is asked for by another field.
        let is_past = parent.job == id;
        let problem = match (&own, overlay.grid(parent.job)) {
            (Some(own), Some(grid)) => match check_mapping(own, &grid, parent.mapping) {
                Err(problem) => Some(problem),
                // GEN-9: a dependency-triggered job takes its logical times from its parents.
                Ok(())
                    if definition.spec.schedule.is_none() && parent.job != id && !same_grid(own, &grid) =>
                {
                    Some("the parents of a job without a schedule must be on one grid".to_owned())
                }
                Ok(()) => None,
            },
            (_, None) if parent.mapping == Mapping::Latest || parent.mapping == Mapping::Same => None,
            (None, _) | (_, None) if is_past => Some(
                "needs a schedule, the job's own or that of a parent; leave it out, or give it one"
                    .to_owned(),
            ),
            (None, _) | (_, None) => Some("offset, all and any need a schedule on both sides".to_owned()),
        };
        errors.extend(problem.map(|rule| match is_past {
            true => FieldError::new("depends_on_past", true, rule),
            false => FieldError::new(format!("parents[{index}]"), known.full_name(), rule),
        }));
    }
    if errors.is_empty() {
        errors.extend(too_many_times(overlay, definition, own.as_deref()));
    }
    errors
}

/// Tried on the first logical time of 2025: what a batch waits for must fit into one record.
fn too_many_times(
    overlay: &Overlay<'_>,
    definition: &JobDefinition,
    own: Option<&Timetable>,
) -> Option<FieldError> {
    let new_year_2025 = Timestamp::from_second(1_735_689_600).ok()?;
    let time = own?.first_after(new_year_2025)?.logical_time;
    let times = |parent: &Parent| match overlay.grid(parent.job).filter(|_| parent.mapping != Mapping::Same) {
        Some(grid) => required_times(own?, &grid, parent.mapping, time).ok().map(|times| times.len()),
        // At its own logical time, in its own group: if they are many, they are not listed.
        None if overlay.get(parent.job).is_some_and(|known| known.spec.group == definition.spec.group) => {
            None
        }
        None => Some(1),
    };
    let sum: usize = definition.parents.iter().filter_map(times).sum();
    let rule = format!(
        "a batch would wait for {sum} logical times of its parents, and at most {MAX_DECLARED_TIMES} are allowed; \
         put jobs between them"
    );
    (sum > MAX_DECLARED_TIMES).then(|| FieldError::new("parents", definition.parents.len(), rule))
}
