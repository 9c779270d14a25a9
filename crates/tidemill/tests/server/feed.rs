//! What happens, as the public feed tells it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use super::{Server, TIDEMILL, text};

/// The public feed, read by the program itself.
pub(crate) struct Feed {
    tail: Child,
    events: Receiver<Value>,
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
        Self { tail, events }
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Value {
        self.events.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// Requests all checks at once, which shows in the catalogue's partition and in the group's, and gives every event
    /// that came before that in either. No test that uses it requests checks itself.
    pub(crate) fn until_now(&mut self, server: &Server) -> Vec<Value> {
        let asked = server.run(&["probe", "run"]);
        assert!(asked.status.success(), "{}", text(&asked.stderr));
        let (mut shards, mut others) = (BTreeSet::from(["0", "1"]), Vec::new());
        while !shards.is_empty() {
            let event = self.next();
            if event["type"] == "tidemill.probes.requested.v1" {
                shards.remove(event["partitionkey"].as_str().unwrap());
            } else {
                others.push(event);
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
