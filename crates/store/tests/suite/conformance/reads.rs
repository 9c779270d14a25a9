//! Lists and views.

use std::sync::Arc;

use tidemill_store::rows::{AuditRow, BatchRow, FreezeRow, JobRow, ResourceRow, WorkerRow};
use tidemill_store::{
    AuditFilter, BatchFilter, Cursor, Error, JobFilter, Page, PageRequest, Reach, ReadAudit, ReadTables, Row,
    Within,
};

use super::{Bench, batch_row, job_row, prepare, upserts, write};

fn all<T>(mut read: impl FnMut(&PageRequest) -> Result<Page<T>, Error>) -> Vec<T> {
    let (mut items, mut request) = (Vec::new(), PageRequest::first(7));
    loop {
        let page = read(&request).unwrap();
        assert!(page.items.len() <= 7);
        items.extend(page.items);
        let Some(next) = page.next else { return items };
        request.after = Some(Cursor::parse(&next.to_string()).unwrap());
    }
}

fn mixed(id: i64) -> BatchRow {
    let result = ["success", "failed"][usize::try_from(id % 2).unwrap()];
    let state = id % 4;
    BatchRow {
        job_id: id % 3,
        group_name: ["one", "two"][usize::try_from(id % 2).unwrap()].into(),
        state,
        result: (state == 3).then(|| result.into()),
        logical_time: id * 10,
        triggered_by: (id % 5 == 0).then(|| "etl/安".into()),
        generated_at: id / 5,
        ..batch_row(id)
    }
}

/// API-7: keyset paging gives every row once, the newest first, under every filter.
pub(crate) fn lists_page_without_gap_or_repeat(bench: &impl Bench) {
    let generation = prepare(bench);
    let rows: Vec<_> = (0..100).map(mixed).collect();
    write(bench, generation, vec![upserts(&rows)]);
    let none = BatchFilter::default();
    let cases = [
        none.clone(),
        BatchFilter { job: Some(1), ..none.clone() },
        BatchFilter { group: Some("two".into()), ..none.clone() },
        BatchFilter { state: Some(0), ..none.clone() },
        BatchFilter { state: Some(3), ..none.clone() },
        BatchFilter { result: Some("failed".into()), ..none.clone() },
        BatchFilter { state: Some(3), result: Some("failed".into()), job: Some(0), ..none.clone() },
        BatchFilter { from: Some(200), to: Some(400), ..none.clone() },
        BatchFilter { triggered_by: Some("etl/安".into()), ..none.clone() },
    ];
    for filter in cases {
        let fits = |row: &&BatchRow| {
            filter.job.is_none_or(|job| row.job_id == job)
                && filter.group.as_deref().is_none_or(|group| &*row.group_name == group)
                && filter.state.is_none_or(|state| row.state == state)
                && filter.result.as_deref().is_none_or(|result| row.result.as_deref() == Some(result))
                && filter.triggered_by.as_deref().is_none_or(|by| row.triggered_by.as_deref() == Some(by))
                && filter.from.is_none_or(|from| row.logical_time >= from)
                && filter.to.is_none_or(|to| row.logical_time < to)
        };
        let mut expected: Vec<_> = rows.iter().filter(fits).map(|row| row.id).collect();
        expected.sort_by_key(|id| std::cmp::Reverse((id / 5, *id)));
        let found = all(|request| bench.tables().batches(&filter, request));
        assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), expected, "{filter:?}");
        assert!(!expected.is_empty(), "{filter:?}");
    }
    assert_eq!(bench.tables().newest_batch(1).unwrap().unwrap().id, 97);
    let foreign = PageRequest { after: Some(Cursor::parse("WzFd").unwrap()), limit: 1 };
    assert!(matches!(bench.tables().batches(&none, &foreign), Err(Error::BadCursor { .. })));
}

fn audit_row(n: i64) -> AuditRow {
    AuditRow {
        // Several at a time, of both partitions.
        at: n / 7,
        journal_partition: n % 2,
        journal_offset: n / 4,
        event_index: n % 4,
        app: ["etl", "ops"][usize::try_from(n % 2).unwrap()].into(),
        person: (n % 3 == 0).then(|| "ann".into()),
        kind: ["job.defined", "key.revoked", "access.refused"][usize::try_from(n % 3).unwrap()].into(),
        object: format!("job/{}", n % 5).into(),
        group_name: ["", "demo"][usize::try_from(n % 2).unwrap()].into(),
        request: None,
        times: 1,
        detail: "{}".into(),
    }
}

/// API-9: every row once under every filter, the newest first and the oldest first; from any row of it an export goes on.
pub(crate) fn audit_list_pages_without_gap_or_repeat(bench: &impl Bench) {
    let generation = prepare(bench);
    let mut rows: Vec<_> = (0..100).map(audit_row).collect();
    rows.sort_by_key(Row::key);
    write(bench, generation, vec![upserts(&rows)]);
    let none = AuditFilter::default();
    let some = |text: &str| Some(text.to_owned());
    let cases = [
        none.clone(),
        AuditFilter { app: some("ops"), ..none.clone() },
        AuditFilter { person: some("ann"), ..none.clone() },
        AuditFilter { kind: some("key.revoked"), ..none.clone() },
        AuditFilter { object: some("job/3"), ..none.clone() },
        AuditFilter { group: some(""), ..none.clone() },
        AuditFilter { group: some("demo"), since: Some(3), until: Some(9), ..none.clone() },
    ];
    let tables = bench.tables();
    for filter in cases {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let fits = |row: &&AuditRow| {
            is(&filter.app, &row.app)
                && (filter.person.is_none() || filter.person.as_deref() == row.person.as_deref())
                && is(&filter.kind, &row.kind)
                && is(&filter.object, &row.object)
                && is(&filter.group, &row.group_name)
                && filter.since.is_none_or(|since| row.at >= since)
                && filter.until.is_none_or(|until| row.at < until)
        };
        let expected: Vec<_> = rows.iter().filter(fits).cloned().collect();
        assert!(!expected.is_empty(), "{filter:?}");
        let mut newest = all(|request| tables.audit(&filter, request));
        newest.reverse();
        assert_eq!(newest, expected, "{filter:?}");
        let mut oldest: Vec<AuditRow> = Vec::new();
        loop {
            let after = oldest.last().map(Row::key);
            let part = tables.audit_from_oldest(&filter, after.as_ref(), 7).unwrap();
            if part.is_empty() {
                break;
            }
            oldest.extend(part);
        }
        assert_eq!(oldest, expected, "{filter:?}");
    }
    assert_eq!(tables.audited(&rows[41].key()).unwrap().as_ref(), Some(&rows[41]));
    assert_eq!(tables.audited(&(0, 0, 99, 0)).unwrap(), None);
}

pub(crate) fn deleted_and_unnamed_jobs_are_not_found_by_name(bench: &impl Bench) {
    let generation = prepare(bench);
    let rows = [
        JobRow { deleted_at: Some(5), ..job_row(1, "load") },
        JobRow { unnamed: true, ..job_row(2, "load") },
        JobRow { submitted: true, enabled: false, ..job_row(3, "load") },
        job_row(4, "load"),
        JobRow { job_type: "shell".into(), ..job_row(5, "check") },
        job_row(6, "Load"),
    ];
    write(bench, generation, vec![upserts(&rows)]);
    let tables = bench.tables();
    assert_eq!(tables.job_named("demo", "load").unwrap().unwrap().id, 4);
    assert_eq!(tables.job_named("demo", "absent").unwrap(), None);
    assert_eq!(tables.job(1).unwrap().unwrap(), rows[0]);
    let ids = |filter: JobFilter| {
        all(|request| tables.jobs(&filter, request)).iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(JobFilter::default()), [6, 5, 2, 3, 4]);
    assert_eq!(ids(JobFilter { job_type: Some("shell".into()), ..JobFilter::default() }), [5]);
    assert_eq!(ids(JobFilter { enabled: Some(false), ..JobFilter::default() }), [3]);
    assert_eq!(ids(JobFilter { submitted: Some(true), ..JobFilter::default() }), [3]);
    assert_eq!(ids(JobFilter { name: Some("load".into()), ..JobFilter::default() }), [2, 3, 4]);
    assert_eq!(ids(JobFilter { group: Some("other".into()), ..JobFilter::default() }), [0; 0]);
}

/// API-5: lists for who may see a part are those of everybody, without what is not of that part, whatever the pages and filters;
/// of few jobs as of many.
pub(crate) fn lists_have_what_a_reader_reaches(bench: &impl Bench) {
    let generation = prepare(bench);
    // 90 jobs in 3 groups, of 5 owners and 2 business types; 4 batches of each.
    let jobs: Vec<JobRow> = (0..90)
        .map(|id| JobRow {
            group_name: format!("g{}", id % 3).into(),
            owner_name: (id % 5 > 0).then(|| format!("o{}", id % 5).into()),
            business_name: (id % 7 == 0).then(|| "sales".into()),
            ..job_row(id + 1, &format!("j{id}"))
        })
        .collect();
    let batches: Vec<BatchRow> = (0..360)
        .map(|id: i64| {
            let job = &jobs[usize::try_from(id * 7 % 90).unwrap()];
            // Some ran before their job moved to another group.
            let group = if id % 11 == 0 { "g9".into() } else { Arc::clone(&job.group_name) };
            let generated_at = 1_000 + id / 4;
            BatchRow { job_id: job.id, group_name: group, generated_at, state: id % 4, ..batch_row(id + 1) }
        })
        .collect();
    write(bench, generation, vec![upserts(&jobs), upserts(&batches)]);
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let within = Within::default;
    let reaches = [
        vec![within()],
        vec![Within { groups: texts(&["g1", "g9"]), ..within() }],
        vec![Within { owners: texts(&["o1"]), ..within() }],
        vec![Within { owners: texts(&["o1", "o2", "o3", "o4"]), ..within() }],
        vec![Within { classes: texts(&["sales"]), ..within() }],
        vec![Within { jobs: vec![("g0".into(), "j3".into()), ("g0".into(), "none".into())], ..within() }],
        vec![Within { owners: texts(&["o2"]), groups: texts(&["g2"]), ..within() }],
        vec![Within { groups: texts(&["g0"]), ..within() }, Within { owners: texts(&["o3"]), ..within() }],
    ];
    let tables = bench.tables();
    for reach in reaches {
        let sees = |job: &JobRow, group: &str| {
            reach.iter().all(|within| {
                let is_in = |all: &[String], text: &Option<Arc<str>>| {
                    text.as_ref().is_some_and(|text| all.iter().any(|one| **one == **text))
                };
                let named =
                    |(group, name): &(String, String)| **group == *job.group_name && **name == *job.name;
                within.groups.iter().any(|one| one == group)
                    || is_in(&within.owners, &job.owner_name)
                    || is_in(&within.classes, &job.business_name)
                    || within.jobs.iter().any(named)
            })
        };
        let of = |id: i64| jobs.iter().find(|job| job.id == id).unwrap();
        let seen = Some(Reach(reach.clone()));
        let filter = JobFilter { reach: seen.clone(), ..JobFilter::default() };
        let mut found: Vec<i64> =
            all(|request| tables.jobs(&filter, request)).iter().map(|row| row.id).collect();
        found.sort_unstable();
        let expected: Vec<i64> =
            jobs.iter().filter(|job| sees(job, &job.group_name)).map(|job| job.id).collect();
        assert_eq!(found, expected, "{reach:?}");
        for (job, state) in [(None, None), (None, Some(2)), (Some(4), None)] {
            let filter = BatchFilter { job, state, reach: seen.clone(), ..BatchFilter::default() };
            let found = all(|request| tables.batches(&filter, request));
            let mut expected: Vec<BatchRow> = batches.clone();
            expected.retain(|row| {
                sees(of(row.job_id), &row.group_name)
                    && job.is_none_or(|job| row.job_id == job)
                    && state.is_none_or(|state| row.state == state)
            });
            expected.sort_by_key(|row| std::cmp::Reverse((row.generated_at, row.id)));
            assert_eq!(found, expected, "{reach:?} {job:?} {state:?}");
        }
    }
}

/// A worker of the group with two slots.
fn worker_of(group: &str) -> WorkerRow {
    WorkerRow {
        id: group.into(),
        shard: 1,
        group_name: group.into(),
        incarnation: "1".into(),
        host: "here".into(),
        address: "here:1".into(),
        slots: "{}".into(),
        reserved: "{}".into(),
        labels: "[]".into(),
        limits_kept: "{}".into(),
        types: "{}".into(),
        state: "live".into(),
        drained: false,
        registered_at: 1,
        lost_at: None,
        lease_expired_at: None,
        drained_at: None,
        drained_by: None,
        memory_total_mb: None,
        memory_free_mb: None,
        load_percent: None,
        measured_at: None,
        overloaded: false,
        unready_reason: None,
        unready_since: None,
        leaving_since: None,
        keeps_jobs: false,
    }
}

/// TBL-2: what a batch waits for is said in the words of the call `why`, the first condition that holds.
#[expect(clippy::too_many_lines, reason = "a table of batches, and one of what each waits for")]
pub(crate) fn waiting_batches_say_for_what(bench: &impl Bench) {
    let generation = prepare(bench);
    let job = |id: i64| job_row(id, &format!("j{id}"));
    let jobs = [
        JobRow { enabled: false, ..job(100) },
        job(101),
        JobRow { definition: r#"{"spec":{"host":"there"}}"#.into(), ..job(102) },
        JobRow { definition: r#"{"spec":{"pools":[{"name":"licences"}]}}"#.into(), ..job(103) },
        job(104),
    ];
    let of =
        |id: i64, job_id: i64, group: &str| BatchRow { job_id, group_name: group.into(), ..batch_row(id) };
    let gone = |id: i64| BatchRow { state: 2, ..of(id, 104, "busy") };
    let batches = [
        BatchRow { unmet: 1, ..of(1, 100, "ice") },
        of(2, 100, "ice"),
        of(3, 101, "ice"),
        BatchRow { earliest_start_at: Some(4_000_000_000_000), ..of(4, 101, "free") },
        BatchRow { earliest_start_at: Some(1), retry_at: Some(1), ..of(5, 101, "free") },
        of(6, 104, "free"),
        of(7, 101, "none"),
        of(8, 102, "free"),
        of(9, 103, "free"),
        of(10, 101, "busy"),
        of(11, 101, "dry"),
        of(12, 101, "sick"),
        of(13, 101, "hot"),
        gone(14),
        gone(15),
    ];
    let workers = [
        worker_of("free"),
        worker_of("busy"),
        WorkerRow { drained: true, ..worker_of("dry") },
        WorkerRow { unready_reason: Some("no disk".into()), ..worker_of("sick") },
        WorkerRow { overloaded: true, ..worker_of("hot") },
        WorkerRow { state: "lost".into(), ..worker_of("none") },
    ];
    let slots = workers.clone().map(|worker| ResourceRow {
        worker_id: worker.id,
        shard: 1,
        job_type: "noop".into(),
        slots: 2,
    });
    let frozen = FreezeRow {
        scope: "ice".into(),
        latest: 1,
        frozen_by: "ann".into(),
        reason: "a move".into(),
        frozen_at: 1,
    };
    let rows =
        vec![upserts(&jobs), upserts(&batches), upserts(&workers), upserts(&slots), upserts(&[frozen])];
    write(bench, generation, rows);
    let expected = [
        (1, "dependency"),
        (2, "disabled"),
        (3, "frozen"),
        (4, "earliest_start"),
        (5, "retry_interval"),
        (6, "concurrency"),
        (7, "no_worker"),
        (8, "pinned_host"),
        (9, "pool"),
        (10, "no_slot"),
        (11, "drained"),
        (12, "unready"),
        (13, "worker_overloaded"),
    ];
    for (batch, waits_for) in expected {
        let asked = format!("SELECT waits_for FROM waiting_batches WHERE batch_id = {batch}");
        assert_eq!(bench.text(&asked), waits_for, "batch {batch}");
    }
}

/// TBL-2: the views that people ask for show the tables in use, with readable times.
pub(crate) fn views_show_readable_times<B: Bench>(bench: &B) {
    let generation = prepare(bench);
    let late = Some(1_700_000_000_123);
    let rows = [
        batch_row(1),
        BatchRow { state: 2, token: Some(4), worker_id: Some("w".into()), ..batch_row(2) },
        BatchRow { unmet: 2, ..batch_row(3) },
        BatchRow { state: 3, result: Some("success".into()), finished_at: late, ..batch_row(4) },
    ];
    write(bench, generation, vec![upserts(&rows), upserts(&[job_row(7, "load")])]);
    let types = |id, owner: &str, enabled, deleted_at| JobRow {
        definition: r#"{"spec":{"business_type":"DAP"}}"#.into(),
        owner: owner.into(),
        enabled,
        deleted_at,
        ..job_row(id, "typed")
    };
    let typed =
        [types(11, "ann", true, None), types(12, "ann", false, None), types(13, "bob", true, Some(5))];
    write(bench, generation, vec![upserts(&typed)]);
    let counted = |column: &str| bench.text(&format!("SELECT CAST({column} AS CHAR) FROM business_types"));
    let row = ["business_type", "owner", "jobs", "enabled_jobs", "(SELECT COUNT(*) FROM business_types)"]
        .map(counted);
    assert_eq!(row, ["DAP", "ann", "2", "1", "1"], "deleted jobs and those without a type are left out");
    let readable = bench.text("SELECT CAST(finished_at AS CHAR) FROM batch_history");
    assert_eq!(readable, B::READABLE);
    assert_eq!(bench.text("SELECT CAST(batch_id AS CHAR) FROM running_jobs"), "2");
    assert_eq!(bench.text("SELECT waits_for FROM waiting_batches WHERE batch_id = 3"), "dependency");
    assert_eq!(bench.text("SELECT waits_for FROM waiting_batches WHERE batch_id = 1"), "concurrency");
    assert_eq!(bench.text("SELECT result FROM job_status_now WHERE job_id = 7"), "success");
    assert_eq!(bench.text("SELECT CAST(finished_at_ms AS CHAR) FROM batches WHERE id = 4"), "1700000000123");
}
