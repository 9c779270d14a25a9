//! JOB-9: a job gets another name, through the command line, REST and files, and is the same job.

use crate::server::{Server, code, run_job, text};
use serde_json::{Value, json};

const JOBS: &str = "jobs:\n\
    - {name: load, group: default, type: noop}\n\
    - {name: report, group: default, type: noop, parents: [load]}\n";

fn fixture(data: &std::path::Path) -> Server {
    let server = Server::start(data);
    server.apply(JOBS);
    server
}

fn id_of(server: &Server, job: &str) -> i64 {
    server.json(&["job", "show", job])["id"].as_i64().unwrap()
}

fn parent_of_report(server: &Server) -> Value {
    server.json(&["job", "show", "default/report"])["parents"][0]["name"].clone()
}

/// JOB-9: `job rename` keeps id, batches and run numbers; children and exports show the new name, and what is exported
/// is applied again without a change.
#[test]
fn renamed_job_is_the_same_job_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let id = id_of(&server, "default/load");
    let first = run_job(&server, "default/load");
    let time = server.json(&["batch", "show", &first])["logical_time"].as_str().unwrap().to_owned();

    let renamed = server.run(&["job", "rename", "default/load", "fetch"]);
    assert_eq!(code(&renamed), 0, "{}", text(&renamed.stderr));
    assert_eq!(id_of(&server, "default/fetch"), id);
    assert_eq!(code(&server.run(&["job", "show", "default/load"])), 4, "the old name means nothing");
    assert_eq!(parent_of_report(&server), "default/fetch");
    assert_eq!(server.json(&["job", "show", "default/fetch"])["version"], 2, "a change of the definition");

    let rerun = server.json(&["batch", "rerun", &first])["batch"].to_string();
    let rerun = server.json(&["batch", "show", &rerun]);
    assert_eq!((&rerun["job"], &rerun["run"]), (&json!(id), &json!(1)), "one more run of that time: {rerun}");
    assert_eq!(rerun["logical_time"], time.as_str());

    let exported = server.json(&["job", "export"]);
    let parents =
        &exported["jobs"].as_array().unwrap().iter().find(|job| job["name"] == "report").unwrap()["parents"];
    assert_eq!(*parents, json!(["fetch"]));
    let (status, applied) = server.post("/api/jobs/apply", "again", &exported);
    assert_eq!(status, 200, "{applied}");
    let changed = |change: &&Value| change["change"] != "unchanged";
    assert_eq!(applied["changes"].as_array().unwrap().iter().find(changed), None);
}

/// JOB-9: a new name that another job has is refused with field, value and rule, through REST.
#[test]
fn rename_to_a_name_that_is_taken_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let path = format!("/api/jobs/{}/rename", id_of(&server, "default/load"));
    let (status, refused) = server.post(&path, "taken", &json!({"name": "report"}));
    assert_eq!((status, &refused["code"]), (422, &json!("invalid")), "{refused}");
    let error = &refused["errors"][0];
    assert_eq!((&error["field"], &error["value"]), (&json!("name"), &json!("report")), "{refused}");
    let (status, refused) = server.post(&path, "no-name", &json!({"name": "a/b"}));
    assert_eq!(status, 422, "{refused}");
    assert_eq!(parent_of_report(&server), "default/load");
}

/// JOB-9: `previous_name` in a file renames; a dry run shows it; left in the file it is harmless; a name that nobody
/// has is refused.
#[test]
fn previous_name_in_a_file_renames() {
    let dir = tempfile::tempdir().unwrap();
    let server = fixture(dir.path());
    let id = id_of(&server, "default/load");
    let file = dir.path().join("jobs.yaml");
    let renamed =
        JOBS.replace("name: load,", "name: fetch, previous_name: load,").replace("[load]", "[fetch]");
    std::fs::write(&file, &renamed).unwrap();
    let apply = |more: &[&str]| {
        let arguments =
            [&["job", "apply", "-f", file.to_str().unwrap(), "--prune", "default"], more].concat();
        let applied = server.run(&arguments);
        assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
        text(&applied.stdout)
    };
    let planned = apply(&["--dry-run"]);
    assert!(planned.contains("~ default/fetch  version 2: name"), "{planned}");
    assert!(planned.contains("name: load → fetch"), "{planned}");
    assert_eq!(id_of(&server, "default/load"), id, "nothing was done");
    apply(&[]);
    assert_eq!(id_of(&server, "default/fetch"), id);
    let again = apply(&[]);
    assert!(again.contains("Nothing to change"), "{again}");

    std::fs::write(
        &file,
        renamed.replace("previous_name: load", "previous_name: nobody").replace("fetch", "other"),
    )
    .unwrap();
    let refused = server.run(&["job", "apply", "-f", file.to_str().unwrap()]);
    let told = text(&refused.stderr);
    assert_eq!(code(&refused), 2, "{told}");
    for part in ["previous_name", "nobody", "neither"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
