//! The environment: every variable that the program reads is declared here.

use serde_json::{Value, json};

use super::{defaults, layers};

/// Variables beside the settings' own, with what they are for.
const NAMED: &[(&str, &str)] = &[
    ("TIDEMILL_CONFIG", "Configuration file; the same as `--config`."),
    ("TIDEMILL_DATA", "Data directory; the same as `--data`."),
    ("TIDEMILL_SERVER", "Server that the client commands talk to; the same as `--server`."),
    ("TIDEMILL_KEY", "Application key of the client commands, `APP:SECRET`; the same as `--key`."),
    (
        "TIDEMILL_AS_USER",
        "Person in whose name the key of the client commands calls; the same as `--as-user`.",
    ),
    ("TIDEMILL_CA_FILE", "Whom the client commands trust; the same as `--ca-file`."),
    ("USER", "Who accepts a loss, for the record; the same as `--by` of `partition accept-loss`."),
    ("NO_COLOR", "Set to anything: no colours on a terminal."),
];

/// Begins the variable of every setting.
const PREFIX: &str = "TIDEMILL__";

/// The setting that a variable sets, if it has the form of one.
pub(super) fn path(variable: &str) -> Option<String> {
    let name = variable.strip_prefix(PREFIX)?;
    Some(name.to_ascii_lowercase().replace("__", "."))
}

/// The variable that sets a setting.
pub(super) fn variable(path: &str) -> String {
    format!("{PREFIX}{}", path.to_ascii_uppercase().replace('.', "__"))
}

/// Reads a text by the form of the default: lists are `a,b`, maps are `name=value,name=value` or JSON.
pub(super) fn value(default: &Value, text: &str) -> Value {
    let text = text.trim();
    match default {
        Value::Object(_) if text.starts_with('{') => {
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        }
        Value::Bool(_) | Value::Number(_) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        Value::Null | Value::String(_) => json!(text),
        Value::Array(_) => items(text).map(|item| json!(item)).collect(),
        Value::Object(_) => items(text)
            .map(|item| {
                let (name, value) = item.split_once('=').unwrap_or((item, ""));
                (name.trim().to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value)))
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// The page of the reference, as Markdown.
pub(crate) fn reference() -> String {
    let mut text = String::from(
        "# Environment variables\n\nGenerated from the program; a test compares.\n\n\
         | variable | what it is for |\n|---|---|\n",
    );
    for (name, what) in NAMED {
        text.push_str(&format!("| `{name}` | {what} |\n"));
    }
    text.push_str(
        "\n## In a job's process\n\nOf the executor's own environment a job gets only `PATH`, `HOME`, `USER`, \
         `LOGNAME`, `SHELL`, `LANG`, `LC_*`, `TZ`\nand `TMPDIR`, then what the settings of its type say, \
         then these.\n\n| variable | value |\n|---|---|\n",
    );
    for (name, what) in tidemill_executor::JOB_VARIABLES {
        text.push_str(&format!("| `{name}` | {what} |\n"));
    }
    text.push_str(
        "\n## Settings\n\nEvery setting of the configuration file has a variable. Lists are written \
         `a,b`, maps `name=value,name=value`,\nor as JSON: `{\"shell\": {\"slots\": 2}}`. A variable that begins with `TIDEMILL__` and names no \
         setting is refused.\n\n| variable | setting |\n|---|---|\n",
    );
    layers::leaves("", &defaults(), &mut |path, _| {
        text.push_str(&format!("| `{}` | `{path}` |\n", variable(path)));
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_lists_every_variable() {
        expect_test::expect_file!["../../../../docs/reference/environment.md"].assert_eq(&reference());
    }

    #[test]
    fn every_setting_is_reached_by_its_variable() {
        layers::leaves("", &defaults(), &mut |setting, _| {
            assert_eq!(path(&variable(setting)).as_deref(), Some(setting));
        });
        assert_eq!(path("TIDEMILL_CONFIG"), None);
    }
}
