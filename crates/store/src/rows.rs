//! What is in which table. The columns of the key come first in every struct. All times are milliseconds
//! since 1970 and come from an envelope's `now`, never from a clock.

mod audit;
mod batch;
mod bulk;
mod catalogue;
mod external_dependency;
mod job;
mod journal;
mod pull;
mod rerun;
mod worker;

pub use audit::{AuditRow, DirectoryEntryRow};
pub use batch::{AssignmentReturnRow, AttemptRow, BatchDependencyRow, BatchOutputRow, BatchRow, UserCodeRow};
pub use bulk::{BulkItemRow, BulkRow};
pub use catalogue::{AppKeyRow, CalendarRow, CalendarVersionRow, FreezeRow, PoolRow};
pub use external_dependency::{
    BatchExternalDependencyRow, BatchQualityRow, ExternalDependencyRow, LateProbeRow, OverrideRow,
    ThirdPartyReportRow,
};
pub use job::{JobParentRow, JobRow, JobVersionRow, ShardJobRow, SkippedRunsRow};
pub use journal::{DeadLetterRow, ShardRow};
pub use pull::{PullGrantRow, PullLedgerRow, PullTaskRow, PullTaskVersionRow, PullUserRow, TaskTemplateRow};
pub use rerun::{RerunBatchRow, RerunJobRow, RerunRow, RerunSkipRow};
pub use worker::{DrainedHostRow, GroupRow, ResourceRow, WorkerRow};

use crate::{Row, Table};

/// Calls a macro with every row type, in the order of the manual.
#[macro_export]
macro_rules! for_each_row {
    ($then:ident) => {
        $then! {
            jobs: $crate::rows::JobRow,
            job_versions: $crate::rows::JobVersionRow,
            job_parents: $crate::rows::JobParentRow,
            shard_jobs: $crate::rows::ShardJobRow,
            skipped_runs: $crate::rows::SkippedRunsRow,
            batches: $crate::rows::BatchRow,
            batch_dependencies: $crate::rows::BatchDependencyRow,
            batch_outputs: $crate::rows::BatchOutputRow,
            external_dependencies: $crate::rows::ExternalDependencyRow,
            batch_external_dependencies: $crate::rows::BatchExternalDependencyRow,
            batch_quality: $crate::rows::BatchQualityRow,
            dependency_overrides: $crate::rows::OverrideRow,
            third_party_reports: $crate::rows::ThirdPartyReportRow,
            late_probes: $crate::rows::LateProbeRow,
            attempts: $crate::rows::AttemptRow,
            user_code_reports: $crate::rows::UserCodeRow,
            assignment_returns: $crate::rows::AssignmentReturnRow,
            reruns: $crate::rows::RerunRow,
            rerun_jobs: $crate::rows::RerunJobRow,
            rerun_skips: $crate::rows::RerunSkipRow,
            rerun_batches: $crate::rows::RerunBatchRow,
            bulk_operations: $crate::rows::BulkRow,
            bulk_items: $crate::rows::BulkItemRow,
            workers: $crate::rows::WorkerRow,
            drained_hosts: $crate::rows::DrainedHostRow,
            resources: $crate::rows::ResourceRow,
            worker_groups: $crate::rows::GroupRow,
            calendars: $crate::rows::CalendarRow,
            calendar_versions: $crate::rows::CalendarVersionRow,
            pools: $crate::rows::PoolRow,
            freezes: $crate::rows::FreezeRow,
            task_templates: $crate::rows::TaskTemplateRow,
            pull_users: $crate::rows::PullUserRow,
            pull_tasks: $crate::rows::PullTaskRow,
            pull_task_versions: $crate::rows::PullTaskVersionRow,
            pull_ledger: $crate::rows::PullLedgerRow,
            pull_grants: $crate::rows::PullGrantRow,
            audit: $crate::rows::AuditRow,
            directory_entries: $crate::rows::DirectoryEntryRow,
            shards: $crate::rows::ShardRow,
            app_keys: $crate::rows::AppKeyRow,
            dead_letters: $crate::rows::DeadLetterRow
        }
    };
}

macro_rules! tables {
    ($($name:ident: $row:path),+) => {
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
