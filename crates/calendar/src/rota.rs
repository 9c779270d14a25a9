//! A rota at work: who is on call when.
//!
//! ```text
//!  starts      + days      + 2 · days            hand-overs, at one time of day on the zone's clock
//!    │  turn 0   │  turn 1   │  turn 0 …
//!  ──┴───────────┴──────┬────┴──┬────────►
//!                       └───────┘                an override: between its ends its people are, whoever's turn it is
//! ```
//!
//! A time of day that a gap leaves out is the instant right after the gap, in an overlap it is the first of the two: as
//! with rotating tasks. So a turn may be an hour longer or shorter than the others. Before the first turn nobody is on
//! call, whatever overrides say.
//!
//! Whether those whom it names are there, and who stands for them, is for the directory to say.

use jiff::civil::DateTime;
use tidemill_model::{FieldError, PersonName, Rota, Timestamp, bounds};

use crate::Zone;
use crate::days::date_away;

/// Years in which a rota and its overrides may begin and end.
const YEARS: std::ops::RangeInclusive<i16> = 1970..=2199;

/// A rota that was found good, ready for questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnCall {
    zone: Zone,
    /// The first hand-over, on the zone's clock.
    starts: DateTime,
    days: i64,
    turns: Vec<Vec<PersonName>>,
    /// In the order of time; none overlaps another, and none is empty.
    overrides: Vec<Override>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Override {
    from: Timestamp,
    until: Timestamp,
    people: Vec<PersonName>,
}

/// Who is on call for a time without a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duty<'r> {
    /// The primary first.
    pub people: &'r [PersonName],
    /// From then on …
    pub from: Timestamp,
    /// … until before then: the next hand-over, or where an override begins or ends. The end of time, where nothing comes.
    pub until: Timestamp,
}

impl OnCall {
    /// Who is on call at `time`; `None`: nobody yet.
    pub fn at(&self, time: Timestamp) -> Option<Duty<'_>> {
        let turn = self.turn_at(time)?;
        let (from, until) = (self.hand_over(turn)?, self.end_of(turn));
        let after = self.overrides.partition_point(|other| other.from <= time);
        let (before, after) = self.overrides.split_at(after);
        if let Some(other) = before.last().filter(|other| time < other.until) {
            // It began in an earlier turn, perhaps, but never before there was any.
            let from = other.from.max(self.hand_over(0)?);
            return Some(Duty { people: &other.people, from, until: other.until });
        }
        let from = before.last().map_or(from, |other| other.until.max(from));
        let until = after.first().map_or(until, |other| other.from.min(until));
        let people = &self.turns[usize::try_from(turn).ok()? % self.turns.len()];
        Some(Duty { people, from, until })
    }

    /// The duties that have some part of the time from `from` on and before `until`, in the order of time. Those at both
    /// ends are told whole. They are as many as the time is long: whoever lists them bounds it.
    pub fn between(&self, from: Timestamp, until: Timestamp) -> impl Iterator<Item = Duty<'_>> {
        let first = self.hand_over(0).filter(|_| from < until).and_then(|starts| self.at(from.max(starts)));
        std::iter::successors(first, |duty| self.at(duty.until).filter(|next| next.from > duty.from))
            .take_while(move |duty| duty.from < until)
    }

    /// The number of the turn at `time`, from 0.
    fn turn_at(&self, time: Timestamp) -> Option<i64> {
        let away = self.zone.local(time).date().duration_since(self.starts.date()).as_hours() / 24;
        // The local clock may have been set back by up to a day since: two turns after the one that looks right.
        let mut turn = away.div_euclid(self.days) + 2;
        loop {
            if turn < 0 {
                return None;
            }
            if self.hand_over(turn).is_some_and(|from| from <= time) {
                return Some(turn);
            }
            turn -= 1;
        }
    }

    /// When a turn begins; `None` outside the range of instants.
    fn hand_over(&self, turn: i64) -> Option<Timestamp> {
        let date = date_away(self.starts.date(), turn.checked_mul(self.days)?)?;
        self.zone.first_instant_of(date.to_datetime(self.starts.time()))
    }

    /// When the turn ends that has this number.
    fn end_of(&self, turn: i64) -> Timestamp {
        self.hand_over(turn + 1).unwrap_or(Timestamp::MAX)
    }
}

impl TryFrom<&Rota> for OnCall {
    type Error = FieldError;

    /// Everything about a rota as written that needs no other object.
    fn try_from(rota: &Rota) -> Result<Self, FieldError> {
        let zone = Zone::try_from(rota.zone.as_str()).map_err(|_| {
            let rule = "is not an IANA time zone; write a name such as Europe/Berlin or UTC";
            FieldError::new("zone", &rota.zone, rule)
        })?;
        check_year("starts", rota.starts)?;
        if !(1..=bounds::ROTA_DAYS).contains(&rota.days) {
            return Err(FieldError::new("days", rota.days, format!("must be 1 to {}", bounds::ROTA_DAYS)));
        }
        check_number("turns", rota.turns.len(), bounds::ROTA_TURNS, "turns")?;
        for (index, people) in rota.turns.iter().enumerate() {
            check_people(&format!("turns[{index}]"), people)?;
        }
        Ok(Self {
            overrides: overrides(rota, &zone)?,
            zone,
            starts: rota.starts,
            days: rota.days.into(),
            turns: rota.turns.clone(),
        })
    }
}

/// Whether a rota has the form that one must have.
///
/// # Errors
/// The first field that has not, by its path within the rota.
pub fn check_rota(rota: &Rota) -> Result<(), FieldError> {
    OnCall::try_from(rota).map(drop)
}

fn check_year(field: &str, time: DateTime) -> Result<(), FieldError> {
    if YEARS.contains(&time.year()) {
        return Ok(());
    }
    Err(FieldError::new(field, time, format!("must be in {} to {}", YEARS.start(), YEARS.end())))
}

/// `of`: what is counted.
fn check_number(field: &str, number: usize, most: usize, of: &str) -> Result<(), FieldError> {
    if (1..=most).contains(&number) {
        return Ok(());
    }
    Err(FieldError::new(field, number, format!("must be 1 to {most} {of}")))
}

fn check_people(field: &str, people: &[PersonName]) -> Result<(), FieldError> {
    check_number(field, people.len(), bounds::ROTA_PEOPLE, "people")?;
    for (index, person) in people.iter().enumerate() {
        if people[..index].contains(person) {
            let rule = "stands twice among those on call at once; leave one out";
            return Err(FieldError::new(format!("{field}[{index}]"), person, rule));
        }
    }
    Ok(())
}

/// Those of a rota, in the order of time.
fn overrides(rota: &Rota, zone: &Zone) -> Result<Vec<Override>, FieldError> {
    if rota.overrides.len() > bounds::ROTA_OVERRIDES {
        let rule = format!("must be at most {}; take out those that are over", bounds::ROTA_OVERRIDES);
        return Err(FieldError::new("overrides", rota.overrides.len(), rule));
    }
    for (index, other) in rota.overrides.iter().enumerate() {
        let field = |name: &str| format!("overrides[{index}].{name}");
        check_year(&field("from"), other.from)?;
        check_year(&field("to"), other.to)?;
        if other.to <= other.from {
            let rule = format!("must be after from, {}", other.from);
            return Err(FieldError::new(field("to"), other.to, rule));
        }
        check_people(&field("people"), &other.people)?;
    }
    let mut order: Vec<usize> = (0..rota.overrides.len()).collect();
    order.sort_by_key(|index| (rota.overrides[*index].from, *index));
    for pair in order.windows(2) {
        let (one, next) = (pair[0], pair[1]);
        let (before, after) = (&rota.overrides[one], &rota.overrides[next]);
        if after.from < before.to {
            let rule = format!(
                "is before the end of overrides[{one}], {}; let one end where the other begins",
                before.to
            );
            return Err(FieldError::new(format!("overrides[{next}].from"), after.from, rule));
        }
    }
    let at_work = |index: usize| {
        let other = &rota.overrides[index];
        let (from, until) = (zone.first_instant_of(other.from)?, zone.first_instant_of(other.to)?);
        // Between two times that a gap leaves out there is nothing.
        (from < until).then(|| Override { from, until, people: other.people.clone() })
    };
    Ok(order.into_iter().filter_map(at_work).collect())
}
