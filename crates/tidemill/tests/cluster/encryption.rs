//! Roles that speak encrypted with one another (OPS-10).

use serde_json::Value;
use tempfile::TempDir;
use tidemill_model::Timestamp;

use crate::authority::{Authority, Pair};
use crate::kit::{Cluster, until};

const TIME: Timestamp = Timestamp::constant(1_704_067_200);
const JOBS: &str = r#"
jobs:
- {name: first, group: demo, type: shell, command: 'echo done by a worker'}
- {name: waits, group: demo, type: shell, parents: [demo/never], command: 'true'}
- {name: never, group: demo, type: shell, command: 'true'}
"#;

fn roles(ca: &std::path::Path, pair: &Pair) -> [(&'static str, String); 3] {
    [
        ("TLS__CA_FILE", ca.display().to_string()),
        ("TLS__ROLES__CERTIFICATE_FILE", pair.certificate.display().to_string()),
        ("TLS__ROLES__KEY_FILE", pair.key.display().to_string()),
    ]
}

/// The batch of a job, once it has ended well.
fn ended(cluster: &Cluster, job: &str) -> Value {
    let batch = until(&format!("{job} ends"), || {
        let batches = cluster.get("/api/batches?group=demo");
        let items = batches["items"].as_array().unwrap();
        let ended = |batch: &&Value| batch["job_name"] == job && batch["state"] == "finished";
        items.iter().find(ended).cloned()
    });
    assert_eq!(batch["result"], "success", "{batch}");
    batch
}

/// OPS-10: a cluster whose roles speak encrypted does its work: a job runs, its log is read from its worker, and its owner is
/// asked on its live port, by the interface and by what looks for paths. A role whose certificate another authority has
/// signed is refused by both, and learns why.
#[test]
fn roles_of_one_authority_work_together_and_a_stranger_is_refused() {
    let dir = TempDir::new().unwrap();
    let (ours, others) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "others"));
    let own = roles(&ours.file(), &ours.issues("role"));
    let own: Vec<_> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut cluster = Cluster::start_with(&own);
    cluster.start_executor("executor-1", 1_000);
    cluster.apply(JOBS);
    let first = cluster.json(&["job", "show", "demo/first"])["id"].clone();
    cluster.run_job(&first, TIME);
    let batch = ended(&cluster, "first");
    let batch = batch["id"].to_string();
    assert_eq!(cluster.succeeds(&["batch", "logs", &batch]), "done by a worker\n");
    cluster.start_producers("producers", &[]);
    let there = dir.path().join("there");
    cluster.apply(&format!(
        "jobs:\n- {{name: outside, group: demo, type: noop, inputs: ['{}']}}\n",
        there.display()
    ));
    let outside = cluster.json(&["job", "show", "demo/outside"])["id"].clone();
    cluster.run_job(&outside, TIME);
    std::fs::write(&there, "").unwrap();
    ended(&cluster, "outside");
    let waits = cluster.json(&["job", "show", "demo/waits"])["id"].clone();
    cluster.run_job(&waits, TIME);
    let waiting = until("the batch that waits is in the tables", || {
        let batches = cluster.get("/api/batches?group=demo");
        let items = batches["items"].as_array().unwrap();
        items.iter().find(|batch| batch["job_name"] == "waits")?["id"].as_i64()
    });
    let why = cluster.json(&["batch", "why", &waiting.to_string()]);
    assert!(why.to_string().contains("never"), "{why:#}");

    let both = dir.path().join("both.pem");
    let authorities = [ours.file(), others.file()].map(|file| std::fs::read(file).unwrap());
    std::fs::write(&both, authorities.concat()).unwrap();
    let strange = roles(&both, &others.issues("stranger"));
    let strange: Vec<_> = strange.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let server = cluster.start_another_api("stranger", &strange);
    let ask = |arguments: &[&str]| {
        let output = cluster.run(&[arguments, &["--server", &server]].concat());
        assert!(!output.status.success(), "{arguments:?} is answered");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    until("the worker's refusal is told", || {
        ask(&["batch", "logs", &batch]).contains("refuses the certificate").then_some(())
    });
    // A connection may be closed before the refusal has been read: then only the next question learns why.
    let says_why = |line: &str| {
        ["cannot ask the owner", "refuses the certificate"].iter().all(|word| line.contains(word))
    };
    until("the owner does not answer, and the stranger learns why", || {
        let unanswered = ask(&["batch", "why", &waiting.to_string()]).contains("shard");
        (unanswered && cluster.lines_of("stranger").lines().any(says_why)).then_some(())
    });
    assert_eq!(cluster.json(&["verify", "--journal"])["finding_count"], 0);
}
