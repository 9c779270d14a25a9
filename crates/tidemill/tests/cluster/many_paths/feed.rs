//! What the public feed says of paths and batches.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::thread;

use serde::Deserialize;
use serde_json::Value;
use tidemill_client::{Begin, Client};
use tidemill_model::Timestamp;

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    time: Timestamp,
    data: Value,
}

/// What it has said so far.
#[derive(Default)]
pub(crate) struct Told {
    paths: HashMap<i64, String>,
    /// When each path was found, by the journal's time.
    pub(crate) found: BTreeMap<String, Timestamp>,
    pub(crate) withdrawn: usize,
    pub(crate) generated: usize,
    pub(crate) succeeded: usize,
    pub(crate) ended_otherwise: usize,
    /// Authorities whose checks are late or fail.
    pub(crate) late: Vec<String>,
}

/// Follows the feed from its first event on, until the test's process ends.
pub(crate) fn follow((server, key): (String, String)) -> Arc<Mutex<Told>> {
    let told = Arc::new(Mutex::new(Told::default()));
    let heard = Arc::clone(&told);
    thread::spawn(move || {
        let client = Client::builder(&server).key(key).build().unwrap();
        for event in client.events(Begin::Start).follow() {
            let Ok(event) = event else { return };
            heard.lock().unwrap().take(serde_json::from_str(&event.data).unwrap());
        }
    });
    told
}

impl Told {
    fn take(&mut self, Event { kind, time, data }: Event) {
        let external_dependency = || data["external_dependency"].as_i64().unwrap();
        match kind.trim_start_matches("tidemill.").trim_end_matches(".v1") {
            "external_dependency.registered" => {
                let path = data["what"]["path"]["path"].as_str().unwrap().to_owned();
                self.paths.insert(external_dependency(), path);
            }
            "external_dependency.satisfied" => {
                self.found.entry(self.paths[&external_dependency()].clone()).or_insert(time);
            }
            "external_dependency.revoked" => self.withdrawn += 1,
            "batch.generated" => self.generated += 1,
            "batch.finished" if data["result"] == "success" => self.succeeded += 1,
            "batch.finished" => self.ended_otherwise += 1,
            "probes.late" => self.late.push(data["report"]["authority"].as_str().unwrap().to_owned()),
            _ => {}
        }
    }
}
