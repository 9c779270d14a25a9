//! Whom the catalogue told of a change, for those who wait until it is in effect everywhere (JOB-5, BYD-17).
//!
//! Messages to a shard arrive in order, so a shard that has recorded the last one of now has recorded all that the
//! change made the catalogue say. What a shard that runs children then says to the shards of their parents, it
//! says itself; which those are follows from the graph.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{Concerned, GroupName, JobId, LiveAnswer, NotifiedShard, ShardId};

use super::Catalogue;

/// Shards, and those of the parents that each follows.
type Follows = BTreeMap<ShardId, BTreeSet<ShardId>>;

impl Catalogue {
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

    fn shard_of_group(&self, group: &GroupName) -> Option<ShardId> {
        self.groups.get(group).map(|group| group.shard)
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
