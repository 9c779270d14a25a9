//! Jobs as they stand in files, and where errors about them come from.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{EACH_JOB, hint, list};
use crate::args::Parameter;
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::files;

/// Jobs as written, each with the file that it stands in.
#[derive(Debug, Default, PartialEq)]
pub struct JobFiles {
    /// As written; the server judges the fields.
    pub jobs: Vec<Value>,
    /// The file of each.
    files: Vec<PathBuf>,
}

impl JobFiles {
    /// Reads a file, or every `*.yaml` and `*.yml` of a directory and those below it in the order of their paths.
    ///
    /// # Errors
    /// One of them cannot be read or is not YAML, told with its name; or no job is in them.
    pub fn read(path: &Path) -> Done<Self> {
        let mut read = Self::default();
        read.add(path)?;
        Ok(read)
    }

    /// Reads several.
    pub(crate) fn read_all(paths: &[PathBuf]) -> Done<Self> {
        let mut read = Self::default();
        for path in paths {
            read.add(path)?;
        }
        Ok(read)
    }

    fn add(&mut self, path: &Path) -> Done {
        let before = self.jobs.len();
        for file in yaml_files(path)? {
            let jobs = list(&file, "jobs", EACH_JOB)?;
            self.files.extend(jobs.iter().map(|_| file.clone()));
            self.jobs.extend(jobs);
        }
        if self.jobs.len() == before {
            let hint = match path.is_dir() {
                true => {
                    "of a directory, its *.yaml and *.yml are read, and those of the directories below it"
                        .into()
                }
                false => hint("jobs", EACH_JOB),
            };
            return Err(Failure::bad_input(format!("{}: no job is in it", path.display())).hint(hint));
        }
        Ok(())
    }

    /// How many files the jobs stand in.
    pub(crate) fn count(&self) -> usize {
        self.files.iter().collect::<BTreeSet<_>>().len()
    }

    /// Sets parameters of every job, over those in the files.
    pub(crate) fn set_parameters(&mut self, parameters: &[Parameter]) {
        for job in self.jobs.iter_mut().filter_map(Value::as_object_mut) {
            for parameter in parameters {
                let all = job.entry("parameters").or_insert_with(|| json!({}));
                if let Some(all) = all.as_object_mut() {
                    all.insert(parameter.name.clone(), json!(parameter.value));
                }
            }
        }
    }

    /// Puts file and job in place of `jobs[3]` where an error names it.
    pub(crate) fn explain(&self, mut failure: Failure) -> Failure {
        failure.message = self.locate(&failure.message);
        for line in &mut failure.details {
            *line = self.locate(line);
        }
        let path = self.place();
        let is_located = failure.details.iter().chain([&failure.message]).any(|line| line.contains(&path));
        if failure.exit == Exit::BadInput && !is_located {
            failure.message = format!("{path}: {}", failure.message);
        }
        failure
    }

    /// The one file, or the directory above them all.
    fn place(&self) -> String {
        let first = self.files.first().map_or(Path::new(""), PathBuf::as_path);
        let above = |place: &Path| self.files.iter().all(|file| file.starts_with(place));
        let place = first.ancestors().find(|place| above(place)).unwrap_or(first);
        place.display().to_string()
    }

    /// Puts file and job in place of `jobs[3]`.
    pub(crate) fn locate(&self, text: &str) -> String {
        let Some((before, rest)) = text.split_once("jobs[") else { return text.to_owned() };
        let Some((number, after)) = rest.split_once(']') else { return text.to_owned() };
        let Some(index) = number.parse::<usize>().ok().filter(|index| *index < self.jobs.len()) else {
            return text.to_owned();
        };
        let name = self.jobs[index].get("name").and_then(Value::as_str).unwrap_or("(no name)");
        let after = after.strip_prefix('.').unwrap_or(after);
        format!("{before}{}: job {name}: {after}", self.files[index].display())
    }
}

/// Most files of one directory, those below it included; so many directories may be below it, too.
const MAX_FILES: usize = 20_000;
/// Most directories below each other.
const MAX_DEPTH: usize = 16;

/// A file itself; of a directory its files, in the order of their paths.
fn yaml_files(path: &Path) -> Done<Vec<PathBuf>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_read_in_order_and_errors_name_file_and_job() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("b.yml"), "jobs: [{name: two}]\n").unwrap();
        fs::write(dir.path().join("a.yaml"), "jobs: [{name: one}]\n").unwrap();
        fs::write(dir.path().join("c.txt"), "not yaml: [").unwrap();
        let mut read = JobFiles::read(dir.path()).unwrap();
        read.set_parameters(&["day=1".parse().unwrap()]);
        assert_eq!(
            read.jobs,
            [
                json!({"name": "one", "parameters": {"day": "1"}}),
                json!({"name": "two", "parameters": {"day": "1"}})
            ]
        );
        let told = read.explain(Failure::bad_input("x").detail("jobs[1].schedule.cron: \"?\": bad"));
        assert!(
            told.details[0].ends_with("b.yml: job two: schedule.cron: \"?\": bad"),
            "{}",
            told.details[0]
        );
    }

    /// JOB-5: directories below are read in the order of paths, each once however links lead to it; hidden ones are
    /// not, and a tree that is too deep is refused by the name of the directory.
    #[test]
    fn directories_below_are_read_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, job: &str| {
            let file = dir.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("jobs: [{{name: {job}}}]\n")).unwrap();
        };
        write("b/deep/two.yaml", "two");
        write("a/one.yml", "one");
        write("three.yaml", "three");
        write(".git/hidden.yaml", "hidden");
        std::os::unix::fs::symlink(dir.path(), dir.path().join("b/loop")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("c")).unwrap();
        let read = JobFiles::read(dir.path()).unwrap();
        let names: Vec<_> = read.jobs.iter().map(|job| job["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["one", "two", "three"]);
        let told = read.explain(Failure::bad_input("x")).message;
        assert_eq!(told, format!("{}: x", dir.path().display()));

        let deep = "d/".repeat(MAX_DEPTH + 1);
        write(&format!("{deep}four.yaml"), "four");
        let told = JobFiles::read(dir.path()).unwrap_err().message;
        assert!(told.contains("d/d is more than 16 directories below it"), "{told}");
    }
}
