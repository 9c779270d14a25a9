//! The only place that writes to stdout and stderr. A reader that went away (`| head`) ends the program
//! quietly instead of with a panic.

use std::io::{self, Write};

use serde_json::Value;

use crate::failure::Failure;

/// Writes text and a line end to stdout.
pub(crate) fn line(text: impl AsRef<str>) {
    let text = text.as_ref().trim_end_matches('\n');
    raw(format!("{text}\n").as_bytes());
}

/// Writes bytes to stdout as they are.
pub(crate) fn raw(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Writes an answer as indented JSON to stdout.
pub(crate) fn json(value: &Value) {
    line(format!("{value:#}"));
}

/// Writes a remark to stderr, so that stdout holds nothing but the answer.
pub(crate) fn note(text: impl AsRef<str>) {
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// Writes why the command failed to stderr.
pub(crate) fn failure(failure: &Failure, as_json: bool) {
    note(if as_json { format!("{:#}", failure.to_json()) } else { failure.to_string() });
}
