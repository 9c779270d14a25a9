use expect_test::expect;
use serde_json::{Value, json};
use tidemill_model::{Answer, Command, JobChange, JobChangeKind, JobCommand, JobId, Outcome, ShardId};

use crate::fixture::{Fixture, send};

/// JOB-5: what export gives, apply takes, and it is the same command again.
#[tokio::test]
async fn export_round_trips_through_apply() {
    let change = JobChange {
        job: JobId::mint(1, ShardId::CATALOGUE),
        name: "demo/extract".to_owned(),
        change: JobChangeKind::Unchanged,
        version: 1,
        fields: Vec::new(),
    };
    let answer = Answer::Applied { changes: vec![change], warnings: Vec::new() };
    let fixture = Fixture::start(Box::new(move |_| Some(Outcome::Answered(answer.clone())))).await;
    let exported = send(fixture.get("/api/jobs/export?group=demo")).await;
    expect![[r#"
        200 application/json
        {
          "jobs": [
            {
              "command": "echo ${yyyy-MM-dd} ${param.city}",
              "enabled": true,
              "group": "demo",
              "max_concurrent": 1,
              "missed_runs": "all",
              "name": "extract",
              "owner": "ann",
              "parameters": {
                "city": "Trier"
              },
              "priority": 5,
              "retries": 2,
              "retry_interval_s": 60,
              "schedule": {
                "period": "day",
                "zone": "Europe/Berlin"
              },
              "type": "shell"
            },
            {
              "command": "echo ${yyyy-MM-dd} ${param.city}",
              "depends_on_past": true,
              "enabled": true,
              "group": "demo",
              "max_concurrent": 1,
              "missed_runs": "all",
              "name": "load",
              "owner": "ann",
              "parameters": {
                "city": "Trier"
              },
              "parents": [
                "extract",
                {
                  "job": "other/other",
                  "mapping": {
                    "offset": 1
                  }
                }
              ],
              "priority": 5,
              "retries": 2,
              "retry_interval_s": 60,
              "schedule": {
                "period": "day",
                "zone": "Europe/Berlin"
              },
              "type": "shell"
            }
          ]
        }
    "#]]
    .assert_eq(&exported.text());
    let applied = send(fixture.post("/api/jobs/apply", &exported.body)).await;
    expect![[r#"
        200 application/json
        {
          "changes": [
            {
              "change": "unchanged",
              "job": 4096,
              "name": "demo/extract",
              "version": 1
            }
          ],
          "position": "0:7",
          "warnings": []
        }
    "#]]
    .assert_eq(&applied.text());
    let seen = fixture.owner.seen();
    assert_eq!(seen[0].shard, ShardId::CATALOGUE);
    let Command::Job(JobCommand::Apply { jobs, prune, .. }) = &seen[0].command else { panic!("{seen:?}") };
    let jobs: Value = serde_json::to_value(jobs).unwrap();
    assert_eq!((&jobs, prune.len()), (&exported.body["jobs"], 0));
}

#[tokio::test]
async fn schedule_without_a_zone_gets_the_configured_one() {
    let answer = Answer::Applied { changes: Vec::new(), warnings: Vec::new() };
    let config = tidemill_api::Config { default_zone: "Asia/Tokyo".to_owned(), ..Default::default() };
    let script = Box::new(move |_: &_| Some(Outcome::Answered(answer.clone())));
    let fixture =
        Fixture::with(config, script, Box::new(|_, _| Ok(tidemill_model::LiveAnswer::NotFound))).await;
    let job = json!({"name": "a", "group": "demo", "type": "noop", "schedule": {"period": "day"}});
    assert_eq!(send(fixture.post("/api/jobs/apply", &json!({"jobs": [job]}))).await.status, 200);
    let Command::Job(JobCommand::Apply { jobs, .. }) = &fixture.owner.seen()[0].command else { panic!() };
    assert_eq!(jobs[0].schedule.as_ref().unwrap().zone.as_deref(), Some("Asia/Tokyo"));
}
