//! `--watch`: what a command shows, again whenever that has changed (API-6).
//!
//! The feed says when to look; where it says nothing, the interval does. What is shown is compared, so a look that finds the
//! same shows nothing.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TrySendError};
use std::thread;
use std::time::Duration;

use rustix::termios;
use serde_json::Value;
use tidemill_client::{Begin, Client};

use crate::args::OutputFormat;
use crate::exit::Exit;
use crate::failure::Done;
use crate::output::{self, Captured};
use crate::session::Session;

/// Between a change and the look at it: those that come together are shown together.
const TOGETHER: Duration = Duration::from_millis(300);
/// Tables may be a little behind the feed: after a change there is a second look.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// Before a feed that broke off is asked for again.
const FEED_PAUSE: Duration = Duration::from_secs(5);
/// Of a terminal that does not say its size.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// What is watched.
pub(crate) struct Watched {
    /// Events that change it begin so; empty: any may.
    kind: &'static str,
    /// What they are about; empty: several things.
    subject: String,
    /// Whether an answer is the last one, and what that is to scripts.
    end: fn(&Value) -> Option<Exit>,
}

impl Watched {
    /// Something that never ends.
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, subject: String::new(), end: |_| None }
    }

    pub(crate) fn about(self, subject: String) -> Self {
        Self { subject, ..self }
    }

    pub(crate) fn until(self, end: fn(&Value) -> Option<Exit>) -> Self {
        Self { end, ..self }
    }
}

/// Looks until it is over, or the program is ended.
///
/// # Errors
/// The first look fails, or a later one for another reason than that the server is away.
pub(crate) fn run(
    session: &Session<'_>,
    every: Duration,
    watched: &Watched,
    look: impl Fn() -> Done<Exit>,
) -> Done<Exit> {
    let mut changes = session.server.with(|client| Ok(Changes::follow(client, watched)))?;
    go_on(&mut Screen::of(session.format), every, watched, (&mut changes, &look))
}

fn go_on(
    screen: &mut Screen,
    every: Duration,
    watched: &Watched,
    (changes, look): (&mut Changes, &dyn Fn() -> Done<Exit>),
) -> Done<Exit> {
    let mut shown: Option<Vec<u8>> = None;
    let mut is_away = false;
    loop {
        let (done, found) = output::captured(look);
        match done {
            Ok(_) => {
                // The remark stands between the states, or in the picture.
                if std::mem::take(&mut is_away) {
                    output::note("the server answers again");
                    shown = shown.filter(|_| !screen.is_terminal());
                }
                let end = found.answer.as_ref().and_then(watched.end);
                if shown.as_ref() != Some(&found.text) {
                    screen.show(&found, every);
                    shown = Some(found.text);
                }
                if let Some(exit) = end {
                    return Ok(exit);
                }
            }
            // An address that was never right is no server that is away.
            Err(failure) if shown.is_some() && matches!(failure.exit, Exit::Unreachable | Exit::Failure) => {
                if !std::mem::replace(&mut is_away, true) {
                    output::note(format!("{}; looking again every {} s", failure.message, every.as_secs()));
                }
            }
            Err(failure) => return Err(failure),
        }
        changes.wait(every);
    }
}

/// Says when to look.
struct Changes {
    changed: Receiver<()>,
    is_second: bool,
}

impl Changes {
    /// Follows the feed in a thread, which ends with the program: it holds nothing, and waits for a server that may say nothing
    /// for hours.
    fn follow(client: &Client, watched: &Watched) -> Self {
        let (change, changed) = mpsc::sync_channel(1);
        let (client, kind, subject) = (client.clone(), watched.kind, watched.subject.clone());
        let follow = move || loop {
            let mut feed = client.events(Begin::End);
            if !kind.is_empty() {
                feed = feed.kind(kind);
            }
            if !subject.is_empty() {
                feed = feed.subject(subject.as_str());
            }
            // A key that may not read the feed, and a server that is away, leave it to the interval.
            for _ in feed.follow().map_while(Result::ok) {
                if let Err(TrySendError::Disconnected(())) = change.try_send(()) {
                    return;
                }
            }
            thread::sleep(FEED_PAUSE);
        };
        // Without the thread there are the looks at intervals.
        let _ = thread::Builder::new().name("watch-feed".to_owned()).spawn(follow);
        Self { changed, is_second: false }
    }

    /// Waits for a change, so long at most.
    fn wait(&mut self, every: Duration) {
        let longest = if std::mem::take(&mut self.is_second) { every.min(SECOND_LOOK) } else { every };
        match self.changed.recv_timeout(longest) {
            Ok(()) => {
                thread::sleep(TOGETHER);
                while self.changed.try_recv().is_ok() {}
                self.is_second = true;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(longest),
        }
    }
}

/// Where the states are shown.
enum Screen {
    /// In place. No mode of the terminal is changed, so it is in order whenever the program ends.
    Terminal,
    /// One below the other; so many were.
    Lines(usize),
    /// One document each.
    Documents(OutputFormat),
}

impl Screen {
    fn of(format: OutputFormat) -> Self {
        match format.is_for_programs() {
            true => Self::Documents(format),
            false if output::is_terminal() => Self::Terminal,
            false => Self::Lines(0),
        }
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal)
    }

    fn show(&mut self, found: &Captured, every: Duration) {
        match self {
            Self::Terminal => {
                let text = String::from_utf8_lossy(&found.text);
                output::raw(picture(&text, every, size()).as_bytes());
            }
            Self::Lines(count) => {
                *count += 1;
                output::raw(format!("--- {count}\n").as_bytes());
                output::raw(&found.text);
            }
            Self::Documents(format) => match &found.answer {
                Some(answer) => output::next(*format, answer),
                None => output::raw(&found.text),
            },
        }
    }
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    match termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => USUAL_SIZE,
    }
}

/// A state over the one before: each line in place of the old one, and nothing below. What does not fit is left out, so that
/// nothing scrolls.
fn picture(text: &str, every: Duration, (columns, rows): (usize, usize)) -> String {
    const TO_THE_TOP: &str = "\u{1b}[H";
    const REST_OF_LINE: &str = "\u{1b}[K";
    const REST_OF_SCREEN: &str = "\u{1b}[J";

    let head = format!("Shown again when it changes; a look every {} s. Ctrl-C ends.", every.as_secs());
    let lines: Vec<&str> = text.lines().collect();
    // The head, and the line on which the cursor rests.
    let room = rows.saturating_sub(2).max(1);
    let (shown, more) = match lines.len() > room {
        true => (&lines[..room - 1], Some(format!("… {} more lines", lines.len() - (room - 1)))),
        false => (&lines[..], None),
    };
    let mut picture = String::from(TO_THE_TOP);
    let all = std::iter::once(head.as_str()).chain(shown.iter().copied()).chain(more.as_deref());
    for line in all {
        picture.push_str(&cut(line, columns));
        picture.push_str(REST_OF_LINE);
        picture.push('\n');
    }
    picture + REST_OF_SCREEN
}

/// So much of a line as has room. Letters that may be wide count as two.
fn cut(line: &str, columns: usize) -> String {
    let mut left = columns;
    let mut kept = String::new();
    for c in line.chars() {
        let (shown, cells) = match c {
            '\t' => (' ', 1),
            c if c >= '\u{1100}' => (c, 2),
            c => (c, 1),
        };
        let Some(rest) = left.checked_sub(cells) else { break };
        left = rest;
        kept.push(shown);
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::failure::Failure;

    /// API-6: a server that is away is waited for, one that was never there and one that refuses are not.
    #[test]
    fn server_that_is_away_is_waited_for() {
        let looks = |answers: Vec<Done<u8>>| {
            let answers = Cell::new(answers.into_iter());
            let looked = Cell::new(0);
            let look = || {
                looked.set(looked.get() + 1);
                let mut left = answers.take();
                let answer = left.next().expect("it was to end before");
                answers.set(left);
                answer.map(|state| {
                    output::answer(OutputFormat::Json, &serde_json::json!(state), |_| String::new());
                    Exit::Success
                })
            };
            let end: fn(&Value) -> Option<Exit> = |state| (*state == 3).then_some(Exit::BatchFailed);
            let watched = Watched::new("").until(end);
            let mut changes = Changes { changed: mpsc::sync_channel(1).1, is_second: false };
            let every = Duration::from_millis(1);
            let done =
                go_on(&mut Screen::Documents(OutputFormat::Json), every, &watched, (&mut changes, &look));
            (done.map_err(|failure| failure.exit), looked.get())
        };
        let failed = |exit| Err(Failure::new(exit, "no answer"));
        let away = || failed(Exit::Unreachable);
        assert_eq!(
            looks(vec![Ok(1), away(), failed(Exit::Failure), Ok(1), Ok(3)]),
            (Ok(Exit::BatchFailed), 5)
        );
        assert_eq!(looks(vec![away()]), (Err(Exit::Unreachable), 1));
        assert_eq!(looks(vec![Ok(1), failed(Exit::NotFound)]), (Err(Exit::NotFound), 2));
        assert_eq!(looks(vec![Ok(1), failed(Exit::Refused)]), (Err(Exit::Refused), 2));
    }

    #[test]
    fn picture_fits_the_terminal_and_clears_what_it_does_not_cover() {
        let every = Duration::from_secs(5);
        let picture = |text: &str, size| picture(text, every, size).replace('\u{1b}', "^");
        assert_eq!(picture("ID  JOB\n1   报表报表\n", (7, 24)), "^[HShown a^[K\nID  JOB^[K\n1   报^[K\n^[J");
        let long = picture("1\n2\n3\n4\n5\n", (80, 5));
        assert!(long.ends_with("\n1^[K\n2^[K\n… 3 more lines^[K\n^[J"), "{long}");
        assert_eq!(long.lines().count(), 5, "the last one is where the cursor rests");
    }

    #[test]
    fn change_is_looked_at_twice_and_silence_at_intervals() {
        let (change, changed) = mpsc::sync_channel(1);
        let mut changes = Changes { changed, is_second: false };
        change.send(()).unwrap();
        changes.wait(Duration::from_secs(3600));
        assert!(changes.is_second, "the tables may be behind");
        changes.wait(Duration::from_millis(1));
        assert!(!changes.is_second);
        drop(change);
        changes.wait(Duration::from_millis(1));
    }
}
