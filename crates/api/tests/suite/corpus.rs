//! Requests as anybody may send them: each is answered, and never by a failure of the program.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use tidemill_api::{Config, JournalPosition};
use tidemill_corpus::corpus;
use tidemill_model::{
    Answer, BatchCommand, BatchId, CatalogueCommand, Command, CommandRecord, GroupId, JobCommand, JobId,
    LiveAnswer, Outcome, ShardId,
};

use crate::fixture::Fixture;
use crate::rows::SECRET;
use crate::wire::{PATIENCE, impatient, is_fine, speak, statuses, with_secret};

/// What an owner would say to such a command.
fn answer(record: &CommandRecord) -> Option<Outcome> {
    let job = JobId(4096);
    Some(Outcome::Answered(match &record.command {
        Command::Catalogue(CatalogueCommand::DefineGroup { .. }) => {
            Answer::Group { group: GroupId(1), shard: ShardId(1) }
        }
        Command::Job(JobCommand::Apply { .. }) => {
            Answer::Applied { changes: Vec::new(), warnings: Vec::new() }
        }
        Command::Batch(BatchCommand::SubmitJob(_)) => Answer::Submitted { job, batch: Some(BatchId(4097)) },
        Command::Job(JobCommand::Define { .. }) => Answer::Submitted { job, batch: None },
        Command::Batch(BatchCommand::RunJob { .. } | BatchCommand::Rerun { .. }) => {
            Answer::Generated { batch: BatchId(4097), disabled: false }
        }
        _ => return Some(Outcome::Done),
    }))
}

/// A method and a path on the first line, then a body. `SECRET` stands for the key.
fn parts(input: &[u8]) -> (String, Vec<u8>) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let line = String::from_utf8_lossy(&input[..end]).replace("SECRET", SECRET);
    let body = input.get(end + 1..).unwrap_or_default();
    let body = String::from_utf8(body.to_vec()).map(|text| text.replace("SECRET", SECRET).into_bytes());
    (line, body.unwrap_or_else(|bytes| bytes.into_bytes()))
}

/// Status of the answer, and how it begins; absent where the line is no request, so that the connection ends.
fn ask(address: SocketAddr, input: &[u8]) -> Option<(u16, String)> {
    let (line, body) = parts(input);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root:{SECRET}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // The server may answer before it has read everything, and close.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
    let mut begin = Vec::new();
    let mut chunk = [0; 2_048];
    while begin.len() < 400 {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => begin.extend(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("no answer: {error}"),
        }
        // A stream of events does not end.
        if begin.windows(17).any(|window| window == b"text/event-stream") {
            break;
        }
    }
    let begin = String::from_utf8_lossy(&begin).into_owned();
    let status = begin.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, begin))
}

/// A6: bodies, queries, cursors and paths of every call.
#[test]
fn every_request_is_answered() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = Config { at_least_timeout_ms: 20, peer_timeout_ms: 50, ..Config::default() };
    let fixture =
        runtime.block_on(Fixture::with(config, Box::new(answer), Box::new(|_, _| Ok(LiveAnswer::NotFound))));
    for kind in ["batch.finished", "job.defined"] {
        fixture.publish(1, kind, "batch/4097");
    }
    let requests = corpus!("request");
    for input in requests.inputs() {
        assert!(ask(fixture.address, input).is_some(), "{}", String::from_utf8_lossy(input));
    }
    requests.fuzz(1_000, |input| {
        let Some((status, begin)) = ask(fixture.address, input) else { return };
        // 502 and 503: the worker whose log is asked for is not there. 504: the tables are not that far.
        let fine = (200..500).contains(&status) || [502, 503, 504].contains(&status);
        assert!(fine, "{}\n{begin}", String::from_utf8_lossy(input));
    });
}

/// API-5, OPS-7: any bytes on a connection are answered or it is closed, in bounded time, and never by a failure of the
/// program; what is refused, for its key or anything else, has reached no owner.
#[test]
fn any_bytes_are_answered_or_the_connection_is_closed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config =
        Config { at_least_timeout_ms: 20, peer_timeout_ms: 50, read_timeout_ms: 100, ..Config::default() };
    let limits = impatient(tidemill_serving::Config::default().for_everybody());
    let answers = Box::new(|_, _| Ok(LiveAnswer::NotFound));
    let fixture = runtime.block_on(Fixture::within(config, limits, Box::new(answer), answers));
    fixture.publish(1, "batch.finished", "batch/4097");
    let raw = corpus!("http");
    for input in raw.inputs() {
        let said = with_secret(input, SECRET);
        assert!(!statuses(&speak(fixture.address, &said)).is_empty(), "{}", String::from_utf8_lossy(input));
    }
    raw.fuzz(400, |input| {
        let before = fixture.owner.count();
        let heard = speak(fixture.address, &with_secret(input, SECRET));
        let statuses = statuses(&heard);
        assert!(
            is_fine(&statuses),
            "{}\n{}",
            String::from_utf8_lossy(input),
            String::from_utf8_lossy(&heard)
        );
        let refused = !statuses.is_empty() && statuses.iter().all(|status| (400..500).contains(status));
        assert!(!refused || fixture.owner.count() == before, "{}", String::from_utf8_lossy(input));
    });
}

/// A position is refused or survives its text.
#[test]
fn positions_are_refused_or_kept() {
    corpus!("position").fuzz(500, |input| {
        let Ok(position) = String::from_utf8_lossy(input).parse::<JournalPosition>() else { return };
        assert_eq!(position.to_string().parse(), Ok(position));
    });
}
