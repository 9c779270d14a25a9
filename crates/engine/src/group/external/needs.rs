//! What a batch waits for outside, as it was generated with it.

use crate::group::GroupShard;
use crate::group::batches::batch::Batch;
use crate::group::external::External;
use crate::group::external::quality::Gate;
use crate::schedule::{Facts, Parameters};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidemill_derive::Stored;
use tidemill_model::{
    BatchId, DataPath, Event, ExternalDependency, ExternalDependencyId, JobId, Timestamp, WaivedParent,
};

/// What a batch waits for besides parents. Batches that wait for nothing of the kind have none.
#[derive(Debug, Clone, PartialEq, Default, Stored)]
pub(crate) struct Needs {
    pub(crate) external_dependencies: Box<[Need]>,
    /// Parents' times that it runs without (DEP-7).
    pub(crate) waived: Vec<WaivedParent>,
    /// When parents' times that it waits for were taken back, of those that are.
    pub(crate) withdrawn: BTreeMap<(JobId, Timestamp), Timestamp>,
    pub(crate) gate: Option<Box<Gate>>,
}

/// One thing that one batch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Stored)]
pub(crate) struct Need {
    pub(crate) id: ExternalDependencyId,
    pub(crate) met: bool,
    /// A person lets the batch run without it.
    pub(crate) waived: bool,
}

impl Need {
    pub(crate) fn is_unmet(self) -> bool {
        !self.met && !self.waived
    }
}

impl GroupShard {
    /// What a batch of `job` waits for outside, and the events that go before its generation.
    pub(crate) fn external_dependencies_of(
        &self,
        facts: &Facts<'_>,
        own: &Parameters,
    ) -> (Vec<Event>, Vec<ExternalDependencyId>) {
        let spec = &facts.definition.spec;
        if spec.inputs.is_empty() && spec.third_party.is_empty() {
            return Default::default();
        }
        let zone = self.zone_of(facts.definition);
        let paths = spec.inputs.iter().map(|input| ExternalDependency::Path {
            path: facts.resolve_path(input.path(), own, &zone).into(),
            mark: input.mark().map(Arc::from),
        });
        let reports = spec.third_party.iter().map(|code| ExternalDependency::ThirdParty {
            code: code.as_str().into(),
            logical_time: facts.logical_time,
        });
        self.external.known.wanted_by(self.id, paths.chain(reports).collect())
    }

    /// GEN-1: the paths that a new batch makes, each once.
    pub(crate) fn outputs_of(&self, facts: &Facts<'_>, own: &Parameters) -> Vec<DataPath> {
        let written = &facts.definition.spec.outputs;
        if written.is_empty() {
            return Vec::new();
        }
        let zone = self.zone_of(facts.definition);
        let mut outputs: Vec<DataPath> = Vec::with_capacity(written.len());
        for output in written {
            let path = facts.resolve_path(output.path(), own, &zone);
            let output = DataPath { path, ..DataPath::from(output) };
            if !outputs.contains(&output) {
                outputs.push(output);
            }
        }
        outputs
    }
}

impl External {
    /// What a batch that was just generated waits for; nothing: it waits for nothing outside.
    pub(in crate::group) fn needs_of(
        &mut self,
        id: BatchId,
        wanted: &[ExternalDependencyId],
        has_gate: bool,
    ) -> Option<Box<Needs>> {
        if wanted.is_empty() && !has_gate {
            return None;
        }
        let gate = has_gate.then(Default::default);
        let external_dependencies = wanted.iter().filter_map(|wanted| self.known.join(id, *wanted)).collect();
        Some(Box::new(Needs { external_dependencies, gate, ..Needs::default() }))
    }

    /// The batch has ended, and waits for nothing.
    pub(crate) fn leave_external_dependencies(&mut self, id: BatchId, batch: &Batch) {
        for need in batch.external_dependencies() {
            self.known.leave(id, need.id);
        }
    }
}
