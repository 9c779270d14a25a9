//! Who may what: keys, secrets, groups and accounts.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tidemill_client::Client;

use crate::server::{Server, code, run_job, text, until};

/// The status of a call with what stands behind `Bearer`.
fn status(address: &str, path: &str, bearer: &str) -> u16 {
    let client = Client::builder(&format!("http://{address}")).key(bearer).build().unwrap();
    client.get(path).answer().unwrap().status
}

fn secret(data: &Path, name: &str) -> String {
    fs::read_to_string(data.join(name)).unwrap().trim().to_owned()
}

/// A key of the server, as `APP:SECRET`.
fn key(server: &Server, app: &str, more: &[&str]) -> String {
    let made = server.json(&[&["key", "apply", app], more].concat());
    let key = made["key"].as_str().unwrap().to_owned();
    // Keys are good once the tables have them.
    until("the key is good", || (code(&server.run(&["group", "ls", "--key", &key])) == 0).then_some(()));
    key
}

/// API-5, OPS-3: the secret of each port opens that port alone: a job that has read its worker's is no operator by it.
#[test]
fn secret_of_one_port_opens_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    let api = secret(data, "api.address");
    let api = api.trim_start_matches("http://");
    let workers = until("the worker is there", || {
        let workers = server.json(&["worker", "ls"]);
        workers["items"][0]["address"].as_str().map(str::to_owned)
    });
    for (name, operates, reads_logs) in
        [("internal.key", false, false), ("logs.key", false, true), ("operator.key", true, false)]
    {
        let secret = secret(data, name);
        let wanted = |opens| if opens { 200 } else { 401 };
        assert_eq!(status(api, "/api/admin", &secret), wanted(operates), "{name} at /api/admin");
        assert_eq!(status(api, "/api/jobs", &secret), 401, "{name} at /api/jobs");
        // There is no such attempt; who may ask is told so.
        let logs = status(&workers, "/logs/4097", &secret);
        assert_eq!(logs != 401, reads_logs, "{name} at the worker's logs: {logs}");
    }
}

/// API-5: a super-administrator's key that is bound to a group is not made.
#[test]
fn super_administrator_is_bound_to_no_group() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let refused =
        server.run(&["key", "apply", "boss", "--role", "super_administrator", "--group", "default"]);
    assert_eq!(code(&refused), 2, "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("groups"), "{}", text(&refused.stderr));
}

/// DSP-2: an owner that the caller invents gives no right to an account, nor do parameters of a run by hand; the list of
/// the key does.
#[test]
fn invented_owner_gives_no_account() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.json(&["group", "apply", "default", "--settings", r#"{"accounts": {"*": ["daemon"]}}"#]);
    let other = key(&server, "other", &["--role", "administrator"]);
    let etl = key(&server, "etl", &["--group", "default", "--run-as", "daemon"]);
    let file = dir.path().join("job.yaml");
    let write = |command: &str| {
        let job = format!(
            "jobs:\n- {{name: who, group: default, type: shell, owner: etl, run_as: daemon, command: '{command}'}}\n"
        );
        fs::write(&file, job).unwrap();
    };
    write("true");
    let path = file.to_str().unwrap();
    for dry in [&["--dry-run"][..], &[]] {
        let refused = server.run(&[&["job", "apply", "-f", path, "--key", &other], dry].concat());
        assert_eq!(code(&refused), 2, "{}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains("run_as"), "{}", text(&refused.stderr));
    }
    write("echo $TIDEMILL_LOGICAL_TIME");
    let applied = server.run(&["job", "apply", "-f", path, "--key", &etl]);
    assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
    // Without parameters it runs as it was written, whoever lets it.
    let ran = server.run(&["job", "run", "default/who", "--key", &other]);
    assert_eq!(code(&ran), 0, "{}", text(&ran.stderr));
    let refused =
        server.run(&["job", "run", "default/who", "--param", "p=id", "--concurrent", "--key", &other]);
    assert_eq!(code(&refused), 2, "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("parameters.p"), "{}", text(&refused.stderr));
    let ran = server.run(&["job", "run", "default/who", "--param", "p=id", "--concurrent", "--key", &etl]);
    assert_eq!(code(&ran), 0, "{}", text(&ran.stderr));
    let renamed = server.run(&["job", "rename", "default/who", "other", "--key", &other]);
    assert_eq!(code(&renamed), 2, "{}", text(&renamed.stderr));
    let keys: Value = server.json(&["key", "ls"]);
    let listed = keys["items"].as_array().unwrap().iter().find(|key| key["app"] == "etl").unwrap();
    assert_eq!(listed["run_as"], json!(["daemon"]), "{listed}");
    run_job(&server, "default/who");
}

/// API-5: where admin.key is lost, none is drawn that nobody takes; the operator's secret makes a new one.
#[test]
fn lost_administrator_is_made_anew_by_the_operator() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    assert_eq!(Server::start(data).stop(), Some(0));
    fs::remove_file(data.join("admin.key")).unwrap();
    let server = Server::start(data);
    assert!(!data.join("admin.key").exists(), "a key that opens nothing misleads");
    let made = server.run(&["key", "apply", "admin", "--role", "super_administrator", "--operator"]);
    assert_eq!(code(&made), 0, "{}", text(&made.stderr));
    fs::write(data.join("admin.key"), text(&made.stdout).lines().next().unwrap()).unwrap();
    until("the key is good", || (code(&server.run(&["key", "ls"])) == 0).then_some(()));
}

/// JOB-9, API-5: a `user` key of another group that names a job as parent neither keeps the job from being deleted nor shows
/// its own jobs by the refusal; what waits for the deleted job does not run, says so, and can be let go.
#[test]
fn a_child_of_another_group_does_not_keep_a_job() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.json(&["group", "apply", "lake"]);
    let owner = key(&server, "team", &["--role", "user", "--group", "default"]);
    let other = key(&server, "other", &["--role", "user", "--group", "lake", "--may", "depend"]);
    let file = dir.path().join("jobs.yaml");
    let apply = |key: &str, jobs: &str| {
        fs::write(&file, format!("jobs:\n{jobs}")).unwrap();
        let applied = server.run(&["job", "apply", "-f", file.to_str().unwrap(), "--key", key]);
        assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
    };
    apply(&owner, "- {name: load, group: default, type: noop, schedule: {period: month}}\n");
    apply(
        &other,
        "- {name: secret, group: lake, type: anchor, parents: [default/load]}
- name: secret-too
  group: lake
  type: anchor
  schedule: {period: month}
  parents: [{job: default/load, mapping: {offset: 1}}]
",
    );
    let hidden = |said: &str| {
        assert!(said.contains("of 1 other group"), "{said}");
        assert!(!said.contains("secret") && !said.contains("lake"), "{said}");
    };
    // Nor does any other refusal show it: this change is one that a child does not fit.
    fs::write(&file, "jobs:\n- {name: load, group: default, type: noop}\n").unwrap();
    let refused = server.run(&["job", "apply", "-f", file.to_str().unwrap(), "--key", &owner]);
    assert_eq!(code(&refused), 2, "{}", text(&refused.stderr));
    hidden(&text(&refused.stderr));
    let time = "2099-01-01T00:00:00Z";
    let ran = server.json(&["job", "run", "lake/secret", "--logical-time", time, "--key", &other]);
    let batch = ran["batch"].to_string();
    let refused = server.run(&["job", "delete", "default/load", "--key", &owner]);
    let said = text(&refused.stderr);
    assert_ne!(code(&refused), 0, "{said}");
    assert!(said.contains("2 jobs of 1 other group") && said.contains("orphan_children"), "{said}");
    hidden(&said);
    let deleted = server.run(&["job", "delete", "default/load", "--orphan-children", "--key", &owner]);
    assert_eq!(code(&deleted), 0, "{}", text(&deleted.stderr));
    let why = until("it says that the parent is deleted", || {
        let why = server.json(&["batch", "why", &batch]);
        (why["conditions"][0]["kind"] == "parent_deleted").then_some(why)
    });
    assert!(why["conditions"][0]["message"].as_str().unwrap().contains("default/load"), "{why}");
    let parent = why["conditions"][0]["job"].to_string();
    let chief = key(&server, "chief", &["--role", "administrator", "--group", "lake"]);
    let waive = ["batch", "override", &batch, "--parent", &parent, "--reason", "gone", "--key", &chief];
    let waived = server.run(&waive);
    assert_eq!(code(&waived), 0, "{}", text(&waived.stderr));
    until("it runs without it", || {
        (server.json(&["batch", "show", &batch])["result"] == "success").then_some(())
    });
    // Named again, it is not known; without it, all is well.
    fs::write(
        &file,
        "jobs:\n- {name: secret, group: lake, type: anchor, comment: new, parents: [default/load]}\n",
    )
    .unwrap();
    let refused = server.run(&["job", "apply", "-f", file.to_str().unwrap(), "--key", &other]);
    assert_eq!(code(&refused), 2, "{}", text(&refused.stderr));
    apply(&other, "- {name: secret, group: lake, type: anchor}\n");
}

/// GEN-6, API-5: a `user` key of one group clears what is downstream in its own group alone, and hears how much is not.
#[test]
fn clear_stays_within_the_reach_of_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.json(&["group", "apply", "lake"]);
    let owner = key(&server, "team", &["--role", "user", "--group", "default"]);
    server.apply(
        "jobs:
- {name: load, group: default, type: noop}
- {name: own, group: default, type: noop, parents: [load]}
- {name: foreign, group: lake, type: noop, parents: [default/load]}
",
    );
    let batch = run_job(&server, "default/load");
    let plan = |key: &[&str]| {
        let address = secret(dir.path(), "api.address");
        let bearer = key.first().map_or_else(|| secret(dir.path(), "admin.key"), |key| (*key).to_owned());
        let client = Client::builder(&format!("http://{address}")).key(bearer).build().unwrap();
        let answer: Value =
            client.post(format!("/api/batches/{batch}/clear")).body(&json!({})).send().unwrap();
        let rerun = answer["rerun"].to_string();
        let shown = until("it is planned", || {
            let shown = server.json(&["rerun", "show", &rerun]);
            (shown["state"] != "planning").then_some(shown)
        });
        (answer["jobs_left_out"].clone(), shown["jobs_left_out"].clone(), shown["groups"].clone())
    };
    assert_eq!(plan(&[&owner]), (json!(1), json!(1), json!(["default"])));
    assert_eq!(plan(&[]), (json!(0), json!(0), json!(["default", "lake"])));
}
