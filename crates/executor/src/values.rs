//! BYD-20: the file of small values that a job leaves for its batch's children: a JSON object of texts.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tidemill_model::MAX_VALUES_BYTES;

use crate::plain_file;

/// Longest name of a value, bytes.
const MAX_NAME_BYTES: usize = 128;

/// Longest that is told of what is wrong, characters: the file says what a name or a text is.
const MOST_TOLD: usize = 200;

/// What stands in the file; none, or an empty one: nothing. The error says what is wrong with it.
///
/// The file is the job's, which may have put something else there.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, String>, String> {
    read_whole(path).map_err(|fault| match fault.char_indices().nth(MOST_TOLD) {
        Some((end, _)) => format!("{}…", &fault[..end]),
        None => fault,
    })
}

fn read_whole(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let bytes = match plain_file::read(path, MAX_VALUES_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            // These say what it is.
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => return Err(error.to_string()),
            _ => return Err(format!("cannot be read: {error}")),
        },
    };
    if bytes.is_empty() {
        return Ok(BTreeMap::new());
    }
    let values: BTreeMap<String, String> =
        serde_json::from_slice(&bytes).map_err(|error| format!("is not a JSON object of texts: {error}"))?;
    let fits = |name: &str| {
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(letters)
    };
    if let Some(name) = values.keys().find(|name| !fits(name)) {
        let shown: String = name.chars().take(MAX_NAME_BYTES / 2).collect();
        return Err(format!(
            "has a name that is not 1 to {MAX_NAME_BYTES} letters, digits, _ and -: {shown:?}"
        ));
    }
    match values.iter().find(|(_, value)| value.contains('\0')) {
        Some((name, _)) => Err(format!("has a zero byte in {name}, which no child can be given")),
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
            (r#"{"a.b": ""}"#, "has a name that is not"),
            (r#"{"a": "x\u0000y"}"#, "a zero byte in a"),
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
