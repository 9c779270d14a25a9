//! How far the read tables are behind the journal under an even load (TBL-3).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidemill_journal::Progress;
use tidemill_log::{Log, Topic};

use crate::requests::submission;
use crate::row::Row;
use crate::run::{FINISHED, PATIENCE, Run, Stopwatch};

/// Batches that are submitted at once, this often: 1,000 a second.
const AT_ONCE: usize = 50;
const EVERY: Duration = Duration::from_millis(50);
/// How long the tables are given once the rest has ended.
const AFTERWARDS: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl Run<'_> {
    /// `n` batches of type noop, evenly; meanwhile an observer compares the journal's end with what the tables show.
    pub(crate) fn lag(&self, n: usize) -> anyhow::Result<Row> {
        self.warm_up()?;
        let is_over = AtomicBool::new(false);
        let (log, partition, progress) =
            (&*self.fixture.log, self.fixture.journal_partition(), self.fixture.progress());
        thread::scope(|scope| {
            let observer = scope.spawn(|| lags(log, partition, progress, &is_over));
            let watch = Stopwatch::start();
            let sent = self.send_evenly(n);
            let lap = sent.and_then(|()| {
                self.fixture.until(FINISHED, n, PATIENCE)?;
                self.fixture.settle()?;
                Ok(watch.stop())
            });
            is_over.store(true, Ordering::Release);
            let lags = observer.join().map_err(|_| anyhow::anyhow!("the observer of the lag panicked"))??;
            self.row(n, lap?, lags, self.append_limit()?)
        })
    }

    fn send_evenly(&self, n: usize) -> anyhow::Result<()> {
        let begun_at = Instant::now();
        for (number, first) in (0..).zip((0..n).step_by(AT_ONCE)) {
            thread::sleep((EVERY * number).saturating_sub(begun_at.elapsed()));
            let count = AT_ONCE.min(n - first);
            self.fixture.send_all((0..count).map(|_| submission("lag", "noop", None, self.fixture)))?;
        }
        Ok(())
    }
}

/// For every end that the journal was seen to have: how long, in milliseconds, until the tables showed all before it.
fn lags(
    log: &dyn Log,
    partition: u32,
    progress: &Progress,
    is_over: &AtomicBool,
) -> anyhow::Result<Vec<f64>> {
    let mut last = log.range(Topic::Journal, partition)?.end;
    let (mut ends, mut lags) = (VecDeque::new(), Vec::new());
    let mut over_at = None;
    loop {
        if is_over.load(Ordering::Acquire) {
            let since = over_at.get_or_insert_with(Instant::now).elapsed();
            // Where the measurement failed, the tables may never show the rest.
            if ends.is_empty() || since > AFTERWARDS {
                return Ok(lags);
            }
        }
        let end = log.range(Topic::Journal, partition)?.end;
        if end > last {
            ends.push_back((end, Instant::now()));
            last = end;
        }
        while ends.front().is_some_and(|(end, _)| progress.reaches(partition, end - 1)) {
            let shown = ends.pop_front().map(|(_, seen_at)| seen_at.elapsed().as_secs_f64() * 1e3);
            lags.extend(shown);
        }
        thread::sleep(LOOK_AGAIN);
    }
}
