//! Links between the pages of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Every page: those in the root, and all below `docs`, `deploy` and `examples`.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut open: Vec<PathBuf> = ["docs", "deploy", "examples"].iter().map(|name| root.join(name)).collect();
    let entries = |directory: &Path| fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(entries(root).filter(|path| path.is_file()));
    while let Some(directory) = open.pop() {
        for path in entries(&directory) {
            if path.is_dir() { open.push(path) } else { pages.push(path) }
        }
    }
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    pages
}

/// What a page links to in the repository, without the place in the page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let targets = targets.map(|target| target.split_once('#').map_or(target, |(file, _)| file));
    targets.filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
}

fn broken(root: &Path) -> Vec<String> {
    let mut broken = Vec::new();
    for page in pages(root) {
        let text = fs::read_to_string(&page).unwrap();
        let directory = page.parent().unwrap();
        let gone = links(&text).filter(|target| !directory.join(target).exists());
        broken.extend(gone.map(|target| format!("{}: {target}", page.display())));
    }
    broken
}

#[test]
fn pages_link_to_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(pages(&root).len() > 40);
    let broken = broken(&root);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_link_to_nothing_is_found() {
    let root = tempfile::tempdir().unwrap();
    for name in ["docs", "deploy", "examples"] {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    let page = "[a](b.md#place) [c](docs/d.md) [e](https://example.com/f) [g](#h)";
    fs::write(root.path().join("a.md"), page).unwrap();
    fs::write(root.path().join("b.md"), "").unwrap();
    let broken = broken(root.path());
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].ends_with(": docs/d.md"), "{broken:?}");
}
