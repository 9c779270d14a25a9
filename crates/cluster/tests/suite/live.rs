//! Questions to owners in other processes.

use std::sync::Arc;
use std::time::Duration;

use tidemill_cluster::{AskOwner, HttpLive, Live, LiveError, live_router};
use tidemill_model::{BatchId, BatchState, JobId, LiveAnswer, LiveQuery, ShardId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn owners() -> String {
    let owners: AskOwner = Arc::new(|shard, query| match query {
        LiveQuery::NewestBatch { job } if shard == ShardId(3) => {
            Ok(LiveAnswer::NewestBatch { batch: Some(BatchId(job.0 + 1)), state: Some(BatchState::Running) })
        }
        _ => Err(format!("shard {shard} is not owned here")),
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let router = live_router("internal", owners, Arc::new(|_, _| None));
    let limits = tidemill_serving::Config::default().for_own_roles();
    tokio::spawn(tidemill_serving::serve(listener, router, limits, std::future::pending()));
    address
}

fn client(key: &str, address: Option<String>) -> HttpLive {
    let of = Arc::new(move |partition: u32| address.clone().filter(|_| partition > 0));
    HttpLive::new(16, key, Duration::from_secs(5), of, None).unwrap()
}

/// API-5: without the secret nothing of a question is read.
#[tokio::test]
async fn a_wrong_secret_is_answered_before_the_question() {
    let mut stream = TcpStream::connect(owners().await).await.unwrap();
    let head = "POST /live?shard=3 HTTP/1.1\r\nhost: t\r\nauthorization: Bearer wrong\r\n\
        content-type: application/json\r\ncontent-length: 1000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let read = stream.read_exact(&mut answer);
    tokio::time::timeout(Duration::from_secs(60), read).await.expect("it is answered").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
}

#[tokio::test]
async fn the_owner_is_asked_over_http_with_the_clusters_key() {
    let address = owners().await;
    let ask = |key: &str, shard: u16| {
        let client = client(key, Some(address.clone()));
        async move { client.query(ShardId(shard), LiveQuery::NewestBatch { job: JobId(7) }).await }
    };
    let answer = LiveAnswer::NewestBatch { batch: Some(BatchId(8)), state: Some(BatchState::Running) };
    assert_eq!(ask("internal", 3).await.unwrap(), answer);
    assert!(matches!(ask("wrong", 3).await, Err(LiveError::Refused { .. })));
    assert!(matches!(ask("", 3).await, Err(LiveError::Refused { .. })));
    assert!(matches!(ask("internal", 4).await, Err(LiveError::Refused { .. })));
    assert!(matches!(ask("internal", 0).await, Err(LiveError::NoOwner { .. })));
    let nobody = client("internal", Some("127.0.0.1:9".to_owned()));
    let query = LiveQuery::Why { batch: BatchId(1) };
    assert!(matches!(nobody.query(ShardId(3), query).await, Err(LiveError::Ask { .. })));
}
