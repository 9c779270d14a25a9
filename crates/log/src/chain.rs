//! The chain is the fence: which records of a journal count, decided alike by every reader.
//!
//! ```text
//!  genesis ◄─ claim 1 ◄─ A ◄─ A ◄─ claim 2 ◄─ B ◄─ B
//!                            ▲
//!                            └─ A   late record of owner 1: void, and so is its pipelined successor
//! ```
//! A claim needs no matching `prev`: it counts iff it is the first of the next epoch, and from then on it is
//! the link that everything by an earlier owner lacks. An owner that resigned or stopped has ended its epoch;
//! what it writes after that is void as well.

use serde::{Deserialize, Serialize};

use crate::{Claim, Genesis, Hash, Head, Header, Kind, Payload};

/// Why a record does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoidReason {
    /// It is not a frame, or a genesis or claim whose body cannot be read.
    Garbled,
    /// It stands before the genesis.
    BeforeGenesis,
    /// There is a genesis already.
    SecondGenesis,
    /// It is of an epoch that is not the current one (of a claim: not the next one).
    WrongEpoch,
    /// It does not link to the last accepted record.
    WrongPrev,
    /// Its number is not the next one.
    WrongSeq,
    /// No one has claimed yet, or the owner had resigned or stopped.
    NoOwner,
}

impl std::fmt::Display for VoidReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Garbled => "the record cannot be read",
            Self::BeforeGenesis => "the journal has no genesis yet",
            Self::SecondGenesis => "the journal has a genesis already",
            Self::WrongEpoch => "the epoch is not the one that is due",
            Self::WrongPrev => "the record does not link to the last accepted one",
            Self::WrongSeq => "the number is not the next one",
            Self::NoOwner => "the partition has no owner",
        })
    }
}

/// What a reader does with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts; the chain has moved on to it.
    Accepted(Header),
    /// It is dropped; the chain has only counted it.
    Void(VoidReason),
}

impl Verdict {
    /// The frame, where the record counts.
    #[must_use]
    pub fn accepted(self) -> Option<Header> {
        match self {
            Self::Accepted(header) => Some(header),
            Self::Void(_) => None,
        }
    }
}

/// The fold over a journal that decides what counts. Pure: the same records give the same verdicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    head: Option<Head>,
    void_count: u64,
}

impl Chain {
    /// A chain before the first record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A chain that goes on after a stored head; the next record is the one at a greater offset.
    #[must_use]
    pub fn resume(head: Head) -> Self {
        Self { head: Some(head), void_count: 0 }
    }

    /// Where the chain stands; `None` before the genesis.
    #[must_use]
    pub const fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// How many records were void since [`Chain::new`] or [`Chain::resume`].
    #[must_use]
    pub const fn void_count(&self) -> u64 {
        self.void_count
    }

    /// Judges the next record of the journal.
    ///
    /// # Panics
    /// When `offset` is not above that of the last accepted record: the reader went backwards.
    pub fn accept(&mut self, offset: u64, record: &Payload) -> Verdict {
        if let Some(head) = &self.head {
            assert!(
                offset > head.offset,
                "offset {offset} comes after {}: the reader went back",
                head.offset
            );
        }
        match self.judge(offset, record) {
            Ok((header, head)) => {
                self.head = Some(head);
                Verdict::Accepted(header)
            }
            Err(reason) => {
                self.void_count += 1;
                Verdict::Void(reason)
            }
        }
    }

    fn judge(&self, offset: u64, record: &Payload) -> Result<(Header, Head), VoidReason> {
        let header = *record.header().map_err(|_| VoidReason::Garbled)?;
        let Some(head) = &self.head else {
            let head = open(&header, offset, record)?;
            return Ok((header, head));
        };
        let (hash, seq) = (record.hash(), head.seq.saturating_add(1));
        let next = Head { offset, hash, seq, ..head.clone() };
        let next = match header.kind {
            Kind::Genesis => return Err(VoidReason::SecondGenesis),
            Kind::Claim => {
                let claim = claim(head, &header, record.body())?;
                let log_id = claim.log_id.as_ref().unwrap_or(&head.log_id).clone();
                Head {
                    log_id,
                    epoch: claim.epoch,
                    owner: Some(claim),
                    resigned: false,
                    stopped: false,
                    ..next
                }
            }
            Kind::Envelope => follow(head, &header).map(|()| next)?,
            Kind::Resigned => follow(head, &header).map(|()| Head { resigned: true, ..next })?,
            Kind::Stopped => follow(head, &header).map(|()| Head { stopped: true, ..next })?,
        };
        Ok((header, next))
    }
}

fn open(header: &Header, offset: u64, record: &Payload) -> Result<Head, VoidReason> {
    if header.kind != Kind::Genesis {
        return Err(VoidReason::BeforeGenesis);
    }
    let genesis: Genesis = serde_json::from_slice(record.body()).map_err(|_| VoidReason::Garbled)?;
    if (header.epoch, header.seq, header.prev) != (0, 0, Hash::ZERO) {
        return Err(VoidReason::Garbled);
    }
    Ok(Head {
        log_id: genesis.log_id,
        partition: genesis.partition,
        count: genesis.count,
        offset,
        epoch: 0,
        seq: 0,
        hash: record.hash(),
        owner: None,
        resigned: false,
        stopped: false,
    })
}

/// A claim's `prev` and `seq` only tell what its writer had seen.
fn claim(head: &Head, header: &Header, body: &[u8]) -> Result<Claim, VoidReason> {
    let claim: Claim = serde_json::from_slice(body).map_err(|_| VoidReason::Garbled)?;
    if claim.epoch != header.epoch {
        return Err(VoidReason::Garbled);
    }
    // The id goes on in its line, and never back.
    if claim.log_id.as_ref().is_some_and(|id| *id == head.log_id || !head.log_id.is_or_becomes(id)) {
        return Err(VoidReason::Garbled);
    }
    let again = planted!(ClaimsWithOneEpoch) && header.epoch == head.epoch;
    if Some(header.epoch) != head.epoch.checked_add(1) && !again {
        return Err(VoidReason::WrongEpoch);
    }
    Ok(claim)
}

fn follow(head: &Head, header: &Header) -> Result<(), VoidReason> {
    planted!(EnvelopeWithoutChainCheck => return Ok(()));
    if header.epoch != head.epoch {
        return Err(VoidReason::WrongEpoch);
    }
    if head.owner.is_none() || head.resigned || head.stopped {
        return Err(VoidReason::NoOwner);
    }
    if header.prev != head.hash {
        return Err(VoidReason::WrongPrev);
    }
    if Some(header.seq) != head.seq.checked_add(1) {
        return Err(VoidReason::WrongSeq);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
