//! A fact as the world sees it: CloudEvents 1.0, JSON format, structured mode.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;
use tidemill_log::LogId;
use tidemill_model::{Audience, CatalogueEvent, Cause, Envelope, Event, EventKind, Json as _, Source};

/// The version of every event type so far. A published type never changes; other behaviour is another
/// version, beside it.
pub const VERSION: u32 = 1;

/// One event of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvent {
    /// Offset of the journal record that holds it.
    pub offset: u64,
    /// Its place in that record, from 0. Internal events take places, too: the numbers have gaps.
    pub index: u32,
    /// As in `batch.finished`; the type is `tidemill.batch.finished.v1`.
    pub kind: &'static str,
    /// As in `batch/4097`.
    pub subject: String,
    /// Partition key: the number of the shard.
    pub key: String,
    /// The whole event, one line.
    pub json: Vec<u8>,
}

/// The attributes, in the order in which they are written. Names of extensions are lower-case letters, and
/// numbers above 31 bits are text, as CloudEvents wants it.
#[derive(Serialize)]
struct Attributes<'a> {
    specversion: &'static str,
    id: String,
    source: String,
    #[serde(rename = "type")]
    kind: String,
    subject: &'a str,
    time: String,
    datacontenttype: &'static str,
    dataschema: String,
    partitionkey: &'a str,
    cause: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    causeoffset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actoruser: Option<&'a str>,
}

/// The CloudEvents `type` of a kind.
#[must_use]
pub fn type_of(kind: &str) -> String {
    format!("tidemill.{kind}.v{VERSION}")
}

/// The CloudEvents `dataschema` of a kind, which is the `$id` of its schema.
#[must_use]
pub fn schema_id(kind: &str) -> String {
    format!("urn:tidemill:schema:events:{kind}:v{VERSION}")
}

/// The CloudEvents `source` of a partition.
#[must_use]
pub fn source_of(log_id: &LogId, partition: u32) -> String {
    format!("tidemill/{log_id}/{partition}")
}

/// The `index`-th event of an accepted envelope, as the world sees it; `None` where it is of an internal kind
/// ([`tidemill_model::EventKind`]). The same envelope gives the same bytes, always. What an application key hashes to is
/// left out: `hash` is empty.
///
/// # Panics
/// When the envelope has no such event.
#[must_use]
pub fn cloud_event(
    log_id: &LogId,
    partition: u32,
    offset: u64,
    index: usize,
    envelope: &Envelope,
) -> Option<CloudEvent> {
    let recorded = &envelope.events[index];
    let EventKind { name: kind, audience: Audience::Public(_), .. } = recorded.event.of_kind() else {
        return None;
    };
    let event = public(&recorded.event);
    let (subject, key) = (event.subject(), recorded.shard.to_string());
    let (cause, causeoffset, request, actor) = match cause_of(&envelope.causes, index).map(|it| &it.source) {
        Some(Source::Command { offset, request, actor, .. }) => {
            ("command", Some(offset.to_string()), request.as_ref().map(|it| it.as_str()), Some(actor))
        }
        Some(Source::Timer) => ("timer", None, None, None),
        Some(Source::Observed) => ("observed", None, None, None),
        None => ("unknown", None, None, None),
    };
    let attributes = Attributes {
        specversion: "1.0",
        id: format!("{offset}-{index}"),
        source: source_of(log_id, partition),
        kind: type_of(kind),
        subject: &subject,
        time: envelope.now.to_string(),
        datacontenttype: "application/json",
        dataschema: schema_id(kind),
        partitionkey: &key,
        cause,
        causeoffset,
        request,
        actor: actor.map(|actor| &*actor.app),
        actoruser: actor.and_then(|actor| actor.user.as_deref()),
    };
    let json = with_data(&attributes, &event);
    let index = u32::try_from(index).expect("an envelope holds few events");
    Some(CloudEvent { offset, index, kind, subject, key, json })
}

/// What may be published of an event.
fn public(event: &Event) -> Cow<'_, Event> {
    if let Event::Catalogue(CatalogueEvent::KeyDefined { app, role, groups, run_as, .. }) = event {
        let (app, role, groups, run_as) = (app.clone(), *role, groups.clone(), run_as.clone());
        return Cow::Owned(Event::Catalogue(CatalogueEvent::KeyDefined {
            app,
            hash: String::new(),
            role,
            groups,
            run_as,
        }));
    }
    Cow::Borrowed(event)
}

/// Where the fields of an event lie in its JSON, `{"batch":{"finished":{…}}}`.
fn data_range(json: &[u8]) -> Range<usize> {
    let mut colons = json.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
    let colon = colons.nth(1).expect("an event is an object with one field, and so is what that holds");
    colon + 1..json.len() - 2
}

fn with_data(attributes: &Attributes<'_>, event: &Event) -> Vec<u8> {
    let data = event.to_json().into_bytes();
    let data = &data[data_range(&data)];
    let mut json = serde_json::to_vec(attributes).expect("attributes are texts");
    json.reserve(data.len() + 10);
    let brace = json.pop();
    debug_assert_eq!(brace, Some(b'}'));
    json.extend_from_slice(b",\"data\":");
    json.extend_from_slice(data);
    json.push(b'}');
    json
}

/// The events of each cause follow one another.
fn cause_of(causes: &[Cause], index: usize) -> Option<&Cause> {
    let mut before = 0;
    causes.iter().find(|cause| {
        before += usize::try_from(cause.events).expect("32 bits fit");
        index < before
    })
}
