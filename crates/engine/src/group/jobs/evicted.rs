//! What is kept of logical times that left a job's history (GEN-10). All of them had ended.
//!
//! What most of them have in common takes nothing: a first run, a success, the definition of the time before, no
//! parameters, no values. Times at equal distances are one entry, and so are those of one version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::{BatchResult, JobDefinition, MovedRuns, Timestamp};

use crate::group::jobs::history::Newest;
use crate::group::jobs::kept_texts::{Kept, KeptTexts, Texts};
use crate::group::jobs::times::Times;

/// Bytes of the parameters that are kept of one job's evicted times; the oldest go first.
const MAX_PARAMETERS: usize = 256 * 1024;
/// The same of the values that they passed on.
const MAX_VALUES: usize = 64 * 1024;
/// Versions of one job's definition that are kept for its evicted times; the lowest go first.
const MAX_DEFINITIONS: usize = 100;

#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct Evicted {
    /// Which they are: these and no others.
    times: Times,
    /// The newest run, where it was not the first.
    runs: BTreeMap<Timestamp, u32>,
    /// Those whose newest run did not succeed, by how it ended.
    otherwise: Vec<(BatchResult, Times)>,
    /// The version that a time's newest run had: that of the last entry up to it.
    versions: BTreeMap<Timestamp, u32>,
    definitions: BTreeMap<u32, Arc<JobDefinition>>,
    parameters: Option<Box<KeptTexts>>,
    values: Option<Box<KeptTexts>>,
}

impl Evicted {
    pub(crate) fn add(&mut self, time: Timestamp, newest: &Newest) {
        let result = newest.result.unwrap_or(BatchResult::Failed);
        self.note(time, newest.run, result, newest.definition.version);
        put(&mut self.parameters, MAX_PARAMETERS, time, newest.parameters.as_ref());
        put(&mut self.values, MAX_VALUES, time, newest.values.as_ref());
        let definition = &newest.definition;
        self.definitions.entry(definition.version).or_insert_with(|| Arc::clone(definition));
        if self.definitions.len() > MAX_DEFINITIONS {
            // First those that no time names any more, else the lowest.
            let named: BTreeSet<u32> = self.versions.values().copied().collect();
            self.definitions.retain(|version, _| named.contains(version));
        }
        if self.definitions.len() > MAX_DEFINITIONS {
            self.definitions.pop_first();
        }
    }

    /// Adds what another group knew of a time. The definition of then was one of that group, and is not known here.
    pub(crate) fn add_moved(&mut self, time: Timestamp, of: &MovedRuns) {
        self.note(time, of.run, of.result, of.version);
        let texts = |texts: &Texts| (!texts.is_empty()).then(|| Arc::new(texts.clone()));
        put(&mut self.parameters, MAX_PARAMETERS, time, texts(&of.parameters).as_ref());
        put(&mut self.values, MAX_VALUES, time, texts(&of.values).as_ref());
        if of.parameters_dropped {
            dropped(&mut self.parameters, MAX_PARAMETERS, time);
        }
        if of.values_dropped {
            dropped(&mut self.values, MAX_VALUES, time);
        }
    }

    fn note(&mut self, time: Timestamp, run: u32, result: BatchResult, version: u32) {
        let next = self.times.first_after(time);
        self.times.insert(time);
        if run > 0 {
            self.runs.insert(time, run);
        }
        self.set_result(time, result);
        self.set_version(time, next, version);
    }

    /// All of them, oldest first.
    pub(crate) fn times(&self) -> impl Iterator<Item = Timestamp> + '_ {
        let first = self.times.first_after(Timestamp::MIN);
        std::iter::successors(first, |time| self.times.first_after(*time))
    }

    pub(crate) fn holds(&self, time: Timestamp) -> bool {
        self.times.contains(time)
    }

    /// The newest time that it holds and that is not after `time`.
    pub(crate) fn newest_upto(&self, time: Timestamp) -> Option<Timestamp> {
        self.times.newest_upto(time)
    }

    pub(crate) fn run(&self, time: Timestamp) -> u32 {
        self.runs.get(&time).copied().unwrap_or(0)
    }

    /// How the newest run of a time that it holds ended.
    pub(crate) fn result(&self, time: Timestamp) -> BatchResult {
        let otherwise = self.otherwise.iter().find(|(_, times)| times.contains(time));
        otherwise.map_or(BatchResult::Success, |(result, _)| *result)
    }

    /// From now on the newest run of a time that it holds counts as ended so.
    pub(crate) fn set_result(&mut self, time: Timestamp, result: BatchResult) {
        for (_, times) in &mut self.otherwise {
            times.remove(time);
        }
        if result == BatchResult::Success {
            return;
        }
        if !self.otherwise.iter().any(|(known, _)| *known == result) {
            self.otherwise.push((result, Times::default()));
        }
        for (_, times) in self.otherwise.iter_mut().filter(|(known, _)| *known == result) {
            times.insert(time);
        }
    }

    /// The version of the definition that the newest run of a time that it holds had.
    pub(crate) fn version(&self, time: Timestamp) -> Option<u32> {
        self.versions.range(..=time).next_back().map(|(_, version)| *version)
    }

    /// That definition, as long as it is kept.
    pub(crate) fn definition(&self, time: Timestamp) -> Option<&Arc<JobDefinition>> {
        self.definitions.get(&self.version(time)?)
    }

    /// The parameters of its own that the newest run of a time that it holds had.
    pub(crate) fn parameters(&self, time: Timestamp) -> Kept<'_> {
        self.parameters.as_ref().map_or(Kept::Nothing, |parameters| parameters.get(time))
    }

    /// What the newest run of a time that it holds passed on.
    pub(crate) fn values(&self, time: Timestamp) -> Kept<'_> {
        self.values.as_ref().map_or(Kept::Nothing, |values| values.get(time))
    }

    /// `next`: the first time after it that was held before.
    fn set_version(&mut self, time: Timestamp, next: Option<Timestamp>, version: u32) {
        let before = self.version(time);
        if let (Some(next), Some(before)) = (next, before) {
            self.versions.entry(next).or_insert(before);
        }
        self.versions.remove(&time);
        if self.version(time) != Some(version) {
            self.versions.insert(time, version);
        }
        if let Some(next) = next.filter(|next| self.versions.get(next) == Some(&version)) {
            self.versions.remove(&next);
        }
    }
}

/// Most times have none, so that most jobs need no place for them.
fn put(kept: &mut Option<Box<KeptTexts>>, most: usize, time: Timestamp, texts: Option<&Arc<Texts>>) {
    if kept.is_some() || texts.is_some() {
        kept.get_or_insert_with(|| Box::new(KeptTexts::new(most))).put(time, texts);
    }
}

fn dropped(kept: &mut Option<Box<KeptTexts>>, most: usize, time: Timestamp) {
    kept.get_or_insert_with(|| Box::new(KeptTexts::new(most))).drop_of(time);
}
