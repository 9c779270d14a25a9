//! What is in which table. The columns of the key come first in every struct. All times are milliseconds
//! since 1970 and come from an envelope's `now`, never from a clock.

mod batch;
mod bulk;
mod calendar;
mod external_dependency;
mod freeze;
mod job;
mod journal;
mod pool;
mod pull;
mod rerun;
mod worker;

pub use batch::{AssignmentReturnRow, AttemptRow, BatchDependencyRow, BatchOutputRow, BatchRow, UserCodeRow};
pub use bulk::{BulkItemRow, BulkRow};
pub use calendar::{CalendarRow, CalendarVersionRow};
pub use external_dependency::{
    BatchExternalDependencyRow, BatchQualityRow, ExternalDependencyRow, LateProbeRow, OverrideRow,
    ThirdPartyReportRow,
};
pub use freeze::FreezeRow;
pub use job::{JobParentRow, JobRow, JobVersionRow, ShardJobRow, SkippedRunsRow};
pub use journal::{AppKeyRow, DeadLetterRow, ShardRow};
pub use pool::PoolRow;
pub use pull::{PullGrantRow, PullLedgerRow, PullTaskRow, PullTaskVersionRow, PullUserRow, TaskTemplateRow};
pub use rerun::{RerunBatchRow, RerunJobRow, RerunRow, RerunSkipRow};
pub use worker::{GroupRow, ResourceRow, WorkerRow};

use crate::{Row, Table};

/// Calls a macro with every row type, in the order of the manual.
#[macro_export]
macro_rules! for_each_row {
    ($then:ident) => {
        $then! {
            jobs: JobRow, job_versions: JobVersionRow, job_parents: JobParentRow, shard_jobs: ShardJobRow,
            skipped_runs: SkippedRunsRow, batches: BatchRow, batch_dependencies: BatchDependencyRow,
            batch_outputs: BatchOutputRow,
            external_dependencies: ExternalDependencyRow, batch_external_dependencies: BatchExternalDependencyRow, batch_quality: BatchQualityRow, dependency_overrides: OverrideRow,
            third_party_reports: ThirdPartyReportRow, late_probes: LateProbeRow,
            attempts: AttemptRow, user_code_reports: UserCodeRow, assignment_returns: AssignmentReturnRow, reruns: RerunRow,
            rerun_jobs: RerunJobRow, rerun_skips: RerunSkipRow, rerun_batches: RerunBatchRow,
            bulk_operations: BulkRow, bulk_items: BulkItemRow, workers: WorkerRow, resources: ResourceRow,
            worker_groups: GroupRow, calendars: CalendarRow, calendar_versions: CalendarVersionRow, pools: PoolRow, freezes: FreezeRow,
            task_templates: TaskTemplateRow, pull_users: PullUserRow, pull_tasks: PullTaskRow,
            pull_task_versions: PullTaskVersionRow, pull_ledger: PullLedgerRow, pull_grants: PullGrantRow,
            shards: ShardRow, app_keys: AppKeyRow, dead_letters: DeadLetterRow
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
