//! What the worker of a final command is told and asks, as for an attempt.

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::final_commands::{Held, Phase};
use crate::group::workers::report::{GRANTED_TO_ANOTHER, MAX_NONCE_BYTES};
use crate::schedule::final_spec;
use tidemill_model::{FinalCommandEvent, FinalResult, RunSpec, StartRequest, Token, WorkMessage, WorkerId};

impl GroupShard {
    pub(crate) fn request_final(&self, request: &StartRequest) -> Option<Decision> {
        let StartRequest { token, worker, incarnation, nonce } = request;
        let held = self.final_commands.held.get(token)?;
        let refused = |reason: &str| Decision::refused(worker, *token, reason);
        let lives = held.worker == *worker && self.workers.lives(worker, incarnation);
        if !lives || !(1..=MAX_NONCE_BYTES).contains(&nonce.as_str().len()) {
            return Some(refused("this life of the worker does not have it"));
        }
        Some(match &held.phase {
            Phase::Assigned { .. } if self.workers.is_of_earlier_life(worker, *token) => {
                refused("an earlier life of the worker had it; it is taken back")
            }
            Phase::Assigned { .. } => match self.final_spec(*token, held) {
                Ok(_) => Decision::of(FinalCommandEvent::Granted {
                    batch: held.batch,
                    token: *token,
                    worker: worker.clone(),
                    incarnation: incarnation.clone(),
                    nonce: nonce.clone(),
                }),
                Err(why) => {
                    Decision::events(self.final_commands.final_ended(*token, FinalResult::NotRun, &why))
                }
            },
            Phase::Granted { incarnation: life, nonce: asked } if life == incarnation && asked == nonce => {
                Decision::repeated(worker, self.outstanding_final(*token))
            }
            Phase::Granted { .. } => refused(GRANTED_TO_ANOTHER),
        })
    }

    /// What the worker of a final command must hear of such a fact.
    pub(crate) fn work_of_final_command(&self, event: &FinalCommandEvent) -> Option<(WorkerId, WorkMessage)> {
        let (worker, message) = match event {
            FinalCommandEvent::Assigned { token, worker, .. }
            | FinalCommandEvent::Granted { token, worker, .. } => (worker, self.outstanding_final(*token)?),
            FinalCommandEvent::Finished { token: Some(token), worker, .. } => {
                (worker, WorkMessage::Recorded { token: *token })
            }
            FinalCommandEvent::Finished { token: None, .. } | FinalCommandEvent::NotRun { .. } => {
                return None;
            }
        };
        Some((worker.clone(), message))
    }

    /// What its worker must hear of it.
    pub(crate) fn outstanding_final(&self, token: Token) -> Option<WorkMessage> {
        let held = self.final_commands.held.get(&token)?;
        Some(match &held.phase {
            Phase::Assigned { .. } => WorkMessage::Assigned {
                worker: held.worker.clone(),
                token,
                job_type: held.of.definition.spec.job_type.clone(),
                checks: Vec::new(),
            },
            Phase::Granted { incarnation, nonce } => {
                let spec = Box::new(self.final_spec(token, held).ok()?);
                WorkMessage::Granted { incarnation: incarnation.clone(), nonce: nonce.clone(), spec }
            }
        })
    }

    fn final_spec(&self, token: Token, held: &Held) -> Result<RunSpec, String> {
        let run = final_spec(token, held.batch, &held.of, &self.zone_of(&held.of.definition))?;
        Ok(RunSpec { group_limits: self.limits(), ..run })
    }
}
