//! Starts the shim of an attempt.

use std::io::{self, Write as _};

use rustix::event::epoll;
use tidemill_model::{ExternalWork, ExternalWorkId, Limits, Program, RunSpec, Token};

use super::reap_orphan::Life;
use super::table::{Running, Unwatched};
use super::{Shared, notes};
use crate::attempt_dir::{EarlierWork, ShimExternal, ShimSpec};
use crate::external_work::ExternalWorkConfig;
use crate::limits::{self, ShimLimits};
use crate::shim::{KillCause, Lease, Order};
use crate::worker::{Input, ProcessEnd};
use crate::{disk, environment, plain_file};

/// Ids that a message names.
const LISTED: usize = 3;

/// What the job says, up to the group's maximum, and else its type or group. That of a final command is the same for all.
fn run_time_ms(spec: &RunSpec, resolved: &Limits) -> Option<u64> {
    let ms = |seconds: Option<u32>| seconds.map(|seconds| u64::from(seconds) * 1_000);
    match (spec.execution_timeout_ms, &spec.ending) {
        (own_ms, Some(_)) => own_ms,
        (Some(own_ms), None) => ms(spec.group_limits.max.run_time_s).into_iter().chain([own_ms]).min(),
        (None, None) => ms(resolved.run_time_s),
    }
}

/// Some of them, for people.
fn listed(ids: &[ExternalWorkId]) -> String {
    let named: Vec<&str> = ids.iter().take(LISTED).map(ExternalWorkId::as_str).collect();
    let more = if ids.len() > LISTED { ", …" } else { "" };
    format!("{}{more}", named.join(", "))
}

impl Shared {
    pub(super) fn spawn(&self, spec: &RunSpec, lease: Option<Lease>, grace_ms: u64) {
        let token = spec.token;
        if let Some(why) = self.cannot_clear(spec) {
            self.table.remove(token);
            return self.tell(vec![Input::ProcessEnded { token, end: ProcessEnd::NoRoom(why) }]);
        }
        let output_path = spec.output_path.clone();
        let started = self.prepare(spec, lease, grace_ms);
        let started = started.and_then(|spec| self.start_shim(token, &spec, output_path));
        if let Err(error) = started {
            self.table.remove(token);
            tracing::warn!(%token, %error, "cannot start an attempt");
            let end = if disk::is_full(&error) {
                self.setup.suspicion.raise();
                self.setup.attempts.open(token).remove();
                ProcessEnd::NoRoom(format!("the worker cannot write it down: {error}"))
            } else {
                let end = ProcessEnd::NotStarted(format!("the worker could not start it: {error}"));
                notes::add_end(&self.setup.attempts.open(token), &end);
                end
            };
            self.tell(vec![Input::ProcessEnded { token, end }]);
        }
    }

    /// EXE-13: why what earlier attempts have left elsewhere cannot be ended here: that it starts would be the record that it was.
    fn cannot_clear(&self, spec: &RunSpec) -> Option<String> {
        let config = self.setup.types.get(&spec.job_type)?;
        let left = spec.unconfirmed.iter().find(|earlier| !earlier.ids.is_empty())?;
        let (ids, job_type) = (listed(&left.ids), &spec.job_type);
        config.external_work.is_none().then(|| {
            format!(
                "attempt {} has left work elsewhere ({ids}), and type {job_type} of this worker has no external_work to end it with",
                left.token
            )
        })
    }

    fn prepare(&self, spec: &RunSpec, lease: Option<Lease>, grace_ms: u64) -> io::Result<ShimSpec> {
        let config = self.setup.types.get(&spec.job_type);
        let config =
            config.ok_or_else(|| io::Error::other(format!("type {} is not known", spec.job_type)))?;
        let dir = self.setup.attempts.open(spec.token);
        let script = dir.path().join(config.script_name());
        dir.create()?;
        dir.note_run(spec)?;
        let key = &self.setup.signing_key;
        let tag = environment::work_tag(key, spec.token);
        let argv = config.argv(&spec.job_type, &spec.program, (&script, &tag)).map_err(io::Error::other)?;
        match &spec.program {
            Program::Command(text) | Program::Script { text, .. } => {
                plain_file::create(&script)?.write_all(text.as_bytes())?;
            }
            Program::Path { .. } | Program::None => {}
        }
        if let Some(path) = &spec.output_path {
            dir.note_output_path(path)?;
        }
        let mut env = self.setup.environment.clone();
        env.extend(config.env.iter().map(|(name, value)| (name.clone(), value.replace("{tag}", &tag))));
        let worker = &self.setup.worker;
        env.extend(environment::of_attempt(spec, worker, &self.setup.config.api_url, key, &dir.values()));
        // A final command is of type shell, whatever its batch was.
        let external = config.external_work.as_ref().map(|external| {
            env.extend(environment::of_external_work(&tag, &dir.work_ids()));
            Box::new(self.external(external, tag, &spec.unconfirmed))
        });
        let limits = limits::resolve(&spec.limits, &config.limits, &spec.group_limits);
        let limit_ms = run_time_ms(spec, &limits);
        let of_job = limits.output_mb.map(|mb| u64::from(mb) << 20);
        let output_max_bytes = self.setup.config.output_max_bytes().into_iter().chain(of_job).min();
        // The shim keeps these two by other means.
        let limits = Limits { output_mb: None, run_time_s: None, ..limits };
        let limits = (!limits.is_empty())
            .then(|| Box::new(ShimLimits { limits, tree: self.setup.groups.tree.clone() }));
        Ok(ShimSpec {
            argv,
            env,
            grace_ms,
            lease,
            limit_ms,
            run_as: spec
                .run_as
                .as_ref()
                .or(self.setup.config.default_run_as.as_ref())
                .map(ToString::to_string),
            umask: self.setup.config.job_umask,
            output_max_bytes,
            limits,
            external,
            mask: self.setup.mask.clone(),
        })
    }

    /// EXE-13: how its work elsewhere is found, and what is left of earlier attempts.
    fn external(&self, config: &ExternalWorkConfig, tag: String, earlier: &[ExternalWork]) -> ShimExternal {
        let key = &self.setup.signing_key;
        let left = |earlier: &ExternalWork| EarlierWork {
            tag: environment::work_tag(key, earlier.token),
            ids: earlier.ids.clone(),
        };
        ShimExternal { config: config.clone(), tag, earlier: earlier.iter().map(left).collect() }
    }

    /// A shim that is gone before it has read what to run is heard of like any other that is gone.
    fn start_shim(&self, token: Token, spec: &ShimSpec, output_path: Option<String>) -> io::Result<()> {
        let mut line = serde_json::to_vec(spec)?;
        line.push(b'\n');
        let mut socket = self.shims.begin(token)?;
        if let Err(error) = socket.write_all(&line) {
            tracing::warn!(%token, %error, "a shim does not hear what to run");
        }
        let running = Running::new(socket, output_path);
        match self.watch(token, running) {
            Ok(()) => {}
            // The worker is at its end: its next life takes the attempt over.
            Err((_, Unwatched::NotWanted)) => {}
            Err((running, Unwatched::Failed)) => {
                self.table.remove(token);
                self.end_unwatched(token, running);
            }
        }
        Ok(())
    }

    /// From now on what the shim says is heard.
    pub(super) fn watch(&self, token: Token, running: Running) -> Result<(), (Running, Unwatched)> {
        let data = epoll::EventData::new_u64(u64::try_from(token.0).unwrap_or(0));
        self.table.started(token, running, |running| {
            running.socket.set_nonblocking(true)?;
            epoll::add(&self.epoll, &running.socket, data, epoll::EventFlags::IN).map_err(io::Error::from)
        })
    }

    /// The system has no room to watch it. The shim ends what it may have begun, and closes its end last.
    fn end_unwatched(&self, token: Token, mut running: Running) {
        let kill = Order::Kill { grace_ms: 0, because: KillCause::WorkerGone };
        let closed = running
            .socket
            .set_nonblocking(false)
            .and_then(|()| running.socket.write_all(kill.to_string().as_bytes()))
            .and_then(|()| io::copy(&mut running.socket, &mut io::sink()));
        if let Err(error) = closed {
            tracing::warn!(%token, %error, "cannot wait for a shim");
        }
        self.reap_orphan(token, Life::This);
    }
}
