//! The loop of the worker: hears, steps, does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, never, select, unbounded};
use tidemill_log::Log;
use tidemill_model::{Incarnation, LimitsKept, Registration, Token, WorkerId};

use crate::data_dir::{self, DataDir};
use crate::disk::{self, Suspicion};
use crate::link::{CommandLink, FromWork, WorkLink};
use crate::logs::{LogServer, Serving, Shown};
use crate::look::Looks;
use crate::machine::boottime_ms;
use crate::processes::{self, Checks, Earlier, Processes};
use crate::sweep::{Daily, Sweeper};
use crate::worker::{self, Input, Output, Worker};
use crate::{Config, Error, accounts, environment, limits, machine, type_check};

/// From one tick to the next, at most.
const TICK: Duration = Duration::from_millis(100);
/// Inputs taken in one turn, of each kind.
const TURN_MAX: usize = 256;

/// Works until it is told to stop, and then until what runs has ended. The first message on `shutdown` (or
/// its closing) lets running attempts have the configured grace, the second kills them at once.
///
/// # Errors
/// The configuration cannot be used, the data directory or the address is in use or cannot be used, or the
/// log has failed for good.
///
/// # Panics
/// When a thread of the worker has panicked.
pub fn run(config: Config, log: Arc<dyn Log>, shutdown: Receiver<()>) -> Result<(), Error> {
    config.check()?;
    accounts::check(&config)?;
    let mask = environment::masked(&config.mask_env)?;
    let data = DataDir::open(&config.data_dir)?;
    let limits = config.http.for_own_roles();
    let serving = Serving { limits, tls: config.tls.clone() };
    let table = Arc::new(processes::Table::default());
    let (attempts, output_max_bytes) = (data.attempts.clone(), config.output_max_bytes());
    let shown = Shown { attempts, table: Arc::clone(&table), output_max_bytes };
    let logs = LogServer::start(config.listen, shown, &config.logs_key, serving)?;
    let incarnation = Incarnation::new(data_dir::unique("i-"));
    let (process_inputs, from_processes) = bounded(1_024);
    let (work_inputs, from_work) = bounded(64);
    let (outcome_inputs, from_log) = unbounded();
    let (look_inputs, from_looks) = unbounded();
    let groups = limits::Found::find(config.cgroup.as_deref(), &data.worker);
    let mut setup = setup(&config, &data.worker, &incarnation, &logs.address)?;
    setup.registration.keeps = Some(groups.tree.kept());
    let mut worker = Worker::new(setup);
    let (checks, checking) = Checks::start(&config.probe, process_inputs.clone())?;
    let Earlier { found, live } = processes::find_earlier(&data, &config.all_types(), &checks, &groups.tree)?;
    tracing::info!(worker = %data.worker, %incarnation, group = %config.group, logs = %logs.address,
        earlier = found.len(), live = live.len(), containment = "sessions and a subreaper", "executor starts");
    say_limits(&groups, &live);
    for input in found {
        let outputs = worker.step(input);
        assert!(outputs.is_empty(), "what was found asks for nothing before the first tick");
    }
    let suspicion = Suspicion::default();
    let reserve_bytes = config.disk_reserve_mb << 20;
    let disk = disk::watch(&config.data_dir, reserve_bytes, suspicion.clone(), process_inputs.clone())?;
    let keep = Duration::from_secs(u64::from(config.log_retention_days) * 24 * 3600);
    let daily = Daily::of(&config)?;
    let sweeper = Sweeper::start(data.attempts.clone(), keep, daily, process_inputs.clone())?;
    let work = WorkLink::start(Arc::clone(&log), data.worker.clone(), work_inputs)?;
    let process_setup = processes::Setup {
        table,
        worker: data.worker.clone(),
        attempts: data.attempts.clone(),
        types: config.all_types(),
        signing_key: config.signing_key()?,
        suspicion,
        checks,
        groups: groups.clone(),
        environment: environment::inherited(),
        mask,
        config: config.clone(),
    };
    let turn = Turn {
        worker,
        commands: CommandLink::new(&*log, config.shard, outcome_inputs)?,
        processes: Processes::start(process_setup, live, process_inputs)?,
        looks: Looks::start(&config, look_inputs)?,
        measures: Measures::new(&config),
    };
    let inputs = Inputs { from_processes, from_work, from_log, from_looks, shutdown };
    let result = turn.run(inputs, work);
    limits::leave(&groups.tree);
    sweeper.stop();
    disk.stop();
    checking.join();
    logs.stop();
    tracing::info!(worker = %data.worker, "executor has stopped");
    result
}

/// EXE-2: says how limits are kept here, and removes the groups that dead shims have left.
fn say_limits(groups: &limits::Found, live: &[Token]) {
    let LimitsKept { memory, cpu, processes } = groups.tree.kept();
    let (memory, cpu, processes) = (memory.as_str(), cpu.as_str(), processes.as_str());
    let lacks = groups.lacks.join("; ");
    tracing::info!(memory, cpu, processes, lacks, "how limits of attempts are kept");
    match limits::sweep(&groups.tree, live) {
        (0, 0) => {}
        (removed, 0) => tracing::info!(removed, "removed control groups of earlier attempts"),
        (removed, left) => {
            tracing::warn!(
                removed,
                left,
                "control groups of earlier attempts still have processes, and are left"
            );
        }
    }
}

fn setup(
    config: &Config,
    worker: &WorkerId,
    incarnation: &Incarnation,
    bound: &std::net::SocketAddr,
) -> Result<worker::Setup, Error> {
    let host = config
        .host
        .clone()
        .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    let address = config.advertise.clone().unwrap_or_else(|| {
        if bound.ip().is_unspecified() { format!("{host}:{}", bound.port()) } else { bound.to_string() }
    });
    let types = type_check::look(config);
    let slots = type_check::slots(&types)?;
    for (job_type, status) in types.iter().filter(|(name, _)| config.slots.contains_key(*name)) {
        if let Some(problem) = &status.problem {
            tracing::warn!(%job_type, problem, "jobs of a type cannot be run here");
        }
    }
    let mut reserved = config.reserved.clone();
    reserved.retain(|job_type, _| slots.contains_key(job_type));
    let registration = Registration {
        worker: worker.clone(),
        incarnation: incarnation.clone(),
        group: config.group.clone(),
        host,
        address,
        slots,
        reserved,
        labels: config.labels.clone(),
        keeps: None,
        types,
        live: Vec::new(),
        running: Vec::new(),
        number: 0,
        signature: String::new(),
    };
    Ok(worker::Setup {
        registration,
        signing_key: config.signing_key()?,
        heartbeat_ms: config.heartbeat_ms,
        stop_grace_ms: config.stop_grace_ms,
        shard: config.shard,
        keeps_jobs: config.keep_jobs_on_stop,
        max_load_percent: config.max_load_percent,
    })
}

struct Inputs {
    from_processes: Receiver<Vec<Input>>,
    from_work: Receiver<FromWork>,
    from_log: Receiver<Input>,
    from_looks: Receiver<Input>,
    shutdown: Receiver<()>,
}

struct Turn {
    worker: Worker,
    commands: CommandLink,
    processes: Processes,
    looks: Looks,
    measures: Measures,
}

/// When to look at the machine again: as often as a heartbeat tells of it.
struct Measures {
    next: Instant,
    every: Duration,
    limit_mb: Option<u32>,
}

impl Measures {
    fn new(config: &Config) -> Self {
        let every = Duration::from_millis(config.heartbeat_ms);
        Self { next: Instant::now(), every, limit_mb: config.memory_mb }
    }

    fn due(&mut self) -> Option<Input> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + self.every;
        machine::measure(self.limit_mb).map(Input::Measured)
    }
}

impl Turn {
    fn run(mut self, mut inputs: Inputs, work: WorkLink) -> Result<(), Error> {
        let mut next_tick = Instant::now();
        let result = loop {
            match self.turn(&mut inputs, &mut next_tick) {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // Nobody reads the channels any more: what is still told must find them closed, not full.
        drop(inputs);
        work.stop();
        self.processes.join();
        self.commands.flush();
        self.looks.stop();
        result
    }

    /// Waits for one input, then takes what else is there. Says whether all is done. A tick goes first, so
    /// that nothing counts as sent later than it was.
    fn turn(&mut self, inputs: &mut Inputs, next_tick: &mut Instant) -> Result<bool, Error> {
        // Acknowledgements first: what is granted now may rest on a lease that they lengthen.
        let mut heard: Vec<Input> = inputs.from_log.try_iter().take(TURN_MAX).collect();
        let wait = if heard.is_empty() {
            next_tick.saturating_duration_since(Instant::now())
        } else {
            Duration::ZERO
        };
        select! {
            recv(inputs.from_work) -> told => heard.extend(from_work(told.ok())?),
            recv(inputs.from_processes) -> told => heard.extend(told.into_iter().flatten()),
            recv(inputs.from_log) -> told => heard.extend(told),
            recv(inputs.from_looks) -> told => heard.extend(told),
            recv(inputs.shutdown) -> told => {
                if told.is_err() {
                    inputs.shutdown = never();
                }
                heard.push(Input::Stop);
            }
            default(wait) => {}
        }
        for told in inputs.from_work.try_iter().take(TURN_MAX) {
            heard.extend(from_work(Some(told))?);
        }
        heard.extend(inputs.from_processes.try_iter().take(TURN_MAX).flatten());
        *next_tick = Instant::now() + TICK;
        let tick = Input::Ticked { boottime_ms: boottime_ms() };
        let mut is_done = false;
        for input in self.measures.due().into_iter().chain([tick]).chain(heard) {
            for output in self.worker.step(input) {
                is_done |= self.act(output);
            }
        }
        self.commands.send_off();
        Ok(is_done)
    }

    /// Does it. Says whether it was the last.
    fn act(&mut self, output: Output) -> bool {
        match output {
            Output::Append { tag, command } => self.commands.append(tag, command),
            Output::Seal(key) => self.commands.seal_with(key),
            Output::Look { token, checks } => self.looks.look(token, checks),
            Output::Spawn { spec, lease, grace_ms } => self.processes.spawn(spec, lease, grace_ms),
            Output::KillProcess { token, grace_ms, because } => self.processes.kill(token, grace_ms, because),
            Output::RenewLease(lease) => self.processes.renew(lease),
            Output::Forget { token } => self.processes.forget(token),
            Output::Exit => return true,
        }
        false
    }
}

fn from_work(told: Option<FromWork>) -> Result<Vec<Input>, Error> {
    match told {
        Some(FromWork::Messages(messages)) => Ok(messages),
        Some(FromWork::Failed(error)) => Err(error),
        None => Err(Error::Ended { thread: "the reader of work", reason: "it is gone".to_owned() }),
    }
}
