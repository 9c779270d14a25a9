//! OPS-5: a copy of an embedded log and its keys, and a log that goes on from such a copy.
//!
//! ```text
//!  log.db ── one look at all ends ─► records up to there, many short reads ─► journal.export ─┐
//!  archive ── what the log has released, also meanwhile ────────────────────────┘             ├─► MANIFEST.json, last
//!  *.key ─────────────────────────────────────────────────────► keys/ ───────────────────────┘
//! ```
//! Records never change, so the copy needs no transaction that lasts: neither the one writer nor its checkpoints wait for it, and
//! what is there at the end is what the log had at one moment, at the beginning.

mod contents;
mod manifest;
mod restore;

pub(crate) use restore::restore;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tidemill_checker::{Ends, export_journal_upto};
use tidemill_cli::{Done, Exit, Failure, Global, files, output};
use tidemill_log::{Log, SqliteView, Topic};

use super::journal::Watched;
use super::{archive, log};
use crate::cli::BackupArgs;
use crate::config::{LogBackend, Settings};
use contents::{Contents, Place};
use manifest::{JOURNAL, KEYS, Manifest, entry, write_file};

/// Copies the log of a data directory, whether a process serves it or not.
pub(crate) fn backup(global: &Global, settings: &Settings, args: &BackupArgs) -> Done<Exit> {
    if settings.log.backend == LogBackend::Kafka && args.from.is_none() {
        return Err(Failure::bad_input("log.backend: \"kafka\": `backup` copies an embedded log").hint(
            "back up the topics with the brokers' tools, and the archive, see docs/backup.md; `tidemill journal export`, with \
             the dispatchers stopped, writes a file that can be restored into an embedded log",
        ));
    }
    let (data, keys) = match &args.from {
        Some(data) => (data.as_path(), data.as_path()),
        None => (settings.data_dir.as_path(), settings.keys_dir()),
    };
    let view = view(&log::directory(data))?;
    let ends = view.ends().map_err(|error| Failure::caused("the log does not tell where it ends", &error))?;
    let log: Arc<dyn Log> = archive::over(settings, Arc::new(view))?;
    take_place(&args.to)?;
    let failed = |what: &str, error: &dyn std::error::Error| {
        Failure::caused(format!("the backup is not taken: {what}"), error).hint(format!(
            "{} has no manifest, so nobody takes it for a backup; remove it",
            args.to.display()
        ))
    };
    let path = args.to.join(JOURNAL);
    let made = File::options().write(true).create_new(true).mode(0o600).open(&path);
    let file = made.map_err(|error| failed("its file cannot be made", &error))?;
    let watched = Watched::new(&log, "backup")?;
    let exported = export_journal_upto(&watched, Some(&ends), &file);
    watched.end();
    let records = exported.map_err(|error| failed("the log cannot be copied", &error))?;
    file.sync_all().map_err(|error| failed("its file cannot be made durable", &error))?;
    drop(file);
    let mut copied = vec![JOURNAL.to_owned()];
    copied.extend(copy_keys(keys, &args.to).map_err(|error| failed("the keys cannot be copied", &error))?);
    let entries: io::Result<Vec<_>> = copied.into_iter().map(|name| entry(&args.to, name)).collect();
    let entries = entries.map_err(|error| failed("what was written cannot be read back", &error))?;
    let contents = Contents::of(&path)?;
    for place in &contents.partitions {
        check_whole(&ends, place)?;
    }
    let bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let manifest = Manifest::new(contents, tidemill_journal::now(), entries);
    manifest.write(&args.to)?;
    let parent = args.to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync(parent).map_err(|error| failed("its directory cannot be made durable", &error))?;
    let mut answer = serde_json::to_value(&manifest).unwrap_or_default();
    answer["directory"] = json!(args.to.display().to_string());
    answer["records"] = json!(records);
    answer["bytes"] = json!(bytes);
    output::answer(global.output, &answer, |_| {
        let (to, id) = (args.to.display(), &manifest.log_id);
        format!(
            "{to}: log {id}, {records} records, {bytes} bytes in {} files.\n\
             `tidemill --data NEW restore --from {to}` makes a data directory of it.",
            manifest.files.len()
        )
    });
    Ok(Exit::Success)
}

/// Whether all that stands in a partition's journal counts, and its commands are there up to their end: what follows damage
/// is in the copy, and nobody could restore it.
fn check_whole(ends: &Ends, place: &Place) -> Done {
    let partition = place.partition;
    let end = |topic| ends.get(&(topic, partition)).copied();
    let (journal, commands) = (end(Topic::Journal), end(Topic::Commands));
    if journal == Some(place.offset + 1) && place.commands.is_none_or(|(_, next)| commands == Some(next)) {
        return Ok(());
    }
    let counts =
        format!("of partition {partition} nothing after record {} of the journal counts", place.offset);
    Err(Failure::new(Exit::Failure, format!("the backup is not taken: the log is damaged: {counts}"))
        .hint("`tidemill verify --journal` says what is wrong; restore an older backup"))
}

fn view(directory: &Path) -> Done<SqliteView> {
    SqliteView::open(directory).map_err(|error| {
        let failure =
            Failure::caused(format!("there is no log to back up in {}", directory.display()), &error);
        failure.hint("name a data directory with --data or --from")
    })
}

/// An empty directory of this user alone.
fn take_place(to: &Path) -> Done {
    let cannot = |error: &io::Error| Failure::caused(format!("cannot write to {}", to.display()), error);
    match fs::read_dir(to).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::bad_input(format!("{} is not empty", to.display()))
            .with_exit(Exit::Refused)
            .hint("a backup goes into a directory of its own; name one that is not there yet")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(to).map_err(|error| cannot(&error))?;
            fs::set_permissions(to, Permissions::from_mode(0o700)).map_err(|error| cannot(&error))
        }
        Err(error) => Err(cannot(&error)),
    }
}

/// The names of the keys below `to`.
fn copy_keys(from: &Path, to: &Path) -> io::Result<Vec<String>> {
    let directory = to.join(KEYS);
    fs::create_dir(&directory)?;
    let mut copied = Vec::new();
    for name in keys_in(from)? {
        let text = files::text(&from.join(&name), files::MAX_SETTINGS_BYTES)?;
        write_file(&directory.join(&name), text.as_bytes())?;
        copied.push(format!("{KEYS}/{name}"));
    }
    sync(&directory)?;
    sync(to)?;
    Ok(copied)
}

/// The files of keys in a directory, by name.
fn keys_in(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".key") && !name.starts_with('.') && entry.file_type()?.is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
