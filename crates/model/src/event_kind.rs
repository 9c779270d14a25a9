//! What each kind of event is called, and whether the public feed has it.
//!
//! It stands at the event's variant (`#[event(…)]`, [`tidemill_derive`]). A public kind has the sentence that says when it
//! happens; its schema, the AsyncAPI document and docs/reference/events.md take it from there. An internal kind has the
//! reason why it stays in the journal.

use std::fmt;

use crate::Level;

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventKind {
    /// Its name, `noun.verb`, without version.
    pub name: &'static str,
    /// Who gets events of this kind.
    pub audience: Audience,
    /// The level since which it may be written (rule 13).
    pub level: Level,
}

/// Who gets events of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Readers of the public feed. The sentence says when such an event happens.
    Public(&'static str),
    /// Only readers of the journal.
    Internal(Internal),
}

/// Why the public feed does not have a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Internal {
    /// Another shard recorded the fact, and its event is the public one.
    Copy,
    /// A question, an answer or an order; the outcome is public.
    BetweenShards,
    /// Which messages between shards arrived.
    Delivery,
    /// Which jobs of other shards a shard wants to hear of.
    Subscription,
    /// Permits of shared pools on their way; `batch.assigned` is what comes of them.
    Permit,
    /// Steps of an apply between `apply.committed` and `apply.finished`, or before it is committed.
    ApplyStep,
    /// The shard's memory, not what happened.
    Eviction,
    /// Concerns a copy of the state.
    Snapshot,
    /// A timer or a question of the scheduler's own, after which a public event follows.
    Chore,
    /// Mail addresses, phone numbers and refused calls have their own calls (`/api/people`, `/api/audit`) and rights.
    Directory,
    /// Dead letters have their own calls (`/api/dead-letters`) and rights: a reason may quote a command.
    DeadLetter,
}

impl fmt::Display for Internal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Internal::Copy => "it is a shard's copy of a fact that another shard published",
            Internal::BetweenShards => "it is a question, an answer or an order between shards",
            Internal::Delivery => "it acknowledges messages between shards",
            Internal::Subscription => "it is a subscription of a shard to jobs of another shard",
            Internal::Permit => "it moves permits of shared pools between shards",
            Internal::ApplyStep => "it is a step of an apply; apply.committed and apply.finished are public",
            Internal::Snapshot => "it names a copy of the partition's state, which changes nothing",
            Internal::Eviction => "it only removes old entries from the memory of a shard",
            Internal::Chore => "it is the scheduler's own bookkeeping",
            Internal::Directory => {
                "it names people and addresses, which `/api/people` and `/api/audit` show by right"
            }
            Internal::DeadLetter => "dead letters are read with GET /api/dead-letters",
        })
    }
}

impl EventKind {
    /// The sentence that says when an event of this kind happens; `None`: the public feed does not have it.
    #[must_use]
    pub fn sentence(&self) -> Option<&'static str> {
        match self.audience {
            Audience::Public(sentence) => Some(sentence),
            Audience::Internal(_) => None,
        }
    }

    /// The kinds that the public feed has, in the order in which they are defined.
    pub fn public() -> impl Iterator<Item = &'static EventKind> {
        Self::all().filter(|kind| kind.sentence().is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// EVT-3: a reader of the feed learns of every kind when it happens.
    #[test]
    fn every_public_kind_has_a_sentence() {
        for kind in EventKind::public() {
            let sentence = kind.sentence().unwrap();
            let length = sentence.chars().count();
            assert!((20..=160).contains(&length), "{}: {length} characters: {sentence}", kind.name);
            assert!(sentence.ends_with('.') && !sentence.ends_with(".."), "{}: {sentence}", kind.name);
            assert!(sentence.starts_with(char::is_uppercase), "{}: {sentence}", kind.name);
            assert_eq!(sentence, sentence.trim(), "{}", kind.name);
        }
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let names: BTreeSet<_> = EventKind::all().map(|kind| kind.name).collect();
        assert_eq!(names.len(), EventKind::all().count());
        for name in names {
            let words: Vec<_> = name.split('.').collect();
            let is_word =
                |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(words.len() == 2 && words.iter().all(is_word), "{name}");
        }
    }

    /// What only moves between shards, or only keeps a shard's memory small, is nobody's business outside.
    #[test]
    fn bookkeeping_is_internal() {
        for kind in EventKind::public() {
            let verb = kind.name.split_once('.').unwrap().1;
            let of_bookkeeping =
                ["received", "heard", "told", "asked", "taken", "forgotten", "evicted", "acknowledged"];
            assert!(!of_bookkeeping.contains(&verb), "{} is public", kind.name);
        }
    }
}
