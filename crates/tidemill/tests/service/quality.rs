//! The quality gate with a real service: asked over HTTP, answering by REST.

use crate::authority::Authority;
use crate::quality_service::QualityService;
use crate::server::{Server, until};
use serde_json::{Value, json};
use tidemill_client::Client;

/// The service's answer, sent to where the question says.
fn answer(server: &Server, question: &Value, body: &Value) {
    let url = question["answer_url"].as_str().unwrap();
    let (address, path) = url.split_at(url.find("/api/").unwrap());
    let key = std::fs::read_to_string(server.data.join("admin.key")).unwrap();
    let client = Client::builder(address).key(key.trim()).build().unwrap();
    client.post(path).body(body).send::<Value>().unwrap();
}

fn shown(server: &Server, batch: &str) -> Value {
    server.json(&["batch", "show", batch])
}

/// DQ-1, DQ-2: once all else is met, the service is asked, once, and nothing waits for it; the batch runs when it is
/// allowed, and stays with the reason when it is refused.
#[test]
fn batch_runs_when_the_quality_service_allows_it() {
    let service = QualityService::start(&[200]);
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(&dir.path().join("data"), &[("QUALITY__URL", &service.url)]);
    let input = dir.path().join("in");
    server.apply(&format!(
        "jobs:\n- {{name: good, group: default, type: noop, quality_gate: true, inputs: ['{}']}}\n\
        - {{name: bad, group: default, type: noop, quality_gate: true}}\n",
        input.display(),
    ));
    let [good, bad] =
        ["default/good", "default/bad"].map(|job| server.json(&["job", "run", job])["batch"].to_string());
    let first = until("the service is asked", || service.asked().into_iter().next()).body;
    assert_eq!(
        (first["batch"].to_string(), &first["job_name"]),
        (bad.clone(), &json!("bad")),
        "the other waits for its path"
    );
    std::fs::write(&input, "").unwrap();
    let second = until("the service is asked about the other", || service.asked().into_iter().nth(1)).body;
    assert_eq!((second["batch"].to_string(), &second["number"]), (good.clone(), &json!(1)));

    answer(&server, &first, &json!({"allowed": false, "reason": "too few rows"}));
    answer(&server, &second, &json!({"allowed": true}));
    let ended = until("the allowed one ends", || {
        Some(shown(&server, &good)).filter(|shown| shown["state"] == "finished")
    });
    assert_eq!(ended["result"], "success", "{ended}");
    let why = until("the refusal is told", || {
        let why = server.json(&["batch", "why", &bad]);
        why.to_string().contains("too few rows").then_some(why)
    });
    assert_eq!(why["conditions"][0]["kind"], "quality_gate", "{why}");
    assert_eq!(shown(&server, &bad)["state"], "waiting");
    assert_eq!(service.asked().len(), 2, "each is asked once");
    assert_eq!(server.stop(), Some(0));
}

/// DQ-1, OPS-10: a service behind `https://` is asked, with the token, by those who trust its certificate; others send it
/// nothing.
#[test]
fn encrypted_service_is_asked_by_those_who_trust_it() {
    const TOKEN_ENV: &str = "TIDEMILL__QUALITY__TOKEN_ENV";
    let dir = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "others"));
    let (pair, ca, other_ca) = (ours.issues("service"), ours.file(), others.file());
    let service = QualityService::start_encrypted(&[200], &pair.certificate, &pair.key);
    let start = |name: &str, ca: &std::path::Path| {
        // The token is what this variable holds: its own name.
        let settings = [
            ("QUALITY__URL", &*service.url),
            ("QUALITY__TOKEN_ENV", TOKEN_ENV),
            ("TLS__CA_FILE", ca.to_str().unwrap()),
        ];
        let server = Server::start_with(&dir.path().join(name), &settings);
        server.apply("jobs: [{name: gated, group: default, type: noop, quality_gate: true}]");
        let batch = server.json(&["job", "run", "default/gated"])["batch"].to_string();
        (server, batch)
    };
    let (server, _) = start("distrusts", &other_ca);
    until("a connection is not wanted", || (service.broken() > 0).then_some(()));
    assert!(service.asked().is_empty());
    assert_eq!(server.stop(), Some(0));

    let (server, batch) = start("trusts", &ca);
    let asked = until("the service is asked", || service.asked().into_iter().next());
    let token = format!("authorization: bearer {}", TOKEN_ENV.to_lowercase());
    assert!(asked.headers.contains(&token), "{:?}", asked.headers);
    answer(&server, &asked.body, &json!({"allowed": true}));
    until("the batch ends", || (shown(&server, &batch)["state"] == "finished").then_some(()));
    assert_eq!(server.stop(), Some(0));
}
