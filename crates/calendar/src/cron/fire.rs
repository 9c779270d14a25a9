//! From local times to instants: what gaps and overlaps do to a cron expression.
//!
//! ```text
//! gap      local 01:59 │ 03:00      a fixed time in 02:00–02:59 fires once, at the bar
//! overlap  local 02:59 │ 02:00      a fixed time fires in the first 02:00–02:59 only;
//!                                   with * or a step in hour or minute it fires in both
//! ```
//!
//! These are the rules of Vixie cron. Several fixed times in one gap fire once together, since two batches
//! cannot share a logical time. The timeline is walked segment by segment, so a gap or overlap may be of any
//! length, a skipped day included.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use tidemill_model::Timestamp;

use super::{Cron, Pace};
use crate::Zone;
use crate::zone::{Begin, Segment};

impl Cron {
    /// The first fire time that is not before `from`.
    pub(crate) fn at_or_after(&self, zone: &Zone, from: Timestamp) -> Option<Timestamp> {
        let mut cursor = whole_second_up(from)?;
        loop {
            let segment = zone.segment(cursor);
            let mut local = segment.offset.to_datetime(cursor.jiff());
            if let Some(begin) = self.wall_clock_begin(&segment) {
                if cursor == begin.at && self.fires_in_gap(begin, &segment) {
                    return Some(cursor);
                }
                local = local.max(begin.local_before());
            }
            let local = self.fields.local_at_or_after(local)?;
            match segment.instant_of(local) {
                Some(at) => return Some(at),
                None => cursor = segment.end?,
            }
        }
    }

    /// The last fire time that is not after `from`.
    pub(crate) fn at_or_before(&self, zone: &Zone, from: Timestamp) -> Option<Timestamp> {
        let mut cursor = from;
        loop {
            let segment = zone.segment(cursor);
            let found = self.fields.local_at_or_before(segment.offset.to_datetime(cursor.jiff()));
            let begin = self.wall_clock_begin(&segment);
            let repeated = |local| begin.is_some_and(|begin| local < begin.local_before());
            if let Some(at) =
                found.filter(|local| !repeated(*local)).and_then(|local| segment.instant_of(local))
            {
                return Some(at);
            }
            if let Some(begin) = begin.filter(|begin| self.fires_in_gap(begin, &segment)) {
                return Some(begin.at);
            }
            // The clock before may have shown what this one shows only later: nothing that it showed is left out.
            let before = segment.begin?.at.previous();
            let newest = self.fields.local_at_or_before(two_days_ahead(before)?)?;
            cursor = before.min(two_days_after(newest).unwrap_or(before));
        }
    }

    /// The segment's begin, for an expression whose fixed times must each fire once.
    fn wall_clock_begin<'a>(&self, segment: &'a Segment) -> Option<&'a Begin> {
        match self.fields.pace {
            Pace::WallClock if planted!(DstDuplicate) => None,
            Pace::WallClock => segment.begin.as_ref(),
            Pace::Elapsed => None,
        }
    }

    /// Whether a time that the expression names was left out by the gap before the segment.
    fn fires_in_gap(&self, begin: &Begin, segment: &Segment) -> bool {
        let resumed = segment.offset.to_datetime(begin.at.jiff());
        let left_out = begin.local_before();
        left_out < resumed && self.fields.local_at_or_after(left_out).is_some_and(|local| local < resumed)
    }
}

/// A local time that no zone's clock has shown by then.
fn two_days_ahead(at: Timestamp) -> Option<DateTime> {
    let at = at.checked_add(SignedDuration::from_hours(48)).ok()?;
    Some(Offset::UTC.to_datetime(at.jiff()))
}

/// An instant that is later than this local time by any zone's clock, and by whose clock nothing is skipped over
/// that an expression could name after it. Without it, centuries would be walked change by change.
fn two_days_after(local: DateTime) -> Option<Timestamp> {
    let at = Timestamp::from(Offset::UTC.to_timestamp(local).ok()?);
    at.checked_add(SignedDuration::from_hours(48)).ok()
}

fn whole_second_up(at: Timestamp) -> Option<Timestamp> {
    let over = at.as_millisecond().rem_euclid(1_000);
    at.checked_add(SignedDuration::from_millis((1_000 - over) % 1_000)).ok()
}
