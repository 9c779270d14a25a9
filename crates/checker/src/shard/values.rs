//! Which batches may fail at their start, for their templates cannot be resolved: a value that a parent did not pass on
//! (BYD-20), a parameter by hand that names another one, a time out of range, a text that becomes too long.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::JobDefinition;

/// Placeholders that can always be resolved, and to a short text.
const SURE: [&str; 9] =
    ["logical_time", "epoch", "epoch_ms", "batch_id", "run", "attempt", "job", "priority", "version"];
/// So many of those, in all texts of a job together, still become nothing that is too long.
const FEW: usize = 100;

/// Whether this text of a definition, which was looked at when it was applied, may be impossible to resolve.
fn may_fail(text: &str) -> bool {
    let is_sure = |rest: &str| SURE.contains(&rest.split('}').next().unwrap_or_default());
    !text.split("${").skip(1).all(is_sure)
}

/// Where a definition has templates that may fail.
#[derive(Debug)]
pub(super) struct Templates {
    /// In what every batch runs.
    always: bool,
    /// In these parameters, unless a batch has its own in their place.
    parameters: BTreeSet<String>,
}

impl Templates {
    pub(super) fn of(definition: &JobDefinition) -> Self {
        let texts: Vec<&str> = definition.spec.templates().map(|(_, text)| text).collect();
        let parameters = definition.spec.parameters.values().map(String::as_str);
        let placeholders = texts.iter().copied().chain(parameters).map(|text| text.matches("${").count());
        let always = placeholders.sum::<usize>() > FEW || texts.into_iter().any(may_fail);
        let parameters = definition.spec.parameters.iter().filter(|(_, text)| may_fail(text));
        Self { always, parameters: parameters.map(|(name, _)| name.clone()).collect() }
    }
}

/// A batch's own parameters, and which of them are templates: nobody looked at those.
#[derive(Debug)]
pub(super) struct OwnParameters(BTreeMap<String, bool>);

impl OwnParameters {
    pub(super) fn of(parameters: &BTreeMap<String, String>) -> Self {
        Self(parameters.iter().map(|(name, text)| (name.clone(), text.contains("${"))).collect())
    }

    /// Whether a batch with these may fail at its start.
    pub(super) fn may_fail(&self, job: &Templates) -> bool {
        job.always
            || self.0.values().any(|is_template| *is_template)
            || job.parameters.iter().any(|name| !self.0.contains_key(name))
    }
}
