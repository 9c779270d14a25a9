//! Stores that run, and readers with tickets.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::blocking::{Client, Response};
use tidemill_log::MemoryLog;
use tidemill_logs::{Config, Outside, Running, WorkerPlace};
use tidemill_model::{InstanceId, ShardId, Timestamp, Token};
use tidemill_seal::{LogsSecret, Ticket};

pub(crate) const LOGS_KEY: &str = "a logs key for tests";
pub(crate) const INTERNAL_KEY: &str = "an internal key for tests";
pub(crate) const GROUP: &str = "etl.报表";
pub(crate) const SHARD: ShardId = ShardId(1);
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn token(counter: u64) -> Token {
    Token::mint(counter, SHARD)
}

/// A configuration that flushes soon.
pub(crate) fn config(place: &str) -> Config {
    Config { place: place.to_owned(), flush_s: 1, memory_mb: 16, segment_mb: 4, ..Config::default() }
}

/// Starts a store that asks these workers.
pub(crate) fn start(log: &Arc<MemoryLog>, name: &str, config: Config, workers: Vec<WorkerPlace>) -> Running {
    let outside = Outside {
        log: Arc::clone(log) as Arc<dyn tidemill_log::Log>,
        instance: InstanceId::new(name),
        workers: Arc::new(move || Ok(workers.clone())),
        logs_key: LOGS_KEY.to_owned(),
        internal_key: INTERNAL_KEY.to_owned(),
        roles: None,
        tls: None,
        limits: tidemill_serving::Config::default().for_own_roles(),
    };
    Running::start(config, outside).unwrap()
}

pub(crate) fn log() -> Arc<MemoryLog> {
    Arc::new(MemoryLog::new(2))
}

/// A ticket for the log of an attempt of the group.
pub(crate) fn ticket(token: Token) -> String {
    let until = Timestamp::from(jiff::Timestamp::now()).saturating_add(PATIENCE).unwrap();
    LogsSecret::of(INTERNAL_KEY).write(&Ticket { token, group: GROUP.try_into().unwrap(), until })
}

/// Asks a store, with a ticket for that attempt.
pub(crate) fn get(store: &Running, token: Token, path: &str) -> Response {
    get_with(store, &format!("/kept/{token}{path}"), &ticket(token), None)
}

pub(crate) fn get_with(store: &Running, path: &str, ticket: &str, range: Option<&str>) -> Response {
    let request = Client::new().get(format!("http://{}{path}", store.address())).bearer_auth(ticket);
    let request = match range {
        Some(range) => request.header("range", range),
        None => request,
    };
    request.send().unwrap()
}

/// The whole stream, by download.
pub(crate) fn download(store: &Running, token: Token, number: u8) -> Vec<u8> {
    let answer = get(store, token, &format!("/bytes?type={number}"));
    assert_eq!(answer.status(), 200);
    answer.bytes().unwrap().to_vec()
}

pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes that differ everywhere, with lines of different lengths.
pub(crate) fn output(seed: u64, lines: u64) -> Vec<u8> {
    let line = |number: u64| {
        let filler = "x".repeat(usize::try_from(number.wrapping_mul(seed + 7) % 173).unwrap());
        format!("attempt {seed}, line {number} {filler}\n").into_bytes()
    };
    (1..=lines).flat_map(line).collect()
}

/// A service of a test's own, which it may stop. It ends with it.
pub(crate) struct Private {
    directory: tempfile::TempDir,
    name: &'static str,
    processes: &'static [&'static str],
}

impl Private {
    pub(crate) fn hdfs() -> Self {
        Self::start("hdfs", &["hdfs", "hdfs-data"])
    }

    pub(crate) fn s3() -> Self {
        Self::start("s3", &["s3"])
    }

    fn start(name: &'static str, processes: &'static [&'static str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        services(directory.path(), "start", name);
        Self { directory, name, processes }
    }

    pub(crate) fn port(&self) -> String {
        let file = self.directory.path().join(format!("state/{}.port", self.name));
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    /// Sends a signal to its processes.
    pub(crate) fn signal(&self, signal: &str) {
        for process in self.processes {
            let file = self.directory.path().join(format!("state/{process}.pid"));
            let pid = std::fs::read_to_string(file).unwrap();
            let kill = Command::new("kill").args([signal, pid.trim()]).stderr(Stdio::null()).status();
            assert!(kill.unwrap().success(), "{process} has ended");
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.signal("-CONT");
        }
        services(self.directory.path(), "stop", self.name);
    }
}

fn services(directory: &Path, command: &str, name: &str) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/dev/services");
    let mut call = Command::new(script);
    call.arg("--dir").arg(directory).args([command, name]).stdin(Stdio::null());
    let output = call.output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}
