//! What a session wants of the spool, wherever that is.

use std::io;

use tidemill_model::{LogStream, Token};

use super::times::TimesRead;

/// Where the directory of an attempt is. It moves from each to the next, and leaves the last two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Open,
    Ended,
    /// A store has all of it. Another one may still be told of it.
    Shipped,
}

/// What the spool shows of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) place: Place,
    /// Of each stream, bytes, as they were there.
    pub(super) sizes: [u64; 3],
    /// One of them is longer than an output can be: something else is in its place.
    pub(super) is_too_long: bool,
}

/// Which bytes are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) token: Token,
    pub(super) place: Place,
    pub(super) stream: LogStream,
    pub(super) offset: u64,
    pub(super) most: usize,
}

/// Some bytes; none: there are no more.
pub(super) struct Bytes {
    pub(super) bytes: Vec<u8>,
    pub(super) times: Vec<(u64, i64)>,
}

/// Where the output is.
pub(super) trait Spool {
    /// The attempts there, by their tokens, and how long it took to find them, milliseconds.
    fn list(&mut self, place: Place) -> io::Result<(Vec<Token>, u64)>;
    /// An attempt that was last seen there; nothing: it is gone.
    fn look(&mut self, token: Token, place: Place) -> io::Result<Option<Seen>>;
    fn read(&mut self, wanted: Wanted, read: &mut TimesRead) -> io::Result<Bytes>;
    /// Whether no store was ever told of it. From now on one was.
    fn take_new(&mut self, token: Token) -> bool;
    /// A store has all of it. Fails where it has not ended, and where it is gone.
    fn ship(&mut self, token: Token) -> io::Result<()>;
}
