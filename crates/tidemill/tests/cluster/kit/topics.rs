//! Deletes topics, or records of them, at the broker, in its own words.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A request that the broker knows: its number and the version spoken here.
struct Request(i16, i16);

const DELETE_TOPICS: Request = Request(20, 1);
const DELETE_RECORDS: Request = Request(21, 1);
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends the request and waits for the answer; whether each topic was there does not matter.
pub(crate) fn delete(broker: &str, names: &[String]) -> std::io::Result<()> {
    let mut body = Vec::new();
    put_count(&mut body, names.len());
    for name in names {
        put_text(&mut body, name);
    }
    put_timeout(&mut body);
    ask(broker, DELETE_TOPICS, &body).map(drop)
}

/// Deletes every record of a partition.
pub(crate) fn delete_records(broker: &str, name: &str, partition: u32) -> std::io::Result<()> {
    const UP_TO_THE_END: i64 = -1;
    let mut body = Vec::new();
    put_count(&mut body, 1);
    put_text(&mut body, name);
    put_count(&mut body, 1);
    body.extend((partition as i32).to_be_bytes());
    body.extend(UP_TO_THE_END.to_be_bytes());
    put_timeout(&mut body);
    let answer = ask(broker, DELETE_RECORDS, &body)?;
    // It ends with the partition's error code.
    let code = answer.last_chunk::<2>().copied().map(i16::from_be_bytes);
    if code == Some(0) { Ok(()) } else { Err(std::io::Error::other(format!("{code:?}: {answer:?}"))) }
}

fn ask(broker: &str, request: Request, body: &[u8]) -> std::io::Result<Vec<u8>> {
    let Request(number, version) = request;
    let mut message = Vec::new();
    message.extend(number.to_be_bytes());
    message.extend(version.to_be_bytes());
    message.extend(1_i32.to_be_bytes());
    put_text(&mut message, "tidemill-test");
    message.extend(body);
    let mut stream = TcpStream::connect(broker)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&(message.len() as i32).to_be_bytes())?;
    stream.write_all(&message)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn put_count(body: &mut Vec<u8>, count: usize) {
    body.extend((count as i32).to_be_bytes());
}

fn put_timeout(body: &mut Vec<u8>) {
    body.extend((TIMEOUT.as_millis() as i32).to_be_bytes());
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    body.extend((text.len() as i16).to_be_bytes());
    body.extend(text.as_bytes());
}
