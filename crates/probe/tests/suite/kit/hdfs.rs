//! A real HDFS: the one of the environment, or one of a test's own, which it may stop and kill.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use futures_util::{StreamExt, stream};
use hdfs_native::{Client, ClientBuilder, WriteOptions};

/// The HDFS that the environment names, as `hdfs://host:port`.
pub(crate) fn shared() -> String {
    std::env::var("TIDEMILL_TEST_HDFS")
        .expect("TIDEMILL_TEST_HDFS names no HDFS: deploy/dev/services start hdfs; eval \"$(deploy/dev/services env)\"")
}

/// A client for what the tests write.
pub(crate) fn client(url: &str) -> Client {
    ClientBuilder::new().with_url(url).build().unwrap()
}

/// A directory that nothing else uses.
pub(crate) async fn fresh_directory(client: &Client, name: &str) -> String {
    let directory = format!("/tidemill-probe-tests/{}/{name}", std::process::id());
    client.delete(&directory, true).await.unwrap();
    client.mkdirs(&directory, 0o755, true).await.unwrap();
    directory
}

/// Makes empty files, with the directories above them.
pub(crate) async fn make_files(client: &Client, paths: impl IntoIterator<Item = String>) {
    stream::iter(paths)
        .for_each_concurrent(32, |path| async move {
            let options = WriteOptions::default().overwrite(true);
            client.create(&path, options).await.unwrap().close().await.unwrap();
        })
        .await;
}

/// A name node and a data node of a test's own. They end with it.
pub(crate) struct PrivateHdfs {
    directory: tempfile::TempDir,
    pub(crate) url: String,
}

impl PrivateHdfs {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        services(directory.path(), "start");
        let port = std::fs::read_to_string(directory.path().join("state/hdfs.port")).unwrap();
        let url = format!("hdfs://127.0.0.1:{}", port.trim());
        Self { directory, url }
    }

    /// Sends a signal to the name node, which runs.
    pub(crate) fn signal(&self, signal: &str) {
        assert!(self.try_signal(signal), "the name node has ended");
    }

    fn try_signal(&self, signal: &str) -> bool {
        let pid = std::fs::read_to_string(self.directory.path().join("state/hdfs.pid")).unwrap();
        let kill = Command::new("kill").args([signal, pid.trim()]).stderr(Stdio::null()).status();
        kill.unwrap().success()
    }

    /// How many look-ups and listings the name node has answered since its start, as it counts them itself. It
    /// counts anew where it was not asked for 10 s.
    pub(crate) fn calls(&self) -> u64 {
        let port = std::fs::read_to_string(self.directory.path().join("state/hdfs-http.port")).unwrap();
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", port.trim())).unwrap();
        let query = "/jmx?qry=Hadoop:service=NameNode,name=NameNodeActivity";
        write!(stream, "GET {query} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let count = |name: &str| -> u64 {
            let (_, rest) =
                answer.split_once(&format!("\"{name}\" : ")).unwrap_or_else(|| panic!("{name}: {answer}"));
            rest.split([',', '\n']).next().unwrap().trim().parse().unwrap()
        };
        count("FileInfoOps") + count("GetListingOps")
    }

    /// Starts the name node that was killed, on its old port, and waits until it answers.
    pub(crate) fn start_again(&self) {
        services(self.directory.path(), "start");
    }
}

impl Drop for PrivateHdfs {
    fn drop(&mut self) {
        // A stopped one would be waited for until it is killed.
        self.try_signal("-CONT");
        services(self.directory.path(), "stop");
    }
}

fn services(directory: &Path, command: &str) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/dev/services");
    let output = Command::new(script)
        .arg("--dir")
        .arg(directory)
        .args([command, "hdfs"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}
