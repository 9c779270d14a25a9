//! One field of numbers: lists, ranges and steps, and the bit sets they become.

use std::fmt;

/// The first year that the year field knows.
pub(super) const YEAR_FIRST: i16 = 1970;
/// The last year that the year field knows, and the end of every search.
pub(super) const YEAR_LAST: i16 = 2199;

/// A field's name and the numbers it takes.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) min: u32,
    pub(super) max: u32,
    /// Names for `min`, `min + 1`, …
    pub(super) names: &'static [&'static str],
}

pub(super) const SECOND: Field = Field { name: "second", min: 0, max: 59, names: &[] };
pub(super) const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[] };
pub(super) const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[] };
pub(super) const DAY_OF_MONTH: Field = Field { name: "day of month", min: 1, max: 31, names: &[] };
pub(super) const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
pub(super) const DAY_OF_WEEK: Field =
    Field { name: "day of week", min: 1, max: 7, names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] };
pub(super) const YEAR: Field =
    Field { name: "year", min: YEAR_FIRST as u32, max: YEAR_LAST as u32, names: &[] };

/// The part of a field that is wrong, and the rule it breaks.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) value: String,
    pub(super) rule: String,
}

impl Violation {
    pub(super) fn new(value: &str, rule: impl fmt::Display) -> Violation {
        Violation { value: value.to_owned(), rule: rule.to_string() }
    }
}

impl Field {
    /// The numbers that a whole field names, as bits. For fields whose numbers are below 64.
    pub(super) fn bits(&self, text: &str) -> Result<u64, Violation> {
        let mut bits = 0;
        for item in text.split(',') {
            for value in self.values(item)? {
                bits |= 1 << value;
            }
        }
        Ok(bits)
    }

    /// All numbers of the field, as bits.
    pub(super) fn all(&self) -> u64 {
        (self.min..=self.max).fold(0, |bits, value| bits | 1 << value)
    }

    /// The numbers that one item of a list names: `*`, `n`, `n-m`, and each with `/step`.
    pub(super) fn values(&self, item: &str) -> Result<impl Iterator<Item = u32> + use<>, Violation> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.step(item, step)?)),
            None => (item, None),
        };
        // A part may be empty; the whole item says more.
        let number = |part| self.number(part).map_err(|violation| Violation::new(item, violation.rule));
        let (start, end) = match range.split_once('-') {
            _ if range == "*" => (self.min, self.max),
            Some((start, end)) => (number(start)?, number(end)?),
            None if step.is_some() => (number(range)?, self.max),
            None => {
                let only = number(range)?;
                (only, only)
            }
        };
        let width = self.max - self.min + 1;
        let is_year = self.max > 63;
        if end < start && is_year {
            return Err(Violation::new(item, "a range of years must not run backwards"));
        }
        let (min, end) = (self.min, if end < start { end + width } else { end });
        Ok((start..=end).step_by(step.unwrap_or(1)).map(move |value| (value - min) % width + min))
    }

    /// One number or name of the field.
    pub(super) fn number(&self, text: &str) -> Result<u32, Violation> {
        if let Some(index) = self.names.iter().position(|name| *name == text) {
            return Ok(self.min + index as u32);
        }
        match digits(text) {
            Some(number) if (self.min..=self.max).contains(&number) => Ok(number),
            Some(_) | None => Err(Violation::new(text, format_args!("{} expected", self.expected()))),
        }
    }

    fn step(&self, item: &str, text: &str) -> Result<usize, Violation> {
        let most = self.max - self.min + 1;
        match digits(text) {
            Some(step) if (1..=most).contains(&step) => Ok(step as usize),
            Some(_) | None => {
                Err(Violation::new(item, format_args!("a step is a number from 1 to {most}, as in */5")))
            }
        }
    }

    fn expected(&self) -> String {
        match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!("{}-{} or {first}-{last}", self.min, self.max),
            _ => format!("{}-{}", self.min, self.max),
        }
    }
}

/// A number of one to four digits and nothing else.
pub(super) fn digits(text: &str) -> Option<u32> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// The matching years, one bit each.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Years([u64; 4]);

impl Years {
    pub(super) fn parse(text: &str) -> Result<Years, Violation> {
        let mut years = Years::default();
        for item in text.split(',') {
            for year in YEAR.values(item)? {
                let index = year - YEAR.min;
                years.0[index as usize / 64] |= 1 << (index % 64);
            }
        }
        Ok(years)
    }

    pub(super) fn contains(&self, year: i16) -> bool {
        let in_range = (YEAR_FIRST..=YEAR_LAST).contains(&year);
        let index = i32::from(year) - i32::from(YEAR_FIRST);
        in_range && self.0[index as usize / 64] >> (index % 64) & 1 == 1
    }
}

/// The lowest set bit that is at least `from`.
pub(super) fn next(bits: u64, from: u32) -> Option<u32> {
    let rest = bits.checked_shr(from).unwrap_or(0);
    (rest != 0).then(|| from + rest.trailing_zeros())
}

/// The highest set bit that is at most `from`.
pub(super) fn previous(bits: u64, from: u32) -> Option<u32> {
    let rest = bits & (u64::MAX >> (63 - from.min(63)));
    (rest != 0).then(|| 63 - rest.leading_zeros())
}

/// The lowest bit of a set that is not empty.
pub(super) fn first(bits: u64) -> u32 {
    bits.trailing_zeros()
}

/// The highest bit of a set that is not empty.
pub(super) fn last(bits: u64) -> u32 {
    63 - bits.leading_zeros()
}
