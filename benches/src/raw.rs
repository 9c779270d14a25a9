//! What the machine gives without Tidemill: the log as it is, and processes as they are.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_log::{AppendError, From, Log, Producer, Topic, append_wait};

const PATIENCE: Duration = Duration::from_secs(60);

/// Records of `bytes` per second that the log takes and gives back at the same time.
pub(crate) fn records_per_second(log: &Arc<dyn Log>, count: usize, bytes: usize) -> anyhow::Result<f64> {
    let mut reader = log.reader(Topic::DeadLetters, 0, From::End)?;
    let producer = log.producer()?;
    let started = Instant::now();
    let appending = thread::spawn(move || {
        for _ in 0..count {
            append_when_there_is_room(producer.as_ref(), Topic::DeadLetters, 0, b"raw", vec![b'x'; bytes]);
        }
        producer.flush(PATIENCE)
    });
    let mut read = 0;
    while read < count {
        read += reader.poll(10_000, Duration::from_secs(1))?.len();
    }
    let elapsed = started.elapsed();
    appending.join().map_err(|_| anyhow::anyhow!("the appending thread panicked"))??;
    Ok(count as f64 / elapsed.as_secs_f64())
}

/// Milliseconds of one durable append and its read back, the median of `count`.
pub(crate) fn append_and_read_ms(log: &Arc<dyn Log>, count: usize) -> anyhow::Result<f64> {
    let mut reader = log.reader(Topic::DeadLetters, 0, From::End)?;
    let producer = log.producer()?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        append_wait(producer.as_ref(), Topic::DeadLetters, 0, b"raw", vec![b'x'; 400], PATIENCE)?;
        while reader.poll(1, Duration::from_secs(1))?.is_empty() {}
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(crate::report::percentile(&mut times, 0.5).unwrap_or_default())
}

/// Processes per second that this machine starts and sees end, two at a time.
pub(crate) fn processes_per_second(count: usize) -> anyhow::Result<f64> {
    let started = Instant::now();
    let left = Arc::new(AtomicUsize::new(count));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let left = Arc::clone(&left);
            thread::spawn(move || {
                while left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok() {
                    Command::new("/bin/true").stdin(Stdio::null()).stdout(Stdio::null()).status()?;
                }
                Ok::<_, std::io::Error>(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a starting thread panicked"))??;
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

/// Appends without waiting for the outcome, but waits while the producer's queue is full.
pub(crate) fn append_when_there_is_room(
    producer: &dyn Producer,
    topic: Topic,
    partition: u32,
    key: &[u8],
    value: Vec<u8>,
) {
    loop {
        let (full, was_full) = mpsc::sync_channel(1);
        let done = Box::new(move |result: Result<u64, AppendError>| {
            if result == Err(AppendError::Full) {
                // Told inside `append`, whose caller looks right after.
                let _ = full.try_send(());
            }
        });
        producer.append(topic, partition, key, value.clone(), done);
        if was_full.try_recv().is_err() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
