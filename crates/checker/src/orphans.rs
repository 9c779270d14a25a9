//! Jobs that are deleted though others name them as parent.

use std::collections::HashMap;

use tidemill_model::{ApplyEvent, Event, JobId, OrphanedChildren, ShardId};

use crate::Invariant;
use crate::at::At;
use crate::findings::{Findings, Place};
use crate::parents::Parents;

const RULE: Invariant = Invariant::DeletedParentsOnRecord;

/// Deletions, and what is on record of the children.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    /// With the name that the record has, and where it ran.
    recorded: HashMap<JobId, (String, Option<ShardId>)>,
    /// Without a record. Children may be deleted or defined anew with it, a little later.
    unrecorded: HashMap<JobId, Place>,
    /// A large apply is being carried out.
    is_applying: bool,
}

impl Orphans {
    /// `deleted_parents_on_record`: there are as many children at least; more where some are deleted in the same step.
    pub(crate) fn recorded(
        &mut self,
        at: &At<'_>,
        (parent, shard): (JobId, Option<ShardId>),
        (name, children): (&str, &[OrphanedChildren]),
        parents: &Parents,
    ) {
        let known = parents.shards_naming(parent);
        let wrong = children.iter().find(|of| known.get(&of.shard).is_none_or(|known| *known < of.jobs));
        if let Some(of) = wrong {
            let why =
                format!("{} jobs of shard {} are said to name {parent}, and fewer do", of.jobs, of.shard);
            at.breaks(RULE, why);
        }
        if children.is_empty() {
            at.breaks(RULE, format!("{parent} is said to be a parent of no job"));
        }
        self.recorded.insert(parent, (name.to_owned(), shard));
    }

    pub(crate) fn deleted(&mut self, at: &At<'_>, job: JobId) {
        if !self.recorded.contains_key(&job) {
            self.unrecorded.insert(job, at.place());
        }
    }

    pub(crate) fn applying(&mut self, event: &Event) {
        self.is_applying = matches!(event, Event::Apply(ApplyEvent::Committed { .. }));
    }

    /// The name of a deleted job that some definition still names.
    pub(crate) fn named(&self, parent: JobId, parents: &Parents) -> Option<&str> {
        let (name, _) = self.recorded.get(&parent)?;
        (!parents.shards_naming(parent).is_empty()).then_some(name)
    }

    /// Where a deleted job ran that was named then.
    pub(crate) fn shard_of(&self, parent: JobId) -> Option<ShardId> {
        self.recorded.get(&parent).and_then(|(_, shard)| *shard)
    }

    pub(crate) fn finish(&self, parents: &Parents, found: &Findings) {
        for (job, place) in self.unrecorded.iter().filter(|_| !self.is_applying) {
            let named: u32 = parents.shards_naming(*job).into_values().sum();
            if named > 0 {
                let why = format!("job {job} is deleted without a record of the {named} jobs that name it");
                found.breaks(RULE, *place, why);
            }
        }
    }
}
