//! What the tables hold in most tests: two groups, a few keys, jobs, batches, a worker.

use sha2::{Digest, Sha256};
use tidemill_model::{
    GroupId, GroupName, JobDefinition, JobId, JobName, JobSpec, JobType, Mapping, Parent, Period,
    ScheduleInput, ShardId,
};
use tidemill_store::rows::{
    AppKeyRow, AttemptRow, BatchDependencyRow, BatchRow, GroupRow, JobRow, PullUserRow, WorkerRow,
};
use tidemill_store::{Position, Row, RowBatch, TableChanges, Tables};

/// 2025-03-01T00:00:00.000Z.
pub(crate) const T0: i64 = 1_740_787_200_000;

/// Writes rows, as the projector does, so that the tables stand at `offset` of partition 0.
pub(crate) struct Writer<'a> {
    tables: &'a dyn Tables,
    generation: u32,
    changes: Vec<TableChanges>,
    from: Option<Position>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(tables: &'a dyn Tables) -> Self {
        let generation = match tables.active().unwrap() {
            Some(generation) => generation.number,
            None => {
                let generation = tables.create_generation().unwrap();
                tables.activate(generation, &[]).unwrap();
                generation
            }
        };
        let from = tables.positions(generation).unwrap().remove(&0);
        Self { tables, generation, changes: Vec::new(), from }
    }

    pub(crate) fn rows<R: Row>(mut self, mut rows: Vec<R>) -> Self {
        rows.sort_by_key(Row::key);
        let upserts = rows.iter().map(Row::values).collect();
        self.changes.push(TableChanges { table: R::TABLE, upserts, deletes: Vec::new() });
        self
    }

    pub(crate) fn commit(self, offset: u64) {
        let to = Position { offset, head: format!("head {offset}").into() };
        let batch = RowBatch { partition: 0, from: self.from, to, changes: self.changes };
        self.tables.write(self.generation, &batch).unwrap();
    }
}

/// The secret of every key.
pub(crate) const SECRET: &str = "correct-horse-battery";

pub(crate) fn key(app: &str, role: &str, groups: &[&str]) -> AppKeyRow {
    let hash: String = Sha256::digest(SECRET.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    AppKeyRow {
        app: app.into(),
        hash: hash.into(),
        role: role.into(),
        groups: serde_json::to_string(groups).unwrap().into(),
        accounts: "[]".into(),
        may: "[]".into(),
        department: None,
        defined_at: T0,
    }
}

pub(crate) fn group(number: i64, name: &str) -> GroupRow {
    GroupRow {
        id: number,
        name: name.into(),
        shard: number,
        worker_key: "00".repeat(32).into(),
        settings: "{}".into(),
        defined_at: T0,
        changed_at: T0,
    }
}

/// A job of the catalogue.
pub(crate) fn definition(counter: u64, group: &str, name: &str) -> JobDefinition {
    let group = GroupName::try_from(group).unwrap();
    let name = JobName::try_from(name).unwrap();
    let day = ScheduleInput { period: Some(Period::Day), cron: None, zone: Some("Europe/Berlin".to_owned()) };
    JobDefinition {
        id: JobId::mint(counter, ShardId::CATALOGUE),
        version: 1,
        group_id: GroupId(if group.as_str() == "other" { 2 } else { 1 }),
        parents: Vec::new(),
        run_as_by: None,
        spec: JobSpec {
            owner: "ann".to_owned(),
            command: Some("echo ${yyyy-MM-dd} ${param.city}".to_owned()),
            parameters: [("city".to_owned(), "Trier".to_owned())].into(),
            schedule: Some(day),
            retries: 2,
            ..JobSpec::new(&group, &name, &JobType::try_from("shell").unwrap())
        },
    }
}

pub(crate) fn job_row(definition: &JobDefinition) -> JobRow {
    let spec = &definition.spec;
    JobRow {
        id: definition.id.0,
        version: i64::from(definition.version),
        group_name: spec.group.as_str().into(),
        group_id: i64::from(definition.group_id.0),
        name: spec.name.as_str().into(),
        unnamed: false,
        submitted: false,
        owner: spec.owner.as_str().into(),
        owner_name: Some(spec.owner.as_str().into()).filter(|_| !spec.owner.is_empty()),
        business_name: Some(spec.business_type.as_str().into()).filter(|_| !spec.business_type.is_empty()),
        job_type: spec.job_type.as_str().into(),
        parent_count: definition.parents.len() as i64,
        definition: serde_json::to_string(definition).unwrap().into(),
        enabled: true,
        defined_at: T0,
        changed_at: T0,
        changed_by: None,
        disabled_at: None,
        disabled_by: None,
        deleted_at: None,
    }
}

/// `extract`, and `load` which waits for it and for its own past, in group demo; `other` in group other.
pub(crate) fn definitions() -> Vec<JobDefinition> {
    let extract = definition(1, "demo", "extract");
    let mut load = definition(2, "demo", "load");
    load.spec.depends_on_past = true;
    load.parents = vec![
        Parent { job: extract.id, mapping: Mapping::Same },
        Parent { job: JobId::mint(3, ShardId::CATALOGUE), mapping: Mapping::Offset(1) },
        Parent { job: load.id, mapping: Mapping::Offset(1) },
    ];
    let mut other = definition(3, "other", "other");
    other.spec.schedule = None;
    vec![extract, load, other]
}

pub(crate) fn parents() -> Vec<tidemill_store::rows::JobParentRow> {
    let rows = definitions().into_iter().flat_map(|definition| {
        let job_id = definition.id.0;
        definition.parents.into_iter().enumerate().map(move |(position, parent)| {
            tidemill_store::rows::JobParentRow {
                job_id,
                position: position as i64,
                parent_id: parent.job.0,
                mapping: "same".into(),
                mapping_offset: None,
            }
        })
    });
    rows.collect()
}

/// The `counter`-th batch of group demo.
pub(crate) fn batch(counter: i64, state: i64) -> BatchRow {
    let definition = &definitions()[0];
    BatchRow {
        id: (counter << 12) | 1,
        job_id: definition.id.0,
        job_version: 1,
        calendar_version: None,
        job_name: "extract".into(),
        group_name: "demo".into(),
        job_type: "shell".into(),
        logical_time: T0 + counter * 86_400_000,
        run: 0,
        origin: "schedule".into(),
        rerun_id: None,
        rerun_number: None,
        triggered_by: None,
        parameters: "{}".into(),
        state,
        result: (state == 3).then(|| "success".into()),
        unmet: 0,
        counted_parents: 0,
        attempt: i64::from(state > 0),
        attempts: i64::from(state > 1),
        returned: 0,
        worker_id: (state > 0).then(|| "w1".into()),
        token: None,
        message: "".into(),
        killed_by: None,
        generated_at: T0 + counter * 86_400_000,
        ready_at: Some(T0 + counter * 86_400_000),
        assigned_at: None,
        start_by: None,
        started_at: None,
        retry_at: None,
        kill_requested_at: None,
        finished_at: (state == 3).then_some(T0 + counter * 86_400_000 + 5_000),
        earliest_start_at: None,
        dependency_timeout_at: None,
        output_timeout_at: None,
        not_successful_by_at: None,
        blocked_since: None,
        blocked_by: None,
        blocked_by_time: None,
        overridden_result: None,
        result_overridden_at: None,
        result_overridden_by: None,
        result_override_reason: None,
        final_token: None,
        final_result: None,
        final_message: None,
        final_ended_at: None,
    }
}

/// The attempt of the finished batch 1.
pub(crate) fn attempt() -> AttemptRow {
    AttemptRow {
        id: (1 << 12) | 1,
        batch_id: batch(1, 3).id,
        job_id: batch(1, 3).job_id,
        attempt: 1,
        worker_id: "w1".into(),
        incarnation: "i1".into(),
        granted_at: T0,
        started_at: Some(T0),
        finished_at: Some(T0 + 5_000),
        result: Some("success".into()),
        interrupted: false,
        exit_code: Some(0),
        signal_number: None,
        user_code: None,
        message: "".into(),
        passed_values: "{}".into(),
        duration_ms: Some(5_000),
        cpu_ms: Some(40),
        peak_memory_kib: Some(2_048),
        peak_processes: Some(3),
        read_kib: Some(16),
        written_kib: Some(32),
        excess: Some("memory_alarm".into()),
        excess_limit: Some(1),
        excess_seen: Some(2),
        unenforced_limits: r#"["cpu"]"#.into(),
        external_work: r#"["application_1700000000000_0001"]"#.into(),
        external_work_unconfirmed: true,
    }
}

/// The worker of group demo, which serves its logs at `address`.
pub(crate) fn worker(address: &str) -> WorkerRow {
    WorkerRow {
        id: "w1".into(),
        shard: 1,
        group_name: "demo".into(),
        incarnation: "i1".into(),
        host: "h1".into(),
        address: address.into(),
        slots: r#"{"shell":4}"#.into(),
        labels: "[]".into(),
        limits_kept: r#"{"memory":"control_group","cpu":"nothing","processes":"looks"}"#.into(),
        types: r#"{"shell":{"slots":4},"hive":{"slots":0,"problem":"hive is not in PATH"}}"#.into(),
        state: "live".into(),
        drained: false,
        registered_at: T0,
        reserved: "{}".into(),
        memory_total_mb: Some(64_000),
        memory_free_mb: Some(48_000),
        load_percent: Some(120),
        measured_at: Some(1_000),
        overloaded: false,
        lost_at: None,
        lease_expired_at: None,
        drained_at: None,
        drained_by: None,
        unready_reason: None,
        unready_since: None,
        leaving_since: None,
        keeps_jobs: false,
    }
}

/// What most tests begin with.
pub(crate) fn write_all(tables: &dyn Tables) {
    let dependency = BatchDependencyRow {
        batch_id: batch(1, 3).id,
        parent_id: definitions()[2].id.0,
        logical_time: T0,
        mapping: "offset".into(),
        met: true,
        met_at: Some(T0),
    };
    Writer::new(tables)
        .rows(vec![
            key("root", "super_administrator", &[]),
            key("admin", "administrator", &[]),
            key("demo-user", "user", &["demo"]),
            key("viewer", "viewer", &[]),
            key("both", "user", &["demo", "other"]),
        ])
        .rows(vec![group(1, "demo"), group(2, "other")])
        .rows(definitions().iter().map(job_row).collect())
        .rows(parents())
        .rows(vec![batch(1, 3), batch(2, 2), batch(3, 0)])
        .rows(vec![dependency])
        .rows(vec![attempt()])
        .rows(vec![worker("127.0.0.1:9")])
        .rows(vec![user(USER, "demo", 1), user("of-other", "other", 2)])
        .commit(OFFSET_AT_START);
}

/// A member of the first group.
pub(crate) const USER: &str = "ann";

pub(crate) fn user(name: &str, group: &str, shard: i64) -> PullUserRow {
    PullUserRow {
        user_name: name.into(),
        group_name: group.into(),
        shard,
        moving: false,
        moving_to: None,
        refusal: "".into(),
        assigned_at: T0,
        changed_at: T0,
    }
}

/// How far the tables are after [`write_all`].
pub(crate) const OFFSET_AT_START: u64 = crate::owner::OFFSET;
