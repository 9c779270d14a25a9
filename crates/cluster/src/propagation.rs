//! Waits until a change in the catalogue is in effect everywhere, so that whatever is done next finds it so (JOB-5,
//! BYD-17).
//!
//! The catalogue's record makes an `apply`, a freeze or a pool durable; the groups' shards take it in a moment later,
//! and, of definitions, then say to the shards of parents in other groups what they want to hear of them. The proof that
//! all of it is done is numbers of messages that owners have on record:
//!
//! ```text
//!  catalogue ── definitions, upto n ──► shard of a child ── Follow, upto m ──► shard of its parent
//!                                                         ◄── Known, upto k ──
//! ```
//!
//! Messages between two shards arrive in order, and owners answer from what stands in their journals. So a shard
//! that says it has n on record decides everything that is sent to it from then on with all that came before n.
//!
//! *Invariant:* nothing here decides anything. Who does not wait, or waits in vain, has a change that is as durable.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidemill_model::{
    Concerned, GroupName, JobId, LiveAnswer, LiveQuery, MailboxState, NotifiedShard, PlannedChange, ShardId,
};

use crate::Live;

/// Between two questions about the same.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(1))
    .with_max_delay(Duration::from_millis(50))
    .without_max_times();
/// What is left of them.
type Pauses = <ExponentialBuilder as BackoffBuilder>::Backoff;
/// Questions under way at once.
const AT_ONCE: usize = 16;

/// Whom a change of one job concerns, in its group.
#[must_use]
pub fn by_job(job: JobId, group: &str) -> Concerned {
    Concerned::Definitions { jobs: vec![job], groups: GroupName::try_from(group).into_iter().collect() }
}

/// Whom an `apply` concerns that says this of what it did. Unchanged jobs count: a change of them before may be under way.
#[must_use]
pub fn by_changes(changes: &[PlannedChange]) -> Concerned {
    let group = |planned: &PlannedChange| {
        let (group, _) = planned.change.name.split_once('/')?;
        GroupName::try_from(group).ok()
    };
    let groups: BTreeSet<GroupName> = changes.iter().filter_map(group).collect();
    let jobs = changes.iter().map(|planned| planned.change.job).collect();
    Concerned::Definitions { jobs, groups: groups.into_iter().collect() }
}

/// What one shard must have on record.
#[derive(Debug, Clone, PartialEq)]
struct Wait {
    shard: ShardId,
    /// Messages of this one,
    from: ShardId,
    /// up to this number.
    upto: u64,
    then: Then,
}

/// What follows once it has.
#[derive(Debug, Clone, PartialEq)]
enum Then {
    /// It has told these shards what it wants to hear of their jobs.
    Follows(Vec<ShardId>),
    /// It has told whoever followed which logical times there are.
    Answers,
    Nothing,
}

impl Wait {
    fn of(told: NotifiedShard) -> Self {
        let NotifiedShard { shard, upto, parents } = told;
        Self { shard, from: ShardId::CATALOGUE, upto, then: Then::Follows(parents) }
    }

    /// Whom the shard says something in turn.
    fn tells(&self) -> Vec<ShardId> {
        match &self.then {
            Then::Follows(parents) => parents.clone(),
            Then::Answers => vec![self.from],
            Then::Nothing => Vec::new(),
        }
    }

    fn after(&self, told: &MailboxState) -> Self {
        let then = match self.then {
            Then::Follows(_) => Then::Answers,
            Then::Answers | Then::Nothing => Then::Nothing,
        };
        Self { shard: told.shard, from: self.shard, upto: told.sent, then }
    }

    /// What is to be waited for next; `None`: still for this.
    async fn look(&self, live: &dyn Live) -> Option<Vec<Wait>> {
        let mut with = self.tells();
        with.push(self.from);
        let query = LiveQuery::Mailboxes { with };
        let Ok(LiveAnswer::Mailboxes { with }) = live.query(self.shard, query).await else {
            return None;
        };
        let (heard, told) = with.split_last()?;
        let is_done = heard.received >= self.upto && told.iter().all(|post| !post.unsaid);
        is_done.then(|| told.iter().map(|post| self.after(post)).collect())
    }
}

/// A change in the catalogue on its way to everybody whom it concerns.
pub struct Propagation {
    concerned: Concerned,
    /// Offset of the record that made it, in the catalogue's journal.
    offset: u64,
    /// What is waited for; `None`: the catalogue has not answered yet.
    open: Option<Vec<Wait>>,
}

/// Where a change is not in effect yet, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pending {
    /// With whom it concerns: the catalogue has not said which shards these are.
    Concerned(Concerned),
    /// In the groups of these shards; none: it is in effect everywhere.
    Shards(BTreeSet<ShardId>),
}

impl Propagation {
    /// Of the change that the catalogue's record at `offset` made.
    #[must_use]
    pub fn new(concerned: Concerned, offset: u64) -> Self {
        Self { concerned, offset, open: None }
    }

    /// Asks until all that follows from the change is on record where it belongs. Dropped before, it has learned how far
    /// that is, and may be called again.
    pub async fn follow(&mut self, live: &dyn Live) {
        let query = LiveQuery::Notified { concerned: self.concerned.clone(), at_least: self.offset };
        let mut pauses = PAUSES.build();
        while self.open.is_none() {
            self.open = notified(live, &query).await;
            if self.open.is_none() {
                pause(&mut pauses).await;
            }
        }
        let open = self.open.get_or_insert_default();
        let mut queue: VecDeque<(Wait, Pauses)> =
            open.iter().map(|wait| (wait.clone(), PAUSES.build())).collect();
        // Each goes on by itself: an owner that does not answer keeps nothing of others back, while there is room.
        let mut looks = FuturesUnordered::new();
        loop {
            while looks.len() < AT_ONCE
                && let Some((wait, pauses)) = queue.pop_front()
            {
                looks.push(look(live, wait, pauses));
            }
            let Some((wait, pauses, next)) = looks.next().await else { return };
            let Some(next) = next else {
                queue.push_back((wait, pauses));
                continue;
            };
            if let Some(at) = open.iter().position(|open| *open == wait) {
                open.swap_remove(at);
            }
            open.extend(next.iter().cloned());
            queue.extend(next.into_iter().map(|wait| (wait, PAUSES.build())));
        }
    }

    /// Where it is not in effect yet, as far as [`Propagation::follow`] has learned.
    #[must_use]
    pub fn pending(self) -> Pending {
        match self.open {
            None => Pending::Concerned(self.concerned),
            Some(open) => Pending::Shards(open.iter().map(|wait| wait.shard).collect()),
        }
    }
}

async fn notified(live: &dyn Live, query: &LiveQuery) -> Option<Vec<Wait>> {
    match live.query(ShardId::CATALOGUE, query.clone()).await {
        Ok(LiveAnswer::Notified { shards }) => Some(shards.into_iter().map(Wait::of).collect()),
        _ => None,
    }
}

/// Looks once, and where it is not so far yet pauses.
async fn look(live: &dyn Live, wait: Wait, mut pauses: Pauses) -> (Wait, Pauses, Option<Vec<Wait>>) {
    let next = wait.look(live).await;
    if next.is_none() {
        pause(&mut pauses).await;
    }
    (wait, pauses, next)
}

async fn pause(pauses: &mut Pauses) {
    tokio::time::sleep(pauses.next().expect("they have no end")).await;
}
