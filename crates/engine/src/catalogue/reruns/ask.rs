//! Which logical times a plan has, and what the shards have for them.

use std::collections::BTreeMap;

use tidemill_model::{
    Event, JobSkip, Mapping, Rejection, ReportedRun, RerunDefinition, RerunEvent, RerunId, RerunOnly,
    RerunOrder, RerunScope, RunsQuery, ShardId, ShardMessage, SkippedJob, SkippedTimes, TimesSkip, Timestamp,
};

use super::spec::{reaches_on, times_within, too_many_batches};
use super::{CHUNK, MAX_BATCHES, PlanJob, Rerun, Stage, refused};
use crate::catalogue::Catalogue;
use crate::schedule::{required_times, same_grid};

pub(super) const MAX_OPEN: usize = 16;
/// For each of its parents, a job is looked at for so many of its logical times.
const MAX_LOOKED: usize = 200_000;
/// Of a job's logical times behind the reach, so many are looked at.
const LOOK_BEYOND: usize = 32;

impl Catalogue {
    /// The next questions: as many logical times as one decision takes, by shard.
    pub(super) fn ask_more(&self, id: RerunId, rerun: &Rerun) -> Vec<Event> {
        let mut asked: BTreeMap<Option<ShardId>, Vec<RunsQuery>> = BTreeMap::new();
        let (mut room, mut at) = (CHUNK, rerun.asked_upto);
        let mut fresh: BTreeMap<usize, Vec<Timestamp>> = BTreeMap::new();
        let mut left = self.room_for_batches().min(MAX_BATCHES.saturating_sub(rerun.number_of_batches()));
        while room > 0 && at < rerun.jobs.len() {
            let job = &rerun.jobs[at];
            // Whether all fit is looked at with the first of them; after that, only the next ones are needed.
            let most = if job.times.is_empty() { left } else { room };
            let all = match rerun.times_of(at, &fresh, most) {
                Ok(all) => all,
                Err(rejection) => return refused(id, rejection.to_string()),
            };
            let last = job.times.last();
            let times = &all[last.map_or(0, |last| all.partition_point(|time| time <= last))..];
            if times.len() > left {
                return refused(id, too_many_batches().to_string());
            }
            let now = times[..room.min(times.len())].to_vec();
            let is_whole = now.len() == times.len();
            room -= now.len();
            left -= now.len();
            if !now.is_empty() {
                let query = RunsQuery { job: job.definition.id, times: now };
                asked.entry(job.shard).or_default().push(query);
            }
            if !is_whole {
                break;
            }
            fresh.insert(at, all);
            at += 1;
        }
        let upto = u32::try_from(at).unwrap_or(u32::MAX);
        if asked.is_empty() {
            asked.insert(None, Vec::new());
        }
        let parts = asked.into_iter().zip(rerun.parts + 1..).map(|((shard, asked), part)| {
            let shard = shard.unwrap_or(ShardId::CATALOGUE);
            Event::Rerun(RerunEvent::RunsQueried { rerun: id, part, shard, asked, upto })
        });
        parts.collect()
    }

    pub(super) fn runs_queried(&mut self, event: &RerunEvent) {
        let RerunEvent::RunsQueried { rerun: id, part, shard, asked, upto } = event else {
            return;
        };
        let Some(rerun) = self.reruns.live.get_mut(id) else { return };
        rerun.parts = *part;
        rerun.asked_upto = *upto as usize;
        let places = rerun.places();
        for runs in asked {
            if let Some(at) = places.get(&runs.job) {
                rerun.jobs[*at].times.extend(&runs.times);
            }
        }
        if *shard != ShardId::CATALOGUE {
            rerun.open.insert(*part);
            let message = ShardMessage::QueryRuns { rerun: *id, part: *part, asked: asked.clone() };
            self.mailbox.send(*shard, message);
        }
        self.all_asked(*id);
    }

    pub(super) fn runs_received(&mut self, id: RerunId, part: u32, runs: &[ReportedRun]) {
        let Some(rerun) = self.reruns.live.get_mut(&id) else { return };
        rerun.open.remove(&part);
        let places = rerun.places();
        for run in runs {
            if let Some(at) = places.get(&run.job) {
                rerun.jobs[*at].told.insert(run.logical_time, run.clone());
            }
        }
        self.all_asked(id);
    }

    /// Once everything was asked and answered, it is known what the plan holds, and in which order.
    pub(super) fn all_asked(&mut self, id: RerunId) {
        let Some(rerun) = self.reruns.live.get_mut(&id) else { return };
        if rerun.stage != Stage::Planning || rerun.asked_upto < rerun.jobs.len() || !rerun.open.is_empty() {
            return;
        }
        rerun.listing.ready = true;
        rerun.listing.skips = rerun.skips();
        let mut order: Vec<(usize, Timestamp)> = Vec::new();
        for (at, job) in rerun.jobs.iter().enumerate() {
            let left_out = rerun.listing.skips.iter().any(|skip| skip.job == job.definition.id);
            if !left_out {
                order
                    .extend(job.times.iter().filter(|time| rerun.wants(job, **time)).map(|time| (at, *time)));
            }
        }
        match rerun.spec.order {
            RerunOrder::Oldest => order.sort_by_key(|(at, time)| (*time, *at)),
            RerunOrder::Newest => order.sort_by_key(|(at, time)| (std::cmp::Reverse(*time), *at)),
        }
        rerun.listing.fault = rerun.unknown_definition(&order);
        rerun.listing.numbers = order.iter().zip(1..).map(|(place, number)| (*place, number)).collect();
        rerun.listing.order = order;
        rerun.listing.written = rerun.written();
        rerun.listing.left_out = rerun.times_left_out();
        let circle = rerun.circle();
        rerun.listing.fault = rerun.listing.fault.take().or(circle);
    }
}

impl Rerun {
    /// All logical times of a job of the plan, oldest first. Those of its parents are known. Of a job whose times follow from
    /// its schedule alone, those that were asked for and a few more than the next `most`: to compute all of them for every
    /// part is quadratic.
    fn times_of(
        &self,
        at: usize,
        fresh: &BTreeMap<usize, Vec<Timestamp>>,
        most: usize,
    ) -> Result<Vec<Timestamp>, Rejection> {
        let job = &self.jobs[at];
        let by_schedule =
            job.by_data.is_none() && job.is_named && job.parents.iter().all(|(parent, _)| *parent == at);
        if let Some(grid) = job.grid.as_ref().filter(|_| by_schedule) {
            let from = job.times.last().map_or(self.spec.from, |behind| behind.next());
            let mut times = job.times.clone();
            times.extend(times_within(grid, from, self.spec.to).take(most.saturating_add(1)));
            return Ok(times);
        }
        if let Some(times) = &job.by_data {
            return Ok(times.clone());
        }
        let mut times: Vec<Timestamp> = Vec::new();
        if job.is_named {
            match &job.grid {
                Some(grid) => times.extend(times_within(grid, self.spec.from, self.spec.to)),
                None => times.push(self.spec.from),
            }
        }
        if !job.is_named || job.parents.iter().any(|(parent, _)| *parent != at) {
            for (parent, mapping) in job.parents.iter().filter(|(parent, _)| *parent != at) {
                let of_parent = fresh.get(parent).unwrap_or(&self.jobs[*parent].times);
                times.extend(self.reached_from(job, &self.jobs[*parent], *mapping, of_parent)?);
            }
        }
        times.sort_unstable();
        times.dedup();
        Ok(times)
    }

    /// The logical times of `job`, as far as the request reaches, that wait for one of its parent's.
    fn reached_from(
        &self,
        job: &PlanJob,
        parent: &PlanJob,
        mapping: Mapping,
        of_parent: &[Timestamp],
    ) -> Result<Vec<Timestamp>, Rejection> {
        let (Some(own), Some(grid)) = (&job.grid, &parent.grid) else {
            return Ok(of_parent.to_vec());
        };
        if mapping == Mapping::Same {
            let is_one = same_grid(own, grid);
            let on_grid = |time: &Timestamp| is_one || own.logical_at_or_before(*time) == Some(*time);
            return Ok(of_parent.iter().copied().filter(on_grid).collect());
        }
        let (Some(first), Some(last)) = (of_parent.first(), of_parent.last()) else { return Ok(Vec::new()) };
        let within = times_within(own, *first, self.spec.reach.unwrap_or(self.spec.to));
        let mut waiting = Vec::new();
        for (looked, time) in within.enumerate() {
            if looked == MAX_LOOKED {
                let name = job.definition.full_name();
                let what = format!(
                    "the number of logical times of {name} that one plan looks at (shorten the span, or the reach)"
                );
                return Err(Rejection::limit(what, MAX_LOOKED as u64));
            }
            let wanted = required_times(own, grid, mapping, time).unwrap_or_default();
            // A later time never waits for an earlier one of its parent: from here on all wait for what comes after its last.
            if time > *last && wanted.first().is_none_or(|wanted| wanted > last) {
                break;
            }
            if wanted.iter().any(|time| of_parent.binary_search(time).is_ok()) {
                waiting.push(time);
            }
        }
        Ok(waiting)
    }

    /// Whether a logical time is among those that are requested.
    fn wants(&self, job: &PlanJob, time: Timestamp) -> bool {
        let told = job.told.get(&time);
        match self.spec.only {
            RerunOnly::All => true,
            RerunOnly::Missing => told.is_none(),
            RerunOnly::Failed => {
                let result = told.and_then(|told| told.result);
                result.is_some_and(|result| !result.satisfies())
            }
        }
    }

    /// GEN-6: what depends on rerun batches, and is later than a cascade reaches, or depends on the job's own past only.
    /// Looked for among the next few logical times of each job.
    fn times_left_out(&self) -> Vec<SkippedTimes> {
        let Some(reach) = self.spec.reach.filter(|_| reaches_on(&self.spec)) else { return Vec::new() };
        let is_skipped = |job: &PlanJob| self.listing.skips.iter().any(|skip| skip.job == job.definition.id);
        let left_out = |at: usize| {
            let job = &self.jobs[at];
            let grid = job.grid.as_ref().filter(|_| !is_skipped(job))?;
            let of = |from: Timestamp, reason| SkippedTimes { job: job.definition.id, from, reason };
            let beyond = times_within(grid, reach, Timestamp::MAX).filter(|time| *time > reach);
            if let Some(from) = beyond.take(LOOK_BEYOND).find(|time| self.depends(at, *time)) {
                return Some(of(from, TimesSkip::BeyondReach));
            }
            let last = *job.times.last()?;
            let next = grid.logical_after(last).filter(|next| *next <= reach)?;
            let own_past = job.parents.iter().filter(|(parent, _)| *parent == at);
            let mut waits = own_past.flat_map(|(_, mapping)| self.waited_for(at, at, *mapping, next));
            waits.any(|time| time == last).then(|| of(next, TimesSkip::OwnPast))
        };
        (0..self.jobs.len()).filter_map(left_out).collect()
    }

    /// Whether a batch that is not planned waits for one that is, of another job, or reads what one makes.
    fn depends(&self, at: usize, time: Timestamp) -> bool {
        let planned = |parent: usize, time: &Timestamp| self.listing.numbers.contains_key(&(parent, *time));
        let mut parents = self.jobs[at].parents.iter().filter(|(parent, _)| *parent != at);
        let by_logic = self.jobs[at].by_data.is_none()
            && parents.any(|(parent, mapping)| {
                self.waited_for(at, *parent, *mapping, time).iter().any(|time| planned(*parent, time))
            });
        by_logic || self.makers(at, time).next().is_some()
    }

    fn skips(&self) -> Vec<SkippedJob> {
        let is_cold = matches!(self.spec.scope, RerunScope::ColdStart { .. });
        let skip = |job: &PlanJob| {
            // DSP-1: what is named is rerun though it is disabled; a cold start is for enabled jobs.
            if !job.enabled && (is_cold || !job.is_named) {
                return Some(JobSkip::Disabled);
            }
            let unfinished = job.told.iter().filter(|_| is_cold).find(|(_, told)| told.result.is_none());
            let (time, told) = unfinished?;
            Some(JobSkip::Unfinished { batch: told.batch?, logical_time: *time })
        };
        let skipped = |job: &PlanJob| Some(SkippedJob { job: job.definition.id, reason: skip(job)? });
        self.jobs.iter().filter_map(skipped).collect()
    }

    /// BYD-3: what was recorded can be run only as long as it is known.
    fn unknown_definition(&self, order: &[(usize, Timestamp)]) -> Option<String> {
        if self.spec.definition == RerunDefinition::Today {
            return None;
        }
        let is_unknown = |(at, time): &&(usize, Timestamp)| {
            self.jobs[*at].told.get(time).is_some_and(|told| told.version.is_none())
        };
        let (at, time) = order.iter().find(is_unknown)?;
        let name = self.jobs[*at].definition.full_name();
        Some(format!(
            "the definition that {name} had for {time} is not kept any more; run it with today's definition"
        ))
    }
}
