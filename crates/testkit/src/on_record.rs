//! What processes of the simulated world may do, once it is on record how their attempts stand.

use tidemill_model::{AttemptEvent, Envelope, Event, FinalCommandEvent};

use crate::plan::Mode;
use crate::world::World;

impl World {
    /// What is taken back, or ended without an attempt, was never begun.
    pub(crate) fn taken_back_on_record(&mut self) {
        for token in std::mem::take(&mut self.known.taken_back) {
            self.known.not_begun.insert(token);
            if self.plan.mode == Mode::Usual && self.known.begun.contains(&token) {
                self.is_wrong(format!("a process of {token} began, and it is taken back as not begun"));
            }
        }
    }

    /// Each process that began has its start on record; in the end.
    pub(crate) fn begun_are_on_record(&mut self) {
        let unknown = self.known.begun.difference(&self.known.granted).next().copied();
        if let Some(token) = unknown.filter(|_| self.plan.mode == Mode::Usual) {
            self.is_wrong(format!("a process of {token} began, and its start is not on record"));
        }
    }

    /// Nothing of an attempt runs once its end is on record.
    pub(crate) fn ended_on_record(&mut self, envelope: &Envelope) {
        for recorded in &envelope.events {
            let token = match recorded.event {
                Event::Attempt(AttemptEvent::Finished { token, .. })
                | Event::FinalCommand(FinalCommandEvent::Finished { token: Some(token), .. }) => token,
                _ => continue,
            };
            self.known.ended.insert(token);
            let runs = self.clusters.iter().position(|cluster| cluster.processes.contains_key(&token));
            if let Some(index) = runs.filter(|_| self.plan.mode == Mode::Usual) {
                self.is_wrong(format!(
                    "a process of {token} runs on site {index} after its end is on record"
                ));
            }
        }
    }
}
