//! How many places a change of the vocabulary touches: the files of the product that must name one thing. The numbers may
//! fall, not rise; CONTRIBUTING.md has the lists by which people go.

use std::fs;
use std::path::{Path, PathBuf};

/// What stands for others of its kind, by which words a file names it, and in how many files at most.
const SENTINELS: &[(&str, &[&str], usize)] = &[
    ("an event", &["BatchEvent::StartDue", "\"start_due\"", "kind = \"start.due\""], 4),
    ("a command", &["BatchCommand::KillJob", "    KillJob {"], 4),
    ("a job field", &["business_type"], 2),
    ("a column that is shown", &["unready_since"], 2),
    ("a REST resource", &["LateProbeRow", "LateProbeView", "late_probes", "/api/probes/late"], 9),
];

pub(crate) fn sources() -> Vec<PathBuf> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let is_test = path.ends_with("tests") || path.ends_with("tests.rs") || path.ends_with("examples");
            match path.is_dir() {
                _ if is_test => {}
                true => open.push(path),
                false => found.push(path),
            }
        }
    }
    found.retain(|path| path.extension().is_some_and(|end| end == "rs"));
    found
}

#[test]
fn a_change_of_the_vocabulary_touches_few_files() {
    let texts: Vec<(PathBuf, String)> =
        sources().into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    assert!(texts.len() > 500);
    for (what, names, most) in SENTINELS {
        let naming = texts.iter().filter(|(_, text)| names.iter().any(|name| text.contains(name)));
        let files: Vec<String> = naming.map(|(path, _)| path.display().to_string()).collect();
        assert!(!files.is_empty(), "{what}: nothing names {names:?} any more; choose another one");
        assert!(files.len() <= *most, "{what} is named in {} files:\n{}", files.len(), files.join("\n"));
    }
}
