//! How attempts are executed: as whom, where, when they have succeeded, and what runs at the end; through the command
//! line, REST and the feed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::disks::Disk;
use crate::server::{Server, TIDEMILL, run_job, text, until};
use serde_json::{Value, json};

fn shown(server: &Server, batch: &str) -> Value {
    server.json(&["batch", "show", batch])
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || Some(shown(server, batch)).filter(|shown| shown["state"] == "finished"))
}

fn log(server: &Server, batch: &str) -> String {
    text(&server.run(&["batch", "logs", batch]).stdout)
}

/// The batch with its final command ended.
fn over(server: &Server, batch: &str) -> Value {
    until("the final command ends", || {
        Some(shown(server, batch)).filter(|shown| !shown["final_result"].is_null())
    })
}

/// A directory that other accounts can pass through, as a data directory is.
fn open_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// The events of the feed about this batch, up to one that is made now.
fn feed(server: &Server, batch: &str) -> Vec<Value> {
    server.apply("jobs: [{name: last, group: default, type: noop}]");
    let last = run_job(server, "default/last");
    let mut tail = Command::new(TIDEMILL)
        .args(["events", "tail", "--from", "start", "-o", "json", "--data"])
        .arg(&server.data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut events = Vec::new();
    for line in BufReader::new(tail.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["subject"] == format!("batch/{batch}") {
            events.push(event.clone());
        }
        if event["type"] == "tidemill.batch.finished.v1" && event["subject"] == format!("batch/{last}") {
            break;
        }
    }
    tail.kill().unwrap();
    tail.wait().unwrap();
    events
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    let known = ["alarm.raised", "final_command.assigned", "final_command.finished", "batch.finished"];
    let of = |event: &Value| known.into_iter().find(|known| kind(event) == format!("tidemill.{known}.v1"));
    events.iter().filter_map(of).collect()
}

/// JOB-8: the final command runs once, after the last attempt and not after each, with the result in its environment;
/// its own failure is on record, is told of, and changes nothing. It also runs for a batch that ended without an attempt,
/// on a worker that may run its job; where it cannot, `batch show` says why.
#[test]
fn final_command_runs_once_after_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let file = dir.path().join("final.txt");
    let note = format!(
        "echo $TIDEMILL_JOB $TIDEMILL_RESULT $TIDEMILL_EXIT_CODE $TIDEMILL_ATTEMPTS >> {}",
        file.display()
    );
    server.apply(&format!(
        "jobs:\n\
        - {{name: failing, group: default, type: shell, command: exit 3, retries: 1, retry_interval_s: 0, \
            final_command: '{note}'}}\n\
        - {{name: fine, group: default, type: shell, command: 'true', final_command: '{note}; exit 4'}}\n\
        - {{name: still, group: default, type: noop, final_command: '{note}'}}\n\
        - {{name: later, group: default, type: shell, command: 'true', third_party: [erp], final_command: '{note}'}}\n\
        - {{name: refused, group: default, type: shell, command: 'true', run_as: etl, owner: bob, final_command: '{note}'}}\n",
    ));
    let failing = run_job(&server, "default/failing");
    let shown = over(&server, &failing);
    assert_eq!((&shown["result"], &shown["final_result"]), (&json!("failed"), &json!("success")), "{shown}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "failing failed 3 2\n");
    assert_eq!(
        kinds(&feed(&server, &failing)),
        ["batch.finished", "final_command.assigned", "final_command.finished"]
    );

    let fine = run_job(&server, "default/fine");
    let shown = over(&server, &fine);
    assert_eq!((&shown["result"], &shown["final_result"]), (&json!("success"), &json!("failed")), "{shown}");
    assert_eq!(shown["final_message"], "exit code 4");
    let events = feed(&server, &fine);
    assert_eq!(
        kinds(&events),
        ["batch.finished", "final_command.assigned", "final_command.finished", "alarm.raised"]
    );
    assert_eq!(events.last().unwrap()["data"]["kind"], "final_command_failed");

    let still = run_job(&server, "default/still");
    assert_eq!(over(&server, &still)["final_result"], "success");

    let later = run_job(&server, "default/later");
    assert!(server.run(&["batch", "kill", &later]).status.success());
    let shown = over(&server, &later);
    assert_eq!((&shown["result"], &shown["final_result"]), (&json!("killed"), &json!("success")), "{shown}");
    assert_eq!((&shown["attempt_count"], &shown["started_at"]), (&json!(0), &json!(null)), "{shown}");

    let refused = run_job(&server, "default/refused");
    let shown = over(&server, &refused);
    assert_eq!((&shown["result"], &shown["final_result"]), (&json!("failed"), &json!("not_run")), "{shown}");
    assert_eq!(shown["final_message"], "jobs of group default may not run as account etl", "{shown}");
    let noted = fs::read_to_string(&file).unwrap();
    assert_eq!(noted, "failing failed 3 2\nfine success 0 1\nstill success 0 1\nlater killed 0\n");
}

/// DSP-2, EXE-2: a job runs as the account that it names, with that account's groups and home, if its group allows it;
/// else its batch fails and says so.
#[test]
fn job_runs_as_the_account_that_its_group_allows() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let server = Server::start(dir.path());
    let accounts = r#"{"accounts": {"*": ["daemon", "nobody-at-all"]}}"#;
    server.json(&["group", "apply", "default", "--settings", accounts]);
    let script = "id -un; id -gn; echo $HOME; touch here; cat \"$0\" > copy; exit 0";
    server.apply(&format!(
        "jobs:\n\
        - {{name: good, group: default, type: shell, owner: ann, run_as: daemon, command: '{script}'}}\n\
        - {{name: other, group: default, type: shell, owner: bob, run_as: games, command: '{script}', retries: 3}}\n\
        - {{name: gone, group: default, type: shell, owner: ann, run_as: nobody-at-all, command: 'true'}}\n",
    ));
    // The directory above everything is the test's own, and nobody else's to pass.
    let closed = ended(&server, &run_job(&server, "default/good"));
    assert_eq!(closed["result"], "failed", "{closed}");
    let message = closed["message"].as_str().unwrap();
    assert!(
        message.contains("account daemon cannot enter") && message.contains("must be passable"),
        "{message}"
    );

    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let good = run_job(&server, "default/good");
    let shown = ended(&server, &good);
    assert_eq!(shown["result"], "success", "{shown} {}", log(&server, &good));
    let said = log(&server, &good);
    assert!(said.starts_with("daemon\ndaemon\n/usr/sbin\n"), "{said}");

    let shown = ended(&server, &run_job(&server, "default/other"));
    assert_eq!(shown["message"], "jobs of group default may not run as account games", "{shown}");
    assert_eq!((&shown["result"], &shown["attempt_count"]), (&json!("failed"), &json!(0)), "{shown}");

    let shown = ended(&server, &run_job(&server, "default/gone"));
    let message = shown["message"].as_str().unwrap();
    assert!(message.contains("this host has no account nobody-at-all"), "{message}");
    // Without accounts named, a definition again leaves the settings as they are.
    server.json(&["group", "apply", "default"]);
    assert_eq!(ended(&server, &run_job(&server, "default/good"))["result"], "success");
}

/// BYD-20, EXE-2, JOB-8: a job that runs as another account passes values on, also where its output path decides; its
/// children's final commands have them, and pass on nothing themselves.
#[test]
fn values_of_another_account_reach_final_commands() {
    let dir = open_dir();
    let server = Server::start(dir.path());
    server.json(&["group", "apply", "default", "--settings", r#"{"accounts": {"*": ["daemon"]}}"#]);
    let (there, file) = (dir.path().display(), dir.path().join("final.txt"));
    server.apply(&format!(
        "jobs:\n\
        - {{name: who, group: default, type: shell, owner: ann, run_as: daemon, \
            success_check: {{output_path: '{there}'}}, \
            command: 'echo \"{{\\\"who\\\": \\\"$(id -un)\\\"}}\" > $TIDEMILL_VALUES; exit 3'}}\n\
        - {{name: silent, group: default, type: shell, owner: ann, run_as: daemon, command: 'true'}}\n\
        - {{name: told, group: default, type: shell, parents: [who], \
            parameters: {{who: '${{values.who.who}}'}}, \
            command: 'echo \"{{\\\"n\\\": \\\"$TIDEMILL_PARAM_WHO\\\"}}\" > $TIDEMILL_VALUES', \
            final_command: 'echo $TIDEMILL_PARAM_WHO \"[$TIDEMILL_VALUES]\" >> {file}'}}\n",
        file = file.display(),
    ));
    let who = ended(&server, &run_job(&server, "default/who"));
    assert_eq!(who["result"], "success", "{who}");
    assert_eq!(who["attempts"][0]["values"], json!({"who": "daemon"}), "{who}");
    let told = server.json(&["batch", "ls", "--job", "default/told"])["items"][0]["id"].to_string();
    let told = over(&server, &told);
    assert_eq!((&told["result"], &told["final_result"]), (&json!("success"), &json!("success")), "{told}");
    assert_eq!(told["attempts"][0]["values"], json!({"n": "daemon"}), "{told}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "daemon []\n");

    let silent = ended(&server, &run_job(&server, "default/silent"));
    assert_eq!(silent["result"], "success", "{silent}");
    assert_eq!(silent["attempts"][0]["values"], json!({}), "{silent}");
    assert_eq!(server.json(&["verify", "--journal"])["finding_count"], 0);
}

/// EXE-4, JOB-1: success is that the output path exists, whatever the exit code; here, in HDFS and in S3.
#[test]
fn output_path_decides() {
    let service = |name: &str| {
        std::env::var(name).unwrap_or_else(|_| {
            panic!("{name} is not set: deploy/dev/services start; eval \"$(deploy/dev/services env)\"")
        })
    };
    let (hdfs, s3) = (service("TIDEMILL_TEST_HDFS"), service("TIDEMILL_TEST_S3"));
    let (endpoint, bucket) = s3.rsplit_once('/').unwrap();
    let made = format!("/tidemill-output-tests/{}", std::process::id());
    make(&hdfs, endpoint, bucket, &made);
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        ("PROBER__PATHS__S3__ENDPOINT", endpoint),
        ("PROBER__PATHS__S3__ACCESS_KEY_ID", "S3RVER"),
        ("PROBER__PATHS__S3__SECRET_ACCESS_KEY", "S3RVER"),
    ];
    let server = Server::start_with(dir.path(), &settings);
    let local = dir.path().join("out-${yyyy}");
    let local = local.display();
    let job = |name: &str, path: &str, command: &str| {
        format!(
            "- {{name: {name}, group: default, type: shell, command: '{command}', \
                success_check: {{output_path: '{path}'}}}}\n"
        )
    };
    server.apply(&format!(
        "jobs:\n{}{}{}{}{}",
        job("made", &local.to_string(), &format!("touch {local}; exit 7")),
        job("absent", &format!("{local}/none"), "exit 0"),
        job("hdfs", &format!("{hdfs}{made}"), "exit 1"),
        job("hdfs-absent", &format!("{hdfs}{made}-none"), "exit 0"),
        job("s3", &format!("s3://{bucket}{made}"), "exit 1"),
    ));
    for (name, result) in [
        ("made", "success"),
        ("absent", "failed"),
        ("hdfs", "success"),
        ("hdfs-absent", "failed"),
        ("s3", "success"),
    ] {
        let shown = ended(&server, &run_job(&server, &format!("default/{name}")));
        assert_eq!(shown["result"], result, "{name}: {shown}");
        let message = shown["message"].as_str().unwrap();
        assert_eq!(message.contains("does not exist"), result == "failed", "{name}: {shown}");
        if name == "made" {
            assert_eq!(shown["attempts"][0]["exit_code"], 7, "{shown}");
        }
    }
}

/// An empty file of this name in both.
fn make(hdfs: &str, endpoint: &str, bucket: &str, path: &str) {
    use object_store::ObjectStoreExt as _;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = hdfs_native::ClientBuilder::new().with_url(hdfs).build().unwrap();
        let options = hdfs_native::WriteOptions::default().overwrite(true);
        client.create(path, options).await.unwrap().close().await.unwrap();
        let store = object_store::aws::AmazonS3Builder::new()
            .with_endpoint(endpoint)
            .with_bucket_name(bucket)
            .with_region("us-east-1")
            .with_access_key_id("S3RVER")
            .with_secret_access_key("S3RVER")
            .with_client_options(object_store::ClientOptions::new().with_allow_http(true))
            .build()
            .unwrap();
        let key = object_store::path::Path::parse(path.trim_start_matches('/')).unwrap();
        store.put(&key, Vec::new().into()).await.unwrap();
    });
}

/// Reports the codes in its arguments, and prints how each was answered.
const REPORTER: &str = r#"
import json, os, sys, urllib.error, urllib.request
url = os.environ["TIDEMILL_API"] + "/api/attempts/" + os.environ["TIDEMILL_TOKEN"] + "/code"
def report(code, key):
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps({"code": code}).encode(), headers)
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return str(error.code) + " " + json.load(error)["code"]
key = os.environ["TIDEMILL_ATTEMPT_KEY"]
for code in os.environ["TIDEMILL_PARAM_CODES"].split():
    print(code, report(int(code), key))
print("forged", report(0, "00" * 64))
print("none", report(0, ""))
open(os.environ["TIDEMILL_VALUES"], "w").write(json.dumps({"codes": os.environ["TIDEMILL_PARAM_CODES"]}))
sys.exit(5)
"#;

/// EXE-4: a job that goes by its code has succeeded iff it reported 0 through the API, whatever its exit code; at most
/// one 0 is taken, and only of the attempt itself. BYD-20: what it passes on is taken either way.
#[test]
fn user_code_decides() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let jobs: Vec<Value> = [("good", "3 0 0 1"), ("bad", "3"), ("ignored", "0")]
        .map(|(name, codes)| {
            json!({
                "name": name, "group": "default", "type": "python", "command": REPORTER.replace("${", "$${"),
                "parameters": {"codes": codes}, "success_check": "user_code",
            })
        })
        .to_vec();
    let mut jobs = jobs;
    jobs[2].as_object_mut().unwrap().remove("success_check");
    let (status, answer) = server.post("/api/jobs/apply", "codes", &json!({"jobs": jobs}));
    assert_eq!(status, 200, "{answer}");

    let good = run_job(&server, "default/good");
    let shown = ended(&server, &good);
    let said = log(&server, &good);
    assert_eq!(shown["result"], "success", "{shown} {said}");
    let expected = "3 200\n0 200\n0 409 already_there\n1 409 already_there\nforged 401 unauthorized\nnone 401 unauthorized\n";
    assert_eq!(said, expected);
    let attempt = &shown["attempts"][0];
    assert_eq!((&attempt["exit_code"], &attempt["user_code"]), (&json!(5), &json!(0)), "{shown}");
    // TBL-1: the user-code log has every code that was taken, the ones that another followed, too.
    let codes = shown["user_codes"].as_array().unwrap();
    let codes: Vec<_> = codes.iter().map(|code| (&code["code"], &code["effective_code"])).collect();
    assert_eq!(codes, [(&json!(3), &json!(3)), (&json!(0), &json!(0))], "{shown}");
    assert_eq!(attempt["values"], json!({"codes": "3 0 0 1"}), "{shown}");

    let bad = ended(&server, &run_job(&server, "default/bad"));
    assert_eq!(bad["result"], "failed");
    assert!(bad["message"].as_str().unwrap().contains("reported code 3"), "{bad}");
    assert_eq!(bad["attempts"][0]["values"], json!({"codes": "3"}), "{bad}");

    let ignored = run_job(&server, "default/ignored");
    assert_eq!(ended(&server, &ignored)["result"], "failed", "exit code 5");
    assert!(log(&server, &ignored).starts_with("0 422 invalid\n"), "{}", log(&server, &ignored));
}

/// JOB-1, JOB-2, JOB-5: a job asks for a worker's label and writes its logical time as it likes; a type that
/// configuration adds is a command and an environment; all of it is exported as it was written.
#[test]
fn label_format_and_types_of_configuration() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("tidemill.toml"),
        "[executor]\nlabels = [\"gpu\", \"big\"]\nslots = { shell = 2, greet = 1 }\n\
         [executor.types.greet]\ncommand = [\"/bin/sh\", \"-c\", \"echo $GREETING; cat $0\", \"{script}\"]\n\
         env = { GREETING = \"hello\" }\n",
    )
    .unwrap();
    let config = dir.path().join("tidemill.toml");
    let server = Server::start_configured(dir.path(), &config);
    server.apply(
        "jobs:\n\
        - {name: here, group: default, type: shell, worker_label: gpu, logical_time_format: yyyyMMddHH, \
            command: 'echo $TIDEMILL_LOGICAL_TIME ${logical_time-1d}', schedule: {period: hour, zone: UTC}, \
            expected_duration_s: 5, success_check: exit_code}\n\
        - {name: away, group: default, type: shell, worker_label: tpu, command: 'true'}\n\
        - {name: greet, group: default, type: greet, command: 'a text'}\n",
    );
    let here = run_job(&server, "default/here");
    assert_eq!(ended(&server, &here)["result"], "success");
    let said = log(&server, &here);
    let times: Vec<&str> = said.split_whitespace().collect();
    assert!(times.len() == 2 && times.iter().all(|time| time.len() == 10), "{said}");
    let preview = server.json(&["job", "preview", "default/here"]);
    let command = preview["fires"][0]["command"].as_str().unwrap();
    assert!(command.starts_with("echo $TIDEMILL_LOGICAL_TIME 20") && command.len() == 38, "{command}");

    let away = run_job(&server, "default/away");
    let why = server.json(&["batch", "why", &away]);
    assert_eq!(why["conditions"][0]["kind"], "worker_label", "{why}");
    let message = why["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("no worker of the group") && message.contains("has label tpu"), "{message}");

    let greet = run_job(&server, "default/greet");
    assert_eq!(ended(&server, &greet)["result"], "success");
    assert_eq!(log(&server, &greet), "hello\na text");
    let workers = server.json(&["worker", "ls"]);
    assert!(workers.to_string().contains(r#""labels":["big","gpu"]"#), "{workers}");

    let export = text(&server.run(&["job", "export", "--group", "default"]).stdout);
    for line in ["worker_label: gpu", "logical_time_format: yyyyMMddHH", "expected_duration_s: 5"] {
        assert!(export.contains(line), "{line}: {export}");
    }
    let again = server.apply(&export);
    assert!(
        again["changes"].as_array().unwrap().iter().all(|change| change["change"] == "unchanged"),
        "{again}"
    );
}

/// JOB-4: the priority of the job calls, 1 to 10 with 10 first, is 10 − n here.
#[test]
fn priority_of_the_job_calls_counts_down() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for (given, priority) in [(Some(10), 0), (Some(1), 9), (None, 9)] {
        let mut body = json!({
            "job_name": "once", "job_type": "shell", "command": "true", "group_id": 1, "user": "ann",
        });
        if let Some(given) = given {
            body["priority"] = json!(given);
        }
        let (status, answer) = server.post("/api/job/submit", &format!("priority-{given:?}"), &body);
        assert_eq!((status, &answer["accept"]), (200, &json!(true)), "{answer}");
        let job = answer["job_id"].to_string();
        let shown = until("the job is shown", || {
            let output = server.run(&["job", "show", &job, "-o", "json"]);
            serde_json::from_slice::<Value>(&output.stdout).ok().filter(|shown| !shown["priority"].is_null())
        });
        assert_eq!(shown["priority"], priority, "{given:?}: {shown}");
    }
    let body = json!({"job_name": "once", "job_type": "shell", "command": "true", "group_id": 1, "user": "ann", "priority": 11});
    let (status, answer) = server.post("/api/job/submit", "priority-11", &body);
    assert!(status == 422 || answer["accept"] == false, "{status} {answer}");
}

/// EXE-6, LOG-1: an output that is longer than the setting allows has its beginning, its end and a line that says what is missing, and
/// the job ends as it likes.
#[test]
fn log_of_a_job_that_prints_too_much_says_what_is_missing() {
    let dir = open_dir();
    let server = Server::start_with(dir.path(), &[("EXECUTOR__OUTPUT_MAX_MB", "1")]);
    server.apply("jobs: [{name: a, group: default, type: shell, command: 'seq 1 400000; exit 5'}]");
    let batch = run_job(&server, "default/a");
    assert_eq!(ended(&server, &batch)["result"], "failed");
    // A store has the end of a log a moment after the batch's.
    let log = until("the end of the log is there", || {
        Some(log(&server, &batch)).filter(|log| log.ends_with("\n400000\n"))
    });
    let (head, tail) = log.split_once("[tidemill] output gap: offset=983040 dropped=").unwrap();
    assert!(head.starts_with("1\n2\n3\n"), "{} bytes", head.len());
    assert!(tail.contains(" reason=longer than 1048576 bytes\n") && tail.ends_with("\n399999\n400000\n"));
    assert!(log.len() < (1 << 20) + 200, "{} bytes", log.len());
    assert_eq!(server.stop(), Some(0));
}

/// EXE-1, MON-7: a worker whose disk is full takes no work, which costs no attempt; it says so, and goes on by itself.
#[test]
fn full_disk_costs_no_attempt() {
    let dir = open_dir();
    let disk = Disk::mount(&dir.path().join("worker"));
    let server = Server::start_with(dir.path(), &[("EXECUTOR__DISK_RESERVE_MB", "1")]);
    server.apply("jobs: [{name: a, group: default, type: shell, command: 'true'}]");
    assert_eq!(ended(&server, &run_job(&server, "default/a"))["result"], "success");
    disk.fill();
    let batch = run_job(&server, "default/a");
    let why = until("why says so", || {
        Some(server.json(&["batch", "why", &batch])).filter(|why| why["conditions"][0]["kind"] == "unready")
    });
    assert!(why["conditions"][0]["message"].as_str().unwrap().contains("its disk is full"), "{why}");
    until("the worker is shown so", || {
        let workers = server.json(&["worker", "ls"]).to_string();
        workers.contains("its disk is full").then_some(())
    });
    let waiting = shown(&server, &batch);
    assert_eq!((&waiting["state"], &waiting["attempt_count"]), (&json!("waiting"), &json!(0)), "{waiting}");
    disk.empty();
    let shown = ended(&server, &batch);
    assert_eq!((&shown["result"], &shown["attempt_count"]), (&json!("success"), &json!(1)), "{shown}");
    drop(server);
}
