//! EXE-2, EXE-7: limits of attempts, through job files, REST, the command line and the feed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::server::{Server, TIDEMILL, run_job, text, until};

/// A server on which jobs may have limits.
fn start(data: &std::path::Path) -> Server {
    let server = Server::start(data);
    until("the level is raised", || (server.json(&["level", "show"])["level"].as_u64()? >= 3).then_some(()));
    server
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || {
        Some(server.json(&["batch", "show", batch])).filter(|shown| shown["state"] == "finished")
    })
}

/// The kinds of the events of the feed about this batch, and of its alarms, up to its end.
fn told(server: &Server, batch: &str) -> Vec<String> {
    let mut tail = Command::new(TIDEMILL)
        .args(["events", "tail", "--from", "start", "-o", "json", "--data"])
        .arg(&server.data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut kinds = Vec::new();
    for line in BufReader::new(tail.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["subject"] == format!("batch/{batch}") {
            let kind = event["data"]["kind"].as_str().or(event["type"].as_str()).unwrap();
            kinds.push(kind.to_owned());
        }
        if kinds.last().is_some_and(|kind| kind == "tidemill.batch.finished.v1") {
            break;
        }
    }
    tail.kill().unwrap();
    tail.wait().unwrap();
    kinds
}

/// EXE-2, EXE-7: a job that takes all memory that it can ends at its limit, which REST and the feed say; the jobs beside it run on
/// unharmed. What the worker can keep is shown.
#[test]
fn memory_hog_ends_with_an_excess_and_its_neighbours_run_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let go = dir.path().join("go");
    server.apply(&format!(
        "jobs:\n\
        - {{name: neighbour, group: default, type: shell, command: 'until [ -e {go} ]; do sleep 0.05; done'}}\n\
        - name: hog\n  group: default\n  type: python\n  limits: {{memory_mb: 64}}\n\
        \x20 command: |\n\
        \x20   taken = []\n\
        \x20   while True: taken.append(bytearray(8 << 20))\n",
        go = go.display()
    ));
    let neighbour = run_job(&server, "default/neighbour");
    let hog = run_job(&server, "default/hog");
    let shown = ended(&server, &hog);
    assert_eq!(shown["result"], "failed", "{shown}");
    let (status, batch) = server.get(&format!("/api/batches/{hog}"));
    let attempt = &batch["attempts"][0];
    assert_eq!(
        (status, &attempt["excess"], &attempt["excess_limit"]),
        (200, &json!("memory"), &json!(64)),
        "{batch}"
    );
    assert!(attempt["message"].as_str().unwrap().contains("its limit of 64 MiB"), "{attempt}");
    assert!(attempt["peak_memory_kib"].as_u64().unwrap() >= 60 * 1024, "{attempt}");
    assert!(attempt["peak_processes"].is_u64() && attempt["read_kib"].is_u64(), "{attempt}");
    assert_eq!(attempt["unenforced_limits"], json!([]), "{attempt}");
    let told = told(&server, &hog);
    let is_over = |kind: &String| kind == "tidemill.attempt.over_limit.v1";
    let at = told.iter().position(is_over).unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!(told[at + 1], "over_limit", "{told:?}");

    assert_eq!(server.json(&["batch", "show", &neighbour])["state"], "running");
    std::fs::write(&go, "").unwrap();
    assert_eq!(ended(&server, &neighbour)["result"], "success");

    let worker = server.json(&["worker", "ls"])["items"][0].clone();
    let known = ["control_group", "looks"];
    assert!(known.contains(&worker["limits_kept"]["memory"].as_str().unwrap()), "{worker}");
    let shown = text(&server.run(&["worker", "show", worker["id"].as_str().unwrap()]).stdout);
    assert!(shown.contains("control_group") || shown.contains("looks"), "{shown}");
    assert_eq!(server.stop(), Some(0));
}

/// EXE-2: a job above the maximum of its group is refused by field and advice, and so is a maximum below a job that is there; what
/// the group says holds for jobs that say nothing.
#[test]
fn group_bounds_what_its_jobs_may_name() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let limits = |limits: Value| json!({"limits": limits}).to_string();
    let max = limits(json!({"default": {"open_files": 64}, "max": {"open_files": 100}}));
    server.json(&["group", "apply", "default", "--settings", &max]);
    let job = |open_files: u32| {
        let job = json!({"name": "a", "group": "default", "type": "shell", "command": "ulimit -n", "limits": {"open_files": open_files}});
        server.post("/api/jobs/apply", &format!("a{open_files}"), &json!({"jobs": [job]}))
    };
    let (status, refused) = job(101);
    assert_eq!(status, 422, "{refused}");
    assert!(
        refused.to_string().contains("jobs[0].limits.open_files")
            && refused.to_string().contains("is above the maximum"),
        "{refused}"
    );
    assert_eq!(job(100).0, 200);
    let lower = limits(json!({"max": {"open_files": 99}}));
    let refused = server.run(&["group", "apply", "default", "--settings", &lower]);
    let error = text(&refused.stderr);
    assert!(!refused.status.success() && error.contains("default/a"), "{error}");

    server.apply("jobs: [{name: plain, group: default, type: shell, command: ulimit -n}]");
    let batch = run_job(&server, "default/plain");
    assert_eq!(ended(&server, &batch)["result"], "success");
    assert_eq!(text(&server.run(&["batch", "logs", &batch]).stdout), "64\n");
    assert_eq!(server.stop(), Some(0));
}

/// EXE-7: what a batch uses is known while it runs, by REST and by command, and says so where nothing runs.
#[test]
fn usage_of_a_running_batch_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    server.apply(
        "jobs:\n\
        - name: busy\n  group: default\n  type: python\n\
        \x20 command: |\n\
        \x20   import time\n\
        \x20   held = bytearray(b'x') * (50 << 20)\n\
        \x20   while time.process_time() < 0.3: pass\n\
        \x20   time.sleep(1000)\n",
    );
    let batch = run_job(&server, "default/busy");
    let path = format!("/api/batches/{batch}/usage");
    let usage = until("it has used something", || {
        let (status, usage) = server.get(&path);
        (status == 200 && usage["cpu_ms"].as_u64() >= Some(300)).then_some(usage)
    });
    let of = |field: &str| usage[field].as_u64().unwrap();
    assert!(of("memory_kib") > 50 << 10 && of("peak_memory_kib") >= of("memory_kib"), "{usage}");
    assert_eq!((of("processes"), of("peak_processes")), (1, 1), "{usage}");
    let shown = server.json(&["batch", "usage", &batch]);
    assert!(shown["duration_ms"].as_u64() >= usage["duration_ms"].as_u64(), "{shown}");
    server.json(&["batch", "kill", &batch]);
    ended(&server, &batch);
    let (status, problem) = server.get(&path);
    assert_eq!((status, problem["code"].as_str()), (404, Some("not_running")), "{problem}");
}

/// EXE-1, EXE-2, EXE-8: a worker says when it starts how it keeps limits and what it lacks for better; `worker show` says the same,
/// and what memory and load its machine has.
#[test]
fn worker_says_how_it_keeps_limits_and_what_its_machine_has() {
    let dir = tempfile::tempdir().unwrap();
    let said = dir.path().join("said");
    let mut program = Command::new(TIDEMILL);
    program.stderr(fs::File::create(&said).unwrap());
    let settings = [("EXECUTOR__CGROUP", "none"), ("LOG_FILTER", "info")];
    let server = Server::begin(program, &dir.path().join("data"), &settings);
    let line = r#"memory="looks" cpu="nothing" processes="looks" lacks="executor.cgroup is none""#;
    until("it says how", || fs::read_to_string(&said).unwrap().contains(line).then_some(()));

    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total_kib =
        meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
    let total_mb = total_kib.unwrap().parse::<u64>().unwrap() / 1024;
    let id = until("it has registered", || {
        server.json(&["worker", "ls"])["items"].get(0).map(|worker| worker["id"].as_str().unwrap().to_owned())
    });
    let shown = until("it has measured", || {
        Some(server.json(&["worker", "show", &id])).filter(|shown| shown["measured_at"].is_string())
    });
    assert_eq!(
        shown["limits_kept"],
        json!({"memory": "looks", "cpu": "nothing", "processes": "looks"}),
        "{shown}"
    );
    assert_eq!(
        (&shown["memory_total_mb"], &shown["overloaded"]),
        (&json!(total_mb), &json!(false)),
        "{shown}"
    );
    let free_mb = shown["memory_free_mb"].as_u64().unwrap();
    assert!((1..total_mb).contains(&free_mb) && shown["load_percent"].is_u64(), "{shown}");
    assert_eq!(server.stop(), Some(0));
}
