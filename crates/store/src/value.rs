//! What stands in one column of one row.

use std::fmt;
use std::sync::Arc;

/// A value of a column. Cloning is cheap: text is shared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Nothing.
    Null,
    /// A number, a truth value (0 or 1) or a time (milliseconds since 1970).
    Int(i64),
    /// Text, or JSON as text.
    Text(Arc<str>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Int(number) => number.fmt(f),
            Value::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<bool> for Value {
    fn from(set: bool) -> Self {
        Value::Int(i64::from(set))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.into())
    }
}

impl From<Arc<str>> for Value {
    fn from(text: Arc<str>) -> Self {
        Value::Text(text)
    }
}

/// A Rust type that a column can have.
pub trait Field: Sized {
    /// Whether the column may be empty.
    const NULLABLE: bool;

    /// As the column has it.
    fn to_value(&self) -> Value;

    /// From what the column has; `None` where that is of another kind.
    fn from_value(value: Value) -> Option<Self>;
}

impl Field for i64 {
    const NULLABLE: bool = false;

    fn to_value(&self) -> Value {
        Value::Int(*self)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Int(number) => Some(number),
            Value::Null | Value::Text(_) => None,
        }
    }
}

impl Field for bool {
    const NULLABLE: bool = false;

    fn to_value(&self) -> Value {
        Value::Int(i64::from(*self))
    }

    fn from_value(value: Value) -> Option<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl Field for Arc<str> {
    const NULLABLE: bool = false;

    fn to_value(&self) -> Value {
        Value::Text(Arc::clone(self))
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text),
            Value::Null | Value::Int(_) => None,
        }
    }
}

impl<T: Field> Field for Option<T> {
    const NULLABLE: bool = true;

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, Field::to_value)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}
