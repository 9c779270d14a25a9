//! BYD-20: the file of small values that a job leaves for its batch's children: a JSON object of texts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use tidemill_model::MAX_VALUES_BYTES;

/// Longest name of a value, bytes.
const MAX_NAME_BYTES: usize = 128;

/// What stands in the file; none, or an empty one: nothing. The error says what is wrong with it.
///
/// The file is the job's, which may be of another account than the reader: no link is followed, and nothing that is no
/// plain file is waited for.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let fault = |error: io::Error| format!("cannot be read: {error}");
    let no_plain_file = || "is not a plain file".to_owned();
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, how, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(BTreeMap::new()),
        Err(Errno::LOOP | Errno::NXIO) => return Err(no_plain_file()),
        Err(error) => return Err(fault(error.into())),
    };
    if !file.metadata().map_err(fault)?.is_file() {
        return Err(no_plain_file());
    }
    let mut bytes = Vec::new();
    file.take(MAX_VALUES_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.is_empty() {
        return Ok(BTreeMap::new());
    }
    if bytes.len() > MAX_VALUES_BYTES {
        return Err(format!("is longer than {MAX_VALUES_BYTES} bytes"));
    }
    let values: BTreeMap<String, String> =
        serde_json::from_slice(&bytes).map_err(|error| format!("is not a JSON object of texts: {error}"))?;
    let fits = |name: &str| {
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(letters)
    };
    match values.keys().find(|name| !fits(name)) {
        Some(name) => {
            Err(format!("has the name {name:?}; names are 1 to {MAX_NAME_BYTES} letters, digits, _ and -"))
        }
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// BYD-20: what is no small object of texts is refused, and what is wrong with it is said.
    #[test]
    fn only_a_small_object_of_texts_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("values.json");
        assert_eq!(read(&path), Ok(BTreeMap::new()));
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(MAX_VALUES_BYTES - 9));
        for good in ["", "{}", r#"{"rows": "7", "day-of_week": ""}"#, long.as_str()] {
            fs::write(&path, good).unwrap();
            assert!(read(&path).is_ok(), "{good}");
        }
        let longer = format!("{long} ");
        for (bad, what) in [
            (" ", "is not a JSON object"),
            (r#"{"rows": 7}"#, "is not a JSON object"),
            (r#"["rows"]"#, "is not a JSON object"),
            (r#"{"a.b": ""}"#, "names are"),
            (longer.as_str(), "is longer than 8192 bytes"),
        ] {
            fs::write(&path, bad).unwrap();
            assert!(read(&path).unwrap_err().contains(what), "{bad}");
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert_eq!(read(&path), Err("is not a plain file".to_owned()));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read(&path), Err("is not a plain file".to_owned()), "nobody writes into it");
    }
}
