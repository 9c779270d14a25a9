//! JOB-5: an `apply` answers once it is in force in every group, or says where it is not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tidemill_api::Config;
use tidemill_model::{
    Answer, JobChange, JobChangeKind, JobId, LiveAnswer, LiveQuery, Outcome, PostWith, ShardId, ToldShard,
};

use crate::owner::{OFFSET, Script};
use crate::site::{Answered, Answers, Site, send};

const CHILD: ShardId = ShardId(1);
const PARENT: ShardId = ShardId(2);

fn applied() -> Script {
    let change = JobChange {
        job: JobId::mint(1, ShardId::CATALOGUE),
        name: "demo/extract".to_owned(),
        change: JobChangeKind::Changed,
        version: 2,
        fields: Vec::new(),
    };
    let answer = Answer::Applied { changes: vec![change], warnings: Vec::new() };
    Box::new(move |_| Some(Outcome::Answered(answer.clone())))
}

/// Owners whose shards have one message more on record each time they are asked, up to some number.
fn owners(most: u64, asked: Arc<Mutex<Vec<(u16, u16)>>>) -> Answers {
    let heard = AtomicU64::new(0);
    Box::new(move |shard, query| {
        Ok(match query {
            LiveQuery::Told { at_least, .. } if at_least == OFFSET => {
                LiveAnswer::Told { shards: vec![ToldShard { shard: CHILD, upto: 4, parents: vec![PARENT] }] }
            }
            LiveQuery::Post { with } => {
                let received = heard.fetch_add(1, Ordering::SeqCst).min(most);
                asked.lock().unwrap().push((shard.0, with.last().unwrap().0));
                let with = with.into_iter();
                let post = |shard| PostWith { shard, received, sent: received + 2, unsaid: received == 4 };
                LiveAnswer::Post { with: with.map(post).collect() }
            }
            _ => LiveAnswer::NotFound,
        })
    })
}

async fn apply(most: u64) -> (Answered, Vec<(u16, u16)>) {
    let asked = Arc::default();
    let config = Config { settle_timeout_ms: 300, ..Config::default() };
    let site = Site::with(config, applied(), owners(most, Arc::clone(&asked))).await;
    let job = json!({"name": "extract", "group": "demo", "type": "noop"});
    let answered = send(site.post("/api/jobs/apply", &json!({"jobs": [job]}))).await;
    let asked = asked.lock().unwrap().clone();
    (answered, asked)
}

#[tokio::test]
async fn an_apply_waits_for_definitions_then_for_who_follows_then_for_answers() {
    let (answered, mut asked) = apply(u64::MAX).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    assert!(answered.body.get("not_yet_in").is_none(), "{answered:?}");
    asked.dedup();
    assert_eq!(asked, [(1, 0), (2, 1), (1, 2)]);
}

#[tokio::test]
async fn an_apply_that_is_not_in_force_in_time_says_where() {
    let (answered, asked) = apply(3).await;
    assert_eq!(answered.status, 202, "{answered:?}");
    assert_eq!(answered.body["not_yet_in"], json!(["demo"]), "{answered:?}");
    assert_eq!(answered.body["position"], format!("0:{OFFSET}"));
    let warning = answered.body["warnings"][0].as_str().unwrap();
    assert!(warning.contains("recorded, and not yet in force in demo"), "{warning}");
    assert!(asked.iter().all(|asked| *asked == (1, 0)), "{asked:?}");
}
