use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use schemars::JsonSchema;
use tidemill_model::{Audience, EventKind, ShardId, Timestamp};
use tokio::runtime::Handle;

use crate::Problem;
use crate::app::App;
use crate::parameter::{Asked, Rule};
use crate::params::Params;
use crate::ports::{FeedError, FeedEvent, FeedFrom, FeedReader};
use crate::rights::Caller;
use crate::standing::Standing;
use crate::turns::Turn;

const AT_ONCE: usize = 256;
/// The pauses between two looks into a feed that has nothing new.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(100);
/// So much longer for every stream that is open, so that many of them do not look all the time.
const EACH: Duration = Duration::from_millis(1);
/// How long a thread reads at once on the way to the first event that is wanted.
const SKIPPING: Duration = Duration::from_millis(20);

pub(super) const AFTER: Asked<String> =
    Asked::text("cursor", "After the event with this id; the header `Last-Event-ID` does the same.");
pub(super) const FROM: Asked<String> = Asked::new(
    "from",
    "`start`, `end` (default) or a time as RFC 3339 has it, where there is no cursor. With a time, each partition begins \
     with its first event of that time or later.",
    Rule::of::<Begin>(),
);
pub(super) const TYPE: Asked<String> = Asked::text(
    "type",
    "Only types that begin so, as in `batch` or `batch.finished`; has to begin the type of a public event. \
     docs/reference/events.md has all of them.",
);
pub(super) const SUBJECT: Asked<String> = Asked::text("subject", "Only subjects that begin so.");
pub(super) const EVENTS: Asked<u64> = Asked::number("limit", "Ends after so many events.", 1, u64::MAX);

/// Where a stream begins, as a parameter names it.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is wanted; `begin` reads it")]
pub(crate) enum Begin {
    At(End),
    Time(Timestamp),
}

/// An end of the feed.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is wanted; `begin` reads it")]
pub(crate) enum End {
    Start,
    End,
}

pub(super) async fn stream(
    State(app): State<Arc<App>>,
    Extension(standing): Extension<Standing>,
    params: Params,
    headers: HeaderMap,
) -> Result<Sse<impl futures_util::Stream<Item = Result<Event, Infallible>>>, Problem> {
    let from = begin(&params, &headers)?;
    let caller = standing.caller();
    let wanted = Wanted {
        event_type: kinds_wanted(&params.get(TYPE)?.unwrap_or_default())?,
        subject: params.get(SUBJECT)?.unwrap_or_default(),
        shards: reached(&app, caller).await?,
        keys: caller.manages_keys(),
    };
    let left = params.get(EVENTS)?.unwrap_or(u64::MAX);
    let open = app.streams.take(caller.holder()).await?;
    let (feed, key) = (Arc::clone(&app.deps.feed), Arc::clone(caller.holder()));
    let opened = tokio::task::spawn_blocking(move || feed.open(&key, from)).await;
    let reader = match opened {
        Ok(opened) => opened.map_err(|error| feed_problem(&error))?,
        Err(_) => return Err(Problem::internal("the feed could not be opened")),
    };
    let (reader, ready, lost) = (Some(Reader(Some(reader))), VecDeque::new(), standing.lost());
    let stream = Stream { app, reader, standing, wanted, left, ready, pause: SHORTEST, _open: open };
    let events = unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((Ok(event), stream))
    });
    Ok(Sse::new(events.take_until(lost)).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

fn begin(params: &Params, headers: &HeaderMap) -> Result<FeedFrom, Problem> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    // What a client that connects again has heard last counts more than where its address began.
    if let Some(cursor) = last.or(params.get(AFTER)?) {
        return Ok(FeedFrom::Cursor(cursor));
    }
    match params.get(FROM)?.as_deref() {
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
    if caller.is_of_site() {
        return Ok(None);
    }
    if !caller.is_bound_to_groups_alone() {
        let detail = "the feed shows whole groups, and this caller reaches jobs of some departments; list batches, or ask with a key \
                      that is bound to groups";
        return Err(Problem::forbidden(detail));
    }
    let groups = app.known_groups().await?;
    let reached = groups.iter().filter(|group| caller.reaches(group.name.as_str()));
    Ok(Some(reached.map(|group| group.shard).collect()))
}

/// The kind in a type, which may be given as CloudEvents has it: `tidemill.batch.finished.v1`.
fn kind_of(event_type: &str) -> &str {
    let kind = event_type.strip_prefix("tidemill.").unwrap_or(event_type);
    kind.strip_suffix(".v1").unwrap_or(kind)
}

/// The beginning of the kinds that a stream shows. What begins no public kind is refused: its stream would stay empty for
/// ever, and who asks would not know why.
fn kinds_wanted(event_type: &str) -> Result<String, Problem> {
    let wanted = kind_of(event_type);
    if EventKind::public().any(|kind| kind.name.starts_with(wanted)) {
        return Ok(wanted.to_owned());
    }
    let noun = |kind: &str| kind.split_once('.').map_or(kind, |(noun, _)| noun).to_owned();
    let of_noun = EventKind::public().filter(|kind| noun(kind.name) == noun(wanted));
    let of_noun: Vec<_> = of_noun.map(|kind| kind.name).collect();
    let public = if of_noun.is_empty() {
        let nouns: BTreeSet<_> = EventKind::public().map(|kind| noun(kind.name)).collect();
        format!("the kinds begin with {}", nouns.into_iter().collect::<Vec<_>>().join(", "))
    } else {
        format!("of {} there are {}", noun(wanted), of_noun.join(", "))
    };
    let internal = EventKind::all().find_map(|kind| match kind.audience {
        Audience::Internal(why) if kind.name == wanted => Some(why),
        Audience::Internal(_) | Audience::Public(_) => None,
    });
    let why = internal.map_or_else(String::new, |why| format!("; {wanted} is in the journal only: {why}"));
    let rule =
        format!("must begin the kind of a public event: {public} (docs/reference/events.md has all){why}");
    Err(Problem::field("type", event_type, rule))
}

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

/// A reader of the feed. To give one up may take half a second, for which neither its client nor others are to wait.
struct Reader(Option<Box<dyn FeedReader>>);

impl Reader {
    fn get(&mut self) -> &mut dyn FeedReader {
        &mut **self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let reader = self.0.take();
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn_blocking(move || drop(reader)));
        }
    }
}

/// One stream: reads the feed when its client can take more, and holds no thread while there is nothing.
struct Stream {
    app: Arc<App>,
    /// Away while a thread reads.
    reader: Option<Reader>,
    standing: Standing,
    wanted: Wanted,
    left: u64,
    /// Read, and not sent yet.
    ready: VecDeque<FeedEvent>,
    /// Until the feed is read again.
    pause: Duration,
    _open: Turn,
}

impl Stream {
    /// The next event; `None`: the stream ends, with its limit, its key, the feed, or the program.
    async fn next(&mut self) -> Option<Event> {
        while self.left > 0 && !*self.app.stopping.borrow() {
            self.look().await?;
            if let Some(event) = self.ready.pop_front() {
                // Rights may have changed since it was read.
                if self.wanted.has(&event) {
                    self.left -= 1;
                    return Some(Event::default().id(event.cursor).event(event.event_type).data(event.json));
                }
                continue;
            }
            self.read().await?;
        }
        None
    }

    /// Looks at the rights again now and then, also those to groups that came since.
    async fn look(&mut self) -> Option<()> {
        let looked = self.standing.look().await;
        let reached = match looked {
            Ok(false) => return Some(()),
            Ok(true) => reached(&self.app, self.standing.caller()).await,
            Err(problem) => Err(problem),
        };
        match reached {
            Ok(shards) => self.wanted.shards = shards,
            Err(problem) if problem.status().is_server_error() => {}
            Err(problem) => {
                let app = self.standing.caller().holder();
                tracing::info!(%app, "an event stream of key {app} ends: {}", problem.detail);
                return None;
            }
        }
        self.wanted.keys = self.standing.caller().manages_keys();
        Some(())
    }

    /// Reads what there is; where there is nothing, naps for a while that grows.
    async fn read(&mut self) -> Option<()> {
        let turn = self.app.feed_reads.take(self.standing.caller().holder()).await.ok()?;
        let mut reader = self.reader.take()?;
        let wait = if reader.get().is_skipping() { SKIPPING } else { Duration::ZERO };
        let read = move || (reader.get().poll(AT_ONCE, wait), reader);
        let (events, mut reader) = tokio::task::spawn_blocking(read).await.ok()?;
        drop(turn);
        let events = events.inspect_err(|error| {
            let error = error as &dyn std::error::Error;
            tracing::warn!(error, "an event stream ends: the feed cannot be read");
        });
        let events = events.ok()?;
        if !events.is_empty() || reader.get().is_skipping() {
            self.pause = SHORTEST;
        } else {
            let mut stopping = self.app.stopping.clone();
            tokio::select! {
                () = tokio::time::sleep(self.pause + EACH * self.app.streams.count()) => {}
                // The sender is gone only when nobody can stop it.
                Ok(_) = stopping.wait_for(|stopping| *stopping) => {}
            }
            self.pause = (self.pause * 2).min(LONGEST);
        }
        self.reader = Some(reader);
        self.ready.extend(events.into_iter().filter(|event| self.wanted.has(event)));
        Some(())
    }
}
