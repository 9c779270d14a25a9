//! Files that a person names, on the command line or in the configuration: plain files of bounded size. A named pipe would
//! keep the command waiting for ever, and a device would give it bytes without an end.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The largest configuration, password or key file, bytes.
pub const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// The standard input, where a command takes files to read.
pub(crate) const STDIN: &str = "-";

/// The text of a plain file of at most `most` bytes.
///
/// # Errors
/// It is no plain file or too large, which is [`ErrorKind::InvalidInput`] with the rule; it is not there or cannot be read.
pub fn text(file: &Path, most: u64) -> io::Result<String> {
    bounded(open(file)?, most)
}

/// The same; `-` is the standard input, which may be a pipe.
pub(crate) fn text_or_stdin(file: &Path, most: u64) -> io::Result<String> {
    if file.as_os_str() == STDIN { bounded(io::stdin().lock(), most) } else { text(file, most) }
}

/// A plain file.
///
/// # Errors
/// As [`text`].
pub fn open(file: &Path) -> io::Result<File> {
    // Opening a pipe would wait for who writes into it.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).expect("flags of open are an int");
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    let kind = opened.metadata()?.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(opened),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a pipe",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    };
    Err(broken(format!("has to be a plain file, and is {what}")))
}

fn bounded(from: impl Read, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(broken(format!("must have at most {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "is not UTF-8"))
}

fn broken(rule: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OPS-7: none of these is waited for, or read to its end.
    #[test]
    fn what_is_no_plain_file_or_too_large_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
        assert!(made.success());
        std::fs::write(path("large"), "x".repeat(11)).unwrap();
        std::fs::write(path("fits"), "x".repeat(10)).unwrap();
        let told = |file: &Path| text(file, 10).map_err(|error| (error.kind(), error.to_string()));
        assert_eq!(told(&path("fits")), Ok("x".repeat(10)));
        for (file, rule) in [
            (path("pipe"), "has to be a plain file, and is a pipe"),
            ("/dev/zero".into(), "has to be a plain file, and is a device"),
            (dir.path().to_owned(), "has to be a plain file, and is a directory"),
            (path("large"), "must have at most 10 bytes"),
        ] {
            assert_eq!(told(&file), Err((ErrorKind::InvalidInput, rule.to_owned())));
        }
        assert_eq!(told(&path("none")).unwrap_err().0, ErrorKind::NotFound);
    }
}
