use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use tidemill_model::{JobSpec, Rejection};

use super::*;
use crate::args::Global;
use crate::session::{Host, Settings};

struct NoHost;

impl Host for NoHost {
    fn settings(&self, _: &Global) -> Done<Settings> {
        Ok(Settings::default())
    }
    fn worker_key(&self, _: &Path, _: &str) -> Done<String> {
        Ok(String::new())
    }
    fn check_jobs(&self, _: &[JobSpec]) -> Result<Vec<String>, Rejection> {
        Ok(Vec::new())
    }
}

/// Runs the command against a server that gives these answers, and gives what it was asked.
fn asked(args: LogsArgs, answers: Vec<Vec<u8>>) -> (Done<Exit>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let serving = std::thread::spawn(move || {
        let answer = |answer: Vec<u8>| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
            let first = lines.next().unwrap();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            stream.write_all(&answer).unwrap();
            first
        };
        answers.into_iter().map(answer).collect::<Vec<_>>()
    });
    let (config, data, ca_file, context) = (None, None, None, None);
    let key = Some("a:b".to_owned());
    let (watch, as_user, quiet, output) = (None, None, false, OutputFormat::Table);
    let global = Global { config, data, server, key, context, ca_file, output, watch, as_user, quiet };
    let done = logs(&Session::new(&NoHost, &global).unwrap(), &args);
    (done, serving.join().unwrap())
}

fn args() -> LogsArgs {
    LogsArgs {
        batch: 7,
        follow: false,
        stderr: false,
        worker: false,
        all: false,
        attempt: None,
        last: None,
        line: None,
        search: None,
        ignore_case: false,
        summary: false,
        download: None,
        bytes: None,
        resume: false,
    }
}

fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// LOG-3: a file gets what the server has, byte for byte; of a log that broke off it is said.
#[test]
fn download_is_byte_for_byte_and_says_where_it_breaks_off() {
    let directory = tempfile::tempdir().unwrap();
    let file: PathBuf = directory.path().join("log");
    let into = || LogsArgs { download: Some(file.clone()), worker: true, attempt: Some(2), ..args() };
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let (done, heads) = asked(into(), vec![answer("200 OK", &bytes)]);
    assert_eq!(done.unwrap(), Exit::Success);
    assert_eq!(heads, ["GET /api/batches/7/log/download?type=3&attempt=2 HTTP/1.1"]);
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    let mut cut = answer("200 OK", &bytes);
    cut.truncate(100_000);
    let failure = asked(into(), vec![cut]).0.unwrap_err();
    assert!(failure.message.contains("the log broke off"), "{failure}");
}

/// LOG-3, API-6: a download that broke off goes on behind what the file has; a file that has all is told so, one that has more is
/// an error, and stays as it is.
#[test]
fn download_goes_on_behind_what_the_file_has() {
    let directory = tempfile::tempdir().unwrap();
    let file: PathBuf = directory.path().join("log");
    std::fs::write(&file, "abc").unwrap();
    let resume = || LogsArgs { download: Some(file.clone()), resume: true, ..args() };
    let (done, _) = asked(resume(), vec![answer("206 Partial Content", b"def")]);
    assert_eq!(done.unwrap(), Exit::Success);
    let beyond =
        || answer("416 Range Not Satisfiable", br#"{"status":416,"code":"no_such_range","errors":[]}"#);
    let long = |bytes: u64| answer("200 OK", format!(r#"{{"stdout":{{"bytes":{bytes}}}}}"#).as_bytes());
    assert_eq!(asked(resume(), vec![beyond(), long(6)]).0.unwrap(), Exit::Success);
    let (done, heads) = asked(resume(), vec![beyond(), long(5)]);
    let failure = done.unwrap_err();
    assert!(failure.message.contains("byte 6: the log has 5 bytes"), "{failure}");
    assert_eq!(heads[1], "GET /api/batches/7/log/summary HTTP/1.1");
    assert_eq!(std::fs::read(&file).unwrap(), b"abcdef");
}

/// LOG-2: a server without a store of logs is asked for lines instead, to the end of the attempt.
#[test]
fn without_a_store_lines_are_followed() {
    let refusal = br#"{"status":503,"code":"no_log_store","detail":"none","errors":[]}"#;
    let part = |offset: u64, is_end: bool| {
        let body = format!(r#"{{"content":"","offset":{offset},"is_end":{is_end}}}"#);
        answer("200 OK", body.as_bytes())
    };
    let refused = answer("503 Service Unavailable", refusal);
    let follow = LogsArgs { follow: true, stderr: true, ..args() };
    let (done, heads) = asked(follow, vec![refused, part(5, false), part(5, true)]);
    assert_eq!(done.unwrap(), Exit::Success);
    assert_eq!(heads[0], "GET /api/batches/7/log/tail?type=2 HTTP/1.1");
    assert_eq!(heads[2], "GET /api/batches/7/log?type=2&lines=1000&offset=5 HTTP/1.1");
}

/// LOG-2: all streams are shown up to the end that they had, though the batch goes on.
#[test]
fn all_streams_end_where_they_ended_when_asked() {
    let part = |offset: u64| {
        let body =
            format!(r#"{{"attempt":1,"content":"","begin":0,"line":1,"offset":{offset},"is_end":false}}"#);
        answer("200 OK", body.as_bytes())
    };
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
        id: 1.0.0.0\nevent: attempt\ndata: {\"attempt\":1,\"token\":4097}\n\n\
        id: 1.2.0.0\nevent: chunk\ndata: {\"attempt\":1,\"stream\":\"stdout\",\"offset\":0,\"at\":\"1970-01-01T00:00:00.000Z\",\"content\":\"a\\n\"}\n\n\
        id: 1.2.0.3\nevent: chunk\ndata: {\"attempt\":1,\"stream\":\"worker\",\"offset\":0,\"at\":\"1970-01-01T00:00:00.000Z\",\"content\":\"bc\\n\"}\n\n";
    let answers = vec![part(2), part(0), part(3), events.as_bytes().to_vec()];
    let (done, heads) = asked(LogsArgs { all: true, ..args() }, answers);
    assert_eq!(done.unwrap(), Exit::Success);
    assert_eq!(heads[0], "GET /api/batches/7/log?type=1&last=1 HTTP/1.1");
    // All are of the attempt that was the newest at first.
    assert_eq!(heads[2], "GET /api/batches/7/log?attempt=1&type=3&last=1 HTTP/1.1");
    assert_eq!(heads[3], "GET /api/batches/7/log/tail?attempt=1 HTTP/1.1");
}

/// A part of a log that grows.
fn grows(content: &str, offset: u64) -> Vec<u8> {
    let part = serde_json::json!({"attempt": 2, "content": content, "offset": offset, "is_end": false});
    answer("200 OK", part.to_string().as_bytes())
}

/// LOG-2: lines are shown up to the end that they had, of one attempt, though its job goes on printing.
#[test]
fn lines_end_where_they_ended_when_asked() {
    let summary = br#"{"stdout":{"bytes":4,"lines":2},"stderr":{"bytes":9,"lines":1},"is_end":false}"#;
    let answers = vec![grows("a\n", 2), answer("200 OK", summary), grows("b\n", 4)];
    let (done, heads) = asked(args(), answers);
    assert_eq!(done.unwrap(), Exit::Success);
    let wanted = [
        "GET /api/batches/7/log?type=1&lines=1000&offset=0 HTTP/1.1",
        "GET /api/batches/7/log/summary?attempt=2 HTTP/1.1",
        "GET /api/batches/7/log?attempt=2&type=1&lines=1000&offset=2 HTTP/1.1",
    ];
    assert_eq!(heads, wanted);
}

/// LOG-2: where nobody knows the end, lines are shown until two parts had room for more.
#[test]
fn lines_end_where_no_store_knows_their_end() {
    let refused = answer("503 Service Unavailable", br#"{"status":503,"code":"no_log_store","errors":[]}"#);
    let (done, heads) = asked(args(), vec![grows("a\n", 2), refused, grows("b\n", 4)]);
    assert_eq!((done.unwrap(), heads.len()), (Exit::Success, 3));
    let (mut present, long) = (Present::default(), "a".repeat(SHORT_PAGE));
    let pages = ["a\n", &long, "a\n", &"a\n".repeat(LOG_LINES), "a\n", "b\n"];
    let reached = pages.map(|content| present.is_reached(content, 2, || None));
    assert_eq!(reached, [false, false, false, false, false, true]);
}

/// LOG-2: the last lines are as many as were asked for, though the job goes on printing.
#[test]
fn last_lines_are_as_many_as_were_asked_for() {
    let last = LogsArgs { last: Some(5), ..args() };
    let answers = vec![grows("a\na\na\n", 6), grows("a\na\n", 10)];
    let (done, heads) = asked(last, answers);
    assert_eq!(done.unwrap(), Exit::Success);
    let wanted = [
        "GET /api/batches/7/log?type=1&lines=5&last=5 HTTP/1.1",
        "GET /api/batches/7/log?attempt=2&type=1&lines=2&offset=6 HTTP/1.1",
    ];
    assert_eq!(heads, wanted);
}

/// LOG-2: each line stands behind its stream, also where a line comes in pieces or another stream comes between.
#[test]
fn lines_stand_behind_the_name_of_their_stream() {
    let mut shown = Shown { format: OutputFormat::Table, by_name: true, has_begun: false, open: None };
    let (stdout, stderr) = (LogStream::Stdout, LogStream::Stderr);
    let mut text = String::new();
    for (stream, content) in
        [(stdout, "a\nb"), (stdout, "c\n"), (stderr, "x"), (stdout, "d\n"), (stderr, "y\n"), (stdout, "")]
    {
        text += &shown.named(stream, content);
    }
    assert_eq!(text, "stdout: a\nstdout: bc\nstderr: x\nstdout: d\nstderr: y\n");
}
