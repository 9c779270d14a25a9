//! From memory into segments, and from small segments into larger ones.
//!
//! A new segment takes in those before it that are not larger than what is new, so a log that grows slowly has few segments, and
//! each byte is written some times, not hundreds of times. Those that it took in are removed once it is there.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Error;
use crate::cover::Cover;
use crate::log::{Batch, Log};
use crate::segment::{Close, Name, Part, Segment, build};
use crate::store::Store;

/// Between two looks at what waits.
const LOOK: Duration = Duration::from_millis(250);
/// Smaller segments are taken in, however little is new.
const SMALL_BYTES: u64 = 64 << 10;

/// Flushes what is due, until it is dropped.
pub(crate) async fn flush(store: Arc<Store>) {
    let most = store.config.calls_in_flight as usize;
    let mut flushing = JoinSet::new();
    let mut told = None;
    loop {
        for log in due(&store) {
            if flushing.len() >= most
                && let Some(outcome) = flushing.join_next().await
            {
                tell(outcome.unwrap_or(Ok(())), &mut told);
            }
            let store = Arc::clone(&store);
            flushing.spawn(async move { flush_log(&store, &log).await });
        }
        tokio::select! {
            () = store.due.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
            Some(outcome) = flushing.join_next() => tell(outcome.unwrap_or(Ok(())), &mut told),
        }
    }
}

/// Says a failure once, as long as it stays the same.
fn tell(outcome: Result<(), Error>, told: &mut Option<String>) {
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

fn due(store: &Store) -> Vec<Arc<Log>> {
    let total = store.config.memory_bytes();
    let is_short = (store.memory.available_permits() as u64) < total / 2;
    let most = if is_short { 1 } else { store.config.segment_bytes() / 4 };
    let (now, after) = (Instant::now(), store.config.flush());
    let mut logs = store.open_logs();
    logs.retain(|log| log.state().is_due(now, after, most));
    logs
}

/// Flushes a log, and closes it where that was the last.
pub(crate) async fn flush_log(store: &Store, log: &Arc<Log>) -> Result<(), Error> {
    let Some(batch) = log.state().begin_flush() else { return Ok(()) };
    match write(store, log, &batch).await {
        Ok((cover, replaced)) => {
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
        Err(error) => {
            log.state().failed();
            Err(error)
        }
    }
}

/// Writes a segment of what is new and of small ones before it. Gives what there is then, and what is not needed any more.
async fn write(store: &Store, log: &Log, batch: &Batch) -> Result<(Cover, Vec<Arc<Segment>>), Error> {
    let place = &store.places.current;
    let segments = log.state().cover.segments.clone();
    let mut taken_in = smaller(&segments, batch, store.config.segment_bytes() as u64);
    let parts = match together(&taken_in, batch).await {
        Ok(parts) => parts,
        // Another store has taken one in itself, or it is damaged; it stays as it is.
        Err(error) if !error.is_of_place() => {
            tracing::info!(error = &error as &dyn std::error::Error, "small segments stay");
            taken_in.clear();
            batch.parts.clone()
        }
        Err(error) => return Err(error),
    };
    let ranges = parts.each_ref().map(|part| part.begin..part.begin + part.bytes.len() as u64);
    let name = Name::new(ranges, batch.close);
    let path = place.path(&format!("{}/{name}", log.key.directory()));
    let built = tokio::task::spawn_blocking(move || build(&parts)).await;
    let (object, footer) = built.map_err(|error| Error::Place {
        what: "make an object",
        place: place.name.clone(),
        source: error.into(),
    })?;
    let bytes = object.len();
    place.write(&path, object).await?;
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
    let mut whole: Option<[Part; 3]> = None;
    for segment in taken_in {
        append(&mut whole, segment.parts().await?);
    }
    append(&mut whole, batch.parts.clone());
    Ok(whole.unwrap_or_default())
}

fn append(whole: &mut Option<[Part; 3]>, parts: [Part; 3]) {
    let Some(whole) = whole else {
        *whole = Some(parts);
        return;
    };
    for (whole, part) in whole.iter_mut().zip(parts) {
        whole.bytes.extend(part.bytes);
        let last = whole.times.last().map_or(0, |(at, _)| at + 1);
        whole.times.extend(part.times.into_iter().filter(|(at, _)| *at >= last));
    }
}

/// Makes durable what was written to a directory, and tells workers, until it is dropped.
pub(crate) async fn sync(store: Arc<Store>) {
    let Some(every) = store.places.current.sync_every() else { return };
    loop {
        tokio::time::sleep(every).await;
        let closed = std::mem::take(&mut *store.unsynced.lock().unwrap_or_else(PoisonError::into_inner));
        if closed.is_empty() {
            continue;
        }
        match store.places.current.sync().await {
            Ok(()) => store.tell_done(closed),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "logs are not durable yet; workers keep them"
                );
                store.unsynced.lock().unwrap_or_else(PoisonError::into_inner).extend(closed);
            }
        }
    }
}
