//! `tidemill job validate`: what a server would check, as far as that needs none.

use std::path::PathBuf;

use serde_json::json;
use tidemill_model::{FieldError, JobSpec, Rejection};

use crate::args::OutputFormat;
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::host::Host;
use crate::output;
use crate::yaml::JobFiles;

/// Errors that are told at once.
const TOLD: usize = 20;

/// Checks files as the catalogue would check an `apply`, as far as that needs no server.
pub(in crate::commands) fn run(host: &dyn Host, format: OutputFormat, paths: &[PathBuf]) -> Done<Exit> {
    let files = JobFiles::read_all(paths)?;
    let warnings = checked(host, &files).map_err(|failure| files.explain(failure))?;
    let warnings: Vec<String> = warnings.iter().map(|warning| files.locate(warning)).collect();
    let (jobs, count) = (files.jobs.len(), files.count());
    match format {
        OutputFormat::Json => output::json(&json!({ "jobs": jobs, "files": count, "warnings": warnings })),
        OutputFormat::Table => {
            let warned = warnings.iter().map(|warning| format!("warning: {warning}\n"));
            output::line(format!("{}{jobs} jobs in {count} files are good.", warned.collect::<String>()));
        }
    }
    Ok(Exit::Success)
}

fn checked(host: &dyn Host, files: &JobFiles) -> Done<Vec<String>> {
    let refused = |errors: Vec<FieldError>| {
        let failure = Failure::bad_input("these jobs cannot be accepted");
        errors.iter().take(TOLD).fold(failure, |failure, error| failure.detail(error.to_string()))
    };
    let mut jobs = Vec::with_capacity(files.jobs.len());
    let mut errors = Vec::new();
    for (index, value) in files.jobs.iter().enumerate() {
        match JobSpec::from_value(value.clone()) {
            Ok(job) => jobs.push(job),
            Err(error) => errors.push(error.within(&format!("jobs[{index}]"))),
        }
    }
    if !errors.is_empty() {
        return Err(refused(errors));
    }
    host.check_jobs(&jobs).map_err(|rejection| match rejection {
        Rejection::Invalid { fields } => refused(fields),
        other => Failure::bad_input(other.to_string()),
    })
}
