//! `tidemill batch logs --download`: a log byte for byte, or a range of it, or what a file misses of it (LOG-2).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use indicatif::ProgressBar;

use super::{Session, attempt, path};
use crate::args::LogsArgs;
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::progress;

/// Bytes that are written at once.
const PIECE: usize = 64 << 10;

pub(super) fn run(session: &Session<'_>, args: &LogsArgs, file: &Path) -> Done<Exit> {
    let to_stdout = file == Path::new("-");
    if to_stdout && output::is_terminal() {
        let why = "--download -: standard output is a terminal, which a log could steer";
        return Err(Failure::bad_input(why).hint("name a file, or write into a pipe"));
    }
    if to_stdout && args.resume {
        let why = "--resume: standard output does not say how much of the log it has";
        return Err(Failure::bad_input(why).hint("name a file, or give the range with --bytes FIRST-"));
    }
    let mut to = Destination::open(file, args)?;
    let range = match (&to.file, args.bytes) {
        (_, Some(bytes)) => Some((bytes.first, bytes.last)),
        (Some(_), None) if to.has > 0 => Some((to.has, None)),
        _ => None,
    };
    match session.server.download_log(args.batch, args.stream(), args.attempt, range)? {
        Some(bytes) => to.fill(session, bytes)?,
        None => nothing_there(session, args, &to, range)?,
    }
    Ok(Exit::Success)
}

/// The log ends before the range begins: so be it where a file has the whole log already.
fn nothing_there(
    session: &Session<'_>,
    args: &LogsArgs,
    to: &Destination<'_>,
    range: Option<(u64, Option<u64>)>,
) -> Done {
    let first = range.map_or(0, |(first, _)| first);
    let kept = session.server.get(&path(args, "/summary"), &attempt(args))?;
    let length = &kept[args.stream().name()]["bytes"];
    if args.resume && length.as_u64() == Some(first) {
        output::note(format!("Nothing is missing: {} has all {length} bytes.", to.path.display()));
        return Ok(());
    }
    Err(Failure::bad_input(format!("byte {first}: the log has {length} bytes, so it ends before that")).hint(
        "name an earlier byte, another attempt or another stream; without --resume the file is written anew",
    ))
}

/// Where bytes go.
struct Destination<'a> {
    path: &'a Path,
    /// None: standard output.
    file: Option<File>,
    /// Bytes that it has already, and keeps.
    has: u64,
}

impl<'a> Destination<'a> {
    fn open(path: &'a Path, args: &LogsArgs) -> Done<Self> {
        if path == Path::new("-") {
            return Ok(Self { path, file: None, has: 0 });
        }
        let opened = OpenOptions::new().write(true).create(true).truncate(!args.resume).open(path);
        let opened = opened.and_then(|mut file| {
            let has = if args.resume { file.seek(SeekFrom::End(0))? } else { 0 };
            Ok((file, has))
        });
        match opened {
            Ok((file, has)) => Ok(Self { path, file: Some(file), has }),
            Err(error) => Err(unwritable(path, &error).with_exit(Exit::BadInput)),
        }
    }

    fn fill(&mut self, session: &Session<'_>, mut bytes: impl Read) -> Done {
        // What goes to standard output may be shown on the same terminal by whoever reads it.
        let bar = if self.file.is_some() { progress::bytes(session) } else { ProgressBar::hidden() };
        let bar = bar.with_position(self.has);
        let mut piece = vec![0; PIECE];
        loop {
            let read = match bytes.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let failure =
                        Failure::caused("the log broke off; what was written is its beginning", &error);
                    return Err(failure.hint("go on with --resume, where it was written into a file"));
                }
            };
            match &mut self.file {
                Some(to) => to.write_all(&piece[..read]).map_err(|error| unwritable(self.path, &error))?,
                None => output::raw(&piece[..read]),
            }
            bar.inc(read as u64);
        }
        bar.finish_and_clear();
        Ok(())
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::caused(format!("cannot write {}", path.display()), error)
}
