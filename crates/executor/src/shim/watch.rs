//! Waits for the end of the attempt, and brings it about where it has to.
//!
//! One loop over the line to the worker, signals (a child ended, the machine stops), the first bytes of the job's output, and a
//! timer on CLOCK_BOOTTIME for lease and grace, which holds even while the worker is stopped.

#[cfg(test)]
mod corpus;
mod outside;

use std::io;

use nix::sys::signal::Signal as NixSignal;
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, WaitOptions, WaitStatus, getpid, wait};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use tidemill_model::ExternalWorkId;

use super::elsewhere::{Elsewhere, Said};
use super::line::{self, Line};
use super::output::Output;
use super::stuck::Stuck;
use super::{KillCause, Lease, Located, News, Order, tree};
use crate::attempt_dir::{ExitRecord, ShimSpec};
use crate::limits::Guard;
use crate::machine::boottime_ms;

/// The pauses between two walks that kill what is left.
const WALK_PAUSES_MS: std::ops::RangeInclusive<u64> = 2..=100;
/// The same where something cannot be killed.
const STUCK_PAUSE_MS: u64 = 1_000;

/// Waits until no process of the attempt is left, of which `main` is the first.
pub(super) fn until_empty(
    watch: &mut Watch,
    main: Pid,
    guard: &mut Guard,
    (line, signals, output): (&mut Line<'_>, &SignalFd, &mut Output),
    mut elsewhere: Option<&mut Elsewhere>,
) -> io::Result<()> {
    let timer = timer()?;
    watch.main = Some(main);
    watch.agent = elsewhere.as_ref().and_then(|elsewhere| elsewhere.pid());
    watch.obey();
    loop {
        let now_ms = boottime_ms();
        if !line.see_to_control(now_ms) {
            watch.cannot_be_found();
        }
        if now_ms >= guard.look_at_ms() {
            guard.look(now_ms);
            guard.printed(output.so_far(), watch.output_max_bytes);
            watch.keep_limits(now_ms, guard, line);
        }
        let act_at_ms = watch.act(now_ms, line);
        let due = [act_at_ms, line.look_at_ms(), output.act(now_ms), Some(guard.look_at_ms())];
        set_timer(&timer, due.into_iter().flatten().min())?;
        let heard = hear((line, signals), &timer, Some(output), elsewhere.as_deref())?;
        if heard.elsewhere {
            watch.hear_elsewhere(elsewhere.as_deref_mut(), line);
        }
        if heard.line {
            watch.hear(line, guard);
        }
        if heard.signals {
            watch.read_signals(signals)?;
        }
        if heard.output {
            output.notice(boottime_ms());
        }
        watch.reap(elsewhere.as_deref_mut())?;
        if watch.is_empty {
            return Ok(());
        }
    }
}

/// By an eighth, so that a job which grows slowly is no stream of news.
fn has_grown(told: Located, now: Located) -> bool {
    let beyond = |told: u64, now: u64| now > told + told / 8;
    beyond(told.peak_memory_kib, now.peak_memory_kib)
        || beyond(told.peak_processes.into(), now.peak_processes.into())
}

fn timer() -> io::Result<OwnedFd> {
    Ok(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?)
}

struct Heard {
    line: bool,
    signals: bool,
    elsewhere: bool,
    output: bool,
}

fn hear(
    (line, signals): (&Line<'_>, &SignalFd),
    timer: &OwnedFd,
    output: Option<&Output>,
    elsewhere: Option<&Elsewhere>,
) -> io::Result<Heard> {
    let wait = |source| PollFd::from_borrowed_fd(source, PollFlags::IN);
    let (line, outputs) = (line.source(), output.and_then(Output::sources));
    let elsewhere = elsewhere.and_then(Elsewhere::source);
    let mut fds = vec![wait(signals.as_fd()), wait(timer.as_fd())];
    fds.extend(line.into_iter().chain(elsewhere).map(wait));
    fds.extend(outputs.into_iter().flatten().map(|pipe| wait(pipe.as_fd())));
    poll(&mut fds, None)?;
    let mut heard = fds.iter().map(|fd| !fd.revents().is_empty());
    let (signals, _timer) = (heard.next() == Some(true), heard.next());
    let line = line.is_some() && heard.next() == Some(true);
    let elsewhere = elsewhere.is_some() && heard.next() == Some(true);
    Ok(Heard { line, signals, elsewhere, output: heard.any(|is_heard| is_heard) })
}

/// Absolute, so that nothing is lost between reading the clock and setting it.
fn set_timer(timer: &OwnedFd, at_ms: Option<u64>) -> io::Result<()> {
    // All zero switches it off, so the earliest time is 1 ms.
    let at_ms = at_ms.map_or(0, |at| at.clamp(1, i64::MAX as u64));
    let value = Timespec {
        tv_sec: i64::try_from(at_ms / 1000).expect("clamped"),
        tv_nsec: i64::try_from(at_ms % 1000).expect("below 1000") * 1_000_000,
    };
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: never, it_value: value })?;
    Ok(())
}

/// An end that was begun.
struct Killing {
    because: KillCause,
    kill_at_ms: u64,
    has_asked: bool,
}

/// How far the attempt is, and what ends it.
pub(super) struct Watch {
    /// The first process of the job; absent: it has not begun.
    main: Option<Pid>,
    /// The child that is no process of the job.
    agent: Option<Pid>,
    /// Ids of external work that are known.
    found: Vec<ExternalWorkId>,
    /// All its processes have ended, and what it started elsewhere may go on by itself.
    lasts_elsewhere: bool,
    /// The owner does not wait for its end any more; since when.
    disowned_at_ms: Option<u64>,
    grace_ms: u64,
    lease: Option<Lease>,
    /// TMO-5: TERM at this time, on CLOCK_BOOTTIME.
    limit_at_ms: Option<u64>,
    control: Vec<u8>,
    killing: Option<Killing>,
    output_max_bytes: Option<u64>,
    excesses_told: usize,
    /// What the worker was told last of where the processes are.
    located: Option<Located>,
    /// That is because it is beyond a limit, which stands in the record by itself.
    is_over_limit: bool,
    status: Option<WaitStatus>,
    pause_ms: u64,
    /// Something of it was left when its main process had ended, and did not end by itself.
    has_killed_strays: bool,
    stuck: Stuck,
    is_empty: bool,
}

impl Watch {
    /// `orders` is what the worker has said already.
    pub(super) fn new(spec: &ShimSpec, orders: Vec<u8>) -> Self {
        Self {
            main: None,
            agent: None,
            found: Vec::new(),
            lasts_elsewhere: false,
            disowned_at_ms: None,
            grace_ms: spec.grace_ms,
            lease: spec.lease,
            limit_at_ms: spec.limit_ms.map(|limit_ms| boottime_ms().saturating_add(limit_ms)),
            control: orders,
            killing: None,
            output_max_bytes: spec.output_max_bytes,
            excesses_told: 0,
            located: None,
            is_over_limit: false,
            status: None,
            pause_ms: *WALK_PAUSES_MS.start(),
            has_killed_strays: false,
            stuck: Stuck::default(),
            is_empty: false,
        }
    }

    /// Does what is due, and says when to look again.
    fn act(&mut self, now_ms: u64, line: &mut Line<'_>) -> Option<u64> {
        self.end_with_lease(now_ms);
        self.end_with_limit(now_ms);
        let Some(killing) = &mut self.killing else {
            // What the main process left behind when it ended by itself has no claim to a grace.
            return match self.status {
                Some(_) => Some(self.kill_all(now_ms, line)),
                None => self.lease.map(|lease| lease.term_at_ms).into_iter().chain(self.limit_at_ms).min(),
            };
        };
        let kill_at_ms = killing.kill_at_ms;
        if now_ms >= kill_at_ms {
            return Some(self.kill_all(now_ms, line));
        }
        if !killing.has_asked {
            killing.has_asked = true;
            tree::ask_descendants(getpid(), self.agent);
        }
        // The lease may be over before the grace is.
        let lease_end_ms = self.lease.map(|lease| lease.term_at_ms).filter(|term_at_ms| *term_at_ms > now_ms);
        lease_end_ms.into_iter().chain([kill_at_ms]).min()
    }

    /// One walk may miss what is forked meanwhile, so it is repeated until the kernel knows of no child.
    fn kill_all(&mut self, now_ms: u64, line: &mut Line<'_>) -> u64 {
        let agent = self.agent;
        let left = tree::kill_strays(getpid(), &|pid| Some(pid) == agent).living;
        self.has_killed_strays |= left.is_some();
        if let Some(process) = left.and_then(|pid| self.stuck.lives_on(pid, now_ms)) {
            line.tell(&News::Stuck(process.to_owned()));
        }
        if self.stuck.process().is_some() {
            return now_ms + STUCK_PAUSE_MS;
        }
        let again = now_ms + self.pause_ms;
        self.pause_ms = (self.pause_ms * 2).min(*WALK_PAUSES_MS.end());
        again
    }

    fn end_with_lease(&mut self, now_ms: u64) {
        if let Some(lease) = self.lease.filter(|lease| lease.term_at_ms <= now_ms) {
            self.end(KillCause::Lease, lease.kill_at_ms);
        }
    }

    /// TMO-5: whatever the worker does meanwhile, and whether or not the log is there.
    fn end_with_limit(&mut self, now_ms: u64) {
        if let Some(limit_at_ms) = self.limit_at_ms.filter(|limit_at_ms| *limit_at_ms <= now_ms) {
            self.limit_at_ms = None;
            self.end(KillCause::TimedOut, limit_at_ms.saturating_add(self.grace_ms));
        }
    }

    /// EXE-2, EXE-7: says what is new, and ends at once what is beyond a limit that the kernel does not keep.
    fn keep_limits(&mut self, now_ms: u64, guard: &Guard, line: &mut Line<'_>) {
        for excess in &guard.excesses()[self.excesses_told..] {
            line.tell(&News::Exceeded(*excess));
        }
        self.excesses_told = guard.excesses().len();
        let located = guard.located();
        if self.located.is_none_or(|told| has_grown(told, located)) {
            line.tell(&News::Located(located));
            self.located = Some(located);
        }
        if guard.must_end() {
            self.is_over_limit |= self.killing.is_none() && self.status.is_none();
            self.end(KillCause::Asked, now_ms);
        }
    }

    /// The first reason stands; a nearer time counts. After the main process's own end nothing is *killed*.
    fn end(&mut self, because: KillCause, kill_at_ms: u64) {
        match &mut self.killing {
            Some(killing) => killing.kill_at_ms = killing.kill_at_ms.min(kill_at_ms),
            None if self.status.is_some() && !self.lasts_elsewhere => {}
            None => self.killing = Some(Killing { because, kill_at_ms, has_asked: false }),
        }
    }

    fn hear(&mut self, line: &mut Line<'_>, guard: &Guard) {
        match line.hear(&mut self.control) {
            line::Heard::Nothing => self.obey(),
            line::Heard::WorkerGone => {
                line.lose_worker();
                // Half a line is never followed by its other half.
                self.control.clear();
            }
            line::Heard::WorkerCame => {
                line.tell(&News::Started);
                guard.excesses().iter().for_each(|excess| line.tell(&News::Exceeded(*excess)));
                self.stuck
                    .process()
                    .into_iter()
                    .for_each(|process| line.tell(&News::Stuck(process.to_owned())));
                if !self.found.is_empty() {
                    line.tell(&News::ExternalWork(self.found.clone()));
                }
                line.tell(&News::Located(guard.located()));
            }
        }
    }

    /// Does what the lines say that are whole.
    fn obey(&mut self) {
        while let Some(end) = self.control.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.control.drain(..=end).collect();
            match String::from_utf8_lossy(&line).trim().parse() {
                Ok(Order::Lease(lease)) => self.renew(lease),
                Ok(Order::Kill { grace_ms, because }) => {
                    if because == KillCause::Disowned {
                        self.disowned_at_ms.get_or_insert_with(boottime_ms);
                    }
                    self.end(because, boottime_ms().saturating_add(grace_ms));
                }
                // A line of a newer worker: it has to know that this shim is older.
                Err(()) => {}
            }
        }
    }

    /// A late order cannot shorten what a newer one gave, but one without an end gets one where its group holds no more. A lease that is over stays over, even where nothing
    /// ran for a while (the machine slept) and its end and the order are noticed together.
    fn renew(&mut self, lease: Lease) {
        self.end_with_lease(boottime_ms());
        let bounded = self.lease.filter(|old| *old != Lease::FOREVER);
        self.lease = bounded.max(Some(lease));
    }

    /// Nobody can adopt it any more.
    fn cannot_be_found(&mut self) {
        self.end(KillCause::WorkerGone, boottime_ms().saturating_add(self.grace_ms));
    }

    fn read_signals(&mut self, signals: &SignalFd) -> io::Result<()> {
        while let Some(signal) = signals.read_signal()? {
            if signal.ssi_signo != NixSignal::SIGCHLD as u32 {
                self.end(KillCause::WorkerStopped, boottime_ms().saturating_add(self.grace_ms));
            }
        }
        Ok(())
    }

    fn reap(&mut self, mut elsewhere: Option<&mut Elsewhere>) -> io::Result<()> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.main => self.status = Some(status),
                Ok(Some((pid, _))) if Some(pid) == self.agent => {
                    self.agent = None;
                    if let Some(elsewhere) = elsewhere.as_deref_mut() {
                        elsewhere.was_reaped();
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let only_agent = |agent| !tree::has_children_beside(getpid(), agent);
                    self.is_empty = self.status.is_some() && self.agent.is_some_and(only_agent);
                    return Ok(());
                }
                Err(rustix::io::Errno::CHILD) => {
                    self.is_empty = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn hear_elsewhere(&mut self, elsewhere: Option<&mut Elsewhere>, line: &mut Line<'_>) -> Vec<Said> {
        let said = elsewhere.map(Elsewhere::hear).unwrap_or_default();
        for said in &said {
            if let Said::Found(ids) = said {
                self.found.extend(ids.iter().cloned());
                line.tell(&News::ExternalWork(ids.clone()));
            }
        }
        said
    }

    /// Once none of its processes is left.
    pub(super) fn record(&self) -> ExitRecord {
        let status = self.status.expect("without children, the main process was waited for");
        ExitRecord {
            exit_code: status.exit_status(),
            signal: status.terminating_signal(),
            kill_cause: self.killing.as_ref().filter(|_| !self.is_over_limit).map(|killing| killing.because),
            ..ExitRecord::default()
        }
    }
}
