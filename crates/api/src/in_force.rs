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

use axum::http::StatusCode;
use futures_util::StreamExt;
use futures_util::future::join;
use futures_util::stream::FuturesUnordered;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{
    Concerned, GroupName, JobId, LiveAnswer, LiveQuery, MailboxState, NotifiedShard, PlannedChange, ShardId,
};

use crate::app::App;
use crate::position::JournalPosition;

/// Between two questions about the same, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Questions under way at once.
const AT_ONCE: usize = 16;

/// Whom a change of one job concerns, in its group.
pub(crate) fn by_job(job: JobId, group: &str) -> Concerned {
    Concerned::Definitions { jobs: vec![job], groups: GroupName::try_from(group).into_iter().collect() }
}

/// Whom an `apply` concerns that says this of what it did. Unchanged jobs count: a change of them before may be under way.
pub(crate) fn by_changes(changes: &[PlannedChange]) -> Concerned {
    let group = |planned: &PlannedChange| {
        let (group, _) = planned.change.name.split_once('/')?;
        GroupName::try_from(group).ok()
    };
    let groups: BTreeSet<GroupName> = changes.iter().filter_map(group).collect();
    let jobs = changes.iter().map(|planned| planned.change.job).collect();
    Concerned::Definitions { jobs, groups: groups.into_iter().collect() }
}

/// What is said where the catalogue does not say whom it told.
fn names(concerned: &Concerned) -> Vec<String> {
    match concerned {
        Concerned::Definitions { groups, .. } => groups.iter().map(GroupName::to_string).collect(),
        Concerned::Group(group) => vec![group.to_string()],
        Concerned::Everyone => vec!["every group".to_owned()],
        Concerned::Calendar(name) => vec![format!("the groups that use calendar {name}")],
    }
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
    async fn look(&self, app: &App) -> Option<Vec<Wait>> {
        let mut with = self.tells();
        with.push(self.from);
        let query = LiveQuery::Mailboxes { with };
        let Ok(LiveAnswer::Mailboxes { with }) = app.deps.live.query(self.shard, query).await else {
            return None;
        };
        let (heard, told) = with.split_last()?;
        let is_done = heard.received >= self.upto && told.iter().all(|post| !post.unsaid);
        is_done.then(|| told.iter().map(|post| self.after(post)).collect())
    }
}

/// What was not so far when the time to wait was over.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Late {
    /// With status 202: groups in which it is not in effect yet, though recorded. A repeat of the call waits
    /// again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pending_groups: Vec<String>,
    /// With status 202: calls that look something up, and lists, do not show it yet; `at_least` waits for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) read_lag: bool,
}

impl Late {
    /// What the answer says of it at once.
    pub(crate) fn status(&self) -> StatusCode {
        if self.pending_groups.is_empty() && !self.read_lag { StatusCode::OK } else { StatusCode::ACCEPTED }
    }
}

/// Waits until all that follows from a change at this position is on record where it belongs, for a bounded time; and
/// for the tables, by which calls find jobs, as long as a read does.
pub(crate) async fn wait(app: &App, concerned: Concerned, position: JournalPosition) -> Late {
    let JournalPosition { partition, offset } = position;
    let query = LiveQuery::Notified { concerned: concerned.clone(), at_least: offset };
    let (mut open, mut is_shown) = (None, false);
    let patience = app.config.at_least_timeout();
    let tables = async { is_shown = app.deps.freshness.wait(partition, offset, patience).await };
    let mut stopping = app.stopping.clone();
    let stopped = async {
        // Without a sender nothing ever stops it.
        if stopping.wait_for(|stopping| *stopping).await.is_err() {
            std::future::pending::<()>().await;
        }
        // What is under way gets its time, and has to answer within it.
        tokio::time::sleep(app.config.stop_timeout() / 2).await;
    };
    tokio::select! {
        _ = join(all(app, &query, &mut open), tables) => {}
        () = tokio::time::sleep(app.config.settle_timeout()) => {}
        () = stopped => {}
    }
    let pending_groups = match open {
        None => names(&concerned),
        Some(open) => groups_of(app, &open).await,
    };
    Late { pending_groups, read_lag: !is_shown }
}

async fn groups_of(app: &App, waits: &[Wait]) -> Vec<String> {
    let shards: BTreeSet<ShardId> = waits.iter().map(|wait| wait.shard).collect();
    let mut groups = Vec::new();
    for shard in shards {
        // It is done, whatever becomes of this look at the tables.
        let group = app.group_of_shard(shard).await.ok().flatten();
        groups.push(
            group.map_or_else(|| format!("the group of shard {shard}"), |group| group.name.to_string()),
        );
    }
    groups
}

/// Asks until nothing is open any more. What is open stands in `open`; `None`: the catalogue has not answered yet.
async fn all(app: &App, query: &LiveQuery, open: &mut Option<Vec<Wait>>) {
    let mut pause = PAUSES.0;
    while open.is_none() {
        *open = told(app, query).await;
        if open.is_none() {
            tokio::time::sleep(pause).await;
            pause = longer(pause);
        }
    }
    let open = open.get_or_insert_default();
    let mut queue: VecDeque<(Wait, Duration)> = open.iter().map(|wait| (wait.clone(), PAUSES.0)).collect();
    // Each goes on by itself: an owner that does not answer keeps nothing of others back, while there is room.
    let mut looks = FuturesUnordered::new();
    loop {
        while looks.len() < AT_ONCE
            && let Some((wait, pause)) = queue.pop_front()
        {
            looks.push(look(app, wait, pause));
        }
        let Some((wait, pause, next)) = looks.next().await else { return };
        let Some(next) = next else {
            queue.push_back((wait, longer(pause)));
            continue;
        };
        if let Some(at) = open.iter().position(|open| *open == wait) {
            open.swap_remove(at);
        }
        open.extend(next.iter().cloned());
        queue.extend(next.into_iter().map(|wait| (wait, PAUSES.0)));
    }
}

/// Looks once, and where it is not so far yet pauses.
async fn look(app: &App, wait: Wait, pause: Duration) -> (Wait, Duration, Option<Vec<Wait>>) {
    let next = wait.look(app).await;
    if next.is_none() {
        tokio::time::sleep(pause).await;
    }
    (wait, pause, next)
}

fn longer(pause: Duration) -> Duration {
    (pause * 2).min(PAUSES.1)
}

async fn told(app: &App, query: &LiveQuery) -> Option<Vec<Wait>> {
    match app.deps.live.query(ShardId::CATALOGUE, query.clone()).await {
        Ok(LiveAnswer::Notified { shards }) => Some(shards.into_iter().map(Wait::of).collect()),
        _ => None,
    }
}

/// For people: what it means that groups are not so far.
pub(crate) fn warning(groups: &[String]) -> String {
    format!(
        "it is recorded, and not yet in effect in {}: what is done there, or runs for jobs there, may miss it until \
         then; repeat the call to wait again",
        groups.join(", ")
    )
}
