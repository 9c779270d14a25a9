//! GEN-6, GEN-7, GEN-8, BYD-3 and the clearing of BYD-16: reruns and cold starts through the command line and REST.

use std::collections::BTreeSet;

use crate::server::{Server, code, text, until};
use serde_json::{Value, json};

/// Three days of a span that no schedule reaches.
const DAYS: [&str; 3] = ["2026-03-01T00:00:00.000Z", "2026-03-02T00:00:00.000Z", "2026-03-03T00:00:00.000Z"];
const SPAN: [&str; 4] = ["--from", DAYS[0], "--to", DAYS[2]];

/// `a` → `b` → `c` every day, `bad` that fails until a file is there, and an hourly one.
fn fixture(data: &std::path::Path) -> Server {
    let server = Server::start(data);
    let daily = "schedule: {period: day, zone: UTC}, max_concurrent: 10";
    server.apply(&format!(
        "jobs:\n\
        - {{name: a, group: default, type: noop, {daily}}}\n\
        - {{name: b, group: default, type: noop, parents: [a], {daily}}}\n\
        - {{name: c, group: default, type: noop, parents: [b], {daily}}}\n\
        - {{name: bad, group: default, type: shell, command: 'test -e {0}/good', {daily}}}\n\
        - {{name: after, group: default, type: noop, parents: [bad], {daily}}}\n\
        - {{name: slow, group: default, type: shell, command: exec sleep 1000, {daily}}}\n\
        - {{name: idle, group: default, type: noop, enabled: false, {daily}}}\n\
        - {{name: hourly, group: default, type: noop, schedule: {{period: hour, zone: UTC}}}}\n",
        data.display()
    ));
    server
}

fn with<'a>(words: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [words, more].concat()
}

/// The fields of the batches of a plan.
fn batches(server: &Server, rerun: &Value, fields: &[&str]) -> Vec<Value> {
    let listed = server.json(&["rerun", "batches", &rerun.to_string()]);
    let shown = |item: &Value| fields.iter().map(|field| item[field].clone()).collect::<Value>();
    listed["items"].as_array().unwrap().iter().map(shown).collect()
}

fn run_by_hand(server: &Server, job: &str, time: &str, result: &str) -> i64 {
    let batch =
        server.json(&["job", "run", job, "--concurrent", "--logical-time", time])["batch"].as_i64().unwrap();
    until(&format!("{job} is {result}"), || {
        let shown = server.json(&["batch", "show", &batch.to_string()]);
        (shown["result"] == result || shown["state"] == result).then_some(())
    });
    batch
}

/// GEN-6, GEN-7: a rerun shows its plan before it starts, each batch with its number, its run and what it waits for;
/// once approved, exactly that runs, and its counters say so.
#[test]
fn plan_is_shown_approved_and_run() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    run_by_hand(&server, "default/b", DAYS[1], "finished");
    let planned = server.json(&with(&["rerun", "plan", "default/a", "--cascade", "logic"], &SPAN));
    let (rerun, state) = (&planned["id"], &planned["state"]);
    assert_eq!((state, &planned["planned"], &planned["started"]), (&json!("planned"), &json!(9), &json!(0)));
    let plan = batches(&server, rerun, &["number", "job_name", "logical_time", "run", "after", "state"]);
    assert_eq!(plan[0], json!([1, "a", DAYS[0], null, [], "planned"]));
    assert_eq!(plan[1], json!([2, "b", DAYS[0], null, [1], "planned"]));
    assert_eq!(plan[4], json!([5, "b", DAYS[1], 2, [4], "planned"]));
    let jobs = server.json(&["rerun", "show", &rerun.to_string()]);
    assert_eq!((&jobs["plan"][0]["job_name"], &jobs["plan"][0]["touches"]), (&json!("default/a"), &json!(2)));

    let output = server.run(&["rerun", "approve", &rerun.to_string(), "--wait"]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let shown = server.json(&["rerun", "show", &rerun.to_string()]);
    let sum: i64 =
        ["succeeded", "failed", "skipped", "blocked"].iter().map(|it| shown[it].as_i64().unwrap()).sum();
    assert_eq!(sum, 9, "{shown}");
    let listed = server.json(&["batch", "ls", "--job", "default/a", "--limit", "10"]);
    let origins: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().map(|batch| &batch["origin"]).collect();
    assert_eq!(origins, [&json!("rerun"); 3]);
    assert_eq!(listed["items"][0]["rerun"], *rerun);
}

/// BYD-3: only what failed, only what is missing, the newest first, the recorded definition; what comes after a
/// batch that failed for good is blocked, and the exit code says so.
#[test]
fn choices_of_a_rerun() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let all = ["rerun", "plan", "default/bad", "--cascade", "logic", "--yes", "--wait"];
    let output = server.run(&with(&all, &SPAN));
    assert_eq!(code(&output), 10, "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("6 planned, 0 succeeded, 3 failed, 0 skipped, 3 blocked"));

    let times = |only: &str, job: &str| {
        let words = ["rerun", "plan", job, "--only", only, "--order", "newest"];
        let planned = server.json(&with(&words, &SPAN));
        batches(&server, &planned["id"], &["logical_time"])
    };
    let newest_first: Vec<Value> = DAYS.iter().rev().map(|day| json!([day])).collect();
    assert_eq!(times("failed", "default/bad"), newest_first);
    assert_eq!(times("missing", "default/bad"), Vec::<Value>::new());
    assert_eq!(times("missing", "default/after"), newest_first);
    assert_eq!(times("failed", "default/after"), Vec::<Value>::new());

    // Today's definition would succeed; the recorded one still fails.
    server.apply(
        "jobs:\n- {name: bad, group: default, type: shell, command: 'true', max_concurrent: 10, \
         schedule: {period: day, zone: UTC}}\n",
    );
    let words = ["rerun", "plan", "default/bad", "--only", "failed", "--yes", "--wait"];
    let recorded = server.run(&[&words[..], &SPAN, &["--definition", "recorded"]].concat());
    assert_eq!(code(&recorded), 10, "{}{}", text(&recorded.stdout), text(&recorded.stderr));
    let today = server.run(&with(&words, &SPAN));
    assert_eq!(code(&today), 0, "{}{}", text(&today.stdout), text(&today.stderr));
}

/// GEN-7: pause, resume and cancel; a changed definition makes a plan out of date, by name.
#[test]
fn rerun_is_paused_cancelled_and_out_of_date() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let words = ["rerun", "plan", "default/slow", "--concurrency", "1"];
    let rerun = server.json(&with(&words, &SPAN))["id"].to_string();
    let pause = server.run(&["rerun", "pause", &rerun]);
    assert_eq!(code(&pause), 3, "{}", text(&pause.stderr));
    assert!(text(&pause.stderr).contains("only a running one can be paused"), "{}", text(&pause.stderr));
    server.json(&["rerun", "approve", &rerun]);
    server.json(&["rerun", "pause", &rerun]);
    server.json(&["rerun", "resume", &rerun]);
    until("the first one runs", || {
        let batches = server.json(&["batch", "ls", "--job", "default/slow", "--state", "running"]);
        (batches["items"].as_array()?.len() == 1).then_some(())
    });
    server.json(&["rerun", "cancel", &rerun, "--kill"]);
    let over = until("it is over", || {
        Some(server.json(&["rerun", "show", &rerun])).filter(|shown| shown["state"] == "cancelled")
    });
    assert_eq!((&over["started"], &over["failed"]), (&json!(1), &json!(1)), "{over}");

    let rerun = server.json(&with(&["rerun", "plan", "default/a"], &SPAN))["id"].to_string();
    server.apply(
        "jobs:\n- {name: a, group: default, type: noop, comment: other, schedule: {period: day, zone: UTC}}\n",
    );
    let output = server.run(&["rerun", "approve", &rerun]);
    assert_eq!(code(&output), 3);
    assert!(text(&output.stderr).contains("default/a changed since"), "{}", text(&output.stderr));
}

/// BYD-16: one batch and all that comes after it run again, in one request.
#[test]
fn batch_and_all_after_it_are_cleared() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let output =
        server.run(&with(&["rerun", "plan", "default/a", "--cascade", "logic", "--yes", "--wait"], &SPAN));
    assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));
    let listed = server.json(&["batch", "ls", "--job", "default/b", "--from", DAYS[1], "--to", DAYS[2]]);
    let batch = listed["items"][0]["id"].to_string();
    let output = server.run(&["batch", "clear", &batch, "--yes", "--wait", "--reason", "late data"]);
    assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));
    let reruns = server.json(&["rerun", "ls"]);
    let cleared = &reruns["items"][0];
    let ran = batches(&server, &cleared["id"], &["job_name", "logical_time", "run", "after", "state"]);
    let second = |job: &str, after: Value| json!([job, DAYS[1], 2, after, "success"]);
    assert_eq!(ran, [second("b", json!([])), second("c", json!([1]))]);
    assert_eq!(cleared["reason"], "late data");
}

/// C4; GEN-8: the three forms of a cold start leave out jobs with an unfinished batch in the span; each is on record,
/// and the administrators hear of them once for each cold start. Only super-administrators may.
#[test]
fn cold_start_leaves_out_what_is_unfinished_on_record() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let busy = run_by_hand(&server, "default/slow", DAYS[1], "running");
    std::fs::write(dir.path().join("good"), "").unwrap();
    let forms: [(&[&str], i64); 3] =
        [(&[], 5 * 3), (&["--group", "default"], 5 * 3), (&["default/a", "default/slow"], 3)];
    for (form, wanted) in forms {
        let words = ["cold-start", "--period", "day", "--yes", "--wait"];
        let output = server.run(&[&words[..], form, &SPAN].concat());
        assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));
        let newest = server.json(&["rerun", "ls", "--limit", "1"])["items"][0].clone();
        let counts = ["planned", "succeeded", "jobs_skipped"].map(|field| newest[field].as_i64().unwrap());
        assert_eq!((newest["kind"].as_str(), counts), (Some("cold_start"), [wanted, wanted, 1]), "{newest}");
        let shown = server.json(&["rerun", "show", &newest["id"].to_string()]);
        let skip = &shown["left_out"][0];
        let told = ["job_name", "reason", "batch", "logical_time"].map(|field| skip[field].clone());
        assert_eq!(told, [json!("default/slow"), json!("unfinished"), json!(busy), json!(DAYS[1])]);
    }
    let words = ["events", "tail", "--from", "start", "--type", "alarm.raised", "--limit", "3", "-o", "json"];
    let feed = text(&server.run(&words).stdout);
    let alarms: Vec<Value> = feed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: BTreeSet<&str> =
        alarms.iter().map(|alarm| alarm["data"]["message"].as_str().unwrap()).collect();
    assert!(alarms.iter().all(|alarm| alarm["data"]["kind"] == "cold_start_skipped"), "{feed}");
    assert!(messages.len() == 3 && messages.iter().all(|it| it.ends_with("default/slow")), "{messages:?}");
    let rows = server.json(&["batch", "ls", "--job", "default/a", "--limit", "20"]);
    let origins = rows["items"].as_array().unwrap().iter().filter(|batch| batch["origin"] == "cold_start");
    assert_eq!(origins.count(), 9);

    let key = server.json(&["key", "apply", "etl", "--role", "administrator"]);
    let key = key["key"].as_str().unwrap();
    let refused = until("the key counts", || {
        let words = ["cold-start", "--period", "day", "--key", key];
        Some(server.run(&with(&words, &SPAN))).filter(|output| !text(&output.stderr).contains("401"))
    });
    assert_eq!(code(&refused), 3, "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("super_administrator"), "{}", text(&refused.stderr));
}

/// What a cascade from this job plans of others, and what it leaves out.
fn reached(server: &Server, job: &str, cascade: &str, span: &[&str]) -> (Vec<Value>, Value) {
    let name = format!("default/{job}");
    let planned = server.json(&[&["rerun", "plan", &name, "--cascade", cascade][..], span].concat());
    let mut batches = batches(server, &planned["id"], &["job_name", "logical_time"]);
    batches.retain(|batch| batch[0] != job);
    let shown = server.json(&["rerun", "show", &planned["id"].to_string()]);
    (batches, shown["left_out"].clone())
}

/// GEN-6: with a cascade the report of a day follows its hours, though it is of a later logical time; with a narrower reach
/// it does not, and the plan says so.
#[test]
fn cascade_follows_later_logical_times() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    server.apply(
        "jobs:\n\
        - {name: report, group: default, type: noop, parents: [{job: hourly, mapping: all}], \
           schedule: {period: day, zone: UTC}}\n",
    );
    let hours = ["--from", "2026-03-01T01:00:00.000Z", "--to", "2026-03-01T23:00:00.000Z"];
    let (follows, left_out) = reached(&server, "hourly", "logic", &hours);
    assert_eq!((follows, left_out), (vec![json!(["report", DAYS[1]])], json!([])));
    let (follows, left_out) = reached(&server, "hourly", "logic", &with(&hours, &["--reach", hours[3]]));
    assert_eq!(follows, Vec::<Value>::new());
    let told = ["job_name", "reason", "logical_time"].map(|field| left_out[0][field].clone());
    assert_eq!(told, [json!("default/report"), json!("beyond_reach"), json!(DAYS[1])]);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// GEN-6: by data, paths are resolved for each logical time: what reads yesterday's path comes a day later, and what reads
/// the job's own day under another template, the same day.
#[test]
fn cascade_by_data_matches_paths_as_they_are_resolved() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let daily = "schedule: {period: day, zone: UTC}";
    server.apply(&format!(
        "jobs:\n\
        - {{name: writes, group: default, type: noop, outputs: ['/d/${{yyyyMMdd}}'], {daily}}}\n\
        - {{name: reads, group: default, type: noop, inputs: ['/d/${{yyyyMMdd-1d}}'], {daily}}}\n\
        - {{name: parts, group: default, type: noop, inputs: ['/d/${{yyyy}}${{MMdd}}'], {daily}}}\n"
    ));
    let (follows, left_out) = reached(&server, "writes", "data", &["--from", DAYS[0], "--to", DAYS[0]]);
    assert_eq!(follows, [json!(["parts", DAYS[0]]), json!(["reads", DAYS[1]])]);
    assert_eq!(left_out, json!([]));
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// Bad requests are refused with the field, its value and the rule, and nothing is planned.
#[test]
fn bad_specs_name_their_field() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let body = |more: Value| {
        let mut body = json!({"jobs": ["default/a"], "from": DAYS[0], "to": DAYS[2]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (more, status, field) in [
        (json!({"to": "2999-01-01T00:00:00.000Z"}), 422, "to"),
        (json!({"from": "2026-04-01T00:00:00.000Z"}), 422, "from"),
        (json!({"concurrency": 0}), 422, "concurrency"),
        (json!({"jobs": []}), 422, "jobs"),
        (json!({"jobs": ["a"]}), 422, "jobs[0]"),
        (json!({"jobs": ["default/nobody"]}), 404, "job"),
        (json!({"cascade": "logic", "subset": ["default/b"]}), 422, "subset"),
    ] {
        let (got, answer) =
            server.post("/api/reruns", &format!("bad-{field}-{status}-{more}"), &body(more.clone()));
        assert_eq!((got, answer["errors"][0]["field"].as_str()), (status, Some(field)), "{more}: {answer}");
    }
    let cold = json!({"period": "day", "jobs": ["default/idle"], "from": DAYS[0], "to": DAYS[2]});
    let off = server.post("/api/cold-starts", "off", &cold);
    assert_eq!((off.0, off.1["code"].as_str()), (409, Some("job_disabled")), "{}", off.1);
    assert_eq!(server.json(&["rerun", "ls"])["items"], json!([]));
}

/// DSP-1: a disabled job is run by hand and rerun, one batch or a span, and each answer says that it is disabled; its
/// batch that a parent made waits until it is enabled.
#[test]
fn disabled_job_is_run_by_hand_and_rerun() {
    const SAID: &str = "is disabled: this runs nevertheless";
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    server.apply(
        "jobs:\n- {name: root, group: default, type: shell, command: 'true'}\n\
         - {name: leaf, group: default, type: noop, parents: [{job: root, mapping: latest}]}\n",
    );
    let is_told = |answer: &Value| answer["warnings"][0].as_str().is_some_and(|told| told.contains(SAID));
    server.json(&["freeze", "set", "--group", "default", "--latest", DAYS[0], "--reason", "test"]);
    server.json(&["job", "run", "default/root", "--logical-time", DAYS[1]]);
    let waits = until("its child has a batch", || {
        let listed = server.json(&["batch", "ls", "--job", "default/leaf"]);
        listed["items"][0]["id"].as_i64()
    });
    server.json(&["job", "disable", "default/leaf"]);
    server.json(&["freeze", "lift", "--group", "default"]);

    let job = server.json(&["job", "show", "default/leaf"])["id"].clone();
    let path = format!("/api/jobs/{job}/run");
    let (status, refused) = server.post(&path, "alone", &json!({"logical_time": DAYS[0]}));
    assert_eq!((status, refused["code"].as_str()), (409, Some("job_unfinished")), "{refused}");
    assert!(
        refused["detail"].as_str().unwrap().contains(&format!("batch {waits} for {}", DAYS[1])),
        "{refused}"
    );
    let (status, run) = server.post(&path, "beside", &json!({"logical_time": DAYS[0], "concurrent": true}));
    assert!(status == 200 && is_told(&run), "{status} {run}");
    let is_success = |batch: &Value| {
        until("it succeeds", || {
            (server.json(&["batch", "show", &batch.to_string()])["result"] == "success").then_some(())
        });
    };
    is_success(&run["batch"]);
    let again = server.json(&["batch", "rerun", &run["batch"].to_string()]);
    assert!(is_told(&again), "{again}");
    is_success(&again["batch"]);
    let told = server.run(&["batch", "rerun", &again["batch"].to_string(), "--wait"]);
    assert!(code(&told) == 0 && text(&told.stdout).contains(SAID), "{}", text(&told.stdout));
    let planned = server.json(&with(&["rerun", "plan", "default/idle"], &SPAN));
    assert!(is_told(&planned) && planned["planned"] == 3, "{planned}");
    let output = server.run(&["rerun", "approve", &planned["id"].to_string(), "--wait"]);
    assert_eq!(code(&output), 0, "{}{}", text(&output.stdout), text(&output.stderr));

    let why = server.json(&["batch", "why", &waits.to_string()])["conditions"].clone();
    assert!(why.as_array().unwrap().iter().any(|condition| condition["kind"] == "disabled"), "{why}");
    server.json(&["job", "enable", "default/leaf"]);
    is_success(&json!(waits));
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}
