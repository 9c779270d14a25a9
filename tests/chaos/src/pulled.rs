//! The pull workers of a run, from their start to the verdict on what they did.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::adder::{self, Adder};
use crate::book::{Book, End, Grant};
use crate::caller::Common;
use crate::doings::{Counts, judge};
use crate::fixture::Fixture;
use crate::history::History;
use crate::journal::Journal;
use crate::python::{Package, Workers};
use crate::recovery::items;
use crate::report::Report;
use crate::rest::{Answer, Rest};
use crate::role::Part;

pub(crate) const CALLS: &str = "calls_show_the_ledger_of_the_journal";
pub(crate) const OUTLIVE: &str = "pull_workers_outlive_every_outage";
/// What an interface leads them through, so that connections break on the way to it, too.
pub(crate) const LINK: &str = "workers";

/// Until the last task is done, after everything is healed. A worker may ask again after 30 s only, and have tasks of 8 s to do one
/// after another.
const DRAIN: Duration = Duration::from_secs(180);
/// Until the tables show it.
const SHOWN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(500);

/// What became of the tasks of pull workers.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Pulled {
    /// Users that pull, each at once.
    pub workers: u64,
    /// Tasks on record.
    pub tasks: u64,
    /// As the workers were told.
    pub counts: Counts,
    /// Doings of what somebody had begun before.
    pub again: u64,
    /// Grants whose lease ran out.
    pub expired: u64,
    /// When the last task was completed, seconds after the last batch had ended.
    pub drained_s: Option<f64>,
}

/// All that pulls and all that writes for it.
pub(crate) struct Crew {
    workers: u64,
    processes: Workers,
    start: Timestamp,
}

impl Crew {
    /// Starts the workers, half of them at either interface.
    pub(crate) fn start(package: &Package, fixture: &Fixture, common: &Common, workers: u64) -> Result<Self> {
        let servers: Vec<_> = fixture
            .of_part(Part::Api)
            .filter_map(|role| role.links.get(LINK))
            .map(|link| format!("http://{}", link.address()))
            .collect();
        let (app, secret) = common.interfaces.first().ok_or_else(|| anyhow!("there is no interface"))?.key();
        let logs = fixture.dir.join("logs");
        let processes = package.start(&servers, &format!("{app}:{secret}"), workers, &logs)?;
        Ok(Self { workers, processes, start: Timestamp::now() })
    }

    /// Those that write tasks.
    pub(crate) fn adders(&self, common: &Arc<Common>, seed: u64) -> Vec<Adder> {
        let numbers = adder::numbers(self.workers);
        numbers.map(|number| Adder::new(common, seed, number, self.workers, self.start)).collect()
    }

    /// Waits until all is done, stops the workers, and judges.
    ///
    /// # Errors
    /// The journal or the witness cannot be read.
    pub(crate) fn finish(
        mut self,
        common: &Common,
        journal: &mut Journal,
        histories: &[History],
        report: &mut Report,
    ) -> Result<()> {
        let drained_s = self.drained(journal, report)?;
        let counts = self.processes.stop();
        journal.catch_up()?;
        let book = Book::of(journal.entries(), self.workers);
        let unlike = unlike(common, &book);
        report.violations.extend(unlike.into_iter().map(|what| format!("{CALLS}: {what}")));
        let counts = counts.map_err(|error| report.violations.push(format!("{OUTLIVE}: {error:#}"))).ok();
        let acknowledged = adder::acknowledged(histories, self.workers);
        let judged = judge(&book, &self.processes.steps()?, &acknowledged, counts);
        report.violations.extend(judged.wrong);
        if book.ended(|end| matches!(end, End::Completed(_))) == 0 {
            report.violations.push(format!("{OUTLIVE}: no task was completed at all"));
        }
        report.pulled = Pulled {
            workers: self.workers,
            tasks: book.tasks.len() as u64,
            counts: counts.unwrap_or_default(),
            again: judged.again,
            expired: book.ended(|end| *end == End::Expired),
            drained_s,
        };
        Ok(())
    }

    fn drained(&self, journal: &mut Journal, report: &mut Report) -> Result<Option<f64>> {
        let begun_at = Instant::now();
        loop {
            journal.catch_up()?;
            let open = Book::of(journal.entries(), self.workers).open();
            if open.is_empty() {
                return Ok(Some(begun_at.elapsed().as_secs_f64()));
            }
            if begun_at.elapsed() > DRAIN {
                let (count, some) = (open.len(), open.iter().take(20).collect::<Vec<_>>());
                report.violations.push(format!(
                    "{OUTLIVE}: {count} tasks are open {DRAIN:?} after everything was healed: {some:?}"
                ));
                return Ok(None);
            }
            thread::sleep(LOOK);
        }
    }
}

/// What calls do not show as the journal has it, once the tables have had time to.
fn unlike(common: &Common, book: &Book) -> Vec<String> {
    let begun_at = Instant::now();
    loop {
        let found: Vec<_> = common.interfaces.iter().filter_map(|it| unlike_at(it, book)).collect();
        if found.is_empty() || begun_at.elapsed() > SHOWN {
            return found;
        }
        thread::sleep(LOOK);
    }
}

fn unlike_at(interface: &Rest, book: &Book) -> Option<String> {
    let grants = all(interface, &format!("/api/pull/grants?group={}", adder::GROUP));
    let tasks = all(interface, &format!("/api/pull/tasks?group={}", adder::GROUP));
    let (grants, tasks) = match (grants, tasks) {
        (Ok(grants), Ok(tasks)) => (grants, tasks),
        (Err(why), _) | (_, Err(why)) => return Some(why),
    };
    let on_record = book.grants.iter().map(|(number, grant)| (*number, grant));
    let shown =
        grants.iter().map(|it| (it["id"].as_i64().unwrap_or_default(), it)).collect::<BTreeMap<_, _>>();
    if shown.len() != book.grants.len() {
        return Some(format!("{} grants are shown, and {} on record", shown.len(), book.grants.len()));
    }
    for (number, grant) in on_record {
        match shown.get(&number) {
            Some(it) if is_shown(grant, it) => {}
            it => return Some(format!("grant {number} is {grant:?}, and shown as {it:?}")),
        }
    }
    let shown: BTreeMap<_, _> =
        tasks.iter().map(|it| (it["id"].as_i64().unwrap_or_default(), &it["totals"])).collect();
    if !shown.keys().eq(&book.tasks) {
        return Some(format!("{} tasks are shown, and {} on record", shown.len(), book.tasks.len()));
    }
    let is_off = |(task, totals): &(&i64, &&Value)| {
        let taken = book.by_task.get(task).map_or(0, Vec::len);
        totals["completed"] != book.completions(**task)
            || totals["taken"] != taken
            || totals["balanced"] != true
    };
    shown.iter().find(is_off).map(|(task, totals)| format!("task {task} is shown with the ledger {totals}"))
}

fn is_shown(grant: &Grant, it: &Value) -> bool {
    let has_result = match &grant.end {
        End::Completed(result) => it["result"] == **result,
        End::Live | End::Returned | End::Expired => it["result"].is_null(),
    };
    has_result && it["task"] == grant.task && it["user"] == *grant.user && it["state"] == grant.end.name()
}

/// A list, part by part.
fn all(interface: &Rest, path: &str) -> Result<Vec<Value>, String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let part = match interface.get(&format!("{path}&limit=1000{cursor}")) {
            Answer::Ok(part) => part,
            Answer::Refused(why) | Answer::Unknown(why) => return Err(format!("{path}: {why}")),
        };
        found.extend_from_slice(items(&part));
        match part["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_grant_is_shown_with_its_end_alone() {
        let grant = |end| Grant { task: 1, user: "python-0".to_owned(), at_ms: 0, end };
        let it = |state: &str, result: Value| json!({"task": 1, "user": "python-0", "state": state, "result": result});
        assert!(is_shown(&grant(End::Completed("x".to_owned())), &it("completed", json!("x"))));
        assert!(!is_shown(&grant(End::Completed("x".to_owned())), &it("completed", json!("y"))));
        assert!(is_shown(&grant(End::Expired), &it("expired", Value::Null)));
        assert!(!is_shown(&grant(End::Expired), &it("completed", json!("x"))));
        assert!(!is_shown(&Grant { task: 2, ..grant(End::Live) }, &it("live", Value::Null)));
    }
}
