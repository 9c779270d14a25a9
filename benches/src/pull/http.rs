//! A client of HTTP/1.1 that costs little beside the server: one connection, one request at a time.

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CHUNK: usize = 4_096;
const LENGTH: &[u8] = b"content-length: ";

/// A connection that stays.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Between the request line and the length of the body.
    headers: String,
    answer: Vec<u8>,
    request: Vec<u8>,
}

impl Connection {
    /// To `host:port`, with an application's key.
    pub(crate) async fn open(address: &str, key: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        let headers = format!(
            " HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             content-length: "
        );
        Ok(Self { stream, headers, answer: Vec::with_capacity(CHUNK), request: Vec::with_capacity(CHUNK) })
    }

    /// Sends a body; status and body of the answer.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<(u16, &[u8])> {
        self.request.clear();
        for part in ["POST ", path, &self.headers, &body.len().to_string(), "\r\n\r\n", body] {
            self.request.extend_from_slice(part.as_bytes());
        }
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        let (head, length) = loop {
            if let Some(end) = memchr::memmem::find(&self.answer, b"\r\n\r\n") {
                break (end + 4, length(&self.answer[..end])?);
            }
            self.read().await?;
        };
        while self.answer.len() < head + length {
            self.read().await?;
        }
        let status = std::str::from_utf8(self.answer.get(9..12).unwrap_or_default())?.parse()?;
        Ok((status, &self.answer[head..head + length]))
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        self.answer.reserve(CHUNK);
        if self.stream.read_buf(&mut self.answer).await? == 0 {
            bail!("the server has closed the connection");
        }
        Ok(())
    }
}

fn length(head: &[u8]) -> anyhow::Result<usize> {
    let at = memchr::memmem::find(head, LENGTH).context("an answer without a length")? + LENGTH.len();
    let end = memchr::memchr(b'\r', &head[at..]).map_or(head.len(), |end| at + end);
    Ok(std::str::from_utf8(&head[at..end])?.trim().parse()?)
}

/// Answers every request on a connection with the same: what HTTP costs here at least.
pub(crate) async fn echo(mut stream: TcpStream, answer: &[u8]) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = Vec::with_capacity(CHUNK);
    loop {
        request.reserve(CHUNK);
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        let Some(end) = memchr::memmem::find(&request, b"\r\n\r\n") else { continue };
        if request.len() >= end + 4 + length(&request[..end])? {
            request.clear();
            stream.write_all(answer).await?;
        }
    }
}
