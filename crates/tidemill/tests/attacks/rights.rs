//! Who may what: keys, secrets, groups and accounts.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::server::{Server, code, run_job, text, until};

/// The status of a call with what stands behind `Bearer`.
fn status(address: &str, path: &str, bearer: &str) -> u16 {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    let asked =
        agent.get(format!("http://{address}{path}")).header("Authorization", format!("Bearer {bearer}"));
    asked.call().unwrap().status().as_u16()
}

fn secret(data: &Path, name: &str) -> String {
    fs::read_to_string(data.join(name)).unwrap().trim().to_owned()
}

/// A key of the server, as `APP:SECRET`.
fn key(server: &Server, app: &str, more: &[&str]) -> String {
    let made = server.json(&[&["key", "define", app], more].concat());
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
        assert_eq!(status(api, "/api/operate", &secret), wanted(operates), "{name} at /api/operate");
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
        server.run(&["key", "define", "boss", "--role", "super_administrator", "--group", "default"]);
    assert_eq!(code(&refused), 2, "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("groups"), "{}", text(&refused.stderr));
}

/// DSP-2: an owner that the caller invents gives no right to an account, nor do parameters of a run by hand; the list of
/// the key does.
#[test]
fn invented_owner_gives_no_account() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.json(&["group", "define", "default", "--settings", r#"{"accounts": {"*": ["daemon"]}}"#]);
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
    let made = server.run(&["key", "define", "admin", "--role", "super_administrator", "--operator"]);
    assert_eq!(code(&made), 0, "{}", text(&made.stderr));
    fs::write(data.join("admin.key"), text(&made.stdout).lines().next().unwrap()).unwrap();
    until("the key is good", || (code(&server.run(&["key", "ls"])) == 0).then_some(()));
}
