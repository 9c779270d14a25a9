//! A data directory on a disk that becomes full, and has room again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Server, TIDEMILL, code, text, tidemill, until};

/// A small file system for the data directory alone, which its process sees and nobody else.
fn server_on_a_small_disk(data: &Path) -> Server {
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=12m,mode=700 tmpfs \"$1\" && shift && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(data).arg(TIDEMILL);
    Server::begin(command, data, &[])
}

/// The same directory as that process sees it.
fn seen_by(server: &Server) -> PathBuf {
    let root = format!("/proc/{}/root", server.child.id());
    Path::new(&root).join(server.data.strip_prefix("/").unwrap())
}

/// OPS-8: a full disk stops accepting with an error that says so; nothing that was accepted is lost; and it goes on by itself when
/// there is room, in the same process.
#[test]
fn full_disk_refuses_and_room_lets_the_same_process_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = server_on_a_small_disk(dir.path());
    let data = seen_by(&server);
    let run = |arguments: &[&str]| tidemill(&data, arguments);
    let jobs = data.join("jobs.yaml");
    fs::write(&jobs, "jobs: [{name: a, group: default, type: noop, max_concurrent: 100}]").unwrap();
    let applied = run(&["job", "apply", "-f", jobs.to_str().unwrap()]);
    assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
    assert_eq!(code(&run(&["job", "run", "default/a", "--concurrent", "--wait"])), 0);

    let filler = data.join("filler");
    // To the last byte.
    let _ = fs::write(&filler, vec![1; 32 << 20]);
    let mut accepted = 1;
    let refused = until("a request is refused", || {
        let output = run(&["job", "run", "default/a", "--concurrent"]);
        match code(&output) {
            0 => {
                accepted += 1;
                None
            }
            _ => Some(text(&output.stderr)),
        }
    });
    assert!(refused.contains("no room") && refused.contains("disk"), "{refused}");

    fs::remove_file(&filler).unwrap();
    until("it goes on by itself", || {
        let output = run(&["job", "run", "default/a", "--concurrent", "--wait"]);
        (code(&output) == 0).then_some(())
    });
    accepted += 1;
    let listed = until("what was accepted is done", || {
        let output = run(&["batch", "ls", "--state", "finished", "--limit", "100000", "-o", "json"]);
        let batches: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        let count = batches["items"].as_array()?.len();
        (count >= accepted).then_some(count)
    });
    // One whose outcome was not told may have been accepted.
    assert!(listed >= accepted, "{listed} of {accepted}");
    let verified = run(&["verify", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!((code(&verified), &report["difference_count"]), (0, &0.into()), "{report}");
    // SQLite asks for the path as its own process sees it.
    let pid = server.child.id().to_string();
    let checked = Command::new("nsenter")
        .args(["--mount", "--target", &pid, TIDEMILL, "verify", "--journal", "--data"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(code(&checked), 0, "{}{}", text(&checked.stdout), text(&checked.stderr));
}

/// OPS-8: a disk with no room for log lines ends no role.
#[test]
fn lines_that_cannot_be_written_end_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2> /dev/full", "sh", TIDEMILL]);
    let server = Server::begin(command, dir.path(), &[("LOG_FILTER", "debug")]);
    server.apply("jobs: [{name: a, group: default, type: shell, command: 'true'}]");
    let ran = server.run(&["job", "run", "default/a", "--wait"]);
    assert_eq!(code(&ran), 0, "{}", text(&ran.stderr));
    assert_eq!(server.stop(), Some(0));
}
