//! What became of a job's newest logical times, in full.

use std::sync::Arc;

use tidemill_model::{BatchId, BatchResult, JobDefinition, Timestamp};

use crate::group::jobs::kept_texts::Texts;

/// The newest run of each logical time, oldest first. Short, and mostly one entry: a sorted list takes a
/// third of what a tree would.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct History(Vec<(Timestamp, Newest)>);

impl History {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, time: Timestamp) -> Option<&Newest> {
        self.position(time).ok().map(|at| &self.0[at].1)
    }

    pub(crate) fn get_mut(&mut self, time: Timestamp) -> Option<&mut Newest> {
        self.position(time).ok().map(|at| &mut self.0[at].1)
    }

    pub(crate) fn insert(&mut self, time: Timestamp, newest: Newest) {
        match self.position(time) {
            Ok(at) => self.0[at].1 = newest,
            Err(at) => {
                if self.0.is_empty() {
                    self.0.reserve_exact(1);
                }
                self.0.insert(at, (time, newest));
            }
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Timestamp, &Newest)> {
        self.0.iter().map(|(time, newest)| (*time, newest))
    }

    pub(crate) fn last(&self) -> Option<(Timestamp, &Newest)> {
        self.iter().next_back()
    }

    /// The newest logical time of it that is not after `time`.
    pub(crate) fn newest_upto(&self, time: Timestamp) -> Option<Timestamp> {
        let behind = self.0.partition_point(|(known, _)| *known <= time);
        self.0[..behind].last().map(|(time, _)| *time)
    }

    /// Takes out everything up to and with `upto`.
    pub(crate) fn take_upto(&mut self, upto: Timestamp) -> impl Iterator<Item = (Timestamp, Newest)> + '_ {
        let behind = self.0.partition_point(|(known, _)| *known <= upto);
        self.0.drain(..behind)
    }

    fn position(&self, time: Timestamp) -> Result<usize, usize> {
        self.0.binary_search_by_key(&time, |(known, _)| *known)
    }
}

/// The newest run of one logical time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Newest {
    pub(crate) run: u32,
    pub(crate) batch: BatchId,
    pub(crate) result: Option<BatchResult>,
    pub(crate) parameters: Option<Arc<Texts>>,
    pub(crate) definition: Arc<JobDefinition>,
    /// What its newest attempt passed on.
    pub(crate) values: Option<Arc<Texts>>,
}

impl Newest {
    /// A batch that was generated just now.
    pub(in crate::group) fn generated(
        (batch, run): (BatchId, u32),
        definition: &Arc<JobDefinition>,
        parameters: Option<Arc<Texts>>,
    ) -> Self {
        Self { run, batch, result: None, parameters, definition: Arc::clone(definition), values: None }
    }
}
