//! Unfinished batches: what phase each is in, who holds it, and what ends it.
//!
//! *Invariant:* a batch is in exactly one phase; a token names exactly one assigned or granted batch, or a final command.

pub(in crate::group) mod apply;
pub(in crate::group) mod attempts;
pub(in crate::group) mod batch;
pub(in crate::group) mod excess;
pub(in crate::group) mod external_work;
pub(in crate::group) mod finish;
pub(in crate::group) mod lost_output;
pub(in crate::group) mod mark;
pub(in crate::group) mod right;
pub(in crate::group) mod timeouts;
pub(in crate::group) mod values;
pub(in crate::group) mod vouched;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use tidemill_derive::Stored;
use tidemill_model::{Actor, BatchId, BatchResult, RerunPlace, ShardId, Token};

use self::batch::Batch;
use self::external_work::StartedElsewhere;
use self::lost_output::LostOutput;
use self::mark::Mark;
use self::timeouts::Late;
use super::Remembered;

/// Unfinished batches, and what is remembered of others.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Batches {
    /// Boxed, for a table has room for twice what it holds.
    by_id: FxHashMap<BatchId, Box<Batch>>,
    by_token: FxHashMap<Token, BatchId>,
    /// Those that are assigned with a right to start.
    rights: BTreeSet<Token>,
    /// Those that are to be ended, for their jobs were deleted, and who wants it.
    cancelling: BTreeMap<BatchId, Actor>,
    /// Running ones that end as somebody said, once what runs of them has ended.
    marks: BTreeMap<BatchId, Mark>,
    /// What attempts of unfinished ones have started elsewhere; those of which nothing is known are left out.
    external_work: BTreeMap<BatchId, StartedElsewhere>,
    /// What is looked for of lost attempts, by the batches that wait for that.
    lost_outputs: BTreeMap<BatchId, LostOutput>,
    /// Those of reruns and cold starts.
    reruns: BTreeMap<BatchId, RerunPlace>,
    /// Those that ended without success and have a time ahead.
    late: Late,
    /// How some of those that ended did.
    ended: Remembered<BatchId, BatchResult>,
    minted: u64,
    tokens_minted: u64,
}

impl Batches {
    pub(crate) fn get(&self, id: &BatchId) -> Option<&Batch> {
        self.by_id.get(id).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: &BatchId) -> Option<&mut Batch> {
        self.by_id.get_mut(id).map(Box::as_mut)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(in crate::group) fn mint_above(&mut self, counter: u64) {
        self.minted = self.minted.max(counter);
        self.tokens_minted = self.tokens_minted.max(counter);
    }

    pub(in crate::group) fn mint_tokens_above(&mut self, counter: u64) {
        self.tokens_minted = self.tokens_minted.max(counter);
    }

    pub(in crate::group) fn tokens_minted(&self) -> u64 {
        self.tokens_minted
    }

    pub(in crate::group) fn minted(&self) -> u64 {
        self.minted.max(self.tokens_minted)
    }

    /// Its number is taken by [`Batches::note_generated`].
    pub(crate) fn insert(&mut self, id: BatchId, batch: Batch) {
        self.by_id.insert(id, Box::new(batch));
    }

    /// A batch was generated: the next one has another number.
    pub(crate) fn note_generated(&mut self) {
        self.minted += 1;
    }

    pub(crate) fn next_id(&self, shard: ShardId) -> BatchId {
        BatchId::mint(self.minted + 1, shard)
    }

    /// A token was given, to a batch or to a final command.
    pub(crate) fn note_token(&mut self) {
        self.tokens_minted += 1;
    }

    pub(crate) fn next_token(&self, shard: ShardId) -> Token {
        let minted = self.tokens_minted + 1;
        let minted = if planted!(TokensEqual) { minted | 1 } else { minted };
        Token::mint(minted, shard)
    }

    /// The batch that was assigned with this token and holds it still.
    pub(crate) fn of_token(&self, token: Token) -> Option<BatchId> {
        self.by_token.get(&token).copied()
    }

    /// How it ended, if that is remembered.
    pub(crate) fn result_of(&self, id: BatchId) -> Option<BatchResult> {
        self.ended.get(&id).copied()
    }

    pub(crate) fn note_rerun(&mut self, id: BatchId, place: RerunPlace) {
        self.reruns.insert(id, place);
    }

    pub(crate) fn of_rerun(&self, place: RerunPlace) -> Option<BatchId> {
        self.reruns.iter().find(|(_, of)| **of == place).map(|(id, _)| *id)
    }

    /// The next batch that is to be ended, for its job was deleted.
    pub(crate) fn next_cancelled(&self) -> Option<BatchId> {
        self.cancelling.keys().next().copied()
    }

    pub(crate) fn contains(&self, id: BatchId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// In no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BatchId, &Batch)> {
        self.by_id.iter().map(|(id, batch)| (*id, batch.as_ref()))
    }
}
