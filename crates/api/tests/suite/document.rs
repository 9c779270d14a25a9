use expect_test::expect_file;
use reqwest::Method;

use crate::fixture::{Fixture, answers_done, send};

/// API-3: the committed OpenAPI document is what the code says; `UPDATE_EXPECT=1` writes it.
#[test]
fn committed_document_is_what_the_code_says() {
    let document = serde_json::to_string_pretty(&tidemill_api::document()).unwrap() + "\n";
    expect_file!["../../../../schemas/openapi.json"].assert_eq(&document);
}

/// API-3: every call of the document is there; those that need a key say so without one.
#[tokio::test]
async fn every_call_of_the_document_is_served_and_guarded() {
    let fixture = Fixture::start(answers_done()).await;
    let document = send(fixture.open(Method::GET, "/api/openapi.json")).await.body;
    assert_eq!(document, tidemill_api::document());
    let mut calls = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (verb, operation) in operations.as_object().unwrap() {
            let method = Method::from_bytes(verb.to_uppercase().as_bytes()).unwrap();
            let path = path.replace("{id}", "1").replace("{name}", "n").replace("{app}", "a");
            let answered = send(fixture.open(method, &path)).await;
            let open = ["/healthz", "/readyz", "/api/openapi.json"].contains(&path.as_str());
            let wanted = if open { 200 } else { 401 };
            assert_eq!(answered.status, wanted, "{verb} {path}: {answered:?}");
            let job_call =
                path.starts_with("/api/job/") || path.starts_with("/api/log") || path == "/api/worker/status";
            assert_eq!(operation.get("security").is_some(), !open && !job_call, "{verb} {path}");
            calls += 1;
        }
    }
    assert!(calls > 30, "{calls}");
}
