//! Operations on many batches or jobs.

use tidemill_model::{BatchResult, BulkEvent};
use tidemill_store::rows::{BulkItemRow, BulkRow};

use super::batch::person;
use super::job::count;
use super::{Caches, Place};

impl Caches {
    pub(super) fn need_bulk(&mut self, event: &BulkEvent) {
        match event {
            BulkEvent::Requested { bulk, items, .. } => {
                self.bulk_operations.expect_new((bulk.0,));
                items.iter().for_each(|item| self.bulk_items.expect_new((bulk.0, *item)));
            }
            BulkEvent::Advanced { bulk, outcomes, .. } => {
                self.bulk_operations.need((bulk.0,));
                outcomes.iter().for_each(|outcome| self.bulk_items.need((bulk.0, outcome.item)));
            }
        }
    }

    pub(super) fn apply_bulk(&mut self, at: Place, event: &BulkEvent) {
        match event {
            BulkEvent::Requested { bulk, action, items, reason, by } => {
                self.bulk_operations.put(BulkRow {
                    id: bulk.0,
                    action: action.as_str().into(),
                    result: action.result().map(|result| BatchResult::from(result).as_str().into()),
                    reason: reason.as_str().into(),
                    items: count(items.len()),
                    requested_by: person(by),
                    requested_at: at.now,
                    ..BulkRow::default()
                });
                for item in items {
                    self.bulk_items.put(BulkItemRow {
                        bulk_id: bulk.0,
                        item_id: *item,
                        outcome: "left".into(),
                        ..BulkItemRow::default()
                    });
                }
            }
            BulkEvent::Advanced { bulk, outcomes, ended } => {
                for outcome in outcomes {
                    self.bulk_items.change((bulk.0, outcome.item), |row| {
                        row.outcome = if outcome.refused.is_none() { "done" } else { "refused" }.into();
                        row.reason = outcome.refused.as_deref().unwrap_or_default().into();
                        row.rerun_id = outcome.rerun.map(|rerun| rerun.0);
                        row.recorded_at = Some(at.now);
                    });
                }
                let refused = outcomes.iter().filter(|outcome| outcome.refused.is_some()).count();
                self.bulk_operations.change((bulk.0,), |row| {
                    row.done += count(outcomes.len() - refused);
                    row.refused += count(refused);
                    row.ended_at = ended.then_some(at.now);
                });
            }
        }
    }
}
