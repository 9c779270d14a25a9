//! Operations on many batches or jobs: each item has one outcome, and the last one ends the operation.

use std::collections::{BTreeSet, HashMap};

use tidemill_model::{BulkEvent, BulkId, Event};

use crate::{At, Invariant};

/// What has not ended, with the items that have no outcome yet.
#[derive(Debug, Default)]
pub(super) struct Bulks {
    newest: i64,
    open: HashMap<BulkId, BTreeSet<i64>>,
}

impl Bulks {
    /// `bulk_items_decided_once`
    pub(super) fn event(&mut self, at: &At<'_>, event: &Event) {
        let wrong = match event {
            Event::Bulk(BulkEvent::Requested { bulk, items, reason, .. }) => {
                let unique: BTreeSet<i64> = items.iter().copied().collect();
                let is_sound = unique.len() == items.len() && !items.is_empty() && !reason.is_empty();
                let is_new = bulk.0 > self.newest;
                self.newest = self.newest.max(bulk.0);
                self.open.insert(*bulk, unique);
                (!is_sound || !is_new).then(|| {
                    format!("operation {bulk} has an id of before, an item twice, none, or no reason")
                })
            }
            Event::Bulk(BulkEvent::Advanced { bulk, outcomes, ended }) => {
                let open = self.open.entry(*bulk).or_default();
                let stray =
                    outcomes.iter().find(|outcome| !open.remove(&outcome.item)).map(|stray| stray.item);
                let is_over = open.is_empty();
                if *ended {
                    self.open.remove(bulk);
                }
                match stray {
                    Some(item) => {
                        Some(format!("item {item} of operation {bulk} is not of it, or has an outcome"))
                    }
                    None if is_over != *ended => {
                        Some(format!("operation {bulk} ends with its last item, or not yet"))
                    }
                    None => None,
                }
            }
            _ => None,
        };
        if let Some(why) = wrong {
            at.breaks(Invariant::BulkItemsDecidedOnce, why);
        }
    }
}
