//! Parents in other groups, from the side of their children (DEP-3, GEN-9). The other side is `followers`.
//!
//! ```text
//!  catalogue ─ Parents ─► this shard ─ Follow, Watch, Unwatch ─► the parent's shard
//!                                    ◄─ Stands, Generated, Known ─
//! ```
//!
//! The catalogue tells where a parent runs and on which grid. From the first child on this shard *follows* the
//! parent, and *watches* each of its logical times from the first batch that waits for it to the last one. What it
//! hears of a time counts as a local parent's newest run does: waiters are told one by one, a ready or assigned
//! batch goes back to waiting, a running one runs on.
//!
//! *Invariant:* for each parent and each time the state holds what is wanted and what was said. They differ only
//! while the outbox to that shard is full, so a shard that nobody owns makes this one no larger than what waits.
//!
//! What may cross what:
//! - *The child comes before its parent's definition*: only where both are new and the child was staged first. Its
//!   batch waits for its own logical time, as for a local parent that is not known, and watches it once the parent
//!   is known.
//! - *A rerun of the parent while a batch here is ready or assigned*: it hears `Stands` without success and waits
//!   again. Started between the two, it runs on: what it read was right when it was read.
//! - *A time that was let go of and is watched again*: answers to the first watch may still be on their way. They are
//!   in order, so the answer to the second is the last.
//! - *A message twice*: the numbered outbox lets each in once. What is said of a time that nobody waits for any more
//!   changes nothing.
//! - *The parent is deleted*: only after its children were, or point elsewhere. Its shard keeps what it knows of the
//!   parent until this one follows it no more, and this one follows it as long as a batch waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_calendar::{Days, Timetable};
use tidemill_derive::Stored;
use tidemill_model::{
    Dependency, ForeignParent, JobId, ShardId, ShardMessage, Standing, Subscription, Timestamp,
};

use crate::group::dependencies::Dependencies;
use crate::group::generation::generated::Trigger;
use crate::group::jobs::job::FormerNames;
use crate::group::{GroupShard, times_of};

/// Logical times of one message.
pub(super) const MAX_TIMES: usize = 500;
/// Newest logical times that are kept of a parent, and that a new follower is told.
pub(super) const KNOWN_TIMES: usize = 64;

/// What the shard knows of other groups.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Foreign {
    pub(super) parents: BTreeMap<JobId, ForeignJob>,
    /// Times that batches wait for, or waited for and the parent's shard does not know it yet.
    times: BTreeMap<(JobId, Timestamp), Watched>,
    unsaid: BTreeMap<ShardId, Unsaid>,
}

#[derive(Debug, Clone, PartialEq, Stored)]
pub(crate) struct ForeignJob {
    /// As `group/name`.
    pub(crate) name: String,
    pub(crate) former_names: FormerNames,
    shard: ShardId,
    /// What gives it its logical times.
    pub(crate) schedule: Option<Arc<Timetable>>,
    pub(crate) children: BTreeSet<JobId>,
    /// Its first child here is on its way.
    expected: bool,
    /// What its shard was told that this one wants to hear.
    said: Subscription,
    /// Its newest logical times, as far as this shard was told.
    known: BTreeSet<Timestamp>,
}

impl ForeignJob {
    /// The newest logical time that is not after `time`, of those this shard was told.
    pub(crate) fn newest_upto(&self, time: Timestamp) -> Option<Timestamp> {
        self.known.range(..=time).next_back().copied()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Stored)]
struct Watched {
    /// Some batch waits for it.
    wanted: bool,
    /// The parent's shard was told so.
    said: bool,
    /// What it answered last.
    standing: Option<Standing>,
}

/// What another shard should hear, if it still holds when there is room for it.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
struct Unsaid {
    follow: BTreeSet<JobId>,
    watch: BTreeSet<(JobId, Timestamp)>,
}

impl Unsaid {
    fn forget(&mut self, job: JobId) {
        self.follow.remove(&job);
        self.watch.retain(|(of, _)| *of != job);
    }
}

impl Foreign {
    pub(crate) fn get(&self, parent: JobId) -> Option<&ForeignJob> {
        self.parents.get(&parent)
    }

    /// How a time stands, as its shard last said.
    pub(crate) fn standing(&self, parent: JobId, time: Timestamp) -> Option<&Standing> {
        self.times.get(&(parent, time))?.standing.as_ref()
    }

    /// Whether the shard is still to be told what this one wants to hear of its jobs.
    pub(crate) fn is_behind(&self, to: ShardId) -> bool {
        self.unsaid.get(&to).is_some_and(|unsaid| !unsaid.follow.is_empty())
    }

    fn shard_of(&self, parent: JobId) -> Option<ShardId> {
        self.parents.get(&parent).map(|parent| parent.shard)
    }

    fn is_awaited(&self, parent: JobId) -> bool {
        self.times.range(times_of(parent)).any(|(_, it)| it.wanted)
    }
}

impl Dependencies {
    /// A job of this shard names a parent; whether that is one of another group.
    pub(in crate::group) fn join_foreign(&mut self, parent: JobId, child: JobId) -> bool {
        let Some(known) = self.foreign.parents.get_mut(&parent) else { return false };
        known.expected = false;
        known.children.insert(child);
        true
    }

    /// It names the parent no more; whether that is one of another group.
    pub(in crate::group) fn leave_foreign(&mut self, parent: JobId, child: JobId) -> bool {
        let Some(known) = self.foreign.parents.get_mut(&parent) else { return false };
        known.children.remove(&child);
        true
    }

    /// The parent is a job of this shard from now on: its children here.
    pub(in crate::group) fn came_here(&mut self, parent: JobId) -> BTreeSet<JobId> {
        let Foreign { parents, times, unsaid } = &mut self.foreign;
        times.retain(|(job, _), _| *job != parent);
        for unsaid in unsaid.values_mut() {
            unsaid.forget(parent);
        }
        unsaid.retain(|_, unsaid| *unsaid != Unsaid::default());
        parents.remove(&parent).map(|parent| parent.children).unwrap_or_default()
    }

    /// A calendar that parents in other groups may keep to has changed.
    pub(crate) fn foreign_calendar(&mut self, days: &Arc<Days>) {
        for parent in self.foreign.parents.values_mut() {
            let renewed = parent.schedule.as_ref().and_then(|timetable| timetable.renewed(days));
            if let Some(renewed) = renewed {
                parent.schedule = Some(Arc::new(renewed));
            }
        }
    }

    pub(crate) fn wait_for_foreign(&mut self, parent: JobId, time: Timestamp) {
        let Some(shard) = self.foreign.shard_of(parent) else { return };
        let watched = self.foreign.times.entry((parent, time)).or_default();
        watched.wanted = true;
        if !watched.said {
            self.foreign.unsaid.entry(shard).or_default().watch.insert((parent, time));
        }
    }

    pub(crate) fn let_go_of_foreign(&mut self, parent: JobId, time: Timestamp) {
        let Some(shard) = self.foreign.shard_of(parent) else { return };
        let Some(watched) = self.foreign.times.get_mut(&(parent, time)) else { return };
        watched.wanted = false;
        let unsaid = self.foreign.unsaid.entry(shard).or_default();
        if watched.said {
            unsaid.watch.insert((parent, time));
        } else {
            unsaid.watch.remove(&(parent, time));
            self.foreign.times.remove(&(parent, time));
        }
    }

    /// Whether the shard can say how a job stands: it runs the job, as far as this one was told.
    pub(crate) fn may_tell_of(&self, parent: JobId, from: ShardId) -> bool {
        self.foreign.shard_of(parent).is_none_or(|shard| shard == from)
    }

    pub(crate) fn parent_times_received(&mut self, parent: JobId, times: &[Timestamp]) {
        let Some(known) = self.foreign.parents.get_mut(&parent) else { return };
        known.known.extend(times);
        while known.known.len() > KNOWN_TIMES {
            known.known.pop_first();
        }
    }
}

impl GroupShard {
    /// JOB-9: the parent is a job of that shard from now on, which is told what this one wants. The old one is told that
    /// nothing of here asks there any more.
    pub(crate) fn parent_went(&mut self, parent: JobId, shard: ShardId) {
        let Foreign { parents, times, unsaid } = &mut self.dependencies.foreign;
        let Some(known) = parents.get_mut(&parent).filter(|known| known.shard != shard) else { return };
        let old = std::mem::replace(&mut known.shard, shard);
        let was_followed = std::mem::replace(&mut known.said, Subscription::Nothing) != Subscription::Nothing;
        if let Some(unsaid) = unsaid.get_mut(&old) {
            unsaid.forget(parent);
        }
        let said = times.range(times_of(parent)).filter(|(_, watched)| watched.said);
        let said: Vec<Timestamp> = said.map(|((_, time), _)| *time).collect();
        times.retain(|(job, _), watched| *job != parent || watched.wanted);
        let unsaid = unsaid.entry(shard).or_default();
        for (key, watched) in times.range_mut(times_of(parent)) {
            watched.said = false;
            unsaid.watch.insert(*key);
        }
        for times in said.chunks(MAX_TIMES) {
            self.mailbox.send(old, ShardMessage::Unwatch { job: parent, times: times.to_vec() });
        }
        if was_followed {
            self.mailbox.send(old, ShardMessage::Subscription { job: parent, what: Subscription::Nothing });
        }
    }

    /// After the parent's children or waiters changed: its shard is to hear what this one wants of it.
    pub(crate) fn follow_foreign(&mut self, parent: JobId) {
        let Some(known) = self.dependencies.foreign.get(parent) else { return };
        let shard = known.shard;
        if self.wants_of(parent) == known.said {
            if known.said == Subscription::Nothing {
                self.forget_parent(parent);
            }
            return;
        }
        self.dependencies.foreign.unsaid.entry(shard).or_default().follow.insert(parent);
        self.say(shard);
    }

    fn forget_parent(&mut self, parent: JobId) {
        self.generation.grids.forget();
        self.dependencies.foreign.parents.remove(&parent);
    }

    fn wants_of(&self, parent: JobId) -> Subscription {
        let Some(known) = self.dependencies.foreign.get(parent) else { return Subscription::Nothing };
        let mut children = known.children.iter().filter_map(|child| self.jobs.get(child));
        let is_triggering = children.clone().any(|child| !child.removed && child.is_dependency_triggered());
        if is_triggering || known.schedule.is_none() && children.next().is_some() {
            Subscription::Generations
        } else if known.expected || !known.children.is_empty() || self.dependencies.foreign.is_awaited(parent)
        {
            Subscription::Standings
        } else {
            Subscription::Nothing
        }
    }

    /// Says what there is to say about the parents of a batch that came or went.
    pub(crate) fn say_of<'a>(&mut self, dependencies: impl IntoIterator<Item = &'a Dependency>) {
        if self.dependencies.foreign.parents.is_empty() {
            return;
        }
        for parent in dependencies.into_iter().map(|dependency| dependency.parent) {
            let Some(shard) = self.dependencies.foreign.shard_of(parent) else { continue };
            self.say(shard);
            let known = self.dependencies.foreign.get(parent);
            if known.is_some_and(|parent| parent.children.is_empty()) {
                self.follow_foreign(parent);
            }
        }
    }

    /// Says what is left to say to another shard, as far as there is room.
    pub(crate) fn say(&mut self, to: ShardId) {
        let Some(mut unsaid) = self.dependencies.foreign.unsaid.remove(&to) else { return };
        while self.mailbox.room(to) > 0 {
            if let Some(job) = unsaid.follow.pop_first() {
                self.say_follow(to, job);
            } else if let Some((job, time)) = unsaid.watch.first().copied() {
                self.say_watch(to, job, time, &mut unsaid.watch);
            } else {
                return;
            }
        }
        if unsaid != Unsaid::default() {
            self.dependencies.foreign.unsaid.insert(to, unsaid);
        }
    }

    fn say_follow(&mut self, to: ShardId, job: JobId) {
        let what = self.wants_of(job);
        let Some(known) = self.dependencies.foreign.parents.get_mut(&job) else { return };
        if std::mem::replace(&mut known.said, what) != what {
            self.mailbox.send(to, ShardMessage::Subscription { job, what });
        }
        if what == Subscription::Nothing {
            self.forget_parent(job);
        }
    }

    /// One message about the job, from `first` on, of those times with which the same is to be done.
    fn say_watch(
        &mut self,
        to: ShardId,
        job: JobId,
        first: Timestamp,
        open: &mut BTreeSet<(JobId, Timestamp)>,
    ) {
        let wanted = self.dependencies.foreign.times.get(&(job, first)).is_some_and(|watched| watched.wanted);
        let mut times = Vec::new();
        while times.len() < MAX_TIMES
            && let Some(key @ (of, time)) = open.first().copied()
            && of == job
        {
            let Some(watched) = self.dependencies.foreign.times.get_mut(&key) else {
                open.remove(&key);
                continue;
            };
            if watched.wanted != wanted {
                break;
            }
            open.remove(&key);
            if watched.said != wanted {
                watched.said = wanted;
                times.push(time);
            }
            if !wanted {
                self.dependencies.foreign.times.remove(&key);
            }
        }
        if times.is_empty() {
            return;
        }
        let message =
            if wanted { ShardMessage::Watch { job, times } } else { ShardMessage::Unwatch { job, times } };
        self.mailbox.send(to, message);
    }

    pub(crate) fn parents_replicated(&mut self, parents: &[ForeignParent]) {
        self.generation.grids.forget();
        for told in parents {
            self.parent_went(told.job, told.shard);
            let is_known =
                self.dependencies.foreign.get(told.job).is_some() || self.jobs.orphans_of(told.job).is_some();
            if told.moved && !is_known && !self.waits_for_any_of(told.job) {
                continue;
            }
            let calendars = self.jobs.calendars();
            let schedule = told.schedule.as_ref();
            let schedule = schedule.and_then(|spec| calendars.timetable_of(spec, told.firing.as_ref()));
            if let Some(known) = self.dependencies.foreign.parents.get_mut(&told.job) {
                known.former_names.note(&known.name, &told.name);
                (known.name, known.schedule) = (told.name.clone(), schedule);
            } else {
                let new = ForeignJob {
                    name: told.name.clone(),
                    former_names: FormerNames::default(),
                    shard: told.shard,
                    schedule,
                    children: self.jobs.take_orphans(told.job),
                    expected: false,
                    said: Subscription::Nothing,
                    known: BTreeSet::new(),
                };
                self.dependencies.foreign.parents.insert(told.job, new);
                let times: Vec<Timestamp> = self.dependencies.waiters.times_of(told.job).collect();
                for time in times {
                    self.dependencies.wait_for_foreign(told.job, time);
                }
            }
            if let Some(known) = self.dependencies.foreign.parents.get_mut(&told.job) {
                known.expected = known.children.is_empty() && !told.moved;
            }
            self.follow_foreign(told.job);
            self.say(told.shard);
        }
    }

    pub(crate) fn parent_status_updated(&mut self, parent: JobId, standings: &[Standing]) {
        for standing in standings {
            let time = standing.logical_time;
            if let Some(watched) = self.dependencies.foreign.times.get_mut(&(parent, time)) {
                watched.standing = Some(standing.clone());
                self.newest_changed(parent, time);
            }
        }
    }

    pub(crate) fn parent_generations_received(&mut self, parent: JobId, times: &[Timestamp]) {
        self.dependencies.parent_times_received(parent, times);
        for time in times {
            self.trigger(Trigger { parent, logical_time: *time, after: None, base: None });
        }
    }
}
