//! Old records of journals go to the archive, and everything that reads journals goes on as if they had not.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Server, code, text, tidemill};

/// A data directory, an archive, and settings that send everything there as soon as they are asked to.
struct Ground {
    dir: TempDir,
}

impl Ground {
    fn new() -> Self {
        let ground = Self { dir: tempfile::tempdir().unwrap() };
        let archive = ground.archive();
        let archive = archive.display();
        let interval = "interval_s = 1\nkeep_days = 0\nkeep_mb = 0\n";
        fs::write(ground.config(), format!("[archive]\nplace = \"{archive}\"\n{interval}")).unwrap();
        ground
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn archive(&self) -> PathBuf {
        self.dir.path().join("archive")
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("archive.toml")
    }

    /// A command with the archive configured: exit code, JSON, and what it said of failures.
    fn run(&self, arguments: &[&str]) -> (i32, Value, String) {
        let config = self.config();
        let configured = ["--config", config.to_str().unwrap(), "-o", "json"];
        let output = tidemill(&self.data(), &[arguments, &configured].concat());
        let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (code(&output), answer, text(&output.stderr))
    }

    fn done(&self, arguments: &[&str]) -> Value {
        let (code, answer, told) = self.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {answer} {told}");
        answer
    }

    fn log_bytes(&self) -> u64 {
        fs::metadata(self.data().join("log/log.db")).unwrap().len()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let answer = self.done(&["archive", "ls"]);
        let segments = answer["segments"].as_array().unwrap();
        segments.iter().map(|segment| self.archive().join(segment["segment"].as_str().unwrap())).collect()
    }
}

/// Definitions that take some megabytes of journal, which cannot be packed into much less, and some runs.
fn work(server: &Server) {
    let job = |number: u32| {
        let words = (0..800).map(|word| format!("{:08x}", (number * 800 + word).wrapping_mul(2_654_435_761)));
        let script = words.collect::<String>();
        format!("- {{name: big-{number}, group: default, type: shell, command: \"true # {script}\"}}\n")
    };
    server.apply(&format!(
        "jobs:\n- {{name: a, group: default, type: noop}}\n{}",
        (0..200).map(job).collect::<String>()
    ));
    for _ in 0..3 {
        server.json(&["job", "run", "default/a", "--wait"]);
    }
}

fn export(ground: &Ground, name: &str) -> Vec<u8> {
    let file = ground.dir.path().join(name);
    ground.done(&["journal", "export", file.to_str().unwrap()]);
    fs::read(file).unwrap()
}

/// The first events of these kinds, of one partition each.
fn feed(server: &Server) -> Vec<String> {
    let read = |kind: &str, count: &str| {
        let from = ["events", "tail", "--from", "start", "-o", "json", "--type", kind, "--limit", count];
        let output = server.run(&from);
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    [read("job.defined", "201"), read("batch.", "6")].concat()
}

/// OPS-8, EVT-6: with everything archived the file is smaller; what is exported, taken over, rebuilt, verified and fed is as
/// before; and a process that does not know of the archive says what to configure.
#[test]
fn archived_journal_is_exported_taken_over_rebuilt_verified_and_fed_as_before() {
    let ground = Ground::new();
    fs::create_dir(ground.data()).unwrap();
    let server = Server::start(&ground.data());
    work(&server);
    let events = feed(&server);
    assert_eq!(events.len(), 207);
    assert_eq!(server.stop(), Some(0));
    let (before, full) = (export(&ground, "before"), ground.log_bytes());

    let cycle = ground.done(&["archive", "run"]);
    assert_eq!(cycle["released"].as_array().unwrap().len(), 2, "{cycle}");
    assert!(ground.log_bytes() + (1 << 20) < full, "{} of {full}", ground.log_bytes());
    assert!(export(&ground, "after") == before, "the same bytes, read through the archive");
    let verified = ground.done(&["archive", "verify"]);
    assert_eq!((&verified["findings"], &verified["segments"]), (&json!([]), &json!(2)), "{verified}");
    let (code, told, said) = ground.run(&["verify", "--journal"]);
    assert_eq!((code, &told["finding_count"]), (0, &json!(0)), "{told} {said}");

    let server = Server::start_configured(&ground.data(), &ground.config());
    server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    // EVT-7: a dry run says what of it comes from where.
    let planned = server.json(&["rebuild", "--dry-run"]);
    let archived = planned["partitions"][1]["archived_records"].as_u64().unwrap();
    // A slow machine decides more in one record.
    assert!(archived > 10 && archived < planned["partitions"][1]["end"].as_u64().unwrap(), "{planned}");
    assert_eq!(planned["partitions"][1]["segments"].as_array().unwrap().len(), 1, "{planned}");
    server.json(&["rebuild"]);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    assert!(feed(&server) == events, "the feed from its beginning");
    let status = server.json(&["status"]);
    let (storage, archive) = (&status["storage"], &status["storage"]["archive"]);
    let bytes: u64 = ground.segments().iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(archive["bytes"].as_u64().unwrap() >= bytes && bytes > 0, "{archive}");
    assert!(archive["partitions"][1]["log_begins"].as_u64().unwrap() > 10, "{archive}");
    assert_eq!(archive["error"], Value::Null);
    let journal =
        storage["topics"].as_array().unwrap().iter().find(|topic| topic["topic"] == "journal").unwrap();
    assert!(journal["bytes_per_day"].as_u64().unwrap() > 0, "{storage}");
    assert!(storage["log_bytes"].as_u64().unwrap() > 0, "{storage}");
    assert_eq!(server.stop(), Some(0));

    let bare = tidemill(&ground.data(), &["standalone", "--listen", "127.0.0.1:0"]);
    assert_eq!(crate::server::code(&bare), 1);
    let told = text(&bare.stderr);
    assert!(told.contains("archive.place") && told.contains("begins with record"), "{told}");
    let bare = tidemill(&ground.data(), &["verify", "--journal"]);
    assert!(text(&bare.stderr).contains("archive.place"), "{}", text(&bare.stderr));
}

/// OPS-8: a server archives by itself, beside its work, and goes on after it was killed.
#[test]
fn server_archives_by_itself_and_goes_on_after_a_kill() {
    let ground = Ground::new();
    fs::create_dir(ground.data()).unwrap();
    let config = fs::read_to_string(ground.config()).unwrap();
    fs::write(ground.config(), format!("{config}segment_mb = 1\n")).unwrap();
    let mut server = Server::start_configured(&ground.data(), &ground.config());
    work(&server);
    let begins = |server: &Server| {
        let status = server.json(&["status"]);
        let partitions = status["storage"]["archive"]["partitions"].as_array().unwrap().clone();
        partitions.iter().map(|partition| partition["log_begins"].as_u64().unwrap()).max().unwrap()
    };
    crate::server::until("a segment has left the log", || (begins(&server) > 0).then_some(()));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = Server::start_configured(&ground.data(), &ground.config());
    server.json(&["job", "run", "default/a", "--wait"]);
    server.json(&["rebuild"]);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(ground.done(&["archive", "verify"])["findings"], json!([]));
}

fn changed(file: &Path) -> Vec<u8> {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes
}

/// A segment that is damaged or missing stops whoever reads it, by its name, and `archive verify` names it.
#[test]
fn damaged_or_missing_segment_is_named() {
    let ground = Ground::new();
    fs::create_dir(ground.data()).unwrap();
    let server = Server::start(&ground.data());
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    assert_eq!(server.stop(), Some(0));
    ground.done(&["archive", "run"]);
    let segments = ground.segments();
    let whole = fs::read(&segments[0]).unwrap();
    let name = segments[0].display().to_string();
    let shown = segments[0].strip_prefix(ground.archive()).unwrap().to_str().unwrap();
    let footer = ground.done(&["archive", "show", shown]);
    assert_eq!((&footer["partition"], &footer["first"], &footer["voids"]), (&json!(0), &json!(0), &json!(0)));

    fs::write(&segments[0], changed(&segments[0])).unwrap();
    let (code, answer, _) = ground.run(&["archive", "verify"]);
    assert_eq!(code, 12, "{answer}");
    assert!(answer["findings"][0].as_str().unwrap().contains(&name), "{answer}");
    let (code, _, told) = ground.run(&["verify", "--journal"]);
    assert!(code == 1 && told.contains(&name) && told.contains("damaged"), "{code}: {told}");

    fs::remove_file(&segments[0]).unwrap();
    let (code, answer, _) = ground.run(&["archive", "verify"]);
    assert!(code == 12 && answer["findings"][0].as_str().unwrap().contains("in no segment"), "{answer}");
    let (code, _, told) = ground.run(&["verify", "--journal"]);
    assert!(code == 1 && told.contains("no segment") && told.contains("record 0"), "{code}: {told}");

    fs::write(&segments[0], whole).unwrap();
    assert_eq!(ground.done(&["archive", "verify"])["findings"], json!([]));
    let (code, _, told) = ground.run(&["archive", "show", "nothing"]);
    assert_eq!(code, 4, "{told}");
    let bare = tidemill(&ground.data(), &["archive", "ls"]);
    assert_eq!(crate::server::code(&bare), 2);
    assert!(text(&bare.stderr).contains("archive.place"), "{}", text(&bare.stderr));
}
