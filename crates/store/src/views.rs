//! Views: the tables of the active generation under their plain names, with readable times, and those
//! that people ask for first (TBL-2).

use serde_json::Value;
use tidemill_model::{JobSpec, SpecField};

use crate::rows::{JobRow, JobVersionRow};
use crate::sql::{Dialect, table_name};
use crate::{Kind, Row, Table, rows};

/// The views on top of the plain ones: name, what it shows, its query. The same SQL in both dialects, but for `{now}`.
pub(crate) const ON_TOP: [(&str, &str, &str); 5] = [
    (
        "job_status_now",
        "Every job that is not deleted, with its newest batch.",
        "SELECT j.id AS job_id, j.group_name, j.name, j.job_type, j.enabled, j.version, b.id AS batch_id, \
         b.logical_time, b.run, b.state, b.result, b.unmet, b.attempts, b.worker_id, b.message, \
         b.generated_at, b.started_at, b.finished_at \
         FROM jobs j LEFT JOIN batches b ON b.id = (SELECT n.id FROM batches n WHERE n.job_id = j.id \
         ORDER BY n.generated_at_ms DESC, n.id DESC LIMIT 1) WHERE j.deleted_at_ms IS NULL",
    ),
    (
        "running_jobs",
        "Batches that run now, with their worker and attempt.",
        "SELECT b.id AS batch_id, b.job_id, b.group_name, b.job_name, b.job_type, b.logical_time, b.run, \
         b.attempt, b.token, b.worker_id, a.granted_at, a.started_at, b.kill_requested_at \
         FROM batches b LEFT JOIN attempts a ON a.id = b.token WHERE b.state = 2 AND b.result IS NULL",
    ),
    (
        "waiting_batches",
        "Batches that wait, and for what first, in the words of the call `why`, as far as the tables tell.",
        "SELECT b.id AS batch_id, b.job_id, b.group_name, b.job_name, b.job_type, b.logical_time, b.run, \
         CASE WHEN b.unmet > 0 THEN 'dependency' \
         WHEN EXISTS (SELECT 1 FROM batch_external_dependencies n JOIN external_dependencies t ON t.id = n.external_dependency_id WHERE n.batch_id = b.id \
         AND t.satisfied = 0 AND n.overridden_at_ms IS NULL AND t.kind = 'path') THEN 'path' \
         WHEN EXISTS (SELECT 1 FROM batch_external_dependencies n JOIN external_dependencies t ON t.id = n.external_dependency_id WHERE n.batch_id = b.id \
         AND t.satisfied = 0 AND n.overridden_at_ms IS NULL) THEN 'third_party' \
         WHEN EXISTS (SELECT 1 FROM batch_quality q WHERE q.batch_id = b.id AND q.state NOT IN \
         ('allowed', 'overridden')) THEN 'quality_gate' \
         WHEN j.enabled = 0 AND j.deleted_at_ms IS NULL THEN 'disabled' \
         WHEN EXISTS (SELECT 1 FROM freezes f WHERE f.scope IN ('*', b.group_name) \
         AND b.logical_time_ms > f.latest_ms) THEN 'frozen' \
         WHEN b.earliest_start_at_ms > {now} THEN 'earliest_start' \
         WHEN b.retry_at_ms IS NOT NULL THEN 'retry_interval' \
         WHEN (SELECT COUNT(*) FROM batches o WHERE o.job_id = b.job_id AND o.state IN (1, 2)) \
         >= j.max_concurrent THEN 'concurrency' \
         WHEN NOT EXISTS (SELECT 1 FROM {workers}) THEN 'no_worker' \
         WHEN j.host IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {workers} AND {takes} \
         AND w.host = j.host) THEN 'pinned_host' \
         WHEN EXISTS (SELECT 1 FROM {workers} AND {takes}) THEN CASE \
         WHEN j.pools IS NOT NULL AND (SELECT COUNT(*) FROM batches o WHERE o.state IN (1, 2) \
         AND o.group_name = b.group_name AND o.job_type = b.job_type) < (SELECT SUM(r.slots) \
         FROM {workers} AND {takes}) THEN 'pool' ELSE 'no_slot' END \
         WHEN EXISTS (SELECT 1 FROM {workers} AND w.drained = 0 AND w.overloaded = 1) THEN 'worker_overloaded' \
         WHEN EXISTS (SELECT 1 FROM {workers} AND w.unready_reason IS NOT NULL) THEN 'unready' \
         ELSE 'drained' END AS waits_for, b.unmet, b.attempts, b.returned, b.retry_at, b.message, \
         b.generated_at, b.ready_at, b.blocked_since, b.blocked_by, b.blocked_by_time FROM batches b LEFT JOIN jobs j ON j.id = b.job_id \
         WHERE b.state = 0 AND b.result IS NULL",
    ),
    (
        "batch_history",
        "Batches that ended, with how long they waited and ran.",
        "SELECT b.id AS batch_id, b.job_id, b.group_name, b.job_name, b.job_type, b.logical_time, b.run, \
         b.origin, b.result, b.attempts, b.worker_id, b.message, b.killed_by, b.generated_at, b.started_at, \
         b.finished_at, b.started_at_ms - b.generated_at_ms AS waited_ms, \
         b.finished_at_ms - b.started_at_ms AS ran_ms FROM batches b WHERE b.state = 3",
    ),
    (
        "business_types",
        "The business types of the jobs that are not deleted, by owner, with how many jobs have them.",
        "SELECT j.business_type, j.owner, COUNT(*) AS jobs, COUNT(CASE WHEN j.enabled = 1 THEN 1 END) \
         AS enabled_jobs FROM jobs j WHERE j.deleted_at_ms IS NULL AND j.business_type <> '' \
         GROUP BY j.business_type, j.owner",
    ),
];

/// Live workers of a batch's group that are for its type.
const WORKERS: &str = "workers w JOIN resources r ON r.worker_id = w.id AND r.shard = w.shard \
                       WHERE w.group_name = b.group_name AND r.job_type = b.job_type AND w.state = 'live'";
/// Of these, those that get new work.
const TAKES: &str = "w.drained = 0 AND w.overloaded = 0 AND w.unready_reason IS NULL";

/// Every view's name, those on top first: the order in which they can be dropped.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ON_TOP.iter().map(|(name, ..)| *name).chain(rows::TABLES.iter().map(|table| table.name))
}

/// Name and query of every view on a generation, in the order in which they can be made.
pub(crate) fn definitions(dialect: Dialect, generation: u32) -> Vec<(&'static str, String)> {
    let plain = rows::TABLES.iter().map(|table| (table.name, plain(dialect, generation, table)));
    plain.chain(ON_TOP.iter().map(|(name, _, sql)| (*name, on_top(dialect, sql)))).collect()
}

fn on_top(dialect: Dialect, sql: &str) -> String {
    let now = match dialect {
        Dialect::Sqlite => "CAST(strftime('%s', 'now') AS INTEGER) * 1000",
        Dialect::Mysql => "UNIX_TIMESTAMP() * 1000",
    };
    sql.replace("{now}", now).replace("{workers}", WORKERS).replace("{takes}", TAKES)
}

fn plain(dialect: Dialect, generation: u32, table: &Table) -> String {
    let mut columns = Vec::new();
    for column in table.columns {
        let name = column.name;
        if column.kind == Kind::Time {
            columns.push(format!("{} AS {name}", readable(dialect, name)));
            columns.push(format!("{name} AS {name}_ms"));
        } else {
            columns.push(name.to_owned());
        }
    }
    columns
        .extend(written(table).map(|field| format!("{} AS {}", of_definition(dialect, field), field.name)));
    format!("SELECT {} FROM {}", columns.join(", "), table_name(generation, table))
}

/// What the view of a table of definitions has beside the table's columns: every field that a job is written with, but
/// those that a column or a table of its own holds.
pub(crate) fn written(table: &Table) -> impl Iterator<Item = &'static SpecField> {
    const ELSEWHERE: [&str; 5] = ["group", "type", "parents", "previous_name", "enabled"];
    let has_definitions = [JobRow::TABLE, JobVersionRow::TABLE].contains(&table);
    let fields = if has_definitions { JobSpec::fields() } else { &[] };
    let is_column = |name: &str| table.columns.iter().any(|column| column.name == name);
    fields.iter().filter(move |field| !ELSEWHERE.contains(&field.name.as_str()) && !is_column(&field.name))
}

/// A field of the definition; where it is not written, its default, or nothing.
fn of_definition(dialect: Dialect, field: &SpecField) -> String {
    let path = format!("'$.spec.{}'", field.name);
    let found = match dialect {
        Dialect::Sqlite => format!("definition ->> {path}"),
        Dialect::Mysql => {
            let text = format!("JSON_UNQUOTE(JSON_EXTRACT(definition, {path}))");
            match () {
                () if field.is_boolean() => format!("CAST({text} = 'true' AS SIGNED)"),
                () if field.is_whole_number() => format!("CAST({text} AS SIGNED)"),
                () => text,
            }
        }
    };
    match &field.schema["default"] {
        Value::String(text) => format!("COALESCE({found}, '{text}')"),
        Value::Bool(value) => format!("COALESCE({found}, {})", u8::from(*value)),
        Value::Number(number) => format!("COALESCE({found}, {number})"),
        Value::Null => found,
        value @ (Value::Array(_) | Value::Object(_)) => format!("COALESCE({found}, '{value}')"),
    }
}

/// UTC, whatever zone the session is in.
fn readable(dialect: Dialect, column: &str) -> String {
    match dialect {
        Dialect::Sqlite => format!("strftime('%Y-%m-%dT%H:%M:%fZ', {column} / 1000.0, 'unixepoch')"),
        Dialect::Mysql => {
            format!("CAST(TIMESTAMPADD(MICROSECOND, {column} * 1000, '1970-01-01 00:00:00') AS DATETIME(3))")
        }
    }
}
