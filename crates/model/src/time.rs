//! Points in time, in whole milliseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, TimestampArithmetic, Zoned};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NANOS_PER_MS: i128 = 1_000_000;

/// A point in time, in whole milliseconds.
///
/// As text it is RFC 3339 in UTC and always has three digits after the second, so that texts sort as times do:
/// `2026-11-23T09:00:00.000Z`. Text is read with any offset and any number of digits; what is finer than a millisecond
/// is cut off, towards the past, and so is what clocks say. What an owner holds and what its record says are the same
/// because of that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest, which is jiff's: -009999-01-02T01:59:59.000Z.
    pub const MIN: Self = Self(-377_705_023_201_000);
    /// The latest, the last whole second of jiff's: 9999-12-30T22:00:00.000Z.
    pub const MAX: Self = Self(253_402_207_200_000);
    /// The beginning of 1970.
    pub const UNIX_EPOCH: Self = Self(0);
    /// The shortest time between two that differ.
    pub const STEP: SignedDuration = SignedDuration::from_millis(1);

    fn cut(time: jiff::Timestamp) -> Self {
        let ms = time.as_nanosecond().div_euclid(NANOS_PER_MS) as i64;
        Self(ms.min(Self::MAX.0))
    }

    /// A time that is known when the program is built.
    ///
    /// # Panics
    /// The time is outside of [`Self::MIN`] to [`Self::MAX`].
    #[must_use]
    pub const fn constant(second: i64) -> Self {
        assert!(
            second >= Self::MIN.0 / 1_000 && second <= Self::MAX.0 / 1_000,
            "outside of the years -9999 to 9999"
        );
        Self(second * 1_000)
    }

    /// So many seconds after 1970.
    ///
    /// # Errors
    /// The time is outside of [`Self::MIN`] to [`Self::MAX`].
    pub fn from_second(second: i64) -> Result<Self, jiff::Error> {
        jiff::Timestamp::from_second(second).map(Self::cut)
    }

    /// So many milliseconds after 1970.
    ///
    /// # Errors
    /// The time is outside of [`Self::MIN`] to [`Self::MAX`].
    pub fn from_millisecond(ms: i64) -> Result<Self, jiff::Error> {
        jiff::Timestamp::from_millisecond(ms).map(Self::cut)
    }

    /// Whole seconds since 1970, cut towards it.
    #[must_use]
    pub const fn as_second(self) -> i64 {
        self.0 / 1_000
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millisecond(self) -> i64 {
        self.0
    }

    /// The same time, as jiff knows it.
    #[must_use]
    pub fn jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).expect("every one of these is within the range of jiff's")
    }

    /// The next one; the last one stays itself.
    #[must_use]
    pub fn next(self) -> Self {
        Self((self.0 + 1).min(Self::MAX.0))
    }

    /// The one before; the first one stays itself.
    #[must_use]
    pub fn previous(self) -> Self {
        Self((self.0 - 1).max(Self::MIN.0))
    }

    /// What clocks of that zone show.
    #[must_use]
    pub fn to_zoned(self, zone: TimeZone) -> Zoned {
        self.jiff().to_zoned(zone)
    }

    /// From another time to this one; negative where this one is earlier.
    #[must_use]
    pub fn duration_since(self, earlier: Self) -> SignedDuration {
        SignedDuration::from_millis(self.0 - earlier.0)
    }

    /// So much later, cut to milliseconds.
    ///
    /// # Errors
    /// The sum is outside of [`Self::MIN`] to [`Self::MAX`], or a span has units of days and more.
    pub fn checked_add(self, span: impl Into<TimestampArithmetic>) -> Result<Self, jiff::Error> {
        self.jiff().checked_add(span).map(Self::cut)
    }

    /// So much earlier, cut to milliseconds.
    ///
    /// # Errors
    /// The difference is outside of [`Self::MIN`] to [`Self::MAX`], or a span has units of days and more.
    pub fn checked_sub(self, span: impl Into<TimestampArithmetic>) -> Result<Self, jiff::Error> {
        self.jiff().checked_sub(span).map(Self::cut)
    }

    /// So much later, [`Self::MAX`] at most.
    ///
    /// # Errors
    /// A span has units of days and more.
    pub fn saturating_add(self, span: impl Into<TimestampArithmetic>) -> Result<Self, jiff::Error> {
        self.jiff().saturating_add(span).map(Self::cut)
    }

    /// So much earlier, [`Self::MIN`] at least.
    ///
    /// # Errors
    /// A span has units of days and more.
    pub fn saturating_sub(self, span: impl Into<TimestampArithmetic>) -> Result<Self, jiff::Error> {
        self.jiff().saturating_sub(span).map(Self::cut)
    }

    /// As text in the form that is given, in UTC.
    pub fn strftime<'f, F: 'f + ?Sized + AsRef<[u8]>>(self, form: &'f F) -> jiff::fmt::strtime::Display<'f> {
        self.jiff().strftime(form)
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(time: jiff::Timestamp) -> Self {
        Self::cut(time)
    }
}

impl From<Timestamp> for jiff::Timestamp {
    fn from(time: Timestamp) -> Self {
        time.jiff()
    }
}

impl Add<SignedDuration> for Timestamp {
    type Output = Self;

    fn add(self, duration: SignedDuration) -> Self {
        Self::cut(self.jiff() + duration)
    }
}

impl AddAssign<SignedDuration> for Timestamp {
    fn add_assign(&mut self, duration: SignedDuration) {
        *self = *self + duration;
    }
}

impl Sub<SignedDuration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: SignedDuration) -> Self {
        Self::cut(self.jiff() - duration)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.jiff())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse().map(Self::cut)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as 2026-11-23T09:00:00Z")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn texts_have_three_digits_and_sort_as_times_do() {
        let texts = ["2026-11-23T09:00:00Z", "2026-11-23T09:00:00.1Z", "2026-11-23T10:00:00.02+01:00"];
        let mut told = texts.map(|text| time(text).to_string());
        assert_eq!(
            told,
            ["2026-11-23T09:00:00.000Z", "2026-11-23T09:00:00.100Z", "2026-11-23T09:00:00.020Z"]
        );
        let mut times = texts.map(time);
        told.sort();
        times.sort();
        assert_eq!(told, times.map(|time| time.to_string()));
        assert_eq!(serde_json::to_string(&times[0]).unwrap(), "\"2026-11-23T09:00:00.000Z\"");
    }

    #[test]
    fn what_is_finer_is_cut_towards_the_past_wherever_it_comes_from() {
        for (text, cut) in [
            ("2026-11-23T09:00:00.000999999Z", "2026-11-23T09:00:00.000Z"),
            ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999Z"),
            ("1969-12-31T23:59:59.9990001Z", "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(time(text).to_string(), cut);
            assert_eq!(Timestamp::from(text.parse::<jiff::Timestamp>().unwrap()).to_string(), cut);
            assert_eq!(serde_json::from_str::<Timestamp>(&format!("\"{text}\"")).unwrap().to_string(), cut);
        }
        let sum = time("2026-11-23T09:00:00Z").checked_add(SignedDuration::from_nanos(-1)).unwrap();
        assert_eq!(sum.to_string(), "2026-11-23T08:59:59.999Z");
    }

    #[test]
    fn the_ends_of_the_range_are_read_again_as_they_were_written() {
        for end in [Timestamp::MIN, Timestamp::MAX, Timestamp::UNIX_EPOCH] {
            assert_eq!(time(&end.to_string()), end);
        }
        assert_eq!(Timestamp::from(jiff::Timestamp::MIN), Timestamp::MIN);
        assert_eq!(Timestamp::from(jiff::Timestamp::MAX), Timestamp::MAX);
        assert_eq!((Timestamp::MAX.next(), Timestamp::MIN.previous()), (Timestamp::MAX, Timestamp::MIN));
        assert!(Timestamp::MAX.checked_add(SignedDuration::from_secs(1)).is_err());
        assert!(Timestamp::from_millisecond(i64::MAX).is_err());
    }
}
