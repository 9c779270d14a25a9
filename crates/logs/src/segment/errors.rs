//! Lines that look like errors, for whoever opens the log of an attempt that failed.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// What such a line has in it: of shells, of the run times of usual languages, of loggers.
const SIGNS: &[&str] = &[
    "ERROR",
    "FATAL",
    "CRITICAL",
    "Error",
    "Exception",
    "Traceback (most recent call last)",
    "error:",
    "fatal:",
    "panicked at",
    "command not found",
    "No such file or directory",
    "Permission denied",
    "Segmentation fault",
    "Killed",
];

/// All of them in one pass: it is on the way of every byte that any job prints.
static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(SIGNS);
    finder.expect("signs are short and few")
});

/// Where the first such line begins.
pub(crate) fn first(bytes: &[u8]) -> Option<usize> {
    let at = FINDER.find(bytes)?.start();
    Some(memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |end| end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-2: the first line that looks like an error, whichever sign it has.
    #[test]
    fn first_line_with_any_sign_is_found() {
        assert_eq!(first(b"all is well\nno errors here\n"), None);
        assert_eq!(first(b"ok\nx Exception: y\nERROR z\n"), Some(3));
        assert_eq!(first(b"fatal: a\nERROR b\n"), Some(0));
        assert_eq!(first(b"Killed"), Some(0));
        assert_eq!(first(b""), None);
    }
}
