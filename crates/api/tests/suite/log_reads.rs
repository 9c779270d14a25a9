//! LOG-2, LOG-3: logs come from stores, by tickets, and where these have none from the worker.

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use reqwest::Method;
use serde_json::{Value, json};
use tidemill_api::Config;
use tidemill_model::{BatchId, BatchState, GroupName, LiveAnswer, LiveQuery, LogStream, Token};
use tidemill_store::rows::{AttemptRow, BatchRow, WorkerRow};

use crate::fixture::{Fixture, answers_done, send};
use crate::log_store::{FakeStore, INTERNAL_KEY};
use crate::owner::OFFSET;
use crate::rows::{SECRET, Writer, attempt, batch, key, worker};

/// The secret of interfaces and workers, which stores do not take.
const LOGS_KEY: &str = "for-logs";

/// Not UTF-8, with a control sequence and a zero.
const BYTES: &[u8] = b"one\xff\xfe\n\x1b[2Jtwo\0\r\nthree";

/// The partition, of two, of all attempts of the tests.
pub(crate) const PARTITION: u32 = 1;

/// An interface that knows these stores, and whose batch 2 has attempts as said.
pub(crate) async fn fixture(stores: &[&FakeStore]) -> Fixture {
    let log_stores = stores.iter().map(|store| store.address.clone()).collect();
    let config = Config {
        logs_key: LOGS_KEY.to_owned(),
        internal_key: INTERNAL_KEY.to_owned(),
        log_stores,
        ..Config::default()
    };
    let newest = BatchId(batch(2, 2).id);
    let answers = move |_, query: LiveQuery| match query {
        LiveQuery::NewestBatch { .. } => {
            Ok(LiveAnswer::NewestBatch { batch: Some(newest), state: Some(BatchState::Running) })
        }
        _ => Ok(LiveAnswer::NotFound),
    };
    let fixture = Fixture::with(config, answers_done(), Box::new(answers)).await;
    let of_other = key("of-other", "user", &["other"]);
    Writer::new(&*fixture.tables)
        .rows(vec![worker(&worker_at_work().await)])
        .rows(vec![of_other])
        .commit(OFFSET + 1);
    fixture
}

/// The `number`-th attempt of batch 2, whose token it tells, too.
pub(crate) fn attempt_of_2(number: i64, finished_at: Option<i64>) -> AttemptRow {
    let id = ((100 + number) << 12) | 1;
    AttemptRow { id, batch_id: batch(2, 2).id, attempt: number, finished_at, ..attempt() }
}

pub(crate) fn token(number: i64) -> Token {
    Token(attempt_of_2(number, None).id)
}

/// An attempt of batch 2 that has printed nothing; its worker is asked as one that keeps no notes of attempts.
pub(crate) const SILENT: i64 = 9;

/// An attempt of batch 2 that has printed nothing, of which its worker says something.
pub(crate) const NOTED: i64 = 8;

/// A worker that has the log of the attempt of batch 1, without notes, which knows ranges, and of the silent ones of batch 2.
async fn worker_at_work() -> String {
    let nothing = || (StatusCode::NOT_FOUND, axum::Json(json!({"code": "no_log"}))).into_response();
    let wrong_stream = || (StatusCode::BAD_REQUEST, axum::Json(json!({"code": "bad_query"}))).into_response();
    let part = move |Path(token): Path<i64>, RawQuery(query): RawQuery| async move {
        let query = query.unwrap();
        let is_of_notes = query.starts_with("type=3&");
        if is_of_notes && token == self::token(NOTED).0 {
            return axum::Json(json!({"content": "killed\n", "offset": 7, "is_end": true})).into_response();
        }
        if is_of_notes && token != self::token(NOTED).0 {
            return wrong_stream();
        }
        if [SILENT, NOTED].iter().any(|number| token == self::token(*number).0) {
            return axum::Json(json!({"content": "", "offset": 0, "is_end": true})).into_response();
        }
        if token != attempt().id {
            return nothing();
        }
        let content = format!("worker: {query}\n");
        axum::Json(json!({"content": content, "offset": 40, "is_end": true})).into_response()
    };
    let whole = move |Path(token): Path<i64>, RawQuery(query): RawQuery, headers: HeaderMap| async move {
        if query.unwrap() == "type=3" {
            return wrong_stream();
        }
        if token != attempt().id {
            return nothing();
        }
        match headers.get(header::RANGE) {
            Some(range) => {
                let said = [(header::CONTENT_RANGE, "bytes 1-2/4")];
                (StatusCode::PARTIAL_CONTENT, said, format!("{range:?}")).into_response()
            }
            None => "all of the worker's\n".into_response(),
        }
    };
    let router = Router::new().route("/logs/{token}", get(part)).route("/logs/{token}/download", get(whole));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

pub(crate) fn log_of(batch: &BatchRow, rest: &str) -> String {
    format!("/api/batches/{}/log{rest}", batch.id)
}

fn log_of_1(rest: &str) -> String {
    log_of(&batch(1, 3), rest)
}

const TOKEN_1: Token = Token((1 << 12) | 1);

async fn store_of_1() -> FakeStore {
    let store = FakeStore::start(&[PARTITION]).await;
    store.keep(TOKEN_1, LogStream::Stdout, b"a\nb\nc\n");
    store.keep(TOKEN_1, LogStream::Stderr, BYTES);
    store.keep(TOKEN_1, LogStream::Worker, b"took it over\n");
    store.end(TOKEN_1);
    store
}

/// LOG-2, LOG-3: lines come from the store by byte, by line and from the end, of each stream.
#[tokio::test]
async fn lines_come_from_the_store_by_byte_line_and_from_the_end() {
    let store = store_of_1().await;
    let fixture = fixture(&[&store]).await;
    let part = |content: &str, begin: u64, line: u64, offset: u64, is_end: bool| json!({"attempt": 1, "content": content, "begin": begin, "line": line, "offset": offset, "is_end": is_end});
    for (query, wanted) in [
        ("", part("a\nb\nc\n", 0, 1, 6, true)),
        ("?offset=2&lines=1", part("b\n", 2, 2, 4, false)),
        ("?line=3", part("c\n", 4, 3, 6, true)),
        ("?last=2", part("b\nc\n", 2, 2, 6, true)),
        ("?last=2&lines=1", part("b\n", 2, 2, 4, false)),
        ("?type=worker", part("took it over\n", 0, 1, 13, true)),
        ("?type=3", part("took it over\n", 0, 1, 13, true)),
        ("?type=2", part("one\u{fffd}\u{fffd}\n\u{1b}[2Jtwo\0\r\nthree", 0, 1, 21, true)),
    ] {
        let answered = send(fixture.get(&log_of_1(query))).await;
        assert_eq!((answered.status, answered.body), (200, wanted), "{query}");
    }
    assert_eq!(store.asked()[3], "lines last=2 lines=2 type=1");
    let summary = send(fixture.get(&log_of_1("/summary"))).await.body;
    assert_eq!(summary["stdout"], json!({"bytes": 6, "lines": 3}));
    let found = send(fixture.get(&log_of_1("/search?text=b%26%2B&ignore_case=true&type=2&offset=3"))).await;
    assert_eq!(found.body["matches"][0]["text"], "b&+");
    let asked = store.asked();
    assert_eq!(asked.last().unwrap(), "search ignore_case=true limit=100 offset=3 text=b&+ type=2");
}

/// LOG-2: what cannot be asked is refused by the names of its fields, and no store is asked.
#[tokio::test]
async fn questions_that_cannot_be_asked_name_their_fields() {
    let store = store_of_1().await;
    let fixture = fixture(&[&store]).await;
    let long = format!("/search?text={}", "x".repeat(1_001));
    for (rest, fields) in [
        ("?offset=1&line=1", &["offset", "line"][..]),
        ("?offset=0&line=2&last=3", &["offset", "line", "last"]),
        ("?line=0", &["line"]),
        ("?last=0", &["last"]),
        ("?type=4", &["type"]),
        ("?lines=10001", &["lines"]),
        ("/search", &["text"]),
        ("/search?text=", &["text"]),
        (&long, &["text"]),
        ("/search?text=a&limit=1001", &["limit"]),
        ("/tail?from=middle", &["from"]),
    ] {
        let answered = send(fixture.get(&log_of_1(rest))).await;
        assert_eq!(answered.code(), (422, "invalid"), "{rest}");
        let errors = answered.body["errors"].as_array().unwrap().clone();
        let named: Vec<_> = errors.iter().map(|error| error["field"].as_str().unwrap()).collect();
        assert_eq!(named, fields, "{rest}");
    }
    for range in ["bytes=5-2", "bytes=-", "bytes=0-1,3-4", "bytes=a-"] {
        let answered = send(fixture.get(&log_of_1("/download")).header("Range", range)).await;
        assert_eq!(answered.code(), (422, "invalid"), "{range}");
        assert_eq!(answered.body["errors"][0]["field"], "Range");
    }
    assert!(store.asked().is_empty());
}

async fn download(request: reqwest::RequestBuilder) -> (u16, Value, Vec<u8>) {
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let names = ["content-range", "content-length", "accept-ranges"];
    let headers = names.map(header).to_vec().into();
    (response.status().as_u16(), headers, response.bytes().await.unwrap().to_vec())
}

/// LOG-3: a download is byte for byte what is kept, as a whole and in ranges; one beyond the end is refused.
#[tokio::test]
async fn downloads_are_byte_for_byte_what_is_kept() {
    let store = store_of_1().await;
    let fixture = fixture(&[&store]).await;
    let get = |range: Option<&str>| {
        let request = fixture.get(&log_of_1("/download?type=stderr"));
        download(range.into_iter().fold(request, |request, range| request.header("Range", range)))
    };
    assert_eq!(get(None).await, (200, json!([null, "21", "bytes"]), BYTES.to_vec()));
    assert_eq!(get(Some("lines=1-2")).await, (200, json!([null, "21", "bytes"]), BYTES.to_vec()));
    for (range, first, end) in [
        ("bytes=0-0", 0, 1),
        ("bytes=3-5", 3, 6),
        ("bytes=20-", 20, 21),
        ("bytes=-4", 17, 21),
        ("bytes=4-99", 4, 21),
    ] {
        let said = json!([format!("bytes {first}-{}/21", end - 1), (end - first).to_string(), "bytes"]);
        assert_eq!(get(Some(range)).await, (206, said, BYTES[first..end].to_vec()), "{range}");
    }
    let beyond =
        fixture.get(&log_of_1("/download?type=2")).header("Range", "bytes=21-").send().await.unwrap();
    assert_eq!(beyond.headers()["content-range"], "bytes */21");
    assert_eq!(beyond.status().as_u16(), 416);
    assert_eq!(beyond.json::<Value>().await.unwrap()["code"], "range_not_satisfiable");
    // Of what it has a part of nobody knows which version: the whole comes.
    let part =
        fixture.get(&log_of_1("/download?type=2")).header("Range", "bytes=1-2").header("If-Range", "\"x\"");
    assert_eq!(download(part).await.2, BYTES);
}

/// LOG-4, API-5: a ticket is for the log that was asked for and the group of the worker that ran the attempt; of a foreign batch
/// or a guessed one none is written.
#[tokio::test]
async fn tickets_are_for_one_log_of_the_workers_group_and_after_the_rights() {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    // The worker works for another group now; its attempt is of the group of its own shard.
    let of_group = |shard: i64, group: &str| WorkerRow {
        id: "w9".into(),
        shard,
        group_name: group.into(),
        registered_at: shard,
        ..worker("127.0.0.1:9")
    };
    let (own, foreign) = (batch(4, 3), BatchRow { group_name: "other".into(), ..batch(5, 3) });
    let guessed = BatchRow { id: batch(77, 2).id, ..batch(4, 3) };
    let attempt_of = |batch: &BatchRow| AttemptRow {
        id: batch.id + (100 << 12),
        batch_id: batch.id,
        worker_id: "w9".into(),
        ..attempt()
    };
    let token = Token(attempt_of(&own).id);
    Writer::new(&*fixture.tables)
        .rows(vec![of_group(1, "报表"), of_group(2, "other")])
        .rows(vec![attempt_of(&own), attempt_of(&foreign)])
        .rows(vec![own.clone(), foreign.clone()])
        .commit(OFFSET + 2);
    for token in [token, Token(attempt_of(&foreign).id)] {
        store.keep(token, LogStream::Stdout, b"a\n");
        store.end(token);
    }
    let calls = ["", "/download", "/summary", "/search?text=a", "/tail"];
    let asked = async |batch: &BatchRow, app: &str| {
        let mut codes = Vec::new();
        for call in calls {
            codes.push(send(fixture.request(Method::GET, &log_of(batch, call), app)).await.status);
        }
        codes
    };
    assert_eq!(asked(&foreign, "demo-user").await, [404; 5]);
    assert_eq!(asked(&own, "of-other").await, [404; 5]);
    assert_eq!(asked(&guessed, "demo-user").await, [404; 5]);
    for call in calls {
        assert_eq!(send(fixture.open(Method::GET, &log_of(&own, call))).await.status, 401, "{call}");
    }
    assert!(store.asked().is_empty(), "{:?}", store.asked());
    assert_eq!(asked(&own, "demo-user").await, [200; 5]);
    assert_eq!(asked(&foreign, "of-other").await, [200; 5]);
    let tickets = store.tickets();
    assert_eq!(tickets.len(), 10);
    let is_own = |(of, group): &(Token, GroupName)| *of == token && group.as_str() == "报表";
    assert!(tickets[..5].iter().all(is_own), "{tickets:?}");
    assert!(tickets[5..].iter().all(|(of, _)| *of != token), "{tickets:?}");
}

/// LOG-1, LOG-2: where the store of an attempt does not answer, another one that has it does, and else the worker; once it answers
/// again, it does.
#[tokio::test]
async fn other_stores_and_the_worker_answer_for_a_store_that_does_not() {
    let (owner, other) = (FakeStore::start(&[PARTITION]).await, FakeStore::start(&[0]).await);
    let fixture = fixture(&[&other, &owner]).await;
    let content = async |rest: &str| {
        let answered = send(fixture.get(&log_of_1(rest))).await;
        match answered.status {
            200 => answered.body["content"].as_str().unwrap_or_default().to_owned(),
            _ => format!("{:?}", answered.code()),
        }
    };
    let by_worker = "worker: type=1&offset=0&lines=100\n";
    assert_eq!(content("").await, by_worker, "no store keeps anything of it");
    assert_eq!(content("?line=1").await, r#"(404, "no_log")"#);
    let part = download(fixture.get(&log_of_1("/download")).header("Range", "bytes=1-2")).await;
    assert_eq!((part.0, &part.1[0], &*part.2), (206, &json!("bytes 1-2/4"), &br#""bytes=1-2""#[..]));
    owner.keep(TOKEN_1, LogStream::Stdout, b"of the owner\n");
    assert_eq!(content("").await, "of the owner\n");
    owner.fails(true);
    assert_eq!(content("").await, by_worker);
    assert_eq!(content("?line=1").await, r#"(503, "log_store_unreachable")"#);
    assert_eq!(content("/summary").await, r#"(503, "log_store_unreachable")"#);
    other.keep(TOKEN_1, LogStream::Stdout, b"of the other\n");
    assert_eq!(content("").await, "of the other\n");
    owner.fails(false);
    assert_eq!(content("").await, "of the owner\n");
    // A host that is gone is found out by asking, and then not asked any more.
    drop(owner);
    assert_eq!(content("").await, "of the other\n");
    drop(other);
    assert_eq!(content("").await, by_worker);
    let whole = download(fixture.get(&log_of_1("/download"))).await;
    assert_eq!((whole.0, &*whole.2), (200, &b"all of the worker's\n"[..]));
}

/// LOG-1: the partition of an attempt may go to another store while nobody looks.
#[tokio::test]
async fn store_that_took_the_partition_is_asked_within_a_second() {
    let (first, second) = (FakeStore::start(&[PARTITION]).await, FakeStore::start(&[]).await);
    for (store, text) in [(&first, "first\n"), (&second, "second\n")] {
        store.keep(TOKEN_1, LogStream::Stdout, text.as_bytes());
    }
    let fixture = fixture(&[&first, &second]).await;
    let log = async || send(fixture.get(&log_of_1(""))).await.body["content"].clone();
    assert_eq!(log().await, "first\n");
    first.has(&[]);
    second.has(&[PARTITION]);
    let begun = std::time::Instant::now();
    while log().await != "second\n" {
        assert!(begun.elapsed().as_secs() < 20, "the first one is asked for ever");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// LOG-2: a name stands for all its addresses; one where nobody listens, of the other family, does not make a log unreachable.
#[tokio::test]
async fn store_is_found_by_its_name() {
    let store = store_of_1().await;
    let port = store.address.rsplit_once(':').unwrap().1;
    let log_stores = vec![format!("localhost:{port}")];
    let config = Config {
        logs_key: LOGS_KEY.to_owned(),
        internal_key: INTERNAL_KEY.to_owned(),
        log_stores,
        ..Config::default()
    };
    let fixture = Fixture::with(config, answers_done(), Box::new(|_, _| Ok(LiveAnswer::NotFound))).await;
    let attempts = vec![attempt_of_2(1, None)];
    Writer::new(&*fixture.tables).rows(attempts).commit(OFFSET + 1);
    assert_eq!(send(fixture.get(&log_of_1("/summary"))).await.body["stdout"]["bytes"], 6);
    assert_eq!(send(fixture.get(&log_of(&batch(2, 2), "/summary"))).await.code(), (404, "no_log"));
}

/// LOG-2: without stores workers are asked, and what they cannot do says what is missing.
#[tokio::test]
async fn without_stores_workers_are_asked() {
    let fixture = fixture(&[]).await;
    let part = send(fixture.get(&log_of_1("?offset=7&lines=3"))).await.body;
    let content = "worker: type=1&offset=7&lines=3\n";
    assert_eq!(part, json!({"attempt": 1, "content": content, "offset": 40, "is_end": true}));
    for call in ["?line=1", "?last=1", "/summary", "/search?text=a", "/tail", "/tail?from=end"] {
        let answered = send(fixture.get(&log_of_1(call))).await;
        assert_eq!(answered.code(), (503, "no_log_store"), "{call}");
        assert!(answered.body["detail"].as_str().unwrap().contains("api.log_stores"), "{answered:?}");
    }
}

/// LOG-2: a worker of a version that keeps no notes of attempts has none.
#[tokio::test]
async fn worker_without_notes_has_none() {
    let store = FakeStore::start(&[PARTITION]).await;
    for stores in [vec![], vec![&store]] {
        let fixture = fixture(&stores).await;
        for call in ["?type=3", "/download?type=3"] {
            assert_eq!(send(fixture.get(&log_of_1(call))).await.code(), (404, "no_log"), "{call}");
        }
    }
}

/// LOG-2: a store that has less than somebody has read sends nobody back.
#[tokio::test]
async fn offset_beyond_what_is_kept_stays_as_it_was_asked() {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    store.keep(token(1), LogStream::Stdout, b"a\nb\n");
    Writer::new(&*fixture.tables).rows(vec![attempt_of_2(1, None)]).commit(OFFSET + 2);
    let part = send(fixture.get(&log_of(&batch(2, 2), "?offset=100"))).await.body;
    let wanted =
        json!({"attempt": 1, "content": "", "begin": 100, "line": 3, "offset": 100, "is_end": false});
    assert_eq!(part, wanted);
    assert_eq!(log_of_job(&fixture, Some(100), 1).await, (String::new(), 100, false));
}

/// API-2, LOG-2: a batch that has finished has an end, also where nobody has the log of its last attempt, or its host is gone.
#[tokio::test]
async fn job_call_ends_with_a_batch_whose_last_attempt_left_nothing() {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    let mut finished = batch(2, 3);
    finished.attempt = 2;
    let on_a_lost_host = AttemptRow { worker_id: "w9".into(), ..attempt_of_2(1, Some(1)) };
    Writer::new(&*fixture.tables)
        .rows(vec![WorkerRow { id: "w9".into(), ..worker("127.0.0.1:9") }])
        .rows(vec![finished])
        .rows(vec![on_a_lost_host])
        .commit(OFFSET + 2);
    assert_eq!(log_of_job(&fixture, None, 1).await, (String::new(), 0, true));
    assert_eq!(log_of_job(&fixture, Some(7), 1).await, (String::new(), 7, true));
    Writer::new(&*fixture.tables).rows(vec![attempt_of_2(2, Some(1))]).commit(OFFSET + 3);
    assert_eq!(log_of_job(&fixture, Some(7), 1).await, (String::new(), 1 << 40, true));
}

/// What the job call says of stdout: its lines, where to go on, and whether it has ended.
async fn log_of_job(fixture: &Fixture, offset: Option<i64>, lines: u32) -> (String, i64, bool) {
    let offset = offset.map(|offset| format!("&offset={offset}")).unwrap_or_default();
    let path = format!("/api/log?app_name=viewer&app_key={SECRET}&job_id=4096&type=1&lines={lines}{offset}");
    let answered = send(fixture.open(Method::GET, &path)).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    let body = answered.body;
    (body["log"].as_str().unwrap().to_owned(), body["offset"].as_i64().unwrap(), body["is_end"] == true)
}

/// API-2, LOG-2: whoever passes back the offset reads one attempt after the other, skips nothing, and is told the end once.
#[tokio::test]
async fn offsets_of_the_job_call_lead_over_a_retry() {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    let attempts = [1, 2, 3, 4].map(|number| attempt_of_2(number, (number < 4).then_some(1)));
    let mut running = batch(2, 2);
    running.attempt = 4;
    Writer::new(&*fixture.tables).rows(vec![running]).rows(attempts.to_vec()).commit(OFFSET + 2);
    store.keep(token(1), LogStream::Stdout, b"a\nb\n");
    store.end(token(1));
    // Of the second nothing is kept, and the third has printed nothing.
    store.keep(token(3), LogStream::Worker, b"it was killed\n");
    store.end(token(3));
    let read = async |offset: Option<i64>| log_of_job(&fixture, offset, 1).await;
    let begin = |attempt: i64| (attempt - 1) << 40;
    assert_eq!(read(None).await, ("a\n".to_owned(), 2, false));
    assert_eq!(read(Some(2)).await, ("b\n".to_owned(), begin(2), false));
    assert_eq!(read(Some(begin(2))).await, (String::new(), begin(4), false));
    assert_eq!(read(Some(begin(4))).await, (String::new(), begin(4), false), "it has not begun to print");
    store.keep(token(4), LogStream::Stdout, b"c\n");
    assert_eq!(read(Some(begin(4))).await, ("c\n".to_owned(), begin(4) + 2, false));
    assert_eq!(read(Some(begin(4) + 2)).await, (String::new(), begin(4) + 2, false));
    store.keep(token(4), LogStream::Stdout, b"d\n");
    store.end(token(4));
    assert_eq!(read(Some(begin(4) + 2)).await, ("d\n".to_owned(), begin(4) + 4, false));
    let mut finished = batch(2, 3);
    finished.attempt = 4;
    Writer::new(&*fixture.tables).rows(vec![finished]).commit(OFFSET + 3);
    assert_eq!(read(Some(begin(4) + 4)).await, (String::new(), begin(4) + 4, true));
    let path = format!("/api/log/download?app_name=viewer&app_key={SECRET}&job_id=4096&type=1");
    assert_eq!(download(fixture.open(Method::GET, &path)).await.2, b"c\nd\n");
    let bad = format!("/api/log?app_name=viewer&app_key={SECRET}&job_id=4096&type=3");
    assert_eq!(send(fixture.open(Method::GET, &bad)).await.code(), (422, "invalid"));
}
