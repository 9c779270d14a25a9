//! Logs of attempts.

use std::io::Read;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill_model::{BatchId, KeptLog, LogChunk, LogMatches, LogOffsets, LogStream, Token};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::sse::{Message, Messages};

/// Before a broken connection is made again.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A part of what a batch printed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct LogPart {
    /// The attempt that it is of, where the batch has one and the server tells it.
    pub attempt: Option<u64>,
    /// Whole lines, except where the last one has no end yet. Bytes that are not UTF-8 are shown as U+FFFD.
    pub content: String,
    /// The byte that it begins with, where a store of logs has it.
    pub begin: Option<u64>,
    /// The number of its first line, from 1, where a store of logs has it.
    pub line: Option<u64>,
    /// The byte offset to go on from.
    pub offset: u64,
    /// Whether nothing will follow.
    pub is_end: bool,
}

/// What a tail tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogEvent {
    /// The output of an attempt begins.
    Attempt {
        /// Its number in the batch, from 1.
        attempt: u64,
        /// Its id.
        token: Token,
    },
    /// Bytes of one of its streams that arrived together.
    Chunk {
        /// Of this attempt.
        attempt: u64,
        /// The bytes.
        chunk: LogChunk,
        /// How far the streams of the attempt have been told, with this chunk.
        told: LogOffsets,
    },
    /// The log of an attempt is not complete: its worker is lost, or has not sent the rest.
    Cut {
        /// Which attempt.
        attempt: u64,
    },
    /// Nothing is kept of the log of an attempt.
    Gone {
        /// Which attempt.
        attempt: u64,
    },
    /// The batch has finished, and nothing will follow.
    End {
        /// `success`, `failed`, `killed` or `skipped`.
        result: Option<String>,
    },
}

/// What to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Following {
    /// Begins with this attempt; none: with the newest.
    pub attempt: Option<u64>,
    /// Only this stream; none: all, as they came.
    pub stream: Option<LogStream>,
    /// Begins at the present end of the attempt.
    pub from_end: bool,
}

impl Client {
    /// What the newest attempt of a batch printed from a byte offset on, 1,000 lines at most.
    ///
    /// # Errors
    /// Whoever has it cannot be reached, or as [`Call::send`](crate::Call::send).
    pub fn batch_log(&self, batch: BatchId, offset: u64) -> Result<LogPart, Error> {
        let call = self.get(format!("/api/batches/{batch}/log"));
        call.query("type", 1).query("offset", offset).query("lines", 1000).send()
    }

    /// How long the log of an attempt is, and its first line that looks like an error; of the newest attempt where none is named.
    ///
    /// # Errors
    /// No store of logs has it, or as [`Call::send`](crate::Call::send).
    pub fn log_summary(&self, batch: BatchId, attempt: Option<u64>) -> Result<KeptLog, Error> {
        self.get(format!("/api/batches/{batch}/log/summary")).query_opt("attempt", attempt).send()
    }

    /// Lines of a stream of the newest attempt that have a text, from a byte offset on, 1,000 at most.
    ///
    /// # Errors
    /// No store of logs has it, or as [`Call::send`](crate::Call::send).
    pub fn search_log(
        &self,
        batch: BatchId,
        stream: LogStream,
        text: &str,
        offset: u64,
    ) -> Result<LogMatches, Error> {
        let call = self.get(format!("/api/batches/{batch}/log/search"));
        let call = call.query("type", stream.number()).query("text", text);
        call.query("offset", offset).query("limit", 1000).send()
    }

    /// The bytes of a stream of an attempt, of the newest one where none is named, as they come. `range` is the first byte and,
    /// where it is bounded, the last one; where whoever has the log knows no ranges, the whole log comes.
    ///
    /// # Errors
    /// The range begins beyond the end, or as [`Call::send`](crate::Call::send).
    pub fn download_log(
        &self,
        batch: BatchId,
        stream: LogStream,
        attempt: Option<u64>,
        range: Option<(u64, Option<u64>)>,
    ) -> Result<impl Read + use<>, Error> {
        let call = self.get(format!("/api/batches/{batch}/log/download"));
        let mut call = call.query("type", stream.number()).query_opt("attempt", attempt);
        if let Some((first, last)) = range {
            let last = last.map(|last| last.to_string()).unwrap_or_default();
            call = call.header("Range", format!("bytes={first}-{last}"));
        }
        call.bytes()
    }

    /// Follows the log of a batch over all its attempts, until the batch has finished.
    ///
    /// A connection that breaks is made again behind the last event seen, as often as it takes, also where the server refuses it
    /// because it has too much to do or fails. While nothing was seen, all this is an error instead.
    pub fn follow_log(&self, batch: BatchId, following: Following) -> LogTail<'_> {
        LogTail { client: self, batch, following, last: None, messages: None, pause: PAUSE, is_over: false }
    }
}

/// The log of a batch, as it grows.
#[must_use = "a log is followed as events are asked for"]
pub struct LogTail<'a> {
    client: &'a Client,
    batch: BatchId,
    following: Following,
    /// The id of the last event.
    last: Option<String>,
    /// The connection, while there is one.
    messages: Option<Messages>,
    /// Before it is made again.
    pause: Duration,
    is_over: bool,
}

impl LogTail<'_> {
    fn call(&self) -> Call<'_> {
        let Following { attempt, stream, from_end } = self.following;
        let call = self.client.get(format!("/api/batches/{}/log/tail", self.batch));
        let call = call
            .query_opt("attempt", attempt)
            .query_opt("type", stream.map(LogStream::number))
            .query_opt("from", from_end.then_some("end"));
        match &self.last {
            Some(last) => call.header("Last-Event-ID", last.clone()),
            None => call,
        }
    }

    /// The next message of the connection; none where it broke or could not be made again.
    fn received(&mut self) -> Result<Option<Message>, Error> {
        if self.messages.is_none() {
            self.pause = PAUSE;
            match self.call().stream() {
                Ok(messages) => self.messages = Some(messages),
                Err(error) => {
                    let pause = pause_after(&error).filter(|_| self.last.is_some());
                    self.pause = pause.ok_or(error)?;
                    return Ok(None);
                }
            }
        }
        Ok(self.messages.as_mut().and_then(Iterator::next).and_then(Result::ok))
    }
}

/// How long to wait until a connection can be made again, where that may succeed: the server may only be restarting, or have too
/// much to do at the moment.
fn pause_after(error: &Error) -> Option<Duration> {
    let refused = error.problem().filter(|problem| problem.status == 429 || problem.status >= 500);
    match refused {
        Some(problem) => {
            let asked = problem.retry_after_s.map_or(PAUSE, Duration::from_secs);
            Some(asked.clamp(PAUSE, LONGEST_PAUSE))
        }
        None => (error.is_unreachable() || matches!(error, Error::Read { .. })).then_some(PAUSE),
    }
}

impl Iterator for LogTail<'_> {
    type Item = Result<LogEvent, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            let event = match self.received() {
                Ok(Some(message)) => {
                    self.last = message.id.clone().or(self.last.take());
                    LogEvent::read(&message).map_err(|source| Error::Decode { source }).transpose()
                }
                Ok(None) => {
                    self.messages = None;
                    thread::sleep(self.pause);
                    None
                }
                Err(error) => Some(Err(error)),
            };
            let Some(event) = event else { continue };
            self.is_over = matches!(event, Ok(LogEvent::End { .. }) | Err(_));
            return Some(event);
        }
        None
    }
}

impl LogEvent {
    /// None where the event is of a kind that later versions have.
    fn read(message: &Message) -> Result<Option<Self>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Attempt {
            attempt: u64,
            token: Option<Token>,
            #[serde(flatten)]
            chunk: Option<LogChunk>,
        }
        #[derive(Deserialize)]
        struct End {
            result: Option<String>,
        }
        let of_attempt = || serde_json::from_str::<Attempt>(&message.data);
        Ok(match message.event.as_deref() {
            Some("attempt") => {
                let Attempt { attempt, token, .. } = of_attempt()?;
                token.map(|token| Self::Attempt { attempt, token })
            }
            Some("chunk") => {
                let Attempt { attempt, chunk, .. } = of_attempt()?;
                let told = told_by(message.id.as_deref().unwrap_or_default());
                chunk.zip(told).map(|(chunk, told)| Self::Chunk { attempt, chunk, told })
            }
            Some("cut") => Some(Self::Cut { attempt: of_attempt()?.attempt }),
            Some("gone") => Some(Self::Gone { attempt: of_attempt()?.attempt }),
            Some("end") => {
                let End { result } = serde_json::from_str(&message.data)?;
                Some(Self::End { result })
            }
            Some(_) | None => None,
        })
    }
}

/// The offsets in the id of an event, `ATTEMPT.STDOUT.STDERR.WORKER`.
fn told_by(id: &str) -> Option<LogOffsets> {
    let mut numbers = id.split('.').skip(1).map(|number| number.parse().ok());
    let mut number = || numbers.next().flatten();
    Some(LogOffsets { stdout: number()?, stderr: number()?, worker: number()? })
}

impl std::fmt::Debug for LogTail<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogTail")
            .field("batch", &self.batch)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use tidemill_model::Timestamp;

    use super::*;

    /// Answers each connection with one of the texts, and gives the heads of the requests.
    fn serve(texts: Vec<String>) -> (String, thread::JoinHandle<Vec<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let serving = thread::spawn(move || {
            let answer = |text: String| {
                let (mut stream, _) = listener.accept().unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
                let head = lines.take_while(|line| !line.is_empty()).collect();
                write!(stream, "HTTP/1.1 {text}").unwrap();
                head
            };
            texts.into_iter().map(answer).collect()
        });
        (server, serving)
    }

    const STREAM: &str = "200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

    /// LOG-2: a tail whose connection broke goes on behind the last event, and ends with its batch.
    #[test]
    fn broken_tail_goes_on_behind_the_last_event_and_ends_with_the_batch() {
        let first = "id: 1.0.0.0\nevent: attempt\ndata: {\"attempt\":1,\"token\":4097}\n\n\
             id: 1.2.0.0\nevent: chunk\ndata: {\"attempt\":1,\"stream\":\"stdout\",\"offset\":0,\"at\":\"1970-01-01T00:00:00.000Z\",\"content\":\"a\\n\"}\n\nid: 1.4.0";
        let second = "id: 1.2.0.0\nevent: later_kind\ndata: {}\n\nid: 1.2.7.0\nevent: progress\ndata: {}\n\n";
        let third = "id: 1.2.7.0\nevent: gone\ndata: {\"attempt\":1}\n\n\
             event: end\ndata: {\"result\":\"success\"}\n\n";
        let busy = "503 Busy\r\nContent-Length: 0\r\n\r\n".to_owned();
        let full = "429 Full\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n".to_owned();
        let failed = "500 Failed\r\nContent-Length: 0\r\n\r\n".to_owned();
        let [first, second, third] = [first, second, third].map(|events| format!("{STREAM}{events}"));
        let (server, serving) = serve(vec![first, busy, second, full, failed, third]);
        let begun = std::time::Instant::now();
        let client = Client::builder(&server).build().unwrap();
        let following = Following { attempt: Some(1), stream: Some(LogStream::Stdout), from_end: false };
        let events: Vec<_> = client.follow_log(BatchId(4097), following).map(Result::unwrap).collect();
        let at = Timestamp::UNIX_EPOCH;
        let chunk = LogChunk { stream: LogStream::Stdout, offset: 0, at, content: "a\n".to_owned() };
        let wanted = [
            LogEvent::Attempt { attempt: 1, token: Token(4097) },
            LogEvent::Chunk { attempt: 1, chunk, told: LogOffsets { stdout: 2, stderr: 0, worker: 0 } },
            LogEvent::Gone { attempt: 1 },
            LogEvent::End { result: Some("success".to_owned()) },
        ];
        assert_eq!(events, wanted);
        let heads = serving.join().unwrap();
        assert!(
            heads.iter().all(|head| head[0] == "GET /api/batches/4097/log/tail?attempt=1&type=1 HTTP/1.1")
        );
        let last = |head: &Vec<String>| {
            let last = head.iter().find_map(|line| line.strip_prefix("last-event-id: "));
            last.unwrap_or_default().to_owned()
        };
        let lasts: Vec<_> = heads.iter().map(last).collect();
        assert_eq!(lasts, ["", "1.2.0.0", "1.2.0.0", "1.2.7.0", "1.2.7.0", "1.2.7.0"]);
        let paused = PAUSE * 4 + Duration::from_secs(2);
        assert!(begun.elapsed() >= paused, "{:?}", begun.elapsed());
    }

    /// LOG-2: a refusal ends a tail that has heard nothing, and any other refusal one that has.
    #[test]
    fn refused_tail_ends() {
        let refusal =
            |status: &str| format!("{status}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}");
        let heard =
            format!("{STREAM}id: 1.0.0.0\nevent: attempt\ndata: {{\"attempt\":1,\"token\":4097}}\n\n");
        for (answers, status) in
            [(vec![refusal("429 Full")], 429), (vec![heard, refusal("403 Forbidden")], 403)]
        {
            let all = answers.len();
            let (server, serving) = serve(answers);
            let client = Client::builder(&server).build().unwrap();
            let events: Vec<_> = client.follow_log(BatchId(1), Following::default()).collect();
            assert_eq!(events.len(), all);
            let error = events.last().unwrap().as_ref().unwrap_err();
            assert_eq!(error.problem().map(|problem| problem.status), Some(status));
            serving.join().unwrap();
        }
    }

    /// LOG-3: bytes come as they are, and of the range that was asked for.
    #[test]
    fn bytes_of_a_range_come_as_they_are() {
        let answers = [
            "206 Partial Content\r\nContent-Length: 3\r\nConnection: close\r\n\r\na\0b",
            "416 Beyond\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
        ];
        let (server, serving) = serve(answers.map(str::to_owned).to_vec());
        let client = Client::builder(&server).build().unwrap();
        let mut bytes = Vec::new();
        let read = |range| client.download_log(BatchId(1), LogStream::Stderr, None, Some(range));
        read((2, Some(4))).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"a\0b");
        assert!(read((9, None)).is_err_and(|error| error.problem().is_some_and(|it| it.status == 416)));
        let heads = serving.join().unwrap();
        assert_eq!(heads[0][0], "GET /api/batches/1/log/download?type=2 HTTP/1.1");
        assert!(
            heads[0].contains(&"range: bytes=2-4".to_owned())
                && heads[1].contains(&"range: bytes=9-".to_owned())
        );
    }
}
