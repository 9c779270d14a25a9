//! Seals of the commands topic: of workers, behind a record, and of processes that know `internal.key`, in a field.
//!
//! A worker's record is `body ‖ 0x00 ‖ seal`. A body is JSON, which has no raw zero byte, so the two come apart in one way only.
//! What a seal is worth, `tidemill-seal` and the owner know; all others read the body.

use super::{Command, ObservationCommand, WorkerCommand};

/// A seal is an HMAC-SHA256.
pub const SEAL_BYTES: usize = 32;

/// The body of a record, and its seal where it has one.
#[must_use]
pub fn seal_parts(value: &[u8]) -> (&[u8], Option<&[u8; SEAL_BYTES]>) {
    let split = value.split_last_chunk::<SEAL_BYTES>();
    match split.and_then(|(body, seal)| Some((body.strip_suffix(&[0])?, seal))) {
        Some((body, seal)) => (body, Some(seal)),
        None => (value, None),
    }
}

/// A record with its seal.
#[must_use]
pub fn sealed_value(body: Vec<u8>, seal: &[u8; SEAL_BYTES]) -> Vec<u8> {
    let mut value = body;
    value.reserve_exact(1 + SEAL_BYTES);
    value.push(0);
    value.extend_from_slice(seal);
    value
}

impl Command {
    /// The seal of a process that knows `internal.key`, where this kind of command has one.
    #[must_use]
    pub fn seal(&self) -> Option<&str> {
        match self {
            Self::Worker(WorkerCommand::ReportUserCode { seal, .. })
            | Self::Observation(
                ObservationCommand::ReportPaths { seal, .. } | ObservationCommand::ReportOutputs { seal, .. },
            ) => Some(seal),
            _ => None,
        }
    }

    /// The same, to be set.
    pub fn seal_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Worker(WorkerCommand::ReportUserCode { seal, .. })
            | Self::Observation(
                ObservationCommand::ReportPaths { seal, .. } | ObservationCommand::ReportOutputs { seal, .. },
            ) => Some(seal),
            _ => None,
        }
    }

    /// Whether an owner passes over it, from level 3 on, unless it has the seal of a worker or of a process that knows
    /// `internal.key`.
    #[must_use]
    pub fn needs_seal(&self) -> bool {
        let of_worker = matches!(
            self,
            Self::Worker(
                WorkerCommand::Register(_)
                    | WorkerCommand::Heartbeat(_)
                    | WorkerCommand::RequestStart(_)
                    | WorkerCommand::RejectAssignment { .. }
                    | WorkerCommand::ReportStarted { .. }
                    | WorkerCommand::ReportFinished { .. }
            ) | Self::Observation(ObservationCommand::RecheckFailed { .. })
        );
        of_worker || self.seal().is_some()
    }
}
