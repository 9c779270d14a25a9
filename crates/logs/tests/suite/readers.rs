//! What readers may ask, and what they are refused.

use std::time::Duration;

use tidemill_logs::Running;
use tidemill_model::{LogChunks, LogMatches, LogStream, Timestamp, Token};
use tidemill_seal::{LogsSecret, Ticket};

use crate::kit::{GROUP, INTERNAL_KEY, LOGS_KEY, config, get, get_with, log, start, ticket, token, until};
use crate::worker::FakeWorker;

fn kept(worker: &FakeWorker, place: &std::path::Path) -> Running {
    let store = start(&log(), "logs-1", config(place.to_str().unwrap()), vec![worker.place()]);
    worker.print(token(1), LogStream::Stdout, b"one\ntwo\nthree\n");
    worker.print(token(1), LogStream::Stderr, b"bad\n");
    worker.print(token(2), LogStream::Stdout, b"of another job\n");
    worker.end(token(1));
    worker.end(token(2));
    until("both are kept", || worker.is_done(token(1)) && worker.is_done(token(2)));
    store
}

/// LOG-2, API-5: nothing is read without a ticket for that very log; one that is forged, over, of another attempt or of another
/// group opens nothing, and none says whether there is anything.
#[test]
fn nothing_is_read_without_a_ticket_for_it() {
    let (place, worker) = (tempfile::tempdir().unwrap(), FakeWorker::start());
    let store = kept(&worker, place.path());
    let now = Timestamp::from(jiff::Timestamp::now());
    let write = |key: &str, token: Token, group: &str, until: Timestamp| {
        LogsSecret::of(key).write(&Ticket { token, group: group.try_into().unwrap(), until })
    };
    let later = now.saturating_add(Duration::from_secs(60)).unwrap();
    let before = now.saturating_sub(Duration::from_secs(1)).unwrap();
    let good = ticket(token(1));
    let tickets = [
        (good.clone(), 200),
        (String::new(), 401),
        (LOGS_KEY.to_owned(), 401),
        (ticket(token(2)), 401),
        (write("another internal key", token(1), GROUP, later), 401),
        // A worker has this one.
        (write(LOGS_KEY, token(1), GROUP, later), 401),
        (INTERNAL_KEY.to_owned(), 401),
        (write(INTERNAL_KEY, token(1), GROUP, before), 401),
        (write(INTERNAL_KEY, token(1), "another", later), 404),
        (good.replace(GROUP, "another"), 401),
    ];
    for (ticket, status) in &tickets {
        for path in ["", "/lines", "/bytes", "/search?text=o", "/chunks"] {
            let answer = get_with(&store, &format!("/kept/{}{path}", token(1)), ticket, None);
            assert_eq!(answer.status(), *status, "{ticket} {path}");
            if *status != 200 {
                let text = answer.text().unwrap();
                assert!(!text.contains("two") && !text.contains("another job"), "{text}");
            }
        }
    }
    assert_eq!(get_with(&store, "/parts", &good, None).status(), 401);
    // A path that leads elsewhere is no token.
    for path in ["/kept/..%2f..%2fetc%2fpasswd", "/kept/0", "/kept/-1", "/kept/../kept/x"] {
        let status = get_with(&store, path, &good, None).status();
        assert!(status.is_client_error(), "{path}: {status}");
    }
    store.stop().unwrap();
}

/// LOG-3: parts of a log by their bytes; beyond its end there is nothing, and the length is told.
#[test]
fn ranges_of_bytes_are_given() {
    let (place, worker) = (tempfile::tempdir().unwrap(), FakeWorker::start());
    let store = kept(&worker, place.path());
    let path = format!("/kept/{}/bytes", token(1));
    let ask = |range: Option<&str>| get_with(&store, &path, &ticket(token(1)), range);
    let header = |answer: &reqwest::blocking::Response, name: &str| {
        answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    for (range, status, of, text) in [
        (None, 200, None, "one\ntwo\nthree\n"),
        (Some("bytes=4-6"), 206, Some("bytes 4-6/14"), "two"),
        (Some("bytes=8-"), 206, Some("bytes 8-13/14"), "three\n"),
        (Some("bytes=-6"), 206, Some("bytes 8-13/14"), "three\n"),
        (Some("bytes=0-999"), 206, Some("bytes 0-13/14"), "one\ntwo\nthree\n"),
        (Some("bytes=0-1,4-5"), 200, None, "one\ntwo\nthree\n"),
    ] {
        let answer = ask(range);
        assert_eq!(answer.status(), status, "{range:?}");
        assert_eq!(header(&answer, "content-range").as_deref(), of, "{range:?}");
        assert_eq!(header(&answer, "content-length"), Some(text.len().to_string()));
        assert_eq!(answer.text().unwrap(), text);
    }
    for range in ["bytes=14-", "bytes=99999999999999999999-", "bytes=-0"] {
        let answer = ask(Some(range));
        assert_eq!(answer.status(), 416, "{range}");
        assert_eq!(header(&answer, "content-range").as_deref(), Some("bytes */14"));
    }
    store.stop().unwrap();
}

/// LOG-2: what is asked wrongly is named with its rule.
#[test]
fn wrong_parameters_are_named() {
    let (place, worker) = (tempfile::tempdir().unwrap(), FakeWorker::start());
    let store = kept(&worker, place.path());
    for (path, name) in [
        ("/lines?type=4", "type"),
        ("/lines?line=0", "line"),
        ("/lines?line=1&offset=1", "offset"),
        ("/bytes?type=0", "type"),
        ("/search?text=", "text"),
        (&format!("/search?text={}", "x".repeat(1_001)), "text"),
    ] {
        let answer = get(&store, token(1), path);
        assert_eq!(answer.status(), 400, "{path}");
        let problem: serde_json::Value = answer.json().unwrap();
        assert!(problem["detail"].as_str().unwrap().starts_with(&format!("{name} is ")), "{problem}");
    }
    let found: LogMatches = get(&store, token(1), "/search?text=TW&ignore_case=true").json().unwrap();
    assert_eq!((found.matches[0].line, found.matches[0].text.as_str()), (2, "two"));
    let chunks: LogChunks = get(&store, token(1), "/chunks").json().unwrap();
    assert!(chunks.is_end && chunks.chunks.len() == 2);
    store.stop().unwrap();
}

/// LOG-2: who follows a log has what is printed when it comes, and not at the end of the wait. Row *logs* of the benchmarks says how soon.
#[test]
fn follower_hears_before_its_wait_is_over() {
    let (place, worker) = (tempfile::tempdir().unwrap(), FakeWorker::start());
    let store = start(&log(), "logs-1", config(place.path().to_str().unwrap()), vec![worker.place()]);
    worker.print(token(1), LogStream::Stdout, b"first\n");
    until("it is there", || get(&store, token(1), "").status() == 200);
    let asked = std::time::Instant::now();
    let printer = worker.clone();
    let prints = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        printer.print(token(1), LogStream::Stdout, b"second\n");
    });
    let chunks: LogChunks = get(&store, token(1), "/chunks?stdout=6&wait_ms=10000").json().unwrap();
    // The answer came by the word of the worker, and not at the end of the wait.
    assert_eq!(chunks.chunks[0].content, "second\n");
    assert!(asked.elapsed() < Duration::from_secs(9), "{:?}", asked.elapsed());
    prints.join().unwrap();
    store.stop().unwrap();
}
