//! The spool on the worker's disk: directories of attempts, in which a job may have put anything.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;
use tidemill_model::{LogStream, Token};

use super::spool::{Bytes, Place, Seen, Spool, Wanted};
use super::times::{self, TimesRead};
use crate::attempt_dir::AttemptDir;
use crate::data_dir::{self, Attempts};
use crate::plain_file;
use crate::processes::Table;

/// Attempts of which it is kept in mind that it was said what is wrong with their output.
const MAX_SAID: usize = 10_000;
/// So much longer than its limit a file may be, for the lines of gaps, bytes; and so long is the worker's own.
const SLACK: u64 = 64 << 10;

pub(super) struct Disk {
    attempts: Attempts,
    table: Arc<Table>,
    /// Of each stream, how long its file can be at most, bytes.
    longest: [u64; 3],
    /// Each place, opened since it was listed last.
    places: [Option<File>; 3],
    /// Of these it was said that an output is no plain file, or is kept from the worker.
    said: BTreeSet<Token>,
    /// Outputs that the worker may not read.
    denied: BTreeSet<(Token, usize)>,
}

impl Disk {
    /// Outputs have at most so many bytes, where they have a limit.
    pub(super) fn new(attempts: Attempts, table: Arc<Table>, max_bytes: Option<u64>) -> Self {
        let printed = max_bytes.map_or(u64::MAX, |max_bytes| max_bytes.saturating_add(SLACK));
        let longest = [printed, printed, SLACK];
        let (said, denied) = (BTreeSet::new(), BTreeSet::new());
        Self { attempts, table, longest, places: Default::default(), said, denied }
    }

    fn place(&self, place: Place) -> &Path {
        match place {
            Place::Open => &self.attempts.open,
            Place::Ended => &self.attempts.ended,
            Place::Shipped => &self.attempts.shipped,
        }
    }

    fn dir(&self, token: Token, place: Place) -> AttemptDir {
        match place {
            Place::Open => self.attempts.open(token),
            Place::Ended => self.attempts.ended(token),
            Place::Shipped => self.attempts.shipped(token),
        }
    }

    /// Looks from the place's own directory: of a thousand attempts, that takes half the time that whole paths would.
    fn sizes(&mut self, token: Token, place: Place) -> io::Result<Option<[u64; 3]>> {
        let dir = match self.places[place as usize].take() {
            Some(dir) => dir,
            None => plain_file::open_dir(self.place(place))?,
        };
        let dir = self.places[place as usize].insert(dir);
        let name = token.to_string();
        // A link in its place may lead anywhere.
        if !found_at(dir, &name)?.is_some_and(|(kind, _)| kind.is_dir()) {
            return Ok(None);
        }
        let found = LogStream::ALL.map(|stream| found_at(dir, &format!("{name}/{}", stream.name())));
        let mut sizes = [0; 3];
        for ((size, stream), found) in sizes.iter_mut().zip(LogStream::ALL).zip(found) {
            match found {
                Ok(Some((kind, length))) if kind.is_file() => *size = length,
                Ok(Some(_)) => self.say(token, stream),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.say(token, stream),
                Err(error) => return Err(error),
            }
            if *size > 0 && self.is_denied(token, place, stream) {
                *size = 0;
            }
        }
        Ok(Some(sizes))
    }

    /// A job of the worker's account may keep its output from the worker: then it is no output, until it can be read again.
    fn is_denied(&mut self, token: Token, place: Place, stream: LogStream) -> bool {
        let name = (token, stream.index());
        if !self.denied.contains(&name) {
            return false;
        }
        let opened = plain_file::open(&self.dir(token, place).path().join(stream.name()));
        let is_denied = opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        if !is_denied {
            self.denied.remove(&name);
        }
        is_denied
    }

    fn deny(&mut self, token: Token, stream: LogStream) {
        if self.denied.len() >= MAX_SAID {
            self.denied.clear();
        }
        self.denied.insert((token, stream.index()));
        self.say(token, stream);
    }

    /// Once of an attempt.
    fn say(&mut self, token: Token, stream: LogStream) {
        if self.said.len() >= MAX_SAID {
            self.said.clear();
        }
        if self.said.insert(token) {
            let stream = stream.name();
            tracing::warn!(%token, stream, "an output is not a plain file that the worker may read: the job has changed it, or has put something else in its place");
        }
    }

    fn times(
        &self,
        dir: &AttemptDir,
        file: &File,
        wanted: &Wanted,
        read: &mut TimesRead,
    ) -> io::Result<(Vec<(u64, i64)>, usize)> {
        let range = wanted.offset..wanted.offset + wanted.most as u64;
        let (mut times, end) = match wanted.stream {
            LogStream::Stdout => times::of_range(dir, 0, range, read)?,
            LogStream::Stderr => times::of_range(dir, 1, range, read)?,
            LogStream::Worker => (Vec::new(), range.end),
        };
        if times.first().is_none_or(|(offset, _)| *offset > wanted.offset) {
            let found = file.metadata()?;
            times.insert(0, (wanted.offset, milliseconds(found.mtime(), found.mtime_nsec())));
        }
        Ok((times, usize::try_from(end - wanted.offset).unwrap_or(wanted.most)))
    }
}

/// Of a time that a job may have set to anything.
pub(super) fn milliseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000).saturating_add(nanoseconds / 1_000_000)
}

/// What is there, which is followed nowhere, and how long it is.
fn found_at(dir: &File, path: &str) -> io::Result<Option<(FileType, u64)>> {
    match statat(dir, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => {
            let length = u64::try_from(found.st_size).unwrap_or(0);
            Ok(Some((FileType::from_raw_mode(found.st_mode), length)))
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

impl Spool for Disk {
    fn list(&mut self, place: Place) -> io::Result<(Vec<Token>, u64)> {
        let begun = Instant::now();
        // Somebody may have put another directory there.
        self.places[place as usize] = None;
        let tokens = data_dir::all_in(self.place(place))?;
        Ok((tokens, u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)))
    }

    fn look(&mut self, token: Token, place: Place) -> io::Result<Option<Seen>> {
        // It may move from each to the next, never back.
        for place in [Place::Open, Place::Ended, Place::Shipped].into_iter().filter(|of| *of >= place) {
            if let Some(sizes) = self.sizes(token, place)? {
                let is_too_long = sizes.iter().zip(self.longest).any(|(size, longest)| *size > longest);
                return Ok(Some(Seen { place, sizes, is_too_long }));
            }
        }
        Ok(None)
    }

    fn read(&mut self, wanted: Wanted, read: &mut TimesRead) -> io::Result<Bytes> {
        let none = Bytes { bytes: Vec::new(), times: Vec::new() };
        let dir = self.dir(wanted.token, wanted.place);
        if !plain_file::is_dir(dir.path()) {
            return Ok(none);
        }
        let file = match plain_file::open(&dir.path().join(wanted.stream.name())) {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Ok(none),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.say(wanted.token, wanted.stream);
                return Ok(none);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.deny(wanted.token, wanted.stream);
                return Ok(none);
            }
            Err(error) => return Err(error),
        };
        let (mut times, most) = self.times(&dir, &file, &wanted, read)?;
        let mut bytes = vec![0; most];
        let mut length = 0;
        while length < most {
            match file.read_at(&mut bytes[length..], wanted.offset + length as u64) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(length);
        if wanted.stream == LogStream::Worker {
            let own = times::of_lines(&bytes, wanted.offset);
            if own.first().is_some_and(|(offset, _)| *offset == wanted.offset) {
                times.clear();
            }
            times.extend(own);
        }
        Ok(Bytes { bytes, times })
    }

    fn take_new(&mut self, token: Token) -> bool {
        self.table.take_new(token)
    }

    fn ship(&mut self, token: Token) -> io::Result<()> {
        self.attempts.ship(token)
    }
}
