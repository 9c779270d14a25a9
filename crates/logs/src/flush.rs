//! From memory into segments, and from small segments into larger ones.
//!
//! A new segment takes in those before it that are not larger than what is new, so a log that grows slowly has few segments, and
//! each byte is written some times, not hundreds of times. Those that it took in are removed once it is there.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::{JoinError, JoinSet};

use crate::Error;
use crate::cover::Cover;
use crate::durable::Written;
use crate::log::{Batch, Key, Log};
use crate::segment::{Close, Name, Part, Segment, build};
use crate::store::Store;

/// Between two looks at what waits.
const LOOK: Duration = Duration::from_millis(250);
/// And at least.
const REST: Duration = Duration::from_millis(10);
/// Smaller segments are taken in, however little is new.
const SMALL_BYTES: u64 = 64 << 10;

/// Flushes at once: each that joins small segments has them in memory twice.
const AT_ONCE: usize = 8;

/// Flushes what is due, until it is dropped.
pub(crate) async fn flush(store: Arc<Store>) {
    let most = AT_ONCE.min(store.config.calls_in_flight as usize);
    let mut flushing = JoinSet::new();
    let mut told = None;
    loop {
        for log in due(&store) {
            if flushing.len() >= most
                && let Some(outcome) = flushing.join_next().await
            {
                tell(outcome, &mut told);
            }
            let store = Arc::clone(&store);
            flushing.spawn(async move { flush_log(&store, &log).await });
        }
        // What is asked for meanwhile is found by the next look.
        tokio::time::sleep(REST).await;
        tokio::select! {
            () = store.due.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
            Some(outcome) = flushing.join_next() => tell(outcome, &mut told),
        }
    }
}

/// Says a failure once, as long as it stays the same.
fn tell(outcome: Result<Result<(), Error>, JoinError>, told: &mut Option<String>) {
    let outcome = outcome.unwrap_or_else(|error| {
        tracing::error!(%error, "a flush of a log ended unexpectedly");
        Ok(())
    });
    match outcome {
        Ok(()) => {
            if told.take().is_some() {
                tracing::info!("logs can be kept again");
            }
        }
        Err(error) => {
            let why = error.to_string();
            if told.as_ref() != Some(&why) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "logs cannot be kept; it is tried again, and workers keep what follows"
                );
                *told = Some(why);
            }
        }
    }
}

/// Whether memory is wanted more than large segments are.
fn is_short(store: &Store) -> bool {
    (store.memory.available_permits() as u64) < store.config.memory_bytes() / 2
}

fn due(store: &Store) -> Vec<Arc<Log>> {
    let most = if is_short(store) { 1 } else { store.config.segment_bytes() };
    let (now, after) = (Instant::now(), store.config.flush());
    let mut logs = store.open_logs();
    logs.retain(|log| log.state().is_due(now, after, most));
    logs
}

/// A flush that is under way. Dropped before its end, it has failed.
struct Flushing<'a> {
    log: &'a Log,
    is_over: bool,
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.log.state().failed();
        }
    }
}

/// Flushes a log, and closes it where that was the last.
pub(crate) async fn flush_log(store: &Store, log: &Arc<Log>) -> Result<(), Error> {
    let batch = log.state().begin_flush(store.config.segment_bytes(), is_short(store));
    let Some(batch) = batch else { return Ok(()) };
    let mut flushing = Flushing { log, is_over: false };
    let (cover, replaced) = write(store, log, &batch).await?;
    flushing.is_over = true;
    let less = log.state().flushed(&batch, cover);
    store.memory.add_permits(less);
    log.notify();
    if batch.close != Close::Open {
        store.close(log);
    }
    for segment in replaced {
        // One that stays is not read any more, and goes with the log.
        let _ = segment.remove().await;
    }
    Ok(())
}

/// Writes a segment of what is new and of small ones before it. Gives what there is then, and what is not needed any more.
async fn write(store: &Store, log: &Log, batch: &Batch) -> Result<(Cover, Vec<Arc<Segment>>), Error> {
    let place = &store.places.current;
    let segments = log.state().cover.segments.clone();
    let mut taken_in = smaller(&segments, batch, store.config.segment_bytes() as u64);
    let parts = match together(&taken_in, batch).await {
        Ok(parts) => parts,
        // Another store has taken one in itself, or it cannot be read at the moment; it stays as it is.
        Err(error) => {
            tracing::info!(error = &error as &dyn std::error::Error, "small segments stay");
            taken_in.clear();
            batch.parts.clone()
        }
    };
    let ranges = parts.each_ref().map(|part| part.begin..part.begin + part.bytes.len() as u64);
    let name = Name::new(ranges, batch.close);
    let path = place.path(&format!("{}/{name}", log.key.directory()));
    let built = tokio::task::spawn_blocking(move || build(parts)).await;
    let (object, footer) = built.map_err(|error| Error::Place {
        what: "make an object",
        place: place.name.clone(),
        source: error.into(),
    })?;
    let bytes = object.iter().map(Bytes::len).sum();
    store.wrote(&log.key);
    place.write(&path, object).await?;
    // What was made durable meanwhile may have been without it.
    store.wrote(&log.key);
    let written = Arc::new(Segment::written(place, (name, path), bytes, footer));
    let stays = segments.into_iter().filter(|one| !taken_in.iter().any(|taken| Arc::ptr_eq(one, taken)));
    let cover = Cover::new(stays.chain([written]).collect());
    Ok((cover, taken_in))
}

/// Segments at the end that a new one takes in, the oldest first.
fn smaller(segments: &[Arc<Segment>], batch: &Batch, most: u64) -> Vec<Arc<Segment>> {
    let mut begins = batch.parts.each_ref().map(|part| part.begin);
    let mut bytes = batch.bytes() as u64;
    let mut taken = Vec::new();
    for segment in segments.iter().rev() {
        let own = segment.name.data_bytes();
        let follows = segment.name.ranges.each_ref().map(|range| range.end) == begins;
        if !follows || own > bytes.max(SMALL_BYTES) || own + bytes > most {
            break;
        }
        begins = segment.name.ranges.each_ref().map(|range| range.start);
        bytes += own;
        taken.push(Arc::clone(segment));
    }
    taken.reverse();
    taken
}

async fn together(taken_in: &[Arc<Segment>], batch: &Batch) -> Result<[Part; 3], Error> {
    let mut all: [Vec<Part>; 3] = Default::default();
    for segment in taken_in {
        all.iter_mut().zip(segment.parts().await?).for_each(|(all, part)| all.push(part));
    }
    all.iter_mut().zip(batch.parts.clone()).for_each(|(all, part)| all.push(part));
    Ok(all.map(joined))
}

/// Parts of a stream that follow each other, as one.
fn joined(parts: Vec<Part>) -> Part {
    let bytes = match &parts[..] {
        [one] => one.bytes.clone(),
        parts => parts.iter().map(|part| &*part.bytes).collect::<Vec<_>>().concat().into(),
    };
    let mut parts = parts.into_iter();
    let first = parts.next().unwrap_or_default();
    parts.fold(Part { bytes, ..first }, |mut whole, part| {
        let last = whole.times.last().map_or(0, |(at, _)| at + 1);
        whole.times.extend(part.times.into_iter().filter(|(at, _)| *at >= last));
        whole
    })
}

/// Makes durable what was written to a directory, and tells workers, until it is dropped.
pub(crate) async fn sync(store: Arc<Store>) {
    let Some(every) = store.places.current.sync_every() else { return std::future::pending().await };
    let mut doubtful = HashSet::new();
    loop {
        tokio::time::sleep(every).await;
        sync_once(&store, &mut doubtful).await;
    }
}

/// `doubtful` are logs of which something may not be durable that was written.
pub(crate) async fn sync_once(store: &Store, doubtful: &mut HashSet<Key>) {
    let Written { closed, logs } = store.unsynced.take();
    if doubtful.is_empty() && closed.is_empty() {
        // What grows is made durable with the next one that ends; until then nothing rests on it.
        logs.iter().for_each(|key| store.unsynced.wrote(key));
        return;
    }
    match store.places.current.sync().await {
        Ok(()) if doubtful.is_empty() => store.tell_done(closed),
        Ok(()) => doubtful.extend(logs),
        Err(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "what was written of logs may not be durable; it is fetched from workers again"
            );
            doubtful.extend(logs);
        }
    }
    if doubtful.is_empty() {
        return;
    }
    match store.distrust(doubtful.clone()).await {
        Ok(()) => doubtful.clear(),
        Err(error) => tracing::warn!(
            error = &error as &dyn std::error::Error,
            "what may not be durable cannot be removed; it is tried again"
        ),
    }
}
