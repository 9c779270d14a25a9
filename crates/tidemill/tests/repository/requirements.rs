//! Which tests stand for which requirement: `docs/reference/requirements.md` is what the tests themselves say.
//!
//! A test stands for an id when its doc comment names it. `UPDATE_REQUIREMENTS=1` writes the file anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The families of ids, each with how many it has.
const FAMILIES: &[(&str, u32)] = &[
    ("EVT", 10),
    ("JOB", 9),
    ("GEN", 10),
    ("DEP", 9),
    ("TMO", 5),
    ("DSP", 6),
    ("EXE", 13),
    ("ZMB", 2),
    ("CLN", 1),
    ("BIG", 1),
    ("ALM", 9),
    ("MON", 9),
    ("DQ", 2),
    ("LOG", 4),
    ("API", 10),
    ("PUL", 14),
    ("TBL", 3),
    ("WEB", 5),
    ("OPS", 10),
    ("BYD", 20),
];

/// An id, ordered as people count.
type Id = (usize, u32);
/// File and name of a test.
type Place = (String, String);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The ids that a text names: `JOB-5`, and all of `BYD-16 to BYD-18` or `TMO-1–3`; also those that no catalogue has.
fn named_ids(text: &str) -> BTreeSet<Id> {
    let mut found = BTreeSet::new();
    for (family, (name, _)) in FAMILIES.iter().enumerate() {
        for (at, _) in text.match_indices(&format!("{name}-")) {
            let is_word = text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '-');
            let rest = &text[at + name.len() + 1..];
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let Some(first) = digits.parse::<u32>().ok().filter(|_| !is_word) else { continue };
            let after = &rest[digits.len()..];
            let range = after.strip_prefix('–').or_else(|| after.strip_prefix(&format!(" to {name}-")));
            let last = range.map(|range| range.chars().take_while(char::is_ascii_digit).collect::<String>());
            let last = last.and_then(|last| last.parse().ok()).unwrap_or(first);
            found.extend((first..=last).map(|n| (family, n)));
        }
    }
    found
}

fn is_known((family, number): Id) -> bool {
    (1..=FAMILIES[family].1).contains(&number)
}

/// Every test of a file with the words over it.
fn tests(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut doc, mut is_test) = (String::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            doc.push_str(words);
            doc.push('\n');
        } else if line.starts_with("#[") {
            is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
        } else {
            let name =
                line.trim_start_matches("async ").strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            if let Some(name) = name.filter(|_| is_test) {
                found.push((name.to_owned(), std::mem::take(&mut doc)));
            }
            (doc, is_test) = (String::new(), false);
        }
    }
    found
}

/// Every id that the doc comment of a test names, with those tests.
fn named() -> BTreeMap<Id, BTreeSet<Place>> {
    let root = root();
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    let mut shown: BTreeMap<Id, BTreeSet<Place>> = BTreeMap::new();
    for file in files {
        let place = file.strip_prefix(&root).unwrap().display().to_string();
        for (name, doc) in tests(&fs::read_to_string(&file).unwrap()) {
            for id in named_ids(&doc) {
                shown.entry(id).or_default().insert((place.clone(), name.clone()));
            }
        }
    }
    shown
}

fn page() -> String {
    let shown = named();
    let mut page = String::from(
        "# Requirements and their tests\n\nWritten by `make schemas` from the doc comments of the tests. An id that no test \
         names is *no test yet*.\n",
    );
    for (family, (name, count)) in FAMILIES.iter().enumerate() {
        page.push_str(&format!("\n## {name}\n\n"));
        for number in 1..=*count {
            match shown.get(&(family, number)) {
                None => page.push_str(&format!("- **{name}-{number}**: *no test yet*\n")),
                Some(places) => {
                    page.push_str(&format!("- **{name}-{number}**\n"));
                    for (file, test) in places {
                        page.push_str(&format!("  - `{file}`: `{test}`\n"));
                    }
                }
            }
        }
    }
    page
}

/// A new row of the catalogue is named here before a test can stand for it.
#[test]
fn tests_name_only_ids_that_the_catalogue_has() {
    assert_eq!(FAMILIES.iter().map(|(_, count)| count).sum::<u32>(), 152, "rows of the catalogue");
    let unknown: Vec<String> = named()
        .into_iter()
        .filter(|(id, _)| !is_known(*id))
        .map(|((family, n), places)| format!("{}-{n} in {places:?}", FAMILIES[family].0))
        .collect();
    assert_eq!(unknown, Vec::<String>::new());
}

#[test]
fn ids_are_found_where_they_are_named() {
    let named = |text: &str| -> Vec<String> {
        named_ids(text).into_iter().map(|(family, n)| format!("{}-{n}", FAMILIES[family].0)).collect()
    };
    assert_eq!(named("JOB-5, GEN-1: XJOB-6, JOB-999, JOB-"), ["JOB-5", "JOB-999", "GEN-1"]);
    assert!(!is_known((1, 999)) && is_known((1, 5)) && !is_known((1, 0)));
    assert_eq!(named("BYD-2 to BYD-4, and DEP-1–2."), ["DEP-1", "DEP-2", "BYD-2", "BYD-3", "BYD-4"]);
    let text = "/// JOB-1: it is.\n#[test]\nfn it_is() {\n    /// JOB-2\n    let x = 1;\n}\n/// JOB-3\nfn helper() {}\n";
    assert_eq!(tests(text), [("it_is".to_owned(), " JOB-1: it is.\n".to_owned())]);
}

/// The file in docs says what the tests say.
#[test]
fn every_requirement_is_listed_with_its_tests() {
    let file = root().join("docs/reference/requirements.md");
    let page = page();
    if std::env::var_os("UPDATE_REQUIREMENTS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    let wrong = page.lines().find(|line| !kept.lines().any(|kept| kept == *line));
    let stale = kept.lines().find(|line| !page.lines().any(|now| now == *line));
    assert!(kept == page, "`make schemas` writes it anew; new: {wrong:?}, gone: {stale:?}");
}
