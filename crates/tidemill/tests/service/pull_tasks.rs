//! PUL, BYD-10: tasks that clients pull, through REST and the command line.

use std::path::Path;
use std::process::Output;

use crate::server::feed::Feed;
use crate::server::{Server, code, text, until};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_model::Timestamp;

const TEMPLATES: &str = "templates:\n- name: copy\n  comment: copies a file\n  fields:\n    path: {type: string}\n    \
                         size: {type: number, required: false}\n    way: {}\n";

/// So many minutes from now, to the second.
fn minutes(from_now: i64) -> String {
    let now = Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
    (now + SignedDuration::from_mins(from_now)).to_string()
}

/// `tidemill pull …` with a file.
fn file(server: &Server, arguments: &[&str], yaml: &str) -> Output {
    let file = server.data.join("pull.yaml");
    std::fs::write(&file, yaml).unwrap();
    server.run(&[&["pull"], arguments, &["-f", file.to_str().unwrap(), "-o", "json"]].concat())
}

fn done(output: &Output) -> Value {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Templates, users of two groups, and nothing else.
fn fixture(data: &Path) -> Server {
    let server = Server::start(data);
    server.json(&["group", "apply", "other"]);
    done(&file(&server, &["template", "apply"], TEMPLATES));
    server.json(&["pull", "user", "assign", "default", "ann", "bob", "carl"]);
    server.json(&["pull", "user", "assign", "other", "olga"]);
    server
}

fn task(executor: &Value, more: &Value) -> Value {
    let mut task = json!({ "executor": executor, "when": { "once": { "start": minutes(-1) } } });
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

/// Adds a task through REST; its id.
fn add(server: &Server, request: &str, executor: &Value, more: &Value) -> i64 {
    let (status, answer) = server.post("/api/pull/tasks", request, &task(executor, more));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["version"], 1, "{answer}");
    answer["task"].as_i64().unwrap()
}

fn ids(listed: &Value) -> Vec<i64> {
    listed["items"].as_array().unwrap().iter().map(|item| item["id"].as_i64().unwrap()).collect()
}

fn names(listed: &Value, field: &str) -> Vec<String> {
    let name = |item: &Value| item[field].as_str().unwrap().to_owned();
    listed["items"].as_array().unwrap().iter().map(name).collect()
}

/// PUL-1: a template is added, kept as it is, changed and removed; a task that was checked against it stays.
#[test]
fn templates_are_managed() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    assert_eq!(server.json(&["pull", "template", "ls"])["items"][0]["version"], 1);
    let again = done(&file(&server, &["template", "apply"], TEMPLATES));
    assert_eq!(again["items"][0]["version"], 1, "{again}");
    let changed = TEMPLATES.replace("copies a file", "copies files");
    assert_eq!(done(&file(&server, &["template", "apply"], &changed))["items"][0]["version"], 2);
    let shown = server.json(&["pull", "template", "show", "copy"]);
    assert_eq!(shown["comment"], "copies files", "{shown}");
    assert_eq!(shown["fields"]["size"], json!({"required": false, "type": "number"}), "{shown}");

    let parameters = json!({"path": "/a", "way": ["x", 0.1], "size": 12});
    let more = json!({"template": "copy", "parameters": parameters});
    let task = add(&server, "t", &json!({"group": "default"}), &more);
    server.json(&["pull", "template", "delete", "copy"]);
    assert_eq!(server.json(&["pull", "template", "ls"])["items"], json!([]));
    let shown = server.json(&["pull", "task", "show", &task.to_string()]);
    assert_eq!(shown["task"]["parameters"], parameters, "{shown}");
    assert_eq!(code(&server.run(&["pull", "template", "show", "copy"])), 4);
}

/// PUL-5: users have one home group; they are listed by it; whoever has another one is moved, not assigned.
#[test]
fn users_have_one_home_group() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    assert_eq!(names(&server.json(&["pull", "user", "ls"]), "user"), ["ann", "bob", "carl", "olga"]);
    assert_eq!(names(&server.json(&["pull", "user", "ls", "--group", "other"]), "user"), ["olga"]);
    // Those who are members stay as they are; numbers are names, too.
    let more = done(&file(&server, &["user", "assign", "default"], "users: [ann, 10023, d@e.org]\n"));
    assert!(more["position"].is_string(), "{more}");
    let listed = server.json(&["pull", "user", "ls", "--group", "default"]);
    assert_eq!(names(&listed, "user"), ["10023", "ann", "bob", "carl", "d@e.org"]);

    let elsewhere = server.run(&["pull", "user", "assign", "default", "new", "olga"]);
    let told = text(&elsewhere.stderr);
    assert_eq!(code(&elsewhere), 3, "{told}");
    assert!(told.contains("olga") && told.contains("other") && told.contains("pull user move"), "{told}");
    assert_eq!(code(&server.run(&["pull", "user", "show", "new"])), 4);

    let many: Vec<String> = (0..1_200).map(|n| format!("m{n}")).collect();
    done(&file(&server, &["user", "assign", "other"], &format!("users: [{}]\n", many.join(", "))));
    let listed = server.json(&["pull", "user", "ls", "--group", "other", "--limit", "5000"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1_201);
}

/// PUL-2, PUL-3, PUL-11: tasks are added, listed by executor and start, shown as written, changed and deleted.
#[test]
fn tasks_are_managed() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let (soon, later, long_ago) = (minutes(30), minutes(600), minutes(-60 * 24 * 20));
    let yaml = format!(
        "tasks:\n\
        - {{executor: {{group: default}}, name: soon, when: {{once: {{start: '{soon}'}}}}}}\n\
        - {{executor: {{user: ann}}, name: later, when: {{once: {{start: '{later}'}}}}, dispatch_times: 3, repeat: true, lease_s: 60}}\n\
        - {{executor: {{group: default}}, name: often, when: {{every_minutes: {{n: 5, start: '{long_ago}'}}}}}}\n\
        - {{executor: {{user: ann}}, name: daily, template: copy, parameters: {{path: /a, way: null}},\n   \
          when: {{every_days: {{n: 2, at: '07:30', zone: Europe/Berlin, start: '{long_ago}'}}}}}}\n\
        - {{executor: {{user: olga}}, name: far, when: {{once: {{start: '{soon}'}}}}}}\n"
    );
    let added = done(&file(&server, &["task", "create"], &yaml));
    let id: Vec<i64> =
        added["items"].as_array().unwrap().iter().map(|of| of["task"].as_i64().unwrap()).collect();
    let [group_once, own_once, often, daily, far] = id[..] else { panic!("{added}") };

    let ls = |arguments: &[&str]| ids(&server.json(&[&["pull", "task", "ls"], arguments].concat()));
    let sorted = |mut ids: Vec<i64>| {
        ids.sort_unstable();
        ids
    };
    assert_eq!(sorted(ls(&[])), sorted(id.clone()));
    assert_eq!(ls(&["--kind", "once", "--group", "default"]), [own_once, group_once]);
    assert_eq!(ls(&["--executor", "user:ann"]), [daily, own_once]);
    assert_eq!(ls(&["--executor", "group:default", "--kind", "once"]), [group_once]);
    assert_eq!(ls(&["--kind", "once", "--from", &minutes(60)]), [own_once]);
    assert_eq!(sorted(ls(&["--kind", "once", "--to", &minutes(60)])), sorted(vec![group_once, far]));
    assert_eq!(ls(&["--group", "default", "--kind", "rotating", "--from", &minutes(0)]), [0; 0]);
    // In parts of one.
    let (_, first) = server.get("/api/pull/tasks?group=default&limit=1");
    let (_, second) = server
        .get(&format!("/api/pull/tasks?group=default&limit=1&cursor={}", first["next"].as_str().unwrap()));
    assert_eq!([ids(&first), ids(&second)].concat(), [own_once, group_once]);
    assert_eq!(second["next"], Value::Null, "{second}");

    let shown = server.json(&["pull", "task", "show", &own_once.to_string()]);
    let wanted = json!({
        "executor": {"user": "ann"}, "name": "later", "when": {"once": {"start": later}}, "dispatch_times": 3,
        "repeat": true, "lease_s": 60,
    });
    assert_eq!(
        (&shown["task"], &shown["state"], &shown["group"]),
        (&wanted, &json!("valid"), &json!("default"))
    );
    // As it was written it changes nothing; changed, it has another version.
    let path = format!("/api/pull/tasks/{own_once}");
    let (status, same) = server.put(&path, &wanted);
    assert_eq!(status, 200, "{same}");
    let version = same["version"].as_u64().unwrap();
    let mut other = wanted.clone();
    other["dispatch_times"] = json!(7);
    let (status, changed) = server.put(&path, &other);
    assert_eq!((status, changed["version"].as_u64()), (200, Some(version + 1)), "{changed}");
    let (_, shown) = server.get(&format!("{path}?at_least={}", changed["position"].as_str().unwrap()));
    assert_eq!((&shown["task"], shown["version"].as_u64()), (&other, Some(version + 1)), "{shown}");

    let changed = file(
        &server,
        &["task", "change", &far.to_string()],
        &format!(
            "tasks: [{{executor: {{user: olga}}, name: farther, when: {{once: {{start: '{later}'}}}}}}]"
        ),
    );
    done(&changed);
    assert_eq!(ls(&["--group", "other", "--from", &minutes(60)]), [far]);
    server.json(&["pull", "task", "delete", &often.to_string()]);
    assert_eq!(ls(&["--group", "default", "--kind", "rotating", "--state", "valid"]), [daily]);
    assert_eq!(ls(&["--group", "default", "--kind", "rotating", "--state", "deleted"]), [often]);
    assert_eq!(server.json(&["pull", "task", "show", &often.to_string()])["state"], "deleted");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// Everything that is listed of what clients pull.
fn everything(server: &Server) -> Value {
    json!({
        "templates": server.json(&["pull", "template", "ls"]),
        "users": server.json(&["pull", "user", "ls"]),
        "tasks": server.json(&["pull", "task", "ls"]),
        "grants": server.json(&["pull", "grants"]),
        "groups": server.json(&["group", "ls"]),
    })
}

/// What a request is told, and that it has changed nothing.
fn refused(request: &Value, (status, problem): (u16, Value), wanted: u16, says: &[&str]) {
    assert_eq!(status, wanted, "{request}: {problem}");
    let told = format!("{} {}", problem["detail"], problem["errors"]);
    for said in says {
        assert!(told.contains(said), "{request}: {said:?} is not in {told}");
    }
}

/// PUL-1, PUL-2, PUL-3, PUL-4, PUL-5: a task that cannot be is refused with field, value and rule, every fault of its
/// parameters in one answer, and nothing changes.
#[test]
fn bad_tasks_are_told_by_field_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let known = add(&server, "known", &json!({"user": "ann"}), &json!({"name": "known"}));
    let mut feed = Feed::follow(dir.path());
    feed.until_now(&server);
    let before = everything(&server);

    let group = json!({"group": "default"});
    let bad = json!({"size": "big", "colour": "red", "way": 1});
    let (early, soon) = (minutes(-7 * 60), minutes(5));
    let early_says = ["when.once.start", early.as_str(), "6 hours"];
    let minutes_of = |n: i64| json!({"every_minutes": {"n": n, "start": soon}});
    let days =
        |n: i64, at: &str, zone: &str| json!({"every_days": {"n": n, "at": at, "zone": zone, "start": soon}});
    let table: Vec<(Value, Value, u16, &[&str])> = vec![
        (group.clone(), json!({"template": "nothing"}), 422, &["template", "nothing", "define it first"]),
        (
            group.clone(),
            json!({"template": "copy", "parameters": bad}),
            422,
            &[
                "parameters.path",
                "missing",
                "parameters.size",
                "big",
                "a number",
                "parameters.colour",
                "leave it out",
            ],
        ),
        (group.clone(), json!({"parameters": [1]}), 422, &["parameters", "[1]"]),
        (group.clone(), json!({"parameters": {"x": "y".repeat(20_000)}}), 422, &["parameters", "16384"]),
        (
            group.clone(),
            json!({"dispatch_times": -1}),
            422,
            &["dispatch_times", "-1", "a whole number from 1 to 1,000,000"],
        ),
        (
            group.clone(),
            json!({"dispatch_times": 0}),
            422,
            &["dispatch_times", "a whole number from 1 to 1,000,000"],
        ),
        (group.clone(), json!({"dispatch_times": 1_000_001}), 422, &["dispatch_times", "1000001"]),
        (group.clone(), json!({"lease_s": 4}), 422, &["lease_s", "5 to 604800"]),
        (group.clone(), json!({"lease_s": -5}), 422, &["lease_s", "-5"]),
        (group.clone(), json!({"name": "x".repeat(129)}), 422, &["name", "1 to 128"]),
        (group.clone(), json!({"when": {"once": {"start": early}}}), 422, &early_says),
        (group.clone(), json!({"when": minutes_of(-5)}), 422, &["when.every_minutes.n", "-5"]),
        (group.clone(), json!({"when": minutes_of(0)}), 422, &["when.every_minutes.n", "1"]),
        (group.clone(), json!({"when": days(0, "07:30", "UTC")}), 422, &["when.every_days.n", "1"]),
        (group.clone(), json!({"when": days(1, "25:00", "UTC")}), 422, &["25:00", "00:00 to 23:59"]),
        (
            group.clone(),
            json!({"when": days(1, "07:30", "Mars/Base")}),
            422,
            &["when.every_days.zone", "Mars/Base"],
        ),
        (group.clone(), json!({"when": {"sometimes": {}}}), 422, &["when", "sometimes"]),
        (group.clone(), json!({"lease": 5}), 422, &["lease", "5"]),
        (json!({"group": "nobody"}), json!({}), 422, &["executor.group", "nobody", "group that exists"]),
        (json!({"user": "nobody"}), json!({}), 404, &["nobody", "any group", "pull user assign"]),
        (json!({"user": "a b"}), json!({}), 422, &["executor.user", "a b", "1 to 128 characters"]),
    ];
    for (index, (executor, more, status, says)) in table.iter().enumerate() {
        let request = task(executor, more);
        refused(&request, server.post("/api/pull/tasks", &format!("bad-{index}"), &request), *status, says);
    }
    let path = format!("/api/pull/tasks/{known}");
    for (executor, more, says) in [
        (json!({"user": "bob"}), json!({}), &["executor", "delete the task"][..]),
        (json!({"user": "ann"}), json!({"template": "nothing"}), &["template", "nothing"]),
        (json!({"user": "ann"}), json!({"dispatch_times": 0}), &["dispatch_times"]),
    ] {
        let request = task(&executor, &more);
        refused(&request, server.put(&path, &request), 422, says);
    }
    refused(
        &json!("999"),
        server.put("/api/pull/tasks/999", &task(&group, &json!({}))),
        404,
        &["task", "999"],
    );

    let yaml = |fields: &str| {
        format!("tasks: [{{executor: {{group: default}}, {fields}, when: {{once: {{start: '{soon}'}}}}}}]")
    };
    for (fields, says) in [
        ("template: nothing", &["pull.yaml", "template", "nothing"][..]),
        ("template: copy, parameters: {way: 1, colour: red}", &["parameters.path", "parameters.colour"]),
        ("dispatch_times: -1", &["dispatch_times", "-1"]),
    ] {
        let output = file(&server, &["task", "create"], &yaml(fields));
        let told = text(&output.stderr);
        assert_eq!(code(&output), 2, "{fields}: {told}");
        for said in says {
            assert!(told.contains(said), "{fields}: {said:?} is not in {told}");
        }
    }
    assert_eq!(code(&file(&server, &["task", "create"], "tasks: {}")), 2);
    assert_eq!(code(&server.run(&["pull", "task", "delete", "999"])), 4);
    assert_eq!(feed.until_now(&server), Vec::<Value>::new());
    assert_eq!(everything(&server), before);
}

/// PUL-1, PUL-5, PUL-10: settings, templates and users that cannot be; a window of a day and more is no window.
#[test]
fn bad_settings_templates_and_users_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let mut feed = Feed::follow(dir.path());
    feed.until_now(&server);
    let before = everything(&server);
    for (settings, says) in [
        (r#"{"pull_window_hours": 24}"#, ["pull_window_hours", "24", "23"]),
        (r#"{"pull_window_hours": 0}"#, ["pull_window_hours", "0", "1 to 23"]),
        (r#"{"pull_window_hours": -1}"#, ["pull_window_hours", "-1", "u32"]),
        (r#"{"pull_rotating_limit": 1001}"#, ["pull_rotating_limit", "1001", "1 to 1000"]),
        (r#"{"pull_retention_days": 0}"#, ["pull_retention_days", "0", "1 to 3650"]),
    ] {
        let output = server.run(&["group", "apply", "default", "--settings", settings]);
        let told = text(&output.stderr).replace(',', "");
        assert_eq!(code(&output), 2, "{settings}: {told}");
        // A number of the wrong sign is told by the reader of the JSON, in its own words.
        let says = if settings.contains("-1") { &says[1..2] } else { &says[..] };
        for said in says {
            assert!(told.contains(said), "{settings}: {said:?} is not in {told}");
        }
    }
    let fields: Value = (0..65).map(|n| (format!("f{n}"), json!({}))).collect();
    for (index, (template, says)) in [
        (json!({"name": "a b", "fields": {}}), &["name", "a b"][..]),
        (json!({"name": "a", "fields": {"x": {"type": "date"}}}), &["fields.x.type", "date"]),
        (json!({"name": "a", "fields": fields}), &["fields", "64"]),
        (json!({"name": "a"}), &["fields"]),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = server.post("/api/pull/templates", &format!("template-{index}"), &template);
        refused(&template, answer, 422, says);
    }
    for (index, (users, status, says)) in [
        (
            json!({"group": "default", "users": ["fine", "a b", "c/d"]}),
            422,
            &["users[1]", "users[2]", "a b"][..],
        ),
        (json!({"group": "default", "users": []}), 422, &["users", "1 to 500"]),
        (json!({"group": "default", "users": vec!["x"; 501]}), 422, &["users", "501"]),
        (json!({"group": "nobody", "users": ["new"]}), 404, &["group", "nobody"]),
        (json!({"group": "default", "users": ["new", "olga"]}), 409, &["olga", "other"]),
    ]
    .into_iter()
    .enumerate()
    {
        refused(&users, server.post("/api/pull/users", &format!("users-{index}"), &users), status, says);
    }
    let to = json!({"to": "other"});
    refused(
        &to,
        server.post("/api/pull/users/nobody/move", "move-1", &to),
        404,
        &["nobody", "pull user assign"],
    );
    for (arguments, exit) in [
        (&["pull", "user", "delete", "nobody"][..], 4),
        (&["pull", "user", "move", "ann", "nobody"], 4),
        (&["pull", "template", "delete", "nothing"], 4),
        (&["pull", "task", "ls", "--executor", "ann"], 2),
        (&["pull", "grants", "--state", "gone"], 2),
    ] {
        let output = server.run(arguments);
        assert_eq!(code(&output), exit, "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!(feed.until_now(&server), Vec::<Value>::new());
    assert_eq!(everything(&server), before);
}

/// PUL-10: a group and each of its users have so many rotating tasks at once, and a deleted one makes room.
#[test]
fn rotating_tasks_are_limited_per_group_and_user() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    server.json(&["group", "apply", "default", "--settings", r#"{"pull_rotating_limit": 2}"#]);
    let rotating = json!({"when": {"every_minutes": {"n": 5, "start": minutes(0)}}});
    for (number, executor) in [json!({"group": "default"}), json!({"user": "ann"})].iter().enumerate() {
        let first = add(&server, &format!("first-{number}"), executor, &rotating);
        add(&server, &format!("second-{number}"), executor, &rotating);
        let third = task(executor, &rotating);
        let answer = server.post("/api/pull/tasks", &format!("third-{number}"), &third);
        refused(&third, answer, 429, &["rotating", "2"]);
        add(&server, &format!("once-{number}"), executor, &json!({}));
        server.json(&["pull", "task", "delete", &first.to_string()]);
        add(&server, &format!("again-{number}"), executor, &rotating);
    }
}

/// API-5, PUL-11: a group's user manages the tasks of that group alone; templates and users are an administrator's.
#[test]
fn rights_are_those_of_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let task = add(&server, "t", &json!({"group": "default"}), &json!({})).to_string();
    let key = |app: &str, role: &str, group: &str| {
        let made = server.json(&["key", "apply", app, "--role", role, "--group", group]);
        made["key"].as_str().unwrap().to_owned()
    };
    let own = key("own", "user", "default");
    let foreign = key("foreign", "user", "other");
    let viewer = key("viewer", "viewer", "default");
    let code_of = |key: &str, arguments: &[&str]| code(&server.run(&[arguments, &["--key", key]].concat()));
    for (key, show, change) in [(&own, 0, 0), (&foreign, 4, 4), (&viewer, 0, 3)] {
        assert_eq!(code_of(key, &["pull", "task", "show", &task]), show);
        assert_eq!(code_of(key, &["pull", "task", "ledger", &task]), show);
        assert_eq!(code_of(key, &["pull", "user", "show", "ann"]), show);
        assert_eq!(code_of(key, &["pull", "user", "assign", "default", "zoe"]), 3);
        assert_eq!(code_of(key, &["pull", "user", "delete", "ann"]), 3);
        assert_eq!(code_of(key, &["pull", "template", "delete", "copy"]), 3);
        let made = file(
            &server,
            &["task", "create", "--key", key],
            &format!("tasks: [{{executor: {{user: bob}}, when: {{once: {{start: '{}'}}}}}}]", minutes(0)),
        );
        assert_eq!(code(&made), change, "{}", text(&made.stderr));
    }
    assert_eq!(code_of(&foreign, &["pull", "task", "delete", &task]), 4);
    assert_eq!(code_of(&own, &["pull", "task", "delete", &task]), 0);
    assert_eq!(ids(&server.json(&["pull", "task", "ls", "--key", &foreign])), [0; 0]);
}

/// What a user pulls: the grant, where there is one.
fn pull(server: &Server, user: &str) -> Option<Value> {
    let answer = server.json(&["pull", "next", user]);
    Some(answer["grant"].clone()).filter(|grant| !grant.is_null())
}

fn grant_of(pulled: &Value) -> String {
    pulled["grant"].to_string()
}

/// The totals of a task, as its owner has them and as the tables show them: the same, and balanced.
fn totals(server: &Server, task: i64) -> Value {
    let task = task.to_string();
    let (live, shown) = until("the tables show it", || {
        let live = server.json(&["pull", "task", "ledger", &task, "--live"]);
        let shown = server.json(&["pull", "task", "ledger", &task]);
        Some((live, shown)).filter(|(live, shown)| shown["totals"] == live["totals"])
    });
    assert_eq!(live["items"], shown["items"]);
    let mut sum = json!({"taken": 0, "live": 0, "completed": 0, "returned": 0, "expired": 0});
    for of in shown["items"].as_array().unwrap().iter().chain([&shown["totals"]]) {
        let count = |name: &str| of[name].as_u64().unwrap();
        assert_eq!(of["balanced"], true, "{shown}");
        let ended = ["live", "completed", "returned", "expired"].map(count);
        assert_eq!(count("taken"), ended.iter().sum::<u64>(), "{shown}");
    }
    for (name, total) in sum.as_object_mut().unwrap() {
        let items = shown["items"].as_array().unwrap();
        *total = items.iter().map(|of| of[name.as_str()].as_u64().unwrap()).sum::<u64>().into();
        assert_eq!(*total, shown["totals"][name.as_str()], "{name} of {shown}");
    }
    sum
}

/// BYD-10, PUL-4, PUL-7, PUL-13: what of a task was given out is live, completed, returned or expired, and the ledger
/// says so at any time; what comes back is given out again, and never more than there is.
#[test]
fn ledger_balances_whatever_becomes_of_a_grant() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let more = json!({"dispatch_times": 2, "name": "two", "lease_s": 3600, "parameters": {"a": 0.1}});
    let task = add(&server, "two", &json!({"group": "default"}), &more);
    assert_eq!(totals(&server, task)["taken"], 0);

    let first = pull(&server, "ann").unwrap();
    assert_eq!(
        (&first["task"], &first["name"], &first["parameters"]),
        (&json!(task), &json!("two"), &json!({"a": 0.1}))
    );
    let again = pull(&server, "ann").unwrap();
    assert_eq!((&again["grant"], &again["redo"]), (&first["grant"], &json!(true)));
    let second = pull(&server, "bob").unwrap();
    assert_eq!(pull(&server, "carl"), None);
    let counted = |live: u64, completed: u64, returned: u64, expired: u64| {
        let taken = live + completed + returned + expired;
        json!({"taken": taken, "live": live, "completed": completed, "returned": returned, "expired": expired})
    };
    assert_eq!(totals(&server, task), counted(2, 0, 0, 0));
    let standing = server.json(&["pull", "user", "show", "ann"]);
    assert_eq!(standing["standing"]["live"]["grant"], first["grant"], "{standing}");

    server.json(&["pull", "complete", "ann", &grant_of(&first), "--result", "fine"]);
    server.json(&["pull", "complete", "ann", &grant_of(&first), "--result", "fine"]);
    let other = server.run(&["pull", "complete", "ann", &grant_of(&first), "--result", "other"]);
    assert!(code(&other) == 3 && text(&other.stderr).contains("another result"), "{}", text(&other.stderr));
    server.json(&["pull", "return", "bob", &grant_of(&second), "--reason", "away"]);
    assert_eq!(totals(&server, task), counted(0, 1, 1, 0));

    let mut brief = task_of(&server, task);
    brief["lease_s"] = json!(5);
    assert_eq!(server.put(&format!("/api/pull/tasks/{task}"), &brief).0, 200);
    let third = pull(&server, "carl").unwrap();
    until("its lease runs out", || {
        (server.json(&["pull", "task", "ledger", &task.to_string(), "--live"])["totals"]["expired"] == 1)
            .then_some(())
    });
    let late = server.run(&["pull", "complete", "carl", &grant_of(&third), "--result", "late"]);
    assert!(code(&late) == 3 && text(&late.stderr).contains("nothing changes"), "{}", text(&late.stderr));
    assert_eq!(totals(&server, task), counted(0, 1, 1, 1));

    let grants = server.json(&["pull", "grants", "--task", &task.to_string()]);
    let states: Vec<_> = grants["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (of["user"].clone(), of["state"].clone()))
        .collect();
    assert_eq!(json!(states), json!([["carl", "expired"], ["bob", "returned"], ["ann", "completed"]]));
    assert_eq!(grants["items"][1]["reason"], "away", "{grants}");
    assert_eq!(
        server.json(&["pull", "grants", "--user", "ann", "--state", "completed"])["items"][0]["result"],
        "fine"
    );
    let [low, high] = [1, 2].map(|times| {
        let mut request = task_of(&server, task);
        request["dispatch_times"] = json!(times);
        server.put(&format!("/api/pull/tasks/{task}"), &request).0
    });
    assert_eq!((low, high), (200, 200), "one was completed, so one is as low as it goes");
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

fn task_of(server: &Server, task: i64) -> Value {
    server.json(&["pull", "task", "show", &task.to_string()])["task"].clone()
}

/// PUL-5: a user is not moved while it has a live grant; then its history and its own tasks go with it, nothing is
/// given twice, and the ledger still adds up.
#[test]
fn a_user_moves_with_its_tasks_and_history() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let own = add(&server, "own", &json!({"user": "ann"}), &json!({"dispatch_times": 2, "name": "own"}));
    let first = pull(&server, "ann").unwrap();
    let kept = server.run(&["pull", "user", "move", "ann", "other"]);
    let told = text(&kept.stderr);
    assert!(code(&kept) == 3 && told.contains(&grant_of(&first)) && told.contains("pull return"), "{told}");
    server.json(&["pull", "return", "ann", &grant_of(&first)]);
    server.json(&["pull", "user", "move", "ann", "other"]);
    let shown = server.json(&["pull", "user", "show", "ann"]);
    assert_eq!((&shown["group"], &shown["moving"]), (&json!("other"), &json!(false)), "{shown}");

    let second = until("the new group knows it", || {
        let output = server.run(&["pull", "next", "ann", "-o", "json"]);
        output
            .status
            .success()
            .then(|| serde_json::from_slice::<Value>(&output.stdout).unwrap()["grant"].clone())
    });
    assert_eq!(second["task"], json!(own), "{second}");
    server.json(&["pull", "complete", "ann", &grant_of(&second), "--result", "fine"]);
    assert_eq!(
        totals(&server, own),
        json!({"taken": 2, "live": 0, "completed": 1, "returned": 1, "expired": 0})
    );
    let moved = server.json(&["pull", "task", "ls", "--executor", "user:ann"]);
    assert_eq!((ids(&moved), &moved["items"][0]["group"]), (vec![own], &json!("other")), "{moved}");
    assert_eq!(pull(&server, "ann"), None);

    server.json(&["pull", "user", "delete", "ann"]);
    assert_eq!(code(&server.run(&["pull", "user", "show", "ann"])), 4);
    let gone = server.run(&["pull", "next", "ann"]);
    assert!(code(&gone) == 4 && text(&gone.stderr).contains("pull user assign"), "{}", text(&gone.stderr));
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}
