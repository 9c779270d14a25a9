//! Time patterns such as `yyyy-MM-dd` and shifts such as `-1d`.

use std::fmt::Write;

use jiff::{SignedDuration, Span, Zoned};
use tidemill_model::Timestamp;

/// The furthest a shift may reach, in its own unit.
const SHIFT_DIGITS_MAX: usize = 6;

/// A logical time's written form, after Java's letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimePattern(Vec<Token>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    /// `XXX`: `+02:00`, and `Z` for zero.
    OffsetWithColon,
    /// `Z`: `+0200`.
    Offset,
    Literal(char),
}

impl TimePattern {
    /// Parses a pattern; the error is the rule that it breaks.
    pub(super) fn parse(text: &str) -> Result<TimePattern, String> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let end = rest.find(|c| c != letter).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            match token(run) {
                Some(token) => tokens.push(token),
                None if is_literal(letter) => tokens.extend(run.chars().map(Token::Literal)),
                None => {
                    return Err(format!(
                        "'{run}' is no part of a time pattern, which has yyyy MM dd HH mm ss XXX Z, the literals \
                         - _ / : . T and space, and at the end a shift such as -1d or +2h"
                    ));
                }
            }
            rest = after;
        }
        match tokens.iter().all(|token| matches!(token, Token::Literal(_))) {
            true => Err("a time pattern needs one of yyyy MM dd HH mm ss XXX Z".into()),
            false => Ok(TimePattern(tokens)),
        }
    }

    pub(super) fn has_hour(&self) -> bool {
        self.0.contains(&Token::Hour)
    }

    pub(super) fn has_offset(&self) -> bool {
        self.0.iter().any(|token| matches!(token, Token::Offset | Token::OffsetWithColon))
    }

    /// Appends the local time and its offset.
    pub(super) fn write(&self, time: &Zoned, out: &mut String) {
        for token in &self.0 {
            let written = match token {
                Token::Year => write!(out, "{:04}", time.year()),
                Token::Month => write!(out, "{:02}", time.month()),
                Token::Day => write!(out, "{:02}", time.day()),
                Token::Hour => write!(out, "{:02}", time.hour()),
                Token::Minute => write!(out, "{:02}", time.minute()),
                Token::Second => write!(out, "{:02}", time.second()),
                Token::OffsetWithColon if time.offset().is_zero() => out.write_str("Z"),
                Token::OffsetWithColon => write_offset(time.offset().seconds(), ":", out),
                Token::Offset => write_offset(time.offset().seconds(), "", out),
                Token::Literal(c) => out.write_char(*c),
            };
            written.expect("writing to a String cannot fail");
        }
    }
}

/// Which fields some patterns write, together.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Vec<Token>);

impl Fields {
    pub(super) fn add(&mut self, pattern: &TimePattern) {
        self.0.extend(&pattern.0);
    }

    pub(super) fn add_all(&mut self) {
        self.0.extend([Token::Year, Token::Month, Token::Day, Token::Hour, Token::Minute]);
    }

    /// What one reading of them covers, at most: zero without any, else the length of the finest field that has all
    /// coarser ones beside it, and a year where the year is missing.
    pub(super) fn covered(&self) -> SignedDuration {
        if self.0.is_empty() {
            return SignedDuration::ZERO;
        }
        let (days, hours) = (|days: i64| SignedDuration::from_hours(24 * days), SignedDuration::from_hours);
        let fields = [
            (Token::Year, days(367)),
            (Token::Month, days(367)),
            (Token::Day, days(32)),
            // A day of 25 hours.
            (Token::Hour, hours(25)),
            (Token::Minute, hours(1)),
        ];
        let missing = fields.into_iter().find(|(field, _)| !self.0.contains(field));
        missing.map_or(SignedDuration::from_mins(1), |(_, covered)| covered)
    }
}

fn token(run: &str) -> Option<Token> {
    match run {
        "yyyy" => Some(Token::Year),
        "MM" => Some(Token::Month),
        "dd" => Some(Token::Day),
        "HH" => Some(Token::Hour),
        "mm" => Some(Token::Minute),
        "ss" => Some(Token::Second),
        "XXX" => Some(Token::OffsetWithColon),
        "Z" => Some(Token::Offset),
        _ => None,
    }
}

fn is_literal(c: char) -> bool {
    matches!(c, '-' | '_' | '/' | ':' | '.' | ' ' | 'T')
}

fn write_offset(seconds: i32, separator: &str, out: &mut String) -> std::fmt::Result {
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.abs() / 60;
    write!(out, "{sign}{:02}{separator}{:02}", minutes / 60, minutes % 60)
}

/// A distance from the logical time: calendar units on the zone's clock, hours and minutes elapsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shift {
    Months(i32),
    Weeks(i32),
    Days(i32),
    Elapsed(SignedDuration),
}

impl Shift {
    /// Splits a trailing `+n` or `-n` with its unit off a placeholder's content.
    ///
    /// Digits have no other use in a pattern, so the split is never ambiguous.
    pub(super) fn split(content: &str) -> Result<(&str, Option<Shift>), String> {
        let Some(unit) = content.chars().next_back().filter(|c| "Mwdhm".contains(*c)) else {
            return Ok((content, None));
        };
        let number = &content[..content.len() - 1];
        let form_and_sign = number.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &number[form_and_sign.len()..];
        let (form, sign) = match (form_and_sign.strip_suffix('-'), form_and_sign.strip_suffix('+')) {
            (Some(form), _) => (form, -1),
            (None, Some(form)) => (form, 1),
            (None, None) => return Ok((content, None)),
        };
        if digits.is_empty() {
            return Ok((content, None));
        }
        let too_far = || format!("a shift has at most {SHIFT_DIGITS_MAX} digits");
        let distance = Some(digits).filter(|digits| digits.len() <= SHIFT_DIGITS_MAX).ok_or_else(too_far)?;
        let distance = sign * distance.parse::<i32>().map_err(|_| too_far())?;
        let shift = match unit {
            'M' => Shift::Months(distance),
            'w' => Shift::Weeks(distance),
            'd' => Shift::Days(distance),
            'h' => Shift::Elapsed(SignedDuration::from_hours(distance.into())),
            _ => Shift::Elapsed(SignedDuration::from_mins(distance.into())),
        };
        Ok((form, Some(shift)))
    }

    /// Its length, at most, without its direction.
    pub(super) fn length(&self) -> SignedDuration {
        let days = |days: u32| SignedDuration::from_hours(25 * i64::from(days));
        match self {
            Shift::Months(months) => days(31 * months.unsigned_abs()),
            Shift::Weeks(weeks) => days(7 * weeks.unsigned_abs()),
            Shift::Days(count) => days(count.unsigned_abs()),
            Shift::Elapsed(duration) => duration.abs(),
        }
    }

    /// The time moved by this distance; `None` when it leaves the range of times.
    pub(super) fn apply(&self, time: &Zoned) -> Option<Zoned> {
        let calendar = |span: Option<Span>| time.checked_add(span?).ok();
        match self {
            Shift::Months(months) => calendar(Span::new().try_months(*months).ok()),
            Shift::Weeks(weeks) => calendar(Span::new().try_weeks(*weeks).ok()),
            Shift::Days(days) => calendar(Span::new().try_days(*days).ok()),
            Shift::Elapsed(duration) => {
                let at = Timestamp::from(time.timestamp()).checked_add(*duration).ok()?;
                Some(at.to_zoned(time.time_zone().clone()))
            }
        }
    }
}
