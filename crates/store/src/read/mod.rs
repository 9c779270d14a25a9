//! Typed reads of the active generation, with paging by key. What the API asks.

mod filter;
mod pull;
mod select;

pub use self::filter::{AttemptFilter, BatchFilter, DeadLetterFilter, JobFilter, RerunFilter, WorkerFilter};
pub use self::pull::{PullGrantFilter, PullTaskFilter, ReadPullTables};
use self::select::{all, one, optional, page, text};
use crate::rows::{
    AppKeyRow, AssignmentReturnRow, AttemptRow, BatchDependencyRow, BatchExternalDependencyRow,
    BatchOutputRow, BatchQualityRow, BatchRow, BulkItemRow, BulkRow, CalendarRow, CalendarVersionRow,
    DeadLetterRow, ExternalDependencyRow, FreezeRow, GroupRow, JobParentRow, JobRow, JobVersionRow,
    LateProbeRow, OverrideRow, PoolRow, RerunBatchRow, RerunJobRow, RerunRow, RerunSkipRow, ResourceRow,
    ShardJobRow, SkippedRunsRow, ThirdPartyReportRow, UserCodeRow, WorkerRow,
};
use crate::{Error, Filter, Page, PageRequest, Row, Select, Tables, Value};

/// Reads for the API. Every one sees the generation that is in use at that moment.
///
/// # Errors
/// Each fails where the database does, and a page of a list where its cursor is of another one.
pub trait ReadTables: Tables {
    /// Jobs that are not deleted, by group and name.
    fn jobs(&self, filter: &JobFilter, request: &PageRequest) -> Result<Page<JobRow>, Error> {
        let mut select = Select::new(JobRow::TABLE, &["group_name", "name", "id"]);
        optional(&mut select, "group_name", filter.group.as_deref().map(text));
        optional(&mut select, "name", filter.name.as_deref().map(text));
        optional(&mut select, "job_type", filter.job_type.as_deref().map(text));
        optional(&mut select, "enabled", filter.enabled.map(|on| Value::Int(i64::from(on))));
        optional(&mut select, "submitted", filter.submitted.map(|on| Value::Int(i64::from(on))));
        page(self, select.equal("deleted_at", Value::Null), request)
    }

    /// A job, deleted ones too.
    fn job(&self, id: i64) -> Result<Option<JobRow>, Error> {
        one(self, Select::new(JobRow::TABLE, &["id"]).equal("id", id))
    }

    /// The job of this name in the catalogue; neither a deleted one nor one that is known by its id only.
    fn job_named(&self, group: &str, name: &str) -> Result<Option<JobRow>, Error> {
        let select = Select::new(JobRow::TABLE, &["id"]).equal("group_name", group).equal("name", name);
        let select =
            select.equal("unnamed", 0_i64).equal("submitted", 0_i64).equal("deleted_at", Value::Null);
        one(self, select)
    }

    /// The parents that a job's newest definition names, in its order.
    fn parents(&self, job: i64) -> Result<Vec<JobParentRow>, Error> {
        all(self, &Select::new(JobParentRow::TABLE, &["job_id", "position"]).equal("job_id", job))
    }

    /// The jobs that name this one as a parent.
    fn children(&self, job: i64) -> Result<Vec<JobParentRow>, Error> {
        all(self, &Select::new(JobParentRow::TABLE, &["job_id", "position"]).equal("parent_id", job))
    }

    /// The versions of a definition of the catalogue, the newest first.
    fn job_versions(&self, job: i64) -> Result<Vec<JobVersionRow>, Error> {
        let mut select = Select::new(JobVersionRow::TABLE, &["version"]).equal("job_id", job);
        select.descending = true;
        all(self, &select)
    }

    /// The same, a part at a time.
    fn job_versions_page(&self, job: i64, request: &PageRequest) -> Result<Page<JobVersionRow>, Error> {
        let mut select = Select::new(JobVersionRow::TABLE, &["version"]).equal("job_id", job);
        select.descending = true;
        page(self, select, request)
    }

    /// One version of a definition of the catalogue.
    fn job_version(&self, job: i64, version: i64) -> Result<Option<JobVersionRow>, Error> {
        let select = Select::new(JobVersionRow::TABLE, &["job_id", "version"]).equal("job_id", job);
        one(self, select.equal("version", version))
    }

    /// The jobs that name this one as a parent, a part at a time.
    fn children_page(&self, job: i64, request: &PageRequest) -> Result<Page<JobParentRow>, Error> {
        let select = Select::new(JobParentRow::TABLE, &["job_id", "position"]).equal("parent_id", job);
        page(self, select, request)
    }

    /// A definition as its shard holds it, with the next fire.
    fn shard_job(&self, job: i64) -> Result<Option<ShardJobRow>, Error> {
        // While a job moves, the tables may show it in two shards; the version grows with the move.
        let mut rows =
            all(self, &Select::new(ShardJobRow::TABLE, &["job_id", "shard_no"]).equal("job_id", job))?;
        rows.sort_by_key(|row: &ShardJobRow| row.version);
        Ok(rows.pop())
    }

    /// Fires of a job that made no batch, in the order of the journal.
    fn skipped_runs(&self, job: i64) -> Result<Vec<SkippedRunsRow>, Error> {
        let order = &["journal_partition", "journal_offset", "event_index"];
        all(self, &Select::new(SkippedRunsRow::TABLE, order).equal("job_id", job))
    }

    /// Batches, the newest first.
    fn batches(&self, filter: &BatchFilter, request: &PageRequest) -> Result<Page<BatchRow>, Error> {
        let mut select = Select::new(BatchRow::TABLE, &["generated_at", "id"]);
        select.descending = true;
        optional(&mut select, "job_id", filter.job.map(Value::Int));
        optional(&mut select, "group_name", filter.group.as_deref().map(text));
        // What is blocked waits, which the index on state, result and time knows.
        let state = filter.state.or(filter.blocked.then_some(0));
        optional(&mut select, "state", state.map(Value::Int));
        match (&filter.result, state) {
            // Says nothing new, but lets the index on state, result and time be used.
            (None, Some(0..=2)) => select = select.equal("result", Value::Null),
            (None, _) => {}
            (Some(result), Some(_)) => select = select.equal("result", result.as_str()),
            (Some(result), None) => select = select.equal("state", 3_i64).equal("result", result.as_str()),
        }
        select.filters.extend(filter.blocked.then_some(Filter::AtLeast("blocked_since", Value::Int(0))));
        select.filters.extend(filter.from.map(|from| Filter::AtLeast("logical_time", Value::Int(from))));
        select.filters.extend(filter.to.map(|to| Filter::Below("logical_time", Value::Int(to))));
        page(self, select, request)
    }

    /// A batch.
    fn batch(&self, id: i64) -> Result<Option<BatchRow>, Error> {
        one(self, Select::new(BatchRow::TABLE, &["id"]).equal("id", id))
    }

    /// The newest batch of a job.
    fn newest_batch(&self, job: i64) -> Result<Option<BatchRow>, Error> {
        let mut select = Select::new(BatchRow::TABLE, &["generated_at", "id"]).equal("job_id", job);
        select.descending = true;
        one(self, select)
    }

    /// What a batch waits for, or waited for.
    fn dependencies(&self, batch: i64) -> Result<Vec<BatchDependencyRow>, Error> {
        let order = &["batch_id", "parent_id", "logical_time"];
        all(self, &Select::new(BatchDependencyRow::TABLE, order).equal("batch_id", batch))
    }

    /// The paths that a batch makes.
    fn batch_outputs(&self, batch: i64) -> Result<Vec<BatchOutputRow>, Error> {
        all(self, &Select::new(BatchOutputRow::TABLE, &["batch_id", "position"]).equal("batch_id", batch))
    }

    /// The external dependencies that a batch waits for, or waited for.
    fn batch_external_dependencies(&self, batch: i64) -> Result<Vec<BatchExternalDependencyRow>, Error> {
        all(
            self,
            &Select::new(BatchExternalDependencyRow::TABLE, &["batch_id", "external_dependency_id"])
                .equal("batch_id", batch),
        )
    }

    /// An external dependency.
    fn external_dependency(&self, id: i64) -> Result<Option<ExternalDependencyRow>, Error> {
        one(self, Select::new(ExternalDependencyRow::TABLE, &["id"]).equal("id", id))
    }

    /// How the quality service stands to a batch, where it is asked.
    fn batch_quality(&self, batch: i64) -> Result<Option<BatchQualityRow>, Error> {
        one(self, Select::new(BatchQualityRow::TABLE, &["batch_id"]).equal("batch_id", batch))
    }

    /// What people let a batch run without, the oldest first.
    fn dependency_overrides(&self, batch: i64) -> Result<Vec<OverrideRow>, Error> {
        let order = &["journal_partition", "journal_offset", "event_index"];
        all(self, &Select::new(OverrideRow::TABLE, order).equal("batch_id", batch))
    }

    /// What third parties said last, by code and logical time.
    fn third_party_reports(
        &self,
        code: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<ThirdPartyReportRow>, Error> {
        let mut select = Select::new(ThirdPartyReportRow::TABLE, &["code", "logical_time"]);
        optional(&mut select, "code", code.map(text));
        page(self, select, request)
    }

    /// Checks of paths that fail or are late.
    fn late_probes(&self) -> Result<Vec<LateProbeRow>, Error> {
        all(self, &Select::new(LateProbeRow::TABLE, &["authority", "prober"]))
    }

    /// Attempts, the newest first. Ids of different shards do not compare in time.
    fn attempts(&self, filter: &AttemptFilter, request: &PageRequest) -> Result<Page<AttemptRow>, Error> {
        let mut select = Select::new(AttemptRow::TABLE, &["id"]);
        select.descending = true;
        optional(&mut select, "batch_id", filter.batch.map(Value::Int));
        optional(&mut select, "job_id", filter.job.map(Value::Int));
        optional(&mut select, "worker_id", filter.worker.as_deref().map(text));
        page(self, select, request)
    }

    /// The codes that programs of a batch reported, in the order of the journal.
    fn user_codes(&self, batch: i64) -> Result<Vec<UserCodeRow>, Error> {
        let order = &["journal_partition", "journal_offset", "event_index"];
        all(self, &Select::new(UserCodeRow::TABLE, order).equal("batch_id", batch))
    }

    /// The assignments of a batch that ended without an attempt, the oldest first.
    fn assignment_returns(&self, batch: i64) -> Result<Vec<AssignmentReturnRow>, Error> {
        all(self, &Select::new(AssignmentReturnRow::TABLE, &["token"]).equal("batch_id", batch))
    }

    /// Reruns and cold starts, the newest first.
    fn reruns(&self, filter: &RerunFilter, request: &PageRequest) -> Result<Page<RerunRow>, Error> {
        let mut select = Select::new(RerunRow::TABLE, &["id"]);
        select.descending = true;
        optional(&mut select, "kind", filter.kind.as_deref().map(text));
        optional(&mut select, "state", filter.state.as_deref().map(text));
        page(self, select, request)
    }

    /// A rerun or cold start.
    fn rerun(&self, id: i64) -> Result<Option<RerunRow>, Error> {
        one(self, Select::new(RerunRow::TABLE, &["id"]).equal("id", id))
    }

    /// The jobs of a rerun or cold start, in the order of its plan.
    fn rerun_jobs(&self, rerun: i64) -> Result<Vec<RerunJobRow>, Error> {
        all(self, &Select::new(RerunJobRow::TABLE, &["rerun_id", "position"]).equal("rerun_id", rerun))
    }

    /// The jobs that a rerun or cold start leaves out.
    fn rerun_skips(&self, rerun: i64) -> Result<Vec<RerunSkipRow>, Error> {
        all(self, &Select::new(RerunSkipRow::TABLE, &["rerun_id", "job_id"]).equal("rerun_id", rerun))
    }

    /// The batches of a plan, by number.
    fn rerun_batches(
        &self,
        rerun: i64,
        state: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<RerunBatchRow>, Error> {
        let mut select = Select::new(RerunBatchRow::TABLE, &["rerun_id", "number"]).equal("rerun_id", rerun);
        optional(&mut select, "state", state.map(text));
        page(self, select, request)
    }

    /// Workers, by id.
    fn workers(&self, filter: &WorkerFilter, request: &PageRequest) -> Result<Page<WorkerRow>, Error> {
        let mut select = Select::new(WorkerRow::TABLE, &["id", "shard"]);
        optional(&mut select, "group_name", filter.group.as_deref().map(text));
        optional(&mut select, "state", filter.state.as_deref().map(text));
        page(self, select, request)
    }

    /// A worker, in every shard that it ever worked for; the newest registration first.
    fn worker(&self, id: &str) -> Result<Vec<WorkerRow>, Error> {
        let mut select = Select::new(WorkerRow::TABLE, &["registered_at", "shard"]).equal("id", id);
        select.descending = true;
        all(self, &select)
    }

    /// What a worker can run at once, by type.
    fn resources(&self, worker: &str) -> Result<Vec<ResourceRow>, Error> {
        let order = &["worker_id", "shard", "job_type"];
        all(self, &Select::new(ResourceRow::TABLE, order).equal("worker_id", worker))
    }

    /// Operations on many batches or jobs, the newest first.
    fn bulk_operations(&self, request: &PageRequest) -> Result<Page<BulkRow>, Error> {
        let mut select = Select::new(BulkRow::TABLE, &["id"]);
        select.descending = true;
        page(self, select, request)
    }

    /// Those that have not ended, the oldest first.
    fn open_bulk_operations(&self, request: &PageRequest) -> Result<Page<BulkRow>, Error> {
        page(self, Select::new(BulkRow::TABLE, &["id"]).equal("ended_at", Value::Null), request)
    }

    /// An operation on many batches or jobs.
    fn bulk_operation(&self, id: i64) -> Result<Option<BulkRow>, Error> {
        one(self, Select::new(BulkRow::TABLE, &["id"]).equal("id", id))
    }

    /// The items of an operation, by id.
    fn bulk_items(
        &self,
        bulk: i64,
        outcome: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<BulkItemRow>, Error> {
        let mut select = Select::new(BulkItemRow::TABLE, &["bulk_id", "item_id"]).equal("bulk_id", bulk);
        optional(&mut select, "outcome", outcome.map(text));
        page(self, select, request)
    }

    /// What is frozen, by group.
    fn freezes(&self) -> Result<Vec<FreezeRow>, Error> {
        all(self, &Select::new(FreezeRow::TABLE, &["scope"]))
    }

    /// The groups, by number.
    fn groups(&self) -> Result<Vec<GroupRow>, Error> {
        all(self, &Select::new(GroupRow::TABLE, &["id"]))
    }

    /// A group by name.
    fn group_named(&self, name: &str) -> Result<Option<GroupRow>, Error> {
        one(self, Select::new(GroupRow::TABLE, &["id"]).equal("name", name))
    }

    /// A group by number.
    fn group(&self, id: i64) -> Result<Option<GroupRow>, Error> {
        one(self, Select::new(GroupRow::TABLE, &["id"]).equal("id", id))
    }

    /// The calendars, by name.
    fn calendars(&self, request: &PageRequest) -> Result<Page<CalendarRow>, Error> {
        page(self, Select::new(CalendarRow::TABLE, &["name"]), request)
    }

    /// The pools, by name.
    fn pools(&self, request: &PageRequest) -> Result<Page<PoolRow>, Error> {
        page(self, Select::new(PoolRow::TABLE, &["name"]), request)
    }

    /// A pool by name.
    fn pool(&self, name: &str) -> Result<Option<PoolRow>, Error> {
        one(self, Select::new(PoolRow::TABLE, &["name"]).equal("name", name))
    }

    /// A calendar by name.
    fn calendar(&self, name: &str) -> Result<Option<CalendarRow>, Error> {
        one(self, Select::new(CalendarRow::TABLE, &["name"]).equal("name", name))
    }

    /// The versions of a calendar, the newest first; those of a removed one, too.
    fn calendar_versions(
        &self,
        name: &str,
        request: &PageRequest,
    ) -> Result<Page<CalendarVersionRow>, Error> {
        let mut select = Select::new(CalendarVersionRow::TABLE, &["version"]).equal("name", name);
        select.descending = true;
        page(self, select, request)
    }

    /// One version of a calendar.
    fn calendar_version(&self, name: &str, version: i64) -> Result<Option<CalendarVersionRow>, Error> {
        let select = Select::new(CalendarVersionRow::TABLE, &["name", "version"]).equal("name", name);
        one(self, select.equal("version", version))
    }

    /// The application keys that are good.
    fn app_keys(&self) -> Result<Vec<AppKeyRow>, Error> {
        all(self, &Select::new(AppKeyRow::TABLE, &["app"]))
    }

    /// An application key that is good.
    fn app_key(&self, app: &str) -> Result<Option<AppKeyRow>, Error> {
        one(self, Select::new(AppKeyRow::TABLE, &["app"]).equal("app", app))
    }

    /// What was set aside, in the order of the journal.
    fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        request: &PageRequest,
    ) -> Result<Page<DeadLetterRow>, Error> {
        let order = &["journal_partition", "journal_offset", "event_index"];
        let mut select = Select::new(DeadLetterRow::TABLE, order);
        optional(&mut select, "kind", filter.kind.as_deref().map(text));
        optional(&mut select, "is_open", filter.is_open.map(|open| Value::Int(i64::from(open))));
        page(self, select, request)
    }

    /// One of these, by its place in the journal.
    fn dead_lettered(&self, place: (i64, i64, i64)) -> Result<Option<DeadLetterRow>, Error> {
        let order = &["journal_partition", "journal_offset", "event_index"];
        let (partition, offset, index) = place;
        let select = Select::new(DeadLetterRow::TABLE, order).equal("journal_partition", partition);
        one(self, select.equal("journal_offset", offset).equal("event_index", index))
    }
}

impl<T: Tables + ?Sized> ReadTables for T {}
