//! What a job would run for a logical time, all its templates resolved, by the code that resolves them for its batches
//! (JOB-7).

use std::collections::BTreeMap;

use tidemill_calendar::Zone;
use tidemill_model::{BatchId, DataPath, JobDefinition, PathSpec, RunSpec, Timestamp, Token};

use crate::schedule::{Facts, attempt_spec, render, resolve_path, time_format};

/// What a job would run. What only a batch has is that of batch 0, run 0 and attempt 1; values that parents pass on
/// stay as they are written.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// What its worker would be told.
    pub run: RunSpec,
    /// The final command.
    pub final_command: Option<String>,
    /// The paths that it would wait for.
    pub inputs: Vec<DataPath>,
    /// The paths that it says it makes.
    pub outputs: Vec<DataPath>,
}

/// What a job would run for a logical time, which is written in `zone`.
///
/// # Errors
/// A template that cannot be resolved for that time, in words for people.
pub fn preview(definition: &JobDefinition, zone: &Zone, logical_time: Timestamp) -> Result<Preview, String> {
    let format = time_format(definition)?;
    let facts = Facts::of_batch(BatchId(0), 0, logical_time, format.as_ref());
    let run = attempt_spec(definition, None, Token(0), &facts, zone)?;
    let spec = &definition.spec;
    let final_command =
        spec.final_command.as_ref().map(|text| render(text, definition, &run.parameters, &facts, zone));
    let none = BTreeMap::new();
    let resolved = |paths: &[PathSpec]| {
        let path = |path: &PathSpec| DataPath {
            path: resolve_path(path.path(), definition, &none, &facts, zone),
            ..DataPath::from(path)
        };
        paths.iter().map(path).collect()
    };
    Ok(Preview {
        final_command: final_command.transpose()?,
        inputs: resolved(&spec.inputs),
        outputs: resolved(&spec.outputs),
        run,
    })
}
