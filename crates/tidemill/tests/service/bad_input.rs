//! A6: what is wrong is refused with the field, its value, the rule and what to do, under the right exit code,
//! and nothing else happens: no other event, no other row.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::server::feed::Feed;
use crate::server::{Server, code, text};
use serde_json::{Value, json};

/// Everything that lists show, but for the marks of [`Feed`].
fn everything(server: &Server) -> BTreeMap<&'static str, Value> {
    let mut all: BTreeMap<_, _> = [
        ("jobs", server.json(&["job", "export"])),
        ("batches", server.json(&["batch", "ls"])),
        ("keys", server.json(&["key", "ls"])),
        ("groups", server.json(&["group", "ls"])),
        ("workers", server.json(&["worker", "ls"])),
    ]
    .into();
    all.get_mut("jobs").unwrap()["jobs"].as_array_mut().unwrap().retain(|job| job["name"] != "marker");
    all
}

/// What a command is told: the exit code, and parts of the message as people see it.
struct Refusal<'a> {
    exit: i32,
    says: &'a [&'a str],
}

fn refused(server: &Server, arguments: &[&str], wanted: &Refusal<'_>) {
    let output = server.run(&[arguments, &["-o", "json"]].concat());
    let told = text(&output.stderr);
    assert_eq!(code(&output), wanted.exit, "{arguments:?}: {}{told}", text(&output.stdout));
    let failure: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{arguments:?}: {told}"));
    assert_eq!(failure["exit_code"], wanted.exit);
    assert!(
        failure["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
        "{arguments:?} has no hint: {told}"
    );
    let all = format!("{}\n{}\n{}", failure["error"], failure["details"], failure["hint"]);
    for part in wanted.says {
        assert!(all.contains(part), "{arguments:?} does not say {part:?}: {told}");
    }
}

fn refused_file(server: &Server, yaml: &str, wanted: &Refusal<'_>) {
    let file = server.data.join("bad.yaml");
    fs::write(&file, yaml).unwrap();
    refused(server, &["job", "apply", "-f", file.to_str().unwrap()], wanted);
}

/// One process with groups `default` and `other`, jobs `default/up`, `default/down` (after it) and `default/asleep`
/// (disabled), and a key that is bound to `other`.
fn fixture(data: &Path) -> (Server, String) {
    let server = Server::start(data);
    server.json(&["group", "apply", "other"]);
    server.apply(concat!(
        "jobs:\n",
        "- {name: up, group: default, type: noop}\n",
        "- {name: down, group: default, type: noop, parents: [up]}\n",
        "- {name: asleep, group: default, type: noop, enabled: false}\n",
    ));
    let key = server.json(&["key", "apply", "etl", "--role", "user", "--group", "other"]);
    (server, key["key"].as_str().unwrap().to_owned())
}

fn job(fields: &str) -> String {
    format!("jobs: [{{name: a, group: default, {fields}}}]")
}

/// A6, JOB-6, JOB-3, JOB-7: job files that cannot be accepted.
#[test]
fn bad_job_files_are_told_by_field_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = fixture(dir.path());
    let mut feed = Feed::follow(dir.path());
    feed.until_now(&server);
    let before = everything(&server);

    let shell = |fields: &str| job(&format!("type: shell, command: x, {fields}"));
    let cycle = "jobs:\n- {name: a, group: default, type: noop, parents: [b]}\n- {name: b, group: default, type: noop, parents: [c]}\n- {name: c, group: default, type: noop, parents: [a]}\n";
    let later = "jobs:\n- {name: up, group: default, type: noop, parents: [down]}\n";
    let across = "jobs:\n- {name: a, group: default, type: noop, parents: [other/b]}\n- {name: b, group: other, type: noop, parents: [default/a]}\n";
    let table: Vec<(String, &[&str])> = vec![
        (cycle.into(), &["parents", "default/a", "default/b", "default/c", "remove one"]),
        (later.into(), &["parents", "default/up", "default/down", "remove one"]),
        (across.into(), &["parents", "default/a", "other/b", "remove one"]),
        (job("type: noop, parents: [a]"), &["parents[0]", "own parent", "depends_on_past"]),
        (job("type: noop, parents: [nobody]"), &["job a", "parents[0]", "nobody", "no job of that name"]),
        (job("type: noop, parents: [default/nobody]"), &["parents[0]", "default/nobody"]),
        (job("type: noop, parents: [{job: up, mapping: soon}]"), &["parents[0]", "soon", "latest"]),
        (job("type: noop, parents: [{job: up, offset: 1}]"), &["parents[0]", "mapping: same", "{offset: n}"]),
        (job("type: noop, inputs: [{path: /data/a, marks: _SUCCESS}]"), &["inputs[0]", "mark: _SUCCESS"]),
        (shell("schedule: {cron: \"every day\"}"), &["schedule.cron", "every day", "second, minute"]),
        (shell("schedule: {cron: \"0 0 25 * * ?\"}"), &["schedule.cron", "0 0 25 * * ?"]),
        (
            shell("schedule: {cron: \"0 0 1 * * ?\", zone: Mars/Base}"),
            &["schedule.zone", "Mars/Base", "IANA"],
        ),
        (shell("schedule: {period: year}"), &["schedule.period", "year", "month"]),
        (shell("schedule: {}"), &["schedule", "period or cron"]),
        (job("type: shell, command: \"echo ${nope}\""), &["command", "${nope}", "param.NAME"]),
        (shell("parameters: {day: \"${yyyy\"}"), &["parameters.day", "${yyyy"]),
        (shell("priority: 12"), &["priority", "12", "0 (highest) to 9"]),
        (shell("retries: -1"), &["retries", "-1", "whole number"]),
        (shell("max_concurrent: 0"), &["max_concurrent", "0", "1 to"]),
        (shell("enabled: maybe"), &["enabled", "maybe", "true or false"]),
        (shell("comand: y"), &["comand", "y", "no field of a job"]),
        (job("type: shell"), &["command"]),
        ("jobs: [{name: a, type: noop}]".into(), &["group", "missing"]),
        ("jobs: [{name: a b, group: default, type: noop}]".into(), &["name", "a b", "1 to 200"]),
        ("jobs: [{name: a, group: nobody, type: noop}]".into(), &["group", "nobody", "no such group"]),
        ("jobs: [".into(), &["bad.yaml", "not YAML"]),
        ("jobs:\n- name: a\n   group: b\n".into(), &["bad.yaml", "not YAML", "line"]),
    ];
    for (yaml, says) in &table {
        refused_file(&server, yaml, &Refusal { exit: 2, says: &[says, &["bad.yaml"][..]].concat() });
        assert_eq!(feed.until_now(&server), Vec::<Value>::new(), "{yaml}");
    }
    for field in tidemill_model::NOT_BUILT {
        let yaml = shell(&format!("{field}: something"));
        refused_file(
            &server,
            &yaml,
            &Refusal { exit: 2, says: &[field, "something", "no effect", "remove"] },
        );
    }
    // One bad job keeps the good ones out, too.
    let half = "jobs:\n- {name: good, group: default, type: noop}\n- {name: bad, group: default, type: noop, retries: x}\n";
    refused_file(&server, half, &Refusal { exit: 2, says: &["job bad", "retries"] });

    assert_eq!(feed.until_now(&server), Vec::<Value>::new());
    assert_eq!(everything(&server), before);
}

/// A6, OPS-7: what is too large.
#[test]
fn oversized_input_is_refused_with_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = fixture(dir.path());
    let mut feed = Feed::follow(dir.path());
    feed.until_now(&server);
    let before = everything(&server);

    let comment = |bytes: usize| job(&format!("type: noop, comment: {}", "x".repeat(bytes)));
    refused_file(&server, &comment(17 << 20), &Refusal { exit: 2, says: &["bad.yaml", "16777216", "split"] });
    refused_file(&server, &comment(2 << 20), &Refusal { exit: 2, says: &["bad.yaml", "one job", "262144"] });
    let many: String =
        (0..40_001).map(|n| format!("- {{name: j{n}, group: default, type: noop}}\n")).collect();
    refused_file(
        &server,
        &format!("jobs:\n{many}"),
        &Refusal { exit: 2, says: &["jobs", "more than 40000", "at most 40000", "split"] },
    );
    let body =
        json!({"jobs": [{"name": "a", "group": "default", "type": "noop", "comment": "x".repeat(2 << 20)}]});
    let (status, problem) = server.post("/api/jobs/apply", "large", &body);
    assert_eq!((status, &problem["code"]), (413, &json!("too_large")), "{problem}");

    assert_eq!(feed.until_now(&server), Vec::<Value>::new());
    assert_eq!(everything(&server), before);
}

/// A6, API-5: unknown objects, wrong keys, foreign groups, wrong states.
#[test]
fn wrong_targets_and_keys_are_refused_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (server, etl) = fixture(dir.path());
    let mut feed = Feed::follow(dir.path());
    feed.until_now(&server);
    let before = everything(&server);

    let table: &[(&[&str], i32, &[&str])] = &[
        (&["job", "show", "default/upp"], 4, &["default/upp", "did you mean default/up"]),
        (&["job", "show", "upp"], 2, &["upp", "group/name", "did you mean default/up"]),
        (&["job", "show", "999"], 4, &["job", "999"]),
        (&["job", "run", "default/nobody"], 4, &["default/nobody", "job ls"]),
        (&["job", "run", "999"], 4, &["999"]),
        (&["job", "enable", "999"], 4, &["999"]),
        (&["job", "disable", "999"], 4, &["999"]),
        (&["job", "delete", "default/nobody"], 4, &["default/nobody"]),
        (&["job", "delete", "default/up"], 3, &["default/up", "default/down"]),
        (&["job", "preview", "999"], 4, &["999"]),
        (
            &[
                "cold-start",
                "--period",
                "day",
                "--from",
                "2026-03-01T00:00:00.000Z",
                "--to",
                "2026-03-01T00:00:00.000Z",
                "default/asleep",
            ],
            3,
            &["disabled", "job enable"],
        ),
        (&["batch", "show", "999"], 4, &["999", "batch ls"]),
        (&["batch", "why", "999"], 4, &["999"]),
        (&["batch", "kill", "999"], 4, &["999"]),
        (&["batch", "rerun", "999"], 4, &["999"]),
        (&["batch", "logs", "999"], 4, &["999"]),
        (&["worker", "show", "nobody"], 4, &["nobody", "worker ls"]),
        (&["worker", "drain", "nobody"], 4, &["nobody"]),
        (&["key", "delete", "nobody"], 4, &["nobody", "key ls"]),
        (&["key", "apply", "a b"], 2, &["app", "a b"]),
        (&["group", "apply", "new", "--worker-key", "zz"], 2, &["worker_key", "zz", "64 hexadecimal"]),
        (&["events", "tail", "--cursor", "abc"], 2, &["cursor", "abc"]),
        (&["job", "ls", "--key", "admin:wrong"], 3, &["key", "--key"]),
        (&["job", "ls", "--key", "nobody:wrong"], 3, &["key", "--key"]),
        (&["job", "run", "default/up", "--key", "garbage"], 3, &["key", "APP:SECRET"]),
        (&["job", "run", "default/up", "--key", &etl], 4, &["there is no job default/up"]),
        (&["job", "show", "default/up", "--key", &etl], 4, &["there is no job default/up"]),
        (&["key", "ls", "--key", &etl], 3, &["etl", "super_administrator"]),
        (&["group", "apply", "new", "--key", &etl], 3, &["etl", "super_administrator"]),
    ];
    for (arguments, exit, says) in table {
        refused(&server, arguments, &Refusal { exit: *exit, says });
    }
    fs::write(dir.path().join("foreign.yaml"), job("type: noop")).unwrap();
    let file = dir.path().join("foreign.yaml");
    let apply = ["job", "apply", "-f", file.to_str().unwrap(), "--key", &etl];
    refused(&server, &apply, &Refusal { exit: 2, says: &["group", "default", "there is no such group"] });

    assert_eq!(feed.until_now(&server), Vec::<Value>::new());
    assert_eq!(everything(&server), before);
}

/// A6, API-4: a repeat gets the first answer: at once, from another life of the interface, and after another
/// owner has taken over, the first by an orderly end and the second by a kill.
#[test]
fn repeated_writes_get_the_first_answer_from_any_instance_and_owner() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, _) = fixture(dir.path());
    let run = ["job", "run", "default/up", "--idempotency-key", "run-once"];
    let jobs = json!({"jobs": [{"name": "twice", "group": "default", "type": "noop"}]});
    let answers = |server: &Server| {
        let batch = server.json(&run)["batch"].clone();
        let rerun = server.json(&["batch", "rerun", &batch.to_string(), "--idempotency-key", "rerun-once"]);
        let (status, applied) = server.post("/api/jobs/apply", "apply-once", &jobs);
        assert_eq!(status, 200, "{applied}");
        [batch, rerun["batch"].clone(), applied["changes"].clone()]
    };
    assert_eq!(
        server.run(&["job", "run", "default/up", "--wait", "--idempotency-key", "run-once"]).status.code(),
        Some(0)
    );
    let first = answers(&server);
    assert_eq!(first[2][0]["change"], "added");
    for signal in ["-TERM", "-KILL"] {
        assert_eq!(answers(&server), first);
        server.signal(signal);
        server.child.wait().unwrap();
        server = Server::start(dir.path());
        assert_eq!(answers(&server), first);
    }
    let batches = server.json(&["batch", "ls", "--job", "default/up"]);
    assert_eq!(batches["items"].as_array().unwrap().len(), 2, "{batches}");
    let twice = server.json(&["job", "show", "default/twice"]);
    assert_eq!(twice["version"], 1);
}

/// A6, EXE-5: a second kill is answered, and there is one end.
#[test]
fn batch_killed_twice_ends_once() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = fixture(dir.path());
    server.apply("jobs: [{name: long, group: default, type: shell, command: \"exec sleep 1000\"}]");
    let mut feed = Feed::follow(dir.path());
    let batch = server.json(&["job", "run", "default/long"])["batch"].to_string();
    assert_eq!(code(&server.run(&["batch", "kill", &batch, "--reason", "first"])), 0);
    let second = server.run(&["batch", "kill", &batch, "--reason", "second"]);
    assert!([0, 3].contains(&code(&second)), "{}", text(&second.stderr));
    let mut events = Vec::new();
    while !events.iter().any(|event: &Value| event["type"] == "tidemill.batch.finished.v1") {
        events.extend(feed.until_now(&server));
    }
    refused(
        &server,
        &["batch", "kill", &batch],
        &Refusal { exit: 3, says: &[&batch, "already finished (killed)", "batch rerun"] },
    );
    let after = feed.until_now(&server);
    assert_eq!(after, Vec::<Value>::new());
    let shown = server.json(&["batch", "show", &batch]);
    assert_eq!(shown["result"], "killed", "{shown}");
    let ends = events.iter().filter(|event| event["type"] == "tidemill.batch.finished.v1").count();
    assert_eq!(ends, 1);
}
