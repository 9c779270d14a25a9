//! Files of YAML that people write: jobs, calendars, pools, pull tasks and their users.

#[cfg(test)]
mod corpus;
mod job_files;

pub use job_files::JobFiles;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::{Done, Failure};
use crate::files;

/// Largest file of jobs.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Most values of one file: names, texts, lists and mappings.
const MAX_NODES: usize = 4_000_000;

const PLAIN_HINT: &str = "name a plain file, or `-` for the standard input; split what is too large into several files of one directory";

/// What each job of a file has.
const EACH_JOB: &str = "name, group and type";

/// What a file has in its list `field`, as written; the server judges it. `each` is what each of them needs.
pub(crate) fn list(file: &Path, field: &str, each: &str) -> Done<Vec<Value>> {
    list_of(file, &text_of(file)?, field, &hint(field, each))
}

fn hint(field: &str, each: &str) -> String {
    format!("write `{field}:` and under it a list of {field}, each with {each}")
}

/// As [`list`], of a file with several lists, some of which may be absent.
pub(crate) fn lists<const N: usize>(file: &Path, names: [&str; N], each: &str) -> Done<[Vec<Value>; N]> {
    let known = names.join(" and ");
    let hint = format!("write `{}:` and under it a list, {each}", names.join(":` and `"));
    let mut fields = mapping_of(file, &text_of(file)?, &known, &hint)?;
    let mut read = Vec::with_capacity(N);
    for name in names {
        read.push(fields.remove(name).map_or(Ok(Vec::new()), |list| items(file, name, list, &hint))?);
    }
    no_other(file, &fields, &known, &hint)?;
    Ok(read.try_into().expect("there are as many lists as names"))
}

/// The one object that a file has.
pub(crate) fn object(file: &Path) -> Done<Value> {
    let hint = "keep the form in which it was written";
    Ok(Value::Object(mapping_of(file, &text_of(file)?, "name", hint)?))
}

/// A value of the server as a file of YAML, its fields in the order of the documentation.
pub(crate) fn write_whole<T: Serialize + DeserializeOwned>(value: &Value) -> Done<String> {
    let value: T = serde_json::from_value(value.clone()).map_err(|error| {
        Failure::caused("the server's answer is of another form than this program's", &error)
    })?;
    serde_saphyr::to_string(&value).map_err(|error| Failure::caused("cannot write YAML", &error))
}

/// The names of users in a file. Numbers are names, too.
pub(crate) fn users(file: &Path) -> Done<Vec<String>> {
    let hint = "write `users:` and under it a list of names";
    let name = |user: Value| match user {
        Value::String(name) => Ok(name),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(Failure::bad_input(format!("{}: {other} is no name", file.display())).hint(hint)),
    };
    list_of(file, &text_of(file)?, "users", hint)?.into_iter().map(name).collect()
}

#[cfg(test)]
fn parse(file: &Path, text: &str) -> Done<Vec<Value>> {
    list_of(file, text, "jobs", &hint("jobs", EACH_JOB))
}

/// Definitions of the server as a file of YAML, with the list `field`, and in it fields in the order of the documentation.
pub(crate) fn write<T: Serialize + DeserializeOwned>(field: &str, definitions: Value) -> Done<String> {
    let definitions: Vec<T> = serde_json::from_value(definitions).map_err(|error| {
        Failure::caused(format!("the server's {field} are of another form than this program's"), &error)
    })?;
    serde_saphyr::to_string(&BTreeMap::from([(field, definitions)]))
        .map_err(|error| Failure::caused("cannot write YAML", &error))
}

/// The text of a file, or of the standard input.
fn text_of(file: &Path) -> Done<String> {
    files::text_or_stdin(file, MAX_FILE_BYTES).map_err(|error| {
        let failure = Failure::unreadable(file, &error);
        match error.kind() {
            std::io::ErrorKind::InvalidInput => failure.hint(PLAIN_HINT),
            _ => failure,
        }
    })
}

/// The list that a file has in its only field.
fn list_of(file: &Path, text: &str, field: &str, hint: &str) -> Done<Vec<Value>> {
    let mut fields = mapping_of(file, text, field, hint)?;
    let list = fields.remove(field);
    let list = list.ok_or_else(|| misshapen(file, &format!("has no field {field}"), hint))?;
    no_other(file, &fields, field, hint)?;
    items(file, field, list, hint)
}

fn misshapen(file: &Path, what: &str, hint: &str) -> Failure {
    Failure::bad_input(format!("{}: {what}", file.display())).hint(hint)
}

/// Refuses what is left of a file's fields; `known`: those that it may have.
fn no_other(file: &Path, rest: &Map<String, Value>, known: &str, hint: &str) -> Done {
    let Some(unknown) = rest.keys().next() else { return Ok(()) };
    Err(misshapen(file, &format!("has the unknown field {unknown}; known: {known}"), hint))
}

fn items(file: &Path, field: &str, list: Value, hint: &str) -> Done<Vec<Value>> {
    match list {
        Value::Array(items) => Ok(items),
        Value::Null => Ok(Vec::new()),
        _ => Err(misshapen(file, &format!("{field} must be a list"), hint)),
    }
}

/// The fields of a file. `known`: those that it may have.
fn mapping_of(file: &Path, text: &str, known: &str, hint: &str) -> Done<Map<String, Value>> {
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
    match whole {
        Value::Object(fields) => Ok(fields),
        _ => Err(misshapen(file, &format!("must be a mapping with the field {known}"), hint)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidemill_model::JobSpec;

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
    fn file_with_several_lists_may_leave_some_out() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            lists(&file, ["departments", "people"], "each with its name").map_err(|failure| failure.message)
        };
        let [departments, people] = read("people: [{name: ann}]\n").unwrap();
        assert_eq!((departments.len(), people), (0, vec![json!({"name": "ann"})]));
        let unknown = read("people: []\npersons: []\n").unwrap_err();
        assert!(
            unknown.ends_with("has the unknown field persons; known: departments and people"),
            "{unknown}"
        );
        assert!(read("people: 3\n").unwrap_err().ends_with("people must be a list"));
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

    /// JOB-5: what export writes, apply reads unchanged.
    #[test]
    fn export_reads_back_unchanged() {
        let export = json!({"jobs": [{
            "name": "a", "group": "g", "type": "shell", "command": "echo '1'\n# two: [\n", "priority": 3,
            "parameters": {"yes": "no", "n": "1", "e": ""}, "parents": ["b", {"job": "h/c", "mapping": {"offset": 2}}],
            "schedule": {"cron": "0 0 23 * * ?", "zone": "Europe/Berlin"},
            "max_concurrent": 1, "retries": 0, "retry_interval_s": 60, "missed_runs": "all", "enabled": true,
        }]});
        let text = write::<JobSpec>("jobs", export["jobs"].clone()).unwrap();
        assert!(text.starts_with("jobs:\n"), "{text}");
        assert_eq!(json!({ "jobs": parsed(&text).unwrap() }), export);
    }
}
