//! Who rebuilds the tables of a form: one program at a time. Whoever does has a number, which rises with every one; who finds
//! another number than its own has been replaced, and writes no more.
#![allow(unreachable_pub, reason = "the macro is for rows that everybody may see")]

use std::sync::Arc;
use std::time::Duration;

use tidemill_model::Timestamp;

use crate::Kind::{Int, Text, Time};
use crate::generations::found;
use crate::link::Link;
use crate::sql::Dialect;
use crate::table::row;
use crate::{Error, RebuildRight, Value};

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

const WHAT: &str = "ask who rebuilds the tables";

/// The row, locked until the transaction ends. What is in it of the time of the answer was of its last change.
fn locked<L: Link>(link: &mut L, form: i64) -> Result<Option<RebuildRow>, Error> {
    let touch = format!("UPDATE tidemill_rebuilds SET asked_at = {} WHERE form = ?", L::DIALECT.now_ms());
    link.execute(WHAT, &touch, &[form.into()])?;
    Ok(found(link, WHAT, "WHERE form = ?", &[form.into()])?.pop())
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
