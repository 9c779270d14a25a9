//! Ids. Those that the state mints are positive 64-bit integers with the minting shard's number in the
//! low bits, so that shards mint without coordination; those that a process draws are short strings.

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_derive::vocabulary;

use crate::name::shown_as_wrapped;

/// Bits of a minted id that hold the shard's number.
const SHARD_BITS: u32 = 12;

/// The unit of ownership and decision: the catalogue, or the work of one worker group.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Hash, Default)]
#[serde(transparent)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The reserved shard that decides what concerns the whole: definitions, groups, keys.
    pub const CATALOGUE: ShardId = ShardId(0);
    /// The largest shard number that fits into an id.
    pub const MAX: ShardId = ShardId((1 << SHARD_BITS) - 1);

    /// The partition that holds this shard, of `count` partitions. The catalogue has partition 0 for
    /// itself (unless there is only one); the others share the rest.
    pub fn partition(self, count: u32) -> u32 {
        match (self.0, count) {
            (_, 0 | 1) | (0, _) => 0,
            (shard, count) => 1 + (u32::from(shard) - 1) % (count - 1),
        }
    }
}

shown_as_wrapped!(ShardId);

macro_rules! minted_ids {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(extend("minimum" = 1))]
        pub struct $name(pub i64);

        impl $name {
            /// The `counter`-th id of its kind that `shard` mints.
            pub fn mint(counter: u64, shard: ShardId) -> Self {
                assert!(counter < 1 << 51, "id counter exhausted");
                Self(((counter << SHARD_BITS) | u64::from(shard.0)) as i64)
            }

            /// The shard that minted it, and so the one that decides about it.
            pub fn shard(self) -> ShardId {
                ShardId((self.0 & ((1 << SHARD_BITS) - 1)) as u16)
            }
        }

        shown_as_wrapped!($name);

        impl FromStr for $name {
            type Err = std::num::ParseIntError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                // No shard mints another: positive numbers, of 63 bits.
                text.parse::<NonZero<u64>>()?;
                text.parse().map(Self)
            }
        }
    )+};
}

minted_ids! {
    /// A job definition.
    JobId;
    /// One run of a job for one logical time.
    BatchId;
    /// Something outside that batches wait for, as its shard numbers it.
    ExternalDependencyId;
    /// A rerun or a cold start, from its plan to its end.
    RerunId;
    /// One action for many batches or jobs.
    BulkId;
    /// A pull task.
    TaskId;
    /// One handing out of a pull task to a user. Grows with every grant of its shard.
    GrantId;
    /// The fencing number of one assignment; the id of the attempt that may come of it. Grows with every
    /// assignment of its shard.
    Token;
}

impl JobId {
    /// The id with this counter, if there can be one.
    pub(crate) fn of_counter(counter: i64, shard: ShardId) -> Option<Self> {
        let counter = u64::try_from(counter).ok().filter(|counter| *counter < 1 << 51)?;
        (shard <= ShardId::MAX).then(|| Self::mint(counter, shard))
    }

    /// How many its shard had minted with it.
    pub(crate) fn counter(self) -> i64 {
        self.0 >> SHARD_BITS
    }
}

impl Token {
    /// How many its shard had minted with it.
    pub fn counter(self) -> u64 {
        (self.0 >> SHARD_BITS).unsigned_abs()
    }

    /// The text that a group's key signs for the program of an attempt, which shows that as its right to report.
    pub fn attempt_key_text(self) -> String {
        format!("tidemill-attempt\n{self}")
    }
}

/// A worker group, as clients number it.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Hash)]
#[serde(transparent)]
pub struct GroupId(pub i32);

shown_as_wrapped!(GroupId);

macro_rules! drawn_ids {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub std::sync::Arc<str>);

        impl $name {
            /// Wraps the text as it is.
            pub fn new(text: impl Into<std::sync::Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        shown_as_wrapped!($name);
    )+};
}

drawn_ids! {
    /// A worker: drawn once per state directory and boot, so a new directory is a new worker.
    WorkerId;
    /// One life of a worker process.
    Incarnation;
    /// Drawn by a worker for each start request; a grant counts only for the nonce that asked.
    Nonce;
    /// Chosen by a client and kept over its retries; a repeat gets the first answer.
    RequestId;
    /// One process that waits for replies.
    InstanceId;
}

/// What the id of a redrive begins with. Ids that clients choose hold a colon, and those that are drawn no slash.
const REDRIVE: &str = "redrive/";

impl RequestId {
    /// Of a client's request (API-4): under `key`, which `app` chose and keeps over its retries, it asks for what
    /// `fingerprint` stands for. What is said again asks for the same.
    pub fn of_client(app: &str, key: &str, fingerprint: u64) -> Self {
        Self::new(format!("{app}:{key}#{fingerprint:016x}"))
    }

    /// Of one of the commands that make a request; `what` tells them apart.
    pub fn part(&self, what: impl fmt::Display) -> Self {
        match self.split() {
            Some((key, fingerprint)) => Self::new(format!("{key}~{what}#{fingerprint}")),
            None => Self::new(format!("{self}~{what}")),
        }
    }

    /// What the client chose, with its application, where this is the id of a client's request.
    pub fn key(&self) -> Option<&str> {
        self.split().map(|(key, _)| key)
    }

    fn split(&self) -> Option<(&str, &str)> {
        let (key, fingerprint) = self.as_str().rsplit_once('#')?;
        let is_fingerprint = fingerprint.len() == 16 && fingerprint.bytes().all(|it| it.is_ascii_hexdigit());
        (is_fingerprint && key.contains(':')).then_some((key, fingerprint))
    }

    /// Of a command that is sent again after the one at `offset` of the same partition was set aside (EVT-9); `nonce`
    /// tells several such apart.
    pub fn redrive(offset: u64, nonce: &str) -> Self {
        Self::new(format!("{REDRIVE}{offset}/{nonce}"))
    }

    /// The offset of the command that was set aside, where this is the id of a redrive.
    pub fn redriven_offset(&self) -> Option<u64> {
        let (offset, nonce) = self.as_str().strip_prefix(REDRIVE)?.split_once('/')?;
        offset.parse().ok().filter(|_| !nonce.contains([':', '/']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-3: what no shard mints is no id, as schemas have it.
    #[test]
    fn ids_are_read_from_positive_numbers() {
        assert_eq!("4097".parse(), Ok(BatchId(4097)));
        assert_eq!(i64::MAX.to_string().parse(), Ok(BatchId(i64::MAX)));
        for text in ["", "0", "-1", "9223372036854775808", "a", "1.0"] {
            assert!(text.parse::<BatchId>().is_err(), "{text}");
        }
    }

    #[test]
    fn minted_ids_carry_their_shard_and_grow() {
        let first = BatchId::mint(1, ShardId(7));
        let second = BatchId::mint(2, ShardId(7));
        assert_eq!(first.shard(), ShardId(7));
        assert!(first.0 > 0 && second > first);
        assert_ne!(first, BatchId::mint(1, ShardId(8)));
    }

    /// EVT-9: the id of a redrive names what was set aside; no id that a client chooses is taken for one.
    #[test]
    fn redrives_are_told_by_their_ids() {
        assert_eq!(RequestId::redrive(17, "ab").redriven_offset(), Some(17));
        for other in ["redrive/17/x:ab", "redrive/x/ab", "redrive/17", "app:redrive/17/ab", "00ff"] {
            assert_eq!(RequestId::new(other).redriven_offset(), None, "{other}");
        }
    }

    /// API-4: a key may look like anything; the fingerprint is what stands last.
    #[test]
    fn request_ids_of_clients_have_a_key_and_a_fingerprint() {
        let id = RequestId::of_client("app", "a#0123456789abcdef", 7);
        assert_eq!(id.as_str(), "app:a#0123456789abcdef#0000000000000007");
        assert_eq!(id.key(), Some("app:a#0123456789abcdef"));
        assert_eq!(id.part(2).as_str(), "app:a#0123456789abcdef~2#0000000000000007");
        for other in ["00ff", "app:a", "app:a#7", "a#0123456789abcdef", "bulk~1~2"] {
            let id = RequestId::new(other);
            assert_eq!((id.key(), id.part("x").as_str()), (None, format!("{other}~x").as_str()));
        }
    }

    #[test]
    fn catalogue_has_a_partition_of_its_own() {
        assert_eq!(ShardId::CATALOGUE.partition(16), 0);
        assert!((1..=4095).all(|shard| (1..16).contains(&ShardId(shard).partition(16))));
        assert_eq!(ShardId(5).partition(1), 0);
    }
}
