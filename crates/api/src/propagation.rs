//! A change in the catalogue answers once it is in effect everywhere, so that whatever is done next finds it so (JOB-5,
//! BYD-17); where it is not within a bounded time, the answer says where.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::future::join;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_cluster::propagation::{Pending, Propagation};
use tidemill_model::{Concerned, GroupName, ShardId};

use crate::app::App;
use crate::position::JournalPosition;

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
    let (mut propagation, mut is_shown) = (Propagation::new(concerned, offset), false);
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
        _ = join(propagation.follow(&*app.deps.live), join(tables, app.takes(position))) => {}
        () = tokio::time::sleep(Duration::from_millis(app.config.propagation_timeout_ms)) => {}
        () = stopped => {}
    }
    let pending_groups = match propagation.pending() {
        Pending::Concerned(concerned) => names(&concerned),
        Pending::Shards(shards) => groups_of(app, shards).await,
    };
    Late { pending_groups, read_lag: !is_shown }
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

async fn groups_of(app: &App, shards: BTreeSet<ShardId>) -> Vec<String> {
    let mut groups = Vec::new();
    for shard in shards {
        let group = app.group_of_shard(shard).await.ok().flatten();
        groups.push(
            group.map_or_else(|| format!("the group of shard {shard}"), |group| group.name.to_string()),
        );
    }
    groups
}

/// For people: what it means that groups are not so far.
pub(crate) fn warning(groups: &[String]) -> String {
    format!(
        "it is recorded, and not yet in effect in {}: what is done there, or runs for jobs there, may miss it until \
         then; repeat the call to wait again",
        groups.join(", ")
    )
}
