//! What may be requested, and which jobs it concerns.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_calendar::Timetable;
use tidemill_model::{
    Actor, Answer, Cascade, ColdStartOf, Event, GroupName, JobId, Mapping, Period, Permission, PlannedJob,
    Rejection, RerunDefinition, RerunEvent, RerunId, RerunScope, RerunSpec, ShardId, Timestamp, bounds,
};

use super::super::graph::Overlay;
use super::super::reach::Reach;
use super::super::{Catalogue, Children, Job, check_bytes, check_limit};
use super::{Listing, MAX_BATCHES, MAX_LIVE, MAX_LIVE_BATCHES, PlanJob, Rerun, Stage};
use crate::decision::{Decision, Ruled};

pub(super) const MAX_JOBS: usize = 4_000;

/// Job → those that come after it.
type Links<'a> = Cow<'a, Children>;

impl Catalogue {
    pub(in super::super) fn plan_rerun(&self, spec: &RerunSpec, by: &Actor, now: Timestamp) -> Ruled {
        check_spec(spec, now)?;
        // GEN-6: what depends on rerun batches follows up to now, unless the request says how far.
        let follows = reaches_on(spec).then_some(now);
        let spec = &RerunSpec { reach: spec.reach.or(follows).map(|reach| reach.min(now)), ..spec.clone() };
        check_limit("the number of reruns that have not ended", self.reruns.live.len() + 1, MAX_LIVE)?;
        let roots = self.roots(spec)?;
        self.check_size(spec, &roots)?;
        let (reached, jobs_left_out) = self.reached(spec, &roots, self.reach_of(Some(by)))?;
        let links = self.links(spec, &reached);
        let jobs = in_order(&reached, &links);
        check_limit("the number of jobs of one plan", jobs.len(), MAX_JOBS)?;
        jobs.iter().try_for_each(|id| self.check_stays(*id))?;
        let rerun = RerunId::mint(self.reruns.minted + 1, ShardId::CATALOGUE);
        let groups: BTreeSet<GroupName> =
            jobs.iter().filter_map(|id| Some(self.jobs.get(id)?.definition.spec.group.clone())).collect();
        let event = Event::Rerun(RerunEvent::Requested {
            rerun,
            spec: Arc::new(spec.clone()),
            by: by.clone(),
            jobs: self.planned_jobs(&jobs, &links),
            groups: groups.into_iter().collect(),
            jobs_left_out,
        });
        let is_disabled = |id: &JobId| self.jobs.get(id).is_some_and(|job| !job.enabled);
        let disabled = roots.into_iter().filter(is_disabled).collect();
        Ok(Decision::answered(vec![event], Answer::Rerun { rerun, disabled, jobs_left_out }))
    }

    /// All that the plan concerns, and how many jobs downstream it leaves out: those with which the caller may not
    /// do it, and those that come only after such a job. Who may name jobs at all is checked where they are named.
    fn reached(
        &self,
        spec: &RerunSpec,
        roots: &[JobId],
        reach: Reach<'_>,
    ) -> Result<(BTreeSet<JobId>, u32), Rejection> {
        let RerunScope::Rerun { cascade, .. } = &spec.scope else {
            return Ok((roots.iter().copied().collect(), 0));
        };
        let is_open = |id: &JobId| roots.contains(id) || self.may(Permission::Operate, *id, reach);
        let (all, reached): (BTreeSet<JobId>, BTreeSet<JobId>) = match cascade {
            Cascade::Data => {
                let all = self.read_from(roots, spec, |_| true)?.into_keys().collect();
                if reach.is_all() {
                    return Ok((all, 0));
                }
                (all, self.read_from(roots, spec, is_open)?.into_keys().collect())
            }
            Cascade::Logic => {
                (reached(roots, &self.children, |_| true), reached(roots, &self.children, is_open))
            }
            Cascade::Job | Cascade::Subset(_) => return Ok((roots.iter().copied().collect(), 0)),
        };
        let jobs_left_out = all.difference(&reached).count();
        Ok((reached, u32::try_from(jobs_left_out).unwrap_or(u32::MAX)))
    }

    fn roots(&self, spec: &RerunSpec) -> Result<Vec<JobId>, Rejection> {
        let (named, period): (BTreeSet<JobId>, _) = match &spec.scope {
            RerunScope::Rerun { jobs, cascade } => {
                let more: &[JobId] = if let Cascade::Subset(more) = cascade { more } else { &[] };
                (jobs.iter().chain(more).copied().collect(), None)
            }
            RerunScope::ColdStart { of: ColdStartOf::Jobs(jobs), period } => {
                (jobs.iter().copied().collect(), Some(*period))
            }
            RerunScope::ColdStart { of: ColdStartOf::Group(group), period } => {
                self.check_groups([group])?;
                return Ok(self.of_period(*period, |job| job.definition.spec.group == *group));
            }
            RerunScope::ColdStart { of: ColdStartOf::All, period } => {
                return Ok(self.of_period(*period, |_| true));
            }
        };
        if named.is_empty() || named.len() > bounds::RERUN_NAMED {
            let rule = format!("must name 1 to {} jobs", bounds::RERUN_NAMED);
            return Err(Rejection::field("jobs", named.len(), rule));
        }
        for id in &named {
            let job = self.known_job(*id)?;
            let Some(period) = period else { continue };
            if !job.enabled {
                return Err(Rejection::JobDisabled { job: id.0 });
            }
            if !has_period(job, period) {
                let rule = format!("is not a job of period {period:?}; leave it out").to_lowercase();
                return Err(Rejection::field("jobs", job.definition.full_name(), rule));
            }
        }
        Ok(named.into_iter().collect())
    }

    fn of_period(&self, period: Period, wanted: impl Fn(&Job) -> bool) -> Vec<JobId> {
        let of_period = |job: &Job| job.enabled && has_period(job, period) && wanted(job);
        self.jobs.iter().filter(|(_, job)| of_period(job)).map(|(id, _)| *id).collect()
    }

    /// Job → those that come after it: by their parents and, for a cascade by data, by the paths that they read.
    fn links(&self, spec: &RerunSpec, among: &BTreeSet<JobId>) -> Links<'_> {
        let mut links = Cow::Borrowed(&self.children);
        if matches!(spec.scope, RerunScope::Rerun { cascade: Cascade::Data, .. }) {
            for (id, readers) in self.may_be_read(among, spec.from) {
                links.to_mut().entry(id).or_default().extend(readers);
            }
        }
        links
    }

    /// With versions, and how many of the others come after each.
    fn planned_jobs(&self, order: &[JobId], links: &Links<'_>) -> Vec<PlannedJob> {
        let places: BTreeMap<JobId, usize> = order.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let words = order.len().div_ceil(64);
        let mut after: Vec<Vec<u64>> = vec![Vec::new(); order.len()];
        for (at, id) in order.iter().enumerate().rev() {
            let mut own = vec![0_u64; words];
            let children = links.get(id).into_iter().flatten();
            for child in children.filter_map(|child| places.get(child)) {
                own[child / 64] |= 1 << (child % 64);
                for (mine, theirs) in own.iter_mut().zip(&after[*child]) {
                    *mine |= theirs;
                }
            }
            after[at] = own;
        }
        let touches = |at: usize| after[at].iter().map(|word| word.count_ones()).sum();
        let version = |id: &JobId| self.jobs.get(id).map_or(0, |job| job.definition.version);
        let planned =
            |(at, id): (usize, &JobId)| PlannedJob { job: *id, version: version(id), touches: touches(at) };
        order.iter().enumerate().map(planned).collect()
    }

    /// What is requested by name must fit; what is reached from there is counted as it is asked about.
    fn check_size(&self, spec: &RerunSpec, roots: &[JobId]) -> Result<(), Rejection> {
        let overlay = Overlay::new(self, &[]);
        let mut room = self.room_for_batches();
        for id in roots {
            let Some(grid) = overlay.grid(*id) else {
                if spec.from != spec.to {
                    let name = overlay.name(*id);
                    let rule = format!("job {name} has no schedule, so name one logical time: from = to");
                    return Err(Rejection::field("to", spec.to, rule));
                }
                continue;
            };
            let count = times_within(&grid, spec.from, spec.to).take(room + 1).count();
            room = room.checked_sub(count).ok_or_else(too_many_batches)?;
        }
        Ok(())
    }

    /// Batches that one more plan, or one that grows, can still have.
    pub(super) fn room_for_batches(&self) -> usize {
        let live: usize = self.reruns.live.values().map(Rerun::number_of_batches).sum();
        MAX_BATCHES.min(MAX_LIVE_BATCHES.saturating_sub(live))
    }

    pub(super) fn rerun_requested(&mut self, id: RerunId, spec: &Arc<RerunSpec>, jobs: &[PlannedJob]) {
        self.reruns.minted += 1;
        let places: BTreeMap<JobId, usize> = jobs.iter().enumerate().map(|(at, job)| (job.job, at)).collect();
        let named: BTreeSet<JobId> = match &spec.scope {
            RerunScope::Rerun { jobs, .. } if reaches_on(spec) => jobs.iter().copied().collect(),
            RerunScope::Rerun { .. } | RerunScope::ColdStart { .. } => places.keys().copied().collect(),
        };
        let overlay = Overlay::new(self, &[]);
        let by_data = self.times_by_data(spec, jobs);
        let plan_job = |planned: &PlannedJob| {
            let known = self.jobs.get(&planned.job)?;
            let parents = known.definition.parents.iter();
            let parents: Vec<(usize, Mapping)> =
                parents.filter_map(|parent| Some((*places.get(&parent.job)?, parent.mapping))).collect();
            Some(PlanJob {
                definition: Arc::clone(&known.definition),
                shard: self.shard_of_group(&known.definition.spec.group),
                grid: overlay.grid(planned.job),
                is_named: named.contains(&planned.job),
                enabled: known.enabled,
                parents,
                by_data: by_data
                    .as_ref()
                    .map(|times| times.get(&planned.job).into_iter().flatten().copied().collect()),
                times: Vec::new(),
                told: BTreeMap::new(),
            })
        };
        let jobs: Vec<PlanJob> = jobs.iter().filter_map(plan_job).collect();
        let rerun = Rerun {
            spec: Arc::clone(spec),
            stage: Stage::Planning,
            asked_upto: 0,
            parts: 0,
            open: BTreeSet::new(),
            listing: Listing::default(),
            batches: Vec::new(),
            free: BTreeSet::new(),
            doomed: BTreeSet::new(),
            outstanding: BTreeSet::new(),
            ordered: 0,
            ended: 0,
            unwell: 0,
            settled: 0,
            jobs,
        };
        self.reruns.live.insert(id, rerun);
        self.all_asked(id);
    }
}

fn reached(roots: &[JobId], links: &Children, is_open: impl Fn(&JobId) -> bool) -> BTreeSet<JobId> {
    let mut reached: BTreeSet<JobId> = roots.iter().copied().collect();
    let mut open = roots.to_vec();
    while let Some(id) = open.pop() {
        for child in links.get(&id).into_iter().flatten() {
            if is_open(child) && reached.insert(*child) {
                open.push(*child);
            }
        }
    }
    reached
}

/// Whether it concerns more than the jobs that it names.
pub(super) fn reaches_on(spec: &RerunSpec) -> bool {
    matches!(spec.scope, RerunScope::Rerun { cascade: Cascade::Logic | Cascade::Data, .. })
}

/// Each after those that it comes after; where nothing else says so, by id. What leads round, by paths of other logical
/// times, comes last.
fn in_order(jobs: &BTreeSet<JobId>, links: &Links<'_>) -> Vec<JobId> {
    let mut waits: BTreeMap<JobId, usize> = jobs.iter().map(|id| (*id, 0)).collect();
    for child in jobs.iter().filter_map(|id| links.get(id)).flatten() {
        if let Some(waits) = waits.get_mut(child) {
            *waits += 1;
        }
    }
    let mut free: BTreeSet<JobId> =
        waits.iter().filter(|(_, waits)| **waits == 0).map(|(id, _)| *id).collect();
    let mut order = Vec::with_capacity(jobs.len());
    while let Some(id) = free.pop_first() {
        order.push(id);
        for child in links.get(&id).into_iter().flatten() {
            let Some(waits) = waits.get_mut(child) else { continue };
            *waits -= 1;
            if *waits == 0 {
                free.insert(*child);
            }
        }
    }
    order.extend(waits.into_iter().filter(|(_, waits)| *waits > 0).map(|(id, _)| id));
    order
}

/// The logical times of a grid from `from` to `to`, both included.
pub(super) fn times_within(
    grid: &Timetable,
    from: Timestamp,
    to: Timestamp,
) -> impl Iterator<Item = Timestamp> + '_ {
    let times = std::iter::successors(grid.logical_after(from.previous()), |time| grid.logical_after(*time));
    times.take_while(move |time| *time <= to)
}

pub(super) fn too_many_batches() -> Rejection {
    Rejection::limit("the number of batches of one plan", MAX_BATCHES as u64)
}

fn has_period(job: &Job, period: Period) -> bool {
    job.definition.spec.schedule.as_ref().is_some_and(|schedule| schedule.period == Some(period))
}

fn check_spec(spec: &RerunSpec, now: Timestamp) -> Result<(), Rejection> {
    if spec.to > now {
        return Err(Rejection::field("to", spec.to, format!("must not be after now, {now}")));
    }
    if spec.from > spec.to {
        return Err(Rejection::field("from", spec.from, format!("must not be after to, {}", spec.to)));
    }
    if let Some(reach) = spec.reach.filter(|reach| *reach < spec.to) {
        return Err(Rejection::field("reach", reach, format!("must not be before to, {}", spec.to)));
    }
    if spec.concurrency == 0 || spec.concurrency > bounds::RERUN_CONCURRENCY {
        let rule = format!("must be 1 to {}", bounds::RERUN_CONCURRENCY);
        return Err(Rejection::field("concurrency", spec.concurrency, rule));
    }
    check_bytes("reason", &spec.reason, bounds::REQUEST_REASON_BYTES)?;
    let is_cold = matches!(spec.scope, RerunScope::ColdStart { .. });
    if is_cold && spec.definition == RerunDefinition::Recorded {
        return Err(Rejection::field("definition", "recorded", "a cold start runs today's definitions"));
    }
    Ok(())
}
