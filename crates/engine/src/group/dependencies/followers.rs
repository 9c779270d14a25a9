//! Jobs of this shard that are parents in other groups, from this side (DEP-3, GEN-9). The other side is
//! `foreign`, where the picture of both stands.
//!
//! Another shard follows a job, and watches those of its logical times that something waits for there. It is
//! told how a watched time stands at once and at every change of its newest run; and of each batch's generation,
//! where it asked for that, so that children without a schedule get theirs.
//!
//! *Invariant:* what a shard was told differs from what holds only while the outbox to it is full. What it has
//! not been told takes one entry for each time that it watches, and of generations the newest `MAX_UNTOLD` of a job;
//! what is left out is counted, and told.
//!
//! A watch for a time that has left the history finds it nevertheless: what is evicted is remembered
//! exactly, time by time. A deleted job is kept as long as it is followed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidemill_derive::Stored;
use tidemill_model::{
    BatchResult, JobId, ShardId, ShardMessage, Standing, Subscription, SubscriptionEvent, Timestamp,
};

use crate::group::dependencies::foreign::{KNOWN_TIMES, MAX_TIMES};
use crate::group::jobs::kept_texts::Kept;
use crate::group::{GroupShard, times_of};

/// Standings of one message.
const MAX_STANDINGS: usize = 100;
/// Bytes of values in one message after which no further time is put into it.
const MAX_VALUES: usize = 64 * 1024;
/// Generations of one job that one shard can be behind: as many as are caught up with after an outage (GEN-9).
const MAX_UNTOLD: usize = 1_000;

/// What other shards want to hear of this one's jobs.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Followers {
    follows: BTreeMap<JobId, BTreeMap<ShardId, Subscription>>,
    /// Watched times, by whom, and what was said last.
    watches: BTreeMap<(JobId, Timestamp), BTreeMap<ShardId, Option<Standing>>>,
    untold: BTreeMap<ShardId, Untold>,
}

/// What a shard is still to be told.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
struct Untold {
    /// Jobs whose newest times it does not know.
    known: BTreeSet<JobId>,
    generations: BTreeMap<JobId, Generations>,
    standings: BTreeSet<(JobId, Timestamp)>,
}

#[derive(Debug, Clone, Default, PartialEq, Stored)]
struct Generations {
    times: VecDeque<Timestamp>,
    left_out: u64,
}

impl Followers {
    /// Whether the shard is still to be told which logical times there are of a job that it follows.
    pub(crate) fn is_behind(&self, to: ShardId) -> bool {
        self.untold.get(&to).is_some_and(|untold| !untold.known.is_empty())
    }

    pub(crate) fn is_watched(&self, job: JobId, time: Timestamp) -> bool {
        self.watches.contains_key(&(job, time))
    }

    pub(crate) fn watched(&self, job: JobId, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        self.watches.range((job, from)..(job, to)).map(|((_, time), _)| *time).collect()
    }

    /// Whether some other shard may still ask or hear about the job.
    pub(crate) fn concern(&self, job: JobId) -> bool {
        self.follows.contains_key(&job) || self.watches.range(times_of(job)).next().is_some()
    }

    /// Shards that want to hear of each batch of the job.
    fn told_of_generations(&self, job: JobId) -> Vec<ShardId> {
        let follows = self.follows.get(&job).into_iter().flatten();
        follows.filter(|(_, what)| **what == Subscription::Generations).map(|(shard, _)| *shard).collect()
    }
}

impl GroupShard {
    pub(in crate::group) fn apply_subscription(&mut self, event: &SubscriptionEvent) {
        let followers = &mut self.dependencies.followers;
        match event {
            SubscriptionEvent::ParentSubscribed { job, by, what } => {
                let (job, by, what) = (*job, *by, *what);
                let follows = followers.follows.entry(job).or_default();
                let before = follows.insert(by, what);
                if what == Subscription::Nothing {
                    follows.remove(&by);
                    if follows.is_empty() {
                        followers.follows.remove(&job);
                    }
                }
                let untold = followers.untold.entry(by).or_default();
                if what != Subscription::Generations {
                    untold.known.remove(&job);
                    untold.generations.remove(&job);
                } else if before != Some(Subscription::Generations) {
                    untold.known.insert(job);
                }
                self.tell_shard(by);
                self.forget_unfollowed(job);
            }
            SubscriptionEvent::ParentTimesSubscribed { job, by, times } => {
                for key in times.iter().map(|time| (*job, *time)) {
                    followers.watches.entry(key).or_default().insert(*by, None);
                    followers.untold.entry(*by).or_default().standings.insert(key);
                }
                self.tell_shard(*by);
            }
            SubscriptionEvent::ParentTimesUnsubscribed { job, by, times } => {
                for key in times.iter().map(|time| (*job, *time)) {
                    if let Some(watches) = followers.watches.get_mut(&key) {
                        watches.remove(by);
                        if watches.is_empty() {
                            followers.watches.remove(&key);
                        }
                    }
                    if let Some(untold) = followers.untold.get_mut(by) {
                        untold.standings.remove(&key);
                    }
                }
                self.forget_unfollowed(*job);
            }
        }
    }

    fn forget_unfollowed(&mut self, job: JobId) {
        if self.jobs.get(&job).is_some_and(|job| job.removed) {
            self.forget_removed(job);
        }
    }

    /// The newest run of (job, time) is another one, or ended: other shards that watch it are told.
    pub(crate) fn tell_watchers(&mut self, job: JobId, time: Timestamp) {
        let Some(watches) = self.dependencies.followers.watches.get(&(job, time)) else { return };
        let shards: Vec<ShardId> = watches.keys().copied().collect();
        for shard in shards {
            self.dependencies.followers.untold.entry(shard).or_default().standings.insert((job, time));
            self.tell_shard(shard);
        }
    }

    /// The job has come from another group: who asked for it before is told what there is.
    pub(crate) fn tell_of_taken(&mut self, job: JobId) {
        for shard in self.dependencies.followers.told_of_generations(job) {
            self.dependencies.followers.untold.entry(shard).or_default().known.insert(job);
            self.tell_shard(shard);
        }
        let watched = self.dependencies.followers.watches.range(times_of(job));
        for (job, time) in watched.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.tell_watchers(job, time);
        }
    }

    pub(crate) fn tell_followers(&mut self, job: JobId, time: Timestamp) {
        for shard in self.dependencies.followers.told_of_generations(job) {
            let untold = self.dependencies.followers.untold.entry(shard).or_default();
            let generations = untold.generations.entry(job).or_default();
            generations.times.push_back(time);
            if generations.times.len() > MAX_UNTOLD {
                generations.times.pop_front();
                generations.left_out += 1;
            }
            self.tell_shard(shard);
        }
    }

    /// Tells another shard what is left to tell, as far as there is room.
    pub(crate) fn tell_shard(&mut self, to: ShardId) {
        let Some(mut untold) = self.dependencies.followers.untold.remove(&to) else { return };
        while self.mailbox.room(to) > 0 {
            let message = if let Some(job) = untold.known.pop_first() {
                self.known_times(job)
            } else if let Some((job, Generations { mut times, left_out })) = untold.generations.pop_first() {
                let later = times.split_off(times.len().min(MAX_TIMES));
                if !later.is_empty() {
                    untold.generations.insert(job, Generations { times: later, left_out: 0 });
                }
                Some(ShardMessage::Generated { job, times: times.into(), left_out })
            } else if let Some((job, _)) = untold.standings.first().copied() {
                self.next_standings(to, job, &mut untold.standings)
            } else {
                return;
            };
            if let Some(message) = message {
                self.mailbox.send(to, message);
            }
        }
        if untold != Untold::default() {
            self.dependencies.followers.untold.insert(to, untold);
        }
    }

    fn known_times(&self, id: JobId) -> Option<ShardMessage> {
        let job = self.jobs.get(&id)?;
        let newest = job.newest_upto(Timestamp::MAX);
        let before = |time: &Timestamp| job.newest_upto(time.previous());
        let mut times: Vec<Timestamp> = std::iter::successors(newest, before).take(KNOWN_TIMES).collect();
        times.reverse();
        (!times.is_empty()).then_some(ShardMessage::Known { job: id, times })
    }

    fn next_standings(
        &mut self,
        to: ShardId,
        job: JobId,
        open: &mut BTreeSet<(JobId, Timestamp)>,
    ) -> Option<ShardMessage> {
        let (mut standings, mut bytes) = (Vec::new(), 0);
        while standings.len() < MAX_STANDINGS
            && bytes < MAX_VALUES
            && let Some(key @ (of, time)) = open.first().copied()
            && of == job
        {
            open.remove(&key);
            let standing = self.standing(job, time, to);
            let watch =
                self.dependencies.followers.watches.get_mut(&key).and_then(|watches| watches.get_mut(&to));
            if let Some(said) = watch
                && said.as_ref() != Some(&standing)
                && !(said.is_some() && planted!(RerunNotToldToOtherGroups))
            {
                bytes += standing.values.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
                *said = Some(standing.clone());
                standings.push(standing);
            }
        }
        (!standings.is_empty()).then_some(ShardMessage::Stands { job, standings })
    }

    /// How a logical time of a job of this shard stands.
    fn standing(&self, id: JobId, time: Timestamp, to: ShardId) -> Standing {
        let removed = self.jobs.get(&id).filter(|job| job.removed && !planted!(WaitsForSkipped));
        let newest = self.jobs.get(&id).and_then(|job| job.newest_run(time));
        let result = newest.and_then(|newest| newest.result);
        // What it passed on counts once it has ended.
        let passed_on = newest.filter(|newest| newest.result.is_some()).map(|newest| newest.values);
        Standing {
            logical_time: time,
            succeeded: result.is_some_and(BatchResult::satisfies),
            run: newest.map(|newest| newest.number),
            batch: newest.and_then(|newest| newest.batch),
            result,
            skipped: removed.map_or_else(|| self.is_skipped(id, time), |job| job.was_skipped(time, to)),
            deleted: removed.is_some_and(|job| job.orphaned_in.contains(&to)),
            blocked: self.is_blocked(id, time),
            values: passed_on.and_then(Kept::texts).cloned().unwrap_or_default(),
            values_dropped: passed_on == Some(Kept::Dropped),
        }
    }
}
