//! DSP-1: why a batch did not run at a moment of the past, through REST and the command line.

use crate::server::{Server, text, until};
use serde_json::{Value, json};

fn why(server: &Server, batch: &str, moment: &str) -> Value {
    server.json(&["batch", "why", batch, "--as-of", moment])
}

/// DSP-1: `why` of a past moment, by time and by position, says what kept the batch then: its parent, then a third
/// party, then nothing; what it says of a moment does not change afterwards.
#[test]
fn why_says_what_kept_a_batch_at_a_past_moment() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let before = tidemill_model::Timestamp::from(jiff::Timestamp::now()).to_string();
    server.apply(
        "jobs:\n- {name: p, group: default, type: noop}\n\
         - {name: c, group: default, type: noop, parents: [p], third_party: [erp]}\n",
    );
    let time = "2026-03-01T00:00:00.000Z";
    let run = |job: &str| server.json(&["job", "run", job, "--concurrent", "--logical-time", time]);
    let child = run("default/c");
    let (child, generated) = (child["batch"].to_string(), child["position"].as_str().unwrap().to_owned());
    let kinds = |why: &Value| -> Vec<String> {
        let conditions = why["conditions"].as_array().unwrap();
        conditions.iter().map(|condition| condition["kind"].as_str().unwrap().to_owned()).collect()
    };
    let both = server.json(&["batch", "why", &child]);
    let first = tidemill_model::Timestamp::from(jiff::Timestamp::now()).to_string();
    assert_eq!(kinds(&both), ["dependency", "third_party"], "{both}");
    run("default/p");
    until("the parent has succeeded", || {
        (kinds(&server.json(&["batch", "why", &child])) == ["third_party"]).then_some(())
    });
    let second = tidemill_model::Timestamp::from(jiff::Timestamp::now()).to_string();
    server.run(&["third-party", "report", "erp", "--logical-time", time]);
    until("it has run", || (server.json(&["batch", "show", &child])["result"] == "success").then_some(()));
    assert_eq!(why(&server, &child, &first), both);
    assert_eq!(why(&server, &child, &generated)["conditions"], both["conditions"]);
    assert_eq!(kinds(&why(&server, &child, &second)), ["third_party"]);
    let now = why(&server, &child, &tidemill_model::Timestamp::from(jiff::Timestamp::now()).to_string());
    assert_eq!((&now["result"], &now["conditions"]), (&json!("success"), &json!([])), "{now}");
    let shown = server.run(&["batch", "why", &child, "--as-of", &second]);
    assert!(text(&shown.stdout).contains("third_party"), "{}", text(&shown.stdout));
    let beyond = format!("{}:999999999", generated.split(':').next().unwrap());
    for (moment, said) in [
        (before.as_str(), "was not there yet"),
        ("yesterday", "must be a time as RFC 3339 has it"),
        (beyond.as_str(), "ends before record"),
        ("999:1", "the batch is in partition"),
    ] {
        let refused = server.run(&["batch", "why", &child, "--as-of", moment]);
        let told = text(&refused.stderr);
        assert!(!refused.status.success() && told.contains(said), "{moment}: {told}");
    }
}
