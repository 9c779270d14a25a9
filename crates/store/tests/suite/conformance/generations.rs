//! Sets of tables beside one another, and the switch.

use tidemill_store::rows::{BatchRow, TABLES};
use tidemill_store::{Error, ReadTables, Row, RowBatch};

use super::{Bench, batch_row, position, prepare, upserts, write_batches};

/// EVT-7: built beside the first, then swapped; the first serves until then, and can be dropped after.
pub(crate) fn rebuilt_set_replaces_the_first(bench: &impl Bench) {
    let tables = bench.tables();
    assert!(matches!(tables.batch(1), Err(Error::NoGeneration)));
    let first = prepare(bench);
    write_batches(bench, first, 1, 3);
    let second = tables.create_generation().unwrap();
    assert_ne!(first, second);
    let changed = BatchRow { state: 2, ..batch_row(1) };
    let batch = RowBatch {
        partition: 0,
        from: None,
        to: position(5),
        changes: vec![upserts(std::slice::from_ref(&changed))],
    };
    assert_eq!(tables.write(second, &batch).unwrap().active, Some(first));
    assert_eq!(tables.batch(1).unwrap(), Some(batch_row(1)));
    assert!(matches!(tables.drop_generation(first), Err(Error::GenerationActive { .. })));
    tables.activate(second).unwrap();
    assert_eq!(tables.batch(1).unwrap(), Some(changed));
    assert_eq!(tables.batch(3).unwrap(), None);
    tables.drop_generation(first).unwrap();
    tables.drop_generation(first).unwrap();
    let left: Vec<_> = tables.generations().unwrap().iter().map(|left| (left.number, left.active)).collect();
    assert_eq!(left, [(second, true)]);
    assert_eq!(bench.text("SELECT job_name FROM batches WHERE id = 1"), "load");
}

pub(crate) fn activation_refuses_a_set_that_is_behind(bench: &impl Bench) {
    let tables = bench.tables();
    let first = prepare(bench);
    write_batches(bench, first, 1, 1);
    write_batches(bench, first, 2, 1);
    let second = tables.create_generation().unwrap();
    assert!(matches!(tables.activate(second), Err(Error::Behind { partition: 0, .. })));
    let batch = RowBatch { partition: 0, from: None, to: position(0), changes: Vec::new() };
    tables.write(second, &batch).unwrap();
    assert!(matches!(tables.activate(second), Err(Error::Behind { partition: 0, .. })));
    let batch = RowBatch { from: Some(position(0)), to: position(1), ..batch };
    tables.write(second, &batch).unwrap();
    tables.activate(second).unwrap();
    assert!(matches!(tables.activate(77), Err(Error::UnknownGeneration { generation: 77 })));
}

/// EVT-2: whatever was dropped by hand, a new set can be made and used.
pub(crate) fn dropped_tables_are_made_again(bench: &impl Bench) {
    let first = prepare(bench);
    write_batches(bench, first, 1, 1);
    let tables = bench.tables();
    for table in TABLES {
        bench.execute(&format!("DROP TABLE g{first}_{}", table.name));
    }
    assert!(matches!(tables.batch(1), Err(Error::Database { .. })));
    let batch =
        RowBatch { partition: 0, from: None, to: position(0), changes: vec![upserts(&[batch_row(9)])] };
    let lost = RowBatch { from: Some(position(0)), to: position(1), ..batch.clone() };
    assert!(tables.write(first, &lost).unwrap_err().is_outage());
    let second = tables.create_generation().unwrap();
    tables.write(second, &batch).unwrap();
    tables.activate(second).unwrap();
    tables.drop_generation(first).unwrap();
    assert_eq!(tables.batch(9).unwrap(), Some(batch_row(9)));
}

/// `verify` compares at one moment, whatever is written meanwhile.
pub(crate) fn snapshot_does_not_see_later_writes(bench: &impl Bench) {
    let generation = prepare(bench);
    write_batches(bench, generation, 1, 2);
    let mut snapshot = bench.tables().snapshot().unwrap();
    assert_eq!(snapshot.generation(), generation);
    assert_eq!(snapshot.positions().unwrap()[&0], position(0));
    write_batches(bench, generation, 2, 5);
    assert_eq!(snapshot.positions().unwrap()[&0], position(0));
    assert_eq!(snapshot.rows(BatchRow::TABLE, None, 100).unwrap().len(), 2);
    drop(snapshot);
    let mut later = bench.tables().snapshot().unwrap();
    assert_eq!(later.positions().unwrap()[&0], position(1));
    assert_eq!(later.rows(BatchRow::TABLE, None, 100).unwrap().len(), 6);
}
