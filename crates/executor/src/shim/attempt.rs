//! One attempt, from its order to its end: what a forked shim does.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use rustix::fs::Mode;
use rustix::process::{Pid, umask};

use super::elsewhere::Elsewhere;
use super::line::Line;
use super::output::{Output, Secrets};
use super::watch::{self, Watch};
use super::{Code, KillCause, Lease, News, account};
use crate::attempt_dir::{AttemptDir, ExitRecord, ShimSpec, try_lock};
use crate::limits::{Guard, protect_shim};
use crate::machine::boottime_ms;
use crate::{plain_file, values};

/// Runs the attempt whose directory this is, to its end. The worker says first what to run.
pub(super) fn run(
    dir: &AttemptDir,
    directory: &File,
    worker: &UnixStream,
    signals: &SignalFd,
) -> io::Result<Code> {
    // Fails only for one that leads a session already, which is as good.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (mut spec, orders) = hear_spec(worker)?;
    // What a shim makes, by whichever thread, is for its account alone. The job has the mask that was there.
    let own = umask(!Mode::from_raw_mode(plain_file::FILE_MODE));
    spec.umask.get_or_insert(own.as_raw_mode());
    if !try_lock(directory)? {
        return Ok(Code::StartedBefore);
    }
    let Some(marker) = dir.mark_started()? else { return Ok(Code::StartedBefore) };
    let begun = Instant::now();
    let mut line = Line::new(directory, dir.path(), worker.try_clone()?);
    let mut guard = Guard::begin(spec.limits.as_deref(), dir.name());
    let mut elsewhere = None;
    let mut record = if is_over(spec.lease) {
        // The machine or the server was stopped for a while: elsewhere it may run already.
        ExitRecord { kill_cause: Some(KillCause::Lease), ..ExitRecord::default() }
    } else {
        let watch = Watch::new(&spec, orders);
        let run = Run { dir, spec: &spec, guard: &mut guard, line: &mut line, signals };
        run.until_its_end(watch, marker, &mut elsewhere)?
    };
    if record.exit_code.is_some() || record.signal.is_some() {
        record.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    }
    match values::read(&dir.values()) {
        Ok(values) => record.values = values,
        Err(fault) => record.values_fault = Some(fault),
    }
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = [used.user_time(), used.system_time()].map(|time| time.tv_sec() * 1000 + time.tv_usec() / 1000);
    record.cpu_ms = u64::try_from(cpu.iter().sum::<i64>()).unwrap_or(0);
    record.peak_memory_kib = u64::try_from(used.max_rss()).unwrap_or(0);
    // Counted in blocks of 512 bytes.
    let disk_kib = |blocks: i64| u64::try_from(blocks).ok().map(|blocks| blocks / 2);
    (record.read_kib, record.written_kib) = (disk_kib(used.block_reads()), disk_kib(used.block_writes()));
    guard.finish(&mut record);
    // Its commands count as nothing that the job used.
    if let Some(elsewhere) = elsewhere {
        elsewhere.stop();
    }
    let written = line.write_down(dir, &record, signals);
    line.tell(&News::Ended(Box::new(record)));
    written.map(|()| Code::Ended)
}

/// What the shim has for the run of its attempt.
struct Run<'a, 'l> {
    dir: &'a AttemptDir,
    spec: &'a ShimSpec,
    guard: &'a mut Guard,
    line: &'a mut Line<'l>,
    signals: &'a SignalFd,
}

impl Run<'_, '_> {
    /// Until no process of it is left, and nothing that it started elsewhere.
    fn until_its_end(
        self,
        mut watch: Watch,
        marker: File,
        agent: &mut Option<Elsewhere>,
    ) -> io::Result<ExitRecord> {
        let Self { dir, spec, guard, line, signals } = self;
        let failed = |error| Ok(ExitRecord { error: Some(error), ..ExitRecord::default() });
        match Elsewhere::begin(dir, spec) {
            Ok(begun) => *agent = begun,
            Err(error) => return failed(error),
        }
        let mut elsewhere = agent.as_mut();
        guard.spare(elsewhere.as_ref().and_then(|elsewhere| elsewhere.pid()));
        let has_earlier = spec.external.as_ref().is_some_and(|external| !external.earlier.is_empty());
        if let Some(elsewhere) = elsewhere.as_deref_mut().filter(|_| has_earlier)
            && let Some(end) = watch.until_cleared((line, signals), elsewhere)?
        {
            return Ok(end);
        }
        let (main, mut output) = match start(dir, spec, guard, marker) {
            Ok(started) => started,
            Err(error) => return failed(error),
        };
        line.tell(&News::Started);
        output.copy_at(protect_shim());
        let heard = (&mut *line, signals, &mut output);
        watch::until_empty(&mut watch, main, guard, heard, elsewhere.as_deref_mut())?;
        let outputs = output.finish();
        let mut external = match elsewhere {
            Some(elsewhere) => Some(watch.until_ended_elsewhere(guard, (line, signals), elsewhere)?),
            None => None,
        };
        let names_ids = spec.external.as_ref().is_some_and(|external| external.config.pattern.is_some());
        if names_ids && outputs.iter().any(|output| output.dropped_bytes > 0) {
            // What is missing may name more.
            external.iter_mut().for_each(|external| external.unconfirmed = true);
        }
        guard.printed(outputs, spec.output_max_bytes);
        let [stdout, stderr] = outputs;
        Ok(ExitRecord { stdout, stderr, external, ..watch.record() })
    }
}

fn is_over(lease: Option<Lease>) -> bool {
    lease.is_some_and(|lease| lease.term_at_ms <= boottime_ms())
}

/// What to run, and what was said after it.
pub(super) fn hear_spec(worker: &UnixStream) -> io::Result<(ShimSpec, Vec<u8>)> {
    let mut reader = BufReader::new(worker);
    let mut line = Vec::new();
    reader.by_ref().read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(io::Error::other("the worker was gone before it said what to run"));
    }
    let spec = serde_json::from_slice(&line)?;
    Ok((spec, reader.buffer().to_vec()))
}

/// Starts the job in a session of its own, its output going into pipes, with the signals and the mask that a program
/// expects. The text of an error is for people.
fn start(dir: &AttemptDir, spec: &ShimSpec, guard: &Guard, marker: File) -> Result<(Pid, Output), String> {
    let secrets = Secrets::of(&spec.mask)?;
    let output = Output::open(dir, marker, spec.output_max_bytes, secrets)
        .map_err(|error| format!("cannot make the pipes of its output: {error}"))?;
    let main = start_job(dir, (spec, guard), output.writers())?;
    Ok((main, output))
}

fn start_job(
    dir: &AttemptDir,
    (spec, guard): (&ShimSpec, &Guard),
    writers: [&OwnedFd; 2],
) -> Result<Pid, String> {
    let program = spec.argv.first().ok_or("the command is empty")?;
    let failed = |what: &str, error: nix::Error| format!("cannot {what}: {}", error.desc());
    std::env::set_current_dir(dir.work())
        .map_err(|error| format!("cannot enter the working directory: {error}"))?;
    if spec.run_as.is_some() || guard.prepares() {
        return account::start(dir, (spec, guard), writers);
    }
    let c_string = |text: &str| CString::new(text).map_err(|_| format!("{text:?} holds a zero byte"));
    let argv = spec.argv.iter().map(|text| c_string(text)).collect::<Result<Vec<_>, _>>()?;
    let env = spec.env.iter().map(|(name, value)| c_string(&format!("{name}={value}")));
    let env = env.collect::<Result<Vec<_>, _>>()?;
    let files = files(writers).map_err(|error| failed("prepare the output", error))?;
    let attributes = attributes().map_err(|error| failed("prepare the process", error))?;
    let file = account::found(program, spec);
    // What is spawned has the mask of this process, which has no other thread yet.
    let own = spec.umask.map(|mask| umask(Mode::from_raw_mode(mask)));
    let spawned = posix_spawn(file.as_path(), &files, &attributes, &argv, &env);
    own.map(umask);
    let pid = spawned.map_err(|error| failed(&format!("start {program:?}"), error))?;
    Ok(Pid::from_raw(pid.as_raw()).expect("a process that was started has a number"))
}

/// Standard input is the shim's own, `/dev/null`.
fn files([stdout, stderr]: [&OwnedFd; 2]) -> nix::Result<PosixSpawnFileActions> {
    let mut files = PosixSpawnFileActions::init()?;
    files.add_dup2(stdout.as_raw_fd(), 1)?;
    files.add_dup2(stderr.as_raw_fd(), 2)?;
    Ok(files)
}

/// In a session of its own: where the kernel shares the processor out by sessions, however many processes a job has in its, its shim
/// gets as much of it as all of them.
fn attributes() -> nix::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::from_bits_retain(libc::POSIX_SPAWN_SETSID.into())
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK,
    )?;
    // Rust programs ignore SIGPIPE, and that would be inherited.
    attributes.set_sigdefault(&Signal::SIGPIPE.into())?;
    attributes.set_sigmask(&SigSet::empty())?;
    Ok(attributes)
}
