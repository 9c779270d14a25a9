use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use tidemill_store::{Column, Kind, Row, Shown, Value};

use super::{NAMES, time};

/// A row as clients see it: the columns of its table that are shown, each as its kind and [`Shown`] say.
#[derive(Debug)]
pub(crate) struct View<R>(pub(crate) R);

/// Names the views that are a row and nothing else, as the OpenAPI document does.
macro_rules! views {
    ($($view:ident: $row:ident),+ $(,)?) => {
        $(pub(crate) type $view = View<$row>;)+

        const NAMES: &[(&Table, &str)] = &[$((<$row as Row>::TABLE, stringify!($view))),+];
    };
}
pub(super) use views;

impl<R: Row> From<R> for View<R> {
    fn from(row: R) -> Self {
        Self(row)
    }
}

impl<R: Row> Serialize for View<R> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let cells = R::TABLE.columns.iter().zip(self.0.values());
        to.collect_map(
            cells.filter_map(|(column, value)| Some((column.public_name()?, Cell { column, value }))),
        )
    }
}

/// What a row has in one column.
struct Cell {
    column: &'static Column,
    value: Value,
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match (&self.value, self.column.kind) {
            (Value::Null, _) => to.serialize_none(),
            (Value::Int(number), Kind::Bool) => to.serialize_bool(*number != 0),
            (Value::Int(ms), Kind::Time) => time(*ms).serialize(to),
            (Value::Int(number), _) => match self.column.shown {
                Shown::Words(words) => {
                    usize::try_from(*number).ok().and_then(|at| words.get(at)).serialize(to)
                }
                Shown::AsItIs | Shown::As(_) | Shown::Hidden => to.serialize_i64(*number),
            },
            // Goes on as it is stored, once it is known to be JSON.
            (Value::Text(text), Kind::Json | Kind::Texts | Kind::Numbers) => {
                serde_json::from_str::<&RawValue>(text).ok().serialize(to)
            }
            (Value::Text(text), _) => to.serialize_str(text),
        }
    }
}

impl<R: Row> JsonSchema for View<R> {
    fn schema_name() -> Cow<'static, str> {
        NAMES.iter().find(|(table, _)| *table == R::TABLE).map_or(R::TABLE.name, |(_, name)| name).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let shown = || R::TABLE.columns.iter().filter_map(|column| Some((column.public_name()?, column)));
        let properties: serde_json::Map<_, _> =
            shown().map(|(name, column)| (name.to_owned(), schema_of(column, generator).into())).collect();
        let required: Vec<_> = shown().filter(|(_, column)| !column.nullable).map(|(name, _)| name).collect();
        json_schema!({
            "description": R::TABLE.doc.trim(),
            "type": "object",
            "properties": properties,
            "required": required,
        })
    }
}

fn schema_of(column: &Column, generator: &mut SchemaGenerator) -> Schema {
    let mut description = column.doc.trim().to_owned();
    let mut schema = match (column.kind, column.shown) {
        (Kind::Int, Shown::Words(words)) => {
            description = format!("{description} `{}`.", words.join("`, `"));
            typed::<String>(column, generator)
        }
        (Kind::Int, _) => typed::<i64>(column, generator),
        (Kind::Bool, _) => typed::<bool>(column, generator),
        (Kind::Time, _) => typed::<tidemill_model::Timestamp>(column, generator),
        (Kind::Name(_) | Kind::Text, _) => typed::<String>(column, generator),
        (Kind::Json, _) => typed::<serde_json::Value>(column, generator),
        (Kind::Texts, _) => typed::<Vec<String>>(column, generator),
        (Kind::Numbers, _) => typed::<Vec<u32>>(column, generator),
    };
    schema.insert("description".to_owned(), description.into());
    schema
}

fn typed<T: JsonSchema>(column: &Column, generator: &mut SchemaGenerator) -> Schema {
    if column.nullable { Option::<T>::json_schema(generator) } else { T::json_schema(generator) }
}
