//! What every back end of the tables has to do. The suite is the same for all of them.

mod generations;
mod reads;
mod rows;

use tidemill_store::rows::{BatchRow, JobRow};
use tidemill_store::{Position, Row, RowBatch, TableChanges, Tables, Written};

pub(crate) use generations::{
    activation_refuses_a_set_that_is_behind, dropped_sets_leave_nothing_behind,
    dropped_tables_are_made_again, one_at_a_time_may_rebuild, rebuild_begins_where_nothing_is_left,
    rebuilt_set_replaces_the_first, snapshot_does_not_see_later_writes,
};
pub(crate) use reads::{
    audit_list_pages_without_gap_or_repeat, deleted_and_unnamed_jobs_are_not_found_by_name,
    lists_have_what_a_reader_reaches, lists_page_without_gap_or_repeat, views_show_readable_times,
    waiting_batches_say_for_what,
};
pub(crate) use rows::{
    batch_from_another_position_is_refused, every_table_gives_back_what_was_written, keys_compare_by_bytes,
    large_texts_fit, old_rows_are_deleted_some_at_a_time, partitions_are_written_side_by_side,
    repeated_batch_changes_nothing, rows_that_are_named_are_not_deleted, sinks_are_noted_beside_the_tables,
    upsert_replaces_and_delete_removes, what_has_left_is_noted_by_shard,
};

/// A back end under test, with a database of its own.
pub(crate) trait Bench: Sync {
    fn new() -> Self;
    fn tables(&self) -> &dyn Tables;
    /// The same, as another process has them.
    fn again(&self) -> Box<dyn Tables>;
    /// How many tables there are whose name begins so.
    fn tables_like(&self, prefix: &str) -> usize;
    /// The text in the first column of the first row of a query.
    fn text(&self, sql: &str) -> String;
    /// Does something by hand.
    fn execute(&self, sql: &str);
    /// How the views show 1,700,000,000,123 ms.
    const READABLE: &'static str;
}

macro_rules! suite {
    ($bench:ty) => {
        crate::conformance::suite! { $bench:
            every_table_gives_back_what_was_written, upsert_replaces_and_delete_removes,
            keys_compare_by_bytes, large_texts_fit, partitions_are_written_side_by_side,
            batch_from_another_position_is_refused, repeated_batch_changes_nothing,
            rebuilt_set_replaces_the_first, activation_refuses_a_set_that_is_behind,
            dropped_tables_are_made_again, snapshot_does_not_see_later_writes, one_at_a_time_may_rebuild,
            dropped_sets_leave_nothing_behind, rebuild_begins_where_nothing_is_left,
            lists_page_without_gap_or_repeat, audit_list_pages_without_gap_or_repeat, deleted_and_unnamed_jobs_are_not_found_by_name, lists_have_what_a_reader_reaches,
            views_show_readable_times, waiting_batches_say_for_what, old_rows_are_deleted_some_at_a_time,
            rows_that_are_named_are_not_deleted, what_has_left_is_noted_by_shard,
            sinks_are_noted_beside_the_tables
        }
    };
    ($bench:ty: $($name:ident),+) => {
        $(#[test]
        fn $name() {
            crate::conformance::$name(&<$bench as crate::conformance::Bench>::new());
        })+
    };
}
pub(crate) use suite;

/// A first set of tables, in use.
pub(crate) fn prepare(bench: &impl Bench) -> u32 {
    let generation = bench.tables().create_generation().unwrap();
    bench.tables().activate(generation, &[]).unwrap();
    generation
}

pub(crate) fn position(offset: u64) -> Position {
    Position { offset, head: format!("head-{offset}").into() }
}

/// Writes changes of partition 0 on top of whatever there is.
pub(crate) fn write(bench: &impl Bench, generation: u32, changes: Vec<TableChanges>) -> Written {
    let from = bench.tables().positions(generation).unwrap().remove(&0);
    let to = position(from.as_ref().map_or(0, |from| from.offset + 1));
    bench.tables().write(generation, &RowBatch { partition: 0, from, to, changes }).unwrap()
}

pub(crate) fn upserts<R: Row>(rows: &[R]) -> TableChanges {
    TableChanges { table: R::TABLE, upserts: rows.iter().map(Row::values).collect(), deletes: Vec::new() }
}

pub(crate) fn batch_row(id: i64) -> BatchRow {
    BatchRow {
        id,
        job_id: 7,
        job_version: 1,
        calendar_version: None,
        job_name: "load".into(),
        group_name: "demo".into(),
        job_type: "noop".into(),
        logical_time: 1_700_000_000_123,
        run: 0,
        origin: "schedule".into(),
        rerun_id: None,
        rerun_number: None,
        triggered_by: None,
        parameters: "{}".into(),
        state: 0,
        result: None,
        unmet: 0,
        counted_parents: 0,
        attempt: 0,
        attempts: 0,
        returned: 0,
        worker_id: None,
        token: None,
        message: "".into(),
        killed_by: None,
        generated_at: 1_700_000_000_123,
        ready_at: None,
        assigned_at: None,
        start_by: None,
        started_at: None,
        retry_at: None,
        kill_requested_at: None,
        finished_at: None,
        earliest_start_at: None,
        dependency_timeout_at: None,
        output_timeout_at: None,
        not_successful_by_at: None,
        blocked_since: None,
        blocked_by: None,
        blocked_by_time: None,
        overridden_result: None,
        result_overridden_at: None,
        result_overridden_by: None,
        result_override_reason: None,
        final_token: None,
        final_result: None,
        final_message: None,
        final_ended_at: None,
    }
}

pub(crate) fn job_row(id: i64, name: &str) -> JobRow {
    JobRow {
        id,
        version: 1,
        group_name: "demo".into(),
        group_id: 1,
        name: name.into(),
        unnamed: false,
        submitted: false,
        owner: "ann".into(),
        owner_name: Some("ann".into()),
        business_name: None,
        job_type: "noop".into(),
        parent_count: 0,
        definition: "{}".into(),
        enabled: true,
        defined_at: 1,
        changed_at: 1,
        changed_by: None,
        disabled_at: None,
        disabled_by: None,
        deleted_at: None,
    }
}

pub(crate) fn write_batches(bench: &impl Bench, generation: u32, first: i64, count: i64) {
    let rows: Vec<_> = (first..first + count).map(batch_row).collect();
    write(bench, generation, vec![upserts(&rows)]);
}
