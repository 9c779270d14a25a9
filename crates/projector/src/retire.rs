//! Tables of other versions are dropped once nobody uses them any more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidemill_journal::{Shutdown, causes};
use tidemill_store::{Error, FormInUse, Tables};

use crate::rebuild::sweep;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(30);
/// A form whose programs gave no sign in so long a time, of which every part was looked at, is not used any more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);
/// Looks that are further apart say nothing of what was between them.
const LONGEST_GAP: Duration = Duration::from_secs(2 * 60);

/// Drops the tables of other versions whose programs have gone, until shutdown. That this one is there says whoever opened
/// the tables.
pub(crate) fn keep_retiring(tables: &dyn Tables, shutdown: &Shutdown) {
    let (mut vigil, mut told) = (Vigil::default(), None);
    loop {
        let retired = retire(tables, &mut vigil).and_then(|()| sweep(tables, shutdown));
        if let Err(error) = retired {
            vigil = Vigil::default();
            let reason = causes(&error);
            if told.as_ref() != Some(&reason) {
                tracing::warn!(reason, "tables of another version stay: {reason}");
            }
            told = Some(reason);
        }
        if shutdown.wait(LOOK) {
            return;
        }
    }
}

fn retire(tables: &dyn Tables, vigil: &mut Vigil) -> Result<(), Error> {
    let begun_at = Instant::now();
    let mut forms = tables.forms()?;
    forms.retain(|it| it.form != tables.form());
    if begun_at.elapsed() > LONGEST_GAP {
        *vigil = Vigil::default();
    }
    for form in vigil.look(Instant::now(), &forms) {
        for set in tables.retire(&form)? {
            tracing::info!(set, "tables {set} of another version are dropped: nobody uses them any more");
        }
    }
    Ok(())
}

/// Since when each form has given no sign, by the clock of this process: the database's may be set, and while the database is
/// away nobody can give one.
#[derive(Default)]
struct Vigil {
    looked_at: Option<Instant>,
    silent: BTreeMap<i64, (i64, Instant)>,
}

impl Vigil {
    /// What a look saw. Gives the forms that are not used any more.
    fn look(&mut self, now: Instant, forms: &[FormInUse]) -> Vec<FormInUse> {
        let is_unbroken = self.looked_at.is_some_and(|at| now.duration_since(at) <= LONGEST_GAP);
        self.looked_at = Some(now);
        let before = std::mem::take(&mut self.silent);
        let mut gone = Vec::new();
        for form in forms {
            let since = match before.get(&form.form) {
                Some((seen_at, since)) if is_unbroken && *seen_at == form.seen_at => *since,
                _ => now,
            };
            self.silent.insert(form.form, (form.seen_at, since));
            if now.duration_since(since) >= FORGOTTEN_AFTER {
                gone.push(*form);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at each of these seconds, with the signs that forms 1 and 2 had given last. Gives when which form was over.
    fn over(looks: &[(u64, i64, i64)]) -> Vec<(u64, i64)> {
        let (begin, mut vigil) = (Instant::now(), Vigil::default());
        let look = |(at_s, first, second): &(u64, i64, i64)| {
            let form = |form, seen_at| FormInUse { form, generation: 1, seen_at };
            let forms = [form(1, *first), form(2, *second)];
            let gone = vigil.look(begin + Duration::from_secs(*at_s), &forms);
            gone.into_iter().map(|it| (*at_s, it.form)).collect::<Vec<_>>()
        };
        looks.iter().flat_map(look).collect()
    }

    /// OPS-2: only ten minutes without a sign, all of them looked at, end a form.
    #[test]
    fn forms_end_after_ten_minutes_that_were_looked_at() {
        let every_minute = |from: u64, to: u64| (from..=to).map(|minute| minute * 60);
        // The second one gives signs. What its clock says is all one.
        let usual: Vec<_> = every_minute(0, 10).map(|at| (at, 7, -at.cast_signed())).collect();
        assert_eq!(over(&usual), [(600, 1)]);
        // A sign in between.
        let once: Vec<_> = every_minute(0, 15).map(|at| (at, i64::from(at >= 360), 7)).collect();
        assert_eq!(over(&once), (10..=15).map(|minute| (minute * 60, 2)).collect::<Vec<_>>());
        // Nobody looked for five minutes: whether there was a sign cannot be told.
        let broken: Vec<_> = every_minute(0, 4).chain(every_minute(9, 18)).map(|at| (at, 7, 7)).collect();
        assert_eq!(over(&broken), []);
        let mended: Vec<_> = every_minute(9, 19).map(|at| (at, 7, at.cast_signed())).collect();
        assert_eq!(over(&mended), [(19 * 60, 1)]);
    }
}
