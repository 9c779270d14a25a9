//! The files at a moment, and as a cut at that moment may leave them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use tidemill_log::{Frame, Hash, Kind, Readers, SqliteLog, SqliteView, Topic};

use super::trace::Happened;
use super::writer::{config, journal};
use crate::Rng;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

#[derive(Default)]
pub(super) struct Disk {
    files: Vec<File>,
    /// Which file a name has stood for since the directory was last synced; none, where it stood for none.
    names: BTreeMap<String, Vec<Option<usize>>>,
    /// What somebody may have acted on.
    told: Vec<String>,
}

#[derive(Default)]
struct File {
    /// What is on the disk for sure.
    synced: Vec<u8>,
    /// What was done to it since, in order.
    changes: Vec<(Change, State)>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// The next sync makes it sure.
    Pending,
    /// Its sync failed: no later one makes it sure.
    Lost,
    /// It is on the disk, over what may be there of what was lost before.
    Sure,
}

impl File {
    fn synced(&mut self) {
        for (_, state) in &mut self.changes {
            if *state == State::Pending {
                *state = State::Sure;
            }
        }
        let sure = self.changes.iter().take_while(|(_, state)| *state == State::Sure).count();
        for (change, _) in self.changes.drain(..sure) {
            change.apply(&mut self.synced, |_| true);
        }
    }
}

enum Change {
    Written { at: usize, bytes: Vec<u8> },
    Cut(usize),
}

impl Disk {
    pub(super) fn take(&mut self, happened: &Happened) -> Result<(), String> {
        match happened {
            Happened::Began => {}
            Happened::Made(name) => {
                self.files.push(File::default());
                self.name(name).push(None);
                let made = self.files.len() - 1;
                self.name(name).push(Some(made));
            }
            Happened::Removed(name) => self.name(name).push(None),
            Happened::Written { file, at, bytes } => {
                let (at, bytes) = (*at, bytes.clone());
                self.file(file)?.changes.push((Change::Written { at, bytes }, State::Pending));
            }
            Happened::Cut { file, length } => {
                self.file(file)?.changes.push((Change::Cut(*length), State::Pending));
            }
            Happened::Synced(file) => self.file(file)?.synced(),
            Happened::SyncFailed(file) => {
                let pending = |(_, state): &&mut (Change, State)| *state == State::Pending;
                self.file(file)?.changes.iter_mut().filter(pending).for_each(|it| it.1 = State::Lost);
            }
            Happened::DirectorySynced => {
                self.names.values_mut().for_each(|stood_for| drop(stood_for.drain(..stood_for.len() - 1)));
            }
            Happened::Told(what) => self.told.push(what.clone()),
        }
        Ok(())
    }

    fn name(&mut self, name: &str) -> &mut Vec<Option<usize>> {
        self.names.entry(name.to_owned()).or_default()
    }

    fn file(&mut self, name: &str) -> Result<&mut File, String> {
        let stands_for = self.names.get(name).and_then(|stood_for| *stood_for.last()?);
        stands_for.map(|at| &mut self.files[at]).ok_or_else(|| format!("{name} was never made"))
    }

    /// Writes the files as one of the many ways has them.
    pub(super) fn lie(&self, directory: &Path, rng: &mut Rng) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        // Often all or nothing: that is what a quick cut, and a late one, look like.
        let (all, none) = (rng.chance(25), rng.chance(25));
        for (name, stood_for) in &self.names {
            let at = if all {
                stood_for.len() - 1
            } else if none {
                0
            } else {
                rng.below(stood_for.len())
            };
            let Some(file) = stood_for[at].map(|file| &self.files[file]) else { continue };
            let mut bytes = file.synced.clone();
            for (change, state) in &file.changes {
                if *state == State::Sure {
                    change.apply(&mut bytes, |_| true);
                    continue;
                }
                let (there, torn) = (all || !none && rng.chance(60), !all && !none && rng.chance(25));
                let mut sectors = rng.aside("sectors");
                rng.next();
                if torn {
                    change.apply(&mut bytes, |_| sectors.chance(50));
                } else if there {
                    change.apply(&mut bytes, |_| true);
                }
            }
            fs::write(directory.join(name), bytes)?;
        }
        Ok(())
    }

    /// Opens the log there, which must have all that was told, and all that this rests on.
    pub(super) fn compare(&self, directory: &Path) -> Result<(), String> {
        let log = SqliteLog::open(&config(directory), Box::new(|_| {})).map_err(|error| error.to_string())?;
        log.verify_all().map_err(|error| error.to_string())?;
        let kept = log.range(Topic::Commands, 0).map_err(|error| error.to_string())?;
        let (mut there, mut rests_on) = (BTreeMap::new(), Vec::new());
        journal(&log, |offset, value| {
            there.insert((Topic::Journal.name().to_owned(), offset), Hash::of(value));
            let frame = Frame::decode(value).ok().filter(|frame| frame.kind == Kind::Envelope);
            rests_on.extend(frame.and_then(|frame| String::from_utf8(frame.body).ok()));
        })?;
        drop(log);
        let view = SqliteView::open(directory).map_err(|error| error.to_string())?;
        for topic in [Topic::Commands, Topic::DeadLetters] {
            for record in all(&view, topic)? {
                there.insert((topic.name().to_owned(), record.offset), Hash::of(&record.value));
            }
        }
        for said in rests_on {
            let [commands, last] = said.split_whitespace().collect::<Vec<_>>()[..] else {
                return Err(format!("a record of the journal is {said:.80}"));
            };
            let Some(offset) = commands.parse::<u64>().map_err(|_| "no count")?.checked_sub(1) else {
                continue;
            };
            let found = there.get(&(Topic::Commands.name().to_owned(), offset));
            if offset >= kept.start && found.is_none_or(|found| found.to_string() != last) {
                return Err(format!("the journal rests on command {offset}, which is not there"));
            }
        }
        for told in &self.told {
            let [topic, offset, hash] = told.split(' ').collect::<Vec<_>>()[..] else {
                return Err(format!("told of {told}"));
            };
            let offset = offset.parse().map_err(|_| format!("no offset: {told}"))?;
            match there.get(&(topic.to_owned(), offset)) {
                Some(found) if found.to_string() == hash => {}
                None if topic == Topic::Commands.name() && offset < kept.start => {}
                Some(_) => return Err(format!("another record is at {topic} {offset}")),
                None => return Err(format!("{topic} {offset} was told, and is lost")),
            }
        }
        Ok(())
    }
}

fn all(log: &dyn Readers, topic: Topic) -> Result<Vec<tidemill_log::Record>, String> {
    let reader = log.reader(topic, 0, tidemill_log::From::Start);
    let read = reader.and_then(|mut reader| reader.poll(usize::MAX, std::time::Duration::ZERO));
    read.map_err(|error| error.to_string())
}

impl Change {
    /// Only those sectors of it that `is_there` says.
    fn apply(&self, to: &mut Vec<u8>, mut is_there: impl FnMut(usize) -> bool) {
        match self {
            Self::Cut(length) => {
                if is_there(0) {
                    to.resize(*length, 0);
                }
            }
            Self::Written { at, bytes } => {
                let mut done = 0;
                while done < bytes.len() {
                    let end = bytes.len().min((at + done) / SECTOR * SECTOR + SECTOR - at);
                    if is_there(at + done) {
                        to.resize(to.len().max(at + end), 0);
                        to[at + done..at + end].copy_from_slice(&bytes[done..end]);
                    }
                    done = end;
                }
            }
        }
    }
}
