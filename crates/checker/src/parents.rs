//! Whom the catalogue has to tell of a job as a parent in another group: a second view of the graph, with the jobs that are
//! deleted though others name them as parent.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidemill_model::{Firing, ForeignParent, JobDefinition, JobId, OrphanedChildren, ScheduleSpec, ShardId};

use crate::Invariant;
use crate::findings::{At, Findings, Place};

/// The definitions, as far as that depends on them.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    jobs: HashMap<JobId, Defined>,
    children: HashMap<JobId, BTreeSet<JobId>>,
    /// Deleted ones that others name, with the name that the record has, and where they ran.
    deleted: HashMap<JobId, (String, Option<ShardId>)>,
    /// Those deleted without a record. Children may be deleted or defined anew with it, a little later.
    unrecorded: HashMap<JobId, Place>,
    /// A large apply is being carried out.
    pub(crate) is_applying: bool,
}

const RULE: Invariant = Invariant::DeletedParentsOnRecord;

#[derive(Debug)]
struct Defined {
    name: String,
    shard: ShardId,
    schedule: Option<ScheduleSpec>,
    firing: Option<Firing>,
    parents: Vec<JobId>,
    /// Its logical times may be others than those of the version before.
    is_other: bool,
    /// It has another name than the version before.
    is_renamed: bool,
}

impl Parents {
    pub(crate) fn define(&mut self, definition: &JobDefinition, shard: ShardId) {
        let id = definition.id;
        let all = definition.parents.iter().map(|parent| parent.job);
        let mut new = Defined {
            name: definition.full_name(),
            shard,
            schedule: definition.spec.schedule_spec(),
            firing: definition.spec.firing(),
            parents: all.filter(|parent| *parent != id).collect(),
            is_other: true,
            is_renamed: false,
        };
        if let Some(old) = self.jobs.get(&id) {
            new.is_other = old.schedule != new.schedule
                || old.firing != new.firing
                || new.schedule.is_none() && old.parents.first() != new.parents.first();
            new.is_renamed = old.name != new.name;
        }
        self.unlink(id);
        for parent in &new.parents {
            self.children.entry(*parent).or_default().insert(id);
        }
        self.jobs.insert(id, new);
    }

    /// `deleted_parents_on_record`: there are as many children at least; more where some are deleted in the same step.
    pub(crate) fn deletion_recorded(
        &mut self,
        at: &At<'_>,
        (parent, shard): (JobId, Option<ShardId>),
        (name, children): (&str, &[OrphanedChildren]),
    ) {
        let known = self.shards_naming(parent);
        let wrong = children.iter().find(|of| known.get(&of.shard).is_none_or(|known| *known < of.jobs));
        if let Some(of) = wrong {
            let why =
                format!("{} jobs of shard {} are said to name {parent}, and fewer do", of.jobs, of.shard);
            at.breaks(RULE, why);
        }
        if children.is_empty() {
            at.breaks(RULE, format!("{parent} is said to be a parent of no job"));
        }
        self.deleted.insert(parent, (name.to_owned(), shard));
    }

    pub(crate) fn delete(&mut self, at: &At<'_>, id: JobId) {
        if !self.deleted.contains_key(&id) {
            self.unrecorded.insert(id, at.place());
        }
        self.unlink(id);
        self.jobs.remove(&id);
    }

    /// The name of a deleted job that some definition still names.
    pub(crate) fn named_though_deleted(&self, parent: JobId) -> Option<&str> {
        let (name, _) = self.deleted.get(&parent)?;
        (!self.shards_naming(parent).is_empty()).then_some(name)
    }

    /// Where a deleted job ran that was named then.
    pub(crate) fn shard_of_deleted(&self, parent: JobId) -> Option<ShardId> {
        self.deleted.get(&parent).and_then(|(_, shard)| *shard)
    }

    pub(crate) fn finish(&self, found: &Findings) {
        for (job, place) in self.unrecorded.iter().filter(|_| !self.is_applying) {
            let named: u32 = self.shards_naming(*job).into_values().sum();
            if named > 0 {
                let why = format!("job {job} is deleted without a record of the {named} jobs that name it");
                found.breaks(RULE, *place, why);
            }
        }
    }

    /// The parents that a job names.
    pub(crate) fn of(&self, id: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.get(&id).into_iter().flat_map(|job| job.parents.iter().copied())
    }

    /// The parents that a job names and no other job does.
    pub(crate) fn named_only_by(&self, id: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.of(id).filter(move |parent| {
            self.children.get(parent).is_none_or(|all| all.iter().all(|child| *child == id))
        })
    }

    /// The shards of the jobs that name one, and how many there are in each.
    fn shards_naming(&self, parent: JobId) -> BTreeMap<ShardId, u32> {
        let mut shards = BTreeMap::new();
        for child in self.children.get(&parent).into_iter().flatten().filter_map(|child| self.jobs.get(child))
        {
            *shards.entry(child.shard).or_default() += 1;
        }
        shards
    }

    fn unlink(&mut self, id: JobId) {
        for parent in self.jobs.get(&id).map(|job| job.parents.clone()).unwrap_or_default() {
            if let Some(children) = self.children.get_mut(&parent) {
                children.remove(&id);
            }
        }
    }

    /// The known parents of a job that run elsewhere, in its order.
    pub(crate) fn named_by(&self, id: JobId) -> Option<Vec<ForeignParent>> {
        let job = self.jobs.get(&id)?;
        Some(job.parents.iter().filter_map(|parent| self.as_seen_from(*parent, job.shard)).collect())
    }

    /// After a definition: which shards have to hear of which parents.
    pub(crate) fn changed_with(&self, id: JobId) -> BTreeMap<ShardId, Vec<ForeignParent>> {
        let mut told: BTreeMap<ShardId, Vec<ForeignParent>> = BTreeMap::new();
        let Some(job) = self.jobs.get(&id).filter(|job| job.is_other || job.is_renamed) else { return told };
        let is_other = job.is_other;
        let mut concerned = vec![id];
        let mut seen = BTreeSet::from([id]);
        while let Some(id) = concerned.pop() {
            let children = self.children.get(&id).into_iter().flatten();
            let known: Vec<(JobId, &Defined)> =
                children.filter_map(|child| Some((*child, self.jobs.get(child)?))).collect();
            for shard in known.iter().map(|(_, child)| child.shard).collect::<BTreeSet<_>>() {
                told.entry(shard).or_default().extend(self.as_seen_from(id, shard));
            }
            let takes_times = |child: &Defined| is_other && child.schedule.is_none();
            let heirs = known.iter().filter(|(_, child)| takes_times(child)).map(|(id, _)| *id);
            concerned.extend(heirs.filter(|child| seen.insert(*child)));
        }
        told.retain(|_, parents| !parents.is_empty());
        told
    }

    /// After a move: what everybody else hears of where the job is.
    pub(crate) fn moved(&self, id: JobId, to: ShardId) -> Option<ForeignParent> {
        Some(ForeignParent { moved: true, ..self.as_seen_from(id, to)? })
    }

    fn as_seen_from(&self, id: JobId, shard: ShardId) -> Option<ForeignParent> {
        let job = self.jobs.get(&id).filter(|job| job.shard != shard)?;
        let mut line = id;
        // No line of ancestors is longer than all jobs.
        let grid = (0..=self.jobs.len()).find_map(|_| {
            let job = self.jobs.get(&line)?;
            let found = job.schedule.clone().map(|schedule| (schedule, job.firing.clone()));
            line = job.parents.first().copied().unwrap_or(line);
            found
        });
        let (schedule, firing) = grid.map_or((None, None), |(schedule, firing)| (Some(schedule), firing));
        let (name, shard, moved) = (job.name.clone(), job.shard, false);
        Some(ForeignParent { job: id, name, shard, schedule, firing, moved })
    }
}
