//! Records of one partition, read ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use tidemill_log::{From, Log, Record, Topic, Waker};

use crate::Error;

/// Batches of records on their way from a reader to the owner.
pub(super) const READ_AHEAD: usize = 8;
/// Until a reader looks whether it is still wanted.
const READ_PATIENCE: Duration = Duration::from_millis(500);

/// What a reader gave, or why it gives no more.
pub(super) type Read = Result<Vec<Record>, tidemill_log::Error>;

/// A thread that reads one partition into a bounded channel. Ends when dropped.
pub(super) struct Feed {
    pub(super) records: Receiver<Read>,
    waker: Waker,
    /// Nobody listens any more. A channel that is full when its receiver goes stays full, so it cannot tell.
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    pub(super) fn start(
        log: &Arc<dyn Log>,
        topic: Topic,
        partition: u32,
        from: From,
        batch: usize,
    ) -> Result<Self, Error> {
        let reader = log.reader(topic, partition, from);
        let mut reader = reader.map_err(Error::log(partition, "opening a reader"))?;
        let waker = reader.waker();
        let (sender, records) = bounded::<Read>(READ_AHEAD);
        let name = format!("{topic}-{partition}");
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let read = move || {
            while !is_over.load(Ordering::Acquire) {
                let read = reader.poll(batch, READ_PATIENCE);
                let ended = read.is_err();
                let idle = read.as_ref().is_ok_and(Vec::is_empty);
                if !idle && (sender.send(read).is_err() || ended) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(name).spawn(read).map_err(Error::Thread)?;
        Ok(Self { records, waker, over, thread: Some(thread) })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.records = bounded(0).1;
        self.over.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A reader that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_log::{MemoryLog, append_wait};

    use super::*;

    /// While an owner waits for a broker that does not answer, nobody takes what its readers have.
    #[test]
    fn feed_that_is_full_ends_when_dropped() {
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(1));
        let producer = log.producer().unwrap();
        for _ in 0..=READ_AHEAD {
            append_wait(&*producer, Topic::Commands, 0, b"", vec![0], READ_PATIENCE).unwrap();
        }
        let feed = Feed::start(&log, Topic::Commands, 0, From::Start, 1).unwrap();
        while !feed.records.is_full() {
            thread::yield_now();
        }
        // One more record waits for room; taken one, the reader has none left and idles beside a full channel.
        feed.records.recv().unwrap().unwrap();
        while !feed.records.is_full() {
            thread::yield_now();
        }
        let (ended, has_ended) = bounded(1);
        thread::spawn(move || {
            drop(feed);
            ended.send(()).unwrap();
        });
        has_ended.recv_timeout(10 * READ_PATIENCE).expect("a feed ends within its patience");
    }
}
