//! Modules of a crate that import one another in a circle cannot be read one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::edits::sources;

type Imports = BTreeMap<String, BTreeSet<String>>;

/// What stands behind each `crate::` in a text.
fn imported(text: &str) -> impl Iterator<Item = &str> {
    let name = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    text.split("crate::").skip(1).map(move |rest| &rest[..name(rest)])
}

/// The modules at the top of a crate, each with those that it names. A name that the crate's root exports counts for the module
/// that it comes from; the root itself and modules of tests are left out.
fn imports_of(name: &str) -> Imports {
    let root =
        fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src")).unwrap();
    let library = fs::read_to_string(root.join("lib.rs")).unwrap();
    let exported = library.lines().filter_map(|line| line.strip_prefix("pub use ")).flat_map(|line| {
        let (module, names) = line.split_once("::").unwrap_or((line, ""));
        let names = names.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty());
        names.map(|name| (name.to_owned(), module.to_owned())).collect::<Vec<_>>()
    });
    let exported: BTreeMap<String, String> = exported.collect();
    let mut imports = Imports::new();
    for path in sources() {
        let path = fs::canonicalize(path).unwrap();
        let Ok(within) = path.strip_prefix(&root) else { continue };
        let top = within.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if ["lib", "corpus"].contains(&top.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("\n#[cfg(test)]").next().unwrap_or_default();
        let names = imported(text).map(|name| exported.get(name).map_or(name, String::as_str).to_owned());
        imports.entry(top.clone()).or_default().extend(names.filter(|name| *name != top));
    }
    imports
}

/// Modules that are left when those that import none of the others are taken away, again and again.
fn in_circles(mut imports: Imports) -> Vec<String> {
    loop {
        let known: BTreeSet<String> = imports.keys().cloned().collect();
        let before = imports.len();
        imports.retain(|_, names| names.iter().any(|name| known.contains(name)));
        if imports.len() == before {
            return imports.into_keys().collect();
        }
    }
}

#[test]
fn modules_of_the_interface_import_in_one_direction() {
    let imports = imports_of("api");
    assert!(imports.len() > 30 && imports["routes"].contains("app"), "{imports:?}");
    assert_eq!(in_circles(imports), Vec::<String>::new());
}

#[test]
fn a_circle_is_found() {
    let of =
        |name: &str, names: &[&str]| (name.to_owned(), names.iter().map(|&name| name.to_owned()).collect());
    let straight = Imports::from([of("a", &["b", "c"]), of("b", &["c"]), of("c", &[])]);
    assert_eq!(in_circles(straight), Vec::<String>::new());
    let round = Imports::from([of("a", &["b"]), of("b", &["c"]), of("c", &["b"]), of("d", &[])]);
    assert_eq!(in_circles(round), ["a", "b", "c"]);
}
