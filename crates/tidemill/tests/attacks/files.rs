//! What a job or a local account can do through files, processes and the fields of a job.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::server::{Server, TIDEMILL, code, run_job, text, tidemill, until};

/// A site: what others may pass through, as the place of a data directory is.
struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o755);
        Self { dir }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A server that this shell line becomes; `$T` stands for the program with its arguments. What it says goes to a
    /// file.
    fn start(&self, line: &str, settings: &[(&str, &str)]) -> Server {
        let program = self.dir.path().join("start");
        let said = self.said_file();
        let line = line.replace("$T", &format!("{TIDEMILL} \"$@\" 2>>{}", said.display()));
        fs::write(&program, format!("exec {line}\n")).unwrap();
        fs::File::options().create(true).append(true).open(&said).unwrap();
        set_mode(&said, 0o666);
        // The shell reads the file. The kernel would refuse to execute it (ETXTBSY) as long as a process that another test
        // has just forked holds it open for writing.
        let mut shell = Command::new("sh");
        shell.arg(&program);
        Server::begin(shell, &self.data(), settings)
    }

    fn said_file(&self) -> PathBuf {
        self.dir.path().join("said")
    }

    /// What servers have said so far.
    fn said(&self) -> String {
        fs::read_to_string(self.said_file()).unwrap()
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn shown(server: &Server, batch: &str) -> Value {
    server.json(&["batch", "show", batch])
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || Some(shown(server, batch)).filter(|shown| shown["state"] == "finished"))
}

fn log(server: &Server, batch: &str) -> String {
    text(&server.run(&["batch", "logs", batch]).stdout)
}

fn define(server: &Server, job: &Value) {
    let (status, answer) = apply(server, job);
    assert_eq!(status, 200, "{answer}");
}

/// Each time another request.
fn apply(server: &Server, job: &Value) -> (u16, Value) {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let request = format!("{}-{}", server.child.id(), MADE.fetch_add(1, Ordering::Relaxed));
    server.post("/api/jobs/apply", &request, &json!({"jobs": [job]}))
}

/// Defines a job that runs this script, and gives what it wrote once it has ended.
fn run_script(server: &Server, name: &str, script: &str) -> String {
    let job =
        json!({"name": name, "group": "default", "type": "shell", "command": script.replace("${", "$${")});
    define(server, &job);
    let batch = run_job(server, &format!("default/{name}"));
    let end = ended(server, &batch);
    assert_eq!(end["result"], "success", "{end} {}", log(server, &batch));
    log(server, &batch)
}

/// What lies below a directory and is open to others: files that they read or write, directories that they list.
fn open_to_others(dir: &Path, found: &mut Vec<String>) {
    let facts = fs::symlink_metadata(dir).unwrap();
    let open = if facts.is_dir() { 0o066 } else { 0o077 };
    if facts.mode() & open != 0 && !facts.is_symlink() {
        found.push(format!("{} {:o}", dir.display(), facts.mode()));
    }
    if facts.is_dir() {
        fs::read_dir(dir).unwrap().for_each(|entry| open_to_others(&entry.unwrap().path(), found));
    }
}

/// EXE-2, OPS-10: another account, a job's own among them, reads nothing of the data directory but its own attempt,
/// neither while the server runs nor after; jobs have the umask that the server was started with.
#[test]
fn other_accounts_read_nothing_of_the_data_directory() {
    let fixture = Fixture::new();
    let server = fixture.start("$T", &[("EXECUTOR__DEFAULT_RUN_AS", "daemon")]);
    run_script(&server, "secret", "echo a secret; echo {} > $TIDEMILL_VALUES; touch made");
    let spy = format!(
        "id -un; umask; for each in {data}/* {data}/log/* {data}/tables.sqlite {data}/tables.sqlite-wal \
         {data}/admin.key {data}/internal.key {data}/worker/worker.json {data}/worker/ended/*/stdout; do \
         head -c 1 $each > /dev/null && echo read $each; done; \
         ls {data} {data}/worker {data}/worker/attempts {data}/worker/ended {data}/log .. && echo listed; \
         touch ../made && echo wrote; touch here && cat \"$0\" > copy && echo own; exit 0",
        data = fixture.data().display()
    );
    let said = run_script(&server, "spy", &spy);
    let mask = text(&Command::new("sh").args(["-c", "umask"]).output().unwrap().stdout);
    assert_eq!(said, format!("daemon\n{mask}own\n"));
    let mut open = Vec::new();
    open_to_others(&fixture.data(), &mut open);
    // What the job itself made has the modes that it wanted.
    open.retain(|path| !path.contains("/work/"));
    assert_eq!(open, Vec::<String>::new());
    assert!(fixture.data().join("tables.sqlite-wal").exists(), "looked at while it is written");
    assert_eq!(server.stop(), Some(0));
}

/// OPS-10: a data directory that an earlier version left open is closed at the start, and that is said once.
#[test]
fn open_data_directory_is_closed_and_that_is_said_once() {
    let fixture = Fixture::new();
    assert_eq!(fixture.start("$T", &[]).stop(), Some(0));
    let word = "other accounts of this host could read these";
    assert!(!fixture.said().contains(word), "{}", fixture.said());
    let data = fixture.data();
    for (name, mode) in [("", 0o755), ("log", 0o755), ("admin.key", 0o644), ("tables.sqlite", 0o644)] {
        set_mode(&data.join(name), mode);
    }
    assert_eq!(fixture.start("$T", &[]).stop(), Some(0));
    assert_eq!(fixture.start("$T", &[]).stop(), Some(0));
    assert_eq!(fixture.said().matches(word).count(), 1, "{}", fixture.said());
    let mut open = Vec::new();
    open_to_others(&data, &mut open);
    assert_eq!(open, Vec::<String>::new());
}

/// OPS-10, EXE-2: of a server of the same account, a job learns nothing through `/proc`: no key of its environment, no
/// open file, no memory; nor of the shims between them. Nothing that was open where the server was started is open in
/// a job. What does not hold is said at the start.
#[test]
fn job_of_the_same_account_learns_nothing_through_proc() {
    let fixture = Fixture::new();
    let secret = fixture.dir.path().join("secret");
    fs::write(&secret, "open by mistake").unwrap();
    set_mode(fixture.dir.path(), 0o777);
    fs::create_dir_all(fixture.data()).unwrap();
    chown(fixture.data(), Some(1), Some(1)).unwrap();
    let line = format!("setpriv --reuid=daemon --regid=daemon --clear-groups $T 7<{}", secret.display());
    let server = fixture.start(&line, &[("INTERNAL_KEY", "sesame-sesame-sesame")]);
    let spy = "id -un; pid=$PPID; while [ $pid -gt 1 ]; do parent=$(sed 's/.*) //' /proc/$pid/stat | cut -d' ' -f2); \
         case \"$(cat /proc/$pid/comm)\" in tidemill*) echo above; \
         cat /proc/$pid/environ > /dev/null && echo environ; ls /proc/$pid/fd > /dev/null && echo fd; \
         cat /proc/$pid/maps > /dev/null && echo maps; head -c 1 /proc/$pid/mem > /dev/null && echo mem;; esac; \
         pid=$parent; done; ls -l /proc/$$/fd | grep -c secret; tr '\\0' '\\n' < /proc/$$/environ | grep -c sesame; exit 0";
    // Its shim, the server of shims and the server.
    assert_eq!(run_script(&server, "spy", spy), "daemon\nabove\nabove\nabove\n0\n0\n");
    let said = fixture.said();
    assert!(said.contains("jobs run as daemon (uid 1), the account of this process"), "{said}");
    assert_eq!(server.stop(), Some(0));
}

/// EXE-2: a server of root says that its jobs are root's too, unless it has an account for them, which is then theirs;
/// one that cannot be theirs is refused.
#[test]
fn jobs_of_root_run_as_the_default_account() {
    let fixture = Fixture::new();
    let server = fixture.start("$T", &[]);
    assert_eq!(run_script(&server, "who", "id -un"), "root\n");
    assert_eq!(server.stop(), Some(0));
    let word = "jobs without run_as run as root";
    assert_eq!(fixture.said().matches(word).count(), 1, "{}", fixture.said());

    let server = fixture.start("$T", &[("EXECUTOR__DEFAULT_RUN_AS", "daemon")]);
    assert_eq!(run_script(&server, "who", "id -un; echo $HOME"), "daemon\n/usr/sbin\n");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(fixture.said().matches(word).count(), 1, "{}", fixture.said());

    for (account, rule) in [("root", "another account than root"), ("nobody-at-all", "no such account")] {
        let refused = Command::new(TIDEMILL)
            .args(["standalone", "--listen", "127.0.0.1:0", "--data"])
            .arg(fixture.data())
            .env("TIDEMILL__EXECUTOR__DEFAULT_RUN_AS", account)
            .output()
            .unwrap();
        let said = text(&refused.stderr);
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains(&format!("default_run_as is {account}")) && said.contains(rule), "{said}");
    }
}

/// EXE-12, LOG-2: where a job has put FIFOs and links in place of its files, its log is refused or empty, and
/// neither the server of logs nor the worker's stop waits for anybody; nothing is read or written through a link.
#[test]
fn what_a_job_puts_in_place_of_its_files_hangs_nothing() {
    let fixture = Fixture::new();
    let mut server = fixture.start("$T", &[]);
    let key = fixture.data().join("admin.key");
    let before = fs::read_to_string(&key).unwrap();
    let fifos = "cd ..; rm stdout stderr; mkfifo stdout stderr exit.json exit.json.new values.json";
    let links = format!(
        "cd ..; rm stdout stderr; for each in stdout stderr values.json exit.json.new; do \
         ln -s {} $each; done",
        key.display()
    );
    let ready = |name: &str| fixture.dir.path().join(name);
    for (name, script) in [("fifos", fifos), ("links", links.as_str())] {
        let script = format!("{script}; touch {}; while :; do sleep 1; done", ready(name).display());
        let job = json!({"name": name, "group": "default", "type": "shell", "command": script});
        define(&server, &job);
    }
    let batches = ["fifos", "links"].map(|name| {
        let batch = run_job(&server, &format!("default/{name}"));
        until("the job has put it there", || ready(name).exists().then_some(()));
        batch
    });
    for batch in &batches {
        // One after the other, more than the server of logs has threads for.
        for _ in 0..5 {
            let read = server.run(&["batch", "logs", batch]);
            let said = text(&read.stdout) + &text(&read.stderr);
            // Empty: a store looked at the outputs before the job put something in their place.
            assert!(said.is_empty() || said.contains("is not a plain file"), "{said}");
            assert!(!said.contains(before.trim()), "{said}");
        }
        assert!(server.run(&["batch", "kill", batch]).status.success());
        assert_eq!(ended(&server, batch)["result"], "killed");
    }
    let after = run_script(&server, "after", "echo after");
    assert_eq!(after, "after\n");
    server.signal("-TERM");
    let status = until("the server stops", || server.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert_eq!(fs::read_to_string(&key).unwrap(), before, "not written through the link");
}

/// EXE-4, API-4: two attempts that report with the same `Idempotency-Key` are two requests; one that repeats its own
/// gets its first answer.
#[test]
fn request_ids_of_an_attempt_are_its_own() {
    const REPORTER: &str = r#"
import json, os, urllib.request
url = os.environ["TIDEMILL_API"] + "/api/attempts/" + os.environ["TIDEMILL_TOKEN"] + "/code"
for _ in range(2):
    headers = {
        "Authorization": "Bearer " + os.environ["TIDEMILL_ATTEMPT_KEY"], "Content-Type": "application/json",
        "Idempotency-Key": "done",
    }
    urllib.request.urlopen(urllib.request.Request(url, json.dumps({"code": 0}).encode(), headers))
"#;
    let fixture = Fixture::new();
    let server = fixture.start("$T", &[]);
    let job = json!({
        "name": "done", "group": "default", "type": "python", "command": REPORTER, "success_check": "user_code",
    });
    define(&server, &job);
    for _ in 0..2 {
        let batch = run_job(&server, "default/done");
        assert_eq!(ended(&server, &batch)["result"], "success", "{}", log(&server, &batch));
    }
}

/// JOB-1, JOB-5: what could never run is refused when it is defined, with field, value and rule; the same of a run's
/// own parameters.
#[test]
fn fields_that_can_never_run_are_refused() {
    let fixture = Fixture::new();
    let server = fixture.start("$T", &[]);
    let of = |fields: Value| {
        let mut job = json!({"name": "bad", "group": "default", "type": "shell"});
        job.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        if job.get("program").is_none() && job.get("command").is_none() {
            job["command"] = json!("true");
        }
        job
    };
    let zero = "a\0b";
    let cases = [
        (json!({"command": zero}), "command", zero, "zero byte"),
        (json!({"program": zero}), "program", zero, "zero byte"),
        (json!({"program": " "}), "program", " ", "must name a file"),
        (json!({"program": "/a.jar", "class": zero}), "class", zero, "zero byte"),
        (json!({"program": "/a.jar", "class": ""}), "class", "", "must not be empty"),
        (json!({"arguments": ["fine", zero]}), "arguments[1]", zero, "zero byte"),
        (json!({"parameters": {"day": zero}}), "parameters.day", zero, "zero byte"),
        (json!({"final_command": zero}), "final_command", zero, "zero byte"),
        (json!({"owner": zero}), "owner", zero, "zero byte"),
        (json!({"comment": zero}), "comment", zero, "zero byte"),
        (json!({"host": "\n"}), "host", "\n", "without spaces and control characters"),
        (json!({"host": "a b"}), "host", "a b", "without spaces and control characters"),
        (
            json!({"success_check": {"output_path": "out"}}),
            "success_check.output_path",
            "out",
            "has to begin with",
        ),
        (
            json!({"success_check": {"output_path": "/a\n"}}),
            "success_check.output_path",
            "/a\n",
            "control characters",
        ),
        (
            json!({"parameters": {"a-b": "1", "a_b": "2"}}),
            "parameters",
            "a_b",
            "TIDEMILL_PARAM_A_B, as a-b is",
        ),
        (
            json!({"parameters": {"a.b": "1", "A_B": "2"}}),
            "parameters",
            "a.b",
            "TIDEMILL_PARAM_A_B, as A_B is",
        ),
    ];
    for (fields, field, value, rule) in cases {
        let (status, answer) = apply(&server, &of(fields.clone()));
        let error = &answer["errors"][0];
        assert_eq!(status, 422, "{fields}: {answer}");
        let named = format!("jobs[0].{field}");
        assert_eq!((&error["field"], &error["value"]), (&json!(named), &json!(value)), "{fields}: {answer}");
        assert!(error["rule"].as_str().unwrap().contains(rule), "{fields}: {answer}");
    }
    define(&server, &of(json!({"name": "good", "parameters": {"a-b": "1"}})));
    let path = format!("/api/jobs/{}/run", server.json(&["job", "show", "default/good"])["id"]);
    for (number, parameters, field, rule) in [
        (1, json!({"a_b": "1"}), "parameters", "as a-b is"),
        (2, json!({"a-b": zero}), "parameters.a-b", "zero byte"),
        (3, json!({"a b": "1"}), "parameters", "must be 1 to 128 letters"),
    ] {
        let (status, answer) =
            server.post(&path, &format!("run-{number}"), &json!({"parameters": parameters}));
        assert_eq!(status, 422, "{parameters}: {answer}");
        let error = &answer["errors"][0];
        assert_eq!(error["field"], field, "{parameters}: {answer}");
        assert!(error["rule"].as_str().unwrap().contains(rule), "{parameters}: {answer}");
    }
}

/// API-6: where the server of a data directory was killed, whoever listens at its address by now gets no key.
#[test]
fn key_goes_to_the_server_of_the_data_directory_alone() {
    let fixture = Fixture::new();
    let server = fixture.start("$T", &[]);
    let data = fixture.data();
    let address = fs::read_to_string(data.join("api.address")).unwrap();
    server.signal("-KILL");
    drop(server);
    let listener = TcpListener::bind(address.trim()).unwrap();
    let refused = tidemill(&data, &["job", "ls"]);
    let said = text(&refused.stderr);
    assert_eq!(code(&refused), 5, "{said}");
    assert!(said.contains("no server holds") && said.contains("api.address"), "{said}");
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nothing was sent");
}

/// A6: a file that cannot be read has one exit code whatever command names it; an unknown group is no empty list; of a
/// batch that had no attempt, no log is recommended.
#[test]
fn commands_say_what_is_wrong_in_one_way() {
    let fixture = Fixture::new();
    let server = fixture.start("$T", &[]);
    let none = fixture.dir.path().join("none.yaml");
    let none = none.to_str().unwrap();
    let directory = fixture.dir.path().to_str().unwrap();
    for arguments in [
        &["job", "apply", "-f", none][..],
        &["job", "validate", none],
        &["calendar", "apply", "-f", none],
        &["pool", "apply", "-f", none],
        &["pool", "apply", "-f", directory],
        &["--config", none, "status"],
    ] {
        let output = server.run(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", text(&output.stderr));
    }
    for arguments in [
        &["batch", "ls", "--group", "nope"][..],
        &["job", "ls", "--group", "nope"],
        &["job", "export", "--group", "nope"],
    ] {
        let output = server.run(arguments);
        let said = text(&output.stderr);
        assert!(code(&output) == 4 && said.contains("there is no group nope"), "{arguments:?}: {said}");
    }
    assert!(server.run(&["batch", "ls", "--group", "default"]).status.success());

    server.apply(
        "jobs:\n- {name: first, group: default, type: shell, command: 'true'}\n\
         - {name: second, group: default, type: shell, parents: [first], command: 'echo', arguments: ['${values.first.rows}']}\n",
    );
    ended(&server, &run_job(&server, "default/first"));
    let list = || server.json(&["batch", "ls", "--job", "default/second"])["items"][0]["id"].as_i64();
    let second = until("the child has its batch", list).to_string();
    let end = ended(&server, &second);
    assert_eq!((&end["result"], &end["attempt_count"]), (&json!("failed"), &json!(0)), "{end}");
    let why = text(&server.run(&["batch", "why", &second]).stdout);
    assert!(!why.contains("batch logs") && why.contains("as it had no attempt"), "{why}");
    let again = text(&server.run(&["batch", "rerun", &second, "--wait"]).stdout);
    assert!(!again.contains("batch logs") && again.contains("failed, without an attempt: "), "{again}");
}

/// OPS-7: files that a command or the configuration names are plain ones: a pipe is not waited for, and a device is not read
/// to an end that it does not have. Standard input is a pipe by its name, `-`.
#[test]
fn pipes_and_devices_are_refused_where_a_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe.yaml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let limited = |arguments: &[&str]| {
        let mut command = Command::new("timeout");
        // What would go on for ever ends; a device cannot take all memory meanwhile.
        command.args(["-k", "1", "30", "prlimit", "--as=4000000000", TIDEMILL]).args(arguments);
        command.current_dir(dir.path());
        command
    };
    for file in [pipe, "/dev/zero"] {
        for arguments in [
            &["job", "validate", file][..],
            &["job", "apply", "-f", file],
            &["calendar", "apply", "-f", file],
            &["pool", "apply", "-f", file],
            &["verify", "--journal", file],
            &["--config", file, "config", "show"],
        ] {
            let output = limited(arguments).output().unwrap();
            let told = text(&output.stderr);
            assert_eq!(code(&output), 2, "{arguments:?}: {told}");
            assert!(told.contains("has to be a plain file, and is a") && told.contains("hint: "), "{told}");
        }
    }
    let mut child = limited(&["job", "validate", "-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let jobs = b"jobs: [{name: a, group: default, type: noop}]";
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), jobs).unwrap();
    assert!(child.wait().unwrap().success());
}
