//! What a job needs from outside and makes there, from the fields that say it (DEP-1, DEP-2, DQ-1).

use std::collections::BTreeSet;

use tidemill_model::{FieldError, JobSpec, MAX_NEEDS, MAX_PATH_BYTES, PathSpec, bounds};

use super::reports::check_code;

/// Templates apart: those are looked at with the whole definition.
pub(super) fn check_external_dependencies(spec: &JobSpec) -> Result<(), FieldError> {
    check_paths("inputs", &spec.inputs)?;
    check_paths("outputs", &spec.outputs)?;
    check_codes(&spec.third_party)
}

fn check_paths(list: &str, written: &[PathSpec]) -> Result<(), FieldError> {
    check_length(list, written.len(), MAX_NEEDS)?;
    let mut seen = BTreeSet::new();
    for (index, written) in written.iter().enumerate() {
        let field = format!("{list}[{index}]");
        let refuse = |rule: &str| FieldError::new(&field, written.path(), rule);
        check_path(written.path()).map_err(refuse)?;
        if let Some(mark) = written.mark().filter(|mark| !is_file_name(mark)) {
            let rule = "has to be the name of one file: 1 to 255 bytes without / * ? [ ] { } and control \
                        characters";
            return Err(FieldError::new(format!("{field}.mark"), mark, rule));
        }
        if !seen.insert((written.path(), written.mark())) {
            return Err(refuse("stands twice in the list"));
        }
    }
    Ok(())
}

fn check_codes(written: &[String]) -> Result<(), FieldError> {
    check_length("third_party", written.len(), MAX_NEEDS)?;
    let mut seen = BTreeSet::new();
    for (index, code) in written.iter().enumerate() {
        let field = format!("third_party[{index}]");
        check_code(&field, code)?;
        if !seen.insert(code) {
            return Err(FieldError::new(field, code, "stands twice in the list"));
        }
    }
    Ok(())
}

/// Refuses a list with more than `most` entries.
pub(super) fn check_length(field: &str, length: usize, most: usize) -> Result<(), FieldError> {
    if length > most {
        return Err(FieldError::new(field, length, format!("must be at most {most}")));
    }
    Ok(())
}

/// As far as it can be told before its templates are resolved.
fn check_path(path: &str) -> Result<(), &'static str> {
    if path.contains("${attempt}") {
        return Err("cannot hold ${attempt}: it is resolved when the batch is generated");
    }
    check_path_of_attempt(path)
}

/// The same of a path whose templates are resolved for an attempt.
pub(super) fn check_path_of_attempt(path: &str) -> Result<(), &'static str> {
    let begins = ["hdfs://", "s3://", "s3a://", "file:///", "/", "${"];
    if !begins.iter().any(|scheme| path.starts_with(scheme)) {
        return Err("has to begin with hdfs://, s3://, file:/// or /");
    }
    if path.len() > MAX_PATH_BYTES {
        return Err("must be at most 1024 bytes");
    }
    if path.chars().any(char::is_control) {
        return Err("must not hold control characters");
    }
    if outside_templates(path).any(is_of_pattern) {
        return Err("must not hold * ? [ ] { }: patterns are not looked up; name one path");
    }
    Ok(())
}

fn outside_templates(text: &str) -> impl Iterator<Item = char> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while let Some(inside) = rest.strip_prefix("${") {
            rest = inside.split_once('}').map_or("", |(_, behind)| behind);
        }
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        Some(c)
    })
}

fn is_file_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_control() || c == '/' || is_of_pattern(c);
    (1..=bounds::SHORT_BYTES).contains(&name.len())
        && !matches!(name, "." | "..")
        && !name.contains(forbidden)
}

fn is_of_pattern(c: char) -> bool {
    matches!(c, '*' | '?' | '[' | ']' | '{' | '}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_refused_with_the_rule_that_they_break() {
        let good = ["hdfs://nn/a/${yyyyMMdd}", "/a", "s3://bucket/k", "file:///a", "${param.root}/a"];
        assert!(good.iter().all(|path| check_path(path).is_ok()));
        let table = [
            ("data/a", "begin with"),
            ("http://a/b", "begin with"),
            ("/a/*", "patterns"),
            ("/a/${yyyy}/{b}", "patterns"),
            ("/a\n", "control"),
            ("/a/${attempt}", "${attempt}"),
        ];
        for (path, rule) in table {
            assert!(check_path(path).unwrap_err().contains(rule), "{path}");
        }
        assert!(check_path(&format!("/{}", "a".repeat(MAX_PATH_BYTES))).is_err());
        assert!(!is_file_name("a/b") && !is_file_name("..") && is_file_name("_SUCCESS"));
    }
}
