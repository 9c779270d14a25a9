//! A fact as the world sees it: CloudEvents 1.0, JSON format, structured mode.

use std::borrow::Cow;
use std::iter::{repeat, repeat_n};
use std::ops::Range;

use tidemill_log::LogId;
use tidemill_model::{
    Audience, CatalogueEvent, Cause, Envelope, Event, EventKind, Json as _, Recorded, Source,
};

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

/// The CloudEvents `type` of a kind.
#[must_use]
pub fn type_of(kind: &str) -> String {
    format!("tidemill.{kind}.v{VERSION}")
}

/// Before the kind in the `$id` of its schema.
const SCHEMA: &str = "urn:tidemill:schema:events:";

/// The CloudEvents `dataschema` of a kind, which is the `$id` of its schema.
#[must_use]
pub fn schema_id(kind: &str) -> String {
    format!("{SCHEMA}{kind}:v{VERSION}")
}

/// The CloudEvents `source` of a partition.
#[must_use]
pub fn source_of(log_id: &LogId, partition: u32) -> String {
    format!("tidemill/{log_id}/{partition}")
}

/// The events of an accepted envelope from the `first`-th on, as the world sees them; those of internal kinds
/// ([`tidemill_model::EventKind`]) are left out. The same envelope gives the same bytes, always. What an application key
/// hashes to is left out: `hash` is empty.
pub fn cloud_events<'a>(
    log_id: &LogId,
    partition: u32,
    offset: u64,
    first: usize,
    envelope: &'a Envelope,
) -> impl Iterator<Item = CloudEvent> + 'a {
    let writer = Writer::new(log_id, partition, offset, envelope);
    let of_cause =
        |cause: &'a Cause| repeat_n(Some(cause), usize::try_from(cause.events).expect("32 bits fit"));
    // The events of each cause follow one another.
    let causes = envelope.causes.iter().flat_map(of_cause).chain(repeat(None));
    let events = envelope.events.iter().zip(causes).enumerate().skip(first);
    events.filter_map(move |(index, (recorded, cause))| writer.event(index, recorded, cause))
}

/// Writes the events of one envelope: what they share is made once.
///
/// The attributes stand in a fixed order. Names of extensions are lower-case letters, and numbers above 31 bits are text, as
/// CloudEvents wants it.
struct Writer {
    offset: u64,
    /// Up to within the id.
    begin: String,
    /// From within the id to the kind in the type.
    source: String,
    /// From behind that to the subject.
    subject: String,
    /// From behind the subject to the kind in the schema.
    time: String,
    /// From behind that to within the partition key.
    key: String,
}

impl Writer {
    fn new(log_id: &LogId, partition: u32, offset: u64, envelope: &Envelope) -> Self {
        let source = source_of(log_id, partition);
        Self {
            offset,
            begin: format!(r#"{{"specversion":"1.0","id":"{offset}-"#),
            source: format!(r#"","source":"{source}","type":"tidemill."#),
            subject: format!(r#".v{VERSION}","subject":"#),
            key: format!(r#":v{VERSION}","partitionkey":""#),
            time: format!(
                r#","time":"{}","datacontenttype":"application/json","dataschema":"{SCHEMA}"#,
                envelope.now
            ),
        }
    }

    fn event(&self, index: usize, recorded: &Recorded, cause: Option<&Cause>) -> Option<CloudEvent> {
        let EventKind { name: kind, audience: Audience::Public(_), .. } = recorded.event.of_kind() else {
            return None;
        };
        let event = public(&recorded.event);
        let (subject, key) = (event.subject(), recorded.shard.to_string());
        let mut json = Vec::with_capacity(640);
        put(&mut json, [&self.begin, &index.to_string(), &self.source, kind, &self.subject]);
        text(&mut json, &subject);
        put(&mut json, [&self.time, kind, &self.key, &key, r#"","cause":"#]);
        caused(&mut json, cause);
        with_data(&mut json, &event);
        let index = u32::try_from(index).expect("an envelope holds few events");
        Some(CloudEvent { offset: self.offset, index, kind, subject, key, json })
    }
}

fn put<const N: usize>(json: &mut Vec<u8>, parts: [&str; N]) {
    parts.iter().for_each(|part| json.extend_from_slice(part.as_bytes()));
}

fn text(json: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(json, text).expect("a text is JSON");
}

/// Who asked for the event, as far as its cause tells.
fn caused(json: &mut Vec<u8>, cause: Option<&Cause>) {
    let (offset, request, actor) = match cause.map(|cause| &cause.source) {
        Some(Source::Command { offset, request, actor, .. }) => (offset, request, actor),
        Some(Source::Timer) => return put(json, [r#""timer""#]),
        Some(Source::Observed) => return put(json, [r#""observed""#]),
        None => return put(json, [r#""unknown""#]),
    };
    put(json, [r#""command","causeoffset":""#, &offset.to_string(), r#"""#]);
    let request = request.as_ref().map(|request| request.as_str());
    let named = [("request", request), ("actor", Some(&*actor.app)), ("actoruser", actor.user.as_deref())];
    for (name, value) in named.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        put(json, [r#",""#, name, r#"":"#]);
        text(json, value);
    }
}

/// What may be published of an event.
fn public(event: &Event) -> Cow<'_, Event> {
    let mut shown = Cow::Borrowed(event);
    if let Event::Catalogue(CatalogueEvent::KeyDefined { hash, .. }) = event
        && !hash.is_empty()
        && let Event::Catalogue(CatalogueEvent::KeyDefined { hash, .. }) = shown.to_mut()
    {
        hash.clear();
    }
    shown
}

/// Where the fields of an event lie in its JSON, `{"batch":{"finished":{…}}}`.
fn data_range(json: &[u8]) -> Range<usize> {
    let mut colons = json.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
    let colon = colons.nth(1).expect("an event is an object with one field, and so is what that holds");
    colon + 1..json.len() - 2
}

fn with_data(json: &mut Vec<u8>, event: &Event) {
    put(json, [r#","data":"#]);
    let begin = json.len();
    event.write_json(json);
    let data = data_range(&json[begin..]);
    json.copy_within(begin + data.start..begin + data.end, begin);
    json.truncate(begin + data.len());
    json.push(b'}');
}
