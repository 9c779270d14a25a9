//! EXE-2: a job that runs as another account than the worker, or with limits.
//!
//! A copy of the shim enters the control group of the attempt, becomes the account and then the job: what the account may not
//! do is found out as the account, and told. Only root can become somebody else.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, fchown, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Uid, User, initgroups, setgid, setuid};
use rustix::fs::{Access, Mode, access};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, setsid, umask, waitpid};

use super::fork::fork;
use crate::attempt_dir::{AttemptDir, ShimSpec};
use crate::limits::Guard;
use crate::{environment, plain_file};

/// What a copy ends with that has not become the job.
const NOT_STARTED: i32 = 127;
/// The group of the account passes through to what the account owns there, and sees nothing.
const PASSABLE: u32 = 0o710;

/// Starts the job as its account, with its limits. The text of an error is for people.
pub(super) fn start(
    dir: &AttemptDir,
    (spec, guard): (&ShimSpec, &Guard),
    writers: [&OwnedFd; 2],
) -> Result<Pid, String> {
    let user = spec.run_as.as_deref().map(user_of).transpose()?;
    if let Some(user) = &user {
        let account = &user.name;
        hand_over(dir, (user, spec.external.is_some()), writers)
            .map_err(|error| format!("cannot give the attempt's files to account {account}: {error}"))?;
    }
    let failed = |what: &str, error: io::Error| format!("cannot {what}: {error}");
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed("make a pipe", error.into()))?;
    let child = fork(|| {
        let job = guard.prepare().and_then(|()| become_job(dir, spec, user.as_ref(), writers));
        let Err(why) = job;
        // The only other end is the shim, which waits for it.
        let _ = File::from(write.as_fd().try_clone_to_owned().unwrap_or_else(|_| std::process::abort()))
            .write_all(why.as_bytes());
        NOT_STARTED
    });
    drop(write);
    let child = child.map_err(|error| failed("start a process", error.into()))?;
    let mut why = String::new();
    File::from(read)
        .read_to_string(&mut why)
        .map_err(|error| failed("hear whether it was started", error))?;
    if why.is_empty() {
        return Ok(child);
    }
    waitpid(Some(child), WaitOptions::empty()).map_err(|error| failed("wait for a process", error.into()))?;
    Err(why)
}

/// The account, if the shim may become it.
pub(super) fn user_of(account: &str) -> Result<User, String> {
    let found = User::from_name(account);
    let found = found.map_err(|error| format!("cannot look up account {account}: {}", error.desc()))?;
    let user = found.ok_or_else(|| format!("this host has no account {account}"))?;
    if !Uid::effective().is_root() && user.uid != Uid::effective() {
        let own = Uid::effective();
        return Err(format!(
            "cannot run as account {account}: the worker runs as uid {own}, and has to be root"
        ));
    }
    Ok(user)
}

/// The account can read what the attempt was given, and write where it works. Its pipes are its own, since programs open
/// `/dev/stdout`; the logs are not.
fn hand_over(dir: &AttemptDir, (user, reports_ids): (&User, bool), writers: [&OwnedFd; 2]) -> io::Result<()> {
    if Uid::effective().is_root() {
        lchown(dir.path(), None, Some(user.gid.as_raw()))?;
        fs::set_permissions(dir.path(), Permissions::from_mode(PASSABLE))?;
    }
    // It can make no file here, so these are there for it to write.
    let written = [Some(dir.values()), reports_ids.then(|| dir.work_ids())];
    for path in written.into_iter().flatten() {
        fchown(plain_file::create(&path)?, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
    }
    for entry in fs::read_dir(dir.path())? {
        let entry = entry?;
        let is_own = entry.file_name() == "work" || entry.file_name().to_string_lossy().starts_with("script");
        if is_own {
            lchown(entry.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
    }
    writers.into_iter().try_for_each(|writer| fchown(writer, Some(user.uid.as_raw()), None))
}

/// Where a program is that the job, or what looks after its external work, names: in the `PATH` that the job gets, as the check of its type
/// has looked for it.
pub(super) fn found(program: &str, spec: &ShimSpec) -> PathBuf {
    let path = spec.env.get("PATH").map_or("", String::as_str);
    let mut places = environment::places(program, path).into_iter();
    places
        .find(|file| access(file, Access::EXEC_OK).is_ok() && file.is_file())
        // What is not there is looked for nowhere else, such as where the job works.
        .unwrap_or_else(|| Path::new("/").join(program))
}

/// Comes back only with why not.
fn become_job(
    dir: &AttemptDir,
    spec: &ShimSpec,
    user: Option<&User>,
    [stdout, stderr]: [&OwnedFd; 2],
) -> Result<Infallible, String> {
    become_account(user, [stdout, stderr])?;
    let (work, who) = (dir.work(), who(user));
    std::env::set_current_dir(&work).map_err(|error| {
        let work = work.display();
        format!("{who} cannot enter {work}: {error}; every directory above it must be passable for it")
    })?;
    become_program(&spec.argv, (spec, user))
}

/// The same for a command of the configuration, which runs as the job does, but not where it works. Comes back only with why not.
pub(super) fn become_command(
    argv: &[String],
    (spec, user): (&ShimSpec, Option<&User>),
    outputs: [&OwnedFd; 2],
) -> Result<Infallible, String> {
    become_account(user, outputs)?;
    std::env::set_current_dir("/").map_err(|error| format!("cannot enter /: {error}"))?;
    become_program(argv, (spec, user))
}

fn who(user: Option<&User>) -> String {
    user.map_or_else(|| "the job".to_owned(), |user| format!("account {}", user.name))
}

fn become_account(user: Option<&User>, [stdout, stderr]: [&OwnedFd; 2]) -> Result<(), String> {
    let who = who(user);
    let failed = |what: &str, error: io::Error| format!("cannot {what} {who}: {error}");
    // As what is spawned.
    setsid().map_err(|error| failed("begin a session for", error.into()))?;
    rustix::stdio::dup2_stdout(stdout).map_err(|error| failed("give its output to", error.into()))?;
    rustix::stdio::dup2_stderr(stderr).map_err(|error| failed("give its output to", error.into()))?;
    if let Some(user) = user.filter(|_| Uid::effective().is_root()) {
        let name = CString::new(user.name.as_str()).map_err(|error| failed("name", error.into()))?;
        initgroups(&name, user.gid).map_err(|error| failed("take the groups of", error.into()))?;
        setgid(user.gid).map_err(|error| failed("take the group of", error.into()))?;
        setuid(user.uid).map_err(|error| failed("become", error.into()))?;
    }
    Ok(())
}

fn become_program(argv: &[String], (spec, user): (&ShimSpec, Option<&User>)) -> Result<Infallible, String> {
    if let Some(mask) = spec.umask {
        umask(Mode::from_raw_mode(mask));
    }
    let (program, arguments) = argv.split_first().ok_or("the command is empty")?;
    // It empties the mask of signals and gives SIGPIPE back its meaning, as a program expects.
    let mut command = Command::new(found(program, spec));
    command.arg0(program).args(arguments).env_clear().envs(&spec.env);
    if let Some(user) = user {
        let name = &user.name;
        command.env("USER", name).env("LOGNAME", name).env("HOME", &user.dir).env("SHELL", &user.shell);
    }
    let error = command.exec();
    match user {
        Some(user) => Err(format!("account {} cannot start {program:?}: {error}", user.name)),
        None => Err(format!("cannot start {program:?}: {error}")),
    }
}
