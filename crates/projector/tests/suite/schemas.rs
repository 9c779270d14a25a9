//! The committed schemas are those of the code, and the code reads what older code wrote.

#[path = "../../examples/schemas/example.rs"]
mod example;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidemill_journal::cloud_events;
use tidemill_log::LogId;
use tidemill_model::{
    Actor, Cause, Envelope, Event, EventKind, Level, Outcome, Recorded, RequestId, ShardId, Source,
};
use tidemill_projector::schemas;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

fn committed(folder: &str) -> BTreeMap<String, String> {
    let files = fs::read_dir(root().join(folder)).unwrap().map(|file| file.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (format!("{folder}/{}", name(&path)), fs::read_to_string(path).unwrap())).collect()
}

/// EVT-3: the published schemas are generated, and the committed ones are these.
#[test]
fn committed_schemas_are_those_of_the_code() {
    let generated = schemas::files();
    for (path, text) in &generated {
        let committed = fs::read_to_string(root().join(path)).unwrap_or_default();
        assert!(&committed == text, "schemas/{path} is stale: run `make schemas`");
    }
    for path in committed("events").keys().chain(committed("commands").keys()) {
        assert!(generated.contains_key(path), "schemas/{path} is of nothing any more: run `make schemas`");
    }
}

/// EVT-3: every event type ever published has a golden file, and it is read as what it was.
#[test]
fn golden_files_are_read_and_written_back_the_same() {
    let mut kinds = BTreeSet::new();
    for (path, text) in committed("golden/v1") {
        let event: Event = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let expected: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_value(&event).unwrap(), expected, "{path}");
        assert_eq!(path, format!("golden/v1/{}.json", event.kind()));
        kinds.insert(event.kind().to_owned());
    }
    let all = EventKind::all().map(|kind| kind.name.to_owned()).collect();
    assert_eq!(kinds, all, "run `make schemas`, and commit the new golden files");
}

/// EVT-3, EVT-4: schemas, AsyncAPI document and page have every public kind with its sentence, and no internal one.
#[test]
fn documents_of_the_feed_have_its_public_kinds_only() {
    let public: BTreeMap<_, _> =
        EventKind::public().map(|kind| (kind.name, kind.sentence().unwrap())).collect();
    let schemas = schemas::events();
    let described = schemas.iter().map(|(kind, schema)| (&**kind, schema["description"].as_str().unwrap()));
    assert_eq!(described.collect::<BTreeMap<_, _>>(), public);
    let files = schemas::files();
    let document: Value = serde_json::from_str(&files["asyncapi.json"]).unwrap();
    let messages = document["channels"]["events"]["messages"].as_object().unwrap();
    let summarized = messages.iter().map(|(kind, message)| (&**kind, message["summary"].as_str().unwrap()));
    assert_eq!(summarized.collect::<BTreeMap<_, _>>(), public);
    let page = schemas::page();
    for kind in EventKind::all() {
        let is_there = page.contains(&format!("\n## {}\n", kind.name));
        assert_eq!(is_there, kind.sentence().is_some(), "{}", kind.name);
        assert_eq!(files.contains_key(&format!("events/{}.v1.json", kind.name)), is_there, "{}", kind.name);
    }
}

/// EVT-3: the page on the events is generated, and the committed one is this.
#[test]
fn page_on_the_events_is_current() {
    let page = root().join("../docs/reference/events.md");
    let committed = fs::read_to_string(&page).unwrap_or_default();
    assert!(committed == schemas::page(), "{} is stale: run `make schemas`", page.display());
}

/// EVT-4: an internal event is not published, whatever else its record has; the others keep their numbers.
#[test]
fn internal_events_are_not_published() {
    let log_id = LogId::random();
    for event in golden() {
        let kind = event.of_kind();
        let published = cloud_events(&log_id, 3, 9, 0, &envelope(event)).next();
        assert_eq!(published.is_some(), kind.sentence().is_some(), "{}", kind.name);
    }
    let event = |text: &str| serde_json::from_str(text).unwrap();
    let mut mixed = envelope(event(r#"{"partition":{"message_received":{"from":0,"number":7}}}"#));
    let public = event(r#"{"job":{"disabled":{"job":4096}}}"#);
    mixed.events.push(Recorded { shard: ShardId(0), event: public });
    let published = |first| cloud_events(&log_id, 3, 9, first, &mixed).map(|event| event.index).collect();
    let (all, later, none): (Vec<_>, Vec<_>, Vec<_>) = (published(0), published(1), published(2));
    assert_eq!((all, later, none), (vec![1], vec![1], vec![]));
}

/// EVT-3, EVT-4: what is published of every event fits its schema, and nothing else does.
#[test]
fn every_published_event_fits_its_schema() {
    let log_id = LogId::random();
    let schemas = schemas::events();
    for event in golden() {
        let kind = event.kind();
        let Some(published) = cloud_events(&log_id, 3, 9, 0, &envelope(event)).next() else { continue };
        let validator = jsonschema::validator_for(&schemas[kind]).unwrap();
        let published: Value = serde_json::from_slice(&published.json).unwrap();
        let errors: Vec<_> = validator.iter_errors(&published).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{kind}: {errors:?}");
        let mut broken = published.clone();
        broken["data"] = Value::from(7);
        assert!(!validator.is_valid(&broken), "{kind} with data 7");
        let mut other = published;
        other["type"] = Value::from("tidemill.other.v1");
        assert!(!validator.is_valid(&other), "{kind} as another type");
    }
}

/// EVT-3: what `make schemas` writes as the golden file of a new event is one: every event has an example, made from its schema.
#[test]
fn every_event_has_an_example_made_from_its_schema() {
    let kinds: Vec<_> = example::events().iter().map(|event| event.kind().to_owned()).collect();
    assert_eq!(kinds, EventKind::all().map(|kind| kind.name.to_owned()).collect::<Vec<_>>());
}

/// One of every event, as the golden files have them.
fn golden() -> impl Iterator<Item = Event> {
    committed("golden/v1").into_values().map(|text| serde_json::from_str(&text).unwrap())
}

fn envelope(event: Event) -> Envelope {
    let actor = Actor { app: "etl".into(), user: Some("ann".into()) };
    let source = Source::Command { offset: 41, request: Some(RequestId::new("r-1")), reply_to: None, actor };
    Envelope {
        level: Level::FIRST,
        now: "2026-03-01T10:01:00.500Z".parse().unwrap(),
        resume: None,
        causes: vec![
            Cause { source: Source::Timer, outcome: Outcome::Done, events: 0 },
            Cause { source, outcome: Outcome::Done, events: 1 },
        ],
        events: vec![Recorded { shard: ShardId(1), event }],
    }
}

/// EVT-4: the envelope follows CloudEvents 1.0, byte by byte the same every time.
#[test]
fn a_fact_is_published_as_a_cloud_event() {
    let log_id = LogId::try_from("abc".to_owned()).unwrap();
    let event = serde_json::from_str(r#"{"batch":{"finished":{"batch":4097,"result":"success"}}}"#).unwrap();
    let published = cloud_events(&log_id, 3, 9, 0, &envelope(event)).next().unwrap();
    let expected = concat!(
        r#"{"specversion":"1.0","id":"9-0","source":"tidemill/abc/3","type":"tidemill.batch.finished.v1","#,
        r#""subject":"batch/4097","time":"2026-03-01T10:01:00.500Z","datacontenttype":"application/json","#,
        r#""dataschema":"urn:tidemill:schema:events:batch.finished:v1","partitionkey":"1","cause":"command","#,
        r#""causeoffset":"41","request":"r-1","actor":"etl","actoruser":"ann","#,
        r#""data":{"batch":4097,"result":"success"}}"#,
    );
    assert_eq!(String::from_utf8(published.json).unwrap(), expected);
    assert_eq!((published.kind, published.key.as_str()), ("batch.finished", "1"));
}

/// API-5: what a key hashes to is nobody's business.
#[test]
fn hash_of_a_key_is_not_published() {
    let event = golden().find(|event| event.kind() == "key.defined").unwrap();
    let published = cloud_events(&LogId::random(), 0, 1, 0, &envelope(event)).next().unwrap();
    let json = String::from_utf8(published.json).unwrap();
    // The log's id is drawn, and has the same letters.
    let data = json.split_once(r#""data":"#).unwrap().1;
    assert!(data.contains(r#""hash":"""#) && !data.contains("ff00"), "{json}");
}

/// EVT-3: a command's record fits the schema of its kind.
#[test]
fn a_command_fits_its_schema_only() {
    let record = serde_json::json!({
        "shard": 1, "request": "r-1", "actor": {"app": "etl"}, "command": {"batch": {"kill": {"batch": 4097}}},
    });
    let schemas = schemas::commands();
    let fits = |name: &str| jsonschema::validator_for(&schemas[name]).unwrap().is_valid(&record);
    assert!(fits("batch.kill"));
    assert!(!fits("batch.kill_job"));
    assert!(!schemas.contains_key("shard.planted_panic"));
}
