//! Where a chain stands, and how the next record is made from that.

use serde::{Deserialize, Serialize};

use crate::{Codec, Frame, FrameError, Hash, Kind, LogId};

/// Body of the first record of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    /// The log that this journal belongs to.
    pub log_id: LogId,
    /// Which partition it is.
    pub partition: u32,
    /// How many partitions the log was made with.
    pub count: u32,
}

impl Genesis {
    /// The record that opens the journal.
    #[must_use]
    pub fn record(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).expect("a genesis is plain strings and numbers");
        let frame =
            Frame { kind: Kind::Genesis, epoch: 0, seq: 0, prev: Hash::ZERO, codec: Codec::Plain, body };
        frame.encode().expect("a genesis is far below the cap: the log id is checked to be short")
    }
}

/// Body of a claim: who takes the partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The epoch that begins; the same as in the record's header.
    pub epoch: u64,
    /// One life of one owner process.
    pub incarnation: String,
    /// Where the owner answers questions about its state.
    pub address: String,
    /// The id of the log from this record on, where the log was restored: a later one of its line. Only an embedded log has such
    /// a claim, in a file that programs refuse which do not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_id: Option<LogId>,
}

/// Where a chain stands after its last accepted record. This is what a stored position consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// From the genesis, or the last claim of a restore.
    pub log_id: LogId,
    /// From the genesis.
    pub partition: u32,
    /// From the genesis: how many partitions the log was made with.
    pub count: u32,
    /// Offset of the last accepted record.
    pub offset: u64,
    /// The current ownership; 0 before the first claim.
    pub epoch: u64,
    /// How many records were accepted after the genesis.
    pub seq: u64,
    /// Hash of the last accepted record.
    pub hash: Hash,
    /// The last accepted claim.
    pub owner: Option<Claim>,
    /// The owner has left: anyone may claim at once.
    pub resigned: bool,
    /// The owner could not go on: others leave the partition alone.
    pub stopped: bool,
}

impl Head {
    /// What the next record has to link to.
    #[must_use]
    pub const fn tip(&self) -> Tip {
        Tip { epoch: self.epoch, seq: self.seq, hash: self.hash }
    }

    /// The record by which `incarnation` takes the partition; it is accepted where no one else claims first.
    ///
    /// # Errors
    /// [`FrameError::FrameTooLarge`] where the two texts are absurdly long.
    pub fn claim(&self, incarnation: &str, address: &str) -> Result<Vec<u8>, FrameError> {
        self.claim_as(incarnation, address, None)
    }

    /// The same for a log that was restored, and has this id from then on.
    ///
    /// # Errors
    /// [`FrameError::FrameTooLarge`] where the text is absurdly long.
    pub fn claim_restored(&self, incarnation: &str, log_id: &LogId) -> Result<Vec<u8>, FrameError> {
        self.claim_as(incarnation, "", Some(log_id.clone()))
    }

    fn claim_as(
        &self,
        incarnation: &str,
        address: &str,
        log_id: Option<LogId>,
    ) -> Result<Vec<u8>, FrameError> {
        let epoch = self.epoch.saturating_add(1);
        let (incarnation, address) = (incarnation.to_owned(), address.to_owned());
        let claim = Claim { epoch, incarnation, address, log_id };
        let body = serde_json::to_vec(&claim).expect("a claim is plain strings and numbers");
        let (kind, seq, codec) = (Kind::Claim, self.seq.saturating_add(1), Codec::Plain);
        Frame { kind, epoch, seq, prev: self.hash, codec, body }.encode()
    }
}

/// What the next record has to link to. A writer that pipelines keeps its own, ahead of what it read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The ownership that writes.
    pub epoch: u64,
    /// `seq` of the last record.
    pub seq: u64,
    /// Hash of the last record.
    pub hash: Hash,
}

impl Tip {
    /// The next record of the owner, and the tip after it.
    ///
    /// # Errors
    /// [`FrameError::FrameTooLarge`] where the body is too large.
    ///
    /// # Panics
    /// Asked for a genesis or a claim: those are made by [`Genesis::record`] and [`Head::claim`].
    pub fn next(&self, kind: Kind, body: Vec<u8>) -> Result<(Vec<u8>, Self), FrameError> {
        self.next_as(kind, Codec::Plain, body)
    }

    /// The same, with a body that is written so.
    ///
    /// # Errors
    /// [`FrameError::FrameTooLarge`] where the body is too large.
    ///
    /// # Panics
    /// Asked for a genesis or a claim.
    pub fn next_as(&self, kind: Kind, codec: Codec, body: Vec<u8>) -> Result<(Vec<u8>, Self), FrameError> {
        assert!(!matches!(kind, Kind::Genesis | Kind::Claim), "{kind:?} does not follow a tip");
        let seq = self.seq.saturating_add(1);
        let record = Frame { kind, epoch: self.epoch, seq, prev: self.hash, codec, body }.encode()?;
        let hash = Hash::of(&record);
        Ok((record, Self { epoch: self.epoch, seq, hash }))
    }
}
