//! DEP-2, DEP-6, DEP-7, DEP-9, DQ-1, DQ-2: what batches wait for outside, through the command line and REST.

use crate::server::{Server, code, run_job, text, until};
use serde_json::{Value, json};

const NINE: &str = "2026-03-02T09:00:00.000Z";
const TEN: &str = "2026-03-02T10:00:00.000Z";

fn show_until(server: &Server, batch: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    until(what, || Some(server.json(&["batch", "show", batch])).filter(|shown| holds(shown)))
}

fn succeeds(server: &Server, batch: &str) -> Value {
    show_until(server, batch, "it succeeds", |shown| shown["result"] == "success")
}

fn run(server: &Server, job: &str, logical_time: &str) -> String {
    server.json(&["job", "run", job, "--concurrent", "--logical-time", logical_time])["batch"].to_string()
}

fn conditions(server: &Server, batch: &str) -> Vec<(String, String)> {
    let why = server.json(&["batch", "why", batch]);
    let condition = |condition: &Value| {
        assert!(condition["since"].is_string(), "{condition}");
        (condition["kind"].as_str().unwrap().to_owned(), condition["message"].as_str().unwrap().to_owned())
    };
    why["conditions"].as_array().unwrap().iter().map(condition).collect()
}

fn kinds(server: &Server, batch: &str) -> Vec<String> {
    conditions(server, batch).into_iter().map(|(kind, _)| kind).collect()
}

/// DEP-1, EXE-11: interface, owners and prober of one server know each other by one key, also where the interface's alone is set.
#[test]
fn path_is_found_where_the_interfaces_key_alone_is_set() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &[("API__INTERNAL_KEY", "a key of the interface")]);
    until("level 3 stands", || (server.json(&["level", "show"])["level"].as_u64() >= Some(3)).then_some(()));
    server.apply(&format!(
        "jobs: [{{name: a, group: default, type: noop, inputs: ['{}']}}]",
        dir.path().display()
    ));
    let batch = run_job(&server, "default/a");
    until("it succeeds", || (server.json(&["batch", "show", &batch])["result"] == "success").then_some(()));
}

/// JOB-1: what a job waits for is written, shown and exported as it was given; what cannot be is refused by name.
#[test]
fn what_a_job_waits_for_is_accepted_and_exported_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let job = "{name: a, group: default, type: noop, inputs: ['/in/${yyyyMMdd}', {path: 'hdfs://nn:8020/x', \
               mark: _SUCCESS}], outputs: [s3://bucket/out], third_party: [erp], quality_gate: true}";
    server.apply(&format!("jobs: [{job}]"));
    let exported = &server.json(&["job", "export"])["jobs"][0];
    assert_eq!(
        exported["inputs"],
        json!(["/in/${yyyyMMdd}", {"path": "hdfs://nn:8020/x", "mark": "_SUCCESS"}])
    );
    assert_eq!(exported["outputs"], json!(["s3://bucket/out"]));
    assert_eq!((&exported["third_party"], &exported["quality_gate"]), (&json!(["erp"]), &json!(true)));
    let again = server.apply(&format!("jobs: [{}]", serde_json::to_string(exported).unwrap()));
    assert_eq!(again["changes"][0]["change"], "unchanged", "{again}");
    for (field, wrong) in [
        ("inputs[0]", "inputs: [data]"),
        ("inputs[0]", "inputs: ['/a/${yyy']"),
        ("outputs[1]", "outputs: [/a, /a]"),
        ("inputs[0].mark", "inputs: [{path: /a, mark: a/b}]"),
        ("third_party[0]", "third_party: ['']"),
    ] {
        let file = dir.path().join("wrong.yaml");
        std::fs::write(&file, format!("jobs: [{{name: b, group: default, type: noop, {wrong}}}]")).unwrap();
        let refused = server.run(&["job", "apply", "-f", file.to_str().unwrap()]);
        assert_ne!(code(&refused), 0);
        assert!(text(&refused.stderr).contains(field), "{wrong}: {}", text(&refused.stderr));
    }
}

/// GEN-1, TBL-1: a batch's output paths are resolved for its logical time when it is generated, and stay so: they are in
/// its event and its table, and are shown by REST and the command line, though the job names others later.
#[test]
fn output_paths_of_a_batch_are_resolved_at_generation_and_stored() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let job = |outputs: &str| {
        format!(
            "jobs: [{{name: a, group: default, type: noop, parameters: {{lake: /lake}}, outputs: {outputs}}}]"
        )
    };
    server.apply(&job(
        "['${param.lake}/${yyyyMMdd}', {path: '/y/${yyyyMMdd-1d}', mark: _SUCCESS}, '/lake/${yyyyMMdd}']",
    ));
    let batch = run(&server, "default/a", NINE);
    succeeds(&server, &batch);
    server.apply(&job("[/elsewhere]"));
    let day = NINE[..10].replace('-', "");
    let eve: tidemill_model::Timestamp = NINE.parse().unwrap();
    let eve = (eve - jiff::SignedDuration::from_hours(24)).to_string()[..10].replace('-', "");
    let lake = json!({"path": format!("/lake/{day}"), "mark": null});
    let expected = json!([lake, {"path": format!("/y/{eve}"), "mark": "_SUCCESS"}]);
    assert_eq!(server.json(&["batch", "show", &batch])["outputs"], expected);
    let shown = text(&server.run(&["batch", "show", &batch]).stdout);
    assert!(shown.contains("\noutputs\n") && shown.contains(&format!("/y/{eve}")), "{shown}");
    let event = &server.events("batch.generated", 1)[0];
    assert_eq!(event["outputs"][1], json!({"path": format!("/y/{eve}"), "mark": "_SUCCESS"}));
    assert_eq!(server.get(&format!("/api/batches/{batch}")).1["outputs"], expected);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// DEP-2: a batch waits for a third party's report, by command line or REST; a report that came before is seen by a
/// batch that is generated later, even of a job that is defined later.
#[test]
fn third_partys_reports_release_batches_and_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let early = json!({"code": "erp", "logical_time": NINE});
    assert_eq!(server.post("/api/third-party", "r-1", &early).0, 200);
    server.apply("jobs: [{name: a, group: default, type: noop, third_party: [erp]}]");
    let seen = run(&server, "default/a", NINE);
    succeeds(&server, &seen);
    let batch = run(&server, "default/a", TEN);
    let why = conditions(&server, &batch);
    assert_eq!(
        why[0],
        ("third_party".to_owned(), format!("third party's erp for {TEN} is not reported ready"))
    );
    let shown = server.json(&["batch", "show", &batch]);
    assert_eq!(
        (&shown["external_dependencies"][0]["code"], &shown["external_dependencies"][0]["satisfied"]),
        (&json!("erp"), &json!(false))
    );
    server.json(&["third-party", "report", "erp", "--logical-time", TEN]);
    let shown = succeeds(&server, &batch);
    assert_eq!(shown["external_dependencies"][0]["satisfied"], true);
    server.json(&["third-party", "report", "erp", "--logical-time", NINE, "--not-ready"]);
    let listed = until("the reports", || {
        let listed = server.json(&["third-party", "ls", "--code", "erp"]);
        Some(listed["items"].clone()).filter(|items| items[0]["ready"] == false)
    });
    assert_eq!((listed.as_array().unwrap().len(), &listed[1]["reported_by"]), (2, &json!("admin")));
    let (status, refused) = server.post("/api/third-party", "r-2", &json!({"code": "", "logical_time": TEN}));
    assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!("code")), "{refused}");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// DEP-6: just before start the worker looks again. A path that is gone by then is withdrawn for every batch that waits
/// for it, and the batches wait until it comes back.
#[test]
fn worker_finds_a_path_gone_and_all_wait_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let path = dir.path().join("input");
    let input = path.display();
    server.apply(&format!(
        "jobs: [{{name: a, group: default, type: noop, inputs: ['{input}']}}, \
         {{name: b, group: default, type: noop, inputs: ['{input}']}}]"
    ));
    let worker =
        until("a worker", || Some(server.json(&["worker", "ls"])["items"][0]["id"].as_str()?.to_owned()));
    server.json(&["worker", "drain", &worker]);
    std::fs::write(&path, "").unwrap();
    let batches = ["default/a", "default/b"].map(|job| run(&server, job, TEN));
    for batch in &batches {
        until("the path is found", || (kinds(&server, batch) == ["drained"]).then_some(()));
    }
    std::fs::remove_file(&path).unwrap();
    server.json(&["worker", "resume", &worker]);
    for batch in &batches {
        until("it waits again", || (kinds(&server, batch) == ["path"]).then_some(()));
    }
    let returned = |batch: &String| {
        let shown = server.json(&["batch", "show", batch]);
        let returned = shown["returned"].as_array().unwrap().clone();
        (!returned.is_empty()).then(|| (shown["external_dependencies"][0].clone(), returned[0].clone()))
    };
    let (external_dependency, returned) = until("what the worker said", || batches.iter().find_map(returned));
    assert_eq!(
        (&external_dependency["satisfied"], &external_dependency["revoked_by"]),
        (&json!(false), &json!(worker)),
        "{external_dependency}"
    );
    assert!(returned["message"].as_str().unwrap().contains(&format!("path {input}")), "{returned}");
    std::fs::write(&path, "").unwrap();
    for batch in &batches {
        assert_eq!(succeeds(&server, batch)["external_dependencies"][0]["satisfied"], true);
    }
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// DEP-7: a person lets a batch run without one condition, then without the rest; who and why are on record.
#[test]
fn overridden_conditions_are_waited_for_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let missing = dir.path().join("missing");
    server.apply(&format!(
        "jobs: [{{name: p, group: default, type: shell, command: exit 1}}, {{name: c, group: default, type: noop, \
         inputs: [{}], third_party: [erp], parents: [p]}}]",
        missing.display()
    ));
    let parent = run(&server, "default/p", TEN);
    show_until(&server, &parent, "the parent fails", |shown| shown["result"] == "failed");
    let batch = until("the child", || {
        let batches = server.json(&["batch", "ls", "--job", "default/c"]);
        Some(batches["items"].as_array()?.first()?["id"].to_string())
    });
    assert_eq!(kinds(&server, &batch), ["dependency", "path", "third_party"]);
    let wrong = ["batch", "override", &batch, "--path", "/other", "--reason", "x"];
    assert!(text(&server.run(&wrong).stderr).contains("it has no unmet path /other"));
    let none = server.run(&["batch", "override", &batch, "--all", "--reason", " "]);
    assert!(text(&none.stderr).contains("reason"), "{}", text(&none.stderr));
    let path = missing.to_str().unwrap();
    server.json(&["batch", "override", &batch, "--path", path, "--reason", "came by mail"]);
    assert_eq!(kinds(&server, &batch), ["dependency", "third_party"]);
    server.json(&["batch", "override", &batch, "--parent", "default/p", "--reason", "done by hand"]);
    assert_eq!(kinds(&server, &batch), ["third_party"]);
    let rest = json!({"what": "all", "reason": "it is late"});
    assert_eq!(server.post(&format!("/api/batches/{batch}/override"), "o-1", &rest).0, 200);
    let shown = succeeds(&server, &batch);
    let reasons: Vec<&str> = shown["dependency_overrides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["came by mail", "done by hand", "it is late"]);
    assert_eq!((&shown["dependency_overrides"][0]["by"], &shown["unmet"]), (&json!("admin"), &json!(0)));
    assert!(
        shown["external_dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .all(|external_dependency| external_dependency["overridden_at"].is_string())
    );
    let (status, refused) = server.post(&format!("/api/batches/{batch}/override"), "o-2", &rest);
    assert_eq!((status, &refused["code"]), (409, &json!("batch_already_finished")), "{refused}");
    let (status, refused) = server.post(
        &format!("/api/batches/{batch}/override"),
        "o-3",
        &json!({"what": "some", "reason": "x"}),
    );
    assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!("what")), "{refused}");
    assert_eq!(server.events("dependency.overridden", 3)[0]["by"]["app"], "admin");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// DQ-1: once all else is met the quality service is to be asked, and nothing waits for it. DQ-2: refused, the batch
/// stays with the reason, and people are told; its call back lets it run.
#[test]
fn quality_gate_holds_a_batch_until_it_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.apply("jobs: [{name: a, group: default, type: noop, third_party: [erp], quality_gate: true}]");
    let batch = run(&server, "default/a", TEN);
    assert_eq!(kinds(&server, &batch), ["third_party", "quality_gate"]);
    let quality = |state: &'static str| {
        show_until(&server, &batch, state, |shown| shown["quality"]["state"] == state)["quality"].clone()
    };
    assert_eq!(quality("waiting")["asked"], 0);
    server.json(&["third-party", "report", "erp", "--logical-time", TEN]);
    until("it is asked", || kinds(&server, &batch).iter().all(|kind| kind == "quality_gate").then_some(()));
    until("the question", || {
        let shown = server.json(&["batch", "show", &batch]);
        (shown["quality"]["asked"] == 1).then_some(())
    });
    let call = format!("/api/batches/{batch}/quality");
    let word = json!({"allowed": false, "reason": "too few rows"});
    assert_eq!(server.post(&call, "q-1", &word).0, 200);
    assert_eq!(quality("refused")["reason"], "too few rows");
    let why = conditions(&server, &batch);
    assert!(why[0].1.contains("too few rows"), "{why:?}");
    let alarm = &server.events("alarm.raised", 1)[0];
    assert_eq!((&alarm["kind"], &alarm["severity"]), (&json!("quality_refused"), &json!("important")));
    server.json(&["batch", "quality", &batch, "allow", "--reason", "looked at"]);
    let shown = succeeds(&server, &batch);
    assert_eq!(
        (&shown["quality"]["state"], &shown["quality"]["answered_by"]),
        (&json!("allowed"), &json!("admin"))
    );
    let (status, refused) = server.post(&call, "q-2", &word);
    assert_eq!((status, &refused["code"]), (409, &json!("batch_already_finished")), "{refused}");
}

/// DQ-2: without an answer the question is asked again after the group's time, and people are told once after n.
#[test]
fn unanswered_questions_are_asked_again_and_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let group = server.json(&["group", "ls"])["items"][0].clone();
    let mut settings = group["settings"].clone();
    (settings["quality_retry_ms"], settings["quality_alarm_after"]) = (json!(200), json!(2));
    let changed = json!({"name": "default", "worker_key": group["worker_key"], "settings": settings});
    let (status, answer) = server.post("/api/groups", "g-1", &changed);
    assert_eq!(status, 200, "{answer}");
    server.apply("jobs: [{name: a, group: default, type: noop, quality_gate: true}]");
    run(&server, "default/a", TEN);
    let numbers: Vec<Value> =
        server.events("quality.requested", 4).iter().map(|asked| asked["number"].clone()).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let alarm = &server.events("alarm.raised", 1)[0];
    assert_eq!(alarm["kind"], "quality_unanswered", "{alarm}");
    assert!(alarm["message"].as_str().unwrap().contains("asked 2 times"), "{alarm}");
}

/// DEP-9: a pass now, for one batch and for everything, is on record with who asked for it.
#[test]
fn operators_ask_for_a_pass_now() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let missing = dir.path().join("missing");
    server
        .apply(&format!("jobs: [{{name: a, group: default, type: noop, inputs: [{}]}}]", missing.display()));
    let batch = run(&server, "default/a", TEN);
    assert_eq!(kinds(&server, &batch), ["path"]);
    server.json(&["probe", "run", "--batch", &batch]);
    server.json(&["probe", "run"]);
    let asked = server.events("probes.requested", 3);
    // Of the batch; the catalogue's request, and the group that heard it.
    let of_batch = asked.iter().filter(|asked| asked["batch"].as_i64() == batch.parse().ok());
    let of_all = asked.iter().filter(|asked| asked["batch"].is_null() && asked["by"]["app"] == "admin");
    assert_eq!((of_batch.count(), of_all.count()), (1, 2), "{asked:?}");
    server.json(&["batch", "override", &batch, "--all", "--reason", "late"]);
    succeeds(&server, &batch);
    let refused = server.run(&["probe", "run", "--batch", &batch]);
    assert!(text(&refused.stderr).contains("has already finished"), "{}", text(&refused.stderr));
    assert_eq!(server.json(&["probe", "late"])["items"], json!([]));
}
