//! The only place that writes to stdout and stderr. A reader that went away (`| head`) ends the program
//! quietly instead of with a panic.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write};

use serde_json::Value;

use crate::args::OutputFormat;
use crate::failure::Failure;
use crate::render;

/// Writes text and a line end to stdout, with what steers terminals made visible.
pub fn line(text: impl AsRef<str>) {
    let text = visible(text.as_ref().trim_end_matches('\n'));
    raw(format!("{text}\n").as_bytes());
}

/// Names, reasons and comments are other people's: what steers a terminal, or turns the order of letters round, is told
/// as `\u001b` is in JSON, so that JSON stays the same value.
fn visible(text: &str) -> Cow<'_, str> {
    let steers = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(steers) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// What a command shows, where somebody else writes it.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    /// As it would be on stdout.
    pub(crate) text: Vec<u8>,
    /// The last answer in it.
    pub(crate) answer: Option<Value>,
}

thread_local! {
    static CAPTURED: RefCell<Option<Captured>> = const { RefCell::new(None) };
}

/// Does something, and gives what it shows instead of writing it to stdout.
pub(crate) fn captured<T>(show: impl FnOnce() -> T) -> (T, Captured) {
    CAPTURED.with(|captured| captured.replace(Some(Captured::default())));
    let done = show();
    (done, CAPTURED.with(RefCell::take).unwrap_or_default())
}

/// Adds to what is captured; says whether anything is.
fn capture(add: impl FnOnce(&mut Captured)) -> bool {
    CAPTURED.with(|captured| captured.borrow_mut().as_mut().map(add).is_some())
}

/// Writes bytes to stdout as they are.
pub fn raw(bytes: &[u8]) {
    if capture(|captured| captured.text.extend_from_slice(bytes)) {
        return;
    }
    let mut out = io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Whether stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes a part of a log to stdout: as it is, or on a terminal with what steers that made visible.
pub(crate) fn log(text: &str) {
    raw(log_for(is_terminal(), text).as_bytes());
}

fn log_for(is_terminal: bool, text: &str) -> Cow<'_, str> {
    if is_terminal { visible(text) } else { text.into() }
}

/// Writes an answer as indented JSON to stdout.
pub fn json(value: &Value) {
    line(format!("{value:#}"));
}

/// Writes an answer as it is, for programs.
pub(crate) fn value(format: OutputFormat, value: &Value) {
    capture(|captured| captured.answer = Some(value.clone()));
    match format {
        OutputFormat::Yaml => line(yaml(value)),
        _ => json(value),
    }
}

/// Writes one of several answers, each behind the other: a line of JSON, or a document of YAML.
pub(crate) fn next(format: OutputFormat, value: &Value) {
    match format {
        OutputFormat::Yaml => line(format!("---\n{}", yaml(value))),
        _ => line(value.to_string()),
    }
}

fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).expect("names and texts of JSON are those of YAML")
}

/// Writes an answer: as it is to programs, by `table` to people.
pub fn answer(format: OutputFormat, value: &Value, table: impl FnOnce(&Value) -> String) {
    capture(|captured| captured.answer = Some(value.clone()));
    match format.is_for_programs() {
        true => self::value(format, value),
        false => line(table(value)),
    }
}

/// Writes a list, or says that nothing is in it.
pub(crate) fn list(format: OutputFormat, value: &Value, columns: &str, nothing: &str) {
    answer(format, value, |answer| match format {
        OutputFormat::Wide => render::wide(answer, columns, nothing),
        _ => render::list(answer, columns, nothing),
    });
}

/// Writes a remark to stderr, so that stdout holds nothing but the answer.
pub fn note(text: impl AsRef<str>) {
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{}", visible(text.as_ref()));
}

/// Writes why the command failed to stderr.
pub fn failure(failure: &Failure, as_json: bool) {
    note(if as_json { format!("{:#}", failure.to_json()) } else { failure.to_string() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_told_and_json_stays_the_same_value() {
        let hostile = "a\u{1b}]0;owned\u{7}\rb\u{9b}2J\u{7f}\u{202e}c\td\ne 报表";
        assert_eq!(visible(hostile), "a\\u001b]0;owned\\u0007\\u000db\\u009b2J\\u007f\\u202ec\td\ne 报表");
        assert_eq!((log_for(true, hostile), log_for(false, hostile)), (visible(hostile), hostile.into()));
        let value = serde_json::json!({ "name": hostile });
        let told = visible(&format!("{value:#}")).into_owned();
        assert!(!told.chars().any(|c| c.is_control() && c != '\n'), "{told}");
        assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), value);
    }
}
