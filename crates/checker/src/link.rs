//! Which records of a journal count, and which void ones a sound log can hold. Rule 2, written a second time.
//!
//! ```text
//!  genesis ◄─ claim 1 ◄─ A ◄─ A ◄──── claim 2 ◄─ B ◄─ B
//!                             ▲
//!                             └─ A    void, and no fault: it links to where epoch 1 ended
//!              ┌─ A                   void, and a fault: nobody who read his journal would write it
//! ```

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tidemill_log::{Frame, Hash, Kind};

use crate::Invariant;

/// Why a record does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Void {
    /// It cannot be read.
    Garbled,
    /// There is no genesis yet.
    BeforeGenesis,
    /// There is one already.
    SecondGenesis,
    /// It is of another epoch than the one due.
    WrongEpoch,
    /// It links to another record than the last one that counts.
    WrongPrev,
    /// Its number is not the next.
    WrongSeq,
    /// The owner had left.
    NoOwner,
}

impl Void {
    /// All of them.
    pub const ALL: &'static [Void] = &[
        Self::Garbled,
        Self::BeforeGenesis,
        Self::SecondGenesis,
        Self::WrongEpoch,
        Self::WrongPrev,
        Self::WrongSeq,
        Self::NoOwner,
    ];
}

impl std::fmt::Display for Void {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Garbled => "it cannot be read",
            Self::BeforeGenesis => "there is no genesis yet",
            Self::SecondGenesis => "there is a genesis already",
            Self::WrongEpoch => "it is of another epoch",
            Self::WrongPrev => "it does not link to the last record that counts",
            Self::WrongSeq => "its number is not the next",
            Self::NoOwner => "the partition has no owner",
        })
    }
}

/// What the next record has to fit to.
#[derive(Clone, Debug)]
struct Tip {
    epoch: u64,
    seq: u64,
    hash: Hash,
    offset: u64,
    owned: bool,
}

/// Why a record does not count, and what is wrong where no sound owner and log leave such a record.
type Rejected = (Void, Option<(Invariant, String)>);

#[derive(Deserialize)]
struct GenesisBody {
    partition: u32,
    count: u32,
}

#[derive(Deserialize)]
struct ClaimBody {
    epoch: u64,
}

/// The fold that decides what counts.
#[derive(Debug, Default)]
pub(crate) struct Link {
    tip: Option<Tip>,
    /// How many partitions the log was made with.
    pub(crate) count: Option<u32>,
    /// Epoch → what its owner may still link to after it was deposed.
    ended: HashMap<u64, Vec<Hash>>,
}

impl Link {
    pub(crate) fn offset(&self) -> Option<u64> {
        self.tip.as_ref().map(|tip| tip.offset)
    }

    /// Epoch, number and hash of the last record that counts.
    pub(crate) fn head(&self) -> (u64, u64, String) {
        self.tip.as_ref().map_or((0, 0, String::new()), |tip| (tip.epoch, tip.seq, tip.hash.to_string()))
    }

    pub(crate) fn judge(&mut self, partition: u32, offset: u64, record: &[u8]) -> Result<Frame, Rejected> {
        let broken = |void, why| (void, Some((Invariant::ChainUnbroken, why)));
        let frame = Frame::decode(record)
            .map_err(|error| broken(Void::Garbled, format!("the record is damaged: {error}")))?;
        let hash = Hash::of(record);
        let Some(tip) = self.tip.clone() else {
            return self.open(partition, offset, hash, frame).map_err(|(void, why)| broken(void, why));
        };
        let next = Tip { hash, offset, seq: tip.seq.saturating_add(1), ..tip.clone() };
        self.tip = Some(match frame.kind {
            Kind::Genesis => return Err((Void::SecondGenesis, None)),
            Kind::Claim => {
                self.claim(&tip, &frame)?;
                Tip { epoch: frame.epoch, owned: true, ..next }
            }
            Kind::Envelope | Kind::Resigned | Kind::Stopped => {
                self.follow(&tip, &frame, hash)?;
                Tip { owned: tip.owned && frame.kind == Kind::Envelope, ..next }
            }
        });
        Ok(frame)
    }

    fn open(
        &mut self,
        partition: u32,
        offset: u64,
        hash: Hash,
        frame: Frame,
    ) -> Result<Frame, (Void, String)> {
        if frame.kind != Kind::Genesis {
            return Err((Void::BeforeGenesis, "the journal does not begin with a genesis".to_owned()));
        }
        let body: GenesisBody = serde_json::from_slice(&frame.body)
            .map_err(|error| (Void::Garbled, format!("the genesis cannot be read: {error}")))?;
        if (frame.epoch, frame.seq, frame.prev) != (0, 0, Hash::ZERO) {
            return Err((Void::Garbled, "the genesis has an epoch, a number or a link".to_owned()));
        }
        if body.partition != partition {
            let why = format!("the genesis is that of partition {}", body.partition);
            return Err((Void::Garbled, why));
        }
        self.count = Some(body.count);
        self.tip = Some(Tip { epoch: 0, seq: 0, hash, offset, owned: false });
        Ok(frame)
    }

    /// A claim counts iff its epoch is the next one. One that came too late is no fault.
    fn claim(&mut self, tip: &Tip, frame: &Frame) -> Result<(), Rejected> {
        let rule = Invariant::EpochsRiseSeqContiguous;
        let body: ClaimBody = serde_json::from_slice(&frame.body)
            .map_err(|error| (Void::Garbled, Some((rule, format!("the claim cannot be read: {error}")))))?;
        if body.epoch != frame.epoch {
            let why = format!("the claim names epoch {}, its header {}", body.epoch, frame.epoch);
            return Err((Void::Garbled, Some((rule, why))));
        }
        if Some(frame.epoch) == tip.epoch.checked_add(1) {
            self.ended.entry(tip.epoch).or_default().push(tip.hash);
            return Ok(());
        }
        let why = format!("a claim of epoch {}, though {} is current", frame.epoch, tip.epoch);
        Err((Void::WrongEpoch, (frame.epoch > tip.epoch).then_some((rule, why))))
    }

    fn follow(&mut self, tip: &Tip, frame: &Frame, hash: Hash) -> Result<(), Rejected> {
        let epochs = Invariant::EpochsRiseSeqContiguous;
        if frame.epoch < tip.epoch {
            return Err((Void::WrongEpoch, self.late(frame, hash)));
        }
        if frame.epoch > tip.epoch {
            let why = format!("a record of epoch {}, though {} is current", frame.epoch, tip.epoch);
            return Err((Void::WrongEpoch, Some((epochs, why))));
        }
        if !tip.owned {
            let why = format!("the owner of epoch {} had left, or never came", tip.epoch);
            return Err((Void::NoOwner, Some((epochs, why))));
        }
        if frame.prev != tip.hash {
            let why = format!(
                "the owner of epoch {} links number {} to {}, but the last record that counts is number {}, {}",
                frame.epoch, frame.seq, frame.prev, tip.seq, tip.hash
            );
            return Err((Void::WrongPrev, Some((Invariant::ChainUnbroken, why))));
        }
        if Some(frame.seq) != tip.seq.checked_add(1) {
            let why = format!("number {} follows number {}", frame.seq, tip.seq);
            return Err((Void::WrongSeq, Some((epochs, why))));
        }
        Ok(())
    }

    /// A deposed owner's late record links to where its epoch ended, or to a late record of its own.
    fn late(&mut self, frame: &Frame, hash: Hash) -> Option<(Invariant, String)> {
        let ended = self.ended.entry(frame.epoch).or_default();
        if ended.contains(&frame.prev) {
            if !ended.contains(&hash) {
                ended.push(hash);
            }
            return None;
        }
        let why = format!(
            "a record of the deposed epoch {} links to {}, which no owner of that epoch ended with",
            frame.epoch, frame.prev
        );
        Some((Invariant::ChainUnbroken, why))
    }
}
