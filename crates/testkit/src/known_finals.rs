//! What is on record of the final commands of batches that have ended.

use tidemill_model::{BatchId, FinalCommandEvent, Token, WorkerId};

use crate::known::Known;

/// A final command that a worker has.
#[derive(Debug)]
pub(crate) struct Final {
    batch: BatchId,
    worker: WorkerId,
    is_granted: bool,
}

impl Known {
    /// A worker leaves: another one gets what it was not granted.
    pub(crate) fn finals_go_on(&mut self, worker: &WorkerId) {
        let waits = |_: &Token, of: &mut Final| of.worker == *worker && !of.is_granted;
        self.unplaced.extend(self.finals.extract_if(.., waits).map(|(_, of)| of.batch));
    }

    pub(crate) fn final_command_event(&mut self, event: &FinalCommandEvent) {
        match event {
            FinalCommandEvent::Assigned { batch, token, worker, .. } => {
                self.unplaced.remove(batch);
                let of = Final { batch: *batch, worker: worker.clone(), is_granted: false };
                self.finals.insert(*token, of);
            }
            FinalCommandEvent::Granted { token, .. } => {
                if let Some(of) = self.finals.get_mut(token) {
                    of.is_granted = true;
                }
            }
            FinalCommandEvent::NotRun { batch, .. } => {
                self.unplaced.remove(batch);
            }
            FinalCommandEvent::Finished { token: Some(token), .. } => {
                self.finals.remove(token);
            }
            _ => {}
        }
    }
}
