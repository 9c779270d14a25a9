//! Fires, computed a second time: fixed periods in UTC by plain arithmetic, cron in UTC by the `cron` crate
//! where it knows the expression. Elsewhere only order is checked, and that no local time comes twice.

use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, ToSpan, Zoned, civil};
use tidemill_model::{Fire, Period, ScheduleRule, ScheduleSpec, Timestamp};

/// A schedule as far as it is understood here.
#[derive(Debug)]
pub(crate) enum Calendar {
    /// A fixed period in UTC.
    Period(Period),
    /// A cron expression in UTC.
    Cron(Box<cron::Schedule>),
    /// At most one fire for each local time, in this zone.
    OncePerLocalTime(TimeZone),
    /// Nothing but order is known of it.
    Opaque,
}

impl Calendar {
    pub(crate) fn of(spec: &ScheduleSpec) -> Self {
        let utc = matches!(spec.zone.as_str(), "UTC" | "Etc/UTC");
        match (&spec.rule, utc) {
            (ScheduleRule::Period(period), true) => Self::Period(*period),
            (ScheduleRule::Cron(text), true) if !text.contains(['L', 'W', '#']) || has_names_only(text) => {
                cron::Schedule::from_str(text).map_or(Self::Opaque, |cron| Self::Cron(Box::new(cron)))
            }
            (ScheduleRule::Cron(_), true) => Self::Opaque,
            (ScheduleRule::Period(Period::Hour), false) => Self::Opaque,
            (ScheduleRule::Period(Period::Day | Period::Week | Period::Month), false) => Self::local(spec),
            (ScheduleRule::Cron(text), false) if is_fixed(text) => Self::local(spec),
            (ScheduleRule::Cron(_), false) => Self::Opaque,
        }
    }

    fn local(spec: &ScheduleSpec) -> Self {
        TimeZone::get(&spec.zone).map_or(Self::Opaque, Self::OncePerLocalTime)
    }

    /// The first fire after an instant; the outer `None`: not known here.
    pub(crate) fn first_after(&self, instant: Timestamp) -> Option<Option<Fire>> {
        match self {
            Self::Cron(cron) => {
                let after = chrono::DateTime::from_timestamp_millis(instant.as_millisecond())?;
                Some(cron.after(&after).next().and_then(|time| {
                    let at = Timestamp::from_second(time.timestamp()).ok()?;
                    Some(Fire { at, logical_time: at })
                }))
            }
            Self::Period(period) => {
                let start = floor(*period, instant)?;
                let fires = [Some(start), next(*period, start)].into_iter().flatten();
                let mut fires = fires.filter_map(|logical_time| base(*period, logical_time));
                Some(fires.find(|fire| fire.at > instant))
            }
            Self::OncePerLocalTime(_) | Self::Opaque => None,
        }
    }

    /// The schedule's own fire after one for `logical_time`; the outer `None`: not known here.
    pub(crate) fn fire_after(&self, logical_time: Timestamp) -> Option<Option<Fire>> {
        match self {
            Self::Cron(_) => self.first_after(logical_time),
            Self::Period(period) => {
                let start = floor(*period, logical_time)?;
                Some(self::next(*period, start).and_then(|start| base(*period, start)))
            }
            Self::OncePerLocalTime(_) | Self::Opaque => None,
        }
    }

    /// The base time of the period with this logical time, or that itself where there is none; the outer `None`: not
    /// known here.
    pub(crate) fn base_of(&self, logical_time: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Period(period) => {
                let start = floor(*period, logical_time)?;
                let fire = base(*period, start).filter(|_| start == logical_time);
                Some(fire.map_or(logical_time, |fire| fire.at))
            }
            Self::Cron(_) => Some(logical_time),
            Self::OncePerLocalTime(_) | Self::Opaque => None,
        }
    }

    /// Whether `next` may follow a fire for `logical_time`; else why not. `from` is the fire's own time, or
    /// its logical time where that is all that is known.
    pub(crate) fn follows(&self, logical_time: Timestamp, next: Option<Fire>) -> Result<(), String> {
        if let Some(fire) = next
            && fire.logical_time <= logical_time
        {
            return Err(format!("the next fire is for {}, not after {logical_time}", fire.logical_time));
        }
        let expected = match self {
            Self::Cron(_) => self.first_after(logical_time),
            Self::Period(period) => {
                Some(self::next(*period, logical_time).and_then(|start| base(*period, start)))
            }
            Self::OncePerLocalTime(zone) => {
                let same =
                    next.filter(|fire| civil_of(zone, fire.logical_time) <= civil_of(zone, logical_time));
                return same.map_or(Ok(()), |fire| {
                    Err(format!("{} is no later local time than {logical_time}", fire.logical_time))
                });
            }
            Self::Opaque => None,
        };
        match expected {
            Some(expected) if expected != next => {
                Err(format!("the next fire is {}, should be {}", words(next), words(expected)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// How many fires lie in a span of logical times, both ends included; `None`: not known, or over `most`.
    pub(crate) fn count(&self, from: Timestamp, to: Timestamp, most: u64) -> Option<u64> {
        let mut count = 1;
        let mut time = from;
        while time < to {
            let fire = match self {
                Self::Cron(_) => self.first_after(time)??,
                Self::Period(period) => base(*period, next(*period, time)?)?,
                Self::OncePerLocalTime(_) | Self::Opaque => return None,
            };
            time = fire.logical_time;
            count += u64::from(time <= to);
            if count > most {
                return None;
            }
        }
        Some(count)
    }
}

pub(crate) fn words(fire: Option<Fire>) -> String {
    fire.map_or("none".to_owned(), |fire| format!("at {} for {}", fire.at, fire.logical_time))
}

/// Month and weekday names hold letters that are rules elsewhere.
fn has_names_only(text: &str) -> bool {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let letters = |field: &str| {
        field
            .split(|c: char| !c.is_ascii_alphabetic())
            .filter(|word| !word.is_empty())
            .all(|word| word.len() == 3)
    };
    fields.len() >= 6 && !text.contains('#') && letters(fields[3]) && letters(fields[5])
}

/// One time of day or a list of them: hours and minutes are plain numbers.
fn is_fixed(text: &str) -> bool {
    let mut fields = text.split_whitespace().skip(1).take(2);
    fields.all(|field| field.chars().all(|c| c.is_ascii_digit() || c == ','))
}

fn civil_of(zone: &TimeZone, time: Timestamp) -> civil::DateTime {
    zone.to_datetime(time.jiff())
}

fn utc(time: Timestamp) -> Zoned {
    time.to_zoned(TimeZone::UTC)
}

/// The start of the period that holds an instant.
fn floor(period: Period, instant: Timestamp) -> Option<Timestamp> {
    let day = utc(instant).date();
    let date = match period {
        Period::Hour => {
            let hour = instant.as_second().div_euclid(3_600).checked_mul(3_600)?;
            return Timestamp::from_second(hour).ok();
        }
        Period::Day => day,
        Period::Week => day.checked_sub(i64::from(day.weekday().to_monday_zero_offset()).days()).ok()?,
        Period::Month => day.first_of_month(),
    };
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp().into())
}

/// The start of the period after the one that starts at `start`.
fn next(period: Period, start: Timestamp) -> Option<Timestamp> {
    let step = match period {
        Period::Hour => return start.checked_add(SignedDuration::from_hours(1)).ok(),
        Period::Day => 1.day(),
        Period::Week => 7.days(),
        Period::Month => 1.month(),
    };
    Some(utc(start).checked_add(step).ok()?.timestamp().into())
}

/// The fire for the period that starts at `start`.
fn base(period: Period, start: Timestamp) -> Option<Fire> {
    let minutes = match period {
        Period::Hour | Period::Day => 1,
        Period::Week => 2,
        Period::Month => 5,
    };
    let at = start.checked_add(SignedDuration::from_mins(minutes)).ok()?;
    Some(Fire { at, logical_time: start })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn calendar(rule: ScheduleRule, zone: &str) -> Calendar {
        Calendar::of(&ScheduleSpec { rule, zone: zone.to_owned() })
    }

    /// JOB-3: the base times of the fixed periods.
    #[test]
    fn periods_fire_at_their_base_times() {
        let now = at("2026-11-21T04:46:18Z");
        let cases = [
            (Period::Hour, "2026-11-21T05:01:00Z", "2026-11-21T05:00:00Z"),
            (Period::Day, "2026-11-22T00:01:00Z", "2026-11-22T00:00:00Z"),
            (Period::Week, "2026-11-23T00:02:00Z", "2026-11-23T00:00:00Z"),
            (Period::Month, "2026-12-01T00:05:00Z", "2026-12-01T00:00:00Z"),
        ];
        for (period, fires, logical) in cases {
            let fire = calendar(ScheduleRule::Period(period), "UTC").first_after(now).unwrap().unwrap();
            assert_eq!((fire.at, fire.logical_time), (at(fires), at(logical)), "{period:?}");
        }
    }

    #[test]
    fn only_what_both_understand_is_computed() {
        let cron = |text: &str| calendar(ScheduleRule::Cron(text.to_owned()), "UTC");
        assert!(matches!(cron("0 0 6 ? * MON-FRI"), Calendar::Cron(_)));
        assert!(matches!(cron("0 0 6 ? JUL *"), Calendar::Cron(_)));
        for text in ["0 0 6 L * ?", "0 0 6 15W * ?", "0 0 6 ? * 2#1", "0 0 6 ? * 6L"] {
            assert!(matches!(cron(text), Calendar::Opaque), "{text}");
        }
    }

    #[test]
    fn a_local_time_that_comes_twice_fires_once() {
        let daily = calendar(ScheduleRule::Cron("0 30 2 * * ?".to_owned()), "Europe/Berlin");
        let first = at("2026-10-25T00:30:00Z");
        let again = at("2026-10-25T01:30:00Z");
        assert!(daily.follows(first, Some(Fire { at: again, logical_time: again })).is_err());
        let tomorrow = at("2026-10-26T01:30:00Z");
        assert_eq!(daily.follows(first, Some(Fire { at: tomorrow, logical_time: tomorrow })), Ok(()));
    }

    #[test]
    fn fires_in_a_span_are_counted() {
        let hourly = calendar(ScheduleRule::Period(Period::Hour), "UTC");
        assert_eq!(hourly.count(at("2026-01-01T00:00:00Z"), at("2026-01-01T05:00:00Z"), 100), Some(6));
        assert_eq!(hourly.count(at("2026-01-01T00:00:00Z"), at("2026-02-01T05:00:00Z"), 100), None);
    }
}
