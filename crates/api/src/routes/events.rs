use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tidemill_model::{Role, ShardId};
use tidemill_store::ReadTables;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use crate::Problem;
use crate::app::{App, shard_of};
use crate::auth::Caller;
use crate::params::Params;
use crate::ports::{FeedError, FeedEvent, FeedFrom, FeedReader};

/// Events that wait for a slow client.
const QUEUE: usize = 256;
/// How long a poll waits; the stream's end is noticed within it.
const POLL: Duration = Duration::from_millis(500);

/// The public feed, as server-sent events.
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    params.only(&["cursor", "from", "type", "subject", "limit"])?;
    let from = begin(&params, &headers)?;
    let wanted = Wanted {
        event_type: kind_of(&params.text("type").unwrap_or_default()).to_owned(),
        subject: params.text("subject").unwrap_or_default(),
        shards: reached(&app, &caller).await?,
        keys: caller.role == Role::SuperAdministrator,
    };
    let left = params.parse("limit", "must be a number of events, from 1")?.unwrap_or(u64::MAX);
    if left == 0 {
        return Err(Problem::field("limit", left, "must be a number of events, from 1"));
    }
    let bound = app.config.max_streams;
    let permit = Arc::clone(&app.streams)
        .try_acquire_owned()
        .map_err(|_| Problem::overloaded(format!("{bound} event streams are open, the bound"), 5))?;
    let feed = Arc::clone(&app.deps.feed);
    let opened = tokio::task::spawn_blocking(move || feed.open(from)).await;
    let reader = match opened {
        Ok(opened) => opened.map_err(|error| feed_problem(&error))?,
        Err(_) => return Err(Problem::internal("the feed could not be opened")),
    };
    let (send, receive) = mpsc::channel(QUEUE);
    let stopping = app.stopping.clone();
    let pump = Pump { reader, wanted, left, send, stopping, _permit: permit };
    // It ends with the stream, with the program, or with the feed.
    drop(tokio::task::spawn_blocking(move || pump.run()));
    let events = unfold(receive, |mut receive| async move {
        let event = receive.recv().await?;
        Some((Ok(event), receive))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

fn begin(params: &Params, headers: &HeaderMap) -> Result<FeedFrom, Problem> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    // What a client that connects again has heard last counts more than where its address began.
    if let Some(cursor) = last.or_else(|| params.text("cursor")) {
        return Ok(FeedFrom::Cursor(cursor));
    }
    match params.text("from").as_deref() {
        None | Some("end") => Ok(FeedFrom::End),
        Some("start") => Ok(FeedFrom::Start),
        Some(other) => other
            .parse()
            .map(FeedFrom::Time)
            .map_err(|_| Problem::field("from", other, "must be start, end or a time as RFC 3339 has it")),
    }
}

fn feed_problem(error: &FeedError) -> Problem {
    match error {
        FeedError::BadCursor { cursor } => {
            Problem::field("cursor", cursor, "must be the id of an event of this feed")
        }
        FeedError::Read(_) => {
            tracing::warn!(error = error as &dyn std::error::Error, "the feed cannot be opened");
            Problem::unavailable("feed_unavailable", "the feed cannot be read at the moment; try again later")
        }
    }
}

/// The shards whose events the key may see; `None`: all.
async fn reached(app: &App, caller: &Caller) -> Result<Option<Vec<ShardId>>, Problem> {
    if caller.groups.is_empty() {
        return Ok(None);
    }
    let groups = app.read(|tables| tables.groups()).await?;
    Ok(Some(groups.iter().filter(|group| caller.reaches(&group.name)).map(shard_of).collect()))
}

/// The kind in a type, which may be given as CloudEvents has it: `tidemill.batch.finished.v1`.
fn kind_of(event_type: &str) -> &str {
    let kind = event_type.strip_prefix("tidemill.").unwrap_or(event_type);
    kind.strip_suffix(".v1").unwrap_or(kind)
}

/// Which events a stream shows.
struct Wanted {
    event_type: String,
    subject: String,
    shards: Option<Vec<ShardId>>,
    /// Hashes of secrets are for those who manage keys.
    keys: bool,
}

impl Wanted {
    fn has(&self, event: &FeedEvent) -> bool {
        event.event_type.starts_with(&self.event_type)
            && event.subject.starts_with(&self.subject)
            && self.shards.as_ref().is_none_or(|shards| shards.contains(&event.shard))
            && (self.keys || !event.subject.starts_with("key/"))
    }
}

/// Carries events from the feed, which blocks, to one stream.
struct Pump {
    reader: Box<dyn FeedReader>,
    wanted: Wanted,
    left: u64,
    send: mpsc::Sender<Event>,
    stopping: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

impl Pump {
    fn run(mut self) {
        while !self.send.is_closed() && !*self.stopping.borrow() {
            let events = match self.reader.poll(QUEUE, POLL) {
                Ok(events) => events,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "an event stream ends: the feed cannot be read"
                    );
                    return;
                }
            };
            for event in events.into_iter().filter(|event| self.wanted.has(event)) {
                let sent = Event::default().id(event.cursor).event(event.event_type).data(event.json);
                if self.send.blocking_send(sent).is_err() {
                    return;
                }
                self.left -= 1;
                if self.left == 0 {
                    return;
                }
            }
        }
    }
}
