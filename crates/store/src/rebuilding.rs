//! Who rebuilds the tables of a form: one program at a time. Whoever does has a number, which rises with every one; who finds
//! another number than its own has been replaced, and writes no more.
#![allow(unreachable_pub, reason = "the macro is for rows that everybody may see")]

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tidemill_model::Timestamp;

use crate::Kind::{Int, Text, Time};
use crate::generations::found;
use crate::link::Link;
use crate::sql::Dialect;
use crate::table::row;
use crate::{Error, Value};

row! {
    /// The last rebuild of a form's tables.
    RebuildRow in "tidemill_rebuilds", key (form: i64),
    fixed (), indexes [] {
        /// The form.
        form: i64 = Int,
        /// How many rebuilds have begun; the number of the last one.
        number: i64 = Int,
        /// Who does it; empty: it has ended.
        holder: Option<Arc<str>> = Text,
        /// When it began, by the database's clock.
        begun_at: i64 = Time,
        /// When it was seen last, by the database's clock.
        seen_at: i64 = Time,
        /// The time of this answer, by the database's clock.
        asked_at: i64 = Time,
    }
}

/// The right to rebuild the tables of a form, which one program has at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebuildRight {
    form: i64,
    /// Rises with each rebuild.
    number: i64,
}

/// A rebuild that has begun and not ended, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RebuildInProgress {
    /// Who does it.
    pub holder: String,
    /// When it began, by the clock of the database.
    pub begun_at: Timestamp,
    /// When it gave its last sign, by the same clock: one every few seconds.
    pub seen_at: Timestamp,
}

const WHAT: &str = "ask who rebuilds the tables";

/// The row, locked until the transaction ends. What is in it of the time of the answer was of its last change.
fn locked<L: Link>(link: &mut L, form: i64) -> Result<Option<RebuildRow>, Error> {
    let touch = format!("UPDATE tidemill_rebuilds SET asked_at = {} WHERE form = ?", L::DIALECT.now_ms());
    link.execute(WHAT, &touch, &[form.into()])?;
    Ok(found(link, WHAT, "WHERE form = ?", &[form.into()])?.pop())
}

/// A sign that is said to have been given later than now was given before the database's clock was set back: it counts from
/// now on.
pub(crate) fn follow_clock<L: Link>(link: &mut L, form: i64) -> Result<(), Error> {
    let now = L::DIALECT.now_ms();
    let sql = format!("UPDATE tidemill_rebuilds SET seen_at = {now} WHERE form = ? AND seen_at > {now}");
    link.execute(WHAT, &sql, &[form.into()])
}

/// The last rebuild of a form's tables, as far as it is noted.
pub(crate) fn last(link: &mut impl Link, form: i64) -> Result<Option<RebuildInProgress>, Error> {
    let row: Option<RebuildRow> = match found(link, WHAT, "WHERE form = ?", &[form.into()]) {
        Ok(mut rows) => rows.pop(),
        // Tables of a version from before it was noted, which are only looked at.
        Err(error) if error.is_missing() => None,
        Err(error) => return Err(error),
    };
    let told = |row: RebuildRow| {
        let holder = row.holder?.to_string();
        Some(RebuildInProgress { holder, begun_at: time(row.begun_at), seen_at: time(row.seen_at) })
    };
    Ok(row.and_then(told))
}

/// Takes the right, where nobody has it who was seen within this time.
pub(crate) fn begin<L: Link>(
    link: &mut L,
    form: i64,
    holder: &str,
    unseen_for: Duration,
) -> Result<RebuildRight, Error> {
    let first = match L::DIALECT {
        Dialect::Sqlite => "INSERT OR IGNORE INTO tidemill_rebuilds VALUES (?, 0, NULL, 0, 0, 0)",
        Dialect::Mysql => "INSERT IGNORE INTO tidemill_rebuilds VALUES (?, 0, NULL, 0, 0, 0)",
    };
    link.execute(WHAT, first, &[form.into()])?;
    let row = locked(link, form)?.ok_or_else(|| Error::database(WHAT, "the row of this form is gone"))?;
    let unseen = Duration::from_millis(u64::try_from(row.asked_at - row.seen_at).unwrap_or_default());
    if let Some(holder) = row.holder.filter(|_| unseen < unseen_for) {
        return Err(Error::RebuildGoesOn {
            holder: holder.to_string(),
            begun_at: time(row.begun_at),
            unseen_s: unseen.as_secs(),
            wait_s: (unseen_for - unseen).as_secs() + 1,
        });
    }
    let number = row.number + 1;
    let sql = "UPDATE tidemill_rebuilds SET number = ?, holder = ?, begun_at = asked_at, seen_at = asked_at WHERE form = ?";
    link.execute(WHAT, sql, &[number.into(), Value::from(holder), form.into()])?;
    Ok(RebuildRight { form, number })
}

/// Whether the right is still there; it stays so until the transaction ends.
pub(crate) fn keep<L: Link>(link: &mut L, right: RebuildRight) -> Result<(), Error> {
    let row = locked(link, right.form)?;
    if row.as_ref().is_some_and(|row| row.number == right.number && row.holder.is_some()) {
        let sql = "UPDATE tidemill_rebuilds SET seen_at = asked_at WHERE form = ?";
        return link.execute(WHAT, sql, &[right.form.into()]);
    }
    let (holder, begun_at) = row.map_or((None, 0), |row| (row.holder, row.begun_at));
    let holder = holder.map_or_else(|| "another one".to_owned(), |holder| holder.to_string());
    Err(Error::RebuildReplaced { holder, begun_at: time(begun_at) })
}

/// Gives the right back, where it is still there.
pub(crate) fn end(link: &mut impl Link, right: RebuildRight) -> Result<(), Error> {
    let sql = "UPDATE tidemill_rebuilds SET holder = NULL WHERE form = ? AND number = ?";
    link.execute(WHAT, sql, &[right.form.into(), right.number.into()])
}

fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH)
}
