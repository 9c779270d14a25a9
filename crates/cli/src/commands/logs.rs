//! `tidemill batch logs`.

mod download;
#[cfg(test)]
mod tests;

use std::thread;
use std::time::Duration;

use serde_json::Value;
use tidemill_client::{Following, LogEvent};
use tidemill_model::{LogOffsets, LogStream};

use super::Session;
use crate::args::{LogsArgs, OutputFormat};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::render;
use crate::server::Query;

/// Between two looks at a log that grows, where the server has no store of logs.
const FOLLOW_PAUSE: Duration = Duration::from_millis(300);
/// Lines of one look.
const LOG_LINES: usize = 1000;
/// Bytes of a look that had room for more: half of what it may have.
const SHORT_PAGE: usize = 512 << 10;

pub(super) fn logs(session: &Session<'_>, args: &LogsArgs) -> Done<Exit> {
    match args {
        LogsArgs { summary: true, .. } => {
            let answer = session.server.get(&path(args, "/summary"), &attempt(args))?;
            Ok(session.show(&answer, |summary| render::fields(summary, &[])))
        }
        LogsArgs { search: Some(text), .. } => search(session, args, text),
        LogsArgs { download: Some(file), .. } => download::run(session, args, file),
        LogsArgs { all: true, follow: false, .. } => all(session, args),
        LogsArgs { follow: true, .. } => follow(session, args),
        _ => lines(session, args),
    }
}

fn path(args: &LogsArgs, what: &str) -> String {
    format!("/api/batches/{}/log{what}", args.batch)
}

fn attempt<'q>(args: &LogsArgs) -> Query<'q> {
    args.attempt.map(|attempt| attempt_of(attempt.into())).unwrap_or_default()
}

fn attempt_of<'q>(number: u64) -> Query<'q> {
    vec![("attempt", number.to_string())]
}

/// Lines, from the beginning or a place, up to the present end; with `-f` up to the end of the attempt.
fn lines(session: &Session<'_>, args: &LogsArgs) -> Done<Exit> {
    let mut place = match (args.last, args.line) {
        (Some(last), _) => ("last", last.to_string()),
        (None, Some(line)) => ("line", line.to_string()),
        (None, None) => ("offset", "0".to_owned()),
    };
    let mut attempt = attempt(args);
    let mut present = Present { left: args.last, ..Present::default() };
    loop {
        let lines = present.left.map_or(LOG_LINES, |left| left.min(LOG_LINES));
        let mut query = attempt.clone();
        query.extend([
            ("type", args.stream().number().to_string()),
            ("lines", lines.to_string()),
            place.clone(),
        ]);
        let page = session.server.get(&path(args, ""), &query)?;
        let content = page["content"].as_str().unwrap_or_default();
        match session.format {
            OutputFormat::Json => output::json(&page),
            OutputFormat::Yaml => output::next(session.format, &page),
            OutputFormat::Table | OutputFormat::Wide => output::log(content),
        }
        // An offset is of one attempt, whichever is the newest by now.
        if let (true, Some(number)) = (attempt.is_empty(), page["attempt"].as_u64()) {
            attempt = attempt_of(number);
        }
        let offset = page["offset"].as_u64().unwrap_or_default();
        if page["is_end"] == Value::Bool(true) {
            return Ok(Exit::Success);
        }
        if !args.follow
            && (content.is_empty() || present.is_reached(content, offset, || end(session, args, &attempt)))
        {
            return Ok(Exit::Success);
        }
        place = ("offset", offset.to_string());
        if content.is_empty() {
            thread::sleep(FOLLOW_PAUSE);
        }
    }
}

/// How long the stream is now, where a store of logs knows it.
fn end(session: &Session<'_>, args: &LogsArgs, attempt: &Query<'_>) -> Option<u64> {
    let kept = session.server.get(&path(args, "/summary"), attempt).ok()?;
    kept[args.stream().name()]["bytes"].as_u64()
}

/// How far a log is shown that its job goes on writing.
#[derive(Default)]
struct Present {
    /// So many lines are missing, where a number was asked for.
    left: Option<usize>,
    /// Where the log ended after its first page, where that is known.
    end: Option<Option<u64>>,
    /// Pages in a row that had room for more.
    short: u32,
}

impl Present {
    /// Whether it has been shown with this page, which ends at `offset`.
    fn is_reached(&mut self, content: &str, offset: u64, end: impl FnOnce() -> Option<u64>) -> bool {
        let lines = content.matches('\n').count();
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(lines);
            return *left == 0;
        }
        if let Some(end) = *self.end.get_or_insert_with(end) {
            return offset >= end;
        }
        // One may be short because the next line is long; that comes with the next page, which is then long itself.
        self.short = if lines < LOG_LINES && content.len() < SHORT_PAGE { self.short + 1 } else { 0 };
        self.short > 1
    }
}

fn search(session: &Session<'_>, args: &LogsArgs, text: &str) -> Done<Exit> {
    let (mut offset, mut has_found) = (0, false);
    loop {
        let mut query = attempt(args);
        query.extend([
            ("type", args.stream().number().to_string()),
            ("text", text.to_owned()),
            ("ignore_case", args.ignore_case.to_string()),
            ("offset", u64::to_string(&offset)),
            ("limit", LOG_LINES.to_string()),
        ]);
        let page = session.server.get(&path(args, "/search"), &query)?;
        let matches = page["matches"].as_array().map_or(&[][..], Vec::as_slice);
        has_found |= !matches.is_empty();
        match session.format {
            OutputFormat::Json => output::json(&page),
            OutputFormat::Yaml => output::next(session.format, &page),
            OutputFormat::Table | OutputFormat::Wide => {
                let shown = matches.iter().map(|it| {
                    let text = it["text"].as_str().unwrap_or_default();
                    format!("{}:{}\n", it["line"], text.trim_end_matches(['\r', '\n']))
                });
                output::log(&shown.collect::<String>());
            }
        }
        let next = page["offset"].as_u64().unwrap_or(offset);
        if page["is_end"] == Value::Bool(true) || next <= offset {
            break;
        }
        offset = next;
    }
    if !has_found && !session.format.is_for_programs() {
        output::note("No line has it.");
    }
    Ok(Exit::Success)
}

/// All streams of an attempt as they came, up to the present end of their whole lines.
fn all(session: &Session<'_>, args: &LogsArgs) -> Done<Exit> {
    let (mut ends, mut attempt) = (LogOffsets::default(), args.attempt.map(u64::from));
    for stream in LogStream::ALL {
        let mut query = attempt.map(attempt_of).unwrap_or_default();
        query.extend([("type", stream.number().to_string()), ("last", 1.to_string())]);
        let last = session.server.get(&path(args, ""), &query)?;
        attempt = attempt.or(last["attempt"].as_u64());
        *ends.of(stream) = last["offset"].as_u64().unwrap_or_default();
    }
    if ends == LogOffsets::default() {
        return Ok(Exit::Success);
    }
    let is_all = |told: LogOffsets| {
        told.stdout >= ends.stdout && told.stderr >= ends.stderr && told.worker >= ends.worker
    };
    let mut shown = Shown::new(session, args);
    for event in tail(session, args, attempt)?.ok_or_else(no_store)? {
        let event = event?;
        if shown.has_begun && matches!(event, LogEvent::Attempt { .. }) {
            break;
        }
        shown.show(&event)?;
        if matches!(event, LogEvent::Chunk { told, .. } if is_all(told)) {
            break;
        }
    }
    Ok(Exit::Success)
}

/// Over all attempts, until the batch has ended.
fn follow(session: &Session<'_>, args: &LogsArgs) -> Done<Exit> {
    let Some(tail) = tail(session, args, args.attempt.map(u64::from))? else {
        if args.all {
            return Err(no_store());
        }
        output::note("The server has no store of logs: this follows one attempt, and ends with it.");
        return lines(session, args);
    };
    let mut shown = Shown::new(session, args);
    for event in tail {
        shown.show(&event?)?;
    }
    Ok(Exit::Success)
}

fn tail<'a>(
    session: &'a Session<'_>,
    args: &LogsArgs,
    attempt: Option<u64>,
) -> Done<Option<impl Iterator<Item = Done<LogEvent>> + use<'a>>> {
    let stream = (!args.all).then(|| args.stream());
    let following = Following { attempt, stream, from_end: false };
    Ok(session.server.follow_log(args.batch, following))
}

fn no_store() -> Failure {
    Failure::new(
        Exit::Unreachable,
        "the server has no store of logs, and only that knows the order of streams",
    )
    .hint("run the role `logs`, and name it in `api.log_stores` of the interface")
}

/// What a tail has shown.
struct Shown {
    format: OutputFormat,
    /// Whether lines stand behind the name of their stream.
    by_name: bool,
    /// Whether an attempt has begun.
    has_begun: bool,
    /// The stream whose last line has no end yet.
    open: Option<LogStream>,
}

impl Shown {
    fn new(session: &Session<'_>, args: &LogsArgs) -> Self {
        Self { format: session.format, by_name: args.all, has_begun: false, open: None }
    }

    fn show(&mut self, event: &LogEvent) -> Done {
        if self.format.is_for_programs() {
            let event_value = serde_json::to_value(event).map_err(|error| Failure::unexpected(&error))?;
            self.has_begun |= matches!(event, LogEvent::Attempt { .. });
            output::next(self.format, &event_value);
            return Ok(());
        }
        match event {
            LogEvent::Attempt { attempt, .. } => {
                if self.has_begun {
                    output::note(format!("==> attempt {attempt}"));
                }
                self.has_begun = true;
            }
            LogEvent::Chunk { chunk, .. } if self.by_name => {
                output::log(&self.named(chunk.stream, &chunk.content));
            }
            LogEvent::Chunk { chunk, .. } => output::log(&chunk.content),
            LogEvent::Cut { attempt } => output::note(format!(
                "The log of attempt {attempt} is not complete: its worker is lost, or has not sent the rest."
            )),
            LogEvent::Gone { attempt } => {
                output::note(format!("Nothing is kept of the log of attempt {attempt}."));
            }
            _ => {}
        }
        Ok(())
    }

    /// The lines, each behind the name of its stream.
    fn named(&mut self, stream: LogStream, content: &str) -> String {
        let mut text = String::with_capacity(content.len() + 64);
        for line in content.split_inclusive('\n') {
            if self.open != Some(stream) {
                if self.open.is_some() {
                    text.push('\n');
                }
                text.push_str(&format!("{}: ", stream.name()));
            }
            text.push_str(line);
            self.open = (!line.ends_with('\n')).then_some(stream);
        }
        text
    }
}
