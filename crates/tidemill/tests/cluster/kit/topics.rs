//! Deletes topics at the broker, in its own words: DeleteTopics, version 1.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const DELETE_TOPICS: i16 = 20;
const VERSION: i16 = 1;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends the request and waits for the answer; whether each topic was there does not matter.
pub(crate) fn delete(broker: &str, names: &[String]) -> std::io::Result<()> {
    let mut body = Vec::new();
    body.extend(DELETE_TOPICS.to_be_bytes());
    body.extend(VERSION.to_be_bytes());
    body.extend(1_i32.to_be_bytes());
    put_text(&mut body, "tidemill-test");
    body.extend((names.len() as i32).to_be_bytes());
    for name in names {
        put_text(&mut body, name);
    }
    body.extend((TIMEOUT.as_millis() as i32).to_be_bytes());
    let mut stream = TcpStream::connect(broker)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&(body.len() as i32).to_be_bytes())?;
    stream.write_all(&body)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer)
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    body.extend((text.len() as i16).to_be_bytes());
    body.extend(text.as_bytes());
}
