//! API-9: the audit list, who may see it, and how refused calls get into it.

use reqwest::Method;
use serde_json::{Value, json};
use tidemill_api::Config;
use tidemill_cluster::LiveError;
use tidemill_model::{
    AccessCommand, Command, Level, LevelState, LiveAnswer, LiveQuery, Refusal, RefusalReason, ShardId,
};
use tidemill_store::rows::{AuditRow, BatchRow};

use crate::fixture::{Fixture, answers_done, send};
use crate::owner::OFFSET;
use crate::rows::{SECRET, T0, Writer, batch, key};

pub(crate) fn audit_row(n: i64, group: &str) -> AuditRow {
    AuditRow {
        at: T0 + n,
        journal_partition: 0,
        journal_offset: n,
        event_index: 0,
        app: if n % 2 == 0 { "etl" } else { "ops" }.into(),
        person: (n % 3 == 0).then(|| "ann".into()),
        kind: if n % 2 == 0 { "job.defined" } else { "key.revoked" }.into(),
        object: format!("job/{n}").into(),
        group_name: group.into(),
        request: Some("r".into()),
        times: 1,
        detail: r#"{"after":{"version":1}}"#.into(),
    }
}

/// Rows of two groups and of the site, by turns, and keys of administrators.
async fn listed(count: i64) -> Fixture {
    let fixture = Fixture::start(answers_done()).await;
    let groups = ["demo", "other", ""];
    let rows = (0..count).map(|n| audit_row(n, groups[usize::try_from(n % 3).unwrap()]));
    let keys = vec![
        key("chief", "administrator", &[]),
        key("demo-chief", "administrator", &["demo"]),
        key("both-chief", "administrator", &["demo", "other"]),
    ];
    Writer::new(&*fixture.tables).rows(rows.collect()).rows(keys).commit(OFFSET + 1);
    fixture
}

async fn ids(fixture: &Fixture, app: &str, query: &str) -> Vec<String> {
    let answer = send(fixture.request(Method::GET, &format!("/api/audit?{query}"), app)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let items = answer.body["items"].as_array().unwrap();
    items.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn id(n: i64) -> String {
    format!("{}:0:{n}:0", T0 + n)
}

/// API-9: pages are stable, filters hold, and a key sees the rows of what it administers.
#[tokio::test]
async fn the_list_shows_what_the_key_administers() {
    let fixture = listed(9).await;
    let shown = |numbers: &[i64]| numbers.iter().map(|n| id(*n)).collect::<Vec<_>>();
    assert_eq!(ids(&fixture, "chief", "").await, shown(&[8, 7, 6, 5, 4, 3, 2, 1, 0]));
    assert_eq!(ids(&fixture, "demo-chief", "").await, shown(&[6, 3, 0]));
    assert_eq!(ids(&fixture, "both-chief", "group=other").await, shown(&[7, 4, 1]));
    assert_eq!(ids(&fixture, "both-chief", "").await, shown(&[7, 6, 4, 3, 1, 0]));
    for foreign in ["group=other", "group=", "group=nowhere"] {
        assert_eq!(ids(&fixture, "demo-chief", foreign).await, shown(&[]), "{foreign}");
    }
    assert_eq!(ids(&fixture, "root", "app=ops&group=demo").await, shown(&[3]));
    assert_eq!(ids(&fixture, "root", "person=ann&kind=job.defined").await, shown(&[6, 0]));
    assert_eq!(ids(&fixture, "root", "object=job/4").await, shown(&[4]));
    let times = "since=2025-03-01T00:00:00.002Z&until=2025-03-01T00:00:00.005Z";
    assert_eq!(ids(&fixture, "root", times).await, shown(&[4, 3, 2]));
    let first = send(fixture.get("/api/audit?limit=2")).await.body;
    let next = first["next"].as_str().unwrap();
    // What comes meanwhile moves nothing.
    Writer::new(&*fixture.tables).rows(vec![audit_row(9, "demo")]).commit(OFFSET + 2);
    assert_eq!(ids(&fixture, "root", &format!("limit=2&cursor={next}")).await, shown(&[6, 5]));
    let row = send(fixture.get(&format!("/api/audit/{}", id(3)))).await.body;
    let whole = json!({
        "id": id(3), "at": "2025-03-01T00:00:00.003Z", "app": "ops", "person": "ann", "kind": "key.revoked",
        "object": "job/3", "group": "demo", "request": "r", "count": 1, "detail": {"after": {"version": 1}},
    });
    assert_eq!(row, whole);
    for (app, path, expected) in [
        ("admin", "/api/audit/x", (422, "invalid")),
        ("admin", "/api/audit/1:2:3:4", (404, "unknown")),
        ("admin", "/api/audit?kind=job.defind", (422, "invalid")),
        ("demo-user", "/api/audit", (403, "forbidden")),
        ("demo-user", "/api/audit/export", (403, "forbidden")),
    ] {
        assert_eq!(send(fixture.request(Method::GET, path, app)).await.code(), expected, "{app} {path}");
    }
    for (app, n, status) in [("demo-chief", 3, 200), ("demo-chief", 1, 404), ("demo-chief", 2, 404)] {
        let answer = send(fixture.request(Method::GET, &format!("/api/audit/{}", id(n)), app)).await;
        assert_eq!(answer.status, status, "{app} {n}");
    }
}

/// API-9: an export has every row once, the oldest first, in parts that follow one another, and goes on after any row.
#[tokio::test]
async fn an_export_has_every_row_and_goes_on_after_any() {
    let fixture = listed(650).await;
    let export = async |app: &str, query: &str| {
        let path = format!("/api/audit/export?{query}");
        let answer = fixture.request(Method::GET, &path, app).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
        let text = answer.text().await.unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all: Vec<String> = (0..650).map(id).collect();
    assert_eq!(export("root", "").await, all);
    assert_eq!(export("root", &format!("after={}", all[449])).await, all[450..]);
    assert_eq!(export("root", &format!("after={}", all[649])).await, [""; 0]);
    let of_demo: Vec<String> = (0..650).step_by(3).map(id).collect();
    assert_eq!(export("demo-chief", "").await, of_demo);
    let refused = send(fixture.get("/api/audit/export?after=7")).await;
    assert_eq!(refused.code(), (422, "invalid"));
}

/// Batches are found by who asked for them.
#[tokio::test]
async fn batches_are_found_by_who_asked_for_them() {
    let fixture = Fixture::start(answers_done()).await;
    let by = |n: i64, by: &str| BatchRow { triggered_by: Some(by.into()), ..batch(n, 3) };
    let rows = vec![by(11, "viewer"), by(12, "viewer/ann"), by(13, "etl/ann")];
    Writer::new(&*fixture.tables).rows(rows).commit(OFFSET + 1);
    let found = async |query: &str, person: Option<&str>| {
        let mut request = fixture.request(Method::GET, &format!("/api/batches?{query}"), "viewer");
        if let Some(person) = person {
            request = request.header("X-User", person);
        }
        let answer = send(request).await.body;
        let rows = answer["items"].as_array().unwrap().iter();
        rows.map(|row| (row["id"].as_i64().unwrap() >> 12, row["triggered_by"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(found("triggered_by=etl/ann", None).await, [(13, json!("etl/ann"))]);
    assert_eq!(found("mine=true", None).await, [(11, json!("viewer"))]);
    assert_eq!(found("mine=true", Some("ann")).await, [(12, json!("viewer/ann"))]);
    assert_eq!(found("mine=false", None).await.len(), 6);
    let refused = send(fixture.get("/api/batches?mine=true&triggered_by=etl")).await;
    assert_eq!(refused.code(), (422, "invalid"));
}

fn stands(level: Level) -> impl Fn(ShardId, LiveQuery) -> Result<LiveAnswer, LiveError> {
    move |_, query| {
        let (readable, hold, counts, processes) = (None, None, Vec::new(), Vec::new());
        Ok(match query {
            LiveQuery::Level => {
                LiveAnswer::Level(Box::new(LevelState { level, readable, hold, counts, processes }))
            }
            _ => LiveAnswer::NotFound,
        })
    }
}

/// The refusals of all commands that came, after the instance has stopped.
async fn reported(mut fixture: Fixture) -> (usize, Vec<Refusal>) {
    fixture.stop.take().unwrap().send(()).unwrap();
    (&mut fixture.serving).await.unwrap().unwrap();
    let commands = fixture.owner.seen();
    let reports = commands.iter().filter_map(|record| match &record.command {
        Command::Access(AccessCommand::ReportRefusals { refusals }) => {
            assert_eq!((&*record.actor.app, &record.actor.user), ("process", &None));
            Some(refusals.clone())
        }
        _ => None,
    });
    let reports: Vec<_> = reports.collect();
    (reports.len(), reports.concat())
}

/// API-9: calls with a bad key, with none and without the right are reported when the instance stops, in one command however many
/// they are; what is answered is not.
#[tokio::test(flavor = "multi_thread")]
async fn refused_calls_are_reported_in_one_command() {
    let answers = Box::new(stands(Level::DIRECTORY));
    let fixture = Fixture::with(Config::default(), answers_done(), answers).await;
    for n in 0..150 {
        let request = fixture.open(Method::GET, &format!("/api/jobs/{n}"));
        assert_eq!(send(request.bearer_auth(format!("app-{}:{SECRET}x", n % 120))).await.status, 401);
    }
    let define = json!({"app": "x", "role": "viewer"});
    for _ in 0..2 {
        let request = fixture.request(Method::POST, "/api/keys", "demo-user").header("X-User", "eve");
        assert_eq!(send(request.json(&define)).await.status, 403);
    }
    assert_eq!(send(fixture.open(Method::GET, "/api/jobs?at_least=0:1")).await.status, 401);
    assert_eq!(send(fixture.get("/api/jobs")).await.status, 200);
    let (commands, refusals) = reported(fixture).await;
    assert_eq!((commands, refusals.len()), (1, 100));
    assert_eq!(refusals.iter().map(|it| it.count).sum::<u32>(), 153);
    let others = refusals.iter().filter(|it| it.call == "others").map(|it| it.reason);
    assert_eq!(others.collect::<Vec<_>>(), [RefusalReason::Unauthenticated, RefusalReason::Forbidden]);
    let first = refusals.iter().find(|it| it.app == "app-0").unwrap();
    assert_eq!((&*first.call, &*first.address), ("GET /api/jobs/0", "127.0.0.1"));
    assert!(!format!("{refusals:?}").contains(SECRET));
}

/// API-9: also in the form that calls of jobs have from outside, whose keys stand in fields.
#[tokio::test(flavor = "multi_thread")]
async fn refused_job_calls_are_reported_by_the_name_in_their_fields() {
    let answers = Box::new(stands(Level::DIRECTORY));
    let fixture = Fixture::with(Config::default(), answers_done(), answers).await;
    let submit = |app: &str, secret: &str, group: i32| {
        let body = json!({
            "app_name": app, "app_key": secret, "job_name": "a", "user": "ann", "job_type": "shell", "group_id": group,
            "command": "true",
        });
        send(fixture.open(Method::POST, "/api/job/submit").json(&body))
    };
    assert_eq!(submit("etl", "wrong", 1).await.status, 401);
    assert_eq!(
        submit("demo-user", SECRET, 2).await.code(),
        (200, "invalid"),
        "as if there were no such group"
    );
    let query = "/api/job/status?job_id=4096&app_name=old&app_key=wrong";
    assert_eq!(send(fixture.open(Method::GET, query)).await.status, 401);
    let (_, refusals) = reported(fixture).await;
    let told: Vec<_> = refusals.iter().map(|it| (&*it.app, &*it.call, it.reason)).collect();
    let (unknown, forbidden) = (RefusalReason::Unauthenticated, RefusalReason::Forbidden);
    let expected = [
        ("demo-user", "POST /api/job/submit", forbidden),
        ("etl", "POST /api/job/submit", unknown),
        ("old", "GET /api/job/status", unknown),
    ];
    assert_eq!(told, expected);
}

/// OPS-9: below the level of such records none is sent.
#[tokio::test(flavor = "multi_thread")]
async fn refused_calls_are_not_reported_below_their_level() {
    let answers = Box::new(stands(Level::new(3)));
    let fixture = Fixture::with(Config::default(), answers_done(), answers).await;
    assert_eq!(send(fixture.open(Method::GET, "/api/jobs")).await.status, 401);
    assert_eq!(reported(fixture).await, (0, Vec::new()));
}
