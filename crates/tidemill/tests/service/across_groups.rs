//! DEP-3, GEN-9, JOB-9: parents in other groups, through the command line and REST.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::server::{Server, code, text, until};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_model::Timestamp;

/// Group `default` has a worker; what the others run completes by itself.
const JOBS: &str = "jobs:\n\
    - {name: load, group: default, type: shell, command: 'while [ ! -e \"$TIDEMILL_PARAM_GO\" ]; do sleep 0.1; done',\n\
       parameters: {go: GO}}\n\
    - {name: publish, group: lake, type: anchor, parents: [default/load]}\n\
    - {name: report, group: shop, type: anchor, parents: [lake/publish]}\n\
    - {name: notify, group: default, type: noop, parents: [shop/report]}\n";

/// Three groups and a chain of jobs through them, of which the first ends once the file is there.
fn chain(dir: &std::path::Path) -> (Server, std::path::PathBuf) {
    let server = Server::start(&dir.join("data"));
    for group in ["lake", "shop"] {
        server.json(&["group", "apply", group]);
    }
    let go = dir.join("go");
    server.apply(&JOBS.replace("GO}", &format!("'{}'}}", go.display())));
    (server, go)
}

fn batches(server: &Server, job: &str) -> Vec<Value> {
    server.json(&["batch", "ls", "--job", job])["items"].as_array().unwrap().clone()
}

fn ended(server: &Server, batch: &str) -> Value {
    until("the batch ends", || {
        Some(server.json(&["batch", "show", batch])).filter(|shown| shown["state"] == "finished")
    })
}

fn newest(server: &Server, job: &str) -> String {
    until(&format!("{job} has a batch"), || batches(server, job).first().map(|batch| batch["id"].to_string()))
}

/// GEN-9, DEP-3: each job of a chain through three groups gets one batch, waits for its parent in another group
/// and says so, and goes on when that has succeeded; a rerun of the first makes no further ones.
#[test]
fn a_chain_through_groups_runs_once() {
    let dir = tempfile::tempdir().unwrap();
    let (server, go) = chain(dir.path());
    let time = "2026-03-01T00:00:00.000Z";
    let load = server.json(&["job", "run", "default/load", "--concurrent", "--logical-time", time])["batch"]
        .to_string();
    let publish = newest(&server, "lake/publish");
    let condition = until("its parent has answered", || {
        let why = server.json(&["batch", "why", &publish]);
        let condition = why["conditions"][0].clone();
        condition["message"].as_str()?.contains("last said").then_some(condition)
    });
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("waits for default/load of 2026-03-01T00:00:00.000Z"), "{message}");
    assert!(
        message.contains(&format!("its group last said that batch {load} (run 0) is not finished")),
        "{message}"
    );
    let shown = server.json(&["batch", "show", &publish]);
    assert_eq!(shown["origin"], "parent");
    assert_eq!(shown["dependencies"][0]["parent_name"], "default/load", "{shown}");
    assert_eq!(shown["dependencies"][0]["met"], false, "{shown}");

    std::fs::write(&go, "").unwrap();
    let notify = newest(&server, "default/notify");
    for batch in [&load, &publish, &newest(&server, "shop/report"), &notify] {
        assert_eq!(ended(&server, batch)["result"], "success");
    }
    assert_eq!(server.json(&["batch", "show", &publish])["dependencies"][0]["met"], true);

    let again = server.json(&["batch", "rerun", &load])["batch"].to_string();
    assert_eq!(ended(&server, &again)["result"], "success");
    for job in ["lake/publish", "shop/report", "default/notify"] {
        assert_eq!(batches(&server, job).len(), 1, "{job}");
    }
    assert_eq!(server.json(&["verify", "--journal"])["finding_count"], 0);
    assert_eq!(server.json(&["verify"])["difference_count"], 0);
}

/// DEP-3: a batch waits for the newest run of its parent in another group: it is not satisfied by one that failed,
/// and it is by the rerun.
#[test]
fn the_newest_run_in_another_group_decides() {
    let dir = tempfile::tempdir().unwrap();
    let (server, go) = chain(dir.path());
    let time = "2026-03-01T00:00:00.000Z";
    let load = server.json(&["job", "run", "default/load", "--concurrent", "--logical-time", time])["batch"]
        .to_string();
    let publish = newest(&server, "lake/publish");
    server.json(&["batch", "kill", &load]);
    assert_eq!(ended(&server, &load)["result"], "killed");
    until("it hears of the end", || {
        let why = server.json(&["batch", "why", &publish]);
        why["conditions"][0]["message"].as_str()?.contains("(run 0) killed").then_some(())
    });
    std::fs::write(&go, "").unwrap();
    let again = server.json(&["batch", "rerun", &load])["batch"].to_string();
    assert_eq!(ended(&server, &again)["result"], "success");
    assert_eq!(ended(&server, &publish)["result"], "success");
}

/// DEP-3: all of a parent's hours in another group, for a day: the times are those of the mapping, each is waited
/// for, and each is heard of, also of those that succeeded long before.
#[test]
fn a_day_waits_for_all_hours_of_a_job_in_another_group() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.json(&["group", "apply", "lake"]);
    server.apply(
        "jobs:\n\
         - {name: hourly, group: lake, type: anchor, schedule: {period: hour, zone: UTC}}\n\
         - {name: daily, group: default, type: noop, schedule: {period: day, zone: UTC},\n\
            parents: [{job: lake/hourly, mapping: all}]}\n",
    );
    let hour = |hour: u32| format!("2096-03-01T{hour:02}:00:00.000Z");
    let run =
        |time: &str| server.json(&["job", "run", "lake/hourly", "--concurrent", "--logical-time", time]);
    for time in (1..23).map(hour) {
        run(&time);
    }
    let daily = ["job", "run", "default/daily", "--concurrent", "--logical-time", "2096-03-02T00:00:00.000Z"];
    let daily = server.json(&daily)["batch"].to_string();
    let two_left = until("it has heard of all that there is", || {
        let shown = server.json(&["batch", "show", &daily]);
        let dependencies = shown["dependencies"].as_array().unwrap().clone();
        let open: Vec<Value> = dependencies.iter().filter(|it| it["met"] == false).cloned().collect();
        assert_eq!(dependencies.len(), 24, "{shown}");
        (open.len() == 2).then_some(open)
    });
    assert_eq!(two_left[0]["logical_time"], "2096-03-01T23:00:00.000Z", "{two_left:?}");
    for time in [hour(23), "2096-03-02T00:00:00.000Z".to_owned()] {
        run(&time);
    }
    assert_eq!(ended(&server, &daily)["result"], "success");
}

/// JOB-5, JOB-6, JOB-9: a parent of another group is named as group/name and comes back so from an export that
/// changes nothing; one that is not there, on another grid, or around in a circle is refused; and a parent is not
/// deleted as long as another group has children of it.
#[test]
fn definitions_with_parents_in_other_groups_are_held_together() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = chain(dir.path());
    let exported = until("the tables have all jobs", || {
        let jobs = server.json(&["job", "export"])["jobs"].as_array().unwrap().clone();
        (jobs.len() == 4).then_some(jobs)
    });
    let publish = exported.iter().find(|job| job["name"] == "publish").unwrap();
    assert_eq!(publish["parents"], json!(["default/load"]), "{publish}");
    let (status, applied) = server.post("/api/jobs/apply", "again", &json!({ "jobs": exported }));
    assert_eq!(status, 200, "{applied}");
    let changes = applied["changes"].as_array().unwrap();
    assert!(changes.iter().all(|change| change["change"] == "unchanged"), "{applied}");

    let refusals = [
        (json!({"name": "load", "group": "default", "type": "noop", "parents": ["default/notify"]}), "cycle"),
        (
            json!({"name": "x", "group": "lake", "type": "noop", "parents": ["shop/nobody"]}),
            "no job of that name",
        ),
        (
            json!({"name": "load", "group": "default", "type": "noop", "parents": [{"job": "lake/publish", "mapping": "latest"}]}),
            "cycle",
        ),
    ];
    for (n, (job, named)) in refusals.iter().enumerate() {
        let (status, refused) =
            server.post("/api/jobs/apply", &format!("bad-{n}"), &json!({ "jobs": [job] }));
        assert!((400..500).contains(&status), "{refused}");
        assert!(refused.to_string().contains(named), "{named}: {refused}");
    }
    let refused = server.run(&["job", "delete", "default/load"]);
    let told = text(&refused.stderr);
    assert_eq!(code(&refused), 3, "{told}");
    assert!(told.contains("lake/publish"), "{told}");
}

/// A root, and jobs in four groups that run after it, each with one chain of `width`; beside them jobs whose
/// definitions come first.
fn fan(round: usize, width: usize, beside: usize) -> Vec<Value> {
    let anchor = |group: &str, name: String, parents: Vec<String>| json!({"name": format!("{name}-{round}"), "group": group, "type": "anchor", "parents": parents});
    let groups = ["lake", "shop", "mill", "default"];
    let mut jobs = vec![anchor("default", "root".to_owned(), Vec::new())];
    jobs.extend((0..beside).map(|n| anchor(groups[n % 4], format!("beside-{n}"), Vec::new())));
    for n in 0..width {
        let mut parent = format!("default/root-{round}");
        for (step, group) in groups.into_iter().enumerate() {
            jobs.push(anchor(group, format!("step-{step}-{n}"), vec![parent]));
            parent = format!("{group}/step-{step}-{n}-{round}");
        }
    }
    jobs
}

fn finished(server: &Server) -> usize {
    let (status, page) = server.get("/api/batches?state=finished&result=success&limit=1000");
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().len()
}

/// JOB-5, GEN-9: what is done after an `apply` has answered finds all of it in effect: a run by hand of the first job,
/// at once, brings forth the batches of all that follow, through four groups; so it does after an `apply` too large for
/// one command, and after one that gives a job of before its first child in another group.
#[test]
fn whatever_is_done_after_an_apply_finds_it_in_force_in_every_group() {
    const WIDTH: usize = 10;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for group in ["lake", "shop", "mill"] {
        server.json(&["group", "apply", group]);
    }
    let apply = |request: &str, jobs: &[Value]| {
        let (status, applied) = server.post("/api/jobs/apply", request, &json!({ "jobs": jobs }));
        assert_eq!(status, 200, "{applied}");
        applied["changes"].as_array().unwrap().iter().map(|change| change["job"].clone()).collect::<Vec<_>>()
    };
    let run = |root: &Value, request: &str| {
        let (status, run) = server.post(&format!("/api/jobs/{root}/run"), request, &json!({}));
        assert_eq!(status, 200, "{run}");
    };
    let mut expected = 0;
    for (round, beside) in [300, 600, 300].into_iter().enumerate() {
        let root = &apply(&format!("apply-{round}"), &fan(round, WIDTH, beside))[0];
        run(root, &format!("run-{round}"));
        let late = json!({"name": format!("late-{round}"), "group": "mill", "type": "anchor",
            "parents": [format!("lake/step-0-0-{round}")]});
        expected += 1 + 4 * WIDTH;
        until("all that follows the root has run", || (finished(&server) == expected).then_some(()));
        apply(&format!("late-{round}"), &[late]);
        run(root, &format!("again-{round}"));
        expected += 1 + 4 * WIDTH + 1;
        until("so it has once more, with the late one", || (finished(&server) == expected).then_some(()));
    }
    // What a shard has to say of so many parents takes several messages, one after the other.
    const MANY: usize = 400;
    let anchor = |n: usize, group: &str, name: &str, parents: &[String]| json!({"name": format!("{name}-{n}"), "group": group, "type": "anchor", "parents": parents});
    let mut jobs: Vec<Value> = (0..MANY).map(|n| anchor(n, "default", "parent", &[])).collect();
    jobs.extend((0..MANY).map(|n| anchor(n, "lake", "child", &[format!("default/parent-{n}")])));
    run(&apply("many", &jobs)[MANY - 1], "run-last");
    expected += 2;
    until("the child of the last parent has run", || (finished(&server) == expected).then_some(()));
    assert_eq!(server.json(&["verify", "--journal"])["finding_count"], 0);
}

/// DEP-3: what a parent passed over is not waited for, in its own group and in another one: here what lies before its
/// first definition. `why` names it.
#[test]
fn what_a_parent_skipped_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.json(&["group", "apply", "lake"]);
    server.apply(
        "jobs:\n\
         - {name: p, group: default, type: noop, schedule: {period: hour, zone: UTC}}\n\
         - {name: held, group: default, type: noop, schedule: {period: day, zone: UTC},\n\
            parents: [{job: p, mapping: all}], third_party: [erp]}\n\
         - {name: c, group: lake, type: anchor, schedule: {period: day, zone: UTC},\n\
            parents: [{job: default/p, mapping: all}]}\n",
    );
    let run = |job: &str, time: &str| {
        server.json(&["job", "run", job, "--logical-time", time])["batch"].to_string()
    };
    let past = "2026-03-01T00:00:00.000Z";
    assert_eq!(ended(&server, &run("lake/c", past))["result"], "success");
    let held = run("default/held", past);
    let why = server.json(&["batch", "why", &held]);
    let kinds: Vec<&Value> =
        why["conditions"].as_array().unwrap().iter().map(|condition| &condition["kind"]).collect();
    assert_eq!(kinds, ["third_party"], "{why}");
    assert_eq!(why["left_out"].as_array().unwrap().len(), 24, "{why}");
    assert_eq!(why["left_out"][0]["logical_time"], "2026-02-28T01:00:00.000Z");
    let shown = server.run(&["batch", "why", &held]);
    assert!(
        text(&shown.stdout).contains("leaves out default/p of 2026-02-28T01:00:00.000Z"),
        "{}",
        text(&shown.stdout)
    );
    // What is to come is waited for.
    let ahead = run("lake/c", "2096-03-01T00:00:00.000Z");
    until("the parent's group has answered", || {
        let why = server.json(&["batch", "why", &ahead]);
        why["conditions"][0]["message"].as_str()?.contains("has no batch yet").then_some(())
    });
}

fn moment(value: &Value) -> i64 {
    value.as_str().unwrap().parse::<Timestamp>().unwrap().as_millisecond()
}

/// DEP-8: while a failed parent keeps a subtree waiting, each batch of it says so, in another group, too: in `batch why`, in
/// `batch ls`, and once as an event. Once somebody has acted, it goes on.
#[test]
fn a_subtree_says_that_a_failed_parent_blocks_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.json(&["group", "apply", "lake"]);
    server.apply(
        "jobs:\n\
         - {name: p, group: default, type: shell, command: 'false', schedule: {period: day, zone: UTC}}\n\
         - {name: c, group: default, type: anchor, parents: [p]}\n\
         - {name: g, group: lake, type: anchor, parents: [default/c]}\n",
    );
    let time = "2096-03-01T00:00:00.000Z";
    let failed = server.json(&["job", "run", "default/p", "--logical-time", time])["batch"].to_string();
    let listed = || server.json(&["batch", "ls", "--blocked"])["items"].as_array().unwrap().clone();
    let blocked = until("the subtree is blocked", || Some(listed()).filter(|items| items.len() == 2));
    let names: Vec<&Value> = blocked.iter().map(|batch| &batch["job_name"]).collect();
    assert_eq!(names, ["g", "c"]);
    for batch in &blocked {
        let why = server.json(&["batch", "why", &batch["id"].to_string()]);
        assert_eq!(moment(&why["blocked"]["since"]), moment(&batch["blocked_since"]), "{why}");
        assert_eq!(why["blocked"]["job"], batch["blocked_by"], "{why}");
    }
    let told = |nth: usize| text(&server.run(&["batch", "why", &blocked[nth]["id"].to_string()]).stdout);
    let by = format!("it is blocked by a failed parent: default/p of {time}: batch {failed} (run 1) failed.");
    assert!(told(1).contains(&by), "{}", told(1));
    assert!(told(0).contains("it is blocked by a failed parent: default/c of"), "{}", told(0));
    assert!(told(0).contains("is blocked by a failed parent."), "{}", told(0));

    let (verdict, reason) = (["batch", "mark", &failed, "success"], ["--reason", "looked at it"]);
    server.json(&[&verdict[..], &reason[..]].concat());
    assert_eq!(ended(&server, &blocked[0]["id"].to_string())["result"], "success");
    assert_eq!(listed(), Vec::<Value>::new());
    assert_eq!(server.json(&["verify", "--journal"])["finding_count"], 0);
    let mut tail = Command::new(env!("CARGO_BIN_EXE_tidemill"))
        .args(["events", "tail", "--from", "start", "-o", "json", "--data"])
        .arg(&server.data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let (last, mut said) = (format!("batch/{}", blocked[0]["id"]), Vec::new());
    for event in lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()) {
        let kind = event["type"].as_str().unwrap().to_owned();
        if kind.contains("blocked") {
            said.push(kind);
        } else if kind == "tidemill.batch.finished.v1" && event["subject"] == last.as_str() {
            break;
        }
    }
    tail.kill().unwrap();
    tail.wait().unwrap();
    said.sort();
    let (on, off) = ("tidemill.batch.blocked.v1", "tidemill.batch.unblocked.v1");
    assert_eq!(said, [on, on, off, off]);
}

/// DEP-8: since when a batch waits for a parent that runs again is since that was heard, and not since the batch came to wait.
#[test]
fn since_is_when_the_parent_was_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.json(&["group", "apply", "lake"]);
    let flag = dir.path().join("slow");
    server.apply(&format!(
        "jobs:\n\
         - {{name: p, group: default, type: shell, command: 'test ! -e {} || sleep 600', \
            schedule: {{period: day, zone: UTC}}}}\n\
         - {{name: c, group: lake, type: anchor, parents: [default/p], third_party: [erp]}}\n",
        flag.display()
    ));
    let time = "2096-03-01T00:00:00.000Z";
    let first = server.json(&["job", "run", "default/p", "--logical-time", time])["batch"].to_string();
    assert_eq!(ended(&server, &first)["result"], "success");
    let child = until("the child has heard of it", || {
        let child = server.json(&["batch", "ls", "--job", "lake/c"])["items"][0].clone();
        (child["unmet"] == 0).then_some(child)
    });
    std::fs::write(&flag, "").unwrap();
    let again = server.json(&["batch", "rerun", &first])["batch"].to_string();
    let condition = until("the child waits for it again", || {
        let why = server.json(&["batch", "why", &child["id"].to_string()]);
        let conditions = why["conditions"].as_array()?.clone();
        conditions.into_iter().find(|condition| condition["kind"] == "dependency")
    });
    let rerun = server.json(&["batch", "show", &again]);
    assert!(moment(&condition["since"]) >= moment(&rerun["generated_at"]), "{condition} {rerun}");
    server.json(&["batch", "kill", &again]);
    ended(&server, &again);
}

/// DEP-3, GEN-9: while a parent is switched off, what it owes is waited for, in its own group and in another one; once
/// it is switched on again, children go on without what it missed.
#[test]
fn who_waits_for_a_disabled_parent_goes_on_when_it_is_enabled() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    server.json(&["group", "apply", "lake"]);
    server.apply(
        "jobs:\n\
         - {name: tick, group: default, type: noop, schedule: {cron: '* * * * * ?', zone: UTC}}\n\
         - {name: near, group: default, type: anchor, schedule: {period: day, zone: UTC},\n\
            parents: [{job: tick, mapping: latest}]}\n\
         - {name: far, group: lake, type: anchor, schedule: {period: day, zone: UTC},\n\
            parents: [{job: default/tick, mapping: latest}]}\n",
    );
    server.run(&["job", "disable", "default/tick"]);
    let owed = Timestamp::from_second(jiff::Timestamp::now().as_second() + 2).unwrap();
    let run = |job: &str| {
        server.json(&["job", "run", job, "--logical-time", &owed.to_string()])["batch"].to_string()
    };
    let waiting = [run("default/near"), run("lake/far")];
    let why = |batch: &str| server.json(&["batch", "why", batch]);
    until("its group has answered", || {
        why(&waiting[1])["conditions"][0]["message"].as_str()?.contains("has no batch yet").then_some(())
    });
    let passed = owed + SignedDuration::from_secs(2);
    until("the time has passed", || (Timestamp::from(jiff::Timestamp::now()) > passed).then_some(()));
    for batch in &waiting {
        assert_eq!(server.json(&["batch", "show", batch])["state"], "waiting");
        assert_eq!(why(batch)["conditions"][0]["logical_time"], owed.to_string());
    }
    let message = why(&waiting[0])["conditions"][0]["message"].to_string();
    assert!(message.contains("it is disabled and has no batch yet"), "{message}");
    server.run(&["job", "enable", "default/tick"]);
    for batch in &waiting {
        assert_eq!(ended(&server, batch)["result"], "success");
    }
    assert_eq!(server.json(&["verify", "--journal"])["finding_count"], 0);
}
