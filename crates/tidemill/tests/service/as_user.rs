//! API-5, API-6, API-8: a key calls in the name of a person, by the command line and the client.

use std::fs;

use serde_json::Value;
use tidemill_client::{Client, Error};

use crate::command_line::Person;
use crate::server::{Server, code, text, until};

const PEOPLE: &str = "\
departments: [{name: bi}, {name: finance}]
people: [{name: ann, departments: [bi]}, {name: bob, departments: [finance]}]
";

const JOBS: &str = "\
jobs:
- {name: report, group: default, type: shell, command: 'true', owner: ann}
- {name: ledger, group: default, type: shell, command: 'true', owner: finance}
";

/// The jobs of a list, in order of their names.
fn names(list: &[u8]) -> String {
    let list: Value = serde_json::from_slice(list).unwrap_or_default();
    let items = list["items"].as_array().into_iter().flatten();
    let mut names: Vec<&str> = items.filter_map(|item| item["name"].as_str()).collect();
    names.sort_unstable();
    names.join(" ")
}

/// API-5, API-6, API-8: `--as-user`, the variable and the context say in whose name the key calls; the server says whom it may not speak
/// for; the record names the person.
#[test]
fn key_calls_in_the_name_of_a_person() {
    let dir = tempfile::tempdir().unwrap();
    let [data, home] = ["data", "home"].map(|name| dir.path().join(name));
    [&data, &home].iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let server = Server::start_with(&data, &[("PROCESS__HEARTBEAT_MS", "200")]);
    until("the level is raised", || (server.json(&["level", "show"])["level"].as_u64()? >= 4).then_some(()));
    let file = dir.path().join("people.yaml");
    fs::write(&file, PEOPLE).unwrap();
    let applied = server.run(&["directory", "apply", "-f", file.to_str().unwrap()]);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    server.apply(JOBS);

    let list = |more: &[&str]| server.run(&[&["job", "ls", "-o", "json"][..], more].concat());
    until("the lists show both", || (names(&list(&[]).stdout) == "ledger report").then_some(()));
    assert_eq!(names(&list(&["--as-user", "ann"]).stdout), "report");
    assert_eq!(names(&list(&["--as-user", "bob"]).stdout), "ledger");
    let foreign = list(&["--as-user", "carl"]);
    assert_eq!(code(&foreign), 3);
    assert!(text(&foreign.stderr).contains("X-User is"), "{}", text(&foreign.stderr));
    let none = list(&["--as-user", " ann"]);
    assert_eq!(code(&none), 2);
    assert!(text(&none.stderr).contains("--as-user"), "{}", text(&none.stderr));

    let drawn = text(&server.run(&["key", "apply", "of-bi", "--department", "bi"]).stdout);
    let key = drawn.lines().next().unwrap();
    let of_bi = |person: &str| list(&["--key", key, "--as-user", person]);
    assert_eq!(names(&of_bi("ann").stdout), "report");
    let foreign = of_bi("bob");
    assert_eq!(code(&foreign), 3);
    assert!(text(&foreign.stderr).contains("department bi"), "{}", text(&foreign.stderr));

    let person = Person { home };
    let url = server.client().server().to_owned();
    let admin = fs::read_to_string(data.join("admin.key")).unwrap().trim().to_owned();
    let kept = person.run(&["login", "--server", &url, "--as-user", "ann"], &[], &admin);
    assert!(kept.status.success(), "{}", text(&kept.stderr));
    let by_context = |more: &[&str], variable: &[(&str, &str)]| {
        names(&person.run(&[&["job", "ls", "-o", "json"][..], more].concat(), variable, "").stdout)
    };
    assert_eq!(by_context(&[], &[]), "report");
    assert_eq!(by_context(&[], &[("TIDEMILL_AS_USER", "bob")]), "ledger");
    assert_eq!(by_context(&["--as-user", "ann"], &[("TIDEMILL_AS_USER", "bob")]), "report");
    assert_eq!(
        by_context(&["--key", &admin], &[]),
        "ledger report",
        "the person goes with the context's key"
    );
    let shown = text(&person.run(&["context", "ls"], &[], "").stdout);
    assert!(shown.contains("AS USER") && shown.contains("ann"), "{shown}");

    let client = |name: &str| Client::builder(&url).key(&*admin).as_user(name).build().unwrap();
    client("ann").post("/api/groups/default/jobs/report/nothing").send::<Value>().unwrap_err();
    let disabled = server.run(&["job", "disable", "default/report", "--as-user", "ann"]);
    assert!(disabled.status.success(), "{}", text(&disabled.stderr));
    until("the record names the person", || {
        let (_, list) = server.get("/api/audit?person=ann");
        list["items"].as_array().filter(|rows| !rows.is_empty()).map(drop)
    });
    assert!(client("ann").get("/api/jobs").send::<Value>().is_ok());
    match client("carl").get("/api/jobs").send::<Value>() {
        Err(Error::Refused { problem, .. }) => assert_eq!(problem.status, 403),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.stop(), Some(0));
}
