//! A journal to project: an owner that writes what it is told, and lives of batches to tell it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidemill_log::{Chain, From, Kind, Log, MemoryLog, Producer, Tip, Topic, append_wait};
use tidemill_model::{Envelope, Event, Recorded, ShardId, Timestamp};
use tidemill_store::{SqliteTables, Tables};

pub(crate) const START_MS: i64 = 1_772_359_200_000;
const LONG: Duration = Duration::from_secs(30);

/// The owner of a partition, as far as readers can tell.
pub(crate) struct Owner {
    partition: u32,
    producer: Arc<dyn Producer>,
    tip: Tip,
    pub(crate) now_ms: i64,
}

impl Owner {
    /// Takes the partition over.
    pub(crate) fn claim(log: &dyn Log, partition: u32) -> Self {
        let producer = log.producer().unwrap();
        let claim = fold(log, partition).head().unwrap().claim("owner", "127.0.0.1:1").unwrap();
        append_wait(&*producer, Topic::Journal, partition, b"", claim, LONG).unwrap();
        let tip = fold(log, partition).head().unwrap().tip();
        Self { partition, producer, tip, now_ms: START_MS }
    }

    /// One decision: these facts, of these shards.
    pub(crate) fn decide(&mut self, events: Vec<(u16, Value)>) -> u64 {
        self.now_ms += 7;
        let recorded = |(shard, event): (u16, Value)| {
            let text = event.to_string();
            let event: Event =
                serde_json::from_value(event).unwrap_or_else(|error| panic!("{text}: {error}"));
            Recorded { shard: ShardId(shard), event }
        };
        let envelope = Envelope {
            now: Timestamp::from_millisecond(self.now_ms).unwrap(),
            resume: None,
            causes: Vec::new(),
            events: events.into_iter().map(recorded).collect(),
        };
        self.write(serde_json::to_vec(&envelope).unwrap())
    }

    /// Decision after decision; gives the offset of the last.
    pub(crate) fn decide_all(&mut self, decisions: Vec<Vec<(u16, Value)>>) -> u64 {
        decisions.into_iter().fold(0, |_, decision| self.decide(decision))
    }

    /// A record of the owner with any body.
    pub(crate) fn write(&mut self, body: Vec<u8>) -> u64 {
        let (record, tip) = self.tip.next(Kind::Envelope, body).unwrap();
        self.tip = tip;
        append_wait(&*self.producer, Topic::Journal, self.partition, b"", record, LONG).unwrap()
    }
}

fn fold(log: &dyn Log, partition: u32) -> Chain {
    let mut chain = Chain::new();
    let end = log.range(Topic::Journal, partition).unwrap().end;
    let mut reader = log.reader(Topic::Journal, partition, From::Start).unwrap();
    let mut next = 0;
    while next < end {
        for record in reader.poll(1000, LONG).unwrap() {
            next = record.offset + 1;
            chain.accept(record.offset, &record.value);
        }
    }
    chain
}

pub(crate) fn log(partitions: u32) -> (MemoryLog, Arc<dyn Log>) {
    let log = MemoryLog::new(partitions);
    (log.clone(), Arc::new(log))
}

pub(crate) struct Database {
    pub(crate) tables: Arc<dyn Tables>,
    pub(crate) directory: tempfile::TempDir,
}

impl Database {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tables = Arc::new(SqliteTables::open(directory.path().join("tables.sqlite")).unwrap());
        Self { tables, directory }
    }

    pub(crate) fn by_hand(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.directory.path().join("tables.sqlite")).unwrap();
        connection.execute_batch(sql).unwrap();
    }
}

pub(crate) fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms).unwrap().to_string()
}

pub(crate) fn definition(id: i64, name: &str, parents: Value) -> Value {
    json!({
        "id": id, "version": 1, "group_id": 1, "parents": parents,
        "spec": {"group": "demo", "name": name, "owner": "ann", "type": "noop", "retries": 1},
    })
}

/// Job `n` of the catalogue.
pub(crate) fn job(n: i64) -> i64 {
    n << 12
}

/// The `n`-th id that shard 1 mints.
pub(crate) fn id(n: i64) -> i64 {
    (n << 12) | 1
}

/// What the catalogue decides before anything runs: a group, a key, two jobs, the second after the first.
pub(crate) fn catalogue() -> Vec<(u16, Value)> {
    let second = definition(job(2), "report", json!([{"job": job(1)}]));
    vec![
        (
            0,
            json!({"catalogue": {"group_defined": {"group": 1, "name": "demo", "shard": 1, "worker_key": "aa", "settings": {}}}}),
        ),
        (
            0,
            json!({"catalogue": {"key_defined": {"app": "etl", "hash": "ff", "role": "user", "groups": ["demo"]}}}),
        ),
        (
            0,
            json!({"job": {"defined": {"definition": definition(job(1), "load", json!([])), "enabled": true}}}),
        ),
        (0, json!({"job": {"defined": {"definition": second, "enabled": true}}})),
    ]
}

/// What the group's shard hears of that, and its worker.
pub(crate) fn shard() -> Vec<(u16, Value)> {
    let second = definition(job(2), "report", json!([{"job": job(1)}]));
    let next = json!({"at": time(START_MS), "logical_time": time(START_MS - 60_000)});
    vec![
        (
            1,
            json!({"replication": {"group_replicated": {"group": 1, "name": "demo", "worker_key": "aa", "settings": {}}}}),
        ),
        (
            1,
            json!({"replication": {"job_replicated": {
                "definition": definition(job(1), "load", json!([])), "enabled": true, "next": next,
            }}}),
        ),
        (1, json!({"replication": {"job_replicated": {"definition": second, "enabled": true}}})),
        (
            1,
            json!({"worker": {"registered": {
                "worker": "w-1", "incarnation": "i-1", "host": "node", "address": "127.0.0.1:2", "slots": {"noop": 4},
            }}}),
        ),
    ]
}

pub(crate) fn generated(n: i64, of: i64, dependencies: Value) -> Value {
    json!({"batch": {"generated": {
        "batch": id(n), "job": of, "version": 1, "logical_time": time(START_MS), "origin": "manual",
        "dependencies": dependencies,
    }}})
}

pub(crate) fn assigned(n: i64, token: i64, attempt: u32) -> Value {
    json!({"batch": {"assigned": {
        "batch": id(n), "attempt": attempt, "token": id(token), "worker": "w-1", "start_by": time(START_MS + 1000),
    }}})
}

pub(crate) fn granted(n: i64, token: i64) -> Value {
    json!({"attempt": {"start_granted": {
        "batch": id(n), "token": id(token), "worker": "w-1", "incarnation": "i-1", "nonce": "x",
    }}})
}

pub(crate) fn ended(n: i64, token: i64, attempt: u32, result: &str) -> Value {
    json!({"attempt": {"finished": {
        "batch": id(n), "token": id(token), "attempt": attempt, "worker": "w-1",
        "outcome": {"result": result, "exit_code": 0}, "usage": {"duration_ms": 5, "cpu_ms": 3, "peak_memory_kib": 9},
    }}})
}

pub(crate) fn finished(n: i64, result: &str) -> Value {
    json!({"batch": {"finished": {"batch": id(n), "result": result}}})
}

/// Numbers that look random and are the same every time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Lives of `count` batches of job 1, interleaved, in decisions of different sizes; ids from `first` on.
pub(crate) fn lives(first: i64, count: i64, seed: u64) -> Vec<Vec<(u16, Value)>> {
    let mut dice = Dice(seed);
    let mut lives: Vec<Vec<Value>> = (first..first + count).map(|n| life(n, &mut dice)).collect();
    lives.iter_mut().for_each(|life| life.reverse());
    let (mut decisions, mut decision) = (Vec::new(), Vec::new());
    while !lives.is_empty() {
        let pick = usize::try_from(dice.below(u64::try_from(lives.len()).unwrap())).unwrap();
        match lives[pick].pop() {
            Some(event) => decision.push((1, event)),
            None => drop(lives.swap_remove(pick)),
        }
        if dice.below(4) == 0 {
            decisions.push(std::mem::take(&mut decision));
        }
    }
    decisions.push(decision);
    decisions.retain(|decision| !decision.is_empty());
    decisions
}

fn life(n: i64, dice: &mut Dice) -> Vec<Value> {
    let parent =
        json!([{"parent": job(9), "mapping": "all", "times": [time(START_MS), time(START_MS + 60_000)]}]);
    let waits = dice.below(2) == 0;
    let mut life = vec![generated(n, job(1), if waits { parent } else { json!([]) })];
    if waits {
        for (at, unmet) in [(START_MS, 1), (START_MS + 60_000, 0)] {
            life.push(json!({"batch": {"dependency_satisfied": {
                "batch": id(n), "parent": job(9), "logical_time": time(at), "unmet": unmet,
            }}}));
        }
    }
    let (returned, failed, granted_token, second) = (3 * n, 3 * n + 1, 3 * n + 2, 3 * n + 2);
    if dice.below(3) == 0 {
        life.push(assigned(n, returned, 1));
        life.push(json!({"batch": {"assignment_returned": {
            "batch": id(n), "token": id(returned), "worker": "w-1", "reason": "not_started",
        }}}));
    }
    if dice.below(3) == 0 {
        life.extend([assigned(n, failed, 1), granted(n, failed), ended(n, failed, 1, "failed")]);
        life.push(json!({"batch": {"retry_scheduled": {"batch": id(n), "attempt": 2, "at": time(START_MS + 5000)}}}));
        life.push(json!({"batch": {"retry_due": {"batch": id(n)}}}));
        life.extend([assigned(n, second, 2), granted(n, second), ended(n, second, 2, "success")]);
    } else {
        life.extend([assigned(n, granted_token, 1), granted(n, granted_token)]);
        life.push(json!({"attempt": {"started": {"batch": id(n), "token": id(granted_token)}}}));
        life.push(ended(n, granted_token, 1, "success"));
    }
    if dice.below(8) > 0 {
        life.push(finished(n, "success"));
    }
    life
}

/// PUL-14: versions of tasks that no kept task and no kept grant names leave the tables; all others stay. Tables that
/// are rebuilt come to the same.
pub(crate) fn versions_that_nobody_names_leave(tables: &Arc<dyn Tables>) {
    use tidemill_projector::{Config, Shutdown, purge, rebuild, verify};
    use tidemill_store::rows::PullTaskVersionRow;
    use tidemill_store::{Row, Select};

    let (_, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    let minutes = |n: i64| {
        json!({
            "executor": {"group": "demo"}, "when": {"every_minutes": {"n": n, "start": time(START_MS)}}, "dispatch_times": 9,
        })
    };
    let once = json!({"executor": {"group": "demo"}, "when": {"once": {"start": time(START_MS)}}});
    let changed = |task: i64, version: i64| {
        (1, json!({"task": {"changed": {"task": id(task), "version": version, "spec": minutes(version)}}}))
    };
    let granted = |task: i64, version: i64, grant: i64| {
        let given = json!({
            "grant": id(grant), "task": id(task), "version": version, "start": time(START_MS), "user": "ann",
        });
        (1, json!({"task": {"granted": given}}))
    };
    let completed = |task: i64, grant: i64| {
        let end = json!({"grant": id(grant), "task": id(task), "start": time(START_MS), "user": "ann", "result": "ok"});
        (1, json!({"task": {"completed": end}}))
    };
    owner.decide(catalogue());
    owner.decide(shard());
    // A rotating task, whose second version somebody has and whose third somebody had, and one for once.
    owner.decide(vec![
        (1, json!({"task": {"created": {"task": id(1), "spec": minutes(1)}}})),
        changed(1, 2),
        granted(1, 2, 10),
        changed(1, 3),
        granted(1, 3, 11),
        completed(1, 11),
        changed(1, 4),
        changed(1, 5),
        (1, json!({"task": {"created": {"task": id(2), "spec": once}}})),
        granted(2, 1, 12),
        completed(2, 12),
    ]);
    let before = Timestamp::from_millisecond(owner.now_ms + 1).unwrap();
    owner.now_ms += 1_000;
    owner.decide(vec![changed(1, 6), granted(1, 6, 13)]);
    let make = || rebuild(&Config::default(), &*log, &**tables, &Shutdown::new(), &mut |_| {}).unwrap();
    make();
    let left = || {
        let rows =
            tables.select(&Select::new(PullTaskVersionRow::TABLE, &["id", "version", "shard"])).unwrap();
        let rows = rows.into_iter().map(|row| PullTaskVersionRow::from_values(row).unwrap());
        rows.map(|row| (row.id >> 12, row.version)).collect::<Vec<_>>()
    };
    let is_what_the_journal_says = || {
        let report = verify(&*log, &**tables, &Shutdown::new(), &mut |_, _| {}).unwrap();
        assert!(report.is_clean(), "{:#?}", report.differences);
    };
    let purged = || purge(&**tables, before, &Shutdown::new()).unwrap();
    assert_eq!(left(), [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 1)]);
    // Grants 11 and 12, and versions 1, 3, 4 and 5 of the first task. The second is still there to be given.
    assert_eq!(purged(), 6);
    assert_eq!(left(), [(1, 2), (1, 6), (2, 1)]);
    assert_eq!(tables.left_grants().unwrap(), [(1, id(12))].into());
    is_what_the_journal_says();
    make();
    assert_eq!(left(), [(1, 2), (1, 6), (2, 1)], "tables that are rebuilt");
    is_what_the_journal_says();

    // Ended, deleted, forgotten by the owner: the second task goes, and its version with it.
    let forgotten = json!({"task": {"purged": {"before": time(START_MS + 1), "tasks": [id(2)]}}});
    owner.decide(vec![completed(1, 10), (1, json!({"task": {"deleted": {"task": id(2)}}})), (1, forgotten)]);
    make();
    purged();
    assert_eq!(left(), [(1, 6)]);
    is_what_the_journal_says();
}
