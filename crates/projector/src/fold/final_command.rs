//! The final commands of batches.

use tidemill_model::{FinalCommandEvent, FinalResult};
use tidemill_store::rows::BatchRow;

use super::{Caches, Place};

impl Caches {
    /// The rows that such an event changes or reads.
    pub(super) fn need_final_command(&mut self, event: &FinalCommandEvent) {
        match event {
            FinalCommandEvent::Assigned { batch, .. }
            | FinalCommandEvent::Finished { batch, .. }
            | FinalCommandEvent::NotRun { batch, .. } => self.batches.need((batch.0,)),
            FinalCommandEvent::Granted { .. } => {}
        }
    }

    pub(super) fn apply_final_command(&mut self, at: Place, event: &FinalCommandEvent) {
        match event {
            FinalCommandEvent::Assigned { batch, token, .. } => {
                self.batches.change((batch.0,), |row| row.final_token = Some(token.0));
            }
            FinalCommandEvent::Granted { .. } => {}
            FinalCommandEvent::Finished { batch, result, message, .. } => {
                self.batches.change((batch.0,), |row| end_final(row, at, *result, message));
            }
            FinalCommandEvent::NotRun { batch, message, .. } => {
                self.batches.change((batch.0,), |row| end_final(row, at, FinalResult::NotRun, message));
            }
        }
    }
}

fn end_final(row: &mut BatchRow, at: Place, result: FinalResult, message: &str) {
    row.final_result = Some(result.as_str().into());
    row.final_message = (!message.is_empty()).then(|| message.into());
    row.final_ended_at = Some(at.now);
}
