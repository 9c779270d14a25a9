//! EXE-13: the shim's side of what looks after the work that a job starts elsewhere.
//!
//! ```text
//! shim ──fork──► agent ──fork, as the account──► list, state, kill
//!   │  orders: settle, end, kill     ▲                │
//!   └──────────── socket ────────────┴── found, cleared, ended ◄ what they print
//! ```
//! The *agent* is a copy of the shim, made before anything else of the attempt, and only where the type of the job says how external
//! work is found. It waits for commands, which take seconds; the shim waits for the agent's words and keeps its deadlines meanwhile.
//! The end of the socket ends it, and a shim that is killed leaves it to the server of shims, which ends it.
//!
//! An agent that is gone before it has said that all has ended leaves an end that is not confirmed: the next attempt confirms it.

mod agent;
mod command;
mod files;
mod work;

use std::io;
use std::os::unix::net::UnixStream;

use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::net::SendFlags;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait, waitpid};
use serde::{Deserialize, Serialize};
use tidemill_derive::Word;
use tidemill_model::ExternalWorkId;

use super::fork::fork;
use super::{account, tree};
use crate::attempt_dir::{AttemptDir, ExternalRecord, ShimSpec};
use crate::external_work::ExternalSuccess;

/// Between two walks that kill what an agent has left.
const WALK_AGAIN: std::time::Duration = std::time::Duration::from_millis(2);

/// Says that a submission may still be on its way; a line before that with the ending.
const LATE: &str = "late";

/// What the shim wants of its agent, once no process of the job is left; one line each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Word, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    /// To wait until all has ended by itself.
    Settle,
    /// To end what has not ended.
    End,
    /// The same, where a submission may still have been on its way.
    Kill,
}

/// What an agent says, one line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// New ids of the attempt.
    Found(Vec<ExternalWorkId>),
    /// All that earlier attempts had started has ended.
    Cleared,
    /// All that the attempt had started has ended.
    Ended(Box<ExternalRecord>),
}

/// The agent, as the shim sees it.
pub(super) struct Elsewhere {
    socket: Option<UnixStream>,
    pid: Option<Pid>,
    said: Vec<u8>,
    waits_for_states: bool,
    /// Its last order.
    ending: Option<Ending>,
}

impl Elsewhere {
    /// Where the type says how external work is found. The process must have no other thread. The error is for people.
    pub(super) fn begin(dir: &AttemptDir, spec: &ShimSpec) -> Result<Option<Self>, String> {
        let Some(external) = &spec.external else { return Ok(None) };
        let failed = |error: &dyn std::fmt::Display| format!("cannot look after its external work: {error}");
        let user = spec.run_as.as_deref().map(account::user_of).transpose()?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed(&error))?;
        let mut ours = Some(ours);
        let pid = fork(|| {
            // Its copy of the shim's end would keep the socket open.
            ours = None;
            match agent::Agent::new(dir, spec, external, user.as_ref(), &theirs).run() {
                Ok(()) => 0,
                // The shim is gone.
                Err(_) => 1,
            }
        });
        let pid = pid.map_err(|error| failed(&error.desc()))?;
        let socket = ours.take().expect("only the copy gives it up");
        socket.set_nonblocking(true).map_err(|error| failed(&error))?;
        let waits_for_states = external.config.success == ExternalSuccess::FinalState;
        Ok(Some(Self {
            socket: Some(socket),
            pid: Some(pid),
            said: Vec::new(),
            waits_for_states,
            ending: None,
        }))
    }

    /// Its process, which is no process of the job.
    pub(super) fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Whether the attempt lasts until all that it started elsewhere has ended by itself.
    pub(super) fn waits_for_states(&self) -> bool {
        self.waits_for_states
    }

    /// Whether it will say nothing more.
    pub(super) fn is_gone(&self) -> bool {
        self.socket.is_none()
    }

    /// What is to be waited for until it has said something.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|socket| socket.as_fd())
    }

    /// What it has said since.
    pub(super) fn hear(&mut self) -> Vec<Said> {
        let Some(socket) = &self.socket else { return Vec::new() };
        let mut chunk = [0; 4096];
        match rustix::io::read(socket, &mut chunk) {
            Ok(0) => self.socket = None,
            Ok(count) => self.said.extend_from_slice(&chunk[..count]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.socket = None,
        }
        take_lines(&mut self.said)
    }

    /// No process of the job is left: it waits for what runs elsewhere, or ends it. Where it was killed, or a process of it did not end by
    /// itself, a submission may have been on its way.
    pub(super) fn settle(&mut self, was_killed: bool, may_be_late: bool) {
        if may_be_late {
            self.say_to_agent(LATE);
        }
        self.order(match (was_killed, self.waits_for_states) {
            (true, _) => Ending::Kill,
            (false, true) => Ending::Settle,
            (false, false) => Ending::End,
        });
    }

    /// It ends what runs elsewhere.
    pub(super) fn kill(&mut self) {
        self.order(Ending::Kill);
    }

    fn order(&mut self, ending: Ending) {
        if self.ending.is_some_and(|last| last >= ending) {
            return;
        }
        self.ending = Some(ending);
        self.say_to_agent(ending.as_str());
    }

    fn say_to_agent(&self, word: &str) {
        if let Some(socket) = &self.socket {
            // One that is gone is noticed where it is heard.
            let _ = rustix::net::send(socket, format!("{word}\n").as_bytes(), SendFlags::NOSIGNAL);
        }
    }

    /// It was waited for, and is gone.
    pub(super) fn was_reaped(&mut self) {
        self.pid = None;
    }

    /// Nobody waits for it any more: it ends with its commands.
    pub(super) fn stop(mut self) {
        self.socket = None;
        if let Some(pid) = self.pid.take() {
            // It may be waiting for a command.
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
        // That is a child of the shim by now, and nothing else is left.
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    tree::kill_descendants(getpid());
                    std::thread::sleep(WALK_AGAIN);
                }
                Err(_) => break,
            }
        }
    }
}

/// The lines that are whole; the rest is left.
fn take_lines<T: for<'a> Deserialize<'a>>(said: &mut Vec<u8>) -> Vec<T> {
    let end = said.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines: Vec<u8> = said.drain(..end).collect();
    lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// All of it, however long it takes.
fn say(socket: &UnixStream, said: &Said) -> io::Result<()> {
    use std::io::Write as _;
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    let mut socket = socket;
    socket.write_all(&line)
}
