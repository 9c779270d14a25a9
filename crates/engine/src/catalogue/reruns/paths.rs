//! GEN-6, by data: which batches read what a rerun batch makes. Paths are resolved for each logical time, and matched as
//! paths. What a batch alone knows, its parameters by hand, its number and its run, is not known here: the definition's
//! parameters count, and run 0.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use tidemill_calendar::{Template, Timetable};
use tidemill_model::{
    BatchId, Cascade, JobDefinition, JobId, PathSpec, PlannedJob, Rejection, RerunScope, RerunSpec, Timestamp,
};

use super::super::graph::Overlay;
use super::spec::{MAX_JOBS, times_within, too_many_batches};
use super::{MAX_BATCHES, Rerun};
use crate::catalogue::{Catalogue, Children, check_limit};
use crate::schedule::{Facts, time_format, utc};

/// Paths that one plan resolves to see what reads what.
const MAX_RESOLVED: usize = 400_000;
/// What batches of one plan wait for, together.
const MAX_WAITS: usize = 1_000_000;
/// Batches that one batch of a plan comes after, by data: they stand in one record.
const MAX_AFTER: usize = 20_000;

pub(super) type Times = BTreeMap<JobId, BTreeSet<Timestamp>>;

/// Readers, by the shapes of what they read.
type ByShape = BTreeMap<String, BTreeSet<JobId>>;

impl Catalogue {
    /// The batches of a cascade by data: those of the roots in the span of the request, and all up to its reach that read
    /// what one of them makes. `among`: only these jobs.
    pub(super) fn read_from(
        &self,
        roots: &[JobId],
        spec: &RerunSpec,
        among: impl Fn(&JobId) -> bool,
    ) -> Result<Times, Rejection> {
        let readers = self.by_shape(self.jobs.keys().filter(|id| among(id)), spec.from);
        let mut search = Search {
            catalogue: self,
            overlay: Overlay::new(self, &[]),
            spec,
            readers: BTreeMap::new(),
            without_grid: Vec::new(),
            resolved: 0,
        };
        search.index(&self.may_be_reached(roots, spec.from, &readers)?)?;
        let mut open: Vec<(JobId, Timestamp)> = Vec::new();
        for id in roots {
            match search.overlay.grid(*id) {
                Some(grid) => open.extend(times_within(&grid, spec.from, spec.to).map(|time| (*id, time))),
                None => open.push((*id, spec.from)),
            }
        }
        let (mut reached, mut count) = (Times::new(), 0);
        reached.extend(roots.iter().map(|id| (*id, BTreeSet::new())));
        while let Some((id, time)) = open.pop() {
            if !reached.entry(id).or_default().insert(time) {
                continue;
            }
            count += 1;
            if count > MAX_BATCHES {
                return Err(too_many_batches());
            }
            search.readers_of(id, time, &mut open)?;
        }
        Ok(reached)
    }

    /// The logical times of a cascade by data, as its request asks for them.
    pub(super) fn times_by_data(&self, spec: &RerunSpec, jobs: &[PlannedJob]) -> Option<Times> {
        let RerunScope::Rerun { jobs: roots, cascade: Cascade::Data } = &spec.scope else { return None };
        let among: BTreeSet<JobId> = jobs.iter().map(|job| job.job).collect();
        Some(self.read_from(roots, spec, |id| among.contains(id)).unwrap_or_default())
    }

    /// Job → those whose inputs may be paths that it makes: they differ in numbers at most.
    pub(super) fn may_be_read(&self, among: &BTreeSet<JobId>, sample: Timestamp) -> Children {
        let readers = self.by_shape(among.iter(), sample);
        let of_job = |id: &JobId| {
            let shapes = self.shapes(*id, Side::Outputs, sample);
            let after = shapes.iter().filter_map(|shape| readers.get(shape)).flatten();
            (*id, after.copied().filter(|reader| reader != id).collect())
        };
        among.iter().map(of_job).collect()
    }

    /// The roots, and whatever may read what one of these makes, at some logical time.
    fn may_be_reached(
        &self,
        roots: &[JobId],
        sample: Timestamp,
        readers: &ByShape,
    ) -> Result<BTreeSet<JobId>, Rejection> {
        let mut reached: BTreeSet<JobId> = roots.iter().copied().collect();
        let mut open = roots.to_vec();
        while let Some(id) = open.pop() {
            for shape in self.shapes(id, Side::Outputs, sample) {
                for reader in readers.get(&shape).into_iter().flatten() {
                    if reached.insert(*reader) {
                        open.push(*reader);
                    }
                }
            }
            check_limit("the number of jobs of one plan", reached.len(), MAX_JOBS)?;
        }
        Ok(reached)
    }

    fn by_shape<'a>(&self, jobs: impl Iterator<Item = &'a JobId>, sample: Timestamp) -> ByShape {
        let mut readers = ByShape::new();
        for id in jobs {
            for shape in self.shapes(*id, Side::Inputs, sample) {
                readers.entry(shape).or_default().insert(*id);
            }
        }
        readers
    }

    fn shapes(&self, id: JobId, side: Side, sample: Timestamp) -> Vec<String> {
        let Some(job) = self.jobs.get(&id) else { return Vec::new() };
        let paths = paths_of(&job.definition, side);
        resolved(&job.definition, paths, None, sample).iter().map(|path| shape(path)).collect()
    }
}

#[derive(Clone, Copy)]
enum Side {
    Inputs,
    Outputs,
}

fn paths_of(definition: &JobDefinition, side: Side) -> &[PathSpec] {
    match side {
        Side::Inputs => &definition.spec.inputs,
        Side::Outputs => &definition.spec.outputs,
    }
}

/// The paths of a job for a logical time, as far as they are known without a batch.
fn resolved(
    definition: &JobDefinition,
    paths: &[PathSpec],
    grid: Option<&Timetable>,
    logical_time: Timestamp,
) -> Vec<String> {
    if paths.is_empty() {
        return Vec::new();
    }
    let zone = grid.map_or_else(utc, |grid| grid.zone().clone());
    let format = time_format(definition).unwrap_or_default();
    let own = BTreeMap::new();
    let facts = Facts::of_batch(definition, BatchId(0), 0, logical_time, format.as_ref());
    paths.iter().map(|path| facts.resolve_path(path.path(), &own, &zone)).collect()
}

/// A path with its numbers left out: what a template becomes at two logical times differs in these alone.
fn shape(path: &str) -> String {
    let mut shape = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            '0'..='9' | '+' | '-' | ':' | 'Z' if shape.ends_with('#') => {}
            '0'..='9' | '+' | '-' | ':' | 'Z' => shape.push('#'),
            c => shape.push(c),
        }
    }
    shape
}

/// How far from its logical time the times in its paths can lie.
fn span(definition: &JobDefinition, side: Side) -> SignedDuration {
    let parse = |text: &str| Template::parse(text).ok();
    let parameters: Vec<Template> =
        definition.spec.parameters.values().filter_map(|value| parse(value)).collect();
    let of_path =
        |path: &PathSpec| {
            let path = parse(path.path());
            Template::span(path.iter().chain(
                path.iter().filter(|path| path.param_names().next().is_some()).flat_map(|_| &parameters),
            ))
        };
    paths_of(definition, side).iter().map(of_path).max().unwrap_or_default()
}

struct Search<'a> {
    catalogue: &'a Catalogue,
    overlay: Overlay<'a>,
    spec: &'a RerunSpec,
    /// Path → who reads it, until it is found.
    readers: BTreeMap<String, Vec<(JobId, Timestamp)>>,
    /// Readers without logical times of their own: they read what is made for the same one.
    without_grid: Vec<JobId>,
    resolved: usize,
}

impl Search<'_> {
    /// What these jobs read, from as far before the first rerun time as their paths can name, up to the reach.
    fn index(&mut self, jobs: &BTreeSet<JobId>) -> Result<(), Rejection> {
        let definition = |id: &JobId| self.catalogue.jobs.get(id).map(|job| &*job.definition);
        let made = jobs.iter().filter_map(definition).map(|definition| span(definition, Side::Outputs)).max();
        let reach = self.spec.reach.unwrap_or(self.spec.to);
        for id in jobs {
            let Some(job) = self.catalogue.jobs.get(id) else { continue };
            if paths_of(&job.definition, Side::Inputs).is_empty() {
                continue;
            }
            let Some(grid) = self.overlay.grid(*id) else {
                self.without_grid.push(*id);
                continue;
            };
            let back = made.unwrap_or_default() + span(&job.definition, Side::Inputs);
            let from = self.spec.from.checked_sub(back).unwrap_or(Timestamp::MIN);
            for time in times_within(&grid, from, reach) {
                for path in self.paths(*id, Side::Inputs, time)? {
                    self.readers.entry(path).or_default().push((*id, time));
                }
            }
        }
        Ok(())
    }

    fn paths(&mut self, id: JobId, side: Side, time: Timestamp) -> Result<Vec<String>, Rejection> {
        let Some(job) = self.catalogue.jobs.get(&id) else { return Ok(Vec::new()) };
        let paths = paths_of(&job.definition, side);
        self.resolved += paths.len();
        let what = "the number of paths that one plan resolves (shorten the span, or the reach)";
        check_limit(what, self.resolved, MAX_RESOLVED)?;
        Ok(resolved(&job.definition, paths, self.overlay.grid(id).as_deref(), time))
    }

    fn readers_of(
        &mut self,
        id: JobId,
        time: Timestamp,
        found: &mut Vec<(JobId, Timestamp)>,
    ) -> Result<(), Rejection> {
        let made = self.paths(id, Side::Outputs, time)?;
        if made.is_empty() {
            return Ok(());
        }
        // Once is enough: many batches may make one path, and many read it.
        found.extend(made.iter().filter_map(|path| self.readers.remove(path)).flatten());
        for reader in self.without_grid.clone() {
            if self.paths(reader, Side::Inputs, time)?.iter().any(|path| made.contains(path)) {
                found.push((reader, time));
            }
        }
        Ok(())
    }
}

impl Rerun {
    /// In a cascade by data: the numbers of the batches that make a path.
    pub(super) fn written(&self) -> BTreeMap<String, Vec<u32>> {
        let mut written: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for ((at, time), number) in self.listing.order.iter().zip(1..) {
            let job = &self.jobs[*at];
            if job.by_data.is_some() {
                let outputs = paths_of(&job.definition, Side::Outputs);
                for path in resolved(&job.definition, outputs, job.grid.as_deref(), *time) {
                    written.entry(path).or_default().push(number);
                }
            }
        }
        written
    }

    /// The other batches of the plan that make what this one reads.
    pub(super) fn makers(&self, at: usize, time: Timestamp) -> impl Iterator<Item = u32> + '_ {
        let job = &self.jobs[at];
        let inputs = if job.by_data.is_some() { paths_of(&job.definition, Side::Inputs) } else { &[] };
        let paths = resolved(&job.definition, inputs, job.grid.as_deref(), time);
        let own = self.listing.numbers.get(&(at, time)).copied();
        let makers = paths.into_iter().filter_map(|path| self.listing.written.get(&path));
        makers.flatten().copied().filter(move |number| Some(*number) != own)
    }

    /// Why the batches of a cascade by data cannot be put in an order: paths may lead round, or to too many.
    pub(super) fn circle(&self) -> Option<String> {
        self.jobs.iter().find(|job| job.by_data.is_some())?;
        let order = &self.listing.order;
        let (mut waits, mut before) = (vec![0_usize; order.len()], vec![Vec::new(); order.len()]);
        let mut count = 0;
        for (index, (at, time)) in order.iter().enumerate() {
            let after = self.planned(*at, *time).after;
            if after.len() > MAX_AFTER {
                let name = self.jobs[*at].definition.full_name();
                return Some(format!(
                    "{name} for {time} reads what more than {MAX_AFTER} batches write; shorten the span, or name a subset"
                ));
            }
            count += after.len();
            if count > MAX_WAITS {
                return Some(format!(
                    "its batches wait for each other more than {MAX_WAITS} times; shorten the span, or the reach"
                ));
            }
            waits[index] = after.len();
            for number in after {
                before[number as usize - 1].push(index);
            }
        }
        let mut free: Vec<usize> = (0..order.len()).filter(|index| waits[*index] == 0).collect();
        while let Some(index) = free.pop() {
            for behind in std::mem::take(&mut before[index]) {
                waits[behind] -= 1;
                if waits[behind] == 0 {
                    free.push(behind);
                }
            }
        }
        let index = waits.iter().position(|waits| *waits > 0)?;
        let (at, time) = order[index];
        let name = self.jobs[at].definition.full_name();
        Some(format!(
            "{name} for {time} leads round in a cycle of paths that jobs write and read; name a subset instead"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_two_times_have_one_shape() {
        assert_eq!(shape("/d/20260630/x-9"), shape("/d/20260701/x-10"));
        assert_eq!(shape("/d/2026-06-30T10:00Z"), shape("/d/2026-06-30T10:00+01:00"));
        assert_ne!(shape("/d/20260630"), shape("/e/20260630"));
    }
}
