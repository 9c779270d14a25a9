//! What stores of logs keep of the attempts of a run, once everything is healed and done, against what jobs say that they printed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde::Serialize;
use tidemill_model::{AttemptEvent, Event, KeptLog, LogStream, WorkerEvent};

use crate::caller::Common;
use crate::fault::Kind;
use crate::fixture::{Fixture, SMALL_DISK};
use crate::history::{History, Shown};
use crate::journal::{Entry, What};
use crate::nemesis::Struck;
use crate::printed::{Printed, Wrong, judge, printed};
use crate::report::Report;
use crate::rest::{Answer, Rest};
use crate::rng::Rng;

/// After everything is healed and done, every log is whole within this.
const BOUND: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(500);
/// What cannot be read is asked for again, so often and after so long.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// Logs that are read part by part, too.
const SAMPLE: usize = 50;
/// Lines of a part.
const LINES: u64 = 250;
/// Threads that ask.
const ASKING: usize = 4;
/// Of each rule so many violations are told one by one.
const TOLD: usize = 20;
/// A shim may outlive what is on record of its attempt by so much, and writes again so long after a full disk has room.
const AFTERMATH_MS: i64 = 15_000;

pub(crate) const KEPT: &str = "printed_line_is_kept_once_and_in_order";
pub(crate) const WHOLE: &str = "log_is_whole_within_60_s";
pub(crate) const AGREES: &str = "parts_and_summary_of_a_log_are_those_of_its_bytes";
pub(crate) const SHOWN: &str = "part_of_a_log_that_was_shown_stays";

/// Logs that were looked at.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Logs {
    /// Those that were compared with what their attempts had printed.
    pub compared: usize,
    /// The lines that these attempts said that they had printed.
    pub lines: u64,
    /// Pieces that were missing, as the logs say, on the disk that was full.
    pub gaps: usize,
    /// Logs that are shorter without saying so, because that disk was full at their end.
    pub left_out: usize,
    /// Those that were read part by part, too.
    pub in_parts: usize,
    /// Parts of them that clients were shown meanwhile.
    pub shown: usize,
    /// When the last one was whole, seconds.
    pub whole_after_s: f64,
}

/// An attempt that has printed something.
struct Attempt<'h> {
    token: i64,
    printed: Printed,
    /// What clients were shown of its standard output.
    shown: Vec<&'h Shown>,
    /// Its disk was full meanwhile.
    had_full_disk: bool,
}

impl Attempt<'_> {
    fn path(&self, what: &str) -> String {
        format!("/api/batches/{}/log{what}?attempt={}", self.printed.batch, self.printed.attempt)
    }

    fn name(&self) -> String {
        format!("attempt {} of batch {}, token {}", self.printed.attempt, self.printed.batch, self.token)
    }
}

/// What one log was found to be.
#[derive(Default)]
struct Seen {
    gaps: usize,
    is_left_out: bool,
    /// By rule.
    wrong: Vec<(&'static str, String)>,
}

/// Waits until stores have every log as a whole, and compares each.
///
/// # Errors
/// The marks cannot be read, or there is nobody to ask.
pub(crate) fn check(
    fixture: &Fixture,
    common: &Common,
    (entries, histories): (&[Entry], &[History]),
    report: &mut Report,
) -> Result<()> {
    let marks = match std::fs::read_to_string(fixture.dir.join("witness/lines")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        marks => marks?,
    };
    let mut attempts = attempts(&marks, entries, &report.struck);
    for attempt in &mut attempts {
        let of = (attempt.printed.batch, attempt.printed.attempt);
        let shown = histories.iter().flat_map(|history| &history.shown);
        attempt.shown.extend(shown.filter(|it| (it.batch, it.attempt) == of));
    }
    let begun_at = Instant::now();
    let (kept, mut wrong) = whole(common, &attempts, begun_at)?;
    let sample = sample(report.seed, &kept);
    let mut logs = Logs {
        compared: kept.len(),
        lines: kept.iter().map(|(attempt, _)| attempt.printed.lines.iter().sum::<u64>()).sum(),
        in_parts: sample.len(),
        shown: kept.iter().map(|(attempt, _)| attempt.shown.len()).sum(),
        whole_after_s: begun_at.elapsed().as_secs_f64(),
        ..Logs::default()
    };
    let seen = beside(&common.interfaces, &kept, |interface, (attempt, kept)| {
        look(interface, attempt, kept, sample.contains(&attempt.token))
    })?;
    for seen in seen {
        logs.gaps += seen.gaps;
        logs.left_out += usize::from(seen.is_left_out);
        wrong.extend(seen.wrong);
    }
    if logs.compared == 0 {
        wrong.push((KEPT, "there is no log at all".to_owned()));
    }
    report.logs = logs;
    report.violations.extend(told(&wrong));
    Ok(())
}

/// Attempts that say that they have printed something. One that does not may have no log.
fn attempts(marks: &str, entries: &[Entry], struck: &[Struck]) -> Vec<Attempt<'static>> {
    let full = full_disk(entries, struck);
    let all = printed(marks).into_iter().filter(|(_, printed)| printed.lines != [0, 0]);
    let attempt = |(token, printed)| {
        let had_full_disk = full.contains(&token);
        Attempt { token, printed, shown: Vec::new(), had_full_disk }
    };
    all.map(attempt).collect()
}

/// Tokens of attempts on the small disk that were there while it was full.
fn full_disk(entries: &[Entry], struck: &[Struck]) -> Vec<i64> {
    let (mut hosts, mut begun, mut ended) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for entry in entries {
        let What::Envelope(envelope) = &entry.what else { continue };
        for recorded in &envelope.events {
            match &recorded.event {
                Event::Worker(WorkerEvent::Registered { worker, host, .. }) => {
                    hosts.insert(worker, host.as_str());
                }
                Event::Attempt(AttemptEvent::StartGranted { token, worker, .. }) => {
                    begun.insert(token.0, (entry.at_ms, worker));
                }
                Event::Attempt(AttemptEvent::Finished { token, .. }) => {
                    ended.insert(token.0, entry.at_ms);
                }
                _ => {}
            }
        }
    }
    let on_it = begun.into_iter().filter(|(_, (_, worker))| hosts.get(worker) == Some(&SMALL_DISK));
    let was_full = |(token, (begun_ms, _))| {
        let ended_ms = ended.get(&token).map_or(i64::MAX, |at_ms: &i64| at_ms.saturating_add(AFTERMATH_MS));
        let mut fills = struck.iter().filter(|it| it.step.kind == Kind::DiskFull);
        fills
            .any(|it| it.at_ms <= ended_ms && it.healed_ms.saturating_add(AFTERMATH_MS) >= begun_ms)
            .then_some(token)
    };
    on_it.filter_map(was_full).collect()
}

type Whole<'a> = Vec<(&'a Attempt<'a>, KeptLog)>;

/// Waits until no log grows any more; gives those, and what is wrong.
fn whole<'a>(
    common: &Common,
    attempts: &'a [Attempt<'_>],
    begun_at: Instant,
) -> Result<(Whole<'a>, Vec<(&'static str, String)>)> {
    let mut open: Vec<_> = attempts.iter().collect();
    let mut kept = Vec::new();
    loop {
        let answers = beside(&common.interfaces, &open, |interface, attempt| summary(interface, attempt))?;
        let mut left = Vec::new();
        for (attempt, answer) in open.into_iter().zip(answers) {
            match answer {
                Ok(log) if log.is_end => kept.push((attempt, log)),
                Ok(log) => left.push((attempt, format!("is open, with {log:?}"))),
                Err(why) => left.push((attempt, format!("is not there: {why}"))),
            }
        }
        if left.is_empty() || begun_at.elapsed() > BOUND {
            let wrong =
                left.iter().map(|(attempt, why)| (WHOLE, format!("that of {} {why}", attempt.name())));
            return Ok((kept, wrong.collect()));
        }
        open = left.into_iter().map(|(attempt, _)| attempt).collect();
        thread::sleep(LOOK);
    }
}

fn summary(interface: &Rest, attempt: &Attempt<'_>) -> Result<KeptLog, String> {
    match interface.get(&attempt.path("/summary")) {
        Answer::Ok(body) => serde_json::from_value(body).map_err(|error| error.to_string()),
        Answer::Refused(why) | Answer::Unknown(why) => Err(why),
    }
}

fn sample(seed: u64, kept: &[(&Attempt<'_>, KeptLog)]) -> Vec<i64> {
    let mut tokens: Vec<_> = kept.iter().map(|(attempt, _)| attempt.token).collect();
    Rng::new(seed, "logs").shuffle(&mut tokens);
    tokens.truncate(SAMPLE);
    tokens
}

/// Reads a log, and compares it.
fn look(interface: &Rest, attempt: &Attempt<'_>, kept: &KeptLog, is_sample: bool) -> Seen {
    let mut seen = Seen::default();
    let mut wrong = |rule, stream: LogStream, what: String| {
        seen.wrong.push((rule, format!("{} of {}: {what}", stream.name(), attempt.name())));
    };
    if kept.is_cut {
        wrong(WHOLE, LogStream::Worker, "its worker has lost some of it".to_owned());
    }
    for stream in LogStream::ALL {
        let number = stream.number();
        let log = match again(|| interface.bytes(&format!("{}&type={number}", attempt.path("/download")))) {
            Ok(log) => log,
            Err(why) => {
                wrong(KEPT, stream, format!("it cannot be read: {why}"));
                continue;
            }
        };
        if let Some(what) = differs(kept, stream, &log) {
            wrong(AGREES, stream, what);
        }
        if is_sample && let Err(what) = read_in_parts(interface, attempt, stream, &log) {
            wrong(AGREES, stream, what);
        }
        if stream == LogStream::Worker {
            continue;
        }
        // Where a disk is full, the half of a gap's line goes again.
        if stream == LogStream::Stdout && !attempt.had_full_disk {
            let stays = |it: &&&Shown| log[it.offset.min(log.len())..].starts_with(it.content.as_bytes());
            for shown in attempt.shown.iter().filter(|it| !stays(it)) {
                wrong(
                    SHOWN,
                    stream,
                    format!("it does not have what was shown at {}: {:?}", shown.offset, shown.content),
                );
            }
        }
        match judge(attempt.token, &attempt.printed, stream, &log) {
            Ok(found) if found.gaps == 0 || attempt.had_full_disk => seen.gaps += found.gaps,
            Ok(found) => {
                wrong(KEPT, stream, format!("{} pieces are missing, and no disk was full", found.gaps))
            }
            Err(Wrong::Short(_)) if attempt.had_full_disk => seen.is_left_out = true,
            Err(Wrong::Short(what) | Wrong::Other(what)) => wrong(KEPT, stream, what),
        }
    }
    seen
}

fn again<T>(ask: impl Fn() -> Result<T, String>) -> Result<T, String> {
    for _ in 1..TRIES {
        if let Ok(answer) = ask() {
            return Ok(answer);
        }
        thread::sleep(PAUSE);
    }
    ask()
}

/// What of the summary is not so.
fn differs(kept: &KeptLog, stream: LogStream, log: &[u8]) -> Option<String> {
    let said = match stream {
        LogStream::Stdout => kept.stdout,
        LogStream::Stderr => kept.stderr,
        LogStream::Worker => kept.worker,
    };
    let lines = log.split_inclusive(|byte| *byte == b'\n').count() as u64;
    let is_so = said.bytes == log.len() as u64 && said.lines == lines;
    (!is_so).then(|| format!("it has {} bytes in {lines} lines, and its summary says {said:?}", log.len()))
}

/// From offset to offset, until nothing will follow.
fn read_in_parts(
    interface: &Rest,
    attempt: &Attempt<'_>,
    stream: LogStream,
    log: &[u8],
) -> Result<(), String> {
    let mut at = 0;
    loop {
        let path = format!("{}&type={}&lines={LINES}&offset={at}", attempt.path(""), stream.number());
        let part = again(|| match interface.get(&path) {
            Answer::Ok(part) => Ok(part),
            Answer::Refused(why) | Answer::Unknown(why) => {
                Err(format!("from {at} on it cannot be read: {why}"))
            }
        })?;
        let content = part["content"].as_str().unwrap_or_default().as_bytes();
        let end = at + content.len();
        let line = log[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        let is_so = log.get(at..end) == Some(content)
            && part["offset"] == end
            && part["begin"] == at
            && part["line"] == line
            && part["is_end"] == (end == log.len());
        if !is_so {
            return Err(format!("the part from {at} on, of line {line}, is {part}"));
        }
        if end == log.len() {
            return Ok(());
        }
        if content.is_empty() {
            return Err(format!("nothing comes from {at} on, and it has {} bytes", log.len()));
        }
        at = end;
    }
}

/// Asks for all of them, some beside each other, by one interface after the other; gives the answers in their order.
fn beside<T: Sync, A: Send>(
    interfaces: &[Rest],
    all: &[T],
    ask: impl Fn(&Rest, &T) -> A + Sync,
) -> Result<Vec<A>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut answers = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let Some(one) = all.get(number) else { return answers };
            answers.push((number, ask(&interfaces[number % interfaces.len()], one)));
        }
    };
    let answers = thread::scope(|scope| {
        let threads: Vec<_> = (0..ASKING).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.collect::<Result<Vec<_>, _>>().map_err(|_| anyhow!("a reader of logs panicked"))
    })?;
    let mut answers: Vec<_> = answers.into_iter().flatten().collect();
    answers.sort_by_key(|(number, _)| *number);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

fn told(wrong: &[(&'static str, String)]) -> Vec<String> {
    let mut told = Vec::new();
    for rule in [KEPT, WHOLE, AGREES, SHOWN] {
        let of_rule: Vec<_> = wrong.iter().filter(|(of, _)| *of == rule).collect();
        told.extend(of_rule.iter().take(TOLD).map(|(rule, what)| format!("{rule}: {what}")));
        if of_rule.len() > TOLD {
            told.push(format!("{rule}: {} more", of_rule.len() - TOLD));
        }
    }
    told
}
