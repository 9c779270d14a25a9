//! Many who follow one log.

use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Bench;
use crate::row::percentile;

/// Lines of the job that is followed, two a second.
const LINES: usize = 24;
const BEGINS: &[u8] = b"at=";

/// From the print of a line to the follower: p50 and p99 of all lines and followers, milliseconds.
pub(super) fn measure(bench: &Bench<'_>, followers: usize) -> anyhow::Result<(f64, f64)> {
    let command = format!("sleep 2; for i in $(seq {LINES}); do echo \"at=$(date +%s%N)\"; sleep 0.5; done");
    let job = bench.job("followed", &command)?;
    let batch = bench.run(&job)?;
    let head = bench.client.head("GET", &format!("/api/batches/{batch}/log/tail"), "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut times = runtime.block_on(async {
        let tasks: Vec<_> = (0..followers)
            .map(|_| tokio::spawn(follow(bench.client.address.clone(), head.clone())))
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            let times = task.await??;
            ensure!(times.len() == LINES, "a follower has heard {} lines of {LINES}", times.len());
            all.extend(times);
        }
        Ok(all)
    })?;
    let p50 = percentile(&mut times, 0.5).context("some were measured")?;
    Ok((p50, percentile(&mut times, 0.99).context("some were measured")?))
}

/// How late each line came.
async fn follow(address: String, head: String) -> anyhow::Result<Vec<f64>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    let (mut heard, mut read, mut times) = (Vec::new(), 0, Vec::new());
    loop {
        let silence = Duration::from_secs(60);
        if tokio::time::timeout(silence, stream.read_buf(&mut heard)).await?? == 0 {
            return Ok(times);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
        while let Some(at) = memchr::memmem::find(&heard[read..], BEGINS) {
            let digits = &heard[read + at + BEGINS.len()..];
            let Some(end) = digits.iter().position(|digit| !digit.is_ascii_digit()) else { break };
            let printed: u128 = std::str::from_utf8(&digits[..end])?.parse()?;
            times.push(now.saturating_sub(printed) as f64 / 1e6);
            read += at + BEGINS.len() + end;
        }
    }
}
