//! `tidemill restore`: a data directory that goes on from a backup or an export.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidemill_cli::{Done, Exit, Failure, Global, output};
use tidemill_cluster::instance_id;
use tidemill_dispatcher::{Restore, RestoreError, Restored, Restoring};

use super::contents::Contents;
use super::manifest::{JOURNAL, KEYS, Manifest, write_file};
use super::{keys_in, sync};
use crate::cli::RestoreArgs;
use crate::config::{LogBackend, Settings};
use crate::privacy;
use crate::roles::{log, stop};

/// Makes a data directory of a backup, in a directory that is empty or not there.
pub(crate) fn restore(global: &Global, settings: &Settings, args: &RestoreArgs) -> Done<Exit> {
    if settings.log.backend == LogBackend::Kafka {
        return Err(Failure::bad_input("log.backend: \"kafka\": `restore` makes an embedded log").hint(
            "restore topics with the brokers' tools, see docs/backup.md; to go on with an embedded log, take the settings of a \
             standalone process",
        ));
    }
    let data = settings.data_dir.as_path();
    let is_there = check_empty(data)?;
    let (file, keys, contents) = source(&args.from)?;
    let begun = Begun::claim(data, is_there)?;
    let copied = copy_keys(keys.as_deref(), data)?;
    let restored = import(&file, &contents, data, &args.by)?;
    begun.finish()?;
    tell(global, data, &restored, copied);
    Ok(Exit::Success)
}

/// Whether the directory is there; it has to be empty.
fn check_empty(data: &Path) -> Done<bool> {
    match fs::read_dir(data) {
        Ok(mut entries) => match entries.next() {
            None => Ok(true),
            Some(_) => {
                let hint = match log::restoring(data).exists() {
                    true => {
                        "a restore into it did not come to its end: remove all that is in it and restore again"
                    }
                    false => {
                        "name a directory that is not there yet with --data: a restore never replaces anything"
                    }
                };
                Err(Failure::bad_input(format!("{} is not empty; nothing was changed", data.display()))
                    .with_exit(Exit::Refused)
                    .hint(hint))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::unreadable(data, &error)),
    }
}

/// The records, the directory of keys, and what the records add up to, all of it checked.
fn source(from: &Path) -> Done<(PathBuf, Option<PathBuf>, Contents)> {
    let found = fs::metadata(from).map_err(|error| Failure::unreadable(from, &error))?;
    if !found.is_dir() {
        return Ok((from.to_owned(), None, Contents::of(from)?));
    }
    let manifest = Manifest::read(from)?;
    manifest.check_files(from)?;
    let file = from.join(JOURNAL);
    let contents = Contents::of(&file)?;
    manifest.check_contents(&contents)?;
    Ok((file, Some(from.join(KEYS)), contents))
}

/// Gives how many there were.
fn copy_keys(from: Option<&Path>, data: &Path) -> Done<usize> {
    let Some(from) = from else { return Ok(0) };
    let copy = || {
        let names = keys_in(from)?;
        for name in &names {
            write_file(&data.join(name), &fs::read(from.join(name))?)?;
        }
        Ok(names.len())
    };
    copy().map_err(|error: io::Error| {
        Failure::caused("the keys cannot be restored; nothing was changed", &error)
    })
}

fn import(file: &Path, contents: &Contents, data: &Path, by: &str) -> Done<Restored> {
    let failed = |error: &RestoreError| {
        let failure = Failure::caused("the log is not restored; nothing was changed", error);
        match error {
            RestoreError::SeveralMoments(_) => failure.with_exit(Exit::BadInput).hint(
                "stop the dispatchers before `tidemill journal export`, so that no journal goes on while another is copied",
            ),
            RestoreError::ClockBehind { .. } => {
                failure.with_exit(Exit::Refused).hint("set this machine's clock, and restore again")
            }
            RestoreError::Foreign { .. } | RestoreError::NoId(..) | RestoreError::TooLong(_) => {
                failure.with_exit(Exit::BadInput)
            }
            RestoreError::Owner(_) | RestoreError::Log { .. } => failure,
        }
    };
    let stopped = stop::on_signal()?;
    let mut restore =
        Restore::into(&log::restoring(data), contents.count()).map_err(|error| failed(&error))?;
    let (mut broken, mut is_stopped) = (None, false);
    let read = tidemill_checker::each_exported(file, &mut |topic, partition, record| {
        is_stopped = is_stopped || (record.offset.is_multiple_of(1_024) && stopped.try_recv().is_ok());
        if broken.is_none() && !is_stopped {
            broken = restore.push(topic, partition, &record).err();
        }
    });
    read.map_err(|error| Failure::caused("the log is not restored; nothing was changed", &error))?;
    if is_stopped {
        return Err(Failure::new(Exit::Failure, "stopped before the log was restored; nothing was changed"));
    }
    if let Some(error) = broken {
        return Err(failed(&error));
    }
    let incarnation = instance_id("restore").as_str().to_owned();
    let restoring = Restoring { by: by.to_owned(), incarnation };
    restore.finish(&restoring).map_err(|error| failed(&error))
}

/// A directory that is being filled: what was put into it goes again unless it is finished.
struct Begun<'a> {
    data: &'a Path,
    is_there: bool,
    is_done: bool,
}

impl<'a> Begun<'a> {
    /// The directory is this restore's alone from here on: nobody serves it, and no other restore fills it.
    fn claim(data: &'a Path, is_there: bool) -> Done<Self> {
        if !is_there {
            privacy::make_dir(data)?;
        }
        let claimed =
            fs::create_dir(log::restoring(data)).and_then(|()| Ok(fs::read_dir(data)?.count() == 1));
        let taken = |error: Option<&io::Error>| {
            let what = format!("{} is not empty any more; nothing was changed", data.display());
            let failure = error.map_or_else(
                || Failure::bad_input(what.clone()),
                |error| Failure::caused(what.clone(), error),
            );
            failure.with_exit(Exit::Refused).hint("name a directory that is not there yet with --data")
        };
        match claimed {
            Ok(true) => Ok(Self { data, is_there, is_done: false }),
            Ok(false) => {
                let _ = fs::remove_dir(log::restoring(data));
                Err(taken(None))
            }
            Err(error) => Err(taken(Some(&error))),
        }
    }

    /// The log takes its place, and with that the data directory is one.
    fn finish(mut self) -> Done {
        let data = self.data.display();
        sync(self.data)
            .and_then(|()| fs::rename(log::restoring(self.data), log::directory(self.data)))
            .map_err(|error| {
                Failure::caused(format!("cannot complete {data}; nothing was changed"), &error)
            })?;
        self.is_done = true;
        sync(self.data).map_err(|error| {
            let what = format!("{data} is restored, and a power cut may undo that");
            Failure::caused(what, &error).hint("look at its disk before it is started")
        })
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // What fails here is told by the next attempt, which finds the directory not empty.
        let _ = fs::remove_dir_all(log::restoring(self.data));
        for name in keys_in(self.data).unwrap_or_default() {
            let _ = fs::remove_file(self.data.join(name));
        }
        if !self.is_there {
            let _ = fs::remove_dir(self.data);
        }
    }
}

fn tell(global: &Global, data: &Path, restored: &Restored, keys: usize) {
    let Restored { before, log_id, generation, ids_above, state_at, heads, held } = restored;
    let attempts: usize = held.iter().map(|held| held.attempts).sum();
    let workers: Vec<_> = held
        .iter()
        .map(|held| json!({ "shard": held.shard, "worker": held.worker, "attempts": held.attempts }))
        .collect();
    let positions: Vec<_> = heads.iter().map(|head| format!("{}:{}", head.partition, head.offset)).collect();
    let answer = json!({
        "data": data.display().to_string(), "log_id": log_id, "log_id_before": before, "generation": generation, "ids_above": ids_above,
        "state_at": state_at, "positions": positions, "keys": keys, "held_attempts": attempts, "held": workers,
    });
    output::answer(global.output, &answer, |_| {
        let dir = data.display();
        let mut text = format!(
            "{dir}: log {before} as of {state_at} goes on as {log_id}.\n\
             What was recorded after that is lost, and may have been done outside.\n"
        );
        if attempts > 0 {
            text.push_str(&format!(
                "{attempts} attempts were assigned or running; nothing replaces them until somebody vouches for their worker. Jobs \
                 outlive a server that was killed: look on its host first (`pgrep -a tidemill-shim`).\n"
            ));
            for held in held {
                text.push_str(&format!(
                    "  {} of worker {}: tidemill --data {dir} worker vouch {} --reason TEXT\n",
                    held.attempts, held.worker, held.worker
                ));
            }
        }
        if keys == 0 {
            text.push_str("There are no keys in an export: copy the *.key files of the lost directory there, if there are any.\n");
        }
        text.push_str(&format!(
            "Start it with `tidemill --data {dir} standalone`; docs/backup.md says what to look at then."
        ));
        text
    });
}
