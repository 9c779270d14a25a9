//! A site that grants and ends tasks, its tables, and ways to lose a sink in the middle of its work.

mod crowded;
mod cut;
mod dying;
#[cfg(feature = "tls")]
pub(crate) mod encrypted;
// An owner that writes what it is told, as the projector's tests have it.
#[allow(dead_code, reason = "the projector's tests use the rest")]
#[path = "../../../../projector/tests/suite/support/mod.rs"]
mod support;

pub(crate) use crowded::Crowded;
pub(crate) use cut::Cut;
pub(crate) use dying::dying;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Database, Dice, Owner, START_MS, time};
use tidemill_journal::Shutdown;
use tidemill_log::Log;
use tidemill_model::SinkPartitionStatus;
use tidemill_sinks::{Error, Opener, Progress, run_with};
use tidemill_store::rows::PullGrantRow;
use tidemill_store::{PageRequest, PullGrantFilter, ReadPullTables};

/// Longer than anything takes here.
pub(crate) const LONG: Duration = Duration::from_secs(60);
const PARTITIONS: u32 = 2;

/// Waits until something holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let begun_at = Instant::now();
    while !holds() {
        assert!(begun_at.elapsed() < LONG, "not within {LONG:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A log, its read tables that a projector keeps, and owners that decide.
pub(crate) struct Fixture {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) database: Database,
    owners: Vec<Owner>,
    /// The last record with a fact about a grant, by partition.
    pub(crate) ends: Vec<u64>,
    grants: i64,
    /// Of each partition: grant, task, start, user.
    live: Vec<Vec<(i64, i64, i64, String)>>,
    dice: Dice,
    projector: Option<JoinHandle<()>>,
    shutdown: Shutdown,
}

impl Fixture {
    /// With two tasks in each of two partitions.
    pub(crate) fn new(seed: u64) -> Self {
        let (_, log) = support::log(PARTITIONS);
        let mut owners: Vec<_> = (0..PARTITIONS).map(|partition| Owner::claim(&*log, partition)).collect();
        for (partition, owner) in owners.iter_mut().enumerate() {
            let shard = partition as u16 + 1;
            owner.decide(vec![(
                shard,
                json!({"replication": {"group_replicated": {"group": shard, "name": "demo", "worker_key": "aa", "settings": {}}}}),
            )]);
            owner.decide(vec![
                (shard, created(task_of(partition, 0))),
                (shard, created(task_of(partition, 1))),
            ]);
        }
        let database = Database::new();
        let shutdown = Shutdown::new();
        let projector = {
            let (log, tables, told) = (Arc::clone(&log), Arc::clone(&database.tables), shutdown.clone());
            let progress = tidemill_journal::Progress::new();
            let config = tidemill_projector::Config {
                min_write_interval_ms: 1,
                cached_rows: 100,
                ..tidemill_projector::Config::default()
            };
            thread::spawn(move || tidemill_projector::run(&config, &log, &tables, &progress, &told).unwrap())
        };
        let (ends, live) = (vec![0; PARTITIONS as usize], vec![Vec::new(); PARTITIONS as usize]);
        let (dice, projector) = (Dice(seed), Some(projector));
        Self { log, database, owners, ends, grants: 0, live, dice, projector, shutdown }
    }

    /// Decides so many times in each partition: tasks are given, completed, given back, run out, and changed.
    pub(crate) fn works(&mut self, decisions: usize) {
        for _ in 0..decisions {
            for partition in 0..self.owners.len() {
                self.decides(partition);
            }
        }
    }

    fn decides(&mut self, partition: usize) {
        let shard = partition as u16 + 1;
        let mut events = Vec::new();
        for _ in 0..=self.dice.below(4) {
            self.grants += 1;
            let (grant, task) = (grant_of(partition, self.grants), task_of(partition, self.grants % 2));
            let user = format!("u{}", self.grants);
            let mut given = json!({
                "grant": grant, "task": task, "version": 1, "start": time(START_MS), "user": user,
            });
            if self.grants % 3 == 0 {
                given["expires_at"] = json!(time(START_MS + 60_000));
            }
            events.push((shard, json!({"task": {"granted": given}})));
            self.live[partition].push((grant, task, START_MS, user));
        }
        for _ in 0..self.dice.below(5) {
            if self.live[partition].is_empty() {
                break;
            }
            let which = self.dice.below(self.live[partition].len() as u64) as usize;
            let (grant, task, start, user) = self.live[partition].swap_remove(which);
            let mut end = json!({"grant": grant, "task": task, "start": time(start), "user": user});
            let kind = ["completed", "grant_returned", "grant_expired", "completed"];
            let kind = kind[self.dice.below(4) as usize];
            match kind {
                "completed" => end["result"] = json!(format!("did {grant}, it's \"done\" \u{1f600}\n")),
                "grant_returned" => {
                    end["by"] = json!({"app": "etl", "user": "ann"});
                    end["reason"] = json!("away");
                }
                _ => {}
            }
            events.push((shard, json!({"task": {kind: end}})));
        }
        self.ends[partition] = self.owners[partition].decide(events);
    }

    /// The next decisions are made on the next day.
    pub(crate) fn sleeps(&mut self) {
        self.owners.iter_mut().for_each(|owner| owner.now_ms += 86_400_000);
    }

    /// Starts sinks; they run until `stop`.
    pub(crate) fn start(&self, openers: Vec<Opener>) -> Running {
        let (progress, shutdown) = (Progress::new(), Shutdown::new());
        let (log, tables) = (Arc::clone(&self.log), Arc::clone(&self.database.tables));
        let (shown, told) = (progress.clone(), shutdown.clone());
        let thread = thread::spawn(move || run_with(openers, &log, &tables, &shown, &told));
        Running { progress, shutdown, thread }
    }

    /// What the tables say of all grants, by id.
    pub(crate) fn grants(&self) -> BTreeMap<i64, PullGrantRow> {
        let tables = &self.database.tables;
        for (partition, end) in self.ends.iter().enumerate() {
            let shown = tidemill_store::wait_in_tables(&**tables, partition as u32, *end, LONG);
            assert!(shown.unwrap());
        }
        let (mut grants, mut page) = (BTreeMap::new(), PageRequest::first(500));
        loop {
            let found = tables.pull_grants(&PullGrantFilter::default(), &page).unwrap();
            grants.extend(found.items.into_iter().map(|row| (row.id, row)));
            match found.next {
                Some(next) => page = PageRequest { after: Some(next), ..PageRequest::first(500) },
                None => return grants,
            }
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.shutdown.request();
        if let Some(projector) = self.projector.take() {
            // A panic of its own is told there.
            let _ = projector.join();
        }
    }
}

/// Sinks that run.
pub(crate) struct Running {
    pub(crate) progress: Progress,
    shutdown: Shutdown,
    thread: JoinHandle<Result<(), Error>>,
}

impl Running {
    /// All partitions of all sinks.
    pub(crate) fn partitions(&self) -> Vec<SinkPartitionStatus> {
        self.progress.sinks(|_| 0).into_iter().flat_map(|sink| sink.partitions).collect()
    }

    /// Waits until every sink has stored all that the site decided.
    pub(crate) fn catch_up(&self, fixture: &Fixture) {
        until("sinks have caught up", || {
            let all = self.partitions();
            assert_eq!(all.iter().find(|it| it.stopped), None);
            !all.is_empty() && all.iter().all(|it| it.stored >= Some(fixture.ends[it.partition as usize]))
        });
    }

    /// Has the site decide so many times, and waits until a sink has stored part of that.
    pub(crate) fn stores(&self, fixture: &mut Fixture, decisions: usize) {
        let ends = fixture.ends.clone();
        fixture.works(decisions);
        let is_part = |it: &SinkPartitionStatus| it.stored > Some(ends[it.partition as usize]);
        until("a part is stored", || self.partitions().iter().any(is_part));
    }

    /// The same again and again, so often at least, until enough has happened: how much goes in one piece depends on
    /// how threads come about.
    pub(crate) fn stores_until(
        &self,
        fixture: &mut Fixture,
        (rounds, decisions): (usize, usize),
        what: &str,
        enough: impl Fn() -> bool,
    ) {
        let begun_at = Instant::now();
        (0..rounds).for_each(|_| self.stores(fixture, decisions));
        while !enough() {
            assert!(begun_at.elapsed() < 3 * LONG, "not within {:?}: {what}", 3 * LONG);
            self.stores(fixture, decisions);
        }
    }

    /// Waits until every partition goes on no more; why the first does not.
    pub(crate) fn stops(&self) -> String {
        until("sinks stop", || {
            let all = self.partitions();
            all.len() == PARTITIONS as usize && all.iter().all(|it| it.stopped)
        });
        self.partitions().remove(0).error.unwrap()
    }

    /// An orderly end.
    pub(crate) fn stop(self) -> Result<(), Error> {
        self.shutdown.request();
        self.thread.join().unwrap()
    }
}

/// Ids as shards mint them.
fn task_of(partition: usize, n: i64) -> i64 {
    ((n + 1) << 12) | (partition as i64 + 1)
}

fn grant_of(partition: usize, n: i64) -> i64 {
    ((n + 1_000) << 12) | (partition as i64 + 1)
}

/// What the parameters of every task are, whatever columns and indexes make of them.
pub(crate) fn parameters(task: i64) -> Value {
    json!({"path": format!("/a/{task}"), "share": 0.1, "deep": {"list": [1, "two", null]}, "text": "it's ü\u{1f600}"})
}

fn created(task: i64) -> Value {
    json!({"task": {"created": {"task": task, "spec": {
        "executor": {"group": "demo"}, "name": "count", "template": "copy", "parameters": parameters(task),
        "when": {"once": {"start": time(START_MS)}}, "dispatch_times": 1_000_000,
    }}}})
}
