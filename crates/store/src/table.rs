//! What a table is: its columns, key and indexes, from which the SQL of both dialects is made.

use std::fmt;
use std::hash::Hash;

use crate::{Error, Value};

/// What a column holds, whatever the dialect calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A 64-bit integer.
    Int,
    /// 0 or 1.
    Bool,
    /// Milliseconds since 1970, UTC; the views show it as a readable time.
    Time,
    /// Text of at most this many characters, which can stand in a key or an index.
    Name(u16),
    /// Text of any length.
    Text,
    /// JSON, stored as text.
    Json,
    /// A JSON list of texts, stored as text.
    Texts,
    /// A JSON list of numbers from 0 on, stored as text.
    Numbers,
}

impl Kind {
    /// Whether databases hold it as a number, and not as text.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Kind::Int | Kind::Bool | Kind::Time)
    }
}

/// How clients of the interface see a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Under its own name.
    AsItIs,
    /// Under another name.
    As(&'static str),
    /// Under its own name, as the word that stands at the place of its number.
    Words(&'static [&'static str]),
    /// Not at all.
    Hidden,
}

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it may be empty.
    pub nullable: bool,
    /// What it means.
    pub doc: &'static str,
    /// How clients see it.
    pub shown: Shown,
}

impl Column {
    /// Its name for clients; nothing where they do not see it.
    #[must_use]
    pub fn public_name(&self) -> Option<&'static str> {
        match self.shown {
            Shown::AsItIs | Shown::Words(_) => Some(self.name),
            Shown::As(name) => Some(name),
            Shown::Hidden => None,
        }
    }
}

/// One table.
#[derive(Clone, Copy)]
pub struct Table {
    /// Its name; a generation's own table has `g<generation>_` in front.
    pub name: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// The columns; those of the key come first.
    pub columns: &'static [Column],
    /// The names of those that make the key.
    pub key: &'static [&'static str],
    /// Columns that never change once the row is there, so that an update leaves their indexes alone.
    pub fixed: &'static [&'static str],
    /// Indexes beside the key.
    pub indexes: &'static [&'static [&'static str]],
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Table {}

impl Table {
    /// The columns of the key.
    #[must_use]
    pub fn key_columns(&self) -> &'static [Column] {
        &self.columns[..self.key.len()]
    }

    /// The key of a row of this table.
    #[must_use]
    pub fn key_of<'a>(&self, row: &'a [Value]) -> &'a [Value] {
        &row[..self.key.len()]
    }
}

/// A row as a struct. Implemented for every type in [`crate::rows`].
pub trait Row: Sized + Clone + PartialEq + fmt::Debug + Send + 'static {
    /// Where such rows stand.
    const TABLE: &'static Table;
    /// What tells one row from another.
    type Key: Clone + Eq + Ord + Hash + fmt::Debug + Send;

    /// This row's key.
    fn key(&self) -> Self::Key;

    /// A key, column by column.
    fn key_values(key: &Self::Key) -> Vec<Value>;

    /// The row, column by column.
    fn values(&self) -> Vec<Value>;

    /// A row from its columns.
    ///
    /// # Errors
    /// [`Error::Column`] where a column is missing or of another kind.
    fn from_values(values: Vec<Value>) -> Result<Self, Error>;
}

/// Defines a row, and from the same list its table. A column is seen by clients as it is, unless `=>` says otherwise.
macro_rules! row {
    (@shown) => { $crate::Shown::AsItIs };
    (@shown $shown:expr) => { $shown };
    (
        $(#[doc = $doc:literal])+
        $row:ident in $name:literal, key ($($key:ident: $key_ty:ty),+),
        fixed ($($fixed:ident),*), indexes [$([$($index:ident),+]),*] {
            $($(#[doc = $field_doc:literal])+ $field:ident: $ty:ty = $kind:expr $(=> $shown:expr)?,)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $row {
            $($(#[doc = $field_doc])+ pub $field: $ty,)+
        }

        impl $crate::Row for $row {
            const TABLE: &'static $crate::Table = &$crate::Table {
                name: $name,
                doc: concat!($($doc,)+),
                columns: &[$($crate::Column {
                    name: stringify!($field),
                    kind: $kind,
                    nullable: <$ty as $crate::Field>::NULLABLE,
                    doc: concat!($($field_doc,)+),
                    shown: $crate::table::row!(@shown $($shown)?),
                },)+],
                key: &[$(stringify!($key)),+],
                fixed: &[$(stringify!($fixed)),*],
                indexes: &[$(&[$(stringify!($index)),+]),*],
            };
            type Key = ($($key_ty,)+);

            fn key(&self) -> Self::Key {
                ($(self.$key.clone(),)+)
            }

            fn key_values(key: &Self::Key) -> Vec<$crate::Value> {
                let ($($key,)+) = key;
                vec![$($crate::Field::to_value($key)),+]
            }

            fn values(&self) -> Vec<$crate::Value> {
                vec![$($crate::Field::to_value(&self.$field)),+]
            }

            fn from_values(values: Vec<$crate::Value>) -> Result<Self, $crate::Error> {
                let mut values = values.into_iter();
                Ok(Self {
                    $($field: values
                        .next()
                        .and_then(<$ty as $crate::Field>::from_value)
                        .ok_or($crate::Error::Column { table: $name, column: stringify!($field) })?,)+
                })
            }
        }
    };
}
pub(crate) use row;
