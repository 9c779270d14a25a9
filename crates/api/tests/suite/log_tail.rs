//! LOG-2: the tail of a batch, over its attempts.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tidemill_model::LogStream;
use tidemill_store::rows::{AttemptRow, BatchRow};

use crate::fixture::{Fixture, send};
use crate::log_reads::{NOTED, PARTITION, SILENT, attempt_of_2, fixture, log_of, token};
use crate::log_store::FakeStore;
use crate::owner::OFFSET;
use crate::rows::{Writer, batch, key};

/// An event: its id, its kind, what it says.
type Told = (String, String, Value);

struct Tail {
    response: reqwest::Response,
    text: String,
}

impl Tail {
    async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next event; none: the stream has ended.
    async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                let told = field("data: ").map(|data| {
                    let (id, kind) = (field("id: ").unwrap_or_default(), field("event: ").unwrap());
                    (id.to_owned(), kind.to_owned(), serde_json::from_str(data).unwrap())
                });
                self.text = rest.to_owned();
                match told {
                    Some(told) => return Some(told),
                    None => continue,
                }
            }
            let chunk = tokio::time::timeout(Duration::from_secs(30), self.response.chunk()).await;
            let chunk = chunk.expect("something comes").unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    async fn all(mut self) -> Vec<Told> {
        let mut all = Vec::new();
        while let Some(told) = self.next().await {
            all.push(told);
        }
        all
    }
}

fn told(id: &str, kind: &str, said: Value) -> Told {
    (id.to_owned(), kind.to_owned(), said)
}

fn chunk(id: &str, attempt: i64, stream: &str, offset: u64, content: &str) -> Told {
    let at = "1970-01-01T00:00:00.000Z";
    let said = json!({"attempt": attempt, "stream": stream, "offset": offset, "at": at, "content": content});
    told(id, "chunk", said)
}

fn begins(id: &str, attempt: i64) -> Told {
    told(id, "attempt", json!({"attempt": attempt, "token": token(attempt)}))
}

fn write(fixture: &Fixture, at: u64, batch: BatchRow, attempts: Vec<AttemptRow>) {
    Writer::new(&*fixture.tables).rows(vec![batch]).rows(attempts).commit(OFFSET + at);
}

fn tail_of_2(fixture: &Fixture, query: &str) -> reqwest::RequestBuilder {
    fixture.get(&log_of(&batch(2, 2), &format!("/tail{query}")))
}

/// A store and an interface; batch 2 has three attempts and has finished.
async fn finished() -> (FakeStore, Fixture) {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    store.keep(token(1), LogStream::Stdout, b"a\xff\n");
    store.keep(token(1), LogStream::Stderr, b"err\n");
    store.keep(token(1), LogStream::Stdout, b"b\n");
    store.keep(token(2), LogStream::Worker, b"killed\n");
    store.keep(token(3), LogStream::Stdout, b"c");
    (1..=3).for_each(|number| store.end(token(number)));
    write(&fixture, 2, batch(2, 3), [1, 2, 3].map(|number| attempt_of_2(number, Some(1))).to_vec());
    (store, fixture)
}

/// All events of that batch.
fn all_of_it() -> Vec<Told> {
    vec![
        begins("1.0.0.0", 1),
        chunk("1.3.0.0", 1, "stdout", 0, "a\u{fffd}\n"),
        chunk("1.3.4.0", 1, "stderr", 0, "err\n"),
        chunk("1.5.4.0", 1, "stdout", 3, "b\n"),
        begins("2.0.0.0", 2),
        chunk("2.0.0.7", 2, "worker", 0, "killed\n"),
        begins("3.0.0.0", 3),
        chunk("3.1.0.0", 3, "stdout", 0, "c"),
        told("3.1.0.0", "end", json!({"result": "success"})),
    ]
}

/// LOG-2: a tail shows what comes within a second, says where the next attempt begins, and skips none, also where two came at once.
#[tokio::test]
async fn tail_over_a_retry_skips_nothing() {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    let mut tail = Tail::open(tail_of_2(&fixture, "")).await;
    write(&fixture, 2, batch(2, 2), vec![attempt_of_2(1, None)]);
    assert_eq!(tail.next().await.unwrap(), begins("1.0.0.0", 1));
    store.keep(token(1), LogStream::Stdout, b"a\xff\n");
    assert_eq!(tail.next().await.unwrap(), chunk("1.3.0.0", 1, "stdout", 0, "a\u{fffd}\n"));
    let mut quickest = Duration::MAX;
    for (stream, bytes, id, offset) in
        [(LogStream::Stderr, "err\n", "1.3.4.0", 0), (LogStream::Stdout, "b\n", "1.5.4.0", 3)]
    {
        let kept_at = Instant::now();
        store.keep(token(1), stream, bytes.as_bytes());
        assert_eq!(tail.next().await.unwrap(), chunk(id, 1, stream.name(), offset, bytes));
        quickest = quickest.min(kept_at.elapsed());
    }
    assert!(quickest < Duration::from_secs(1), "{quickest:?}");
    store.end(token(1));
    store.keep(token(2), LogStream::Worker, b"killed\n");
    store.keep(token(3), LogStream::Stdout, b"c");
    (2..=3).for_each(|number| store.end(token(number)));
    write(&fixture, 3, batch(2, 3), [1, 2, 3].map(|number| attempt_of_2(number, Some(1))).to_vec());
    assert_eq!(tail.all().await, all_of_it()[4..]);
}

/// LOG-2: whoever says what came last gets exactly the rest; what is no id of the stream is refused.
#[tokio::test]
async fn tail_goes_on_behind_the_last_event() {
    let (_store, fixture) = finished().await;
    let all = Tail::open(tail_of_2(&fixture, "?attempt=1")).await.all().await;
    assert_eq!(all, all_of_it());
    for (place, (id, ..)) in all.iter().enumerate().take(all.len() - 1) {
        let again = Tail::open(tail_of_2(&fixture, "?attempt=1&from=end").header("Last-Event-ID", id)).await;
        assert_eq!(again.all().await, all[place + 1..], "{id}");
    }
    for (id, says) in
        [("x", "ATTEMPT.STDOUT.STDERR.WORKER"), ("1.2.3", "four numbers"), ("9.0.0.0", "attempt 9")]
    {
        let answered = send(tail_of_2(&fixture, "").header("Last-Event-ID", id)).await;
        assert_eq!(answered.code(), (400, "bad_event_id"), "{id}");
        assert!(answered.body["detail"].as_str().unwrap().contains(says), "{answered:?}");
        assert_eq!(answered.body["errors"][0]["value"], id);
    }
}

/// LOG-2: a tail begins with the newest attempt or the one that is named, at its begin or its end, with one stream or all.
#[tokio::test]
async fn tail_begins_where_it_is_told_to() {
    let (_store, fixture) = finished().await;
    let all = all_of_it();
    let tailed = async |query: &str| Tail::open(tail_of_2(&fixture, query)).await.all().await;
    assert_eq!(tailed("").await, all[6..]);
    assert_eq!(tailed("?attempt=2").await, all[4..]);
    let ended = told("3.1.0.0", "end", json!({"result": "success"}));
    assert_eq!(tailed("?from=end").await, [begins("3.1.0.0", 3), ended.clone()]);
    assert_eq!(tailed("?attempt=1&from=end").await[0], begins("1.5.4.0", 1));
    assert_eq!(tailed("?attempt=9").await, [told("", "end", json!({"result": "success"}))]);
    let errors = [all[0].clone(), all[2].clone(), all[4].clone(), all[6].clone(), ended];
    assert_eq!(tailed("?attempt=1&type=stderr").await, errors);
}

/// LOG-2: an attempt of which nothing is kept, and one whose worker is lost, do not hold a tail up; it says what is missing.
#[tokio::test]
async fn tail_says_what_is_missing_and_goes_on() {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    store.keep(token(2), LogStream::Stdout, b"half\n");
    store.keep(token(3), LogStream::Stdout, b"c\n");
    store.end(token(3));
    write(&fixture, 2, batch(2, 3), [1, 2, 3].map(|number| attempt_of_2(number, Some(1))).to_vec());
    let told_of = Tail::open(tail_of_2(&fixture, "?attempt=1")).await.all().await;
    let wanted = [
        begins("1.0.0.0", 1),
        told("1.0.0.0", "gone", json!({"attempt": 1})),
        begins("2.0.0.0", 2),
        chunk("2.5.0.0", 2, "stdout", 0, "half\n"),
        told("2.5.0.0", "cut", json!({"attempt": 2})),
        begins("3.0.0.0", 3),
        chunk("3.2.0.0", 3, "stdout", 0, "c\n"),
        told("3.2.0.0", "end", json!({"result": "success"})),
    ];
    assert_eq!(told_of, wanted);
}

/// LOG-2: an attempt that has printed nothing, of which no store knows any more, does not hold a tail up, and nothing is said to be missing.
#[tokio::test]
async fn tail_passes_over_an_attempt_that_was_silent() {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    write(&fixture, 2, batch(2, 3), [SILENT, 10].map(|number| attempt_of_2(number, Some(1))).to_vec());
    store.keep(token(10), LogStream::Stdout, b"b\n");
    store.end(token(10));
    let told_of = Tail::open(tail_of_2(&fixture, "?attempt=1")).await.all().await;
    let wanted = [
        begins("9.0.0.0", SILENT),
        begins("10.0.0.0", 10),
        chunk("10.2.0.0", 10, "stdout", 0, "b\n"),
        told("10.2.0.0", "end", json!({"result": "success"})),
    ];
    assert_eq!(told_of, wanted);
}

/// LOG-2: what its worker says of an attempt that has printed nothing is missed where no store has it.
#[tokio::test]
async fn tail_misses_the_notes_of_a_silent_attempt() {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    write(&fixture, 2, batch(2, 3), vec![attempt_of_2(NOTED, Some(1))]);
    let told_of = Tail::open(tail_of_2(&fixture, "")).await.all().await;
    assert_eq!(told_of[1], told("8.0.0.0", "cut", json!({"attempt": NOTED})), "{told_of:?}");
}

/// LOG-1: a log that its store has ended without its rest is told as one.
#[tokio::test]
async fn tail_says_where_a_store_has_cut_a_log() {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    store.keep(token(1), LogStream::Stdout, b"half\n");
    store.cut(token(1));
    write(&fixture, 2, batch(2, 3), vec![attempt_of_2(1, None)]);
    let wanted = [
        begins("1.0.0.0", 1),
        chunk("1.5.0.0", 1, "stdout", 0, "half\n"),
        told("1.5.0.0", "cut", json!({"attempt": 1})),
        told("1.5.0.0", "end", json!({"result": "success"})),
    ];
    assert_eq!(Tail::open(tail_of_2(&fixture, "")).await.all().await, wanted);
}

/// LOG-2: stores that do not answer, or cannot read a log, do not hold a tail up for ever: after a while it says what is missing. An
/// attempt that printed nothing is passed over at once.
#[tokio::test]
async fn tail_ends_though_a_store_does_not_answer() {
    let with_a_dead_one = async {
        let (store, dead) = (FakeStore::start(&[PARTITION]).await, FakeStore::start(&[]).await);
        let fixture = fixture(&[&store, &dead]).await;
        drop(dead);
        let attempts = [SILENT, 10, 11].map(|number| attempt_of_2(number, Some(1)));
        write(&fixture, 2, batch(2, 3), attempts.to_vec());
        store.keep(token(11), LogStream::Stdout, b"b\n");
        store.end(token(11));
        let begun = Instant::now();
        let mut tail = Tail::open(tail_of_2(&fixture, "?attempt=1")).await;
        assert_eq!(tail.next().await.unwrap(), begins("9.0.0.0", SILENT));
        assert_eq!(tail.next().await.unwrap(), begins("10.0.0.0", 10));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let wanted = [
            told("10.0.0.0", "cut", json!({"attempt": 10})),
            begins("11.0.0.0", 11),
            chunk("11.2.0.0", 11, "stdout", 0, "b\n"),
            told("11.2.0.0", "end", json!({"result": "success"})),
        ];
        assert_eq!(tail.all().await, wanted);
    };
    let with_a_damaged_one = async {
        let store = FakeStore::start(&[PARTITION]).await;
        let fixture = fixture(&[&store]).await;
        store.keep(token(1), LogStream::Stdout, b"a\n");
        store.fails(true);
        write(&fixture, 2, batch(2, 3), vec![attempt_of_2(1, Some(1))]);
        let wanted = [
            begins("1.0.0.0", 1),
            told("1.0.0.0", "cut", json!({"attempt": 1})),
            told("1.0.0.0", "end", json!({"result": "success"})),
        ];
        assert_eq!(Tail::open(tail_of_2(&fixture, "")).await.all().await, wanted);
    };
    let both = async { tokio::join!(with_a_dead_one, with_a_damaged_one) };
    tokio::time::timeout(Duration::from_secs(60), both).await.expect("both tails end");
}

/// LOG-2: a reader of one stream is told how far it has come in the others, too, and need not read them again.
#[tokio::test]
async fn tail_of_one_stream_tells_how_far_it_has_come() {
    let store = FakeStore::start(&[PARTITION]).await;
    let fixture = fixture(&[&store]).await;
    (0..2_500).for_each(|_| store.keep(token(1), LogStream::Stdout, b"a\n"));
    store.end(token(1));
    write(&fixture, 2, batch(2, 3), vec![attempt_of_2(1, Some(1))]);
    let wanted = [
        begins("1.0.0.0", 1),
        told("1.2000.0.0", "progress", json!({})),
        told("1.4000.0.0", "progress", json!({})),
        told("1.5000.0.0", "end", json!({"result": "success"})),
    ];
    assert_eq!(Tail::open(tail_of_2(&fixture, "?type=stderr")).await.all().await, wanted);
    let again = tail_of_2(&fixture, "?type=stderr").header("Last-Event-ID", "1.4000.0.0");
    assert_eq!(Tail::open(again).await.all().await, wanted[3..]);
    let asked = store.asked();
    assert_eq!(asked.last().unwrap(), "chunks stderr=0 stdout=4000 wait_ms=5000 worker=0");
}

/// LOG-1: a tail goes on with the store that took the partition, and waits for one that does not answer.
#[tokio::test]
async fn tail_outlives_the_store() {
    let (first, second) = (FakeStore::start(&[PARTITION]).await, FakeStore::start(&[]).await);
    let fixture = fixture(&[&first, &second]).await;
    write(&fixture, 2, batch(2, 2), vec![attempt_of_2(1, None)]);
    first.keep(token(1), LogStream::Stdout, b"a\n");
    let mut tail = Tail::open(tail_of_2(&fixture, "")).await;
    assert_eq!(tail.next().await.unwrap(), begins("1.0.0.0", 1));
    assert_eq!(tail.next().await.unwrap(), chunk("1.2.0.0", 1, "stdout", 0, "a\n"));
    // The first one still waits for more when the second takes over.
    second.keep(token(1), LogStream::Stdout, b"a\nb\n");
    first.has(&[]);
    second.has(&[PARTITION]);
    assert_eq!(tail.next().await.unwrap(), chunk("1.4.0.0", 1, "stdout", 2, "b\n"));
    drop(first);
    second.fails(true);
    second.keep(token(1), LogStream::Stdout, b"c\n");
    // Whatever was on its way then, this comes once it answers again.
    tokio::time::sleep(Duration::from_millis(20)).await;
    second.fails(false);
    assert_eq!(tail.next().await.unwrap(), chunk("1.6.0.0", 1, "stdout", 4, "c\n"));
}

/// API-5: a tail ends once its key may not read the batch any more; OPS-6: and when the program stops.
#[tokio::test]
async fn tail_ends_with_its_key_and_with_the_program() {
    let store = FakeStore::start(&[PARTITION]).await;
    let mut fixture = fixture(&[&store]).await;
    write(&fixture, 2, batch(2, 2), vec![attempt_of_2(1, None)]);
    store.keep(token(1), LogStream::Stdout, b"a\n");
    let path = log_of(&batch(2, 2), "/tail");
    let mut of_user = Tail::open(fixture.request(Method::GET, &path, "demo-user")).await;
    let mut of_root = Tail::open(fixture.get(&path)).await;
    assert!(of_user.next().await.is_some() && of_user.next().await.is_some());
    assert!(of_root.next().await.is_some() && of_root.next().await.is_some());
    Writer::new(&*fixture.tables).rows(vec![key("demo-user", "user", &["other"])]).commit(OFFSET + 3);
    assert_eq!(of_user.next().await, None);
    fixture.stop.take().unwrap().send(()).unwrap();
    assert_eq!(of_root.next().await, None);
    fixture.serving.await.unwrap().unwrap();
}
