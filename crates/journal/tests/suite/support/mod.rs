//! A journal to read: an owner that writes what it is told, and lives of batches to tell it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidemill_journal::{FeedReader, Journal, Start};
use tidemill_log::{Chain, From, Kind, Log, MemoryLog, Producer, Tip, Topic, append_wait};
use tidemill_model::{Audience, Envelope, Event, Level, Recorded, ShardId, Timestamp};

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
            level: Level::FIRST,
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

/// What only shards tell one another.
pub(crate) fn internal(number: u64) -> (u16, Value) {
    (1, json!({"partition": {"message_received": {"from": 0, "number": number}}}))
}

/// Journals in which every third record has internal events in front, between and behind, and the last ones of each have
/// nothing else.
pub(crate) fn journals() -> (MemoryLog, Arc<dyn Log>, Vec<u64>) {
    let (memory, log) = log(2);
    let mut catalogues = Owner::claim(&*log, 0);
    catalogues.decide(catalogue());
    let mut owner = Owner::claim(&*log, 1);
    owner.decide(shard());
    for (number, mut decision) in (0..).zip(lives(1, 30, 2)) {
        if number % 3 == 0 {
            decision.insert(0, internal(number));
            decision.insert(decision.len() / 2, internal(number));
            decision.push(internal(number));
            owner.decide(vec![internal(number)]);
        }
        owner.decide(decision);
    }
    let ends = [&mut catalogues, &mut owner].map(|owner| owner.decide_all(vec![vec![internal(99)]; 5]));
    (memory, log, ends.to_vec())
}

/// What the feed has to have: every public event of the journals, by source and id, and how many are internal.
pub(crate) fn public(log: &dyn Log) -> (BTreeSet<String>, usize) {
    let (mut public, mut internal) = (BTreeSet::new(), 0);
    for partition in 0..log.partitions(Topic::Journal) {
        let mut journal = Journal::open(log, partition, "the test", Start::Beginning).unwrap();
        while let Some(entry) = journal.next(Duration::ZERO).unwrap() {
            for (index, recorded) in entry.envelope.events.iter().enumerate() {
                match recorded.event.of_kind().audience {
                    Audience::Public(_) => {
                        public.insert(format!(
                            "tidemill/{}/{partition} {}-{index}",
                            log.log_id(),
                            entry.offset
                        ));
                    }
                    Audience::Internal(_) => internal += 1,
                }
            }
        }
    }
    (public, internal)
}

/// The next events of a feed, at most so many, by source and id.
pub(crate) fn ids(reader: &mut FeedReader, most: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < most {
        let Some((_, event)) = reader.next(Duration::ZERO).unwrap() else { break };
        let json: Value = serde_json::from_slice(&event.json).unwrap();
        ids.push(format!("{} {}", json["source"].as_str().unwrap(), json["id"].as_str().unwrap()));
    }
    ids
}
