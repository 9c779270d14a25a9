//! What is in a backup, and that all of it is there. It is written last, so a directory without one is no backup.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidemill_cli::secret::hex;
use tidemill_cli::{Done, Exit, Failure, files};
use tidemill_model::{Level, Timestamp};

use super::contents::{Contents, Place};
use crate::keys::write_private;

/// Its file.
pub(super) const MANIFEST: &str = "MANIFEST.json";
/// The records, in the form of `journal export`.
pub(super) const JOURNAL: &str = "journal.export";
/// Where the keys are.
pub(super) const KEYS: &str = "keys";
/// What this version writes and reads.
const FORM: &str = "tidemill-backup 1";
/// No manifest is longer.
const MAX_BYTES: u64 = 16 << 20;

/// What a backup says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    form: String,
    /// The version of the program that wrote it.
    program: String,
    made_at: Timestamp,
    /// Of which log, and after which restore of it; 0: it was never restored.
    pub(super) log_id: String,
    pub(super) generation: u64,
    /// The highest level that stands in a journal.
    pub(super) level: Level,
    /// Where each journal stands.
    partitions: Vec<Place>,
    /// All files but this one.
    pub(super) files: Vec<Entry>,
}

/// A file of a backup.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Below the directory.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// In hexadecimal.
    sha256: String,
}

impl Entry {
    /// Whether it is one of those that a backup has, so that a name never leads out of its directory.
    fn is_known(&self) -> bool {
        let is_key = |name: &str| name.ends_with(".key") && !name.contains('/') && !name.starts_with('.');
        self.name == JOURNAL || self.name.strip_prefix("keys/").is_some_and(is_key)
    }
}

/// What a file is at present.
pub(super) fn entry(directory: &Path, name: String) -> io::Result<Entry> {
    let mut file = files::open(&directory.join(&name))?;
    let (mut digest, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; 1 << 20]);
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(Entry { name, bytes, sha256: hex(&digest.finalize()) });
        }
        digest.update(&chunk[..read]);
        bytes += read as u64;
    }
}

impl Manifest {
    pub(super) fn new(contents: Contents, made_at: Timestamp, files: Vec<Entry>) -> Self {
        Self {
            form: FORM.to_owned(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            made_at,
            log_id: contents.log_id.to_string(),
            generation: contents.log_id.generation(),
            level: contents.level,
            partitions: contents.partitions,
            files,
        }
    }

    /// Everything else has to last already.
    pub(super) fn write(&self, directory: &Path) -> Done {
        let text = serde_json::to_string_pretty(self).expect("texts and numbers are JSON");
        write_private(&directory.join(MANIFEST), &format!("{text}\n"))
    }

    /// Reads the manifest of a directory, and refuses what this version cannot restore.
    pub(super) fn read(directory: &Path) -> Done<Self> {
        let path = directory.join(MANIFEST);
        let text = files::text(&path, MAX_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::bad_input(format!(
                "{} has no {MANIFEST}: it is no backup, or one that did not come to its end",
                directory.display()
            ))
            .hint("take another backup; this directory can be removed"),
            _ => Failure::unreadable(&path, &error),
        })?;
        let form: Form = serde_json::from_str(&text).map_err(|error| damaged(&path, &error))?;
        if form.form != FORM {
            let (found, path) = (form.form, path.display());
            return Err(Failure::bad_input(format!(
                "{path} is of the form {found:?}, and this version reads {FORM:?}"
            ))
            .with_exit(Exit::TooOld)
            .hint("restore with the version that made the backup, or a later one"));
        }
        let reads = tidemill_journal::reads();
        if !reads.allows(form.level) {
            let level = form.level;
            return Err(Failure::bad_input(format!(
                "the backup is of level {level}, and this version reads up to level {reads}; nothing was changed"
            ))
            .with_exit(Exit::TooOld)
            .hint(format!("restore with a version that reads level {level}")));
        }
        let manifest: Self = serde_json::from_str(&text).map_err(|error| damaged(&path, &error))?;
        match manifest.files.iter().find(|entry| !entry.is_known()) {
            Some(entry) => {
                Err(Failure::bad_input(format!("{}: a backup has no file {:?}", path.display(), entry.name)))
            }
            None => Ok(manifest),
        }
    }

    /// Every file is there as it was written.
    pub(super) fn check_files(&self, directory: &Path) -> Done {
        for told in &self.files {
            let path = directory.join(&told.name);
            let found = entry(directory, told.name.clone()).map_err(|error| {
                Failure::caused(format!("the backup is not whole: {} cannot be read", path.display()), &error)
                    .with_exit(Exit::BadInput)
                    .hint("restore another backup")
            })?;
            if found != *told {
                let differs = match found.bytes == told.bytes {
                    true => "another SHA-256 than the manifest says".to_owned(),
                    false => format!("{} bytes, and the manifest says {}", found.bytes, told.bytes),
                };
                return Err(Failure::bad_input(format!(
                    "the backup is damaged: {} has {differs}",
                    path.display()
                ))
                .hint("restore another backup, or put back a copy of this one that is whole"));
            }
        }
        Ok(())
    }

    /// The records are those that were backed up.
    pub(super) fn check_contents(&self, contents: &Contents) -> Done {
        let told = (self.log_id.as_str(), &self.partitions);
        if told == (contents.log_id.as_str(), &contents.partitions) {
            return Ok(());
        }
        Err(Failure::bad_input(format!(
            "the backup is damaged: {JOURNAL} ends elsewhere than {MANIFEST} says"
        ))
        .hint("restore another backup, or put back a copy of this one that is whole"))
    }
}

/// All that is read before it is known whether the rest is understood.
#[derive(Deserialize)]
struct Form {
    form: String,
    level: Level,
}

fn damaged(path: &Path, error: &serde_json::Error) -> Failure {
    Failure::caused(format!("the backup is damaged: {} cannot be read", path.display()), error)
        .with_exit(Exit::BadInput)
        .hint("restore another backup, or put back a copy of this one that is whole")
}

/// Writes a file that only this user reads, and that lasts once this returns.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
