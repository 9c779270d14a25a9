//! Every field of a job: kept and shown, or refused by name; through the command line and REST.

use std::collections::BTreeSet;
use std::fs;

use crate::server::{Server, code, run_job, text, until};
use serde_json::{Value, json};

/// A value of a field, and what has to stand beside it.
struct Case {
    value: Value,
    beside: Value,
}

/// What is tried of each field; a field that is not here fails the test.
fn tried(field: &str) -> Option<Case> {
    let (value, beside) = match field {
        "name" | "group" | "type" => return None,
        // Said once, at a renaming: there is no job of that name, so it is refused.
        "previous_name" => (json!("nobody"), json!({})),
        "owner" => (json!("ann"), json!({})),
        "app_name" => (json!("loader"), json!({})),
        "command" => (json!("echo here"), json!({})),
        "program" => (json!("/bin/true"), json!({})),
        "class" => (json!("x.Main"), json!({})),
        "arguments" => (json!(["one", "${yyyy}"]), json!({})),
        "parameters" => (json!({"city": "Ulm"}), json!({})),
        "business_type" => (json!("billing"), json!({})),
        "comment" => (json!("why"), json!({})),
        "priority" => (json!(3), json!({})),
        "schedule" => (json!({"cron": "0 0 3 * * ?", "zone": "Europe/Berlin"}), json!({})),
        "parents" => (json!([{"job": "first", "mapping": "latest"}]), json!({})),
        "depends_on_past" => (json!(true), json!({})),
        "on_parent_failure" => (json!("fail"), json!({"parents": ["first"]})),
        "run_if" => (json!("failure"), json!({"parents": ["first"]})),
        "max_concurrent" => (json!(3), json!({})),
        "retries" => (json!(2), json!({})),
        "retry_interval_s" => (json!(7), json!({})),
        "retry_backoff" => (json!({"factor": 2.0, "max_interval_s": 100, "jitter": true}), json!({})),
        "exit_codes" => (json!({"no_retry": [3], "skip": [4]}), json!({})),
        "host" => (json!("elsewhere"), json!({})),
        "earliest_start_minutes" => (json!(5), json!({})),
        "memory_mb" => (json!(64), json!({})),
        "limits" => (json!({"memory_mb": 64, "open_files": 128}), json!({})),
        "worker_label" => (json!("big"), json!({})),
        "run_as" => (json!("daemon"), json!({})),
        "logical_time_format" => (json!("yyyyMMdd"), json!({})),
        "success_check" => (json!({"output_path": "/made"}), json!({})),
        "final_command" => (json!("echo over"), json!({})),
        "expected_duration_s" => (json!(9), json!({})),
        "pools" => (json!([{"name": "few", "weight": 2}]), json!({})),
        "missed_runs" => (json!({"policy": "latest", "max_lateness_s": 60}), json!({})),
        "overlap" => (json!("skip"), json!({})),
        "valid_from" => (json!("2090-01-01T00:00:00.000Z"), json!({})),
        "valid_until" => (json!("2091-01-01T00:00:00.000Z"), json!({})),
        "calendar" => (json!({"name": "cn", "on": "holidays"}), json!({})),
        "dependency_timeout_s" => (json!(11), json!({})),
        "output_timeout_s" => (json!(12), json!({})),
        "not_successful_by" => (json!("07:00:00"), json!({})),
        "execution_timeout_s" => (json!(13), json!({})),
        "cancel_on_timeout" => (json!(true), json!({"output_timeout_s": 12})),
        "inputs" => (json!([{"path": "/in", "mark": "_SUCCESS"}]), json!({})),
        "outputs" => (json!(["/out"]), json!({})),
        "third_party" => (json!(["ready"]), json!({})),
        "quality_gate" => (json!(true), json!({})),
        "enabled" => (json!(false), json!({})),
        unknown => panic!("the field {unknown} of a job is tried nowhere: say here how"),
    };
    Some(Case { value, beside })
}

/// What `job show` has of a field. Parents are shown by their ids and names.
fn shown_of(job: &Value, field: &str) -> Value {
    match field {
        "parents" => job["parents"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|parent| {
                let name = parent["name"].as_str().unwrap().strip_prefix("default/").unwrap();
                json!({"job": name, "mapping": parent["mapping"]})
            })
            .collect(),
        field => job[field].clone(),
    }
}

/// What the fields are tried on: each way to say what a job runs.
fn bases() -> Vec<(&'static str, Value)> {
    vec![
        ("text", json!({"type": "shell", "command": "true"})),
        ("file", json!({"type": "java", "program": "/a.jar"})),
        ("noop", json!({"type": "noop"})),
        ("anchor", json!({"type": "anchor"})),
    ]
}

fn merged(parts: &[&Value]) -> Value {
    let mut whole = json!({});
    for part in parts {
        for (name, value) in part.as_object().unwrap() {
            whole[name] = value.clone();
        }
    }
    whole
}

/// Writes a file of calendars or pools, and applies it.
fn define(server: &Server, noun: &str, yaml: &str) {
    let file = server.data.join(format!("{noun}.yaml"));
    fs::write(&file, yaml).unwrap();
    server.json(&[noun, "apply", "-f", file.to_str().unwrap()]);
}

/// JOB-1: each field of a job, tried on every kind of job with and without a schedule, is shown by `job show` and
/// exported as it was written, or the job is refused with the field's name. The fields are those of the schema, so
/// that a new one fails this until it is tried.
#[test]
fn every_field_of_a_job_is_kept_or_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let level = || server.json(&["level", "show"])["level"].as_u64().filter(|level| *level >= 3);
    until("the level that all fields need", level);
    define(&server, "calendar", "calendars: [{name: cn}]\n");
    define(&server, "pool", "pools: [{name: few, slots: 5}]\n");
    server.apply("jobs: [{name: first, group: default, type: noop}]");
    let schema = schemars::schema_for!(tidemill_model::JobSpec).to_value();
    let fields: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    let (mut faults, mut kept, mut written) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (base, program) in bases() {
        for schedule in [json!({}), json!({"schedule": {"period": "day", "zone": "UTC"}})] {
            for field in &fields {
                let Some(case) = tried(field) else { continue };
                let name = format!("{base}-{}-{field}", schedule.as_object().unwrap().len());
                let named = json!({"name": name, "group": "default"});
                let given = json!({ field: case.value });
                let job = merged(&[&named, &program, &schedule, &case.beside, &given]);
                let (status, answer) = server.post("/api/jobs/apply", &name, &json!({"jobs": [job]}));
                if status == 200 {
                    kept.insert(field.clone());
                    written.push((name, field.clone(), case));
                } else {
                    let is_named = answer["errors"].as_array().into_iter().flatten().any(|error| {
                        let at = error["field"].as_str().unwrap_or_default();
                        let rule = error["rule"].as_str().unwrap_or_default();
                        at.strip_prefix("jobs[0].").is_some_and(|at| at.starts_with(field.as_str()))
                            || rule.contains(field.as_str())
                    });
                    if !is_named {
                        faults.push(format!("{name}: refused without the field's name: {answer}"));
                    }
                }
            }
        }
    }
    let last = written.last().unwrap().0.clone();
    until("the last one is shown", || {
        (server.get(&format!("/api/groups/default/jobs/{last}")).0 == 200).then_some(())
    });
    let (_, exported) = server.get("/api/jobs/export?group=default");
    let exported = exported["jobs"].as_array().unwrap();
    for (name, field, case) in &written {
        let (_, shown) = server.get(&format!("/api/groups/default/jobs/{name}"));
        if shown_of(&shown, field) != case.value {
            faults.push(format!("{name}: not in {shown}"));
        }
        let spec = exported.iter().find(|spec| spec["name"] == name.as_str()).unwrap();
        if spec[field] != case.value {
            faults.push(format!("{name}: exported as {}", spec[field]));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    let is_kept = |field: &String| tried(field).is_some() && field != "previous_name";
    let all: BTreeSet<String> = fields.into_iter().filter(is_kept).collect();
    assert_eq!(kept, all, "each is taken by some kind of job");
    assert_eq!(server.stop(), Some(0));
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || {
        Some(server.json(&["batch", "show", batch])).filter(|shown| shown["state"] == "finished")
    })
}

fn log(server: &Server, batch: &str) -> String {
    text(&server.run(&["batch", "logs", batch]).stdout)
}

/// JOB-1: a command has its arguments, templates resolved, one each; a class beside a command is refused by name; a
/// type without a place for arguments says so.
#[test]
fn command_has_its_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let types = r#"{"bare": {"command": ["/bin/sh", "{script}"]}}"#;
    let settings = [("EXECUTOR__TYPES", types), ("EXECUTOR__SLOTS", "shell=2,python=2,noop=2,bare=1")];
    let server = Server::start_with(dir.path(), &settings);
    server.apply(
        "jobs:\n\
        - {name: text, group: default, type: shell, parameters: {city: New Ulm}, \
            command: 'echo \"$#:$1:$2\"', arguments: ['${param.city}', '${job}']}\n\
        - {name: snake, group: default, type: python, command: 'import sys; print(sys.argv[1:])', arguments: [a b]}\n\
        - {name: bare, group: default, type: bare, command: 'true', arguments: [a]}\n",
    );
    let batch = run_job(&server, "default/text");
    assert_eq!(ended(&server, &batch)["result"], "success");
    assert_eq!(log(&server, &batch), "2:New Ulm:text\n");
    let batch = run_job(&server, "default/snake");
    assert_eq!(ended(&server, &batch)["result"], "success");
    assert_eq!(log(&server, &batch), "['a b']\n");
    let bare = ended(&server, &run_job(&server, "default/bare"));
    let message = bare["attempts"][0]["message"].as_str().unwrap();
    assert!(
        bare["result"] == "failed" && message.contains("arguments: jobs of type bare take none"),
        "{bare}"
    );

    let refused = json!({"name": "x", "group": "default", "type": "shell", "command": "true", "class": "A"});
    let (status, answer) = server.post("/api/jobs/apply", "class", &json!({"jobs": [refused]}));
    assert_eq!((status, &answer["errors"][0]["field"]), (422, &json!("jobs[0].class")), "{answer}");
    assert!(answer["errors"][0]["rule"].as_str().unwrap().contains("leave it out"), "{answer}");
    assert_eq!(server.stop(), Some(0));
}

/// JOB-5: `apply`, its dry run and `validate` read the directories below the one that they are given; links that lead
/// round in a circle do no harm, and hidden directories are left out.
#[test]
fn directories_below_are_applied() {
    let dir = tempfile::tempdir().unwrap();
    let (jobs, data) = (dir.path().join("jobs"), dir.path().join("data"));
    fs::create_dir_all(jobs.join("etl/daily")).unwrap();
    fs::create_dir_all(jobs.join(".git")).unwrap();
    fs::write(jobs.join("top.yaml"), "jobs: [{name: top, group: default, type: noop}]\n").unwrap();
    let deep = "jobs: [{name: deep, group: default, type: noop, parents: [top]}]\n";
    fs::write(jobs.join("etl/daily/deep.yml"), deep).unwrap();
    fs::write(jobs.join(".git/old.yaml"), "jobs: [{name: old, group: default, type: noop}]\n").unwrap();
    std::os::unix::fs::symlink(&jobs, jobs.join("etl/round")).unwrap();
    let server = Server::start(&data);
    let path = jobs.to_str().unwrap();
    let valid = server.run(&["job", "validate", path]);
    assert_eq!(text(&valid.stdout), "2 jobs in 2 files are good.\n", "{}", text(&valid.stderr));
    let dry = server.json(&["job", "apply", "-f", path, "--dry-run"]);
    let applied = server.json(&["job", "apply", "-f", path]);
    for answer in [dry, applied] {
        let changes = answer["changes"].as_array().unwrap();
        let names: Vec<_> = changes.iter().map(|change| change["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["default/deep", "default/top"]);
    }
    fs::write(jobs.join("etl/daily/deep.yml"), deep.replace("[top]", "[none]")).unwrap();
    let refused = server.run(&["job", "apply", "-f", path]);
    assert_ne!(code(&refused), 0);
    assert!(
        text(&refused.stderr).contains("etl/daily/deep.yml: job deep: parents[0]"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(server.stop(), Some(0));
}

/// DSP-4, OPS-1: slots that are kept and memory are settings of an executor, and have their effect.
#[test]
fn executor_keeps_slots_and_offers_the_memory_that_is_set() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("t.toml");
    fs::write(
        &config,
        "[executor]\nmemory_mb = 64\n[executor.slots]\nshell = 3\nnoop = 1\n\
         [executor.reserved.shell]\nslots = 2\npriority = 1\n",
    )
    .unwrap();
    let server = Server::start_configured(&dir.path().join("data"), &config);
    let worker = until("the worker is known", || {
        server.json(&["worker", "ls"])["items"]
            .get(0)
            .cloned()
            .filter(|worker| !worker["memory_total_mb"].is_null())
    });
    assert_eq!(worker["reserved"], json!({"shell": {"slots": 2, "priority": 1}}), "{worker}");
    assert_eq!(worker["memory_total_mb"], 64, "{worker}");
    server.apply("jobs: [{name: large, group: default, type: shell, command: 'true', memory_mb: 65}]");
    let large = run_job(&server, "default/large");
    let why = server.json(&["batch", "why", &large]);
    assert!(why.to_string().contains("no_memory"), "{why}");
    server.apply("jobs: [{name: small, group: default, type: shell, command: 'true'}]");
    assert_eq!(ended(&server, &run_job(&server, "default/small"))["result"], "success");
    assert_eq!(server.stop(), Some(0));
}

/// JOB-2: a type that neither the configuration nor any worker knows is refused, in the dry run and by submission, too,
/// and changes nothing, unless it is allowed; one that no live worker of the group takes is warned of.
#[test]
fn mistyped_types_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("API__JOB_TYPES", "sql"), ("EXECUTOR__SLOTS", "shell=2,noop=2")];
    let server = Server::start_with(dir.path(), &settings);
    until("the worker is known", || {
        (server.json(&["worker", "ls"])["items"][0]["state"] == "live").then_some(())
    });
    let file = dir.path().join("jobs.yaml");
    let path = file.to_str().unwrap();
    fs::write(&file, "jobs: [{name: a, group: default, type: shel, command: 'true'}]\n").unwrap();
    for arguments in [&["job", "apply", "-f", path][..], &["job", "apply", "-f", path, "--dry-run"]] {
        let refused = server.run(arguments);
        let told = text(&refused.stderr);
        assert_ne!(code(&refused), 0, "{arguments:?}");
        for part in [
            "job a: type: \"shel\": is a type that neither",
            "known are anchor, datahub",
            "--allow-unknown-type",
        ] {
            assert!(told.contains(part), "{arguments:?}: {told}");
        }
    }
    assert_eq!(server.json(&["job", "ls"])["items"], json!([]));
    let valid = server.json(&["job", "validate", path]);
    assert!(valid["warnings"].to_string().contains("runs type shel is not known here"), "{valid}");

    let submission = |job_type: &str| json!({"job_name": "once", "user": "ann", "job_type": job_type, "command": "true", "group_id": 1});
    let (_, answer) = server.post("/api/job/submit", "shel", &submission("shel"));
    assert_eq!(answer["accept"], false, "{answer}");
    assert!(answer.to_string().contains("neither the configuration nor any worker knows"), "{answer}");
    let (_, answer) = server.post("/api/job/submit", "shell", &submission("shell"));
    assert_eq!(answer["accept"], true, "{answer}");

    let allowed = server.json(&["job", "apply", "-f", path, "--allow-unknown-type"]);
    let warning = |job_type: &str| {
        json!([format!(
            "no live worker of group default takes jobs of type {job_type}: their batches wait until one does"
        )])
    };
    assert_eq!(allowed["warnings"], warning("shel"), "{allowed}");
    for (job_type, warnings) in [("spark", warning("spark")), ("sql", warning("sql")), ("shell", json!([]))] {
        let jobs = format!("jobs: [{{name: {job_type}, group: default, type: {job_type}, command: 'true'}}]");
        fs::write(&file, jobs).unwrap();
        for arguments in [&["job", "apply", "-f", path, "--dry-run"][..], &["job", "apply", "-f", path]] {
            assert_eq!(server.json(arguments)["warnings"], warnings, "{job_type}");
        }
    }
    assert_eq!(server.stop(), Some(0));
}

/// JOB-7: a preview resolves every template of a job, for jobs that follow an ancestor's schedule, for jobs without any,
/// and for any logical time; what runs is what it showed.
#[test]
fn preview_shows_what_will_run() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let made = dir.path().join("made");
    let text_of_all =
        "${yyyyMMddHH} ${owner} ${app_name} ${business_type} ${priority} ${type} ${name} ${zone}";
    let job = json!({
        "name": "child", "group": "default", "type": "shell", "owner": "ann", "app_name": "loader",
        "business_type": "billing", "priority": 2, "parents": ["middle"], "logical_time_format": "yyyy.MM.dd",
        "parameters": {"day": "${yyyyMMdd-1d}"},
        "command": format!("mkdir {} || true; echo \"{text_of_all} $1 $TIDEMILL_LOGICAL_TIME $TIDEMILL_PARAM_DAY\"",
            made.display()),
        "arguments": ["${group}:${param.day}"],
        "success_check": {"output_path": format!("{}/${{param.made}}", dir.path().display())},
        "final_command": format!("echo ${{version}} ${{job}} > {}/over", dir.path().display()),
        "outputs": [{"path": "/out/${owner}/${yyyyMMdd}", "mark": "_DONE"}],
    });
    let mut job = merged(&[&job]);
    job["parameters"]["made"] = json!("made");
    let waiting = json!({
        "name": "waiting", "group": "default", "type": "shell", "owner": "ann", "command": "true",
        "inputs": ["/nowhere/${owner}/${yyyyMMdd}/${run}"],
    });
    let jobs = json!([
        {"name": "top", "group": "default", "type": "noop",
            "schedule": {"cron": "0 0 3 * * ?", "zone": "Europe/Berlin"}},
        {"name": "middle", "group": "default", "type": "noop", "parents": ["top"]},
        job, waiting,
    ]);
    let (status, answer) = server.post("/api/jobs/apply", "all", &json!({"jobs": jobs}));
    assert_eq!(status, 200, "{answer}");

    // It follows the schedule two levels above.
    let next =
        server.json(&["job", "preview", "default/child", "-n", "2", "--after", "2026-03-28T00:00:00.000Z"]);
    assert_eq!((&next["zone"], &next["follows"]), (&json!("Europe/Berlin"), &json!("default/top")), "{next}");
    let times: Vec<_> = next["fires"].as_array().unwrap().iter().map(|fire| &fire["logical_time"]).collect();
    assert_eq!(times, ["2026-03-28T03:00:00+01:00", "2026-03-29T03:00:00+02:00"]);
    assert!(next["fires"][0]["at"].is_null(), "{next}");

    // One logical time: what is shown is what runs.
    let at = "2026-03-30T01:00:00.000Z";
    let shown = server.json(&["job", "preview", "default/child", "--at", at]);
    let fire = &shown["fires"][0];
    assert_eq!(fire["outputs"], json!([{"path": "/out/ann/20260330", "mark": "_DONE"}]), "{shown}");
    assert_eq!(fire["output_path"], json!(made), "{shown}");
    assert_eq!(fire["environment"]["TIDEMILL_LOGICAL_TIME"], "2026.03.30", "{shown}");
    assert_eq!(fire["program"]["script"]["arguments"], json!(["default:20260329"]), "{shown}");
    server.json(&["job", "run", "default/top", "--logical-time", at]);
    let batch = until("the child has its batch", || {
        let batches = server.json(&["batch", "ls", "--job", "default/child"]);
        batches["items"].get(0).map(|batch| batch["id"].to_string())
    });
    assert_eq!(ended(&server, &batch)["result"], "success", "{}", log(&server, &batch));
    let line =
        "2026033003 ann loader billing 2 shell child Europe/Berlin default:20260329 2026.03.30 20260329\n";
    assert_eq!(log(&server, &batch), line);
    let expected = fire["command"].as_str().unwrap();
    assert!(expected.contains("2026033003 ann loader billing 2 shell child Europe/Berlin"), "{expected}");
    let over = until("the final command ends", || {
        fs::read_to_string(dir.path().join("over")).ok().filter(|text| text.ends_with('\n'))
    });
    assert_eq!(fire["final_command"].as_str().unwrap().split(" >").next(), Some("echo 1 child"));
    assert_eq!(over, "1 child\n");

    // Without any schedule: in UTC, and the owner waits for the path that was shown.
    let shown = server.json(&["job", "preview", "default/waiting", "--at", at]);
    assert_eq!(shown["zone"], "UTC", "{shown}");
    let path = shown["fires"][0]["inputs"][0]["path"].as_str().unwrap();
    assert_eq!(path, "/nowhere/ann/20260330/0");
    let batch = server.json(&["job", "run", "default/waiting", "--logical-time", at])["batch"].to_string();
    let why = server.json(&["batch", "why", &batch]);
    assert!(why.to_string().contains(path), "{why}");
    let now = server.json(&["job", "preview", "default/waiting"]);
    assert_eq!(now["fires"].as_array().unwrap().len(), 1, "{now}");
    let table = text(&server.run(&["job", "preview", "default/child", "--at", at]).stdout);
    for part in [
        "logical times of default/top",
        "final_command",
        "    default:20260329",
        "TIDEMILL_PARAM_DAY=20260329",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let both = server.get("/api/jobs/4096/preview?n=1&at=2026-03-30T01:00:00.000Z");
    assert_eq!((both.0, &both.1["errors"][0]["field"]), (422, &json!("at")), "{both:?}");

    // A field that the job does not set, and one that no job has.
    for (placeholder, rule) in
        [("host", "names a field that the job does not set"), ("colour", "unknown name")]
    {
        let job = json!({"name": "x", "group": "default", "type": "shell", "command": format!("echo ${{{placeholder}}}")});
        let (status, answer) = server.post("/api/jobs/apply", placeholder, &json!({"jobs": [job]}));
        let error = &answer["errors"][0];
        assert_eq!((status, &error["field"]), (422, &json!("jobs[0].command")), "{answer}");
        assert!(error["rule"].as_str().unwrap().contains(rule), "{answer}");
        assert!(error["value"].as_str().unwrap().contains(placeholder), "{answer}");
    }
    assert_eq!(server.stop(), Some(0));
}
