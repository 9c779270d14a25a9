//! What the catalogue sends: each of its events that is a message, or brings some.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_model::{
    ApplyEvent, CalendarUse, CatalogueEvent, DeletionEvent, Event, ForeignParent, GroupName, JobDefinition,
    JobEvent, JobId, LevelEvent, ObservationEvent, Parent, PermitEvent, Pool, ReplicationEvent, RerunEvent,
    ShardId,
};

use super::says::{parent_deleted, says};
use super::{Half, Messages};
use crate::At;
use crate::requests::fingerprint;

/// Parents that one message tells of.
const PARENTS_OF_A_MESSAGE: usize = 50;

impl Messages {
    /// Notes what an event of the catalogue sends. `None` of a job: it is not known where it runs.
    pub(crate) fn sends(&mut self, at: &At<'_>, event: &Event) {
        self.moves.decided(at, event, (&self.jobs, &self.groups));
        match event {
            Event::Catalogue(of) => self.sends_of_catalogue(at, (event, of)),
            Event::Level(LevelEvent::Raised { .. }) => {
                self.level = says(event);
                self.send_all(at, event);
            }
            Event::Job(of) => self.sends_of_jobs(at, (event, of)),
            Event::Observation(of) => self.sends_of_observations(at, (event, of)),
            Event::Permit(PermitEvent::Granted { to, .. }) => self.send(at, *to, says(event)),
            Event::Apply(ApplyEvent::Committed { .. }) => self.parents.is_applying = true,
            Event::Apply(ApplyEvent::Finished { .. }) => self.parents.is_applying = false,
            Event::Deletion(DeletionEvent::UnfinishedQueried { jobs, .. }) => {
                let asked = jobs.iter().filter_map(|job| self.jobs.get(job).copied());
                self.send_each(at, asked.collect::<BTreeSet<_>>(), event);
            }
            event => self.sends_of_reruns(at, event),
        }
    }

    fn sends_of_catalogue(&mut self, at: &At<'_>, (event, of): (&Event, &CatalogueEvent)) {
        match of {
            CatalogueEvent::GroupDefined { name, shard, settings, .. } => {
                self.send_to_group(at, event, (name, *shard), settings.limits.is_some());
            }
            CatalogueEvent::CalendarDefined { calendar } => {
                let known = self.calendars.entry(calendar.spec.name.clone());
                let (newest, shards) = known.or_insert_with(|| (Arc::clone(calendar), BTreeSet::new()));
                *newest = Arc::clone(calendar);
                let shards = shards.clone();
                self.send_each(at, shards, event);
            }
            CatalogueEvent::CalendarDeleted { name } => {
                let shards = self.calendars.remove(name).map(|(_, shards)| shards);
                self.send_each(at, shards.unwrap_or_default(), event);
            }
            CatalogueEvent::PoolDefined { pool } => {
                self.pools.insert(pool.spec.name.clone(), Arc::clone(pool));
                self.send_of_pool(at, pool, event);
            }
            CatalogueEvent::PoolDeleted { name } => {
                if let Some(pool) = self.pools.remove(name) {
                    self.send_of_pool(at, &pool, event);
                }
            }
            CatalogueEvent::FreezeSet { group: Some(group), .. }
            | CatalogueEvent::FreezeLifted { group: Some(group), .. } => {
                self.send_each(at, self.groups.get(group).copied(), event);
            }
            CatalogueEvent::FreezeSet { group: None, .. }
            | CatalogueEvent::FreezeLifted { group: None, .. } => {
                self.frozen = says(event)
                    .filter(|_| matches!(event, Event::Catalogue(CatalogueEvent::FreezeSet { .. })));
                self.send_all(at, event);
            }
            _ => self.sends_of_pulls(at, (event, of)),
        }
    }

    /// A group hears its bounds, and where it is new, what all groups have heard before: the level before its bounds where these
    /// have limits, which are of a level themselves.
    fn send_to_group(
        &mut self,
        at: &At<'_>,
        event: &Event,
        (name, shard): (&GroupName, ShardId),
        has_limits: bool,
    ) {
        let is_new = self.groups.insert(name.clone(), shard).is_none();
        let level = self.level.filter(|_| is_new);
        if has_limits {
            level.into_iter().for_each(|level| self.send(at, shard, Some(level)));
        }
        self.send(at, shard, says(event));
        if !has_limits {
            level.into_iter().for_each(|level| self.send(at, shard, Some(level)));
        }
        if let Some(frozen) = self.frozen.filter(|_| is_new) {
            self.send(at, shard, Some(frozen));
        }
        let shared = self.pools.values().filter(|pool| is_new && pool.spec.group.is_none());
        for pool in shared.cloned().collect::<Vec<_>>() {
            self.send_copy(at, shard, ReplicationEvent::PoolReplicated { pool });
        }
        for template in self.templates.values().filter(|_| is_new).cloned().collect::<Vec<_>>() {
            self.send_copy(at, shard, ReplicationEvent::TemplateReplicated { template });
        }
    }

    fn sends_of_jobs(&mut self, at: &At<'_>, (event, of): (&Event, &JobEvent)) {
        match of {
            JobEvent::Defined { definition, .. } => self.send_definition(at, event, definition, false),
            JobEvent::Moved { definition, .. } => self.send_definition(at, event, definition, true),
            JobEvent::MoveRequested { from, .. } => self.send(at, *from, says(event)),
            JobEvent::Enabled { job } | JobEvent::Disabled { job } => {
                self.send_each(at, self.jobs.get(job).copied(), event);
            }
            JobEvent::ParentDeleted { parent, name, children } => {
                let shard = self.jobs.get(parent).copied();
                self.parents.deletion_recorded(at, (*parent, shard), (name, children));
                self.send_each(at, children.iter().map(|of| of.shard), event);
            }
            JobEvent::Deleted { job } => {
                self.send_releases(at, *job, &[]);
                self.parents.delete(at, *job);
                let to = self.jobs.remove(job);
                self.send_each(at, to, event);
            }
            JobEvent::Cancelled { shard, .. } => self.send(at, *shard, says(event)),
            _ => {}
        }
    }

    fn send_definition(&mut self, at: &At<'_>, event: &Event, definition: &JobDefinition, is_moved: bool) {
        let Some(to) = self.groups.get(&definition.spec.group).copied() else { return };
        let before = self.jobs.insert(definition.id, to);
        if let Some(from) = before.filter(|from| *from != to && !is_moved) {
            self.send(at, from, says(&Event::Job(JobEvent::Deleted { job: definition.id })));
        }
        for parent in self.parents.of(definition.id).filter(|_| is_moved).collect::<Vec<_>>() {
            let says = self.parents.named_though_deleted(parent).map(|name| parent_deleted(parent, name));
            if says.is_some() {
                self.send(at, to, says);
            }
        }
        self.send_releases(at, definition.id, &definition.parents);
        self.send_calendar(at, definition.spec.calendar.as_ref(), to);
        self.parents.define(definition, to);
        if let Some(parents) = self.parents.named_by(definition.id) {
            self.send_parents(at, to, &parents);
        }
        self.send(at, to, says(event));
        for code in &definition.spec.third_party {
            for _ in 0..self.reports.told_to(&code.as_str().into(), to) {
                self.send(at, to, None);
            }
        }
        for (to, parents) in self.parents.changed_with(definition.id) {
            self.send_parents(at, to, &parents);
        }
        for to in self.groups.values().copied().filter(|_| is_moved).collect::<BTreeSet<_>>() {
            if let Some(parent) = self.parents.moved(definition.id, to) {
                self.send_copy(at, to, ReplicationEvent::ParentsReplicated { parents: vec![parent] });
            }
        }
    }

    /// The shard of a deleted job hears when the last definition that names it names others, or is gone.
    fn send_releases(&mut self, at: &At<'_>, job: JobId, now: &[Parent]) {
        let left: Vec<JobId> = self.parents.named_only_by(job).collect();
        for parent in left.into_iter().filter(|left| now.iter().all(|parent| parent.job != *left)) {
            if let Some(to) = self.parents.shard_of_deleted(parent) {
                self.send_copy(at, to, ReplicationEvent::ParentReleased { parent });
            }
        }
    }

    fn sends_of_observations(&mut self, at: &At<'_>, (event, of): (&Event, &ObservationEvent)) {
        match of {
            ObservationEvent::ThirdPartyReported { report, .. } => {
                let key = (Arc::clone(&report.code), report.logical_time);
                if report.ready {
                    self.reports.ready.insert(key, at.now);
                } else {
                    self.reports.ready.remove(&key);
                }
                for to in self.reports.listeners.get(&report.code).cloned().unwrap_or_default() {
                    self.send(at, to, None);
                }
            }
            ObservationEvent::ThirdPartyEvicted { upto, .. } => {
                self.reports.ready.retain(|_, at| *at > *upto)
            }
            ObservationEvent::ProbesRequested { batch: None, .. } => self.send_all(at, event),
            _ => {}
        }
    }

    fn sends_of_pulls(&mut self, at: &At<'_>, (event, of): (&Event, &CatalogueEvent)) {
        self.user_groups.decided(at, event, &self.groups);
        match of {
            CatalogueEvent::TemplateDefined { template } => {
                self.templates.insert(template.spec.name.clone(), Arc::clone(template));
                self.send_all(at, event);
            }
            CatalogueEvent::TemplateDeleted { name } => {
                self.templates.remove(name);
                self.send_all(at, event);
            }
            CatalogueEvent::UsersAssigned { shard: to, .. }
            | CatalogueEvent::UserMoveRequested { from: to, .. }
            | CatalogueEvent::UserMoved { shard: Some(to), .. } => self.send(at, *to, says(event)),
            _ => {}
        }
    }

    /// The same to every group.
    fn send_all(&mut self, at: &At<'_>, event: &Event) {
        let groups: BTreeSet<ShardId> = self.groups.values().copied().collect();
        self.send_each(at, groups, event);
    }

    fn send_each(&mut self, at: &At<'_>, shards: impl IntoIterator<Item = ShardId>, event: &Event) {
        for to in shards {
            self.send(at, to, says(event));
        }
    }

    /// What one shard hears that others have heard before.
    fn send_copy(&mut self, at: &At<'_>, to: ShardId, copy: ReplicationEvent) {
        self.send(at, to, says(&Event::Replication(copy)));
    }

    fn sends_of_reruns(&mut self, at: &At<'_>, event: &Event) {
        match event {
            Event::Rerun(RerunEvent::Requested { rerun, jobs, .. }) => {
                let shard = |job: &JobId| Some((*job, *self.jobs.get(job)?));
                let shards = jobs.iter().filter_map(|job| shard(&job.job)).collect();
                self.reruns.insert(*rerun, (shards, BTreeMap::new()));
            }
            Event::Rerun(RerunEvent::RunsQueried { shard, asked, .. }) if !asked.is_empty() => {
                self.send(at, *shard, says(event));
            }
            Event::Rerun(RerunEvent::RunsRequested { rerun, runs }) => {
                for run in runs {
                    let Some((shards, out)) = self.reruns.get_mut(rerun) else { return };
                    let Some(to) = shards.get(&run.job).copied() else { continue };
                    out.insert(run.number, to);
                    let turn = fingerprint(&("turn", rerun, run.number, run.job, run.logical_time));
                    self.send(at, to, Some(turn));
                }
            }
            Event::Rerun(RerunEvent::RunFinished { place, .. }) => {
                if let Some((_, out)) = self.reruns.get_mut(&place.rerun) {
                    out.remove(&place.number);
                }
            }
            Event::Rerun(RerunEvent::Cancelled { rerun, kill: true, .. }) => {
                let out = self.reruns.get(rerun).map(|(_, out)| out.clone()).unwrap_or_default();
                for to in out.into_values() {
                    self.send(at, to, None);
                }
            }
            Event::Rerun(RerunEvent::Finished { rerun, .. }) => {
                self.reruns.remove(rerun);
            }
            _ => {}
        }
    }

    fn send_parents(&mut self, at: &At<'_>, to: ShardId, parents: &[ForeignParent]) {
        for firing in parents.iter().filter_map(|parent| parent.firing.as_ref()) {
            self.send_calendar(at, firing.calendar.as_ref(), to);
        }
        for parents in parents.chunks(PARENTS_OF_A_MESSAGE) {
            self.send_copy(at, to, ReplicationEvent::ParentsReplicated { parents: parents.to_vec() });
        }
    }

    /// A shard gets a calendar before the first job that uses it.
    fn send_calendar(&mut self, at: &At<'_>, used: Option<&CalendarUse>, to: ShardId) {
        let Some(used) = used else { return };
        let Some((calendar, shards)) = self.calendars.get_mut(&used.name) else { return };
        if shards.insert(to) {
            let calendar = Arc::clone(calendar);
            self.send_copy(at, to, ReplicationEvent::CalendarReplicated { calendar });
        }
    }

    fn send_of_pool(&mut self, at: &At<'_>, pool: &Pool, event: &Event) {
        let concerned =
            self.groups.iter().filter(|(name, _)| pool.spec.group.as_ref().is_none_or(|of| of == *name));
        self.send_each(at, concerned.map(|(_, shard)| *shard).collect::<Vec<_>>(), event);
    }

    fn send(&mut self, at: &At<'_>, to: ShardId, says: Option<u64>) {
        let lane = self.lanes.entry((ShardId::CATALOGUE, to)).or_default();
        lane.sent += 1;
        let number = lane.sent;
        lane.pair(number, Half { says, place: at.place() }, at);
    }
}
