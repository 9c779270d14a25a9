//! What the machine gives without Tidemill: the log as it is, and processes as they are.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_log::{AppendError, From, Log, Producer, Topic, append_wait};

/// What processes are measured with: a shell's text that does nothing.
pub(crate) const PROGRAM: &str = "true";

const PATIENCE: Duration = Duration::from_secs(60);

/// Records of `bytes` per second that the log takes and gives back at the same time.
pub(crate) fn records_per_second(log: &Arc<dyn Log>, count: usize, bytes: usize) -> anyhow::Result<f64> {
    let mut reader = log.reader(Topic::DeadLetters, 0, From::End)?;
    let producer = log.producer()?;
    // A new producer has to be introduced to a broker first, which takes half a second.
    append_wait(producer.as_ref(), Topic::DeadLetters, 0, b"raw", vec![b'x'; bytes], PATIENCE)?;
    while reader.poll(1, Duration::from_secs(1))?.is_empty() {}
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
    Ok(crate::row::percentile(&mut times, 0.5).unwrap_or_default())
}

/// Processes per second that this machine starts and sees end: the program that the workload runs, as many at
/// once, on the same file system. Nothing is written by or about them.
pub(crate) fn processes_per_second(directory: &Path, count: usize, at_once: u32) -> anyhow::Result<f64> {
    let script = directory.join("raw.sh");
    std::fs::write(&script, PROGRAM)?;
    let left = AtomicUsize::new(count);
    let start_and_wait = || {
        while left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok() {
            let mut command = Command::new("/bin/sh");
            command.arg(&script).current_dir(directory);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let status = command.status()?;
            anyhow::ensure!(status.success(), "the program ended with {status}");
        }
        Ok(())
    };
    let started = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(start_and_wait)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a starting thread panicked"))?
        })
    })?;
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

/// Requests per second that so many connections make to a listener that only answers, on one thread beside the load.
pub(crate) async fn exchanges_per_second(connections: usize, lasts: Duration) -> anyhow::Result<f64> {
    use crate::pull::http::{Connection, echo};
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 39\r\n\r\n\
        {\"grant\":null,\"retry_after_s\":30   }";
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    listener.set_nonblocking(true)?;
    thread::Builder::new().name("echo".to_owned()).spawn(move || -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(echo(stream, ANSWER));
            }
        })
    })?;
    let mut clients = tokio::task::JoinSet::new();
    let begun = Instant::now();
    for _ in 0..connections {
        let mut connection = Connection::open(&address, "bench:0123456789abcdef0123456789abcdef").await?;
        clients.spawn(async move {
            let mut count = 0_usize;
            while begun.elapsed() < lasts {
                connection.post("/api/pull", r#"{"user":"user-1234"}"#).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let counts = clients.join_all().await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    Ok(counts.into_iter().sum::<usize>() as f64 / begun.elapsed().as_secs_f64())
}
