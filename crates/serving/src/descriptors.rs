//! How many files and sockets this process may have open, and who gets them.
//!
//! Everything in one process shares one number: connections that anybody may open, the log, the tables, and the
//! sockets and files of running jobs. So the number is raised as far as it goes, a part of it is kept from
//! connections, and programs that the process starts get back what it was started with: some of them break where it
//! is large (`select` takes descriptors below 1,024 only).

use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use thiserror::Error;

/// Nothing here needs more, and some systems say "infinity".
const MOST: u64 = 1 << 20;
/// Below this, log, tables and executor alone may find none free.
const FEWEST: u64 = 128;
/// Below this it works, for few clients at once.
const FEW: u64 = 1_024;
/// Descriptors of log, tables and roles at rest, and some more.
const AT_REST: u64 = 64;
/// One in so many is kept for jobs and what they need beside that.
const KEPT_PART: u64 = 4;

/// One reader for so many descriptors: a reader of the tables has two or three.
const READERS_PART: u64 = 32;

/// What the process was started with.
static STARTED_WITH: OnceLock<Rlimit> = OnceLock::new();

/// The limit on open files does not let the process work.
#[derive(Debug, Error)]
pub enum Error {
    /// It is too low, and may not be raised.
    #[error(
        "the limit on open files is {limit}, and at least {FEWEST} are needed; raise the hard limit (`ulimit -Hn`, \
         LimitNOFILE= in a unit of systemd, nofile in limits.conf)"
    )]
    TooFew {
        /// The hard limit.
        limit: u64,
    },
    /// The system refuses to raise it.
    #[error("cannot raise the limit on open files from {from} to {to}")]
    Raise {
        /// As it was.
        from: u64,
        /// As it should be.
        to: u64,
        /// Why not.
        #[source]
        source: rustix::io::Errno,
    },
}

/// Raises the limit on open files as far as it goes, and says where it is low.
///
/// # Errors
/// It stays too low to work, or cannot be raised.
pub fn raise() -> Result<(), Error> {
    let found = *STARTED_WITH.get_or_init(|| getrlimit(Resource::Nofile));
    let from = found.current.unwrap_or(MOST);
    let to = found.maximum.unwrap_or(MOST).min(MOST);
    if from < to {
        let raised = Rlimit { current: Some(to), maximum: found.maximum };
        setrlimit(Resource::Nofile, raised).map_err(|source| Error::Raise { from, to, source })?;
    }
    let limit = limit();
    if limit < FEWEST {
        return Err(Error::TooFew { limit });
    }
    if limit < FEW {
        let connections = for_connections();
        tracing::warn!(
            limit,
            connections,
            "the limit on open files is {limit}, which leaves {connections} for connections; raise the hard limit to \
             {FEW} or more (`ulimit -Hn`, LimitNOFILE= in a unit of systemd)"
        );
    }
    Ok(())
}

/// Gives a process that was just started the limit that this one was started with, and with that all its children.
///
/// # Errors
/// The system refuses.
pub fn give_back(process: u32) -> std::io::Result<()> {
    let Some(started_with) = STARTED_WITH.get() else { return Ok(()) };
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let process = process.ok_or_else(|| std::io::Error::other("a process has a number above 0"))?;
    prlimit(Some(process), Resource::Nofile, *started_with)?;
    Ok(())
}

/// How many descriptors connections may have.
pub fn for_connections() -> usize {
    let limit = limit();
    usize::try_from(limit.saturating_sub(AT_REST + limit / KEPT_PART)).unwrap_or(usize::MAX)
}

/// How many threads may read tables and logs at once: each of them opens files.
pub fn for_readers() -> usize {
    usize::try_from(limit() / READERS_PART).unwrap_or(usize::MAX).clamp(8, 512)
}

fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(MOST)
}
