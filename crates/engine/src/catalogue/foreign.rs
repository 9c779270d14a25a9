//! Parents in other groups (DEP-3, GEN-9): whom the catalogue tells what.
//!
//! A shard that runs children of another group's job has to know that job as a parent: where it runs, and the
//! grid of its logical times, which may be that of an ancestor in yet another group. It is told before every
//! child that names the parent, and again whenever the grid changes. What the two shards then have to do with
//! each other they settle between themselves.
//!
//! Those who wait until a change is in effect everywhere (JOB-5, BYD-17) hear whom the catalogue told of it. Messages to a
//! shard arrive in order, so a shard that has recorded the last one of now has recorded all that the change made the
//! catalogue say. What a shard that runs children then says to the shards of their parents, it says itself.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{
    Concerned, ForeignParent, JobDefinition, JobId, JobSpec, LiveAnswer, NotifiedShard, ShardId, ShardMessage,
};

use super::Catalogue;

/// Parents that one message tells of.
const MAX_TOLD: usize = 50;

/// Shards, and those of the parents that each follows.
type Follows = BTreeMap<ShardId, BTreeSet<ShardId>>;

impl Catalogue {
    /// Before a definition goes to its shard: what it names of other groups.
    pub(super) fn tell_foreign_parents(&mut self, to: ShardId, definition: &JobDefinition) {
        let foreign = definition.other_parents().filter_map(|parent| self.as_foreign(parent, to)).collect();
        self.send_parents(to, foreign);
    }

    /// After a definition came or changed: its children in other groups, and those of every job that takes its
    /// logical times from it, hear of it.
    pub(super) fn tell_foreign_children(&mut self, id: JobId, old: Option<&JobDefinition>) {
        let Some(new) = self.jobs.get(&id).map(|job| job.definition.as_ref()) else { return };
        let is_same = |old: &JobDefinition| {
            old.spec.schedule == new.spec.schedule
                && old.spec.firing() == new.spec.firing()
                && (new.spec.schedule.is_some() || old.other_parents().next() == new.other_parents().next())
        };
        let keeps_times = old.is_some_and(is_same);
        if keeps_times && old.is_some_and(|old| old.spec.name == new.spec.name) {
            return;
        }
        let mut told: BTreeMap<ShardId, Vec<ForeignParent>> = BTreeMap::new();
        let mut seen = BTreeSet::from([id]);
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let children: Vec<JobId> = self.children.get(&id).into_iter().flatten().copied().collect();
            let shards: BTreeSet<ShardId> =
                children.iter().filter_map(|child| self.shard_of(*child)).collect();
            for shard in shards {
                if let Some(parent) = self.as_foreign(id, shard) {
                    told.entry(shard).or_default().push(parent);
                }
            }
            // A new name concerns those only that name the job.
            let passes_on = |child: &JobId| {
                !keeps_times && self.jobs.get(child).is_some_and(|job| job.definition.spec.schedule.is_none())
            };
            open.extend(children.into_iter().filter(|child| passes_on(child) && seen.insert(*child)));
        }
        for (shard, parents) in told {
            self.send_parents(shard, parents);
        }
    }

    /// After a job came from another group: a batch of any group may still wait for it where it was, or ask there.
    pub(super) fn tell_everybody_where(&mut self, id: JobId) {
        let own = self.shard_of(id);
        let others = self.groups.values().map(|group| group.shard).filter(|shard| Some(*shard) != own);
        for to in others.collect::<BTreeSet<_>>() {
            if let Some(parent) = self.as_foreign(id, to) {
                let parents = vec![ForeignParent { moved: true, ..parent }];
                self.mailbox.send(to, ShardMessage::Parents { parents });
            }
        }
    }

    fn send_parents(&mut self, to: ShardId, parents: Vec<ForeignParent>) {
        for firing in parents.iter().filter_map(|parent| parent.firing.as_ref()) {
            self.send_calendar(to, firing.calendar.as_ref());
        }
        for parents in parents.chunks(MAX_TOLD) {
            self.mailbox.send(to, ShardMessage::Parents { parents: parents.to_vec() });
        }
    }

    /// The job as shards other than its own know it.
    fn as_foreign(&self, id: JobId, to: ShardId) -> Option<ForeignParent> {
        let shard = self.shard_of(id).filter(|shard| *shard != to)?;
        let name = self.jobs.get(&id)?.definition.full_name();
        let grid = self.grid_of(id).map(|definition| &definition.spec);
        let (schedule, firing) = (grid.and_then(JobSpec::schedule_spec), grid.and_then(JobSpec::firing));
        Some(ForeignParent { job: id, name, shard, schedule, firing, moved: false })
    }

    /// The job whose schedule gives it its logical times: itself, or its nearest ancestor that has one.
    fn grid_of(&self, id: JobId) -> Option<&JobDefinition> {
        let mut next = Some(id);
        // In a graph without a cycle no line of ancestors is longer.
        for _ in 0..=self.jobs.len() {
            let definition = &self.jobs.get(&next?)?.definition;
            if definition.spec.schedule.is_some() {
                return Some(definition);
            }
            next = definition.other_parents().next();
        }
        None
    }

    /// The shards concerned, each with the number of the last message to it.
    pub(crate) fn told(&self, concerned: &Concerned) -> LiveAnswer {
        let follows = match concerned {
            Concerned::Definitions { jobs, groups } => {
                let mut follows = alone(groups.iter().filter_map(|group| self.shard_of_group(group)));
                for job in jobs {
                    self.follows_parents(*job, &mut follows);
                }
                self.followed_by_children(jobs, &mut follows);
                follows
            }
            Concerned::Group(group) => alone(self.shard_of_group(group)),
            Concerned::Everyone => alone(self.groups.values().map(|group| group.shard)),
            Concerned::Calendar(name) => alone(self.calendars.shards(name)),
        };
        let shards = follows.into_iter().map(|(shard, parents)| NotifiedShard {
            shard,
            upto: self.mailbox.sent(shard),
            parents: parents.into_iter().collect(),
        });
        LiveAnswer::Notified { shards: shards.collect() }
    }

    fn follows_parents(&self, job: JobId, follows: &mut Follows) {
        let (Some(shard), Some(known)) = (self.shard_of(job), self.jobs.get(&job)) else { return };
        let parents = known.definition.parents.iter().filter_map(|parent| self.shard_of(parent.job));
        follows.entry(shard).or_default().extend(parents.filter(|parent| *parent != shard));
    }

    /// Children in other groups hear of a job, and of every job that takes its logical times from it.
    fn followed_by_children(&self, jobs: &[JobId], follows: &mut Follows) {
        let mut seen: BTreeSet<JobId> = jobs.iter().copied().collect();
        let mut open: Vec<JobId> = jobs.to_vec();
        while let Some(job) = open.pop() {
            let Some(own) = self.shard_of(job) else { continue };
            for child in self.children.get(&job).into_iter().flatten() {
                let Some(known) = self.jobs.get(child) else { continue };
                if let Some(shard) = self.shard_of(*child).filter(|shard| *shard != own) {
                    follows.entry(shard).or_default().insert(own);
                }
                if known.definition.spec.schedule.is_none() && seen.insert(*child) {
                    open.push(*child);
                }
            }
        }
    }
}

/// Shards that have nobody to tell in turn.
fn alone(shards: impl IntoIterator<Item = ShardId>) -> Follows {
    shards.into_iter().map(|shard| (shard, BTreeSet::new())).collect()
}
