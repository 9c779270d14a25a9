//! Job files: YAML in, YAML out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidemill_model::{CalendarSpec, PoolSpec, SpecFile};

use crate::cli::Parameter;
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::files;

/// Largest file of jobs.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Most values of one file: names, texts, lists and mappings.
const MAX_NODES: usize = 4_000_000;
/// Most files of one directory, those below it included; so many directories may be below it, too.
const MAX_FILES: usize = 20_000;
/// Most directories below each other.
const MAX_DEPTH: usize = 16;

/// Jobs as written, each with the file that it stands in.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct JobFiles {
    /// As written; the server judges the fields.
    pub(crate) jobs: Vec<Value>,
    /// The file of each.
    pub(crate) files: Vec<PathBuf>,
}

impl JobFiles {
    /// Reads a file, or every `*.yaml` and `*.yml` of a directory and those below it in the order of their paths.
    pub(crate) fn read(path: &Path) -> Done<Self> {
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
        for file in list(path)? {
            let jobs = jobs_of(&file)?;
            self.files.extend(jobs.iter().map(|_| file.clone()));
            self.jobs.extend(jobs);
        }
        if self.jobs.len() == before {
            let hint = match path.is_dir() {
                true => {
                    "of a directory, its *.yaml and *.yml are read, and those of the directories below it"
                }
                false => "write `jobs:` and under it a list of jobs, each with name, group and type",
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

/// A file itself; of a directory its files, in the order of their paths.
fn list(path: &Path) -> Done<Vec<PathBuf>> {
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

const PLAIN_HINT: &str = "name a plain file, or `-` for the standard input; split what is too large into several files of one directory";
const JOBS_HINT: &str = "write `jobs:` and under it a list of jobs, each with name, group and type";
const CALENDARS_HINT: &str = "write `calendars:` and under it a list of calendars, each with its name";

fn jobs_of(file: &Path) -> Done<Vec<Value>> {
    parse(file, &text_of(file)?)
}

/// The calendars of a file, as written; the server judges the fields.
pub(crate) fn calendars(file: &Path) -> Done<Vec<Value>> {
    list_of(file, &text_of(file)?, "calendars", CALENDARS_HINT)
}

const POOLS_HINT: &str = "write `pools:` and under it a list of pools, each with its name and slots";

/// The pools of a file, as written; the server judges the fields.
pub(crate) fn pools(file: &Path) -> Done<Vec<Value>> {
    list_of(file, &text_of(file)?, "pools", POOLS_HINT)
}

const TEMPLATES_HINT: &str =
    "write `templates:` and under it a list of templates, each with its name and fields";
const TASKS_HINT: &str = "write `tasks:` and under it a list of tasks, each with executor and when";
const USERS_HINT: &str = "write `users:` and under it a list of names";

/// The templates of a file, as written; the server judges the fields.
pub(crate) fn templates(file: &Path) -> Done<Vec<Value>> {
    list_of(file, &text_of(file)?, "templates", TEMPLATES_HINT)
}

/// The pull tasks of a file, as written; the server judges the fields.
pub(crate) fn tasks(file: &Path) -> Done<Vec<Value>> {
    list_of(file, &text_of(file)?, "tasks", TASKS_HINT)
}

/// The names of users in a file. Numbers are names, too.
pub(crate) fn users(file: &Path) -> Done<Vec<String>> {
    let name = |user: Value| match user {
        Value::String(name) => Ok(name),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(Failure::bad_input(format!("{}: {other} is no name", file.display())).hint(USERS_HINT)),
    };
    list_of(file, &text_of(file)?, "users", USERS_HINT)?.into_iter().map(name).collect()
}

/// Writes pools as YAML, fields in the order of the documentation.
pub(crate) fn write_pools(pools: Vec<Value>) -> Done<String> {
    let pools: Vec<PoolSpec> = serde_json::from_value(Value::Array(pools)).map_err(|error| {
        Failure::caused("the server's pools are of another form than this program's", &error)
    })?;
    let file = std::collections::BTreeMap::from([("pools", pools)]);
    serde_saphyr::to_string(&file).map_err(|error| Failure::caused("cannot write YAML", &error))
}

fn text_of(file: &Path) -> Done<String> {
    files::text_or_stdin(file, MAX_FILE_BYTES).map_err(|error| {
        let failure = Failure::unreadable(file, &error);
        match error.kind() {
            std::io::ErrorKind::InvalidInput => failure.hint(PLAIN_HINT),
            _ => failure,
        }
    })
}

fn parse(file: &Path, text: &str) -> Done<Vec<Value>> {
    list_of(file, text, "jobs", JOBS_HINT)
}

/// The list that a file has in its only field.
fn list_of(file: &Path, text: &str, field: &str, hint: &'static str) -> Done<Vec<Value>> {
    let shape = |what: &str| Failure::bad_input(format!("{}: {what}", file.display())).hint(hint);
    // An export of 40,000 jobs is one file. An anchor may be used as often as one likes: what its uses stand for is
    // counted.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: MAX_NODES, max_events: 2 * MAX_NODES, max_aliases: MAX_NODES, enforce_alias_anchor_ratio: false,
        },
    };
    let whole: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let told = error.to_string().replace("<input>", &file.display().to_string());
        let told = told.trim_end().strip_prefix("error: ").unwrap_or(told.trim_end());
        if told.contains("budget breached") || told.contains("limit exceeded") {
            return too_large(file, told);
        }
        let told =
            told.replace(", set DuplicateKeyPolicy in Options if acceptable", ", which stands there already");
        Failure::bad_input(format!("{} is not YAML: {told}", file.display()))
            .hint("indent with spaces, fields of one job alike; quote text that holds : # { [ or a quote")
    })?;
    let Value::Object(mut fields) = whole else {
        return Err(shape(&format!("must be a mapping with the field {field}")));
    };
    let list = fields.remove(field).ok_or_else(|| shape(&format!("has no field {field}")))?;
    if let Some(unknown) = fields.keys().next() {
        return Err(shape(&format!("has the unknown field {unknown}; only {field} is known")));
    }
    match list {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(Vec::new()),
        _ => Err(shape(&format!("{field} must be a list"))),
    }
}

/// The library tells its own bounds by names that say nothing to others.
fn too_large(file: &Path, told: &str) -> Failure {
    let place = told.split(": ").next().filter(|place| place.starts_with("line ")).unwrap_or("its end");
    Failure::bad_input(format!(
        "{}: at {place} it is too large or nested too deep; a file may have {MAX_NODES} values, what aliases stand for \
         included",
        file.display()
    ))
    .hint("split it into several files of one directory, or use fewer aliases of aliases")
}

/// Writes exported jobs as YAML, fields in the order of the documentation.
pub(crate) fn write(export: Value) -> Done<String> {
    let file: SpecFile = serde_json::from_value(export).map_err(|error| {
        Failure::caused("the server's jobs are of another form than this program's", &error)
    })?;
    serde_saphyr::to_string(&file).map_err(|error| Failure::caused("cannot write YAML", &error))
}

/// Writes calendars as YAML, fields in the order of the documentation.
pub(crate) fn write_calendars(calendars: Vec<Value>) -> Done<String> {
    let calendars: Vec<CalendarSpec> = serde_json::from_value(Value::Array(calendars)).map_err(|error| {
        Failure::caused("the server's calendars are of another form than this program's", &error)
    })?;
    let file = std::collections::BTreeMap::from([("calendars", calendars)]);
    serde_saphyr::to_string(&file).map_err(|error| Failure::caused("cannot write YAML", &error))
}

#[cfg(test)]
mod corpus;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Value>, String> {
        parse(Path::new("a.yaml"), text).map_err(|failure| failure.message)
    }

    #[test]
    fn yaml_is_read_as_written() {
        let jobs = parsed(
            "jobs:\n- name: a\n  group: g\n  type: shell\n  command: |\n    echo 1\n    echo 2\n  priority: 3\n  enabled: false\n  parents: [b, {job: c, mapping: {offset: 2}}]\n",
        )
        .unwrap();
        assert_eq!(
            jobs,
            [json!({
                "name": "a", "group": "g", "type": "shell", "command": "echo 1\necho 2\n", "priority": 3,
                "enabled": false, "parents": ["b", {"job": "c", "mapping": {"offset": 2}}],
            })]
        );
    }

    /// A6: what is wrong with a file is told with the file's name.
    #[test]
    fn bad_files_are_told_by_name() {
        for (text, start) in [
            ("jobs: [", "a.yaml is not YAML: "),
            ("jobs:\n- name: a\n  name: b\n", "a.yaml is not YAML: "),
            ("- name: a\n", "a.yaml: must be a mapping with the field jobs"),
            ("job: []\n", "a.yaml: has no field jobs"),
            ("jobs: []\ncolour: red\n", "a.yaml: has the unknown field colour"),
            ("jobs: 3\n", "a.yaml: jobs must be a list"),
        ] {
            let message = parsed(text).unwrap_err();
            assert!(message.starts_with(start), "{text:?}: {message}");
        }
    }

    /// A6: what the library says is told in words of the file, not of the library's options.
    #[test]
    fn errors_of_yaml_leak_no_internals() {
        let twice = parsed("jobs:\n- name: a\n  name: b\n").unwrap_err();
        assert!(twice.contains("duplicate mapping key: name, which stands there already"), "{twice}");
        assert!(!twice.contains("Options"), "{twice}");
        let deep = parsed(&format!("jobs: {}{}", "[".repeat(3_000), "]".repeat(3_000))).unwrap_err();
        assert!(deep.starts_with("a.yaml: at line 1") && deep.contains("nested too deep"), "{deep}");
    }

    #[test]
    fn anchor_may_be_used_as_often_as_one_likes() {
        let text = format!("jobs:\n- &a {{name: a}}\n{}", "- *a\n".repeat(5_000));
        assert_eq!(parsed(&text).unwrap().len(), 5_001);
    }

    #[test]
    fn aliases_cannot_blow_up_a_file() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let below = format!("*a{},", level - 1).repeat(10);
            text.push_str(&format!("a{level}: &a{level} [{}]\n", below.trim_end_matches(',')));
        }
        let told = parsed(&text).unwrap_err();
        assert!(told.contains("too large") && !told.contains("budget"), "{told}");
    }

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

    /// JOB-5: what export writes, apply reads unchanged.
    #[test]
    fn export_reads_back_unchanged() {
        let export = json!({"jobs": [{
            "name": "a", "group": "g", "type": "shell", "command": "echo '1'\n# two: [\n", "priority": 3,
            "parameters": {"yes": "no", "n": "1", "e": ""}, "parents": ["b", {"job": "h/c", "mapping": {"offset": 2}}],
            "schedule": {"cron": "0 0 23 * * ?", "zone": "Europe/Berlin"},
            "max_concurrent": 1, "retries": 0, "retry_interval_s": 60, "missed_runs": "all", "enabled": true,
        }]});
        let text = write(export.clone()).unwrap();
        assert!(text.starts_with("jobs:\n"), "{text}");
        assert_eq!(json!({ "jobs": parsed(&text).unwrap() }), export);
    }
}
