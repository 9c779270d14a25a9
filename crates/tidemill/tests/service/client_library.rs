//! The client library against the real program: its types are those that the interface answers with.

use crate::server::{Server, until};
use serde_json::{Value, json};
use tidemill_client::{ApplyOptions, BatchState, Begin, Client, Error, RunRequest};
use tidemill_model::JobSpec;

fn job(fields: Value) -> JobSpec {
    JobSpec::from_value(fields).unwrap()
}

/// A program applies jobs, runs one to its end, reads its log and finds the events of it in the feed.
#[test]
fn program_applies_runs_and_follows_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.client();
    let jobs = [
        job(
            json!({"name": "a", "group": "default", "type": "shell", "command": "echo hello $TIDEMILL_PARAM_WORD", "parameters": {"word": "you"}}),
        ),
        job(json!({"name": "b", "group": "default", "type": "noop", "enabled": false})),
    ];
    let planned =
        client.apply_jobs(&jobs, &ApplyOptions { dry_run: true, ..ApplyOptions::default() }).unwrap();
    assert_eq!((planned.changes.len(), planned.position), (2, None));
    let applied = client.apply_jobs(&jobs, &ApplyOptions::default()).unwrap();
    assert_eq!((applied.changes[0].change.as_str(), applied.changes[0].version), ("added", 1));
    assert!(applied.pending_groups.is_empty() && applied.position.is_some());
    client.await_shown(&applied.position.unwrap(), std::time::Duration::from_secs(60)).unwrap();

    assert_eq!(client.export_jobs(Some("default")).unwrap().jobs, jobs);
    let listed = client.list_jobs(Some("default"), 10).unwrap();
    assert_eq!((listed.items.len(), listed.next), (2, None));
    let found = client.find_job("default", "b").unwrap();
    assert!(!found.enabled && listed.items.contains(&found), "{found:?}");
    client.enable_job(found.id, true).unwrap();

    let a = client.find_job("default", "a").unwrap();
    let run = client.run_job(a.id, &RunRequest { concurrent: true, ..RunRequest::default() }).unwrap();
    let batch = client.await_batch(run.batch, Some(&run.position)).unwrap();
    assert_eq!((batch.state, batch.result.as_deref()), (BatchState::Finished, Some("success")));
    assert!(batch.started_at.is_some() && batch.finished_at >= batch.started_at);
    assert_eq!(client.batch_log(batch.id, 0).unwrap().content, "hello you\n");
    assert_eq!(client.batch(batch.id).unwrap(), batch);
    let ended = client.kill_batch(batch.id, "too late").unwrap_err();
    assert_eq!(ended.problem().and_then(|it| it.code.as_deref()), Some("batch_already_finished"), "{ended}");
    let long = job(json!({"name": "long", "group": "default", "type": "shell", "command": "sleep 1000"}));
    let applied = client.apply_jobs(&[long], &ApplyOptions::default()).unwrap();
    client.await_shown(&applied.position.unwrap(), std::time::Duration::from_secs(60)).unwrap();
    let long = client.find_job("default", "long").unwrap();
    let run = client.run_job(long.id, &RunRequest::default()).unwrap();
    client.kill_batch(run.batch, "no need of it").unwrap();
    assert_eq!(client.await_batch(run.batch, Some(&run.position)).unwrap().result.as_deref(), Some("killed"));
    let again = client.rerun_batch(batch.id).unwrap();
    assert_eq!(client.await_batch(again.batch, Some(&again.position)).unwrap().run, batch.run + 1);

    let subject = format!("batch/{}", batch.id);
    let feed = client.events(Begin::Start).kind("batch.finished").subject(&subject).limit(1);
    let event = feed.follow().next().unwrap().unwrap();
    let event: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!(event["data"]["result"], "success");
    assert_eq!(server.stop(), Some(0));
}

/// API-1: a program that pulls is given a task, completes it, gives one back, and hears when nothing is due.
#[test]
fn program_pulls_and_completes_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.client();
    let users = json!({"group": "default", "users": ["ann"]});
    client.post("/api/pull/users").body(&users).send::<Value>().unwrap();
    let nothing = until("the user is known", || client.pull("ann", 0).ok());
    assert!(nothing.grant.is_none());
    let start = jiff::Timestamp::now() - std::time::Duration::from_secs(60);
    for word in ["one", "two"] {
        let task = json!({"executor": {"user": "ann"}, "when": {"once": {"start": start}}, "parameters": {"word": word}});
        client.post("/api/pull/tasks").body(&task).send::<Value>().unwrap();
    }
    let next = || until("a task is due", || client.pull("ann", 1).unwrap().grant);
    let first = next();
    assert!(first.parameters["word"].is_string() && !first.redo, "{first:?}");
    assert_eq!((next().grant, next().redo), (first.grant, true), "until it is completed");
    client.give_back("ann", first.grant, "later").unwrap();
    for _ in 0..2 {
        let grant = next();
        client.complete("ann", grant.grant, "done").unwrap();
        let other = client.complete("ann", grant.grant, "not done").unwrap_err();
        assert_eq!(other.problem().and_then(|it| it.code.as_deref()), Some("already_completed"));
    }
    assert_eq!(server.stop(), Some(0));
}

/// What the server refuses is told with its status, its code and the fields; nothing was done.
#[test]
fn refusals_have_status_code_and_fields() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.client();
    let refused = client.find_job("default", "none").unwrap_err();
    assert_eq!(refused.problem().map(|it| it.status), Some(404));
    let body = json!({"jobs": [{"name": "a", "group": "default", "type": "noop", "priority": 12}]});
    let bad = client.post("/api/jobs/apply").body(&body).send::<Value>().unwrap_err();
    let problem = bad.problem().unwrap();
    assert_eq!((problem.status, problem.code.as_deref()), (422, Some("invalid")));
    assert_eq!(
        (problem.errors[0].field.as_str(), problem.errors[0].value.as_str()),
        ("jobs[0].priority", "12")
    );
    assert_eq!(bad.key_to_repeat(), None);
    let stranger = Client::builder(client.server()).key("nobody:secret").build().unwrap();
    let refused = stranger.list_jobs(None, 1).unwrap_err();
    assert!(matches!(&refused, Error::Refused { problem, .. } if problem.status == 401), "{refused}");
    assert_eq!(server.stop(), Some(0));
}
