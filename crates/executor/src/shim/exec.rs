//! Starts the job.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd as _;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use rustix::fs::Mode;
use rustix::process::{Pid, umask};

use super::account;
use crate::attempt_dir::{AttemptDir, ShimSpec};
use crate::plain_file;

/// Starts the job in a process group of its own, its output going straight into the files, with the signals
/// and the mask that a program expects. The text of an error is for people.
pub(super) fn start(dir: &AttemptDir, spec: &ShimSpec, stdout: &File) -> Result<Pid, String> {
    let program = spec.argv.first().ok_or("the command is empty")?;
    let failed = |what: &str, error: nix::Error| format!("cannot {what}: {}", error.desc());
    std::env::set_current_dir(dir.work())
        .map_err(|error| format!("cannot enter the working directory: {error}"))?;
    let stderr = plain_file::create(&dir.stderr())
        .map_err(|error| format!("cannot make the file for errors: {error}"))?;
    if let Some(account) = &spec.run_as {
        return account::start(dir, spec, account, (stdout, &stderr));
    }
    let c_string = |text: &str| CString::new(text).map_err(|_| format!("{text:?} holds a zero byte"));
    let argv = spec.argv.iter().map(|text| c_string(text)).collect::<Result<Vec<_>, _>>()?;
    let env = spec.env.iter().map(|(name, value)| c_string(&format!("{name}={value}")));
    let env = env.collect::<Result<Vec<_>, _>>()?;
    let files = files(stdout, &stderr).map_err(|error| failed("prepare the output files", error))?;
    let attributes = attributes().map_err(|error| failed("prepare the process", error))?;
    let program_text = c_string(program)?;
    // What is spawned has the mask of this process, which has no other thread.
    let own = spec.umask.map(|mask| umask(Mode::from_raw_mode(mask)));
    let spawned = posix_spawnp(&program_text, &files, &attributes, &argv, &env);
    own.map(umask);
    let pid = spawned.map_err(|error| failed(&format!("start {program:?}"), error))?;
    Ok(Pid::from_raw(pid.as_raw()).expect("a process that was started has a number"))
}

/// Standard input is the shim's own, `/dev/null`.
fn files(stdout: &File, stderr: &File) -> nix::Result<PosixSpawnFileActions> {
    let mut files = PosixSpawnFileActions::init()?;
    files.add_dup2(stdout.as_raw_fd(), 1)?;
    files.add_dup2(stderr.as_raw_fd(), 2)?;
    Ok(files)
}

fn attributes() -> nix::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK,
    )?;
    attributes.set_pgroup(nix::unistd::Pid::from_raw(0))?;
    // Rust programs ignore SIGPIPE, and that would be inherited.
    attributes.set_sigdefault(&Signal::SIGPIPE.into())?;
    attributes.set_sigmask(&SigSet::empty())?;
    Ok(attributes)
}
