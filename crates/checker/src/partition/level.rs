//! What is written, and the level that stands.

use tidemill_log::{Codec, Frame};
use tidemill_model::{Cause, Envelope, Level, Recorded};

use super::Partition;
use crate::{At, Invariant};

impl Partition {
    /// `nothing_above_the_level`
    pub(super) fn nothing_above_the_level(&mut self, at: &At<'_>, envelope: &Envelope) {
        let stands = self.level;
        let rule = Invariant::NothingAboveTheLevel;
        if envelope.level > stands {
            let why = format!("the envelope is of level {}, and level {stands} stands", envelope.level);
            at.breaks(rule, why);
        }
        for Cause { outcome, .. } in &envelope.causes {
            if outcome.level() > stands {
                at.breaks(
                    rule,
                    format!("{outcome:?} is of level {}, and level {stands} stands", outcome.level()),
                );
            }
        }
        for Recorded { event, .. } in &envelope.events {
            let kind = event.of_kind();
            if kind.level > stands {
                let why = format!("{} is of level {}, and level {stands} stands", kind.name, kind.level);
                at.breaks(rule, why);
            }
            self.level = self.level.max(event.raises().unwrap_or(stands));
        }
    }

    /// `nothing_above_the_level`, of how a body is written.
    pub(super) fn packed_since_its_level(&self, at: &At<'_>, frame: &Frame) {
        if frame.codec != Codec::Plain && !self.level.allows(Level::PACKED_BODIES) {
            let why = format!("the body is packed, and level {} stands", self.level);
            at.breaks(Invariant::NothingAboveTheLevel, why);
        }
    }
}
