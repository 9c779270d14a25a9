//! What has changed since the last look at the batches, line by line.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use tidemill_model::Timestamp;

/// A batch, as far as the demo shows it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Batch {
    pub(super) id: i64,
    pub(super) job_name: String,
    pub(super) logical_time: Timestamp,
    pub(super) run: i64,
    pub(super) state: String,
    pub(super) result: Option<String>,
    pub(super) unmet: i64,
    pub(super) attempt: i64,
    #[serde(default)]
    pub(super) message: String,
    pub(super) generated_at: Timestamp,
    pub(super) started_at: Option<Timestamp>,
    pub(super) retry_at: Option<Timestamp>,
    pub(super) finished_at: Option<Timestamp>,
}

impl Batch {
    /// Whether it can go no further by itself.
    fn is_over(&self) -> bool {
        self.state == "finished"
    }

    fn is_success(&self) -> bool {
        self.result.as_deref() == Some("success")
    }

    /// From its first start to its end.
    fn duration(&self) -> Option<Duration> {
        Duration::try_from(self.finished_at?.duration_since(self.started_at?)).ok()
    }

    /// What it is doing, in a few words.
    fn doing(&self) -> String {
        match (self.state.as_str(), self.result.as_deref()) {
            ("finished", Some(result)) => {
                let took = self.duration().map(|took| format!(" in {}", seconds(took))).unwrap_or_default();
                let why = if self.message.is_empty() { String::new() } else { format!(": {}", self.message) };
                format!("{result}{took}{why}")
            }
            ("waiting", _) if self.unmet > 0 => match self.unmet {
                1 => "waits for 1 job".to_owned(),
                unmet => format!("waits for {unmet} jobs"),
            },
            ("waiting", _) if self.retry_at.is_some() => {
                format!("failed, attempt {} follows", self.attempt + 1)
            }
            ("waiting", _) => "ready".to_owned(),
            ("assigned", _) => "assigned".to_owned(),
            ("running", _) if self.attempt > 1 => format!("runs, attempt {}", self.attempt),
            ("running", _) => "runs".to_owned(),
            (state, _) => state.to_owned(),
        }
    }
}

/// `0.42 s`.
pub(super) fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// What was seen of each batch.
#[derive(Debug, Default)]
pub(super) struct Progress {
    seen: BTreeMap<i64, String>,
}

impl Progress {
    /// One line for each batch that is new or does something else, the oldest first.
    pub(super) fn lines(&mut self, batches: &[Batch]) -> Vec<String> {
        let mut sorted: Vec<_> = batches.iter().collect();
        sorted.sort_by_key(|batch| {
            (batch.finished_at.is_none(), batch.finished_at, batch.generated_at, batch.id)
        });
        let mut lines = Vec::new();
        for batch in sorted {
            let doing = batch.doing();
            if self.seen.get(&batch.id) == Some(&doing) {
                continue;
            }
            let run = if batch.run > 0 { format!(" run {}", batch.run) } else { String::new() };
            let mark = match (batch.is_over(), batch.is_success()) {
                (true, true) => '✓',
                (true, false) => '✗',
                (false, _) => '·',
            };
            lines.push(format!("{mark} {:<16} {}{run}  {doing}", batch.job_name, hour(batch.logical_time)));
            self.seen.insert(batch.id, doing);
        }
        lines
    }
}

/// `2026-01-01 14:00`, UTC.
fn hour(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

/// How the pipeline of one logical time stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Standing {
    /// Something still runs, or can.
    Going,
    /// Every job's newest batch succeeded.
    Done {
        /// From the first generation to the last end.
        took: Duration,
    },
    /// Nothing more can run by itself.
    Stuck {
        /// Batches that failed.
        failed: Vec<Batch>,
        /// Batches that wait for them.
        waiting: Vec<Batch>,
    },
}

/// Looks at the newest batch of each of `jobs` for one logical time.
pub(super) fn standing(batches: &[Batch], jobs: &[String], time: Timestamp) -> Standing {
    let newest: Vec<&Batch> = jobs
        .iter()
        .filter_map(|job| {
            let runs = batches.iter().filter(|batch| batch.job_name == *job && batch.logical_time == time);
            runs.max_by_key(|batch| batch.run)
        })
        .collect();
    if newest.len() == jobs.len() && newest.iter().all(|batch| batch.is_success()) {
        let first = newest.iter().map(|batch| batch.generated_at).min();
        let last = newest.iter().filter_map(|batch| batch.finished_at).max();
        let took =
            first.zip(last).and_then(|(first, last)| Duration::try_from(last.duration_since(first)).ok());
        return Standing::Done { took: took.unwrap_or_default() };
    }
    let failed: Vec<_> = newest.iter().filter(|batch| batch.is_over() && !batch.is_success()).collect();
    let can_go =
        newest.iter().any(|batch| !batch.is_over() && (batch.state != "waiting" || batch.unmet == 0));
    // A batch whose parents have just succeeded may not be seen yet as having them.
    let blocked = |batch: &&&Batch| !batch.is_over() && batch.unmet > 0;
    if failed.is_empty() || can_go || newest.len() < jobs.len() {
        return Standing::Going;
    }
    let cloned = |batches: Vec<&&Batch>| batches.into_iter().map(|batch| (*batch).clone()).collect();
    let waiting = newest.iter().filter(blocked).collect();
    Standing::Stuck { failed: cloned(failed), waiting: cloned(waiting) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(id: i64, job: &str, state: &str, result: Option<&str>, unmet: i64) -> Batch {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let over = state == "finished";
        Batch {
            id,
            job_name: job.to_owned(),
            logical_time: time("2026-01-01T14:00:00Z"),
            run: 0,
            state: state.to_owned(),
            result: result.map(str::to_owned),
            unmet,
            attempt: 1,
            message: if result == Some("failed") { "exit code 3".to_owned() } else { String::new() },
            generated_at: time("2026-01-01T14:20:00Z"),
            started_at: over.then(|| time("2026-01-01T14:20:01Z")),
            retry_at: None,
            finished_at: over.then(|| time("2026-01-01T14:20:01.25Z")),
        }
    }

    #[test]
    fn each_change_is_told_once() {
        let mut progress = Progress::default();
        let first = [batch(1, "a", "running", None, 0), batch(2, "b", "waiting", None, 1)];
        let mut told = progress.lines(&first);
        told.extend(progress.lines(&first));
        let second =
            [batch(1, "a", "finished", Some("success"), 0), batch(2, "b", "finished", Some("failed"), 0)];
        told.extend(progress.lines(&second));
        expect_test::expect![[r#"
            · a                2026-01-01 14:00  runs
            · b                2026-01-01 14:00  waits for 1 job
            ✓ a                2026-01-01 14:00  success in 0.25 s
            ✗ b                2026-01-01 14:00  failed in 0.25 s: exit code 3"#]]
        .assert_eq(&told.join("\n"));
    }

    #[test]
    fn pipeline_is_done_when_the_newest_run_of_every_job_succeeded() {
        let jobs = ["a".to_owned(), "b".to_owned()];
        let time = "2026-01-01T14:00:00Z".parse().unwrap();
        let ok = |id, job| batch(id, job, "finished", Some("success"), 0);
        let bad = |id, job| batch(id, job, "finished", Some("failed"), 0);
        assert_eq!(standing(&[ok(1, "a")], &jobs, time), Standing::Going);
        assert_eq!(standing(&[ok(1, "a"), batch(2, "b", "running", None, 0)], &jobs, time), Standing::Going);
        let rerun = Batch { run: 1, ..ok(3, "a") };
        let took = Duration::from_millis(1250);
        assert_eq!(standing(&[bad(1, "a"), ok(2, "b"), rerun], &jobs, time), Standing::Done { took });
    }

    #[test]
    fn pipeline_is_stuck_when_only_batches_behind_a_failed_one_are_left() {
        let jobs = ["a".to_owned(), "b".to_owned()];
        let time = "2026-01-01T14:00:00Z".parse().unwrap();
        let bad = batch(1, "a", "finished", Some("failed"), 0);
        let behind = batch(2, "b", "waiting", None, 1);
        let stuck = Standing::Stuck { failed: vec![bad.clone()], waiting: vec![behind.clone()] };
        assert_eq!(standing(&[bad.clone(), behind], &jobs, time), stuck);
        assert_eq!(standing(&[bad, batch(2, "b", "waiting", None, 0)], &jobs, time), Standing::Going);
    }
}
