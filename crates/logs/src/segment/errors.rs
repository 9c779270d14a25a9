//! Lines that look like errors, for whoever opens the log of an attempt that failed.

use memchr::memmem;

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

/// Where the first such line begins.
pub(crate) fn first(bytes: &[u8]) -> Option<u64> {
    let found = |end: usize, sign: &str| memmem::find(&bytes[..end], sign.as_bytes());
    // What is found bounds the search for the other signs.
    let at = SIGNS.iter().fold(None, |first: Option<usize>, sign| {
        let end = first.map_or(bytes.len(), |first| first + sign.len() - 1).min(bytes.len());
        found(end, sign).or(first)
    })?;
    Some(memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |end| end + 1) as u64)
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
