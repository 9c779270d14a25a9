//! Hints: *nothing is due for this user before then* (PUL-6, PUL-9). A hint only ever spares an empty answer; who has
//! none that counts asks the owner. So all of this may be lost at any moment.
//!
//! ```text
//!  journal ─► keeper ── turn: marks + beat, one atomic step ──► back end ◄── look: one atomic read ── interface
//!                                                                   ▲                                     │
//!                                                                   └──────── keep: the owner's answer ◄──┘
//! ```
//! One keeper for each partition reads the journal and writes *marks*: the offset of the last fact that may have made
//! something due for a group, or for one user. It beats, and with each beat says until when its *life* holds. A hint
//! counts while (see [`Look::counting`])
//! - the life that it names holds: then every fact older than a second has its mark, and no mark was lost;
//! - no mark of its group or its user is at its position or after it;
//! - its time is not over.
//!
//! Where nobody looks, the keeper rests: its life runs out, and the next look wakes it.
//!
//! Each write of the keeper is one step of a chain of numbers that the back end compares with what it has. A back end
//! that was emptied, that lost its last writes, or that somebody restored from a copy stands elsewhere: the step is
//! refused, and the keeper begins a new life, in which no older hint counts. *A hint has to name the life that held
//! before the owner was asked*: then every mark after the owner's answer is of that life.

mod memory;
#[cfg(feature = "redis")]
mod redis;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use memory::MemoryHints;
#[cfg(feature = "redis")]
pub use redis::RedisHints;

use crate::Error;

/// An answer that the back end gives later.
pub type HintFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The longest that a hint is kept. What is due is known less than a day ahead.
pub const LONGEST_HINT: Duration = Duration::from_secs(24 * 60 * 60);
/// Marks outlive every hint that they could end.
#[cfg(feature = "redis")]
pub(crate) const MARKS_KEPT: Duration = Duration::from_secs(25 * 60 * 60);

/// A look is remembered for so long.
pub const WANTED_FOR: Duration = Duration::from_secs(30);

/// A time without a break in the marks of one partition. Drawn at random.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(Arc<str>);

impl Life {
    /// A new one.
    ///
    /// # Panics
    /// The system has no random bytes.
    #[must_use]
    pub fn draw() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string().into())
    }

    /// As it is written down.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whom a hint is for, and whose marks end it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// Partition of the journal.
    pub partition: u32,
    /// The shard of the user's group.
    pub shard: u16,
    /// The user.
    pub user: Arc<str>,
}

/// Nothing is due for the user before a time, as the owner answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The life that held before the owner was asked.
    pub life: Life,
    /// The journal's record of the owner's answer.
    pub offset: u64,
    /// Until when, milliseconds since 1970.
    pub until_ms: i64,
    /// Something begins then, as far as the owner knew; else it is only known so far.
    pub begins: bool,
}

/// Something may have become due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// For every user of the group.
    Group {
        /// The group's shard.
        shard: u16,
    },
    /// For one user.
    User {
        /// The shard of the user's group.
        shard: u16,
        /// Whom.
        user: Arc<str>,
    },
}

/// One step of a partition's keeper.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// Whose.
    pub partition: u32,
    /// Of this life.
    pub life: &'a Life,
    /// The last step that is known to be done. Every mark since is in this step.
    pub confirmed: u64,
    /// The number of this step: above that of every step before it.
    pub number: u64,
    /// Each with the offset of its fact.
    pub marks: &'a [(Mark, u64)],
    /// The life holds until then, by the clock of the back end.
    pub holds_until_ms: Option<i64>,
}

/// What there is for a user, as of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// The life that holds.
    pub life: Option<Life>,
    /// The hint, whether it counts or not.
    pub hint: Option<Hint>,
    /// The last mark of the group.
    pub group_mark: Option<u64>,
    /// The last mark of the user.
    pub user_mark: Option<u64>,
}

impl Look {
    /// The hint, if it counts at this moment.
    ///
    /// A fact in the very record of the answer may have been decided after it, so it ends the hint too.
    #[must_use]
    pub fn counting(&self, now_ms: i64) -> Option<&Hint> {
        let hint = self.hint.as_ref()?;
        let is_after = |mark: Option<u64>| mark.is_none_or(|mark| mark < hint.offset);
        let counts = self.life.as_ref() == Some(&hint.life)
            && is_after(self.group_mark)
            && is_after(self.user_mark)
            && now_ms < hint.until_ms;
        counts.then_some(hint)
    }
}

/// A part of the hints of a partition, whether they count or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HintPage {
    /// What there is for each user who has a hint, all of it as of one moment.
    pub looks: Vec<(Place, Look)>,
    /// Where the next part begins; absent: this is the last one.
    pub next: Option<u64>,
}

/// Where hints are.
pub trait Hints: Send + Sync {
    /// What there is for a user.
    ///
    /// # Errors
    /// The back end does not answer in time; for a second after that it is not asked.
    fn look(&self, place: &Place) -> HintFuture<'_, Look>;

    /// Keeps a hint, in place of an older one, for at most [`LONGEST_HINT`].
    ///
    /// # Errors
    /// As with [`Hints::look`].
    fn keep(&self, place: &Place, hint: &Hint, kept_for: Duration) -> HintFuture<'_, ()>;

    /// A part of the hints of the partition: the first one, or the one at [`HintPage::next`]. A hint that is kept, or
    /// ends, between two parts may be missing or seen twice. It is no look: a keeper that rests goes on resting. Blocks.
    ///
    /// # Errors
    /// The back end does not answer in time.
    fn page(&self, partition: u32, from: Option<u64>) -> Result<HintPage, Error>;

    /// Ends the life of the partition, so that no hint that is there counts any more, and deletes the hints. Its keeper
    /// begins a new life with its next step; until then owners are asked. Gives how many hints were deleted. Blocks.
    ///
    /// # Errors
    /// The back end does not answer in time. Done again, it goes on.
    fn forget(&self, partition: u32) -> Result<u64, Error>;

    /// Whether anybody has looked for a hint of the partition within about [`WANTED_FOR`]. Blocks.
    ///
    /// # Errors
    /// The back end does not answer in time.
    fn wanted(&self, partition: u32) -> Result<bool, Error>;

    /// The time of the back end, milliseconds. Blocks.
    ///
    /// # Errors
    /// The back end does not answer in time.
    fn clock_ms(&self) -> Result<i64, Error>;

    /// Begins a life, with step 0 done; `false` where another one holds, whose keeper works. Blocks.
    ///
    /// # Errors
    /// The back end does not answer in time, or might drop single marks.
    fn begin(&self, partition: u32, life: &Life) -> Result<bool, Error>;

    /// Does a step, whole or not at all; `false` where the back end does not stand where the keeper left it. Blocks.
    /// After an error the outcome is open, and the next step has to hold the same marks.
    ///
    /// # Errors
    /// The back end does not answer in time.
    fn turn(&self, turn: &Turn<'_>) -> Result<bool, Error>;
}

/// Where a partition's chain of steps stands.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stand {
    life: Life,
    number: u64,
}

impl Stand {
    /// Whether a step goes on from here.
    fn takes(&self, turn: &Turn<'_>) -> bool {
        self.life == *turn.life && (turn.confirmed..turn.number).contains(&self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PUL-9: a fact at or after the owner's answer ends the hint, as does another life and the end of its time.
    #[test]
    fn hint_counts_only_while_nothing_speaks_against_it() {
        let life = Life::draw();
        let hint = Hint { life: life.clone(), offset: 10, until_ms: 1_000, begins: true };
        let good = Look { life: Some(life), hint: Some(hint), group_mark: Some(9), user_mark: Some(3) };
        assert_eq!(good.counting(999), good.hint.as_ref());
        assert_eq!(good.counting(1_000), None);
        let bad = [
            Look { life: None, ..good.clone() },
            Look { life: Some(Life::draw()), ..good.clone() },
            Look { hint: None, ..good.clone() },
            Look { group_mark: Some(10), ..good.clone() },
            Look { user_mark: Some(10), ..good.clone() },
        ];
        for look in bad {
            assert_eq!(look.counting(0), None, "{look:?}");
        }
        let unmarked = Look { group_mark: None, user_mark: None, ..good };
        assert!(unmarked.counting(0).is_some());
    }
}
