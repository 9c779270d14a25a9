//! The worker's side of the server that forks shims.

use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use tidemill_model::Token;

/// Shims for the attempts of one directory. Dropped, it lets the server end when its shims have ended.
pub struct Shims {
    command: Vec<String>,
    attempts: PathBuf,
    groups: Vec<PathBuf>,
    server: Mutex<Server>,
}

struct Server {
    process: Child,
    socket: OwnedFd,
}

impl Shims {
    /// Starts the server: this command with the directory added. It leaves the worker's control groups for these.
    ///
    /// # Errors
    /// The command is empty or cannot be started.
    pub fn start(command: Vec<String>, attempts: PathBuf, groups: Vec<PathBuf>) -> io::Result<Self> {
        let server = Mutex::new(Server::start(&command, &attempts, &groups)?);
        Ok(Self { command, attempts, groups, server })
    }

    /// A shim for this attempt, which waits to be told what to run. Whether there really is one shows when
    /// the socket ends or does not.
    ///
    /// # Errors
    /// There is no server, and none could be started.
    pub fn begin(&self, token: Token) -> io::Result<UnixStream> {
        let (worker, shim) = UnixStream::pair()?;
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = server.send(token, &shim) {
            tracing::warn!(%error, "the server of shims is gone; another one is started");
            *server = Server::start(&self.command, &self.attempts, &self.groups)?;
            server.send(token, &shim)?;
        }
        Ok(worker)
    }

    /// The number of the server's process.
    pub fn server_id(&self) -> u32 {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).process.id()
    }
}

impl Server {
    /// It gets no environment but the path to look programs up in: what is secret stays here.
    fn start(command: &[String], attempts: &Path, groups: &[PathBuf]) -> io::Result<Self> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| io::Error::other("no command runs shims"))?;
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let process = Command::new(program)
            .args(arguments)
            .arg(attempts)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        // It forks nothing before it is told to, so every job has it too, and is in these groups.
        tidemill_serving::descriptors::give_back(process.id())?;
        for group in groups {
            if let Err(error) = fs::write(group.join("cgroup.procs"), process.id().to_string()) {
                let group = group.display();
                tracing::warn!(%group, %error, "attempts without limits stay in the control group of the executor");
            }
        }
        Ok(Self { process, socket })
    }

    fn send(&self, token: Token, shim: &UnixStream) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut attached = SendAncillaryBuffer::new(&mut space);
        let descriptors = [shim.as_fd()];
        assert!(attached.push(SendAncillaryMessage::ScmRights(&descriptors)), "there is space for one");
        let text = token.to_string();
        sendmsg(&self.socket, &[IoSlice::new(text.as_bytes())], &mut attached, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl Drop for Server {
    /// One that is gone is taken from the table of processes; one that still ends its shims is left to it.
    fn drop(&mut self) {
        if let Err(error) = self.process.try_wait() {
            tracing::warn!(%error, "cannot look after the server of shims");
        }
    }
}
