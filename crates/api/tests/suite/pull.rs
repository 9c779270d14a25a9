//! Pulls: the owner decides, hints spare it, and waiting is bounded (PUL-5 to PUL-7).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tidemill_api::Config;
use tidemill_model::{
    Answer, Command, GrantId, LiveAnswer, Outcome, PulledGrant, Rejection, ShardId, TaskCommand, TaskId,
    Timestamp,
};
use tidemill_store::hints::{Hints, Life, Mark, Turn};
use tidemill_store::rows::PullGrantRow;

use crate::fixture::{Fixture, send};
use crate::owner::{OFFSET, Script};
use crate::rows::{OFFSET_AT_START, USER, Writer, user};

const FAR: Duration = Duration::from_secs(60);
/// The shard of group `other`.
const MOVED_TO: ShardId = ShardId(2);

fn grant() -> Outcome {
    Outcome::Answered(Answer::Pulled(Box::new(PulledGrant {
        grant: GrantId(4097),
        task: TaskId(4098),
        version: 1,
        name: None,
        parameters: Default::default(),
        start: Timestamp::UNIX_EPOCH,
        granted_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
        redo: false,
    })))
}

fn nothing(next_at: Option<Timestamp>) -> Outcome {
    Outcome::Answered(Answer::NothingDue { next_at })
}

/// A keeper by hand: a life that holds for long, and marks.
struct ByHand {
    fixture: Fixture,
    life: Life,
    number: AtomicU64,
}

impl ByHand {
    async fn new(config: Config, script: Script) -> Self {
        let fixture = Fixture::with(config, script, Box::new(|_, _| Ok(LiveAnswer::NotFound))).await;
        let this = Self { fixture, life: Life::draw(), number: AtomicU64::new(0) };
        assert!(this.fixture.hints.begin(0, &this.life).unwrap());
        this.turn(&[]);
        this
    }

    fn turn(&self, marks: &[(Mark, u64)]) {
        let number = self.number.fetch_add(1, Ordering::SeqCst) + 1;
        let until = self.fixture.hints.clock_ms().unwrap() + 600_000;
        let turn = Turn {
            partition: 0,
            life: &self.life,
            confirmed: number - 1,
            number,
            marks,
            holds_until_ms: Some(until),
        };
        assert!(self.fixture.hints.turn(&turn).unwrap());
    }

    async fn pull(&self, wait_s: u32) -> Value {
        let answered = send(self.fixture.post("/api/pull", &json!({"user": USER, "wait_s": wait_s}))).await;
        assert_eq!(answered.status, 200, "{answered:?}");
        answered.body
    }

    fn asked(&self) -> usize {
        self.fixture
            .owner
            .seen()
            .iter()
            .filter(|it| matches!(it.command, Command::Task(TaskCommand::Pull { .. })))
            .count()
    }
}

/// PUL-6: of a thousand empty answers the owner gives one; a mark of the user or the group lets it be asked again.
#[tokio::test]
async fn hints_spare_the_owner_empty_answers_until_something_changes() {
    let at = Timestamp::from(jiff::Timestamp::now()) + jiff::SignedDuration::from_secs(600);
    let fixture = ByHand::new(Config::default(), Box::new(move |_| Some(nothing(Some(at))))).await;
    for _ in 0..1_000 {
        let answer = fixture.pull(0).await;
        assert_eq!(answer["grant"], Value::Null);
        assert_eq!(answer["retry_after_s"], 30);
        let next_at: Timestamp = answer["next_at"].as_str().unwrap().parse().unwrap();
        assert_eq!(next_at.as_millisecond(), at.as_millisecond());
    }
    assert_eq!(fixture.asked(), 1);
    let user = Mark::User { shard: 1, user: USER.into() };
    for (mark, asks) in [
        (Mark::User { shard: 1, user: "other".into() }, 1),
        (Mark::Group { shard: 2 }, 1),
        (user, 2),
        (Mark::Group { shard: 1 }, 3),
    ] {
        // The owner answers at that offset: what stands there may have been decided after it.
        fixture.turn(&[(mark.clone(), OFFSET)]);
        fixture.pull(0).await;
        assert_eq!(fixture.asked(), asks, "{mark:?}");
        fixture.turn(&[(mark, OFFSET - 1)]);
        fixture.pull(0).await;
    }
}

/// PUL-9: without a life that held before the owner was asked there is no hint.
#[tokio::test]
async fn without_a_life_every_pull_asks() {
    let fixture = ByHand::new(Config::default(), Box::new(|_| Some(nothing(None)))).await;
    fixture.fixture.hints.flush();
    for asks in 1..=5 {
        assert_eq!(fixture.pull(0).await, json!({"grant": null, "retry_after_s": 30}));
        assert_eq!(fixture.asked(), asks);
    }
}

/// PUL-6: what begins soon is asked for when it begins, also by one that waits.
#[tokio::test]
async fn hint_ends_when_something_begins() {
    // Counted from the first question, however long it takes until that comes.
    let at = Arc::new(OnceLock::new());
    let begins = Arc::clone(&at);
    let script: Script = Box::new(move |_| {
        let at = *begins.get_or_init(|| {
            Timestamp::from(jiff::Timestamp::now()) + jiff::SignedDuration::from_millis(1_500)
        });
        Some(if Timestamp::from(jiff::Timestamp::now()) < at { nothing(Some(at)) } else { grant() })
    });
    let fixture = ByHand::new(Config::default(), script).await;
    let again_after_s = fixture.pull(0).await["retry_after_s"].as_u64().unwrap();
    assert!((1..=2).contains(&again_after_s), "{again_after_s}");
    let answer = fixture.pull(30).await;
    assert_eq!(answer["grant"]["grant"], 4097);
    assert_eq!(fixture.asked(), 2, "it was not asked before");
    let late = Timestamp::from(jiff::Timestamp::now()).duration_since(*at.get().unwrap());
    assert!(!late.is_negative() && late.as_secs() < 20, "{late}");
}

/// PUL-6: a pull that waits gets a task that comes; it asks when the mark says so, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_pull_is_woken_by_a_mark() {
    let there = Arc::new(AtomicBool::new(false));
    let is_there = Arc::clone(&there);
    let script: Script =
        Box::new(move |_| Some(if is_there.load(Ordering::SeqCst) { grant() } else { nothing(None) }));
    let fixture = Arc::new(ByHand::new(Config::default(), script).await);
    fixture.pull(0).await;
    let waits = tokio::spawn({
        let fixture = Arc::clone(&fixture);
        async move { fixture.pull(30).await }
    });
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(fixture.asked(), 1, "nothing has changed");
    there.store(true, Ordering::SeqCst);
    fixture.turn(&[(Mark::Group { shard: 1 }, OFFSET)]);
    let since = Instant::now();
    assert_eq!(waits.await.unwrap()["grant"]["task"], 4098);
    // It would have waited for half a minute.
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    assert_eq!(fixture.asked(), 2);
}

/// PUL-6: a wait ends by itself, empty; its bound is checked.
#[tokio::test]
async fn wait_ends_in_time() {
    let fixture = ByHand::new(Config::default(), Box::new(|_| Some(nothing(None)))).await;
    let since = Instant::now();
    assert_eq!(fixture.pull(1).await["grant"], Value::Null);
    assert!(since.elapsed() >= Duration::from_secs(1) && since.elapsed() < FAR);
    for body in [
        json!({"user": USER, "wait_s": 31}),
        json!({"user": "a b"}),
        json!({"user": USER, "wait": 1}),
        json!({}),
    ] {
        let answered = send(fixture.fixture.post("/api/pull", &body)).await;
        assert_eq!(answered.code(), (422, "invalid"), "{answered:?}");
    }
}

/// OPS-7: pulls that wait do not take the places of other requests, and have a bound of their own.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_pulls_are_bounded_and_leave_room_for_others() {
    let config = Config { max_requests: 2, max_waiting_pulls: 3, ..Config::default() };
    let fixture = Arc::new(ByHand::new(config, Box::new(|_| Some(nothing(None)))).await);
    fixture.pull(0).await;
    let pull = || {
        let fixture = Arc::clone(&fixture);
        tokio::spawn(async move {
            let body = json!({"user": USER, "wait_s": 30});
            // Two at once may ask; who waits has left its place.
            while send(fixture.fixture.post("/api/pull", &body)).await.status == 429 {}
        })
    };
    let waiting: Vec<_> = (0..3).map(|_| pull()).collect();
    // They leave their places to others when they begin to wait; then one more is one too many.
    let begun_at = Instant::now();
    let answered = loop {
        let answered = send(fixture.fixture.post("/api/pull", &json!({"user": USER, "wait_s": 1}))).await;
        if answered.body["detail"].as_str().is_some_and(|detail| detail.contains("3 pulls wait already")) {
            break answered;
        }
        assert!(begun_at.elapsed() < FAR, "{answered:?}");
    };
    assert_eq!((answered.code(), answered.retry_after.as_deref()), ((429, "overloaded"), Some("1")));
    assert_eq!(send(fixture.fixture.get("/api/jobs")).await.status, 200);
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

/// PUL-7: what the owner says of a completion and a return is told with its code.
#[tokio::test]
async fn completions_and_returns_are_told_as_the_owner_says() {
    let answer = Arc::new(Mutex::new(Outcome::Done));
    let told = Arc::clone(&answer);
    let fixture = ByHand::new(Config::default(), Box::new(move |_| Some(told.lock().unwrap().clone()))).await;
    let complete = json!({"user": USER, "grant": 4097, "result": "ok"});
    let give_back = json!({"user": USER, "grant": 4097, "reason": "ill"});
    let over = Rejection::GrantOver { grant: 4097, reason: "has expired".to_owned() };
    for (outcome, path, body, wanted) in [
        (
            Outcome::Answered(Answer::Completed { grant: GrantId(4097) }),
            "/api/pull/complete",
            &complete,
            (200, ""),
        ),
        (Outcome::Done, "/api/pull/return", &give_back, (200, "")),
        (Outcome::Refused(over.clone()), "/api/pull/complete", &complete, (409, "grant_over")),
        (Outcome::Refused(over), "/api/pull/return", &give_back, (409, "grant_over")),
        (
            Outcome::Refused(Rejection::AlreadyCompleted { grant: 4097 }),
            "/api/pull/complete",
            &complete,
            (409, "already_completed"),
        ),
        (
            Outcome::Refused(Rejection::UserUnknown { user: USER.to_owned(), group: "demo".to_owned() }),
            "/api/pull/complete",
            &complete,
            (409, "user_moving"),
        ),
    ] {
        *answer.lock().unwrap() = outcome;
        let answered = send(fixture.fixture.post(path, body)).await;
        assert_eq!(answered.code(), wanted, "{answered:?}");
    }
}

/// PUL-7, PUL-13: whose user has moved is found where it went; where that has not heard of it yet, it is on its way.
#[tokio::test]
async fn what_is_said_of_a_user_that_moved_finds_its_new_group() {
    let is_there = Arc::new(AtomicBool::new(false));
    let knows = Arc::clone(&is_there);
    let script: Script = Box::new(move |record| {
        let knows = record.shard == MOVED_TO && knows.load(Ordering::SeqCst);
        Some(match &record.command {
            Command::Task(TaskCommand::Pull { .. }) => grant(),
            _ if knows => Outcome::Done,
            _ => Outcome::Refused(Rejection::unknown(Rejection::MEMBER, USER)),
        })
    });
    let fixture = ByHand::new(Config::default(), script).await;
    assert_eq!(fixture.pull(0).await["grant"]["grant"], 4097, "its home is known from now on");
    Writer::new(&*fixture.fixture.tables)
        .rows(vec![user(USER, "other", i64::from(MOVED_TO.0))])
        .commit(OFFSET_AT_START + 1);
    let give_back = json!({"user": USER, "grant": 4097});
    let answered = send(fixture.fixture.post("/api/pull/return", &give_back)).await;
    assert_eq!((answered.code(), answered.retry_after.as_deref()), ((409, "user_moving"), Some("1")));
    is_there.store(true, Ordering::SeqCst);
    let with_key = || fixture.fixture.post("/api/pull/return", &give_back).header("Idempotency-Key", "once");
    assert_eq!(send(with_key()).await.code(), (200, ""));
    // The state has changed, and its answer is kept where it went.
    is_there.store(false, Ordering::SeqCst);
    assert_eq!(send(with_key()).await.code(), (200, ""));
}

/// API-5: a key bound to other groups does not pull for this user; nobody pulls for a user without a home.
#[tokio::test]
async fn keys_pull_for_users_of_their_groups() {
    let fixture = ByHand::new(Config::default(), Box::new(|_| Some(grant()))).await;
    for (app, user, wanted) in [
        ("viewer", USER, (403, "forbidden")),
        ("demo-user", USER, (200, "")),
        ("demo-user", "of-other", (404, "user_unknown")),
        ("both", "of-other", (200, "")),
        ("root", "nobody", (404, "user_unknown")),
    ] {
        let request = fixture.fixture.request(Method::POST, "/api/pull", app).json(&json!({"user": user}));
        let answered = send(request).await;
        assert_eq!(answered.code(), wanted, "{app} {user}: {answered:?}");
    }
}

/// PUL-14: a grant that is old and over is not listed any more, one that somebody has is, however old.
#[tokio::test]
async fn old_grants_are_gone_and_live_ones_never() {
    let fixture = Fixture::start(Box::new(|_| None)).await;
    let old = Timestamp::from(jiff::Timestamp::now()) - jiff::SignedDuration::from_secs(2 * 24 * 60 * 60);
    let new = Timestamp::from(jiff::Timestamp::now()) - jiff::SignedDuration::from_secs(60);
    let grant = |id, state: &str, granted_at: Timestamp| PullGrantRow {
        id,
        shard: 1,
        group_name: "demo".into(),
        task_id: 4097,
        task_version: 1,
        task_name: None,
        start_at: granted_at.as_millisecond(),
        user_name: USER.into(),
        state: state.into(),
        granted_at: granted_at.as_millisecond(),
        expires_at: None,
        ended_at: (state != "live").then_some(granted_at.as_millisecond()),
        result: None,
        returned_by: None,
        reason: None,
    };
    let many = (100..1_300).map(|id| grant(id, "expired", old));
    let few = [
        grant(1, "completed", old),
        grant(2, "live", old),
        grant(3, "completed", new),
        grant(4, "live", new),
    ];
    Writer::new(&*fixture.tables).rows(few.into_iter().chain(many).collect()).commit(OFFSET_AT_START + 1);
    let listed = async || {
        let answered = send(fixture.get("/api/pull/grants?limit=1000")).await;
        assert_eq!(answered.status, 200, "{answered:?}");
        let items = answered.body["items"].as_array().unwrap().clone();
        items.iter().map(|it| it["id"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(listed().await.len(), 1_000);
    let tables = Arc::clone(&fixture.tables);
    let yesterday = Timestamp::from(jiff::Timestamp::now()) - jiff::SignedDuration::from_secs(24 * 60 * 60);
    let purged = move || tidemill_projector::purge(&*tables, yesterday, &tidemill_journal::Shutdown::new());
    assert_eq!(tokio::task::spawn_blocking(purged).await.unwrap().unwrap(), 1_201);
    assert_eq!(listed().await, [4, 3, 2]);
}
