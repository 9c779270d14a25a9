//! Forks a shim for each attempt that the worker names, and cleans up after shims that were killed.
//!
//! ```text
//! worker ── token, socket ──► server ──fork──► shim ──exec──► job
//!    ▲                          │ keeps the socket open         │
//!    └── end of the socket ─────┘ until the shim is gone ◄──────┘ and nothing of its tree is left
//! ```
//! The server is a subreaper too: what a killed shim watched over becomes a child of the server, and is then
//! the only child that is no shim.

use std::collections::HashMap;
use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::close;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, WaitStatus, getpid, getrlimit, setrlimit, wait};
use tidemill_model::Token;

use super::stuck::Stuck;
use super::{Code, News, attempt, fork, tree};
use crate::attempt_dir::AttemptDir;
use crate::machine::boottime_ms;
use crate::{plain_file, stderr};

/// Between two walks that kill what a killed shim left behind.
const WALK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// The same where something of that cannot be killed.
const WALK_LATER: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// More than the longest token.
const MESSAGE_MAX: usize = 64;

pub(super) fn serve(attempts: &Path) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("shims are forked from a process with one thread, and this has more"));
    }
    // Fails only for one that leads a session already, which is as good.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let signals = signals()?;
    let mut server = Server {
        attempts: AttemptDir::new(std::path::absolute(attempts)?),
        signals,
        shims: HashMap::new(),
        killed: Vec::new(),
        stuck: Stuck::default(),
        worker_lives: true,
        limit: None,
    };
    while server.worker_lives || !server.shims.is_empty() || !server.killed.is_empty() {
        server.turn()?;
    }
    Ok(())
}

/// Signals arrive as something to read, so that none interrupts anything. The server leaves all but that of
/// its children unread: it ends with its worker. A shim reads its own from the same descriptor.
fn signals() -> io::Result<SignalFd> {
    let watched = [NixSignal::SIGCHLD, NixSignal::SIGTERM, NixSignal::SIGINT, NixSignal::SIGHUP];
    let set: SigSet = watched.into_iter().collect();
    let mut blocked = set;
    // A log that reaches the limit of its process's files is an error of the write, and no end of the shim.
    blocked.add(NixSignal::SIGXFSZ);
    blocked.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

struct Server {
    attempts: AttemptDir,
    signals: SignalFd,
    shims: HashMap<Pid, Kept>,
    /// Those of shims that were killed, until nothing is left of any of them.
    killed: Vec<Kept>,
    stuck: Stuck,
    worker_lives: bool,
    /// How many descriptors its shims may have. It may have as many as it can: it keeps two of each shim.
    limit: Option<Rlimit>,
}

/// Where the system refuses, there is room for fewer shims at once.
fn raise(limit: Rlimit) {
    let raised = Rlimit { current: limit.maximum, ..limit };
    if getrlimit(Resource::Nofile).current != raised.current {
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// What is kept of a shim until nothing is left of its tree, so that nobody takes the attempt for ended before.
struct Kept {
    /// The shim's end of the socket to its worker.
    worker: UnixStream,
    /// The attempt's directory, which the shim has locked through this.
    _directory: fs::File,
}

impl Server {
    fn turn(&mut self) -> io::Result<()> {
        let stdin = rustix::stdio::stdin();
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if self.worker_lives {
            fds.push(PollFd::from_borrowed_fd(stdin, PollFlags::IN));
        }
        let pause = if self.stuck.process().is_some() { WALK_LATER } else { WALK_AGAIN };
        let timeout = (!self.killed.is_empty()).then_some(pause);
        poll(&mut fds, timeout.as_ref())?;
        let heard: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if heard[0] {
            while self.signals.read_signal()?.is_some() {}
        }
        self.reap()?;
        if heard.get(1) == Some(&true) {
            match receive()? {
                Heard::Attempt(token, worker) => self.start(token, worker),
                Heard::Unusable => {
                    stderr::say(format_args!("tidemill shim: cannot start a shim: no room for its socket"))
                }
                Heard::WorkerGone => self.worker_lives = false,
            }
        }
        Ok(())
    }

    /// The worker hears of an attempt that cannot be started by the end of its socket.
    fn start(&mut self, token: Token, worker: UnixStream) {
        let dir = AttemptDir::new(self.attempts.path().join(token.to_string()));
        let directory = match plain_file::open_dir(dir.path()) {
            Ok(directory) => directory,
            Err(error) => {
                return stderr::say(format_args!("tidemill shim: {}: {error}", dir.path().display()));
            }
        };
        // The worker has set the limit by now, as it was before the worker raised its own.
        let limit = *self.limit.get_or_insert_with(|| getrlimit(Resource::Nofile));
        raise(limit);
        let forked = fork::fork(|| {
            // A shim holds no socket but its own: not of its siblings, and not the server's.
            self.shims.clear();
            self.killed.clear();
            // Where that is refused, somebody has lowered it meanwhile.
            let _ = setrlimit(Resource::Nofile, limit);
            let null = fs::File::open("/dev/null");
            let closed = null.and_then(|null| Ok(rustix::stdio::dup2_stdin(null)?));
            match closed.and_then(|()| attempt::run(&dir, &directory, &worker, &self.signals)) {
                Ok(code) => code as i32,
                Err(error) => {
                    stderr::say(format_args!("tidemill shim: {}: {error}", dir.path().display()));
                    Code::Failed as i32
                }
            }
        });
        match forked {
            Ok(shim) => drop(self.shims.insert(shim, Kept { worker, _directory: directory })),
            Err(error) => {
                stderr::say(format_args!("tidemill shim: cannot start the shim of {token}: {error}"))
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.reap_orphan(pid, status),
                Ok(None) | Err(rustix::io::Errno::CHILD) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if !self.killed.is_empty() {
            self.kill_strays();
        }
        Ok(())
    }

    /// Which of the killed shims watched over what is left is not known: the worker hears of it for each.
    fn kill_strays(&mut self) {
        let strays = tree::kill_strays(getpid(), &|pid| self.shims.contains_key(&pid));
        if strays.children == 0 {
            self.killed.clear();
            self.stuck = Stuck::default();
        } else if let Some(process) = strays.living.and_then(|pid| self.stuck.lives_on(pid, boottime_ms())) {
            let news = News::Stuck(process.to_owned()).to_line();
            for kept in &self.killed {
                // A worker that has gone, or reads nothing, has no use for it.
                let _ = send(&kept.worker, &news, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            }
        }
    }

    /// A shim that ended by itself has left nothing, and its socket is closed here.
    fn reap_orphan(&mut self, pid: Pid, status: WaitStatus) {
        let clean = [Code::Ended, Code::StartedBefore].map(|code| Some(code as i32));
        if let Some(kept) = self.shims.remove(&pid)
            && !clean.contains(&status.exit_status())
        {
            self.killed.push(kept);
        }
    }
}

/// What the worker's socket gave.
enum Heard {
    Attempt(Token, UnixStream),
    /// No attempt, or one whose socket found no free descriptor: the system has closed it, which tells the
    /// worker.
    Unusable,
    WorkerGone,
}

fn receive() -> io::Result<Heard> {
    let mut text = [0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let stdin = rustix::stdio::stdin();
    let received =
        match recvmsg(stdin, &mut [IoSliceMut::new(&mut text)], &mut attached, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received,
            Err(rustix::io::Errno::CONNRESET) => return Ok(Heard::WorkerGone),
            Err(error) => return Err(error.into()),
        };
    if received.bytes == 0 {
        return Ok(Heard::WorkerGone);
    }
    let descriptors = attached.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors.collect::<Vec<OwnedFd>>()),
        _ => None,
    });
    let worker = descriptors.flatten().next();
    let token = std::str::from_utf8(&text[..received.bytes]).ok().and_then(|text| text.parse().ok());
    Ok(match (token, worker) {
        (Some(token), Some(worker)) => Heard::Attempt(token, worker.into()),
        _ => Heard::Unusable,
    })
}

/// Standard input, output and errors.
const STANDARD: i32 = 2;

/// Closes all but the standard descriptors: what the starter of the worker left open by mistake would else be open in
/// every job. Comes before anything is opened here.
pub(super) fn close_inherited() -> io::Result<()> {
    let names = fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    for name in names {
        let Some(number) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if number > STANDARD {
            match close(number) {
                // The one by which they were listed is closed already.
                Ok(()) | Err(Errno::EBADF) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
