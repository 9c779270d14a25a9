//! OPS-5: backups of a server that goes on, and servers that go on from a backup.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidemill_client::Begin;
use tidemill_model::Level;

use crate::server::{Server, code, text, tidemill, until};

/// Directories, and settings by which everything leaves the log for the archive within a second or two.
struct Ground {
    dir: TempDir,
}

impl Ground {
    fn new() -> Self {
        let ground = Self { dir: tempfile::tempdir().unwrap() };
        for name in ["data", "again"] {
            let archive = ground.path(&format!("archive-{name}"));
            let bounds = "interval_s = 1\nkeep_days = 0\nkeep_mb = 0\nsegment_mb = 1\n";
            let settings = format!("[archive]\nplace = \"{}\"\n{bounds}", archive.display());
            fs::write(ground.path(&format!("{name}.toml")), settings).unwrap();
        }
        fs::create_dir(ground.path("data")).unwrap();
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self, name: &str) -> Server {
        Server::start_configured(&self.path(name), &self.path(&format!("{name}.toml")))
    }

    /// A command with the settings of a data directory: exit code, JSON, and what it said of failures.
    fn run(&self, name: &str, arguments: &[&str]) -> (i32, Value, String) {
        let config = self.path(&format!("{name}.toml"));
        let configured = ["--config", config.to_str().unwrap(), "-o", "json"];
        let output = tidemill(&self.path(name), &[arguments, &configured].concat());
        let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (code(&output), answer, text(&output.stderr))
    }

    fn done(&self, name: &str, arguments: &[&str]) -> Value {
        let (code, answer, told) = self.run(name, arguments);
        assert_eq!(code, 0, "{arguments:?}: {answer} {told}");
        answer
    }

    fn backup(&self, to: &str) -> Value {
        self.done("data", &["backup", self.path(to).to_str().unwrap()])
    }

    /// Restores into a directory with a name of settings.
    fn restore(&self, from: &str, name: &str) -> (i32, Value, String) {
        self.run(name, &["restore", "--by", "ann", "--from", self.path(from).to_str().unwrap()])
    }
}

/// Work that goes on while a backup is taken, and what of it was acknowledged.
fn work(server: &Server, is_over: &AtomicBool) -> Vec<i64> {
    let client = server.client();
    let mut done = Vec::new();
    while !is_over.load(Ordering::SeqCst) {
        let number = done.len();
        let body = json!({ "concurrent": true });
        let key = format!("drill-{number}");
        let answer = client.post("/api/jobs/4096/run").idempotency_key(&key).body(&body).answer().unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        done.push(answer.body["batch"].as_i64().unwrap());
    }
    done
}

/// Definitions that take a megabyte and a half of journal, a job that lives, and a worker with a short lease.
fn begin(ground: &Ground) -> Server {
    let server = ground.start("data");
    let bounds = r#"{"lost_after_ms": 4000, "lease_ms": 6000, "lease_margin_ms": 500}"#;
    server.json(&["group", "apply", "default", "--settings", bounds]);
    assert_eq!(server.stop(), Some(0));
    // The worker is told the bounds when it registers.
    let server = ground.start("data");
    let script = "x".repeat(6_000);
    let big = |number: u32| {
        format!("- {{name: big-{number}, group: default, type: shell, command: \"true # {script}\"}}\n")
    };
    let tokens = ground.path("tokens");
    let lives = format!("echo $TIDEMILL_TOKEN >> {}; sleep 300", tokens.display());
    server.apply(&format!(
        "jobs:\n- {{name: a, group: default, type: noop}}\n\
         - {{name: lives, group: default, type: shell, retries: 1, retry_interval_s: 1, command: \"{lives}\"}}\n{}",
        (0..250).map(big).collect::<String>()
    ));
    server
}

fn tokens(ground: &Ground) -> Vec<i64> {
    let text = fs::read_to_string(ground.path("tokens")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn batches(server: &Server) -> BTreeSet<i64> {
    let answer = server.json(&["batch", "ls", "--limit", "100000"]);
    let items = answer["items"].as_array().unwrap_or_else(|| panic!("{answer}"));
    items.iter().map(|batch| batch["id"].as_i64().unwrap()).collect()
}

fn begins(server: &Server) -> u64 {
    let status = server.json(&["status"]);
    let partitions = status["storage"]["archive"]["partitions"].as_array().unwrap().clone();
    partitions.iter().map(|partition| partition["log_begins"].as_u64().unwrap()).max().unwrap()
}

/// OPS-5, EXE-8, EVT-6: the drill. A backup is taken while work goes on and segments leave the log; more happens; the server is
/// killed, and another goes on from the backup in an empty directory. Everything acknowledged before the backup is there, no id is
/// given twice, what lived is held until a person vouches, and new work runs.
#[test]
fn drill_of_backup_kill_and_restore() {
    let ground = Ground::new();
    let mut server = begin(&ground);
    let lived = server.json(&["job", "run", "default/lives"])["batch"].to_string();
    until("the long job runs", || tokens(&ground).first().copied());
    let is_over = AtomicBool::new(false);
    let (before, manifest, lost) = thread::scope(|scope| {
        let working = scope.spawn(|| work(&server, &is_over));
        until("a segment has left the log", || (begins(&server) > 0).then_some(()));
        until("there are batches", || (batches(&server).len() > 20).then_some(()));
        let before = batches(&server);
        let manifest = ground.backup("backup");
        // More happens, which is lost.
        let had = batches(&server).len();
        until("there are more", || (batches(&server).len() > had + 20).then_some(()));
        is_over.store(true, Ordering::SeqCst);
        (before, manifest, working.join().unwrap())
    });
    assert_eq!((&manifest["form"], &manifest["generation"]), (&json!("tidemill-backup 1"), &json!(0)));
    server.child.kill().unwrap();
    server.child.wait().unwrap();

    let (code, restored, told) = ground.restore("backup", "again");
    assert_eq!(code, 0, "{restored} {told}");
    let (old, new) = (restored["log_id_before"].as_str().unwrap(), restored["log_id"].as_str().unwrap());
    let generation = restored["generation"].as_i64().unwrap();
    assert!(generation > 0 && new == format!("{old}-r{generation}"), "{restored}");
    assert!(restored["held_attempts"].as_u64().unwrap() >= 1, "{restored}");
    let (code, checked, told) = ground.run("again", &["verify", "--journal"]);
    assert_eq!((code, &checked["finding_count"]), (0, &json!(0)), "{checked} {told}");

    let server = ground.start("again");
    // The tables are made anew, and may be behind when the server is up.
    until("all that was acknowledged before is there", || before.is_subset(&batches(&server)).then_some(()));
    assert_eq!(server.json(&["status"])["log_id"], new);
    server.apply("jobs: [{name: new, group: default, type: noop}]");
    let fresh = server.json(&["job", "run", "default/new", "--wait"]);
    let above = restored["ids_above"].as_i64().unwrap() << 12;
    assert!(above < 1 << 53, "programs that read JSON numbers as floating point read them exactly");
    assert!(fresh["id"].as_i64().unwrap() > above && fresh["state"] == "finished", "{fresh}");
    let given: BTreeSet<i64> = lost.into_iter().collect();
    assert!(!given.contains(&fresh["id"].as_i64().unwrap()));
    assert_eq!(server.json(&["verify"])["difference_count"], 0);

    held_until_vouched(&ground, &server, &lived, above);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    assert_eq!(server.stop(), Some(0));
    let (code, checked, told) = ground.run("again", &["verify", "--journal"]);
    assert_eq!((code, &checked["finding_count"]), (0, &json!(0)), "{checked} {told}");
}

/// Longer than the lease of the worker that was killed, nothing replaces its attempt; then a person vouches.
fn held_until_vouched(ground: &Ground, server: &Server, lived: &str, above: i64) {
    let workers = |state: &str| {
        let answer = server.json(&["worker", "ls"]);
        let items = answer["items"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
        items.into_iter().filter(|worker| worker["state"] == state).collect::<Vec<_>>()
    };
    let lost = until("the old worker is lost", || workers("lost").first().cloned());
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(9) {
        assert!(workers("gone").is_empty(), "its lease ends nothing");
        thread::sleep(Duration::from_millis(500));
    }
    let held = server.json(&["batch", "show", lived]);
    assert_eq!((&held["state"], &held["worker"]), (&json!("running"), &lost["id"]), "{held}");
    assert_eq!(tokens(ground).len(), 1, "nothing replaces it");
    let worker = lost["id"].as_str().unwrap();
    let alive = &workers("live")[0];
    let refused = server.run(&["worker", "vouch", alive["id"].as_str().unwrap(), "--reason", "so"]);
    assert!(
        code(&refused) != 0 && text(&refused.stderr).contains("is heard of"),
        "{}",
        text(&refused.stderr)
    );
    server.json(&["worker", "vouch", worker, "--reason", "it was killed"]);
    until("another attempt has begun", || (tokens(ground).len() == 2).then_some(()));
    assert!(tokens(ground)[1] > above, "{:?}", tokens(ground));
    let shown = server.json(&["batch", "show", lived]);
    assert_eq!(shown["attempts"][0]["result"], "lost", "{shown}");
    server.json(&["batch", "kill", lived, "--reason", "the drill is over"]);
    until("it is over", || (server.json(&["batch", "show", lived])["state"] == "finished").then_some(()));
}

/// OPS-5: ids of events name the life that they are of, also after a rebuild and a second restore.
#[test]
fn events_name_the_life_that_they_are_of() {
    let ground = Ground::new();
    let server = ground.start("data");
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    server.json(&["job", "run", "default/a", "--wait"]);
    server.json(&["job", "run", "default/a", "--wait"]);
    ground.backup("backup");
    for _ in 0..3 {
        server.json(&["job", "run", "default/a", "--wait"]);
    }
    let events = |server: &Server, kind: &str, count: &str| -> Vec<(String, String)> {
        let from = ["events", "tail", "--from", "start", "-o", "json", "--type", kind, "--limit", count];
        let output = server.run(&from);
        let read = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            let event = event.get("event").unwrap_or(&event);
            (event["source"].as_str().unwrap().to_owned(), event["id"].as_str().unwrap().to_owned())
        };
        text(&output.stdout).lines().map(read).collect()
    };
    let lost = events(&server, "batch.generated", "5");
    assert_eq!(server.stop(), Some(0));

    let (code, restored, told) = ground.restore("backup", "again");
    assert_eq!(code, 0, "{restored} {told}");
    let server = ground.start("again");
    server.json(&["job", "run", "default/a", "--wait"]);
    let now = events(&server, "batch.generated", "3");
    assert_eq!(now[..2], lost[..2], "what is restored has the ids that it had");
    assert!(!lost.contains(&now[2]), "{now:?}");
    assert!(now[2].0.contains(restored["log_id"].as_str().unwrap()), "{now:?}");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    server.json(&["rebuild"]);
    assert_eq!(events(&server, "batch.generated", "3"), now);
    assert_eq!(server.stop(), Some(0));

    // Once more from the same backup: another life, with ids of its own.
    let (_, second, told) =
        ground.run("third", &["restore", "--by", "ann", "--from", ground.path("backup").to_str().unwrap()]);
    assert_eq!(second, Value::Null, "there are no settings: {told}");
    fs::copy(ground.path("again.toml"), ground.path("third.toml")).unwrap();
    let (code, second, told) = ground.restore("backup", "third");
    assert_eq!(code, 0, "{told}");
    assert!(second["generation"].as_i64() > restored["generation"].as_i64(), "{second}");
    // And from a backup of the restored one.
    let backed_up = ground.done("again", &["backup", ground.path("second").to_str().unwrap()]);
    assert_eq!(backed_up["log_id"], restored["log_id"]);
    fs::copy(ground.path("again.toml"), ground.path("fourth.toml")).unwrap();
    let (code, fourth, told) = ground.restore("second", "fourth");
    assert_eq!(code, 0, "{told}");
    assert_eq!(fourth["log_id_before"], restored["log_id"]);
    let (code, checked, _) = ground.run("fourth", &["verify", "--journal"]);
    assert_eq!((code, &checked["finding_count"]), (0, &json!(0)), "{checked}");
}

fn changed(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).unwrap();
}

/// OPS-5: what people get wrong is told with what to do, and changes nothing.
#[test]
fn mistakes_with_backups_are_told_and_change_nothing() {
    let ground = Ground::new();
    let server = ground.start("data");
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    assert_eq!(server.stop(), Some(0));
    ground.backup("whole");
    let refused = |from: &str, name: &str, exit: i32, words: &[&str]| {
        let was_there = ground.path(name).exists();
        let (code, answer, told) = ground.restore(from, name);
        assert_eq!(code, exit, "{from}: {answer} {told}");
        for word in words {
            assert!(told.contains(word), "{word}: {told}");
        }
        assert_eq!(ground.path(name).exists(), was_there, "{told}");
    };
    let files = |name: &str| {
        let mut names: Vec<_> =
            fs::read_dir(ground.path(name)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let had = files("data");
    refused("whole", "data", 3, &["is not empty", "nothing was changed", "--data"]);
    assert_eq!(files("data"), had);
    let (code, _, told) = ground.run("data", &["backup", ground.path("whole").to_str().unwrap()]);
    assert!(code == 3 && told.contains("is not empty"), "{told}");
    refused("nowhere", "again", 2, &["nowhere"]);
    let copy = |name: &str| {
        let copied = std::process::Command::new("cp")
            .arg("-r")
            .arg(ground.path("whole"))
            .arg(ground.path(name))
            .status();
        assert!(copied.unwrap().success());
        ground.path(name)
    };
    changed(&copy("damaged").join("journal.export"));
    refused("damaged", "again", 2, &["journal.export", "SHA-256"]);
    fs::remove_file(copy("missing").join("keys/admin.key")).unwrap();
    refused("missing", "again", 2, &["not whole", "admin.key"]);
    fs::remove_file(copy("half").join("MANIFEST.json")).unwrap();
    refused("half", "again", 2, &["MANIFEST.json", "did not come to its end"]);
    let with = |name: &str, from: &str, to: &str| {
        let manifest = copy(name).join("MANIFEST.json");
        let text = fs::read_to_string(&manifest).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(manifest, text.replacen(from, to, 1)).unwrap();
    };
    with("newer", "tidemill-backup 1", "tidemill-backup 2");
    refused("newer", "again", 8, &["tidemill-backup 2", "later one"]);
    with("level", &format!("\"level\": {}", Level::READS), "\"level\": 9");
    refused("level", "again", 8, &["level 9", "nothing was changed"]);
    with("outside", "keys/admin.key", "keys/../../a.key");
    refused("outside", "again", 2, &["a backup has no file"]);
    with("other", "\"seq\": ", "\"seq\": 1");
    refused("other", "again", 2, &["ends elsewhere"]);
    fs::write(ground.path("text"), "no export").unwrap();
    refused("text", "again", 2, &["journal export"]);

    // A restore that was killed is no data directory.
    fs::create_dir_all(ground.path("again/log.restoring")).unwrap();
    refused("whole", "again", 3, &["did not come to its end"]);
    let (code, _, told) = ground.run("again", &["standalone", "--listen", "127.0.0.1:0"]);
    assert!(code == 3 && told.contains("did not come to its end"), "{told}");
}

/// OPS-5: a stopped data directory, and an export of it, can be restored as well.
#[test]
fn export_of_a_journal_is_restored() {
    let ground = Ground::new();
    let server = ground.start("data");
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    let ran = server.json(&["job", "run", "default/a", "--wait"])["id"].clone();
    assert_eq!(server.stop(), Some(0));
    ground.done("data", &["journal", "export", ground.path("export").to_str().unwrap()]);
    let (code, restored, told) = ground.restore("export", "again");
    assert_eq!((code, &restored["keys"]), (0, &json!(0)), "{restored} {told}");
    fs::copy(ground.path("data/admin.key"), ground.path("again/admin.key")).unwrap();
    fs::copy(ground.path("data/group-default.key"), ground.path("again/group-default.key")).unwrap();
    let server = ground.start("again");
    assert_eq!(server.json(&["batch", "show", &ran.to_string()])["state"], "finished");
    server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
    assert_eq!(server.stop(), Some(0));
}

/// Changes a byte wherever the file says this, and says how often that was.
fn damage(file: &Path, says: &str) -> usize {
    let mut bytes = fs::read(file).unwrap();
    let is_there = |at: &usize| bytes[*at..].starts_with(says.as_bytes());
    let found: Vec<usize> = (0..bytes.len()).filter(is_there).collect();
    found.iter().for_each(|at| bytes[*at] ^= 1);
    fs::write(file, bytes).unwrap();
    found.len()
}

/// OPS-5: what follows damage does not count, so nobody could go on from a copy of it: no backup is taken, and nothing is left of one.
#[test]
fn damaged_log_is_not_backed_up() {
    let ground = Ground::new();
    let server = ground.start("data");
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    server.json(&["job", "run", "default/a", "--wait"]);
    assert_eq!(server.stop(), Some(0));
    let log = ground.path("data/log");
    let files = fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path());
    let damaged: usize = files.map(|file| damage(&file, "group_defined")).sum();
    assert!(damaged > 0, "no file of {} has the record as it is", log.display());
    let (code, answer, told) = ground.run("data", &["backup", ground.path("backup").to_str().unwrap()]);
    assert_eq!(code, 1, "{answer} {told}");
    assert!(told.contains("the log is damaged") && told.contains("verify --journal"), "{told}");
    let (code, _, told) = ground.restore("backup", "again");
    assert_ne!(code, 0, "{told}");
}

/// EVT-6, OPS-5: two restores of one log are two lives, and neither reads on where a reader of the other stopped: what that one
/// read is not in this log.
#[test]
fn cursor_of_another_restore_is_refused() {
    let ground = Ground::new();
    fs::copy(ground.path("again.toml"), ground.path("third.toml")).unwrap();
    let server = ground.start("data");
    server.apply("jobs: [{name: a, group: default, type: noop}]");
    server.json(&["job", "run", "default/a", "--wait"]);
    ground.backup("backup");
    assert_eq!(server.stop(), Some(0));
    let mut cursors: Vec<String> = Vec::new();
    for name in ["again", "third"] {
        let (exit, _, told) = ground.restore("backup", name);
        assert_eq!(exit, 0, "{told}");
        let server = ground.start(name);
        server.json(&["job", "run", "default/a", "--wait"]);
        if let Some(cursor) = cursors.first() {
            let refused = server.run(&["events", "tail", "--cursor", cursor, "--limit", "1"]);
            let told = text(&refused.stderr);
            assert!(code(&refused) != 0 && told.contains("cursor"), "{told}");
        }
        let client = server.client();
        let read = client.events(Begin::Start).limit(20).follow();
        cursors.push(read.filter_map(|message| message.unwrap().id).last().unwrap());
        // Its own is good.
        let own = ["events", "tail", "--cursor", cursors.last().unwrap(), "--limit", "1", "-o", "json"];
        assert_eq!(code(&server.run(&own)), 0);
        assert_eq!(server.stop(), Some(0));
    }
}
