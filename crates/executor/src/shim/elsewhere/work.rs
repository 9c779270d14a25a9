//! What an agent knows of external work: its ids, and how each has ended.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::ExternalWorkId;

use crate::external_work::ExternalState;

/// Ids that are followed at once, since they are not known to have ended.
const FOLLOWED: usize = 1_000;
/// Ids that are known, those that have ended among them: `list` goes on to name these.
const KNOWN: usize = 10_000;
/// Ids in the record of an end.
const RECORDED: usize = 1_000;

pub(super) type States = BTreeMap<ExternalWorkId, Option<ExternalState>>;

#[derive(Debug, Default)]
pub(super) struct Work(States);

impl Work {
    /// Says whether there was room for all. What has ended makes room, up to a bound.
    pub(super) fn add(&mut self, ids: impl IntoIterator<Item = ExternalWorkId>) -> bool {
        let mut followed = self.0.values().filter(|state| state.is_none()).count();
        let mut has_room = true;
        for id in ids {
            if self.0.contains_key(&id) {
                continue;
            }
            if followed >= FOLLOWED || self.is_full() {
                has_room = false;
            } else {
                self.0.insert(id, None);
                followed += 1;
            }
        }
        has_room
    }

    /// Whether nothing more can be added, whatever ends.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= KNOWN
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &ExternalWorkId> {
        self.0.keys()
    }

    /// Those that are not known to have ended.
    pub(super) fn living(&self) -> impl Iterator<Item = &ExternalWorkId> {
        self.0.iter().filter(|(_, state)| state.is_none()).map(|(id, _)| id)
    }

    /// Asks for all that is not known to have ended for good. Says whether nothing is left.
    pub(super) fn ask(&mut self, mut ask: impl FnMut(&ExternalWorkId) -> Option<ExternalState>) -> bool {
        let mut all_ended = true;
        let is_open = |state: &Option<ExternalState>| matches!(state, None | Some(ExternalState::Gone));
        for (id, state) in self.0.iter_mut().filter(|(_, state)| is_open(state)) {
            *state = ask(id);
            all_ended &= state.is_some();
        }
        all_ended
    }

    /// For the record of an end: of too many, what has not succeeded comes first.
    pub(super) fn into_states(mut self) -> States {
        if self.0.len() > RECORDED {
            let has_succeeded = |id: &&ExternalWorkId| self.0[*id] == Some(ExternalState::Succeeded);
            let (good, bad): (Vec<_>, Vec<_>) = self.0.keys().partition(has_succeeded);
            let kept: BTreeSet<ExternalWorkId> =
                bad.into_iter().chain(good).take(RECORDED).cloned().collect();
            self.0.retain(|id, _| kept.contains(id));
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ExternalWorkId {
        ExternalWorkId::try_from(format!("application_{number:06}").as_str()).unwrap()
    }

    /// EXE-13: what is left out is told, and comes in once something has ended; a failure is on record however much there is.
    #[test]
    fn work_that_has_ended_makes_room_for_more() {
        let mut work = Work::default();
        assert!(!work.add((0..1_500).map(id)));
        assert_eq!(work.len(), FOLLOWED);
        assert!(work.add([id(3)]), "it is known");
        let failed = |of: &ExternalWorkId| match *of == id(999) {
            true => Some(ExternalState::Failed),
            false => Some(ExternalState::Succeeded),
        };
        assert!(work.ask(failed));
        assert!(work.add((0..1_500).map(id)));
        assert_eq!(work.living().count(), 500);
        let states = work.into_states();
        assert_eq!((states.len(), states[&id(999)]), (RECORDED, Some(ExternalState::Failed)));
        assert_eq!(states.values().filter(|state| state.is_none()).count(), 500);
    }
}
