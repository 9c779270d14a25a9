//! What happens, as the public feed tells it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use super::{Server, TIDEMILL};

/// The public feed, read by the program itself.
pub(crate) struct Feed {
    tail: Child,
    events: Receiver<Value>,
    marks: u32,
}

impl Feed {
    pub(crate) fn follow(data: &Path) -> Self {
        let mut tail = Command::new(TIDEMILL)
            .args(["events", "tail", "--from", "start", "-o", "json", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
        let (tell, events) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if tell.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { tail, events, marks: 0 }
    }

    /// Changes the comment of a job of its own, which shows in the catalogue's partition and in the group's, and
    /// gives every event that came before that in either and is not about it.
    pub(crate) fn until_now(&mut self, server: &Server) -> Vec<Value> {
        self.marks += 1;
        let mark = format!("mark {}", self.marks);
        server.apply(&format!("jobs: [{{name: marker, group: default, type: noop, comment: {mark}}}]"));
        let (mut shards, mut others) = (0, Vec::new());
        while shards < 2 {
            let event = self.events.recv_timeout(Duration::from_secs(60)).unwrap();
            let definition = &event["data"]["definition"];
            match event["type"].as_str().unwrap() {
                _ if definition["comment"] == mark.as_str() => shards += 1,
                "tidemill.outbox.acknowledged.v1" | "tidemill.message.received.v1" => {}
                _ if definition["name"] == "marker" => {}
                _ => others.push(event),
            }
        }
        others
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let _ = self.tail.kill();
        let _ = self.tail.wait();
    }
}
