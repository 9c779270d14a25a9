//! Answers for people: tables and field lists.

use std::collections::BTreeSet;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

/// Columns without lines between them, for eyes and for `awk` alike.
pub fn table(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headers);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// The items of a list answer as a table; a remark instead of an empty one.
///
/// `columns` names the fields that are shown, as in `id, JOB: job_name | job/name`: each under its own name or a title, and of
/// several the first that is there. A field of a field has a slash.
pub(crate) fn list(answer: &Value, columns: &str, nothing: &str) -> String {
    items(&answer["items"], columns, nothing)
}

/// As [`list`], with a column for each other field that an item has.
pub(crate) fn wide(answer: &Value, columns: &str, nothing: &str) -> String {
    let shown: BTreeSet<&str> = columns
        .split(", ")
        .flat_map(|column| self::column(column).1.split(" | "))
        .filter_map(|field| field.split('/').next())
        .collect();
    let items = answer["items"].as_array().into_iter().flatten();
    let fields = items.filter_map(Value::as_object).flat_map(|item| item.keys().map(String::as_str));
    let more: BTreeSet<&str> = fields.filter(|field| !shown.contains(field)).collect();
    let more: String = more.iter().map(|field| format!(", {field}")).collect();
    list(answer, &format!("{columns}{more}"), nothing)
}

/// As [`list`], of items that are there.
pub(crate) fn items(items: &Value, columns: &str, nothing: &str) -> String {
    let items = items.as_array().map_or(&[][..], Vec::as_slice);
    if items.is_empty() {
        return nothing.to_owned();
    }
    let (titles, fields): (Vec<String>, Vec<&str>) = columns.split(", ").map(column).unzip();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    table(&titles, items.iter().map(|item| fields.iter().map(|fields| cell(item, fields)).collect()))
}

/// As [`items`], under a title; nothing where there are none.
pub(crate) fn section(title: &str, of: &Value, columns: &str) -> String {
    match items(of, columns, "").as_str() {
        "" => String::new(),
        table => format!("\n{title}\n{table}\n"),
    }
}

/// The title of a column and its fields.
fn column(text: &str) -> (String, &str) {
    match text.split_once(": ") {
        Some((title, fields)) => (title.to_owned(), fields),
        None => (text.to_uppercase().replace('_', " "), text),
    }
}

fn cell(item: &Value, fields: &str) -> String {
    let found = fields.split(" | ").filter_map(|field| item.pointer(&format!("/{field}")));
    found.into_iter().find(|value| !value.is_null()).map_or_else(|| "-".to_owned(), one_line)
}

/// A value on one line.
pub fn one_line(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.replace('\n', "\\n"),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            items.iter().map(one_line).collect::<Vec<_>>().join(", ")
        }
        Value::Object(fields) if fields.is_empty() => "-".to_owned(),
        Value::Object(fields) if fields.values().all(|value| !value.is_object() && !value.is_array()) => {
            fields
                .iter()
                .map(|(name, value)| format!("{name}={}", one_line(value)))
                .collect::<Vec<_>>()
                .join(" ")
        }
        other => other.to_string(),
    }
}

/// A field of a diff, with its old and its new value.
pub(crate) fn difference(diff: &Value) -> String {
    let value = |side: &str| match diff[side].as_str() {
        None | Some("") => "(none)".to_owned(),
        Some(_) => one_line(&diff[side]),
    };
    format!("    {}: {} → {}", one_line(&diff["field"]), value("old"), value("new"))
}

/// `name  value` for every field that says something; texts of several lines are indented below their
/// name. Fields in `apart` are left to the caller.
pub(crate) fn fields(value: &Value, apart: &[&str]) -> String {
    let Some(fields) = value.as_object() else { return one_line(value) };
    let shown: Vec<_> = fields
        .iter()
        .filter(|(name, value)| !apart.contains(&name.as_str()) && one_line(value) != "-")
        .collect();
    let width = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in shown {
        match value.as_str().filter(|value| value.trim_end().contains('\n')) {
            Some(lines) => {
                text.push_str(&format!("{name}\n"));
                for line in lines.lines() {
                    text.push_str(&format!("    {line}\n"));
                }
            }
            None => {
                let value = one_line(value);
                text.push_str(&format!("{name:<width$}  {}\n", value.strip_suffix("\\n").unwrap_or(&value)));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_are_columns_and_absent_values_a_dash() {
        let answer = json!({"items": [
            {"id": 4097, "job": {"name": "load-1"}, "state": "running"},
            {"id": 8193, "job_name": "报表", "result": "success"},
        ]});
        let columns = "id, JOB: job_name | job/name, state, THE RESULT: result, ended_at";
        expect_test::expect![[r#"
            ID    JOB     STATE    THE RESULT  ENDED AT
            4097  load-1  running  -           -
            8193  报表    -        success     -"#]]
        .assert_eq(&list(&answer, columns, "none"));
        assert_eq!(list(&json!({"items": []}), columns, "No batches."), "No batches.");
        let wide = wide(&answer, "id, JOB: job_name", "none");
        assert_eq!(wide.lines().next(), Some("ID    JOB   JOB          RESULT   STATE"), "{wide}");
    }

    #[test]
    fn fields_are_aligned_and_long_texts_indented() {
        let job = json!({
            "command": "echo 1\necho 2\n", "enabled": true, "id": 4097, "owner": "", "parameters": {"a": "1"},
            "parents": ["x", "y"], "short": "echo\n",
        });
        expect_test::expect![[r#"
            command
                echo 1
                echo 2
            enabled     true
            id          4097
            parameters  a=1
            parents     x, y
            short       echo
        "#]]
        .assert_eq(&fields(&job, &[]));
    }
}
