//! What may not be assigned: beyond the latest allowed logical time, before the earliest start.

use jiff::SignedDuration;
use tidemill_model::{BatchId, Freeze, FreezeScope, Timestamp};

use super::Shard;
use super::job::Version;
use crate::Invariant;
use crate::at::At;

/// The latest allowed logical times that the shard knows, and the records that say so.
#[derive(Debug, Default)]
pub(super) struct Freezes {
    everything: Option<(Timestamp, u64)>,
    group: Option<(Timestamp, u64)>,
}

impl Freezes {
    pub(super) fn received(&mut self, at: &At<'_>, scope: FreezeScope, freeze: Option<&Freeze>) {
        let latest = freeze.map(|freeze| (freeze.latest, at.offset));
        match scope {
            FreezeScope::Everything => self.everything = latest,
            FreezeScope::Group => self.group = latest,
        }
    }
}

impl Shard {
    /// `nothing_assigned_beyond_the_freeze` and `earliest_start_kept`; `what` happens to the batch.
    pub(super) fn may_begin(&self, at: &At<'_>, id: BatchId, what: &str) {
        let Some(batch) = self.batches.get(&id) else { return };
        for (latest, said) in [self.freezes.everything, self.freezes.group].into_iter().flatten() {
            if batch.time > latest {
                let why =
                    format!("batch {id} for {} is {what}, and the latest allowed is {latest}", batch.time);
                at.contradicts(Invariant::NothingAssignedBeyondTheFreeze, why, &[said]);
            }
        }
        if let Some(earliest) = batch.earliest.filter(|earliest| *earliest > at.now) {
            let why = format!("batch {id} is {what} at {}, and its earliest start is {earliest}", at.now);
            at.contradicts(Invariant::EarliestStartKept, why, &[batch.said]);
        }
    }

    pub(super) fn start_due(&mut self, at: &At<'_>, id: BatchId) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let earliest = batch.earliest.take();
        if earliest.is_none_or(|earliest| earliest > at.now) {
            let why = format!("the start of batch {id} is said to be due, not before {earliest:?}");
            at.contradicts(Invariant::EarliestStartKept, why, &[batch.said]);
        }
    }

    /// `earliest_start_kept`: it is the one that the definition asks for, where that is known here.
    pub(super) fn earliest_is_as_declared(
        at: &At<'_>,
        id: BatchId,
        of: Option<&Version>,
        (time, given): (Timestamp, Option<Timestamp>),
    ) {
        let Some(of) = of else { return };
        let expected = match of.earliest_minutes {
            None => None,
            Some(minutes) => {
                let base = match &of.calendar {
                    Some(calendar) => calendar.base_of(time),
                    None if of.parents.is_empty() => Some(time),
                    None => None,
                };
                let Some(base) = base else { return };
                base.checked_add(SignedDuration::from_mins(minutes.into())).ok()
            }
        };
        if expected != given {
            let why =
                format!("batch {id} gets the earliest start {given:?}, and its job asks for {expected:?}");
            at.breaks(Invariant::EarliestStartKept, why);
        }
    }
}
