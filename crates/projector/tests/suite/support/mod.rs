//! Journals to project, as the tests of their reader have them, and tables to project them into.

use std::sync::Arc;

use serde_json::json;
use tidemill_model::Timestamp;
use tidemill_store::{SqliteTables, Tables};

// An owner that writes what it is told, and what there is to tell it.
#[path = "../../../../journal/tests/suite/support/mod.rs"]
mod journal;

pub(crate) use journal::*;

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
        connection.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
        connection.execute_batch(sql).unwrap();
    }
}

/// One decision that a command of somebody leads to.
pub(crate) fn asked(
    owner: &mut Owner,
    (app, person): (&str, Option<&str>),
    request: Option<&str>,
    events: Vec<(u16, serde_json::Value)>,
) -> u64 {
    let actor = json!({"app": app, "user": person});
    caused(
        owner,
        json!({"command": {"offset": 0, "request": request, "reply_to": null, "actor": actor}}),
        events,
    )
}

/// One decision of the owner's own.
pub(crate) fn by_timer(owner: &mut Owner, events: Vec<(u16, serde_json::Value)>) -> u64 {
    caused(owner, json!("timer"), events)
}

fn caused(owner: &mut Owner, source: serde_json::Value, events: Vec<(u16, serde_json::Value)>) -> u64 {
    owner.now_ms += 7;
    let recorded: Vec<_> =
        events.iter().map(|(shard, event)| json!({"shard": shard, "event": event})).collect();
    let envelope = json!({
        "now": time(owner.now_ms), "causes": [{"source": source, "events": events.len()}], "events": recorded,
    });
    let known: Result<tidemill_model::Envelope, _> = serde_json::from_value(envelope.clone());
    known.unwrap_or_else(|error| panic!("{envelope}: {error}"));
    owner.write(envelope.to_string().into_bytes())
}

/// PUL-14: versions of tasks that no kept task and no kept grant names leave the tables; all others stay. Tables that
/// are rebuilt come to the same.
pub(crate) fn versions_that_nobody_names_leave(tables: &Arc<dyn Tables>) {
    use tidemill_journal::Shutdown;
    use tidemill_projector::{Config, purge, rebuild, verify};
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
