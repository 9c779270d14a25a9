//! C2 of the scheduling issue: many batches wait for many paths of an HDFS of the test's own, whose name node is
//! killed and started again meanwhile, and one path hangs. The whole of it: `make paths`.
//!
//! `TIDEMILL_PATHS_BATCHES` (default 10,000) batches wait for `TIDEMILL_PATHS_PATHS` (default 1,000) paths.

mod feed;
mod proxy;
mod scenario;

use std::path::Path;

use self::scenario::{Fixture, Scale};
use crate::kit::Cluster;
use crate::server::Server;
use serde_json::Value;

/// Everything in one process, on the embedded log.
struct Standalone(Server);

impl Fixture for Standalone {
    fn group(&self) -> &'static str {
        "default"
    }

    fn apply_file(&self, file: &Path) {
        self.0.json(&["job", "apply", "-f", file.to_str().unwrap()]);
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.0.json(arguments)
    }

    fn api(&self) -> (String, String) {
        let read = |name: &str| std::fs::read_to_string(self.0.data.join(name)).unwrap().trim().to_owned();
        (format!("http://{}", read("api.address")), read("admin.key"))
    }

    fn disturb(&mut self) {}
}

/// Every role a process of its own, on Kafka; two of them look for paths, and one of these is killed.
struct OnKafka(Cluster);

impl Fixture for OnKafka {
    fn group(&self) -> &'static str {
        "demo"
    }

    fn apply_file(&self, file: &Path) {
        self.0.put_in_effect(file);
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.0.json(arguments)
    }

    fn api(&self) -> (String, String) {
        self.0.api()
    }

    fn disturb(&mut self) {
        self.0.role("producers-1").kill();
    }
}

/// C2, DEP-1, DEP-4, DEP-5, MON-6: embedded.
#[test]
fn waiters_are_released_embedded() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &scenario::SETTINGS);
    scenario::run("embedded", &mut Standalone(server), Scale::from_environment());
}

/// C2, DEP-1, DEP-4, DEP-5, MON-6: on Kafka, and a prober is killed, too.
#[test]
fn waiters_are_released_on_kafka() {
    let mut cluster = Cluster::start();
    for name in ["producers-1", "producers-2"] {
        cluster.start_producers(name, &scenario::SETTINGS);
    }
    cluster.start_executor("executor-1", 1_000);
    scenario::run("on Kafka", &mut OnKafka(cluster), Scale::from_environment());
}
