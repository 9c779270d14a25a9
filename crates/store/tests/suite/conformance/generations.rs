//! Sets of tables beside one another, and the switch.

use std::collections::BTreeMap;
use std::time::Duration;

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
    let right = tables.begin_rebuild("the test", Duration::ZERO).unwrap();
    assert!(matches!(tables.drop_generation(right, first), Err(Error::GenerationActive { .. })));
    tables.activate(second, &[]).unwrap();
    assert_eq!(tables.batch(1).unwrap(), Some(changed));
    assert_eq!(tables.batch(3).unwrap(), None);
    tables.drop_generation(right, first).unwrap();
    tables.drop_generation(right, first).unwrap();
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
    assert!(matches!(tables.activate(second, &[]), Err(Error::Behind { partition: 0, .. })));
    let batch = RowBatch { partition: 0, from: None, to: position(0), changes: Vec::new() };
    tables.write(second, &batch).unwrap();
    assert!(matches!(tables.activate(second, &[]), Err(Error::Behind { partition: 0, .. })));
    let batch = RowBatch { from: Some(position(0)), to: position(1), ..batch };
    tables.write(second, &batch).unwrap();
    tables.activate(second, &[]).unwrap();
    assert!(matches!(tables.activate(77, &[]), Err(Error::UnknownGeneration { generation: 77 })));
    // Beyond its journal nobody comes.
    let third = tables.create_generation().unwrap();
    assert!(matches!(tables.activate(third, &[1]), Err(Error::Behind { partition: 0, .. })));
    tables.activate(third, &[0]).unwrap();
}

/// EVT-7: one at a time has the right to rebuild; who has not been seen for long loses it to the next one, and can change
/// nothing with it from then on.
pub(crate) fn one_at_a_time_may_rebuild(bench: &impl Bench) {
    let tables = bench.tables();
    let first = prepare(bench);
    write_batches(bench, first, 1, 3);
    let minute = Duration::from_secs(60);
    let slow = tables.begin_rebuild("the slow one", minute).unwrap();
    let refused = tables.begin_rebuild("the second", minute).unwrap_err();
    assert!(
        matches!(&refused, Error::RebuildGoesOn { holder, unseen_s: 0..30, wait_s: 30..=61, .. } if holder == "the slow one"),
        "{refused}"
    );
    // A sign from before the database's clock was set back is one of now, not of the future.
    bench.execute("UPDATE tidemill_rebuilds SET seen_at = seen_at + 86400000");
    assert!(matches!(tables.begin_rebuild("the second", minute), Err(Error::RebuildGoesOn { .. })));
    let told = tables.rebuild_in_progress().unwrap().unwrap();
    assert_eq!(told.holder, "the slow one");
    assert!(
        told.begun_at <= told.seen_at && told.seen_at.duration_since(told.begun_at).as_secs() < 60,
        "{told:?}"
    );
    let set = tables.create_for_copies(slow).unwrap();
    assert!(tables.copy(slow, (first, set), BatchRow::TABLE, 2).unwrap());
    let right = tables.begin_rebuild("the second", Duration::ZERO).unwrap();
    let lost = [
        tables.copy(slow, (first, set), BatchRow::TABLE, 2).map(drop),
        tables.seed(slow, set, &[], &BTreeMap::from([(0, position(9))])),
        tables.drop_generation(slow, set),
        tables.create_for_copies(slow).map(drop),
        tables.keep_rebuild(slow),
    ];
    for lost in lost {
        assert!(
            matches!(&lost, Err(Error::RebuildReplaced { holder, .. }) if holder == "the second"),
            "{lost:?}"
        );
    }
    // Given back by who has lost it, it stays.
    tables.end_rebuild(slow).unwrap();
    assert!(tables.generations().unwrap()[1].has_copies && tables.positions(set).unwrap().is_empty());
    assert_eq!(tables.count(set, BatchRow::TABLE).unwrap(), 2);
    tables.seed(right, set, &[], &BTreeMap::from([(0, position(9))])).unwrap();
    // What shows a part of the journal already gets nothing put under it.
    assert!(matches!(tables.seed(right, set, &[], &BTreeMap::new()), Err(Error::GenerationFilled { .. })));
    assert!(tables.copy(right, (first, set), BatchRow::TABLE, 2).is_err());
    tables.end_rebuild(right).unwrap();
    assert_eq!(tables.rebuild_in_progress().unwrap(), None);
    assert!(tables.keep_rebuild(right).is_err());
    let next = tables.begin_rebuild("the third", minute).unwrap();
    tables.drop_generation(next, set).unwrap();
    assert!(tables.create_generation().unwrap() > set, "no number is given twice");
}

/// EVT-7: tables of a set that was dropped go piece by piece, whatever form they have; who is cut off in between leaves the
/// rest to the next one.
pub(crate) fn dropped_sets_leave_nothing_behind(bench: &impl Bench) {
    let tables = bench.tables();
    let first = prepare(bench);
    write_batches(bench, first, 1, 2_500);
    bench.execute(&format!(
        "CREATE TABLE g{first}_of_an_older_form (a INTEGER, b INTEGER, PRIMARY KEY (a, b))"
    ));
    bench.execute(&format!("INSERT INTO g{first}_of_an_older_form VALUES (1, 2)"));
    let second = tables.create_generation().unwrap();
    let batch = RowBatch { partition: 0, from: None, to: position(9), changes: Vec::new() };
    tables.write(second, &batch).unwrap();
    tables.activate(second, &[]).unwrap();
    let right = tables.begin_rebuild("the test", Duration::ZERO).unwrap();
    assert!(!tables.sweep().unwrap(), "nothing is to be dropped");
    tables.drop_generation(right, first).unwrap();
    assert!(bench.tables_like(&format!("g{first}_")) > TABLES.len());
    // Whoever dropped it is gone; another process goes on.
    let pieces = (0..).take_while(|_| bench.again().sweep().unwrap()).count();
    assert!(pieces > TABLES.len(), "{pieces}");
    assert_eq!(
        (bench.tables_like(&format!("g{first}_")), bench.tables_like(&format!("g{second}_"))),
        (0, TABLES.len())
    );
    assert!(!tables.sweep().unwrap() && tables.batch(1).is_ok());
}

/// EVT-2: a rebuild can begin where everything was dropped by hand.
pub(crate) fn rebuild_begins_where_nothing_is_left(bench: &impl Bench) {
    let tables = bench.tables();
    prepare(bench);
    for name in ["meta", "generations", "positions", "sinks", "forms", "rebuilds"] {
        bench.execute(&format!("DROP TABLE tidemill_{name}"));
    }
    assert!(tables.generations().unwrap().is_empty() && tables.active().unwrap().is_none());
    let right = tables.begin_rebuild("the test", Duration::from_secs(60)).unwrap();
    tables.keep_rebuild(right).unwrap();
    prepare(bench);
    assert_eq!(tables.batch(1).unwrap(), None);
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
    tables.activate(second, &[]).unwrap();
    let right = tables.begin_rebuild("the test", Duration::ZERO).unwrap();
    tables.drop_generation(right, first).unwrap();
    while tables.sweep().unwrap() {}
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
