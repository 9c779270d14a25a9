//! The statements. The table's name comes from the configuration, which allows nothing but letters, digits and `_`.

use jiff::tz::TimeZone;
use tidemill_model::Timestamp;
use tidemill_store::Value;

use crate::Change;

/// A column, and what a change has in it.
type Column = (&'static str, fn(&Change, u32) -> Value);

const COLUMNS: &[Column] = &[
    ("grant_id", |change, _| change.given.grant.into()),
    ("task_id", |change, _| change.given.task.into()),
    ("task_version", |change, _| change.given.task_version.into()),
    ("task_name", |change, _| text(change.given.task_name.as_deref())),
    ("template", |change, _| text(change.given.template.as_deref())),
    ("parameters", |change, _| text(Some(&change.given.parameters))),
    ("group_name", |change, _| text(Some(&change.given.group))),
    ("user_name", |change, _| text(Some(&change.given.user))),
    ("start_at", |change, _| time(Some(change.given.start_at))),
    ("granted_at", |change, _| time(Some(change.given.granted_at))),
    ("expires_at", |change, _| time(change.given.expires_at)),
    ("state", |change, _| text(Some(change.state.word()))),
    ("ended_at", |change, _| time(change.ended_at())),
    ("result", |change, _| text(change.state.result())),
    ("returned_by", |change, _| text(change.state.returned_by())),
    ("reason", |change, _| text(change.state.reason())),
    ("journal_partition", |_, partition| number(partition)),
    ("journal_offset", |change, _| position(change.offset)),
    ("event_index", |change, _| number(change.index)),
];
/// Those that a later fact about the grant changes.
const CHANGING: &[&str] =
    &["state", "ended_at", "result", "returned_by", "reason", "journal_offset", "event_index"];

/// Makes the tables where they are not there.
pub(super) fn make(table: &str) -> [String; 2] {
    [
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (
               grant_id BIGINT NOT NULL PRIMARY KEY,
               task_id BIGINT NOT NULL, task_version BIGINT NOT NULL, task_name TEXT NULL,
               template VARCHAR(64) NULL, parameters MEDIUMTEXT NOT NULL,
               group_name VARCHAR(64) NOT NULL, user_name VARCHAR(128) NOT NULL,
               start_at DATETIME(3) NOT NULL, granted_at DATETIME(3) NOT NULL, expires_at DATETIME(3) NULL,
               state VARCHAR(16) NOT NULL, ended_at DATETIME(3) NULL,
               result TEXT NULL, returned_by TEXT NULL, reason TEXT NULL,
               journal_partition INT NOT NULL, journal_offset BIGINT NOT NULL, event_index INT NOT NULL,
               KEY by_user (user_name, granted_at), KEY by_task (task_id, start_at), KEY by_time (granted_at)
             ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {table}_positions (
               journal_partition INT NOT NULL PRIMARY KEY, journal_offset BIGINT NOT NULL, head TEXT NOT NULL
             ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
        ),
    ]
}

/// Asks for the position of a partition.
pub(super) fn ask_position(table: &str) -> String {
    format!("SELECT head FROM {table}_positions WHERE journal_partition = ?")
}

/// Moves the position from where it has to be. Nothing is affected, or the key is taken (1062), where it is elsewhere.
pub(super) fn advance(
    table: &str,
    partition: u32,
    offset: u64,
    from: Option<&str>,
    to: &str,
) -> (String, Vec<Value>) {
    match from {
        None => (
            format!(
                "INSERT INTO {table}_positions (journal_partition, journal_offset, head) VALUES (?, ?, ?)"
            ),
            vec![number(partition), position(offset), to.into()],
        ),
        Some(from) => (
            format!(
                "UPDATE {table}_positions SET journal_offset = ?, head = ? WHERE journal_partition = ? AND head = ?"
            ),
            vec![position(offset), to.into(), number(partition), from.into()],
        ),
    }
}

/// Writes rows, whether they are there or not.
pub(super) fn upsert(table: &str, partition: u32, changes: &[&Change]) -> (String, Vec<Value>) {
    let row = format!("({})", vec!["?"; COLUMNS.len()].join(", "));
    let rows = vec![row; changes.len()].join(", ");
    let updates: Vec<_> = CHANGING.iter().map(|column| format!("{column} = VALUES({column})")).collect();
    let statement = format!(
        "INSERT INTO {table} ({}) VALUES {rows} ON DUPLICATE KEY UPDATE {}",
        COLUMNS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
        updates.join(", "),
    );
    let values = changes.iter().flat_map(|change| {
        // In the order of the columns.
        COLUMNS.iter().map(move |(_, value)| value(change, partition))
    });
    (statement, values.collect())
}

fn number(number: u32) -> Value {
    i64::from(number).into()
}

fn position(offset: u64) -> Value {
    offset.cast_signed().into()
}

fn text(text: Option<&str>) -> Value {
    text.map_or(Value::Null, Value::from)
}

/// In UTC, to the millisecond, as the database reads it.
fn time(millis: Option<i64>) -> Value {
    let at = millis.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    at.map_or(Value::Null, |at| {
        at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S.%3f").to_string().as_str().into()
    })
}
