//! Replies without the log: an interface keeps a line open to every process with owners, which writes its replies there.
//!
//! ```text
//!  owner's process                                   interface
//!   Replies ──► channel, 1,024 ──► GET /replies ──► ReplyLines ──► Submitter
//!      └ no line, or no room: the topic ───────────────────────────────┘
//! ```
//!
//! A line may lose what it was given: its request is appended again, and answered by the topic.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Deserialize;
use tidemill_model::{InstanceId, Json as _, Reply};
use tidemill_serving::tls::Roles;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::live::{Peers, Refusal, refusal, trouble};
use crate::{Error, Submitter};

/// Takes a reply, or not; it must be short and not block.
pub type TakeReply = Arc<dyn Fn(&Reply) -> bool + Send + Sync>;

/// Opens a line from the owners of this process to a caller, which lasts as long as what is given back; `None`: there are
/// too many.
pub type OpenLine = Arc<dyn Fn(InstanceId, TakeReply) -> Option<Box<dyn Any + Send>> + Send + Sync>;

/// Where the owners of all partitions listen, as far as that is known; may block.
pub type OwnerAddresses = Arc<dyn Fn() -> BTreeSet<String> + Send + Sync>;

/// Replies that wait to be written to a line.
const ROOM: usize = 1_024;
/// A longer reply goes by the topic.
const MAX_REPLY_BYTES: usize = 64 * 1024;
/// What is written at once is at most this and one reply.
const CHUNK_BYTES: usize = 64 * 1024;
/// An empty line, so that both sides see that the other is there.
const BEAT: Duration = Duration::from_secs(5);
/// A line that says nothing for this long is given up.
const SILENCE: Duration = Duration::from_secs(15);
/// How often it is looked for owners, and tried again.
const LOOK: Duration = Duration::from_secs(1);
/// A process that knows no lines is of an older version.
const LOOK_FOR_NEWER: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
pub(crate) struct Caller {
    instance: String,
}

/// `GET /replies?instance=<id>`: the replies to that caller, one JSON document a line, until somebody ends it.
pub(crate) async fn replies(State(open): State<OpenLine>, Query(caller): Query<Caller>) -> Response {
    let (give, given) = mpsc::channel::<Bytes>(ROOM);
    let take = move |reply: &Reply| {
        let mut line = reply.to_json().into_bytes();
        line.push(b'\n');
        line.len() <= MAX_REPLY_BYTES && give.try_send(line.into()).is_ok()
    };
    let Some(line) = open(InstanceId::new(caller.instance), Arc::new(take)) else {
        let detail = "as many lines are open as may be; replies go by the log".to_owned();
        return Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "too_many_lines", detail }
            .into_response();
    };
    let lines = unfold((given, line), |(mut given, line)| async move {
        let chunk = match tokio::time::timeout(BEAT, given.recv()).await {
            Ok(first) => together(first?, &mut given),
            Err(_) => Bytes::from_static(b"\n"),
        };
        Some((Ok::<_, std::convert::Infallible>(chunk), (given, line)))
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

/// With what else waits.
fn together(first: Bytes, given: &mut mpsc::Receiver<Bytes>) -> Bytes {
    let Ok(second) = given.try_recv() else { return first };
    let mut chunk = [first, second].concat();
    while chunk.len() < CHUNK_BYTES
        && let Ok(next) = given.try_recv()
    {
        chunk.extend_from_slice(&next);
    }
    chunk.into()
}

/// The lines of an interface to all processes with owners. They end when this is dropped.
#[must_use = "the lines end when this is dropped"]
pub struct ReplyLines(AbortHandle);

impl ReplyLines {
    /// Keeps lines to the owners that there are, on `runtime`; encrypted where `roles` says how.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub fn keep(
        runtime: &Handle,
        submitter: Submitter,
        owners: OwnerAddresses,
        internal_key: &str,
        roles: Option<&Roles>,
    ) -> Result<Self, Error> {
        let peers = Peers::new(roles);
        let scheme = peers.scheme;
        let with = |builder: reqwest::ClientBuilder| builder.connect_timeout(SILENCE).read_timeout(SILENCE);
        let client = peers.client(with).map_err(Error::Client)?;
        let ear = Ear { client, scheme, internal_key: internal_key.into(), submitter };
        Ok(Self(runtime.spawn(follow(ear, owners)).abort_handle()))
    }
}

impl Drop for ReplyLines {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A line to each owner that is known, as long as it is.
async fn follow(ear: Ear, owners: OwnerAddresses) {
    let mut lines: BTreeMap<String, Ends> = BTreeMap::new();
    loop {
        let find = Arc::clone(&owners);
        // While it cannot be said who owns what, lines stay.
        let found = tokio::task::spawn_blocking(move || find()).await.unwrap_or_default();
        if !found.is_empty() {
            lines.retain(|address, _| found.contains(address));
        }
        for address in found {
            lines.entry(address).or_insert_with_key(|address| {
                let (ear, address) = (ear.clone(), address.clone());
                Ends(tokio::spawn(async move { ear.listen(&address).await }).abort_handle())
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends a task with it.
struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum End {
    Line,
    /// It knows no lines.
    OlderVersion,
    /// In its words.
    Refused(String),
}

#[derive(Clone)]
struct Ear {
    client: reqwest::Client,
    scheme: &'static str,
    internal_key: Arc<str>,
    submitter: Submitter,
}

impl Ear {
    /// Why there is no line is told where somebody has to do something about it, once as long as it stays the same.
    async fn listen(&self, address: &str) {
        let mut told: Option<String> = None;
        loop {
            let (pause, why) = match self.line(address).await {
                Ok(End::Line) => (LOOK, None),
                Ok(End::OlderVersion) => (LOOK_FOR_NEWER, None),
                Ok(End::Refused(why)) => (LOOK, Some(why)),
                Err(error) => (LOOK, trouble(&error.without_url())),
            };
            if let Some(why) = why.as_ref().filter(|why| told.as_ref() != Some(why)) {
                tracing::warn!(address, "no replies by line from {address}, so they go by the log: {why}");
            }
            told = why;
            tokio::time::sleep(pause).await;
        }
    }

    /// Hears replies until the line ends.
    async fn line(&self, address: &str) -> Result<End, reqwest::Error> {
        let request = self
            .client
            .get(format!("{}://{address}/replies", self.scheme))
            .query(&[("instance", self.submitter.instance().as_str())])
            .bearer_auth(&self.internal_key);
        let mut response = request.send().await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(End::OlderVersion);
        }
        if !response.status().is_success() {
            return Ok(End::Refused(refusal(response).await));
        }
        let mut rest: Vec<u8> = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            rest.extend_from_slice(&chunk);
            let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in rest[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                self.hear(address, line);
            }
            rest.drain(..whole);
            if rest.len() > MAX_REPLY_BYTES {
                tracing::warn!(
                    address,
                    "a reply by line is longer than {MAX_REPLY_BYTES} bytes; begins anew"
                );
                break;
            }
        }
        Ok(End::Line)
    }

    fn hear(&self, address: &str, line: &[u8]) {
        match Reply::from_json(line) {
            Ok(reply) => self.submitter.replied(reply),
            Err(error) => tracing::warn!(address, %error, "a reply by line cannot be read; dropped"),
        }
    }
}
