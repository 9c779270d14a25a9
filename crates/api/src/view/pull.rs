use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidemill_model::{Ledger, OccurrenceLedger, TaskLedger, Timestamp, UserStanding};
use tidemill_store::rows::{PullGrantRow, PullLedgerRow, PullTaskRow, PullUserRow, TaskTemplateRow};

use super::{json, string, time};

/// A template that parameters of pull tasks are checked against.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskTemplateView {
    /// Its name.
    pub(crate) name: String,
    /// Numbers its content; every change of any template gets the next one.
    pub(crate) version: i64,
    /// The parameters that there may be.
    pub(crate) fields: Value,
    /// Free text.
    pub(crate) comment: String,
    /// When it was last changed.
    pub(crate) changed_at: Timestamp,
}

impl From<TaskTemplateRow> for TaskTemplateView {
    fn from(row: TaskTemplateRow) -> Self {
        Self {
            name: row.name.to_string(),
            version: row.version,
            fields: json(&row.fields),
            comment: row.comment.to_string(),
            changed_at: time(row.changed_at),
        }
    }
}

/// A user who pulls tasks.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PullUserView {
    /// The user's name.
    pub(crate) user: String,
    /// Its home group.
    pub(crate) group: String,
    /// Whether the group's shard is asked to let it go.
    pub(crate) moving: bool,
    /// Where it is to go; null: it stays, or is to be removed.
    pub(crate) moving_to: Option<String>,
    /// Why the last move was refused.
    pub(crate) refusal: String,
    /// Since when it has a home group.
    pub(crate) assigned_at: Timestamp,
    /// Since when it has this one.
    pub(crate) changed_at: Timestamp,
}

impl From<PullUserRow> for PullUserView {
    fn from(row: PullUserRow) -> Self {
        Self {
            user: row.user_name.to_string(),
            group: row.group_name.to_string(),
            moving: row.moving,
            moving_to: string(row.moving_to),
            refusal: row.refusal.to_string(),
            assigned_at: time(row.assigned_at),
            changed_at: time(row.changed_at),
        }
    }
}

/// A user, and how it stands.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PullUserDetail {
    /// As in the list.
    #[serde(flatten)]
    pub(crate) user: PullUserView,
    /// As the owner of its home group knows it now; null: it could not be asked, or has not heard of the user yet.
    pub(crate) standing: Option<UserStanding>,
}

/// Grants by what became of them. `taken` = `live` + `completed` + `returned` + `expired`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Balance {
    /// The grants.
    #[serde(flatten)]
    pub(crate) ledger: Ledger,
    /// Whether they add up.
    pub(crate) balanced: bool,
}

impl From<Ledger> for Balance {
    fn from(ledger: Ledger) -> Self {
        Self { ledger, balanced: ledger.balances() }
    }
}

fn count(column: i64) -> u64 {
    u64::try_from(column).unwrap_or(0)
}

/// A task that clients pull.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PullTaskView {
    /// Its id.
    pub(crate) id: i64,
    /// The group whose shard gives it out: the executor, or the home group of it.
    pub(crate) group: String,
    /// Rises with every change.
    pub(crate) version: i64,
    /// `valid`, `deleted`, or `released`: it left the group with its user.
    pub(crate) state: String,
    /// As it could have been written.
    pub(crate) task: Value,
    /// Its grants, over all its occurrences.
    pub(crate) totals: Balance,
    /// When it was created, or came to the group with its user.
    pub(crate) received_at: Timestamp,
    /// When it was changed.
    pub(crate) changed_at: Option<Timestamp>,
    /// When it was deleted or released.
    pub(crate) ended_at: Option<Timestamp>,
    /// What of it started before can no longer be pulled.
    pub(crate) purged_before: Option<Timestamp>,
}

/// The grants of a task's row.
pub(crate) fn totals_of(row: &PullTaskRow) -> Ledger {
    Ledger {
        taken: count(row.taken),
        live: count(row.live),
        completed: count(row.completed),
        returned: count(row.returned),
        expired: count(row.expired),
    }
}

impl From<PullTaskRow> for PullTaskView {
    fn from(row: PullTaskRow) -> Self {
        Self {
            id: row.id,
            group: row.group_name.to_string(),
            version: row.version,
            state: row.state.to_string(),
            task: json(&row.definition),
            totals: totals_of(&row).into(),
            received_at: time(row.received_at),
            changed_at: row.changed_at.map(time),
            ended_at: row.ended_at.map(time),
            purged_before: row.purged_before.map(time),
        }
    }
}

/// The ledger of one occurrence.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OccurrenceView {
    /// Its start.
    pub(crate) start: Timestamp,
    /// Its grants.
    #[serde(flatten)]
    pub(crate) balance: Balance,
    /// How often it could still be given out: `dispatch_times` − `live` − `completed`.
    pub(crate) stock: u64,
}

impl OccurrenceView {
    pub(crate) fn of(row: &PullLedgerRow, dispatch_times: i64) -> Self {
        let ledger = Ledger {
            taken: count(row.taken),
            live: count(row.live),
            completed: count(row.completed),
            returned: count(row.returned),
            expired: count(row.expired),
        };
        let stock = count(dispatch_times).saturating_sub(ledger.used());
        Self { start: time(row.start_at), balance: ledger.into(), stock }
    }
}

impl From<OccurrenceLedger> for OccurrenceView {
    fn from(of: OccurrenceLedger) -> Self {
        Self { start: of.start, balance: of.ledger.into(), stock: of.stock }
    }
}

/// What of a task was given out, and what became of it (BYD-10).
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LedgerView {
    /// The task.
    pub(crate) task: i64,
    /// How often each occurrence may be given out.
    pub(crate) dispatch_times: i64,
    /// Over all its occurrences.
    pub(crate) totals: Balance,
    /// Occurrences that were given out, the newest first.
    pub(crate) items: Vec<OccurrenceView>,
    /// Give this as `cursor` to go on; null: this was the last part.
    pub(crate) next: Option<String>,
}

impl From<TaskLedger> for LedgerView {
    fn from(of: TaskLedger) -> Self {
        let last = of.occurrences.last().filter(|_| of.more).map(|last| last.start.to_string());
        Self {
            task: of.task.0,
            dispatch_times: i64::from(of.spec.dispatch_times),
            totals: of.totals.into(),
            items: of.occurrences.into_iter().map(OccurrenceView::from).collect(),
            next: last,
        }
    }
}

/// An occurrence of a task that was given to a user.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PullGrantView {
    /// Its id.
    pub(crate) id: i64,
    /// The group whose shard gave it.
    pub(crate) group: String,
    /// The task.
    pub(crate) task: i64,
    /// The version of it that the user got.
    pub(crate) version: i64,
    /// The task's name for people, as it was then.
    pub(crate) name: Option<String>,
    /// The start of the occurrence.
    pub(crate) start: Timestamp,
    /// Who got it.
    pub(crate) user: String,
    /// `live`, `completed`, `returned` or `expired`.
    pub(crate) state: String,
    /// When it was given.
    pub(crate) granted_at: Timestamp,
    /// When it goes back to stock by itself; null: never.
    pub(crate) expires_at: Option<Timestamp>,
    /// When it was completed or returned, or expired.
    pub(crate) ended_at: Option<Timestamp>,
    /// As the client said when it completed it.
    pub(crate) result: Option<String>,
    /// Who gave it back.
    pub(crate) returned_by: Option<String>,
    /// Why.
    pub(crate) reason: Option<String>,
}

impl From<PullGrantRow> for PullGrantView {
    fn from(row: PullGrantRow) -> Self {
        Self {
            id: row.id,
            group: row.group_name.to_string(),
            task: row.task_id,
            version: row.task_version,
            name: string(row.task_name),
            start: time(row.start_at),
            user: row.user_name.to_string(),
            state: row.state.to_string(),
            granted_at: time(row.granted_at),
            expires_at: row.expires_at.map(time),
            ended_at: row.ended_at.map(time),
            result: string(row.result),
            returned_by: string(row.returned_by),
            reason: string(row.reason),
        }
    }
}
