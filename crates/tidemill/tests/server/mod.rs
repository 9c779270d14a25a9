//! The real program as a child process, and its command line.

#![allow(dead_code, reason = "each test file uses some of it")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

pub(crate) mod clock;
pub(crate) mod feed;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidemill_client::{Call, Client};

pub(crate) const TIDEMILL: &str = env!("CARGO_BIN_EXE_tidemill");

/// Looks until it is there, however slow the machine is.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_within(Duration::from_secs(120), what, look)
}

/// Looks until it is there, for so long at most.
pub(crate) fn until_within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun_at = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun_at.elapsed() < patience, "not within {patience:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Runs a job, beside what of it is unfinished, and gives its batch.
pub(crate) fn run_job(server: &Server, job: &str) -> String {
    server.json(&["job", "run", job, "--concurrent"])["batch"].to_string()
}

/// Runs a client command to its end; one that does not come to its end fails the test.
pub(crate) fn tidemill(data: &Path, arguments: &[&str]) -> Output {
    let output = Command::new("timeout")
        .args(["300", TIDEMILL])
        .args(arguments)
        .arg("--data")
        .arg(data)
        .env_remove("TIDEMILL_SERVER")
        .env_remove("TIDEMILL_KEY")
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(124), "{arguments:?} did not end, said {}", text(&output.stdout));
    output
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The JSON that a command which has to succeed writes.
pub(crate) fn json(data: &Path, arguments: &[&str]) -> Value {
    let output = tidemill(data, &[arguments, &["-o", "json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// A running `tidemill standalone`.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) data: PathBuf,
}

impl Server {
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// With more settings.
    pub(crate) fn start_with(data: &Path, settings: &[(&str, &str)]) -> Self {
        Self::start_program(Path::new(TIDEMILL), data, settings)
    }

    /// From another file.
    pub(crate) fn start_program(program: &Path, data: &Path, settings: &[(&str, &str)]) -> Self {
        Self::begin(Command::new(program), data, settings)
    }

    /// With a configuration file.
    pub(crate) fn start_configured(data: &Path, config: &Path) -> Self {
        let mut command = Command::new(TIDEMILL);
        command.arg("--config").arg(config);
        Self::begin(command, data, &[])
    }

    /// By a command to which its arguments are added.
    pub(crate) fn begin(mut command: Command, data: &Path, settings: &[(&str, &str)]) -> Self {
        let mut child = command
            .args(["standalone", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("TIDEMILL__LOG_FILTER", "warn")
            .envs(settings.iter().map(|(name, value)| (format!("TIDEMILL__{name}"), value)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It says where it serves once it does.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = lines.find(|line| line.as_ref().unwrap().contains("address  http"));
        assert!(found.is_some(), "standalone ended: {:?}", child.wait());
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, data: data.to_owned() }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// SIGTERM, and the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        self.child.wait().unwrap().code()
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        json(&self.data, arguments)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        tidemill(&self.data, arguments)
    }

    pub(crate) fn apply(&self, yaml: &str) -> Value {
        let file = self.data.join("test-jobs.yaml");
        fs::write(&file, yaml).unwrap();
        self.json(&["job", "apply", "-f", file.to_str().unwrap()])
    }
}

impl Server {
    /// What the feed says of the first so many events of this kind, once there are so many.
    pub(crate) fn events(&self, kind: &str, count: usize) -> Vec<Value> {
        let count = count.to_string();
        let told =
            self.run(&["events", "tail", "--from", "start", "--type", kind, "--limit", &count, "-o", "json"]);
        let told = text(&told.stdout);
        told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["data"].clone()).collect()
    }

    /// A client with the administrator's key.
    pub(crate) fn client(&self) -> Client {
        let read = |name: &str| fs::read_to_string(self.data.join(name)).unwrap().trim().to_owned();
        Client::builder(&format!("http://{}", read("api.address"))).key(read("admin.key")).build().unwrap()
    }

    /// What is to be read where it serves, with the administrator's key: status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        answered(self.client().get(path))
    }

    /// A change of what is there, with the administrator's key: status and body.
    pub(crate) fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        answered(self.client().put(path).body(body))
    }

    /// One call with the administrator's key: status and body.
    pub(crate) fn post(&self, path: &str, request: &str, body: &Value) -> (u16, Value) {
        answered(self.client().post(path).idempotency_key(request).body(body))
    }
}

fn answered(call: Call<'_>) -> (u16, Value) {
    let answer = call.answer().unwrap();
    (answer.status, answer.body)
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already where the test got that far.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
