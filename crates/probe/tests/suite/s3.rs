//! Paths of a real S3-compatible server.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectStoreExt};
use tidemill_probe::{Config, FailureKind, Kind, Limits, Mark, Outcome, Path, Prober, Question, S3};
use tokio::net::TcpListener;

/// Both keys of the server.
const KEY: &str = "S3RVER";

/// Endpoint and bucket.
fn shared() -> (String, String) {
    let url = std::env::var("TIDEMILL_TEST_S3").expect(
        "TIDEMILL_TEST_S3 names no S3: deploy/dev/services start s3; eval \"$(deploy/dev/services env)\"",
    );
    let (endpoint, bucket) = url.rsplit_once('/').unwrap();
    (endpoint.to_owned(), bucket.to_owned())
}

fn config(endpoint: &str) -> Config {
    let s3 = S3 {
        endpoint: Some(endpoint.to_owned()),
        access_key_id: Some(KEY.to_owned()),
        secret_access_key: Some(KEY.to_owned()),
        limits: Limits { in_flight: 16, calls_per_s: 0, timeout_ms: 5_000 },
        ..S3::default()
    };
    Config { s3, ..Config::default() }
}

fn question(path: &str) -> Question {
    Question { path: Path::parse("path", path, None).unwrap(), mark: None }
}

fn writer(endpoint: &str, bucket: &str) -> AmazonS3 {
    AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_bucket_name(bucket)
        .with_region("us-east-1")
        .with_access_key_id(KEY)
        .with_secret_access_key(KEY)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .build()
        .unwrap()
}

async fn put(store: &AmazonS3, keys: impl IntoIterator<Item = String>) {
    stream::iter(keys)
        .for_each_concurrent(8, |key| async move {
            store.put(&Key::parse(key).unwrap(), Vec::new().into()).await.unwrap();
        })
        .await;
}

fn root(name: &str) -> String {
    format!("probe-tests-{}/{name}", std::process::id())
}

/// DEP-1: an object store has no directories; one is there as long as anything is in it, a mark is an object.
#[tokio::test]
async fn object_directory_and_mark_are_there_or_not() {
    let (endpoint, bucket) = shared();
    let root = root("marks");
    let store = writer(&endpoint, &bucket);
    let keys =
        ["done/_SUCCESS", "done/part-0", "open/part-0", "deep/a/b/c", "dt=10/part-0", "odd/_SUCCESS/x"];
    put(&store, keys.map(|key| format!("{root}/{key}"))).await;
    let success = || Some(Mark::success());
    let table = [
        ("done", None, Outcome::Present),
        ("done/", None, Outcome::Present),
        ("done", success(), Outcome::Present),
        ("done/part-0", None, Outcome::Present),
        ("open", None, Outcome::Present),
        ("open", success(), Outcome::Absent),
        ("deep/a", None, Outcome::Present),
        // A longer name with the same beginning is another one.
        ("dt=1", None, Outcome::Absent),
        ("dt=10", None, Outcome::Present),
        ("odd", success(), Outcome::Absent),
        ("none", None, Outcome::Absent),
        ("none", success(), Outcome::Absent),
    ];
    let prober = Prober::new(config(&endpoint)).unwrap();
    for (name, mark, outcome) in table {
        let question = Question { mark, ..question(&format!("s3://{bucket}/{root}/{name}")) };
        assert_eq!(prober.ask(question.clone()).await, outcome, "{question}");
    }
}

/// ZMB-1: an object says when it changed, and a directory by what is below it, at any depth.
#[tokio::test]
async fn objects_and_directories_say_when_they_changed() {
    let (endpoint, bucket) = shared();
    let root = root("changed");
    put(&writer(&endpoint, &bucket), [format!("{root}/done/a/part-0")]).await;
    let prober = Prober::new(config(&endpoint)).unwrap();
    let changed_at = async |name: &str| {
        let path = prober.path("path", &format!("s3://{bucket}/{root}/{name}")).unwrap();
        prober.changed_at(&path).await.unwrap()
    };
    let object = changed_at("done/a/part-0").await;
    assert!(object.is_some());
    assert_eq!(changed_at("done").await, object);
    assert_eq!(changed_at("don").await, None);
}

/// DEP-1: in bulk, by looks and by listing.
#[tokio::test]
async fn many_paths_in_bulk() {
    let (endpoint, bucket) = shared();
    let root = root("bulk");
    let store = writer(&endpoint, &bucket);
    let there = |n: &usize| n.is_multiple_of(10);
    put(&store, (0..1_000).filter(there).map(|n| format!("{root}/t/dt={n:04}/_SUCCESS"))).await;
    let prober = Prober::new(config(&endpoint)).unwrap();
    let path = |n: usize| question(&format!("s3://{bucket}/{root}/t/dt={n:04}"));
    for mark in [None, Some(Mark::success())] {
        let questions = (0..1_000).map(|n| Question { mark: mark.clone(), ..path(n) });
        let answers = prober.probe(questions).all().await;
        assert_eq!(answers.len(), 1_000);
        for answer in answers {
            let number: usize = answer.question.path.as_str().rsplit('=').next().unwrap().parse().unwrap();
            assert_eq!(answer.outcome, if there(&number) { Outcome::Present } else { Outcome::Absent });
        }
    }
    let counts = prober.statistics().of(Kind::S3);
    assert_eq!((counts.list_calls, counts.look_calls), (2, 100), "a page each, and marks of what is there");
    let singles = (0..300).map(|n| question(&format!("s3://{bucket}/{root}/t/dt={n:04}/_SUCCESS")));
    let answers = prober.probe(singles).all().await;
    assert_eq!(answers.iter().filter(|answer| answer.outcome == Outcome::Present).count(), 30);
}

#[tokio::test]
async fn missing_bucket_and_wrong_keys_are_refusals() {
    let (endpoint, bucket) = shared();
    let refused = |outcome: Outcome| match outcome {
        Outcome::Failed(failure) => {
            assert_eq!((failure.kind, failure.tries), (FailureKind::Refused, 1), "{}", failure.reason);
            failure.reason
        }
        other => panic!("{other:?}"),
    };
    let prober = Prober::new(config(&endpoint)).unwrap();
    let reason = refused(prober.ask(question("s3://no-such-bucket/x")).await);
    assert!(reason.contains("NoSuchBucket"), "{reason}");
    let mut wrong = config(&endpoint);
    (wrong.s3.access_key_id, wrong.s3.secret_access_key) =
        (Some("other".to_owned()), Some("hidden".to_owned()));
    let reason = refused(Prober::new(wrong).unwrap().ask(question(&format!("s3://{bucket}/x"))).await);
    assert!(reason.contains("InvalidAccessKeyId") && !reason.contains("hidden"), "{reason}");
}

/// MON-6: a server that accepts connections and says nothing.
#[tokio::test]
async fn silent_server_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(&format!("http://{}", listener.local_addr().unwrap()));
    config.s3.limits.timeout_ms = 200;
    let prober = Prober::new(config).unwrap();
    let pass = prober.probe((0..50).map(|n| question(&format!("s3://bucket/{n}"))));
    let answers = tokio::time::timeout(Duration::from_secs(60), pass.all()).await.unwrap();
    assert_eq!(answers.len(), 50);
    assert!(answers.iter().all(|answer| !answer.outcome.is_conclusive()));
    assert!(answers.iter().any(|answer| matches!(answer.outcome, Outcome::Hung { .. })));
    assert!(prober.statistics().of(Kind::S3).hung_calls > 0);
}
