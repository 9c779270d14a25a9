//! A list of something in a file of YAML.

use std::path::Path;

use serde_json::Value;

use crate::failure::{Done, Failure};
use crate::files;

/// Largest file of jobs.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Most values of one file: names, texts, lists and mappings.
const MAX_NODES: usize = 4_000_000;

const PLAIN_HINT: &str = "name a plain file, or `-` for the standard input; split what is too large into several files of one directory";

/// The text of a file, or of the standard input.
pub(super) fn text_of(file: &Path) -> Done<String> {
    files::text_or_stdin(file, MAX_FILE_BYTES).map_err(|error| {
        let failure = Failure::unreadable(file, &error);
        match error.kind() {
            std::io::ErrorKind::InvalidInput => failure.hint(PLAIN_HINT),
            _ => failure,
        }
    })
}

/// The list that a file has in its only field.
pub(super) fn list_of(file: &Path, text: &str, field: &str, hint: &str) -> Done<Vec<Value>> {
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
