use std::collections::BTreeSet;

use expect_test::expect_file;
use reqwest::Method;
use serde_json::json;
use tidemill_model::{Answer, BulkId, Outcome};

use crate::fixture::{Fixture, answers_done, send};
use crate::owner::Script;

/// API-3: the committed OpenAPI document is what the code says; `make schemas` writes it.
#[test]
fn committed_document_is_what_the_code_says() {
    let document = serde_json::to_string_pretty(&tidemill_api::document()).unwrap() + "\n";
    let committed = include_str!("../../../../schemas/openapi.json");
    let other = committed.lines().zip(document.lines()).find(|(committed, now)| committed != now);
    assert!(committed == document, "schemas/openapi.json is stale: run `make schemas`; first: {other:?}");
}

/// API-3: what begins something that goes on says so with 202, and the document has that answer.
#[tokio::test]
async fn answer_to_who_begins_a_bulk_operation_is_documented() {
    let begun: Script = Box::new(|_| Some(Outcome::Answered(Answer::Bulk { bulk: BulkId(4096) })));
    let fixture = Fixture::start(begun).await;
    let responses = tidemill_api::document()["paths"]["/api/bulk"]["post"]["responses"].take();
    for (dry_run, status, schema) in [(true, 200, "BulkPlan"), (false, 202, "BulkStarted")] {
        let body =
            json!({"action": "disable", "filter": {"group": "demo"}, "reason": "late", "dry_run": dry_run});
        let answered = send(fixture.post("/api/bulk", &body)).await;
        assert_eq!(answered.status, status, "{}", answered.body);
        let documented = &responses[status.to_string()]["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(*documented, format!("#/components/schemas/{schema}"), "{responses}");
    }
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
            let wanted = match (verb.as_str(), path.as_str()) {
                (_, "/healthz" | "/readyz" | "/api/openapi.json") | ("get", "/api/sign-in") => 200,
                // A body is missing; and no provider is configured here.
                ("post", "/api/sign-in" | "/api/sign-in/invitation") => 422,
                ("get", "/api/sign-in/oidc" | "/api/sign-in/oidc/done") => 404,
                _ => 401,
            };
            let open = wanted != 401;
            assert_eq!(answered.status, wanted, "{verb} {path}: {answered:?}");
            let job_call =
                path.starts_with("/api/job/") || path.starts_with("/api/log") || path == "/api/worker/status";
            assert_eq!(operation.get("security").is_some(), !open && !job_call, "{verb} {path}");
            calls += 1;
        }
    }
    assert!(calls > 30, "{calls}");
}

/// API-3, API-4: every call of the document takes the parameters that it names, and no others: an unknown one, one that
/// is given twice, and a value beyond the rule of one are each refused by name.
#[tokio::test]
async fn every_call_takes_the_parameters_of_the_document_only() {
    let fixture = Fixture::start(answers_done()).await;
    let document = tidemill_api::document();
    let mut bad_values = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (verb, operation) in operations.as_object().unwrap() {
            if operation.get("security").is_none() {
                // Of the form from outside, whose refusals have a form of their own, or open to everybody.
                continue;
            }
            let parameters = operation["parameters"].as_array().unwrap();
            let in_query = parameters.iter().filter(|it| it["in"] == "query" && it["name"] != "at_least");
            let mut wrong = vec![("surely-unknown", "surely-unknown=1".to_owned())];
            for parameter in in_query {
                let name = parameter["name"].as_str().unwrap();
                wrong.push((name, format!("{name}=1&{name}=1")));
                let schema = &parameter["schema"];
                let is_ruled = ["boolean", "integer"].iter().any(|kind| schema["type"] == **kind)
                    || schema.get("enum").is_some()
                    || schema["format"] == "date-time"
                    || schema["$ref"].as_str().is_some_and(|path| path.ends_with("Id"));
                if is_ruled {
                    wrong.push((name, format!("{name}=surely+not")));
                    bad_values += 1;
                }
                if let Some(least) = schema["minimum"].as_u64().filter(|least| *least > 0) {
                    wrong.push((name, format!("{name}={}", least - 1)));
                }
                if let Some(most) = schema["maximum"].as_u64() {
                    wrong.push((name, format!("{name}={}", most + 1)));
                }
            }
            let place = path.replace("{id}", "1").replace("{name}", "n").replace("{app}", "a");
            for (name, query) in wrong {
                let method = Method::from_bytes(verb.to_uppercase().as_bytes()).unwrap();
                let answered = send(fixture.request(method, &format!("{place}?{query}"), "root")).await;
                let told = format!("{verb} {place}?{query}: {answered:?}");
                assert_eq!(answered.status, 422, "{told}");
                assert_eq!(answered.body["errors"][0]["field"], name, "{told}");
            }
        }
    }
    assert!(bad_values > 30, "{bad_values}");
}

/// API-4: nothing is accepted and ignored: every parameter that stands beside handlers is read by one of them.
#[test]
fn every_parameter_that_is_declared_is_read() {
    let routes = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/routes");
    let mut declared = 0;
    for entry in std::fs::read_dir(routes).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for line in text.lines().filter(|line| line.contains(": Asked<")) {
            let name = line.split_once("const ").unwrap().1.split_once(':').unwrap().0;
            let reads = ["get", "flag", "required"].map(|read| format!("params.{read}({name})"));
            assert!(reads.iter().any(|read| text.contains(read)), "{}: nobody reads {name}", path.display());
            declared += 1;
        }
    }
    assert!(declared > 30, "{declared}");
}

/// API-3: generated clients call each call by a name of its own, and have it in one part, which the document describes.
#[test]
fn every_call_has_a_name_of_its_own_and_a_part_that_is_described() {
    let document = tidemill_api::document();
    let described: Vec<&str> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| {
            let about = tag["description"].as_str().unwrap();
            assert!(about.len() > 10 && about.ends_with('.'), "{tag}");
            tag["name"].as_str().unwrap()
        })
        .collect();
    let mut ids = BTreeSet::new();
    let mut used = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (verb, operation) in operations.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let has_form = id.starts_with(|letter: char| letter.is_ascii_lowercase())
                && id.contains(|letter: char| letter.is_ascii_uppercase())
                && id.chars().all(|letter| letter.is_ascii_alphabetic());
            assert!(has_form, "{verb} {path} is called {id}");
            assert!(ids.insert(id.to_owned()), "{verb} {path} is called {id}, and so is another call");
            let tags = operation["tags"].as_array().unwrap();
            assert_eq!(tags.len(), 1, "{verb} {path}");
            let tag = tags[0].as_str().unwrap();
            assert!(described.contains(&tag), "{verb} {path}: nothing is said of {tag}");
            used.insert(tag.to_owned());
        }
    }
    let distinct: BTreeSet<&str> = described.iter().copied().collect();
    assert_eq!(distinct.len(), described.len(), "{described:?}");
    assert_eq!(used.len(), described.len(), "a part without calls: {described:?}");
}

/// API-3, API-7: names and parts are what clients are generated by: none changes unseen.
#[test]
fn names_and_parts_of_calls_stay() {
    let document = tidemill_api::document();
    let mut lines = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (verb, operation) in operations.as_object().unwrap() {
            let (id, tag) =
                (operation["operationId"].as_str().unwrap(), operation["tags"][0].as_str().unwrap());
            lines.push(format!("{} {path} | {id} | {tag}\n", verb.to_uppercase()));
        }
    }
    expect_file!["operations.txt"].assert_eq(&lines.concat());
}
