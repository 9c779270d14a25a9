//! The YAML files of a directory and of those below it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Done, Failure};
use crate::files;

/// Most files of one directory, those below it included; so many directories may be below it, too.
const MAX_FILES: usize = 20_000;
/// Most directories below each other.
pub(super) const MAX_DEPTH: usize = 16;

/// A file itself; of a directory its files, in the order of their paths.
pub(super) fn list(path: &Path) -> Done<Vec<PathBuf>> {
    if path.as_os_str() == files::STDIN
        || !fs::metadata(path).map_err(|error| Failure::unreadable(path, &error))?.is_dir()
    {
        return Ok(vec![path.to_owned()]);
    }
    let mut tree = Tree { root: path, files: Vec::new(), seen: BTreeSet::new() };
    tree.add(path, 0)?;
    tree.files.sort();
    Ok(tree.files)
}

/// The YAML files of a directory and of those below it, hidden directories left out.
struct Tree<'a> {
    root: &'a Path,
    files: Vec<PathBuf>,
    /// Directories by their real paths: one that links lead to again is read once.
    seen: BTreeSet<PathBuf>,
}

impl Tree<'_> {
    fn add(&mut self, dir: &Path, depth: usize) -> Done {
        if !self.seen.insert(fs::canonicalize(dir).map_err(|error| Failure::unreadable(dir, &error))?) {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            return Err(
                self.too_large(&format!("{} is more than {MAX_DEPTH} directories below it", dir.display()))
            );
        }
        let entries = fs::read_dir(dir).map_err(|error| Failure::unreadable(dir, &error))?;
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<PathBuf>, _>>()
            .map_err(|error| Failure::unreadable(dir, &error))?;
        paths.sort();
        for path in paths {
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
            if path.is_dir() && !is_hidden {
                self.add(&path, depth + 1)?;
            } else if is_yaml && path.is_file() {
                self.files.push(path);
            }
            if self.files.len().max(self.seen.len()) > MAX_FILES {
                return Err(self.too_large(&format!("more than {MAX_FILES} files or directories")));
            }
        }
        Ok(())
    }

    fn too_large(&self, what: &str) -> Failure {
        Failure::bad_input(format!("{}: {what}", self.root.display()))
            .hint("name a directory with fewer; one that holds something else can be hidden with a dot")
    }
}
