use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Ledger, OccurrenceLedger, TaskLedger, Timestamp, UserStanding};
use tidemill_store::rows::{PullLedgerRow, PullTaskRow};

use super::{PullUserView, View, time};

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

fn ledger(columns: [i64; 5]) -> Ledger {
    let [taken, live, completed, returned, expired] = columns.map(count);
    Ledger { taken, live, completed, returned, expired }
}

/// A task that clients pull.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PullTaskView {
    #[serde(flatten)]
    pub(crate) row: View<PullTaskRow>,
    /// Its grants, over all its occurrences.
    pub(crate) totals: Balance,
}

/// The grants of a task's row.
pub(crate) fn totals_of(row: &PullTaskRow) -> Ledger {
    ledger([row.taken, row.live, row.completed, row.returned, row.expired])
}

impl From<PullTaskRow> for PullTaskView {
    fn from(row: PullTaskRow) -> Self {
        Self { totals: totals_of(&row).into(), row: View(row) }
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
        let ledger = ledger([row.taken, row.live, row.completed, row.returned, row.expired]);
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
