//! Who is on call when, as written. What follows from it is in `tidemill-calendar`.

use jiff::civil::DateTime;
use tidemill_derive::vocabulary;

use crate::{PersonName, bounds};

/// A rota: people take turns, and hand over at the same time of day.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct Rota {
    /// IANA zone of its times.
    pub zone: String,
    /// When the first turn begins; before that nobody is on call. Turns begin at this time of day, local time.
    pub starts: DateTime,
    /// Days that a turn takes, 1 to 366.
    #[schemars(range(min = 1, max = bounds::ROTA_DAYS))]
    pub days: u16,
    /// Who is on call, turn after turn, then from the beginning: the primary first, then the secondary; 1 to 200 turns of 1 to
    /// 8 people.
    #[schemars(length(min = 1, max = bounds::ROTA_TURNS))]
    pub turns: Vec<Vec<PersonName>>,
    /// Times at which others are; at most 200, none of which overlaps another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::ROTA_OVERRIDES))]
    pub overrides: Vec<RotaOverride>,
}

/// Somebody else is on call for a time.
#[vocabulary(Eq)]
#[serde(deny_unknown_fields)]
pub struct RotaOverride {
    /// From then on, local time of the rota …
    pub from: DateTime,
    /// … until before then.
    pub to: DateTime,
    /// The primary first; 1 to 8.
    #[schemars(length(min = 1, max = bounds::ROTA_PEOPLE))]
    pub people: Vec<PersonName>,
}

impl Rota {
    /// Everybody whom it names, some more than once.
    pub fn people(&self) -> impl Iterator<Item = &PersonName> {
        let overrides = self.overrides.iter().flat_map(|other| &other.people);
        self.turns.iter().flatten().chain(overrides)
    }
}
