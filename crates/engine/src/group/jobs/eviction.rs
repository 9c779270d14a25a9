//! When the oldest logical times of a job leave its history.

use crate::group::GroupShard;
use crate::group::generation::generate::Known;
use crate::group::jobs::job::Job;
use tidemill_model::{Event, Mapping, PartitionEvent, Timestamp};

impl GroupShard {
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
        let upto = ended.map(|(time, _)| time).last();
        upto.map(|upto| Event::Partition(PartitionEvent::HistoryEvicted { job: job.definition.id, upto }))
            .into_iter()
            .collect()
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
