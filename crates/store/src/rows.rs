//! What is in which table. The columns of the key come first in every struct. All times are milliseconds
//! since 1970 and come from an envelope's `now`, never from a clock.

mod batch;
mod bulk;
mod calendar;
mod freeze;
mod job;
mod journal;
mod pool;
mod pull;
mod rerun;
mod thing;
mod worker;

pub use batch::{AttemptRow, BatchDependencyRow, BatchOutputRow, BatchRow, ReassignRow, UserCodeRow};
pub use bulk::{BulkItemRow, BulkRow};
pub use calendar::{CalendarRow, CalendarVersionRow};
pub use freeze::FreezeRow;
pub use job::{JobParentRow, JobRow, JobVersionRow, ShardJobRow, SkippedFiresRow};
pub use journal::{AppKeyRow, QuarantineRow, ShardRow};
pub use pool::PoolRow;
pub use pull::{PullGrantRow, PullLedgerRow, PullTaskRow, PullTaskVersionRow, PullUserRow, TaskTemplateRow};
pub use rerun::{RerunBatchRow, RerunJobRow, RerunRow, RerunSkipRow};
pub use thing::{BatchQualityRow, BatchThingRow, LateCheckRow, OverrideRow, ThingRow, ThirdPartyReportRow};
pub use worker::{GroupRow, ResourceRow, WorkerRow};

use crate::{Row, Table};

/// Calls a macro with every row type, in the order of the manual.
#[macro_export]
macro_rules! for_each_row {
    ($then:ident) => {
        $then! {
            jobs: JobRow, job_versions: JobVersionRow, job_parents: JobParentRow, shard_jobs: ShardJobRow,
            skipped_fires: SkippedFiresRow, batches: BatchRow, batch_dependencies: BatchDependencyRow,
            batch_outputs: BatchOutputRow,
            things: ThingRow, batch_things: BatchThingRow, batch_quality: BatchQualityRow, overrides: OverrideRow,
            third_party_reports: ThirdPartyReportRow, late_checks: LateCheckRow,
            attempts: AttemptRow, user_code_log: UserCodeRow, reassign_log: ReassignRow, reruns: RerunRow,
            rerun_jobs: RerunJobRow, rerun_skips: RerunSkipRow, rerun_batches: RerunBatchRow,
            bulk_operations: BulkRow, bulk_items: BulkItemRow, workers: WorkerRow, resources: ResourceRow,
            worker_groups: GroupRow, calendars: CalendarRow, calendar_versions: CalendarVersionRow, pools: PoolRow, freezes: FreezeRow,
            task_templates: TaskTemplateRow, pull_users: PullUserRow, pull_tasks: PullTaskRow,
            pull_task_versions: PullTaskVersionRow, pull_ledger: PullLedgerRow, pull_grants: PullGrantRow,
            shards: ShardRow, app_keys: AppKeyRow, quarantine: QuarantineRow
        }
    };
}

macro_rules! tables {
    ($($name:ident: $row:ident),+) => {
        /// Every table.
        pub const TABLES: &[&Table] = &[$(<$row as Row>::TABLE),+];
    };
}
for_each_row!(tables);

/// The table of this name.
#[must_use]
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().copied().find(|table| table.name == name)
}
