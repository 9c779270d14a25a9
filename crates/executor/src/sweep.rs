//! CLN-1: output of attempts that ended long ago is removed when the worker begins, and then once a day, at a time of day of the
//! machine's own zone or of another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use jiff::tz::TimeZone;
use tidemill_model::{HourMinute, Sweep, Timestamp};

use crate::data_dir::{Attempts, Swept};
use crate::thread::Repeating;
use crate::worker::Input;
use crate::{Config, Error};

/// From one look at the clock to the next.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// When to sweep.
#[derive(Debug, Clone)]
pub(crate) struct Daily {
    at: HourMinute,
    zone: TimeZone,
}

impl Daily {
    pub(crate) fn of(config: &Config) -> Result<Self, Error> {
        let zone = match &config.sweep_zone {
            None => TimeZone::system(),
            Some(name) => TimeZone::get(name).map_err(|_| Error::Config {
                field: "sweep_zone",
                value: name.clone(),
                rule: "has to be a time zone of the IANA database, as Europe/Berlin".to_owned(),
            })?,
        };
        Ok(Self { at: config.sweep_at, zone })
    }

    /// The first one after `now`. A time that the clocks pass over comes when they have, one that comes twice counts once.
    fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let today = now.to_zoned(self.zone.clone()).date();
        let days = [Some(today), today.tomorrow().ok()];
        let at = |date: jiff::civil::Date| date.to_datetime(self.at.civil()).to_zoned(self.zone.clone()).ok();
        let times = days.into_iter().flatten().filter_map(at).map(|at| Timestamp::from(at.timestamp()));
        times.into_iter().find(|at| *at > now)
    }
}

/// The thread that sweeps.
pub(crate) struct Sweeper {
    thread: Repeating,
    is_over: Arc<AtomicBool>,
}

impl Sweeper {
    /// Sweeps at once, then daily; each result is told.
    pub(crate) fn start(
        attempts: Attempts,
        keep: Duration,
        daily: Daily,
        inputs: Sender<Vec<Input>>,
    ) -> Result<Self, Error> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let mut next = None;
        let work = move || {
            let now = Timestamp::from(jiff::Timestamp::now());
            if next.is_some_and(|next| now < next) {
                return;
            }
            // Without a next one, of a clock at the end of time, there is none any more.
            next = Some(daily.next(now).unwrap_or(Timestamp::MAX));
            let swept = sweep(&attempts, keep, now, &ends);
            let _ = inputs.send(vec![Input::Swept(Box::new(swept))]);
        };
        let thread = Repeating::start("sweep", "the thread that sweeps", LOOK_EVERY, work)?;
        Ok(Self { thread, is_over })
    }

    /// One that is under way ends before its next directory.
    pub(crate) fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.stop();
    }
}

fn sweep(attempts: &Attempts, keep: Duration, now: Timestamp, ends: &AtomicBool) -> Sweep {
    let begun = Instant::now();
    let Swept { sweep: mut swept, not_shipped } = attempts.sweep(keep, now, &|| ends.load(Ordering::Relaxed));
    swept.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let Sweep { removed, removed_bytes, failed, .. } = swept;
    if failed > 0 {
        tracing::warn!(removed, removed_bytes, failed, first = ?swept.failures, "some output of old attempts stays");
    } else if removed > 0 {
        tracing::info!(removed, removed_bytes, "removed the output of old attempts");
    }
    if not_shipped > 0 {
        tracing::warn!(
            attempts = not_shipped,
            "removed output that no store of logs has as a whole: it was kept for the whole retention, and none took it"
        );
    }
    swept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLN-1: daily at its time of day in its zone, also on the days on which the clocks are changed.
    #[test]
    fn sweeps_are_daily_at_their_time() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let daily = Daily { at: HourMinute::try_from("02:10").unwrap(), zone };
        let next = |now: &str| daily.next(now.parse().unwrap()).unwrap().to_string();
        for (now, expected) in [
            ("2026-01-10T00:00:00Z", "2026-01-10T01:10:00.000Z"),
            ("2026-01-10T01:10:00Z", "2026-01-11T01:10:00.000Z"),
            ("2026-07-10T00:09:59Z", "2026-07-10T00:10:00.000Z"),
            // 02:10 is passed over, and comes twice.
            ("2026-03-29T00:00:00Z", "2026-03-29T01:10:00.000Z"),
            ("2026-10-24T23:00:00Z", "2026-10-25T00:10:00.000Z"),
            ("2026-10-25T00:10:00Z", "2026-10-26T01:10:00.000Z"),
        ] {
            assert_eq!(next(now), expected, "after {now}");
        }
    }
}
