//! DEP-3, JOB-6: a task after 20,000 others, as published workflows have one, through the command line and REST.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use crate::server::feed::Feed;
use crate::server::{Server, code, run_job, text, until_within};
use serde_json::{Value, json};

const PARENTS: usize = 20_000;
/// On a slow machine that does much else.
const PATIENCE: Duration = Duration::from_secs(900);

/// DEP-3, JOB-6, TBL-1: one file has a task after 20,000 others. It is applied and run by hand; the record of the task's
/// batch is small, it runs once, after all the others, and the tables say how many there were.
#[test]
fn a_task_after_twenty_thousand_others_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut jobs = String::from("jobs:\n- {name: begin, group: default, type: anchor}\n");
    let mut parents = String::new();
    for n in 0..PARENTS {
        let name = format!("sG1IterDecon_ID{n:07}");
        writeln!(jobs, "- {{name: {name}, group: default, type: anchor, parents: [begin]}}").unwrap();
        writeln!(parents, "  - {name}").unwrap();
    }
    write!(jobs, "- name: wrapper\n  group: default\n  type: anchor\n  parents:\n{parents}").unwrap();
    let file = dir.path().join("seismology.yaml");
    fs::write(&file, jobs).unwrap();
    // A slow machine may answer first that it is recorded, and not yet in effect, or have no answer in time.
    until_within(PATIENCE, "the jobs are in effect", || {
        let applied = server.run(&["job", "apply", "-f", file.to_str().unwrap()]);
        let said = format!("{}{}", text(&applied.stdout), text(&applied.stderr));
        assert!([0, 6, 7].contains(&code(&applied)), "{said}");
        (code(&applied) == 0).then_some(())
    });

    let shown = server.json(&["job", "show", "default/wrapper"]);
    assert_eq!(shown["parents"].as_array().unwrap().len(), PARENTS);
    let mut feed = Feed::follow(dir.path());
    run_job(&server, "default/begin");
    let batch = until_within(PATIENCE, "the task after all others", || {
        let batches = server.json(&["batch", "ls", "--job", "default/wrapper"]);
        batches["items"].as_array()?.first().filter(|batch| batch["result"] == "success").cloned()
    });
    assert_eq!((&batch["counted_parents"], &batch["unmet"]), (&json!(PARENTS), &json!(0)), "{batch}");
    let (status, detail) = server.get(&format!("/api/batches/{}", batch["id"]));
    assert_eq!((status, &detail["dependencies"]), (200, &json!([])));

    let events = feed.until_now(&server);
    let wrapper = shown["id"].as_i64().unwrap();
    let position = |kind: &str, is_it: &dyn Fn(&Value) -> bool| {
        events.iter().rposition(|event| event["type"] == kind && is_it(&event["data"])).unwrap()
    };
    let generated = position("tidemill.batch.generated.v1", &|data| data["job"] == wrapper);
    let bytes = events[generated]["data"].to_string().len();
    assert!(bytes < 1_000, "{bytes} bytes: {}", events[generated]["data"]);
    let told = events.iter().filter(|event| event["type"] == "tidemill.dependency.satisfied.v1");
    assert!(told.filter(|event| event["data"]["batch"] == batch["id"]).count() >= PARENTS - 1);
    let finished = position("tidemill.batch.finished.v1", &|data| data["batch"] == batch["id"]);
    let others = events.iter().enumerate().filter(|(_, event)| event["type"] == "tidemill.batch.finished.v1");
    assert_eq!(others.filter(|(at, _)| *at < finished).count(), PARENTS + 1);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// JOB-6: one more parent than there may be is refused with the rule, and nothing is changed.
#[test]
fn one_parent_too_many_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let names: Vec<String> = (0..=PARENTS).map(|n| format!("p{n}")).collect();
    let job = json!({"name": "c", "group": "default", "type": "anchor", "parents": names});
    let (status, told) = server.post("/api/jobs/apply", "too-many", &json!({"jobs": [job]}));
    assert_eq!(status, 422, "{told}");
    let error = &told["errors"][0];
    assert_eq!((&error["field"], &error["value"]), (&json!("jobs[0].parents"), &json!("20001")), "{told}");
    assert!(error["rule"].as_str().unwrap().contains("at most 20000 parents"), "{told}");
}
