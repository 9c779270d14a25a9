//! Jobs that are parents in other groups: what their shard says of them against what other shards hear. Only all
//! partitions together show it, so it is gathered, and judged in the end.
//!
//! ```text
//!  parent's journal   none ── run 0 ── run 0 success ── run 1 ── run 1 success      the life of one time
//!                          ▲ watched                                       ▲ unwatched
//!  child's journal            run 0             run 1 ── run 1 success              in that order, up to the end
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidemill_model::{
    AttemptEvent, BatchEvent, BatchId, Event, JobId, PartitionEvent, Recorded, ReplicationEvent,
    ScheduleEvent, ShardId, Standing, Subscription, SubscriptionEvent, Timestamp, TransferEvent,
};

use crate::Invariant;
use crate::findings::{At, Findings, Place};
use crate::requests::fingerprint;
use crate::shard::{Shard, Stand};

/// An owner holds nothing back before so many messages to one shard wait.
const LANE: u64 = 256;

/// A logical time of a job, as one other shard knows it.
type ExternalDependency = (JobId, Timestamp, ShardId);

/// All jobs with children in other groups.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    /// What the watched times of jobs went through, in their own journals, from the first watch on.
    lives: HashMap<(JobId, Timestamp), Life>,
    watches: BTreeMap<ExternalDependency, Watch>,
    heard: BTreeMap<ExternalDependency, Vec<(Stand, Place)>>,
    /// What the last attempt of a batch passed on, and what others heard of it, as fingerprints.
    passed: HashMap<BatchId, u64>,
    heard_passed: Vec<(BatchId, u64, Place)>,
    /// By whom jobs are followed, and in which shard.
    follows: BTreeMap<(JobId, ShardId, ShardId), (Subscription, Place)>,
    generated: BTreeMap<ExternalDependency, Owed>,
    parent_generations_received: BTreeMap<ExternalDependency, (u64, Place)>,
    /// Which shards wait for what, and which were told of a job as a parent, by their own journals.
    waits: BTreeSet<ExternalDependency>,
    told: BTreeSet<(JobId, ShardId)>,
    /// Shards that were told of fewer generations than there were, and know it.
    left_out: BTreeSet<(JobId, ShardId)>,
    /// From one shard to another, the last number that was received, and the last that was acknowledged.
    lanes: BTreeMap<(ShardId, ShardId), (u64, u64)>,
}

/// By the version with which the job came to the shard that tells it; 0: it was defined there.
type Life = BTreeMap<u32, Vec<Stand>>;

#[derive(Debug)]
struct Watch {
    tenure: u32,
    /// Where the life stood when it ended; `None`: it lasts.
    closed: Option<usize>,
    /// It began after the job was deleted, of which its owner may have kept nothing.
    is_late: bool,
    owed: Owed,
}

/// What a shard has to hear of another.
#[derive(Debug)]
struct Owed {
    from: ShardId,
    times: u64,
    place: Place,
    /// What the receiver had acknowledged then.
    acknowledged: u64,
}

impl Foreign {
    /// Takes in an event that `shard` has just applied. `ended`: what batch ended with it.
    pub(crate) fn event(
        &mut self,
        at: &At<'_>,
        recorded: &Recorded,
        ended: Option<(JobId, Timestamp)>,
        shard: &Shard,
    ) {
        let id = recorded.shard;
        if let Some((job, time)) = ended {
            self.changed(job, time, shard);
        }
        self.skips_changed(&recorded.event, shard);
        match &recorded.event {
            Event::Partition(PartitionEvent::MessageReceived { from, number }) => {
                self.lanes.entry((*from, id)).or_default().0 = *number
            }
            Event::Partition(PartitionEvent::OutboxAcknowledged { to, upto }) => {
                self.lanes.entry((id, *to)).or_default().1 = *upto
            }
            Event::Replication(ReplicationEvent::ParentsReplicated { parents }) => {
                self.told.extend(parents.iter().map(|parent| (parent.job, id)));
            }
            Event::Batch(BatchEvent::Generated { job, logical_time, dependencies, rerun, .. }) => {
                self.changed(*job, *logical_time, shard);
                if rerun.is_none() {
                    self.owe_generation(at, id, *job, *logical_time);
                }
                for dependency in dependencies.iter().filter(|it| shard.is_elsewhere(it.parent)) {
                    self.waits.extend(dependency.times.iter().map(|time| (dependency.parent, *time, id)));
                }
            }
            Event::Subscription(event) => self.subscription_event(at, id, event, shard),
            Event::Transfer(TransferEvent::JobAttached { definition, .. }) => {
                self.watches_before(definition.id, id, shard);
            }
            Event::Replication(ReplicationEvent::ParentStatusUpdated { parent, standings }) => {
                for standing in standings {
                    let heard = self.heard.entry((*parent, standing.logical_time, id)).or_default();
                    heard.push((said(standing), at.place()));
                    if let Some(batch) = standing.batch.filter(|_| standing.has_ended()) {
                        self.heard_passed.push((batch, fingerprint(&standing.values), at.place()));
                    }
                }
            }
            Event::Attempt(AttemptEvent::Finished { batch, outcome, .. }) => {
                if outcome.values.is_empty() {
                    self.passed.remove(batch);
                } else {
                    self.passed.insert(*batch, fingerprint(&outcome.values));
                }
            }
            Event::Replication(ReplicationEvent::ParentGenerationsReceived { parent, times, left_out }) => {
                for time in times {
                    let heard = self.parent_generations_received.entry((*parent, *time, id));
                    heard.or_insert((0, at.place())).0 += 1;
                }
                if *left_out > 0 {
                    self.left_out.insert((*parent, id));
                }
            }
            _ => {}
        }
    }

    fn subscription_event(&mut self, at: &At<'_>, id: ShardId, event: &SubscriptionEvent, shard: &Shard) {
        match event {
            SubscriptionEvent::ParentSubscribed { job, by, what } => {
                self.follows.insert((*job, id, *by), (*what, at.place()));
            }
            SubscriptionEvent::ParentTimesSubscribed { job, by, times } => {
                let tenure = shard.tenure(*job);
                for time in times {
                    let life = self.lives.entry((*job, *time)).or_default().entry(tenure).or_default();
                    if life.is_empty() {
                        life.push(shard.stand(*job, *time));
                    }
                    let is_late = shard.is_removed(*job);
                    let watch = Watch { tenure, closed: None, is_late, owed: self.owed(at, id, *by) };
                    self.watch((*job, *time, *by), watch);
                }
            }
            SubscriptionEvent::ParentTimesUnsubscribed { job, by, times } => {
                let tenure = shard.tenure(*job);
                for time in times {
                    let life = self.lives.get(&(*job, *time)).and_then(|life| life.get(&tenure));
                    let stands = life.map_or(0, Vec::len);
                    let (key, closed) = ((*job, *time, *by), stands.checked_sub(1));
                    let is_late = self.watches.get(&key).is_some_and(|watch| watch.is_late);
                    let watch = Watch { tenure, closed, is_late, owed: self.owed(at, id, *by) };
                    self.watch(key, watch);
                }
            }
        }
    }

    /// Watches of a job that came before the job itself came to the shard.
    fn watches_before(&mut self, job: JobId, id: ShardId, shard: &Shard) {
        let tenure = shard.tenure(job);
        let of_job = self.watches.range_mut((job, Timestamp::MIN, ShardId::CATALOGUE)..);
        let of_job = of_job.take_while(|((of, _, _), _)| *of == job);
        for ((_, time, _), watch) in of_job {
            if watch.owed.from == id && watch.tenure < tenure && watch.closed.is_none() {
                watch.tenure = tenure;
                let life = self.lives.entry((job, *time)).or_default().entry(tenure).or_default();
                if life.is_empty() {
                    life.push(shard.stand(job, *time));
                }
            }
        }
    }

    /// What moves the next fire of one job decides what is skipped, of that one and of those that follow it.
    fn skips_changed(&mut self, event: &Event, shard: &Shard) {
        let moved = match event {
            Event::Batch(BatchEvent::Generated { job, .. })
            | Event::Schedule(ScheduleEvent::Skipped { job, .. } | ScheduleEvent::Rescheduled { job, .. })
            | Event::Replication(
                ReplicationEvent::JobSwitchReplicated { job, .. } | ReplicationEvent::JobDropped { job, .. },
            ) => *job,
            Event::Replication(ReplicationEvent::JobReplicated { definition, .. })
            | Event::Transfer(TransferEvent::JobAttached { definition, .. }) => definition.id,
            _ => return,
        };
        let keys = self.lives.keys().filter(|(job, _)| *job == moved || shard.inherits_times(*job));
        for (job, time) in keys.copied().collect::<Vec<_>>() {
            self.changed(job, time, shard);
        }
    }

    /// Partitions are read one after another, so one of a later tenure may stand there already.
    fn watch(&mut self, external_dependency: ExternalDependency, watch: Watch) {
        if self.watches.get(&external_dependency).is_none_or(|known| known.tenure <= watch.tenure) {
            self.watches.insert(external_dependency, watch);
        }
    }

    fn changed(&mut self, job: JobId, time: Timestamp, shard: &Shard) {
        let life = self.lives.get_mut(&(job, time));
        if let Some(life) = life.and_then(|life| life.get_mut(&shard.tenure(job))) {
            let stand = shard.stand(job, time);
            if life.last() != Some(&stand) {
                life.push(stand);
            }
        }
    }

    /// Whoever follows the job is to hear of a generation.
    fn owe_generation(&mut self, at: &At<'_>, from: ShardId, job: JobId, time: Timestamp) {
        let of_job = self.follows.range((job, from, ShardId::CATALOGUE)..=(job, from, ShardId::MAX));
        let by =
            of_job.filter(|(_, (what, _))| *what == Subscription::Generations).map(|((_, _, by), _)| *by);
        for by in by.collect::<Vec<_>>() {
            let owed = self.owed(at, from, by);
            self.generated.entry((job, time, by)).or_insert(owed).times += 1;
        }
    }

    fn owed(&self, at: &At<'_>, from: ShardId, to: ShardId) -> Owed {
        let acknowledged = self.lanes.get(&(from, to)).map_or(0, |(_, acknowledged)| *acknowledged);
        Owed { from, times: 0, place: at.place(), acknowledged }
    }

    /// What only all partitions together show. `at_rest`: nothing is on its way any more.
    pub(crate) fn finish(&self, at_rest: bool, found: &Findings) {
        self.was_wanted(found);
        let nothing = fingerprint(&BTreeMap::<String, String>::new());
        for (batch, heard, place) in &self.heard_passed {
            if *heard != self.passed.get(batch).copied().unwrap_or(nothing) {
                let why = format!("batch {batch} is heard with other values than its last attempt passed on");
                found.breaks(Invariant::HeardOfOtherGroupsWasSo, *place, why);
            }
        }
        for ((job, time, by), heard) in &self.heard {
            let life = self.lives.get(&(*job, *time));
            let life: Vec<Stand> =
                life.into_iter().flat_map(|life| life.values().flatten().copied()).collect();
            let mut reached = 0;
            let is_late = self.watches.get(&(*job, *time, *by)).is_some_and(|watch| watch.is_late);
            for (stand, place) in heard.iter().filter(|(stand, _)| !is_late || stand.run.is_some()) {
                match life[reached..].iter().position(|lived| lived.agrees(stand)) {
                    Some(further) => reached += further,
                    None => {
                        let why = format!(
                            "shard {by} hears that {job} for {time} {stand}, which its own journal does not say there"
                        );
                        found.breaks(Invariant::HeardOfOtherGroupsWasSo, *place, why);
                    }
                }
            }
        }
        for ((job, time, by), (times, place)) in &self.parent_generations_received {
            let said = self.generated.get(&(*job, *time, *by)).map_or(0, |owed| owed.times);
            if *times > said {
                let why = format!(
                    "shard {by} hears {times} times that {job} got a batch for {time}, and was told {said} times"
                );
                found.breaks(Invariant::HeardOfOtherGroupsWasSo, *place, why);
            }
        }
        if at_rest {
            self.all_was_heard(found);
        }
    }

    /// Nobody is followed or watched by a shard that has nothing there that wants it.
    fn was_wanted(&self, found: &Findings) {
        let rule = Invariant::HeardOfOtherGroupsWasSo;
        let was_told = |job: &JobId, by: &ShardId| self.told.contains(&(*job, *by));
        for ((job, _, by), (_, place)) in self.follows.iter().filter(|((job, _, by), _)| !was_told(job, by)) {
            found.breaks(rule, *place, format!("shard {by} follows {job}, which is no parent there"));
        }
        for ((job, time, by), watch) in
            self.watches.iter().filter(|(external_dependency, _)| !self.waits.contains(external_dependency))
        {
            let why = format!("shard {by} watches {job} for {time}, and nothing there waits for it");
            found.breaks(rule, watch.owed.place, why);
        }
    }

    /// `watches_answered`
    fn all_was_heard(&self, found: &Findings) {
        let rule = Invariant::WatchesAnswered;
        for (external_dependency @ (job, time, by), watch) in
            self.watches.iter().filter(|(_, it)| !it.is_late)
        {
            let Some(lives) = self.lives.get(&(*job, *time)) else { continue };
            let before: usize = lives.range(..watch.tenure).map(|(_, life)| life.len()).sum();
            let Some(own) = lives.get(&watch.tenure).filter(|own| !own.is_empty()) else { continue };
            let last = before + watch.closed.unwrap_or(own.len() - 1);
            let life: Vec<Stand> = lives.values().flatten().copied().collect();
            let heard =
                self.heard.get(external_dependency).and_then(|heard| heard.last()).map(|(stand, _)| stand);
            let reached = heard.and_then(|heard| life.iter().rposition(|stand| stand.agrees(heard)));
            if reached.is_none_or(|reached| reached < last) && !self.may_be_behind(*by, &watch.owed) {
                let why = format!("shard {by} has not heard that {job} for {time} {}", life[last]);
                found.breaks(rule, watch.owed.place, why);
            }
        }
        for (external_dependency @ (job, time, by), owed) in &self.generated {
            let heard =
                self.parent_generations_received.get(external_dependency).map_or(0, |(times, _)| *times);
            let knows = self.left_out.contains(&(*job, *by));
            if heard < owed.times && !knows && !self.may_be_behind(*by, owed) {
                let why = format!("shard {by} has not heard that {job} got a batch for {time}");
                found.breaks(rule, owed.place, why);
            }
        }
    }

    /// So much was on its way that what is not wanted any more may never have been said.
    fn may_be_behind(&self, to: ShardId, owed: &Owed) -> bool {
        let received = self.lanes.get(&(owed.from, to)).map_or(0, |(received, _)| *received);
        received.saturating_sub(owed.acknowledged) >= LANE
    }
}

/// What a shard hears, in the words of the parent's journal.
fn said(standing: &Standing) -> Stand {
    Stand {
        run: standing.run,
        ended: standing.has_ended(),
        succeeded: standing.succeeded,
        skipped: Some(standing.skipped),
        blocked: standing.blocked,
    }
}
