//! One process of the real program: started, killed, stopped, let go, and started again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::command::call;
use crate::network::Network;
use crate::proxy::Link;

/// Between the end of a process by itself and its next start, as a service manager would wait.
const AGAIN: Duration = Duration::from_secs(1);
const STOP: Duration = Duration::from_secs(20);
/// A process does not hear signals from its first moment on: the heal of one fault may have started what the next one stops.
const DEAF: Duration = Duration::from_secs(2);

/// Which role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Owns partitions.
    Dispatcher,
    /// Runs jobs.
    Executor,
    /// Fills tables.
    Projector,
    /// Serves.
    Api,
    /// Looks for what is waited for.
    Producers,
    /// Keeps logs of attempts.
    Logs,
}

impl Part {
    /// Its command.
    #[must_use]
    pub(crate) const fn command(self) -> &'static str {
        match self {
            Self::Dispatcher => "dispatcher",
            Self::Executor => "executor",
            Self::Projector => "projector",
            Self::Api => "api",
            Self::Producers => "producers",
            Self::Logs => "logs",
        }
    }
}

/// A process and all that it is started with.
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) part: Part,
    /// Where it answers: questions of others, or requests.
    pub(crate) address: String,
    pub(crate) network: Option<Network>,
    /// Its ways to services, by what they carry.
    pub(crate) links: BTreeMap<&'static str, Link>,
    /// The file of its next life.
    pub(crate) program: Mutex<PathBuf>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) lines: PathBuf,
    pub(crate) state: Mutex<State>,
}

/// Its present life.
#[derive(Default)]
pub(crate) struct State {
    child: Option<Child>,
    started_at: Option<Instant>,
    /// Whether somebody else than the nemesis has it end.
    wanted: bool,
    ended_at: Option<Instant>,
    /// How it ended when nobody had asked for it.
    own_ends: Vec<String>,
}

impl Role {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn program(&self) -> MutexGuard<'_, PathBuf> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops in good order, where it runs: it may have ended by itself, and that is on record.
    pub(crate) fn leave(&self) -> Result<()> {
        let age = self.state().started_at.map_or(Duration::ZERO, |started_at| started_at.elapsed());
        if let Some(status) = self.end()? {
            ensure!(left(status, age), "{} was asked to stop, and ended with {status}", self.name);
        }
        Ok(())
    }

    /// Starts another file of the program, as an upgrade does. What runs of the file before runs on without it.
    pub(crate) fn start_another_file(&self) -> Result<()> {
        {
            let mut program = self.program();
            let life = jiff::Timestamp::now().as_millisecond();
            let next = self.lines.with_file_name(format!("{}-{life}", self.name));
            fs::copy(&*program, &next).with_context(|| format!("{}", program.display()))?;
            let before = std::mem::replace(&mut *program, next);
            // The first one is everybody's.
            if before.parent() == self.lines.parent() {
                fs::remove_file(&before)?;
            }
        }
        self.start()
    }

    fn spawn(&self, state: &mut State) -> Result<()> {
        let file = File::options().create(true).append(true).open(&self.lines)?;
        let path = self.program().clone();
        let mut command = match &self.network {
            None => Command::new(path),
            Some(network) => {
                let [program, argument] = network.entry();
                let mut command = Command::new(program);
                command.arg(argument).arg(path);
                command
            }
        };
        command.arg(self.part.command()).env_clear().envs(&self.environment);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        state.child = Some(command.spawn().with_context(|| format!("cannot start {}", self.name))?);
        (state.started_at, state.ended_at) = (Some(Instant::now()), None);
        Ok(())
    }

    pub(crate) fn start(&self) -> Result<()> {
        let mut state = self.state();
        state.wanted = true;
        if state.child.is_none() { self.spawn(&mut state) } else { Ok(()) }
    }

    /// SIGKILL, and its end; it stays down until it is started.
    pub(crate) fn kill(&self) -> Result<()> {
        let mut state = self.state();
        state.wanted = false;
        if let Some(mut child) = state.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Gives no error where it does not run: it has ended by itself then, and that is on record.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        match &self.state().child {
            Some(child) => Ok(kill_process(Pid::from_child(child), signal)?),
            None => Ok(()),
        }
    }

    /// SIGTERM, and its end by itself.
    pub(crate) fn stop(&self) -> Result<ExitStatus> {
        self.end()?.with_context(|| format!("{} does not run", self.name))
    }

    fn end(&self) -> Result<Option<ExitStatus>> {
        let mut state = self.state();
        state.wanted = false;
        let Some(mut child) = state.child.take() else { return Ok(None) };
        kill_process(Pid::from_child(&child), Signal::TERM)?;
        let begun_at = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if begun_at.elapsed() > STOP {
                self.write_stacks(&child);
                child.kill()?;
                child.wait()?;
                bail!("{} does not stop within {STOP:?}", self.name);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts it again where it has ended by itself.
    pub(crate) fn watch(&self) -> Result<()> {
        let mut state = self.state();
        if !state.wanted {
            return Ok(());
        }
        if let Some(child) = &mut state.child
            && let Some(status) = child.try_wait()?
        {
            state.own_ends.push(format!("{status} at {}", jiff::Timestamp::now()));
            state.child = None;
            state.ended_at = Some(Instant::now());
        }
        if state.child.is_none() && state.ended_at.is_none_or(|ended_at| ended_at.elapsed() > AGAIN) {
            self.spawn(&mut state)?;
        }
        Ok(())
    }

    /// What it is doing, for whoever looks into a failure: the stacks of all threads, where there is a debugger.
    pub(crate) fn stacks(&self) {
        if let Some(child) = &self.state().child {
            self.write_stacks(child);
        }
    }

    fn write_stacks(&self, child: &Child) {
        let pid = child.id().to_string();
        if let Ok(stacks) = call("gdb", &["-p", &pid, "-batch", "-ex", "thread apply all backtrace"]) {
            // Without them the failure is as bad, and only harder to explain.
            let _ = fs::write(self.lines.with_extension("stacks"), stacks);
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state().child.is_some()
    }

    pub(crate) fn own_ends(&self) -> Vec<String> {
        self.state().own_ends.clone()
    }

    /// Lines that no process may write, whatever happens to it.
    pub(crate) fn panics(&self) -> Vec<String> {
        let lines = fs::read(&self.lines).unwrap_or_default();
        let lines = String::from_utf8_lossy(&lines);
        lines.lines().filter(|line| line.contains("panicked at")).map(str::to_owned).collect()
    }
}

/// Whether a process of this age that was asked to stop has done so in good order, or had not begun yet.
fn left(status: ExitStatus, age: Duration) -> bool {
    status.success() || (age < DEAF && status.signal() == Some(Signal::TERM.as_raw()))
}

impl Drop for Role {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("{} is left behind: {error:#}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_has_just_begun_may_end_by_the_signal() {
        let [success, failure, signal] = [0, 1 << 8, Signal::TERM.as_raw()].map(ExitStatus::from_raw);
        let kill = ExitStatus::from_raw(Signal::KILL.as_raw());
        let young = [success, failure, signal, kill].map(|status| left(status, Duration::ZERO));
        assert_eq!(young, [true, false, true, false]);
        let old = [success, failure, signal, kill].map(|status| left(status, DEAF));
        assert_eq!(old, [true, false, false, false]);
    }
}
