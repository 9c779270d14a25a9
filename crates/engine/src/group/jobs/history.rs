//! What became of a job's newest logical times, in full, and when the oldest of them leave.

use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{BatchId, BatchResult, Event, JobDefinition, JobId, Mapping, PartitionEvent, Timestamp};

use crate::group::GroupShard;
use crate::group::generation::generate::Known;
use crate::group::jobs::job::Job;
use crate::group::jobs::kept_texts::Texts;

/// The newest run of each logical time, oldest first. Short, and mostly one entry: a sorted list takes a
/// third of what a tree would.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct History(Vec<(Timestamp, Newest)>);

impl History {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, time: Timestamp) -> Option<&Newest> {
        self.position(time).ok().map(|at| &self.0[at].1)
    }

    pub(crate) fn get_mut(&mut self, time: Timestamp) -> Option<&mut Newest> {
        self.position(time).ok().map(|at| &mut self.0[at].1)
    }

    pub(crate) fn insert(&mut self, time: Timestamp, newest: Newest) {
        match self.position(time) {
            Ok(at) => self.0[at].1 = newest,
            Err(at) => {
                if self.0.is_empty() {
                    self.0.reserve_exact(1);
                }
                self.0.insert(at, (time, newest));
            }
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Timestamp, &Newest)> {
        self.0.iter().map(|(time, newest)| (*time, newest))
    }

    pub(crate) fn last(&self) -> Option<(Timestamp, &Newest)> {
        self.iter().next_back()
    }

    /// The newest logical time of it that is not after `time`.
    pub(crate) fn newest_upto(&self, time: Timestamp) -> Option<Timestamp> {
        let behind = self.0.partition_point(|(known, _)| *known <= time);
        self.0[..behind].last().map(|(time, _)| *time)
    }

    pub(crate) fn take_upto(&mut self, upto: Timestamp) -> impl Iterator<Item = (Timestamp, Newest)> + '_ {
        let behind = self.0.partition_point(|(known, _)| *known <= upto);
        self.0.drain(..behind)
    }

    fn position(&self, time: Timestamp) -> Result<usize, usize> {
        self.0.binary_search_by_key(&time, |(known, _)| *known)
    }
}

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct Newest {
    pub(crate) run: u32,
    pub(crate) batch: BatchId,
    pub(crate) result: Option<BatchResult>,
    pub(crate) parameters: Option<Arc<Texts>>,
    pub(crate) definition: Arc<JobDefinition>,
    /// What its newest attempt passed on.
    pub(crate) values: Option<Arc<Texts>>,
}

impl Newest {
    pub(crate) fn generated(
        (batch, run): (BatchId, u32),
        definition: &Arc<JobDefinition>,
        parameters: Option<Arc<Texts>>,
    ) -> Self {
        Self { run, batch, result: None, parameters, definition: Arc::clone(definition), values: None }
    }
}

impl GroupShard {
    pub(in crate::group) fn history_evicted(&mut self, id: JobId, upto: Timestamp) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        for (time, newest) in job.history.take_upto(upto) {
            job.evicted.add(time, &newest);
        }
        self.drop_spent_trigger();
    }

    /// Before another logical time is added: lets go of the oldest ended ones that no mapping reaches.
    pub(crate) fn evict_history(&self, job: &Job, now: Timestamp) -> Vec<Event> {
        if job.history.len() < 2 * self.sizes.spare_history {
            return Vec::new();
        }
        let keep = self.history_reach(job) + self.sizes.spare_history;
        if job.history.len() < 2 * keep {
            return Vec::new();
        }
        let surplus = job.history.len() - keep;
        let oldest = job.history.iter().take(surplus);
        let ended = oldest.take_while(|(time, newest)| *time <= now && newest.result.is_some());
        let job = job.definition.id;
        let evicted = |(upto, _)| Event::Partition(PartitionEvent::HistoryEvicted { job, upto });
        ended.last().map(evicted).into_iter().collect()
    }

    /// How many logical times back the widest mapping of any child reaches.
    fn history_reach(&self, job: &Job) -> usize {
        let Some((newest, _)) = job.history.last() else { return 0 };
        let own = job.definition.id;
        let reach = |child: &Job, mapping: Mapping| match mapping {
            Mapping::Same | Mapping::Latest => 1,
            Mapping::Offset(n) => usize::from(n) + 1,
            Mapping::All | Mapping::Any => {
                2 * self.times_of(&child.definition, &Known::Here(job), mapping, newest).len() + 1
            }
        };
        let children = job.children.iter().filter_map(|id| self.jobs.get(id)).chain([job]);
        let of_child = |child: &Job| {
            // Found at once among very many parents, each of which asks.
            if child.counts(own) {
                return Some(1);
            }
            let parents = child.definition.parents.iter().filter(|parent| parent.job == own);
            parents.map(|parent| reach(child, parent.mapping)).max()
        };
        children.filter_map(of_child).max().unwrap_or(1)
    }
}
