//! API-3, API-5, API-6: people and departments through REST and the command line.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tidemill_client::{Client, Method};

use crate::server::{Server, text, until};

const FILE: &str = "\
departments:
- {name: web}
- name: etl
  title: Data platform
  for_system: true
  on_call:
    zone: Europe/Berlin
    starts: 2026-01-05T09:00:00
    days: 7
    turns: [[ann, bo], [bo, cy]]
    overrides: [{from: 2026-12-24T09:00:00, to: 2026-12-27T09:00:00, people: [cy]}]
people:
- {name: ann, full_name: Ann Ohm, mail: ann@example.org, phone: '+4930123456', departments: [etl]}
- {name: bo, departments: [etl]}
- {name: cy, departments: [etl, web], language: zh}
";

/// Where the directory may be written: every process reads its level, which is seen within some heartbeats.
fn started(data: &Path) -> Server {
    let server = Server::start_with(data, &[("PROCESS__HEARTBEAT_MS", "200")]);
    until("the level is raised", || (server.json(&["level", "show"])["level"].as_u64()? >= 4).then_some(()));
    server
}

/// A call with a key: status and body.
fn call_with(server: &Server, key: &str, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
    let address = fs::read_to_string(server.data.join("api.address")).unwrap();
    let client = Client::builder(&format!("http://{}", address.trim())).key(key).build().unwrap();
    let call = client.call(method, path);
    let call = match body {
        Some(body) => call.body(body),
        None => call,
    };
    let answer = call.answer().unwrap();
    (answer.status, answer.body)
}

fn applied(server: &Server, yaml: &str, more: &[&str]) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), yaml).unwrap();
    let args = ["directory", "apply", "-f", file.path().to_str().unwrap()];
    server.run(&[&args[..], more].concat())
}

fn said(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// API-3, API-6: a file makes the directory what it says, all of it or nothing; a dry run changes nothing; what is exported
/// changes nothing when it is applied; lists are paged and filtered; a restart loses none of it.
#[test]
fn a_file_makes_the_directory_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path());
    let planned = said(&applied(&server, FILE, &["--dry-run"]));
    assert!(planned.contains("+ department etl") && planned.contains("5 would change."), "{planned}");
    assert_eq!(server.json(&["person", "ls"])["items"], json!([]), "a dry run changes nothing");

    let bad = FILE.replace("departments: [etl, web]", "departments: [etl, wen]");
    let refused = applied(&server, &bad, &[]);
    assert!(!refused.status.success() && said(&refused).contains("wen"), "{}", said(&refused));
    assert_eq!(server.json(&["department", "ls"])["items"], json!([]), "all or nothing");

    let done = applied(&server, FILE, &[]);
    assert!(done.status.success() && said(&done).contains("5 changed."), "{}", said(&done));
    let exported = text(&server.run(&["directory", "export"]).stdout);
    let again = said(&applied(&server, &exported, &["--prune"]));
    assert!(again.contains("Nothing to change."), "{exported}{again}");

    assert_eq!(names(&server.json(&["person", "ls", "--department", "web"])), ["cy"]);
    let (_, first) = server.get("/api/people?limit=2");
    assert_eq!((names(&first), first["next"].as_str()), (vec!["ann", "bo"], Some("bo")));
    let (_, rest) = server.get("/api/people?limit=2&cursor=bo");
    assert_eq!((names(&rest), &rest["next"]), (vec!["cy"], &Value::Null));
    let listed = server.json(&["department", "ls"]);
    assert_eq!((names(&listed), &listed["items"][0]["members"]), (vec!["etl", "web"], &json!(3)));

    assert_eq!(server.stop(), Some(0));
    let server = Server::start(dir.path());
    assert_eq!(names(&server.json(&["person", "ls"])), ["ann", "bo", "cy"]);
    let gone = said(&applied(&server, "people: []\ndepartments: []\n", &["--prune"]));
    assert!(gone.contains("- person ann") && gone.contains("5 changed."), "{gone}");
    assert_eq!(server.json(&["department", "ls"])["items"], json!([]));
}

/// API-5: who is on call follows from the rota, and a successor takes the place of who is disabled; nobody who owns jobs or
/// has a place leaves without one.
#[test]
fn a_leaver_needs_a_successor_who_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path());
    assert!(applied(&server, FILE, &[]).status.success());
    let on_call = |at: &str| {
        let found = server.json(&["on-call", "etl", "--at", at]);
        let people = found["items"][0]["people"].as_array().unwrap().clone();
        people.iter().map(|person| person["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Hand-over is at 09:00 in Berlin, winter and summer.
    assert_eq!(on_call("2026-03-23T07:59:59Z"), ["ann", "bo"]);
    assert_eq!(on_call("2026-03-23T08:00:00Z"), ["bo", "cy"]);
    assert_eq!(on_call("2026-03-30T06:59:59Z"), ["bo", "cy"]);
    assert_eq!(on_call("2026-03-30T07:00:00Z"), ["ann", "bo"]);
    assert_eq!(on_call("2026-12-25T12:00:00Z"), ["cy"], "an override counts");
    assert_eq!(server.json(&["on-call", "--at", "2026-01-05T07:59:59Z"])["items"], json!([]), "not yet");

    server.apply("jobs: [{name: a, group: default, type: noop, owner: ann}]\n");
    let refused = server.run(&["person", "disable", "ann"]);
    let told = said(&refused);
    assert!(!refused.status.success() && told.contains("default/a") && told.contains("etl"), "{told}");
    let refused = server.run(&["person", "delete", "ann"]);
    assert!(!refused.status.success() && said(&refused).contains("default/a"), "{}", said(&refused));
    for (successor, rule) in [("ann", "successor"), ("nobody", "successor")] {
        let refused = server.run(&["person", "disable", "ann", "--successor", successor]);
        assert!(!refused.status.success() && said(&refused).contains(rule), "{}", said(&refused));
    }
    let done = server.run(&["person", "disable", "ann", "--successor", "cy"]);
    assert!(done.status.success(), "{}", said(&done));
    assert_eq!(on_call("2026-03-30T07:00:00Z"), ["cy", "bo"]);
    let shown = server.json(&["person", "show", "ann"]);
    assert_eq!((&shown["stands_in"], &shown["rotas"]), (&json!("cy"), &json!(["etl"])), "{shown}");
    let duties = server.json(&["on-call", "etl", "--at", "2026-12-21T08:00:00Z", "--days", "7"]);
    let from: Vec<_> = duties["items"].as_array().unwrap().iter().map(|duty| duty["from"].clone()).collect();
    assert_eq!(from, ["2026-12-21T08:00:00.000Z", "2026-12-24T08:00:00.000Z", "2026-12-27T08:00:00.000Z"]);

    // A new job of somebody who has left is refused; the one that is there stays as it is.
    server.apply("jobs: [{name: a, group: default, type: noop, owner: ann}]\n");
    for (owner, rule) in [("ann", "disabled"), ("bob", "bo"), ("etl", "")] {
        let (status, answer) = server.post(
            "/api/jobs/apply",
            &format!("owner-{owner}"),
            &json!({"jobs": [{"name": "b", "group": "default", "type": "noop", "owner": owner}]}),
        );
        assert_eq!(status == 200, rule.is_empty(), "{answer}");
        assert!(answer.to_string().contains(rule), "{owner}: {answer}");
    }
}

/// API-3: what does not fit into one command goes in parts, none of which names what is not there, whatever comes and goes: rotas of
/// departments that go or name who is disabled, successors who are disabled themselves, the department that is on call for the system. A name that
/// passes from a person to a department is refused, and nothing is changed.
#[test]
fn large_applies_go_in_parts_that_stand_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path());
    let write = |file: &Value| applied(&server, &file.to_string(), &["--prune"]);
    let rota =
        |name: &str| json!({"zone": "UTC", "starts": "2026-01-05T09:00:00", "days": 1, "turns": [[name]]});
    let mut people: Vec<Value> =
        (0..260).map(|number| json!({"name": format!("p{number:03}"), "departments": ["etl"]})).collect();
    people.extend((0..150).map(|number| {
        json!({"name": format!("a{number:03}"), "enabled": false, "successor": format!("z{number:03}")})
    }));
    people.extend(
        (0..150)
            .map(|number| json!({"name": format!("z{number:03}"), "enabled": false, "successor": "p000"})),
    );
    let first = json!({
        "people": people,
        "departments": [{"name": "etl", "for_system": true, "on_call": rota("a001")}, {"name": "ops"}],
    });
    let done = write(&first);
    assert!(done.status.success() && said(&done).contains("562 changed."), "{}", said(&done));

    let others: Vec<Value> = (0..260).map(|number| json!({"name": format!("q{number:03}")})).collect();
    let passed = [&others[..], &[json!({"name": "etl"})]].concat();
    let refused = write(&json!({"people": passed, "departments": []}));
    assert!(!refused.status.success() && said(&refused).contains("passes from"), "{}", said(&refused));
    assert_eq!(names(&server.json(&["person", "ls"])).len(), 560, "nothing is changed");

    let second = json!({
        "people": others,
        "departments": [{"name": "ops", "for_system": true, "on_call": rota("q000")}],
    });
    let done = write(&second);
    assert!(done.status.success(), "{}", said(&done));
    assert!(said(&write(&second)).contains("Nothing to change."));
    assert_eq!(names(&server.json(&["person", "ls"])).len(), 260);
    let gone = write(&json!({"people": [], "departments": []}));
    assert!(gone.status.success(), "{}", said(&gone));
    assert_eq!(server.json(&["department", "ls"])["items"], json!([]));
}

/// API-5: only a super administrator makes administrators; a key that is bound to a group reads no addresses.
#[test]
fn nobody_raises_others_above_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let server = started(dir.path());
    assert!(applied(&server, FILE, &[]).status.success());
    let key = |name: &str, role: &str, more: &[&str]| {
        let args = [&["key", "apply", name, "--role", role][..], more].concat();
        server.json(&args)["key"].as_str().unwrap().to_owned()
    };
    let administrator = key("adm", "administrator", &[]);
    let bound = key("bound", "administrator", &["--group", "default"]);
    let put = |key: &str, name: &str, person: &Value| {
        call_with(&server, key, Method::Put, &format!("/api/people/{name}"), Some(person))
    };
    let (status, answer) = put(&administrator, "dan", &json!({"name": "dan", "departments": ["web"]}));
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = put(&administrator, "dan", &json!({"name": "dan", "role": "administrator"}));
    assert_eq!(status, 403, "{answer}");
    let (_, detail) = server.get("/api/people/dan");
    assert_eq!(detail["role"], "user", "as it was");
    let (status, _) = server.put("/api/people/dan", &json!({"name": "dan", "role": "administrator"}));
    assert_eq!(status, 200);
    let (status, _) = call_with(&server, &administrator, Method::Delete, "/api/people/dan", None);
    assert_eq!(status, 403);
    for path in ["/api/people", "/api/people/ann", "/api/directory", "/api/on-call"] {
        assert_eq!(call_with(&server, &bound, Method::Get, path, None).0, 403, "{path}");
    }
}
