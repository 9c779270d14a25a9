//! BYD-20: which batches name values of their parents, so that they may fail at their start for one that is missing.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{Execution, JobDefinition, Program};

/// Whether a text names a value of a parent.
fn names_one(text: &str) -> bool {
    text.contains("${values.")
}

/// Where a definition's templates name values of parents.
#[derive(Debug)]
pub(super) struct ValueUse {
    /// In what every batch runs.
    always: bool,
    /// In these parameters, unless a batch has its own in their place.
    parameters: BTreeSet<String>,
}

impl ValueUse {
    pub(super) fn of(definition: &JobDefinition) -> Self {
        let program: Vec<&String> = match &definition.program {
            Program::None => Vec::new(),
            Program::Command(command) => vec![command],
            Program::Script { text, arguments } => [text].into_iter().chain(arguments).collect(),
            Program::Path { path, class, arguments } => {
                [path].into_iter().chain(class).chain(arguments).collect()
            }
        };
        let mut execution = definition.execution.iter().flat_map(Execution::templates);
        let always =
            program.into_iter().any(|text| names_one(text)) || execution.any(|(_, text)| names_one(text));
        let parameters = definition.parameters.iter().filter(|(_, text)| names_one(text));
        Self { always, parameters: parameters.map(|(name, _)| name.clone()).collect() }
    }
}

/// A batch's own parameters, and which of them name values of parents.
#[derive(Debug)]
pub(super) struct OwnParameters(BTreeMap<String, bool>);

impl OwnParameters {
    pub(super) fn of(parameters: &BTreeMap<String, String>) -> Self {
        Self(parameters.iter().map(|(name, text)| (name.clone(), names_one(text))).collect())
    }

    /// Whether a batch with these may miss a value.
    pub(super) fn may_miss(&self, job: &ValueUse) -> bool {
        job.always
            || self.0.values().any(|names| *names)
            || job.parameters.iter().any(|name| !self.0.contains_key(name))
    }
}
