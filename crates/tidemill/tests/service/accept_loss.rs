//! Rule 5 on the embedded log: commands that are lost, and a person who lets the partition go on.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::server::{Server, TIDEMILL, code, json, text, tidemill};
use rusqlite::Connection;

/// The partition that the jobs of all groups are in.
const PARTITION: &str = "1";

fn accept_loss(data: &Path) -> Output {
    let arguments =
        ["partition", "accept-loss", "--partition", PARTITION, "--reason", "a test", "--by", "me"];
    tidemill(data, &arguments)
}

fn refused(data: &Path, why: &str) {
    let output = accept_loss(data);
    assert_eq!(code(&output), 3, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
}

/// Deletes what is in the commands of the partition; gives how many there were.
fn cut(data: &Path) -> usize {
    let connection = Connection::open(data.join("log").join("log.db")).unwrap();
    connection.execute(&format!("DELETE FROM commands_{PARTITION}"), []).unwrap()
}

/// A server of which one has to hear something.
fn heard(data: &Path) -> Child {
    let mut command = Command::new(TIDEMILL);
    command.args(["standalone", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    command.env("TIDEMILL__LOG_FILTER", "warn").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Rule 5: where nothing was lost, or somebody serves, nothing is accepted; where commands were lost the
/// partition stops with a named error, goes on once the loss is accepted, and the record says who and why.
#[test]
fn lost_commands_stop_the_partition_until_the_loss_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    server.json(&["job", "run", "default/a", "--wait"]);
    refused(data, "is in use by process");
    assert_eq!(server.stop(), Some(0));
    refused(data, "nothing was lost: command ");

    let lost = cut(data);
    assert!(lost > 2, "{lost}");
    let mut stopped = heard(data);
    let lines = BufReader::new(stopped.stderr.take().unwrap()).lines().map(Result::unwrap);
    let named = lines.into_iter().find(|line| line.contains("the partition stops")).unwrap();
    assert!(named.contains("tidemill partition accept-loss --partition 1"), "{named}");
    stopped.kill().unwrap();
    stopped.wait().unwrap();

    let accepted = json(
        data,
        &["partition", "accept-loss", "--partition", PARTITION, "--reason", "a test", "--by", "me"],
    );
    assert_eq!(accepted["done"], lost - 1, "{accepted}");
    // The stopped server's heartbeats may be there already; they are given up as well.
    assert_eq!(accepted["kept_from"], 0, "{accepted}");
    assert!(accepted["resumed_at"].as_u64() < accepted["done"].as_u64(), "{accepted}");
    refused(data, "nothing was lost: command ");

    let server = Server::start(data);
    let batch = server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(batch["result"], "success", "{batch}");
    let verified = server.json(&["verify"]);
    assert_eq!(verified["difference_count"], 0, "{verified}");
    let feed = server.run(&[
        "events",
        "tail",
        "--from",
        "start",
        "--type",
        "command_loss.accepted",
        "--limit",
        "1",
        "-o",
        "json",
    ]);
    for said in ["a test", "me", "resumed_at"] {
        assert!(text(&feed.stdout).contains(said), "{}", text(&feed.stdout));
    }
}
