//! The fold, by itself.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidemill_directory::{Facts, Home, Homed};
use tidemill_journal::{Journal, Start};
use tidemill_log::{Log, MemoryLog, Topic, append_wait};
use tidemill_model::{GroupId, JobId, ShardId, UserName};

use crate::support::{Owner, definition, job, lives, log};

const LONG: Duration = Duration::from_secs(30);

pub(crate) fn group(id: i32, name: &str, shard: u16) -> (u16, Value) {
    let group = json!({"group": id, "name": name, "shard": shard, "worker_key": "aa", "settings": {}});
    (0, json!({"catalogue": {"group_defined": group}}))
}

pub(crate) fn key(app: &str, hash: &str) -> (u16, Value) {
    let key = json!({"app": app, "hash": hash, "role": "user", "groups": ["demo"], "run_as": ["etl"]});
    (0, json!({"catalogue": {"key_defined": key}}))
}

pub(crate) fn revoked(app: &str) -> (u16, Value) {
    (0, json!({"catalogue": {"key_revoked": {"app": app}}}))
}

fn defined(n: i64, group: i32, more: &Value) -> Value {
    let mut definition = definition(job(n), &format!("job-{n}"), json!([]));
    definition["group_id"] = json!(group);
    definition["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    definition
}

fn user(name: &str) -> UserName {
    UserName::try_from(name).unwrap()
}

/// Some of all that is kept, changed and removed, with records between it that do not count, and what a group's shard decides.
pub(crate) fn journal() -> (MemoryLog, Arc<dyn Log>) {
    let (memory, log) = log(1);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(vec![group(1, "demo", 1), key("etl", "ff"), key("gone", "01")]);
    garbage(&*log);
    let assigned = json!({"group": "demo", "shard": 1, "users": ["ann", "bob", "eve"]});
    owner.decide(vec![
        (0, json!({"job": {"defined": {"definition": defined(1, 1, &json!({})), "enabled": true}}})),
        (0, json!({"job": {"defined": {"definition": defined(2, 1, &json!({"run_as": "etl", "schedule": {"cron": "0 0 * * * ?"}})), "enabled": true}}})),
        (0, json!({"catalogue": {"users_assigned": assigned}})),
    ]);
    let mut lives = lives(1, 4, 3);
    owner.decide_all(lives.split_off(lives.len() / 2));
    // The one who comes second writes void records from here on.
    let mut other = Owner::claim(&*log, 0);
    owner.decide(vec![revoked("etl"), group(9, "forged", 9)]);
    other.decide(vec![revoked("gone"), key("etl", "02"), group(2, "other", 2)]);
    garbage(&*log);
    other.decide_all(lives);
    other.decide(vec![
        (0, json!({"job": {"defined": {"definition": defined(1, 2, &json!({})), "enabled": true}}})),
        (0, json!({"job": {"deleted": {"job": job(2)}}})),
        (0, json!({"catalogue": {"user_move_requested": {"user": "ann", "from": 1, "to": "other"}}})),
        (0, json!({"catalogue": {"user_move_requested": {"user": "bob", "from": 1, "to": "other"}}})),
        (0, json!({"catalogue": {"user_moved": {"user": "bob", "from": 1, "to": "other", "shard": 2}}})),
        (0, json!({"catalogue": {"user_moved": {"user": "eve", "from": 1}}})),
        (0, json!({"directory": {"department_defined": {"department": {"name": "data"}}}})),
        (0, json!({"directory": {"person_defined": {"person": {"name": "ann", "departments": ["data"]}}}})),
    ]);
    garbage(&*log);
    (memory, log)
}

fn garbage(log: &dyn Log) {
    append_wait(&*log.producer().unwrap(), Topic::Journal, 0, b"", b"no frame".to_vec(), LONG).unwrap();
}

/// Reads so many records, or all.
fn fold(journal: &mut Journal, facts: &mut Facts, records: usize) {
    let mut left = records;
    while left > 0 {
        let read = journal.poll(1, Duration::ZERO).unwrap();
        if read.last.is_none() {
            return;
        }
        read.entries.iter().for_each(|entry| facts.apply(&entry.envelope));
        left -= 1;
    }
}

/// OPS-4: what is known is what counts of the journal, whoever wrote beside it.
#[test]
fn facts_are_what_counts_of_the_journal() {
    let (_, log) = journal();
    let mut facts = Facts::default();
    fold(&mut Journal::open(&*log, 0, "the test", Start::Beginning).unwrap(), &mut facts, usize::MAX);
    let etl = facts.key("etl").unwrap();
    assert_eq!((&*etl.hash, &etl.groups[..], etl.accounts.len()), ("02", &["demo".to_owned()][..], 1));
    assert!(facts.key("gone").is_none());
    let groups: Vec<_> = facts.groups().map(|group| (group.id, group.name.as_str(), group.shard)).collect();
    assert_eq!(groups, [(GroupId(1), "demo", ShardId(1)), (GroupId(2), "other", ShardId(2))]);
    assert_eq!(facts.job(JobId(job(1))).map(|job| (job.group, job.is_scheduled)), Some((GroupId(2), false)));
    assert!(facts.job(JobId(job(2))).is_none());
    let at = |shard, moving| Homed::At(Home { shard: ShardId(shard), moving });
    let user_groups = ["ann", "bob", "eve"].map(|name| facts.home(&user(name)));
    assert_eq!(user_groups, [at(1, true), at(2, false), Homed::Nowhere]);
    assert_eq!((facts.directory().revision(), facts.directory().people().len()), (2, 1));
}

/// Property: wherever the journal is cut, also behind a record that does not count, reading on from there comes to the same as
/// reading all of it.
#[test]
fn any_cut_of_the_journal_gives_the_same() {
    let (_, log) = journal();
    let open = |start| Journal::open(&*log, 0, "the test", start).unwrap();
    let mut all = Facts::default();
    fold(&mut open(Start::Beginning), &mut all, usize::MAX);
    let records = usize::try_from(log.range(Topic::Journal, 0).unwrap().end).unwrap();
    assert!(records > 20, "{records} records are too few");
    for cut in 0..=records {
        let (mut facts, mut first) = (Facts::default(), open(Start::Beginning));
        fold(&mut first, &mut facts, cut);
        let start = first.head().cloned().map_or(Start::Beginning, Start::After);
        fold(&mut open(start), &mut facts, usize::MAX);
        assert_eq!(facts, all, "cut before record {cut}");
    }
}

/// Whoever holds the directory keeps it as it was.
#[test]
fn a_directory_that_is_held_stays_as_it_was() {
    let (_, log) = journal();
    let mut facts = Facts::default();
    let before = Arc::clone(facts.directory());
    fold(&mut Journal::open(&*log, 0, "the test", Start::Beginning).unwrap(), &mut facts, usize::MAX);
    assert!(before.is_empty() && !facts.directory().is_empty());
}
