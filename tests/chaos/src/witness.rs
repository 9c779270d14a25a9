//! What attempts left on disk, against what the journal says of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;

use anyhow::Result;
use rustix::fs::{FlockOperation, flock};
use tidemill_model::{AttemptEvent, AttemptResult, BatchEvent, Event, JobEvent};

use crate::journal::{Entry, What};

/// What the journal says of attempts of programs.
#[derive(Default)]
struct Record {
    /// Jobs that the engine or the worker completes without a process.
    without_process: BTreeSet<i64>,
    job_of: BTreeMap<i64, i64>,
    granted: BTreeSet<i64>,
    succeeded: BTreeMap<i64, i64>,
}

impl Record {
    fn of(entries: &[Entry]) -> Self {
        let mut record = Self::default();
        for entry in entries {
            let What::Envelope(envelope) = &entry.what else { continue };
            for recorded in &envelope.events {
                record.follow(&recorded.event);
            }
        }
        record
    }

    fn follow(&mut self, event: &Event) {
        match event {
            Event::Job(JobEvent::Defined { definition, .. })
                if definition.spec.job_type.as_str() != "shell" =>
            {
                self.without_process.insert(definition.id.0);
            }
            Event::Batch(BatchEvent::Generated { batch, job, .. }) => {
                self.job_of.insert(batch.0, job.0);
            }
            Event::Attempt(AttemptEvent::StartGranted { token, .. }) => {
                self.granted.insert(token.0);
            }
            Event::Attempt(AttemptEvent::Finished { batch, token, outcome, .. })
                if outcome.result == AttemptResult::Success =>
            {
                self.succeeded.insert(token.0, batch.0);
            }
            _ => {}
        }
    }

    fn has_process(&self, batch: i64) -> bool {
        self.job_of.get(&batch).is_some_and(|job| !self.without_process.contains(job))
    }
}

/// What was seen on disk.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Attempts that began.
    pub starts: usize,
    /// What is wrong.
    pub wrong: Vec<String>,
}

/// Compares the marks in `dir` with the journal.
///
/// # Errors
/// The marks cannot be read.
pub(crate) fn check(dir: &Path, entries: &[Entry]) -> Result<Seen> {
    let lines = match fs::read_to_string(dir.join("lines")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        lines => lines?,
    };
    let mut seen = check_lines(&lines, entries);
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("lock.")
            && flock(File::open(&path)?, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            seen.wrong.push(format!("a process of {name} lives although every attempt has ended"));
        }
    }
    Ok(seen)
}

fn check_lines(lines: &str, entries: &[Entry]) -> Seen {
    let record = Record::of(entries);
    let mut seen = Seen::default();
    let (mut started, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for line in lines.lines() {
        let mut words = line.split(' ');
        let (word, token) = (words.next().unwrap_or_default(), words.next().and_then(|it| it.parse().ok()));
        let Some(token) = token else {
            seen.wrong.push(format!("a mark cannot be read: {line}"));
            continue;
        };
        match word {
            "start" => {
                seen.starts += 1;
                if !started.insert(token) {
                    seen.wrong.push(format!("one token started twice: {line}"));
                }
                if !record.granted.contains(&token) {
                    seen.wrong.push(format!("started without a grant: {line}"));
                }
            }
            "end" => {
                ended.insert(token);
            }
            "overlap" => seen.wrong.push(format!("two live attempts of one logical time: {line}")),
            _ => {}
        }
    }
    for (token, batch) in &record.succeeded {
        if record.has_process(*batch) && !(started.contains(token) && ended.contains(token)) {
            seen.wrong.push(format!("attempt {token} of batch {batch} succeeded on record, not on disk"));
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entries(events: &[Value]) -> Vec<Entry> {
        let events: Vec<_> = events.iter().map(|event| json!({"shard": 1, "event": event})).collect();
        let envelope = json!({"now": "2026-01-01T00:00:00Z", "events": events});
        let envelope = serde_json::from_value(envelope).unwrap();
        vec![Entry { partition: 1, offset: 1, at_ms: 0, what: What::Envelope(Box::new(envelope)) }]
    }

    fn succeeded(token: i64) -> Vec<Entry> {
        entries(&[
            json!({"batch": {"generated": {
                "batch": 5, "job": 1, "version": 1, "logical_time": "2026-01-01T00:00:00Z", "origin": "manual",
            }}}),
            json!({"attempt": {"start_granted": {
                "batch": 5, "token": token, "worker": "w", "incarnation": "i", "nonce": "n",
            }}}),
            json!({"attempt": {"finished": {
                "batch": 5, "token": token, "attempt": 1, "worker": "w", "outcome": {"result": "success", "exit_code": 0},
            }}}),
        ])
    }

    fn wrong(lines: &str, entries: &[Entry]) -> usize {
        check_lines(lines, entries).wrong.len()
    }

    #[test]
    fn each_success_on_record_is_on_disk_once() {
        let journal = succeeded(7);
        assert_eq!(wrong("start 7 5 1\nend 7 5 1\n", &journal), 0);
        assert_eq!(wrong("start 7 5 1\n", &journal), 1);
        assert_eq!(wrong("", &journal), 1);
        assert_eq!(wrong("start 7 5 1\nstart 7 5 1\nend 7 5 1\n", &journal), 1);
    }

    #[test]
    fn start_without_a_grant_and_two_live_attempts_are_found() {
        let journal = succeeded(7);
        let good = "start 7 5 1\nend 7 5 1\n";
        assert_eq!(wrong(&format!("{good}start 8 5 2\n"), &journal), 1);
        assert_eq!(wrong(&format!("{good}overlap 7 5 x\n"), &journal), 1);
        assert_eq!(wrong(&format!("{good}garbled\n"), &journal), 1);
    }

    #[test]
    fn live_process_is_found_by_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let held = File::create(dir.path().join("lock.x")).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        assert_eq!(check(dir.path(), &[]).unwrap().wrong.len(), 1);
        drop(held);
        assert_eq!(check(dir.path(), &[]).unwrap().wrong.len(), 0);
    }
}
