//! EXE-13: what processes of the simulated world start elsewhere, on a cluster that nothing here ends but a shim's word.
//!
//! A shim that ends its attempt ends that first. Of a process whose shim or host is gone it goes on, and the shim of the next attempt
//! ends what its order names before its process begins.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_executor::{ExitRecord, ExternalRecord, ExternalState, Input};
use tidemill_model::{AttemptEvent, BatchEvent, BatchId, Envelope, Event, ExternalWorkId, Level, Token};

use crate::happening::Happening;
use crate::plan::Mode;
use crate::rng::Rng;
use crate::world::World;

#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// What runs, by its batch: of which attempts.
    runs: BTreeMap<BatchId, BTreeSet<Token>>,
    /// Assigned since external work is on record.
    recorded: BTreeSet<Token>,
}

/// It may be found again later, by whoever takes the attempt over.
fn ids(token: Token) -> Vec<ExternalWorkId> {
    ["a", "b"]
        .map(|part| ExternalWorkId::try_from(format!("application_{token}_{part}").as_str()).expect("an id"))
        .into()
}

impl World {
    /// The shim of an attempt has ended what its order names; then its process begins, and some start something elsewhere.
    pub(crate) fn begins_elsewhere(&mut self, index: usize, life: u64, token: Token) {
        let Some(process) = self.clusters[index].processes.get(&token) else { return };
        let (batch, earlier) = (process.batch, process.unconfirmed.clone());
        if process.is_final || self.plan.mode != Mode::Usual {
            return;
        }
        let runs = self.elsewhere.runs.entry(batch).or_default();
        runs.retain(|of| !earlier.contains(of));
        if let Some(other) = runs.first().copied() {
            self.is_wrong(format!(
                "what attempt {other} of batch {batch} started elsewhere runs when {token} begins"
            ));
        }
        if !earlier.is_empty() {
            self.stats.add("condition", "external_work_of_earlier_attempt");
        }
        let mut rng = Rng::new(self.plan.seed, "elsewhere", token.0 as u64);
        if !self.elsewhere.recorded.contains(&token) || !rng.chance(40) {
            return;
        }
        self.elsewhere.runs.entry(batch).or_default().insert(token);
        self.stats.add("condition", "external_work");
        let ids = ids(token);
        let found = |ids: &[ExternalWorkId]| Input::ExternalWorkFound { token, ids: ids.to_vec() };
        self.after(rng.range(3, 400), Happening::worker(index, life, found(&ids[..1])));
        self.after(700, Happening::worker(index, life, found(&ids)));
    }

    /// Its shim writes down how an attempt ended: nothing of it runs elsewhere, or it cannot tell.
    pub(crate) fn ended_elsewhere(&mut self, index: usize, token: Token, record: ExitRecord) -> ExitRecord {
        let Some(process) = self.clusters[index].processes.get(&token) else { return record };
        // Some have lost their agent.
        let unconfirmed = Rng::new(self.plan.seed, "unconfirmed", token.0 as u64).chance(15);
        let runs = self.elsewhere.runs.get_mut(&process.batch);
        let has_started = runs.is_some_and(|runs| match unconfirmed {
            true => runs.contains(&token),
            false => runs.remove(&token),
        });
        if has_started && unconfirmed {
            self.stats.add("condition", "external_work_not_confirmed");
        }
        let work = |id| (id, (!unconfirmed).then_some(ExternalState::Killed));
        let external = has_started.then(|| ExternalRecord {
            work: ids(token).into_iter().map(work).collect(),
            unconfirmed,
            decides: false,
        });
        ExitRecord { external, ..record }
    }

    /// Whose external work is on record; a person who vouches for an end has seen to it.
    pub(crate) fn elsewhere_on_record(&mut self, envelope: &Envelope) {
        if !envelope.level.allows(Level::EXTERNAL_WORK) {
            return;
        }
        for recorded in &envelope.events {
            match &recorded.event {
                Event::Batch(
                    BatchEvent::Assigned { token, .. } | BatchEvent::AssignedWithRight { token, .. },
                ) => {
                    self.elsewhere.recorded.insert(*token);
                }
                Event::Attempt(AttemptEvent::EndVouched { batch, .. })
                | Event::Batch(BatchEvent::Finished { batch, .. }) => {
                    self.elsewhere.runs.remove(batch);
                }
                _ => {}
            }
        }
    }
}
