//! EXE-13, JOB-2: work that jobs start elsewhere, and types that a worker cannot run, through job files, REST and the command line.
//! A directory and a script stand in for the cluster.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::server::{Server, TIDEMILL, run_job, text, until};

const STAND_IN: &str = r#"
cd "$(dirname "$0")/apps"
case $1 in
  list) for app in *; do [ "$(cat "$app/tag" 2>/dev/null)" = "$2" ] && echo "$app"; done; exit 0;;
  state) cat "$2/state";;
  kill) [ "$(cat "$2/state")" != RUNNING ] || echo KILLED > "$2/state";;
esac
"#;

/// A server with a type whose jobs start work elsewhere, and one whose program is not there.
fn start(dir: &Path) -> Server {
    fs::create_dir(dir.join("apps")).unwrap();
    fs::write(dir.join("cluster.sh"), STAND_IN).unwrap();
    let stand_in = dir.join("cluster.sh");
    let command = |word: &str, place: &str| json!(["/bin/sh", stand_in, word, place]);
    let (list, state, kill) = (command("list", "{tag}"), command("state", "{id}"), command("kill", "{id}"));
    let settings = format!(
        "[executor]\nheartbeat_ms = 200\nslots = {{ shell = 2, cluster = 2, missing = 1 }}\n\
         [executor.types.missing]\ncommand = [\"no-such-program\", \"{{script}}\"]\n\
         [executor.types.cluster]\ncommand = [\"/bin/sh\", \"{{script}}\"]\nenv = {{ APPS = \"{}\", TAG = \"{{tag}}\" }}\n\
         [executor.types.cluster.external_work]\nlist = {list}\nstate = {state}\nkill = {kill}\nid_prefix = \"app-\"\n\
         succeeded = [\"DONE\"]\nkilled = [\"KILLED\"]\nlook_ms = 200\nsettle_ms = 100\n",
        dir.join("apps").display()
    );
    let config = dir.join("tidemill.toml");
    fs::write(&config, settings).unwrap();
    let server = Server::start_configured(dir, &config);
    until("the level is raised", || (server.json(&["level", "show"])["level"].as_u64()? >= 3).then_some(()));
    server
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || {
        Some(server.json(&["batch", "show", batch])).filter(|shown| shown["state"] == "finished")
    })
}

/// EXE-13: what a job starts elsewhere is shown while it runs, and a kill ends it before the batch has ended.
#[test]
fn killed_batch_ends_what_it_started_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    server.apply(
        "jobs:\n\
        - name: query\n  group: default\n  type: cluster\n\
        \x20 command: mkdir $APPS/app-1; echo RUNNING > $APPS/app-1/state; echo $TAG > $APPS/app-1/tag; sleep 1000\n",
    );
    let batch = run_job(&server, "default/query");
    let found = until("its work is found", || {
        let shown = server.json(&["batch", "show", &batch]);
        let attempt = shown["attempts"].get(0)?.clone();
        (attempt["external_work"] != json!([])).then_some(attempt)
    });
    assert_eq!(found["external_work"], json!(["app-1"]), "{found}");
    let shown = text(&server.run(&["batch", "show", &batch]).stdout);
    assert!(shown.contains("EXTERNAL") && shown.contains("app-1"), "{shown}");
    server.json(&["batch", "kill", &batch, "--reason", "enough"]);
    let shown = ended(&server, &batch);
    assert_eq!(shown["result"], "killed", "{shown}");
    assert_eq!(shown["attempts"][0]["external_work_unconfirmed"], json!(false), "{shown}");
    assert_eq!(fs::read_to_string(dir.path().join("apps/app-1/state")).unwrap(), "KILLED\n");
    assert_eq!(server.stop(), Some(0));
}

/// JOB-2: a worker says what it can run and why not the rest; a batch of such a type says that no worker takes it, and a type that
/// nobody knows is refused when it is applied.
#[test]
fn worker_says_what_it_can_run_and_why_not_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let worker = until("the worker is there", || server.json(&["worker", "ls"])["items"].get(0).cloned());
    assert_eq!(worker["slots"], json!({"shell": 2, "cluster": 2}), "{worker}");
    let types = &worker["types"];
    assert_eq!(types["shell"], json!({"slots": 2}), "{types}");
    let missing = json!({"slots": 0, "problem": "no-such-program is not in PATH"});
    assert_eq!(types["missing"], missing, "{types}");
    assert!(types["spark"]["problem"].is_string() && types["python"]["problem"].is_string(), "{types}");
    let shown = text(&server.run(&["worker", "show", worker["id"].as_str().unwrap()]).stdout);
    assert!(shown.contains("no-such-program is not in PATH"), "{shown}");

    server.apply("jobs: [{name: m, group: default, type: missing, command: x}]");
    let batch = run_job(&server, "default/m");
    let why = server.json(&["batch", "why", &batch]);
    let message = why["conditions"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("no worker of the group takes jobs of type missing"), "{why}");
    let job = json!({"name": "u", "group": "default", "type": "unheard_of", "command": "x"});
    let (status, refused) = server.post("/api/jobs/apply", "u", &json!({"jobs": [job]}));
    assert!(status == 422 && refused.to_string().contains("unheard_of"), "{status} {refused}");
    assert_eq!(server.stop(), Some(0));
}

/// What the commands of every platform do here: say how they were called; those that start applications note one, which carries the
/// tag that they were given and has ended.
const COMMANDS: &str = r#"#!/bin/sh
bin=$(dirname "$0")
name=$(basename "$0")
if [ "$name" = yarn ]; then
  case $2 in
    -list) echo 'Total number of applications'; grep -lx -- "$6" "$bin"/application_* 2>/dev/null | sed 's|.*/||';;
    -status) test -e "$bin/$3" && printf 'Application Report :\n\tFinal-State : SUCCEEDED\n';;
  esac
  exit 0
fi
printf '%s' "$name"; printf ' [%s]' "$@"; echo
tag=$(printf '%s\n' "$@" | sed -n 's/.*tags=//p' | head -n 1)
[ -z "$tag" ] || echo "$tag" > "$bin/application_1_$$"
[ "$name" != spark-submit ] || exit 9
"#;

/// JOB-2, EXE-13: each type that is known from the start runs the command of its platform, with the text or the program, the class and
/// the arguments of the job; the applications that three of them start are found by their tag, and a job of Spark has the result
/// of its own.
#[test]
fn every_built_in_type_runs_the_command_of_its_platform() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["java", "hadoop", "hive", "spark-submit", "datahub", "yarn"] {
        fs::write(bin.join(name), COMMANDS).unwrap();
        fs::set_permissions(bin.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    let mut program = Command::new(TIDEMILL);
    program.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let slots = r#"{"java": 1, "mapreduce": 1, "hive": 1, "spark": 1, "datahub": 1}"#;
    let server = Server::begin(program, &dir.path().join("data"), &[("EXECUTOR__SLOTS", slots)]);
    until("the level is raised", || (server.json(&["level", "show"])["level"].as_u64()? >= 3).then_some(()));
    server.apply(
        "jobs:\n\
        - {name: java, group: default, type: java, program: /a.jar, class: x.Main, arguments: [one two]}\n\
        - {name: mapreduce, group: default, type: mapreduce, program: /a.jar, class: x.Main, arguments: [-m]}\n\
        - {name: hive, group: default, type: hive, command: select 1, arguments: [--silent]}\n\
        - {name: spark, group: default, type: spark, program: /a.py, arguments: [one]}\n\
        - {name: datahub, group: default, type: datahub, command: 'source: {}'}\n",
    );
    let work = |token: &str| dir.path().join(format!("data/worker/attempts/{token}")).display().to_string();
    type Line = fn(&str, &str) -> String;
    let expected: [(&str, Line, bool); 5] = [
        ("java", |_, _| "java [-cp] [/a.jar] [x.Main] [one two]".to_owned(), false),
        (
            "mapreduce",
            |_, tag| format!("hadoop [jar] [/a.jar] [x.Main] [-Dmapreduce.job.tags={tag}] [-m]"),
            true,
        ),
        (
            "hive",
            |work, tag| {
                let tags = format!(
                    "[--hiveconf] [mapreduce.job.tags={tag}] [--hiveconf] [tez.application.tags={tag}]"
                );
                format!("hive {tags} [-f] [{work}/script.hql] [--silent]")
            },
            true,
        ),
        ("spark", |_, tag| format!("spark-submit [--conf] [spark.yarn.tags={tag}] [/a.py] [one]"), true),
        ("datahub", |work, _| format!("datahub [ingest] [-c] [{work}/script.yaml]"), false),
    ];
    for (name, line, starts) in expected {
        let batch = run_job(&server, &format!("default/{name}"));
        let shown = ended(&server, &batch);
        let log = text(&server.run(&["batch", "logs", &batch]).stdout);
        assert_eq!(shown["result"], "success", "{shown} {log}");
        let attempt = &shown["attempts"][0];
        let tag = log.split(['=', ']']).find(|word| word.starts_with("tidemill-")).unwrap_or_default();
        assert_eq!(tag.is_empty(), !starts, "{log}");
        assert_eq!(log.trim(), line(&work(&attempt["id"].to_string()), tag));
        assert_eq!(attempt["external_work"].as_array().map(Vec::len), Some(usize::from(starts)), "{attempt}");
    }
    assert_eq!(server.stop(), Some(0));
}
