//! Paging by key: a page ends with the place of its last row, and the next one begins after it.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::{Error, Value};

/// A place in a list. Opaque text to clients; good for the same list and filters only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(Vec<Value>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Part {
    Int(i64),
    Text(Arc<str>),
}

impl Cursor {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self(values)
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.0
    }

    /// Reads what [`fmt::Display`] wrote.
    ///
    /// # Errors
    /// [`Error::BadCursor`] where the text is anything else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadCursor { cursor: text.chars().take(200).collect() };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?;
        let parts: Vec<Part> = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        let value = |part| match part {
            Part::Int(number) => Value::Int(number),
            Part::Text(text) => Value::Text(text),
        };
        Ok(Self(parts.into_iter().map(value).collect()))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |value: &Value| match value {
            Value::Null => Part::Text("".into()),
            Value::Int(number) => Part::Int(*number),
            Value::Text(text) => Part::Text(Arc::clone(text)),
        };
        let parts: Vec<Part> = self.0.iter().map(part).collect();
        let json = serde_json::to_vec(&parts).expect("numbers and texts are JSON");
        f.write_str(&URL_SAFE_NO_PAD.encode(json))
    }
}

/// Which part of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// After this place; absent: from the beginning.
    pub after: Option<Cursor>,
    /// At most this many rows.
    pub limit: usize,
}

impl PageRequest {
    /// The first `limit` rows.
    #[must_use]
    pub fn first(limit: usize) -> Self {
        Self { after: None, limit }
    }
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next part begins; absent: this was the last one.
    pub next: Option<Cursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_survives_its_text() {
        let cursor = Cursor::new(vec![Value::Int(-5), Value::from("报表 a")]);
        assert_eq!(Cursor::parse(&cursor.to_string()).unwrap(), cursor);
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "!", "bm90IGpzb24"] {
            assert!(matches!(Cursor::parse(text), Err(Error::BadCursor { .. })), "{text}");
        }
    }
}
