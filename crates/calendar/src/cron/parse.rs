//! From the text of an expression to its fields.

use jiff::civil::date;

use super::clock::Clock;
use super::days::{DaysOfMonth, DaysOfWeek};
use super::field::{
    DAY_OF_MONTH, DAY_OF_WEEK, Field, HOUR, MINUTE, MONTH, SECOND, Violation, YEAR, YEAR_FIRST, Years, digits,
};
use super::{Cron, Fields, Pace};
use crate::Error;

/// The most days that `L-n` can count back.
const FROM_LAST_MAX: u32 = 30;

pub(super) fn parse(expression: &str) -> Result<Cron, Error> {
    let upper = expression.to_ascii_uppercase();
    let parts: Vec<&str> = upper.split_ascii_whitespace().collect();
    let (fields, year) = match parts[..] {
        [second, minute, hour, day, month, weekday] => ([second, minute, hour, day, month, weekday], "*"),
        [second, minute, hour, day, month, weekday, year] => {
            ([second, minute, hour, day, month, weekday], year)
        }
        _ => {
            return Err(Error::CronFieldCount { expression: expression.to_owned(), found: parts.len() });
        }
    };
    let refuse = |field: &Field, violation: Violation| Error::CronField {
        expression: expression.to_owned(),
        field: field.name.to_owned(),
        value: violation.value,
        rule: violation.rule,
    };
    let bits = |field: &Field, text: &str| field.bits(text).map_err(|violation| refuse(field, violation));
    let [second, minute, hour, day, month, weekday] = fields;
    let clock =
        Clock { seconds: bits(&SECOND, second)?, minutes: bits(&MINUTE, minute)?, hours: bits(&HOUR, hour)? };
    if day == "?" && weekday == "?" {
        let rule = "'?' may stand in one of day of month and day of week, not in both";
        return Err(refuse(&DAY_OF_WEEK, Violation::new(weekday, rule)));
    }
    let fields = Fields {
        clock,
        days_of_month: days_of_month(day).map_err(|violation| refuse(&DAY_OF_MONTH, violation))?,
        months: bits(&MONTH, month)?,
        days_of_week: days_of_week(weekday).map_err(|violation| refuse(&DAY_OF_WEEK, violation))?,
        years: Years::parse(year).map_err(|violation| refuse(&YEAR, violation))?,
        pace: if [hour, minute].iter().any(|text| text.contains(['*', '/'])) {
            Pace::Elapsed
        } else {
            Pace::WallClock
        },
    };
    if fields.local_at_or_after(date(YEAR_FIRST, 1, 1).at(0, 0, 0, 0)).is_none() {
        return Err(Error::CronNeverFires { expression: expression.to_owned() });
    }
    let text = expression.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Cron { text, fields })
}

fn days_of_month(text: &str) -> Result<DaysOfMonth, Violation> {
    let mut parsed = DaysOfMonth::default();
    if text == "?" {
        parsed.days = DAY_OF_MONTH.all();
        return Ok(parsed);
    }
    for item in text.split(',') {
        let (day, nearest) = match item.strip_suffix('W') {
            Some(day) => (day, true),
            None => (item, false),
        };
        let bits = if let Some(rest) = day.strip_prefix('L') {
            let bit = 1 << days_from_last(item, rest)?;
            if nearest {
                parsed.nearest_from_last |= bit;
            } else {
                parsed.from_last |= bit;
            }
            continue;
        } else if nearest {
            let rule = "W follows one day of the month, as in 15W, or L, as in LW";
            1 << DAY_OF_MONTH.number(day).map_err(|_| Violation::new(item, rule))?
        } else {
            DAY_OF_MONTH.bits(item)?
        };
        if nearest {
            parsed.nearest |= bits;
        } else {
            parsed.days |= bits;
        }
    }
    Ok(parsed)
}

/// The n of `L-n`, 0 for a plain `L`.
fn days_from_last(item: &str, rest: &str) -> Result<u32, Violation> {
    if rest.is_empty() {
        return Ok(0);
    }
    match rest.strip_prefix('-').and_then(digits) {
        Some(days) if (1..=FROM_LAST_MAX).contains(&days) => Ok(days),
        Some(_) | None => {
            Err(Violation::new(item, format_args!("L, LW, or L-n with n from 1 to {FROM_LAST_MAX} expected")))
        }
    }
}

fn days_of_week(text: &str) -> Result<DaysOfWeek, Violation> {
    let mut parsed = DaysOfWeek::default();
    if text == "?" {
        parsed.days = sunday_first(DAY_OF_WEEK.all());
        return Ok(parsed);
    }
    for item in text.split(',') {
        if let Some((weekday, nth)) = item.split_once('#') {
            let bit = 1 << (DAY_OF_WEEK.number(weekday)? - 1);
            match digits(nth) {
                Some(nth @ 1..=5) => parsed.nth[nth as usize - 1] |= bit,
                Some(_) | None => {
                    return Err(Violation::new(item, "after # a number from 1 to 5 expected, as in FRI#2"));
                }
            }
        } else if item == "L" {
            // As in Quartz: alone it is the last day of the week.
            parsed.days |= 1 << (DAY_OF_WEEK.max - 1);
        } else if let Some(weekday) = item.strip_suffix('L') {
            parsed.last |= 1 << (DAY_OF_WEEK.number(weekday)? - 1);
        } else {
            parsed.days |= sunday_first(DAY_OF_WEEK.bits(item)?);
        }
    }
    Ok(parsed)
}

/// From Quartz's numbers, 1 for Sunday, to bits from 0.
fn sunday_first(bits: u64) -> u8 {
    (bits >> 1) as u8
}
