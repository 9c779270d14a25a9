//! LOG-4: a directory, a bucket and HDFS keep the same, and one that stops loses nothing.

use std::time::Duration;

use tidemill_logs::{Config, Running};
use tidemill_model::{KeptLog, LogLines, LogStream};

use crate::kit::{Private, config, download, get, log, output, start, token, until};
use crate::worker::FakeWorker;

/// The server that `TIDEMILL_TEST_S3` names.
fn bucket() -> Config {
    let server = std::env::var("TIDEMILL_TEST_S3").expect(
        "TIDEMILL_TEST_S3 names a server and a bucket: run `deploy/dev/services start s3`, \
         then `eval \"$(deploy/dev/services env)\"`",
    );
    let (endpoint, bucket) = server.rsplit_once('/').unwrap();
    bucket_at(endpoint, bucket)
}

fn bucket_at(endpoint: &str, bucket: &str) -> Config {
    let mut config = config(&format!("s3://{bucket}/logs-{}", unique()));
    config.s3.endpoint = Some(endpoint.to_owned());
    let key = Some("S3RVER".to_owned());
    (config.s3.access_key_id, config.s3.secret_access_key) = (key.clone(), key);
    config
}

/// The HDFS that `TIDEMILL_TEST_HDFS` names.
fn hdfs() -> Config {
    let url = std::env::var("TIDEMILL_TEST_HDFS").expect(
        "TIDEMILL_TEST_HDFS names no HDFS: run `deploy/dev/services start hdfs`, \
         then `eval \"$(deploy/dev/services env)\"`",
    );
    config(&format!("{url}/tidemill-logs-tests/{}", unique()))
}

fn unique() -> u32 {
    getrandom::u32().unwrap()
}

/// LOG-1 … LOG-4 in one place: logs that grow, end, are read by another life of the store, and are too old.
fn place_keeps_logs(config: &Config) {
    let (log, worker) = (log(), FakeWorker::start());
    let store = start(&log, "logs-1", config.clone(), vec![worker.place()]);
    let (one, two) = (token(1), token(2));
    worker.print(one, LogStream::Stdout, b"begins\n");
    until("a line is read while the attempt runs", || lines(&store, 1).is_some_and(|part| !part.is_end));
    let whole = output(1, 60_000);
    for part in whole.chunks(whole.len() / 7 + 1) {
        worker.print(one, LogStream::Stdout, part);
        std::thread::sleep(Duration::from_millis(200));
    }
    worker.print(one, LogStream::Stderr, b"\xff\xfe no text\nERROR: broken\n");
    worker.print(two, LogStream::Stdout, &output(2, 3));
    worker.end(one);
    worker.end(two);
    until("the worker is told", || worker.is_done(one) && worker.is_done(two));
    let expected = [b"begins\n".to_vec(), whole].concat();
    assert!(download(&store, one, 1) == expected);
    store.stop().unwrap();
    let store = start(&log, "logs-2", config.clone(), vec![worker.place()]);
    assert!(download(&store, one, 1) == expected);
    assert_eq!(download(&store, one, 2), b"\xff\xfe no text\nERROR: broken\n");
    assert_eq!(download(&store, two, 1), output(2, 3));
    let summary: KeptLog = get(&store, one, "").json().unwrap();
    assert!(summary.is_end && !summary.is_cut);
    assert_eq!((summary.stdout.lines, summary.first_error.unwrap().line), (60_001, 2));
    assert_eq!(get(&store, token(3), "").status(), 404);
    store.stop().unwrap();
}

fn lines(store: &Running, counter: u64) -> Option<LogLines> {
    let answer = get(store, token(counter), "/lines?type=1");
    if answer.status() == 404 {
        return None;
    }
    Some(answer.json().unwrap())
}

/// LOG-4
#[test]
fn directory_keeps_logs() {
    let directory = tempfile::tempdir().unwrap();
    place_keeps_logs(&config(directory.path().join("not/yet/there").to_str().unwrap()));
}

/// LOG-4
#[test]
fn bucket_keeps_logs() {
    place_keeps_logs(&bucket());
}

/// LOG-4
#[test]
fn hdfs_keeps_logs() {
    place_keeps_logs(&hdfs());
}

/// LOG-1, LOG-4: while the place is stopped for a minute, what fits is in memory, workers keep the rest, and readers follow what is
/// in memory; then all of it is there.
fn stopped_place_loses_nothing(mut config: Config, service: &Private) {
    const ATTEMPTS: u64 = 24;
    const MEMORY: usize = 16 << 20;
    config.call_timeout_s = 5;
    let (log, worker) = (log(), FakeWorker::start());
    let store = start(&log, "logs-1", config.clone(), vec![worker.place()]);
    let outputs: Vec<_> = (0..ATTEMPTS).map(|seed| output(seed, 14_000)).collect();
    let print = |number: usize, of: usize| {
        for (counter, output) in (1..).zip(&outputs) {
            let length = output.len();
            worker.print(
                token(counter),
                LogStream::Stdout,
                &output[length * number / of..length * (number + 1) / of],
            );
        }
    };
    print(0, 60);
    until("the first logs are kept", || lines(&store, ATTEMPTS).is_some());
    std::thread::sleep(Duration::from_secs(2));
    let before = worker.spools().sent;
    service.signal("-STOP");
    for second in 1..60 {
        print(second, 60);
        std::thread::sleep(Duration::from_secs(1));
        if second == 3 {
            until("what has come meanwhile is read", || {
                let part: LogLines = get(&store, token(1), "/lines?type=1&last=1&lines=1").json().unwrap();
                part.line > 14_000 / 60 + 1
            });
        }
    }
    let all: usize = outputs.iter().map(Vec::len).sum();
    let sent = worker.spools().sent;
    assert!(all > 2 * MEMORY && sent - before <= MEMORY + (8 << 20), "{sent} of {all}: memory is bounded");
    assert!(!worker.is_done(token(1)));
    service.signal("-CONT");
    (1..=ATTEMPTS).for_each(|counter| worker.end(token(counter)));
    until("all logs are kept", || (1..=ATTEMPTS).all(|counter| worker.is_done(token(counter))));
    store.stop().unwrap();
    let store = start(&log, "logs-2", config, vec![]);
    for (counter, output) in (1..).zip(&outputs) {
        assert!(download(&store, token(counter), 1) == *output, "attempt {counter}");
    }
    store.stop().unwrap();
}

/// LOG-1, LOG-4
#[test]
fn bucket_that_stops_for_a_minute_loses_nothing() {
    let service = Private::s3();
    let port = service.port();
    stopped_place_loses_nothing(bucket_at(&format!("http://127.0.0.1:{port}"), "tidemill"), &service);
}

/// LOG-1, LOG-4
#[test]
fn hdfs_that_stops_for_a_minute_loses_nothing() {
    let service = Private::hdfs();
    let port = service.port();
    stopped_place_loses_nothing(config(&format!("hdfs://127.0.0.1:{port}/logs")), &service);
}
