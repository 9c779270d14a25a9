//! BYD-3: one action for many batches or jobs, as one operation.
//!
//! ```text
//!  interface   RequestBulk ─┐            ┌─ KillBatch … to each item's shard ─► outcome ─► ReportBulk ─┐
//!  catalogue                ▼            │  (any instance, request id bulk~ID~ITEM)                    ▼
//!                      BulkRequested ────┘                                                    BulkAdvanced … the last one ends it
//! ```
//!
//! The record of the request holds every item, so that an instance that dies loses nothing: another one carries on with
//! what has no outcome yet. An item's command has a request id that follows from the operation and the item, so that its
//! shard does it once, whoever sends it, and however often.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_derive::Stored;
use tidemill_model::{
    Actor, Answer, BulkAction, BulkEvent, BulkId, BulkOutcome, Event, Rejection, ShardId, bounds,
};

use super::{Catalogue, check_count, check_limit};
use crate::decision::{Decision, Ruled};

/// Operations that have not ended.
const MAX_OPEN: usize = 64;
const MAX_OUTCOMES: usize = 200;
/// Of why an item was refused.
const MAX_REFUSED_CHARS: usize = 500;

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Bulks {
    minted: u64,
    /// With the items that have no outcome yet.
    open: BTreeMap<BulkId, BTreeSet<i64>>,
}

impl Bulks {
    pub(super) fn minted(&self) -> u64 {
        self.minted
    }

    pub(super) fn mint_above(&mut self, counter: u64) {
        self.minted = self.minted.max(counter);
    }
}

impl Catalogue {
    pub(super) fn apply_bulk(&mut self, event: &BulkEvent) {
        match event {
            BulkEvent::Requested { bulk, items, .. } => {
                self.bulks.minted += 1;
                self.bulks.open.insert(*bulk, items.iter().copied().collect());
            }
            BulkEvent::Advanced { bulk, ended: true, .. } => {
                self.bulks.open.remove(bulk);
            }
            BulkEvent::Advanced { bulk, outcomes, ended: false } => {
                let Some(open) = self.bulks.open.get_mut(bulk) else { return };
                for outcome in outcomes {
                    open.remove(&outcome.item);
                }
            }
        }
    }

    pub(super) fn request_bulk(&self, action: BulkAction, items: &[i64], reason: &str, by: &Actor) -> Ruled {
        let reason = reason.trim();
        if reason.is_empty() || reason.len() > bounds::REQUEST_REASON_BYTES {
            let rule = format!("must be 1 to {} bytes: say why", bounds::REQUEST_REASON_BYTES);
            return Err(Rejection::field("reason", reason, rule));
        }
        check_fits(action, items.len())?;
        let mut seen = BTreeSet::new();
        if let Some(twice) = items.iter().find(|item| !seen.insert(**item)) {
            return Err(Rejection::field("items", twice, "stands twice among the items"));
        }
        check_limit(
            "the number of bulk operations that have not ended",
            self.bulks.open.len() + 1,
            MAX_OPEN,
        )?;
        let bulk = BulkId::mint(self.bulks.minted + 1, ShardId::CATALOGUE);
        let (items, reason, by) = (items.to_vec(), reason.to_owned(), by.clone());
        let event = Event::Bulk(BulkEvent::Requested { bulk, action, items, reason, by });
        Ok(Decision::answered(vec![event], Answer::Bulk { bulk }))
    }

    /// What came of items, from whoever sent their commands; an outcome that is on record already stays.
    pub(super) fn report_bulk(&self, bulk: BulkId, outcomes: &[BulkOutcome]) -> Ruled {
        check_count("outcomes", outcomes.len(), MAX_OUTCOMES, " in one report")?;
        let Some(open) = self.bulks.open.get(&bulk) else {
            return Ok(Decision::unchanged(Answer::Done));
        };
        let mut left = open.clone();
        let news = outcomes.iter().filter(|outcome| left.remove(&outcome.item) || planted!(ItemDecidedTwice));
        let short = |refused: &String| refused.chars().take(MAX_REFUSED_CHARS).collect();
        let outcomes: Vec<BulkOutcome> = news
            .map(|news| BulkOutcome {
                item: news.item,
                refused: news.refused.as_ref().map(short),
                rerun: news.rerun,
            })
            .collect();
        let ended = left.len() <= usize::from(planted!(ItemNeverDecided));
        let event =
            (!outcomes.is_empty()).then_some(Event::Bulk(BulkEvent::Advanced { bulk, outcomes, ended }));
        Ok(Decision::answered(event.into_iter().collect(), Answer::Done))
    }
}

fn check_fits(action: BulkAction, count: usize) -> Result<(), Rejection> {
    if count == 0 {
        return Err(Rejection::field("filter", "", "fits nothing, so there is nothing to do"));
    }
    let most = action.most();
    if count > most {
        let rule = match action {
            BulkAction::Clear => format!(
                "fits {count} batches, and clear plans a rerun for each of at most {most}; narrow it, or plan one \
                 rerun for a range of logical times"
            ),
            _ => format!("fits {count}, and one operation has at most {most}; narrow it"),
        };
        return Err(Rejection::field("filter", "", rule));
    }
    Ok(())
}
