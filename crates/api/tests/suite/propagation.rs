//! JOB-5, BYD-17: a change in the catalogue answers once it is in effect in every group, or says where it is not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tidemill_api::Config;
use tidemill_model::{
    Answer, Concerned, GroupId, JobChange, JobChangeKind, JobId, LiveAnswer, LiveQuery, MailboxState,
    NotifiedShard, Outcome, ShardId,
};

use crate::fixture::{Answered, Answers, Fixture, send};
use crate::owner::{OFFSET, Script};

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
            LiveQuery::Notified { at_least, .. } if at_least == OFFSET => LiveAnswer::Notified {
                shards: vec![NotifiedShard { shard: CHILD, upto: 4, parents: vec![PARENT] }],
            },
            LiveQuery::Mailboxes { with } => {
                let received = heard.fetch_add(1, Ordering::SeqCst).min(most);
                asked.lock().unwrap().push((shard.0, with.last().unwrap().0));
                let with = with.into_iter();
                let post =
                    |shard| MailboxState { shard, received, sent: received + 2, unsaid: received == 4 };
                LiveAnswer::Mailboxes { with: with.map(post).collect() }
            }
            _ => LiveAnswer::NotFound,
        })
    })
}

async fn apply(most: u64) -> (Answered, Vec<(u16, u16)>) {
    let asked = Arc::default();
    let config = Config { propagation_timeout_ms: 300, ..Config::default() };
    let fixture = Fixture::with(config, applied(), owners(most, Arc::clone(&asked))).await;
    let job = json!({"name": "extract", "group": "demo", "type": "noop"});
    let answered = send(fixture.post("/api/jobs/apply", &json!({"jobs": [job]}))).await;
    let asked = asked.lock().unwrap().clone();
    (answered, asked)
}

#[tokio::test]
async fn an_apply_waits_for_definitions_then_for_who_follows_then_for_answers() {
    let (answered, mut asked) = apply(u64::MAX).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    assert!(answered.body.get("pending_groups").is_none(), "{answered:?}");
    asked.dedup();
    assert_eq!(asked, [(1, 0), (2, 1), (1, 2)]);
}

#[tokio::test]
async fn an_apply_that_is_not_in_effect_in_time_says_where() {
    let (answered, asked) = apply(3).await;
    assert_eq!(answered.status, 202, "{answered:?}");
    assert_eq!(answered.body["pending_groups"], json!(["demo"]), "{answered:?}");
    assert_eq!(answered.body["position"], format!("0:{OFFSET}"));
    let warning = answered.body["warnings"][0].as_str().unwrap();
    assert!(warning.contains("recorded, and not yet in effect in demo"), "{warning}");
    assert!(asked.iter().all(|asked| *asked == (1, 0)), "{asked:?}");
}

/// What else groups are told: whom the catalogue's owner is asked for, and that nobody goes on before they have it.
#[tokio::test]
async fn what_groups_are_told_waits_for_those_whom_it_concerns() {
    let every_group = || Concerned::Everyone;
    let demo = || Concerned::Group("demo".try_into().unwrap());
    let group = json!({"name": "demo", "worker_key": "ab".repeat(32)});
    let calendar = || Concerned::Calendar("days".try_into().unwrap());
    let template = json!({"name": "copy", "fields": {}});
    let version = |answer: fn(u32) -> Answer| answer(3);
    for (path, body, concerned, answer) in [
        ("PUT /api/freezes/*", json!({"reason": "x"}), every_group(), Answer::Done),
        ("PUT /api/freezes/demo", json!({"reason": "x"}), demo(), Answer::Done),
        ("DELETE /api/freezes/*", json!(null), every_group(), Answer::Done),
        ("/api/groups", group, demo(), Answer::Group { group: GroupId(1), shard: CHILD }),
        (
            "/api/calendars",
            json!({"name": "days"}),
            calendar(),
            version(|version| Answer::Calendar { version }),
        ),
        (
            "/api/pools",
            json!({"name": "p", "slots": 1}),
            every_group(),
            version(|version| Answer::Pool { version }),
        ),
        (
            "/api/pools",
            json!({"name": "p", "slots": 1, "group": "demo"}),
            demo(),
            version(|version| Answer::Pool { version }),
        ),
        ("/api/pull/templates", template, every_group(), version(|version| Answer::Template { version })),
    ] {
        for (received, status) in [(4, 200), (3, 202)] {
            let (expected, answer) = (concerned.clone(), answer.clone());
            let script: Script = Box::new(move |_| Some(Outcome::Answered(answer.clone())));
            let answers: Answers = Box::new(move |_, query| {
                Ok(match query {
                    LiveQuery::Notified { concerned, at_least: OFFSET } if concerned == expected => {
                        LiveAnswer::Notified {
                            shards: vec![NotifiedShard { shard: CHILD, upto: 4, parents: Vec::new() }],
                        }
                    }
                    LiveQuery::Mailboxes { with } => {
                        let post = |shard| MailboxState { shard, received, sent: 0, unsaid: false };
                        LiveAnswer::Mailboxes { with: with.into_iter().map(post).collect() }
                    }
                    other => panic!("{other:?}"),
                })
            });
            let fixture =
                Fixture::with(Config { propagation_timeout_ms: 100, ..Config::default() }, script, answers)
                    .await;
            let (method, path) = path.split_once(' ').unwrap_or(("POST", path));
            let asked = fixture.request(method.parse().unwrap(), path, "root");
            let asked = if body.is_null() { asked } else { asked.json(&body) };
            let answered = send(asked).await;
            assert_eq!(answered.status, status, "{path} {body}: {answered:?}");
            let late = answered.body["pending_groups"].as_array().map(Vec::len);
            assert_eq!(late, (status == 202).then_some(1), "{path} {body}: {answered:?}");
            assert_eq!(answered.body["position"], format!("0:{OFFSET}"));
        }
    }
}
