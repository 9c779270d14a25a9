//! Writing, loading and the position.

use tidemill_store::rows::{AppKeyRow, BatchRow, PullGrantRow, PullTaskVersionRow, TABLES};
use tidemill_store::{
    Aged, Error, Field, Filter, Kind, ReadTables, Row, RowBatch, Select, SinkNote, Table, TableChanges, Value,
};

use super::{Bench, batch_row, position, prepare, upserts, write, write_batches};

/// A row with something in every column, or nothing where that is allowed.
fn sample(table: &Table, number: i64, empty: bool) -> Vec<Value> {
    let column = |(index, column): (usize, &tidemill_store::Column)| match column.kind {
        _ if empty && column.nullable => Value::Null,
        Kind::Bool => Value::Int(number % 2),
        Kind::Int | Kind::Time => Value::Int(number * 1000 + i64::try_from(index).unwrap()),
        Kind::Name(_) | Kind::Text | Kind::Json | Kind::Texts | Kind::Numbers => {
            Value::from(format!("报表 😀 'q' {number}").as_str())
        }
    };
    table.columns.iter().enumerate().map(column).collect()
}

/// EVT-2 rests on it: a row read back is the row written, in every table and for every kind of column.
pub(crate) fn every_table_gives_back_what_was_written(bench: &impl Bench) {
    let generation = prepare(bench);
    let rows = |table| (1..=150).map(|n| sample(table, n, n % 3 == 0)).collect::<Vec<_>>();
    let mut changes = Vec::new();
    for table in TABLES.iter().copied() {
        let mut upserts = rows(table);
        upserts.sort();
        changes.push(TableChanges { table, upserts, deletes: Vec::new() });
    }
    write(bench, generation, changes.clone());
    let mut snapshot = bench.tables().snapshot().unwrap();
    for TableChanges { table, upserts, .. } in changes {
        let keys: Vec<_> = upserts.iter().map(|row| table.key_of(row).to_vec()).collect();
        let mut loaded = bench.tables().load(generation, table, &keys).unwrap();
        loaded.sort();
        assert_eq!(loaded, upserts, "{}", table.name);
        let mut paged: Vec<Vec<Value>> = Vec::new();
        loop {
            let after = paged.last().map(|row| table.key_of(row).to_vec());
            let page = snapshot.rows(table, after.as_deref(), 40).unwrap();
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, upserts, "{} in the order of its key", table.name);
    }
}

pub(crate) fn upsert_replaces_and_delete_removes(bench: &impl Bench) {
    let generation = prepare(bench);
    write_batches(bench, generation, 1, 20);
    let finished =
        |id| BatchRow { state: 3, result: Some("failed".into()), finished_at: Some(9), ..batch_row(id) };
    let mut changes = upserts(&[finished(4), finished(21)]);
    changes.deletes = (5..=15).map(|id: i64| vec![id.to_value()]).collect();
    write(bench, generation, vec![changes]);
    assert_eq!(bench.tables().batch(4).unwrap(), Some(finished(4)));
    assert_eq!(bench.tables().batch(3).unwrap(), Some(batch_row(3)));
    assert_eq!(bench.tables().batch(10).unwrap(), None);
    let keys: Vec<_> = (0..=30).map(|id| vec![Value::Int(id)]).collect();
    assert_eq!(bench.tables().load(generation, BatchRow::TABLE, &keys).unwrap().len(), 10);
}

pub(crate) fn keys_compare_by_bytes(bench: &impl Bench) {
    let generation = prepare(bench);
    let key = |app: &str| AppKeyRow {
        app: app.into(),
        hash: app.into(),
        role: "viewer".into(),
        groups: "[]".into(),
        accounts: "[]".into(),
        may: "[]".into(),
        department: None,
        defined_at: 1,
    };
    let rows = ["A", "A ", "a", "á", "ä", "aa", "中"].map(key);
    write(bench, generation, vec![upserts(&rows)]);
    let mut expected: Vec<_> = rows.iter().map(|row| row.app.to_string()).collect();
    expected.sort();
    let found: Vec<_> = bench.tables().app_keys().unwrap().iter().map(|row| row.app.to_string()).collect();
    assert_eq!(found, expected);
    assert_eq!(bench.tables().app_key("A ").unwrap().unwrap(), key("A "));
}

pub(crate) fn large_texts_fit(bench: &impl Bench) {
    let generation = prepare(bench);
    let large = |id| BatchRow { parameters: "x".repeat(400_000).into(), ..batch_row(id) };
    let rows: Vec<_> = (1..=20).map(large).collect();
    write(bench, generation, vec![upserts(&rows)]);
    assert_eq!(bench.tables().batch(20).unwrap(), Some(large(20)));
}

pub(crate) fn partitions_are_written_side_by_side(bench: &impl Bench) {
    let generation = prepare(bench);
    let fold = |partition: u32| {
        for step in 0..25_u64 {
            let from = (step > 0).then(|| position(step - 1));
            let first = i64::from(partition) * 1000 + i64::try_from(step).unwrap() * 10;
            let rows: Vec<_> =
                (first..first + 12).filter(|id| *id / 1000 == i64::from(partition)).map(batch_row).collect();
            let batch = RowBatch { partition, from, to: position(step), changes: vec![upserts(&rows)] };
            bench.tables().write(generation, &batch).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for partition in 0..4 {
            scope.spawn(move || fold(partition));
        }
    });
    let positions = bench.tables().positions(generation).unwrap();
    assert_eq!(positions, (0..4).map(|partition| (partition, position(24))).collect());
    let keys: Vec<_> = (0..4000).map(|id| vec![Value::Int(id)]).collect();
    assert_eq!(bench.tables().load(generation, BatchRow::TABLE, &keys).unwrap().len(), 4 * 252);
}

/// Rule 11: a batch that does not begin where the tables stand changes nothing.
pub(crate) fn batch_from_another_position_is_refused(bench: &impl Bench) {
    let generation = prepare(bench);
    write_batches(bench, generation, 1, 1);
    for from in [None, Some(position(7))] {
        let batch =
            RowBatch { partition: 0, from, to: position(8), changes: vec![upserts(&[batch_row(99)])] };
        let error = bench.tables().write(generation, &batch).unwrap_err();
        assert!(matches!(error, Error::PositionConflict { partition: 0, .. }), "{error}");
    }
    assert_eq!(bench.tables().batch(99).unwrap(), None);
    assert_eq!(bench.tables().positions(generation).unwrap()[&0], position(0));
    let batch = RowBatch { partition: 0, from: Some(position(0)), to: position(1), changes: Vec::new() };
    let error = bench.tables().write(generation + 1, &batch).unwrap_err();
    assert!(matches!(error, Error::UnknownGeneration { .. }), "{error}");
}

pub(crate) fn repeated_batch_changes_nothing(bench: &impl Bench) {
    let generation = prepare(bench);
    let batch = |state| RowBatch {
        partition: 3,
        from: None,
        to: position(5),
        changes: vec![upserts(&[BatchRow { state, ..batch_row(1) }])],
    };
    let written = bench.tables().write(generation, &batch(1)).unwrap();
    assert_eq!(written.active, Some(generation));
    bench.tables().write(generation, &batch(2)).unwrap();
    assert_eq!(bench.tables().batch(1).unwrap().unwrap().state, 1);
}

/// PUL-14: so many rows that fit go in one transaction, no others, and the horizon only rises, for every set of tables.
pub(crate) fn old_rows_are_deleted_some_at_a_time(bench: &impl Bench) {
    let tables = bench.tables();
    assert_eq!(tables.horizon(Aged::Pull).unwrap(), None);
    let generation = prepare(bench);
    write_batches(bench, generation, 1, 20);
    let mut old = Select::new(BatchRow::TABLE, &["id"]).limit(8);
    old.filters.push(Filter::Below("id", Value::Int(15)));
    old.filters.push(Filter::Unequal("id", Value::Int(3)));
    let deleted: Vec<_> = (0..3).map(|_| tables.purge(&old).unwrap()).collect();
    assert_eq!(deleted, [8, 5, 0]);
    let keys: Vec<_> = (0..=30).map(|id| vec![Value::Int(id)]).collect();
    let mut left = tables.load(generation, BatchRow::TABLE, &keys).unwrap();
    left.sort();
    let ids: Vec<_> = left.iter().map(|row| row[0].clone()).collect();
    assert_eq!(ids, [3, 15, 16, 17, 18, 19, 20].map(Value::Int));
    let raised: Vec<_> = [5, 9, 7].map(|before| tables.raise_horizon(Aged::Pull, before).unwrap()).into();
    assert_eq!(raised, [5, 9, 9]);
    tables.create_generation().unwrap();
    assert_eq!(tables.horizon(Aged::Pull).unwrap(), Some(9));
    assert_eq!(tables.snapshot().unwrap().horizon(Aged::Pull).unwrap(), Some(9));
    // Each has its own.
    assert_eq!(tables.horizon(Aged::Audit).unwrap(), None);
    assert_eq!(tables.raise_horizon(Aged::Audit, 4).unwrap(), 4);
    assert_eq!(tables.snapshot().unwrap().horizon(Aged::Audit).unwrap(), Some(4));
    assert_eq!(tables.horizon(Aged::Pull).unwrap(), Some(9));
    assert_eq!(tables.active().unwrap().map(|it| it.number), Some(generation));
}

fn version(id: i64, version: i64) -> PullTaskVersionRow {
    PullTaskVersionRow { id, version, shard: 1, definition: "{}".into(), recorded_at: version }
}

fn grant(id: i64, task_id: i64, task_version: i64, shard: i64) -> PullGrantRow {
    PullGrantRow {
        id,
        shard,
        group_name: "demo".into(),
        task_id,
        task_version,
        task_name: None,
        start_at: 0,
        user_name: "ann".into(),
        state: "live".into(),
        granted_at: 0,
        expires_at: None,
        ended_at: None,
        result: None,
        returned_by: None,
        reason: None,
    }
}

/// PUL-14: rows that rows of another table name stay, by all columns of the name.
pub(crate) fn rows_that_are_named_are_not_deleted(bench: &impl Bench) {
    let generation = prepare(bench);
    let versions = [version(1, 1), version(1, 2), version(1, 9), version(2, 1), version(2, 2)];
    let grants = [grant(10, 1, 2, 1), grant(11, 2, 1, 2)];
    write(bench, generation, vec![upserts(&versions), upserts(&grants)]);
    let mut old = Select::new(PullTaskVersionRow::TABLE, &["id", "version"]).limit(2);
    old.filters.push(Filter::Below("recorded_at", Value::Int(5)));
    let names = &[("task_id", "id"), ("task_version", "version"), ("shard", "shard")];
    old.filters.push(Filter::Unnamed(PullGrantRow::TABLE, names));
    let deleted: Vec<_> = (0..3).map(|_| bench.tables().purge(&old).unwrap()).collect();
    assert_eq!(deleted, [2, 1, 0]);
    let keys: Vec<_> = versions.iter().map(|row| PullTaskVersionRow::key_values(&row.key())).collect();
    let mut left = bench.tables().load(generation, PullTaskVersionRow::TABLE, &keys).unwrap();
    left.sort();
    assert_eq!(left, [versions[1].values(), versions[2].values()]);
}

/// PUL-14: what has left is noted for each shard, for every set of tables, and never taken back.
pub(crate) fn what_has_left_is_noted_by_shard(bench: &impl Bench) {
    let tables = bench.tables();
    prepare(bench);
    assert!(tables.left_grants().unwrap().is_empty());
    for (shard, grant) in [(1, 40), (12, 7), (1, 30), (12, 8)] {
        tables.raise_left_grant(shard, grant).unwrap();
    }
    tables.raise_horizon(Aged::Pull, 5).unwrap();
    tables.create_generation().unwrap();
    assert_eq!(tables.left_grants().unwrap(), [(1, 40), (12, 8)].into());
}

/// PUL-12: how far sinks are is replaced by what they note next, and forgotten where nobody notes any more.
pub(crate) fn sinks_are_noted_beside_the_tables(bench: &impl Bench) {
    let tables = bench.tables();
    let note = |sink: &str, partition, stored, noted_at| SinkNote {
        sink: sink.to_owned(),
        partition,
        stored,
        changes: 7,
        error: stored.is_none().then(|| "the server is away".to_owned()),
        stopped: stored.is_none(),
        noted_at,
    };
    let first = [note("parquet", 0, Some(3), 10), note("mysql", 1, None, 10), note("mysql", 0, Some(9), 10)];
    tables.note_sinks(&first, 0).unwrap();
    let [parquet, one, zero] = first;
    assert_eq!(tables.sinks().unwrap(), [zero, one.clone(), parquet.clone()]);
    let later = note("mysql", 0, Some(12), 20);
    tables.note_sinks(std::slice::from_ref(&later), 10).unwrap();
    assert_eq!(tables.sinks().unwrap(), [later.clone(), one, parquet]);
    tables.note_sinks(&[], 11).unwrap();
    assert_eq!(tables.sinks().unwrap(), [later]);
}
