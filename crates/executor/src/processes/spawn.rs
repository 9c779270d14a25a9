//! Starts the shim of an attempt.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use rustix::event::epoll;
use tidemill_model::{Program, RunSpec, Token};

use super::table::Running;
use super::{Shared, bury};
use crate::attempt_dir::ShimSpec;
use crate::environment;
use crate::shim::Lease;
use crate::worker::{Input, ProcessEnd};

impl Shared {
    pub(super) fn spawn(&self, spec: &RunSpec, lease: Option<Lease>, grace_ms: u64) {
        let token = spec.token;
        let started = self.prepare(spec, lease, grace_ms).and_then(|()| self.start_shim(token));
        if let Err(error) = started {
            self.table.remove(token);
            tracing::warn!(%token, %error, "cannot start an attempt");
            let end = ProcessEnd::NotStarted(format!("the worker could not start it: {error}"));
            self.tell(Input::ProcessEnded { token, end });
        }
    }

    fn prepare(&self, spec: &RunSpec, lease: Option<Lease>, grace_ms: u64) -> io::Result<()> {
        let config = self.setup.types.get(&spec.job_type);
        let config =
            config.ok_or_else(|| io::Error::other(format!("type {} is not known", spec.job_type)))?;
        let dir = self.setup.attempts.open(spec.token);
        let script = dir.path().join(config.script_name());
        let mut env = self.setup.environment.clone();
        env.extend(config.env.clone());
        env.extend(environment::of_attempt(spec, &self.setup.api_url));
        let argv = config.argv(&spec.program, &script);
        dir.create(&ShimSpec { argv, env, grace_ms, lease })?;
        match &spec.program {
            Program::Command(text) => fs::write(script, text),
            Program::Path { .. } | Program::None => Ok(()),
        }
    }

    /// The shim gets no environment but the path to look programs up in: what is secret stays here.
    fn start_shim(&self, token: Token) -> io::Result<()> {
        let (program, arguments) = self.shim_command();
        let mut child = Command::new(program)
            .args(arguments)
            .arg(self.setup.attempts.open(token).path())
            .env_clear()
            .envs(self.setup.environment.get_key_value("PATH"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(orders), Some(news)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a process was started without its pipes"));
        };
        rustix::io::ioctl_fionbio(&orders, true)?;
        rustix::io::ioctl_fionbio(&news, true)?;
        let running = Running { child, orders, news };
        let data = epoll::EventData::new_u64(u64::try_from(token.0).unwrap_or(0));
        let watch = |running: &Running| epoll::add(&self.epoll, &running.news, data, epoll::EventFlags::IN);
        if let Err(running) = self.table.started(token, running, watch) {
            self.end_unwatched(token, running);
        }
        Ok(())
    }

    /// The system has no room to watch it, or the worker is at its end. Without its pipe the shim ends what it
    /// may have begun.
    fn end_unwatched(&self, token: Token, running: Running) {
        let Running { mut child, orders, news } = running;
        drop((orders, news));
        if let Err(error) = child.wait() {
            tracing::warn!(%token, %error, "cannot wait for a shim");
        }
        let end = bury::learn_end(&self.setup.attempts.open(token), token, bury::Life::This);
        self.tell(Input::ProcessEnded { token, end });
    }
}
