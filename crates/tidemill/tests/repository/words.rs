//! The standard terms of `docs/glossary.md`: no identifier of the sources falls back into words that nobody else knows.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that no identifier has, with the term that stands for each.
const DIALECT: &[(&str, &str)] = &[
    ("bury", "reap"),
    ("courier", "outbox sender"),
    ("crew", "workers"),
    ("finale", "final command"),
    ("homes", "user groups"),
    ("knock", "request"),
    ("quarantine", "dead letter"),
    ("quarantined", "dead lettered"),
    ("quarantines", "dead letters"),
    ("rhythm", "poll"),
    ("rig", "fault injection"),
    ("rigged", "fault injected"),
    ("ruin", "log fault"),
    ("thaw", "lift freeze"),
    ("thawed", "lifted"),
    ("thing", "external dependency"),
    ("things", "external dependencies"),
    ("truth", "oracle"),
    ("unfit", "unready"),
    ("unspeakable", "oversize sender field"),
    ("wish", "request"),
    ("wished", "requested"),
    ("wisher", "requester"),
    ("wishes", "requests"),
];

/// Code without comments and without what stands between quotes, line by line.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for line in text.lines() {
        let mut in_text = false;
        let mut previous = ' ';
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' if in_text => {
                    letters.next();
                }
                '"' if previous != '\'' => in_text = !in_text,
                '/' if !in_text && letters.peek() == Some(&'/') => break,
                _ if !in_text => code.push(letter),
                _ => {}
            }
            previous = letter;
        }
        code.push('\n');
    }
    code
}

/// The words of an identifier, in lower case: those of `MailboxState` and of `mailbox_state`.
fn words(identifier: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut previous = '_';
    for letter in identifier.chars() {
        let begins = previous == '_' || letter.is_uppercase() && previous.is_lowercase();
        previous = letter;
        match words.last_mut() {
            _ if letter == '_' => {}
            Some(word) if !begins => word.extend(letter.to_lowercase()),
            _ => words.push(letter.to_lowercase().collect()),
        }
    }
    words
}

fn dialect_of(text: &str) -> BTreeSet<String> {
    let code = code(text);
    let identifiers = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let mut found = BTreeSet::new();
    for identifier in identifiers {
        let words = words(identifier);
        let known = DIALECT.iter().filter(|(word, _)| words.iter().any(|of| of == word));
        found
            .extend(known.map(|(word, term)| format!("{identifier}: say \"{term}\" in place of \"{word}\"")));
    }
    found
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && entry.file_name().is_some_and(|name| name != "target") {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

#[test]
fn identifiers_use_the_terms_of_the_glossary() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    sources(&crates, &mut files);
    assert!(files.len() > 300, "{} files", files.len());
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with("repository/words.rs")) {
        let found = dialect_of(&fs::read_to_string(file).unwrap());
        breaches.extend(found.into_iter().map(|breach| format!("{}: {breach}", file.display())));
    }
    assert!(breaches.is_empty(), "{} (docs/glossary.md)", breaches.join("\n"));
}

/// The check finds what it looks for.
#[test]
fn dialect_is_found_in_names_of_every_form() {
    let bad = "fn f(a: ThingRow) { let known_things = MAX_WISHES; }";
    assert_eq!(dialect_of(bad).len(), 3, "{:?}", dialect_of(bad));
    let good = "// a thing\nlet nothing = \"such things\"; let something = anything;";
    assert_eq!(dialect_of(good), BTreeSet::new());
}
