//! One process of a role.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::until;

/// A running role. It is killed when this is dropped; where the test has failed, its last lines are shown.
pub(crate) struct Process {
    name: String,
    child: Child,
    lines: PathBuf,
}

impl Process {
    pub(crate) fn start(name: &str, lines: &Path, command: &mut Command) -> Self {
        let file = File::create(lines).unwrap();
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { name: name.to_owned(), child, lines: lines.to_owned() }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// How it ended, and how long that took from now.
    pub(crate) fn ended(&mut self) -> (ExitStatus, Duration) {
        let begun_at = Instant::now();
        let what = format!("{} ends", self.name);
        let status = until(&what, || self.child.try_wait().unwrap());
        (status, begun_at.elapsed())
    }

    /// SIGKILL, and its end.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.ended();
    }

    /// SIGTERM; it has to end by itself with exit code 0. How long that took.
    pub(crate) fn stop(&mut self) -> Duration {
        self.signal(Signal::TERM);
        let (status, took) = self.ended();
        assert_eq!(status.code(), Some(0), "{}: {status}", self.name);
        took
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it has written so far.
    pub(crate) fn lines(&self) -> String {
        fs::read_to_string(&self.lines).unwrap()
    }

    /// Waits for a line that has all of these in it.
    pub(crate) fn says(&mut self, words: &[&str]) -> String {
        let what = format!("{} says {words:?}", self.name);
        until(&what, || {
            let lines = self.lines();
            let found = lines.lines().find(|line| words.iter().all(|word| line.contains(word)));
            assert!(found.is_some() || self.is_running(), "{} has ended: {lines}", self.name);
            found.map(str::to_owned)
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let lines = fs::read_to_string(&self.lines).unwrap_or_default();
            let lines: Vec<_> = lines.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            eprintln!("---- last lines of {}\n{last}", self.name);
        }
    }
}
