//! One command of the configuration: run as the account of the job, within a time, and what it prints.

use std::io;

use nix::unistd::User;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus, getpid, pidfd_open, wait};

use super::super::fork::fork;
use super::super::{account, tree};
use super::files;
use crate::attempt_dir::ShimSpec;
use crate::machine::boottime_ms;
use crate::stderr;

/// What is taken of either output, bytes; the rest is read and dropped.
const OUTPUT_MAX: usize = 1 << 20;
/// Between two walks that kill what a command has left.
const WALK_AGAIN: std::time::Duration = std::time::Duration::from_millis(2);
/// Of what a command that failed says, characters.
const REASON_CHARS: usize = 300;
/// What a copy ends with that has not become the command.
const NOT_STARTED: i32 = 127;

/// What came of a command that has ended by itself.
pub(super) struct Printed {
    pub(super) is_success: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// It has printed more, which is not here, nor is the line that was cut.
    pub(super) is_cut: bool,
}

impl Printed {
    /// Why it failed, for people.
    pub(super) fn reason(&self) -> String {
        let said = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        if said.trim().is_empty() {
            return "it has said nothing".to_owned();
        }
        let end = said.trim().chars().rev().take(REASON_CHARS).collect::<Vec<_>>();
        end.into_iter().rev().collect()
    }
}

/// Runs it to its end. Nothing that it started is left then. The error is for people.
pub(super) fn run(
    argv: &[String],
    (spec, user): (&ShimSpec, Option<&User>),
    timeout_ms: u64,
) -> Result<Printed, String> {
    let program = argv.first().ok_or("the command is empty")?;
    let failed = |error: io::Error| format!("cannot run {program:?}: {error}");
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()));
    let [(stdout, to_stdout), (stderr, to_stderr)] = [pipe()?, pipe()?];
    let child = fork(|| {
        let Err(why) = account::become_command(argv, (spec, user), [&to_stdout, &to_stderr]);
        stderr::say(format_args!("{why}"));
        NOT_STARTED
    });
    let child = child.map_err(|error| failed(error.into()))?;
    drop((to_stdout, to_stderr));
    let heard = hear(child, [&stdout, &stderr], timeout_ms);
    // Those that it left in the background, too.
    let status = end_all(child).map_err(failed)?;
    let heard = heard.map_err(failed)?;
    let Some([mut stdout, stderr]) = heard else {
        return Err(format!("{program:?} takes longer than {timeout_ms} ms"));
    };
    let is_cut = stdout.len() > OUTPUT_MAX;
    if is_cut {
        stdout.truncate(files::whole(&stdout));
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let is_success = status.is_some_and(|status| status.exit_status() == Some(0));
    Ok(Printed { is_success, stdout: text(stdout), stderr: text(stderr), is_cut })
}

/// What it prints until it ends; `None`: it takes too long.
fn hear(child: Pid, outputs: [&OwnedFd; 2], timeout_ms: u64) -> io::Result<Option<[Vec<u8>; 2]>> {
    let handle = pidfd_open(child, PidfdFlags::empty())?;
    for output in outputs {
        fcntl_setfl(output, OFlags::NONBLOCK)?;
    }
    let deadline_ms = boottime_ms().saturating_add(timeout_ms);
    let mut kept = [Vec::new(), Vec::new()];
    let mut is_open = [true, true];
    loop {
        let left_ms = deadline_ms.saturating_sub(boottime_ms());
        if left_ms == 0 {
            return Ok(None);
        }
        let mut fds = vec![PollFd::new(&handle, PollFlags::IN)];
        let open = (0..2).filter(|index| is_open[*index]);
        fds.extend(open.map(|index| PollFd::new(outputs[index], PollFlags::IN)));
        match poll(&mut fds, Some(&timespec(left_ms))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_ended = !fds[0].revents().is_empty();
        drop(fds);
        for index in 0..2 {
            is_open[index] = is_open[index] && read_on(outputs[index], &mut kept[index])?;
        }
        if has_ended {
            return Ok(Some(kept));
        }
    }
}

/// Takes what is there. Says whether there may be more.
fn read_on(output: &OwnedFd, kept: &mut Vec<u8>) -> io::Result<bool> {
    let mut chunk = [0; 8192];
    // Of one that prints without end, only so much at once: its time is looked at in between.
    for _ in 0..64 {
        match rustix::io::read(output, &mut chunk) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                let room = (OUTPUT_MAX + 1).saturating_sub(kept.len());
                kept.extend_from_slice(&chunk[..count.min(room)]);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Ends whatever is left of it, and says how it ended itself.
fn end_all(child: Pid) -> io::Result<Option<WaitStatus>> {
    let mut status = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, of))) if pid == child => status = Some(of),
            Ok(Some(_)) => {}
            Ok(None) => {
                tree::kill_descendants(getpid());
                std::thread::sleep(WALK_AGAIN);
            }
            Err(rustix::io::Errno::CHILD) => return Ok(status),
            Err(error) => return Err(error.into()),
        }
    }
}

pub(super) fn timespec(ms: u64) -> Timespec {
    let ms = ms.min(86_400_000);
    Timespec {
        tv_sec: i64::try_from(ms / 1000).expect("a day at most"),
        tv_nsec: i64::try_from(ms % 1000).expect("below 1000") * 1_000_000,
    }
}
