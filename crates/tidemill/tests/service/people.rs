//! API-5: what people and keys of departments may, of a program that runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::server::{Server, run_job, text, until};

const FILE: &str = "\
departments: [{name: bi}, {name: finance}]
people:
- {name: ann, departments: [bi]}
- {name: bob, departments: [finance], grants: [{on: {job: default/report}, may: [read_logs]}]}
- {name: adm, role: administrator}
";

const JOBS: &str = "\
jobs:
- {name: report, group: default, type: shell, command: 'echo of bi', owner: ann}
- {name: ledger, group: default, type: shell, command: 'echo of finance', owner: finance, parents: [report]}
";

/// A call with the first key in the name of a person: status and body.
fn call_as(server: &Server, person: &str, method: &str, path: &str) -> (u16, Value) {
    let address = fs::read_to_string(server.data.join("api.address")).unwrap();
    let key = fs::read_to_string(server.data.join("admin.key")).unwrap();
    let (address, key) = (address.trim(), key.trim());
    let mut stream = TcpStream::connect(address).unwrap();
    let body = if method == "POST" { "{}" } else { "" };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nx-user: {person}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

/// API-5, API-9: people see and do what their departments and grants give them, also where a definition changes its owner; keys of
/// a department reach its jobs, through REST and the command line; what is refused is in the audit list.
#[test]
fn people_and_departments_have_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &[("PROCESS__HEARTBEAT_MS", "200")]);
    until("the level is raised", || (server.json(&["level", "show"])["level"].as_u64()? >= 4).then_some(()));
    let file = dir.path().join("people.yaml");
    fs::write(&file, FILE).unwrap();
    let applied = server.run(&["directory", "apply", "-f", file.to_str().unwrap()]);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    server.apply(JOBS);
    let batch = run_job(&server, "default/report");
    until("the report is done", || {
        (server.json(&["batch", "show", &batch])["state"] == "finished").then_some(())
    });

    let jobs = |person: &str| names(&call_as(&server, person, "GET", "/api/jobs").1);
    assert_eq!(
        [jobs("ann"), jobs("bob"), jobs("adm")].map(|names| names.join(" ")),
        ["report", "ledger report", "ledger report"]
    );
    let batches =
        |person: &str| call_as(&server, person, "GET", "/api/batches").1["items"].as_array().unwrap().len();
    assert_eq!((batches("ann"), batches("bob")), (1, 2), "the ledger waits, and the report is granted");
    let log = format!("/api/batches/{batch}/log");
    for (person, path, expected) in [
        ("ann", &*log, 200),
        ("bob", &log, 200),
        ("ann", &format!("/api/batches/{batch}/rerun"), 200),
        ("bob", &format!("/api/batches/{batch}/kill"), 403),
        ("ann", "/api/groups/default/jobs/ledger", 404),
        ("ann", "/api/groups/default/jobs/nothing", 404),
        ("carl", &log, 403),
    ] {
        let method = if path.ends_with("kill") || path.ends_with("rerun") { "POST" } else { "GET" };
        let (status, body) = call_as(&server, person, method, path);
        assert_eq!(status, expected, "{person} {path}: {body}");
    }

    let drawn = text(
        &server.run(&["key", "apply", "of-finance", "--department", "finance", "--may", "override"]).stdout,
    );
    let key = drawn.lines().next().unwrap().to_owned();
    let with_key = |args: &[&str]| server.run(&[&["--key", &*key][..], args].concat());
    let listed = with_key(&["job", "ls", "-o", "json"]);
    assert_eq!(
        names(&serde_json::from_slice(&listed.stdout).unwrap()),
        ["ledger"],
        "{}",
        text(&listed.stderr)
    );
    let taken = dir.path().join("taken.yaml");
    fs::write(&taken, JOBS.replace("owner: ann", "owner: finance")).unwrap();
    let refused = text(&with_key(&["job", "apply", "-f", taken.to_str().unwrap()]).stderr);
    assert!(refused.contains("may not edit"), "{refused}");
    // A parent of somebody else is as one that is not there.
    let spy = |parent: &str, more: &[&str]| {
        let file = dir.path().join("spy.yaml");
        let job =
            format!("jobs: [{{name: spy, group: default, type: noop, owner: finance, parents: [{parent}]}}]");
        fs::write(&file, job).unwrap();
        let told = with_key(&[&["job", "apply", "-f", file.to_str().unwrap()], more].concat());
        (
            told.status.code(),
            format!("{}{}", text(&told.stdout), text(&told.stderr)).replace(parent, "PARENT"),
        )
    };
    for more in [&[][..], &["--dry-run"]] {
        let foreign = spy("report", more);
        assert!(foreign.1.contains("there is no job of that name"), "{foreign:?}");
        assert_eq!(foreign, spy("absent", more));
    }
    // What changes hands goes out of sight, and comes into it.
    server.apply(&JOBS.replace("owner: ann", "owner: finance"));
    until("ann sees nothing", || jobs("ann").is_empty().then_some(()));
    let listed = with_key(&["job", "ls", "-o", "json"]);
    assert_eq!(names(&serde_json::from_slice(&listed.stdout).unwrap()), ["ledger", "report"]);
    let told = spy("report", &[]);
    assert_eq!(told.0, Some(0), "{}", told.1);

    let who = text(&with_key(&["whoami"]).stdout);
    assert!(who.contains("department") && who.contains("finance"), "{who}");
    until("the audit list has what was refused", || {
        let (_, list) = server.get("/api/audit?kind=access.refused&person=ann");
        let calls = list["items"].as_array()?.iter().map(|row| row["object"].clone()).collect::<Vec<_>>();
        (!calls.is_empty()).then_some(calls)
    });
    assert_eq!(server.stop(), Some(0));
}
