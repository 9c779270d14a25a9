//! Programs of several forms beside each other: which set of tables each form uses, and when programs of it were seen.
//!
//! ```text
//!  tidemill_forms: (form 18…, set 3, seen 5 s ago)    the version before: its projector fills set 3, its interfaces read it
//!                  (form 19…, set 4, seen 2 s ago)    this version, since set 4 had caught up with set 3
//! ```
//! Nobody reads or writes a set of another form, so nobody meets a column that it does not know. `active` in
//! `tidemill_meta` is what versions from before this table go by; `views` is the set that the views for people show.
#![allow(unreachable_pub, reason = "the macro is for rows that everybody may see")]

use crate::Error;
use crate::Kind::{Int, Time};
use crate::generations::{
    GenerationRow, discard, found, holds_copies, noted, number_of, of, point_views, positions, set_note,
};
use crate::link::{self, Link};
use crate::sql::Dialect;
use crate::table::row;

row! {
    /// The set of tables that programs of a form use.
    FormRow in "tidemill_forms", key (form: i64),
    fixed (), indexes [] {
        /// The form.
        form: i64 = Int,
        /// The set.
        generation: i64 = Int,
        /// When a program of the form was seen last, by the database's clock.
        seen_at: i64 = Time,
    }
}

/// The set that programs of a form use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormInUse {
    /// The form.
    pub form: i64,
    /// The set.
    pub generation: u32,
    /// When a program of the form was seen last, milliseconds since 1970 by the clock of the database.
    pub seen_at: i64,
}

/// Records of one partition that the first set of a form may have less than those of other forms when it is put to use.
const MAY_LACK: u64 = 64;

pub(crate) const ACTIVE: &str = "active";
pub(crate) const VIEWS: &str = "views";

impl Dialect {
    /// Milliseconds since 1970, by the clock of the database, which all programs share.
    pub(crate) fn now_ms(self) -> &'static str {
        match self {
            Dialect::Sqlite => "(CAST(strftime('%s', 'now') AS INTEGER) * 1000)",
            Dialect::Mysql => "(UNIX_TIMESTAMP() * 1000)",
        }
    }
}

/// The form of a set that is there.
fn form_of(link: &mut impl Link, generation: u32) -> Result<Option<i64>, Error> {
    let found = found::<GenerationRow>(link, "list the tables", "WHERE number = ?", &[of(generation)])?;
    Ok(found.into_iter().next().map(|row| row.format))
}

/// The set in use of a form; with `lock`, it stays so until the transaction ends. Versions that knew of one form dropped
/// every other set after a rebuild: one that is gone is not in use.
pub(crate) fn in_use(link: &mut impl Link, form: i64, lock: &str) -> Result<Option<u32>, Error> {
    const WHAT: &str = "ask which tables are in use";
    let rows = found::<FormRow>(link, WHAT, &format!("WHERE form = ?{lock}"), &[form.into()])?;
    if let Some(generation) = rows.first().map(|row| number_of(row.generation))
        && form_of(link, generation)? == Some(form)
    {
        return Ok(Some(generation));
    }
    // As versions left it that knew of one form.
    let Some(active) = noted(link, WHAT, ACTIVE, lock)?.map(number_of) else { return Ok(None) };
    Ok((form_of(link, active)? == Some(form)).then_some(active))
}

/// The set in use; where there is none, why.
pub(crate) fn needed(link: &mut impl Link, form: i64, lock: &str) -> Result<u32, Error> {
    if let Some(generation) = in_use(link, form, lock)? {
        return Ok(generation);
    }
    let others = in_use_of_others(link, form)?;
    let Some(other) = others.into_iter().max() else { return Err(Error::NoGeneration) };
    let records = |link: &mut _, generation| -> Result<u64, Error> {
        Ok(positions(link, generation)?.values().map(|position| position.offset + 1).sum())
    };
    let folded = match unfinished(link, form)? {
        Some(begun) => records(link, begun)?,
        None => 0,
    };
    Err(Error::Building { folded, records: records(link, other)?.max(folded) })
}

/// The sets that programs of other forms use.
fn in_use_of_others(link: &mut impl Link, form: i64) -> Result<Vec<u32>, Error> {
    let others = found::<FormRow>(link, "list the tables", "WHERE form <> ?", &[form.into()])?;
    let mut sets = Vec::new();
    for other in others {
        let generation = number_of(other.generation);
        if form_of(link, generation)? == Some(other.form) {
            sets.push(generation);
        }
    }
    if let Some(active) = noted(link, "list the tables", ACTIVE, "")?.map(number_of)
        && form_of(link, active)?.is_some_and(|found| found != form)
        && !sets.contains(&active)
    {
        sets.push(active);
    }
    Ok(sets)
}

/// The first set of a form that is not in use, and that is to hold what the journal says and no copies.
fn unfinished(link: &mut impl Link, form: i64) -> Result<Option<u32>, Error> {
    let in_use = in_use(link, form, "")?;
    let sets =
        found::<GenerationRow>(link, "list the tables", "WHERE format = ? ORDER BY number", &[form.into()])?;
    for number in sets.into_iter().map(|row| number_of(row.number)) {
        if Some(number) != in_use && !holds_copies(link, number)? {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// The set that is built for a form, if its tables are all there; where it has been put to use, that. One that was cut
/// while it was made is dropped.
pub(crate) fn begun<L: Link>(link: &mut L, form: i64) -> Result<Option<u32>, Error> {
    if let Some(done) = in_use(link, form, "")? {
        return Ok(Some(done));
    }
    while let Some(generation) = unfinished(link, form)? {
        if link::is_whole(link, generation)? {
            return Ok(Some(generation));
        }
        discard(link, generation)?;
    }
    Ok(None)
}

/// Moves the switch of a form, where the set has folded as much as the one that it takes the place of: of the same form,
/// or for the first set of a form, that of the version before. What that one has of partitions that are named as beyond
/// their journal does not count. Gives whether the views follow. Writers that have not committed yet learn of it before
/// they do.
pub(crate) fn switch<L: Link>(
    link: &mut L,
    generation: u32,
    form: i64,
    beyond: &[u32],
) -> Result<bool, Error> {
    const WHAT: &str = "activate tables";
    let found_form = form_of(link, generation)?.ok_or(Error::UnknownGeneration { generation })?;
    if found_form != form {
        return Err(Error::Format { found: found_form, wanted: form });
    }
    // In this order everywhere: the note, then the form.
    let active = noted(link, WHAT, ACTIVE, L::DIALECT.lock())?.map(number_of);
    let mine = in_use(link, form, L::DIALECT.lock())?;
    // Who reads tables of this form for the first time has seen nothing of them that could be missing, so while others
    // write both sets it need not be ahead at one moment.
    let (before, may_lack) = match mine {
        Some(mine) => (vec![mine], 0),
        None => (in_use_of_others(link, form)?, MAY_LACK),
    };
    let ours = positions(link, generation)?;
    for set in before.into_iter().filter(|set| *set != generation) {
        for (partition, position) in positions(link, set)? {
            if beyond.contains(&partition) {
                continue;
            }
            if ours.get(&partition).is_none_or(|ours| ours.offset + may_lack < position.offset) {
                return Err(Error::Behind { generation, partition });
            }
        }
    }
    note_form(link, form, generation)?;
    let form_of_active = active.map(|active| form_of(link, active)).transpose()?.flatten();
    match (active, form_of_active) {
        // Of a version that knows of one form only: its programs are seen no more, and have some time to be replaced.
        (Some(active), Some(other)) if other != form => keep_form(link, other, active)?,
        _ => set_note(link, ACTIVE, generation.into())?,
    }
    let shown = noted(link, WHAT, VIEWS, L::DIALECT.lock())?.map(number_of);
    let shown_form = shown.map(|shown| form_of(link, shown)).transpose()?.flatten();
    // Those of another form stay shown until that is retired, once this form has had its turn.
    let follow = mine.is_none() || shown_form.is_none_or(|shown_form| shown_form == form);
    if follow {
        set_note(link, VIEWS, generation.into())?;
    }
    Ok(follow)
}

fn note_form<L: Link>(link: &mut L, form: i64, generation: u32) -> Result<(), Error> {
    let now = L::DIALECT.now_ms();
    let sql = match L::DIALECT {
        Dialect::Sqlite => format!(
            "INSERT INTO tidemill_forms (form, generation, seen_at) VALUES (?, ?, {now}) \
             ON CONFLICT (form) DO UPDATE SET generation = excluded.generation, seen_at = excluded.seen_at"
        ),
        Dialect::Mysql => format!(
            "INSERT INTO tidemill_forms (form, generation, seen_at) VALUES (?, ?, {now}) \
             ON DUPLICATE KEY UPDATE generation = VALUES(generation), seen_at = VALUES(seen_at)"
        ),
    };
    link.execute("activate tables", &sql, &[form.into(), of(generation)])
}

/// Notes the set of another form, where nothing is noted of it.
fn keep_form<L: Link>(link: &mut L, form: i64, generation: u32) -> Result<(), Error> {
    let noted = found::<FormRow>(link, "list the tables", "WHERE form = ?", &[form.into()])?;
    if noted.is_empty() { note_form(link, form, generation) } else { Ok(()) }
}

/// Notes that a program of the form is there.
pub(crate) fn attend<L: Link>(link: &mut L, form: i64) -> Result<(), Error> {
    let sql = format!("UPDATE tidemill_forms SET seen_at = {} WHERE form = ?", L::DIALECT.now_ms());
    link.execute("note that the tables are used", &sql, &[form.into()])
}

pub(crate) fn list(link: &mut impl Link) -> Result<Vec<FormInUse>, Error> {
    let form = |row: FormRow| FormInUse {
        form: row.form,
        generation: number_of(row.generation),
        seen_at: row.seen_at,
    };
    Ok(found(link, "list the tables", "ORDER BY form", &[])?.into_iter().map(form).collect())
}

/// Forgets another form, where its programs have given no sign since that one, and takes over what pointed to its sets. Gives
/// those, for nobody uses them any more.
pub(crate) fn retire<L: Link>(link: &mut L, form: i64, other: &FormInUse) -> Result<Vec<u32>, Error> {
    const WHAT: &str = "forget tables of another form";
    noted(link, WHAT, ACTIVE, L::DIALECT.lock())?;
    let Some(mine) = in_use(link, form, L::DIALECT.lock())? else { return Ok(Vec::new()) };
    let rest = format!("WHERE form = ? AND form <> ? AND seen_at = ?{}", L::DIALECT.lock());
    let silent =
        found::<FormRow>(link, WHAT, &rest, &[other.form.into(), form.into(), other.seen_at.into()])?;
    if silent.is_empty() {
        return Ok(Vec::new());
    }
    link.execute(WHAT, "DELETE FROM tidemill_forms WHERE form = ?", &[other.form.into()])?;
    let sets = found::<GenerationRow>(link, WHAT, "WHERE format = ?", &[other.form.into()])?;
    let forgotten: Vec<_> = sets.into_iter().map(|row| number_of(row.number)).collect();
    for name in [ACTIVE, VIEWS] {
        let points_to = noted(link, WHAT, name, "")?.map(number_of);
        if points_to.is_some_and(|it| forgotten.contains(&it)) {
            set_note(link, name, mine.into())?;
        }
    }
    for generation in &forgotten {
        discard(link, *generation)?;
    }
    Ok(forgotten)
}

/// Points the views to the set that they are said to show.
pub(crate) fn repair_views<L: Link>(link: &mut L, form: i64) -> Result<(), Error> {
    let shown = noted(link, "point the views to the tables", VIEWS, "")?.map(number_of);
    match shown {
        Some(shown) if form_of(link, shown)? == Some(form) => point_views(link, shown),
        _ => Ok(()),
    }
}
