//! What the public feed says of paths and batches.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex};
use std::thread;

use serde::Deserialize;
use serde_json::Value;
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
        let mut cursor: Option<String> = None;
        loop {
            let mut request =
                ureq::get(format!("{server}/api/events")).header("Authorization", format!("Bearer {key}"));
            request = match &cursor {
                Some(cursor) => request.query("cursor", cursor),
                None => request.query("from", "start"),
            };
            let Ok(answer) = request.call() else { return };
            let lines = BufReader::new(answer.into_body().into_reader()).lines();
            for line in lines.map_while(Result::ok) {
                if let Some(id) = line.strip_prefix("id: ") {
                    cursor = Some(id.to_owned());
                } else if let Some(data) = line.strip_prefix("data: ") {
                    heard.lock().unwrap().take(serde_json::from_str(data).unwrap());
                }
            }
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
