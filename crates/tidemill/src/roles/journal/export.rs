//! A copy of the journal in one file, which is there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidemill_checker::export_journal;
use tidemill_cli::{Done, Exit, Failure, Global, output};
use tidemill_log::Topic;

use super::source::Source;
use super::watched::Watched;
use crate::config::Settings;

/// Copies the journal of a data directory, or of the log that the settings name, to `file`.
pub(crate) fn export(global: &Global, settings: &Settings, from: Option<&Path>, file: &Path) -> Done<Exit> {
    let source = match from {
        Some(directory) => Source::embedded(settings, directory)?,
        None => Source::find(settings, None)?,
    };
    let Source::Log { name, log } = &source else {
        return Err(Failure::bad_input(format!("{} is an exported file already", source.name())));
    };
    let failed = |what: &str, error: &dyn std::error::Error| {
        Failure::caused(format!("{} is not written: {what}", file.display()), error)
    };
    let partial = Partial::create(file).map_err(|error| failed("it cannot be made", &error))?;
    let watched = Watched::new(log, "export")?;
    let exported = export_journal(&watched, &partial.file);
    watched.end();
    let records = exported.map_err(|error| failed("the log cannot be copied", &error))?;
    let bytes = partial.finish(file).map_err(|error| failed("it cannot be completed", &error))?;
    let partitions = log.partitions(Topic::Journal);
    let file = file.display();
    let answer = json!({
        "file": file.to_string(), "source": name, "partitions": partitions, "records": records, "bytes": bytes,
    });
    output::answer(global.output, &answer, |_| {
        format!(
            "{file}: {records} records of {partitions} partitions of {name}, {bytes} bytes.\n\
             `tidemill verify --journal {file}` checks it."
        )
    });
    Ok(Exit::Success)
}

/// A file that takes its name only once it is whole; else it goes.
struct Partial {
    file: File,
    path: PathBuf,
    is_whole: bool,
}

impl Partial {
    fn create(whole: &Path) -> io::Result<Self> {
        if whole.is_dir() {
            return Err(io::Error::other("it is a directory; name a file"));
        }
        let name = whole.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
        let name = format!(".{}.{}.partial", name.to_string_lossy(), std::process::id());
        let path = whole.with_file_name(name);
        // For its owner alone: parameters of jobs are in it.
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, is_whole: false })
    }

    fn finish(mut self, whole: &Path) -> io::Result<u64> {
        self.file.sync_all()?;
        let bytes = self.file.metadata()?.len();
        fs::rename(&self.path, whole)?;
        self.is_whole = true;
        let directory = whole.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(bytes)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_whole {
            // It may be gone already; there is nobody to tell.
            let _ = fs::remove_file(&self.path);
        }
    }
}
