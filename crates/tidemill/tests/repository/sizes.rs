//! How long a file of the sources may be: what is longer holds more than one concept. Functions have a bound of their own, that
//! of clippy (`too_many_lines` in the workspace's `Cargo.toml`).

use std::fs;
use std::path::Path;

use crate::edits::sources;

/// The most lines of a file, its tests not counted.
const MOST_LINES: usize = 400;

/// Longer ones that are still to be split, below `crates`. None may be added.
const STILL_LONGER: &[&str] = &[];

/// The lines before the module of tests at the end, if there is one.
fn lines_without_tests(text: &str) -> usize {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default().trim_end().lines().count()
}

#[test]
fn no_source_file_is_longer_than_400_lines() {
    let crates = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let sizes = sources().into_iter().map(|path| {
        let lines = lines_without_tests(&fs::read_to_string(&path).unwrap());
        let path = fs::canonicalize(path).unwrap();
        (path.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned(), lines)
    });
    let mut longer: Vec<(String, usize)> = sizes.filter(|(_, lines)| *lines > MOST_LINES).collect();
    longer.sort();
    let surplus: Vec<String> = longer
        .iter()
        .filter(|(path, _)| !STILL_LONGER.contains(&path.as_str()))
        .map(|(path, lines)| format!("crates/{path}: {lines}"))
        .collect();
    assert!(
        surplus.is_empty(),
        "more than {MOST_LINES} lines, split them by concept:\n{}",
        surplus.join("\n")
    );
    let is_longer = |path: &&&str| longer.iter().any(|(longer, _)| longer == **path);
    let done: Vec<&&str> = STILL_LONGER.iter().filter(|path| !is_longer(path)).collect();
    assert!(done.is_empty(), "no longer too long, strike them from STILL_LONGER: {done:?}");
}

#[test]
fn tests_at_the_end_of_a_file_do_not_count() {
    assert_eq!(
        lines_without_tests("//! A.\n\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n"),
        3
    );
    assert_eq!(lines_without_tests("//! A.\n\n#[cfg(test)]\nfn only_for_tests() {}\n\nfn a() {}\n"), 6);
}
