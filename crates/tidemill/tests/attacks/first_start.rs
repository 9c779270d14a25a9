//! Processes that start at the same moment on one data directory that is not there yet.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;

use crate::server::{Server, TIDEMILL, code, text, tidemill};

/// Starts at the same moment as the other; gives the server, or the exit code and what was said.
fn start(data: &Path, said: &Path, together: &Barrier) -> Result<Server, (Option<i32>, String)> {
    let mut command = Command::new(TIDEMILL);
    command.args(["standalone", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    command.stdout(Stdio::piped()).stderr(File::create(said).unwrap());
    together.wait();
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    if lines.any(|line| line.contains("address  http")) {
        thread::spawn(move || lines.for_each(drop));
        return Ok(Server { child, data: data.to_owned() });
    }
    Err((child.wait().unwrap().code(), fs::read_to_string(said).unwrap()))
}

/// Files of keys, in alphabetical order.
fn key_files(data: &Path) -> Vec<String> {
    let names = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.contains(".key")).collect();
    names.sort();
    names
}

/// One of them serves, and `admin.key` is the administrator's on record, also after the next start. The other ends, says why,
/// and leaves no key behind.
#[test]
fn of_two_first_starts_at_once_one_serves_with_its_key() {
    for _ in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let (data, together) = (dir.path().join("data"), Barrier::new(2));
        let started = thread::scope(|scope| {
            let start = |said: &str| {
                let said = dir.path().join(said);
                scope.spawn({
                    let (data, together) = (&data, &together);
                    move || start(data, &said, together)
                })
            };
            [start("one"), start("other")].map(|process| process.join().unwrap())
        });
        let (served, ended): (Vec<_>, Vec<_>) = started.into_iter().partition(Result::is_ok);
        let [Ok(server)] = <[_; 1]>::try_from(served).unwrap_or_else(|all| panic!("{} serve", all.len()))
        else {
            unreachable!()
        };
        let Some(Err((exit, told))) = ended.into_iter().next() else { unreachable!() };
        assert_eq!(exit, Some(3), "{told}");
        assert!(told.contains("one data directory serves one process"), "{told}");

        let keys = server.json(&["key", "ls"]);
        let apps: Vec<_> = keys["items"].as_array().unwrap().iter().map(|key| &key["app"]).collect();
        assert_eq!(apps, ["admin"], "{keys}");
        let files = ["admin.key", "group-default.key", "internal.key", "logs.key", "operator.key"];
        assert_eq!(key_files(&data), files);
        assert_eq!(server.stop(), Some(0));
        let again = Server::start(&data);
        assert_eq!(code(&again.run(&["key", "ls"])), 0);
        let other = tidemill(&data, &["key", "ls", "--key", "admin:of-the-other"]);
        assert_eq!(code(&other), 3, "{}", text(&other.stderr));
    }
}
