//! Changes to a JSON document that leave it one: most bytes that are changed in JSON only show that it is none
//! any more.

use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::Index;
use serde_json::{Number, Value};

use crate::edit::{NUMBERS, WORDS};

/// A value of the document, and what becomes of it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    of: Index,
    into: Into,
}

#[derive(Clone, Debug)]
enum Into {
    /// Another value of the same document.
    Other(Index),
    /// Another value of the same document under the same name.
    Alike(Index),
    Number(Index),
    Word(Index),
    Null,
    Empty,
    /// In a list or an object: without one of its members.
    Without(Index),
    /// In a list: with one of its members once more, elsewhere.
    Again(Index, Index),
    /// In a list: with two of its members in each other's place.
    Swapped(Index, Index),
    /// Wrapped in so many lists.
    Deep(usize),
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    let into = prop_oneof![
        2 => at().prop_map(Into::Other),
        6 => at().prop_map(Into::Alike),
        4 => at().prop_map(Into::Number),
        2 => at().prop_map(Into::Word),
        1 => proptest::strategy::Just(Into::Null),
        1 => proptest::strategy::Just(Into::Empty),
        3 => at().prop_map(Into::Without),
        2 => (at(), at()).prop_map(|(one, to)| Into::Again(one, to)),
        2 => (at(), at()).prop_map(|(one, other)| Into::Swapped(one, other)),
        1 => prop_oneof![1_usize..4, 100_usize..200].prop_map(Into::Deep),
    ];
    (at(), into).prop_map(|(of, into)| Change { of, into })
}

/// Makes the change where the input is a JSON document, or one after a first line.
pub(crate) fn make(input: &mut Vec<u8>, change: &Change) {
    let after_line = input.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
    for from in [Some(0), after_line].into_iter().flatten() {
        if let Ok(mut document) = serde_json::from_slice::<Value>(&input[from..]) {
            alter(&mut document, change);
            input.truncate(from);
            // Values that were read can be written.
            return serde_json::to_writer(input, &document).unwrap_or_default();
        }
    }
}

fn alter(document: &mut Value, change: &Change) {
    let mut paths = Vec::new();
    collect(document, &mut String::new(), &mut paths);
    let path = change.of.get::<String>(&paths).clone();
    let other = match &change.into {
        Into::Other(other) => document.pointer(other.get::<String>(&paths)).cloned(),
        Into::Alike(other) => {
            let name = path.rsplit('/').next().unwrap_or_default();
            let alike: Vec<_> = paths.iter().filter(|path| path.rsplit('/').next() == Some(name)).collect();
            if alike.is_empty() { None } else { document.pointer(other.get::<&String>(&alike)).cloned() }
        }
        _ => None,
    };
    let Some(value) = document.pointer_mut(&path) else { return };
    match (&change.into, value) {
        (Into::Other(_) | Into::Alike(_), value) => *value = other.unwrap_or_default(),
        (Into::Number(number), value) => {
            *value = number.get(NUMBERS).parse::<Number>().map_or(Value::Null, Value::Number);
        }
        (Into::Word(word), value) => *value = Value::String((*word.get(WORDS)).to_owned()),
        (Into::Null, value) => *value = Value::Null,
        (Into::Empty, Value::Array(items)) => items.clear(),
        (Into::Empty, Value::Object(fields)) => fields.clear(),
        (Into::Empty, value) => *value = Value::String(String::new()),
        (Into::Without(one), Value::Array(items)) if !items.is_empty() => {
            items.remove(one.index(items.len()));
        }
        (Into::Without(one), Value::Object(fields)) if !fields.is_empty() => {
            let name = fields.keys().nth(one.index(fields.len())).cloned().unwrap_or_default();
            fields.remove(&name);
        }
        (Into::Again(one, to), Value::Array(items)) if !items.is_empty() => {
            let item = one.get(items).clone();
            items.insert(to.index(items.len() + 1), item);
        }
        (Into::Swapped(one, other), Value::Array(items)) if !items.is_empty() => {
            let count = items.len();
            items.swap(one.index(count), other.index(count));
        }
        (Into::Deep(levels), value) => {
            for _ in 0..*levels {
                *value = Value::Array(vec![value.take()]);
            }
        }
        (Into::Without(_) | Into::Again(..) | Into::Swapped(..), _) => {}
    }
}

/// The pointers of all values, outer ones first.
fn collect(value: &Value, path: &mut String, paths: &mut Vec<String>) {
    paths.push(path.clone());
    let mut below = |name: &str, value: &Value| {
        let length = path.len();
        path.push('/');
        path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        collect(value, path, paths);
        path.truncate(length);
    };
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                below(&at.to_string(), item);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                below(name, field);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
