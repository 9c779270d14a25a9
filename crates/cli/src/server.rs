//! A server as the commands see it: its calls, and its refusals as people read them.

use std::io::Read;
use std::time::Duration;

use serde_json::{Value, json};
use tidemill_client::{Begin, Call, Client, Error, Feed, Following, LogEvent, Message, Method, Page};
use tidemill_model::{BatchId, LogStream};

use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::problem;
use crate::target::{self, Target};

/// What to do where no server is found.
pub(crate) const OTHER_SERVER: &str = "start one with `tidemill standalone`; name a running one by its data directory with \
                            --data, or by its address with --server";
/// Until lists have to show what was written.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

/// The status of a range that begins where there is nothing.
const BEYOND: u16 = 416;

/// Query parameters of a call; absent ones are left out.
pub type Query<'a> = Vec<(&'a str, String)>;

/// A server, and the right to speak to it.
#[derive(Debug)]
pub struct Server {
    client: Client,
    /// How its address came about, for messages.
    from: &'static str,
}

impl Server {
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// The address is none, or the file of authorities cannot be used.
    pub fn new(target: Target) -> Done<Self> {
        let Target { server, server_from, key, as_user, ca_file } = target;
        let mut builder = Client::builder(&server).idempotency_prefix("cli");
        if let Some(key) = key {
            builder = builder.key(key);
        }
        if let Some(user) = as_user {
            builder = builder.as_user(user);
        }
        if let Some(file) = ca_file {
            builder = builder.ca_file(file);
        }
        let client = builder.build().map_err(|error| match error {
            Error::Address { server } => target::bad_address(&server),
            Error::User { .. } => {
                Failure::bad_input(format!("--as-user, TIDEMILL_AS_USER or the context's as_user: {error}"))
                    .hint("name somebody of the directory: `tidemill person ls`")
            }
            Error::Authorities { file, rule } => {
                Failure::bad_input(format!("--ca-file, TIDEMILL_CA_FILE or tls.ca_file: {file:?}: {rule}"))
                    .hint("name a file with the certificates of the server's authorities in PEM")
            }
            error => Failure::unexpected(&error),
        })?;
        Ok(Self { client, from: server_from })
    }

    /// Does this with the client.
    pub(crate) fn with<T>(&self, ask: impl FnOnce(&Client) -> Result<T, Error>) -> Done<T> {
        ask(&self.client).map_err(|error| self.failure(error, Kind::Write))
    }

    /// Reads one answer.
    ///
    /// # Errors
    /// The server refuses it or cannot be reached, told for people.
    pub fn get(&self, path: &str, query: &[(&str, String)]) -> Done<Value> {
        self.asked(path, query).send().map_err(|error| self.failure(error, Kind::Read))
    }

    /// Reads a definition, and what names its version.
    pub(crate) fn get_tagged(&self, path: &str) -> Done<(Value, String)> {
        let (definition, tag) =
            self.client.get(path).send_tagged().map_err(|error| self.failure(error, Kind::Read))?;
        let tag =
            tag.ok_or_else(|| Failure::new(Exit::Failure, "the server names no version of the definition"))?;
        Ok((definition, tag))
    }

    /// Changes a definition, if it is still the version of this name.
    pub(crate) fn put_tagged(&self, path: &str, body: &Value, tag: &str) -> Done<Value> {
        let call = self.client.call(Method::Put, path).if_match(tag).body(body);
        self.shown(call.send().map_err(|error| self.failure(error, Kind::Write))?)
    }

    /// Reads the pages of a list until `limit` items are there: `{items, next}`.
    ///
    /// # Errors
    /// As [`Server::get`].
    pub fn list(&self, path: &str, query: &Query<'_>, limit: usize) -> Done<Value> {
        let listed: Result<Page<Value>, _> = self.asked(path, query).list(limit);
        let page = listed.map_err(|error| self.failure(error, Kind::Read))?;
        Ok(json!({ "items": page.items, "next": page.next }))
    }

    /// Requests something. `request` names the request, so that a repeat of it is answered, not done again.
    pub(crate) fn write(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        request: Option<&str>,
    ) -> Done<Value> {
        let mut call = self.client.call(method, path);
        if let Some(body) = body {
            call = call.body(body);
        }
        if let Some(request) = request {
            call = call.idempotency_key(request);
        }
        self.shown(call.send().map_err(|error| self.failure(error, Kind::Write))?)
    }

    /// Ends what the client itself calls by, so that no list can be asked for what was done.
    pub(crate) fn delete_own(&self, path: &str) -> Done {
        self.with(|client| client.delete(path).send::<Value>().map(drop))
    }

    /// Requests something whose answer has a secret, which no repeat tells again.
    pub(crate) fn post_unnamed(&self, path: &str) -> Done<Value> {
        self.with(|client| client.post(path).unnamed().send())
    }

    /// The answer to a write, once lists show it.
    fn shown(&self, answer: Value) -> Done<Value> {
        if let Some(position) = answer["position"].as_str() {
            self.await_shown(position);
        }
        Ok(answer)
    }

    /// Requests something that needs no name.
    ///
    /// # Errors
    /// As [`Server::get`]; the failure says whether it may have been done.
    pub fn post(&self, path: &str, body: Option<&Value>) -> Done<Value> {
        self.write(Method::Post, path, body, None)
    }

    /// As [`Server::post`], by who may not look at lists.
    pub(crate) fn report(&self, path: &str, body: &Value) -> Done<Value> {
        self.client.post(path).body(body).send().map_err(|error| self.failure(error, Kind::Write))
    }

    /// The public feed, to be narrowed and then followed.
    pub(crate) fn events(&self, begin: Begin) -> Feed<'_> {
        self.client.events(begin)
    }

    /// Its events, one after the other.
    pub(crate) fn follow<'a>(&'a self, feed: Feed<'a>) -> impl Iterator<Item = Done<Message>> + use<'a> {
        feed.follow().map(|event| event.map_err(|error| self.failure(error, Kind::Read)))
    }

    /// The log of a batch over its attempts, as it grows; none where the server has no store of logs.
    pub(crate) fn follow_log(
        &self,
        batch: i64,
        following: Following,
    ) -> Option<impl Iterator<Item = Done<LogEvent>> + use<'_>> {
        let mut tail = self.client.follow_log(BatchId(batch), following).peekable();
        if let Some(Err(Error::Refused { problem, .. })) = tail.peek()
            && problem.code.as_deref() == Some("no_log_store")
        {
            return None;
        }
        Some(tail.map(|event| event.map_err(|error| self.failure(error, Kind::Read))))
    }

    /// The lines of an export of the audit list, as they come.
    pub(crate) fn export_audit(&self, query: &Query<'_>) -> Done<impl Read + use<>> {
        self.client.export_audit(query).map_err(|error| self.failure(error, Kind::Read))
    }

    /// The bytes of a log, or of a range of it, as they come; none where the log ends before the range begins.
    pub(crate) fn download_log(
        &self,
        batch: i64,
        stream: LogStream,
        attempt: Option<u32>,
        range: Option<(u64, Option<u64>)>,
    ) -> Done<Option<impl Read + use<>>> {
        match self.client.download_log(BatchId(batch), stream, attempt.map(u64::from), range) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::Refused { problem, .. }) if problem.status == BEYOND => Ok(None),
            Err(error) => Err(self.failure(error, Kind::Read)),
        }
    }

    fn asked(&self, path: &str, query: &[(&str, String)]) -> Call<'_> {
        query.iter().fold(self.client.get(path), |call, (name, value)| call.query(name, value))
    }

    /// Waits until the read tables show a write, so that whoever looks next sees it. It is done either way.
    fn await_shown(&self, position: &str) {
        let Err(error) = self.client.await_shown(position, SHOWN_WITHIN) else { return };
        let why = error.problem().map_or_else(|| cause(&error), |problem| problem.status_line());
        output::note(format!(
            "warning: it is done, but the lists do not show it yet (position {position}): {why}"
        ));
    }

    /// What an error says to people; of a write that may have been done also how to repeat it safely.
    fn failure(&self, error: Error, kind: Kind) -> Failure {
        let key = error.key_to_repeat().map(str::to_owned);
        let failure = self.told(error, kind);
        match key {
            Some(key) => failure.with_exit(Exit::OutcomeUnknown).hint(format!(
                "it may have been done; look, or repeat it with --idempotency-key {key} where the command takes it, \
                 which does it at most once"
            )),
            None => failure,
        }
    }

    fn told(&self, error: Error, kind: Kind) -> Failure {
        let from = self.from;
        match error {
            Error::Encrypt { server, what, remedy } => {
                let message = format!("cannot speak encrypted with {server} ({from}): {what}");
                Failure::new(Exit::Unreachable, message).hint(remedy)
            }
            Error::Connect { ref server, .. } | Error::Answer { ref server, .. } => {
                let message = format!("no answer from {server} ({from}): {}", cause(&error));
                Failure::new(Exit::Unreachable, message).hint(OTHER_SERVER)
            }
            Error::Foreign { server, title } => {
                let message = format!("{server} ({from}) answers {title}, but not as Tidemill does");
                Failure::new(Exit::Unreachable, message).hint(OTHER_SERVER)
            }
            Error::TooLong { .. } => Failure::new(Exit::Unreachable, error.to_string()),
            Error::Refused { problem, .. }
                if problem.code.as_deref() == Some("unauthorized") && !self.client.has_key() =>
            {
                Failure::new(Exit::Refused, "no application key was given")
                    .hint("no admin.key is in the data directory: use --key, TIDEMILL_KEY or --data")
            }
            Error::Refused { problem, .. } => problem::failure(&problem, kind),
            error => Failure::unexpected(&error),
        }
    }
}

/// Whether a call only asks, or requests something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// The first cause of an error: the others say only in which part of the library it came up.
fn cause(error: &Error) -> String {
    let first: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    causes.last().unwrap_or(first).to_string()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};

    use super::*;

    fn target(server: &str) -> Target {
        Target { server: server.to_owned(), server_from: "--server", key: None, as_user: None, ca_file: None }
    }

    #[test]
    fn refused_connection_means_nothing_was_done() {
        let server = Server::new(target("http://127.0.0.1:1")).unwrap();
        let failure = server.post("/api/jobs/1/run", None).unwrap_err();
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(failure.message.contains("http://127.0.0.1:1 (--server)"), "{}", failure.message);
    }

    /// Reads the head of each of `calls` requests, answers with this text and breaks off.
    fn broken(calls: usize, answer: &'static str) -> (Server, std::thread::JoinHandle<()>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let closer = std::thread::spawn(move || {
            for stream in listener.incoming().take(calls) {
                let mut lines = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while line != "\r\n" {
                    line.clear();
                    lines.read_line(&mut line).unwrap();
                }
                lines.into_inner().write_all(answer.as_bytes()).unwrap();
            }
        });
        (Server::new(target(&address)).unwrap(), closer)
    }

    #[test]
    fn broken_write_has_an_unknown_outcome_and_a_broken_read_does_not() {
        let (server, closer) = broken(2, "");
        let failure = server.write(Method::Post, "/x", None, Some("req-7")).unwrap_err();
        assert_eq!(failure.exit, Exit::OutcomeUnknown);
        assert!(failure.hint.unwrap().contains("--idempotency-key req-7"));
        assert_eq!(server.get("/x", &[]).unwrap_err().exit, Exit::Unreachable);
        closer.join().unwrap();
    }

    /// API-4: an answer that breaks off says no more of a write than none at all.
    #[test]
    fn write_whose_answer_breaks_off_has_an_unknown_outcome() {
        let (server, closer) = broken(2, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{");
        let failure = server.write(Method::Post, "/x", None, Some("req-7")).unwrap_err();
        assert_eq!(failure.exit, Exit::OutcomeUnknown, "{failure}");
        assert!(failure.message.starts_with("the answer broke off: "), "{failure}");
        assert!(failure.hint.unwrap().contains("--idempotency-key req-7"));
        assert_eq!(server.get("/x", &[]).unwrap_err().exit, Exit::Failure);
        closer.join().unwrap();
    }
}
