//! Requests and texts that one user sends, and what else they could reach.

use serde_json::{Value, json};

use crate::server::{Server, code, run_job, text, until};

/// API-4: a key that was used for another request gets 409, nothing is done, and the first request keeps its answer. Whoever
/// got a 200 there believed that the second one had been done.
#[test]
fn key_of_another_request_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop}, {name: b, group: default, type: noop}]");
    let id = |job: &str| server.json(&["job", "show", &format!("default/{job}")])["id"].clone();
    let run = |job: &str| format!("/api/jobs/{}/run", id(job));
    let (a, b) = (run("a"), run("b"));
    let at = |hour: u32| json!({"logical_time": format!("2026-01-01T{hour:02}:00:00.000Z")});
    let (status, first) = server.post(&a, "key", &at(1));
    assert_eq!(status, 200, "{first}");
    for (path, body) in [(&a, at(2)), (&b, at(1)), (&a, json!({}))] {
        let (status, answer) = server.post(path, "key", &body);
        assert_eq!(
            (status, &answer["code"]),
            (409, &"idempotency_key_reused".into()),
            "{path} {body}: {answer}"
        );
        assert_eq!(answer["errors"][0]["field"], "Idempotency-Key", "{answer}");
    }
    // How fresh the answer has to be is no part of what is asked for.
    let (status, again) =
        server.post(&format!("{a}?at_least={}", first["position"].as_str().unwrap()), "key", &at(1));
    assert_eq!((status, &again["batch"]), (200, &first["batch"]), "{again}");
    let batches = server.json(&["batch", "ls"]);
    assert_eq!(batches["items"].as_array().map(Vec::len), Some(1), "{batches}");
}

/// OPS-7: one user's definition whose templates would become gigabytes fails its own batches, and says why; the partition
/// works on, also after a start anew.
#[test]
fn definition_that_would_become_gigabytes_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let large = json!({"jobs": [
        {"name": "large", "group": "default", "type": "shell", "command": "true", "arguments": ["${param.p}".repeat(6_000)],
         "parameters": {"p": "x".repeat(60_000)}},
        {"name": "good", "group": "default", "type": "shell", "command": "true"},
    ]});
    let server = Server::start(dir.path());
    server.apply(&large.to_string());
    let batch = server.json(&["job", "run", "default/large"])["batch"].to_string();
    let waited = server.run(&["batch", "wait", &batch]);
    assert_ne!(code(&waited), 0);
    let shown = server.json(&["batch", "show", &batch]);
    let message = shown["message"].as_str().unwrap_or_default();
    let said = text(&waited.stderr);
    assert!(message.contains("makes the text longer than"), "{shown} {said}");
    let id = server.json(&["job", "show", "default/large"])["id"].clone();
    let (status, preview) = server.get(&format!("/api/jobs/{id}/preview"));
    assert!(status == 422 && preview["detail"].to_string().contains("longer than"), "{status} {preview}");
    run_job(&server, "default/good");
    server.stop();
    let server = Server::start(dir.path());
    run_job(&server, "default/good");
    let verified = server.run(&["verify", "--journal"]);
    assert_eq!(code(&verified), 0, "{}", text(&verified.stdout));
}

/// JOB-7, BYD-20: a value never becomes code, whatever it holds: not of a parameter given by hand, and not of one that a parent
/// passed on. In a script's text its placeholder is refused; by environment and arguments it comes as it is.
#[test]
fn values_never_become_code() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let spliced = |field: &str, text: &str| {
        let mut job = json!({"name": "spliced", "group": "default", "type": "shell", "command": "true", "parents": ["gives"],
                             "parameters": {"x": "1"}});
        job[field] = json!(text);
        let gives = json!({"name": "gives", "group": "default", "type": "noop"});
        let (status, answer) =
            server.post("/api/jobs/apply", &format!("{field} {text}"), &json!({"jobs": [gives, job]}));
        let error = &answer["errors"][0];
        assert_eq!((status, &error["field"]), (422, &format!("jobs[1].{field}").into()), "{answer}");
        assert!(error["rule"].as_str().unwrap().contains("environment variable TIDEMILL_PARAM_"), "{answer}");
    };
    for field in ["command", "final_command"] {
        spliced(field, "echo ${param.x}");
        spliced(field, "echo '${values.gives.x}'");
    }
    assert_eq!(server.json(&["job", "ls"])["items"], json!([]), "nothing of a refused apply is there");

    let (trap, out) = (dir.path().join("trap"), dir.path().join("out"));
    let evil = format!("\"'`touch {0}`$(touch {0}); touch {0} #\\", trap.display());
    let out_of = |name: &str| out.with_extension(name);
    let jobs = json!({"jobs": [
        {"name": "gives", "group": "default", "type": "python", "parameters": {"x": ""},
         "command": "import json, os\njson.dump({'x': os.environ['TIDEMILL_PARAM_X']}, open(os.environ['TIDEMILL_VALUES'], 'w'))"},
        {"name": "takes", "group": "default", "type": "shell", "parents": ["gives"], "parameters": {"x": "${values.gives.x}"},
         "command": format!("printf '%s' \"$TIDEMILL_PARAM_X\" > {}; printf '%s' \"$1\" > {}", out_of("env").display(), out_of("arg").display()),
         "arguments": ["${values.gives.x}"],
         "final_command": format!("printf '%s' \"$TIDEMILL_PARAM_X\" > {}", out_of("final").display())},
    ]});
    server.apply(&jobs.to_string());
    let gives = server.json(&["job", "run", "default/gives", "--param", &format!("x={evil}"), "--wait"]);
    assert_eq!(gives["result"], "success", "{gives}");
    let list = || server.json(&["batch", "ls", "--job", "default/takes"])["items"][0]["id"].as_i64();
    let takes = until("the child has its batch", list).to_string();
    let over =
        || Some(server.json(&["batch", "show", &takes])).filter(|shown| !shown["final_result"].is_null());
    let takes = until("the final command has ended", over);
    assert_eq!((&takes["result"], &takes["final_result"]), (&json!("success"), &json!("success")), "{takes}");
    for name in ["env", "arg", "final"] {
        assert_eq!(std::fs::read_to_string(out_of(name)).unwrap(), evil, "{name}");
    }
    let program = json!({"name": "program", "group": "default", "type": "shell", "program": "${param.x}",
                         "parameters": {"x": "/bin/true"}, "arguments": [format!("touch {}", trap.display())]});
    server.apply(&json!({"jobs": [program]}).to_string());
    server.run(&["job", "run", "default/program", "--param", "x=-c", "--wait"]);
    let list = || server.json(&["batch", "ls", "--job", "default/program"])["items"][0]["id"].as_i64();
    let shown = server.json(&["batch", "show", &until("its batch", list).to_string()]);
    assert_eq!(shown["result"], "failed", "{shown}");
    assert!(shown["message"].to_string().contains("must not begin with -"), "{shown}");
    assert!(!trap.exists(), "a value was run");
}

/// EXE-4, DEP-1: a value in a path leads no look to a place that its job does not name: what steps up is asked of nobody.
#[test]
fn values_lead_no_path_astray() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let inside = dir.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let template = format!("{}/${{param.x}}", inside.display());
    let job = |name: &str, field: &str, value: Value| {
        let mut job = json!({"name": name, "group": "default", "type": "shell", "command": "touch \"$TIDEMILL_PARAM_OUT\"",
                             "parameters": {"x": "there", "out": dir.path().join("secret").to_str()}});
        job[field] = value;
        job
    };
    let jobs = [
        job("makes", "success_check", json!({"output_path": template})),
        job("waits", "inputs", json!([{"path": template}])),
    ];
    server.apply(&json!({"jobs": jobs}).to_string());
    let astray = ["--param", "x=../secret", "--wait"];
    server.run(&[&["job", "run", "default/makes"][..], &astray].concat());
    let made = server.json(&["batch", "ls", "--job", "default/makes"])["items"][0]["id"].to_string();
    let made = server.json(&["batch", "show", &made]);
    let message = made["attempts"][0]["message"].to_string();
    assert_eq!(made["result"], "failed", "what it made there counts for nothing: {made}");
    assert!(dir.path().join("secret").exists(), "it has run");
    assert!(message.contains("must not hold the parts . and .."), "{message}");
    let waits = server.json(&["job", "run", "default/waits", "--param", "x=../secret"]);
    let waits = waits["batch"].as_i64().unwrap().to_string();
    std::fs::write(inside.join("there"), "").unwrap();
    let good =
        server.json(&["job", "run", "default/waits", "--param", "out=/dev/null", "--concurrent", "--wait"]);
    assert_eq!(good["result"], "success", "{good}");
    let why = server.json(&["batch", "why", &waits]);
    assert_eq!(why["conditions"][0]["kind"], "path", "the secret is there, and nobody looks for it: {why}");
}

/// OPS-7, PUL-1: what nests too deep for a record that holds it to be read again is refused before it is one, and so are
/// names that a reader of JSON takes for its own, which have no bound on depth at all. One such request stopped a partition
/// for good, the other one the process.
#[test]
fn parameters_that_nest_too_deep_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let start = jiff::Timestamp::now().to_string();
    let create = |key: &str, parameters: Value| {
        let task = json!({"executor": {"group": "default"}, "when": {"once": {"start": start}}, "parameters": parameters});
        server.post("/api/pull/tasks", key, &task)
    };
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    for (levels, wanted) in [(32, 200), (33, 422), (63, 400), (119, 400), (121, 400), (124, 400)] {
        let (status, answer) = create(&format!("deep-{levels}"), json!({"a": nested(levels)}));
        assert_eq!(status, wanted, "{levels} levels: {answer}");
        if status == 422 {
            let rule = "must be at most 32 arrays and objects in one another";
            assert_eq!(
                (&answer["errors"][0]["field"], &answer["errors"][0]["rule"]),
                (&"parameters".into(), &rule.into())
            );
        }
    }
    let raw =
        (0..8).fold(json!("x"), |inner, _| json!({"$serde_json::private::RawValue": inner.to_string()}));
    for (key, path, body) in [
        ("raw-1", "/api/pull/tasks", json!({"parameters": raw})),
        ("raw-2", "/api/jobs/apply", json!({"jobs": [raw]})),
    ] {
        let (status, answer) = server.post(path, key, &body);
        assert_eq!((status, &answer["code"]), (400, &"bad_json".into()), "{answer}");
    }
    assert_eq!(server.json(&["dead-letters", "ls"])["items"], json!([]));
    server.stop();
    let server = Server::start(dir.path());
    run_one(&server, "after");
    let verified = server.run(&["verify", "--journal"]);
    assert_eq!(code(&verified), 0, "{}", text(&verified.stdout));
}

fn run_one(server: &Server, name: &str) {
    server.apply(&json!({"jobs": [{"name": name, "group": "default", "type": "noop"}]}).to_string());
    run_job(server, &format!("default/{name}"));
}

/// DEP-7, OPS-7: texts that a person gives beside a request have bounds, and the answer that quotes them, too. Each of these
/// requests left a dead letter of 1.6 MB.
#[test]
fn long_texts_beside_a_request_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop, inputs: [/nowhere/to/be/seen]}]");
    let batch = server.json(&["job", "run", "default/a"])["batch"].clone();
    let long = "\u{1}".repeat(150_000);
    for (key, path, body, field) in [
        (
            "1",
            format!("/api/batches/{batch}/override"),
            json!({"what": {"path": long}, "reason": "r"}),
            "what.path",
        ),
        (
            "2",
            format!("/api/batches/{batch}/override"),
            json!({"what": {"third_party": long}, "reason": "r"}),
            "what.third_party",
        ),
    ] {
        let (status, answer) = server.post(&path, key, &body);
        assert_eq!((status, &answer["errors"][0]["field"]), (422, &field.into()), "{answer}");
        assert!(answer.to_string().len() < 4_000, "{} bytes", answer.to_string().len());
    }
    assert_eq!(server.json(&["dead-letters", "ls"])["items"], json!([]));
}
