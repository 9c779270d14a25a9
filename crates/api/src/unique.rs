//! JSON whose objects name nothing twice: of two values under one name a reader takes the last, another reader the
//! first, and what was checked is not what is done. Nor is it deep: records hold what was asked for some levels deeper,
//! and readers of JSON stop at 128.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Arrays and objects in one another, the outermost one counted.
pub(crate) const MAX_DEPTH: usize = 64;
/// Values of one body, or of one element of a list that is read element by element: what a value takes in memory can be a
/// hundred times its text. A job with the most parents that there may be, each with its mapping, has about as many.
const MAX_VALUES: usize = 80_000;
/// serde_json reads the text of a member with such a name as JSON again, without a bound on depth.
const OF_THE_READER: &str = "$serde_json::";

/// Any JSON value of at most [`MAX_DEPTH`] levels and [`MAX_VALUES`] values, without names that are given twice.
pub(crate) struct Unique(pub(crate) Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reader::new(MAX_DEPTH, &Budget::default()).deserialize(deserializer).map(Self)
    }
}

/// How many values may still be read.
pub(crate) struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(MAX_VALUES))
    }
}

impl Budget {
    fn take<E: Error>(&self) -> Result<(), E> {
        let left = self.0.get().checked_sub(1);
        self.0.set(left.ok_or_else(|| {
            E::custom(format_args!("holds more than {MAX_VALUES} values; send less at once"))
        })?);
        Ok(())
    }
}

/// Reads a value that may have so many levels, and as many values as are left.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    levels: usize,
    budget: &'a Budget,
}

/// Whether an object that holds `all` may have this name as well.
pub(crate) fn check_name<E: Error>(all: &Map<String, Value>, name: &str) -> Result<(), E> {
    if all.contains_key(name) {
        let name: String = name.chars().take(200).collect();
        return Err(E::custom(format_args!("`{name}` is given twice; give it once")));
    }
    if name.starts_with(OF_THE_READER) {
        return Err(E::custom(format_args!("no name may begin with `{OF_THE_READER}`")));
    }
    Ok(())
}

impl<'a> Reader<'a> {
    pub(crate) fn new(levels: usize, budget: &'a Budget) -> Self {
        Self { levels, budget }
    }

    fn inner<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1);
        let too_deep =
            || E::custom(format_args!("nests more than {MAX_DEPTH} arrays and objects in one another"));
        levels.map(|levels| Self { levels, ..self }).ok_or_else(too_deep)
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.budget.take()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut all = Vec::new();
        while let Some(element) = elements.next_element_seed(inner)? {
            all.push(element);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut all = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            check_name(&all, &name)?;
            let value = members.next_value_seed(inner)?;
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_and_names_given_twice_are_refused() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,0.1,"\u00fc"],"b":{"a":{}}}"#;
        let Unique(read) = serde_json::from_str(text).unwrap();
        assert_eq!(read, serde_json::from_str::<Value>(text).unwrap());
        for twice in [r#"{"a":1,"a":2}"#, r#"[{"b":{"a":1,"\u0061":1}}]"#] {
            let error = serde_json::from_str::<Unique>(twice).map(drop).unwrap_err().to_string();
            assert!(error.starts_with("`a` is given twice"), "{error}");
        }
    }

    /// OPS-7: a value of two bytes takes thirty in memory, and an object of eight takes hundreds.
    #[test]
    fn number_of_values_is_bounded() {
        let read = |values: usize| {
            let text = format!("[{}0]", "0,".repeat(values - 2));
            serde_json::from_str::<Unique>(&text).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(read(MAX_VALUES), Ok(()));
        let error = read(MAX_VALUES + 1).unwrap_err();
        assert!(error.starts_with("holds more than 80000 values; send less at once"), "{error}");
    }

    #[test]
    fn depth_is_bounded_and_names_of_the_reader_are_refused() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let read =
            |text: &str| serde_json::from_str::<Unique>(text).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(read(&nested(64)), Ok(()));
        let error = read(&nested(65)).unwrap_err();
        assert!(error.starts_with("nests more than 64 arrays and objects"), "{error}");
        assert!(read(&format!("{{\"a\":{}}}", nested(64))).is_err());
        // A reader of values would take the text for JSON, level by level.
        for name in ["$serde_json::private::RawValue", "\\u0024serde_json::private::Number"] {
            let error = read(&format!("[{{\"{name}\":\"[]\"}}]")).unwrap_err();
            assert!(error.starts_with("no name may begin with"), "{error}");
        }
    }
}
