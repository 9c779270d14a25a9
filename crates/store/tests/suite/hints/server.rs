//! A Redis server that a test starts, ends and starts again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a free port, with a directory of its own.
pub(crate) struct Server {
    directory: TempDir,
    port: u16,
    options: Vec<String>,
    process: Child,
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> Self {
        // Another process may take a port between finding and using it: then the next one.
        for _ in 0..20 {
            let directory = tempfile::tempdir().unwrap();
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
            let process = spawn(&directory, port, &options);
            let mut server = Self { directory, port, options, process };
            if server.wait() {
                return server;
            }
        }
        panic!("no server can be started");
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Asks one thing that has no arguments, and waits for the answer.
    pub(crate) fn ask(&self, command: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+OK", "{command}");
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again in the same directory, on the same port.
    pub(crate) fn again(&mut self) {
        self.process = spawn(&self.directory, self.port, &self.options);
        assert!(self.wait(), "it does not start again");
    }

    fn wait(&mut self) -> bool {
        let begun_at = Instant::now();
        while begun_at.elapsed() < PATIENCE {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(directory: &TempDir, port: u16, options: &[String]) -> Child {
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
        .arg(directory.path())
        .args(options)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}
