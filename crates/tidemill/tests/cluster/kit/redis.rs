//! A Redis server of the test's own, which may be emptied, killed, stopped and set back.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{free_port, until};

/// A server on a port of its own; it keeps nothing by itself.
pub(crate) struct Redis {
    dir: TempDir,
    port: u16,
    child: Child,
}

impl Redis {
    pub(crate) fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let port = free_port();
        let child = spawn(&dir, port);
        let this = Self { dir, port, child };
        this.serves();
        this
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn serves(&self) {
        until("Redis answers", || self.try_ask("PING").filter(|answer| answer == "+PONG"));
    }

    /// Asks one thing, as one line; gives the beginning of the answer.
    pub(crate) fn ask(&self, command: &str) -> String {
        until(command, || self.try_ask(command))
    }

    fn try_ask(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut answer = [0; 1_024];
        let read = stream.read(&mut answer).ok().filter(|read| *read > 0)?;
        Some(String::from_utf8_lossy(&answer[..read]).trim().to_owned())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGKILL; then it starts again, with the copy of the last SAVE, or empty.
    pub(crate) fn kill_and_start(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(&self.dir, self.port);
        self.serves();
    }

    /// Hangs for so long.
    pub(crate) fn hang(&self, time: Duration) {
        self.signal(Signal::STOP);
        thread::sleep(time);
        self.signal(Signal::CONT);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(dir: &TempDir, port: u16) -> Child {
    Command::new("redis-server")
        .args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
        ])
        .arg(dir.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}
