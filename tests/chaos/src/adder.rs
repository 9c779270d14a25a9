//! A client that writes tasks for the pull workers in Python, each under one name until somebody says what came of it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::caller::{Caller, Client, Common};
use crate::history::{Action, History, Told};
use crate::rng::Rng;

/// The group whose tasks they are. It runs no jobs.
pub(crate) const GROUP: &str = "gamma";
/// Numbers of these clients, behind those of all others.
const FIRST: u64 = 7;
/// Writes of one keep so many workers busy.
const WORKERS: u64 = 16;
const MOST: u64 = 4;
/// How long a task takes.
const WORK_MS: (u64, u64) = (500, 8_000);
/// Of a task that is done in time. An interface may be stopped for 14 s and the way to it then lose all for as long, the client asks
/// again after up to 30 s, and a machine with few processors runs all of this at once: a shorter lease would measure the machine.
const LEASE_S: u32 = 90;
/// Of a task that its first worker holds for longer than that, the shortest that there is; and how long the others take, who have to
/// come to an end within it.
const SHORT_LEASE_S: u32 = 5;
const SHORT_WORK_MS: (u64, u64) = (10, 1_000);

/// The client.
pub(crate) struct Adder {
    caller: Caller,
    workers: u64,
    start: Timestamp,
}

/// The names of workers.
pub(crate) fn users(workers: u64) -> impl Iterator<Item = String> {
    (0..workers).map(|number| format!("python-{number}"))
}

/// The numbers of the clients that write for so many workers.
pub(crate) fn numbers(workers: u64) -> RangeInclusive<u64> {
    FIRST..=FIRST + (workers / WORKERS).clamp(1, MOST) - 1
}

/// Tasks that were acknowledged.
pub(crate) fn acknowledged(histories: &[History], workers: u64) -> BTreeSet<i64> {
    let begins: Vec<_> = numbers(workers).map(|number| format!("chaos-{number}-")).collect();
    let writes = histories.iter().flat_map(|history| &history.writes);
    let mine = writes.filter(|it| begins.iter().any(|begin| it.key.starts_with(begin)));
    mine.filter_map(|written| match &written.told {
        Told::Ok(answer) => answer["task"].as_i64(),
        Told::Refused(_) | Told::Unknown(_) => None,
    })
    .collect()
}

impl Client for Adder {
    fn one(&mut self) {
        let executor = match self.caller.rng.chance(15) {
            true => json!({"user": format!("python-{}", self.caller.rng.range(0, self.workers))}),
            false => json!({"group": GROUP}),
        };
        let (manner, lease_s, (least_ms, most_ms)) = match self.caller.rng.range(0, 100) {
            0..12 => ("overtime", Some(SHORT_LEASE_S), SHORT_WORK_MS),
            12..24 => ("fails", None, WORK_MS),
            24..62 => ("plain", Some(LEASE_S), WORK_MS),
            _ => ("plain", None, WORK_MS),
        };
        let work_ms = self.caller.rng.range(least_ms, most_ms);
        let body = self.body(&executor, (manner, work_ms), lease_s);
        self.caller.write(Action::Task, "/api/pull/tasks", &body);
    }

    fn into_history(self) -> History {
        self.caller.history
    }

    fn rng(&mut self) -> &mut Rng {
        &mut self.caller.rng
    }
}

impl Adder {
    /// The `number`-th client of a seed. All tasks of a run start at `start`.
    #[must_use]
    pub(crate) fn new(common: &Arc<Common>, seed: u64, number: u64, workers: u64, start: Timestamp) -> Self {
        Self { caller: Caller::new(common, seed, number), workers, start }
    }

    /// A user is given nothing that starts before what it completed last (docs/pull.md). A write that is stopped on its way for
    /// seconds, and had a start of its own, would come when every worker has completed something later, and nobody would get it: by
    /// the rules, and not for a fault. So all tasks have one start.
    fn body(&self, executor: &Value, (manner, work_ms): (&str, u64), lease_s: Option<u32>) -> Value {
        json!({
            "executor": executor, "name": format!("{manner}-{}-{}", self.caller.number, self.caller.sent),
            "parameters": {"manner": manner, "work_ms": work_ms},
            "when": {"once": {"start": self.start}}, "lease_s": lease_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Written;

    #[test]
    fn what_was_acknowledged_is_known_and_nothing_of_others() {
        let written =
            |key: &str, told| Written { key: key.to_owned(), action: Action::Task, tries: 1, at_ms: 0, told };
        let ok = |task: i64| Told::Ok(json!({"task": task}));
        let writes = vec![
            written("chaos-7-1", ok(1)),
            written("chaos-7-2", Told::Unknown(String::new())),
            written("chaos-70-1", ok(2)),
            written("chaos-6-1", ok(3)),
            written("chaos-10-1", ok(4)),
        ];
        let histories = [History { writes, ..History::default() }];
        assert_eq!(acknowledged(&histories, 64), BTreeSet::from([1, 4]));
        assert_eq!(acknowledged(&histories, 8), BTreeSet::from([1]));
    }
}
