//! A time zone, and how its local clock maps onto instants.

use std::fmt;
use std::sync::LazyLock;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::Timestamp;

use crate::Error;

/// The copy of the time-zone data inside the program; the machine's own is never read.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const YEAR: SignedDuration = SignedDuration::from_hours(366 * 24);

/// An IANA time zone such as `Europe/Berlin`, resolved once. As text it is its name.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The zone's IANA name.
    pub fn name(&self) -> &str {
        self.0.iana_name().expect("a zone is only made from a name that the database knows")
    }

    /// The zone as jiff knows it.
    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }

    /// The offset from UTC in effect at `at`.
    pub fn offset_at(&self, at: Timestamp) -> Offset {
        self.0.to_offset(at.jiff())
    }

    /// What the local clock shows at `at`.
    pub(crate) fn local(&self, at: Timestamp) -> DateTime {
        self.0.to_datetime(at.jiff())
    }

    /// The first instant at which the local clock shows `local` or, where a gap leaves it out, something later.
    ///
    /// So in an overlap the first of the two, in a gap the instant right after it. `None` outside the range of
    /// instants.
    pub(crate) fn first_instant_of(&self, local: DateTime) -> Option<Timestamp> {
        match self.0.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(local).ok().map(Timestamp::from)
            }
            AmbiguousOffset::Gap { after, .. } => {
                let short_of_it = after.to_timestamp(local).ok()?;
                self.0.following(short_of_it).next().map(|transition| transition.timestamp().into())
            }
        }
    }

    /// The stretch of constant offset that contains `at`.
    pub(crate) fn segment(&self, at: Timestamp) -> Segment {
        let begin = self.0.preceding(at.next().jiff()).next().map(|transition| {
            let at = Timestamp::from(transition.timestamp());
            Begin { at, offset_before: self.offset_at(at.previous()) }
        });
        let end = self.0.following(at.jiff()).next().map(|transition| transition.timestamp().into());
        Segment { begin, end, offset: self.0.to_offset(at.jiff()) }
    }

    /// Whether the two zones' clocks agree at every instant from 1970 to 2100, whatever they are called.
    pub(crate) fn agrees_with(&self, other: &Zone) -> bool {
        self == other || self.offsets().eq(other.offsets())
    }

    fn offsets(&self) -> impl Iterator<Item = (Timestamp, Offset)> {
        let until = Timestamp::from_second(4_102_444_800).expect("2100-01-01 is in range");
        let first = (Timestamp::UNIX_EPOCH, self.offset_at(Timestamp::UNIX_EPOCH));
        let changes = self
            .0
            .following(Timestamp::UNIX_EPOCH.jiff())
            .map(|transition| (Timestamp::from(transition.timestamp()), transition.offset()))
            .take_while(move |(at, _)| *at < until)
            .scan(first.1, |offset, change| {
                let changed = std::mem::replace(offset, change.1) != change.1;
                Some(changed.then_some(change))
            })
            .flatten();
        std::iter::once(first).chain(changes)
    }
}

/// Whether the zone's offset changes within a year before or after `around`.
///
/// Where it does, a template that names the local hour without the offset gives the same text for the two hours
/// of an overlap (JOB-3).
pub fn has_dst(zone: &Zone, around: Timestamp) -> bool {
    let (Ok(from), Ok(until)) = (around.saturating_add(-YEAR), around.saturating_add(YEAR)) else {
        return false;
    };
    let offset = zone.offset_at(from);
    zone.0
        .following(from.jiff())
        .take_while(|transition| transition.timestamp() <= until.jiff())
        .any(|transition| transition.offset() != offset)
}

/// A stretch of time in which a zone's offset does not change.
pub(crate) struct Segment {
    /// Where it begins; `None` when nothing precedes it.
    pub(crate) begin: Option<Begin>,
    /// The first instant after it; `None` when it never ends.
    pub(crate) end: Option<Timestamp>,
    /// The offset in it.
    pub(crate) offset: Offset,
}

/// The first instant of a segment and the offset that was in effect just before it.
pub(crate) struct Begin {
    pub(crate) at: Timestamp,
    pub(crate) offset_before: Offset,
}

impl Segment {
    /// The instant at which this segment's clock shows `local`, if that is inside the segment.
    pub(crate) fn instant_of(&self, local: DateTime) -> Option<Timestamp> {
        let at = Timestamp::from(self.offset.to_timestamp(local).ok()?);
        let begun = self.begin.as_ref().is_none_or(|begin| begin.at <= at);
        let ended = self.end.is_some_and(|end| end <= at);
        (begun && !ended).then_some(at)
    }
}

impl Begin {
    /// What the clock would have shown at this instant without the change.
    pub(crate) fn local_before(&self) -> DateTime {
        self.offset_before.to_datetime(self.at.jiff())
    }
}

impl TryFrom<&str> for Zone {
    type Error = Error;

    fn try_from(name: &str) -> Result<Zone, Error> {
        match DATABASE.get(name) {
            Ok(zone) if zone.iana_name().is_some() => Ok(Zone(zone)),
            Ok(_) | Err(_) => Err(Error::UnknownZone { value: name.to_owned() }),
        }
    }
}

as_text!(Zone);

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name())
    }
}
