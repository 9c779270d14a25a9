//! `tidemill verify --journal` and `tidemill journal export`: the log, looked at by the checker or copied.

mod export;
mod source;
mod told;
mod watched;

pub(crate) use export::export;

use tidemill_checker::{Options, Report, check_file, check_log};
use tidemill_cli::{Done, Exit, Failure, Global, output};

use crate::config::Settings;
use source::Source;
use std::path::Path;
pub(super) use watched::Watched;

/// What to check, and how.
pub(crate) struct Check<'a> {
    /// A data directory or an exported file; absent: what the settings name.
    pub(crate) source: Option<&'a Path>,
    pub(crate) at_rest: bool,
}

/// Checks a journal, and shows what was found.
pub(crate) fn verify(global: &Global, settings: &Settings, check: &Check<'_>) -> Done<Exit> {
    let source = Source::find(settings, check.source)?;
    let options = Options { at_rest: check.at_rest, ..Options::default() };
    let report = checked(&source, options)?;
    let json = told::json(&source.name(), &report);
    output::answer(global.output, &json, |_| told::text(&source.name(), &report));
    Ok(if report.is_clean() { Exit::Success } else { Exit::RuleBroken })
}

fn checked(source: &Source, options: Options) -> Done<Report> {
    let failed = |error| Failure::caused(format!("{} cannot be checked", source.name()), &error);
    match source {
        Source::File(path) => check_file(path, options).map_err(|error| match error {
            tidemill_checker::Error::NotAnExport { .. } => {
                failed(error).with_exit(Exit::BadInput).hint("`tidemill journal export FILE` writes one")
            }
            error => failed(error),
        }),
        Source::Log { log, .. } => {
            let watched = Watched::new(log, "verify")?;
            let report = check_log(&watched, options).map_err(failed);
            watched.end();
            report
        }
    }
}
