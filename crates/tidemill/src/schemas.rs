//! `tidemill schemas write`: what is generated from the code and committed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tidemill_cli::{Done, Exit, Failure, output};

use crate::cli::SchemasCommand;
use crate::config;

pub(crate) fn run(command: &SchemasCommand) -> Done<Exit> {
    match command {
        SchemasCommand::Write { dir } => write(dir),
        SchemasCommand::Check { dir } => check(dir),
    }
}

/// Every generated file: its path below `schemas/`, and its text.
fn files() -> BTreeMap<String, String> {
    let mut files = tidemill_projector::schemas::files();
    files.insert("openapi.json".to_owned(), format!("{:#}\n", tidemill_api::document()));
    files.insert("configuration.json".to_owned(), format!("{:#}\n", config::schema()));
    files
}

fn write(dir: &Path) -> Done<Exit> {
    let files = files();
    for (path, text) in &files {
        let path = dir.join(path);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, text))
            .map_err(|error| Failure::caused(format!("cannot write {}", path.display()), &error))?;
    }
    output::line(format!("{} files in {}", files.len(), dir.display()));
    Ok(Exit::Success)
}

fn check(dir: &Path) -> Done<Exit> {
    let stale: Vec<_> = files()
        .into_iter()
        .filter(|(path, text)| fs::read_to_string(dir.join(path)).ok().as_ref() != Some(text))
        .map(|(path, _)| path)
        .collect();
    if stale.is_empty() {
        return Ok(Exit::Success);
    }
    let mut failure =
        Failure::new(Exit::Failure, format!("{} files are not what the code says", stale.len()));
    for path in stale {
        failure = failure.detail(path);
    }
    Err(failure.hint("`tidemill schemas write` writes them"))
}
