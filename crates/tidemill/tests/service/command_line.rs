//! API-6: what people keep for the command line, and calls that have a command of their own.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::server::{Server, TIDEMILL, code, run_job, text, until};

/// Somebody at a terminal, far from any data directory.
pub(crate) struct Person {
    pub(crate) home: PathBuf,
}

impl Person {
    fn contexts(&self) -> PathBuf {
        self.home.join(".config/tidemill/contexts.yaml")
    }

    pub(crate) fn run(&self, arguments: &[&str], environment: &[(&str, &str)], typed: &str) -> Output {
        let mut command = Command::new(TIDEMILL);
        for name in ["SERVER", "KEY", "DATA", "CONFIG", "CONTEXT", "CONTEXTS"] {
            command.env_remove(format!("TIDEMILL_{name}"));
        }
        let command = command.args(arguments).current_dir(&self.home).env("HOME", &self.home);
        let command = command.env_remove("XDG_CONFIG_HOME").envs(environment.iter().copied());
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        // Commands that read nothing may have ended.
        let _ = child.stdin.take().unwrap().write_all(typed.as_bytes());
        child.wait_with_output().unwrap()
    }

    fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, &[], "");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The exit code of what is refused, and what is said of it.
    fn refused(&self, arguments: &[&str], environment: &[(&str, &str)], typed: &str) -> (i32, String) {
        let output = self.run(arguments, environment, typed);
        (code(&output), text(&output.stderr))
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap().trim().to_owned()
}

/// API-6: a key is kept once its server has taken it; contexts are switched and forgotten; options go before them; no secret is
/// shown, and a file that others can read is not used.
#[test]
fn keys_of_several_clusters_are_kept_and_each_goes_to_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second, home] = ["first", "second", "home"].map(|name| dir.path().join(name));
    [&first, &second, &home].iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let person = Person { home };
    let (one, two) = (Server::start(&first), Server::start(&second));
    let [url, other_url] = [&one, &two].map(|server| server.client().server().to_owned());
    let viewer = two.json(&["key", "apply", "look", "--role", "viewer"])["key"].as_str().unwrap().to_owned();
    let admin = read(&first.join("admin.key"));

    // What the server does not take is not kept, nor what is no key.
    let login = |name: &str, server: &str, key: &str| {
        person.run(&["login", "--server", server, "--context", name], &[], key)
    };
    assert_eq!(code(&login("one", &url, &viewer)), 3, "the other cluster's key");
    assert_eq!(code(&login("one", &url, "")), 2);
    assert_eq!(code(&login("one", &url, "a b")), 2);
    assert_eq!(code(&login("one", "ftp://h", &admin)), 2);
    assert_eq!(code(&login("a b", &url, &admin)), 2);
    let told = person.refused(&["login", "--server", &url], &[("TIDEMILL_KEY", &admin)], &admin);
    assert!(told.0 == 2 && told.1.contains("TIDEMILL_KEY"), "{told:?}");
    assert!(!person.contexts().exists());

    let kept = login("one", &url, &format!("{admin}\n"));
    assert!(text(&kept.stdout).contains("as admin"), "{}", text(&kept.stdout));
    assert_eq!(fs::metadata(person.contexts()).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(login("two", &other_url, &viewer).status.success());
    assert_eq!(code(&login("two", &url, &admin)), 2, "a context does not change its server unseen");
    let who = |arguments: &[&str]| {
        let told: Value =
            serde_json::from_str(&person.says(&[&["whoami", "-o", "json"], arguments].concat())).unwrap();
        told["app"].as_str().unwrap().to_owned()
    };
    assert_eq!((who(&[]), who(&["--context", "one"])), ("look".to_owned(), "admin".to_owned()));
    person.says(&["context", "use", "one"]);
    assert_eq!(who(&[]), "admin");
    // What is said on the command line goes before the current context, with nothing of its key.
    assert_eq!(who(&["--data", second.to_str().unwrap(), "--key", &viewer]), "look");
    let told = person.refused(&["job", "ls", "--server", &other_url], &[], "");
    assert!(told.0 == 3 && told.1.contains("no application key was given"), "{told:?}");
    let server = [("TIDEMILL_SERVER", other_url.as_str())];
    assert_eq!(person.refused(&["job", "ls"], &server, "").0, 3);
    let told = person.refused(&["job", "ls", "--context", "one"], &server, "");
    assert!(told.0 == 2 && told.1.contains("name one server"), "{told:?}");
    let named = person.run(&["whoami"], &[("TIDEMILL_CONTEXT", "two")], "");
    assert!(text(&named.stdout).contains("look"), "{}", text(&named.stderr));

    // Another server takes the key away; nothing shows a secret.
    person.says(&["context", "set", "two", "--server", &url]);
    assert_eq!(person.refused(&["job", "ls", "--context", "two"], &[], "").0, 3);
    let secret = admin.split_once(':').unwrap().1;
    for arguments in [&["context", "ls"][..], &["context", "show"], &["context", "ls", "-o", "json"]] {
        let told = person.says(arguments);
        assert!(told.contains("admin") && !told.contains(secret), "{told}");
    }
    fs::set_permissions(person.contexts(), Permissions::from_mode(0o644)).unwrap();
    let told = person.refused(&["job", "ls"], &[], "");
    assert!(told.0 == 2 && told.1.contains("chmod 600") && !told.1.contains(secret), "{told:?}");
    fs::set_permissions(person.contexts(), Permissions::from_mode(0o600)).unwrap();
    person.says(&["context", "rm", "one"]);
    assert_eq!(person.refused(&["context", "show"], &[], "").0, 4);
    assert_eq!(person.refused(&["job", "ls", "--context", "one"], &[], "").0, 4);
    assert!(!read(&person.contexts()).contains(secret));
    assert_eq!((one.stop(), two.stop()), (Some(0), Some(0)));
}

/// API-6, API-1: a job is submitted without a file, and is in lists of what was submitted; what is wrong with one is told with its
/// field. Answers are tables, wider ones, JSON and YAML.
#[test]
fn jobs_are_submitted_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let submit = |more: &[&str]| {
        let job = ["job", "submit", "once", "--command", "echo $TIDEMILL_PARAM_DAY", "--user", "ann"];
        server.run(&[&job, more, &["--param", "DAY=monday", "-o", "json"]].concat())
    };
    let accepted = submit(&["--group", "default", "--priority", "3"]);
    assert!(accepted.status.success(), "{}", text(&accepted.stderr));
    let job = serde_json::from_slice::<Value>(&accepted.stdout).unwrap()["job_id"].to_string();
    assert_eq!(code(&submit(&["--group", "nowhere"])), 4);
    assert_eq!(code(&submit(&["--group", "4000"])), 2, "no group has this number");
    let bad = submit(&["--group", "default", "--cron", "every day"]);
    assert!(code(&bad) == 2 && text(&bad.stderr).contains("cron"), "{}", text(&bad.stderr));

    let attempts = until("it has run", || {
        let listed = server.json(&["attempt", "ls", "--job", &job]);
        Some(listed).filter(|listed| listed["items"][0]["result"] == "success")
    });
    assert_eq!(attempts["items"].as_array().unwrap().len(), 1);
    server.apply("jobs:\n- {name: defined, group: default, type: shell, command: 'true'}\n");
    let names = |more: &[&str]| {
        let listed = server.json(&[&["job", "ls"], more].concat());
        let names =
            listed["items"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&["--submitted", "true"]), ["once"]);
    assert_eq!(names(&["--submitted", "false"]), ["defined"]);

    let shown = |form: &str| text(&server.run(&["job", "ls", "--submitted", "false", "-o", form]).stdout);
    assert!(shown("yaml").contains("name: defined"), "{}", shown("yaml"));
    let columns = |table: String| table.lines().next().unwrap().split_whitespace().count();
    assert!(columns(shown("wide")) > columns(shown("table")));
    assert!(shown("wide").contains("COMMAND"), "{}", shown("wide"));
    assert_eq!(server.stop(), Some(0));
}

/// API-6, API-4, LOG-3: a job says itself that it has succeeded, by the command line; its log is read in parts, and a download goes
/// on where it broke off.
#[test]
fn attempts_report_their_code_and_logs_are_read_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let reports = |name: &str, code: &str| {
        let command = format!("printf abcdefghij; {TIDEMILL} attempt report {code} >&2; exit 7");
        json!({"name": name, "group": "default", "type": "shell", "command": command, "success_check": "user_code"})
    };
    server.apply(&json!({"jobs": [reports("good", "0"), reports("bad", "-3")]}).to_string());
    let ended = |batch: &str| {
        until("it has ended", || {
            let shown = server.json(&["batch", "show", batch]);
            Some(shown).filter(|shown| shown["state"] == "finished")
        })
    };
    let (good, bad) = (run_job(&server, "default/good"), run_job(&server, "default/bad"));
    assert_eq!(ended(&good)["result"], "success");
    assert_eq!(ended(&bad)["attempts"][0]["user_code"], -3);
    let listed = server.json(&["attempt", "ls", "--batch", &good]);
    assert_eq!(listed["items"][0]["user_code"], 0);
    let nowhere =
        ["attempt", "report", "0", "--attempt", "1", "--attempt-key", "k", "--api", "http://127.0.0.1:1"];
    assert_eq!(code(&server.run(&nowhere)), 5);

    until("the log is kept", || {
        let (_, summary) = server.get(&format!("/api/batches/{good}/log/summary"));
        (summary["is_end"] == true).then_some(())
    });
    let file = dir.path().join("downloaded");
    let load = |more: &[&str]| {
        let output =
            server.run(&[&["batch", "logs", &good, "--download", file.to_str().unwrap()], more].concat());
        (code(&output), read(&file))
    };
    assert_eq!(load(&["--bytes", "2-4"]), (0, "cde".to_owned()));
    assert_eq!(load(&["--bytes", "7-"]), (0, "hij".to_owned()));
    assert_eq!(load(&["--bytes", "10-"]).0, 2);
    fs::write(&file, "abcd").unwrap();
    assert_eq!(load(&["--resume"]), (0, "abcdefghij".to_owned()));
    assert_eq!(load(&["--resume"]), (0, "abcdefghij".to_owned()), "nothing is missing");
    assert_eq!(server.stop(), Some(0));
}
