//! The public feed of events as a stream that is resumed where it broke.

use std::fmt;
use std::thread;
use std::time::Duration;

use tidemill_model::Timestamp;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::sse::{Message, Messages};

/// Before a broken connection is made again.
const PAUSE: Duration = Duration::from_secs(1);

/// Where to begin in the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// With the first event on record.
    Start,
    /// With the next one.
    End,
    /// In each partition, with its first event of this time or later.
    Time(Timestamp),
    /// After the event with this cursor, [`Message::id`].
    After(String),
}

/// Which events to read.
#[derive(Debug, Clone)]
#[must_use = "events are read by `follow`"]
pub struct Feed<'a> {
    client: &'a Client,
    begin: Begin,
    kind: Option<String>,
    subject: Option<String>,
    limit: Option<u64>,
}

impl<'a> Feed<'a> {
    pub(crate) fn new(client: &'a Client, begin: Begin) -> Self {
        Self { client, begin, kind: None, subject: None, limit: None }
    }

    /// Only types that begin so, as `batch` or `batch.finished`; `docs/reference/events.md` has all.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Only subjects that begin so, as `batch/4097`.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Ends after so many.
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The events, one after the other, without an end where there is no limit.
    ///
    /// A connection that breaks is made again after the last event seen, as often as it takes. While nothing was seen and no
    /// cursor was given, a server that cannot be reached is an error instead: its address may be wrong.
    pub fn follow(self) -> Events<'a> {
        Events { feed: self, seen: 0, messages: None, is_over: false }
    }

    fn call(&self, left: Option<u64>) -> Call<'a> {
        let call = self.client.get("/api/events");
        let call = match &self.begin {
            Begin::After(cursor) => call.query("cursor", cursor),
            begin => call.query("from", begin),
        };
        call.query_opt("type", self.kind.as_ref())
            .query_opt("subject", self.subject.as_ref())
            .query_opt("limit", left)
    }
}

/// The events of a feed, as they come.
pub struct Events<'a> {
    feed: Feed<'a>,
    seen: u64,
    /// The connection, while there is one.
    messages: Option<Messages>,
    is_over: bool,
}

impl Events<'_> {
    /// The next event of the connection; none where it broke or could not be made again.
    fn received(&mut self) -> Result<Option<Message>, Error> {
        let messages = match &mut self.messages {
            Some(messages) => messages,
            None => {
                let left = self.feed.limit.map(|limit| limit - self.seen);
                match self.feed.call(left).stream() {
                    Ok(messages) => self.messages.insert(messages),
                    // The server may only be restarting.
                    Err(error) if error.is_unreachable() && matches!(self.feed.begin, Begin::After(_)) => {
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        Ok(messages.next().and_then(Result::ok))
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Message, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over && self.feed.limit != Some(self.seen) {
            match self.received() {
                Ok(Some(message)) => {
                    if let Some(cursor) = &message.id {
                        self.feed.begin = Begin::After(cursor.clone());
                    }
                    self.seen += 1;
                    return Some(Ok(message));
                }
                Ok(None) => {
                    self.messages = None;
                    thread::sleep(PAUSE);
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl fmt::Debug for Events<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("feed", &self.feed).field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl fmt::Display for Begin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::End => f.write_str("end"),
            Self::Time(time) => time.fmt(f),
            Self::After(cursor) => f.write_str(cursor),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// Answers each connection with one of the texts, and gives the first lines of the requests.
    fn serve(texts: Vec<&'static str>) -> (String, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let serving = thread::spawn(move || {
            let answer = |text: &str| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
                let first = lines.next().unwrap();
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                write!(stream, "HTTP/1.1 {text}").unwrap();
                first
            };
            texts.into_iter().map(answer).collect()
        });
        (server, serving)
    }

    const STREAM: &str = "200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

    /// EVT-4: a connection that broke is made again after the last event seen; the limit counts on.
    #[test]
    fn broken_stream_is_resumed_after_the_last_event_seen() {
        let first = format!("{STREAM}id: c1\nevent: batch.finished\ndata: {{}}\n\nid: c2\ndata: half").leak();
        let second = format!("{STREAM}id: c3\ndata: {{}}\n\n").leak();
        let (server, serving) = serve(vec![first, "503 Busy\r\nContent-Length: 0\r\n\r\n", second]);
        let client = Client::builder(&server).build().unwrap();
        let events = client.events(Begin::Start).kind("batch").limit(2).follow();
        let cursors: Vec<_> = events.map(|event| event.unwrap().id.unwrap()).collect();
        assert_eq!(cursors, ["c1", "c3"]);
        assert_eq!(
            serving.join().unwrap(),
            [
                "GET /api/events?from=start&type=batch&limit=2 HTTP/1.1",
                "GET /api/events?cursor=c1&type=batch&limit=1 HTTP/1.1",
                "GET /api/events?cursor=c1&type=batch&limit=1 HTTP/1.1",
            ]
        );
    }

    /// A refusal ends the stream, and so does a server that was never there.
    #[test]
    fn refusal_and_absent_server_end_the_stream() {
        let body = r#"{"title":"Bad","detail":"no such cursor","code":"invalid","errors":[]}"#;
        let refusal = format!("422 Bad\r\nContent-Length: {}\r\n\r\n{body}", body.len()).leak();
        let (server, serving) = serve(vec![refusal]);
        let client = Client::builder(&server).build().unwrap();
        let mut events = client.events(Begin::After("x".to_owned())).follow();
        let refused = events.next().unwrap().unwrap_err();
        assert_eq!(refused.to_string(), "no such cursor");
        assert!(events.next().is_none());
        serving.join().unwrap();
        let absent = Client::builder("http://127.0.0.1:1").build().unwrap();
        let error = absent.events(Begin::End).follow().next().unwrap().unwrap_err();
        assert!(error.is_unreachable());
    }
}
