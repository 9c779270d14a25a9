//! What the audit list says of a change: JSON of a bounded length, with nothing that is secret.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// The longest detail, bytes.
const MAX_BYTES: usize = 16 * 1024;
/// A part that is longer is left out of one that would be longer than that.
const MAX_PART_BYTES: usize = 1024;

/// Fields of events that are shown as they are. A field that is not here is not shown: it may be long, or secret.
const SHOWN: [&str; 39] = [
    "action",
    "allowed",
    "attempt",
    "batch",
    "counted_parents",
    "concurrent",
    "done",
    "external_dependencies",
    "from",
    "generation",
    "host",
    "ids_above",
    "incarnation",
    "job",
    "jobs_left_out",
    "kept_from",
    "kill",
    "latest",
    "logical_time",
    "message",
    "now",
    "origin",
    "parents",
    "person",
    "previous_name",
    "quality",
    "reason",
    "report",
    "result",
    "resumed_at",
    "run",
    "shard",
    "task",
    "to",
    "token",
    "unmet",
    "upto",
    "version",
    "worker",
];

type Parts = BTreeMap<String, Box<RawValue>>;

/// A change, as it is told.
#[derive(Default)]
pub(super) struct Detail {
    before: Option<Box<RawValue>>,
    after: Option<Box<RawValue>>,
    parts: Parts,
}

/// A value that is shown.
pub(super) fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("the vocabulary is made of what JSON can hold")
}

/// JSON as a row has it.
pub(super) fn stored(text: &str) -> Option<Box<RawValue>> {
    serde_json::from_str(text).ok()
}

impl Detail {
    /// What the event says itself, as far as that is shown. An event is JSON as `{aggregate: {variant: fields}}`.
    pub(super) fn of_event(event: &impl Serialize) -> Self {
        let text = raw(event);
        let said: BTreeMap<String, BTreeMap<String, Parts>> =
            serde_json::from_str(text.get()).unwrap_or_default();
        let fields = said.into_values().flat_map(BTreeMap::into_values).flatten();
        let parts = fields.filter(|(name, value)| SHOWN.contains(&&**name) && value.get() != "null");
        Self { parts: parts.collect(), ..Self::default() }
    }

    /// What changed, as it was and as it is; absent: it was not, or is not.
    pub(super) fn change(before: Option<Box<RawValue>>, after: Option<Box<RawValue>>) -> Self {
        Self { before, after, parts: Parts::new() }
    }

    /// With something else that is known of it.
    pub(super) fn with(mut self, name: &str, value: &impl Serialize) -> Self {
        self.parts.insert(name.to_owned(), raw(value));
        self
    }

    /// The JSON. Where it would be too long, of what changed only the fields that differ are told; where that is too long, too, how
    /// long each part is.
    pub(super) fn finish(self) -> Arc<str> {
        let Self { before, after, mut parts } = self;
        let (old, new) = (fields_of(before.as_deref()), fields_of(after.as_deref()));
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let get = |fields: &Parts, name: &str| fields.get(name).map(|value| value.get().to_owned());
        let differing: Vec<&String> =
            names.into_iter().filter(|name| get(&old, name) != get(&new, name)).collect();
        if before.is_some() && after.is_some() && !parts.contains_key("fields") {
            parts.insert("fields".to_owned(), raw(&differing));
        }
        let only = |fields: &Parts, whole: &Option<Box<RawValue>>| {
            let kept = || differing.iter().filter_map(|name| Some((*name, fields.get(*name)?)));
            whole.as_ref().map(|_| raw(&kept().collect::<BTreeMap<_, _>>()))
        };
        let short = (only(&old, &before), only(&new, &after));
        let text = told(&parts, (before, after));
        if text.len() <= MAX_BYTES {
            return text.into();
        }
        parts.insert("cut".to_owned(), raw(&true));
        let text = told(&parts, short);
        if text.len() <= MAX_BYTES {
            return text.into();
        }
        let parts: Parts = serde_json::from_str(&text).expect("it was made of JSON just now");
        told(&parts.into_iter().map(left_out).collect(), (None, None)).into()
    }
}

fn left_out((name, value): (String, Box<RawValue>)) -> (String, Box<RawValue>) {
    let bytes = value.get().len();
    let value = if bytes > MAX_PART_BYTES { raw(&BTreeMap::from([("bytes", bytes)])) } else { value };
    (name, value)
}

/// The fields of an object; of anything else none.
fn fields_of(value: Option<&RawValue>) -> Parts {
    value.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

type Change = (Option<Box<RawValue>>, Option<Box<RawValue>>);

fn told(parts: &Parts, (before, after): Change) -> String {
    let mut all: BTreeMap<&str, &RawValue> = parts.iter().map(|(name, value)| (&**name, &**value)).collect();
    all.extend(before.as_deref().map(|before| ("before", before)));
    all.extend(after.as_deref().map(|after| ("after", after)));
    serde_json::to_string(&all).expect("JSON is JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidemill_model::{Actor, AttemptEvent, BatchId, Event, Token};

    use super::*;

    fn told(before: &Value, after: &Value) -> Value {
        let text = Detail::change(Some(raw(before)), Some(raw(after))).with("reason", &"because").finish();
        assert!(text.len() <= MAX_BYTES, "{} bytes", text.len());
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_differs_is_named() {
        let detail = told(&json!({"a": 1, "b": 2, "c": 3}), &json!({"a": 1, "b": 3, "d": 4}));
        let whole = json!({
            "before": {"a": 1, "b": 2, "c": 3}, "after": {"a": 1, "b": 3, "d": 4}, "fields": ["b", "c", "d"],
            "reason": "because",
        });
        assert_eq!(detail, whole);
    }

    /// API-9: a long detail is cut, says so, and tells what it can.
    #[test]
    fn long_changes_are_cut() {
        let (long, longer) = ("x".repeat(12_000), "y".repeat(20_000));
        let detail = told(&json!({"long": long, "slots": 1}), &json!({"long": long, "slots": 2}));
        let only = json!({"before": {"slots": 1}, "after": {"slots": 2}, "fields": ["slots"], "cut": true, "reason": "because"});
        assert_eq!(detail, only);
        let detail = told(&json!({"long": longer}), &json!({"long": "z"}));
        let sizes = json!({
            "before": {"bytes": 20_011}, "after": {"long": "z"}, "fields": ["long"], "cut": true, "reason": "because",
        });
        assert_eq!(detail, sizes);
    }

    #[test]
    fn only_known_fields_of_an_event_are_shown() {
        let by = Actor { app: "etl".into(), user: None };
        let event = Event::from(AttemptEvent::KillRequested {
            batch: BatchId(1),
            token: Token(2),
            by,
            reason: "late".to_owned(),
        });
        let detail: Value = serde_json::from_str(&Detail::of_event(&event).finish()).unwrap();
        assert_eq!(detail, json!({"batch": 1, "token": 2, "reason": "late"}));
    }
}
