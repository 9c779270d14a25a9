//! Typed reads of the active generation, with paging by key. What the API asks.

mod audit;
mod filter;
mod pull;
mod reach;
mod select;

pub use self::audit::{AuditFilter, ReadAudit};
pub use self::filter::{AttemptFilter, BatchFilter, DeadLetterFilter, JobFilter, RerunFilter, WorkerFilter};
pub use self::pull::{PullGrantFilter, PullTaskFilter, ReadPullTables};
pub use self::reach::{Reach, Within};
use crate::rows::{
    AppKeyRow, AssignmentReturnRow, AttemptRow, BatchDependencyRow, BatchExternalDependencyRow,
    BatchOutputRow, BatchQualityRow, BatchRow, BulkItemRow, BulkRow, CalendarRow, CalendarVersionRow,
    DrainedHostRow, ExternalDependencyRow, FreezeRow, GroupRow, JobParentRow, JobRow, JobVersionRow,
    LateProbeRow, OverrideRow, PoolRow, RerunBatchRow, RerunJobRow, RerunRow, RerunSkipRow, ResourceRow,
    ShardJobRow, SkippedRunsRow, ThirdPartyReportRow, UserCodeRow, WorkerRow,
};
use crate::{Error, Filter, Page, PageRequest, Row, Select, Tables, Value};

/// Where a fact stands in the journal.
const PLACE: &[&str] = &["journal_partition", "journal_offset", "event_index"];

/// Reads for the API. Every one sees the generation that is in use at that moment.
///
/// # Errors
/// Each fails where the database does, and a page of a list where its cursor is of another one.
pub trait ReadTables: Tables {
    /// Jobs that are not deleted, by group and name.
    fn jobs(&self, filter: &JobFilter, request: &PageRequest) -> Result<Page<JobRow>, Error> {
        Select::new(JobRow::TABLE, &["group_name", "name", "id"])
            .maybe("group_name", filter.group.as_deref())
            .maybe("name", filter.name.as_deref())
            .maybe("job_type", filter.job_type.as_deref())
            .maybe("enabled", filter.enabled)
            .maybe("submitted", filter.submitted)
            .jobs_within(filter.reach.as_ref())
            .equal("deleted_at", Value::Null)
            .page(self, request)
    }

    /// A job, deleted ones too.
    fn job(&self, id: i64) -> Result<Option<JobRow>, Error> {
        Select::new(JobRow::TABLE, &["id"]).equal("id", id).one(self)
    }

    /// The job of this name in the catalogue; neither a deleted one nor one that is known by its id only.
    fn job_named(&self, group: &str, name: &str) -> Result<Option<JobRow>, Error> {
        Select::new(JobRow::TABLE, &["id"])
            .equal("group_name", group)
            .equal("name", name)
            .equal("unnamed", false)
            .equal("submitted", false)
            .equal("deleted_at", Value::Null)
            .one(self)
    }

    /// The parents that a job's newest definition names, in its order.
    fn parents(&self, job: i64) -> Result<Vec<JobParentRow>, Error> {
        Select::new(JobParentRow::TABLE, &["job_id", "position"]).equal("job_id", job).all(self)
    }

    /// The versions of a definition of the catalogue, the newest first.
    fn job_versions(&self, job: i64) -> Result<Vec<JobVersionRow>, Error> {
        Select::new(JobVersionRow::TABLE, &["version"]).equal("job_id", job).descending().all(self)
    }

    /// The same, a part at a time.
    fn job_versions_page(&self, job: i64, request: &PageRequest) -> Result<Page<JobVersionRow>, Error> {
        Select::new(JobVersionRow::TABLE, &["version"]).equal("job_id", job).descending().page(self, request)
    }

    /// One version of a definition of the catalogue.
    fn job_version(&self, job: i64, version: i64) -> Result<Option<JobVersionRow>, Error> {
        Select::new(JobVersionRow::TABLE, &["job_id", "version"])
            .equal("job_id", job)
            .equal("version", version)
            .one(self)
    }

    /// The jobs that name this one as a parent, a part at a time.
    fn children_page(
        &self,
        job: i64,
        reach: Option<&Reach>,
        request: &PageRequest,
    ) -> Result<Page<JobParentRow>, Error> {
        Select::new(JobParentRow::TABLE, &["job_id", "position"])
            .equal("parent_id", job)
            .of_jobs_within(reach)
            .page(self, request)
    }

    /// A definition as its shard holds it, with the next fire.
    fn shard_job(&self, job: i64) -> Result<Option<ShardJobRow>, Error> {
        // While a job moves, the tables may show it in two shards; the version grows with the move.
        let mut rows =
            Select::new(ShardJobRow::TABLE, &["job_id", "shard_no"]).equal("job_id", job).all(self)?;
        rows.sort_by_key(|row: &ShardJobRow| row.version);
        Ok(rows.pop())
    }

    /// Fires of a job that made no batch, in the order of the journal.
    fn skipped_runs(&self, job: i64) -> Result<Vec<SkippedRunsRow>, Error> {
        Select::new(SkippedRunsRow::TABLE, PLACE).equal("job_id", job).all(self)
    }

    /// Batches, the newest first.
    fn batches(&self, filter: &BatchFilter, request: &PageRequest) -> Result<Page<BatchRow>, Error> {
        // What is blocked waits, which the index on state, result and time knows.
        let state = filter.state.or(filter.blocked.then_some(0));
        let mut select = Select::new(BatchRow::TABLE, &["generated_at", "id"])
            .descending()
            .maybe("job_id", filter.job)
            .maybe("group_name", filter.group.as_deref())
            .maybe("triggered_by", filter.triggered_by.as_deref())
            .maybe("state", state);
        match (&filter.result, state) {
            // Says nothing new, but lets the index on state, result and time be used.
            (None, Some(0..=2)) => select = select.equal("result", Value::Null),
            (None, _) => {}
            (Some(result), Some(_)) => select = select.equal("result", result.as_str()),
            (Some(result), None) => select = select.equal("state", 3_i64).equal("result", result.as_str()),
        }
        select.filters.extend(filter.blocked.then_some(Filter::AtLeast("blocked_since", Value::Int(0))));
        let select = select.between("logical_time", filter.from, filter.to);
        select.page_within(self, (filter.reach.as_ref(), filter.job), request)
    }

    /// A batch.
    fn batch(&self, id: i64) -> Result<Option<BatchRow>, Error> {
        Select::new(BatchRow::TABLE, &["id"]).equal("id", id).one(self)
    }

    /// The newest batch of a job.
    fn newest_batch(&self, job: i64) -> Result<Option<BatchRow>, Error> {
        Select::new(BatchRow::TABLE, &["generated_at", "id"]).equal("job_id", job).descending().one(self)
    }

    /// What a batch waits for, or waited for.
    fn dependencies(&self, batch: i64) -> Result<Vec<BatchDependencyRow>, Error> {
        Select::new(BatchDependencyRow::TABLE, &["batch_id", "parent_id", "logical_time"])
            .equal("batch_id", batch)
            .all(self)
    }

    /// The paths that a batch makes.
    fn batch_outputs(&self, batch: i64) -> Result<Vec<BatchOutputRow>, Error> {
        Select::new(BatchOutputRow::TABLE, &["batch_id", "position"]).equal("batch_id", batch).all(self)
    }

    /// The external dependencies that a batch waits for, or waited for.
    fn batch_external_dependencies(&self, batch: i64) -> Result<Vec<BatchExternalDependencyRow>, Error> {
        Select::new(BatchExternalDependencyRow::TABLE, &["batch_id", "external_dependency_id"])
            .equal("batch_id", batch)
            .all(self)
    }

    /// An external dependency.
    fn external_dependency(&self, id: i64) -> Result<Option<ExternalDependencyRow>, Error> {
        Select::new(ExternalDependencyRow::TABLE, &["id"]).equal("id", id).one(self)
    }

    /// How the quality service stands to a batch, where it is asked.
    fn batch_quality(&self, batch: i64) -> Result<Option<BatchQualityRow>, Error> {
        Select::new(BatchQualityRow::TABLE, &["batch_id"]).equal("batch_id", batch).one(self)
    }

    /// What people let a batch run without, the oldest first.
    fn dependency_overrides(&self, batch: i64) -> Result<Vec<OverrideRow>, Error> {
        Select::new(OverrideRow::TABLE, PLACE).equal("batch_id", batch).all(self)
    }

    /// What third parties said last, by code and logical time.
    fn third_party_reports(
        &self,
        code: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<ThirdPartyReportRow>, Error> {
        Select::new(ThirdPartyReportRow::TABLE, &["code", "logical_time"])
            .maybe("code", code)
            .page(self, request)
    }

    /// Checks of paths that fail or are late.
    fn late_probes(&self) -> Result<Vec<LateProbeRow>, Error> {
        Select::new(LateProbeRow::TABLE, &["authority", "prober"]).all(self)
    }

    /// Attempts, the newest first. Ids of different shards do not compare in time.
    fn attempts(&self, filter: &AttemptFilter, request: &PageRequest) -> Result<Page<AttemptRow>, Error> {
        Select::new(AttemptRow::TABLE, &["id"])
            .descending()
            .maybe("batch_id", filter.batch)
            .maybe("job_id", filter.job)
            .maybe("worker_id", filter.worker.as_deref())
            .of_jobs_within(filter.reach.as_ref())
            .page(self, request)
    }

    /// The codes that programs of a batch reported, in the order of the journal.
    fn user_codes(&self, batch: i64) -> Result<Vec<UserCodeRow>, Error> {
        Select::new(UserCodeRow::TABLE, PLACE).equal("batch_id", batch).all(self)
    }

    /// The assignments of a batch that ended without an attempt, the oldest first.
    fn assignment_returns(&self, batch: i64) -> Result<Vec<AssignmentReturnRow>, Error> {
        Select::new(AssignmentReturnRow::TABLE, &["token"]).equal("batch_id", batch).all(self)
    }

    /// Reruns and cold starts, the newest first.
    fn reruns(&self, filter: &RerunFilter, request: &PageRequest) -> Result<Page<RerunRow>, Error> {
        Select::new(RerunRow::TABLE, &["id"])
            .descending()
            .maybe("kind", filter.kind.as_deref())
            .maybe("state", filter.state.as_deref())
            .page(self, request)
    }

    /// A rerun or cold start.
    fn rerun(&self, id: i64) -> Result<Option<RerunRow>, Error> {
        Select::new(RerunRow::TABLE, &["id"]).equal("id", id).one(self)
    }

    /// The jobs of a rerun or cold start, in the order of its plan.
    fn rerun_jobs(&self, rerun: i64) -> Result<Vec<RerunJobRow>, Error> {
        Select::new(RerunJobRow::TABLE, &["rerun_id", "position"]).equal("rerun_id", rerun).all(self)
    }

    /// The jobs that a rerun or cold start leaves out.
    fn rerun_skips(&self, rerun: i64) -> Result<Vec<RerunSkipRow>, Error> {
        Select::new(RerunSkipRow::TABLE, &["rerun_id", "job_id"]).equal("rerun_id", rerun).all(self)
    }

    /// The batches of a plan, by number.
    fn rerun_batches(
        &self,
        rerun: i64,
        state: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<RerunBatchRow>, Error> {
        Select::new(RerunBatchRow::TABLE, &["rerun_id", "number"])
            .equal("rerun_id", rerun)
            .maybe("state", state)
            .page(self, request)
    }

    /// Workers, by id.
    fn workers(&self, filter: &WorkerFilter, request: &PageRequest) -> Result<Page<WorkerRow>, Error> {
        Select::new(WorkerRow::TABLE, &["id", "shard"])
            .maybe("group_name", filter.group.as_deref())
            .maybe("state", filter.state.as_deref())
            .of_groups_within(filter.reach.as_ref())
            .page(self, request)
    }

    /// A worker, in every shard that it ever worked for; the newest registration first.
    fn worker(&self, id: &str) -> Result<Vec<WorkerRow>, Error> {
        Select::new(WorkerRow::TABLE, &["registered_at", "shard"]).equal("id", id).descending().all(self)
    }

    /// The newest registrations on a host, in every shard; those of the last ones first.
    fn workers_on(&self, host: &str) -> Result<Vec<WorkerRow>, Error> {
        Select::new(WorkerRow::TABLE, &["registered_at", "id", "shard"])
            .equal("host", host)
            .descending()
            .all(self)
    }

    /// Attempts of a worker that have not ended.
    fn running_on(&self, worker: &str) -> Result<Vec<AttemptRow>, Error> {
        let select = Select::new(AttemptRow::TABLE, &["id"]).equal("worker_id", worker);
        select.equal("finished_at", Value::Null).all(self)
    }

    /// Hosts that are drained, by name.
    fn drained_hosts(&self) -> Result<Vec<DrainedHostRow>, Error> {
        Select::new(DrainedHostRow::TABLE, &["host", "shard"]).all(self)
    }

    /// What a worker can run at once, by type.
    fn resources(&self, worker: &str) -> Result<Vec<ResourceRow>, Error> {
        Select::new(ResourceRow::TABLE, &["worker_id", "shard", "job_type"])
            .equal("worker_id", worker)
            .all(self)
    }

    /// Operations on many batches or jobs, the newest first.
    fn bulk_operations(&self, request: &PageRequest) -> Result<Page<BulkRow>, Error> {
        Select::new(BulkRow::TABLE, &["id"]).descending().page(self, request)
    }

    /// Those that have not ended, the oldest first.
    fn open_bulk_operations(&self, request: &PageRequest) -> Result<Page<BulkRow>, Error> {
        Select::new(BulkRow::TABLE, &["id"]).equal("ended_at", Value::Null).page(self, request)
    }

    /// An operation on many batches or jobs.
    fn bulk_operation(&self, id: i64) -> Result<Option<BulkRow>, Error> {
        Select::new(BulkRow::TABLE, &["id"]).equal("id", id).one(self)
    }

    /// The items of an operation, by id.
    fn bulk_items(
        &self,
        bulk: i64,
        outcome: Option<&str>,
        request: &PageRequest,
    ) -> Result<Page<BulkItemRow>, Error> {
        Select::new(BulkItemRow::TABLE, &["bulk_id", "item_id"])
            .equal("bulk_id", bulk)
            .maybe("outcome", outcome)
            .page(self, request)
    }

    /// What is frozen, by group.
    fn freezes(&self) -> Result<Vec<FreezeRow>, Error> {
        Select::new(FreezeRow::TABLE, &["scope"]).all(self)
    }

    /// The groups, by number.
    fn groups(&self) -> Result<Vec<GroupRow>, Error> {
        Select::new(GroupRow::TABLE, &["id"]).all(self)
    }

    /// A group by name.
    fn group_named(&self, name: &str) -> Result<Option<GroupRow>, Error> {
        Select::new(GroupRow::TABLE, &["id"]).equal("name", name).one(self)
    }

    /// A group by number.
    fn group(&self, id: i64) -> Result<Option<GroupRow>, Error> {
        Select::new(GroupRow::TABLE, &["id"]).equal("id", id).one(self)
    }

    /// The calendars, by name.
    fn calendars(&self, request: &PageRequest) -> Result<Page<CalendarRow>, Error> {
        Select::new(CalendarRow::TABLE, &["name"]).page(self, request)
    }

    /// The pools, by name.
    fn pools(&self, reach: Option<&Reach>, request: &PageRequest) -> Result<Page<PoolRow>, Error> {
        Select::new(PoolRow::TABLE, &["name"]).shared_or_within(reach).page(self, request)
    }

    /// A pool by name.
    fn pool(&self, name: &str) -> Result<Option<PoolRow>, Error> {
        Select::new(PoolRow::TABLE, &["name"]).equal("name", name).one(self)
    }

    /// A calendar by name.
    fn calendar(&self, name: &str) -> Result<Option<CalendarRow>, Error> {
        Select::new(CalendarRow::TABLE, &["name"]).equal("name", name).one(self)
    }

    /// The versions of a calendar, the newest first; those of a removed one, too.
    fn calendar_versions(
        &self,
        name: &str,
        request: &PageRequest,
    ) -> Result<Page<CalendarVersionRow>, Error> {
        Select::new(CalendarVersionRow::TABLE, &["version"])
            .equal("name", name)
            .descending()
            .page(self, request)
    }

    /// One version of a calendar.
    fn calendar_version(&self, name: &str, version: i64) -> Result<Option<CalendarVersionRow>, Error> {
        let select = Select::new(CalendarVersionRow::TABLE, &["name", "version"]).equal("name", name);
        select.equal("version", version).one(self)
    }

    /// The application keys that are good.
    fn app_keys(&self) -> Result<Vec<AppKeyRow>, Error> {
        Select::new(AppKeyRow::TABLE, &["app"]).all(self)
    }

    /// An application key that is good.
    fn app_key(&self, app: &str) -> Result<Option<AppKeyRow>, Error> {
        Select::new(AppKeyRow::TABLE, &["app"]).equal("app", app).one(self)
    }
}

impl<T: Tables + ?Sized> ReadTables for T {}
